"""What an AppWorld backend is: tasks that are opened, played with code and judged by tests."""

from __future__ import annotations

from typing import NamedTuple, Protocol

MAXIMUM = "Execution failed. Traceback:\nException: Maximum number of executions ({}) reached."


class BackendError(RuntimeError):
    """The machine failed, not the agent: a server that is gone, silent, or answers nonsense."""


class Opened(NamedTuple):
    """What a task begins with: the request, who asks (name, email and so on), the time."""

    instruction: str
    supervisor: dict[str, str]
    datetime: str


class Judged(NamedTuple):
    """Names of the tests that pass now and of those that fail."""

    passes: tuple[str, ...]
    failures: tuple[str, ...]


class World(Protocol):
    """One task at a time: `open`, `execute` any number of times, `evaluate`, `close`.

    A copy or a pickle goes on as the original does, with an interpreter of its own.
    """

    def task_ids(self, split: str) -> tuple[str, ...]:
        """The ids of a split.

        Raises:
            ValueError: No such split.
        """
        ...

    def open(self, task_id: str) -> Opened:
        """Start a task; the one before ends."""
        ...

    def execute(self, code: str) -> str:
        """What running `code` prints, or a text that says how it failed."""
        ...

    def completed(self) -> bool:
        """Whether the agent has ended the task."""
        ...

    def evaluate(self) -> Judged:
        """The outcome of the task's tests as things are."""
        ...

    def harm(self) -> tuple[str, ...]:
        """What the last execution did that cannot be taken back and was not asked for.

        Empty where a backend does not tell.
        """
        ...

    def digest(self) -> str:
        """Key of the state; equal iff what later code does is equal."""
        ...

    def close(self) -> None:
        """Let go of processes and connections; a task can be opened again."""
        ...
