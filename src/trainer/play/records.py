"""What a rollout plays and records: a task, and an episode of steps with their tokens.

Everything here is plain Python values, so that a report or another trainer can read episodes
without torch. `episode_files` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agent_envs.spaces import Picture


class Task(NamedTuple):
    """Task and seed of one rollout. Rollouts of a group share both, and so the first state."""

    task_id: str
    group: int
    seed: int


@dataclass(slots=True)
class Step:
    """One turn: the observation, the sampled reply, and the result of the environment's step.

    Attributes:
        observation: Observation before the action.
        reply: The whole reply as text.
        action: The action parsed from the reply, "" if there was none.
        prompt_ids: context "history": the environment's tokens since the previous reply (first
            step: the whole opening); context "turn": the turn's whole prompt.
        reply_ids: The sampled tokens, never re-tokenised.
        logprobs: Log-probability of each reply token in the distribution it was drawn from, nats.
        entropies: Entropy of that distribution at each reply token, nats.
        allowed: With constrained decoding, the tokens allowed at each reply token.
        admissible: With constrained decoding, the actions to choose from.
        version: Version of the weights that sampled the reply: the step of the run after which
            they were copied.
        blind_ids: Blind prompts of the turn, by the part that they leave out.
        reward: Reward of the turn, without the outcome.
        valid: Whether the reply was well-formed and the environment accepted the action.
        invalid_reason: Why it was invalid, "" if valid.
        progress, progress_before: Progress after and before the turn, in [0, 1].
        anchor: Key of the state the action was taken in.
        turn_reward: Rewards of the environment's verifiers by name.
        images: Images in `prompt_ids`, in order.
    """

    observation: str
    reply: str
    action: str
    prompt_ids: list[int]
    reply_ids: list[int]
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    allowed: list[list[int]] | None = None
    admissible: list[str] | None = None
    version: int = 0
    blind_ids: dict[str, list[int]] = field(default_factory=dict)
    reward: float = 0.0
    valid: bool = True
    invalid_reason: str = ""
    progress: float = 0.0
    progress_before: float = 0.0
    anchor: str = ""
    turn_reward: dict[str, float] = field(default_factory=dict)
    images: list[Picture] = field(default_factory=list)

    @property
    def entropy(self) -> float:
        """Mean token entropy of the reply in nats, 0 if none was recorded."""
        return sum(self.entropies) / len(self.entropies) if self.entropies else 0.0


@dataclass(slots=True)
class Episode:
    """One trajectory.

    Attributes:
        task_id: The environment's task.
        goal: Goal text.
        group: Task group: the rollouts of one task from one initial state share it.
        seed: The environment's seed.
        context: "history" or "turn", see `Step.prompt_ids`.
        steps: The turns in order, at least one.
        success: Whether the task was solved.
        outcome: Return of the environment's own rewards, without reward wrappers.
        strata: Kinds that the environment says the task is of, by name, e.g. its difficulty.
        measures: What the environment measured, by name: the last value of each.
        truncated: Whether it was cut off by a limit on turns or tokens.
        stopped: Whether it was cut off because no other reply had room, a limit on tokens.
        partner_outcome: Outcome of the other side of a conversation; None without one.
        answer: The first answer that the environment accepts, "" if it reports none.
        answer_opening: What a reply says before an answer.
        after: The turn that a limit has cut off, without its reply; files do not keep it.
    """

    task_id: str
    goal: str
    group: int
    seed: int
    context: str
    steps: list[Step]
    success: bool = False
    outcome: float = 0.0
    strata: dict[str, str] = field(default_factory=dict)
    measures: dict[str, float] = field(default_factory=dict)
    truncated: bool = False
    stopped: bool = False
    partner_outcome: float | None = None
    answer: str = ""
    answer_opening: str = ""
    after: Step | None = None

    @property
    def turns(self) -> list[Step]:
        """The steps under the name `credit.Turns.from_episodes` reads."""
        return self.steps

    @property
    def tokens(self) -> int:
        """Number of tokens in prompts and replies."""
        return sum(len(s.prompt_ids) + len(s.reply_ids) for s in self.steps)
