"""An environment as tools for an agent framework: schemas, calls in order, and a record of turns.

Calls of one reply may come at the same time, from tasks or threads: they are made one at a time, in
the order in which they were begun.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from string import Formatter
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import finalize

from gymnasium.spaces import Text

from agent_envs.contract import Malformed
from agent_envs.panels import nearest
from agent_envs.replies import Form, ParseReply, unwrap_agent_env

if TYPE_CHECKING:
    import gymnasium as gym

# The tool that takes any action as text.
ACT = "act"
_Made = TypeVar("_Made")
_Calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class _Forms(Formatter):
    """Format strings whose conversion `!j` quotes a text for JSON."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return json.dumps(value) if conversion == "j" else super().convert_field(value, conversion)


_FORMS = _Forms()


class Tool(NamedTuple):
    """A tool: its name, what it does, and the names of its parameters, all texts.

    form: the action that a call makes, with a field for each parameter.
    """

    name: str
    description: str
    form: str

    @property
    def parameters(self) -> list[str]:
        """The parameters in order."""
        return [name for _, name, _, _ in _FORMS.parse(self.form) if name]

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {name: {"type": "string"} for name in self.parameters},
            "required": self.parameters,
            "additionalProperties": False,
        }

    @property
    def function(self) -> dict[str, Any]:
        """The tool as OpenAI's chat completions take it."""
        told = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": told}


@dataclass
class Call:
    """A turn as `credit.Turns.from_episodes` reads it.

    reward: without the outcome of the episode.
    anchor, progress_before: of the state in which the action was taken.
    """

    action: str
    reward: float
    valid: bool
    invalid_reason: str
    progress: float
    progress_before: float
    anchor: str
    turn_reward: dict[str, float] = field(default_factory=dict)


@dataclass
class Calls:
    """The turns of an episode.

    group: number that the rollouts of one task share; the caller sets it.
    outcome: what the environment itself paid for the last turn, once the episode has ended.
    """

    task_id: str
    goal: str
    turns: list[Call] = field(default_factory=list)
    group: int = 0
    outcome: float = 0.0
    success: bool = False
    done: bool = False


class CallThread:
    """Makes calls in their order in a thread; unlike a pool's, it does not hold up an exit.

    Attributes:
        close: ends the thread after the calls that it has.
    """

    def __init__(self) -> None:
        self._calls: _Calls = SimpleQueue()
        Thread(target=_make_calls, args=(self._calls,), name="calls", daemon=True).start()
        self.close = finalize(self, self._calls.put, None)

    def submit(self, work: Callable[[], _Made]) -> Future[_Made]:
        """The result of a call to come, or what it raises.

        Raises:
            RuntimeError: the thread was closed.
        """
        if not self.close.alive:
            raise RuntimeError("this environment was closed; make another one")
        made = Future[_Made]()
        self._calls.put((made, work))
        return made


def _make_calls(calls: _Calls) -> None:
    while (given := calls.get()) is not None:
        made, work = given
        if made.set_running_or_notify_cancel():
            try:
                made.set_result(work())
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                made.set_exception(error)
        del given, made, work  # nothing waits here for the next call but the queue


class Toolset:
    """The tools of one environment, and its running episode.

    A call of an unknown tool, or with wrong arguments, is an invalid turn ("format"); one after the
    end does nothing and says so.

    Args:
        env: an agent environment; without `ParseReply`, which reads whole replies.
        typed: a tool for each verb that the environment declares (`AgentEnv.verbs`), instead of
            `act`.

    Attributes:
        tools: the tools by name.
        episode: the turns of the running or last episode.

    Raises:
        TypeError: not an agent environment, or one whose observations are no texts.
        ValueError: inside `ParseReply`, or `typed` and an environment that declares no verbs.
    """

    def __init__(self, env: gym.Env[Any, Any], *, typed: bool = False) -> None:
        self.env, self.inner = env, unwrap_agent_env(env, "tools")
        if not isinstance(env.observation_space, Text):
            raise TypeError(
                f"tools return texts, and the observations of {self.inner} are "
                f"{env.observation_space}; use its text environment"
            )
        if env.has_wrapper_attr("on_malformed"):
            raise ValueError(f"tools take actions, no replies: leave {ParseReply.__name__} out")
        name = type(self.inner).__name__
        if typed and not self.inner.verbs:
            raise ValueError(f"{name} declares no verbs; use the tool {ACT!r} (typed=False)")
        if typed:
            made = [Tool(verb, form, form) for verb, form in self.inner.verbs]
        else:
            forms = ", ".join(f"`{form}`" for _, form in self.inner.verbs)
            made = [Tool(ACT, f"Take one action{': ' if forms else ''}{forms}.", "{action}")]
        self.tools = {tool.name: tool for tool in made}
        self.episode = Calls("", "")
        self._info: dict[str, Any] = {}
        self._thread = CallThread()

    @property
    def functions(self) -> list[dict[str, Any]]:
        """The tools as OpenAI's chat completions take them."""
        return [tool.function for tool in self.tools.values()]

    def start(self, *, task: int | str | None = None, seed: int | None = None) -> str:
        """Start an episode: goal and first observation, what an agent reads first.

        Args:
            task: number or id of the task; None draws one by the seed.
            seed: seed of the episode.
        """
        return self._thread.submit(lambda: self._start(task, seed)).result()

    def call(self, name: str, arguments: Any) -> str:
        """Call a tool and wait: the observation, and at the end how the episode ended."""
        return self.begin_call(name, arguments).result()

    async def acall(self, name: str, arguments: Any) -> str:
        """`call`, while others run."""
        return await asyncio.wrap_future(self.begin_call(name, arguments))

    def begin_call(self, name: str, arguments: Any) -> Future[str]:
        """Call a tool after those that were begun before.

        Args:
            name: of the tool.
            arguments: as the model gave them, by name; anything else is an invalid turn.
        """
        given = dict(arguments) if isinstance(arguments, Mapping) else arguments
        return self._thread.submit(lambda: self._call(name, given))

    def close(self) -> None:
        """Close the environment after the calls that were begun."""
        if self._thread.close.alive:
            self._thread.submit(self.env.close).result()
            self._thread.close()

    def _start(self, task: int | str | None, seed: int | None) -> str:
        key = "task_id" if isinstance(task, str) else "task"
        observation, self._info = self.env.reset(
            seed=seed, options=None if task is None else {key: task}
        )
        self.episode = Calls(self._info["task_id"], self._info["goal"])
        goal = self.episode.goal
        return observation if goal in str(observation) else f"{goal}\n\n{observation}"

    def _call(self, name: str, arguments: Any) -> str:
        if not self._info:
            return "No episode has been started; nothing was done."
        if self.episode.done:
            return f"The episode has ended, {self._describe_end()}; nothing was done."
        action = self._write_action(name, arguments)
        observation, reward, terminated, truncated, info = self.env.step(action)
        before, self._info = self._info, info
        episode = self.episode
        episode.done, episode.success = terminated or truncated, info["success"]
        own = info.get("reward_terms", {}).get("own", reward)  # without what wrappers add
        episode.outcome = float(own) if episode.done else 0.0
        episode.turns.append(
            Call(
                action=self.inner.transcript[-1][0],
                reward=float(reward) - episode.outcome,
                valid=info["valid"],
                invalid_reason=info["invalid_reason"],
                progress=info["progress"],
                progress_before=before["progress"],
                anchor=before["anchor"],
                turn_reward=dict(info.get("turn_reward", {})),
            )
        )
        end = f"\n\nThe episode has ended, {self._describe_end()}." if episode.done else ""
        return f"{observation}{end}"

    def _describe_end(self) -> str:
        return "and the task is solved" if self.episode.success else "and the task is not solved"

    def _write_action(self, name: str, arguments: Any) -> str:
        """The action, or whole reply, of a call; a `Malformed` says what is wrong with it."""
        tool = self.tools.get(name)
        if tool is None:
            said = f"There is no tool {name!r:.60}{nearest(str(name), self.tools)}"
            return Malformed(f"{said}; there are {', '.join(self.tools)}.")
        if wrong := _find_mistake(tool.parameters, arguments):
            return Malformed(f"{name}: {wrong}.")
        form = Form(self.inner.reply_form or "{action}")
        return form.write(_FORMS.format(tool.form, **arguments))


def _find_mistake(parameters: Sequence[str], arguments: Any) -> str:
    """What is wrong with the arguments of a call, "" if nothing is."""
    names = ", ".join(parameters) or "no names"
    if not isinstance(arguments, dict):
        return f"the arguments must be an object with {names}, got {arguments!r:.60}"
    if set(arguments) != set(parameters):
        given = ", ".join(map(str, arguments)) or "none"
        return f"the arguments are {names}, and {given:.200} were given"
    wrong = next((name for name in parameters if not isinstance(arguments[name], str)), None)
    return "" if wrong is None else f"{wrong} must be a text, got {arguments[wrong]!r:.60}"


def tools(env: gym.Env[Any, Any], *, typed: bool = False) -> Toolset:
    """The environment as tools for an agent, see `Toolset`."""
    return Toolset(env, typed=typed)
