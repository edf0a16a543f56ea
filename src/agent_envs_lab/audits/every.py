"""audit: all audits of one environment, for the command `agent-envs audit` and for scripts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from agent_envs.contract import INFO_KEYS
from agent_envs.signals import Signals
from agent_envs.testing.episodes import CutShort, Play, wander
from agent_envs_lab.audits.anchors import audit_anchors
from agent_envs_lab.audits.contract import check_contract
from agent_envs_lab.audits.episodes import draw_starts, name_of
from agent_envs_lab.audits.evidence import NOT_SHOWN, REFUTED, SHOWN, Deadline, Evidence
from agent_envs_lab.audits.overlap import SAMPLE, count_shared_starts, find_copies
from agent_envs_lab.audits.rewards import audit_rewards

if TYPE_CHECKING:
    from agent_envs.testing.episodes import Actions, Env
    from agent_envs_lab.audits.anchors import AnchorAudit
    from agent_envs_lab.audits.rewards import RewardAudit

_Result = TypeVar("_Result")
_OVERLAP = 0.05  # of the time, for each of two
TURNS = 100
"""Turns that the check of the contract needs at least."""


@dataclass(frozen=True)
class Audit:
    """The results of all audits of one environment; it prints as their tables.

    missing: keys of the contract that `info` lacks.
    violation: the first violation of the contract, with the actions that show it; "" for none.
    contract: the turns in which the contract was checked.
    anchors: see `audit_anchors`; None if the environment raised an error in it.
    rewards: see `audit_rewards`; None also where `info` has no "success".
    overlap: how many test tasks are training tasks; "" for a world whose tasks are no seeds.
    copies: how many tasks of the panel begin as an earlier one; "" for fewer than two tasks.
    """

    env: str
    missing: tuple[str, ...]
    violation: str
    contract: Evidence
    anchors: AnchorAudit | None
    rewards: RewardAudit | None
    overlap: str = ""
    copies: str = ""

    @property
    def verdicts(self) -> dict[str, str]:
        """What is shown, refuted or not shown: the contract, the anchors and the rewards."""
        return {
            "contract": self.contract.judge(refuted=bool(self.violation)),
            "anchors": NOT_SHOWN if self.anchors is None else self.anchors.verdict,
            "rewards": NOT_SHOWN if self.rewards is None else self.rewards.verdict,
        }

    @property
    def verdict(self) -> str:
        """The worst of them: refuted, else not shown, else shown."""
        found = set(self.verdicts.values())
        return next(one for one in (REFUTED, NOT_SHOWN, SHOWN) if one in found)

    @property
    def passed(self) -> bool:
        """Whether all is shown."""
        return self.verdict == SHOWN

    def json(self) -> dict[str, Any]:
        """All results as plain values."""
        values = asdict(self) | {"passed": self.passed, "verdicts": self.verdicts}
        for kind in ("anchor", "observation"):
            row = getattr(self.anchors, kind, None)
            if row is not None:
                values["anchors"][kind]["share"] = row.share
        if self.rewards is not None:
            for name, earned in self.rewards.players.items():
                share = earned.success
                values["rewards"]["players"][name]["success"] |= {
                    "share": share.share,
                    "low": share.low,
                    "high": share.high,
                }
        return values

    def __str__(self) -> str:
        lines = [f"contract of {self.env}"]
        if self.missing:
            lines.append(f"info lacks {', '.join(self.missing)}")
        lines.append(f"first violation:\n  {self.violation}" if self.violation else "kept")
        lines += filter(None, (self.overlap, self.copies))
        tables = self.anchors, self.rewards
        lines += (f"\n{table}" for table in tables if table is not None)
        evidence = self.contract, *(getattr(table, "evidence", "nothing") for table in tables)
        judged = zip(self.verdicts.items(), evidence, strict=True)
        lines += ["", *(f"{name}: {said} ({of})" for (name, said), of in judged)]
        return "\n".join(lines)


def audit(
    env: Env | Callable[[], Env],
    *,
    actions: Actions | None = None,
    tasks: int = 10,
    episodes: int = 40,
    players: int = 100,
    limit: float | None = None,
    seed: int = 0,
    seconds: float = 300,
    tell: Callable[[str], object] = str,
) -> Audit:
    """Check the contract, then audit anchors and rewards.

    Args:
        env: the environment, wrapped or not, or a function that makes it.
        actions: as in `audit_anchors`, `check_contract` and `audit_rewards`; use `say_words(words)`
            for text environments without lists of actions.
        tasks: number of tasks for the audit of anchors.
        episodes: number of episodes of each task.
        players: number of tasks for each player in the audit of rewards.
        limit: as in `audit_rewards`.
        seed: seed of all random draws.
        seconds: time of all audits together; one that is cut short shows nothing. Beyond it,
            examples of violations are shortened for at most `evidence.EXPLAINING` seconds each.
        tell: is told what begins.
    """
    until = time.monotonic() + seconds

    def begin(name: str, left: int) -> Deadline:
        budget = (until - time.monotonic()) / left
        tell(f"{name}, up to {budget:.0f} s")
        return Deadline(budget)

    made = env() if callable(env) else env
    errors, cut = list[str](), False

    def attempt(do: Callable[[], _Result]) -> _Result | None:
        try:
            return do()
        except CutShort:
            return None
        except Exception as error:
            if not hasattr(error, "steps"):  # not of the environment
                raise
            errors.append(_quote_error(error))
            return None

    with Deadline(seconds * _OVERLAP):
        overlap = attempt(lambda: _describe_overlap(made, seconds * _OVERLAP))
    with Deadline(seconds * _OVERLAP):
        copies = attempt(lambda: _describe_copies(made))
    with Deadline(max(seconds, 1.0)):  # one turn, also if there is no time for more
        (start,) = draw_starts(made, 1, seed)
        info = attempt(lambda: Play(made, start).record.info)
    missing = tuple(key for key in INFO_KEYS if info is not None and key not in info)
    given: dict[str, Any] = {"actions": actions, "seed": seed}
    with begin("anchors", 3):
        anchors = attempt(lambda: audit_anchors(made, tasks=tasks, episodes=episodes, **given))
    with begin("contract", 2) as played:
        try:
            check_contract(made, actions=actions or wander)
        except CutShort:
            cut = True
        except Exception as error:  # noqa: BLE001  any error of an environment is a violation
            errors.insert(0, _quote_error(error))
    rewards = None
    if "success" in (info or ()):
        with begin("rewards", 1):
            rewards = attempt(lambda: audit_rewards(made, tasks=players, limit=limit, **given))
    errors += (one.violation for one in (anchors, rewards) if one is not None and one.violation)
    contract = Evidence(played.turns, "turns", TURNS, cut)
    violation = [*errors, ""][0]
    return Audit(
        name_of(made), missing, violation, contract, anchors, rewards, overlap or "", copies or ""
    )


def _describe_overlap(env: Env, seconds: float) -> str:
    """How many test tasks of a world whose tasks are seeds are training tasks, in one line."""
    if not isinstance(env.unwrapped, Signals):
        return ""
    shared, seen = count_shared_starts(env.unwrapped, seconds=seconds)
    return f"{shared} of the first {SAMPLE} test tasks start as one of {seen:,} training tasks does"


def _describe_copies(env: Env) -> str:
    """How many tasks of the panel are copies of others, in one line."""
    seen, pairs = find_copies(env)
    example = f", {pairs[0][1]} as {pairs[0][0]}" if pairs else ""
    return f"{len(pairs)} of {seen:,} tasks begin as an earlier one{example}" if seen > 1 else ""


def _quote_error(error: Exception) -> str:
    """An error of an environment, with the actions that led to it."""
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    return "\n".join([f"{kind}{error}", *getattr(error, "__notes__", [])])
