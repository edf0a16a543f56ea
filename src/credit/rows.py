"""Credit for the rows that trainers have: unsorted turns in, advantages of tokens out.

A trainer such as verl or TRL keeps a batch of token rows and, for each turn, texts that say which
task and which trajectory it belongs to. `rows` sorts these into `Turns`; `Rows.scatter` puts an
advantage for each turn at the tokens of its reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credit.turns import Turns
from credit.validation import as_array, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from credit.segments import Array, Ids

COLUMNS = ("reward", "valid", "progress", "anchor", "action", "entropy")
"""Columns of `Turns` that may be given for each row, besides `goal` and `turn_reward`."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The turns of a trainer's rows.

    Attributes:
        turns: The N turns in order, for an estimator.
        turn: [B] int, the turn of each given row. Equal rows have the same turn, so B ≥ N.
    """

    turns: Turns
    turn: Ids

    def advantage(self, advantage: ArrayLike) -> Array:
        """Advantage of each given row from that of each turn: [N] -> [B].

        Raises:
            ValueError: There are not N advantages, or one is not finite.
        """
        values = np.asarray(advantage, dtype=np.float64)
        if values.shape != (len(self.turns),):
            raise ValueError(
                f"advantage has shape {values.shape}, there are {len(self.turns)} turns; pass what "
                "the estimator returned for rows.turns"
            )
        if (wrong := np.flatnonzero(~np.isfinite(values))).size:
            raise ValueError(f"the advantage of turn {wrong[0]} is {values[wrong[0]]}")
        return values[self.turn]

    def scatter(self, advantage: ArrayLike, mask: Any, spans: ArrayLike | None = None) -> Any:
        """Put the advantage of each turn at the tokens of its reply: [N] -> [R, T].

        Args:
            advantage: [N] advantages of `turns`.
            mask: [R, T] nonzero at the tokens of replies; a NumPy array or a torch tensor.
            spans: [B, 3] int: row of `mask`, first token and end of each given row's reply. Without
                them the rows of `mask` are the given rows, one turn each.

        Returns:
            [R, T] advantages, 0 outside the mask: float64, or for a tensor float32 on its device.

        Raises:
            ValueError: `mask` has other rows than were given, or `spans` and `mask` do not cover
                the same tokens; the message names the row.
        """
        of_row = self.advantage(advantage)
        plain = mask.detach().cpu().numpy() if hasattr(mask, "detach") else as_array("mask", mask)
        if len(plain.shape[1:]) != 1:
            raise ValueError(f"mask must be [R, T], got shape {plain.shape}")
        inside = plain != 0
        if spans is None:
            if len(inside) != len(of_row):
                raise ValueError(
                    f"mask has {len(inside)} rows, but {len(of_row)} turns were given; if a row "
                    "has several turns, pass spans=[(row of mask, first token, end), ...]"
                )
            spread = np.where(inside, of_row[:, None], 0.0)
        else:
            spread = _spread(of_row, inside, _spans(spans, len(of_row), inside.shape))
        if not hasattr(mask, "detach"):
            return spread
        return mask.new_tensor(spread, dtype=mask.float().dtype)


def rows(
    *,
    uid: Sequence[Any] | NDArray[Any],
    trajectory: Sequence[Any] | NDArray[Any],
    step: ArrayLike,
    outcome: ArrayLike,
    goal: Sequence[str] | NDArray[Any] | None = None,
    turn_reward: Sequence[Mapping[str, float]] | Mapping[str, ArrayLike] | None = None,
    outcome_in_reward: bool | None = None,
    **columns: Any,
) -> Rows:
    """Sort a trainer's rows, one for each turn and in any order, into `Turns`.

    Trajectories and groups are numbered in the order of their first rows. Rows that are equal in
    everything, as verl-agent makes them to fill a batch, count once. Columns that are left out
    cannot be read: an estimator that needs one says which.

    Args:
        uid: [B] text or int, task group of the row's trajectory.
        trajectory: [B] text or int, the row's trajectory; different in different groups.
        step: [B] int, number of the turn in its trajectory, from 0.
        outcome: [B] terminal score of the row's trajectory.
        goal: [B] goal text of the row's trajectory.
        turn_reward: Rewards of named verifiers: [B] mappings from names, or name to [B] numbers.
        outcome_in_reward: As in `Turns`.
        columns: [B] values of some of `COLUMNS`.

    Raises:
        ValueError: An unknown column, columns of different lengths, a trajectory that misses a
            step, belongs to two groups, or has two outcomes or goals, or two different rows of one
            turn; and what `Turns` refuses.
        TypeError: An id is neither text nor int, or what `Turns` refuses.
    """
    for name in columns:
        if name not in COLUMNS:
            known = ("uid", "trajectory", "step", "outcome", "goal", "turn_reward", *COLUMNS)
            raise ValueError(f"unknown column {name!r}{nearest(name, known)}")
    groups, owners = _ids("uid", uid), _ids("trajectory", trajectory)
    given = {name: _listed(column) for name, column in columns.items() if column is not None}
    whole = {"outcome": _listed(outcome)} | ({} if goal is None else {"goal": _listed(goal)})
    paid = _verifiers(turn_reward)
    steps = _steps(step)
    lengths: dict[str, Any] = {"trajectory": owners, "step": steps, **whole, **given, **paid}
    for name, column in lengths.items():
        if len(column) != len(groups):
            raise ValueError(f"{name} has {len(column)} rows, uid has {len(groups)}")
    named = _listed(trajectory)
    for name, column in {"uid": _listed(uid), **whole}.items():
        _check_one(name, column, owners, named)
    chosen, turn = _order(owners, steps, named)
    _check_copies(given | paid, chosen, turn)
    of_turn = owners[chosen]
    first = np.searchsorted(of_turn, np.arange(of_turn.max(initial=-1) + 1))
    heads = chosen[first]
    turns = Turns(
        group=groups[heads],
        trajectory=of_turn,
        **{name: _rows_of(column, heads) for name, column in whole.items()},  # type: ignore[arg-type]
        **{name: _rows_of(column, chosen) for name, column in given.items()},  # type: ignore[arg-type]
        turn_reward=np.stack([_rows_of(c, chosen) for c in paid.values()], 1) if paid else None,
        turn_reward_names=tuple(paid),
        outcome_in_reward=outcome_in_reward,
    )
    return Rows(turns, turn)


def _listed(column: Any) -> list[Any]:
    """The values of a column as plain Python values."""
    if isinstance(column, str | bytes):
        raise TypeError(f"a column has a value for each row, got the single text {column!r:.60}")
    if hasattr(column, "detach"):
        column = column.detach().cpu()
    return list(column.tolist()) if hasattr(column, "tolist") else list(column)


def _rows_of(column: Sequence[Any], at: Ids) -> list[Any]:
    return [column[row] for row in at.tolist()]


def _ids(name: str, column: Any) -> Ids:
    """Numbers of the values of a column, in the order in which they first occur: [B]."""
    values = _listed(column)
    for row, value in enumerate(values):
        if not isinstance(value, str | int | np.integer) or isinstance(value, bool):
            raise TypeError(f"{name} row {row} is {value!r:.60}; ids are text or integers")
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.intp)


def _steps(column: Any) -> Ids:
    values = np.asarray(_listed(column), dtype=np.float64)
    wrong = np.flatnonzero((values < 0) | (values != np.floor(values)) | np.isinf(values))
    if values.ndim != 1 or len(wrong):
        row = wrong[0] if len(wrong) else 0
        raise ValueError(f"step row {row} is {values[row]}; steps are counted from 0")
    return values.astype(np.intp)


def _verifiers(given: Any) -> dict[str, list[Any]]:
    """Rewards of each verifier, [B] numbers each."""
    if given is None:
        return {}
    if hasattr(given, "keys"):
        return {name: _listed(column) for name, column in given.items()}
    listed = _listed(given)
    names = tuple(listed[0]) if listed else ()
    for row, rewards in enumerate(listed):
        if set(rewards) != set(names):
            raise ValueError(
                f"turn_reward row {row} has {sorted(rewards)}, the first has {sorted(names)}; "
                "every turn needs the same verifiers"
            )
    return {name: [rewards[name] for rewards in listed] for name in names}


def _check_one(name: str, column: Sequence[Any], owners: Ids, named: Sequence[Any]) -> None:
    """Check that all rows of a trajectory have the same value."""
    first: dict[int, int] = {}
    for row, owner in enumerate(owners.tolist()):
        before = first.setdefault(owner, row)
        if column[row] != column[before]:
            unique = "; ids of trajectories must differ between groups" if name == "uid" else ""
            raise ValueError(
                f"trajectory {named[row]!r:.60} has the {name} {column[before]!r:.60} in row "
                f"{before} and {column[row]!r:.60} in row {row}{unique}"
            )


def _order(owners: Ids, steps: Ids, named: Sequence[Any]) -> tuple[Ids, Ids]:
    """The first row of each turn, in the order of the turns, [N], and the turn of each row, [B]."""
    order = np.lexsort((np.arange(len(owners)), steps, owners))
    pairs = np.stack([owners[order], steps[order]], axis=1)
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = (np.diff(pairs, axis=0) != 0).any(axis=1)
    chosen = order[starts]
    begin = np.ones(len(chosen), dtype=np.bool_)
    begin[1:] = np.diff(owners[chosen]) != 0
    position = np.arange(len(chosen)) - np.maximum.accumulate(
        np.where(begin, np.arange(len(chosen)), 0)
    )
    if (missing := np.flatnonzero(steps[chosen] != position)).size:
        row = chosen[missing[0]]
        raise ValueError(
            f"trajectory {named[row]!r:.60} has no step {position[missing[0]]}, but step "
            f"{steps[row]} in row {row}; give every turn, numbered from 0"
        )
    turn = np.empty(len(order), dtype=np.intp)
    turn[order] = np.cumsum(starts) - 1
    return chosen, turn


def _check_copies(columns: Mapping[str, Sequence[Any]], chosen: Ids, turn: Ids) -> None:
    """Check that rows of one turn are equal."""
    for row in np.setdiff1d(np.arange(len(turn)), chosen).tolist():
        first = int(chosen[turn[row]])
        for name, column in columns.items():
            if column[row] != column[first]:
                raise ValueError(
                    f"rows {first} and {row} are the same step of the same trajectory, but {name} "
                    f"is {column[first]!r:.60} and {column[row]!r:.60}; number the steps"
                )


def _spans(given: ArrayLike, count: int, shape: tuple[int, ...]) -> NDArray[np.intp]:
    """Spans as [B, 3] int, checked against the shape of the mask."""
    spans = as_array("spans", given)
    if spans.shape != (count, 3) or spans.dtype.kind not in "iu":
        raise ValueError(
            f"spans must be {count} rows of (row of mask, first token, end), as integers, got "
            f"shape {spans.shape} of {spans.dtype}"
        )
    wrong = (
        (spans[:, 0] < 0)
        | (spans[:, 0] >= shape[0])
        | (spans[:, 1] < 0)
        | (spans[:, 2] > shape[1])
        | (spans[:, 1] > spans[:, 2])
    )
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"span {row} is {tuple(spans[row].tolist())}, outside a mask of shape {shape}"
        )
    return spans.astype(np.intp)


def _spread(of_row: Array, inside: NDArray[np.bool_], spans: NDArray[np.intp]) -> Array:
    """Advantages at the tokens of spans: [R, T]."""
    spread = np.zeros(inside.shape)
    owner = np.full(inside.shape, -1)
    for row, (at, start, end) in enumerate(spans.tolist()):
        taken = owner[at, start:end]
        if (other := taken[(taken >= 0) & (spans[taken] != spans[row]).any(axis=-1)]).size:
            raise ValueError(f"spans {other[0]} and {row} have tokens of row {at} in common")
        owner[at, start:end], spread[at, start:end] = row, of_row[row]
    if (wrong := np.argwhere((owner >= 0) != inside)).size:
        at, token = wrong[0].tolist()
        which = "is outside all spans" if inside[at, token] else f"is in span {owner[at, token]}"
        raise ValueError(
            f"token {token} of row {at} {which}, but mask is {int(inside[at, token])} there; spans "
            "and mask must cover the same tokens"
        )
    return spread
