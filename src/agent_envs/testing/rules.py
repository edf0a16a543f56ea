"""The rules for every turn of every episode, and `Watch`, which applies them.

A rule gets the facts of one turn and returns what is wrong, or "". An environment that deviates on
purpose says so in its docstring, in the words of `EXCEPTIONS`, under the heading given there.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from gymnasium.spaces import Text

from agent_envs.contract import INFO_KEYS, INVALID_REASONS
from agent_envs.testing.episodes import (
    NONSENSE,
    Record,
    Start,
    Violation,
    find_parser,
    limit_of,
    list_inputs,
    name_turn,
    panel_of,
    play_episode,
    play_steps,
    write_input,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agent_envs.testing.episodes import Actor, Env

TYPES = dict(zip(INFO_KEYS, (str, bool, str, float, str, bool, list, str, int), strict=True))
PLAIN = (str, bool, int, float, type(None), list, dict, tuple)
SURROGATE = re.compile("[\ud800-\udfff]")
HEADINGS = (
    "Description",
    "Observation",
    "Action",
    "Validity",
    "Progress",
    "Anchor",
    "Reward",
    "Ends",
    "Tasks and splits",
    "Data",
    "Source",
)
EXCEPTIONS = {
    "Progress": "without success",
    "Validity": "takes effect",
    "Description": "goal changes",
}
"""Heading -> words in a docstring that relax a rule: progress can be 1 without success, an action
takes effect although it is invalid, and the goal changes in an episode."""


@dataclass
class Seen:
    """The facts of an episode up to one turn.

    Attributes:
        start: The beginning. actions: The actions since.
        opening, before, record: The first turn, the previous turn and this one.
    """

    env: Env
    start: Start
    opening: Record
    record: Record
    before: Record | None = None
    actions: list[Any] = field(default_factory=list)

    @property
    def steps(self) -> tuple[Any, ...]:
        """The episode so far."""
        return self.start, *self.actions

    @property
    def info(self) -> dict[str, Any]:
        """The info of this turn."""
        return self.record.info

    @property
    def turn(self) -> int:
        """The number of this turn, 0 at the reset."""
        return len(self.actions)


def read_headings(env_class: type) -> dict[str, str]:
    """The text under each heading of a class docstring."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (vars(env_class).get("__doc__") or "").splitlines():
        name, _, rest = line.partition(":")
        new = name.strip("#* ") in HEADINGS
        heading = name.strip("#* ") if new else heading
        found.setdefault(heading, []).extend((rest if new else line).split())
    return {heading: " ".join(words) for heading, words in found.items()}


def has_exception(env: Env, heading: str) -> bool:
    """Whether the docstring, or that of a base class, states the exception of a heading.

    `ParseReply(on_malformed="attempt")` counts as an exception of Validity.
    """
    texts = (read_headings(one).get(heading, "") for one in type(env.unwrapped).__mro__)
    stated = any(EXCEPTIONS[heading] in text for text in texts)
    return stated or (heading == "Validity" and is_attempting(env))


def is_attempting(env: Env) -> bool:
    """Whether the likeliest actions of malformed replies are executed."""
    parser = find_parser(env)
    return parser is not None and parser.on_malformed == "attempt"


def judge_keys(seen: Seen) -> str:
    """Every key is present, with its exact type."""
    for key, kind in TYPES.items():
        if key not in seen.info:
            return f"info lacks {key!r}"
        value = seen.info[key]
        if type(value) is not kind:
            got = f"{value!r:.60} ({type(value).__name__})"
            return f"info[{key!r}] must be a {kind.__name__}, got {got}"
    changed = set(seen.before.info) ^ set(seen.info) if seen.before is not None else set()
    return f"info has {sorted(changed)} only at some turns" if changed else ""


def judge_plainness(seen: Seen) -> str:
    """`info` has only builtin types, and only text that can be encoded."""
    for key, value in seen.info.items():
        if wrong := _judge_value(value, f"info[{key!r}]"):
            return wrong
    return ""


def judge_signals(seen: Seen) -> str:
    """All signals have allowed values."""
    valid, reason = seen.info["valid"], seen.info["invalid_reason"]
    if not 0 <= seen.info["progress"] <= 1:
        return f"info['progress'] must lie in [0, 1], got {seen.info['progress']}"
    if reason not in INVALID_REASONS:
        return f"info['invalid_reason'] must be one of {INVALID_REASONS}, got {reason!r}"
    if valid != (reason == ""):
        return f"info['valid'] is {valid} with info['invalid_reason'] = {reason!r}"
    empty = [key for key in ("goal", "anchor") if not seen.info[key]]
    return f"info[{empty[0]!r}] is empty" if empty else ""


def judge_observation(seen: Seen) -> str:
    """The observation is in its space and can be encoded."""
    observation, space = seen.record.observation, seen.env.observation_space
    if type(observation) is str and (wrong := _judge_value(observation, "the observation")):
        return wrong
    return "" if observation in space else f"observation not in its space {space}"


def judge_opening(seen: Seen) -> str:
    """A reset is valid and not a success."""
    if seen.turn == 0 and not seen.info["valid"]:
        return "info['valid'] must be True"
    return "info['success'] must be False" if seen.turn == 0 and seen.info["success"] else ""


def judge_reward(seen: Seen) -> str:
    """The reward is a number; an invalid turn has none, except at the end of the episode."""
    reward = seen.record.reward
    if type(reward) is not float:
        return f"the reward must be a float, got {reward!r} ({type(reward).__name__})"
    if not math.isfinite(reward):
        return f"the reward is {'NaN' if math.isnan(reward) else reward}"
    if reward > 0 and not (seen.info["valid"] or seen.record.ended or is_attempting(seen.env)):
        return (
            f"a reward of {reward} for an invalid turn ({seen.info['invalid_reason']!r}); "
            "invalid turns are never rewarded"
        )
    return ""


def judge_end(seen: Seen) -> str:
    """An episode ends by itself or at the turn limit, not both; a success ends it."""
    limit = limit_of(seen.env)
    _, _, _, terminated, truncated, info = seen.record
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if type(flag) is not bool:
            return f"{name} must be a bool, got {flag!r} ({type(flag).__name__})"
    if info["success"] and not terminated:
        return "success must be terminated"
    if terminated and truncated:
        return "both terminated and truncated"
    if truncated and seen.turn != limit:
        return f"truncated before the turn limit of {limit}"
    if seen.turn >= limit and not seen.record.ended:
        return f"no end after max_turns = {limit} steps: truncated must be True"
    return ""


def judge_task(seen: Seen) -> str:
    """Turns are counted, the task is in the panel, and task and goal do not change."""
    info, first, panel = seen.info, seen.opening.info, panel_of(seen.env)
    if info["turn"] != seen.turn:
        return f"info['turn'] must be {seen.turn}, got {info['turn']}"
    if panel is not None and info["task_id"] not in panel.task_ids:
        return f"{info['task_id']!r} is not a task of the panel"
    if info["task_id"] != first["task_id"]:
        return f"the task was {first['task_id']!r}, now {info['task_id']!r}"
    if info["goal"] != first["goal"] and not has_exception(seen.env, "Description"):
        return (
            f"the goal was {first['goal']!r:.80}, now {info['goal']!r:.80}; "
            f'if that is intended, write "{EXCEPTIONS["Description"]}" under Description'
        )
    return ""


def judge_success(seen: Seen) -> str:
    """Success implies progress 1, and vice versa unless Progress says otherwise."""
    progress, success = seen.info["progress"], seen.info["success"]
    if success and progress != 1:
        return f"success with info['progress'] = {progress}; success implies 1.0"
    if progress == 1 and not success and not has_exception(seen.env, "Progress"):
        return (
            "info['progress'] is 1 without success; if that is intended, write "
            f'"{EXCEPTIONS["Progress"]}" under Progress'
        )
    return ""


def judge_list(seen: Seen) -> str:
    """Listed actions are texts of the space, each listed once."""
    actions, space = seen.info["admissible_actions"], seen.env.action_space
    for action in actions:
        if type(action) is not str:
            return f"admissible action {action!r} is not a str"
    if len(set(actions)) < len(actions):
        twice = next(action for action in actions if actions.count(action) > 1)
        return f"admissible action {twice!r} is listed {actions.count(twice)} times"
    if isinstance(space, Text):
        for action in list_inputs(seen.env, seen.info):
            if action not in space:
                return f"admissible action {action!r:.80} is not in {space}"
    return ""


def judge_choice(seen: Seen) -> str:
    """A listed action is valid; if some are listed, nonsense is not."""
    choices = list_inputs(seen.env, seen.before.info) if seen.before is not None else []
    is_listed = seen.record.action in choices
    if is_listed and not seen.info["valid"]:
        reason = seen.info["invalid_reason"]
        return f"the action is in info['admissible_actions'] and is refused, {reason!r}"
    if choices and seen.info["valid"] and not is_listed and _is_nonsense(seen):
        return "nonsense is valid although info['admissible_actions'] has a list of actions"
    return ""


def judge_anchor(seen: Seen) -> str:
    """The anchor is made from the facts of the state, not from the observation."""
    observation, before = seen.record.observation, seen.before
    if not isinstance(observation, str) or before is None or before.observation == observation:
        return ""
    if (seen.info["anchor"], before.info["anchor"]) == (observation, before.observation):
        return "info['anchor'] is the observation; make it from the state's facts"
    return ""


def judge_invalid_turn(seen: Seen) -> str:
    """An invalid turn does not change anchor, progress and list, unless Validity says so."""
    if seen.before is None or seen.info["valid"] or has_exception(seen.env, "Validity"):
        return ""
    for key in ("anchor", "progress", "admissible_actions"):
        before, after = seen.before.info[key], seen.info[key]
        if after != before and not seen.record.ended:
            return (
                f"an invalid turn ({seen.info['invalid_reason']!r}) changes {key} "
                f"from {before!r:.80} to {after!r:.80}; if that is intended, write "
                f'"{EXCEPTIONS["Validity"]}" under Validity'
            )
    return ""


RULES: tuple[Callable[[Seen], str], ...] = (
    judge_keys,
    judge_plainness,
    judge_signals,
    judge_observation,
    judge_opening,
    judge_reward,
    judge_end,
    judge_task,
    judge_success,
    judge_list,
    judge_choice,
    judge_anchor,
    judge_invalid_turn,
)
"""The rules in the order of their application; later rules rely on earlier ones."""


class Watch:
    """Applies `rules` to the turns of an episode as they come."""

    rules: ClassVar[tuple[Callable[[Any], str], ...]] = RULES

    def __init__(self, env: Env, start: Start) -> None:
        self._env, self._start = env, start
        self.seen: Seen | None = None

    def __call__(self, record: Record) -> None:
        """Apply the rules to the next turn.

        Raises:
            Violation: the turn violates a rule; with the actions up to it.
        """
        if self.seen is None:
            self.seen = self._begin(record)
        else:
            self.seen.before, self.seen.record = self.seen.record, record
            self.seen.actions.append(record.action)
        for rule in self.rules:
            if wrong := rule(self.seen):
                where = name_turn(record, self.seen.turn)
                raise Violation(f"{where}: {wrong}", self.seen.steps, rule)

    def play(self, make_actor: Callable[[], Actor]) -> Iterator[Record]:
        """Plays an episode with a new actor, and applies the rules to each turn."""
        for record in play_episode(self._env, self._start, make_actor):
            self(record)
            yield record

    def replay(self, actions: Sequence[Any]) -> list[Record]:
        """The turns of these actions, up to the end; the rules are applied to each."""
        records = []
        for _, record in play_steps(self._env, (self._start, *actions)):
            self(record)
            records.append(record)
        return records

    def _begin(self, record: Record) -> Seen:
        return Seen(self._env, self._start, record, record)


def _is_nonsense(seen: Seen) -> bool:
    words = NONSENSE if isinstance(seen.env.action_space, Text) else ()
    return seen.record.action in [write_input(seen.env, word) for word in words]


def _judge_value(value: Any, name: str) -> str:
    """What is not plain in a value, "" if all is."""
    if type(value) not in PLAIN:
        return f"{name} must be of builtin types, got {type(value).__name__} {value!r:.60}"
    if type(value) is str and not value.isascii() and SURROGATE.search(value):
        return f"{name} has an unpaired surrogate and cannot be encoded as UTF-8"
    if isinstance(value, dict):
        inside = [(key, f"a key of {name}") for key in value]
        inside += [(one, f"{name}[{key!r}]") for key, one in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(one, f"{name}[{place}]") for place, one in enumerate(value)]
    else:
        return ""
    return next(filter(None, (_judge_value(*one) for one in inside)), "")
