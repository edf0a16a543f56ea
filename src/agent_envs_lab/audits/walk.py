"""A walk: plays episodes for the audit of anchors and keeps the outcomes of their turns."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agent_envs.testing.episodes import Play, Start, draw_odd_inputs, limit_of
from agent_envs_lab.audits.episodes import Chance
from agent_envs_lab.audits.violations import key_of

if TYPE_CHECKING:
    from agent_envs.testing.episodes import Actor, Env, Record

STOP = object()
"""The action with which an actor leaves an episode."""


class Outcome(NamedTuple):
    """The outcome of a turn, which anchor and action must determine."""

    valid: Any
    invalid_reason: Any
    terminated: bool
    reward: float | str
    success: Any
    next_anchor: str


Key = tuple[Start, str, Hashable]
"""A task (the start without its seed), an anchor and an action."""


class _Visit(NamedTuple):
    """A turn: the number of its history, and the steps to it."""

    history: int
    way: tuple[Any, ...]


class Group:
    """The visits of an anchor and an action: histories, and the shortest way to each outcome."""

    __slots__ = ("histories", "ways")

    def __init__(self) -> None:
        self.histories: set[int] = set()
        self.ways: dict[Outcome, tuple[Any, ...]] = {}


class Walk:
    """Plays episodes and keeps the outcomes of turns, by anchor and by observation."""

    def __init__(
        self,
        env: Env,
        anchor: Callable[[Any, dict[str, Any]], str | None],
        watch: Callable[[Start], Callable[[Record], None]],
    ) -> None:
        self.env, self.limit, self.odd = env, limit_of(env), draw_odd_inputs(env)
        self._anchor, self._watch = anchor, watch
        self.groups: dict[Key, Group] = {}
        self.shown: dict[Key, Group] = {}
        self.states: dict[tuple[Start, str], tuple[str, tuple[Any, ...]]] = {}
        self.actions: dict[Hashable, Any] = {}
        self.episodes = self.turns = self.unrepeatable = 0
        self.anchored = False
        self.unrepeated: list[Any] = []
        self._steps: list[Any] = []
        self._histories: dict[Any, int] = {}
        self._openings: dict[Start, Any] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._places: dict[int, int] = {}
        self.chance = Chance(env)

    def play(self, start: Start, make_actor: Callable[[], Actor]) -> list[Any]:
        """Play an episode and keep its turns; returns its actions."""
        play = Play(self.env, start)
        actor, history, see = make_actor(), self._history(start), self._watch(start)
        see(play.record)
        self.episodes += 1
        begun = len(self._steps)
        self._steps.append(start)
        self.anchored |= self.anchor(play.record) is not None
        digest = digest_of(play.record.observation)
        info = play.record.info
        listed = sorted(map(repr, info.get("admissible_actions") or ()))
        opening = self.anchor(play.record), digest, info.get("progress"), listed
        self._places.setdefault(history, begun)
        if self._openings.setdefault(start, opening) != opening:
            self._differs(history)
        while len(play.actions) < self.limit and not play.record.ended:
            action = actor(play.record.observation, play.record.info)
            if action is STOP:
                break
            before, shown, way = play.record, digest, (start, *play.actions)
            see(self._step(play, action))
            digest = digest_of(play.record.observation)
            self._steps.append(action)
            history = self._history((history, key_of(action)))
            self._places.setdefault(history, begun)
            if not play.record.truncated and len(play.actions) < self.limit:
                self._keep(start, _Visit(history, way), (before, shown), (play.record, digest))
        return play.actions

    def _differs(self, history: int) -> None:
        """Count a history with a different result than before, and keep its steps."""
        self.unrepeatable += 1
        self.unrepeated = self.unrepeated or self._steps[self._places[history] :]

    def turn(self, way: Sequence[Any], action: Any) -> tuple[Record, Record, Outcome] | None:
        """The record after some steps, and the action's record and outcome; None if it ends."""
        before = self.after(way)
        if before is None or len(way) >= self.limit:
            return None
        record, after = before.record, self._step(before, action)
        return None if after.truncated else (record, after, self.read_outcome(after))

    def after(self, way: Sequence[Any]) -> Play | None:
        """The episode after some steps, None if it ends before."""
        start, *actions = way
        play = Play(self.env, start)
        for action in actions:
            if self._step(play, action).ended:
                return None
        return play

    def anchor(self, record: Record) -> str | None:
        """The anchor that is audited."""
        return self._anchor(record.observation, record.info)

    def _step(self, play: Play, action: Any) -> Record:
        anchor = self.anchor(play.record) or digest_of(play.record.observation)
        self.chance.fix(anchor, action)
        return play.step(action)

    def _keep(
        self, start: Start, visit: _Visit, earlier: tuple[Record, str], later: tuple[Record, str]
    ) -> None:
        """Keep a turn; the records before and after it come with the digests of what they show."""
        (before, shown_before), (after, shown) = earlier, later
        self.turns += 1
        outcome, key = self.read_outcome(after), key_of(after.action)
        self.actions.setdefault(key, after.action)
        if self._outcomes.setdefault(visit.history, outcome) != outcome:
            self._differs(visit.history)
            return
        task = start if start.task is None else start._replace(seed=0)
        seen = outcome._replace(next_anchor=shown)
        _note(self.shown, (task, shown_before, key), seen, visit)
        anchor = self.anchor(before)
        if anchor is not None:
            _note(self.groups, (task, anchor, key), outcome, visit)
            self.states.setdefault((task, anchor), (shown_before, visit.way))

    def read_outcome(self, record: Record) -> Outcome:
        """The outcome of a turn."""
        info, reward = record.info, float(record.reward)
        return Outcome(
            info.get("valid"),
            info.get("invalid_reason"),
            bool(record.terminated),
            round(reward, 9) if np.isfinite(reward) else str(reward),
            info.get("success"),
            self.anchor(record) or "",
        )

    def _history(self, step: Any) -> int:
        """The number of a history: a start, or an earlier history and its next step."""
        return self._histories.setdefault(step, len(self._histories))


def _note(groups: dict[Key, Group], key: Key, outcome: Outcome, visit: _Visit) -> None:
    group = groups.get(key)
    if group is None:
        group = groups[key] = Group()
    group.histories.add(visit.history)
    known = group.ways.get(outcome)
    if known is None or len(visit.way) < len(known):
        group.ways[outcome] = visit.way


def digest_of(observation: Any) -> str:
    """A key of an observation's content."""
    content = observation.tobytes() if isinstance(observation, np.ndarray) else repr(observation)
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return blake2b(raw, digest_size=12).hexdigest()
