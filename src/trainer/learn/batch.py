"""Token batches: episodes as rows, padded or packed, with the reply tokens of every turn marked.

With context "history" a trajectory is one row that has each token once. With context "turn" each
turn is a row that starts with its own prompt. Rows of similar length share a microbatch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from credit.rows import spread_advantage
from trainer.scale import parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import ArrayLike
    from torch import Tensor

    from trainer.model.vision import Picture
    from trainer.play.records import Episode, Step


COLUMNS = ("reference", "advantage", "value", "returns", "weight")
"""Optional values of each reply token in a row."""


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


@dataclass(frozen=True, slots=True)
class Batch:
    """B rows padded on the right to L tokens, with P reply tokens to train on in row-major order.

    Packed rows follow each other as one row of L tokens, and B is 1 in the shapes of `ids`, `keep`
    and `positions`.

    Attributes:
        ids: [B, L] int.
        keep: [B, L] bool, the positions whose logits predict the reply tokens.
        positions: Position of each token in its own row, [1, L] int, if they are packed, else None.
        target: The reply tokens, [P] int.
        turn: Turn of each, counted over all episodes, [P] int.
        row: Row of each, [P] int.
        logprobs: Log-probability of each when it was sampled, [P].
        allowed: Pairs (reply token, allowed token) of constrained decoding, [Q, 2] int, or None.
        images: Images of the rows, in row order.
        reference, advantage, value, returns, weight: Of each, as in `Row`, [P] or None.
    """

    ids: Tensor
    keep: Tensor
    positions: Tensor | None
    target: Tensor
    turn: Tensor
    row: Tensor
    logprobs: Tensor
    allowed: Tensor | None
    images: list[Picture]
    reference: Tensor | None
    advantage: Tensor | None
    value: Tensor | None
    returns: Tensor | None
    weight: Tensor | None


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
    constrained = any(step.allowed is not None for _, step in turns)
    row = Row([], [], [], [], [] if constrained else None)
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


def credit_rows(rows: Sequence[Row], advantage: ArrayLike) -> list[Row]:
    """The rows, with the advantage of each turn [N] at all of its reply tokens.

    Raises:
        ValueError: An advantage is not finite, or a turn has none.
    """
    turns = [turn for row in rows for turn in row.turn]
    values = iter(spread_advantage(advantage, turns).tolist())
    return [replace(row, advantage=[next(values) for _ in row.turn]) for row in rows]


def annotate_rows(
    rows: Sequence[Row],
    model: Callable[[Batch], Tensor],
    *,
    tokens: int,
    packed: bool = False,
    device: torch.device | str = "cpu",
) -> list[list[float]]:
    """Value of each reply token of each row, from a `model` that returns one a token, [P].

    Runs in microbatches of at most `tokens` tokens, without gradients, divided among the processes.
    """
    found: dict[int, list[float]] = {}
    for part, counts in passes(rows, tokens, packed=packed):
        with torch.no_grad():
            batch = collate([rows[i] for i in part], device, packed=packed)
            values = iter(model(batch).tolist())
        if counts:
            found |= {i: [next(values) for _ in rows[i].at] for i in part}
    every = {i: values for part in parallel.gather(lambda: found) for i, values in part.items()}
    return [every[i] for i in range(len(rows))]


def minibatches(
    rows: Sequence[Row], *, size: int, epochs: int, rng: np.random.Generator
) -> Iterator[list[Row]]:
    """Rows of each optimiser step, in a new random order every epoch; size 0 takes all at once."""
    for _ in range(epochs):
        order = rng.permutation(len(rows))
        for start in range(0, len(rows), size or len(rows)):
            yield [rows[i] for i in order[start : start + (size or len(rows))]]


def microbatches(
    rows: Sequence[Row], tokens: int, *, packed: bool = False, replies: float = math.inf
) -> Iterator[list[int]]:
    """Indices of the rows of each forward pass: at most `tokens` tokens, padding included.

    The longest come first, so that a lack of memory shows at once. A row that exceeds a limit is a
    microbatch of its own. Packed rows have no padding. `replies` limits the reply tokens.
    """
    part: list[int] = []
    size = said = 0
    for i in sorted(range(len(rows)), key=lambda i: (-len(rows[i].ids), i)):
        size += len(rows[i if packed or not part else part[0]].ids)
        said += len(rows[i].at)
        if part and (size > tokens or said > replies):
            yield part
            part, size, said = [], len(rows[i].ids), len(rows[i].at)
        part.append(i)
    if part:
        yield part


def passes(
    rows: Sequence[Row], tokens: int, *, packed: bool = False, replies: float = math.inf
) -> list[tuple[list[int], bool]]:
    """The microbatches of this process, equally many in all, and whether each counts.

    Rows are dealt out by length. A process with fewer microbatches than another repeats the
    shortest row, which does not count: sharded weights are gathered in all processes at once.
    """
    cut = partial(microbatches, tokens=tokens, packed=packed, replies=replies)
    order = sorted(range(len(rows)), key=lambda i: (-len(rows[i].ids), i))
    hands = [order[place :: parallel.size()] for place in range(parallel.size())]
    dealt = [[[hand[i] for i in part] for part in cut([rows[i] for i in hand])] for hand in hands]
    mine = dealt[parallel.rank()]
    spare = max(map(len, dealt)) - len(mine)
    return [(part, True) for part in mine] + [(order[-1:], False)] * spare


def collate(
    rows: Sequence[Row], device: torch.device | str = "cpu", *, packed: bool = False
) -> Batch:
    """Make a batch of rows, padded to the longest, or packed one after the other."""
    lengths = [len(row.ids) for row in rows]
    owner = torch.tensor([i for i, row in enumerate(rows) for _ in row.at])
    at = torch.tensor([p for row in rows for p in row.at])
    if packed:
        ids = torch.tensor([[token for row in rows for token in row.ids]])
        starts = torch.tensor([0, *lengths[:-1]]).cumsum(0)
        where = torch.zeros_like(owner), starts[owner] + at
        positions = torch.cat([torch.arange(length) for length in lengths])[None].to(device)
    else:
        ids = torch.tensor([row.ids + [0] * (max(lengths) - len(row.ids)) for row in rows])
        where, positions = (owner, at), None
    keep = torch.zeros_like(ids, dtype=torch.bool)
    keep[where[0], where[1] - 1] = True
    lists = [a for row in rows for a in (row.allowed or [[]] * len(row.at))]
    pairs = [(token, choice) for token, choices in enumerate(lists) for choice in choices]
    columns: dict[str, Tensor | None] = {}
    for name in COLUMNS:
        known = [value for row in rows for value in getattr(row, name) or ()]
        columns[name] = torch.tensor(known, device=device) if known else None
    return Batch(
        ids=ids.to(device),
        keep=keep.to(device),
        positions=positions,
        target=ids[where].to(device),
        turn=torch.tensor([t for row in rows for t in row.turn], device=device),
        row=owner.to(device),
        logprobs=torch.tensor([p for row in rows for p in row.logprobs], device=device),
        allowed=torch.tensor(pairs, device=device) if pairs else None,
        images=[image for row in rows for image in row.images],
        **columns,
    )
