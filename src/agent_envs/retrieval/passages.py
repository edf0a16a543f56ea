"""Passages, what a retriever is, and the order of what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Passage(NamedTuple):
    """A passage of a corpus.

    score: that of the search which found it, higher is better.
    quoted: whether the title has double quotes around it in `contents`, as Search-R1's corpus has.
    """

    id: str
    title: str
    text: str
    score: float = 0.0
    quoted: bool = True

    @property
    def heading(self) -> str:
        """The title as it is in `contents`."""
        return f'"{self.title}"' if self.quoted else self.title


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for queries."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """At most `k` passages for each query, best first; none where nothing matches.

        Raises:
            ValueError: `k` below 1.
        """


def check(queries: Sequence[str], k: int) -> None:
    """Refuse what is no list of queries or no number of passages.

    Raises:
        TypeError: One text instead of a list of them. ValueError: `k` below 1.
    """
    if isinstance(queries, str):
        raise TypeError(f"queries are a list of texts, got one text {queries!r:.60}; give [query]")
    if k < 1:
        raise ValueError(f"k is the number of passages a query gets and at least 1, got {k}")


def best(
    passages: Sequence[Passage], scores: NDArray[np.float32], k: int, *, above: float
) -> list[Passage]:
    """The `k` passages of the highest scores, if `above` some score; equal ones by their place."""
    least = np.partition(scores, -k)[-k] if k < len(scores) else -np.inf
    chosen = np.flatnonzero((scores >= least) & (scores > above))
    order = chosen[np.argsort(-scores[chosen], kind="stable")][:k]
    return [passages[at]._replace(score=float(scores[at])) for at in order.tolist()]
