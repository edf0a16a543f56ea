"""Statistics within segments of an array: x [N] values, ids [N] of their segments -> [N].

Ids may be any integers in any order. A segment of one is 0 under every centring function, and
a segment of equal values is exactly 0. No loop over rows, only sorting and counting.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit.choices import finite, nonnegative

Array = NDArray[np.float64]
Ids = NDArray[np.intp]


class _Segments(NamedTuple):
    """Values checked and ids made consecutive."""

    x: Array
    ids: Ids
    sizes: Ids  # [S] rows of each segment


def _segments(x: ArrayLike, ids: ArrayLike) -> _Segments:
    values, given = finite("x", x), np.asarray(ids)
    if values.ndim != 1 or values.shape != given.shape:
        raise ValueError(
            f"x and ids are vectors of one length, got shapes {values.shape} and {given.shape}"
        )
    _, dense = np.unique(given, return_inverse=True)
    return _Segments(values, dense.astype(np.intp), np.bincount(dense))


def count(ids: ArrayLike) -> Ids:
    """Rows in the segment of each row: [N] -> [N]."""
    given = np.asarray(ids)
    _, dense, counts = np.unique(given, return_inverse=True, return_counts=True)
    return np.asarray(counts[dense], dtype=np.intp)


def center(x: ArrayLike, ids: ArrayLike) -> Array:
    """Subtract the mean of the segment from x: [N], [N] -> [N]."""
    return _centered(_segments(x, ids))


def standardize(x: ArrayLike, ids: ArrayLike, *, ddof: int = 1, eps: float = 1e-6) -> Array:
    """Divide what `center` gives by (std + eps): [N], [N] -> [N]; 0 in a segment of one.

    ddof: 1 divides the squared deviations by n - 1, 0 by n.
    """
    nonnegative("eps", eps, "it is added to a deviation")
    segments = _segments(x, ids)
    deviation = _centered(segments)
    freedom = np.maximum(segments.sizes - ddof, 1)
    variance = np.bincount(segments.ids, deviation**2, len(freedom)) / freedom
    scale = np.sqrt(variance) + eps
    return deviation / np.where(scale > 0, scale, 1.0)[segments.ids]


def leave_one_out(x: ArrayLike, ids: ArrayLike) -> Array:
    """Subtract the mean of the others in the segment: [N], [N] -> [N]; 0 if there are none."""
    segments = _segments(x, ids)
    factor = segments.sizes / np.maximum(segments.sizes - 1, 1)
    return factor[segments.ids] * _centered(segments)


def rank_position(ids: ArrayLike) -> Ids:
    """How many earlier rows share the row's segment: [N] -> [N], the position of a turn, from 0."""
    given = np.asarray(ids)
    order = np.argsort(given, kind="stable")
    in_order = given[order]
    first = np.flatnonzero(np.r_[True, in_order[1:] != in_order[:-1]]) if len(given) else order
    starts = np.repeat(first, np.diff(np.r_[first, len(given)]))
    position = np.empty(len(given), dtype=np.intp)
    position[order] = np.arange(len(given)) - starts
    return position


def discounted(x: ArrayLike, ids: ArrayLike, gamma: float) -> Array:
    """Σ_k γ^k x_{t+k} to the end of each row's segment, in order of rows: [N], [N] -> [N]."""
    given = np.asarray(ids)
    order = np.argsort(given, kind="stable")  # segments one after the other
    returns = np.array(x, dtype=np.float64)[order]
    place = rank_position(given)[order]
    rows = np.argsort(place, kind="stable")
    ends = np.cumsum(np.bincount(place)) if len(place) else np.zeros(0, dtype=np.intp)
    for step in range(len(ends) - 1, 0, -1):
        later = rows[ends[step - 1] : ends[step]]
        returns[later - 1] += gamma * returns[later]
    result = np.empty_like(returns)
    result[order] = returns
    return result


def labels(*columns: Any) -> Ids:
    """One id for each distinct row of several columns: [N], ... -> [N], numbered from 0."""
    ids = np.zeros(len(columns[0]), dtype=np.intp)
    for column in columns:
        dense = _dense(np.asarray(column))
        _, ids = np.unique(ids * (dense.max(initial=0) + 1) + dense, return_inverse=True)
    return ids.astype(np.intp)


def _dense(column: NDArray[Any]) -> Ids:
    """Ids of the values of one column; text is told apart by hash, numbers by sorting."""
    if column.dtype.kind not in "OUS":
        return np.unique(column, return_inverse=True)[1].astype(np.intp)
    values = column.tolist()
    known = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return np.fromiter(map(known.__getitem__, values), np.intp, len(values))


def _centered(segments: _Segments) -> Array:
    """Deviation from the segment's mean, exactly 0 where a segment's values are all equal.

    Values are first shifted by the segment's first one: rounding then cannot give a segment of
    equal values a spread of 1e-17, which standardising would blow up.
    """
    x, ids, counts = segments
    if not len(x):
        return x.copy()
    first = np.empty(len(counts))
    first[ids[::-1]] = x[::-1]
    shifted = x - first[ids]
    return shifted - (np.bincount(ids, shifted, len(counts)) / counts)[ids]
