"""Images in conversations: their tokens, and the model inputs for them.

A text has `<image>` in the place of an image. The chat writes the model's own mark there and
repeats its token once for each patch. For models of transformers that, like Qwen2.5-VL, mark images
by one repeated token and have `get_rope_index`. Left out: videos.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from agent_envs.spaces import Picture

_KEPT = 4096  # images whose patches are remembered


class Vision:
    """Encodes images for a vision-language model.

    Args:
        processor: Image processor of the model.
        tokenizer: Tokenizer of the model.
        model: The model.

    Attributes:
        token: Id of the token that stands for a patch of an image.
        marks: Ids of image and video tokens, which are never sampled.
        mark: Text that the model reads in the place of an image, with one such token in it.
    """

    def __init__(self, processor: Any, tokenizer: Any, model: Any) -> None:
        config = model.config
        self.processor = processor
        self._core = model.model
        self._merge = int(config.vision_config.spatial_merge_size) ** 2
        self.token = int(config.image_token_id)
        self.marks = [self.token, int(config.video_token_id)]
        around = config.vision_start_token_id, self.token, config.vision_end_token_id
        self.mark = "".join(tokenizer.convert_ids_to_tokens(around))
        self._read: OrderedDict[Picture, tuple[Tensor, Tensor]] = OrderedDict()

    def expand_marks(self, ids: Iterable[int], images: Sequence[Picture]) -> list[int]:
        """Token ids with the token of each image repeated once for each of its patches."""
        left = iter(images)
        return [
            token
            for one in ids
            for token in ([one] if one != self.token else [one] * self._pieces(next(left)))
        ]

    def encode(self, ids: Tensor, images: Sequence[Picture]) -> dict[str, Tensor]:
        """Model inputs for rows [B, L] of ids with these images, in row order."""
        if not images:
            return {}
        import torch

        patches, grids = zip(*map(self._patches, images), strict=True)
        grid = torch.stack(grids).to(ids.device)
        return {
            "pixel_values": torch.cat(patches).to(ids.device),
            "image_grid_thw": grid,
            "position_ids": self._compute_positions(ids, grid),
        }

    def compute_positions(self, ids: Sequence[int], images: Sequence[Picture]) -> Tensor:
        """Positions of the token ids of one row, counted from 0: -> [3, L]."""
        import torch

        grid = torch.stack([self._patches(image)[1] for image in images])
        return self._compute_positions(torch.tensor([ids]), grid)[:, 0]

    def _compute_positions(self, ids: Tensor, grid: Tensor) -> Tensor:
        kinds = (ids == self.token).int()
        places: Tensor
        places, _ = self._core.get_rope_index(ids, mm_token_type_ids=kinds, image_grid_thw=grid)
        return places

    def _pieces(self, image: Picture) -> int:
        return int(self._patches(image)[1].prod()) // self._merge

    def _patches(self, image: Picture) -> tuple[Tensor, Tensor]:
        """Patches [P, D] of an image, and their number in time, height and width, [3]."""
        found = self._read.get(image)
        if found is None:
            made = self.processor(images=[image.array], return_tensors="pt")
            found = self._read[image] = made["pixel_values"], made["image_grid_thw"][0]
            if len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return found
