"""audit_anchors: whether anchors are keys of the decision state, by playing and comparing turns.

Two turns of one task with the same anchor and the same action must have the same outcome: valid,
invalid_reason, termination, reward, success and next anchor. The audit plays many episodes of a
task from one seed, so that states are reached by different ways, and compares the outcomes. Two
things are excluded. The turn that reaches the turn limit, since the limit is not part of the state.
And chance: before each step the environment's generator (`np_random`) and those of Python and NumPy
are set to a state that depends only on the anchor and the action, so that equal turns draw equal
numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agent_envs.testing.episodes import (
    Chance,
    Play,
    Start,
    audits_of,
    limit_of,
    listed,
    name_of,
    odd_actions,
    quoted,
    sequence,
    starts,
    wander,
)
from agent_envs.testing.rules import Watching
from agent_envs.testing.violations import (
    Violation,
    explained,
    fresh,
    generators_kept,
    key_of,
    repeats_drawing,
    shortest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_envs.testing.episodes import Actions, Actor, Env, Record

LEAST = 2  # episodes that a comparison needs
REPLAYS = 300
"""Most episodes that are played to shorten a witness."""
SHARED = 3
"""Fewest actions to try in two states before their futures count as equal."""
CROWD = 150
"""Most states of a task that are compared in pairs."""
SUSPECTS = 5
"""Most pairs of states that are followed further."""
FOLLOWED = 30
"""Most turns that a pair is followed for."""
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


@dataclass(frozen=True)
class Witness:
    """Two ways to one anchor, at which one action has two outcomes.

    start, other_start: the beginnings; the seeds can differ. first, second: the action sequences.
    action: the action after either way.
    field, one, other: the first field of the outcome that differs, and its two values.
    """

    start: str
    anchor: str
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    action: Any
    field: str
    one: Any
    other: Any
    other_start: str

    def __str__(self) -> str:
        other = "" if self.other_start == self.start else f" {self.other_start}, then"
        return (
            f"  {self.start}, then\n    {sequence(self.first)}\n  or{other}\n"
            f"    {sequence(self.second)}\n"
            f"  lead to the anchor {quoted(self.anchor, 80)}, where {quoted(self.action)} gives\n"
            f"  {self.field} {quoted(self.one, 80)} or {quoted(self.other, 80)}"
        )


@dataclass(frozen=True)
class Split:
    """Two anchors of a task with equal futures, as far as they were followed.

    start: the common beginning. first, second: the action sequences. turns: turns compared.
    """

    start: str
    first: tuple[Any, ...]
    second: tuple[Any, ...]
    turns: int

    def __str__(self) -> str:
        return (
            f"  {self.start}, then\n    {sequence(self.first)}\n  or\n    {sequence(self.second)}"
            f"\n  lead to two anchors, and {self.turns} turns from there on did not differ"
        )


@dataclass(frozen=True)
class Comparison:
    """The figures of one kind of anchor on the episodes.

    anchors: number of different anchors.
    revisited: pairs (anchor, action) of a task that turns with different histories share.
    diverging: revisited pairs with different outcomes.
    """

    anchors: int
    revisited: int
    diverging: int

    @property
    def share(self) -> float:
        """Share of the revisited pairs that diverge; 0 if nothing was revisited."""
        return self.diverging / self.revisited if self.revisited else 0.0


@dataclass(frozen=True)
class AnchorAudit:
    """The result of `audit_anchors`; it prints as a table.

    env, tasks, episodes, turns, seed: what was played; totals over all tasks.
    anchor: figures of the audited anchors; None if `info` has no anchors.
    observation: figures of anchors made of the observation, on the same episodes.
    witness: the shortest example found of a diverging pair; if `info` has no anchors, for anchors
        made of the observation.
    unrepeatable: number of resets and turns that differed when they were repeated.
    unrepeated: the steps that show the first of these.
    violation: the first turn that violates the contract, with its actions; "" for none, and if
        `info` at the reset lacks keys of the contract.
    unseparated: pairs of anchors of a task after which no observed difference occurred.
    followed, split: how many of these were played further, and how many stayed equal.
    split_witness: an example of the latter.
    """

    env: str
    tasks: int
    episodes: int
    turns: int
    seed: int
    anchor: Comparison | None
    observation: Comparison
    witness: Witness | None = None
    unrepeatable: int = 0
    unseparated: int = 0
    followed: int = 0
    split: int = 0
    split_witness: Split | None = None
    unrepeated: str = ""
    violation: str = ""

    @property
    def passed(self) -> bool:
        """Whether there are anchors, none diverges, nothing is violated, and all turns repeat."""
        sound = self.anchor is not None and not self.anchor.diverging
        return sound and not self.unrepeatable and not self.violation

    def __str__(self) -> str:
        lines = [
            f"anchors of {self.env}, seed {self.seed}",
            f"{self.tasks} tasks, {self.episodes:,} episodes, {self.turns:,} turns",
            f"{'':<12}{'anchors':>9}{'revisited':>11}{'diverging':>11}{'share':>8}",
        ]
        for name, row in (("anchor", self.anchor), ("observation", self.observation)):
            figures = "  info has no 'anchor'"
            if row is not None:
                figures = f"{row.anchors:9,}{row.revisited:11,}{row.diverging:11,}{row.share:8.1%}"
            lines.append(f"{name:<12}{figures}")
        if self.unrepeatable:
            lines.append(
                f"{self.unrepeatable:,} resets or turns differ when the same is done again\n"
                f"{self.unrepeated}"
            )
        if self.violation:
            lines.append(f"not as the contract requires:\n  {self.violation}")
        if not self.turns:
            lines.append("no turns compared: each was the last of the turn limit; raise max_turns")
        if self.witness is not None:
            lines.append(f"shortest example of a pair that diverges:\n{self.witness}")
        if self.followed:
            lines.append(
                f"{self.unseparated:,} pairs of anchors were followed by nothing that differs; of "
                f"{self.followed} played on from, {self.split} stayed alike"
            )
        if self.split_witness is not None:
            lines.append(f"example:\n{self.split_witness}")
        return "\n".join(lines)


def audit_anchors(
    env: Env | Callable[[], Env],
    *,
    actions: Actions | None = None,
    anchor: Callable[[Any, dict[str, Any]], str] | None = None,
    watch: Callable[[Start], Callable[[Record], None]] | None = None,
    tasks: int = 10,
    episodes: int = 40,
    seeds: int = 1,
    seed: int = 0,
) -> AnchorAudit:
    """Play episodes and compare turns of the same anchor and action, on any Gymnasium environment.

    Every second episode is an earlier one with actions left out, doubled, swapped or inserted, so
    that states are reached by different ways. If `info` has the keys of the contract, each turn is
    checked by `rules.RULES`, and the first violation is reported.

    Args:
        env: the environment, wrapped or not, or a function that makes it.
        actions: makes the actor of an episode; by default that of the environment's own audits
            (`AgentEnv.audits`), else `episodes.wander`.
        anchor: maps observation and info to the anchor to audit; by default `info["anchor"]`.
        watch: maps the start of each episode to a function that receives its records as they come,
            for your own checks instead of the rules.
        tasks: number of tasks of the panel; without a panel, number of seeds.
        episodes: number of episodes of each task, all from one seed.
        seeds: number of seeds per task. From each seed but the first an earlier episode is played
            again, since the anchor must contain what the seed drew. Without a panel, seeds are
            tasks.
        seed: seed of all random draws.

    Raises:
        ValueError: fewer than one task, or fewer than two episodes of each.
    """
    if episodes < LEAST:
        raise ValueError(f"episodes, per task, must be at least 2 to be compared, got {episodes}")
    made = env() if callable(env) else env
    if actions is None:
        module = audits_of(made)
        actions = wander if module is None else module.actions
    watching = Watching(made)
    make = fresh(made)
    with generators_kept():
        walk = _Walk(made, anchor or _own, watch or watching)
        begun_tasks = starts(made, tasks, seed)
        for place, start in enumerate(begun_tasks):
            rng = np.random.default_rng([seed, place])
            played: list[list[Any]] = []
            for number in range(episodes):
                if number % 2:
                    walk.play(start, _script(_varied(played, walk.odd, rng)))
                else:
                    played.append(walk.play(start, partial(actions, made, rng)))
            for number in range(1, seeds if start.task is not None else 1):
                again = Start(start.seed + number * SEED_STEP, start.task)
                walk.play(again, _script(played[number % len(played)]))
        found = _audited(walk, len(begun_tasks), seed, hints=watch is None)
        if walk.unrepeated:
            unrepeated = Violation(
                "the same seed and actions give a different turn", walk.unrepeated, repeats_drawing
            )
            found = replace(found, unrepeated=str(shortest(make, unrepeated)))
        if watching.found is not None:
            found = replace(found, violation=str(explained(make, watching.found)))
        return found


SEED_STEP = 1_000  # between the seeds of one task


def _own(_: Any, info: dict[str, Any]) -> str | None:
    return info.get("anchor")


def _script(actions: Sequence[Any]) -> Callable[[], Actor]:
    """Makes an actor that takes these actions and leaves."""

    def made() -> Actor:
        rest = iter(actions)
        return lambda _observation, _info: next(rest, STOP)

    return made


def _varied(played: Sequence[list[Any]], odd: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    """An earlier episode with one to three changes."""

    def drawn(items: Sequence[Any]) -> Any:
        return items[int(rng.integers(len(items)))]

    actions = list(drawn(played))
    for _ in range(int(rng.integers(1, 4))):
        place, change = int(rng.integers(len(actions) + 1)), int(rng.integers(5))
        span = slice(place, place + int(rng.integers(1, 4)))
        match change:
            case 0:
                del actions[span]
            case 1:
                actions[place:place] = actions[span]
            case 2:
                actions[span] = actions[span][::-1]
            case 3:
                actions.insert(place, drawn(odd))
            case _:
                other = drawn(played)
                actions[place:] = other[int(rng.integers(len(other) + 1)) :]
    return actions


Key = tuple[Start, str, Hashable]
"""A task (the start without its seed), an anchor and an action."""


class _Visit(NamedTuple):
    """A turn: the number of its history, the steps to it, and the observation after it."""

    history: int
    way: tuple[Any, ...]
    look: str


class _Group:
    """The visits of one anchor and action: their histories, and the shortest way to each outcome.

    looks: keys of what the agent was shown after each visit.
    """

    __slots__ = ("histories", "looks", "ways")

    def __init__(self) -> None:
        self.histories: set[int] = set()
        self.looks: set[str] = set()
        self.ways: dict[Outcome, tuple[Any, ...]] = {}


class _Walk:
    """Plays episodes and keeps the outcomes of turns, by anchor and by observation."""

    def __init__(
        self,
        env: Env,
        anchor: Callable[[Any, dict[str, Any]], str | None],
        watch: Callable[[Start], Callable[[Record], None]],
    ) -> None:
        self.env, self.limit, self.odd = env, limit_of(env), odd_actions(env)
        self._anchor, self._watch = anchor, watch
        self.groups: dict[Key, _Group] = {}
        self.shown: dict[Key, _Group] = {}
        self.actions: dict[Hashable, Any] = {}
        self.episodes = self.turns = self.unrepeatable = 0
        self.anchored = False
        self.unrepeated: list[Any] = []
        self._steps: list[Any] = []
        self._histories: dict[Any, int] = {}
        self._openings: dict[Start, Any] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._places: dict[int, int] = {}
        self._chance = Chance(env)

    def play(self, start: Start, make_actor: Callable[[], Actor]) -> list[Any]:
        """Play an episode and keep its turns; returns its actions."""
        play = Play(self.env, start)
        actor, history, see = make_actor(), self._history(start), self._watch(start)
        see(play.record)
        self.episodes += 1
        begun = len(self._steps)
        self._steps.append(start)
        self.anchored |= self.anchor(play.record) is not None
        opening = self.anchor(play.record), _look(play.record)
        self._places.setdefault(history, begun)
        if self._openings.setdefault(start, opening) != opening:
            self._differs(history)
        while len(play.actions) < self.limit and not play.record.ended:
            action = actor(play.record.observation, play.record.info)
            if action is STOP:
                break
            before, way = play.record, (start, *play.actions)
            see(self._step(play, action))
            self._steps.append(action)
            history = self._history((history, key_of(action)))
            self._places.setdefault(history, begun)
            if not play.record.truncated and len(play.actions) < self.limit:
                self._keep(start, _Visit(history, way, _look(play.record)), before, play.record)
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
        return None if after.truncated else (record, after, self._outcome(after))

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
        anchor = self.anchor(play.record) or _digest(play.record.observation)
        self._chance.fix(anchor, action)
        return play.step(action)

    def _keep(self, start: Start, visit: _Visit, before: Record, after: Record) -> None:
        self.turns += 1
        outcome, key = self._outcome(after), key_of(after.action)
        self.actions.setdefault(key, after.action)
        if self._outcomes.setdefault(visit.history, outcome) != outcome:
            self._differs(visit.history)
            return
        task = start if start.task is None else start._replace(seed=0)
        seen = outcome._replace(next_anchor=_digest(after.observation))
        _note(self.shown, (task, _digest(before.observation), key), seen, visit)
        anchor = self.anchor(before)
        if anchor is not None:
            _note(self.groups, (task, anchor, key), outcome, visit)

    def _outcome(self, record: Record) -> Outcome:
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


def _note(
    groups: dict[Key, _Group],
    key: Key,
    outcome: Outcome,
    visit: _Visit,
) -> None:
    group = groups.get(key)
    if group is None:
        group = groups[key] = _Group()
    group.histories.add(visit.history)
    group.looks.add(visit.look)
    known = group.ways.get(outcome)
    if known is None or len(visit.way) < len(known):
        group.ways[outcome] = visit.way


def _audited(walk: _Walk, tasks: int, seed: int, *, hints: bool) -> AnchorAudit:
    judged = _comparison(walk.groups) if walk.anchored else None
    judged_by = walk.anchor if walk.anchored else _text
    groups = walk.groups if walk.anchored else walk.shown
    diverging = [(key, group) for key, group in groups.items() if len(group.ways) > 1]
    suspects = [] if diverging or not hints else _unseparated(walk)
    splits = [_followed(walk, *suspect) for suspect in suspects[:SUSPECTS]]
    alike = [split for split in splits if split is not None]
    return AnchorAudit(
        env=name_of(walk.env),
        tasks=tasks,
        episodes=walk.episodes,
        turns=walk.turns,
        seed=seed,
        anchor=judged,
        observation=_comparison(walk.shown),
        witness=_witness(walk, diverging, judged_by) if diverging else None,
        unrepeatable=walk.unrepeatable,
        unseparated=len(suspects),
        followed=len(splits),
        split=len(alike),
        split_witness=alike[0] if alike else None,
    )


def _comparison(groups: dict[Key, _Group]) -> Comparison:
    revisited = [group for group in groups.values() if len(group.histories) > 1]
    return Comparison(
        anchors=len({key[:2] for key in groups}),
        revisited=len(revisited),
        diverging=sum(len(group.ways) > 1 for group in revisited),
    )


def _text(record: Record) -> str:
    shown = record.observation
    return shown if isinstance(shown, str) else _digest(shown)


def _witness(
    walk: _Walk,
    diverging: Sequence[tuple[Key, _Group]],
    anchor_of: Callable[[Record], str | None],
) -> Witness:
    """The shortest pair of ways to one anchor with two outcomes, shortened by replaying."""
    (_, anchor, key), group = min(
        diverging, key=lambda item: sum(sorted(map(len, item[1].ways.values()))[:2])
    )
    action = walk.actions[key]
    (one, way), (other, also), *_ = sorted(group.ways.items(), key=lambda item: len(item[1]))
    differing = partial(_differing, walk, anchor_of, action)
    found = differing((way, also))
    if found is None:  # it cannot be repeated: something that the audit does not control
        return _told(anchor, (way, also), action, (one, other))
    ways, size, budget = (way, also), max(len(way), len(also)) - 1, REPLAYS
    while size and budget:
        before = ways
        for place in range(1, max(map(len, ways)), size):
            first, second = (way[:place] + way[place + size :] for way in ways)
            for shorter in ((first, second), (first, ways[1]), (ways[0], second)):
                if budget and shorter != ways and shorter[0] != shorter[1]:
                    budget -= 1
                    told = differing(shorter)
                    if told is not None:
                        found, ways = told, shorter
        size //= 1 if ways is not before else 2
    return found


Ways = tuple[tuple[Any, ...], tuple[Any, ...]]


def _differing(
    walk: _Walk, anchor_of: Callable[[Record], str | None], action: Any, ways: Ways
) -> Witness | None:
    """The witness of two ways and an action, if their outcomes differ."""
    first, second = (walk.turn(way, action) for way in ways)
    if first is None or second is None:
        return None
    (before, shown, one), (also, seen, other) = first, second
    anchor = anchor_of(before)
    if anchor is None or anchor != anchor_of(also):
        return None
    one = one._replace(next_anchor=anchor_of(shown) or "")
    other = other._replace(next_anchor=anchor_of(seen) or "")
    if one == other:
        return None
    return _told(anchor, ways, action, (one, other))


def _told(anchor: str, ways: Ways, action: Any, outcomes: tuple[Outcome, Outcome]) -> Witness:
    (start, *first), (also, *second) = ways
    one, other = outcomes
    field = next(name for name in Outcome._fields if getattr(one, name) != getattr(other, name))
    return Witness(
        str(start),
        anchor,
        tuple(first),
        tuple(second),
        action,
        field,
        getattr(one, field),
        getattr(other, field),
        str(also),
    )


def _unseparated(walk: _Walk) -> list[Ways]:
    """Pairs of anchors that no observed outcome separates, those with most actions first.

    Two anchors are separated if an action that was tried in both has different outcomes, different
    observations, or leads to two separated anchors.
    """
    done: dict[Start, dict[str, dict[Hashable, tuple[Outcome, set[str]]]]] = {}
    ways: dict[tuple[Start, str], tuple[Any, ...]] = {}
    for (task, anchor, key), group in walk.groups.items():
        (outcome, way), *_ = group.ways.items()
        done.setdefault(task, {}).setdefault(anchor, {})[key] = outcome, group.looks
        known = ways.get((task, anchor))
        if known is None or len(way) < len(known):
            ways[task, anchor] = way
    found = []
    for task, by_anchor in done.items():
        most = sorted(by_anchor, key=lambda anchor: -len(by_anchor[anchor]))[:CROWD]
        for shared, one, other in _alike({anchor: by_anchor[anchor] for anchor in most}):
            found.append((shared, (ways[task, one], ways[task, other])))
    found.sort(key=lambda suspect: (-suspect[0], sum(map(len, suspect[1]))))
    return [suspect[1] for suspect in found]


def _alike(
    done: dict[str, dict[Hashable, tuple[Outcome, set[str]]]],
) -> list[tuple[int, str, str]]:
    """Pairs of anchors of a task that are not separated, with the number of shared actions."""
    open_pairs: dict[frozenset[str], list[frozenset[str]]] = {}
    counts: dict[frozenset[str], int] = {}
    apart = set[frozenset[str]]()
    for one, other in combinations(done, 2):
        pair, shared = frozenset((one, other)), done[one].keys() & done[other].keys()
        turns = [(*done[one][key], *done[other][key]) for key in shared]
        if any(a[:-1] != b[:-1] or looks.isdisjoint(other) for a, looks, b, other in turns):
            apart.add(pair)
        elif shared:
            counts[pair] = len(shared)
            after = [frozenset((a.next_anchor, b.next_anchor)) for a, _, b, _ in turns]
            open_pairs[pair] = [successors for successors in after if len(successors) > 1]
    while fallen := {pair for pair, after in open_pairs.items() if not apart.isdisjoint(after)}:
        apart |= fallen
        for pair in fallen:
            del open_pairs[pair]
    kept = [(counts[pair], sorted(pair)) for pair in open_pairs if counts[pair] >= SHARED]
    return [(shared, one, other) for shared, (one, other) in kept]


def _followed(walk: _Walk, first: tuple[Any, ...], second: tuple[Any, ...]) -> Split | None:
    """Play on after two ways, breadth first, until something differs (None) or all is equal."""
    queue, known, turns = deque([(first, second)]), set[frozenset[str]](), 0
    while queue and turns < FOLLOWED:
        one, other = queue.popleft()
        for action in _tried(walk, one):
            after = walk.turn(one, action), walk.turn(other, action)
            if after[0] is None or after[1] is None:
                continue
            turns += 1
            (_, shown, a), (_, also, b) = after[0], after[1]
            if a[:-1] != b[:-1] or _look(shown) != _look(also):
                return None
            pair = frozenset((a.next_anchor, b.next_anchor))
            if len(pair) > 1 and not a.terminated and pair not in known:
                known.add(pair)
                queue.append(((*one, action), (*other, action)))
    if turns < SHARED:
        return None
    (start, *way), (_, *also_way) = first, second
    return Split(str(start), tuple(way), tuple(also_way), turns)


def _tried(walk: _Walk, way: tuple[Any, ...]) -> list[Any]:
    """The listed actions after some steps, or else some of the task's earlier actions."""
    play = walk.after(way)
    choices = [] if play is None else listed(walk.env, play.record.info)
    done = [walk.actions[key] for of, _, key in walk.groups if of.task == way[0].task]
    return choices or done[: FOLLOWED // 3]


def _digest(observation: Any) -> str:
    """A key of an observation's content."""
    content = observation.tobytes() if isinstance(observation, np.ndarray) else repr(observation)
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    return blake2b(raw, digest_size=12).hexdigest()


def _look(record: Record) -> str:
    """A key of everything that the agent is shown."""
    info = record.info
    listed = sorted(map(repr, info.get("admissible_actions") or ()))
    return f"{_digest(record.observation)} {info.get('progress')} {_digest(listed)}"
