"""STAPO's selective terms (torch): does the policy look at goal and history, and stay sane blind.

R_TA = KL(π(·|c) || π(·|c without goal and history)) and P_TI = KL(π(·|blind c) || π_ref(·|blind c))
of each turn, the mean over its action's tokens; gradients flow through both.
"""

from torch import Tensor

from credit import kl
from credit.tokens import means


def from_logits(logits: Tensor, reference: Tensor, turn: Tensor, count: int) -> Tensor:
    """Mean exact KL of each turn's tokens: [P, V], [P, V], [P] -> [count]. STAPO Eq. 4-5."""
    return means(kl.categorical(logits, reference), turn, count)


def from_samples(logprobs: Tensor, reference: Tensor, turn: Tensor, count: int) -> Tensor:
    """Mean k3 estimate over each turn's tokens: [P], [P], [P] -> [count]. STAPO Eq. 4-5.

    The tokens were drawn given the full prompt, so that this estimates R_TA without bias and P_TI
    with one.
    """
    return means(kl.k3(logprobs, reference), turn, count)


def objective(aware: Tensor, blind: Tensor, weights: tuple[Tensor, Tensor]) -> Tensor:
    """M (α R_TA - γ P_TI) of each turn: [N], [N], weights of `STAPO.weights` -> [N]. Eq. 10."""
    reward, penalty = (weight.to(aware) for weight in weights)
    return reward * aware - penalty * blind
