"""Turns: one batch of trajectories as columns, the only thing that estimators read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from credit import segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_PER_TRAJECTORY = ("group", "outcome", "goal")
_KINDS: dict[str, Any] = {
    "group": np.int64,
    "outcome": np.float64,
    "goal": object,
    "trajectory": np.int64,
    "reward": np.float64,
    "valid": np.bool_,
    "progress": np.float64,
    "anchor": object,
    "action": object,
}
_NUMBERS = ("outcome", "reward", "progress", "turn_reward", "entropy")


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

    Raises:
        ValueError: unequal lengths, a trajectory without turns or out of order, NaN or infinity,
            progress outside [0, 1]; names column and row.
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
    entropy: NDArray[np.float64] | None = field(default=None)

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            object.__setattr__(self, name, _column(name, getattr(self, name), kind))
        object.__setattr__(self, "turn_reward_names", tuple(self.turn_reward_names))
        if self.entropy is not None:
            object.__setattr__(self, "entropy", _column("entropy", self.entropy, np.float64))
        if self.turn_reward is not None:
            rewards = np.asarray(self.turn_reward, dtype=np.float64)
            rewards = (
                rewards.reshape(0, len(self.turn_reward_names)) if not rewards.size else rewards
            )
            object.__setattr__(self, "turn_reward", rewards)
        self._check_lengths()
        self._check_order()
        self._check_numbers()

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
        return segments.rank_position(self.trajectory)

    @property
    def last(self) -> NDArray[np.bool_]:
        """[N] is it its trajectory's last turn."""
        ends: NDArray[np.bool_] = np.ones(len(self), dtype=np.bool_)
        ends[:-1] = np.diff(self.trajectory) > 0
        return ends

    @classmethod
    def from_episodes(cls, episodes: Iterable[Any]) -> Turns:
        """The batch of recorded episodes.

        An episode has `group`, `outcome`, `goal` and `turns` (or `steps`), a turn has `reward`,
        `valid`, `progress`, `anchor` (of the state it was taken in) and `action`, and may have
        `entropy` and `turn_reward` (a mapping of verifier names to rewards), on all turns or none.
        """
        played = list(episodes)
        taken = [_turns_of(episode) for episode in played]
        rows = [turn for turns in taken for turn in turns]
        entropies = [getattr(turn, "entropy", None) for turn in rows]
        verified = [getattr(turn, "turn_reward", None) for turn in rows]
        names = tuple(verified[0]) if verified and verified[0] is not None else ()
        return cls(
            group=[episode.group for episode in played],  # type: ignore[arg-type]
            outcome=[episode.outcome for episode in played],  # type: ignore[arg-type]
            goal=[episode.goal for episode in played],  # type: ignore[arg-type]
            trajectory=np.repeat(np.arange(len(played)), [len(turns) for turns in taken]),
            **{
                name: [getattr(turn, name) for turn in rows]  # type: ignore[arg-type]
                for name in ("reward", "valid", "progress", "anchor", "action")
            },
            turn_reward=_verified(verified, names) if names else None,
            turn_reward_names=names,
            entropy=None if None in entropies or not rows else entropies,  # type: ignore[arg-type]
        )

    def to_parquet(self, path: str | Path) -> None:
        """Write one row a turn, its trajectory's columns repeated (needs pyarrow)."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {
            name: list(getattr(self, name)) for name in _KINDS if name not in _PER_TRAJECTORY
        }
        columns |= {name: list(getattr(self, name)[self.trajectory]) for name in _PER_TRAJECTORY}
        if self.entropy is not None:
            columns["entropy"] = list(self.entropy)
        for place, name in enumerate(self.turn_reward_names):
            if self.turn_reward is not None:
                columns[f"turn_reward.{name}"] = list(self.turn_reward[:, place])
        types = {"trajectory": pa.int64(), "group": pa.int64(), "valid": pa.bool_()}
        texts = dict.fromkeys(("goal", "anchor", "action"), pa.string())
        arrays = {
            n: pa.array(v, types.get(n, texts.get(n, pa.float64()))) for n, v in columns.items()
        }
        pq.write_table(pa.table(arrays), path)

    @classmethod
    def from_parquet(cls, path: str | Path) -> Turns:
        """Read what `to_parquet` wrote."""
        import pyarrow.parquet as pq

        columns = pq.read_table(path).to_pydict()
        trajectory = np.asarray(columns["trajectory"], dtype=np.int64)
        first = np.flatnonzero(np.r_[True, np.diff(trajectory) > 0][: len(trajectory)])
        prefix = "turn_reward."
        names = tuple(name.removeprefix(prefix) for name in columns if name.startswith(prefix))
        verified = np.array([columns[prefix + name] for name in names], dtype=np.float64).T
        named = {n: columns[n] for n in _KINDS if n not in _PER_TRAJECTORY}
        named |= {n: [columns[n][row] for row in first] for n in _PER_TRAJECTORY}
        return cls(
            **named,
            turn_reward=verified if names else None,
            turn_reward_names=names,
            entropy=columns.get("entropy"),
        )

    def _check_lengths(self) -> None:
        for one, names in (
            (len(self.group), _PER_TRAJECTORY),
            (
                len(self),
                [n for n in _KINDS if n not in _PER_TRAJECTORY] + ["turn_reward", "entropy"],
            ),
        ):
            for name in names:
                column = getattr(self, name)
                if column is not None and len(column) != one:
                    like = "group" if name in _PER_TRAJECTORY else "trajectory"
                    raise ValueError(
                        f"{name} has {len(column)} rows, {like} has {one}; give as many"
                    )
        shape = () if self.turn_reward is None else self.turn_reward.shape[1:]
        if self.turn_reward is not None and shape != (len(self.turn_reward_names),):
            raise ValueError(
                f"turn_reward has shape {self.turn_reward.shape}, turn_reward_names has "
                f"{len(self.turn_reward_names)} names; give [N, R] rewards and R names"
            )

    def _check_order(self) -> None:
        owners, expected = self.trajectory, len(self.group)
        wrong = np.flatnonzero(np.diff(np.r_[-1, owners]) < 0)
        if len(wrong):
            raise ValueError(
                f"trajectory row {wrong[0]} is {owners[wrong[0]]} after {owners[wrong[0] - 1]}; "
                f"rows of a trajectory stand together, in order"
            )
        missing = np.setdiff1d(np.arange(expected), owners)
        if len(missing) or (len(owners) and owners[-1] >= expected):
            raise ValueError(
                f"trajectory {missing[0]} of {expected} has no turn; every trajectory needs one"
                if len(missing)
                else f"trajectory row {len(owners) - 1} is {owners[-1]}, group has {expected} rows"
            )

    def _check_numbers(self) -> None:
        for name in _NUMBERS:
            column = getattr(self, name)
            if column is None:
                continue
            wrong = np.argwhere(~np.isfinite(column))
            if len(wrong):
                raise ValueError(
                    f"{name} row {wrong[0][0]} is {column[tuple(wrong[0])]}, not finite"
                )
        outside = np.flatnonzero((self.progress < 0) | (self.progress > 1))
        if len(outside):
            row = outside[0]
            raise ValueError(f"progress row {row} must lie in [0, 1], got {self.progress[row]}")


def _column(name: str, given: Any, kind: Any) -> NDArray[Any]:
    """A vector of the column's type, read-only; the caller's own array is left as it is."""
    if kind is object:
        column = np.empty(len(given), dtype=object)
        column[:] = [str(text) for text in given]
    else:
        column = np.array(given, dtype=kind)
    if column.ndim != 1:
        raise ValueError(f"{name} is a vector, got shape {column.shape}")
    column.flags.writeable = False
    return column


def _turns_of(episode: Any) -> Sequence[Any]:
    turns: Sequence[Any] = episode.turns if hasattr(episode, "turns") else episode.steps
    return turns


def _verified(rewards: Sequence[Any], names: tuple[str, ...]) -> NDArray[np.float64]:
    for row, given in enumerate(rewards):
        if given is None or set(given) != set(names):
            raise ValueError(
                f"turn_reward row {row} has {sorted(given or ())}, the first has {sorted(names)}; "
                f"every turn needs the same verifiers"
            )
    return np.array([[given[name] for name in names] for given in rewards], dtype=np.float64)
