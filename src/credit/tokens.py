"""Sums and means of token values over turns, trajectories or masks (torch).

Tokens are flat, [P], with the id of the segment they belong to; bf16 and fp16 accumulate in fp32.
"""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """The values in a type that is safe to sum: half precision becomes fp32."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def sums(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """Sum of each segment's tokens: [P], [P] int -> [count]; 0 for a segment without tokens."""
    values = wide(x)
    if values.shape != segment.shape:
        raise ValueError(f"x has shape {tuple(x.shape)}, segment {tuple(segment.shape)}")
    total: Tensor = values.new_zeros(count).index_add(0, segment, values)
    return total


def means(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """Mean of each segment's tokens: [P], [P] int -> [count]; 0 for a segment without tokens."""
    length = torch.bincount(segment, minlength=count).clamp(min=1)
    return sums(x, segment, count) / length


def masked_mean(x: Tensor, mask: Tensor | None = None, *, dim: int | None = None) -> Tensor:
    """Mean of the values where the mask is set, 0 where it is nowhere: [...] -> [...] less dim."""
    chosen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask.bool()
    kept = wide(x).masked_fill(~chosen, 0.0)
    if dim is None:
        return kept.sum() / chosen.sum().clamp(min=1)
    return kept.sum(dim) / chosen.sum(dim).clamp(min=1)
