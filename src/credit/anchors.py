"""Anchor states: which turns were taken in the same state of the same task.

`exact` compares keys, `similar` also joins keys whose texts are similar. The clusters of `similar`
are those of comparing each key with the first member of every cluster by
`difflib.SequenceMatcher.ratio`. To compare few pairs, upper bounds of the ratio are computed first:
from the characters that two texts have in common in any order, then from the length of their
longest common subsequence, for all clusters at once.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import stats

_BUCKETS = 128  # characters are counted by code modulo this: merging some only loosens the bound
_MANY = 1  # with more candidates, bounding all clusters at once is cheaper than comparing each
_AUTOJUNK = 200  # from this length on, difflib ignores popular characters


def exact(keys: Sequence[Any] | NDArray[np.object_], group: ArrayLike) -> stats.Ids:
    """Ids of equal keys within groups: [N], [N] -> [N].

    Source: GiGPO (Feng et al., 2025), anchor states.

    Args:
        keys: [N] keys of the states.
        group: [N] task group of each turn.

    Returns:
        [N] int, numbered from 0; two turns have one id if group and key are equal.
    """
    return stats.make_ids(group, keys)


def similar(
    keys: Sequence[str] | NDArray[np.object_], group: ArrayLike, threshold: float = 0.9
) -> stats.Ids:
    """Ids of clusters of similar texts within groups: [N], [N] -> [N].

    In row order, a key joins the cluster of its group whose first member f is most similar to it,
    if `SequenceMatcher(None, key, f).ratio() >= threshold`. Otherwise it starts a cluster. Of two
    equally similar clusters the earlier one is joined.

    Source: STAPO §3.1.

    Args:
        keys: [N] texts of the states.
        group: [N] task group of each turn; a cluster never spans two groups.
        threshold: Similarity in (0, 1].

    Returns:
        [N] int, numbered from 0.
    """
    groups = np.asarray(group)
    clusters: dict[Any, _Clusters] = {}
    found = [
        clusters.setdefault(of, _Clusters(threshold)).add(str(key))
        for of, key in zip(groups.tolist(), keys, strict=True)
    ]
    return stats.make_ids(groups, np.asarray(found, dtype=np.intp))


class _Clusters:
    """The clusters of one group; keys are added one by one."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.heads: list[str] = []  # the first member of each cluster
        # of each key: its cluster, the ratio, and the number of clusters that it was compared with
        self.known: dict[str, tuple[int, float, int]] = {}
        self.counts = np.zeros((8, _BUCKETS), dtype=np.int32)
        self.pool = _Pool()

    def add(self, key: str) -> int:
        """Index of the cluster that a key joins or starts."""
        cluster, ratio, seen = self.known.get(key, (-1, 0.0, 0))
        if ratio < 1 and seen < len(self.heads):
            cluster, ratio = self._search(key, cluster, ratio, seen)
        if cluster < 0:
            cluster, ratio = len(self.heads), 1.0
            self._start(key)
        self.known[key] = cluster, ratio, len(self.heads)
        return cluster

    def _search(self, key: str, cluster: int, ratio: float, seen: int) -> tuple[int, float]:
        """Best of the cluster found before and the clusters from `seen` on, with its ratio."""
        bounds = _bound_ratio(_counts(key), self.counts[: len(self.heads)])
        bounds[:seen] = 0.0
        if np.count_nonzero(bounds >= self.threshold) > _MANY:
            bounds = np.minimum(bounds, self.pool.bounds(key))
        candidates = np.flatnonzero(bounds >= max(self.threshold, ratio))
        for candidate in candidates[np.argsort(-bounds[candidates], kind="stable")].tolist():
            if bounds[candidate] < ratio:
                break
            found = _ratio(key, self.heads[candidate], max(self.threshold, ratio))
            if found >= self.threshold and (found, -candidate) > (ratio, -cluster):
                cluster, ratio = candidate, found
        return cluster, ratio

    def _start(self, key: str) -> None:
        if len(self.heads) == len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)])
        self.counts[len(self.heads)] = _counts(key)
        self.heads.append(key)
        self.pool.add(key)


class _Pool:
    """Texts concatenated in one bit vector, with a zero bit after each."""

    def __init__(self) -> None:
        self.masks: dict[str, int] = {}
        self.starts: list[int] = []
        self.sizes: list[int] = []
        self.full = 0  # every bit but those between texts
        self.end = 0

    def add(self, text: str) -> None:
        """Append a text."""
        bits: dict[str, int] = {}
        for position, character in enumerate(text):
            bits[character] = bits.get(character, 0) | 1 << position
        for character, mask in bits.items():
            self.masks[character] = self.masks.get(character, 0) | mask << self.end
        self.full |= ((1 << len(text)) - 1) << self.end
        self.starts.append(self.end)
        self.sizes.append(len(text))
        self.end += len(text) + 1

    def bounds(self, text: str) -> NDArray[np.float64]:
        """Upper bound of difflib's ratio with each text of the pool: [K].

        2 LCS / (sum of lengths), where LCS is the length of the longest common subsequence

        It is computed for all texts at once by the bit-parallel algorithm of Hyyrö (2004): a bit
        is cleared for each character of a longest common subsequence. The zero bit after each text
        stops the carry.
        """
        row = full = self.full
        for character in text:
            hit = row & self.masks.get(character, 0)
            if hit:
                row = ((row + hit) | (row - hit)) & full
        packed = np.frombuffer((full & ~row).to_bytes(self.end // 8 + 1, "little"), np.uint8)
        cleared = np.unpackbits(packed, bitorder="little")
        common = np.add.reduceat(cleared, self.starts, dtype=np.intp)
        total = np.asarray(self.sizes, dtype=np.float64) + len(text)
        bounds: NDArray[np.float64] = 2.0 * common / np.maximum(total, 1.0)
        return bounds


def _counts(text: str) -> NDArray[np.int32]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32) % _BUCKETS
    return np.bincount(codes.astype(np.intp), minlength=_BUCKETS).astype(np.int32)


def _bound_ratio(counts: NDArray[np.int32], heads: NDArray[np.int32]) -> NDArray[np.float64]:
    """2 (characters in common) / (sum of lengths), a bound of the ratio: [V], [K, V] -> [K]."""
    common = np.minimum(heads, counts).sum(axis=1)
    bounds: NDArray[np.float64] = 2.0 * common / np.maximum(heads.sum(axis=1) + counts.sum(), 1)
    return bounds


def _ratio(key: str, head: str, least: float = 0.0) -> float:
    """`SequenceMatcher(None, key, head).ratio()`; 0 is possible if that is below `least`."""
    if len(head) >= _AUTOJUNK:
        return SequenceMatcher(None, key, head).ratio()
    total = len(key) + len(head)
    if not total:
        return 1.0
    pieces, possible = [(key, head)], min(len(key), len(head))
    while pieces:  # as difflib does, split each at its longest common block
        a, b = pieces.pop()
        at, there, size = _longest(a, b)
        possible += size - min(len(a), len(b))
        if size:
            sides = (a[:at], b[:there]), (a[at + size :], b[there + size :])
            pieces += [(one, other) for one, other in sides if one and other]
            possible += sum(min(len(one), len(other)) for one, other in sides)
        if 2.0 * possible / total < least:
            return 0.0
    return 2.0 * possible / total


def _longest(a: str, b: str) -> tuple[int, int, int]:
    """Start in `a`, start in `b` and length of the longest common block; the earliest of equals."""
    size = at = there = start = 0
    end_a, end_b = len(a), len(b)
    while start + size < end_a:
        found = b.find(a[start : start + size + 1])
        if found < 0:
            start += 1
            continue
        size, at, there = size + 1, start, found
        while at + size < end_a and there + size < end_b and a[at + size] == b[there + size]:
            size += 1
    return at, there, size
