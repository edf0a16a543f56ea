"""The runs of a table: each an ordinary folder, OUT/RUN/seed_N, trained in a process of its own.

Several machines may fill the same folder: a run belongs to the process that holds its lock.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from agent_envs.machine import FolderLock, LockedError
from agent_envs_lab.papers import SELF
from agent_envs_lab.papers.lab import FILE
from trainer import recipe as recipes
from trainer.run.checkpoint import Checkpoints
from trainer.run.checks import check_folder
from trainer.run.metrics import read_log
from trainer.run.run_folder import RunFolder

if TYPE_CHECKING:
    from agent_envs_lab.papers import Cell, Run, Table
    from trainer.recipe import Recipe

_SAID = 300  # characters of the last line of a log
_CLI = (sys.executable, "-c", "from agent_envs.cli import main; main()")


def load_recipe(run: Run, seed: int) -> Recipe:
    """The recipe of a run with a seed and the options of the command.

    Raises:
        RecipeError: An option is unknown or invalid.
    """
    return recipes.load(run.recipe, [*run.options, f"run.seed={seed}"])


def find_folder(out: Path, run: Run, seed: int) -> Path:
    """Folder of a run."""
    return out / run.name / f"seed_{seed}"


def describe_state(folder: Path, recipe: Recipe) -> str:
    """What a run lacks: "" if it is finished, "not run", a damaged file, or where it is.

    Raises:
        RunError: The folder holds a run of other settings.
    """
    log = folder / "log.txt"
    said = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else []
    why = next((line.strip() for line in reversed(said) if line.strip()), "")
    if not (folder / "config.toml").is_file():
        return f"died: {why[:_SAID]} (see {log})" if why else "not run"
    if changed := check_folder(recipe, folder, resume=True):
        return changed
    last = recipe.last_step
    run = RunFolder(folder)
    found = [step for step, _ in run.read_evaluations()]
    if run.damaged:
        return f"{run.damaged[0]}; restore it, or delete {folder} and train it anew with --run"
    if last in found:
        return ""
    done = max((line["step"] for line in read_log(folder / "metrics.jsonl")), default=0)
    why = why[:_SAID] or "nothing was said"
    return f"at step {done} of {last}, running or stopped: {why} (see {log})"


def write_command(cell: Cell, out: Path) -> str:
    """The command that evaluates the prompted model of a cell."""
    assert cell.prompted is not None  # noqa: S101  the caller looked
    return (
        f"agent-envs {shlex.join([*cell.prompted.command, '--out', str(out / cell.prompted.file)])}"
    )


def list_missing(table: Table, out: Path, seeds: int) -> Iterator[tuple[Run, int, str]]:
    """Runs with their seeds that are not finished, and their states.

    Raises:
        RunError: A folder holds a run of other settings.
    """
    for seed in range(seeds):
        for run in table.runs:
            recipe = load_recipe(run, seed)
            if state := describe_state(find_folder(out, run, seed), recipe):
                yield run, seed, state


def train_missing(
    table: Table,
    out: Path,
    seeds: int,
    *,
    jobs: int,
    launch: str,
    tell: Callable[[str], object],
) -> list[str]:
    """Train what is missing and evaluate what is due: the logs of what failed.

    Args:
        table: The table.
        out: Folder of the runs.
        seeds: Seeds of each cell.
        jobs: Runs at the same time.
        launch: What each command is prefixed with, e.g. "torchrun --nproc-per-node 8 --no-python".
        tell: Called with a line at the start of each run.
    """
    todo = [(run, seed) for run, seed, _ in list_missing(table, out, seeds)]

    def train(number: int, job: tuple[Run, int]) -> str:
        run, seed = job
        folder = find_folder(out, run, seed)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with closing(FolderLock(folder)) as lock:
                lock.take()
        except LockedError:
            tell(f"{number} of {len(todo)}: another process trains {folder}")
            return ""
        tell(f"{number} of {len(todo)}: {folder}")
        path = folder / "recipe.toml"
        recipes.save(load_recipe(run, seed), path)
        start = [*shlex.split(launch), "agent-envs"] if launch else _CLI
        words = ["train", str(path), "--out", str(folder), "--resume"]
        return _call([*start, *words], folder / "log.txt")

    with ThreadPoolExecutor(jobs) as pool:
        failed = [log for log in pool.map(train, count(1), todo) if log]
    for cell in (cell for row in table.cells for cell in row if cell.run):
        for seed in range(seeds):
            failed += filter(None, [_analyse(cell, out, seed, pocket=table.pocket)])
    return failed


def name_evaluation(cell: Cell, folder: Path) -> Path:
    """File of the further evaluation of a cell."""
    text = cell.column.evaluate.replace("/", "_").replace(":", "_")
    return folder / "eval" / f"with {text}.json"


def _analyse(cell: Cell, out: Path, seed: int, *, pocket: bool) -> str:
    """Evaluate or analyse the last checkpoint for a cell; the log if that failed, else ""."""
    assert cell.run is not None  # noqa: S101  the caller looked
    folder = find_folder(out, cell.run, seed)
    in_lab = cell.column.measure.startswith("lab.")
    path = folder / FILE if in_lab else name_evaluation(cell, folder)
    last = Checkpoints(folder / "checkpoints").latest()
    if path.is_file() or last is None or not (in_lab or cell.column.evaluate):
        return ""
    if describe_state(folder, load_recipe(cell.run, seed)):
        return ""  # of a run that goes on, the last checkpoint is not that of its end
    if in_lab:
        command = ["attribute", str(folder), "--rollouts", "4" if pocket else "8"]  # App. D: 8
    else:
        option = cell.column.evaluate.replace(SELF, f"partner.model={last}")
        command = ["eval", str(folder), option]
    return _call([*_CLI, *command, "--out", str(path)], folder / "log.txt")


def _call(command: Sequence[str], log: Path) -> str:
    """Run a command with its output in a log; the log if it failed, else ""."""
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(command, stdout=file, stderr=file, check=False)
    return str(log) if done.returncode else ""
