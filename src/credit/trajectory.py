"""One advantage a trajectory, given to each of its turns: REINFORCE, GRPO, RLOO and their kin."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from credit import segments
from credit.choices import nonnegative
from credit.turns import Turns


@dataclass(frozen=True)
class Reinforce:
    """A(τ) = R(τ): [N]."""

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Advantage of each turn; `rng` is not used."""
        return turns.outcome[turns.trajectory]


@dataclass(frozen=True)
class ReinforcePP:
    """A(τ) = (R - mean of the batch) / (std of the batch + eps): [N]. REINFORCE++."""

    eps: float = 1e-6

    def __post_init__(self) -> None:
        nonnegative("eps", self.eps, "it is added to a deviation")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Advantage of each turn; `rng` is not used."""
        whole = np.zeros(len(turns.outcome), dtype=np.intp)
        return segments.standardize(turns.outcome, whole, eps=self.eps)[turns.trajectory]


@dataclass(frozen=True)
class GRPO:
    """A(τ) = (R - mean of the group) / (std of the group + eps): [N]. HAS Eq. 1, iStar Eq. 3."""

    eps: float = 1e-6

    def __post_init__(self) -> None:
        nonnegative("eps", self.eps, "it is added to a deviation")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Advantage of each turn; `rng` is not used."""
        return segments.standardize(turns.outcome, turns.group, eps=self.eps)[turns.trajectory]


@dataclass(frozen=True)
class DrGRPO:
    """A(τ) = R - mean of the group: [N]. GRPO without the division by the deviation."""

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Advantage of each turn; `rng` is not used."""
        return segments.center(turns.outcome, turns.group)[turns.trajectory]


@dataclass(frozen=True)
class RLOO:
    """A(τ) = R - mean of the others in the group: [N]. MT-GRPO Eq. 5, MGR Eq. 6."""

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Advantage of each turn; `rng` is not used."""
        return segments.leave_one_out(turns.outcome, turns.group)[turns.trajectory]


@dataclass(frozen=True)
class MergedGRPO:
    """A(τ) = `grpo` of R^O + Σ of the trajectory's turn rewards: [N]. MT-GRPO §5.1, GRPO-MR."""

    needs: ClassVar[tuple[str, ...]] = ("turn_reward",)

    eps: float = 1e-6

    def __post_init__(self) -> None:
        nonnegative("eps", self.eps, "it is added to a deviation")

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
        """Advantage of each turn; `rng` is not used."""
        whole = turns.outcome + np.bincount(turns.trajectory, turns.verified(), len(turns.group))
        return segments.standardize(whole, turns.group, eps=self.eps)[turns.trajectory]
