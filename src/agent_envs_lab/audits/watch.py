"""The watch of the audits: the rules of the kit, and rules that compare turns and episodes."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent_envs.contract import INFO_KEYS
from agent_envs.testing.episodes import (
    RULES,
    Seen,
    Violation,
    Watch,
    find_difference,
    panel_of,
    play_steps,
    quote,
)
from agent_envs_lab.audits.episodes import Chance

if TYPE_CHECKING:
    from agent_envs.panels import Panel
    from agent_envs.testing.episodes import Env, Record, Start

DAY = 86_400.0
Possible = dict[tuple[str, str], tuple[frozenset[str], tuple[Any, ...]]]
"""The listed actions at each anchor of each task so far, and the steps to it."""


@dataclass
class Compared(Seen):
    """The facts of an episode, and what its turns are compared with.

    Attributes:
        before_copy: A copy of the previous turn, made when it came.
        panel: The panel at the reset.
        earlier: Steps of an earlier episode that a rule compared with.
    """

    possible: Possible = field(default_factory=dict)
    before_copy: Record | None = None
    panel: Panel | None = None
    earlier: tuple[Any, ...] = ()


def judge_ownership(seen: Compared) -> str:
    """The objects of a turn belong to the caller: they do not change and are not reused."""
    if seen.before is None or seen.before_copy is None:
        return ""
    if wrong := find_difference(seen.before_copy, seen.before):
        return f"changed the turn before it: {wrong}"
    shared = _find_parts(seen.before.info) & _find_parts(seen.info)
    return "info shares a list or dict with the turn before" if shared else ""


def judge_panel(seen: Compared) -> str:
    """The panel does not change."""
    panel = panel_of(seen.env)
    same = panel is seen.panel or getattr(panel, "hash", "") == getattr(seen.panel, "hash", "")
    return "" if same else "the panel changed during an episode"


def judge_repeated_list(seen: Compared) -> str:
    """Listed actions depend on the anchor alone."""
    if seen.record.ended:
        return ""
    key, actions = (seen.info["task_id"], seen.info["anchor"]), seen.info["admissible_actions"]
    known, way = seen.possible.setdefault(key, (frozenset(actions), seen.steps))
    if known != frozenset(actions):
        seen.earlier = () if way == seen.steps[: len(way)] else way
        differ = sorted(known ^ frozenset(actions))
        return f"the anchor came before, but {quote(differ[0])} was not listed both times"
    return ""


def judge_clock(seen: Compared) -> str:
    """`info` does not contain the time of day."""
    now, today = time.time(), time.strftime("%Y-%m-%d")
    for key, value in seen.info.items():
        if isinstance(value, str) and today in value:
            return f"info[{key!r}] has today's date"
        if type(value) in (int, float) and any(
            abs(value / unit - now) < DAY for unit in (1, 1e3, 1e6, 1e9)
        ):
            return f"info[{key!r}] = {value} is the time of day"
    return ""


class DeepWatch(Watch):
    """Applies all rules to the turns of an episode as they come.

    possible: the listed actions at each anchor of each task, shared by the episodes.
    """

    rules = (judge_ownership, judge_panel, *RULES, judge_repeated_list, judge_clock)
    seen: Compared | None

    def __init__(self, env: Env, start: Start, possible: Possible | None = None) -> None:
        super().__init__(env, start)
        self._possible = {} if possible is None else possible

    def __call__(self, record: Record) -> None:
        """Apply the rules to the next turn; the steps of a violation have the earlier episode."""
        try:
            super().__call__(record)
        except Violation as found:
            earlier = self.seen.earlier if self.seen is not None else ()
            raise Violation(found.wrong, (*earlier, *found.steps), found.rule) from None
        if self.seen is not None:
            self.seen.before_copy = record._replace(
                action=copy.deepcopy(record.action),
                observation=copy.deepcopy(record.observation),
                info=_copy_plain(record.info),
            )

    def _begin(self, record: Record) -> Compared:
        seen = Compared(self._env, self._start, record, record, possible=self._possible)
        seen.panel = panel_of(self._env)
        return seen


class FirstViolation:
    """Watches the episodes of an audit and keeps the first violation.

    If `info` at a reset lacks a key of the contract, the episode is not watched.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._possible: Possible = {}
        self.found: Violation | None = None

    def __call__(self, start: Start) -> Callable[[Record], None]:
        """A function that watches the turns of an episode as they come."""
        watch, idle = DeepWatch(self._env, start, self._possible), self.found is not None

        def see(record: Record) -> None:
            nonlocal idle
            idle = idle or (watch.seen is None and not set(INFO_KEYS) <= set(record.info))
            if idle:
                return
            try:
                watch(record)
            except Violation as found:
                self.found, idle = found, True

        return see


@dataclass(frozen=True)
class Breaks:
    """Whether steps violate a rule, with or without the fixed random states of the audits."""

    rule: Callable[[Any], str]

    def __call__(self, env: Env, steps: Sequence[Any]) -> Violation | None:
        """The violation of the rule by these steps."""
        for chance in (None, Chance(env)):
            found = _find_violation(env, steps, chance)
            if found is not None and found.rule is self.rule:
                return found
        return None


def _find_violation(env: Env, steps: Sequence[Any], chance: Chance | None) -> Violation | None:
    """The first violation of a rule by these steps."""
    possible: Possible = {}
    watches: dict[int, DeepWatch] = {}
    try:
        for play, record in play_steps(env, steps, chance):
            if not play.actions:
                watches = {id(play): DeepWatch(env, play.start, possible)}
            watches[id(play)](record)
    except Violation as found:
        return found
    return None


def _copy_plain(value: Any) -> Any:
    """A deep copy of plain values, several times as fast as `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: _copy_plain(one) for key, one in value.items()}
    return type(value)(map(_copy_plain, value)) if isinstance(value, (list, tuple)) else value


def _find_parts(value: Any) -> set[int]:
    """The ids of a dict, list or tuple and of those inside; all share the empty tuple."""
    inside = value.values() if isinstance(value, dict) else value
    parts = (_find_parts(one) for one in inside if isinstance(one, (dict, list, tuple)))
    return ({id(value)} - {id(())}).union(*parts)
