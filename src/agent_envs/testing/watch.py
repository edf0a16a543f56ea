"""The watch: applies the rules to the turns of episodes as they come."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_envs.contract import INFO_KEYS
from agent_envs.testing.episodes import Chance, Record, Start, episode, panel_of, performed
from agent_envs.testing.rules import RULES, Possible, Seen
from agent_envs.testing.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from agent_envs.testing.episodes import Actor, Env


class Watch:
    """Applies the rules to the turns of an episode as they come.

    possible: the listed actions at each anchor of each task, shared by the episodes.
    """

    def __init__(self, env: Env, start: Start, possible: Possible | None = None) -> None:
        self._env, self._start = env, start
        self._possible = {} if possible is None else possible
        self._seen: Seen | None = None

    @property
    def begun(self) -> bool:
        """Whether a turn was seen."""
        return self._seen is not None

    def __call__(self, record: Record) -> None:
        """Check the next turn.

        Raises:
            ContractError: the turn violates a rule; with the actions up to it.
        """
        if self._seen is None:
            self._seen = Seen(self._env, self._start, record, record, possible=self._possible)
            self._seen.panel = panel_of(self._env)
        else:
            self._seen.before, self._seen.record = self._seen.record, record
            self._seen.actions.append(record.action)
        for rule in RULES:
            if wrong := rule(self._seen):
                steps = (*self._seen.earlier, *self._seen.steps)
                raise Violation(wrong, steps, _Breaks(rule))
        self._seen.kept = record._replace(
            action=copy.deepcopy(record.action),
            observation=copy.deepcopy(record.observation),
            info=_copied(record.info),
        )


def _copied(value: Any) -> Any:
    """A deep copy of what rule `plain` has passed, several times as fast as `copy.deepcopy`."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return type(value)(map(_copied, value)) if isinstance(value, (list, tuple)) else value


class Watching:
    """Checks the episodes of an audit and keeps the first violation.

    If `info` at a reset lacks a key of the contract, the episode is not checked.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._possible: Possible = {}
        self.found: Violation | None = None

    def __call__(self, start: Start) -> Callable[[Record], None]:
        """A function that checks the turns of an episode as they come."""
        watch, idle = Watch(self._env, start, self._possible), self.found is not None

        def see(record: Record) -> None:
            nonlocal idle
            idle = idle or (not watch.begun and not set(INFO_KEYS) <= set(record.info))
            if idle:
                return
            try:
                watch(record)
            except Violation as found:
                self.found, idle = found, True

        return see


@dataclass(frozen=True)
class _Breaks:
    """Whether steps violate a rule, with or without the fixed random states of the audits."""

    rule: Callable[[Seen], str]

    def __call__(self, env: Env, steps: Sequence[Any]) -> Violation | None:
        for chance in (None, Chance(env)):
            found = _first(env, steps, chance)
            if found is not None and found.again == self:
                return found
        return None


def _first(env: Env, steps: Sequence[Any], chance: Chance | None) -> Violation | None:
    """The first violation of a rule by these steps."""
    possible: Possible = {}
    watches: dict[int, Watch] = {}
    try:
        for play, record in performed(env, steps, chance):
            if not play.actions:
                watches = {id(play): Watch(env, play.start, possible)}
            watches[id(play)](record)
    except Violation as found:
        return found
    return None


def replayed(env: Env, start: Start, actions: Sequence[Any]) -> list[Record]:
    """An episode of these actions up to its end, with each turn checked by the rules.

    Raises:
        ContractError: a turn violates a rule.
    """
    watch, records = Watch(env, start), []
    for _, record in performed(env, (start, *actions)):
        watch(record)
        records.append(record)
    return records


def watched(
    env: Env, start: Start, make_actor: Callable[[], Actor], watch: Watch | None = None
) -> Iterator[Record]:
    """Plays an episode with a new actor, each turn checked by the rules."""
    watch = watch or Watch(env, start)
    for record in episode(env, start, make_actor):
        watch(record)
        yield record
