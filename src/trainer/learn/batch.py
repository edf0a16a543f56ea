"""Batches: rows as tensors, padded or packed, cut into the microbatches of each process.

Rows of similar length share a microbatch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainer.scale import parallel

if TYPE_CHECKING:
    from agent_envs.spaces import Picture
    from trainer.learn.rows import Row


COLUMNS = ("reference", "advantage", "value", "returns", "weight")
"""Optional values of each reply token in a row."""


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
        where = torch.zeros_like(owner), torch.tensor([0, *lengths[:-1]]).cumsum(0)[owner] + at
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


def annotate_rows(
    rows: Sequence[Row],
    model: Callable[[Batch], Tensor],
    *,
    tokens: int,
    packed: bool = False,
    device: torch.device | str = "cpu",
) -> NDArray[np.float64]:
    """Value of each reply token of all rows in order, by a `model` that gives one a token: [P].

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
    return np.array([value for i in range(len(rows)) for value in every[i]], np.float64)
