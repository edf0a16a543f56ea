"""Episodes that their environment ended by failing: what is kept of them, and how many are allowed.

An environment fails if `reset` or `step` raises, takes longer than `env.step_seconds`, loses its
process, or returns what is no result. Its episode then has no outcome, so it is no rollout: it is
left out of its group and of the credit. Not of this kind are errors that concern every episode (a
recipe, a missing file, an engine); they end the run at once. Left out: a second try of the episode.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_envs.assets import BadAsset, MissingAsset
from agent_envs.contract import ContractError, encodable
from agent_envs.imports import describe_error, message_of
from trainer.play.environments import WrapperError
from trainer.play.raised import RaisedError, traced
from trainer.recipes import RecipeError
from trainer.run.checkpoint import write_text
from trainer.run.shortage import of_torch, shortage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainer.play.records import Episode

FOLDER = "failures"
"""Folder of a run with a file for each failure."""
CAUGHT = Exception
"""What a guarded call of an environment may raise, see `trainer.play.raised`."""
_OF_THE_RUN = (RecipeError, MissingAsset, BadAsset, ImportError)
_TEXTS = ("goal", "task_id", "anchor", "invalid_reason", "action", "task_type")


class FailedError(RaisedError):
    """The environment of an episode failed; the message names the task and the error."""


class LimitError(ValueError):
    """More episodes failed than the recipe allows; the message has the first failure."""


@dataclass(frozen=True)
class Failure:
    """An episode whose environment failed.

    Attributes:
        task_id: The task.
        group: Its group.
        seed: The environment's seed.
        turn: Turns that were completed before; 0 if it failed in `reset` or in the first step.
        error: The error in one line.
        traceback: Its traceback.
        transcript: Observation and reply of each turn, with the one that failed.
        cause: The error itself; it is not copied to other processes.
    """

    task_id: str
    group: int
    seed: int
    turn: int
    error: str
    traceback: str
    transcript: list[dict[str, str]]
    cause: Exception | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "cause": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __str__(self) -> str:
        return f"task {self.task_id!r} (seed {self.seed}, turn {self.turn}): {self.error}"

    def raised(self) -> Exception:
        """The error to raise where no episode may fail.

        An error of the environment's code is raised as it is. A broken contract becomes a
        `FailedError`, whose message names the task and the turn.
        """
        if self.cause is None or isinstance(self.cause, ContractError):
            return FailedError(str(self))
        return self.cause

    def save(self, path: Path, **more: Any) -> None:
        """Write as JSON, atomically, with further entries."""
        kept = {name: value for name, value in vars(self).items() if name != "cause"}
        write_text(path, json.dumps(more | kept, indent=1))


def costs_the_run(error: BaseException) -> bool:
    """Whether an error concerns the whole run and not one episode only."""
    of_the_run = isinstance(error, _OF_THE_RUN) or of_torch(error)
    return of_the_run and not isinstance(error, WrapperError)


def said(error: Exception) -> str:
    """An error of an environment in one line, with what the machine ran out of, if it did."""
    line = message_of(error) if isinstance(error, RaisedError) else describe_error(error)
    lacked = shortage(error)
    return f"{line}: {lacked}" if lacked else line


def check_reported(seen: Any, info: Mapping[str, Any]) -> None:
    """Check that what an environment reports can be encoded, sampled from and recorded.

    Turn records check their own fields; this is about the others.

    Args:
        seen: The observation, or the prompt made of it; an image is not checked.
        info: The environment's `info`.

    Raises:
        ContractError: Text with an unpaired surrogate, or a value of another type.
    """
    if isinstance(seen, str):
        _check_text("the observation", seen)
    for name in _TEXTS:
        if info.get(name) is not None:
            _check_text(f"info[{name!r}]", info[name])
    for name in ("admissible_actions", "answers"):
        given = info.get(name, ())
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ContractError(f"info[{name!r}] must be a list of text, got {given!r:.60}")
        for one in given:
            _check_text(f"an entry of info[{name!r}]", one)
    for name in info.get("turn_reward") or ():
        _check_text("a name in info['turn_reward']", name)
    paid = info.get("partner_reward")
    if not isinstance(paid, int | float | None):
        raise ContractError(f"info['partner_reward'] must be a number, got {paid!r:.60}")


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ContractError(f"{name} must be text, got {text!r:.60}")
    if not text.isascii() and encodable(text) != text:
        raise ContractError(
            f"{name} has an unpaired surrogate, which UTF-8 cannot encode: {text[:60]!a}"
        )


def failed(
    error: Exception,
    *,
    task: tuple[str, int, int],
    turn: int = 0,
    transcript: Sequence[tuple[str, str]] = (),
) -> Failure:
    """The record of an error.

    Args:
        error: What the environment raised.
        task: Its task, group and seed.
        turn: Turns that were completed before.
        transcript: (observation, reply) of each turn, with the one that failed.

    Raises:
        Exception: The error itself, if it concerns the whole run.
    """
    if costs_the_run(error):
        raise error
    return Failure(
        *task,
        turn=turn,
        error=said(error),
        traceback=traced(error),
        transcript=[{"observation": seen, "reply": reply} for seen, reply in transcript],
        cause=error,
    )


def divided(attempts: Sequence[Episode | Failure]) -> tuple[list[Episode], list[Failure]]:
    """The episodes and the failures among the attempts, each in order."""
    failures = [one for one in attempts if isinstance(one, Failure)]
    return [one for one in attempts if not isinstance(one, Failure)], failures


def episodes(attempts: Sequence[Episode | Failure]) -> list[Episode]:
    """The episodes, where none may fail.

    Raises:
        Exception: The first error of an environment, see `Failure.raised`.
    """
    played, failures = divided(attempts)
    if failures:
        raise failures[0].raised()
    return played


def check_limit(failures: Sequence[Failure], tried: int, limit: float, what: str) -> None:
    """Check that not too many of the episodes that were `tried` failed; `what` names them.

    One failure is allowed however few the episodes are, unless it was the only one or the limit is
    0.

    Raises:
        LimitError: More than the share `limit` failed, or all.
    """
    allowed = max(1, int(limit * tried)) if limit else 0
    if len(failures) > allowed or len(failures) == tried > 0:
        raise LimitError(
            f"{what}: the environment failed in {len(failures)} of {tried} episodes, and "
            f"sampling.failures={limit:g} allows {min(allowed, tried - 1)}; the first, "
            f"{failures[0]}. Mend the environment or raise sampling.failures"
        )


def transcript_of(episode: Episode, *now: tuple[str, str]) -> list[tuple[str, str]]:
    """(observation, reply) of the turns of an episode, and of the one that failed."""
    return [*((step.observation, step.reply) for step in episode.steps), *now]
