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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.testing.episodes import CutShort, Start, wander
from agent_envs_lab.audits.episodes import draw_starts, find_players, name_of
from agent_envs_lab.audits.evidence import SHOWN, Evidence, explain_in_time
from agent_envs_lab.audits.twins import Twins, find_twins
from agent_envs_lab.audits.violations import (
    Shown,
    explain,
    keep_generators,
    make_fresh,
    repeats_by_chance,
    shorten,
)
from agent_envs_lab.audits.walk import STOP, Walk, digest_of
from agent_envs_lab.audits.watch import FirstViolation
from agent_envs_lab.audits.witnesses import shortest_witness

if TYPE_CHECKING:
    from agent_envs.testing.episodes import Actions, Actor, Env, Record
    from agent_envs_lab.audits.walk import Group, Key
    from agent_envs_lab.audits.witnesses import Witness

LEAST = 2  # episodes that a comparison needs
PAIRS = 20
"""Revisited pairs that the audit needs at least."""


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
    twins: pairs of anchors after which all was the same: a sign of too fine anchors, no fault.
    unrepeatable: number of resets and turns that differed when they were repeated.
    unrepeated: the steps that show the first of these.
    violation: the first turn that violates the contract, with its actions; "" for none, and if
        `info` at the reset lacks keys of the contract.
    cut: whether its time was over before all episodes were played, see `testing.episodes.Budget`.
    """

    env: str
    tasks: int
    episodes: int
    turns: int
    seed: int
    anchor: Comparison | None
    observation: Comparison
    witness: Witness | None = None
    twins: Twins = field(default_factory=Twins)
    unrepeatable: int = 0
    unrepeated: str = ""
    violation: str = ""
    cut: bool = False

    @property
    def evidence(self) -> Evidence:
        """The revisited pairs, which alone can show that an anchor lacks something."""
        pairs = self.anchor.revisited if self.anchor is not None else 0
        return Evidence(pairs, "revisited pairs", PAIRS, self.cut)

    @property
    def verdict(self) -> str:
        """Refuted if anchors are missing or diverge, a rule is violated, or turns do not repeat."""
        diverging = self.anchor.diverging > 0 if self.anchor else self.episodes > 0
        return self.evidence.judge(
            refuted=diverging or self.unrepeatable > 0 or bool(self.violation)
        )

    @property
    def passed(self) -> bool:
        """Whether it is shown that anchors are keys of the decision state."""
        return self.verdict == SHOWN

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
        if self.twins.compared or self.twins.cut:
            lines.append(str(self.twins))
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
    checked by the rules, and the first violation is reported.

    Args:
        env: the environment, wrapped or not, or a function that makes it.
        actions: makes the actor of an episode; by default that of the environment's own audits
            (`AgentEnv.audits`), else `testing.wander`.
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
        actions = getattr(find_players(made), "actions", wander)
    watching = FirstViolation(made)
    make = make_fresh(made)
    with keep_generators():
        walk = Walk(made, anchor or _read_anchor, watch or watching)
        begun, cut = draw_starts(made, tasks, seed), False
        try:
            for place, start in enumerate(begun):
                rng = np.random.default_rng([seed, place])
                played = _play_variants(walk, start, partial(actions, made, rng), rng, episodes)
                for number in range(1, seeds if start.task is not None else 1):
                    again = Start(start.seed + number * SEED_STEP, start.task)
                    walk.play(again, _script(played[number % len(played)]))
        except CutShort:
            cut = True
        found = replace(_summarize(walk, len(begun), seed), cut=cut)
        if not cut:
            twins = explain_in_time(partial(find_twins, walk, seed), Twins(cut=True))
            found = replace(found, twins=twins)
        if walk.unrepeated:
            unrepeated = Shown(
                "the same seed and actions give a different turn",
                walk.unrepeated,
                repeats_by_chance,
            )
            shorter = explain_in_time(partial(shorten, make, unrepeated), None) or unrepeated
            found = replace(found, unrepeated=str(shorter))
        if watching.found is not None:
            seen = watching.found
            found = replace(
                found, violation=str(explain_in_time(partial(explain, make, seen), seen))
            )
        return found


SEED_STEP = 1_000  # between the seeds of one task


def _play_variants(
    walk: Walk,
    start: Start,
    make_actor: Callable[[], Actor],
    rng: np.random.Generator,
    episodes: int,
) -> list[list[Any]]:
    """Play episodes, every second one as a variant of an earlier; the actions of the others."""
    played: list[list[Any]] = []
    for number in range(episodes):
        if number % 2:
            walk.play(start, _script(_vary(played, walk.odd, rng)))
        else:
            played.append(walk.play(start, make_actor))
    return played


def _read_anchor(_: Any, info: dict[str, Any]) -> str | None:
    return info.get("anchor")


def _script(actions: Sequence[Any]) -> Callable[[], Actor]:
    """Makes an actor that takes these actions and leaves."""

    def make_actor() -> Actor:
        rest = iter(actions)
        return lambda _observation, _info: next(rest, STOP)

    return make_actor


def _vary(played: Sequence[list[Any]], odd: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    """An earlier episode with one to three changes."""

    def draw(items: Sequence[Any]) -> Any:
        return items[int(rng.integers(len(items)))]

    actions = list(draw(played))
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
                actions.insert(place, draw(odd))
            case _:
                other = draw(played)
                actions[place:] = other[int(rng.integers(len(other) + 1)) :]
    return actions


def _summarize(walk: Walk, tasks: int, seed: int) -> AnchorAudit:
    judged = _comparison(walk.groups) if walk.anchored else None
    judged_by = walk.anchor if walk.anchored else _text
    groups = walk.groups if walk.anchored else walk.shown
    diverging = [(key, group) for key, group in groups.items() if len(group.ways) > 1]
    return AnchorAudit(
        env=name_of(walk.env),
        tasks=tasks,
        episodes=walk.episodes,
        turns=walk.turns,
        seed=seed,
        anchor=judged,
        observation=_comparison(walk.shown),
        witness=shortest_witness(walk, diverging, judged_by) if diverging else None,
        unrepeatable=walk.unrepeatable,
    )


def _comparison(groups: dict[Key, Group]) -> Comparison:
    revisited = [group for group in groups.values() if len(group.histories) > 1]
    return Comparison(
        anchors=len({key[:2] for key in groups}),
        revisited=len(revisited),
        diverging=sum(len(group.ways) > 1 for group in revisited),
    )


def _text(record: Record) -> str:
    shown = record.observation
    return shown if isinstance(shown, str) else digest_of(shown)
