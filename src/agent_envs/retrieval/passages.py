"""Passages, the protocol of retrievers, and the order of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Passage(NamedTuple):
    """A passage of a corpus.

    score: score of the search that found it, higher is better.
    quoted: whether the title is in double quotes in `contents`, as in Search-R1's corpus.
    """

    id: str
    title: str
    text: str
    score: float = 0.0
    quoted: bool = True

    @property
    def heading(self) -> str:
        """The title as written in `contents`."""
        return f'"{self.title}"' if self.quoted else self.title


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for queries."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """At most `k` passages for each query, best first; [] if nothing matches.

        Raises:
            ValueError: `k` below 1.
        """


def check(queries: Sequence[str], k: int) -> None:
    """Check the arguments of `Retriever.search`.

    Raises:
        TypeError: One text instead of a list of texts.
        ValueError: `k` below 1.
    """
    if isinstance(queries, str):
        raise TypeError(f"queries must be a list of texts, got {queries!r:.60}; give [query]")
    if k < 1:
        raise ValueError(f"k, the number of passages per query, must be at least 1, got {k}")


def best(
    passages: Sequence[Passage], scores: NDArray[np.float32], k: int, *, above: float
) -> list[Passage]:
    """The `k` passages with the highest scores above `above`; ties in the corpus's order."""
    least = np.partition(scores, -k)[-k] if k < len(scores) else -np.inf
    chosen = np.flatnonzero((scores >= least) & (scores > above))
    order = chosen[np.argsort(-scores[chosen], kind="stable")][:k]
    return [passages[at]._replace(score=float(scores[at])) for at in order.tolist()]
