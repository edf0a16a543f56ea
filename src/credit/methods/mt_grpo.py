"""MT-GRPO and MT-RLOO: an advantage from the rewards of single turns, added to the outcome's."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credit import stats
from credit.stats import Array, Ids
from credit.turns import Turns
from credit.validation import LARGEST, Options, Weight, check_range


@dataclass(frozen=True)
class _MultiTurn(Options):
    needs: ClassVar[tuple[str, ...]] = ("turn_reward",)

    lam: Weight = 1.0
    normalize: Literal["position", "anchor"] = "position"
    variant: Literal["paper", "code"] = "paper"

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        turn_reward = turns.summed_verifier_reward()
        outcome = self.compare_rows(turns.outcome, turns.group)[turns.trajectory]
        turn = self.compare_rows(turn_reward, turns.segment_ids(self.normalize))
        if self.variant == "paper":
            return np.where(turns.last, outcome, turn + self.lam * outcome)
        total = turns.outcome + np.bincount(turns.trajectory, turn_reward, len(turns.group))
        merged = self.compare_rows(total, turns.group)[turns.trajectory]
        only_turn = turns.last & (turns.position == 0)
        ending = np.where(only_turn, merged, outcome)
        return np.where(turns.last, ending, outcome + self.lam * turn)

    def compare_rows(self, x: Array, ids: Ids) -> Array:
        """Values relative to those of their segment: [N], [N] -> [N]."""
        raise NotImplementedError


@dataclass(frozen=True)
class MTGRPO(_MultiTurn):
    """MT-GRPO: the standardized turn reward plus the standardized outcome.

    A_t = A^T_t + λ A^O, and A^O on the last turn of a trajectory. A^O is the outcome standardized
    over the group. A^T_t is the sum of the turn's verifier rewards, standardized over the turns of
    the group at the same position or in the same state.

    Bias: a turn has no credit for the rewards of later turns, and A^T is relative to the turns that
    exist there, so that constant pay gives exactly 0: that another turn would be paid, too, is
    never learned. A^O has the bias of `GRPO`.

    Source: MT-GRPO Eq. 9-11. The paper has two turns; more turns follow the same rule.

    Args:
        lam: λ ≥ 0, weight of A^O (with variant "code": of A^T).
        normalize: A^T compares turns at the same "position", or in the same "anchor" state. Both
            leave out trajectories that have ended, which biases A^T.
        variant: "paper", or "code" for the authors' program: A_t = A^O + λ A^T_t, and a trajectory
            of one turn, which called no tool, gets the advantage of outcome plus turn rewards.
        eps: Added to standard deviations; None is 1e-6 (with variant "code": 1e-4).

    Raises:
        ValueError: An option out of range, or at the call `turns` has no `turn_reward`.
    """

    eps: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eps is not None:
            check_range("eps", self.eps, 0, LARGEST, "it is added to a standard deviation")

    def compare_rows(self, x: Array, ids: Ids) -> Array:
        """Standardize within segments: [N], [N] -> [N]."""
        default = 1e-6 if self.variant == "paper" else 1e-4
        return stats.standardize(x, ids, eps=default if self.eps is None else self.eps)


@dataclass(frozen=True)
class MTRLOO(_MultiTurn):
    """MT-RLOO: MT-GRPO with leave-one-out differences instead of standardized values.

    A_t = A^T_t + λ A^O, and A^O on the last turn of a trajectory. A^O and A^T_t subtract the mean
    of the others from the outcome and from the sum of the turn's verifier rewards.

    Bias: that of A^T in `MTGRPO`. Where turns are not paid, this is `RLOO` and unbiased.

    Source: MT-GRPO Eq. 12-13.

    Args:
        lam: λ ≥ 0, weight of A^O (with variant "code": of A^T).
        normalize: A^T compares turns at the same "position", or in the same "anchor" state.
        variant: "paper", or "code" for the authors' program, as in `MTGRPO`.

    Raises:
        ValueError: An option out of range, or at the call `turns` has no `turn_reward`.
    """

    def compare_rows(self, x: Array, ids: Ids) -> Array:
        """Leave one out within segments: [N], [N] -> [N]."""
        return stats.leave_one_out(x, ids)
