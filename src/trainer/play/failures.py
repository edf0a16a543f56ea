"""Episodes that their environment ended by failing: what is kept of them, and how many are allowed.

An environment fails if `reset` or `step` raises, takes longer than `env.step_seconds` or loses its
process. Its episode then has no outcome, so it is no rollout: it is left out of its group and of
the credit. Errors that concern every episode (a recipe, a missing file, an engine) end the run at
once. Left out: a second try of the episode.
"""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.assets import BadAsset, MissingAsset
from agent_envs.contract import encodable
from agent_envs.imports import describe_error
from agent_envs.machine import find_shortage, is_of_torch, write_text
from trainer.errors import RecipeError

if TYPE_CHECKING:
    from trainer.play.records import Episode, Step, Task

FOLDER = "failures"
"""Folder of a run with a file for each failure."""


class EpisodeError(ValueError):
    """The environment of an episode failed; the message names the task, a note has the traceback.

    Attributes:
        failure: What is kept of the episode.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure
        self.add_note(failure.traceback)


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
    """

    task_id: str
    group: int
    seed: int
    turn: int
    error: str
    traceback: str
    transcript: list[dict[str, str]]

    @classmethod
    def of(
        cls,
        error: Exception,
        *,
        task: Task,
        steps: Sequence[Step] = (),
        now: tuple[str, str] | None = None,
    ) -> Failure:
        """The record of an error.

        Args:
            error: What the environment raised.
            task: Its task.
            steps: The turns that were completed.
            now: Observation and reply of the turn that failed.

        Raises:
            Exception: The error itself, if it concerns the whole run and not one episode only.
        """
        if isinstance(error, _OF_THE_RUN) or is_of_torch(error):
            raise error
        lacked = find_shortage(error)
        turns = [(step.observation, step.reply) for step in steps] + ([now] if now else [])
        return cls(
            *task,
            turn=len(steps),
            error=f"{describe_error(error)}: {lacked}" if lacked else describe_error(error),
            traceback=encodable("".join(traceback.format_exception(error))),
            transcript=[{"observation": seen, "reply": reply} for seen, reply in turns],
        )

    def __str__(self) -> str:
        return f"task {self.task_id!r} (seed {self.seed}, turn {self.turn}): {self.error}"

    def save(self, path: Path, **more: Any) -> None:
        """Write as JSON, atomically, with further entries."""
        write_text(path, json.dumps(more | asdict(self), indent=1))


_OF_THE_RUN = (RecipeError, MissingAsset, BadAsset, ImportError, EpisodeError)


@contextmanager
def lose_episode(
    task: Task, steps: Sequence[Step] = (), now: tuple[str, str] | None = None
) -> Iterator[None]:
    """Context for calls of an environment, whose errors cost the episode; see `Failure.of`.

    Raises:
        EpisodeError: The environment failed.
        Exception: The error itself, if it concerns the whole run.
    """
    try:
        yield
    except Exception as error:
        raise EpisodeError(Failure.of(error, task=task, steps=steps, now=now)) from error


def split_attempts(attempts: Sequence[Episode | Failure]) -> tuple[list[Episode], list[Failure]]:
    """The episodes and the failures among the attempts, each in order."""
    failures = [one for one in attempts if isinstance(one, Failure)]
    return [one for one in attempts if not isinstance(one, Failure)], failures


def require_episodes(attempts: Sequence[Episode | Failure]) -> list[Episode]:
    """The episodes, where none may fail.

    Raises:
        EpisodeError: An environment failed; the error is of the first.
    """
    played, failures = split_attempts(attempts)
    if failures:
        raise EpisodeError(failures[0])
    return played


def check_limit(failures: Sequence[Failure], tried: int, limit: float, what: str) -> None:
    """Check that not too many of the episodes that were `tried` failed; `what` names them.

    One task may fail however few the episodes are, unless these were all or the limit is 0.

    Raises:
        LimitError: More than the share `limit` failed, or all.
    """
    allowed, one = int(limit * tried), len({failure.task_id for failure in failures}) == 1
    if (len(failures) > allowed and not (one and limit)) or len(failures) == tried > 0:
        raise LimitError(
            f"{what}: the environment failed in {len(failures)} of {tried} episodes, and "
            f"sampling.failures={limit:g} allows {min(allowed, tried - 1)}; the first, "
            f"{failures[0]}. Mend the environment or raise sampling.failures"
        )


def warn_of_lost(failures: Sequence[Failure], tasks: int, limit: float) -> None:
    """Warn that tasks of an evaluation count as not solved because their environment failed.

    Raises:
        LimitError: As `check_limit`.
    """
    check_limit(failures, tasks, limit, "evaluation")
    if failures:
        warnings.warn(
            f"{len(failures)} of {tasks} tasks count as not solved, because their environment "
            f"failed; the first, {failures[0]}",
            stacklevel=3,
        )
