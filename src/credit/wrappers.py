"""Reward wrappers for Gymnasium environments that keep the info contract.

Each adds one term to the reward and reports it under `info["reward_terms"][name]`, so that the sum
can be audited; they stack in any order. They read `info` only, never the observation.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs


class _Term(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds `term(action, info)` to the reward of each step under the wrapper's `name`."""

    name: str

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode; no term is paid."""
        observation, info = self.env.reset(**options)
        self.start(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action and add the term."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        term = self.term(action, info)
        info = {**info, "reward_terms": {**info.get("reward_terms", {}), self.name: term}}
        return observation, float(reward) + term, terminated, truncated, info

    def start(self, info: dict[str, Any]) -> None:
        """Forget the last episode."""

    def term(self, action: Any, info: dict[str, Any]) -> float:
        """What this turn is paid."""
        raise NotImplementedError


class InvalidPenalty(_Term):
    """Adds `penalty` to the reward of an invalid turn (STAPO App. E, GiGPO: -0.1).

    Raises:
        ValueError: a positive penalty.
    """

    name = "invalid_penalty"

    def __init__(self, env: gym.Env[Any, Any], penalty: float = -0.1) -> None:
        if penalty > 0:
            raise ValueError(f"penalty is added to the reward and must be at most 0, got {penalty}")
        RecordConstructorArgs.__init__(self, penalty=penalty)
        super().__init__(env)
        self.penalty = penalty

    def term(self, action: Any, info: dict[str, Any]) -> float:
        """The penalty if the turn was invalid."""
        return 0.0 if info["valid"] else self.penalty


class ValiditySignal(_Term):
    """Adds MGR's R_local of the turn, online (Eq. 3-5): ±1, recovery and relapse, repetitions.

    Actions are compared by `info["action"]` where a parser gives it, else by the action itself.

    Args:
        env: an environment that keeps the info contract.
        beta: bonus for a valid turn after an invalid one, penalty the other way round.
        alpha: penalty of each repetition of a valid action beyond the first `q`.
        q: occurrences of an action that are free.
        scale: weight of the term in the reward.
    """

    name = "validity_signal"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        beta: float = 0.1,
        alpha: float = 0.5,
        q: int = 2,
        scale: float = 1.0,
    ) -> None:
        RecordConstructorArgs.__init__(self, beta=beta, alpha=alpha, q=q, scale=scale)
        super().__init__(env)
        self.beta, self.alpha, self.q, self.scale = beta, alpha, q, scale
        self.start({})

    def start(self, info: dict[str, Any]) -> None:
        """Forget the last episode."""
        self._before = 0
        self._seen: Counter[str] = Counter()

    def term(self, action: Any, info: dict[str, Any]) -> float:
        """R_local of the turn."""
        sign = 1 if info["valid"] else -1
        turned = self._before == -sign
        self._before = sign
        local = sign + self.beta * sign * turned
        if info["valid"]:
            done = str(info.get("action", action))
            self._seen[done] += 1
            local -= self.alpha * max(self._seen[done] - self.q, 0)
        return self.scale * local
