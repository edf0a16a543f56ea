"""TurnRD's replay on disk, and the training of the model on it between rounds. HAS, Algorithm 1.

The rollouts of a step are one shard. After a round the model of the round before is trained
(`credit.methods.turnrd.fit_model`) on all shards; model and manifest are written to a folder of the
round. A round depends only on these files, so one that was interrupted is trained again.
"""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pydantic.dataclasses
import torch
from torch import Tensor

from agent_envs.machine import write_bytes, write_text
from credit.methods.turnrd import (
    Trajectory,
    TurnRD,
    TurnRDLoss,
    fit_model,
    measure_error,
    measure_goal,
    pad_trajectories,
)
from trainer.options import STRICT, AboveZero, Positive, Share

if TYPE_CHECKING:
    from credit import Turns

MODEL, MANIFEST = "turnrd.pt", "manifest.json"
_WORSE = 2.0  # training diverged if the last loss is more than this multiple of the first


@pydantic.dataclasses.dataclass(frozen=True, config=STRICT)
class TurnRDOptions:
    """The model of turn credit of HAS.

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

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise ValueError(
                f"hidden={self.hidden} must be a multiple of heads={self.heads}, which divide it"
            )


@dataclass(frozen=True)
class Stage:
    """Settings of all rounds of a run.

    Attributes:
        options: Options of the model.
        seed: Seed of the run.
        width: D, size of a hidden state and of a goal embedding.
        max_turns: Turns of the longest possible trajectory.
        alpha: Initial α of HAS.
        start: Last step before reinforcement learning.
    """

    options: TurnRDOptions
    seed: int
    width: int
    max_turns: int
    alpha: float
    start: int

    def make_model(self) -> TurnRD:
        """An untrained model, the same at every call."""
        o = self.options
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return TurnRD(
                self.width, self.width if o.goal else 0, max_turns=self.max_turns, hidden=o.hidden,
                layers=o.layers, heads=o.heads, dropout=o.dropout,
            ).eval()  # fmt: skip


def append(folder: Path, step: int, turns: Turns, states: Tensor, goals: Tensor | None) -> None:
    """Write the shard of a step atomically: states [N, D] and goals [M, E], in float16."""
    none = np.zeros((len(turns.group), 0), np.float16)
    shard = io.BytesIO()
    start = (turns.progress - turns.read_gain())[turns.position == 0]  # [M]
    np.savez_compressed(
        shard,
        states=states.to(torch.float16).cpu().numpy(),
        goals=none if goals is None else goals.to(torch.float16).cpu().numpy(),
        lengths=np.bincount(turns.trajectory),
        returns=turns.outcome,
        progress=turns.progress - start[turns.trajectory],
    )
    write_bytes(shard_path(folder, step), shard.getvalue())


def shard_path(folder: Path, step: int) -> Path:
    """Path of the shard of a step."""
    return folder / "replay" / f"step_{step}.npz"


def round_path(folder: Path, number: int) -> Path:
    """Folder with the model and manifest of a round."""
    return folder / "rounds" / f"round_{number}"


def read_shard(path: Path, age: int) -> list[Trajectory]:
    """The trajectories of a step, which was played `age` rounds ago."""
    with np.load(path) as shard:
        ends = np.cumsum(shard["lengths"])[:-1]
        states, progress = (np.split(shard[name], ends) for name in ("states", "progress"))
        columns = zip(states, progress, shard["goals"], shard["returns"].tolist(), strict=True)
        return [Trajectory(*values, age) for values in columns]


def train_round(folder: Path, number: int, stage: Stage) -> dict[str, Any]:
    """Train the model of round `number` on the files of the run; returns its manifest.

    If the loss is not finite or more than doubles, the model of the round before is kept, and
    `alpha` in the manifest moves HAS towards the outcome alone.
    """
    first, length = stage.start + 1, stage.options.round
    steps = range(first, first + (number + 1) * length)
    replay = [
        one
        for step in steps
        for one in read_shard(shard_path(folder, step), number - (step - first) // length)
    ]
    model, alpha = stage.make_model(), stage.alpha
    if number:
        model.load_state_dict(load_weights(folder, number - 1))
        alpha = read_manifest(folder, number - 1)["alpha"]
    start = {name: value.clone() for name, value in model.state_dict().items()}
    newest = pad_trajectories([one for one in replay if not one.age])
    manifest: dict[str, Any] = {"round": number, "steps": [steps[0], steps[-1]]}
    manifest |= {"trajectories": len(replay)} | measure_error(model, newest)
    o, rng = stage.options, np.random.default_rng([stage.seed, number, len("turnrd")])
    losses = fit_model(
        model, replay, o.loss, rng, learning_rate=o.learning_rate, epochs=o.epochs, batch=o.batch,
        half_life=o.half_life,
    )  # fmt: skip
    if diverged := not losses[-1] <= _WORSE * losses[0]:
        model.load_state_dict(start)
        alpha = 1.0 if not math.isfinite(losses[-1]) else (1 + alpha) / 2
    manifest |= {"losses": [x if math.isfinite(x) else None for x in losses], "diverged": diverged}
    manifest |= {"alpha": alpha} | measure_goal(model, newest)
    weights = io.BytesIO()
    torch.save(model.state_dict(), weights)
    write_bytes(round_path(folder, number) / MODEL, weights.getvalue())
    # written last: if the manifest exists, the round is complete
    write_text(round_path(folder, number) / MANIFEST, json.dumps(manifest, indent=1))
    return manifest


def load_weights(folder: Path, number: int) -> dict[str, Tensor]:
    """Weights of the model of a round."""
    found: dict[str, Tensor] = torch.load(round_path(folder, number) / MODEL, weights_only=True)
    return found


def find_last(folder: Path) -> int:
    """The last round whose model was trained, -1 if there is none."""
    found = (folder / "rounds").glob(f"round_*/{MANIFEST}")
    return max((int(path.parent.name.removeprefix("round_")) for path in found), default=-1)


def read_manifest(folder: Path, number: int) -> dict[str, Any]:
    """The manifest of a round; empty if it was not trained yet."""
    path = round_path(folder, number) / MANIFEST
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found
