"""The embedded backend: the small world in this process, agent code in a sandboxed process."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from agent_envs.appworld import tasks
from agent_envs.appworld.apps import APPS
from agent_envs.appworld.families.plan import judge, list_effects
from agent_envs.appworld.interpreter import Interpreter
from agent_envs.appworld.people import TRAIN_SEEDS
from agent_envs.appworld.session import Opened, Session, Verdict, classify_failure

if TYPE_CHECKING:
    from agent_envs.appworld.session import Effect


class MiniWorld:
    """The small world of this package, one task at a time.

    A copy or a pickle continues like the original, with its own interpreter.

    Args:
        timeout: Time limit of one execution in seconds.
        sandbox: "strict" or "best-effort", see `sandbox.warden`.
        train_seeds: Number of tasks of each family in the split "train".
    """

    _session: Session
    _interpreter: Interpreter

    def __init__(
        self,
        *,
        timeout: float = 30.0,
        sandbox: str = "strict",
        train_seeds: int = TRAIN_SEEDS,
    ) -> None:
        self.timeout, self.sandbox, self.train_seeds = timeout, sandbox, train_seeds
        self.task_id = ""
        self._harmed = 0
        self._errors: list[str] = []
        self._lost: list[Effect] = []

    def list_tasks(self, split: str) -> tuple[str, ...]:
        """The ids of "train", "train_easy", "val", "test", "test_unseen" or "all"."""
        return tasks.list_tasks(split, self.train_seeds)

    def open(self, task_id: str) -> Opened:
        """Start a task; its interpreter starts with the first execution."""
        self.close()
        task = tasks.make_task(task_id)
        self.task_id, self._harmed, self._lost = task_id, 0, []
        self._session = Session(task.household, task.instruction, APPS, list_effects(task.plan))
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
        """
        self._session.begin()
        self._harmed, self._lost = len(self._session.ledger.unasked), self._session.lost
        self._errors = []

        def answer(app: str, api: str, given: dict[str, Any]) -> dict[str, Any]:
            reply = self._session.call(app, api, given)
            self._errors.append(reply.get("error", ""))
            return reply

        return self._interpreter.execute(code, answer)

    def find_fault(self, code: str, feedback: str) -> str:  # noqa: ARG002
        """Why the last execution is invalid, by what its calls returned; "" if it is not.

        It needs a call that an API answered, and to run to its end.
        """
        failure = self._interpreter.failure
        if failure == "timeout" or not (failure or self._errors):
            return failure or "format"
        if failure or all(self._errors):
            return classify_failure(self._errors[-1] if self._errors else "") or "error"
        return ""

    def is_completed(self) -> bool:
        """Whether `complete_task` was called."""
        return self._session.ended is not None

    def is_lost(self) -> bool:
        """Whether the interpreter ended and cannot be restored, through the agent's code."""
        return self._interpreter.lost

    def evaluate(self) -> Verdict:
        """The tests of the task: each change, nothing else changed, completed, the answer."""
        return judge(tasks.make_task(self.task_id).plan, self._session)

    @property
    def harm(self) -> tuple[str, ...]:
        """The irreversible effects of the last execution that were not requested."""
        done = self._session.ledger.unasked[self._harmed :]
        lost = [effect for effect in self._session.lost if effect not in self._lost]
        return tuple(map(str, [*done, *lost]))

    @property
    def digest(self) -> str:
        """Key of state, log-ins, effects, end and interpreter; equal iff later code acts alike."""
        known = self._interpreter.key
        facts = repr((self._session.key, known)).encode("utf-8", "backslashreplace")
        return blake2b(facts, digest_size=16).hexdigest()

    @property
    def solution(self) -> tuple[str, ...]:
        """Code that solves the task, turn by turn."""
        task = tasks.make_task(self.task_id)
        return task.family.write_solution(task.plan)

    def close(self) -> None:
        """End the interpreter; the next execution restores it."""
        if self.task_id:
            self._interpreter.close()
