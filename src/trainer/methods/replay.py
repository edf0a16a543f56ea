"""TurnRD's replay on disk, and the stage between rounds that trains the model on it.

A step's rollouts are one shard. The stage is a process of its own, `python -m
trainer.methods.replay RUN ROUND`: it reads the shards up to its round, draws trajectories by
recency, trains from the round before, and writes checkpoint and manifest. It depends on nothing
but those files, so a stage that was killed is simply done again. HAS, Algorithm 1.
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

from credit.turnrd import TurnRD, TurnRDLoss, film_effect, shuffle_effect
from trainer.checkpoint import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from credit import Turns

MODEL, MANIFEST = "turnrd.pt", "manifest.json"
_COLUMNS = ("states", "goals", "lengths", "returns", "progress")
_WORSE = 2.0  # a loss that ends at this multiple of its beginning has diverged


@dataclass(frozen=True)
class Stage:
    """What every stage of a run needs to know; `rounds/stage.json`.

    Attributes:
        seed: Of the run.
        width: D, size of a hidden state.
        goal_width: E, size of a goal embedding, 0 without FiLM.
        max_turns: Longest trajectory.
        alpha: α of HAS to begin with.
        start: Step that reinforcement learning began after.
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
        """An untrained model, the same for every caller."""
        o = self.options
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return TurnRD(
                self.width, self.goal_width, max_turns=self.max_turns, hidden=o["hidden"],
                layers=o["layers"], heads=o["heads"], dropout=o["dropout"],
            ).eval()  # fmt: skip

    def loss(self) -> TurnRDLoss:
        """Its loss."""
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
    """Trajectories of some shards.

    Attributes:
        ages: Rounds since each was played, [M].
    """

    def __init__(self) -> None:
        self._states: list[NDArray[np.float16]] = []
        self._progress: list[NDArray[np.float64]] = []
        self._goals: list[NDArray[np.float16]] = []
        self.returns: list[float] = []
        self.ages: list[int] = []

    def __len__(self) -> int:
        """How many trajectories."""
        return len(self.returns)

    def add(self, shard: dict[str, NDArray[Any]], age: int) -> None:
        """Take in the trajectories of a shard."""
        ends = np.cumsum(shard["lengths"])[:-1]
        self._states += np.split(shard["states"], ends)
        self._progress += np.split(shard["progress"], ends)
        self._goals += list(shard["goals"])
        self.returns += shard["returns"].tolist()
        self.ages += [age] * len(shard["returns"])

    def batch(self, chosen: Sequence[int]) -> Trajectories:
        """Some of the trajectories."""
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
    """Write the shard of a step, whole or not at all: [N, D] states, [M, E] goals, in fp16."""
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
    """Where the shard of a step is."""
    return folder / "replay" / f"step_{step}.npz"


def round_path(folder: Path, number: int) -> Path:
    """Where the stage after a round leaves its model and manifest."""
    return folder / "rounds" / f"round_{number}"


def read(folder: Path, steps: Sequence[int], ages: Sequence[int]) -> tuple[Replay, list[str]]:
    """The trajectories of these steps, and the shards that could not be read.

    A shard that is cut short is left out with a warning that names it.
    """
    found, skipped = Replay(), []
    for step, age in zip(steps, ages, strict=True):
        path = shard_path(folder, step)
        try:
            with path.open("rb") as raw, np.load(raw) as file:
                found.add({name: file[name] for name in _COLUMNS}, age)
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            warnings.warn(
                f"{path} cannot be read ({error}) and is left out; TurnRD learns from the rest",
                stacklevel=2,
            )
            skipped.append(path.name)
    return found, skipped


def train_round(folder: Path, number: int) -> dict[str, Any]:
    """The stage after round `number`, from the files of the run; its manifest.

    A loss that is not finite, or grows to twice what it was, rolls the model back to the round
    before; `alpha` of the manifest then says how far HAS is to lean on the outcome alone.
    """
    stage = Stage(**json.loads((folder / "rounds" / "stage.json").read_text()))
    first, length = stage.start, stage.options["round"]
    steps = list(range(first + 1, first + (number + 1) * length + 1))
    ages = [number - (step - first - 1) // length for step in steps]
    replay, skipped = read(folder, steps, ages)
    model = stage.model()
    before = manifest_of(folder, number - 1) if number else {"alpha": stage.alpha}
    if number:
        known = torch.load(round_path(folder, number - 1) / MODEL, weights_only=True)
        model.load_state_dict(known)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    told: dict[str, Any] = {"round": number, "steps": [steps[0], steps[-1]], "skipped": skipped}
    told |= {"trajectories": len(replay)} | _unseen(model, replay)
    losses = _fit(model, replay, stage, number) if len(replay) else []
    diverged = bool(losses) and not losses[-1] <= _WORSE * losses[0]
    alpha = before["alpha"]
    if diverged:
        model.load_state_dict(start)
        alpha = 1.0 if not math.isfinite(losses[-1]) else (1 + alpha) / 2
    told |= {"losses": [x if math.isfinite(x) else None for x in losses], "diverged": diverged}
    told |= {"alpha": alpha} | _probes(model.eval(), replay)
    _write(round_path(folder, number), model, told)
    return told


def manifest_of(folder: Path, number: int) -> dict[str, Any]:
    """The manifest of a round's stage.

    Raises:
        FileNotFoundError: The stage has not been done.
    """
    found: dict[str, Any] = json.loads((round_path(folder, number) / MANIFEST).read_text())
    return found


def _fit(model: TurnRD, replay: Replay, stage: Stage, number: int) -> list[float]:
    """Train on trajectories drawn by recency; the mean loss of each epoch."""
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
    """How often each trajectory is drawn, by the rounds since it was played: [M], sums to 1."""
    weight = np.exp2(-np.array(ages) / half_life)
    chance: NDArray[np.float64] = weight / weight.sum()
    return chance


def gains(batch: Trajectories) -> Tensor:
    """What each turn gains in progress: [B, T]."""
    before = torch.nn.functional.pad(batch.progress, (1, 0))[:, :-1]
    return (batch.progress - before).masked_fill(~batch.mask, 0.0)


@torch.no_grad()
def _unseen(model: TurnRD, replay: Replay) -> dict[str, float]:
    """How well the model tells the returns of the newest round, which it has not seen.

    `error` is the mean squared error, `error_of_mean` that of the newest round's own mean.
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
    """What the goal does, on the newest round. HAS, Fig. 4."""
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
    """Model first, manifest last: where the manifest is, the stage is done."""
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
