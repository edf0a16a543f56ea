"""Checkpoints that survive a kill, a full disk or a truncated file.

A checkpoint is a folder `step_N`, written under a temporary name, flushed to the disk and renamed.
Its manifest has the size and digest of every file, so a damaged checkpoint is detected and the one
before it is used. Left out: random states; all randomness derives from (seed, step, purpose).
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from pathlib import Path
from pickle import UnpicklingError
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from agent_envs.imports import message_of
from agent_envs.machine import explain_error, find_shortage, flush_to_disk, read_json

MANIFEST = "manifest.json"


class CheckpointError(OSError):
    """A checkpoint cannot be written, or none can be read; the message says what to do."""


class Manifest(BaseModel, extra="forbid"):
    """Version of the schema, and size and digest of each file of a checkpoint."""

    version: Literal[1]
    files: Annotated[dict[str, tuple[int, str]], Field(min_length=1)]


class State(BaseModel, strict=True, extra="forbid", allow_inf_nan=False):
    """What a checkpoint has beside the weights.

    `method` is empty before its first step, `pending` but for a step that was not yet evaluated;
    `imitated` has the measurements of a warm start, see `trainer.learn.sft.measure_imitation`.
    """

    step: Annotated[int, Field(ge=0)]
    kl_coefficient: Annotated[float, Field(ge=0)]
    learner: dict[str, Any]
    method: dict[str, Any]
    pending: dict[str, Any]
    imitated: list[float]


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run.

    Attributes:
        folder: Parent of the folders `step_N`.
        keep: How many of the newest checkpoints are kept.
        pinned: Steps that are never deleted.
    """

    folder: Path
    keep: int = 2
    pinned: frozenset[int] = frozenset()

    def save(self, step: int, write: Callable[[Path], None]) -> Path:
        """Write the checkpoint of `step`: `write(folder)` fills its folder. Returns its path.

        In several processes all call this, and `write` in all of them fills the folder together.

        Raises:
            CheckpointError: It could not be written; earlier checkpoints are unchanged.
        """
        from safetensors import SafetensorError

        from trainer.scale import parallel

        part, final = self.folder / f".step_{step}.part", self.folder / f"step_{step}"
        try:
            parallel.run_on_first(lambda: self._begin(part))
            write(part)
            parallel.run_on_first(lambda: self._finish(part, final))
        except (OSError, RuntimeError, MemoryError, SafetensorError) as error:  # Runtime: of torch
            if parallel.rank() == 0:
                shutil.rmtree(part, ignore_errors=True)
            raise CheckpointError(
                f"checkpoint step_{step} could not be written to {self.folder} "
                f"({message_of(error)}); those before it are intact; "
                f"{find_shortage(error) or 'make room'}, then continue with --resume"
            ) from error
        parallel.run_on_first(self._prune)
        return final

    def _begin(self, part: Path) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob(".step_*.part"):
            shutil.rmtree(old)
        part.mkdir()

    def _finish(self, part: Path, final: Path) -> None:
        manifest = Manifest(version=1, files=_digests(part))
        (part / MANIFEST).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
        for path in [*part.rglob("*"), part]:
            flush_to_disk(path)
        shutil.rmtree(final, ignore_errors=True)
        part.rename(final)
        flush_to_disk(self.folder)

    def latest(self) -> Path | None:
        """The newest valid checkpoint, None if there is none at all; warns about damaged ones.

        Raises:
            CheckpointError: All checkpoints are damaged.
        """
        problems: list[str] = []
        for step in sorted(self.steps(), reverse=True):
            path = self.folder / f"step_{step}"
            problem = find_damage(path)
            if not problem:
                if problems:
                    warnings.warn(f"{'; '.join(problems)}; continuing from {path}", stacklevel=2)
                return path
            problems.append(problem)
        if problems:
            raise CheckpointError(
                f"no valid checkpoint in {self.folder}: {'; '.join(problems)}. "
                "Delete the run folder, or train into another one with --out"
            )
        return None

    def steps(self) -> list[int]:
        """Steps that have a checkpoint, valid or not, in increasing order."""
        found = self.folder.glob("step_*") if self.folder.is_dir() else ()
        return sorted(int(p.name[5:]) for p in found if p.is_dir() and p.name[5:].isdecimal())

    def _prune(self) -> None:
        loose = [step for step in self.steps() if step not in self.pinned]
        for step in loose[: -self.keep]:
            shutil.rmtree(self.folder / f"step_{step}")


def find_latest(run: Path) -> Path:
    """The newest valid checkpoint of a run.

    Raises:
        CheckpointError: There is none yet, or all are damaged.
    """
    found = Checkpoints(run / "checkpoints").latest()
    if found is None:
        raise CheckpointError(
            f"{run} has no checkpoint yet; continue it with `agent-envs train {run} --resume`"
        )
    return found


def find_damage(path: Path) -> str:
    """What is wrong with the checkpoint in folder `path`, "" if it is valid."""
    try:
        expected, found = read_json(path / MANIFEST, Manifest).files, _digests(path)
    except (OSError, ValueError) as error:
        return str(error)
    wrong = [path / name for name in expected if found.get(name) != expected[name]]
    return f"{wrong[0]} is missing, truncated or not as it was written" if wrong else ""


@contextmanager
def name_damage(path: Path) -> Iterator[None]:
    """Context in which a part of a whole checkpoint that cannot be used is refused by name.

    Raises:
        CheckpointError: A file holds something else than this version writes.
    """
    try:
        yield
    except Exception as error:  # of torch, safetensors, pydantic or peft, and it may be anything
        if find_shortage(error):
            raise
        said = f"{type(error).__name__}: {message_of(error)}"
        if isinstance(error, ValidationError):
            said = explain_error(error)
        if isinstance(error, UnpicklingError):  # its own text advises to load it nevertheless
            said = "it holds other objects than tensors and numbers, which may run foreign code"
        raise CheckpointError(
            f"{path} is of another version or not from this program ({said}); delete this folder "
            "to continue from the checkpoint before, or start a new run with --out DIR"
        ) from error


def _digests(folder: Path) -> dict[str, tuple[int, str]]:
    """Size and digest of each file."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            digest = file_digest(file, lambda: blake2b(digest_size=16)).hexdigest()
        found[str(path.relative_to(folder))] = path.stat().st_size, digest
    return found
