"""TurnRD (torch): a small transformer that computes credit of turns from hidden states.

This module has the model, the decomposer for `HAS`, the loss, training on past trajectories, and
probes of the goal's effect. Where trajectories are kept is left to the trainer.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from credit.losses import masked_mean
from credit.methods.has import project
from credit.stats import Array
from credit.turns import Turns
from credit.validation import Options, nonnegative

LossWeight: TypeAlias = Annotated[float, nonnegative("it weights a loss")]


class TurnRDOutput(NamedTuple):
    """Output of the model for B trajectories of up to T turns.

    Attributes:
        weights: [B, T] attention w, sums to 1 over the turns of a trajectory, 0 on padding.
        values: [B, T] value V, 0 on padding.
        predicted: [B] predicted return Σ_t w_t V_t.
    """

    weights: Tensor
    values: Tensor
    predicted: Tensor


class TurnRD(nn.Module):
    """Attention weight and value of each turn, given all turns and the goal.

    The goal embedding e modulates the hidden state of every turn by FiLM:
    h ← (1 + Δγ(e)) ⊙ h + Δβ(e). The projector of Δγ and Δβ starts at zero, so that an untrained
    model equals the model without a goal of the same seed.

    Source: HAS §3.3, Eq. 6.

    Args:
        width: Size D of a turn's hidden state.
        goal_width: Size E of a goal embedding; 0 for a model without a goal.
        max_turns: Turns T of the longest trajectory (16 WebShop, 50 AlfWorld).
        hidden: Width H of the encoder.
        layers: Layers of the encoder.
        heads: Attention heads of the encoder.
        dropout: Dropout of the encoder.
    """

    def __init__(
        self,
        width: int,
        goal_width: int = 0,
        *,
        max_turns: int = 50,
        hidden: int = 128,
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.input = nn.Linear(width, hidden)
        self.position = nn.Embedding(max_turns, hidden)
        layer = nn.TransformerEncoderLayer(hidden, heads, 4 * hidden, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.attention = nn.Linear(hidden, 1)
        self.value = nn.Linear(hidden, 1)
        self.film = nn.Linear(goal_width, 2 * hidden) if goal_width else None
        if self.film is not None:
            nn.init.zeros_(self.film.weight)
            nn.init.zeros_(self.film.bias)

    def forward(self, states: Tensor, mask: Tensor, goal: Tensor | None = None) -> TurnRDOutput:
        """Compute weights and values: [B, T, D], [B, T], [B, E] -> [B, T], [B, T], [B].

        Args:
            states: [B, T, D] hidden states of the turns; they are not read on padding.
            mask: [B, T], nonzero at the turns of the trajectory.
            goal: [B, E] goal embeddings, or None for a model without a goal.

        Raises:
            ValueError: More than `max_turns` turns, or a goal for a model without one, or none for
                a model with one.
        """
        inside = mask.bool()
        width = self.film.in_features if self.film is not None else 0
        if states.shape[1] > self.position.num_embeddings or (goal is None) != (not width):
            made = f"max_turns={self.position.num_embeddings} and goal_width={width}"
            shown = f"{states.shape[1]} turns and {'no goal' if goal is None else 'a goal'}"
            raise ValueError(f"the model was made with {made}, got {shown}")
        given = states.masked_fill(~inside[..., None], 0.0).to(self.input.weight.dtype)
        positions = self.position.weight[: states.shape[1]]
        encoded = self.encoder(self.input(given) + positions, src_key_padding_mask=~inside)
        if self.film is not None and goal is not None:
            scale, shift = self.modulation(goal)
            encoded = (1 + scale)[:, None] * encoded + shift[:, None]
        weights = self.attention(encoded)[..., 0].masked_fill(~inside, -torch.inf).softmax(-1)
        values = self.value(encoded)[..., 0].masked_fill(~inside, 0.0)
        return TurnRDOutput(weights, values, (weights * values).sum(-1))

    def modulation(self, goal: Tensor) -> tuple[Tensor, Tensor]:
        """Δγ and Δβ of each goal, whose norms are a probe (Fig. 4c): [B, E] -> [B, H], [B, H]."""
        if self.film is None:
            raise ValueError("this model has no goal: make it with goal_width above 0")
        scale, shift = self.film(goal.to(self.film.weight.dtype)).chunk(2, dim=-1)
        return scale, shift


@dataclass(frozen=True)
class TurnRDDecomposer:
    """Decomposer for `HAS`: the values of a trained model, projected to sum to the outcome.

    Source: HAS Eq. 5, see `project`.

    Args:
        model: The trained model; a call puts it into evaluation mode.
        states: [N, D] hidden state at the last action token of each turn.
        goals: [M, E] goal embedding of each trajectory, or None.
        clip: Bound c > 0 of the projection.
    """

    reads_reward: ClassVar[bool] = False

    model: TurnRD
    states: ArrayLike | Tensor
    goals: ArrayLike | Tensor | None = None
    clip: float = 2.0

    @torch.no_grad()
    def __call__(self, turns: Turns) -> Array:
        """Credit of each turn: [N]."""
        states = _tensor(self.states)
        if not len(turns):
            return np.zeros(0)
        device = self.model.value.weight.device
        mask = torch.zeros(len(turns.group), int(turns.position.max()) + 1, dtype=torch.bool)
        owner, position = _tensor(turns.trajectory), _tensor(turns.position)
        mask[owner, position] = True
        table = states.new_zeros(*mask.shape, states.shape[-1])
        table[owner, position] = states
        goals = None if self.goals is None else _tensor(self.goals).to(device)
        values = self.model.eval()(table.to(device), mask.to(device), goals).values.cpu()
        return project(values[owner, position].double().numpy(), turns, clip=self.clip)


def _tensor(given: ArrayLike | Tensor) -> Tensor:
    """A tensor as it is; an array is copied, because the columns of `Turns` are read-only."""
    return given if isinstance(given, Tensor) else torch.tensor(given)


def prediction_loss(predicted: Tensor, returns: Tensor) -> Tensor:
    """Squared error of the predicted return, the mean over trajectories: [B], [B] -> scalar.

    (Σ_t w_t V_t - R)²

    Source: HAS Eq. 7.
    """
    return (predicted - returns).square().mean()


def ranking_loss(predicted: Tensor, returns: Tensor, *, margin: float = 0.1) -> Tensor:
    """Hinge loss on the order of predicted returns, the mean over pairs: [B], [B] -> scalar.

    max(0, margin - (R̂_i - R̂_j)) over all pairs with R_i > R_j; 0 without pairs

    Source: HAS §3.3.

    Args:
        predicted: [B] predicted returns R̂.
        returns: [B] returns R.
        margin: Required difference of the predicted returns.

    Returns:
        The loss.
    """
    better = returns[:, None] > returns[None, :]
    difference = predicted[:, None] - predicted[None, :]
    return masked_mean((margin - difference).clamp(min=0.0), better)


def progress_prior_loss(weights: Tensor, progress: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy of the attention against changes of progress: three times [B, T] -> scalar.

    -Σ_t p_t log w_t with p_t = |Δprogress_t| / Σ_s |Δprogress_s|, the mean over the trajectories in
    which progress changed; 0 if there is none

    Source: HAS §3.3.

    Args:
        weights: [B, T] attention w.
        progress: [B, T] progress after each turn; it is 0 before the first.
        mask: [B, T], nonzero at the turns of the trajectory.

    Returns:
        The loss.
    """
    inside = mask.bool()
    after = progress.masked_fill(~inside, 0.0)
    before = torch.nn.functional.pad(after, (1, 0))[:, :-1]
    change = (after - before).abs().masked_fill(~inside, 0.0)
    total = change.sum(-1, keepdim=True)
    target = change / total.masked_fill(total == 0, 1.0)
    tiny = torch.finfo(weights.dtype).tiny
    return masked_mean(-(target * weights.clamp(min=tiny).log()).sum(-1), total[:, 0] > 0)


def dense_value_loss(values: Tensor, dense: Tensor, mask: Tensor) -> Tensor:
    """Squared error of the values against a signal of each turn: three times [B, T] -> scalar.

    (V_t - dense_t)², the mean over the turns inside the mask

    Source: HAS §3.3.

    Args:
        values: [B, T] values V.
        dense: [B, T] signal, such as the progress made by the turn.
        mask: [B, T], nonzero at the turns of the trajectory.

    Returns:
        The loss.
    """
    return masked_mean((values - dense.masked_fill(~mask.bool(), 0.0)).square(), mask)


@dataclass(frozen=True)
class TurnRDLoss(Options):
    """Loss of TurnRD: the prediction loss and its regularizers.

    L = prediction + λ_rank ranking + λ_prog progress prior + λ_V dense value

    Source: HAS Eq. 7, §3.3, Tables 5 and 6.

    Args:
        rank: λ_rank ≥ 0.
        progress: λ_prog ≥ 0.
        value: λ_V ≥ 0 (0.5 WebShop, 1.0 AlfWorld).
        margin: Required difference of predicted returns in the ranking loss.

    Raises:
        ValueError: A negative option.
    """

    unread: ClassVar[dict[str, str]] = {"rank=0": "margin"}
    rank: LossWeight = 0.1
    progress: LossWeight = 0.01
    value: LossWeight = 0.5
    margin: LossWeight = 0.1

    def __call__(
        self,
        output: TurnRDOutput,
        returns: Tensor,
        mask: Tensor,
        *,
        progress: Tensor | None = None,
        dense: Tensor | None = None,
    ) -> Tensor:
        """Loss of a batch of B trajectories: -> scalar.

        Args:
            output: Output of the model.
            returns: [B] returns R.
            mask: [B, T], nonzero at the turns of the trajectory.
            progress: [B, T] progress after each turn; None leaves its term out.
            dense: [B, T] signal of each turn; None leaves its term out.
        """
        loss = prediction_loss(output.predicted, returns)
        loss = loss + self.rank * ranking_loss(output.predicted, returns, margin=self.margin)
        if progress is not None:
            loss = loss + self.progress * progress_prior_loss(output.weights, progress, mask)
        if dense is not None:
            loss = loss + self.value * dense_value_loss(output.values, dense, mask)
        return loss


@torch.no_grad()
def film_effect(model: TurnRD, states: Tensor, mask: Tensor, goal: Tensor) -> float:
    """Relative change of the values without FiLM: [B, T, D], [B, T], [B, E] -> scalar.

    ||V - V with Δγ = Δβ = 0|| / ||V||

    Source: HAS Fig. 4a.
    """
    blind = copy.deepcopy(model).eval()
    if blind.film is not None:
        nn.init.zeros_(blind.film.weight)
        nn.init.zeros_(blind.film.bias)
    values = model.eval()(states, mask, goal).values
    change = values - blind(states, mask, goal).values
    return float(change.norm() / values.norm().clamp(min=1e-12))


@torch.no_grad()
def shuffle_effect(
    model: TurnRD, states: Tensor, mask: Tensor, goal: Tensor, dense: Tensor
) -> tuple[float, float]:
    """How much worse the values are with other goals: -> relative increase, share made worse.

    (E' - E) / E and the share of trajectories with E'_b > E_b, where E_b is the mean squared error
    of V against the dense signal over the turns of a trajectory, E its mean, and E' that with every
    goal replaced by the next different one of the batch

    Source: HAS Fig. 4b.

    Args:
        model: The model.
        states: [B, T, D] hidden states.
        mask: [B, T], nonzero at the turns of the trajectory.
        goal: [B, E] goal embeddings.
        dense: [B, T] signal of each turn, see `dense_value_loss`.

    Returns:
        Two numbers; both are 0 if the goal has no effect, or all goals are equal.
    """
    kinds, kind = np.unique(goal.cpu().numpy(), axis=0, return_inverse=True)
    other = torch.from_numpy(kinds[(kind.ravel() + 1) % len(kinds)]).to(goal)
    inside = mask.bool()

    def errors(goals: Tensor) -> Tensor:
        missed: Tensor = (model.eval()(states, mask, goals).values - dense).square()
        return missed.masked_fill(~inside, 0.0).sum(-1) / inside.sum(-1)

    right, wrong = errors(goal), errors(other)
    increase = (wrong.mean() - right.mean()) / right.mean().clamp(min=1e-12)
    return float(increase), float((wrong > right).double().mean())


class Trajectory(NamedTuple):
    """One past trajectory of T turns, to train on.

    Attributes:
        states: [T, D] hidden states of the turns.
        progress: [T] progress after each turn.
        goal: [E] goal embedding; [0] for a model without a goal.
        outcome: Its return R.
        age: Rounds since it was played.
    """

    states: NDArray[np.floating[Any]]
    progress: NDArray[np.float64]
    goal: NDArray[np.floating[Any]]
    outcome: float
    age: int = 0


class Trajectories(NamedTuple):
    """B trajectories, padded to T turns.

    Attributes:
        states: [B, T, D] hidden states of the turns.
        mask: [B, T] bool, true at the turns of the trajectory.
        goals: [B, E] goal embeddings, or None.
        returns: [B] returns R.
        progress: [B, T] progress after each turn.
    """

    states: Tensor
    mask: Tensor
    goals: Tensor | None
    returns: Tensor
    progress: Tensor

    def gains(self) -> Tensor:
        """Gain in progress of each turn: -> [B, T]."""
        before = torch.nn.functional.pad(self.progress, (1, 0))[:, :-1]
        return (self.progress - before).masked_fill(~self.mask, 0.0)


def pad_trajectories(chosen: Sequence[Trajectory]) -> Trajectories:
    """The trajectories as one batch."""
    states, progress = (
        pad_sequence([torch.from_numpy(one).float() for one in column], batch_first=True)
        for column in ([one.states for one in chosen], [one.progress for one in chosen])
    )
    lengths = torch.tensor([len(one.progress) for one in chosen])
    goals = torch.from_numpy(np.stack([one.goal for one in chosen])).float()
    return Trajectories(
        states,
        mask=torch.arange(int(lengths.max())) < lengths[:, None],
        goals=goals if goals.shape[1] else None,
        returns=torch.tensor([one.outcome for one in chosen]),
        progress=progress,
    )


def weigh_ages(ages: Sequence[int], *, half_life: float) -> Array:
    """Probability of drawing each of M trajectories, by its age in rounds: [M] -> [M]."""
    weight = np.exp2(-np.array(ages) / half_life)
    chance: Array = weight / weight.sum()
    return chance


def fit_model(
    model: TurnRD,
    replay: Sequence[Trajectory],
    loss: TurnRDLoss,
    rng: np.random.Generator,
    *,
    learning_rate: float = 5e-4,
    epochs: int = 5,
    batch: int = 32,
    half_life: float = 4.0,
) -> list[float]:
    """Train the model on past trajectories drawn by recency, with AdamW; it ends as it is trained.

    The dense signal of a turn is its gain in progress. Training stops after an epoch whose loss is
    not finite.

    Source: HAS, Algorithm 1.

    Args:
        model: The model.
        replay: Past trajectories.
        loss: The loss.
        rng: Draws trajectories and dropout.
        learning_rate: Learning rate of AdamW.
        epochs: How often as many trajectories as the replay has are drawn.
        batch: Trajectories of an optimiser step.
        half_life: Rounds after which a trajectory is drawn half as often.

    Returns:
        Mean loss of each epoch.
    """
    chance = weigh_ages([one.age for one in replay], half_life=half_life)
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate)
    model.train()
    losses: list[float] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**31)))  # dropout
        while len(losses) < epochs and all(map(math.isfinite, losses)):
            drawn = rng.choice(len(replay), len(replay), p=chance)
            total = 0.0
            for rows in np.array_split(drawn, -(-len(drawn) // batch)):
                part = pad_trajectories([replay[i] for i in rows])
                output = model(part.states, part.mask, part.goals)
                value = loss(
                    output, part.returns, part.mask, progress=part.progress, dense=part.gains()
                )
                optimizer.zero_grad()
                torch.autograd.backward(value)
                optimizer.step()
                total += value.item() * len(part.returns)
            losses.append(total / len(drawn))
    return losses


@torch.no_grad()
def measure_error(model: TurnRD, batch: Trajectories) -> dict[str, float]:
    """Mean squared error of the predicted returns, and of their mean as the prediction."""
    predicted = model(batch.states, batch.mask, batch.goals).predicted
    return {
        "error": (predicted - batch.returns).square().mean().item(),
        "error_of_mean": (batch.returns - batch.returns.mean()).square().mean().item(),
    }


@torch.no_grad()
def measure_goal(model: TurnRD, batch: Trajectories) -> dict[str, float]:
    """Effect of the goal in these trajectories; empty for a model without one. HAS Fig. 4."""
    states, mask, goals = batch.states, batch.mask, batch.goals
    if goals is None:
        return {}
    scale, shift = model.eval().modulation(goals)
    increase, worse = shuffle_effect(model, states, mask, goals, batch.gains())
    return {
        "film_effect": film_effect(model, states, mask, goals),
        "shuffle_effect": increase,
        "shuffle_worse": worse,
        "film_scale": scale.norm(dim=-1).mean().item(),
        "film_shift": shift.norm(dim=-1).mean().item(),
    }
