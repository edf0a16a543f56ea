"""Reward wrappers for Gymnasium environments that follow the info contract, and verifiers of turns.

Each wrapper adds one term to the reward and reports it under `info["reward_terms"][name]`. With
"own", what the environment itself pays, the terms sum to the reward. Wrappers can be stacked in any
order, outside `agent_envs.ParseReply` and inside `agent_envs.Prompt`. Methods that compare the
trajectories of a group need them all: `GroupReward` returns their credit when a group has ended.

A verifier is a rule-based score of one turn: a function from an `Exchange` to a number in [0, 1].
The six of MT-GRPO §3.2 are here. They read the accepted answers from `info["answers"]`.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv, VectorWrapper

from credit.estimators import Estimator, estimate, find_misfit, import_object, make
from credit.rows import TurnRecord, rows_of
from credit.validation import (
    LARGEST,
    as_finite,
    check_count,
    check_known,
    check_range,
    clip_rounding,
)

OWN = "own"
"""Key of `info["reward_terms"]`: what the environment itself pays."""
ROUNDING = 1e-9  # of the sum of a reward's terms
MIN_COPIES = 2  # of a group
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


_RULES = (tool_execution, result_has_answer, answer_contains, exact, xml_format, xml_usage)
VERIFIERS: dict[str, Verifier] = {rule.__name__: rule for rule in _RULES}


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


def _check_layer(wrapper: Any, env: gym.Env[Any, Any]) -> None:
    """Check that the wrappers of `env` belong inside a new one, by `wrapper_layer` and `name`.

    The layers are those of `agent_envs.replies.check_layer`.
    """
    outer = type(wrapper).__name__
    while isinstance(env, gym.Wrapper):
        inner, layer = type(env).__name__, getattr(env, "wrapper_layer", 0)
        if layer == wrapper.wrapper_layer and getattr(env, "name", "") == wrapper.name:
            raise ValueError(f"{env} has a {wrapper.name} already; leave the second {outer} out")
        if layer > wrapper.wrapper_layer or isinstance(env, gym.wrappers.Autoreset):
            raise ValueError(f"{outer} belongs inside {inner}: {inner}({outer}(env))")
        env = env.env


def _require_info(name: str, required: Sequence[str], info: Mapping[str, Any]) -> None:
    """Check that an environment reports what a wrapper reads."""
    if missing := set(required) - set(info):
        remedy = "agent_envs.testing.check_agent_env checks what an environment must return"
        raise KeyError(f"{name} reads info[{min(missing)!r}], which is absent; {remedy}")


def _read_terms(reward: float, info: Mapping[str, Any]) -> dict[str, float]:
    """The terms of a reward; all of it is the environment's own if `info` has none."""
    return dict(info.get("reward_terms", {OWN: reward}))


class _RewardTerm(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds `term(action, observation, info)` to the reward of each step, under its `name`."""

    name: str
    required_info: tuple[str, ...] = ()
    wrapper_layer: ClassVar[int] = 2

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        _check_layer(self, env)
        super().__init__(env)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the reset has no term."""
        observation, info = self.env.reset(**options)
        _require_info(self.name, self.required_info, info)
        self.start_episode(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step and add the term to its reward.

        Raises:
            ValueError: The terms so far do not sum to the reward, because of another wrapper.
        """
        observation, reward, terminated, truncated, info = self.env.step(action)
        paid = float(reward)
        terms = _read_terms(paid, info)
        if abs(sum(terms.values()) - paid) > ROUNDING * max(1.0, abs(paid)):
            shown = f"the reward is {paid}, and info['reward_terms'] sums to {sum(terms.values())}"
            raise ValueError(
                f"{shown}; a wrapper inside {type(self).__name__} changes the reward without a "
                f"term: put it outside, {self.env}"
            )
        own = dict(info)
        term = float(self.term(action, observation, own))
        own["reward_terms"] = {**terms, self.name: term}
        return observation, paid + term, terminated, truncated, own

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
    """MGR's ungated R_local, not MGR: failures are paid like successes; `GroupReward` has the gate.

    term = scale (v + h_temporal + h_repeat)

    Actions are compared by `info["action"]` if a parser reports it, else by the action itself. See
    `mgr.MGR.local_reward`.

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

    def start_episode(self, info: dict[str, Any]) -> None:
        """Report no verifiers' rewards yet."""
        info.setdefault("turn_reward", {})

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """Weighted sum of the verifiers for this turn."""
        turn = Exchange(str(action), str(observation), info)
        paid = {}
        for name, weight in self.weights.items():
            paid[name] = weight * score_turn(name, self._verifiers[name], turn)
        info["turn_reward"] = {**info.get("turn_reward", {}), **paid}
        return sum(paid.values())


class LastReward(_RewardTerm):
    """Makes the environment's last reward the outcome, which by default is the return.

    What the environment pays before the end is then a term "earlier" of its turn. The reward does
    not change. What ends without a last turn, as at a limit on tokens, has the outcome 0.
    """

    name = "earlier"

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step and name what it pays."""
        observation, reward, terminated, truncated, info = super().step(action)
        terms = info["reward_terms"]
        if not (terminated or truncated):
            terms |= {OWN: 0.0, self.name: terms[OWN]}
        return observation, reward, terminated, truncated, info

    def term(self, action: Any, observation: Any, info: dict[str, Any]) -> float:
        """Nothing is added."""
        return 0.0


def _repetition(
    seen: Counter[str], action: Any, info: dict[str, Any], alpha: float, q: int
) -> float:
    """MGR's h_repeat of the turn; counts the action in `seen`."""
    if not info["valid"]:
        return 0.0
    taken = str(info.get("action", action))
    seen[taken] += 1
    return -alpha * max(seen[taken] - q, 0)


class GroupReward:
    """Credit of every turn of a group, the copies of one task, by a method that compares them.

    Each copy in `envs` takes the place of the one that was given and records its turns. When all
    have ended, `compute_rewards` returns `credit.make(method)` on them. With "mgr" an invalid turn
    is never paid. The rewards of the environment do not change.

    The outcome is `info["success"]` if the method reads success (MGR, PRIME), else all that the
    environment itself paid in the episode. A reset begins the episode of a copy anew. What the
    method computes over a batch, such as MGR's gate, it computes over the group; for a batch of
    groups give the `records` of all to `credit.rows_of`.

    Args:
        envs: The copies, at least 2, with their parsers and reward wrappers: a list of
            environments, or a vector environment, whose later episodes by autoreset do not count.
        method: Name of a method, see `credit.names()`.
        options: Options of the method.

    Attributes:
        envs: The copies that record, as a list or a vector environment.
        estimator: The method.
        records: The turns of each copy so far.

    Raises:
        TypeError: `envs` is neither.
        ValueError: Fewer than 2 copies, an environment twice, an unknown method or option, or a
            method that reads what no environment reports.
    """

    def __init__(
        self,
        envs: Sequence[gym.Env[Any, Any]] | VectorEnv[Any, Any, Any],
        method: str = "mgr",
        **options: Any,
    ) -> None:
        self.estimator: Estimator = make(method, **options)
        if unknown := set(getattr(self.estimator, "needs", ())) - {"turn_reward"}:
            raise ValueError(
                f"{method} reads {min(unknown)}, which the model knows and no environment reports; "
                "record it in a credit.TurnRecord for each turn and use credit.rows_of"
            )
        self.envs: Any
        if isinstance(envs, VectorEnv):
            self.envs, count = _RecordedVector(envs, self), envs.num_envs
        elif isinstance(envs, Sequence) and all(isinstance(env, gym.Env) for env in envs):
            self.envs = [GroupRewardCopy(env, self, copy) for copy, env in enumerate(envs)]
            count = len({id(env) for env in envs})
            if count < len(envs):
                raise ValueError("envs has one environment twice; make each copy by itself")
        else:
            raise TypeError(
                f"envs must be a list of environments or a vector environment, got {envs!r:.80}"
            )
        if count < MIN_COPIES:
            raise ValueError(
                f"a group compares at least {MIN_COPIES} copies of a task, got {count}"
            )
        self.records: list[list[TurnRecord]] = [[] for _ in range(count)]
        self.clear()

    @property
    def has_ended(self) -> bool:
        """Whether every copy has played an episode to its end."""
        return all(map(self.has_played, range(len(self.records))))

    def compute_rewards(self, rng: np.random.Generator | None = None) -> list[list[float]]:
        """The credit of each turn of each copy; the next reset begins another group.

        Args:
            rng: For a method that draws, as MGR's gate; make one generator for a run.

        Raises:
            ValueError: A copy has not ended its episode; and what the method refuses.
            TypeError: `rng` is missing.
        """
        for copy in range(len(self.records)):
            if not self.has_played(copy):
                raise ValueError(f"copy {copy} has not ended its episode; play all to the end")
        table = rows_of(self.records, [0] * len(self.records))
        credit = table.advantage(estimate(self.estimator, table.turns, rng))
        ends = np.cumsum([len(turns) for turns in self.records])[:-1]
        self._computed = True
        return [part.tolist() for part in np.split(credit, ends)]

    def has_played(self, copy: int) -> bool:
        """Whether a copy has played its episode to the end."""
        turns = self.records[copy]
        return bool(turns) and turns[-1].outcome is not None

    def clear(self) -> None:
        """Forget all turns, to begin another group."""
        self.records = [[] for _ in self.records]
        self._before: list[Mapping[str, Any] | None] = [None for _ in self.records]
        self._earned = [0.0 for _ in self.records]
        self._tasks: dict[int, str] = {}
        self._computed = False

    def begin_episode(self, copy: int, info: Mapping[str, Any]) -> None:
        """Begin the episode of a copy after its reset."""
        _require_info("GroupReward", ("goal", "valid", "progress", "anchor", "success"), info)
        if self._computed:
            self.clear()
        self.records[copy], self._before[copy], self._earned[copy] = [], info, 0.0
        self._tasks[copy] = task = str(info.get("task_id", ""))
        for other, played in self._tasks.items():
            if played != task:
                raise ValueError(
                    f"copy {copy} plays {task!r:.60} and copy {other} {played!r:.60}; give all "
                    "resets the same seed or options, and clear() a group that is given up"
                )

    def record_turn(
        self, copy: int, action: Any, reward: Any, info: Mapping[str, Any], *, ended: bool
    ) -> None:
        """Record a turn of a copy whose episode has not ended."""
        if (before := self._before[copy]) is None:
            return
        paid = float(reward)
        self._earned[copy] += float(_read_terms(paid, info).get(OWN, paid))
        success = bool(info["success"])
        by_success = getattr(self.estimator, "reads_success", False)
        outcome = float(success) if by_success else self._earned[copy]
        self._before[copy] = None if ended else info
        self.records[copy].append(
            TurnRecord(
                task_id=str(info.get("task_id", "")),
                goal=str(info["goal"]),
                step=len(self.records[copy]),
                action=str(info.get("action", action)).encode(errors="replace").decode(),
                anchor=str(before["anchor"]),
                valid=bool(info["valid"]),
                invalid_reason=str(info.get("invalid_reason", "")),
                progress=float(info["progress"]),
                progress_before=float(before["progress"]),
                reward=paid - (self._earned[copy] if ended else 0.0),
                turn_reward=info.get("turn_reward", {}),
                outcome=outcome if ended else None,
                success=success if ended else None,
            )
        )


class GroupRewardCopy(gym.Wrapper[Any, Any, Any, Any]):
    """One of the environments in `GroupReward.envs`; the group gets its turns."""

    wrapper_layer: ClassVar[int] = 4
    name = "GroupReward"

    def __init__(self, env: gym.Env[Any, Any], group: GroupReward, copy: int) -> None:
        _check_layer(self, env)
        super().__init__(env)
        self.group, self.copy = group, copy

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin the episode of this copy anew."""
        observation, info = self.env.reset(**options)
        self.group.begin_episode(self.copy, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one step and record it."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.group.record_turn(self.copy, action, reward, info, ended=terminated or truncated)
        return observation, reward, terminated, truncated, info


class _RecordedVector(VectorWrapper[Any, Any, Any]):
    """The copies of a `GroupReward` as a vector environment."""

    def __init__(self, env: VectorEnv[Any, Any, Any], group: GroupReward) -> None:
        super().__init__(env)
        self.group = group

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        """Begin a group; with `options["reset_mask"]` only copies whose episode has not ended."""
        mask = (options or {}).get("reset_mask", [True] * self.num_envs)
        observations, infos = self.env.reset(seed=seed, options=options)
        if all(mask):
            self.group.clear()
        for copy in np.flatnonzero(mask).tolist():
            if not self.group.has_played(copy):
                self.group.begin_episode(copy, _read_copy(infos, copy))
        return observations, infos

    def step(self, actions: Any) -> Any:
        """Take one step in every copy and record those whose first episode runs."""
        result = _, rewards, terminated, truncated, infos = self.env.step(actions)
        for copy, ended in enumerate(np.logical_or(terminated, truncated).tolist()):
            info = _read_copy(infos, copy)
            info = info.get("final_info", info)  # with autoreset in the same step
            self.group.record_turn(copy, actions[copy], rewards[copy], info, ended=ended)
        return result


def _read_copy(infos: Mapping[str, Any], copy: int) -> dict[str, Any]:
    """The info of one copy in that of a vector environment, which has a mask `_key` for a key."""
    return {
        key: _read_copy(value, copy) if isinstance(value, dict) else value[copy]
        for key, value in infos.items()
        if f"_{key}" in infos and infos[f"_{key}"][copy]
    }
