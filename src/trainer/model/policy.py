"""A policy: any causal or vision-language model of transformers, trained fully or by LoRA.

Dropout is always off, so that a ratio of probabilities compares the same function. Trained weights
are float32, whatever the dtype of the matrix products, unless an optimiser rounds stochastically:
at the learning rates of reinforcement learning an update is smaller than the distance between two
bfloat16 numbers. Left out: quantised training.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from trainer.model import pretrained
from trainer.model.chat import Chat
from trainer.model.logprobs import NEVER, Finish, Head
from trainer.model.vision import Vision
from trainer.model.weights import FULL, LoRA, Weights, ignore_peft_warning
from trainer.options import STRICT

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from agent_envs.spaces import Picture
    from trainer.learn.batch import Batch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, config=STRICT)
class Model:
    """The policy.

    Attributes:
        model: A name of `trainer.model.pretrained.NAMES`, e.g. "pocket", a folder or a hub name.
        lora: Low-rank adapters, `rank` 0 trains all weights.
        dtype: Of the matrix products; trained weights are float32, see `update.optimizer`.
        device: "cpu", "cuda" or another of torch; "auto" uses a GPU if there is one.
        gradient_checkpointing: Recompute activations in the backward pass, to save memory.
        template: Options of the chat template, e.g. {enable_thinking = false}.
    """

    model: str = "pocket"
    lora: LoRA = FULL
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "auto"
    gradient_checkpointing: bool = False
    template: dict[str, Any] = field(default_factory=dict, hash=False)


class Policy(Weights):
    """A model and its tokenizer, with what training needs of them.

    Attributes:
        model: The causal language model, with adapters where LoRA is on.
        tokenizer: Its tokenizer.
        chat: Token pieces of conversations.
        name: Name that it was loaded by, written into a saved adapter.
        vision: Encoding of images; None for a text-only model.
        dtype: Dtype of the matrix products; norms, residuals, logits, their softmax and trained
            weights are float32.
        adapter: Name of its adapter, if LoRA is on.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        *,
        lora: LoRA = FULL,
        dtype: str = "float32",
        gradient_checkpointing: bool = False,
        name: str = "",
        images: Any = None,
        template: Mapping[str, Any] | None = None,
    ) -> None:
        self.dtype = DTYPES[dtype]
        self.vision = None if images is None else Vision(images, tokenizer, model)
        mark, stops = self.vision.mark if self.vision else "", pretrained.list_ends(model)
        self.chat = Chat(tokenizer, mark, stops=stops, options=template)
        pretrained.check_embeddings(model, self.chat)
        self.tokenizer = tokenizer
        self.name = name or str(model.config.name_or_path)
        self.gradient_checkpointing = gradient_checkpointing
        self.model = self.prepare(model.float())
        if lora.rank:
            self.add_adapters(lora)
        self._packs = False
        self.shrink()
        self._finish = self._detect_finish()

    @classmethod
    def load(
        cls,
        name: str,
        *,
        lora: LoRA | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        gradient_checkpointing: bool = False,
        template: Mapping[str, Any] | None = None,
    ) -> Self:
        """Load a policy: `name` is one of `pretrained.NAMES`, a folder or a hub name.

        A folder that `save` wrote for a LoRA policy is loaded with its adapter, which stays
        trainable; `lora`, if given, must be that of the adapter. `template` has options of the chat
        template.

        Raises:
            FileNotFoundError: There is no such folder or name, or the folder lacks weights or
                tokenizer.
            ValueError: The dtype is unknown, the device is not available, or the tokenizer has no
                usable chat template, or tokens that the model has no embeddings of, or the folder
                has another adapter than `lora`.
        """
        model, tokenizer, images, adapter = pretrained.load(name, device)
        policy = cls(
            model,
            tokenizer,
            lora=FULL if adapter else lora or FULL,
            dtype=dtype,
            gradient_checkpointing=gradient_checkpointing,
            name=name,
            images=images,
            template=template,
        )
        if adapter:
            from peft import PeftModel

            with ignore_peft_warning():
                policy.model = PeftModel.from_pretrained(model, adapter, is_trainable=True)
            policy.check_adapter(lora)
            policy.shrink()
        return policy

    def computing(self) -> torch.autocast:
        """Context in which matrix products use `dtype`, and each weight is rounded only once.

        Weights must not change inside.
        """
        half = self.dtype == torch.bfloat16
        return torch.autocast(self.device.type, torch.bfloat16, enabled=half)

    @contextmanager
    def training(self) -> Iterator[None]:
        """Context in which gradients are computed."""
        self.model.train(self.gradient_checkpointing)
        try:
            with self.active():
                yield
        finally:
            self.model.eval()

    def logits(self, ids: Tensor, keep: Tensor, **context: Any) -> Tensor:
        """Logits at the kept positions only: [B, L] int, [B, L] bool -> [P, V] float32.

        Position l gives the logits of token l + 1; the P kept positions are in row-major order.
        Rows are padded on the right. `context` is passed to the model: a cache with its mask and
        positions, or nothing for whole rows. Memory is O(P V), however long the rows are. The head
        always computes in float32: rounding logits changes log-probabilities by tenths.
        """
        layer = self.model.get_output_embeddings().forward
        _, logits = self._run(ids, lambda hidden: layer(hidden[keep].float()), context)
        never = self._never(logits.device)
        return logits if never is None else logits.index_fill(1, never, NEVER)

    def apply_head(
        self, ids: Tensor, keep: Tensor, value: Callable[[Tensor, Head], Tensor], **context: Any
    ) -> Tensor:
        """Read the last hidden states at the kept positions: [B, L] int, [B, L] bool -> `value`.

        `value` gets the states [P, D] float32 and the output layer. It is called within the forward
        pass of the model, where sharded weights are whole. `context` is passed to the model.

        Raises:
            ValueError: The model changes its logits in a way that is not known, see `Finish`.
        """
        if self._finish is None:
            raise ValueError(
                f"{self.name!r} changes the logits of its output layer in another way than by "
                "scaling or soft-capping, so it can be sampled but not trained; use another model"
            )
        layer = self.model.get_output_embeddings().forward
        head = Head(layer, self._finish, self._never(ids.device))
        made, out = self._run(ids, lambda hidden: value(hidden[keep].float(), head), context)
        # a model may have changed them as if they were logits; still, gradients must pass its
        # output, where modules that shard weights gather them for the backward pass
        return made if out is made else made + 0 * out

    def states(self, ids: Tensor, keep: Tensor, **context: Any) -> Tensor:
        """Last hidden states at the kept positions, the input of the head: -> [P, D] float32."""
        return self.apply_head(ids, keep, lambda states, _: states, **context)

    def _run(
        self, ids: Tensor, head: Callable[[Tensor], Tensor], context: dict[str, Any]
    ) -> tuple[Tensor, Tensor]:
        """Run the model with another function in the place of its output layer.

        `context` has the model's other arguments, under the names of today's transformers. Returns
        the result of `head`, and what the model made of it.
        """
        if "cache" in context and not _has_cache(type(self.base).forward):
            context = context | {"past_key_values": context["cache"]}  # its name before 5.24
            del context["cache"]
        results: list[Tensor] = []

        def forward(hidden: Tensor) -> Tensor:
            with torch.autocast(hidden.device.type, enabled=False):
                results.append(head(hidden))
            return results[0]

        layer = self.model.get_output_embeddings()
        layer.forward = forward
        try:
            with self.active(), self.computing():
                out: Tensor = self.model(input_ids=ids, **{"use_cache": False} | context).logits
        finally:
            del layer.forward
        return results[0], out

    def _never(self, device: torch.device) -> Tensor | None:
        """Tokens that stand for images, which are never sampled."""
        return torch.tensor(self.vision.marks, device=device) if self.vision else None

    def _detect_finish(self) -> Finish | None:
        """What the model does to the logits of its output layer, None if that is not known."""
        token = torch.zeros(1, 1, dtype=torch.long, device=self.device)

        def finish(logits: Tensor) -> Tensor:
            with torch.no_grad():
                return self._run(token, lambda _: logits.to(token.device), {})[1]

        return Finish.detect(finish, self.vocabulary)

    @property
    def vocabulary(self) -> int:
        """Number of logits of a token, V."""
        return int(self.model.config.get_text_config().vocab_size)

    @property
    def positions(self) -> int:
        """Tokens of the longest conversation that the model can read, 0 if it does not say."""
        return pretrained.count_positions(self.model.config)

    def prepare_inputs(self, batch: Batch) -> dict[str, Tensor]:
        """Model inputs for a batch beside its tokens: images, and positions of packed rows.

        Raises:
            ValueError: The rows are packed, but the model cannot keep them apart.
        """
        if batch.positions is None:
            return self.encode_images(batch.ids, batch.images)
        if not self._packs:
            if self.vision or not self._keeps_rows_apart():
                raise ValueError(
                    "this model does not keep packed rows apart; set update.packed=false"
                )
            self._packs = True
        return {"position_ids": batch.positions}

    @torch.no_grad()
    def _keeps_rows_apart(self) -> bool:
        """Whether the states of a packed row stay the same when the row before it changes."""
        ids = torch.arange(1, 41, device=self.device)[None] % self.vocabulary
        places = torch.cat([torch.arange(24), torch.arange(16)])[None].to(self.device)
        other = torch.cat([ids[:, :24].flip(1), ids[:, 24:]], 1)
        everywhere = torch.ones_like(ids).bool()
        one, two = (self.states(i, everywhere, position_ids=places)[24:] for i in (ids, other))
        return bool((one - two).abs().max() <= 1e-5 * one.abs().max())

    def encode_images(self, ids: Tensor, images: Sequence[Picture]) -> dict[str, Tensor]:
        """Model inputs for the images of whole rows [B, L], in row order."""
        return self.vision.encode(ids, images) if self.vision else {}


@functools.cache
def _has_cache(forward: Callable[..., Any]) -> bool:
    """Whether a model's forward calls its cache so."""
    return "cache" in inspect.signature(forward).parameters
