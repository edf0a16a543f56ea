"""RTMC: values of actions less values of states, as means of returns over the group."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from credit import stats
from credit.methods.gigpo import returns_to_go
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Discount, Epsilon, Options, nonnegative


@dataclass(frozen=True)
class RTMC(Options):
    """RTMC: the mean return after an action in a state, less that of all actions in the state.

    A = Q(s, a) - V(s). Q is the mean, over the trajectories of the group that took the action a in
    the state s, of the return-to-go at the first time. V is the mean of Q over the pairs (s, a),
    each weighted by its number n of trajectories, and over n_0 more with the value v_0, the mean
    outcome of the group:

        V(s) = (Σ_a n(s, a) Q(s, a) + n_0 v_0) / (Σ_a n(s, a) + n_0)

    Every turn with the same state and action has the same advantage.

    Bias: means include the trajectory itself, and n_0 draws values of rare states towards v_0. With
    γ < 1 returns are below v_0, which is not discounted: early turns lose, also where all outcomes
    are equal.

    Source: RTMC (Wang, Zheng and Xu, 2026, arXiv 2604.11037) Eq. 11, from a third party's port and
    another paper's restatement; the paper itself was not read. The paper's signatures of states and
    actions, made for repositories of code, are the columns `anchor` and `action` here. A group of
    one trajectory gets 0.

    Args:
        gamma: Discount γ of the return, in [0, 1].
        prior: n_0 ≥ 0, weight of v_0; 0 for none.
        mode: "raw", or "std" to divide by the deviation of A over the turns of the group (ddof 0),
            without centering.
        eps: Added to that deviation.

    Raises:
        ValueError: An option out of range.
    """

    reads_anchors: ClassVar[bool] = True
    reads_reward: ClassVar[bool] = True

    unread: ClassVar[dict[str, str]] = {"mode=raw": "eps"}
    gamma: Discount = 0.99
    prior: Annotated[float, nonnegative("it weights a value")] = 2.0
    mode: Literal["raw", "std"] = "raw"
    eps: Epsilon = 1e-6

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        states = turns.segment_ids("anchor")
        pairs = stats.make_ids(states, turns.action)
        mean = turns.outcome - stats.center(turns.outcome, turns.group)  # v_0
        gain = returns_to_go(turns, self.gamma) - mean[turns.trajectory]
        first = stats.rank_position(stats.make_ids(turns.trajectory, pairs)) == 0
        action = np.bincount(pairs, first * gain) / np.bincount(pairs, first)
        state = np.bincount(states, first * gain) / (np.bincount(states, first) + self.prior)
        alone = (stats.count(turns.group) == 1)[turns.trajectory]
        advantage = np.where(alone, 0.0, action[pairs] - state[states])
        return advantage if self.mode == "raw" else self._divide_by_deviation(advantage, turns)

    def _divide_by_deviation(self, advantage: Array, turns: Turns) -> Array:
        """Advantages over their deviation in the group: [N] -> [N]."""
        group = stats.make_ids(turns.group_of_turn)
        square = np.bincount(group, stats.center(advantage, group) ** 2) / np.bincount(group)
        scale = np.sqrt(square) + self.eps
        scaled: Array = advantage / np.where(scale > 0, scale, 1.0)[group]
        return scaled
