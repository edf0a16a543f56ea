"""TurnRD: a small transformer that tells the credit of turns from the policy's hidden states.

The model, the decomposer that projects its values to credits, and probes of what the goal does.
Losses are in `turnrd_loss`; the training loop and the replay are the trainer's.
"""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from credit import decomposers
from credit.segments import Array
from credit.turns import Turns


class Reading(NamedTuple):
    """What the model says: attention w and value V of each turn, and Σ w V of each trajectory."""

    weights: Tensor  # [B, T], sum to 1 over a trajectory's turns, 0 beyond
    values: Tensor  # [B, T], 0 beyond
    predicted: Tensor  # [B]


class TurnRD(nn.Module):
    """Attention and value of each turn, given all turns and the goal. HAS §3.3, Eq. 6.

    The goal modulates every turn by FiLM, h ← (1 + Δγ) ⊙ h + Δβ, whose projector starts at zero:
    an untrained model is exactly the one without goal of the same seed.

    Args:
        width: D, size of a hidden state.
        goal_width: E, size of a goal embedding; 0: goal-blind.
        max_turns: longest trajectory (16 WebShop, 50 AlfWorld).
        hidden, layers, heads, dropout: of the encoder.
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
        self.project = nn.Linear(width, hidden)
        self.place = nn.Embedding(max_turns, hidden)
        layer = nn.TransformerEncoderLayer(hidden, heads, 4 * hidden, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.attention = nn.Linear(hidden, 1)
        self.value = nn.Linear(hidden, 1)
        self.film = nn.Linear(goal_width, 2 * hidden) if goal_width else None
        if self.film is not None:
            nn.init.zeros_(self.film.weight)
            nn.init.zeros_(self.film.bias)

    def forward(self, states: Tensor, mask: Tensor, goal: Tensor | None = None) -> Reading:
        """Read trajectories: [B, T, D], [B, T] bool, [B, E] or None.

        Raises:
            ValueError: shapes that do not fit, more than `max_turns` turns, a trajectory without
                turns, or a goal where the model has none, or none where it has one.
        """
        alive = mask.bool()
        self._check(states, alive, goal)
        given = states.masked_fill(~alive[..., None], 0.0).to(self.project.weight.dtype)
        places = self.place.weight[: states.shape[1]]
        encoded = self.encoder(self.project(given) + places, src_key_padding_mask=~alive)
        if self.film is not None and goal is not None:
            scale, shift = self.modulation(goal)
            encoded = (1 + scale)[:, None] * encoded + shift[:, None]
        scores = self.attention(encoded)[..., 0].masked_fill(~alive, -torch.inf)
        weights = scores.softmax(-1)
        values = self.value(encoded)[..., 0].masked_fill(~alive, 0.0)
        return Reading(weights, values, (weights * values).sum(-1))

    def modulation(self, goal: Tensor) -> tuple[Tensor, Tensor]:
        """Δγ and Δβ of each goal: [B, E] -> [B, H], [B, H]. Their norms are a probe (Fig. 4c)."""
        if self.film is None:
            raise ValueError("this model has no goal: make it with goal_width above 0")
        scale, shift = self.film(goal.to(self.film.weight.dtype)).chunk(2, dim=-1)
        return scale, shift

    def _check(self, states: Tensor, mask: Tensor, goal: Tensor | None) -> None:
        if states.shape[:-1] != mask.shape:
            raise ValueError(
                f"states are [B, T, D] and mask [B, T], got {tuple(states.shape)} and "
                f"{tuple(mask.shape)}"
            )
        if states.shape[1] > self.place.num_embeddings:
            raise ValueError(
                f"trajectories have up to {states.shape[1]} turns, the model was made for "
                f"max_turns={self.place.num_embeddings}"
            )
        if not mask.bool().any(-1).all():
            row = int((~mask.bool().any(-1)).nonzero()[0])
            raise ValueError(f"trajectory {row} of {len(mask)} has no turn in mask")
        if (goal is None) != (self.film is None):
            raise ValueError(
                f"goal is {'missing' if goal is None else 'given'}, and the model "
                f"has goal_width={self.film.in_features if self.film else 0}"
            )


@dataclass(frozen=True)
class Decomposer:
    """Credit of turns by a trained model, for `HAS`: [N], summing to each outcome.

    Args:
        model: TurnRD; it is put into evaluation mode.
        states: [N, D] hidden state of each turn's last action token.
        goals: [M, E] embedding of each trajectory's goal, or None.
        clip: c of the projection.
    """

    model: TurnRD
    states: ArrayLike | Tensor
    goals: ArrayLike | Tensor | None = None
    clip: float = 2.0

    @torch.no_grad()
    def __call__(self, turns: Turns) -> Array:
        """Projected values of the turns."""
        states = _tensor(self.states)
        if len(states) != len(turns):
            raise ValueError(f"states has {len(states)} rows for {len(turns)} turns")
        if not len(turns):
            return np.zeros(0)
        device = self.model.value.weight.device
        mask = torch.zeros(len(turns.group), int(turns.position.max()) + 1, dtype=torch.bool)
        owner, place = _tensor(turns.trajectory), _tensor(turns.position)
        mask[owner, place] = True
        table = states.new_zeros(*mask.shape, states.shape[-1])
        table[owner, place] = states
        goals = None if self.goals is None else _tensor(self.goals).to(device)
        values = self.model.eval()(table.to(device), mask.to(device), goals).values.cpu()
        return decomposers.project(values[owner, place].double().numpy(), turns, clip=self.clip)


def _tensor(given: ArrayLike | Tensor) -> Tensor:
    """A tensor as it is; an array copied, since the columns of `Turns` are read-only."""
    return given if isinstance(given, Tensor) else torch.tensor(given)


@torch.no_grad()
def film_effect(model: TurnRD, states: Tensor, mask: Tensor, goal: Tensor) -> float:
    """Relative change of V with Δγ and Δβ zeroed. HAS Fig. 4a."""
    blind = copy.deepcopy(model).eval()
    if blind.film is not None:
        nn.init.zeros_(blind.film.weight)
        nn.init.zeros_(blind.film.bias)
    values = model.eval()(states, mask, goal).values
    change = values - blind(states, mask, goal).values
    return float(change.norm() / values.norm().clamp(min=1e-12))


@torch.no_grad()
def shuffle_effect(
    model: TurnRD, states: Tensor, mask: Tensor, goal: Tensor, target: Tensor
) -> float:
    """Relative growth of the squared error of Σ w V when goals are rolled by one. HAS Fig. 4b."""
    right = (model.eval()(states, mask, goal).predicted - target).square().mean()
    wrong = (model(states, mask, goal.roll(1, 0)).predicted - target).square().mean()
    return float((wrong - right) / right.clamp(min=1e-12))
