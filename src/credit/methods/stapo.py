"""STAPO: GiGPO plus two KL terms on turns whose confidence is unusual for their state.

`STAPO` gives the advantage and the mask and weights of these selective terms. The last three
functions compute the terms from log-probabilities and need torch, which they import when called.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from credit import stats
from credit.methods.gigpo import GiGPO
from credit.stats import Array
from credit.turns import Turns
from credit.validation import as_finite, nonnegative, within

if TYPE_CHECKING:
    from torch import Tensor

Singleton: TypeAlias = Literal["zero", "raw"]
TermWeight: TypeAlias = Annotated[float, nonnegative("it is a weight")]


def normalized_entropy(
    entropy: ArrayLike, states: ArrayLike, *, singleton: Singleton = "zero", eps: float = 1e-6
) -> Array:
    """Entropy of each turn, standardized within its state: [N], [N] -> [N].

    H_n = (H - μ) / (σ + eps), with μ and σ over the turns in the same state

    Source: STAPO Eq. 2.

    Args:
        entropy: [N] entropy H in nats.
        states: [N] id of each turn's state.
        singleton: Value for a state that occurs once: "zero", or the "raw" entropy H.
        eps: Added to the standard deviation.

    Returns:
        [N] normalized entropy.

    Raises:
        ValueError: Different lengths, or an entropy that is not finite.
    """
    normalized = stats.standardize(entropy, states, eps=eps)
    if singleton == "zero":
        return normalized
    return np.where(stats.count(states) == 1, np.asarray(entropy, np.float64), normalized)


def fences(x: ArrayLike, lam: float = 1.5) -> tuple[float, float]:
    """Tukey's fences of a batch: [N] -> lower fence, upper fence.

    Q1 - λ IQR and Q3 + λ IQR, with IQR = Q3 - Q1 and linearly interpolated quartiles

    Args:
        x: [N] values.
        lam: λ ≥ 0; infinity gives infinite fences.

    Returns:
        The two fences; infinite for an empty batch.

    Raises:
        ValueError: A value is not finite.
    """
    values = as_finite("x", x)
    if not len(values) or np.isinf(lam):
        return -np.inf, np.inf
    first, third = np.quantile(values, [0.25, 0.75])
    reach = lam * (third - first)
    return float(first - reach), float(third + reach)


def outliers(x: ArrayLike, lam: float = 1.5) -> NDArray[np.bool_]:
    """Mask of the values outside the fences of their batch: [N] -> [N] bool.

    M = 1 if x < Q1 - λ IQR or x > Q3 + λ IQR

    Source: STAPO Eq. 3.

    Args:
        x: [N] values.
        lam: λ ≥ 0; infinity marks no value.

    Returns:
        [N] mask M.

    Raises:
        ValueError: A value is not finite.
    """
    low, high = fences(x, lam)
    values = np.asarray(x, dtype=np.float64)
    return (values < low) | (values > high)


@dataclass(frozen=True)
class STAPO(GiGPO):
    """STAPO: GiGPO's advantage, and the mask and weights of the selective terms.

    The objective of a turn is that of GiGPO plus M (α R_TA - γ P_TI), see `selective_objective`.
    The advantage, also with each option of `GiGPO`, is GiGPO's own.
    Clipping and dynamic sampling (App. F) are options of the trainer, not of the estimator; they
    leave the advantage as it is.

    Bias: that of `GiGPO`; the selective terms have gradients of their own, which no return gives.

    Source: STAPO Eq. 1-10.

    Args:
        lam: λ ≥ 0, interquartile ranges beyond which a turn is an outlier; `inf` marks none.
        alpha: α ≥ 0, weight of the trajectory-aware reward R_TA (0.001 for search QA).
        penalty_weight: γ ≥ 0 in the paper, weight of the trajectory-independent penalty P_TI.
        singleton: H_n of a state that occurs once: "zero", or the "raw" entropy.
        masking: Part of the prompt that the blind prompt leaves out: "goal", "history" or "both";
            "none" masks no turn, which is GiGPO.
        entropy: Find outliers of the "normalized" or of the plain "shannon" entropy; "none" takes
            every turn, "All" of Fig. 4 (ablations).
        penalty: "selective" puts P_TI on the outliers; "single" leaves it out, and the base KL on
            all turns is the only penalty (ablation).
        estimator: KL from full logits, "exact", or from sampled log-probabilities, "k3".

    Raises:
        ValueError: An option out of range. `mask` and `weights` also if `turns` has no `entropy`.
    """

    unread: ClassVar[dict[str, str]] = {
        "omega=0": "gamma", "anchors=exact": "threshold", "penalty=single": "penalty_weight",
        "masking=none": "lam alpha penalty_weight singleton entropy penalty estimator",
        "entropy=none": "lam singleton", "entropy=shannon": "singleton",
    }  # fmt: skip
    lam: Annotated[float, within(0, np.inf, "it counts interquartile ranges")] = 1.5
    alpha: TermWeight = 0.01
    penalty_weight: TermWeight = 0.01
    singleton: Singleton = "zero"
    masking: Literal["both", "goal", "history", "none"] = "both"
    entropy: Literal["normalized", "shannon", "none"] = "normalized"
    penalty: Literal["selective", "single"] = "selective"
    estimator: Literal["exact", "k3"] = "exact"

    def outlier_score(self, turns: Turns) -> Array:
        """Value whose outliers are masked, H_n or with entropy "shannon" H: [N]. Eq. 1-2."""
        if self.entropy == "shannon":
            return turns.read_measured("entropy")
        states = self.state_ids(turns)
        entropy = turns.read_measured("entropy")
        return normalized_entropy(entropy, states, singleton=self.singleton, eps=self.eps)

    def mask(self, turns: Turns) -> NDArray[np.bool_]:
        """Mask M of the turns that get the selective terms: [N] bool. Eq. 3."""
        if "none" in (self.masking, self.entropy):
            return np.full(len(turns), self.masking != "none")
        return outliers(self.outlier_score(turns), self.lam)

    def weights(self, turns: Turns) -> tuple[Array, Array]:
        """Weights of R_TA and P_TI in the objective, M α and M γ: [N], [N]. Eq. 10.

        With penalty "single" the second is 0.
        """
        chosen = self.mask(turns).astype(np.float64)
        return self.alpha * chosen, (self.penalty == "selective") * self.penalty_weight * chosen


def kl_from_logits(logits: "Tensor", reference: "Tensor", turn: "Tensor", count: int) -> "Tensor":
    """Exact KL of each turn, the mean over its tokens: [P, V], [P, V], [P] -> [N].

    R_TA = KL(π(·|c) || π(·|c without goal and history))
    P_TI = KL(π(·|c without goal and history) || π_ref(·|c without goal and history))

    Gradients flow through both arguments.

    Source: STAPO Eq. 4-5.

    Args:
        logits: [P, V] logits of the first distribution at the tokens of the actions.
        reference: [P, V] logits of the second one.
        turn: [P] int, turn of each token.
        count: Number of turns N.

    Returns:
        [N] divergence in nats, 0 for a turn without tokens; at least float32.
    """
    from credit.losses import categorical_kl, segment_mean

    return segment_mean(categorical_kl(logits, reference), turn, count)


def kl_from_samples(
    logprobs: "Tensor", reference: "Tensor", turn: "Tensor", count: int
) -> "Tensor":
    """The k3 estimate of the KL of each turn, the mean over its tokens: [P], [P], [P] -> [N].

    The tokens were sampled with the full prompt. Therefore the estimate of R_TA is unbiased, and
    that of P_TI is biased.

    Source: STAPO Eq. 4-5, with k3 of Schulman, 2020.

    Args:
        logprobs: [P] log-probabilities of the tokens under the first distribution, in nats.
        reference: [P] those under the second one.
        turn: [P] int, turn of each token.
        count: Number of turns N.

    Returns:
        [N] divergence in nats, 0 for a turn without tokens; at least float32.
    """
    from credit.losses import k3, segment_mean

    return segment_mean(k3(logprobs, reference), turn, count)


def selective_objective(
    reward: "Tensor", penalty: "Tensor", weights: "tuple[Tensor, Tensor]"
) -> "Tensor":
    """Selective terms of the objective, to be maximized: [N], [N], two of [N] -> [N].

    M (α R_TA - γ P_TI)

    Source: STAPO Eq. 10.

    Args:
        reward: [N] R_TA.
        penalty: [N] P_TI.
        weights: [N] M α and [N] M γ, from `STAPO.weights`.

    Returns:
        [N] objective.
    """
    reward_weight, penalty_weight = (weight.to(reward) for weight in weights)
    return reward_weight * reward - penalty_weight * penalty
