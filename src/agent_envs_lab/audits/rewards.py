"""audit_rewards and audit_checker: what players that ignore the task earn, and wrong judgements.

A non-solver is a script that does not read the task: it always says the same, copies the
instruction, pastes what it found, or repeats what the rules reward. Its success should be close to
that of a random player.

A checker accepts or refuses free text or code. The cases of a family are right answers in many
wordings, which it should accept, and near misses and harmful actions, which it should refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import sqrt
from statistics import NormalDist, mean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agent_envs.panels import Share, measure_share, vary_mean
from agent_envs.testing.episodes import CutShort, Record, list_inputs, panel_of, play_episode
from agent_envs_lab.audits.episodes import draw_starts, find_players, group_tasks, name_of
from agent_envs_lab.audits.evidence import SHOWN, Evidence, explain_in_time
from agent_envs_lab.audits.violations import explain, make_fresh
from agent_envs_lab.audits.watch import FirstViolation

if TYPE_CHECKING:
    from agent_envs.testing.episodes import Actions, Actor, Env

Z = NormalDist().inv_cdf(0.975)
LIMIT = 0.1
"""The success up to which a player counts as a non-solver."""
EPISODES = 20
"""Episodes of each player that the audit needs at least, or all tasks of a smaller panel."""
RANDOM = "random"
"""The player that every audit adds: it draws listed actions, or samples of the space."""


@dataclass(frozen=True)
class Earned:
    """The result of one player: its successes, and the mean return ± its 95% error."""

    success: Share
    mean: float
    error: float
    valid: float


@dataclass(frozen=True)
class RewardAudit:
    """The result of `audit_rewards`; it prints as a table.

    env, episodes, seed: the environment, the number of episodes of each player, and the seed.
    limit: the success up to which a player counts as a non-solver.
    players: the result of each player by name, including `RANDOM`.
    violation: the first turn that violates the contract, with its actions; "" for none.
    cut: whether its time was over; then `episodes` are those that every player has played, and
        players without any are left out.
    least: the fewest episodes that show anything.
    """

    env: str
    episodes: int
    seed: int
    limit: float
    players: Mapping[str, Earned]
    violation: str = ""
    cut: bool = False
    least: int = EPISODES

    @property
    def evidence(self) -> Evidence:
        """The episodes of each player."""
        return Evidence(self.episodes, "episodes of each player", self.least, self.cut)

    @property
    def verdict(self) -> str:
        """Refuted if a turn violates the contract, or a player is too good in enough episodes.

        Not shown if one is above the limit, without certainty.
        """
        good = bool(self.too_good) and self.episodes >= self.least
        above = any(earned.success.share > self.limit for earned in self.players.values())
        return self.evidence.judge(refuted=good or bool(self.violation), doubted=above)

    @property
    def too_good(self) -> list[str]:
        """Players whose success is above the limit, with 95% certainty."""
        return [name for name, earned in self.players.items() if earned.success.low > self.limit]

    @property
    def passed(self) -> bool:
        """Whether it is shown that no player that ignores the task is too good."""
        return self.verdict == SHOWN

    def __str__(self) -> str:
        width = max(map(len, ["player", *self.players]))
        lines = [
            f"rewards of {self.env}: {self.episodes} episodes of each player, seed {self.seed}",
            f"{'player':<{width}}  {'success [95%]':<24}{'mean return':<18}valid turns",
        ]
        for name, earned in self.players.items():
            note = f"   above {self.limit:.0%}" if name in self.too_good else ""
            returns = f"{earned.mean:.3f} ± {earned.error:.3f}"
            lines.append(
                f"{name:<{width}}  {earned.success!s:<24}{returns:<18}{earned.valid:.1%}{note}"
            )
        if self.violation:
            lines.append(f"not as the contract requires:\n  {self.violation}")
        return "\n".join(lines)


def audit_rewards(
    env: Env | Callable[[], Env],
    players: Mapping[str, Callable[[np.random.Generator], Actor]] | None = None,
    *,
    actions: Actions | None = None,
    tasks: int = 200,
    seed: int = 0,
    limit: float | None = None,
) -> RewardAudit:
    """Let each player play each of the tasks once.

    If `info` has the keys of the contract, each turn is checked by the rules, and the first
    violation is reported.

    Args:
        env: the environment, wrapped or not, or a function that makes it; `info` needs "success".
        players: makers of an episode's actor, by name; by default the `NON_SOLVERS` of the
            environment's own audits. A random player is added.
        actions: makes the actor of the random player, such as `say_words(words)` for text
            environments without lists of actions; by default listed actions, else samples.
        tasks: number of tasks, at most the size of the panel; without a panel, number of seeds.
        seed: seed of all random draws.
        limit: the success that no player may exceed; by default the `LIMIT` of the environment's
            audits, for a game whose answer can be guessed, else 0.1.

    Raises:
        ValueError: fewer than one task.
        KeyError: `info` has no "success".
    """
    made = env() if callable(env) else env
    module = find_players(made)
    if players is None:
        players = getattr(module, "NON_SOLVERS", {})
    if limit is None:
        limit = getattr(module, "LIMIT", LIMIT)
    begun, watching, make = draw_starts(made, tasks, seed), FirstViolation(made), make_fresh(made)
    groups = group_tasks(made, begun)
    makers = {RANDOM: None, **players}
    played: dict[str, list[list[Record]]] = {name: [] for name in makers}
    try:  # each task with every player, so that all have played if the time is over
        for (place, start), (name, make_actor) in product(enumerate(begun), makers.items()):
            rng = np.random.default_rng([seed, place])
            random = partial(actions or _random, made, rng)
            actor = random if make_actor is None else partial(make_actor, rng)
            see, play = watching(start), list[Record]()
            for record in play_episode(made, start, actor):
                see(record)
                play.append(record)
            played[name].append(play)
    except CutShort:
        pass
    fewest = min(map(len, played.values()))
    earned: dict[str, Earned] = {}
    for name, plays in ((name, plays) for name, plays in played.items() if plays):
        returns = [sum(float(record.reward) for record in play) for play in plays]
        turns = [record.info.get("valid", True) for play in plays for record in play[1:]]
        solved, own = [bool(play[-1].info["success"]) for play in plays], groups[: len(plays)]
        variance, several = vary_mean(returns, own)
        error = Z * sqrt(variance) if several > 1 else 0.0
        earned[name] = Earned(
            measure_share(solved, own), mean(returns), error, float(np.mean(turns))
        )
    seen = watching.found
    violation = "" if seen is None else explain_in_time(partial(explain, make, seen), seen)
    panel = panel_of(made)
    return RewardAudit(
        name_of(made),
        fewest,
        seed,
        limit,
        earned,
        str(violation),
        cut=fewest < len(begun),
        least=EPISODES if panel is None else min(EPISODES, len(panel)),
    )


def follow_script(actions: Sequence[Any]) -> Callable[[np.random.Generator], Actor]:
    """A player that takes these actions in order and repeats the last one."""

    def make_actor(_: np.random.Generator) -> Actor:
        rest = list(actions)
        return lambda _observation, _info: rest.pop(0) if len(rest) > 1 else rest[0]

    return make_actor


def _random(env: Env, rng: np.random.Generator) -> Actor:
    env.action_space.seed(int(rng.integers(2**31)))

    def act(_: Any, info: dict[str, Any]) -> Any:
        choices = list_inputs(env, info)
        return choices[int(rng.integers(len(choices)))] if choices else env.action_space.sample()

    return act


class Case(NamedTuple):
    """One case: its family, the text or code to judge, and whether it is right."""

    family: str
    given: Any
    right: bool


@dataclass(frozen=True)
class FamilyCounts:
    """The confusion counts of a family.

    accepted, refused: right cases that were accepted or refused.
    let_through, turned_away: wrong cases that were accepted or refused.
    """

    accepted: int
    refused: int
    let_through: int
    turned_away: int

    @property
    def precision(self) -> Share | None:
        """Share of right cases among the accepted; None if nothing was accepted."""
        return _share(self.accepted, self.accepted + self.let_through)

    @property
    def recall(self) -> Share | None:
        """Share of accepted cases among the right; None if no case is right."""
        return _share(self.accepted, self.accepted + self.refused)

    @property
    def cases(self) -> int:
        """Number of cases."""
        return self.accepted + self.refused + self.let_through + self.turned_away


@dataclass(frozen=True)
class CheckerAudit:
    """The result of `audit_checker`; it prints as a table and a list of wrongly judged cases.

    families: the counts of each family. wrong: the cases that were judged wrongly.
    """

    families: dict[str, FamilyCounts]
    wrong: tuple[Case, ...]

    def judge(self, least: float = 0.98) -> str:
        """Whether precision and recall of every family are shown to be at least `least`.

        That needs right and wrong cases of every family.
        """
        judged = self.families.values()
        shares = [share for one in judged for share in (one.precision, one.recall) if share]
        both = [
            (one.accepted + one.refused) * (one.let_through + one.turned_away) for one in judged
        ]
        cases = Evidence(min(map(bool, both)), "families with right and wrong cases", 1)
        return cases.judge(refuted=any(share.share < least for share in shares))

    def passes(self, least: float = 0.98) -> bool:
        """Whether `judge` says "shown"."""
        return self.judge(least) == SHOWN

    def __str__(self) -> str:
        width = max(map(len, [*self.families, "family"]))
        lines = [f"{'family':<{width}}{'cases':>7}  {'precision [95%]':<24}recall [95%]"]
        for family, judged in self.families.items():
            shares = [str(share or "none") for share in (judged.precision, judged.recall)]
            lines.append(f"{family:<{width}}{judged.cases:>7}  {shares[0]:<24}{shares[1]}")
        for case in self.wrong:
            told = "right, but refused" if case.right else "wrong, but accepted"
            lines.append(f"  {case.family}: {told}: {case.given!r:.200}")
        return "\n".join(lines)


def audit_checker(judge: Callable[[Any], bool], cases: Iterable[Case]) -> CheckerAudit:
    """Judge every case and count by family.

    Args:
        judge: the checker: maps a case's text or code to whether it is accepted.
        cases: the cases, at least one.

    Raises:
        ValueError: no cases.
        TypeError: the judge returns something other than True or False.
    """
    counts: dict[str, dict[tuple[bool, bool], int]] = {}
    wrong = []
    for case in cases:
        found = judge(case.given)
        if not isinstance(found, bool):
            raise TypeError(f"a judge must return a bool, got {found!r:.80} for {case!r:.200}")
        counts.setdefault(case.family, dict.fromkeys(_ORDER, 0))[case.right, found] += 1
        if found != case.right:
            wrong.append(case)
    if not counts:
        raise ValueError("no cases: give at least one of each family")
    families = {family: FamilyCounts(*(n[key] for key in _ORDER)) for family, n in counts.items()}
    return CheckerAudit(families, tuple(wrong))


_ORDER = ((True, True), (True, False), (False, True), (False, False))


def _share(count: int, total: int) -> Share | None:
    return Share(count, total) if total else None
