"""The generated world in this process, with agent code in a sandboxed process."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from agent_envs.appworld.apps import APPS
from agent_envs.appworld.interpreter import Interpreter
from agent_envs.appworld.session import Opened, Session, Verdict
from agent_envs.appworld.world import make_task

if TYPE_CHECKING:
    from agent_envs.appworld.world import Task


class MiniWorld:
    """The generated world, one task at a time.

    A copy or a pickle continues like the original, with its own interpreter.

    Args:
        timeout: Time limit of one execution in seconds.
        sandbox: "strict" or "best-effort", see `sandbox.start_warden`.
    """

    _session: Session
    _interpreter: Interpreter

    def __init__(self, *, timeout: float = 30.0, sandbox: str = "strict") -> None:
        self.timeout, self.sandbox = timeout, sandbox
        self.task_id = ""

    @property
    def task(self) -> Task:
        """The open task, with what is right."""
        return make_task(self.task_id)

    def open(self, task_id: str) -> Opened:
        """Start a task; its interpreter starts with the first execution."""
        self.close()
        task = make_task(task_id)
        self.task_id, home = task_id, task.household
        self._session = Session(home, APPS, task.instruction, task.answer_type)
        self._interpreter = Interpreter(
            home.now,
            "agent",  # the same seed in every task, so that it reveals nothing
            timeout=self.timeout,
            sandbox=self.sandbox,
        )
        return Opened(task.instruction, dict(home.person), home.now)

    def execute(self, code: str) -> str:
        """Run `code` and return its output.

        Raises:
            SandboxError: No interpreter can be started on this machine.
        """
        self._session.begin()
        return self._interpreter.execute(code, self._session.call)

    def find_fault(self, code: str, feedback: str) -> str:  # noqa: ARG002
        """Why the last execution is invalid, by what its calls did; "" if it is not.

        It needs a call that an API answered, and to run to its end.
        """
        failure, faults = self._interpreter.failure, self._session.faults
        if failure == "timeout" or not (failure or faults):
            return failure or "format"
        if failure or all(faults):
            return (faults[-1] if faults else "") or "error"
        return ""

    def is_completed(self) -> bool:
        """Whether `complete_task` was called."""
        return self._session.ended is not None

    def is_lost(self) -> bool:
        """Whether the interpreter ended and cannot be restored, through the agent's code."""
        return self._interpreter.lost

    def evaluate(self) -> Verdict:
        """The tests of the task: each change, nothing else changed, completed, the answer."""
        return self.task.judge(self._session)

    @property
    def digest(self) -> str:
        """Key of tables, log-ins, end and interpreter; equal iff later code acts alike."""
        known = self._interpreter.key
        facts = repr((self._session.key, known)).encode("utf-8", "backslashreplace")
        return blake2b(facts, digest_size=16).hexdigest()

    def close(self) -> None:
        """End the interpreter; the next execution restores it."""
        if self.task_id:
            self._interpreter.close()
