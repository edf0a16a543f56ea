"""HAS with TurnRD: rounds of steps with a frozen model of turn credit, trained in between.

Each step writes hidden states, goals, returns and progress to the replay, on which
`trainer.methods.replay` trains the model after a round. An untrained model would give noise, so in
the first round HAS uses the outcome alone (α = 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from credit.methods.has import HAS, measure_drift
from credit.methods.turnrd import TurnRDDecomposer
from trainer.learn.batch import collate, passes
from trainer.learn.rows import credit_rows
from trainer.methods import replay
from trainer.methods.method import Credited, Method
from trainer.play.environments import make_env
from trainer.scale import parallel, sharding

if TYPE_CHECKING:
    import numpy as np

    from credit import Turns
    from trainer.learn.rows import Row
    from trainer.methods.method import Experience
    from trainer.model.policy import Policy
    from trainer.recipe import Recipe

_LOGGED = ("error", "film_", "shuffle_")  # beginnings of names in a manifest


class WithTurnRD(Method):
    """HAS whose decomposer is trained between rounds."""

    fits = (HAS,)

    def __init__(self, options: dict[str, Any], recipe: Recipe) -> None:
        super().__init__(options, recipe)
        self.options = self.read_options(replay.TurnRDOptions, "turnrd")

    def begin(self, policy: Policy, folder: Path) -> None:
        """Settle the settings of the rounds."""
        super().begin(policy, folder)
        chosen = self.recipe.env
        with closing(make_env(chosen, self.recipe.prompt, split=chosen.split)) as env:
            longest = int(env.get_wrapper_attr("max_turns"))
        self.stage = replay.Stage(
            options=self.options,
            seed=self.recipe.run.seed,
            width=int(policy.model.config.get_text_config().hidden_size),
            max_turns=longest,
            alpha=self.estimator.alpha,
            start=self.recipe.sft.steps,
        )

    def credit(self, experience: Experience) -> Credited:
        """HAS with the model of the round before; the rollouts are added to the replay."""
        states, goals = self.read_states(experience.turns, experience.rows)
        advantage, figures = parallel.run_on_first(
            lambda: self._compute_advantages(experience, states, goals)
        )
        return Credited(credit_rows(experience.rows, advantage), advantage, figures)

    def read_states(self, turns: Turns, rows: Sequence[Row]) -> tuple[Tensor, Tensor | None]:
        """What the model reads of the turns: hidden states [N, D], goals [M, E] or None."""
        states = hidden_states(self.policy, turns, rows, self.recipe.update.tokens)
        return states, goal_embeddings(self.policy, turns) if self.options.goal else None

    def load_decomposer(
        self, number: int, states: Tensor, goals: Tensor | None
    ) -> TurnRDDecomposer:
        """The decomposer with the model of a round, for turns of which this was read."""
        model = self.stage.make_model()
        model.load_state_dict(replay.load_weights(self.folder, number))
        seen = states.half().float()  # as in the replay
        aims = None if goals is None else goals.half().float()
        return TurnRDDecomposer(model, seen, aims, clip=self.options.clip)

    def _compute_advantages(
        self, experience: Experience, states: Tensor, goals: Tensor | None
    ) -> tuple[NDArray[np.float64], dict[str, float]]:
        """Advantages and values to log; one process has the replay and the model."""
        replay.append(self.folder, experience.step, experience.turns, states, goals)
        before = (experience.step - self.stage.start - 1) // self.options.round - 1
        has, figures = replace(self.estimator, alpha=1.0), {"alpha": 1.0}
        if before >= 0:
            manifest = replay.read_manifest(self.folder, before) or replay.train_round(
                self.folder, before, self.stage
            )
            shares = self.load_decomposer(before, states, goals)(experience.turns)
            logged = {name: x for name, x in manifest.items() if name.startswith(_LOGGED)}
            figures = {f"turnrd_{name}": x for name, x in logged.items()}
            figures["turnrd_drift"] = measure_drift(shares, experience.turns)
            figures["alpha"] = float(manifest["alpha"])
            has = replace(self.estimator, alpha=figures["alpha"], decomposer=lambda _: shares)
        return has(experience.turns, experience.rng), figures


@torch.no_grad()
def hidden_states(policy: Policy, turns: Turns, rows: Sequence[Row], tokens: int) -> Tensor:
    """The policy's last hidden state at the last action token of each turn: -> [N, D].

    It is the state that predicts the end of the reply. Turns without a row, in a trajectory that is
    too long, have zeros.
    """
    states = torch.zeros(len(turns), int(policy.model.config.get_text_config().hidden_size))
    for part, counts in passes(rows, tokens):
        batch = collate([rows[i] for i in part], policy.device)
        final = torch.ones_like(batch.turn, dtype=torch.bool)
        final[:-1] = (batch.turn[1:] != batch.turn[:-1]) | (batch.row[1:] != batch.row[:-1])
        hidden = policy.states(batch.ids, batch.keep, **policy.prepare_inputs(batch))
        if counts:
            states[batch.turn[final].cpu()] = hidden[final].cpu()
    return parallel.sum_tensor(states)


@torch.no_grad()
def goal_embeddings(policy: Policy, turns: Turns) -> Tensor:
    """Mean input embedding of the goal of each trajectory: -> [M, E]."""
    embed = partial(torch.func.functional_call, policy.model.get_input_embeddings())
    table = {"weight": sharding.full(policy.model.get_input_embeddings().weight)}
    goals, known = turns.goal.tolist(), {}
    for goal in dict.fromkeys(goals):
        ids = torch.tensor(policy.chat.plain(f" {goal}"), device=policy.device)
        known[goal] = embed(table, ids).float().mean(0).cpu()
    return torch.stack([known[goal] for goal in goals])
