"""The embedded backend: the small world in this process, agent code in a sandboxed process."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from agent_envs.appworld import tasks
from agent_envs.appworld.apps import APPS
from agent_envs.appworld.families.plan import verdict, wanted_effects
from agent_envs.appworld.interpreter import Interpreter
from agent_envs.appworld.people import TRAIN_SEEDS
from agent_envs.appworld.sandbox import SANDBOXES
from agent_envs.appworld.session import Session
from agent_envs.appworld.world import MAXIMUM, Judged, Opened
from agent_envs.panels import one_of

if TYPE_CHECKING:
    from agent_envs.appworld.ledger import Effect


class MiniWorld:
    """The small world of this package.

    Args:
        timeout: Time limit of one execution in seconds.
        max_executions: Most executions of a task.
        sandbox: "strict" or "best-effort", see `sandbox.warden`.
        train_seeds: Number of tasks of each family in the split "train".

    Raises:
        ValueError: An unknown sandbox, or a time or number out of range.
    """

    def __init__(
        self,
        *,
        timeout: float = 30.0,
        max_executions: int = 1000,
        sandbox: str = "strict",
        train_seeds: int = TRAIN_SEEDS,
    ) -> None:
        one_of("sandbox", sandbox, SANDBOXES)
        if timeout <= 0 or max_executions < 1:
            raise ValueError(
                "timeout must be above 0 and max_executions at least 1, got "
                f"{timeout} and {max_executions}"
            )
        self.timeout, self.max_executions, self.sandbox = timeout, max_executions, sandbox
        self.train_seeds = train_seeds
        self.task_id = ""
        self._executed = 0
        self._harmed = 0
        self._lost: list[Effect] = []
        self._interpreter: Interpreter | None = None

    def task_ids(self, split: str) -> tuple[str, ...]:
        """The ids of "train", "train_easy", "val", "test", "test_unseen" or "all"."""
        return tasks.task_ids(split, self.train_seeds)

    def open(self, task_id: str) -> Opened:
        """Start a task; its interpreter starts with the first execution."""
        self.close()
        task = tasks.task(task_id)
        self.task_id, self._executed, self._harmed, self._lost = task_id, 0, 0, []
        self._session = Session(task.household, task.instruction, APPS, wanted_effects(task.plan))
        self._interpreter = Interpreter(
            task.household.now,
            "agent",  # the same seed in every task, so that it reveals nothing
            timeout=self.timeout,
            sandbox=self.sandbox,
        )
        return Opened(task.instruction, dict(task.household.person), task.household.now)

    def execute(self, code: str) -> str:
        """Run `code` and return its output.

        Raises:
            SandboxError: No interpreter can be started on this machine.
            RuntimeError: No task is open.
        """
        if self._interpreter is None:
            raise RuntimeError("no task is open: call open(task_id) first")
        self._session.begin()
        self._harmed, self._lost = len(self._session.ledger.unasked), self._session.lost
        if self._executed >= self.max_executions:
            return MAXIMUM.format(self.max_executions)
        self._executed += 1
        return self._interpreter.execute(code, self._session.call)

    def completed(self) -> bool:
        """Whether `complete_task` was called."""
        return self._session.ended is not None

    def lost(self) -> bool:
        """Whether the interpreter ended and cannot be restored, through the agent's code."""
        return self._interpreter is not None and self._interpreter.lost

    def evaluate(self) -> Judged:
        """The tests of the task: each change, nothing else changed, completed, the answer."""
        session, plan = self._session, tasks.task(self.task_id).plan
        told = verdict(plan, session)
        return Judged(tuple(told.passes), tuple(told.failures))

    def harm(self) -> tuple[str, ...]:
        """The irreversible effects of the last execution that were not requested."""
        done = self._session.ledger.unasked[self._harmed :]
        lost = [effect for effect in self._session.lost if effect not in self._lost]
        return tuple(map(str, [*done, *lost]))

    def digest(self) -> str:
        """Key of the state, the log-ins, the effects, the end, and the interpreter."""
        known = "" if self._interpreter is None else self._interpreter.key
        facts = repr((self._session.key, known)).encode("utf-8", "backslashreplace")
        return blake2b(facts, digest_size=16).hexdigest()

    def solution(self) -> tuple[str, ...]:
        """Code that solves the task, turn by turn."""
        task = tasks.task(self.task_id)
        return task.family.solution(task.plan)

    def close(self) -> None:
        """End the interpreter; the next execution restores it."""
        if self._interpreter is not None:
            self._interpreter.close()
