"""Credit for the rows that trainers have: unsorted turns in, advantages of tokens out.

A trainer such as verl or TRL keeps a batch of token rows and, for each turn, texts that say which
task and which trajectory it belongs to. `rows` sorts these into `Turns`; `Rows.scatter` puts an
advantage for each turn at the tokens of its reply. A `TurnRecord` is a turn that crosses processes
and networks as JSON; `rows_of` makes rows of records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import stats
from credit.columns import MEASURED, RECORDED, as_column, group_by_verifier, stack_turn_rewards
from credit.estimators import estimate
from credit.turns import Turns
from credit.validation import (
    LARGEST,
    ROUNDING,
    as_list,
    as_vector,
    check_known,
    check_length,
    check_rows,
)

if TYPE_CHECKING:
    from credit.stats import Array, Ids

COLUMNS = (*RECORDED, *MEASURED)
"""Columns of `Turns` that may be given for each row, besides `goal` and `turn_reward`."""
_MASK_AXES = 2  # [R, T]
_EVERY_ROW = ("uid", "trajectory", "step", "outcome", "goal", "turn_reward")


def spread_advantage(advantage: ArrayLike, turn: ArrayLike) -> Array:
    """Advantage of the turn of each token: [N], [...] -> [...].

    Args:
        advantage: [N] advantage of each turn.
        turn: [...] int, turn of each token, -1 for a token of no turn.

    Returns:
        [...] advantages, 0 at tokens of no turn.

    Raises:
        ValueError: An advantage is not finite, or a turn has none.
    """
    values = as_vector("advantage", as_list("advantage", advantage))
    owner = np.asarray(turn, dtype=np.intp)
    if (last := owner.max(initial=-1)) >= len(values):
        raise ValueError(f"advantage has {len(values)} rows, but tokens are of turn {last}")
    return np.append(values, 0.0)[owner]


def average_advantage(advantage: ArrayLike, turn: ArrayLike, count: int) -> Array:
    """Mean advantage of the tokens of each turn: [P], [P] -> [N], 0 for a turn without tokens.

    Args:
        advantage: [P] advantage of each token.
        turn: [P] int, turn of each token.
        count: Number of turns N.
    """
    values, owner = np.asarray(advantage, float), np.asarray(turn, np.intp)
    return np.bincount(owner, values, count) / np.maximum(np.bincount(owner, minlength=count), 1)


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
        return self._assign_tokens(advantage, self.turn)

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
        tensor = hasattr(mask, "detach")
        given = mask if tensor else np.asarray(mask)
        inside = given == 1
        if given.ndim != _MASK_AXES or ((given != 0) != inside).any():
            shown = f"shape {tuple(given.shape)}"
            raise ValueError(f"mask must be [R, T], 1 at tokens of replies and else 0, got {shown}")
        inside = inside.cpu().numpy() if tensor else inside
        if spans is None:
            if len(inside) != len(self.turn):
                remedy = "of rows with several turns pass spans=[(row, first token, end), ...]"
                raise ValueError(f"mask has {len(inside)} rows, not {len(self.turn)}; {remedy}")
            turn = np.where(inside, self.turn[:, None], -1)
        else:
            turn = self._find_turns(np.asarray(as_list("spans", spans), dtype=np.intp), inside)
        spread = self._assign_tokens(advantage, turn)
        return mask.new_tensor(spread, dtype=mask.float().dtype) if tensor else spread

    def _assign_tokens(self, advantage: ArrayLike, turn: Ids) -> Array:
        values = as_list("advantage", advantage)
        check_length("advantage", values, "the list of turns", len(self.turns))
        return spread_advantage(values, turn)

    def _find_turns(self, given: Ids, inside: NDArray[np.bool_]) -> Ids:
        """The turn whose span has each token, -1 for none: [B, 3], [R, T] -> [R, T]."""
        check_length("spans", given, "the list of turns", len(self.turn))
        spans = given.reshape(-1, 3)
        rows, first, last = spans.T
        count, length = inside.shape
        fits = (rows >= 0) & (rows < count) & (first >= 0) & (first <= last) & (last <= length)
        rule = f"give (row of mask, first token, end) inside the mask of shape {inside.shape}"
        check_rows("spans", spans, fits, rule)
        owner = np.full(inside.shape, -1)
        for row, (at, start, end) in enumerate(spans.tolist()):
            for other in np.unique(owner[at, start:end]).tolist():
                equal = self.turn[other] == self.turn[row] and (spans[other] == spans[row]).all()
                if other >= 0 and not equal:
                    raise ValueError(f"spans {other} and {row} have tokens of row {at} in common")
            owner[at, start:end] = row
        if (wrong := np.argwhere((owner >= 0) != inside)).size:
            at, token = wrong[0].tolist()
            span = owner[at, token]
            shown = f"token {token} of row {at} is in {'no span' if span < 0 else f'span {span}'}"
            raise ValueError(f"spans and mask must cover the same tokens, but {shown}")
        turn: Ids = np.append(self.turn, -1)[owner]
        return turn


def rows(
    *,
    uid: Sequence[Any] | NDArray[Any],
    trajectory: Sequence[Any] | NDArray[Any],
    step: ArrayLike,
    outcome: ArrayLike,
    goal: Sequence[str] | NDArray[Any] | None = None,
    turn_reward: Sequence[Mapping[str, float]] | Mapping[str, ArrayLike] | None = None,
    outcome_in_reward: bool = False,
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
        TypeError: What `Turns` refuses.
    """
    check_known("unknown column", columns, (*_EVERY_ROW, *COLUMNS))
    uids, named = as_list("uid", uid), as_list("trajectory", trajectory)
    groups, owners = _number_ids(uids), _number_ids(named)
    steps: Ids = as_vector("step", as_list("step", step), np.int64).astype(np.intp)
    whole = _read_columns({"outcome": outcome, "goal": goal})
    given = _read_columns(columns)
    paid = _read_verifiers(turn_reward)
    of_row = given | {f"turn_reward {name!r}": column for name, column in paid.items()}
    lengths: dict[str, Any] = {"trajectory": owners, "step": steps, **whole, **of_row}
    for name, column in lengths.items():
        check_length(name, column, "uid", len(groups))
    _, first = np.unique(owners, return_index=True)  # owners are numbered 0, 1, ...
    for name, column in {"uid": np.array(uids, dtype=object), **whole}.items():
        _check_equal(name, column, first[owners], "trajectory")
    turn = stats.make_ids(owners, steps)  # numbered in the order of trajectories and steps
    _, chosen = np.unique(turn, return_index=True)
    position = stats.rank_position(owners[chosen])
    if (missing := np.flatnonzero(steps[chosen] != position)).size:
        row = chosen[missing[0]]
        shown = f"has no step {position[missing[0]]}, but step {steps[row]} in row {row}"
        raise ValueError(f"trajectory {named[row]!r:.60} {shown}; give every turn, from 0 on")
    for name, column in of_row.items():
        _check_equal(name, column, chosen[turn], "turn")
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


def _read_columns(given: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of `Turns` from the values of each row, without those that were left out."""
    return {
        name: as_column(name, as_list(name, values))
        for name, values in given.items()
        if values is not None
    }


def _number_ids(values: Sequence[Any]) -> Ids:
    """Numbers of the values of a column, in the order in which they first occur: [B]."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], dtype=np.intp)


def _read_verifiers(given: Any) -> dict[str, Array]:
    """Rewards of each verifier, [B] numbers each."""
    if given is None:
        return {}
    columns = given if hasattr(given, "keys") else group_by_verifier(as_list("turn_reward", given))
    labels = {name: f"turn_reward {name!r}" for name in columns}
    return {n: as_vector(label, as_list(label, columns[n])) for n, label in labels.items()}


def _check_equal(name: str, column: NDArray[Any], like: Ids, what: str) -> None:
    """Raise ValueError unless each row of a column equals the row `like` of it: [B], [B]."""
    if (wrong := np.flatnonzero(column != column[like])).size:
        row, before = wrong[0], like[wrong[0]]
        shown = f"{name} is {column.item(before)!r:.60} and {column.item(row)!r:.60}"
        raise ValueError(f"rows {before} and {row} are of one {what}, but {shown}")


VERSION = 1
"""Version of the schema; records of another version are refused."""
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("task_id", "goal", "action", "anchor", "invalid_reason"), (str,)),
    **dict.fromkeys(("progress", "progress_before", "reward"), (int, float)),
    **dict.fromkeys(("entropy", "outcome"), (int, float, type(None))),
    "step": (int,),
    "valid": (bool,),
    "success": (bool, type(None)),
    "turn_reward": (dict,),
    "span": (tuple, list, type(None)),
}
_RANGES = {
    **dict.fromkeys(("progress", "progress_before"), (0.0, 1.0)),
    "entropy": (0.0, LARGEST),
    "step": (0, 2**31),
}
_COPIED = (*("step", "goal", "reward", "valid", "progress", "progress_before", "anchor", "action"),)


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
        progress: Progress after the turn, in [0, 1]. It, the next and the entropy are set to the
            end of their range if they leave it by at most 1e-6, which is rounding.
        progress_before: Progress before the turn; only that of the first turn is read.
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
    progress_before: float = 0.0
    reward: float = 0.0
    turn_reward: Mapping[str, float] = field(default_factory=dict)
    entropy: float | None = None
    span: tuple[int, int] | None = None
    outcome: float | None = None
    success: bool | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            shown = f"{self.version!r:.20}, this is version {VERSION}"
            raise ValueError(f"a turn record of version {shown}; install the same agent-envs there")
        for name, kinds in _KINDS.items():
            value = _read_value(name, getattr(self, name), kinds, *_RANGES.get(name, ()))
            object.__setattr__(self, name, value)
        for name, paid in self.turn_reward.items():
            _read_value("a name in turn_reward", name, (str,))
            _read_value(f"turn_reward[{name!r:.60}]", paid, (int, float))
        if self.span is not None:
            span = tuple(self.span)
            if list(map(type, span)) != [int, int] or not 0 <= span[0] <= span[1]:
                raise ValueError(f"span of a turn record is (first token, end), got {span!r:.60}")
            object.__setattr__(self, "span", span)

    @classmethod
    def of(cls, given: Mapping[str, Any] | TurnRecord) -> TurnRecord:
        """The record of a mapping that `to_dict` made, e.g. after JSON.

        Raises:
            TypeError: A value of another type, or one is missing.
            ValueError: Another version, or an unknown key.
        """
        if isinstance(given, TurnRecord):
            return given
        if not isinstance(given, Mapping):
            raise TypeError(f"a turn record is a mapping, got {given!r:.80}")
        if given.get("version", VERSION) == VERSION:  # another one may have other keys
            check_known("a turn record has no", given, [one.name for one in fields(cls)])
        return cls(**{one.name: given[one.name] for one in fields(cls) if one.name in given})

    def to_dict(self) -> dict[str, Any]:
        """The record as values that JSON has."""
        return asdict(self)


def _read_value(
    name: str, value: Any, kinds: tuple[type, ...], low: float = -LARGEST, high: float = LARGEST
) -> Any:
    """A value of a record, a number in [low, high]; raises an error about another one."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
        raise TypeError(f"{name} of a turn record must be {wanted}, got {value!r:.60}")
    if isinstance(value, str):
        value.encode()  # raises a ValueError at an unpaired surrogate
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    if not low - ROUNDING <= value <= high + ROUNDING:
        allowed = f"[{low:g}, {high:g}]"
        raise ValueError(f"{name} of a turn record must lie in {allowed}, got {value!r:.60}")
    return min(max(value, low), high)


_Turn: TypeAlias = tuple[TurnRecord, Any, Any]
"""A turn with the task group and the id of its episode."""


def _read_records(episodes: Any) -> list[list[TurnRecord]]:
    """The turns of each episode."""
    return [
        [TurnRecord.of(one) for one in as_list(f"episode {number}", turns)]
        for number, turns in enumerate(as_list("episodes", episodes))
    ]


def _find_outcomes(table: Sequence[_Turn]) -> dict[Any, float]:
    """The outcome of each episode, which its last turn has and no other.

    Raises:
        ValueError: An episode has no outcome or two, or a group has two tasks.
    """
    ended: dict[Any, TurnRecord] = {}
    tasks: dict[Any, str] = {}
    for record, _, name in table:
        if record.step >= ended.setdefault(name, record).step:
            ended[name] = record
    for record, group, name in table:
        last = ended[name]
        if last.outcome is None:
            remedy = "give its last turn; a cut-off episode ends with TextEpisode.stop()"
            raise ValueError(f"episode {name!r:.60} has no outcome: {remedy}")
        own = record.step, record.outcome
        if record.outcome is not None and own != (last.step, last.outcome):
            shown = f"{record.outcome} at step {record.step} and {last.outcome} at {last.step}"
            raise ValueError(
                f"episode {name!r:.60} has two outcomes, {shown}; only its end has one"
            )
        if record.task_id != (task := tasks.setdefault(group, record.task_id)):
            shown = f"{task!r:.60} and {record.task_id!r:.60}"
            raise ValueError(f"uid {group!r:.60} has the tasks {shown}; a group shares its task")
    return {name: float(last.outcome or 0.0) for name, last in ended.items()}


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
    played, uids = _read_records(episodes), as_list("uid", uid)
    names = as_list("trajectory", range(len(played)) if trajectory is None else trajectory)
    check_length("uid", uids, "episodes", len(played))
    check_length("trajectory", names, "episodes", len(played))
    table = [
        (record, group, name)
        for turns, group, name in zip(played, uids, names, strict=True)
        for record in turns
    ]
    outcomes = _find_outcomes(table)

    def column(name: str) -> list[Any]:
        return [getattr(record, name) for record, _, _ in table]

    entropy, turn_reward = column("entropy"), column("turn_reward")
    return rows(
        uid=[group for _, group, _ in table],
        trajectory=[name for _, _, name in table],
        outcome=[outcomes[name] for _, _, name in table],
        turn_reward=turn_reward if all(turn_reward) else None,
        entropy=None if None in entropy else entropy,
        outcome_in_reward=False,
        **{name: column(name) for name in _COPIED},
    )


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
                where = f"turn {record.step} of row {row}"
                raise ValueError(f"{where} has no token span; record the span of each reply")
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
    """
    played = _read_records(episodes)
    if not 0 <= first <= len(played) - len(mask):
        raise ValueError(f"mask has {len(mask)} rows from {first=} on, of {len(played)} episodes")
    table = rows_of(played, uid)
    spans = spans_of(played[first : first + len(mask)])
    start = sum(map(len, played[:first]))
    part = Rows(table.turns, table.turn[start : start + len(spans)])
    return part.scatter(estimate(estimator, table.turns, rng), mask, spans)
