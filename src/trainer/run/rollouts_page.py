"""Episodes on the page: a group's rollouts side by side, and single episodes turn by turn.

In the table of a group a column is a rollout. Rows are aligned: turns in the same state, that is
with the same anchor, are in the same row wherever the order of the turns allows it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trainer.play.records import Episode, Step

COLUMNS, ROWS, TURNS = 8, 40, 60
"""Most rollouts and rows shown of a group, and most turns of a single episode."""


@dataclass(frozen=True)
class Shade:
    """Credit of one turn; `strength` in [-1, 1] is its share of the largest that is shown."""

    credit: float | None
    strength: float
    decisive: bool


@dataclass(frozen=True)
class TurnView:
    """One turn on the page.

    Attributes:
        number: Turn of its episode, from 1.
        step: What happened.
        state: Number of its anchor on this part of the page, from 1.
        again: Whether the episode was in this state before.
        shared: Rollouts of the group that were in this state.
        shade: Its credit.
    """

    number: int
    step: Step
    state: int
    again: bool
    shared: int
    shade: Shade


@dataclass(frozen=True)
class Sample:
    """One episode on the page."""

    title: str
    episode: Episode
    turns: list[TurnView]


@dataclass(frozen=True)
class GroupView:
    """Rollouts of one task side by side.

    Attributes:
        step: Step of the run.
        rollouts: The episodes shown, R of them, successes first.
        numbers: Their numbers within the group, from 1.
        size: All rollouts of the group.
        rows: Cells of each aligned row, R of them; None where a rollout has no turn.
        last: [R] row of each rollout's last turn.
        more: Rows that are not shown.
        largest: Largest |credit| shown; None without credit.
    """

    step: int
    rollouts: list[Episode]
    numbers: list[int]
    size: int
    rows: list[list[TurnView | None]]
    last: list[int]
    more: int
    largest: float | None


def shades(credit: NDArray[np.float64], largest: float | None = None) -> list[Shade]:
    """Cells of one trajectory, strongest at `largest` (default its largest |credit|): [T] -> [T].

    The turn of largest |credit| is the decisive one (HAS, appendix A), unless all are equal.
    """
    top = float(np.abs(credit).max(initial=0.0)) if largest is None else largest
    decisive = int(np.abs(credit).argmax()) if np.ptp(credit) > 0 else -1
    return [
        Shade(value, value / top if top else 0.0, turn == decisive)
        for turn, value in enumerate(credit.tolist())
    ]


def ending(episode: Episode) -> str:
    """How an episode ended, in words."""
    return "success" if episode.success else "turn limit" if episode.truncated else "failure"


def align(sequences: Sequence[Sequence[str]]) -> list[list[int]]:
    """Rows of R sequences of anchors, such that equal anchors share a row: lengths [R] -> [R][T].

    The first visit of a state is matched with first visits, the second with second ones, sequence
    by sequence with those before. Then each turn gets the first row that is below its predecessor
    in every sequence that is matched with it.
    """
    order: list[tuple[str, int]] = []  # all visits in one order that every sequence keeps
    places: list[list[int]] = []
    for anchors in sequences:
        visits = _count_visits(anchors)
        place: list[int] = []
        merged: list[tuple[str, int]] = []
        moved: list[int] = []  # where the visits of `order` are in `merged`
        matcher = SequenceMatcher(None, order, visits, autojunk=False)
        for kind, start, end, first, last in matcher.get_opcodes():
            moved += range(len(merged), len(merged) + end - start)
            merged += order[start:end]
            if kind == "equal":
                place += moved[start:end]
            else:
                place += range(len(merged), len(merged) + last - first)
                merged += visits[first:last]
        places = [[moved[one] for one in before] for before in places]
        places.append(place)
        order = merged
    return _pack_rows(places, len(order))


def _count_visits(anchors: Sequence[str]) -> list[tuple[str, int]]:
    """Each anchor with the number of its earlier visits."""
    seen: Counter[str] = Counter()
    found = []
    for anchor in anchors:
        found.append((anchor, seen[anchor]))
        seen[anchor] += 1
    return found


def _pack_rows(places: list[list[int]], count: int) -> list[list[int]]:
    """Rows for positions in a common order of `count` states, as high up as the order allows."""
    level = np.zeros(count, int)
    before: list[dict[int, int]] = [
        dict(zip(own[1:], own, strict=False)) for own in places
    ]  # position -> the position of the turn before it
    for position in range(count):
        above = [level[own[position]] + 1 for own in before if position in own]
        level[position] = max(above, default=0)
    return [[int(level[position]) for position in own] for own in places]


def group_view(
    step: int, played: Sequence[Episode], credit: NDArray[np.float64] | None
) -> GroupView | None:
    """The most telling group of a step: successes and failures, and many shared states.

    None if no group has two rollouts.
    """
    groups: dict[int, list[int]] = {}
    for index, episode in enumerate(played):
        groups.setdefault(episode.group, []).append(index)
    found = [rows for rows in groups.values() if len(rows) > 1]
    if not found:
        return None
    members = max(found, key=lambda rows: _telling([played[row] for row in rows]))
    ranked = sorted(members, key=lambda row: -played[row].success)
    if len(ranked) > COLUMNS:  # the best and the worst
        ranked = ranked[: COLUMNS // 2] + ranked[-(COLUMNS // 2) :]
    ends = np.cumsum([len(episode.steps) for episode in played]).tolist()
    own = [
        None if credit is None else credit[ends[row] - len(played[row].steps) : ends[row]]
        for row in ranked
    ]
    rows, last, largest = _table([played[row] for row in ranked], own)
    return GroupView(
        step=step,
        rollouts=[played[row] for row in ranked],
        numbers=[members.index(row) + 1 for row in ranked],
        size=len(members),
        rows=rows[:ROWS],
        last=last,
        more=max(0, len(rows) - ROWS),
        largest=largest,
    )


def _telling(group: Sequence[Episode]) -> tuple[bool, bool, float]:
    """Whether outcomes differ and actions do, and the share of turns in shared states."""
    seen = Counter(anchor for one in group for anchor in {step.anchor for step in one.steps})
    turns = [step.anchor for one in group for step in one.steps]
    shared = sum(seen[anchor] > 1 for anchor in turns) / len(turns)
    actions = {tuple(step.action for step in one.steps) for one in group}
    return len({one.success for one in group}) > 1, len(actions) > 1, shared


def _table(
    rollouts: Sequence[Episode], credit: Sequence[NDArray[np.float64] | None]
) -> tuple[list[list[TurnView | None]], list[int], float | None]:
    """Aligned rows of cells of R rollouts, the last row of each, and the largest |credit|."""
    known = [own for own in credit if own is not None]
    largest = max((float(np.abs(own).max(initial=0.0)) for own in known), default=None)
    anchors = [[step.anchor for step in one.steps] for one in rollouts]
    places = align(anchors)
    last = [own[-1] for own in places]
    cells: list[list[TurnView | None]] = [[None] * len(rollouts) for _ in range(2 + max(last))]
    shared = Counter(anchor for own in anchors for anchor in set(own))
    states = _states(anchors, places)
    for column, (one, own) in enumerate(zip(rollouts, credit, strict=True)):
        views = _views(one, own, states, shared, largest)
        for row, view in zip(places[column], views, strict=True):
            cells[row][column] = view
    return cells, last, largest


def _states(anchors: Sequence[Sequence[str]], places: Sequence[Sequence[int]]) -> dict[str, int]:
    """Numbers of the anchors from 1, row by row and from left to right."""
    found = sorted(
        (row, column, anchor)
        for column, (own, rows) in enumerate(zip(anchors, places, strict=True))
        for anchor, row in zip(own, rows, strict=True)
    )
    order = dict.fromkeys(anchor for _, _, anchor in found)
    return {anchor: number for number, anchor in enumerate(order, start=1)}


def _views(
    episode: Episode,
    credit: NDArray[np.float64] | None,
    states: dict[str, int],
    shared: Counter[str],
    largest: float | None,
) -> list[TurnView]:
    count = len(episode.steps)
    plain = [Shade(None, 0.0, decisive=False)] * count
    cells = plain if credit is None else shades(credit, largest)
    seen: set[str] = set()
    made = []
    for number, (step, shade) in enumerate(zip(episode.steps, cells, strict=True), start=1):
        again = step.anchor in seen
        seen.add(step.anchor)
        made.append(TurnView(number, step, states[step.anchor], again, shared[step.anchor], shade))
    return made


def sample(step: int, episode: Episode, credit: NDArray[np.float64] | None) -> Sample:
    """One episode turn by turn; `credit` [T] is that of its turns."""
    anchors = [one.anchor for one in episode.steps]
    states = _states([anchors], [range(len(anchors))])
    views = _views(episode, credit, states, Counter(set(anchors)), None)
    title = f"step {step}: {ending(episode)} after {len(views)} turns"
    return Sample(title, episode, views[:TURNS])


def samples(
    step: int,
    played: Sequence[Episode],
    credit: NDArray[np.float64] | None,
    wanted: Sequence[bool],
) -> list[Sample]:
    """Episodes with the wanted successes of one group."""
    ends = np.cumsum([len(episode.steps) for episode in played]).tolist()
    made = []
    for index in _pick(played, wanted):
        length = len(played[index].steps)
        own = None if credit is None else credit[ends[index] - length : ends[index]]
        made.append(sample(step, played[index], own))
    return made


def _pick(played: Sequence[Episode], wanted: Sequence[bool]) -> list[int]:
    groups: dict[int, dict[bool, int]] = {}
    for index, episode in enumerate(played):
        groups.setdefault(episode.group, {}).setdefault(episode.success, index)
    best = max(groups.values(), key=lambda found: sum(outcome in found for outcome in wanted))
    return [best[outcome] for outcome in wanted if outcome in best] or [next(iter(best.values()))]
