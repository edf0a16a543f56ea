"""Rows of tokens: episodes as training sequences, with the reply tokens of every turn marked.

With context "history" a trajectory is one row that has each token once. With context "turn" each
turn is a row that starts with its own prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit.rows import spread_advantage

if TYPE_CHECKING:
    from agent_envs.spaces import Picture
    from trainer.play.records import Episode, Step


@dataclass(frozen=True, slots=True)
class Row:
    """One training sequence of L tokens, of which P are reply tokens that are trained on.

    Attributes:
        ids: The tokens, [L].
        at: Positions of the reply tokens in `ids`, [P], increasing.
        turn: Turn of each reply token, counted over all episodes, [P].
        logprobs: Log-probability of each reply token when it was sampled (0 for text), [P].
        allowed: With constrained decoding, the tokens allowed at each reply token, else None.
        images: Images in `ids`, in order.
        reference: Log-probability of each reply token under the reference, [P] or None.
        advantage: Advantage of each reply token, [P] or None.
        value: Value that a critic predicted before each reply token, [P] or None.
        returns: Return that the value should predict, [P] or None.
        weight: Importance weight of each reply token, see `trainer.learn.update`, [P]; None
            for 1.
    """

    ids: list[int]
    at: list[int]
    turn: list[int]
    logprobs: list[float]
    allowed: list[list[int]] | None = None
    images: tuple[Picture, ...] = ()
    reference: list[float] | None = None
    advantage: list[float] | None = None
    value: list[float] | None = None
    returns: list[float] | None = None
    weight: list[float] | None = None


def make_rows(episodes: Sequence[Episode], *, max_tokens: int = 0) -> list[Row]:
    """Rows of episodes with N turns in total, in order; rows without reply tokens are left out.

    A trajectory longer than `max_tokens` keeps the leading turns that fit completely. With context
    "turn", a longer turn is left out. 0 keeps everything.
    """
    rows, first = [], 0
    for episode in episodes:
        turns = list(enumerate(episode.steps, start=first))
        first += len(turns)
        for part in [turns] if episode.context == "history" else [[turn] for turn in turns]:
            row = _row(part, max_tokens)
            if row.at:
                rows.append(row)
    return rows


def _row(turns: list[tuple[int, Step]], max_tokens: int) -> Row:
    row = Row([], [], [], [], [] if any(step.allowed is not None for _, step in turns) else None)
    images: list[Picture] = []
    for turn, step in turns:
        if max_tokens and len(row.ids) + len(step.prompt_ids) + len(step.reply_ids) > max_tokens:
            break
        start = len(row.ids) + len(step.prompt_ids)
        row.ids.extend([*step.prompt_ids, *step.reply_ids])
        size = len(step.reply_ids)
        row.at.extend(range(start, start + size))
        row.turn.extend([turn] * size)
        row.logprobs.extend(step.logprobs or [0.0] * size)
        images.extend(step.images)
        if row.allowed is not None:
            row.allowed.extend(step.allowed or [[]] * size)
    return replace(row, images=tuple(images)) if images else row


def join_values(rows: Sequence[Row], name: str) -> NDArray[Any]:
    """A column of the reply tokens of all rows, in order: -> [P]."""
    return np.array([value for row in rows for value in getattr(row, name)])


def split_values(rows: Sequence[Row], values: NDArray[Any]) -> list[NDArray[Any]]:
    """The values of each row, of those of all reply tokens [P]."""
    return np.split(values, np.cumsum([len(row.at) for row in rows], dtype=int)[:-1])


def set_values(rows: Sequence[Row], **columns: NDArray[Any]) -> list[Row]:
    """The rows with columns of their reply tokens, each [P] in the order of the rows."""
    parts = {name: split_values(rows, values) for name, values in columns.items()}
    return [
        replace(row, **{name: part[number].tolist() for name, part in parts.items()})
        for number, row in enumerate(rows)
    ]


def credit_rows(rows: Sequence[Row], advantage: ArrayLike) -> list[Row]:
    """The rows, with the advantage of each turn [N] at all of its reply tokens.

    Raises:
        ValueError: An advantage is not finite, or a turn has none.
    """
    return set_values(rows, advantage=spread_advantage(advantage, join_values(rows, "turn")))


def minibatches(
    rows: Sequence[Row], *, size: int, epochs: int, rng: np.random.Generator
) -> Iterator[list[Row]]:
    """Rows of each optimiser step, in a new random order every epoch; size 0 takes all at once.

    An epoch has as many steps as `size` rows a step need. The rows are divided evenly: the last
    step, which moves the weights as far as any, has at most one row less than the first.
    """
    count = -(-len(rows) // (size or len(rows) or 1))
    for _ in range(epochs if count else 0):
        for part in np.array_split(rng.permutation(len(rows)), count):
            yield [rows[i] for i in part]
