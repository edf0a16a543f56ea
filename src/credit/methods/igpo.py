"""IGPO: the gain in probability of the right answer that each turn brings."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from credit import stats
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Discount, Epsilon, Options


@dataclass(frozen=True)
class IGPO(Options):
    """IGPO: information gain of each turn and the outcome, standardized and summed to the end.

    A_t = z_t + γ A_{t+1}. The reward of a turn is the gain p_{t+1} - p_t in the probability of the
    right answer, exp(`gold_logprob`), or the gain in the log-probability; that of the last turn is
    the outcome. z is the reward, standardized over the group (ddof 0).

    Bias: standardized together, gains and outcomes trade at the rate of the batch's deviations, not
    at that of the return; and the mean is subtracted once for each turn that remains, which rewards
    or punishes length. Gains change the objective: what raises the answer's probability is paid,
    whether or not the answer is given. No gradient flows through the probabilities.

    Source: IGPO (Wang et al., 2026, arXiv 2510.14967). Two released versions of the code were read,
    the newer through copies; which setting gave the paper's tables is unknown. The code adds 1e-8
    to the variance and leaves gains of exactly 0 out of the statistics; here `eps` is added to the
    deviation and they are kept. A group of one trajectory gets 0.

    Args:
        gain: Difference of probabilities, "prob_diff", or of log-probabilities, "log_prob_diff".
        mode: Standardize gains and outcomes of the group "joint", or each "separate".
        gamma: Discount γ in [0, 1].
        eps: Added to standard deviations.

    Raises:
        ValueError: An option out of range, or at the call `turns` has no `gold_logprob`.
    """

    needs: ClassVar[tuple[str, ...]] = ("gold_logprob",)

    gain: Literal["prob_diff", "log_prob_diff"] = "prob_diff"
    mode: Literal["joint", "separate"] = "joint"
    gamma: Discount = 1.0
    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        group = turns.group_of_turn
        ids = group if self.mode == "joint" else stats.make_ids(group, turns.last)
        standard = stats.standardize(self.rewards(turns), ids, ddof=0, eps=self.eps)
        advantage = stats.discounted_returns(standard, turns.trajectory, self.gamma)
        alone = (stats.count(turns.group) == 1)[turns.trajectory]
        return np.where(alone, 0.0, advantage)

    def rewards(self, turns: Turns) -> Array:
        """Gain of each turn, and the outcome on the last one: [N]."""
        known = turns.read_measured("gold_logprob")
        if self.gain == "prob_diff":
            known = np.exp(known)
        after = np.r_[known[1:], np.zeros(min(len(turns), 1))]
        return np.where(turns.last, turns.outcome[turns.trajectory], after - known)
