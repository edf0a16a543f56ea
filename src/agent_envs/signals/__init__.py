"""Signals: any text environment with goal, validity, progress, success and anchors.

Left out: multi-agent worlds, whose other players a hook or the world itself must play.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, SupportsFloat

from agent_envs.contract import INVALID_REASONS, AgentEnv, ContractError, Turn
from agent_envs.imports import describe_error, load_object, message_of
from agent_envs.net.web import ServerError
from agent_envs.options import require_methods
from agent_envs.panels import Panel, nearest, one_of
from agent_envs.signals.state import Chance, digest_state, keep_chance
from agent_envs.template import Template

TASKS = {"train": 1000, "val": 100, "test": 100}
"""Tasks of each split; their seeds follow one another in this order."""
_SEEDS = 2**31
_NOW = """Step {current_step}. What you see now:
{current_observation}
Possible actions, if they are listed: [{admissible_actions}]

Reason within <think> </think> tags. Then write one action within <action> </action> tags."""
TEMPLATE = Template(
    full="Your task:\n{task_description}\n\nSteps so far: {action_history}\n\n" + _NOW,
    blind=_NOW,
    past="{number}. {action}\n{after}",
    owner="Signals",
)
"""The prompt of a lifted world, in our words."""


class Step(NamedTuple):
    """What a hook reads: what the world returned for an action.

    action: the agent's text; None after the reset.
    world: the environment itself.
    """

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    action: str | None
    world: Any


Hook = Callable[[Step], Any]


class Signals(AgentEnv):
    r"""Any text environment of Gymnasium's form, which then reports what agents learn from.

    Description:
        The world is given as an object with `reset(seed=)` and `step(action)`. A hook is a
        constant, the name of a key of the world's `info` (one word), the import string of a
        function, or a function of a `Step`. What no hook says has a default, whose trust
        `agent-envs audit` measures. The world's chance is kept apart: Python's and NumPy's global
        generators are seeded for each call and given back, so that copies continue alike.

    Observation:
        The world's text, or what the hook `text` makes of it.

    Action:
        A text that the world reads, or what `action` makes of it.

    Validity:
        By `valid`; without it by `invalid_rewards`, `invalid_texts` and, if the world lists
        actions, whether the action was listed ("refused"). An action that makes the world raise
        has the reason "error", one that `action` refuses "format"; neither changes the state of a
        world that can be copied. Any other invalid action takes effect as the world lets it.

    Progress:
        By `progress`, which may be 1 without success; without it 0 until success.

    Anchor:
        By `anchor`: "state" is the digest of all that the world holds but its chance, "history"
        that of all actions so far, for a world that cannot be copied: it never meets a state
        again.

    Reward:
        The world's own, or with `reward="success"` 1 for success, else 0.

    Ends:
        The world terminates, a success by `success` or if its last reward is at least
        `success_reward`; it truncates at a limit of its own, or after `max_turns`.

    Tasks and splits:
        `seed-N` is the world after `reset(seed=N)`. `train` has the seeds 0 to 999, `val` the next
        hundred, `test` the hundred after them. Whether two seeds give one task is the world's:
        `agent-envs audit` counts it.

    Data:
        None.

    Source:
        The world's.

    Args:
        world: the environment; it is copied for each episode, so that none leaves anything behind.
            One with a true attribute `waits` is on a server: calls of its copies run in threads.
        goal: hook of the goal; a text of several words is itself the goal. Without it, the first
            observation is.
        text: hook of the observation.
        action: a function of the agent's text, or a text with `{}` in the place of the action, such
            as `\boxed{}`.
        valid: hook of the validity: a bool, or a reason, "" for none.
        invalid_rewards: rewards of invalid turns.
        invalid_texts: regular expressions of observations after invalid turns.
        progress: hook of the completed share, in [0, 1].
        success: hook of the success.
        success_reward: least reward of a last turn that is a success; it must be given if `success`
            is not.
        anchor: "auto" ("state" if the world can be copied, else "history"), "state", "history", or
            a hook.
        ignore: names of attributes that are no state, for the digest.
        admissible: hook of the list of possible actions.
        reward: "own" or "success".
        split: see Tasks and splits.
        max_turns: turn limit.
        render_mode: None or "ansi".

    Raises:
        TypeError: the world has no `reset` or `step`, or an option has another type.
        ValueError: no hook says what a success is, or an option is unknown.
    """

    template = TEMPLATE
    graded = True

    def __init__(
        self,
        world: Any,
        *,
        goal: str | Hook = "",
        text: str | Hook = "",
        action: str | Callable[[str], Any] = "",
        valid: bool | str | Hook = "",
        invalid_rewards: Sequence[float] = (),
        invalid_texts: Sequence[str] = (),
        progress: float | str | Hook = "",
        success: str | Hook = "",
        success_reward: float | None = None,
        anchor: str | Hook = "auto",
        ignore: Sequence[str] = (),
        admissible: Sequence[str] | str | Hook = "",
        reward: Literal["own", "success"] = "own",
        split: str = "train",
        max_turns: int = 50,
        render_mode: str | None = None,
    ) -> None:
        require_methods("world", world, "reset", "step")
        one_of("split", split, tuple(TASKS))
        one_of("reward", reward, ("own", "success"))
        if not success and success_reward is None:
            raise ValueError(
                "Signals must know what a success is: give success_reward=R, the least reward of a "
                "last turn that is one, or success=, a key of info or a function"
            )
        seeds = list(TASKS.values())
        first = sum(seeds[: list(TASKS).index(split)])
        ids = tuple(f"seed-{seed}" for seed in range(first, first + TASKS[split]))
        super().__init__(
            Panel(split, ids, name_world(world)), max_turns=max_turns, render_mode=render_mode
        )
        self.graded = reward != "success"
        self.waits = bool(getattr(world, "waits", False))
        self.why_history = _find_why_no_copy(world, ignore if anchor in ("auto", "state") else None)
        if anchor == "state" and self.why_history:
            raise ValueError(f"anchor='state' needs a copy of the world: {self.why_history}")
        if anchor == "auto":
            anchor = "history" if self.why_history else "state"
        self.copied = not self.why_history
        self._given = self.world = world
        self._hooks: dict[str, Any] = {
            name: _read_hook(name, hook)
            for name, hook in {
                "goal": goal, "text": text, "valid": valid, "progress": progress,
                "success": success, "admissible": admissible,
                "anchor": "" if anchor in ("state", "history") else anchor,
            }.items()
        }  # fmt: skip
        self.anchor = anchor if anchor in ("state", "history") else "hook"
        self.revisits = anchor != "history"
        self._form = _read_form(action)
        self._ignore = tuple(ignore)
        self._rewards = frozenset(map(float, invalid_rewards))
        self._texts = [re.compile(one) for one in invalid_texts]
        self._least = success_reward
        self._paid = reward

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The world after its reset with the seed of the task."""
        seed = int(task_id.removeprefix("seed-"))
        self.world = copy.deepcopy(self._given) if self.copied else self._given
        with self._keep_chance(seed, None):
            observation, info = self.world.reset(seed=seed)
        self._history: list[str] = []
        step = Step(observation, 0.0, False, False, info, None, self.world)
        text = self._read_text(step)
        self._listed = self._read_actions(step)
        goal = self._ask("goal", step)
        return text if goal is None else str(goal), self._describe(step, text, "")

    def act(self, action: str) -> Turn:
        """One step of the world; what it raises on the agent's text is an invalid turn."""
        try:
            given = self._form(action)
        except ValueError as error:
            return self.reject("format", f"The action was not understood: {error}")
        before = copy.deepcopy(self.world) if self.copied else self.world
        ahead = copy.deepcopy(self.np_random)
        seed = int(ahead.integers(_SEEDS))
        try:
            with self._keep_chance(seed, self.world) as chance:
                observation, reward, terminated, truncated, info = self.world.step(given)
        except (OSError, MemoryError, ImportError, ContractError, ServerError):
            raise
        except Exception as error:  # noqa: BLE001  what the agent's text made the world raise
            self.world = before
            said = f"{type(error).__name__}: {message_of(error)}"
            return self.reject("error", f"The action failed with {said}")
        if chance.drew:
            self.np_random = ahead
        step = Step(
            observation, reward, bool(terminated), bool(truncated), info, action, self.world
        )
        self._history.append(action)
        text = self._read_text(step)
        listed, self._listed = self._listed, self._read_actions(step)
        return self._describe(step, text, self._find_reason(step, text, listed))

    def close(self) -> None:
        """Close the world, if it can be."""
        getattr(self.world, "close", bool)()

    def _keep_chance(self, seed: int, world: Any) -> AbstractContextManager[Chance]:
        """`keep_chance`, but not of a world on a server, which is called in several threads."""
        return nullcontext(Chance()) if self.waits else keep_chance(seed, world)

    def _describe(self, step: Step, text: str, reason: str) -> Turn:
        """The turn of what the world returned."""
        success = self._has_succeeded(step)
        ended = step.terminated or success
        progress = 1.0 if success else self._ask("progress", step)
        progress = 0.0 if progress is None else progress
        if not isinstance(progress, SupportsFloat) or not 0 <= float(progress) <= 1:
            raise ValueError(f"the hook progress gave {progress!r}; it must lie in [0, 1]")
        paid = float(success) if self._paid == "success" else float(step.reward)
        return Turn(
            text,
            valid=not reason,
            invalid_reason=reason,
            progress=float(progress),
            anchor=self._find_anchor(step),
            reward=paid,
            success=success,
            failure=ended and not success,
            truncated=step.truncated,
            admissible_actions=() if ended else self._listed,
        )

    def _has_succeeded(self, step: Step) -> bool:
        told = self._ask("success", step)
        if told is not None:
            return _read_flag("success", told)
        return self._least is not None and step.terminated and step.reward >= self._least

    def _find_reason(self, step: Step, text: str, listed: Sequence[str]) -> str:
        """Why the action was invalid, "" if it was valid."""
        told = self._ask("valid", step)
        if isinstance(told, str):
            one_of("reason of the hook valid", told, INVALID_REASONS)
            return told
        if told is not None:
            return "" if _read_flag("valid", told) else "refused"
        if step.reward in self._rewards or any(one.search(text) for one in self._texts):
            return "refused"
        return "refused" if listed and step.action not in listed else ""

    def _find_anchor(self, step: Step) -> str:
        if self.anchor == "state":
            return digest_state(self.world, self._ignore)
        if self.anchor == "history":
            return blake2b(repr(self._history).encode(), digest_size=16).hexdigest()
        told = self._ask("anchor", step)
        if step.action is not None and str(told) in {"None", "nan"}:
            raise ValueError(f"the hook anchor gave {told!r}; it must give a key of the state")
        return str(told)

    def _read_text(self, step: Step) -> str:
        told = self._ask("text", step)
        text = step.observation if told is None else told
        if not isinstance(text, str):
            raise TypeError(
                f"the world's observation is a {type(text).__name__}, {text!r:.60}; give text=, a "
                "key of info or a function that makes a text of it"
            )
        return text

    def _read_actions(self, step: Step) -> list[str]:
        told = self._ask("admissible", step)
        told = () if told is None else told
        if isinstance(told, str) or not isinstance(told, Iterable):
            raise TypeError(
                f"the hook admissible gave {told!r:.60}; it must give actions in a list"
            )
        return list(map(str, told))

    def _ask(self, name: str, step: Step) -> Any:
        """What a hook says, None if there is none."""
        hook = self._hooks[name]
        if not isinstance(hook, _Key):
            try:
                return hook(step) if callable(hook) else hook
            except Exception as error:
                said = f"the hook {name} failed with {describe_error(error)}"
                raise RuntimeError(said) from error
        if hook not in step.info and step.action is None:
            return None  # many worlds report it of actions only
        if hook not in step.info:
            raise KeyError(
                f"the hook {name} reads info[{str(hook)!r}], which the world does not report"
                f"{nearest(hook, step.info)}; it has {', '.join(map(str, step.info)) or 'none'}"
            )
        return step.info[hook]


class _Key(str):
    """A key of the world's `info`."""

    __slots__ = ()


def _read_hook(name: str, given: Any) -> Any:
    """A function, a `_Key`, a constant, or None for no hook."""
    if given == "" or given is None:
        return None
    if isinstance(given, str):
        if re.fullmatch(r"[\w.]+:\w+", given):
            return load_object(given, option=f"the hook {name}")
        return _Key(given) if given.isidentifier() else given
    return given


def _read_flag(name: str, told: Any) -> bool:
    """What a hook says of success or validity, if it is a flag: "False" is none."""
    if told not in (0, 1):
        raise ValueError(f"the hook {name} gave {told!r:.60}; it must be True or False")
    return bool(told)


def _read_form(given: str | Callable[[str], Any]) -> Callable[[str], Any]:
    """What makes the world's action of the agent's text."""
    if callable(given):
        return given
    if not given:
        return str
    if re.fullmatch(r"[\w.]+:\w+", given):
        made: Callable[[str], Any] = load_object(given, option="action")
        return made
    before, place, after = given.partition("{}")
    if not place:
        raise ValueError(f"action={given!r} has no {{}} in the place of the action")
    return lambda action: f"{before}{action}{after}"


def name_world(world: Any) -> str:
    """Where the tasks of a world come from: its id, or its class."""
    spec = getattr(world, "spec", None)
    kind = type(getattr(world, "unwrapped", world))
    return f"signals:{getattr(spec, 'id', None) or kind.__qualname__}"


def _find_why_no_copy(world: Any, ignore: Sequence[str] | None) -> str:
    """Why a world cannot be copied, and digested unless `ignore` is None; "" if it can."""
    try:
        with keep_chance(0, None):
            once = copy.deepcopy(world)
            once.reset(seed=0)
            again = copy.deepcopy(once)
        if ignore is not None and digest_state(once, ignore) != digest_state(again, ignore):
            return "the digests of the world and of its copy differ"
    except (OSError, MemoryError, ImportError):
        raise
    except Exception as error:  # noqa: BLE001  whatever a foreign class raises
        return describe_error(error)
    return ""
