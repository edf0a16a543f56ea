"""Examples for the audit of anchors: pairs of ways that show a wrong anchor, and their search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_envs.testing.episodes import list_steps, quote
from agent_envs_lab.audits.evidence import explain_in_time
from agent_envs_lab.audits.walk import Outcome

if TYPE_CHECKING:
    from agent_envs.testing.episodes import Record
    from agent_envs_lab.audits.walk import Group, Key, Walk

REPLAYS = 300
"""Most episodes that are played to shorten a witness."""


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


def shortest_witness(
    walk: Walk, diverging: Sequence[tuple[Key, Group]], anchor_of: Callable[[Record], str | None]
) -> Witness:
    """The shortest pair of ways to one anchor with two outcomes, shortened by replaying."""
    (_, anchor, key), group = min(
        diverging, key=lambda item: sum(sorted(map(len, item[1].ways.values()))[:2])
    )
    action = walk.actions[key]
    (one, way), (other, also), *_ = sorted(group.ways.items(), key=lambda item: len(item[1]))
    compare = partial(_compare_ways, walk, anchor_of, action)
    found = explain_in_time(partial(compare, (way, also)), None)
    if found is None:  # it cannot be repeated: something that the audit does not control
        return _make_witness(anchor, (way, also), action, (one, other))
    shorten = partial(_shorten_ways, compare, found, (way, also))
    return explain_in_time(shorten, found)


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
