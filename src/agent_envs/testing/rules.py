"""The rules for every turn of every episode; `watch` applies them.

A rule gets the facts of one turn and returns what is wrong, or "". An environment that deviates on
purpose says so in its docstring, in the words of `EXCEPTIONS`, under the heading given there.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gymnasium.spaces import Text

from agent_envs.contract import INFO_KEYS, INVALID_REASONS
from agent_envs.testing.episodes import (
    NONSENSE,
    Record,
    Start,
    dressed,
    limit_of,
    listed,
    panel_of,
    parser_of,
    quoted,
)
from agent_envs.testing.violations import difference

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_envs.panels import Panel
    from agent_envs.testing.episodes import Env

TYPES = dict(zip(INFO_KEYS, (str, bool, str, float, str, bool, list, str, int), strict=True))
HOLDERS = (dict, list, tuple)
PLAIN = (str, bool, int, float, type(None), list, dict, tuple)
SURROGATE = re.compile("[\ud800-\udfff]")
EXCEPTIONS = {
    "Progress": "without success",
    "Validity": "takes effect",
    "Description": "goal changes",
}
"""Heading -> words in a docstring that relax a rule: progress can be 1 without success, an action
takes effect although it is invalid, and the goal changes in an episode."""
DAY = 86_400.0


def headings(env_class: type) -> dict[str, str]:
    """The text under each heading of a class docstring."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (vars(env_class).get("__doc__") or "").splitlines():
        name, _, rest = line.partition(":")
        new = name.strip("#* ") in HEADINGS
        heading = name.strip("#* ") if new else heading
        found.setdefault(heading, []).extend((rest if new else line).split())
    return {heading: " ".join(words) for heading, words in found.items()}


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


def says(env: Env, heading: str) -> bool:
    """Whether the docstring, or that of a base class, states the exception of a heading.

    `ParseReply(on_malformed="attempt")` counts as an exception of Validity.
    """
    if heading == "Validity" and attempts(env):
        return True
    texts = (headings(one).get(heading, "") for one in type(env.unwrapped).__mro__)
    return any(EXCEPTIONS[heading] in text for text in texts)


def attempts(env: Env) -> bool:
    """Whether the likeliest actions of malformed replies are executed."""
    parser = parser_of(env)
    return parser is not None and parser.on_malformed == "attempt"


Possible = dict[tuple[str, str], tuple[frozenset[str], tuple[Any, ...]]]


@dataclass
class Seen:
    """The facts of an episode up to one turn.

    Attributes:
        start: The beginning. actions: The actions since.
        opening, before, record: The first turn, the previous turn and this one.
        kept: A copy of the previous turn, made when it came.
        possible: The listed actions at each anchor of a task so far, and the steps to it.
        panel: The panel at the reset.
        earlier: Steps of an earlier episode that a rule compared with.
    """

    env: Env
    start: Start
    opening: Record
    record: Record
    before: Record | None = None
    kept: Record | None = None
    actions: list[Any] = field(default_factory=list)
    possible: Possible = field(default_factory=dict)
    panel: Panel | None = None
    earlier: tuple[Any, ...] = ()

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


def at(record: Record, turn: int) -> str:
    """The turn's name in messages."""
    return "reset" if turn == 0 else f"step {turn} ({quoted(record.action, 60)})"


def keys_and_types(seen: Seen) -> str:
    """Every key is present, with its exact type."""
    for key, kind in TYPES.items():
        if key not in seen.info:
            return f"{_where(seen)}: info lacks {key!r}"
        if type(seen.info[key]) is not kind:
            return (
                f"{_where(seen)}: info[{key!r}] must be a {kind.__name__}, "
                f"got {seen.info[key]!r:.60} ({type(seen.info[key]).__name__})"
            )
    if seen.before is not None and set(seen.before.info) ^ set(seen.info):
        changed = sorted(set(seen.before.info) ^ set(seen.info))
        return f"{_where(seen)}: info has {changed} only at some turns"
    return ""


def plain(seen: Seen) -> str:
    """`info` has only builtin types, and only text that can be encoded."""
    for key, value in seen.info.items():
        if not _is_plain(value):
            return f"{_where(seen)}: {_not_plain(value, f'info[{key!r}]')}"
    return ""


def values(seen: Seen) -> str:
    """All signals have allowed values."""
    info, where = seen.info, _where(seen)
    progress, reason = info["progress"], info["invalid_reason"]
    if not 0 <= progress <= 1:
        return f"{where}: info['progress'] must lie in [0, 1], got {progress}"
    if reason not in INVALID_REASONS:
        return f"{where}: info['invalid_reason'] must be one of {INVALID_REASONS}, got {reason!r}"
    if info["valid"] != (reason == ""):
        return f"{where}: info['valid'] is {info['valid']} with info['invalid_reason'] = {reason!r}"
    for key in ("goal", "anchor"):
        if not info[key]:
            return f"{where}: info[{key!r}] is empty"
    return ""


def order(seen: Seen) -> str:
    """Turns are counted, the task is in the panel, and task and goal do not change."""
    info, where, panel = seen.info, _where(seen), panel_of(seen.env)
    if info["turn"] != seen.turn:
        return f"{where}: info['turn'] must be {seen.turn}, got {info['turn']}"
    if panel is not None and info["task_id"] not in panel.task_ids:
        return f"{where}: {info['task_id']!r} is not a task of the panel"
    if info["task_id"] != seen.opening.info["task_id"]:
        return f"{where}: the task was {seen.opening.info['task_id']!r}, now {info['task_id']!r}"
    if info["goal"] != seen.opening.info["goal"] and not says(seen.env, "Description"):
        return (
            f"{where}: the goal was {seen.opening.info['goal']!r:.80}, now {info['goal']!r:.80}; "
            f'if that is intended, write "{EXCEPTIONS["Description"]}" under Description'
        )
    return ""


def observation(seen: Seen) -> str:
    """The observation is in its space and can be encoded."""
    shown = seen.record.observation
    if wrong := _unwritable(shown, "the observation"):
        return f"{_where(seen)}: {wrong}"
    if shown not in seen.env.observation_space:
        return f"{_where(seen)}: observation not in its space {seen.env.observation_space}"
    return ""


def opening(seen: Seen) -> str:
    """A reset is valid and not a success."""
    if seen.turn == 0 and not seen.info["valid"]:
        return f"{_where(seen)}: info['valid'] must be True"
    if seen.turn == 0 and seen.info["success"]:
        return f"{_where(seen)}: info['success'] must be False"
    return ""


def reward(seen: Seen) -> str:
    """The reward is a number; an invalid turn has none, except at the end of the episode."""
    paid, where = seen.record.reward, _where(seen)
    if type(paid) is not float:
        return f"{where}: the reward must be a float, got {paid!r} ({type(paid).__name__})"
    if not math.isfinite(paid):
        return f"{where}: the reward is {'NaN' if math.isnan(paid) else paid}"
    free = seen.info["valid"] or seen.record.ended or attempts(seen.env)
    if paid > 0 and not free:
        return (
            f"{where}: a reward of {paid} for an invalid turn "
            f"({seen.info['invalid_reason']!r}); invalid turns are never rewarded"
        )
    return ""


def ends(seen: Seen) -> str:
    """An episode ends by itself or at the turn limit, not both; a success ends it."""
    where, limit = _where(seen), limit_of(seen.env)
    _, _, _, terminated, truncated, info = seen.record
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if type(flag) is not bool:
            return f"{where}: {name} must be a bool, got {flag!r} ({type(flag).__name__})"
    if info["success"] and not terminated:
        return f"{where}: success must be terminated"
    if terminated and truncated:
        return f"{where}: both terminated and truncated"
    if truncated and seen.turn != limit:
        return f"{where}: truncated before the turn limit of {limit}"
    if seen.turn >= limit and not seen.record.ended:
        return f"{where}: no end after max_turns = {limit} steps: truncated must be True"
    return ""


def success(seen: Seen) -> str:
    """Success implies progress 1, and vice versa unless Progress says otherwise."""
    progress, where = seen.info["progress"], _where(seen)
    if seen.info["success"] and progress != 1:
        return f"{where}: success with info['progress'] = {progress}; success implies 1.0"
    if progress == 1 and not seen.info["success"] and not says(seen.env, "Progress"):
        return (
            f"{where}: info['progress'] is 1 without success; if that is intended, write "
            f'"{EXCEPTIONS["Progress"]}" under Progress'
        )
    return ""


def admissible(seen: Seen) -> str:
    """Listed actions are in the space, without repetitions, and depend on the anchor alone."""
    where, actions = _where(seen), seen.info["admissible_actions"]
    for action in actions:
        if type(action) is not str:
            return f"{where}: admissible action {action!r} is not a str"
    if len(set(actions)) < len(actions):
        twice = next(action for action in actions if actions.count(action) > 1)
        return f"{where}: admissible action {twice!r} is listed {actions.count(twice)} times"
    if isinstance(seen.env.action_space, Text):
        for action in listed(seen.env, seen.info):
            if action not in seen.env.action_space:
                return (
                    f"{where}: admissible action {action!r:.80} is not in {seen.env.action_space}"
                )
    if seen.record.ended:
        return ""
    key = seen.info["task_id"], seen.info["anchor"]
    known = seen.possible.get(key)
    if known is None:
        seen.possible[key] = frozenset(actions), seen.steps
    elif known[0] != frozenset(actions):
        before, way = known
        seen.earlier = () if way == seen.steps[: len(way)] else way
        differ = sorted(before ^ frozenset(actions))
        return f"{where}: the anchor came before, but {quoted(differ[0])} was not listed both times"
    return ""


def listed_is_valid(seen: Seen) -> str:
    """A listed action is valid; if some are listed, nonsense is not."""
    if seen.before is None:
        return ""
    choices = listed(seen.env, seen.before.info)
    if seen.info["valid"]:
        if choices and seen.record.action not in choices and _nonsense(seen):
            return (
                f"{_where(seen)}: nonsense is valid although info['admissible_actions'] has a list "
                "of actions"
            )
        return ""
    if seen.record.action in choices:
        return (
            f"{_where(seen)}: the action is in info['admissible_actions'] and is refused, "
            f"{seen.info['invalid_reason']!r}"
        )
    return ""


def _nonsense(seen: Seen) -> bool:
    return isinstance(seen.env.action_space, Text) and seen.record.action in [
        dressed(seen.env, word) for word in NONSENSE
    ]


def same_panel(seen: Seen) -> str:
    """The panel does not change."""
    panel = panel_of(seen.env)
    if panel is not seen.panel and getattr(panel, "hash", "") != getattr(seen.panel, "hash", ""):
        return f"{_where(seen)}: the panel changed during an episode"
    return ""


def invalid_does_nothing(seen: Seen) -> str:
    """An invalid turn does not change anchor, progress and list, unless Validity says so."""
    if seen.before is None or seen.info["valid"] or says(seen.env, "Validity"):
        return ""
    for key in ("anchor", "progress", "admissible_actions"):
        if seen.info[key] != seen.before.info[key] and not seen.record.ended:
            return (
                f"{_where(seen)}: an invalid turn ({seen.info['invalid_reason']!r}) changes {key} "
                f"from {seen.before.info[key]!r:.80} to {seen.info[key]!r:.80}; if that is "
                f'intended, write "{EXCEPTIONS["Validity"]}" under Validity'
            )
    return ""


def own_objects(seen: Seen) -> str:
    """The objects of a turn belong to the caller: they do not change and are not reused."""
    if seen.before is None or seen.kept is None:
        return ""
    if wrong := difference(seen.kept, seen.before):
        return f"{_where(seen)} changed the turn before it: {wrong}"
    if _parts(seen.before.info) & _parts(seen.info):
        return f"{_where(seen)}: info shares a list or dict with the turn before"
    return ""


def no_clock(seen: Seen) -> str:
    """`info` does not contain the time of day."""
    now, today = time.time(), time.strftime("%Y-%m-%d")
    for key, value in seen.info.items():
        if isinstance(value, str) and today in value:
            return f"{_where(seen)}: info[{key!r}] has today's date"
        if type(value) in (int, float) and any(
            abs(value / unit - now) < DAY for unit in (1, 1e3, 1e6, 1e9)
        ):
            return f"{_where(seen)}: info[{key!r}] = {value} is the time of day"
    return ""


def no_copy_of_the_observation(seen: Seen) -> str:
    """The anchor is made from the facts of the state, not from the observation."""
    shown, before = seen.record.observation, seen.before
    if not isinstance(shown, str) or before is None or before.observation == shown:
        return ""
    if (seen.info["anchor"], before.info["anchor"]) == (shown, before.observation):
        return f"{_where(seen)}: info['anchor'] is the observation; make it from the state's facts"
    return ""


RULES: tuple[Callable[[Seen], str], ...] = (
    own_objects,
    same_panel,
    keys_and_types,
    plain,
    values,
    observation,
    opening,
    reward,
    ends,
    order,
    success,
    admissible,
    listed_is_valid,
    no_copy_of_the_observation,
    invalid_does_nothing,
    no_clock,
)
"""The rules in the order of their application; later rules rely on earlier ones."""


def _where(seen: Seen) -> str:
    return at(seen.record, seen.turn)


def _parts(value: Any) -> set[int]:
    """The ids of the lists and dicts inside a value."""
    if not isinstance(value, HOLDERS):
        return set()
    inside = value.values() if isinstance(value, dict) else value
    held = (_parts(one) for one in inside if isinstance(one, HOLDERS))
    return {id(value)} - {id(())} | set().union(*held)


def _is_plain(value: Any) -> bool:
    if type(value) is str:
        return value.isascii() or not _unwritable(value, "")
    if isinstance(value, dict):
        return type(value) is dict and all(_is_plain(o) for pair in value.items() for o in pair)
    if isinstance(value, (list, tuple)):
        return type(value) in PLAIN and all(map(_is_plain, value))
    return type(value) in PLAIN


def _not_plain(value: Any, name: str) -> str:
    """What is not plain in a value, "" if all is."""
    if type(value) not in PLAIN:
        return f"{name} must be of builtin types, got {type(value).__name__} {value!r:.60}"
    if wrong := _unwritable(value, name):
        return wrong
    inside: list[tuple[Any, str]] = []
    if isinstance(value, dict):
        inside = [(key, f"a key of {name}") for key in value]
        inside += [(one, f"{name}[{key!r}]") for key, one in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(one, f"{name}[{place}]") for place, one in enumerate(value)]
    return next(filter(None, (_not_plain(*one) for one in inside)), "")


def _unwritable(value: Any, name: str) -> str:
    if isinstance(value, str) and SURROGATE.search(value):
        return f"{name} has an unpaired surrogate and cannot be encoded as UTF-8"
    return ""
