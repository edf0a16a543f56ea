"""Turns: one batch of trajectories as columns, the only thing that estimators read."""

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from credit import segments
from credit.choices import array, finite, nearest

_PER_TRAJECTORY: dict[str, Any] = {"group": np.int64, "outcome": np.float64, "goal": object}
_PER_TURN: dict[str, Any] = {
    "trajectory": np.int64,
    "reward": np.float64,
    "valid": np.bool_,
    "progress": np.float64,
    "anchor": object,
    "action": object,
}
_NUMBERS = ("outcome", "reward", "progress", "turn_reward", "entropy")
_PREFIX = "turn_reward."


@dataclass(frozen=True, eq=False)
class Turns:
    """One batch: M trajectories, N turns; rows of a trajectory are contiguous and in order.

    Args:
        group: [M] int; trajectories of one group share task and initial state.
        outcome: [M] terminal score S(τ) or R(τ).
        goal: [M] goal text.
        trajectory: [N] int, owner of the turn, 0..M-1, non-decreasing.
        reward: [N] what the environment paid for the turn, besides the outcome.
        valid: [N] bool, did format and environment accept the action.
        progress: [N] progress after the turn, in [0, 1].
        anchor: [N] key of the state the action was taken in.
        action: [N] the environment action, thinking dropped.
        turn_reward: [N, R] rewards of named verifiers, or None.
        turn_reward_names: R names.
        entropy: [N] mean token entropy of the action in nats, or None.
        outcome_in_reward: whether `reward` on a trajectory's last turn includes its outcome, as
            the rewards of a Gymnasium environment do. True subtracts it there; False takes the
            columns as they are; None does too, unless they look as if it were included.

    Columns may be any sequences; they are copied, checked and made read-only. Texts are str, or
    all integers, which are written as text.

    Raises:
        ValueError: unequal lengths, a trajectory without turns or out of order, NaN, infinity or a
            number of 1e100 or more, progress outside [0, 1], an entropy below 0, an outcome that
            would be counted twice, verifiers without names of their own; names column and row.
        TypeError: a column of another type, as arrays for anchors or text for numbers.
    """

    group: NDArray[np.int64]
    outcome: NDArray[np.float64]
    goal: NDArray[np.object_]
    trajectory: NDArray[np.int64]
    reward: NDArray[np.float64]
    valid: NDArray[np.bool_]
    progress: NDArray[np.float64]
    anchor: NDArray[np.object_]
    action: NDArray[np.object_]
    turn_reward: NDArray[np.float64] | None = None
    turn_reward_names: tuple[str, ...] = ()
    entropy: NDArray[np.float64] | None = None
    outcome_in_reward: InitVar[bool | None] = None

    def __post_init__(self, outcome_in_reward: bool | None) -> None:
        if not (outcome_in_reward is None or isinstance(outcome_in_reward, bool | np.bool_)):
            raise TypeError(f"outcome_in_reward is True, False or None, got {outcome_in_reward!r}")
        columns = {
            name: _column(name, getattr(self, name), kind)
            for name, kind in (_PER_TRAJECTORY | _PER_TURN).items()
        }
        if self.entropy is not None:
            columns["entropy"] = _column("entropy", self.entropy, np.float64)
        names = _names(self.turn_reward_names)
        if self.turn_reward is not None:
            columns["turn_reward"] = _table(self.turn_reward, names)
        elif names:
            raise ValueError(f"turn_reward_names are {names}, but there is no turn_reward")
        for name, value in (columns | {"turn_reward_names": names}).items():
            object.__setattr__(self, name, value)
        self._check_lengths()
        self._check_order()
        for name in _NUMBERS:
            if getattr(self, name) is not None:
                finite(name, getattr(self, name))
        self._check_progress()
        self._check_entropy()
        if outcome_in_reward:
            paid = self.reward - np.where(self.last, self.outcome[self.trajectory], 0.0)
            object.__setattr__(self, "reward", _column("reward", paid, np.float64))
        elif outcome_in_reward is None:
            self._check_counted_once()

    def __len__(self) -> int:
        """Number of turns N."""
        return len(self.trajectory)

    @property
    def group_of_turn(self) -> NDArray[np.int64]:
        """[N] group of each turn's trajectory."""
        return self.group[self.trajectory]

    @property
    def position(self) -> NDArray[np.intp]:
        """[N] place of each turn in its trajectory, from 0."""
        first = np.searchsorted(self.trajectory, np.arange(len(self.group)))
        return np.arange(len(self)) - first[self.trajectory]

    @property
    def last(self) -> NDArray[np.bool_]:
        """[N] is it its trajectory's last turn."""
        ends: NDArray[np.bool_] = np.ones(len(self), dtype=np.bool_)
        ends[:-1] = np.diff(self.trajectory) > 0
        return ends

    def segment(self, by: str) -> NDArray[np.intp]:
        """[N] ids of turns to compare: of one "group", and there of one "position" or "anchor"."""
        if by == "group":
            return segments.labels(self.group_of_turn)
        return segments.labels(self.group_of_turn, getattr(self, by))

    def verified(self, name: str | None = None) -> NDArray[np.float64]:
        """[N] reward of the verifier of that name, or the sum over all verifiers.

        Raises:
            ValueError: there is no `turn_reward`, or none of that name.
        """
        if not len(self):
            return np.zeros(0)
        if self.turn_reward is None or (name and name not in self.turn_reward_names):
            wanted = f"a turn_reward named {name!r}" if name else "the column turn_reward"
            raise ValueError(f"this method reads {wanted}{nearest('', self.turn_reward_names)}")
        if name:
            return self.turn_reward[:, self.turn_reward_names.index(name)]
        total: NDArray[np.float64] = self.turn_reward.sum(axis=1)
        return total

    def uncertainty(self) -> NDArray[np.float64]:
        """[N] the column entropy.

        Raises:
            ValueError: it was not recorded.
        """
        if self.entropy is None and len(self):
            raise ValueError(
                f"this method reads the column entropy, which none of {len(self)} turns has; "
                f"record the mean token entropy of each action at sampling"
            )
        return np.zeros(0) if self.entropy is None else self.entropy

    def check_binary(self, why: str) -> None:
        """Refuse outcomes other than 0 and 1."""
        wrong = np.flatnonzero((self.outcome != 0) & (self.outcome != 1))
        if len(wrong):
            raise ValueError(
                f"outcome must be 0 or 1, because {why}, got {self.outcome[wrong[0]]} in row "
                f"{wrong[0]}; pass success as outcome"
            )

    @classmethod
    def from_episodes(
        cls, episodes: Iterable[Any], *, outcome_in_reward: bool | None = None
    ) -> Self:
        """The batch of recorded episodes.

        An episode has `group`, `outcome`, `goal` and `turns`; a turn has `reward`, `valid`,
        `progress`, `anchor` (of the state it was taken in) and `action`, and may have `entropy` and
        `turn_reward` (a mapping of verifier names to rewards), on all turns or none.
        """
        played = list(episodes)
        rows = [turn for episode in played for turn in episode.turns]
        owner = np.repeat(np.arange(len(played)), [len(episode.turns) for episode in played])
        columns: dict[str, Any] = {n: [getattr(e, n) for e in played] for n in _PER_TRAJECTORY}
        columns |= {n: [getattr(t, n) for t in rows] for n in _PER_TURN if n != "trajectory"}
        entropies = [getattr(turn, "entropy", None) for turn in rows]
        if any(entropy is not None for entropy in entropies):
            columns["entropy"] = entropies
        columns |= _verifiers(rows)
        return cls(trajectory=owner, **columns, outcome_in_reward=outcome_in_reward)

    def to_parquet(self, path: str | Path) -> None:
        """Write one row a turn, its trajectory's columns repeated (needs pyarrow)."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {name: getattr(self, name) for name in _PER_TURN}
        columns |= {name: getattr(self, name)[self.trajectory] for name in _PER_TRAJECTORY}
        if self.entropy is not None:
            columns["entropy"] = self.entropy
        columns |= {_PREFIX + name: self.verified(name) for name in self.turn_reward_names}
        texts = dict.fromkeys(("goal", "anchor", "action"), pa.string())
        arrays = {name: pa.array(column, texts.get(name)) for name, column in columns.items()}
        pq.write_table(pa.table(arrays), path)

    @classmethod
    def from_parquet(cls, path: str | Path) -> Self:
        """Read what `to_parquet` wrote."""
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        columns = {n: table[n].to_numpy() for n in table.column_names}
        first = np.unique(columns["trajectory"], return_index=True)[1]
        named: dict[str, Any] = {n: columns[n][first] for n in _PER_TRAJECTORY}
        named |= {n: columns[n] for n in (*_PER_TURN, "entropy") if n in columns}
        names = tuple(n.removeprefix(_PREFIX) for n in columns if n.startswith(_PREFIX))
        if names:
            named["turn_reward"] = np.stack([columns[_PREFIX + name] for name in names], axis=1)
        return cls(**named, turn_reward_names=names, outcome_in_reward=False)

    def _check_lengths(self) -> None:
        for like, names in (
            ("group", tuple(_PER_TRAJECTORY)),
            ("trajectory", (*_PER_TURN, "turn_reward", "entropy")),
        ):
            rows = len(getattr(self, like))
            for name in names:
                column = getattr(self, name)
                if column is not None and len(column) != rows:
                    raise ValueError(f"{name} has {len(column)} rows, {like} has {rows}")

    def _check_order(self) -> None:
        owners, expected = self.trajectory, len(self.group)
        wrong = np.flatnonzero(np.diff(owners, prepend=0) < 0)
        if len(wrong):
            raise ValueError(
                f"trajectory row {wrong[0]} is {owners[wrong[0]]} after "
                f"{owners[wrong[0] - 1] if wrong[0] else 'nothing'}; "
                f"rows of a trajectory stand together, in order, from 0"
            )
        missing = np.setdiff1d(np.arange(expected), owners)
        if len(missing):
            raise ValueError(f"trajectory {missing[0]} of {expected} has no turn; each needs one")
        if len(owners) and owners[-1] >= expected:
            row = int(np.searchsorted(owners, expected))
            raise ValueError(f"trajectory row {row} is {owners[row]}, group has {expected} rows")

    def _check_progress(self) -> None:
        outside = np.flatnonzero((self.progress < 0) | (self.progress > 1))
        if len(outside):
            row = outside[0]
            raise ValueError(f"progress row {row} must lie in [0, 1], got {self.progress[row]}")

    def _check_entropy(self) -> None:
        if self.entropy is None:
            return
        below = np.flatnonzero(self.entropy < 0)
        if len(below):
            raise ValueError(
                f"entropy row {below[0]} must be at least 0 nats, got {self.entropy[below[0]]}; "
                f"a mean log-probability is its negative"
            )

    def _check_counted_once(self) -> None:
        """Refuse rewards that hold the outcome: at the last turns, or in sum over trajectories."""
        if not self.outcome.any():
            return
        ended = self.outcome != 0
        summed = np.bincount(self.trajectory, self.reward, len(self.group))
        if np.array_equal(self.reward[self.last][ended], self.outcome[ended]):
            where = "on the last turn of every trajectory whose outcome is not 0"
        elif np.allclose(summed, self.outcome, rtol=1e-9, atol=1e-12):
            where = "summed over the turns of every trajectory"
        else:
            return
        raise ValueError(
            f"reward {where} equals its outcome, which methods that read both would count twice; "
            f"reward is what was paid besides the outcome. Pass outcome_in_reward=True to subtract "
            f"the outcome from the last turns, or False if the columns are meant like this"
        )


def _column(name: str, given: Any, kind: Any) -> NDArray[Any]:
    """A vector of the column's type, read-only; the caller's own array is left as it is."""
    if kind is object:
        return _texts(name, given)
    plain = array(name, given)
    if plain.ndim != 1:
        raise ValueError(f"{name} is a vector, got shape {plain.shape}")
    if plain.dtype.kind == "O":  # as None among numbers
        plain = array(name, [np.nan if value is None else value for value in plain.tolist()])
    if plain.dtype.kind not in "biuf" and plain.size:
        remedy = "; number them by np.unique(group, return_inverse=True)[1]"
        raise TypeError(
            f"{name} row 0 is {plain[0]!r:.60}, not {np.dtype(kind).name}"
            f"{remedy if name == 'group' else ''}"
        )
    with np.errstate(invalid="ignore"):  # NaN among integers is refused below, by row
        column = np.array(plain, dtype=kind)
    if kind is not np.float64 and plain.size and (column != plain).any():
        row = np.argwhere(column != plain)[0][0]
        raise ValueError(f"{name} row {row} is {plain[row]}, not {np.dtype(kind).name}")
    column.flags.writeable = False
    return column


def _texts(name: str, given: Any) -> NDArray[np.object_]:
    """A vector of str, read-only; integers are written as text if all rows are."""
    if isinstance(given, str | bytes):
        raise TypeError(f"{name} has a text for each row, got the single text {given!r:.60}")
    rows = given.tolist() if isinstance(given, np.ndarray) else list(given)
    kinds = set(map(type, rows))
    if kinds - {str}:
        whole = all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
        if not whole:
            _check_texts(name, rows)
        rows = list(map(str, rows))
    column = np.empty(len(rows), dtype=object)
    column[:] = rows
    column.flags.writeable = False
    return column


def _check_texts(name: str, rows: Sequence[Any]) -> None:
    """Refuse rows that are not text: what they are turned into might not tell them apart."""
    for row, value in enumerate(rows):
        if not isinstance(value, str):
            remedy = "text, or all integers"
            if name == "anchor":
                remedy += "; of an array, hashlib.sha256(array.tobytes()).hexdigest() is a key"
            kind = type(value).__name__
            raise TypeError(f"{name} row {row} is {value!r:.60} ({kind}); {name} is {remedy}")


def _names(given: Any) -> tuple[str, ...]:
    """The names of verifiers, which tell them apart."""
    names = () if isinstance(given, str) else tuple(given)
    texts = not isinstance(given, str) and all(isinstance(name, str) and name for name in names)
    if not texts or len(set(names)) < len(names):
        raise ValueError(f"turn_reward_names are different texts in a tuple, got {given!r:.80}")
    return names


def _table(given: Any, names: tuple[str, ...]) -> NDArray[np.float64]:
    rewards = np.array(array("turn_reward", given), dtype=np.float64)
    if not rewards.size and rewards.ndim < 2:  # noqa: PLR2004  an empty list
        rewards = rewards.reshape(-1 if names else 0, len(names))
    if rewards.shape[1:] != (len(names),):
        raise ValueError(
            f"turn_reward has shape {rewards.shape}, turn_reward_names has {len(names)} names; "
            f"give [N, R] rewards and R names"
        )
    rewards.flags.writeable = False
    return rewards


def _verifiers(rows: Sequence[Any]) -> dict[str, Any]:
    """The columns turn_reward and turn_reward_names of turns, if these have them."""
    given = [getattr(turn, "turn_reward", None) or {} for turn in rows]
    names = tuple(given[0]) if given else ()
    for row, rewards in enumerate(given):
        if set(rewards) != set(names):
            raise ValueError(
                f"turn_reward row {row} has {sorted(rewards)}, the first has {sorted(names)}; "
                f"every turn needs the same verifiers"
            )
    if not names:
        return {}
    table = [[rewards[name] for name in names] for rewards in given]
    return {"turn_reward": table, "turn_reward_names": names}
