"""HAS with TurnRD: rounds of steps with a frozen model of turn credit, trained in between.

Each step writes hidden states, goals, returns and progress to the replay. After a round the stage
in `trainer.methods.replay` trains the model in a process of its own. An untrained model would give
noise, so in the first round HAS uses the outcome alone (α = 1).
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, field, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from pydantic.dataclasses import dataclass

from credit.methods.turnrd import TurnRDDecomposer, TurnRDLoss
from trainer.learn.batch import collate, credit_rows, passes
from trainer.methods import replay
from trainer.methods.method import Credited, Method
from trainer.options import STRICT, AboveZero, Positive, Share
from trainer.run.checkpoint import write_text
from trainer.scale import parallel, sharding

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from credit import HAS
    from trainer.methods.method import Experience
    from trainer.model.policy import Policy


@dataclass(frozen=True, config=STRICT)
class TurnRDOptions:
    """The model of turn credit, for credit.name "has" with decomposer "turnrd".

    Attributes:
        round: Steps of a round; the model is frozen in it, and trained on the replay after it.
        goal: Modulate by the goal (FiLM).
        learning_rate: Learning rate of AdamW.
        epochs: Passes over the replay after a round.
        batch: Trajectories of an optimiser step.
        half_life: Rounds after which a trajectory is drawn half as often.
        hidden: Width of the encoder.
        layers: Layers of the encoder.
        heads: Attention heads of the encoder.
        dropout: Dropout of the encoder.
        clip: Values are clipped to [-clip, clip], then shifted to sum to the outcome.
        loss: Weights of the loss; the dense signal of a turn is its gain in progress.
    """

    round: Positive = 5
    goal: bool = True
    learning_rate: AboveZero = 5e-4
    epochs: Positive = 5
    batch: Positive = 32
    half_life: AboveZero = 4.0
    hidden: Positive = 128
    layers: Positive = 2
    heads: Positive = 4
    dropout: Share = 0.1
    clip: AboveZero = 2.0
    loss: TurnRDLoss = field(default_factory=TurnRDLoss)


class WithTurnRD(Method):
    """HAS whose decomposer is trained between rounds.

    Args:
        estimator: HAS; its decomposer is replaced.
        options: Options of the model.
        seed: Seed of the run.
        start: Last step before reinforcement learning.
        max_turns: Turns of the longest possible trajectory.
        tokens: Maximum tokens of one forward pass.
    """

    def __init__(
        self,
        estimator: HAS,
        options: TurnRDOptions,
        *,
        seed: int,
        start: int,
        max_turns: int,
        tokens: int,
    ) -> None:
        super().__init__(estimator)
        self.has, self.options = estimator, options
        self.seed, self.start, self.max_turns, self.tokens = seed, start, max_turns, tokens

    def begin(self, policy: Policy, folder: Path) -> None:
        """Write the settings of the stages to `rounds/stage.json`."""
        super().begin(policy, folder)
        width = int(policy.model.config.get_text_config().hidden_size)
        self.stage = replay.Stage(
            seed=self.seed,
            width=width,
            goal_width=width if self.options.goal else 0,
            max_turns=self.max_turns,
            alpha=self.has.alpha,
            start=self.start,
            options=asdict(self.options),
        )
        settings = json.dumps(asdict(self.stage), indent=1)
        parallel.run_on_first(lambda: write_text(folder / "rounds" / "stage.json", settings))

    def credit(self, experience: Experience) -> Credited:
        """HAS with the model of the round before; the rollouts are added to the replay."""
        states = hidden_states(self.policy, experience, self.tokens)
        goals = goal_embeddings(self.policy, experience) if self.options.goal else None
        advantage, figures = parallel.run_on_first(
            lambda: self._compute_advantages(experience, states, goals)
        )
        return Credited(credit_rows(experience.rows, advantage), advantage, figures)

    def _compute_advantages(
        self, experience: Experience, states: Tensor, goals: Tensor | None
    ) -> tuple[NDArray[np.float64], dict[str, float]]:
        """Advantages and values to log; one process has the replay and the model."""
        replay.append(self.folder, experience.step, experience.turns, states, goals)
        number = (experience.step - self.start - 1) // self.options.round
        if not number:
            has, figures = replace(self.has, alpha=1.0), {"alpha": 1.0}
        else:
            has, figures = self._load_round(number, states, goals)
        return has(experience.turns, experience.rng), figures

    def _load_round(
        self, number: int, states: Tensor, goals: Tensor | None
    ) -> tuple[HAS, dict[str, float]]:
        """HAS of this round and values to log; runs the stage before it if that is missing."""
        folder = replay.round_path(self.folder, number - 1)
        if not (folder / replay.MANIFEST).is_file():
            self._train(number - 1)
        manifest = replay.manifest_of(self.folder, number - 1)
        model = self.stage.model()
        model.load_state_dict(torch.load(folder / replay.MODEL, weights_only=True))
        seen = states.half().float()  # as in the replay
        aims = None if goals is None else goals.half().float()
        decomposer = TurnRDDecomposer(model, seen, aims, clip=self.options.clip)
        names = ("error", "error_of_mean", "film_effect", "shuffle_effect", "film_scale")
        figures = {f"turnrd_{name}": manifest[name] for name in names if name in manifest}
        alpha = float(manifest["alpha"])
        return replace(self.has, alpha=alpha, decomposer=decomposer), figures | {"alpha": alpha}

    def _train(self, number: int) -> None:
        command = [sys.executable, "-m", "trainer.methods.replay", str(self.folder), str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ChildProcessError(
                f"the stage after round {number} failed: {done.stderr.strip()[-2000:]}\n"
                "Nothing is lost; continue with --resume"
            )
        if done.stderr.strip():
            sys.stderr.write(f"{done.stderr.strip()}\n")  # its warnings


@torch.no_grad()
def hidden_states(policy: Policy, experience: Experience, tokens: int) -> Tensor:
    """The policy's last hidden state at the last action token of each turn: -> [N, D].

    It is the state that predicts the end of the reply. Turns without a row, in a trajectory that is
    too long, have zeros.
    """
    states = torch.zeros(
        len(experience.turns), int(policy.model.config.get_text_config().hidden_size)
    )
    for part, counts in passes(experience.rows, tokens):
        batch = collate([experience.rows[i] for i in part], policy.device)
        final = torch.ones_like(batch.turn, dtype=torch.bool)
        final[:-1] = (batch.turn[1:] != batch.turn[:-1]) | (batch.row[1:] != batch.row[:-1])
        hidden = policy.states(batch.ids, batch.keep, **policy.prepare_inputs(batch))
        if counts:
            states[batch.turn[final].cpu()] = hidden[final].cpu()
    return parallel.sum_tensor(states)


@torch.no_grad()
def goal_embeddings(policy: Policy, experience: Experience) -> Tensor:
    """Mean input embedding of the goal of each trajectory: -> [M, E]."""
    embed = partial(torch.func.functional_call, policy.model.get_input_embeddings())
    table = {"weight": sharding.full(policy.model.get_input_embeddings().weight)}
    known: dict[str, Tensor] = {}
    for goal in experience.turns.goal.tolist():
        if goal not in known:
            ids = policy.chat.plain(f" {goal}")
            known[goal] = (
                embed(table, torch.tensor(ids, device=policy.device)).float().mean(0).cpu()
            )
    return torch.stack([known[goal] for goal in experience.turns.goal.tolist()])
