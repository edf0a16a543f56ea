"""The log of a run: one JSON line and one printed line for each step, TensorBoard, a progress bar.

The lines may be copied to Weights & Biases or trackio. Where these write and whether they need a
network is up to their own settings, e.g. WANDB_MODE=offline. A resumed run continues its copy.

A line is flushed to the disk before the run continues. A step that is repeated after a resume is
not logged again; on a deterministic device its line would be the same. Where a run goes on from an
earlier step with another recipe, what it had written of later steps is moved to `abandoned/`.
"""

from __future__ import annotations

import json
import math
import secrets
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from agent_envs.cli.console import format_seconds, make_console, show_data
from agent_envs.imports import message_of
from agent_envs.machine import append_line, explain_error, read_json, write_text
from credit.filters import is_dead
from trainer.run.run_folder import step_of

if TYPE_CHECKING:
    from rich.console import Console

    from trainer.play.records import Episode

CLOCKS = ("seconds", "tokens_per_second", "time")
"""Endings of the keys whose values differ between two runs of the same seed."""
WARNINGS = "warnings.jsonl"
"""File of a run with its warnings."""
TRACKERS = {
    "wandb": "log in with `wandb login`, or set WANDB_MODE=offline",
    "trackio": "see the trackio documentation, or leave --track trackio out",
}
"""Libraries to which a log can be copied, and what to do if one does not start."""
_SHOWN = {"success": ".0%", "valid": ".0%", "return": ".2f"}
_LARGE = 2**53  # larger than any number of steps or episodes


class MetricsError(ValueError):
    """A file is not a log that `Metrics` wrote."""


class Line(BaseModel, strict=True, extra="allow", allow_inf_nan=False):
    """A line of `metrics.jsonl`: a step, its stage, and numbers."""

    __pydantic_extra__: dict[str, float | None]
    step: Annotated[int, Field(ge=0, lt=_LARGE)]
    stage: str = ""
    success: Annotated[float, Field(ge=0, le=1)] | None = None
    episodes: Annotated[int, Field(ge=0, lt=_LARGE)] | None = None


def read_log(path: Path, kind: Any = Line) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl`, or of another log, without a last line that a kill truncated.

    Args:
        path: The file; one that is missing has no lines.
        kind: What a line has to be, a type that pydantic knows.

    Raises:
        MetricsError: A line before the last is not one of such a log.
    """
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    known = TypeAdapter(kind)
    for number, line in enumerate(lines, start=1):
        try:
            known.validate_json(line)
        except ValidationError as error:
            raise MetricsError(
                f"{path} line {number} is not a line of a log ({explain_error(error)}); restore "
                "the file, or delete the line"
            ) from error
    return [json.loads(line) for line in lines]


class TrackerError(ValueError):
    """A library refused to start; the message has its reason."""


def open_tracker(name: str, folder: Path, config: Mapping[str, Any]) -> Any:
    """The run of a library of `TRACKERS` that gets a copy of the log; a resumed run has it again.

    Args:
        name: The library.
        folder: Run folder, with a file for the id of the run there.
        config: Options of the run, with its `name`.

    Raises:
        TrackerError: The library refused to start.
    """
    path = folder / "tracker_id.txt"
    if not path.is_file():
        write_text(path, secrets.token_hex(4) + "\n")
    run_id = path.read_text(encoding="utf-8").strip()
    more = {"id": run_id, "dir": str(folder)} if name == "wandb" else {}
    try:
        return import_module(name).init(
            project="agent-envs",
            name=f"{config['name']}-{run_id}",
            config=dict(config),
            resume="allow",
            **more,
        )
    except Exception as error:  # the libraries have no common class of errors
        raise TrackerError(
            f"{name} did not start ({message_of(error)}); {TRACKERS[name]}"
        ) from error


class Metrics:
    """Log of one run in `folder`; use as a context manager.

    Args:
        folder: Run folder; lines are written to `metrics.jsonl`, events to `tensorboard/`.
        totals: Number of steps of each stage, for the progress bar.
        console: Console for the progress.
        trackers: Runs of `open_tracker` that get a copy; they are finished with the log.
    """

    def __init__(
        self,
        folder: Path,
        totals: Mapping[str, int],
        *,
        console: Console | None = None,
        trackers: Sequence[Any] = (),
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        self.console = console or make_console()
        self.lines = {line["step"]: line for line in read_log(self.path)}
        write_text(self.path, "".join(f"{_dump(line)}\n" for line in self.lines.values()))
        fresh = max(self.lines, default=-1) + 1  # events of steps that were abandoned are hidden
        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=fresh)
        self._trackers = trackers
        self._totals = dict(totals)
        self._bars: dict[str, TaskID] = {}
        self._since = time.monotonic()  # of the last line
        self._pace: dict[str, tuple[int, float]] = {}  # steps of a stage here, and their seconds
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._since = time.monotonic()
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        self._writer.close()
        self._tell_trackers(max(self.lines, default=0), lambda tracker: tracker.finish())

    def log(self, step: int, stage: str, done: int, values: Mapping[str, float]) -> None:
        """Write and show the line of `step`, the step number `done` of its stage."""
        line = {"step": step, "stage": stage, **values, "time": round(time.time(), 3)}
        self._show(stage, done, values)
        before = self.lines.get(step)
        if before is not None:
            shared = sorted(before.keys() & line.keys())  # what was the last step was evaluated
            one, other = (_drop_clocks({key: a[key] for key in shared}) for a in (before, line))
            if any(not _is_close(one[key], other[key]) for key in one):
                warnings.warn(
                    f"step {step}, repeated after a resume, differs from its line in {self.path}, "
                    "which is kept: options were changed, or this device is not deterministic",
                    stacklevel=2,
                )
            return
        self.lines[step] = line
        append_line(self.path, _dump(line))
        named = {f"{stage}/{name}": value for name, value in values.items()}
        for name, value in named.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()
        self._tell_trackers(step, lambda tracker: tracker.log(named, step=step))

    def note_gaps(self, step: int) -> None:
        """Warn of steps up to this one that have no line: curves and means are without them."""
        skipped = {  # by a warm start that ended before its limit
            one
            for at, line in self.lines.items()
            if line.get("stage") == "sft" and "steps" in line
            for one in range(int(line["steps"]), at)
        }
        lacking = [one for one in range(1, step + 1) if one not in {*self.lines, *skipped}]
        if lacking:
            self.warning(
                step,
                f"{self.path} lacks the lines of {len(lacking)} steps, the first {lacking[0]}; "
                "restore these lines to have them in the report",
            )

    def _tell_trackers(self, step: int, tell: Callable[[Any], object]) -> None:
        """Call each tracker; one that fails is left out from then on, and the run goes on."""
        for tracker in tuple(self._trackers):
            try:
                tell(tracker)
            except Exception as error:  # noqa: BLE001 - the libraries have no common class
                self._trackers = [one for one in self._trackers if one is not tracker]
                name = type(tracker).__module__.partition(".")[0]
                self.warning(
                    step, f"{name} failed ({message_of(error)}) and gets no more of the log"
                )

    def say(self, text: str) -> None:
        """Print a line of text above the progress bar."""
        self.console.print(show_data(text), soft_wrap=True)

    def warning(self, step: int, text: str) -> None:
        """Print a warning and write it to `WARNINGS`, unless this step wrote it before."""
        self.say(f"warning: step {step}: {text}")
        note_warning(self.path.parent, step, text)

    def _show(self, stage: str, done: int, values: Mapping[str, float]) -> None:
        total, now = self._totals[stage], time.monotonic()
        steps, seconds = self._pace.get(stage, (0, 0.0))
        self._pace[stage] = steps, seconds = steps + 1, seconds + now - self._since
        self._since = now
        if stage == "start":  # an evaluation alone, which has a line of its own
            return
        parts = [f"{key} {values[key]:{style}}" for key, style in _SHOWN.items() if key in values]
        if "tokens_per_second" in values:
            parts.append(f"{values['tokens_per_second']:,.0f} tokens/s")
        elif "loss" in values:
            parts.append(f"loss {values['loss']:.3f}")
            if "imitation" in values:
                parts.append(f"imitation {values['imitation']:.0%}")
        if done < total:
            parts.append(f"eta {format_seconds((total - done) * seconds / steps)}")
        if stage not in self._bars:
            self._bars[stage] = self._progress.add_task(stage, total=total)
        self._progress.update(self._bars[stage], completed=done)
        self.say("  ".join((f"{stage} {done}/{total}", *parts)))


def note_warning(folder: Path, step: int, text: str) -> None:
    """Write a warning to the `WARNINGS` of a run, unless this step wrote it before."""
    path, line = folder / WARNINGS, json.dumps({"step": step, "text": text})
    written = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    if line not in written:
        append_line(path, line)


def abandon_steps(folder: Path, step: int) -> None:
    """Move what a run wrote of the steps after this one to a folder of its own in `abandoned/`."""
    beside = folder / "abandoned" / str(1 + len([*folder.glob("abandoned/*")]))
    for name in ("metrics.jsonl", WARNINGS):
        lines = read_log(folder / name, dict[str, Any])
        if later := [line for line in lines if line["step"] > step]:
            beside.mkdir(parents=True, exist_ok=True)
            write_text(beside / name, "".join(f"{_dump(line)}\n" for line in later))
            kept = (line for line in lines if line not in later)
            write_text(folder / name, "".join(f"{_dump(line)}\n" for line in kept))
    made = {at: step_of(at) for at in folder.glob("*/step_*") if at.parent.name != "checkpoints"}
    for path in folder.glob("rounds/*/manifest.json"):  # of models trained between steps
        made[path.parent] = read_json(path, dict[str, Any])["steps"][-1]
    for path, last in made.items():
        if last > step:
            (beside / path.parent.name).mkdir(parents=True, exist_ok=True)
            path.replace(beside / path.parent.name / path.name)


class Silent:
    """The log of a process that writes none: that of process 0 is the log of the run."""

    def log(self, step: int, stage: str, done: int, values: Mapping[str, float]) -> None:
        """Write nothing."""

    def note_gaps(self, step: int) -> None:
        """Warn of nothing."""

    def say(self, text: str) -> None:
        """Print nothing."""

    def warning(self, step: int, text: str) -> None:
        """Print and write nothing."""


def describe(played: Sequence[Episode]) -> dict[str, float]:
    """Statistics of the rollouts of a step.

    `reply_tokens` is the mean length of a reply, `distinct_actions` the mean number of different
    actions in a group; `dead_groups` and `identical_groups` are the shares of groups with equal
    outcomes and with equal replies. The mean reward of each verifier and the mean of what the
    environment measured are under their own names, success of a stratum is under
    `success/STRATUM`, and `partner_return` is the mean outcome of the other side of conversations.
    """
    groups: dict[int, list[Episode]] = {}
    for episode in played:
        groups.setdefault(episode.group, []).append(episode)
    steps = [step for episode in played for step in episode.steps]
    _, first = np.unique([episode.group for episode in played], return_index=True)
    dead = is_dead([one.outcome for one in played], [one.group for one in played])[first]
    actions = [{s.action for e in group for s in e.steps} for group in groups.values()]
    plays = [{tuple(s.reply for s in e.steps) for e in group} for group in groups.values()]
    entropies = np.concatenate([step.entropies for step in steps])
    return {
        **_describe_named(played),
        "episodes": len(played),
        "success": float(np.mean([episode.success for episode in played])),
        "valid": float(np.mean([step.valid for step in steps])),
        "return": float(np.mean([e.outcome + sum(s.reward for s in e.steps) for e in played])),
        "turns": len(steps) / len(played),
        "reply_tokens": float(np.mean([len(step.reply_ids) for step in steps])),
        "truncated": float(np.mean([episode.truncated for episode in played])),
        "entropy": float(entropies.mean()) if len(entropies) else 0.0,
        "distinct_actions": float(np.mean([len(found) for found in actions])),
        "dead_groups": float(np.mean(dead)),
        "identical_groups": float(np.mean([len(found) == 1 for found in plays])),
    }


def _describe_named(played: Sequence[Episode]) -> dict[str, float]:
    """Means of what has a name of its own: the other side, verifiers, measures and strata."""
    found: dict[str, list[float]] = {}
    for one in played:
        rewards: Counter[str] = Counter()
        for step in one.steps:
            rewards.update(step.turn_reward)
        other = one.partner_outcome
        if other is not None and not math.isnan(other):  # NaN if nobody judged it
            found.setdefault("partner_return", []).append(other)
        strata = {f"success/{value}": one.success for value in one.strata.values()}
        for name, value in {**strata, **rewards, **one.measures}.items():
            found.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def _dump(line: Mapping[str, Any]) -> str:
    finite = {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()
    }
    return json.dumps(finite)


def _drop_clocks(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line, as it is written, without what differs between two runs of the same seed."""
    kept = {k: v for k, v in line.items() if not k.startswith("endpoint_")}
    found: dict[str, Any] = json.loads(_dump(kept))
    return {k: v for k, v in found.items() if not k.endswith(CLOCKS)}


def _is_close(one: Any, other: Any) -> bool:
    """Whether two values are the same up to last bits, which free options may change."""
    numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
    return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-6) if numbers else one == other
