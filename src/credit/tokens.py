"""Sums and means of token values over turns, trajectories or masks (torch).

Tokens of all segments are concatenated, [P], with the segment id of each. bfloat16 and float16 are
summed in float32.
"""

import torch
from torch import Tensor


def upcast(x: Tensor) -> Tensor:
    """Convert half precision to float32 and leave other dtypes as they are: [...] -> [...]."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def segment_sum(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """Sum of the tokens of each segment: [P], [P] -> [S].

    Args:
        x: [P] values.
        segment: [P] int, segment of each token, 0..S-1.
        count: Number of segments S.

    Returns:
        [S] sums, 0 for a segment without tokens; at least float32.

    Raises:
        ValueError: `x` and `segment` have different shapes.
    """
    values = upcast(x)
    if values.shape != segment.shape:
        raise ValueError(
            f"x and segment must have one shape, got {tuple(x.shape)} and {tuple(segment.shape)}"
        )
    total: Tensor = values.new_zeros(count).index_add(0, segment, values)
    return total


def segment_mean(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """Mean of the tokens of each segment: [P], [P] -> [S].

    Args:
        x: [P] values.
        segment: [P] int, segment of each token, 0..S-1.
        count: Number of segments S.

    Returns:
        [S] means, 0 for a segment without tokens; at least float32.

    Raises:
        ValueError: `x` and `segment` have different shapes.
    """
    length = torch.bincount(segment, minlength=count).clamp(min=1)
    return segment_sum(x, segment, count) / length


def masked_mean(x: Tensor, mask: Tensor | None = None, *, dim: int | None = None) -> Tensor:
    """Mean of the values inside a mask: [...] -> [...] without `dim`.

    Args:
        x: [...] values; they are not read outside the mask.
        mask: [...], nonzero where a value counts; None counts all.
        dim: Dimension to reduce; None reduces all.

    Returns:
        The mean, 0 where the mask is empty; at least float32.
    """
    chosen = torch.ones_like(x, dtype=torch.bool) if mask is None else mask.bool()
    kept = upcast(x).masked_fill(~chosen, 0.0)
    if dim is None:
        return kept.sum() / chosen.sum().clamp(min=1)
    return kept.sum(dim) / chosen.sum(dim).clamp(min=1)
