"""TurnRD's replay on disk, and the stage between rounds that trains the model on it.

The rollouts of a step are one shard. The stage is a process of its own, `python -m
trainer.methods.replay RUN ROUND`. It reads the shards up to its round, draws trajectories by
recency, trains the model of the round before, and writes model and manifest. It depends only on
these files, so a stage that was killed is run again. HAS, Algorithm 1.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from credit.methods.turnrd import TurnRD, TurnRDLoss, film_effect, shuffle_effect
from trainer.run.checkpoint import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from credit import Turns

MODEL, MANIFEST = "turnrd.pt", "manifest.json"
_COLUMNS = ("states", "goals", "lengths", "returns", "progress")
_WORSE = 2.0  # training diverged if the last loss is more than this multiple of the first


@dataclass(frozen=True)
class Stage:
    """Settings of all stages of a run, saved as `rounds/stage.json`.

    Attributes:
        seed: Seed of the run.
        width: D, size of a hidden state.
        goal_width: E, size of a goal embedding, 0 without FiLM.
        max_turns: Turns of the longest possible trajectory.
        alpha: Initial α of HAS.
        start: Last step before reinforcement learning.
        options: The recipe's section `turnrd`.
    """

    seed: int
    width: int
    goal_width: int
    max_turns: int
    alpha: float
    start: int
    options: dict[str, Any]

    def model(self) -> TurnRD:
        """An untrained model, the same at every call."""
        o = self.options
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return TurnRD(
                self.width, self.goal_width, max_turns=self.max_turns, hidden=o["hidden"],
                layers=o["layers"], heads=o["heads"], dropout=o["dropout"],
            ).eval()  # fmt: skip

    def loss(self) -> TurnRDLoss:
        """The loss of the model."""
        return TurnRDLoss(**self.options["loss"])


@dataclass(frozen=True)
class Trajectories:
    """B trajectories, padded to T turns."""

    states: Tensor  # [B, T, D]
    mask: Tensor  # [B, T]
    goals: Tensor | None  # [B, E]
    returns: Tensor  # [B]
    progress: Tensor  # [B, T], after each turn


class Replay:
    """M trajectories, read from shards.

    Attributes:
        returns: Outcome of each, [M].
        ages: Rounds since each was played, [M].
    """

    def __init__(self) -> None:
        self._states: list[NDArray[np.float16]] = []
        self._progress: list[NDArray[np.float64]] = []
        self._goals: list[NDArray[np.float16]] = []
        self.returns: list[float] = []
        self.ages: list[int] = []

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self.returns)

    def add(self, shard: dict[str, NDArray[Any]], age: int) -> None:
        """Add the trajectories of a shard."""
        ends = np.cumsum(shard["lengths"])[:-1]
        self._states += np.split(shard["states"], ends)
        self._progress += np.split(shard["progress"], ends)
        self._goals += list(shard["goals"])
        self.returns += shard["returns"].tolist()
        self.ages += [age] * len(shard["returns"])

    def batch(self, chosen: Sequence[int]) -> Trajectories:
        """The chosen trajectories, padded."""
        longest = max(len(self._states[i]) for i in chosen)
        width = self._states[chosen[0]].shape[1]
        states = torch.zeros(len(chosen), longest, width)
        mask = torch.zeros(len(chosen), longest, dtype=torch.bool)
        progress = torch.zeros(len(chosen), longest)
        for row, i in enumerate(chosen):
            turns = len(self._states[i])
            states[row, :turns] = torch.from_numpy(self._states[i].astype(np.float32))
            progress[row, :turns] = torch.from_numpy(self._progress[i].astype(np.float32))
            mask[row, :turns] = True
        goals = np.stack([self._goals[i] for i in chosen]).astype(np.float32)
        returns = torch.tensor([self.returns[i] for i in chosen])
        known = torch.from_numpy(goals) if goals.shape[1] else None
        return Trajectories(states, mask, known, returns, progress)


def append(folder: Path, step: int, turns: Turns, states: Tensor, goals: Tensor | None) -> None:
    """Write the shard of a step atomically: states [N, D] and goals [M, E], in float16."""
    path = shard_path(folder, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    none = np.zeros((len(turns.group), 0), np.float16)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(
            file,
            states=states.to(torch.float16).cpu().numpy(),
            goals=none if goals is None else goals.to(torch.float16).cpu().numpy(),
            lengths=np.bincount(turns.trajectory),
            returns=turns.outcome,
            progress=turns.progress,
        )
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def shard_path(folder: Path, step: int) -> Path:
    """Path of the shard of a step."""
    return folder / "replay" / f"step_{step}.npz"


def round_path(folder: Path, number: int) -> Path:
    """Folder with the model and manifest of the stage after a round."""
    return folder / "rounds" / f"round_{number}"


def read_shards(
    folder: Path, steps: Sequence[int], ages: Sequence[int]
) -> tuple[Replay, list[str]]:
    """Trajectories of these steps, and the names of shards that cannot be read.

    Unreadable shards are left out with a warning.
    """
    found, skipped = Replay(), []
    for step, age in zip(steps, ages, strict=True):
        path = shard_path(folder, step)
        try:
            with path.open("rb") as raw, np.load(raw) as file:
                found.add({name: file[name] for name in _COLUMNS}, age)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            warnings.warn(
                f"{path} cannot be read ({error}) and is left out; TurnRD learns from the others",
                stacklevel=2,
            )
            skipped.append(path.name)
    return found, skipped


def train_round(folder: Path, number: int) -> dict[str, Any]:
    """Run the stage after round `number` on the files of the run; returns its manifest.

    If the loss is not finite or more than doubles, the model of the round before is kept, and
    `alpha` in the manifest moves HAS towards the outcome alone.
    """
    stage = Stage(**json.loads((folder / "rounds" / "stage.json").read_text()))
    first, length = stage.start, stage.options["round"]
    steps = list(range(first + 1, first + (number + 1) * length + 1))
    ages = [number - (step - first - 1) // length for step in steps]
    replay, skipped = read_shards(folder, steps, ages)
    model = stage.model()
    before = manifest_of(folder, number - 1) if number else {"alpha": stage.alpha}
    if number:
        known = torch.load(round_path(folder, number - 1) / MODEL, weights_only=True)
        model.load_state_dict(known)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    manifest: dict[str, Any] = {"round": number, "steps": [steps[0], steps[-1]], "skipped": skipped}
    manifest |= {"trajectories": len(replay)} | _unseen(model, replay)
    losses = _fit(model, replay, stage, number) if len(replay) else []
    diverged = bool(losses) and not losses[-1] <= _WORSE * losses[0]
    alpha = before["alpha"]
    if diverged:
        model.load_state_dict(start)
        alpha = 1.0 if not math.isfinite(losses[-1]) else (1 + alpha) / 2
    manifest |= {"losses": [x if math.isfinite(x) else None for x in losses], "diverged": diverged}
    manifest |= {"alpha": alpha} | _probes(model.eval(), replay)
    _write(round_path(folder, number), model, manifest)
    return manifest


def manifest_of(folder: Path, number: int) -> dict[str, Any]:
    """The manifest of a round's stage.

    Raises:
        FileNotFoundError: The stage was not run yet.
    """
    found: dict[str, Any] = json.loads((round_path(folder, number) / MANIFEST).read_text())
    return found


def _fit(model: TurnRD, replay: Replay, stage: Stage, number: int) -> list[float]:
    """Train on trajectories drawn by recency; returns the mean loss of each epoch."""
    o, loss = stage.options, stage.loss()
    rng = np.random.default_rng([stage.seed, number, len("turnrd")])
    chance = recency(replay.ages, half_life=o["half_life"])
    optimizer = torch.optim.AdamW(model.parameters(), o["learning_rate"])
    model.train()
    losses = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**31)))  # dropout
        for _ in range(o["epochs"]):
            drawn = rng.choice(len(replay), len(replay), p=chance)
            total = 0.0
            for at in range(0, len(drawn), o["batch"]):
                batch = replay.batch(drawn[at : at + o["batch"]].tolist())
                output = model(batch.states, batch.mask, batch.goals)
                value = loss(
                    output, batch.returns, batch.mask, progress=batch.progress, dense=gains(batch)
                )
                optimizer.zero_grad()
                torch.autograd.backward(value)
                optimizer.step()
                total += value.item() * len(batch.returns)
            losses.append(total / len(drawn))
            if not math.isfinite(losses[-1]):
                break
    return losses


def recency(ages: Sequence[int], *, half_life: float) -> NDArray[np.float64]:
    """Probability of drawing each trajectory, by the rounds since it was played: [M] -> [M]."""
    weight = np.exp2(-np.array(ages) / half_life)
    chance: NDArray[np.float64] = weight / weight.sum()
    return chance


def gains(batch: Trajectories) -> Tensor:
    """Gain in progress of each turn: -> [B, T]."""
    before = torch.nn.functional.pad(batch.progress, (1, 0))[:, :-1]
    return (batch.progress - before).masked_fill(~batch.mask, 0.0)


@torch.no_grad()
def _unseen(model: TurnRD, replay: Replay) -> dict[str, float]:
    """Error of the returns on the newest round, before training on it.

    `error` is the mean squared error of the model, `error_of_mean` that of the mean return of the
    newest round.
    """
    newest = [i for i, age in enumerate(replay.ages) if age == 0]
    if not newest:
        return {}
    batch = replay.batch(newest)
    predicted = model.eval()(batch.states, batch.mask, batch.goals).predicted
    mean = batch.returns.mean()
    return {
        "error": (predicted - batch.returns).square().mean().item(),
        "error_of_mean": (batch.returns - mean).square().mean().item(),
    }


def _probes(model: TurnRD, replay: Replay) -> dict[str, float]:
    """Effect of the goal on the newest round. HAS, Fig. 4."""
    newest = [i for i, age in enumerate(replay.ages) if age == 0]
    if model.film is None or not newest:
        return {}
    batch = replay.batch(newest)
    if batch.goals is None:
        return {}
    with torch.no_grad():
        scale, shift = model.modulation(batch.goals)
    return {
        "film_effect": film_effect(model, batch.states, batch.mask, batch.goals),
        "shuffle_effect": shuffle_effect(
            model, batch.states, batch.mask, batch.goals, batch.returns
        ),
        "film_scale": scale.norm(dim=-1).mean().item(),
        "film_shift": shift.norm(dim=-1).mean().item(),
    }


def _write(folder: Path, model: TurnRD, manifest: dict[str, Any]) -> None:
    """Write the model, then the manifest: if the manifest exists, the stage is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{MODEL}.part"
    with part.open("wb") as file:
        torch.save(model.state_dict(), file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / MODEL)
    write_text(folder / MANIFEST, json.dumps(manifest, indent=1))


def main() -> None:
    """Command line of the stage: run folder and round."""
    torch.set_num_threads(1)
    train_round(Path(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
