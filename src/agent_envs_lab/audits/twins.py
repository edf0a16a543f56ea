"""Twins: anchors that differ although nothing after them does, a sign of too fine anchors.

A turn number or the order of visits in an anchor breaks no rule, but then no two turns share it,
and methods that compare the turns of an anchor, such as GiGPO and RTMC, have nothing to compare.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.testing.episodes import CutShort, show_steps, write_input
from agent_envs_lab.audits.walk import digest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_envs.testing.episodes import Play, Record
    from agent_envs_lab.audits.walk import Outcome, Walk

PAIRS = 10
"""Most pairs that are compared."""
FUTURES = 8
"""Continuations that are played after both anchors of a pair."""
LISTED = 0.8  # share of actions of a continuation that are listed; the others were taken before


@dataclass(frozen=True)
class Twins:
    """Pairs of anchors of a task under equal observations, and what came after them.

    compared: pairs after which `FUTURES` times the same actions were played. same: those after
        which all was the same, observations and listed actions, too. one, other: the ways to the
        first such pair. cut: whether the time was over before all pairs were compared.
    """

    compared: int = 0
    same: int = 0
    one: tuple[Any, ...] = ()
    other: tuple[Any, ...] = ()
    cut: bool = False

    def __str__(self) -> str:
        told = (
            f"too fine?   {self.same} of {self.compared} pairs of anchors under equal observations "
            f"had equal turns after them{', its time was over' if self.cut else ''}"
        )
        if 2 * self.same <= self.compared:
            return told
        return (
            f"{told}:\n  what anchors hold beside the state, such as a turn number, an order or "
            "what was read, keeps GiGPO\n  and RTMC from comparing their turns, as after\n"
            f"{show_steps(self.one)}\n{show_steps(self.other)}"
        )


def find_twins(walk: Walk, seed: int) -> Twins:
    """Play the same actions after pairs of anchors that a walk has seen, and compare the turns."""
    alike: dict[Any, list[tuple[Any, ...]]] = {}
    for (task, _), (shown, way) in walk.states.items():
        alike.setdefault((task, shown), []).append(way)
    pairs = [sorted(ways, key=len)[:2] for ways in alike.values() if len(ways) > 1]
    rng, found = np.random.default_rng([seed, PAIRS]), Twins()
    for place in rng.permutation(len(pairs)):
        one, other = pairs[place]
        try:
            same = _compare_futures(walk, one, other, rng)
        except CutShort:
            return replace(found, cut=True)
        if same is None:
            continue
        first = (one, other) if same and not found.same else (found.one, found.other)
        found = Twins(found.compared + 1, found.same + same, *first)
        if found.compared == PAIRS:
            break
    return found


def _compare_futures(
    walk: Walk, one: Sequence[Any], other: Sequence[Any], rng: np.random.Generator
) -> bool | None:
    """Whether all was the same after two ways; None if nothing valid was done there."""
    room = walk.limit - max(len(one), len(other))  # the turn at the limit is not compared
    taken, valid = list(walk.actions.values()), 0
    for _ in range(FUTURES):
        first = walk.after(one)
        if first is None:
            return None
        seen = [_show(walk, first.record)]
        while len(seen) <= room and not first.record.ended:
            listed = first.record.info.get("admissible_actions")
            if listed and rng.random() < LISTED:
                action = write_input(walk.env, listed[int(rng.integers(len(listed)))])
            else:
                action = taken[int(rng.integers(len(taken)))]
            seen.append(_take(walk, first, action, len(seen)))
            valid += bool(first.record.info.get("valid"))
        second = walk.after(other)
        if second is None or _show(walk, second.record) != seen[0]:
            return False
        for turn, action in enumerate(first.actions[len(one) - 1 :], 1):
            if second.record.ended or _take(walk, second, action, turn) != seen[turn]:
                return False
    return True if valid >= FUTURES else None


def _take(walk: Walk, play: Play, action: Any, turn: int) -> tuple[Outcome, Any, list[str]]:
    """What an action gives whose chance is that of the turn alone, and not of the anchor."""
    walk.chance.fix(str(turn), action)
    return _show(walk, play.step(action))


def _show(walk: Walk, record: Record) -> tuple[Outcome, Any, list[str]]:
    """What a turn shows: its outcome, the progress, and the listed actions in order."""
    listed = sorted(map(repr, record.info.get("admissible_actions") or ()))
    shown = walk.read_outcome(record)._replace(next_anchor=digest_of(record.observation))
    return shown, record.info.get("progress"), listed
