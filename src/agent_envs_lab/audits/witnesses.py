"""Examples for the audit of anchors: pairs of ways that show a wrong anchor, and their search."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from agent_envs.testing.episodes import Start, list_inputs, list_steps, quote
from agent_envs_lab.audits.walk import Outcome, look_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from agent_envs.testing.episodes import Record
    from agent_envs_lab.audits.walk import Group, Key, Walk

REPLAYS = 300
"""Most episodes that are played to shorten a witness."""
SHARED = 3
"""Fewest actions to try in two states before their futures count as equal."""
CROWD = 150
"""Most states of a task that are compared in pairs."""
FOLLOWED = 30
"""Most turns that a pair is followed for."""


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
            f"  {self.start}, then\n    {list_steps(self.first)}\n  or{other}\n"
            f"    {list_steps(self.second)}\n"
            f"  lead to the anchor {quote(self.anchor, 80)}, where {quote(self.action)} gives\n"
            f"  {self.field} {quote(self.one, 80)} or {quote(self.other, 80)}"
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
            f"  {self.start}, then\n    {list_steps(self.first)}\n  or\n"
            f"    {list_steps(self.second)}\n  lead to two anchors, and {self.turns} turns from "
            "there on did not differ"
        )


def shortest_witness(
    walk: Walk,
    diverging: Sequence[tuple[Key, Group]],
    anchor_of: Callable[[Record], str | None],
) -> Witness:
    """The shortest pair of ways to one anchor with two outcomes, shortened by replaying."""
    (_, anchor, key), group = min(
        diverging, key=lambda item: sum(sorted(map(len, item[1].ways.values()))[:2])
    )
    action = walk.actions[key]
    (one, way), (other, also), *_ = sorted(group.ways.items(), key=lambda item: len(item[1]))
    compare = partial(_compare_ways, walk, anchor_of, action)
    found = compare((way, also))
    if found is None:  # it cannot be repeated: something that the audit does not control
        return _make_witness(anchor, (way, also), action, (one, other))
    return _shorten_ways(compare, found, (way, also))


Ways = tuple[tuple[Any, ...], tuple[Any, ...]]


def _shorten_ways(compare: Callable[[Ways], Witness | None], found: Witness, ways: Ways) -> Witness:
    """The witness with parts of its ways left out, first large parts, then single steps."""
    size, budget = max(map(len, ways)) - 1, REPLAYS

    def leave_out(place: int) -> None:
        nonlocal found, ways, budget
        first, second = (way[:place] + way[place + size :] for way in ways)
        for shorter in ((first, second), (first, ways[1]), (ways[0], second)):
            if budget and shorter != ways and shorter[0] != shorter[1]:
                budget -= 1
                shown = compare(shorter)
                found, ways = (found, ways) if shown is None else (shown, shorter)

    while size and budget:
        before = ways
        for place in range(1, max(map(len, ways)), size):
            leave_out(place)
        size //= 1 if ways is not before else 2
    return found


def _compare_ways(
    walk: Walk, anchor_of: Callable[[Record], str | None], action: Any, ways: Ways
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
    return _make_witness(anchor, ways, action, (one, other))


def _make_witness(
    anchor: str, ways: Ways, action: Any, outcomes: tuple[Outcome, Outcome]
) -> Witness:
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


def list_unseparated(walk: Walk) -> list[Ways]:
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
        for shared, one, other in _pair_alike({anchor: by_anchor[anchor] for anchor in most}):
            found.append((shared, (ways[task, one], ways[task, other])))
    found.sort(key=lambda suspect: (-suspect[0], sum(map(len, suspect[1]))))
    return [suspect[1] for suspect in found]


def _pair_alike(
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


def follow_both(walk: Walk, first: tuple[Any, ...], second: tuple[Any, ...]) -> Split | None:
    """Play on after two ways, breadth first, until something differs (None) or all is equal."""
    queue, known, turns = deque([(first, second)]), set[frozenset[str]](), 0
    while queue and turns < FOLLOWED:
        one, other = queue.popleft()
        for action in _list_actions(walk, one):
            after = walk.turn(one, action), walk.turn(other, action)
            if after[0] is None or after[1] is None:
                continue
            turns += 1
            (_, shown, a), (_, also, b) = after[0], after[1]
            if a[:-1] != b[:-1] or look_of(shown) != look_of(also):
                return None
            pair = frozenset((a.next_anchor, b.next_anchor))
            if len(pair) > 1 and not a.terminated and pair not in known:
                known.add(pair)
                queue.append(((*one, action), (*other, action)))
    if turns < SHARED:
        return None
    (start, *way), (_, *also_way) = first, second
    return Split(str(start), tuple(way), tuple(also_way), turns)


def _list_actions(walk: Walk, way: tuple[Any, ...]) -> list[Any]:
    """The listed actions after some steps, or else some of the task's earlier actions."""
    play = walk.after(way)
    choices = [] if play is None else list_inputs(walk.env, play.record.info)
    done = [walk.actions[key] for of, _, key in walk.groups if of.task == way[0].task]
    return choices or done[: FOLLOWED // 3]
