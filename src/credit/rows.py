"""Credit for the rows that trainers have: unsorted turns in, advantages of tokens out.

A trainer such as verl or TRL keeps a batch of token rows and, for each turn, texts that say which
task and which trajectory it belongs to. `rows` sorts these into `Turns`; `Rows.scatter` puts an
advantage for each turn at the tokens of its reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from credit import segments
from credit.columns import MEASURED, RECORDED, as_column, by_verifier, turn_rewards
from credit.turns import Turns
from credit.validation import (
    as_array,
    as_list,
    as_numbers,
    as_vector,
    check_axes,
    check_known,
    check_length,
    check_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from credit.segments import Array, Ids

COLUMNS = (*RECORDED, *MEASURED)
"""Columns of `Turns` that may be given for each row, besides `goal` and `turn_reward`."""
_EVERY_ROW = ("uid", "trajectory", "step", "outcome", "goal", "turn_reward")


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
        values = np.asarray(as_list("advantage", advantage), dtype=np.float64)
        if values.shape != (len(self.turns),):
            raise ValueError(
                f"advantage has shape {values.shape}, there are {len(self.turns)} turns; pass what "
                "the estimator returned for rows.turns"
            )
        if (wrong := np.flatnonzero(~np.isfinite(values))).size:
            shown = f"the advantage of turn {wrong[0]} is {values[wrong[0]]}"
            raise ValueError(f"{shown}; give one finite number for each turn")
        return values[self.turn]

    def scatter(self, advantage: ArrayLike, mask: Any, spans: ArrayLike | None = None) -> Any:
        """Put the advantage of each turn at the tokens of its reply: [N] -> [R, T].

        Args:
            advantage: [N] advantages of `turns`.
            mask: [R, T] 1 at the tokens of replies, else 0; a NumPy array or a torch tensor.
            spans: [B, 3] int: row of `mask`, first token and end of each given row's reply. Without
                them the rows of `mask` are the given rows, one turn each.

        Returns:
            [R, T] advantages, 0 outside the mask: float64, or for a tensor float32 on its device.

        Raises:
            ValueError: `mask` has other values, or other rows than were given, or `spans` and
                `mask` do not cover the same tokens; the message names the row.
        """
        of_row = self.advantage(advantage)
        inside = _reply_tokens(mask)
        if spans is None:
            if len(inside) != len(of_row):
                raise ValueError(
                    f"mask has {len(inside)} rows, but {len(of_row)} turns were given; if a row "
                    "has several turns, pass spans=[(row of mask, first token, end), ...]"
                )
            spread = np.where(inside, of_row[:, None], 0.0)
        else:
            checked = _spans(spans, len(of_row), inside.shape)
            spread = np.append(of_row, 0.0)[_owners(checked, self.turn, inside)]
        tensor = hasattr(mask, "detach")
        return mask.new_tensor(spread, dtype=mask.float().dtype) if tensor else spread


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
    check_known("unknown column", columns, (*_EVERY_ROW, *COLUMNS))
    uids, named = as_list("uid", uid), as_list("trajectory", trajectory)
    groups, owners, steps = _ids("uid", uids), _ids("trajectory", named), _steps(step)
    whole = _columns({"outcome": outcome, "goal": goal})
    given = _columns(columns)
    paid = _verifiers(turn_reward)
    of_row = given | {f"turn_reward {name!r}": column for name, column in paid.items()}
    lengths: dict[str, Any] = {"trajectory": owners, "step": steps, **whole, **of_row}
    for name, column in lengths.items():
        check_length(name, column, "uid", len(groups))
    for name, column in {"uid": np.array(uids, dtype=object), **whole}.items():
        _check_one(name, column, owners, named)
    turn = segments.make_ids(owners, steps)  # numbered in the order of trajectories and steps
    _, chosen = np.unique(turn, return_index=True)
    position = segments.rank_position(owners[chosen])
    _check_steps(steps, position, chosen, named)
    _check_copies(of_row, chosen, turn)
    heads = chosen[position == 0]
    turns = Turns(
        group=groups[heads],
        trajectory=owners[chosen],
        **{name: column[heads] for name, column in whole.items()},
        **{name: column[chosen] for name, column in given.items()},
        **turn_rewards({name: column[chosen] for name, column in paid.items()}),
        outcome_in_reward=outcome_in_reward,
    )
    return Rows(turns, turn)


def _columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of `Turns` from the values of each row, without those that were left out."""
    return {
        name: as_column(name, as_list(name, values))
        for name, values in given.items()
        if values is not None
    }


def _ids(name: str, values: Sequence[Any]) -> Ids:
    """Numbers of the values of a column, in the order in which they first occur: [B]."""
    for row, value in enumerate(values):
        if not isinstance(value, str | int | np.integer) or isinstance(value, bool):
            raise TypeError(f"{name} row {row} is {value!r:.60}; ids are text or integers")
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.intp)


def _steps(column: Any) -> Ids:
    values = as_vector("step", as_list("step", column), np.int64)
    check_rows("step", values, values >= 0, "steps are counted from 0")
    return values.astype(np.intp)


def _verifiers(given: Any) -> dict[str, Array]:
    """Rewards of each verifier, [B] numbers each."""
    if given is None:
        return {}
    columns = given if hasattr(given, "keys") else by_verifier(as_list("turn_reward", given))
    labels = {name: f"turn_reward {name!r}" for name in columns}
    return {n: as_numbers(label, as_list(label, columns[n])) for n, label in labels.items()}


def _check_one(name: str, column: NDArray[Any], owners: Ids, named: Sequence[Any]) -> None:
    """Check that all rows of a trajectory have the same value."""
    _, first = np.unique(owners, return_index=True)  # owners are numbered 0, 1, ...
    if (wrong := np.flatnonzero(column != column[first[owners]])).size:
        row = int(wrong[0])
        before = int(first[owners[row]])
        unique = "; ids of trajectories must differ between groups" if name == "uid" else ""
        raise ValueError(
            f"trajectory {named[row]!r:.60} has the {name} {column.item(before)!r:.60} in row "
            f"{before} and {column.item(row)!r:.60} in row {row}{unique}"
        )


def _check_steps(steps: Ids, position: Ids, chosen: Ids, named: Sequence[Any]) -> None:
    """Check that the steps of each trajectory are numbered from 0 without a gap."""
    if (missing := np.flatnonzero(steps[chosen] != position)).size:
        row = chosen[missing[0]]
        raise ValueError(
            f"trajectory {named[row]!r:.60} has no step {position[missing[0]]}, but step "
            f"{steps[row]} in row {row}; give every turn, numbered from 0"
        )


def _check_copies(columns: Mapping[str, NDArray[Any]], chosen: Ids, turn: Ids) -> None:
    """Check that rows of one turn are equal."""
    for name, column in columns.items():
        if (wrong := np.flatnonzero(column != column[chosen[turn]])).size:
            row = int(wrong[0])
            first = int(chosen[turn[row]])
            raise ValueError(
                f"rows {first} and {row} are the same step of the same trajectory, but {name} "
                f"is {column.item(first)!r:.60} and {column.item(row)!r:.60}; number the steps"
            )


def _reply_tokens(mask: Any) -> NDArray[np.bool_]:
    """Where a mask is 1, checked to be 0 everywhere else: [R, T] bool."""
    tensor = hasattr(mask, "detach")
    given = mask if tensor else as_array("mask", mask)
    check_axes("mask", given, "R, T")
    inside = given == 1
    if ((given != 0) != inside).any():
        raise ValueError("mask must be 1 at the tokens of replies and 0 elsewhere")
    found: NDArray[np.bool_] = inside.cpu().numpy() if tensor else inside
    return found


def _spans(given: ArrayLike, count: int, shape: tuple[int, ...]) -> NDArray[np.intp]:
    """Spans as [B, 3] int, checked against the shape of the mask."""
    spans = as_array("spans", as_list("spans", given) or np.zeros((0, 3), dtype=np.intp))
    if spans.shape != (count, 3) or spans.dtype.kind not in "iu":
        raise ValueError(
            f"spans must be {count} rows of (row of mask, first token, end), as integers, got "
            f"shape {spans.shape} of {spans.dtype}"
        )
    at, start, end = spans.T
    wrong = (at < 0) | (at >= shape[0]) | (start < 0) | (end > shape[1]) | (start > end)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"span {row} is {tuple(spans[row].tolist())}, outside a mask of shape {shape}"
        )
    return spans.astype(np.intp)


def _owners(spans: NDArray[np.intp], turn: Ids, inside: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The given row whose span has each token, -1 for none: [R, T]."""
    owner = np.full(inside.shape, -1)
    for row, (at, start, end) in enumerate(spans.tolist()):
        for other in np.unique(owner[at, start:end]).tolist():
            if other >= 0 and (turn[other] != turn[row] or (spans[other] != spans[row]).any()):
                raise ValueError(f"spans {other} and {row} have tokens of row {at} in common")
        owner[at, start:end] = row
    if (wrong := np.argwhere((owner >= 0) != inside)).size:
        at, token = wrong[0].tolist()
        which = "is outside all spans" if inside[at, token] else f"is in span {owner[at, token]}"
        raise ValueError(
            f"token {token} of row {at} {which}, but mask is {int(inside[at, token])} there; spans "
            "and mask must cover the same tokens"
        )
    return owner
