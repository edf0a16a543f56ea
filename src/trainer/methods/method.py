"""The method every other one extends: the advantages of an estimator, nothing learned beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trainer.batch import credited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from credit import Estimator, Turns
    from trainer.batch import Row
    from trainer.episodes import Episode
    from trainer.policy import Policy


@dataclass(frozen=True)
class Experience:
    """What the rollouts of one step gave.

    Attributes:
        step: Step of the run.
        episodes: The M trajectories.
        turns: Their N turns as columns.
        rows: Their token rows, all turns.
        rng: For what draws.
    """

    step: int
    episodes: Sequence[Episode]
    turns: Turns
    rows: list[Row]
    rng: np.random.Generator


class Credited(NamedTuple):
    """What a method makes of a step's rollouts.

    Attributes:
        rows: The rows with advantages.
        advantage: Mean advantage of each turn, [N].
        figures: To log.
        more: Adds gradients beyond the surrogate's for rows of one optimiser step; their loss.
    """

    rows: list[Row]
    advantage: NDArray[np.float64]
    figures: dict[str, float]
    more: Callable[[Sequence[Row]], float] | None = None


class Method:
    """An estimator as a method; the base of those that learn something beside the policy.

    Attributes:
        estimator: The estimator.
        blind: What prompts leave out that the method needs recorded, see `Rollouts.blind`.
        needs: Optional columns of `Turns` that the environment has to report.
        needs_reference: Whether it asks the policy's reference, which is then kept.
    """

    blind: tuple[str, ...] = ()
    needs_reference: bool = False
    needs: tuple[str, ...] = ()
    policy: Policy
    folder: Path

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.needs = tuple(getattr(estimator, "needs", ()))

    def begin(self, policy: Policy, folder: Path) -> None:
        """Start reinforcement learning from this policy; `folder` is the run's."""
        self.policy, self.folder = policy, folder

    def credit(self, experience: Experience) -> Credited:
        """The credit of a step's rollouts; a model of the method's own learns from them too."""
        advantage = self.estimator(experience.turns, experience.rng)
        return Credited(credited(experience.rows, advantage), advantage, {})

    def save(self, folder: Path) -> None:
        """Write what the method has learned into a checkpoint."""

    def restore(self, folder: Path) -> None:
        """Take over what `save` wrote, after `begin`."""


def pair_accuracy(returns: NDArray[np.float64], pairs: NDArray[np.intp]) -> float:
    """Share of (better, worse) pairs [K, 2] with the better return [M] higher; a tie is half."""
    lead = returns[pairs[:, 0]] - returns[pairs[:, 1]]
    return float(np.mean((lead > 0) + 0.5 * (lead == 0)))


def of_turns(rows: Sequence[Row], count: int) -> NDArray[np.float64]:
    """Mean advantage of each turn's reply tokens: -> [N], 0 where there is none."""
    turn = np.array([t for row in rows for t in row.turn], dtype=np.intp)
    values = np.array([a for row in rows for a in row.advantage or ()], dtype=np.float64)
    total = np.bincount(turn, values, count)
    return total / np.maximum(np.bincount(turn, minlength=count), 1)
