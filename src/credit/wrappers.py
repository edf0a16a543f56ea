"""Reward wrappers for Gymnasium environments that keep the info contract.

Each adds one term to the reward and reports it under `info["reward_terms"][name]`, so that the sum
can be audited; an environment may tell parts of its own score there too. They stack in any order;
`TurnVerifier` belongs outside of a parser only if it is to read whole replies. Comparing
trajectories of a group needs the batch: that is the estimators' work.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from credit import verifiers
from credit.choices import LARGEST, count, finite, nonnegative, within


class _Term(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds `term(action, observation, info)` to the reward of each step under its `name`."""

    name: str
    reads: tuple[str, ...] = ()

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode; no term is paid."""
        observation, info = self.env.reset(**options)
        for key in self.reads:
            if key not in info:
                raise KeyError(
                    f"{type(self).__name__} reads info[{key!r}] at every reset and step, which "
                    f"{self.unwrapped} does not return; agent_envs.testing.check_agent_env checks "
                    f"what an environment has to return"
                )
        self.start(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Do one action and add the term."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        told = dict(info)
        term = self.term(action, observation, told)
        others = info.get("reward_terms", {})
        told["reward_terms"] = {**others, self.name: others.get(self.name, 0.0) + term}
        return observation, float(reward) + term, terminated, truncated, told

    def start(self, info: dict[str, Any]) -> None:
        """Forget the last episode."""

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """What this turn is paid; `info` is this wrapper's own copy."""
        raise NotImplementedError


class InvalidPenalty(_Term):
    """Adds `penalty` to the reward of an invalid turn (STAPO App. E, iStar App. C: -0.1).

    Raises:
        ValueError: a positive penalty.
    """

    name = "invalid_penalty"
    reads = ("valid",)

    def __init__(self, env: gym.Env[Any, Any], penalty: float = -0.1) -> None:
        within("penalty", penalty, -LARGEST, 0, "it is added to the reward")
        RecordConstructorArgs.__init__(self, penalty=penalty)
        super().__init__(env)
        self.penalty = penalty

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """The penalty if the turn was invalid."""
        return 0.0 if info["valid"] else self.penalty


class RepetitionPenalty(_Term):
    """Adds -α (N - q) when a valid action occurs for the N-th time, N > q (MGR Eq. 4).

    Actions are compared by `info["action"]` where a parser gives it, else by the action itself.

    Args:
        env: an environment that keeps the info contract.
        alpha: α ≥ 0.
        q: occurrences of an action that are free.
    """

    name = "repetition_penalty"
    reads = ("valid",)

    def __init__(self, env: gym.Env[Any, Any], *, alpha: float = 0.5, q: int = 2) -> None:
        nonnegative("alpha", alpha, "it is subtracted")
        count("q", q, "it counts occurrences")
        RecordConstructorArgs.__init__(self, alpha=alpha, q=q)
        super().__init__(env)
        self.alpha, self.q = alpha, q
        self._seen: Counter[str] = Counter()

    def start(self, info: dict[str, Any]) -> None:
        """Forget the last episode."""
        self._seen = Counter()

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """The penalty of a repetition."""
        return _repetition(self._seen, action, info, self.alpha, self.q)


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
    reads = ("valid",)

    def __init__(
        self,
        env: gym.Env[Any, Any],
        beta: float = 0.1,
        alpha: float = 0.5,
        q: int = 2,
        *,
        scale: float = 1.0,
    ) -> None:
        for name, value in (("beta", beta), ("alpha", alpha), ("scale", scale)):
            nonnegative(name, value, "it is a weight")
        count("q", q, "it counts occurrences")
        RecordConstructorArgs.__init__(self, beta=beta, alpha=alpha, q=q, scale=scale)
        super().__init__(env)
        self.beta, self.alpha, self.q, self.scale = beta, alpha, q, scale
        self._before = 0
        self._seen: Counter[str] = Counter()

    def start(self, info: dict[str, Any]) -> None:
        """Forget the last episode."""
        self._before = 0
        self._seen = Counter()

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """R_local of the turn."""
        sign = 1 if info["valid"] else -1
        turned = self._before == -sign
        self._before = sign
        repeated = _repetition(self._seen, action, info, self.alpha, self.q)
        return self.scale * (sign + self.beta * sign * turned + repeated)


class ProgressReward(_Term):
    """Adds scale (γ Φ' - Φ), Φ being `info["progress"]` before and after the turn.

    Potential-based (Ng et al., 1999): with γ the discount of the training it leaves the best policy
    what it was, as far as episodes end at one potential.
    """

    name = "progress_reward"
    reads = ("progress",)

    def __init__(self, env: gym.Env[Any, Any], scale: float = 1.0, gamma: float = 1.0) -> None:
        nonnegative("scale", scale, "it weighs progress")
        within("gamma", gamma, 0, 1, "it discounts the next potential")
        RecordConstructorArgs.__init__(self, scale=scale, gamma=gamma)
        super().__init__(env)
        self.scale, self.gamma = scale, gamma
        self._progress = 0.0

    def start(self, info: dict[str, Any]) -> None:
        """Take the progress that the reset tells."""
        self._progress = self._told(info)

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """Growth of the potential."""
        before, self._progress = self._progress, self._told(info)
        return self.scale * (self.gamma * self._progress - before)

    @staticmethod
    def _told(info: dict[str, Any]) -> float:
        progress = float(info["progress"])
        within("info['progress']", progress, 0, 1, "it is a share of the task")
        return progress


class TurnVerifier(_Term):
    """Adds the weighted sum of verifiers, which `info["turn_reward"]` also tells one by one.

    Args:
        env: an environment; most verifiers read `info["answers"]`, its accepted answers.
        weights: weight of each verifier by its name in `verifiers.VERIFIERS`, or by
            "package.module:function" for your own; by default the paper's six.

    Raises:
        ValueError: an unknown verifier, or later one that returns no finite number.
    """

    name = "turn_verifier"

    def __init__(self, env: gym.Env[Any, Any], weights: Mapping[str, float] | None = None) -> None:
        chosen = dict(verifiers.PAPER if weights is None else weights)
        for name, weight in chosen.items():
            finite(f"the weight of {name}", weight)
        self._verifiers = {name: verifiers.named(name) for name in chosen}
        RecordConstructorArgs.__init__(self, weights=chosen)
        super().__init__(env)
        self.weights = chosen

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """The weighted sum of the verifiers."""
        turn = verifiers.Exchange(str(action), str(observation), info)
        paid = {}
        for name, weight in self.weights.items():
            paid[name] = weight * float(finite(f"verifier {name}", self._verifiers[name](turn)))
        info["turn_reward"] = {**info.get("turn_reward", {}), **paid}
        return sum(paid.values())


def _repetition(
    seen: Counter[str], action: Any, info: dict[str, Any], alpha: float, q: int
) -> float:
    """MGR's h_repeat of the turn; counts the action."""
    if not info["valid"]:
        return 0.0
    done = str(info.get("action", action))
    seen[done] += 1
    return -alpha * max(seen[done] - q, 0)
