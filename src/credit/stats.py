"""Statistics within segments of an array: values [N] and the segment id of each -> [N].

Ids are any integers in any order. Every centering function gives 0 for a segment of one row, and
exactly 0 for a segment of equal values; one that also divides, for values equal up to rounding.
There is no Python loop over rows, only sorting and counting.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit.validation import as_finite

Array = NDArray[np.float64]
Ids = NDArray[np.intp]
_ROUNDING = 1e-12
"""Largest relative difference of values that are equal."""
_LARGEST_SUM = 1e120
"""Values of this size and above are rejected. Sums of a column's numbers are far below it."""


class _Segments(NamedTuple):
    """Checked values and consecutive ids."""

    x: Array
    ids: Ids
    sizes: Ids  # [S] rows of each segment


def _segments(x: ArrayLike, ids: ArrayLike) -> _Segments:
    values, given = as_finite("x", x, _LARGEST_SUM), np.asarray(ids)
    if values.ndim != 1 or values.shape != given.shape:
        shapes = f"{values.shape} and {given.shape}"
        raise ValueError(f"x and ids must be vectors of one length, got shapes {shapes}")
    _, dense = np.unique(given, return_inverse=True)
    return _Segments(values, dense.astype(np.intp), np.bincount(dense))


def count(ids: ArrayLike) -> Ids:
    """Number of rows in each row's segment: [N] -> [N] int."""
    _, dense, counts = np.unique(np.asarray(ids), return_inverse=True, return_counts=True)
    return np.asarray(counts[dense], dtype=np.intp)


def center(x: ArrayLike, ids: ArrayLike) -> Array:
    """Subtract the mean of the segment: [N], [N] -> [N].

    y_i = x_i - mean of the segment of i

    Args:
        x: [N] values.
        ids: [N] segment of each value.

    Returns:
        [N] deviations; 0 in a segment of one row.

    Raises:
        ValueError: `x` and `ids` have different lengths, or a value is not finite.
    """
    return _center(_segments(x, ids))


def standardize(x: ArrayLike, ids: ArrayLike, *, ddof: int = 1, eps: float = 1e-6) -> Array:
    """Center, then divide by the standard deviation of the segment: [N], [N] -> [N].

    y_i = (x_i - mean) / (std + eps)

    Args:
        x: [N] values.
        ids: [N] segment of each value.
        ddof: 1 divides the sum of squared deviations by n - 1, 0 by n.
        eps: Added to the standard deviation.

    Returns:
        [N] values in standard deviations; 0 in a segment of one row, or of values that differ by
        rounding only (see `is_varied`).

    Raises:
        ValueError: `x` and `ids` have different lengths, or a value is not finite.
    """
    segments = _segments(x, ids)
    deviation = _center(segments)
    freedom = np.maximum(segments.sizes - ddof, 1)
    variance = np.bincount(segments.ids, deviation**2, len(freedom)) / freedom
    scale = np.sqrt(variance) + eps
    divided = deviation / np.where(scale > 0, scale, 1.0)[segments.ids]
    return np.where(_is_varied(segments, deviation)[segments.ids], divided, 0.0)


def is_varied(x: ArrayLike, ids: ArrayLike) -> NDArray[np.bool_]:
    """Whether the values of a row's segment differ by more than rounding: [N], [N] -> [N].

    Sums of the same rewards in another order differ by rounding. Values count as equal where their
    standard deviation is at most 1e-12 of their root mean square.

    Args:
        x: [N] values.
        ids: [N] segment of each value.

    Raises:
        ValueError: `x` and `ids` have different lengths, or a value is not finite.
    """
    segments = _segments(x, ids)
    return _is_varied(segments, _center(segments))[segments.ids]


def _is_varied(segments: _Segments, deviation: Array) -> NDArray[np.bool_]:
    """Whether the values of each segment differ by more than rounding: [S]."""
    apart, whole = (
        np.bincount(segments.ids, values**2, len(segments.sizes))
        for values in (deviation, segments.x)
    )
    return apart > _ROUNDING**2 * whole


def leave_one_out(x: ArrayLike, ids: ArrayLike) -> Array:
    """Subtract the mean of the other rows of the segment: [N], [N] -> [N].

    y_i = x_i - mean of the others = m / (m - 1) (x_i - mean), for a segment of m rows

    Args:
        x: [N] values.
        ids: [N] segment of each value.

    Returns:
        [N] differences; 0 in a segment of one row.

    Raises:
        ValueError: `x` and `ids` have different lengths, or a value is not finite.
    """
    segments = _segments(x, ids)
    factor = segments.sizes / np.maximum(segments.sizes - 1, 1)
    return factor[segments.ids] * _center(segments)


def concentration(x: ArrayLike, ids: ArrayLike) -> float:
    """Mean over segments of max |x| / Σ |x|, without those of zeros: [N], [N] -> a share.

    Of advantages by trajectory: how much of the credit the decisive turn has. HAS, appendix A.
    """
    values, owner, sizes = _segments(x, ids)
    size, top = np.abs(values), np.zeros(len(sizes))
    total = np.bincount(owner, size, len(sizes))
    np.maximum.at(top, owner, size)
    return float(np.mean(top[total > 0] / total[total > 0])) if total.any() else 0.0


def rank_position(ids: ArrayLike) -> Ids:
    """Number of earlier rows in the same segment, such as a turn's position: [N] -> [N] int."""
    given = np.asarray(ids)
    order = np.argsort(given, kind="stable")
    in_order = given[order]
    first = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]]) if len(given) else order
    starts = np.repeat(first, np.diff(np.r_[first, len(given)]))
    position = np.empty(len(given), dtype=np.intp)
    position[order] = np.arange(len(given)) - starts
    return position


def discounted_returns(x: ArrayLike, ids: ArrayLike, gamma: float) -> Array:
    """Discounted sum from each row to the end of its segment: [N], [N] -> [N].

    R_t = Σ_k γ^k x_{t+k}

    Args:
        x: [N] rewards; the rows of a segment are in order.
        ids: [N] segment of each reward.
        gamma: Discount γ.

    Returns:
        [N] returns.
    """
    given = np.asarray(ids)
    order = np.argsort(given, kind="stable")  # segments one after the other
    returns = np.array(x, dtype=np.float64)[order]
    position = rank_position(given)[order]
    rows = np.argsort(position, kind="stable")
    ends = np.cumsum(np.bincount(position)) if len(position) else np.zeros(0, dtype=np.intp)
    for step in range(len(ends) - 1, 0, -1):
        later = rows[ends[step - 1] : ends[step]]
        returns[later - 1] += gamma * returns[later]
    result = np.empty_like(returns)
    result[order] = returns
    return result


def make_ids(*columns: Any) -> Ids:
    """One id for each distinct row of several columns: [N], ... -> [N] int, numbered from 0."""
    ids = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        dense = _dense(np.asarray(column))
        _, ids = np.unique(ids * (dense.max(initial=0) + 1) + dense, return_inverse=True)
    return ids.astype(np.intp)


def _dense(column: NDArray[Any]) -> Ids:
    """Ids of the values of one column: texts are compared by hash, numbers by sorting."""
    if column.dtype.kind not in "OUS":
        return np.unique(column, return_inverse=True)[1].astype(np.intp)
    values = column.tolist()
    known = {value: index for index, value in enumerate(dict.fromkeys(values))}
    return np.fromiter(map(known.__getitem__, values), np.intp, len(values))


def _center(segments: _Segments) -> Array:
    """Deviation from the mean of the segment: [N].

    The first value of the segment is subtracted first. Otherwise rounding could give a segment of
    equal values a deviation of 1e-17, which `standardize` would enlarge to the order of 1.
    """
    x, ids, counts = segments
    if not len(x):
        return x.copy()
    first = np.empty(len(counts))
    first[ids[::-1]] = x[::-1]
    shifted = x - first[ids]
    return shifted - (np.bincount(ids, shifted, len(counts)) / counts)[ids]
