"""Credit for the rows that trainers have: unsorted turns in, advantages of tokens out.

A trainer such as verl or TRL keeps a batch of token rows and, for each turn, texts that say which
task and which trajectory it belongs to. `rows` sorts these into `Turns`; `Rows.scatter` puts an
advantage for each turn at the tokens of its reply. A `TurnRecord` is a turn that crosses processes
and networks as JSON; `rows_of` makes rows of records.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from credit import stats
from credit.estimators import estimate
from credit.turns import MEASURED, RECORDED, Turns, as_column, group_by_verifier, stack_turn_rewards
from credit.validation import (
    LARGEST,
    ROUNDING,
    as_array,
    as_list,
    as_numbers,
    as_vector,
    check_axes,
    check_count,
    check_known,
    check_length,
    check_rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from credit.stats import Array, Ids

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
    turn = stats.make_ids(owners, steps)  # numbered in the order of trajectories and steps
    _, chosen = np.unique(turn, return_index=True)
    position = stats.rank_position(owners[chosen])
    _check_steps(steps, position, chosen, named)
    _check_copies(of_row, chosen, turn)
    heads = chosen[position == 0]
    turns = Turns(
        group=groups[heads],
        trajectory=owners[chosen],
        **{name: column[heads] for name, column in whole.items()},
        **{name: column[chosen] for name, column in given.items()},
        **stack_turn_rewards({name: column[chosen] for name, column in paid.items()}),
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
    columns = given if hasattr(given, "keys") else group_by_verifier(as_list("turn_reward", given))
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


_TEXTS = ("task_id", "goal", "action", "anchor", "invalid_reason")
_COPIED = ("step", "goal", "reward", "valid", "progress", "anchor", "action")
_SURROGATE = re.compile("[\ud800-\udfff]")
_RANGES = {"progress": (0.0, 1.0), "entropy": (0.0, LARGEST), "step": (0, 2**31)}
_RANGES |= dict.fromkeys(("reward", "outcome"), (-LARGEST, LARGEST))
VERSION = 1
"""Version of the schema; records of another version are refused."""
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS, (str,)),
    **dict.fromkeys(("progress", "reward"), (int, float)),
    **dict.fromkeys(("entropy", "outcome"), (int, float, type(None))),
    **dict.fromkeys(("step", "version"), (int,)),
    "valid": (bool,),
    "success": (bool, type(None)),
    "turn_reward": (dict,),
    "span": (tuple, list, type(None)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """One turn of an agent.

    Attributes:
        task_id: Task of the environment.
        goal: Goal text.
        step: Number of the turn in its trajectory, from 0.
        action: Environment action, without the model's thinking.
        anchor: Key of the state in which the action was taken.
        valid: Whether the reply was well-formed and the environment accepted the action.
        invalid_reason: Why it was invalid, "" if valid.
        progress: Progress after the turn, in [0, 1]. It and the entropy are set to the end of their
            range if they leave it by at most 1e-6, which is rounding.
        reward: Reward of the turn, without the outcome.
        turn_reward: Rewards of verifiers by name.
        entropy: Mean token entropy of the reply in nats, None if it is not known.
        span: First token of the reply and the token after its last, in the tokens of the
            trajectory; None if the record knows no tokens.
        outcome: Terminal score on the last turn of a trajectory, None before.
        success: Whether the task was solved, on the last turn; None before.
        version: Version of this schema.

    Raises:
        TypeError: A value of another type.
        ValueError: Another version, a number that is not finite or out of range, text that cannot
            be encoded, or a span that ends before it begins.
    """

    task_id: str
    goal: str
    step: int
    action: str
    anchor: str
    valid: bool
    invalid_reason: str = ""
    progress: float = 0.0
    reward: float = 0.0
    turn_reward: Mapping[str, float] = field(default_factory=dict)
    entropy: float | None = None
    span: tuple[int, int] | None = None
    outcome: float | None = None
    success: bool | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        for name, kinds in _KINDS.items():
            _check_kind(name, getattr(self, name), kinds)
        _check_version(self.version)
        for name, paid in self.turn_reward.items():
            _check_kind("a name in turn_reward", name, (str,))
            _check_kind(f"turn_reward[{name!r:.60}]", paid, (int, float))
            _within(f"turn_reward[{name!r}]", paid)
        for name in _RANGES:
            object.__setattr__(self, name, _within(name, getattr(self, name)))
        for name in _TEXTS:
            _check_text(name, getattr(self, name))
        if self.span is not None:
            object.__setattr__(self, "span", _span(self.span))

    @classmethod
    def of(cls, given: Mapping[str, Any] | TurnRecord) -> TurnRecord:
        """The record of a mapping that `to_dict` made, e.g. after JSON.

        Raises:
            TypeError: A value of another type, or one is missing.
            ValueError: Another version, or an unknown key.
        """
        if isinstance(given, TurnRecord):
            return given
        if not hasattr(given, "keys"):
            raise TypeError(f"a turn record is a mapping, got {given!r:.80}")
        _check_version(given.get("version", VERSION))
        names = [one.name for one in fields(cls)]
        check_known("a turn record has no", given, names)
        if missing := [name for name in names[: names.index("valid") + 1] if name not in given]:
            raise TypeError(f"a turn record needs {', '.join(names[:6])}, got no {missing[0]}")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """The record as values that JSON has."""
        return asdict(self)


def _check_kind(name: str, value: Any, kinds: tuple[type, ...]) -> None:
    """Raise TypeError unless a value has one of the types; a bool is no integer."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
        raise TypeError(
            f"{name} of a turn record must be {wanted}, got {value!r:.60} ({type(value).__name__})"
        )


def _within(name: str, number: float | None) -> float | None:
    """The number in its range, which it may leave by rounding; raises ValueError, also for NaN."""
    low, high = _RANGES.get(name, (-LARGEST, LARGEST))
    if number is None:
        return None
    if not low - ROUNDING <= number <= high + ROUNDING:
        raise ValueError(
            f"{name} of a turn record must lie in [{low:g}, {high:g}], got {number!r:.60}"
        )
    return min(max(number, low), high)


def _check_text(name: str, text: str) -> None:
    """Raise ValueError if a text cannot be encoded."""
    if not text.isascii() and _SURROGATE.search(text):
        raise ValueError(f"{name} of a turn record has an unpaired surrogate, {text!r:.60}")


def _check_version(version: Any) -> None:
    if version != VERSION:
        raise ValueError(
            f"a turn record of version {version!r:.20}, this is version {VERSION}; install the "
            "same agent-envs on both sides"
        )


def _span(given: Sequence[Any]) -> tuple[int, int]:
    if list(map(type, given)) != [int, int]:
        raise TypeError(f"span of a turn record is two integers, got {given!r:.60}")
    start, end = given
    if not 0 <= start <= end:
        raise ValueError(f"span of a turn record is first token and end, got {tuple(given)}")
    return start, end


_Turn: TypeAlias = tuple[TurnRecord, Any, Any]
"""A turn with the task group and the id of its episode."""


def _read_records(episodes: Any) -> list[list[TurnRecord]]:
    """The turns of each episode."""
    listed = as_list("episodes", episodes)
    if not hasattr(episodes, "__len__"):
        raise TypeError(f"episodes must be a list, which can be read again, got {episodes!r:.60}")
    return [
        [TurnRecord.of(one) for one in as_list(f"episode {number}", turns)]
        for number, turns in enumerate(listed)
    ]


def _endings(table: Sequence[_Turn]) -> dict[Any, TurnRecord]:
    """The last turn of each episode."""
    ended: dict[Any, TurnRecord] = {}
    for record, _, name in table:
        if record.step >= ended.setdefault(name, record).step:
            ended[name] = record
    return ended


def _check_outcomes(table: Sequence[_Turn], ended: Mapping[Any, TurnRecord]) -> None:
    """Check that the last turn of each episode, and no other, has an outcome."""
    for record, _, name in table:
        last = ended[name]
        if last.outcome is None:
            raise ValueError(
                f"episode {name!r:.60} has no outcome: its last turn is missing, or it was not "
                "stopped; a cut-off episode ends with TextEpisode.stop()"
            )
        own = record.step, record.outcome
        if record.outcome is not None and own != (last.step, last.outcome):
            raise ValueError(
                f"episode {name!r:.60} has the outcome {record.outcome} at step {record.step} and "
                f"{last.outcome} at step {last.step}; only the last turn has one"
            )


def _check_tasks(table: Sequence[_Turn]) -> None:
    """Check that the episodes of a group share the task."""
    tasks: dict[Any, str] = {}
    for record, group, name in table:
        if record.task_id != (task := tasks.setdefault(group, record.task_id)):
            raise ValueError(
                f"uid {group!r:.60} has the tasks {task!r:.60} and {record.task_id!r:.60} (episode "
                f"{name!r:.60}); episodes of a group share the task"
            )


def rows_of(
    episodes: Sequence[Sequence[TurnRecord | Mapping[str, Any]]],
    uid: Sequence[Any],
    *,
    trajectory: Sequence[Any] | None = None,
) -> Rows:
    """Rows for credit of recorded episodes; the B rows are their turns, one episode after another.

    Args:
        episodes: The turns of each of M episodes, as records or as mappings; one without turns adds
            no row. Entropies and turn rewards are columns if all turns have them.
        uid: [M] text or int, task group of each episode.
        trajectory: [M] text or int, id of each episode; by default its number. Parts of one episode
            that have the same id are put together.

    Raises:
        ValueError: An episode has no outcome, or turns after it, or a group has two tasks; and what
            `rows` refuses.
        TypeError: What is no list of episodes, or no episode of turn records.
    """
    played = _read_records(episodes)
    uids = as_list("uid", uid)
    names = as_list("trajectory", range(len(played)) if trajectory is None else trajectory)
    if not len(played) == len(uids) == len(names):
        raise ValueError(
            f"there are {len(played)} episodes, {len(uids)} uids and {len(names)} trajectories; "
            "give one of each for every episode"
        )
    table = [
        (record, group, name)
        for turns, group, name in zip(played, uids, names, strict=True)
        for record in turns
    ]
    ended = _endings(table)
    _check_outcomes(table, ended)

    def column(name: str) -> list[Any]:
        return [getattr(record, name) for record, _, _ in table]

    entropy, turn_reward = column("entropy"), column("turn_reward")
    made = rows(
        uid=[group for _, group, _ in table],
        trajectory=[name for _, _, name in table],
        outcome=np.array([ended[name].outcome for _, _, name in table], dtype=np.float64),
        turn_reward=turn_reward if all(turn_reward) else None,
        entropy=None if None in entropy else entropy,
        outcome_in_reward=False,
        **{name: column(name) for name in _COPIED},
    )
    _check_tasks(table)
    return made


def spans_of(
    episodes: Sequence[Sequence[TurnRecord | Mapping[str, Any]]],
) -> list[tuple[int, int, int]]:
    """Spans for `Rows.scatter` of recorded turns; episode m has row m of the mask: [B, 3].

    Raises:
        ValueError: A turn has no span.
        TypeError: What is no turn record, or no list of episodes.
    """
    spans = []
    for row, turns in enumerate(_read_records(episodes)):
        for record in turns:
            if record.span is None:
                raise ValueError(
                    f"turn {record.step} of row {row} has no token span; record the span of each "
                    "reply in the tokens of its row"
                )
            spans.append((row, *record.span))
    return spans


def token_advantages(
    estimator: Callable[[Turns, np.random.Generator | None], Array],
    episodes: Sequence[Sequence[TurnRecord | Mapping[str, Any]]],
    uid: Sequence[Any],
    mask: Any,
    *,
    first: int = 0,
    rng: np.random.Generator | None = None,
) -> Any:
    """Credit of whole groups at the tokens of some of their episodes: M episodes -> [R, T].

    Args:
        estimator: Credit method.
        episodes: [M] turns of each episode; those whose tokens are in `mask` have spans.
        uid: [M] text or int, task group of each episode.
        mask: [R, T] 1 at the tokens of replies, else 0, a NumPy array or a tensor; its rows are
            episodes `first` to `first + R - 1`.
        first: Number of the first episode of the mask.
        rng: For an estimator that draws.

    Returns:
        [R, T] advantages, 0 outside the mask, as `credit.Rows.scatter` returns them.

    Raises:
        ValueError: There are not as many episodes as the mask has rows from `first` on, a turn has
            no span, or spans and mask do not cover the same tokens; and what the estimator and
            `credit.rows_of` refuse.
        TypeError: `first` is no integer, or `mask` no array.
    """
    played = _read_records(episodes)
    table = rows_of(played, uid)
    _check_part(first, mask, len(played))
    spans = spans_of(played[first : first + len(mask)])
    start = sum(map(len, played[:first]))
    part = Rows(table.turns, table.turn[start : start + len(spans)])
    return part.scatter(estimate(estimator, table.turns, rng), mask, spans)


def _check_part(first: Any, mask: Any, count: int) -> None:
    """Check that the rows of a mask are some of the `count` episodes."""
    check_count("first", first, "it is the number of an episode")
    if not hasattr(mask, "__len__"):
        raise TypeError(f"mask must be [R, T] ones and zeros, got {mask!r:.60}")
    if first + len(mask) > count:
        raise ValueError(
            f"the mask has {len(mask)} rows from episode first={first} on, but the episodes are "
            f"0 to {count - 1}"
        )
