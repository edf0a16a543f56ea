"""Whether a model keeps packed rows apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_ROUNDING = {torch.float32: 1e-3, torch.bfloat16: 0.05}
"""Difference of packed from single rows that rounding explains, by the dtype of the products."""


def check(
    states: Callable[..., Tensor], *, vocabulary: int, device: torch.device, dtype: torch.dtype
) -> None:
    """Check that packed rows give what they give alone, and do not see each other.

    Args:
        states: `Policy.states` of the model.
        vocabulary: Number of its tokens.
        device: Where it is.
        dtype: Of its matrix products.

    Raises:
        ValueError: They do not.
    """
    lengths = (24, 16, 8)
    ids = torch.arange(1, 1 + sum(lengths), device=device)[None] % vocabulary
    places = torch.cat([torch.arange(n, device=device) for n in lengths])[None]
    everywhere = torch.ones_like(ids).bool()
    with torch.no_grad():
        packed = states(ids, everywhere, position_ids=places)
        other = ids.clone()
        other[0, : lengths[0]] = ids[0, : lengths[0]].flip(0)
        changed = states(other, everywhere, position_ids=places)[lengths[0] :]
        parts = torch.tensor_split(ids, (lengths[0], lengths[0] + lengths[1]), dim=1)
        alone = torch.cat([states(one, torch.ones_like(one).bool()) for one in parts])
    gap = ((packed - alone).norm() / alone.norm()).item()
    leak = (packed[lengths[0] :] - changed).abs().max().item()
    if leak > 1e-5 * alone.abs().max().item() or gap > _ROUNDING[dtype]:
        raise ValueError(
            f"this model does not keep packed rows apart (states differ by {gap:.1%}, and by "
            f"{leak:.1e} with another row before them); set update.packed=false"
        )
