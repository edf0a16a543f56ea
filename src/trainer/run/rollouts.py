"""A recorded step on the page: the rollouts of one task side by side.

A column is a rollout. Turns in the same state, that is with the same anchor, are in the same row
wherever the order of the turns allows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trainer.run import curves

if TYPE_CHECKING:
    from trainer.play.records import Episode, Step

COLUMNS, ROWS = 8, 60
"""Most rollouts and rows that are shown of a group."""


@dataclass(frozen=True)
class Cell:
    """One turn on the page.

    Attributes:
        number: Turn of its episode, from 1.
        step: What happened.
        state: Number of its anchor in the group, from 1.
        shared: Rollouts that were in this state.
        credit: Its advantage; None if the step has none.
        strength: The advantage as a share of the largest of the group, in [-1, 1].
        decisive: Whether it has the largest advantage of its rollout (HAS, appendix A).
    """

    number: int
    step: Step
    state: int
    shared: int
    credit: float | None
    strength: float
    decisive: bool


@dataclass(frozen=True)
class Group:
    """Rollouts of one task side by side.

    Attributes:
        step: Step of the run.
        rollouts: R episodes, successes first.
        turns: The cells of each of them.
        rows: R cells of each aligned row; None where a rollout has no turn.
        size: All rollouts of the group.
        largest: Largest |advantage| shown; None without credit.
        by_turn: Figure of the credit by turn of the whole step; None without credit.
        places: The number of each of the R episodes in the step.
    """

    step: int
    rollouts: list[Episode]
    turns: list[list[Cell]]
    rows: list[list[Cell | None]]
    size: int
    largest: float | None
    by_turn: str | None
    places: list[int]


def align(sequences: Sequence[Sequence[str]]) -> list[list[int]]:
    """Rows of R sequences of anchors, such that equal anchors share a row: lengths [R] -> [R][T].

    The first visit of a state is matched with first visits, the second with second ones. A turn
    waits for the rollouts that come into its state later; where all wait, those go on for which the
    fewest come.
    """
    left = [_count_visits(anchors) for anchors in sequences]
    rows: list[list[int]] = [[] for _ in left]
    row = 0
    while any(left):
        later = Counter(visit for visits in left for visit in visits[1:])
        fewest = min(later[visits[0]] for visits in left if visits)
        for place, visits in zip(rows, left, strict=True):
            if visits and later[visits[0]] == fewest:
                visits.pop(0)
                place.append(row)
        row += 1
    return rows


def _count_visits(anchors: Sequence[str]) -> list[tuple[str, int]]:
    """Each anchor with the number of its earlier visits."""
    return [(anchor, anchors[:turn].count(anchor)) for turn, anchor in enumerate(anchors)]


def choose_group(step: int, played: Sequence[Episode], credit: NDArray[np.float64] | None) -> Group:
    """The most telling group of a step: with successes and failures, and many ways to play.

    Args:
        step: The step.
        played: Its episodes.
        credit: [N] the advantage of each of their turns.
    """
    groups: dict[int, list[int]] = {}
    for index, episode in enumerate(played):
        groups.setdefault(episode.group, []).append(index)
    members = max(groups.values(), key=lambda rows: _count_outcomes([played[i] for i in rows]))
    shown = sorted(members, key=lambda index: -played[index].success)
    if len(shown) > COLUMNS:  # the best and the worst
        shown = shown[: COLUMNS // 2] + shown[-(COLUMNS // 2) :]
    ends = np.cumsum([len(episode.steps) for episode in played])
    advantages = None if credit is None else np.split(credit, ends[:-1])
    own = [None if advantages is None else advantages[index] for index in shown]
    rollouts = [played[index] for index in shown]
    largest = max((float(np.abs(one).max()) for one in own if one is not None), default=None)
    turns = _make_cells(rollouts, own, largest)
    places = align([[step.anchor for step in one.steps] for one in rollouts])
    rows: list[list[Cell | None]] = [
        [None] * len(rollouts) for _ in range(1 + max(place[-1] for place in places))
    ]
    for column, (cells, place) in enumerate(zip(turns, places, strict=True)):
        for cell, row in zip(cells, place, strict=True):
            rows[row][column] = cell
    figure = None if advantages is None else curves.draw_credit(played, advantages)
    return Group(step, rollouts, turns, rows, len(members), largest, figure, shown)


def _count_outcomes(group: Sequence[Episode]) -> tuple[int, int]:
    """The numbers of different outcomes and of different plays."""
    plays = {tuple(step.action for step in one.steps) for one in group}
    return len({one.success for one in group}), len(plays)


def _make_cells(
    rollouts: Sequence[Episode], credit: Sequence[NDArray[np.float64] | None], largest: float | None
) -> list[list[Cell]]:
    """The cells of each rollout, given the advantages of its turns."""
    shared = Counter(anchor for one in rollouts for anchor in {step.anchor for step in one.steps})
    states: dict[str, int] = {}
    made = []
    for one, own in zip(rollouts, credit, strict=True):
        values = [None] * len(one.steps) if own is None else own.tolist()
        decisive = -1 if own is None or not np.ptp(own) else int(np.abs(own).argmax())
        made.append(
            [
                Cell(
                    turn + 1,
                    step,
                    states.setdefault(step.anchor, len(states) + 1),
                    shared[step.anchor],
                    value,
                    value / largest if value and largest else 0.0,
                    decisive=turn == decisive,
                )
                for turn, (step, value) in enumerate(zip(one.steps, values, strict=True))
            ]
        )
    return made
