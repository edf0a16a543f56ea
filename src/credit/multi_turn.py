"""MT-GRPO and MT-RLOO: the advantage of a turn's own reward beside the outcome's."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from credit import segments
from credit.choices import choose, nonnegative
from credit.segments import Array, Ids
from credit.turns import Turns

NORMALIZE = ("position", "anchor")
VARIANTS = ("paper", "code")


@dataclass(frozen=True)
class _MultiTurn:
    needs: ClassVar[tuple[str, ...]] = ("turn_reward",)

    lam: float = 1.0
    normalize: str = "position"
    variant: str = "paper"

    def __post_init__(self) -> None:
        nonnegative("lam", self.lam, "it weighs an advantage")
        choose("normalize", self.normalize, NORMALIZE)
        choose("variant", self.variant, VARIANTS)

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn; `rng` is not used.

        Raises:
            ValueError: `turns` has no turn_reward.
        """
        own = turns.verified()
        outcome = self.relative(turns.outcome, turns.group)[turns.trajectory]
        turn = self.relative(own, turns.segment(self.normalize))
        if self.variant == "paper":
            return np.where(turns.last, outcome, turn + self.lam * outcome)
        whole = turns.outcome + np.bincount(turns.trajectory, own, len(turns.group))
        merged = self.relative(whole, turns.group)[turns.trajectory]
        alone = turns.last & (turns.position == 0)
        ending = np.where(alone, merged, outcome)
        return np.where(turns.last, ending, outcome + self.lam * turn)

    def relative(self, x: Array, ids: Ids) -> Array:
        """What a value is worth among those of its segment: [N], [N] -> [N]."""
        raise NotImplementedError


@dataclass(frozen=True)
class MTGRPO(_MultiTurn):
    """A_t = A^T_t + λ A^O, and A^O on the last turn: [N]. MT-GRPO Eq. 9-11.

    A^T standardizes the sum of the turn's verifier rewards, A^O the outcome.

    Args:
        lam: λ ≥ 0, weight of the outcome (of the turn rewards with variant "code").
        normalize: A^T compares turns at the same "position" in the group, or in the same "anchor",
            which does not depend on when other trajectories stop.
        variant: "paper", or "code", the authors' program: A^O + λ A^T; a trajectory of one turn,
            which called no tool, gets the advantage of outcome and turn rewards merged.
        eps: added to deviations, by default 1e-6 (variant "code": 1e-4).
    """

    eps: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eps is not None:
            nonnegative("eps", self.eps, "it is added to a deviation")

    def relative(self, x: Array, ids: Ids) -> Array:
        """Standardized within segments, ddof 1: [N], [N] -> [N]."""
        usual = 1e-6 if self.variant == "paper" else 1e-4
        return segments.standardize(x, ids, eps=usual if self.eps is None else self.eps)


@dataclass(frozen=True)
class MTRLOO(_MultiTurn):
    """A_t = A^T_t + λ A^O, and A^O on the last turn: [N]. MT-GRPO Eq. 12-13.

    A^T and A^O leave one out; options as in `MTGRPO`.
    """

    def relative(self, x: Array, ids: Ids) -> Array:
        """Leave-one-out within segments: [N], [N] -> [N]."""
        return segments.leave_one_out(x, ids)
