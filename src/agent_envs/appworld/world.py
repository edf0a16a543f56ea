"""The interface of AppWorld backends: open tasks, execute code, evaluate by tests."""

from __future__ import annotations

from typing import NamedTuple, Protocol

MAXIMUM = "Execution failed. Traceback:\nException: Maximum number of executions ({}) reached."


class BackendError(RuntimeError):
    """The machine failed, not the agent: a server ended, hangs, or answers nonsense."""


class Opened(NamedTuple):
    """The start of a task: the request, the person (name, email and so on), the time."""

    instruction: str
    supervisor: dict[str, str]
    datetime: str


class Judged(NamedTuple):
    """Names of the tests that pass now and of those that fail."""

    passes: tuple[str, ...]
    failures: tuple[str, ...]


class World(Protocol):
    """One task at a time: `open`, `execute` any number of times, `evaluate`, `close`.

    A copy or a pickle continues like the original, with its own interpreter.
    """

    def task_ids(self, split: str) -> tuple[str, ...]:
        """The ids of a split.

        Raises:
            ValueError: An unknown split.
        """
        ...

    def open(self, task_id: str) -> Opened:
        """Start a task; ends the previous one."""
        ...

    def execute(self, code: str) -> str:
        """Run `code` and return its output, or a text that says how it failed."""
        ...

    def completed(self) -> bool:
        """Whether the agent has ended the task."""
        ...

    def lost(self) -> bool:
        """Whether the agent's code made it impossible to go on with the task."""
        ...

    def evaluate(self) -> Judged:
        """The current outcome of the task's tests."""
        ...

    def harm(self) -> tuple[str, ...]:
        """The irreversible effects of the last execution that were not requested.

        Empty if a backend does not report them.
        """
        ...

    def digest(self) -> str:
        """Key of the state; equal iff later code has equal effects."""
        ...

    def close(self) -> None:
        """Release processes and connections; a task can be opened again."""
        ...
