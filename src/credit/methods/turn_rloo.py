"""Turn-level RLOO: the return from a turn on, minus that of the other trajectories there."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from credit import stats
from credit.methods.gigpo import returns_to_go
from credit.stats import Array
from credit.turns import Turns


@dataclass(frozen=True)
class TurnRLOO:
    """Turn-level RLOO: the return-to-go minus the mean return-to-go of the other trajectories.

    A_t = R_t - 1 / (K - 1) Σ over the other trajectories j of R_{j,t}, with R_{j,t} = 0 if
    trajectory j has ended before its turn t. R_t = Σ_{k ≥ t} r_k, with the outcome added to the
    last reward. The first turn gets `RLOO` of the whole return; so do the later ones, if turns are
    not paid and no other trajectory has ended.

    Unbiased: the baseline depends on neither this trajectory's actions nor its length, so that its
    product with the score of the policy has mean 0. For K ≥ 2 the expected gradient is that of the
    expected return, E[Σ_t r_t + R]. A trajectory that is alone in its group gets 0.

    Source: the baseline of RLOO (Kool et al., 2019), for each position. verl issue 7244 describes
    the bias of baselines per position that leave out trajectories which have ended.
    """

    reads_reward: ClassVar[bool] = True

    def __call__(self, turns: Turns, rng: np.random.Generator | None = None) -> Array:
        """Advantage of each turn: [N]. `rng` is not used."""
        returns, there = returns_to_go(turns, gamma=1.0), turns.segment_ids("position")
        lead = stats.leave_one_out(returns, there)  # over the mean of those that got there
        others = stats.count(turns.group)[turns.trajectory] - 1
        ended = others + 1 - stats.count(there)
        return lead + (returns - lead) * (ended / np.maximum(others, 1))
