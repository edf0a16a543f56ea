"""AppWorld-v0: a person's requests, fulfilled by code that calls the apps of their phone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, ClassVar

from agent_envs.appworld import tasks
from agent_envs.appworld.families import FAMILIES
from agent_envs.appworld.mini import MiniWorld
from agent_envs.appworld.people import TRAIN_SEEDS
from agent_envs.appworld.prompt import TEMPLATE
from agent_envs.appworld.remote import HttpWorld
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import Panel, one_of, source_of
from agent_envs.replies import split_thoughts
from agent_envs.spaces import OBSERVATION_LENGTH

if TYPE_CHECKING:
    import os

    from agent_envs.appworld.session import Verdict

PENALTY = 0.1
OPENING = """\
You act for {who}. It is {now}. The request:
{instruction}
Write Python in a ```python block. It calls apps as apis.<app>.<api>(name=value) and prints what \
you want to see; variables stay. apis.api_docs.show_app_descriptions(), \
apis.api_docs.show_api_descriptions(app_name=...) and \
apis.api_docs.show_api_doc(app_name=..., api_name=...) tell what there is. \
apis.supervisor.show_account_passwords() has the passwords. \
apis.supervisor.complete_task(answer=...) ends the task."""
_NO_BLOCK = (
    "No code available to execute. Write what is to be run in a block that begins with ```python "
    "and ends with ```."
)

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
"""Feedback that contains one of these makes a turn invalid."""
_BLOCK = re.compile(r"(?:^([ \t]+))?```python[ \t]*\r?\n(.*?)```", re.DOTALL | re.MULTILINE)
_REASONS = (
    ("format", re.compile("No code available to execute")),
    ("timeout", re.compile("timed out after|Maximum number of executions")),
    ("unknown", re.compile("No app named|No API named")),
    ("refused", re.compile(r"Response status code is 4\d\d")),
)


class AppWorld(AgentEnv):
    """A person's requests, fulfilled by Python code that calls their apps.

    Description:
        A supervisor requests something that needs one to five apps: pay back a friend, move an
        event and tell its guests, make a playlist from a note. The agent writes code, which runs
        in a sandbox where `apis.<app>.<api>(...)` calls the apps; variables persist between turns.
        Tests check the state of the apps, and a ledger of irreversible effects (mails,
        invitations, payments, deletions and so on): everything requested, and nothing else.

    Observation:
        First the request, the person and how to call the apps; then the output of the code, or
        "Execution successful.", or "Execution failed. Traceback:" with the reason.

    Action:
        A whole reply; its first ```python block outside of thoughts is run. Do not
        wrap the environment in `ParseReply`.

    Validity:
        A turn is invalid if its feedback contains one of `env.MARKS` (a failure), or if the
        reply has no block, no call of `apis.` in it, or after its block an unclosed
        `<think>` of more than `max_thinking` characters. "format" for the reply, "unknown" for an
        app or API that does not exist, "refused" for a call that an API refuses, "timeout", else
        "error". Code that ran before a failure takes effect.

    Progress:
        The share of the task's tests that pass now, of those that did not pass at the start. It is
        1 without success if everything requested is done, but also something else. "none": 0 until
        the end, then 1 for a success.

    Anchor:
        Digest of the state of the apps, the log-ins, the requested effects so far, whether harm was
        done, the end, and the interpreter's variables (if these cannot be read, the code so far);
        with `backend="http"`, of the code so far and its output.

    Reward:
        At the end: "success" (default) 1 if all tests pass, "fraction" the share of all tests that
        pass, also at the turn limit. "penalty": as "success", and -0.1 in each invalid turn.

    Ends:
        `apis.supervisor.complete_task()` terminates, a success if all tests pass. An interpreter
        that ended and whose earlier code does not run again terminates without success.
        `max_turns` truncates.

    Tasks and splits:
        A task id is `<family>-<seed>`. 28 families, of difficulty 1 to 3 (one app, two, at least
        three): `train` (seeds 0-11), `val` (12-15) and `test` (16-19) of 22 of them,
        `test_unseen` of the six others, `all`; `train_easy` is `train` without difficulty 3. No
        other task has the subject of a task in `val` or `test`. `families=` selects families. With
        `backend="http"` the benchmark's own splits: `train`, `dev`, `test_normal`,
        `test_challenge`, and `train_easy`, the part of `train` that LOOP and MGR train on.

    Data:
        `backend="mini"` (default): an embedded world of this package's own apps and people.
        `backend="http"`: the real benchmark, served by its own package at `server`; the lists of
        task ids are in the folder `data`, by default `$APPWORLD_ROOT`.
        `info` also has `action`, the code that was run; `supervisor`, `datetime`; `tests`, their
        number, `tests_passed`, and at the end `failures`, the names of failed tests; `harm`, a list
        of the irreversible effects of this turn that were not requested (always empty with
        `backend="http"`).

    Source:
        Trivedi et al., AppWorld: A Controllable World of Apps and People for Benchmarking
        Interactive Coding Agents, ACL 2024; validity as in MGR, appendix A.5.

    Args:
        split: see Tasks and splits.
        backend: see Data.
        server: address of the benchmark's server, which has one world; or a command with {port}
            that starts a server for this environment alone.
        data: see Data.
        families: names of the selected families; None for all.
        train_seeds: number of tasks of each family in `train`: seeds 0-11, then 20 on.
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
        MissingAsset: no lists of task ids for the real benchmark.
        SandboxError, BackendError: later, from `reset` and `step`: the machine's fault.
    """

    experts: ClassVar[str] = "agent_envs.appworld.experts"
    reply_form: ClassVar[str] = "<think>{thought}</think>\n```python\n{action}\n```"
    action_length: ClassVar[int] = OBSERVATION_LENGTH
    template = TEMPLATE

    def __init__(
        self,
        *,
        split: str = "train",
        backend: str = "mini",
        server: str = "http://127.0.0.1:8000",
        data: str | os.PathLike[str] = "auto",
        families: Sequence[str] | None = None,
        train_seeds: int = TRAIN_SEEDS,
        reward: str = "success",
        progress: str = "tests",
        timeout: float = 30.0,
        sandbox: str = "strict",
        max_thinking: int = 8000,
        max_turns: int = 35,
        render_mode: str | None = None,
    ) -> None:
        one_of("backend", backend, ("mini", "http"))
        one_of("reward", reward, ("success", "fraction", "penalty"))
        one_of("progress", progress, ("tests", "none"))
        one_of("sandbox", sandbox, ("strict", "best-effort"))
        if timeout <= 0:
            raise ValueError(f"timeout, in seconds, must be above 0, got {timeout}")
        if backend == "http" and train_seeds != TRAIN_SEEDS:
            raise ValueError(
                f"train_seeds={train_seeds} is for backend='mini'; the benchmark's tasks are given"
            )
        self.world: MiniWorld | HttpWorld
        if backend == "mini":
            source = "embedded"
            self.world = MiniWorld(timeout=timeout, sandbox=sandbox, train_seeds=train_seeds)
        else:
            self.world = remote = HttpWorld(server, data=data, timeout=timeout)
            source = source_of("appworld", remote.root)
        self.waits = backend == "http" and "{port}" in server  # an address has one world
        panel = Panel(split, _select_families(self.world.list_tasks(split), families), source)
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)
        self.reward, self.progress, self.max_thinking = reward, progress, max_thinking
        self.graded = reward != "success"

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The request."""
        opened = self.world.open(task_id)
        self._opened = opened
        self._verdict = self.world.evaluate()
        self._given = frozenset(self._verdict.passes)
        who = " ".join(opened.supervisor[key] for key in ("first_name", "last_name", "email"))
        text = OPENING.format(who=who, now=opened.datetime, instruction=opened.instruction)
        return opened.instruction, self._make_turn(text, "")

    def reject(self, reason: str, notice: str) -> Turn:
        """A turn without an execution."""
        return self._make_turn(notice, "", reason)

    def act(self, action: str) -> Turn:
        """Run the code of a reply."""
        code, neat = read_reply(action, self.max_thinking)
        if not code:
            return self._make_turn(_NO_BLOCK, "", "format")
        feedback = self.world.execute(code)
        return self._make_turn(
            feedback, code, classify_feedback(feedback) or ("" if neat else "format")
        )

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
                "harm": list(self.world.harm) if code else [],
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


def _select_families(ids: tuple[str, ...], families: Sequence[str] | None) -> tuple[str, ...]:
    """The tasks of these families; all for None."""
    if families is None:
        return ids
    for name in families:
        one_of("family", name, tuple(FAMILIES))
    return tuple(task_id for task_id in ids if tasks.family_of(task_id) in families)


def read_reply(reply: str, max_thinking: int) -> tuple[str, bool]:
    """The code of a reply, "" if there is none, and whether the reply has the right form.

    The code is the first ```python block outside of thoughts, without the indentation of its fence.
    The form is right with a block that calls `apis.`, and without an unclosed `<think>` of more
    than `max_thinking` characters.
    """
    _, said, endless = split_thoughts(reply)
    block = _BLOCK.search(said)
    code = re.sub(rf"^{block[1] or ''}", "", block[2], flags=re.MULTILINE) if block else ""
    code = code.strip("\r\n")
    return code, "apis." in code and len(endless) <= max_thinking


def classify_feedback(feedback: str) -> str:
    """The `info["invalid_reason"]` of feedback; "" if the turn is valid."""
    if not any(mark in feedback for mark in MARKS):
        return ""
    failure = (
        feedback[feedback.rfind("Execution failed") :]
        if "Execution failed" in feedback
        else feedback
    )
    return next((reason for reason, sign in _REASONS if sign.search(failure)), "error")
