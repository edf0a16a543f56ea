"""Reward wrappers for Gymnasium environments that follow the info contract, and verifiers of turns.

Each wrapper adds one term to the reward and reports it under `info["reward_terms"][name]`, so that
the sum can be audited. An environment may report the terms of its own reward there too. Wrappers
can be stacked in any order. Put `TurnVerifier` outside a parser if it has to read whole replies.
Methods that compare the trajectories of a group need a batch and are estimators instead.

A verifier is a rule-based score of one turn: a function from an `Exchange` to a number in [0, 1].
The six of MT-GRPO §3.2 are here. They read the accepted answers from `info["answers"]`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from credit.estimators import find_misfit, import_object
from credit.validation import (
    LARGEST,
    as_finite,
    check_count,
    check_known,
    check_range,
    clip_rounding,
)

TAGS = ("reasoning", "tool", "answer")
PAPER_WEIGHTS = {
    "tool_execution": 0.2,
    "result_has_answer": 0.5,
    "answer_contains": 0.5,
    "exact": 1.0,
    "xml_format": 0.2,
    "xml_usage": 0.2,
}


class Exchange(NamedTuple):
    """One turn as a verifier reads it.

    Attributes:
        reply: The agent's whole text, with its thinking and tags.
        observation: Text that the environment returned.
        info: Info that the environment returned.
    """

    reply: str
    observation: str
    info: Mapping[str, Any]

    @property
    def action(self) -> str:
        """The action that a parser found in the reply, else the whole reply."""
        return str(self.info.get("action", self.reply))


Verifier: TypeAlias = Callable[[Exchange], float]


def tag_content(tag: str, text: str) -> str | None:
    """Content of the first <tag>…</tag>, stripped of spaces; None if there is no such tag."""
    found = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return found[1].strip() if found else None


def tool_execution(turn: Exchange) -> float:
    """1 if the reply has a <tool> tag and the tool's result does not start with "Error:"."""
    called = tag_content("tool", turn.reply) is not None
    result = tag_content("result", turn.observation)
    answer = turn.observation.strip() if result is None else result
    return float(called and not answer.startswith("Error:"))


def result_has_answer(turn: Exchange) -> float:
    """1 if an accepted answer occurs in the tool's result; case is ignored."""
    result = tag_content("result", turn.observation)
    return float(result is not None and _has_answer(result, turn.info))


def answer_contains(turn: Exchange) -> float:
    """1 if an accepted answer occurs in the agent's answer; case is ignored."""
    answer = tag_content("answer", turn.reply)
    return float(answer is not None and _has_answer(answer, turn.info))


def exact(turn: Exchange) -> float:
    """1 if the agent's answer equals an accepted answer; case and outer spaces are ignored."""
    answer = tag_content("answer", turn.reply)
    return float(answer is not None and answer.lower() in _accepted_answers(turn.info))


def xml_format(turn: Exchange) -> float:
    """Score of the reply's format, in [0, 1].

    0.4 if there is a complete tag, 0.2 if no content starts or ends with a space, 0.2 if the reply
    starts with <reasoning>, 0.2 if it ends with </tool> or </answer>. Without a complete tag the
    first two are 0.
    """
    text = turn.reply.strip()
    fields = [re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in TAGS]
    contents = [content for found in fields for content in found]
    tight = bool(contents) and all(content == content.strip() for content in contents)
    ends = text.endswith(("</tool>", "</answer>"))
    return 0.4 * bool(contents) + 0.2 * tight + 0.2 * text.startswith("<reasoning>") + 0.2 * ends


def xml_usage(turn: Exchange) -> float:
    """Of the tags that occur, the share that opens once and closes once; 0 if none occurs."""
    counts = [(turn.reply.count(f"<{tag}>"), turn.reply.count(f"</{tag}>")) for tag in TAGS]
    occurring = [count for count in counts if any(count)]
    return sum(count == (1, 1) for count in occurring) / max(len(occurring), 1)


VERIFIERS: dict[str, Verifier] = {
    "tool_execution": tool_execution,
    "result_has_answer": result_has_answer,
    "answer_contains": answer_contains,
    "exact": exact,
    "xml_format": xml_format,
    "xml_usage": xml_usage,
}


def find_verifier(name: str) -> Verifier:
    """Find a verifier by its name, or a user's own by "package.module:function".

    Raises:
        ValueError: The name is unknown, or the module does not have such a function.
    """
    if ":" in name:
        verifier: Verifier = import_object("verifier", name)
        if why := find_misfit(verifier, 1):
            raise ValueError(f"verifier {name} must take one argument, the turn: {why}")
        return verifier
    check_known("unknown verifier", [name], VERIFIERS, "give your own as package.module:function")
    return VERIFIERS[name]


def score_turn(name: str, verifier: Verifier, turn: Exchange) -> float:
    """The number that a verifier gives a turn.

    A number outside [0, 1] by at most 1e-6 is set to the end of the range.

    Raises:
        ValueError: The number is not in [0, 1]; the message names the verifier.
    """
    share = float(clip_rounding(float(verifier(turn)), 0, 1))
    check_range(f"verifier {name}", share, 0, 1, "its size and sign belong in its weight")
    return share


def _accepted_answers(info: Mapping[str, Any]) -> list[str]:
    if "answers" not in info:
        raise ValueError(f"the accepted answers must be in info['answers'], got {sorted(info)}")
    return [answer.lower().strip() for answer in info["answers"] if answer.strip()]


def _has_answer(text: str, info: Mapping[str, Any]) -> bool:
    return any(answer in text.lower() for answer in _accepted_answers(info))


class _RewardTerm(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds `term(action, observation, info)` to the reward of each step, under its `name`."""

    name: str
    required_info: tuple[str, ...] = ()

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the reset has no term."""
        observation, info = self.env.reset(**options)
        if missing := set(self.required_info) - set(info):
            remedy = "agent_envs.testing.check_agent_env checks what an environment must return"
            raise KeyError(f"{self.name} reads info[{min(missing)!r}], which is absent; {remedy}")
        self.start_episode(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step and add the term to its reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        own = dict(info)
        term = self.term(action, observation, own)
        others = info.get("reward_terms", {})
        own["reward_terms"] = {**others, self.name: others.get(self.name, 0.0) + term}
        return observation, float(reward) + term, terminated, truncated, own

    def start_episode(self, info: dict[str, Any]) -> None:
        """Forget the previous episode."""

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """Term of this turn; `info` is this wrapper's own copy."""
        raise NotImplementedError


class InvalidPenalty(_RewardTerm):
    """Penalty of an invalid turn.

    term = penalty if the turn is invalid, else 0

    Source: STAPO App. E, iStar App. C (-0.1).

    Args:
        env: Environment that follows the info contract.
        penalty: Penalty, at most 0.

    Raises:
        ValueError: `penalty` is positive.
    """

    name = "invalid_penalty"
    required_info = ("valid",)

    def __init__(self, env: gym.Env[Any, Any], penalty: float = -0.1) -> None:
        check_range("penalty", penalty, -LARGEST, 0, "it is added to the reward")
        RecordConstructorArgs.__init__(self, penalty=penalty)
        super().__init__(env)
        self.penalty = penalty

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """The penalty if the turn is invalid, else 0."""
        return 0.0 if info["valid"] else self.penalty


class RepetitionPenalty(_RewardTerm):
    """Penalty of repeated valid actions.

    term = -α (N - q) when a valid action occurs for the N-th time in the episode and N > q, else 0

    Actions are compared by `info["action"]` if a parser reports it, else by the action itself.

    Source: MGR Eq. 4.

    Args:
        env: Environment that follows the info contract.
        alpha: α ≥ 0.
        q: Number of times that an action may occur without penalty.

    Raises:
        ValueError: An option is negative.
    """

    name = "repetition_penalty"
    required_info = ("valid",)

    def __init__(self, env: gym.Env[Any, Any], *, alpha: float = 0.5, q: int = 2) -> None:
        check_range("alpha", alpha, 0, LARGEST, "it is subtracted")
        check_count("q", q, "it counts occurrences")
        RecordConstructorArgs.__init__(self, alpha=alpha, q=q)
        super().__init__(env)
        self.alpha, self.q = alpha, q
        self._seen: Counter[str] = Counter()

    def start_episode(self, info: dict[str, Any]) -> None:
        """Forget the previous episode."""
        self._seen = Counter()

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """Penalty of this turn's action."""
        return _repetition(self._seen, action, info, self.alpha, self.q)


class ValiditySignal(_RewardTerm):
    """MGR's R_local of the turn, computed online; see `mgr.MGR.local_reward`.

    term = scale (v + h_temporal + h_repeat)

    Actions are compared by `info["action"]` if a parser reports it, else by the action itself.

    Source: MGR Eq. 3-5.

    Args:
        env: Environment that follows the info contract.
        beta: β ≥ 0, bonus of a valid turn after an invalid one, and penalty of the reverse.
        alpha: α ≥ 0, penalty of each repetition of a valid action beyond `q`.
        q: Number of times that an action may occur without penalty.
        scale: Weight of the term in the reward, at least 0.

    Raises:
        ValueError: An option is negative.
    """

    name = "validity_signal"
    required_info = ("valid",)

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
            check_range(name, value, 0, LARGEST, "it is a weight")
        check_count("q", q, "it counts occurrences")
        RecordConstructorArgs.__init__(self, beta=beta, alpha=alpha, q=q, scale=scale)
        super().__init__(env)
        self.beta, self.alpha, self.q, self.scale = beta, alpha, q, scale
        self._before = 0
        self._seen: Counter[str] = Counter()

    def start_episode(self, info: dict[str, Any]) -> None:
        """Forget the previous episode."""
        self._before = 0
        self._seen = Counter()

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """R_local of this turn, times `scale`."""
        sign = 1 if info["valid"] else -1
        changed = self._before == -sign
        self._before = sign
        repeated = _repetition(self._seen, action, info, self.alpha, self.q)
        return self.scale * (sign + self.beta * sign * changed + repeated)


class ProgressReward(_RewardTerm):
    """Potential-based reward for progress.

    term = scale (γ Φ' - Φ), with Φ and Φ' = `info["progress"]` before and after the turn

    If γ is the discount of the training and all episodes end at the same potential, the optimal
    policy does not change.

    Source: Ng et al., 1999.

    Args:
        env: Environment that follows the info contract.
        scale: Weight of the term in the reward, at least 0.
        gamma: Discount γ in [0, 1].

    Raises:
        ValueError: An option out of range, or later a progress outside [0, 1] by more than 1e-6.
    """

    name = "progress_reward"
    required_info = ("progress",)

    def __init__(self, env: gym.Env[Any, Any], scale: float = 1.0, gamma: float = 1.0) -> None:
        check_range("scale", scale, 0, LARGEST, "it weights progress")
        check_range("gamma", gamma, 0, 1, "it discounts the next potential")
        RecordConstructorArgs.__init__(self, scale=scale, gamma=gamma)
        super().__init__(env)
        self.scale, self.gamma = scale, gamma
        self._progress = 0.0

    def start_episode(self, info: dict[str, Any]) -> None:
        """Read the progress at the reset."""
        self._progress = self._read_progress(info)

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """Change of the potential, times `scale`."""
        before, self._progress = self._progress, self._read_progress(info)
        return self.scale * (self.gamma * self._progress - before)

    @staticmethod
    def _read_progress(info: dict[str, Any]) -> float:
        progress = float(clip_rounding(float(info["progress"]), 0, 1))
        check_range("info['progress']", progress, 0, 1, "it is a share of the task")
        return progress


class TurnVerifier(_RewardTerm):
    """Weighted sum of verifiers, reported one by one in `info["turn_reward"]`.

    term = Σ_v weight_v verifier_v(turn)

    Source: MT-GRPO §3.2.

    Args:
        env: Environment. Most verifiers read its accepted answers from `info["answers"]`.
        weights: Weight of each verifier, by its name in `VERIFIERS` or by
            "package.module:function" for your own; None gives the paper's six weights.

    Raises:
        ValueError: A verifier is unknown, or later fails or returns no number in [0, 1].
    """

    name = "turn_verifier"

    def __init__(self, env: gym.Env[Any, Any], weights: Mapping[str, float] | None = None) -> None:
        chosen = dict(PAPER_WEIGHTS if weights is None else weights)
        for name, weight in chosen.items():
            as_finite(f"the weight of {name}", weight)
        self._verifiers = {name: find_verifier(name) for name in chosen}
        RecordConstructorArgs.__init__(self, weights=chosen)
        super().__init__(env)
        self.weights = chosen

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """Weighted sum of the verifiers for this turn."""
        turn = Exchange(str(action), str(observation), info)
        paid = {}
        for name, weight in self.weights.items():
            paid[name] = weight * score_turn(name, self._verifiers[name], turn)
        info["turn_reward"] = {**info.get("turn_reward", {}), **paid}
        return sum(paid.values())


def _repetition(
    seen: Counter[str], action: Any, info: dict[str, Any], alpha: float, q: int
) -> float:
    """MGR's h_repeat of the turn; counts the action in `seen`."""
    if not info["valid"]:
        return 0.0
    taken = str(info.get("action", action))
    seen[taken] += 1
    return -alpha * max(seen[taken] - q, 0)
