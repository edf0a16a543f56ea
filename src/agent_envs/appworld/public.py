"""AppWorld-v0: the public benchmark, played on a server of its own package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.appworld.env import DIFFICULTIES, CodeEnv
from agent_envs.appworld.remote import HttpWorld, classify_failure
from agent_envs.panels import Panel, one_of, source_of

if TYPE_CHECKING:
    import os


# With `validity="marks"`, feedback that contains one of these makes a turn invalid.
MARKS = (
    "Execution failed",
    "Traceback:",
    "SyntaxError",
    "Exception",
    "Error:",
    "Maximum number of executions",
    "timed out after",
    "No code available to execute",
)


class PublicAppWorld(CodeEnv):
    """The tasks of the public benchmark: a person's requests, fulfilled by code that calls apps.

    Description:
        As `AppWorld-v1`, with the benchmark's own apps, tasks and tests, which its own package
        (`appworld`) serves; `agent-envs assets appworld` prints how to get both.

    Observation:
        First the request, the person and how to call the apps; then the output of the code, or
        "Execution successful.", or "Execution failed. Traceback:" with the reason.

    Action:
        A whole reply; its one ```python block outside of thoughts is run. Do not
        wrap the environment in `ParseReply`.

    Validity:
        By the failure at the end of the feedback and the name `apis` in the code, since calls are
        not seen here; the reasons are those of `AppWorld-v1`. `validity="marks"` is MGR's published
        rule (appendix A.5): invalid if the feedback contains one of `public.MARKS`, also in a text
        that was printed, or the code lacks the text `apis.`.
        Code that ran before a failure takes effect.

    Progress:
        The share of the task's tests that pass now, of those that did not pass at the start.
        "none": 0 until the end, then 1 for a success.

    Anchor:
        Digest of the code so far and its output.

    Reward:
        As in `AppWorld-v1`.

    Ends:
        `apis.supervisor.complete_task()` terminates, a success if all tests pass. `max_turns`
        truncates.

    Tasks and splits:
        The benchmark's own: `train`, `dev`, `test_normal`, `test_challenge`, and `train_easy`, the
        part of `train` that LOOP and MGR train on.

    Data:
        The lists of task ids are in the folder `data`, by default `$APPWORLD_ROOT`. `info` is as in
        `AppWorld-v1`.

    Source:
        Trivedi et al., AppWorld: A Controllable World of Apps and People for Benchmarking
        Interactive Coding Agents, ACL 2024.

    Args:
        split: see Tasks and splits.
        data: see Data.
        server: address of the benchmark's server, which has one world; or a command with {port}
            that starts a server for this environment alone.
        reward: as in `AppWorld-v1`.
        progress: "tests" or "none".
        validity: "effect" or "marks", see Validity.
        timeout: time limit of one execution in seconds.
        max_thinking: as in `AppWorld-v1`.
        max_turns: turn limit.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option.
        MissingAsset: no folder, or no list of task ids in it.
        BackendError: later, from `reset` and `step`: the machine's fault.
    """

    world: HttpWorld

    def __init__(
        self,
        *,
        split: str = "train",
        data: str | os.PathLike[str] = "auto",
        server: str = "http://127.0.0.1:8000",
        reward: str = "success",
        progress: str = "tests",
        validity: str = "effect",
        timeout: float = 30.0,
        max_thinking: int = 8000,
        max_turns: int = 35,
        render_mode: str | None = None,
    ) -> None:
        one_of("validity", validity, ("effect", "marks"))
        if timeout <= 0:
            raise ValueError(f"timeout, in seconds, must be above 0, got {timeout}")
        self.world = HttpWorld(server, data=data, timeout=timeout)
        self.waits = "{port}" in server  # an address has one world
        tasks = self.world.list_tasks(split)
        origins = {task: task.rpartition("_")[0] or task for task in tasks}  # the scenario
        super().__init__(
            Panel(split, tasks, source_of("appworld", self.world.root), origins),
            reward=reward,
            progress=progress,
            max_thinking=max_thinking,
            max_turns=max_turns,
            render_mode=render_mode,
        )
        self.validity = validity

    def find_fault(self, code: str, feedback: str) -> str:
        """Why an execution is invalid by `validity`; "" if it is not."""
        if self.validity == "marks":
            return classify_feedback(feedback) or ("" if "apis." in code else "format")
        return super().find_fault(code, feedback)

    def find_strata(self, task_id: str) -> dict[str, str]:
        """The difficulty that the benchmark's data says."""
        difficulty = self.world.find_difficulty(task_id)
        return {"difficulty": DIFFICULTIES[difficulty - 1]} if difficulty else {}


def classify_feedback(feedback: str) -> str:
    """The `info["invalid_reason"]` of feedback by MGR's marks; "" if the turn is valid."""
    if not any(mark in feedback for mark in MARKS):
        return ""
    if "No code available to execute" in feedback:
        return "format"
    return classify_failure(feedback[max(0, feedback.rfind("Execution failed")) :]) or "error"
