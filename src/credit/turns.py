"""Turns: a batch of trajectories as columns, the input of every estimator."""

from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from credit import stats
from credit.columns import (
    KINDS,
    MEASURED,
    OPTIONAL,
    PER_TRAJECTORY,
    PER_TURN,
    RECORDED,
    as_column,
    as_verifiers,
    group_by_verifier,
    stack_turn_rewards,
)
from credit.validation import as_vector, check_length, check_rows, suggest_name

if TYPE_CHECKING:
    import pyarrow as pa

_PREFIX = "turn_reward."
_REMEDIES = {
    "entropy": "record the mean token entropy of each action at sampling",
    "gold_logprob": "give the mean log-probability of the right answer's tokens before each turn",
    "turn_reward": "record it by rewards.TurnVerifier",
}


class MissingColumn(ValueError, AttributeError):
    """A method reads a column that the batch was made without."""


def _absent() -> Any:
    """Default of a column, which leaves no attribute of the class in the way of `__getattr__`."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Turns:
    """A batch of M trajectories with N turns in total.

    The rows of a trajectory are contiguous and in order. Columns may be any sequences. They are
    copied, checked and made read-only. Text columns hold str; a column of integers is converted.
    Integer columns take whole numbers of any type, as 1, 1.0 or True. A number that leaves its
    range by at most 1e-6 was rounded, and is set to the end of the range.

    Only `group`, `outcome` and `trajectory` must be given. Reading a column that was left out, as a
    method does that needs it, raises `MissingColumn`. `turn_reward`, `entropy`, `gold_logprob`
    and `progress_before` are None instead if they were left out; `read_measured` and
    `verifier_reward` raise `MissingColumn`.

    Args:
        group: [M] int, task group; trajectories of a group share the task and its initial state.
        outcome: [M] score S(τ) or R(τ): what the environment paid in the whole trajectory.
        goal: [M] goal text.
        trajectory: [N] int, trajectory of the turn, 0..M-1, non-decreasing.
        reward: [N] reward of the turn, without the outcome; with the outcome added on last turns it
            is what was paid for each turn (`read_paid`).
        valid: [N] bool, whether the reply format and the environment accepted the action.
        progress: [N] progress after the turn, in [0, 1].
        anchor: [N] key of the state in which the action was taken.
        action: [N] environment action, without the model's thinking.
        turn_reward: [N, R] rewards of named verifiers, or None.
        turn_reward_names: Names of the R verifiers.
        entropy: [N] mean token entropy of the action in nats, or None.
        gold_logprob: [N] mean log-probability of the tokens of the right answer in nats, if the
            model had to give it at once instead of taking the action, or None.
        progress_before: [N] progress before the turn, in [0, 1], which is read of first turns; None
            for trajectories that begin at 0.
        outcome_in_reward: True if `reward` on the last turn of a trajectory includes the outcome,
            as in a Gymnasium environment: the outcome is subtracted there. The numbers are never
            looked at to find out.

    Raises:
        ValueError: Columns of unequal length, a trajectory without turns or out of order, a number
            that is None, NaN, infinite or 1e100 or more, progress outside [0, 1], a negative
            entropy, a positive log-probability, or verifiers without unique names. The message
            names column and row.
        TypeError: An unknown column, or one of another type, such as arrays as anchors or text as
            numbers.
    """

    group: NDArray[np.int64]
    outcome: NDArray[np.float64]
    trajectory: NDArray[np.int64]
    goal: NDArray[np.object_] = field(default_factory=_absent)
    reward: NDArray[np.float64] = field(default_factory=_absent)
    valid: NDArray[np.bool_] = field(default_factory=_absent)
    progress: NDArray[np.float64] = field(default_factory=_absent)
    anchor: NDArray[np.object_] = field(default_factory=_absent)
    action: NDArray[np.object_] = field(default_factory=_absent)
    turn_reward: NDArray[np.float64] | None = None
    turn_reward_names: tuple[str, ...] = ()
    entropy: NDArray[np.float64] | None = None
    gold_logprob: NDArray[np.float64] | None = None
    progress_before: NDArray[np.float64] | None = None
    outcome_in_reward: InitVar[bool] = False

    def __post_init__(self, outcome_in_reward: bool) -> None:
        for name in KINDS:
            if (column := getattr(self, name)) is not None:
                object.__setattr__(self, name, as_column(name, column))
            elif name not in MEASURED:
                object.__delattr__(self, name)  # so that reading it calls __getattr__
        table, names = as_verifiers(self.turn_reward, self.turn_reward_names)
        object.__setattr__(self, "turn_reward", table)
        object.__setattr__(self, "turn_reward_names", names)
        self._check_rows()
        if outcome_in_reward:
            paid = self.reward - np.where(self.last, self.outcome[self.trajectory], 0.0)
            object.__setattr__(self, "reward", as_vector("reward", paid))

    def __len__(self) -> int:
        """Number of turns N."""
        return len(self.trajectory)

    def __repr__(self) -> str:
        held = ", ".join(name for name in (*PER_TRAJECTORY, *PER_TURN, *OPTIONAL) if self.has(name))
        return f"Turns({len(self.group)} trajectories, {len(self)} turns: {held})"

    def __getattr__(self, name: str) -> Any:
        """Refuse to read a column that was left out."""
        if name in PER_TRAJECTORY | PER_TURN:
            zeros = ", or zeros if turns are not paid" if name == "reward" else ""
            raise MissingColumn(f"this method reads the column {name!r}; give it{zeros}")
        raise AttributeError(f"'Turns' object has no attribute {name!r}", name=name, obj=self)

    def has(self, name: str) -> bool:
        """Whether the batch has a column."""
        return self.__dict__.get(name) is not None

    @property
    def group_of_turn(self) -> NDArray[np.int64]:
        """Group of each turn's trajectory: [N]."""
        return self.group[self.trajectory]

    @property
    def position(self) -> NDArray[np.intp]:
        """Index of each turn in its trajectory, from 0: [N]."""
        first = np.searchsorted(self.trajectory, np.arange(len(self.group)))
        return np.arange(len(self)) - first[self.trajectory]

    def read_paid(self) -> NDArray[np.float64]:
        """What was paid for each turn: its reward, plus the outcome on the last turn: [N]."""
        return np.asarray(self.reward + self.last * self.outcome[self.trajectory])

    def read_gain(self) -> NDArray[np.float64]:
        """Progress that each turn made, which need not begin at 0: [N]."""
        start = 0.0 if self.progress_before is None else self.progress_before
        before = np.where(self.position == 0, start, np.roll(self.progress, 1))
        return np.asarray(self.progress - before)

    @property
    def last(self) -> NDArray[np.bool_]:
        """Whether the turn is the last one of its trajectory: [N] bool."""
        ends: NDArray[np.bool_] = np.ones(len(self), dtype=np.bool_)
        ends[:-1] = np.diff(self.trajectory) > 0
        return ends

    def segment_ids(self, by: str) -> NDArray[np.intp]:
        """Ids of the sets of turns that are compared with each other: [N].

        Args:
            by: "group" compares all turns of a group, "position" those at the same position in
                their trajectories, "anchor" those taken in the same state.
        """
        if by == "group":
            return stats.make_ids(self.group_of_turn)
        return stats.make_ids(self.group_of_turn, getattr(self, by))

    def verifier_reward(self, name: str) -> NDArray[np.float64]:
        """Reward of one verifier: [N].

        Raises:
            MissingColumn: The batch has no `turn_reward` of that name.
        """
        if not len(self):
            return np.zeros(0)
        if self.turn_reward is None or name not in self.turn_reward_names:
            known = suggest_name(name, self.turn_reward_names)
            raise MissingColumn(f"this method reads a turn_reward named {name!r}{known}")
        return self.turn_reward[:, self.turn_reward_names.index(name)]

    def summed_verifier_reward(self) -> NDArray[np.float64]:
        """Sum of the rewards of all verifiers: [N].

        Raises:
            MissingColumn: The batch has no `turn_reward`.
        """
        if len(self) and self.turn_reward is None:
            raise MissingColumn(
                f"this method reads the column turn_reward; {_REMEDIES['turn_reward']}"
            )
        return np.zeros(0) if self.turn_reward is None else self.turn_reward.sum(axis=1)

    def read_measured(self, name: str) -> NDArray[np.float64]:
        """The column `entropy` or `gold_logprob`: [N].

        Raises:
            MissingColumn: It was not measured.
        """
        column: NDArray[np.float64] | None = getattr(self, name)
        if len(self) and column is None:
            raise MissingColumn(f"this method reads the column {name}; {_REMEDIES[name]}")
        return np.zeros(0) if column is None else column

    def check_binary(self, why: str) -> None:
        """Raise ValueError if an outcome is neither 0 nor 1."""
        wrong = np.flatnonzero((self.outcome != 0) & (self.outcome != 1))
        if len(wrong):
            shown = f"{self.outcome[wrong[0]]} in row {wrong[0]}"
            remedy = "pass success (Sokoban and EZPoints: reward='success')"
            raise ValueError(f"outcome must be 0 or 1 because {why}, got {shown}; {remedy}")

    @classmethod
    def from_episodes(cls, episodes: Iterable[Any], *, outcome_in_reward: bool = False) -> Self:
        """Build a batch from recorded episodes.

        Args:
            episodes: Objects with `group`, `outcome`, `goal` and `turns`. A turn has `reward`,
                `valid`, `progress`, `anchor` (of the state in which it was taken) and `action`.
                It may have `entropy`, `gold_logprob`, `progress_before`, and `turn_reward`, a
                mapping from verifier names to rewards; then every turn of the batch must have it.
            outcome_in_reward: As in `Turns`.
        """
        played = list(episodes)
        rows = [turn for episode in played for turn in episode.turns]
        owner = np.repeat(np.arange(len(played)), [len(episode.turns) for episode in played])
        columns: dict[str, Any] = {n: [getattr(e, n) for e in played] for n in PER_TRAJECTORY}
        columns |= {n: [getattr(t, n) for t in rows] for n in RECORDED}
        for name in MEASURED:
            values = [getattr(turn, name, None) for turn in rows]
            columns[name] = values if any(value is not None for value in values) else None
        paid = group_by_verifier([getattr(turn, "turn_reward", None) or {} for turn in rows])
        columns |= stack_turn_rewards(paid)
        return cls(trajectory=owner, **columns, outcome_in_reward=outcome_in_reward)

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_table` to a file; needs pyarrow."""
        import pyarrow.parquet as pq

        pq.write_table(self.to_table(), path)

    @classmethod
    def from_parquet(cls, path: str | Path) -> Self:
        """Read a file that `to_parquet` wrote; needs pyarrow."""
        import pyarrow.parquet as pq

        return cls.from_table(pq.read_table(path))

    def to_table(self) -> "pa.Table":
        """One row per turn, with the columns of its trajectory repeated; needs pyarrow."""
        import pyarrow as pa

        columns = {name: getattr(self, name) for name in (*PER_TURN, *MEASURED) if self.has(name)}
        columns |= {
            name: getattr(self, name)[self.trajectory] for name in PER_TRAJECTORY if self.has(name)
        }
        columns |= {_PREFIX + name: self.verifier_reward(name) for name in self.turn_reward_names}
        texts = dict.fromkeys(("goal", "anchor", "action"), pa.string())
        arrays = {name: pa.array(column, texts.get(name)) for name, column in columns.items()}
        return pa.table(arrays)

    @classmethod
    def from_table(cls, table: "pa.Table") -> Self:
        """The batch of a table that `to_table` made."""
        columns = {n: table[n].to_numpy() for n in table.column_names}
        first = np.unique(columns["trajectory"], return_index=True)[1]
        given: dict[str, Any] = {
            name: column[first] if name in PER_TRAJECTORY else column
            for name, column in columns.items()
            if name in KINDS
        }
        paid = {n.removeprefix(_PREFIX): c for n, c in columns.items() if n.startswith(_PREFIX)}
        return cls(**given, **stack_turn_rewards(paid))

    def _check_rows(self) -> None:
        """Check the lengths of the columns and the order of the trajectories."""
        each = {"group": tuple(PER_TRAJECTORY), "trajectory": (*PER_TURN, *OPTIONAL)}
        for like, names in each.items():
            for name in filter(self.has, names):
                check_length(name, getattr(self, name), like, len(getattr(self, like)))
        owners, count = self.trajectory, len(self.group)
        step = np.diff(owners, prepend=-1)
        in_order = (owners >= 0) & (owners < count) & (step >= 0) & (step <= 1)
        rule = f"number the {count} trajectories of group 0, 1, 2, ... in the order of their turns"
        check_rows("trajectory", owners, in_order, rule)
        if count != (played := owners.max(initial=-1) + 1):
            raise ValueError(f"group has {count} rows, but {played} trajectories have turns")
