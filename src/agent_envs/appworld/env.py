"""AppWorld-v1: a person's requests, fulfilled by code that calls the apps of their phone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar

from agent_envs.appworld.apps import ANSWERS
from agent_envs.appworld.mini import MiniWorld
from agent_envs.appworld.prompt import TEMPLATE
from agent_envs.appworld.world import SEEDS, list_apps, list_tasks
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import Panel, one_of
from agent_envs.replies import split_thoughts
from agent_envs.spaces import OBSERVATION_LENGTH

if TYPE_CHECKING:
    from agent_envs.appworld.remote import HttpWorld
    from agent_envs.appworld.session import Verdict

PENALTY = 0.1
DIFFICULTIES = ("easy", "medium", "difficult")
REWARDS = ("success", "fraction", "penalty")
OPENING = """\
You act for {who}. It is {now}. The request:
{instruction}
Write Python in a ```python block. It calls apps as apis.<app>.<api>(name=value) and prints what \
you want to see; variables stay. apis.api_docs.show_app_descriptions(), \
apis.api_docs.show_api_descriptions(app_name=...) and \
apis.api_docs.show_api_doc(app_name=..., api_name=...) tell what there is. \
apis.supervisor.show_account_passwords() has the passwords. \
apis.supervisor.complete_task(answer=...) ends the task."""
_ANSWER = """
The answer is {form}. If something that the request needs is not there, nothing may be changed; \
the right end is then apis.supervisor.complete_task(status="fail")."""
_NO_BLOCK = (
    "No code available to execute. Write what is to be run in one block, and no other, that begins "
    "with ```python and ends with ```."
)
_BLOCK = re.compile(r"(?:^([ \t]+))?```python[ \t]*\r?\n(.*?)```", re.DOTALL | re.MULTILINE)


class CodeEnv(AgentEnv):
    """What both environments have in common: replies with code, a world that runs it, rewards."""

    verbs = (("run_python", "{code}"),)
    reply_form: ClassVar[str] = "<think>{thought}</think>\n```python\n{action}\n```"
    action_length: ClassVar[int] = OBSERVATION_LENGTH
    template = TEMPLATE
    world: MiniWorld | HttpWorld

    def __init__(
        self,
        panel: Panel,
        *,
        reward: str,
        progress: str,
        max_thinking: int,
        max_turns: int,
        render_mode: str | None,
    ) -> None:
        one_of("reward", reward, REWARDS)
        one_of("progress", progress, ("tests", "none"))
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)
        self.reward, self.progress, self.max_thinking = reward, progress, max_thinking
        self.graded = reward != "success"

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The request."""
        opened = self.world.open(task_id)
        self._opened = opened
        self._strata = self.find_strata(task_id)
        self._verdict = self.world.evaluate()
        self._given = frozenset(self._verdict.passes)
        who = " ".join(opened.supervisor[key] for key in ("first_name", "last_name", "email"))
        text = OPENING.format(who=who, now=opened.datetime, instruction=opened.instruction)
        return opened.instruction, self._make_turn(text + self.describe_answer(), "")

    def reject(self, reason: str, notice: str) -> Turn:
        """A turn without an execution."""
        return self._make_turn(notice, "", reason)

    def act(self, action: str) -> Turn:
        """Run the code of a reply."""
        code, endless = read_reply(action)
        if not code:
            return self._make_turn(_NO_BLOCK, "", "format")
        feedback = self.world.execute(code)
        fault = self.find_fault(code, feedback)
        return self._make_turn(
            feedback, code, fault or ("format" if endless > self.max_thinking else "")
        )

    def find_fault(self, code: str, feedback: str) -> str:
        """Why an execution is invalid; "" if it is not."""
        return self.world.find_fault(code, feedback)

    def find_strata(self, task_id: str) -> dict[str, str]:
        """The difficulty of a task, {} if it is unknown."""
        raise NotImplementedError

    def describe_answer(self) -> str:
        """What the opening adds on the answer."""
        return ""

    def close(self) -> None:
        """End the interpreter, or release the server."""
        self.world.close()

    def _make_turn(self, observation: str, code: str, invalid: str = "") -> Turn:
        lost = bool(code) and self.world.is_lost()
        ended = lost or (bool(code) and self.world.is_completed())
        last = ended or (bool(code or invalid) and self.turn + 1 >= self.max_turns)
        if last or (code and self.progress == "tests"):
            self._verdict = self.world.evaluate()
        verdict = self._verdict
        success = ended and not verdict.failures  # of which one is that the task was not completed
        return Turn(
            observation[:OBSERVATION_LENGTH],
            valid=not invalid,
            invalid_reason=invalid,
            progress=self._measure_progress(verdict, success),
            anchor=self._make_anchor(),
            reward=self._pay(verdict, success, last=last, invalid=bool(invalid)),
            success=success,
            failure=ended and not success,
            extra={
                "action": code,
                "supervisor": dict(self._opened.supervisor),
                "datetime": self._opened.datetime,
                "tests": len(verdict.passes) + len(verdict.failures),
                "tests_passed": len(verdict.passes),
                "failures": list(verdict.failures) if last else [],
                "strata": self._strata,
            },
        )

    def _measure_progress(self, verdict: Verdict, success: bool) -> float:
        if success or self.progress == "none":
            return float(success)
        done = sum(name not in self._given for name in verdict.passes)
        open_ones = sum(name not in self._given for name in verdict.failures)
        return done / (done + open_ones) if done else 0.0

    def _make_anchor(self) -> str:
        facts = repr((self.task_id, self.world.digest))
        return blake2b(facts.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()

    def _pay(self, verdict: Verdict, success: bool, *, last: bool, invalid: bool) -> float:
        if self.reward == "fraction":
            tests = len(verdict.passes) + len(verdict.failures)
            return len(verdict.passes) / tests if last and tests else 0.0
        penalty = PENALTY if self.reward == "penalty" and invalid else 0.0
        return float(success) - penalty


class AppWorld(CodeEnv):
    """A person's requests, composed of two to four parts, fulfilled by code that calls their apps.

    Description:
        A supervisor requests something in which each part is about what the one before it found:
        send money to the host of an event, move the next event of a friend's partner and say where
        it is. The agent writes code, which runs in a sandbox where `apis.<app>.<api>(...)` calls
        the apps; variables persist between turns. Households, requests and what is right are
        generated from facts. Some requests need what is not there; then the right act is to change
        nothing and to complete the task with status "fail".

    Observation:
        First the request, the person, how to call the apps and the type of the answer; then the
        output of the code, or "Execution successful.", or "Execution failed. Traceback:" with the
        reason.

    Action:
        A whole reply; its one ```python block outside of thoughts is run. Do not
        wrap the environment in `ParseReply`.

    Validity:
        By effect: a turn is valid if its code ran to its end and an API answered at least one of
        its calls; what it prints does not matter, and a refusal that it catches is its own affair.
        "format" for a reply without a block, with several or, after it, with an unclosed
        `<think>` of more than `max_thinking` characters, and for code that calls no API; "unknown"
        for an app or API that does not exist, "refused" for a call that an API refuses, "timeout",
        else "error". Code that ran before a failure takes effect.

    Progress:
        The share of the task's tests that pass now, of those that did not pass at the start. It is
        1 without success if everything requested is done, but also something else. "none": 0 until
        the end, then 1 for a success.

    Anchor:
        Digest of the rows of the apps, the log-ins, the end, and the interpreter's variables (if
        these cannot be read, the code so far).

    Reward:
        At the end: "success" (default) 1 if all tests pass, "fraction" the share of all tests that
        pass, also at the turn limit. "penalty": as "success", and -0.1 in each invalid turn.

    Ends:
        `apis.supervisor.complete_task()` terminates, a success if all tests pass: the tables of
        the apps differ from those at the start by what was requested and by nothing else, the
        status is right, and the answer, of the declared type, is right. An interpreter that ended
        and whose earlier code does not run again terminates without success. `max_turns`
        truncates.

    Tasks and splits:
        A task id is `<split>-<family>+<family>...-<seed>`; the families are its programme, of
        which no two splits share one. `train` and `val` have the same wordings; `test` has other
        wordings, and `test_unseen` also families that no other split has. Names of people, places
        and things are shared by `test` and `test_unseen` alone.

    Data:
        Generated. `info` also has `action`, the code that was run; `supervisor`, `datetime`;
        `tests`, their number, `tests_passed`, and at the end `failures`, the names of failed tests.

    Source:
        Ours; apps and calls are like those of Trivedi et al., AppWorld, ACL 2024.

    Args:
        split: "train", "val", "test" or "test_unseen".
        parts: the dial of difficulty, 2 to 4 families in a request.
        families: only programmes of these families; None for all.
        train_seeds: tasks of each programme in `train`.
        reward: see Reward.
        progress: "tests" or "none".
        timeout: time limit of one execution in seconds.
        sandbox: "strict" refuses machines whose kernel cannot isolate agent code; "best-effort"
            warns.
        max_thinking: see Validity.
        max_turns: turn limit.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option, or no tasks left.
        SandboxError: later, from `step`: the machine's fault.
    """

    experts: ClassVar[str] = "agent_envs.appworld.experts"
    world: MiniWorld

    def __init__(
        self,
        *,
        split: str = "train",
        parts: int = 3,
        families: Sequence[str] | None = None,
        train_seeds: int = SEEDS,
        reward: str = "success",
        progress: str = "tests",
        timeout: float = 30.0,
        sandbox: str = "strict",
        max_thinking: int = 8000,
        max_turns: int = 20,
        render_mode: str | None = None,
    ) -> None:
        one_of("sandbox", sandbox, ("strict", "best-effort"))
        if timeout <= 0:
            raise ValueError(f"timeout, in seconds, must be above 0, got {timeout}")
        seeds = train_seeds if split == "train" else SEEDS
        found = list_tasks(split, parts, seeds, tuple(families or ()))
        super().__init__(
            Panel(split, tuple(found), origins=found),
            reward=reward,
            progress=progress,
            max_thinking=max_thinking,
            max_turns=max_turns,
            render_mode=render_mode,
        )
        self.world = MiniWorld(timeout=timeout, sandbox=sandbox)

    def find_strata(self, task_id: str) -> dict[str, str]:
        """The difficulty: the number of apps that the task's experts use."""
        apps = len(list_apps(self.panel.origins[task_id].split("+")))
        return {"difficulty": DIFFICULTIES[min(apps, len(DIFFICULTIES)) - 1]}

    def describe_answer(self) -> str:
        """The type of the answer, and what to do if something is missing."""
        return _ANSWER.format(form=ANSWERS[self.world.task.answer_type])


def read_reply(reply: str) -> tuple[str, int]:
    """The code of a reply, "" if there is none, and the characters of an unclosed `<think>`.

    The code is the one ```python block outside of thoughts, without the indentation of its fence.
    If there are several, the reply has none: one may be a draft, and another may rest on output
    that the model made up.
    """
    _, said, endless = split_thoughts(reply)
    block = _BLOCK.search(said) if said.count("```python") == 1 else None
    code = re.sub(rf"^{block[1] or ''}", "", block[2], flags=re.MULTILINE) if block else ""
    return code.strip("\r\n"), len(endless)
