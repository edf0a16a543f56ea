"""The environment contract: a subclass returns a `Turn` per step, `AgentEnv` does the rest.

Not part of it: shaped rewards (`credit.rewards`), rendering and parsing (`prompt`, `replies`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import gymnasium as gym
from gymnasium.error import ResetNeeded

from agent_envs.options import check_options, find_fault
from agent_envs.panels import Panel, nearest
from agent_envs.spaces import ACTION_LENGTH, OBSERVATION_LENGTH, FreeText

if TYPE_CHECKING:
    from agent_envs.template import Template


INFO_KEYS = (
    "goal",
    "valid",
    "invalid_reason",
    "progress",
    "anchor",
    "success",
    "admissible_actions",
    "task_id",
    "turn",
    "reward_terms",
)
OWN = "own"
"""Key of `info["reward_terms"]`: what the environment itself pays for the turn."""
INVALID_REASONS = ("", "format", "unknown", "refused", "error", "timeout")
OPTIONS = ("task", "task_id")
SCALARS = frozenset({str, bool, int, float, type(None)})


class ContractError(AssertionError):
    """The environment broke its contract; the message has the rule and what happened instead."""


class Turn(NamedTuple):
    """What an environment reports about one turn.

    observation: the text that the agent reads.
    valid, invalid_reason: whether the action was valid, and if not, one of `INVALID_REASONS`:
        "format" not an action at all, "unknown" names something that does not exist, "refused"
        well-formed but not possible here, "error" failed while it ran, "timeout" ran too long.
    progress: completed share of the task, in [0, 1]; 1 on success. An environment that can also
        reach 1 without success says so under Progress, in these words.
    anchor: key of the decision state after the turn. Two turns have equal anchors if and only if
        they have equal decision states. The state is everything that can change the effect of an
        action (valid, reason, next anchor, reward, end), except chance and the turn limit.
    success, failure: the two ways a task ends by itself.
    truncated: whether the episode ends by another limit than `max_turns`.
    admissible_actions: the possible next actions; empty where there is no finite list.
    extra: further `info` keys of this environment, with plain builtins; `info` gets a copy.
    """

    observation: str
    valid: bool = True
    invalid_reason: str = ""
    progress: float = 0.0
    anchor: str = ""
    reward: float = 0.0
    success: bool = False
    failure: bool = False
    truncated: bool = False
    admissible_actions: Sequence[str] = ()
    extra: Mapping[str, Any] | None = None


class Malformed(str):
    """Passed to `step` when a reply contains no action; its text becomes the observation.

    The turn counts and is reported as `valid=False`, `"format"`; the state does not change.
    """

    __slots__ = ()


class AgentEnv(gym.Env[str, str], ABC):
    """Base class of all environments; a subclass defines `begin`, `act` and the docstring headings.

    It counts turns, keeps the transcript, ends episodes (success or failure is `terminated`, the
    turn limit `truncated`), picks the task, and rejects what cannot be an action:

    * An action that is not a string raises TypeError.
    * An action longer than `action_space.max_length`, or with an unpaired surrogate (which UTF-8
      cannot encode), is the agent's mistake: `valid=False`, `"format"`, and the state does not
      change. Control characters reach `act` unchanged.

    Constructor options are checked against their annotations (`options.check_options`). `info` and
    reward get exact types: a reward of 1 is reported as 1.0.

    In observations an unpaired surrogate becomes U+FFFD, so that they can always be encoded.

    `reset(options=...)` takes `{"task": i}` or `{"task_id": "..."}`; without them the seed draws
    the task. The draw happens in any case, so naming the task that the seed would have drawn gives
    the same episode.

    Args:
        panel: the tasks of the split.
        max_turns: turn limit, at least 1.
        render_mode: None, or "ansi": `render()` returns the text of the latest turn.

    Attributes:
        reply_form: "" if `step` takes an action, which `ParseReply` extracts from a model's reply.
            Otherwise `step` takes whole replies, and this is the format string of a reply, with
            the fields {thought} and {action}. Such an environment reports the action as the key
            "action" of `Turn.extra`, and the transcript keeps that.
        template: the environment's own prompt template, which the wrapper `Prompt` renders; None
            for none.
        experts: import path of the module with the classes `Explorer`, `Oracle` or both, which
            `agent_envs.expert` uses; "" for none.
        verbs: the actions as tools: names, each with a format string of the action that has the
            tool's parameters, all texts, such as ("take", "take {object} from {place}");
            `{query!j}` quotes a text for JSON. Empty if there are none; see `agent_envs.tools`.
        audits: import path of the module with `actions` and `NON_SOLVERS`, which
            `agent-envs audit` uses; "" for none.
        graded: whether the reward that ends an episode may be another number than 0 and 1. Methods
            that read the outcome as success (MGR, PRIME) are then refused before they sample. False
            also if it is not known.
        revisits: whether a state can be met again by other actions. False if the anchor is the
            history: methods that compare turns in equal states are then warned about.
        waits: whether `reset` or `step` waits for an outside process such as a server. Copies of
            such an environment are stepped concurrently, each in its own thread.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  as in gym.Env
    action_length: ClassVar[int] = ACTION_LENGTH
    observation_length: ClassVar[int] = OBSERVATION_LENGTH
    reply_form: ClassVar[str] = ""
    template: ClassVar[Template | None] = None
    experts: ClassVar[str] = ""
    audits: ClassVar[str] = ""
    verbs: ClassVar[tuple[tuple[str, str], ...]] = ()
    graded: bool = False
    revisits: bool = True
    waits: bool = False

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Refuse options of a wrong type before any environment's constructor sees them."""
        check_options(cls, args, options)
        return super().__new__(cls)

    def __init__(self, panel: Panel, *, max_turns: int, render_mode: str | None = None) -> None:
        if isinstance(max_turns, str) or max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, got {max_turns!r}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"render_mode is None or in {self.metadata['render_modes']}, got {render_mode!r}"
            )
        self.action_space = FreeText(self.action_length)
        self.observation_space = FreeText(self.observation_length)
        self.panel = panel
        self.max_turns = max_turns
        self.render_mode = render_mode
        self.task_id = ""
        self.goal = ""
        self.turn = 0
        self.transcript: list[tuple[str, str]] = []
        self._latest = Turn("")
        self._live: bool | None = False  # None while a step runs

    @abstractmethod
    def begin(self, task_id: str) -> tuple[str, Turn]:
        """Start the task, return its goal and first turn; draw only from `self.np_random`."""

    @abstractmethod
    def act(self, action: str) -> Turn:
        """Execute one action; the agent's mistakes return an invalid Turn, other errors raise."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode: observation and info.

        Raises:
            ValueError: an unknown option, both at once, or a task that the panel does not have.
            ContractError: the environment starts with a success.
        """
        chosen = self._choose_task(options or {})
        self._live = False
        super().reset(seed=seed)
        drawn = self.panel.at(self.np_random.integers(len(self.panel)))
        self.task_id = drawn if chosen is None else chosen
        self.goal, turn = self.begin(self.task_id)
        if turn.success:
            raise ContractError(
                f"{type(self).__name__} starts task {self.task_id!r} with a success; leave out "
                "tasks in which nothing is to be done"
            )
        self.turn = 0
        self.transcript = []
        return self._observe("", turn._replace(reward=0.0))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Execute one action: observation, reward, terminated, truncated, info.

        Raises:
            ResetNeeded: before the first reset, after the end, or after a step that raised.
            RuntimeError: another step runs, in another thread.
            TypeError: the action is not a string.
            ContractError: the environment reports a flag or a number of another type, or a success
                whose progress is not 1.
        """
        if self._live is None:
            raise RuntimeError(
                "another step of this environment is running, and it takes one action at a time; "
                "agent_envs.tools(env) makes the calls of one reply one after the other"
            )
        if not self._live:
            raise ResetNeeded("no episode is running: call reset() first, and after each end")
        if type(action) is str and len(action) <= self.action_length and action.isascii():
            turn = self._run(action)
        else:
            action, turn = self._act_on_odd(action)
        self.turn += 1
        observation, info = self._observe(action, turn)
        terminated = bool(turn.success or turn.failure)
        truncated = not terminated and (turn.truncated or self.turn >= self.max_turns)
        self._live = not (terminated or truncated)
        return observation, float(turn.reward), terminated, truncated, info

    def reject(self, reason: str, notice: str) -> Turn:
        """An invalid turn whose observation is `notice`; the state does not change."""
        return self._latest._replace(
            observation=notice, valid=False, invalid_reason=reason, reward=0.0
        )

    def render(self) -> str | None:
        """The latest action and observation as text; None without a render mode."""
        if self.render_mode is None or not self.transcript:
            return None
        action, observation = self.transcript[-1]
        return f"> {action}\n{observation}" if action else observation

    def _act_on_odd(self, action: Any) -> tuple[str, Turn]:
        """The transcript's text and the turn of an action that is not plain short ASCII."""
        if isinstance(action, Malformed):
            return "", self.reject("format", str(action))
        if not isinstance(action, str):
            raise TypeError(f"an action is a string, got {action!r:.60} ({type(action).__name__})")
        action = str(action)
        if len(action) > self.action_length:
            notice = f"The action has {len(action)} characters, more than {self.action_length}."
            return encodable(action[: self.action_length]), self.reject("format", notice)
        if encodable(action) != action:
            notice = "The action holds characters that are no text."
            return encodable(action), self.reject("format", notice)
        return action, self._run(action)

    def _run(self, action: str) -> Turn:
        """`act`; if it raises, the episode has ended."""
        self._live = None
        try:
            return self.act(action)
        finally:
            self._live = False

    def _observe(self, action: str, turn: Turn) -> tuple[str, dict[str, Any]]:
        observation = turn.observation
        if not observation.isascii():
            observation = encodable(observation)
        if fault := find_fault(turn):
            raise ContractError(
                f"{type(self).__name__} reports {fault[0]} in turn {self.turn} of task "
                f"{self.task_id!r}; {fault[1]}"
            )
        self._latest = turn
        self._live = True
        info: dict[str, Any] = {
            "goal": self.goal,
            "valid": bool(turn.valid),
            "invalid_reason": turn.invalid_reason,
            "progress": float(turn.progress),
            "anchor": turn.anchor,
            "success": bool(turn.success),
            "admissible_actions": list(turn.admissible_actions),
            "task_id": self.task_id,
            "turn": self.turn,
            "reward_terms": {OWN: float(turn.reward)},
        }
        for key, value in (turn.extra or {}).items():
            info[key] = value if type(value) in SCALARS else _copy_plain(value)
        self.transcript.append((info["action"] if self.reply_form else action, observation))
        return observation, info

    def _choose_task(self, options: Mapping[str, Any]) -> str | None:
        for key in options:
            if key not in OPTIONS:
                raise ValueError(
                    f"unknown reset option {key!r}{nearest(str(key), OPTIONS)}; known are {OPTIONS}"
                )
        if len(options) > 1:
            raise ValueError(f"give task or task_id, not both, got {dict(options)!r}")
        if "task" in options:
            return self.panel.at(options["task"])
        return self.panel.find(options["task_id"]) if "task_id" in options else None


def _copy_plain(value: Any) -> Any:
    """A deep copy, for lists and dicts much faster than `copy.deepcopy`, which copies the rest."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if kind is list:
        plain = SCALARS.issuperset(map(type, value))
        return value[:] if plain else [_copy_plain(part) for part in value]
    if kind is dict:
        plain = SCALARS.issuperset(map(type, value.values()))
        return value.copy() if plain else {key: _copy_plain(part) for key, part in value.items()}
    return copy.deepcopy(value)


def encodable(text: str) -> str:
    """`text` with each unpaired surrogate replaced by U+FFFD, so that it encodes as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    return text
