"""The log of a run: one JSON line and one printed line for each step, TensorBoard, a progress bar.

`Tracker` copies the lines to Weights & Biases or trackio. Where these write and whether they need a
network is up to their own settings, e.g. WANDB_MODE=offline. A resumed run continues its copy.

A line is flushed to the disk before the run continues. A step that is repeated after a resume is
not logged again; on a deterministic device its line would be the same.
"""

from __future__ import annotations

import json
import math
import secrets
import sys
import time
import warnings
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.text import Text

from credit.filters import is_dead
from trainer.run.checkpoint import append_line, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from numpy.typing import NDArray
    from rich.progress import Task

    from trainer.play.records import Episode

CLOCKS = ("seconds", "tokens_per_second", "time")
"""Endings of the keys whose values differ between two runs of the same seed."""
WARNINGS = "warnings.jsonl"
"""File of a run with its warnings."""
TRACKERS = ("wandb", "trackio")
PROJECT = "agent-envs"
_HELP = {
    "wandb": "log in with `wandb login`, or set WANDB_MODE=offline",
    "trackio": "see the trackio documentation, or leave --track trackio out",
}
_TRACKER_FILE = "tracker_id.txt"
_SHOWN = {"success": ".0%", "valid": ".0%", "return": ".2f"}
_FAR = 2**53  # larger than any number of steps or episodes


class MetricsError(ValueError):
    """A file is not a log that `Metrics` wrote."""


def read_log(
    path: Path, check: Callable[[dict[str, Any]], None] | None = None
) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl`, or of another log, without a last line that a kill truncated.

    Args:
        path: The file; one that is missing has no lines.
        check: Raises a ValueError for a line that does not belong into the log; without it a line
            has a step and numbers.

    Raises:
        MetricsError: A line before the last is not one of such a log.
    """
    lines = path.read_bytes().split(b"\n") if path.is_file() else [b""]
    records = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = _object(json.loads(line))
            (check or check_step)(record)
        except json.JSONDecodeError as error:
            wrong = f"is not JSON ({error})"
        except (TypeError, ValueError, RecursionError) as error:
            wrong = f"is not a line of a log ({error})"
        else:
            records.append(record)
            continue
        raise MetricsError(f"{path} line {number} {wrong}; restore the file, or delete the line")
    return records


def _object(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise TypeError(f"an object is needed, got {record!r:.60}")
    return record


def is_number(value: Any) -> bool:
    """Whether a value of a file is a finite number, which JSON need not hold."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def check_step(line: dict[str, Any]) -> None:
    """Check that a line of `metrics.jsonl` is one that `Metrics` writes.

    Raises:
        ValueError: It has no step and stage, or values that are no finite numbers.
    """
    step, stage = line.get("step"), line.get("stage", "")
    if type(step) is not int or not 0 <= step < _FAR or not isinstance(stage, str):
        raise ValueError(f"it needs a step and a stage, got {line!r:.60}")
    for name, value in line.items():
        if name != "stage" and value is not None and not is_number(value):
            raise ValueError(f"{name} must be a finite number, got {value!r:.60}")
    if not 0 <= (line.get("success") or 0) <= 1:
        raise ValueError(f"success must be a share in [0, 1], got {line['success']!r:.60}")
    played = line.get("episodes") or 0
    if type(played) is not int or not 0 <= played < _FAR:
        raise ValueError(f"episodes must be a number of episodes, got {played!r:.60}")


class TrackerError(ValueError):
    """A library refused to start; the message has its reason."""


class Tracker:
    """The copy of one run's log in one library.

    Args:
        name: A name of `TRACKERS`, whose library is imported.
        folder: Run folder, with a file for the id of the run there.
        config: Options of the run, with its `name`.

    Raises:
        TrackerError: The library refused to start.
    """

    def __init__(self, name: str, folder: Path, config: Mapping[str, Any]) -> None:
        run_id = _find_run_id(folder)
        more = {"id": run_id, "dir": str(folder)} if name == "wandb" else {}
        try:
            self._run = import_module(name).init(
                project=PROJECT,
                name=f"{config['name']}-{run_id}",
                config=dict(config),
                resume="allow",
                **more,
            )
        except Exception as error:  # the libraries have no common class of errors
            said = " ".join(str(error).split())
            raise TrackerError(f"{name} did not start ({said}); {_HELP[name]}") from error

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Log the values of a step; steps increase."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """Write what is left, and end."""
        self._run.finish()


def _find_run_id(folder: Path) -> str:
    """The id of the run in all libraries, which a resumed run has again."""
    path = folder / _TRACKER_FILE
    if not path.is_file():
        write_text(path, secrets.token_hex(4) + "\n")
    return path.read_text(encoding="utf-8").strip()


class Metrics:
    """Log of one run in `folder`; use as a context manager.

    Args:
        folder: Run folder; lines are written to `metrics.jsonl`, events to `tensorboard/`.
        totals: Number of steps of each stage, for the progress bar.
        console: Console for the progress.
        trackers: Copies of the log elsewhere; they are closed with it.
    """

    def __init__(
        self,
        folder: Path,
        totals: Mapping[str, int],
        *,
        console: Console | None = None,
        trackers: Sequence[Tracker] = (),
    ) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        self.console = console or Console()
        self.lines = {line["step"]: line for line in read_log(self.path)}
        write_text(self.path, "".join(f"{_dump(line)}\n" for line in self.lines.values()))
        self._writer = SummaryWriter(str(folder / "tensorboard"))
        self._trackers = trackers
        self._totals = dict(totals)
        self._bars: dict[str, Any] = {}
        self._since = time.monotonic()  # of the last line
        self._pace: dict[str, tuple[int, float]] = {}  # steps of a stage here, and their seconds
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed}/{task.total}"),
            _Remaining(),
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
        for tracker in self._trackers:
            tracker.close()

    def log(self, step: int, stage: str, done: int, values: Mapping[str, float]) -> None:
        """Write and show the line of `step`, the step number `done` of its stage."""
        line = {"step": step, "stage": stage, **values, "time": round(time.time(), 3)}
        self._show(stage, done, values)
        before = self.lines.get(step)
        if before is not None:
            self._compare(before, line)
            return
        self.lines[step] = line
        append_line(self.path, _dump(line))
        for name, value in values.items():
            self._writer.add_scalar(f"{stage}/{name}", value, step)
        self._writer.flush()
        for tracker in self._trackers:
            tracker.log(step, {f"{stage}/{name}": value for name, value in values.items()})

    def say(self, text: str) -> None:
        """Print a line of text above the progress bar."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def warning(self, step: int, text: str) -> None:
        """Print a warning and write it to `WARNINGS`, unless this step wrote it before."""
        self.say(f"warning: step {step}: {text}")
        path, line = self.path.with_name(WARNINGS), json.dumps({"step": step, "text": text})
        written = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        if line not in written:
            append_line(path, line)

    def _compare(self, before: Mapping[str, Any], line: Mapping[str, Any]) -> None:
        def drop_clocks(record: Mapping[str, Any]) -> str:
            kept = {k: v for k, v in record.items() if not k.startswith("endpoint_")}
            return _dump({k: v for k, v in kept.items() if not k.endswith(CLOCKS)})

        if drop_clocks(before) != drop_clocks(line):
            warnings.warn(
                f"step {line['step']}, repeated after a resume, differs from its line in "
                f"{self.path}, which is kept: this device is not deterministic",
                stacklevel=3,
            )

    def _show(self, stage: str, done: int, values: Mapping[str, float]) -> None:
        parts = [f"{key} {values[key]:{style}}" for key, style in _SHOWN.items() if key in values]
        if "tokens_per_second" in values:
            parts.append(f"{values['tokens_per_second']:,.0f} tokens/s")
        elif "loss" in values:
            parts.append(f"loss {values['loss']:.3f}")
        shown = "  ".join(parts)
        now = time.monotonic()
        steps, seconds = self._pace.get(stage, (0, 0.0))
        self._pace[stage] = steps, seconds = steps + 1, seconds + now - self._since
        self._since = now
        left = (self._totals[stage] - done) * seconds / steps
        if stage not in self._bars:
            self._bars[stage] = self._progress.add_task(
                stage, total=self._totals[stage], completed=done - 1, end=now
            )
        self._progress.update(self._bars[stage], completed=done, end=now + left)
        eta = f"  eta {duration(left)}" if done < self._totals[stage] else ""
        if stage == "start":  # an evaluation alone, which has a line of its own
            return
        self.say(f"{stage} {done}/{self._totals[stage]}  {shown}{eta}")


_STEPS, _MOST = 5, 0.8  # more than this share of groups is dead for so many steps


class StallWatch:
    """The last steps of a run, to tell whether learning seems to have stalled."""

    def __init__(self) -> None:
        self.recent: deque[dict[str, float]] = deque(maxlen=_STEPS)

    def check_after(self, values: dict[str, float]) -> str:
        """What to say after a step with these values of its log, "" if nothing.

        After something was said, five more steps are read before more is.
        """
        self.recent.append(values)
        if len(self.recent) < _STEPS:
            return ""
        dead = np.mean([line["dead_groups"] for line in self.recent])
        same = np.mean([line["identical_groups"] for line in self.recent])
        if max(dead, same) <= _MOST:
            return ""
        self.recent.clear()
        if same > _MOST:
            return (
                f"in {same:.0%} of the groups of the last {_STEPS} steps all rollouts had the "
                "same replies: the policy has become nearly deterministic; "
                "lower update.learning_rate, or set update.entropy or update.kl"
            )
        return (
            f"{dead:.0%} of the groups of the last {_STEPS} steps had equal outcomes, which leaves "
            "little to learn; raise sampling.rollouts or sampling.temperature, or use other tasks"
        )


class _Remaining(ProgressColumn):
    """Time to the end of the stage, from the mean time of its steps so far.

    Rich's own column forgets steps after 30 s, and so shows nothing for longer ones.
    """

    def render(self, task: Task) -> Text:
        left = max(0.0, task.fields["end"] - time.monotonic())
        return Text(f"eta {duration(left)}", style="progress.remaining")


def duration(seconds: float) -> str:
    """Seconds as `45 s`, `12:05` (minutes) or `3:12:05` (hours)."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Silent:
    """The log of a process that writes none: that of process 0 is the log of the run."""

    def log(self, step: int, stage: str, done: int, values: Mapping[str, float]) -> None:
        """Write nothing."""

    def say(self, text: str) -> None:
        """Print nothing."""

    def warning(self, step: int, text: str) -> None:
        """Print and write nothing."""


def describe(played: Sequence[Episode]) -> dict[str, float]:
    """Statistics of the rollouts of a step.

    `reply_tokens` is the mean length of a reply, `distinct_actions` the mean number of different
    actions in a group; `dead_groups` and `identical_groups` are the shares of groups with equal
    outcomes and with equal replies. The mean reward of each verifier is under its own name, and
    `partner_return` is the mean outcome of the other side of conversations.
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
        **_mean_partners(played),
        **_mean_verifiers(played),
    }


def concentration(advantage: NDArray[np.float64], owner: NDArray[np.int64]) -> float:
    """Mean over trajectories of max |advantage| / sum |advantage|: [N], [N] -> a share.

    `owner` is the trajectory of each turn. Trajectories without credit are left out.
    """
    size, count = np.abs(advantage), int(owner[-1]) + 1
    total, top = np.bincount(owner, size, count), np.zeros(count)
    np.maximum.at(top, owner, size)
    return float(np.mean(top[total > 0] / total[total > 0])) if total.any() else 0.0


def _mean_partners(played: Sequence[Episode]) -> dict[str, float]:
    """Mean outcome of the other side of conversations."""
    known = [e.partner_outcome for e in played if e.partner_outcome is not None]
    paid = [outcome for outcome in known if not np.isnan(outcome)]  # NaN if nobody judged it
    return {"partner_return": float(np.mean(paid))} if paid else {}


def _mean_verifiers(played: Sequence[Episode]) -> dict[str, float]:
    """Mean reward of an episode from each verifier."""
    names = dict.fromkeys(name for e in played for step in e.steps for name in step.turn_reward)
    paid = {name: [sum(s.turn_reward[name] for s in e.steps) for e in played] for name in names}
    return {name: float(np.mean(values)) for name, values in paid.items()}


def _dump(line: Mapping[str, Any]) -> str:
    finite = {
        k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()
    }
    return json.dumps(finite)
