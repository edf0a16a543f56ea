"""audit: all audits of one environment, for the command `agent-envs audit` and for scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agent_envs.contract import INFO_KEYS
from agent_envs.testing.episodes import Play, wander
from agent_envs_lab.audits.anchors import audit_anchors
from agent_envs_lab.audits.contract import check_contract
from agent_envs_lab.audits.episodes import draw_starts, name_of
from agent_envs_lab.audits.rewards import audit_rewards

if TYPE_CHECKING:
    from agent_envs.testing.episodes import Actions, Env
    from agent_envs_lab.audits.anchors import AnchorAudit
    from agent_envs_lab.audits.rewards import RewardAudit


@dataclass(frozen=True)
class Audit:
    """The results of all audits of one environment; it prints as their tables.

    missing: keys of the contract that `info` lacks.
    violation: the first violation of the contract, with the actions that show it; "" for none.
    anchors: see `audit_anchors`.
    rewards: see `audit_rewards`; None where `info` has no "success".
    """

    env: str
    missing: tuple[str, ...]
    violation: str
    anchors: AnchorAudit
    rewards: RewardAudit | None

    @property
    def passed(self) -> bool:
        """Whether all of them passed."""
        rewards = self.rewards is not None and self.rewards.passed
        return not self.violation and self.anchors.passed and rewards

    def json(self) -> dict[str, Any]:
        """All results as plain values."""
        values = asdict(self) | {"passed": self.passed}
        for kind in ("anchor", "observation"):
            row = getattr(self.anchors, kind)
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
        lines += ["", str(self.anchors), ""]
        lines.append(
            "rewards: info has no 'success'" if self.rewards is None else str(self.rewards)
        )
        return "\n".join(lines)


def audit(
    env: Env | Callable[[], Env],
    *,
    actions: Actions | None = None,
    tasks: int = 10,
    episodes: int = 40,
    players: int = 100,
    seed: int = 0,
) -> Audit:
    """Check the contract, then audit anchors and rewards.

    Args:
        env: the environment, wrapped or not, or a function that makes it.
        actions: as in `audit_anchors`, `check_contract` and `audit_rewards`; use `say_words(words)`
            for text environments without lists of actions.
        tasks: number of tasks for the audit of anchors.
        episodes: number of episodes of each task.
        players: number of tasks for each player in the audit of rewards.
        seed: seed of all random draws.
    """
    made = env() if callable(env) else env
    (start,) = draw_starts(made, 1, seed)
    info = Play(made, start).record.info
    missing = tuple(key for key in INFO_KEYS if key not in info)
    rewards = None
    if "success" in info:
        rewards = audit_rewards(made, actions=actions, tasks=players, seed=seed)
    anchors = audit_anchors(made, actions=actions, tasks=tasks, episodes=episodes, seed=seed)
    seen = anchors.violation or (rewards.violation if rewards is not None else "")
    return Audit(name_of(made), missing, find_violation(made, actions) or seen, anchors, rewards)


def find_violation(env: Env, actions: Actions | None = None) -> str:
    """The first violation of the contract as text, "" for none."""
    try:
        check_contract(env, actions=actions or wander)
    except Exception as error:  # noqa: BLE001  any error of an environment is a violation
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return "\n".join([f"{kind}{error}", *getattr(error, "__notes__", [])])
    return ""
