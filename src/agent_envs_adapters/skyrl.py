"""SkyRL: our environments in skyrl-gym, and an advantage for each turn in SkyRL's trainer.

SkyRL makes an environment for each episode by the id of its class, so one id stands for all of
ours, and the columns of the data set say which one is played. Left out: images.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

import credit
from agent_envs_adapters import check_attributes, check_call, use_peer
from agent_envs_adapters.episodes import Episodes, text_episodes
from credit.rows import rows_of

with use_peer("skyrl-gym", "0.4"):
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

    check_call(skyrl_gym.register, "id", entry_point="module:Class")
    dict(skyrl_gym.registry)
    BaseTextEnvStepOutput(observations=[], reward=0.0, done=True, metadata={})
    check_attributes(BaseTextEnv, "turns", "max_turns")

if TYPE_CHECKING:
    from credit import Estimator
    from trainer.play.episode import TextEpisode

ENV_CLASS = "agent_envs"
"""The id of all our environments in skyrl-gym."""
RECORDS = "turn_records"
"""Key of the metrics of an episode: the records of its turns."""

Message = dict[str, str]


def register() -> None:
    """Register our environments with skyrl-gym; call it in the process of SkyRL's generator."""
    if ENV_CLASS not in skyrl_gym.registry:
        skyrl_gym.register(ENV_CLASS, entry_point=f"{__name__}:{AgentEnvsTextEnv.__name__}")


def dataset_rows(
    env: str, count: int = 0, *, seed: int = 0, **options: Any
) -> list[dict[str, Any]]:
    """Rows of SkyRL's data set; write them to Parquet or JSON lines.

    The prompt is the environment's first message, so that SkyRL's limit on prompts applies.

    Args:
        env: Registered id or "package.module:Class" of the environment.
        count: Number of tasks, drawn; 0 takes all tasks of the split in order.
        seed: Seed of the draw and of the episodes' seeds.
        options: As for `text_episodes`, e.g. `split`. The limit on turns is SkyRL's `max_turns`.
    """
    episodes, rows = _episodes(env, json.dumps(options, sort_keys=True), None), []
    for task in episodes.tasks(count, seed=seed):
        episode = episodes.start(**task)
        prompt = [{"role": "user", "content": episode.message}]
        episodes.release(episode)
        played = {"env": env, "options": json.dumps(options, sort_keys=True), **task}
        rows.append({"prompt": prompt, "env_class": ENV_CLASS, **played})
    return rows


@cache
def _episodes(env: str, options: str, max_turns: int | None) -> Episodes:
    """The episodes of an environment; its environments are used again.

    `options` are JSON, because Parquet mixes the keys of dicts in different rows.
    """
    limit = {} if max_turns is None else {"max_turns": max_turns}
    return text_episodes(env, **{**json.loads(options), **limit})


class AgentEnvsTextEnv(BaseTextEnv):
    """One episode of an environment of ours.

    A step's `reward` is the reward of the turn, with the outcome on the last one. Its `metadata`
    has the turn's record; SkyRL drops metadata, so the metrics have all records.

    Args:
        env_config: Not read.
        extras: The columns of `dataset_rows`, and SkyRL's `max_turns`.
    """

    episode: TextEpisode

    def __init__(self, env_config: Any = None, extras: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002
        super().__init__()
        extras = dict(extras or {})
        self.max_turns = extras.get("max_turns")
        self.task = {name: extras.get(name) for name in ("task", "seed")}
        self.episodes = _episodes(extras["env"], extras.get("options") or "{}", self.max_turns)

    def init(self, prompt: Sequence[Message]) -> tuple[list[Message], dict[str, Any]]:
        """Start the episode: the system messages of the prompt, and the first message."""
        system = [one for one in prompt if one["role"] == "system"]
        self.close()
        self.episode = self.episodes.start(**self.task)
        first = {"role": "user", "content": self.episode.message}
        return [*system, first], {"task_id": self.episode.task_id}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play a model's whole reply.

        Raises:
            gymnasium.error.ResetNeeded: The episode has ended.
        """
        message, done = self.episode.step(action)
        record = self.episode.records[-1]
        self.turns += 1
        return BaseTextEnvStepOutput(
            observations=[] if done else [{"role": "user", "content": message}],
            reward=record.reward + (record.outcome or 0.0),
            done=done,
            metadata=record.to_dict(),
        )

    def get_metrics(self) -> dict[str, Any]:
        """Figures of the episode, which is cut off if it still runs, and its records."""
        episode = self.episode
        episode.stop()
        records = episode.records
        return {
            "success": episode.success,
            "truncated": episode.truncated,
            "turns": len(records),
            "valid": sum(record.valid for record in records) / max(len(records), 1),
            "progress": records[-1].progress if records else 0.0,
            RECORDS: [record.to_dict() for record in records],
        }

    def close(self) -> None:
        """Give the environment back."""
        if hasattr(self, "episode"):
            self.episodes.release(self.episode)


def token_advantages(
    estimator: Estimator,
    output: Mapping[str, Any],
    uids: Sequence[str],
    *,
    rng: np.random.Generator | None = None,
) -> list[list[float]]:
    """Advantages of the tokens of SkyRL's responses, in the layout of its `loss_masks`.

    A response is an episode, or with `step_wise_trajectories` a turn. Responses whose loss mask is
    all 0, e.g. by `apply_overlong_filtering`, count in their group and get 0.

    Args:
        estimator: E.g. `credit.make("gigpo")`.
        output: SkyRL's `GeneratorOutput` of episodes of `AgentEnvsTextEnv`.
        uids: [R] text, the prompt of each response, as SkyRL's trainer has them.
        rng: For an estimator that draws.

    Raises:
        ValueError: An episode without records; replies in a loss mask that are not as many as the
            turns; and what `rows_of` and the estimator refuse.
    """
    masks = [np.asarray(mask) != 0 for mask in output["loss_masks"]]
    last = output.get("is_last_step") or [True] * len(masks)
    ends = [row + 1 for row, whether in enumerate(last) if whether]
    table = rows_of([_records(output, end - 1) for end in ends], [uids[end - 1] for end in ends])
    advantages = table.advantage(credit.estimate(estimator, table.turns, rng))
    counts = [len(_records(output, end - 1)) for end in ends]
    of_episode = np.split(advantages, np.cumsum(counts)[:-1])
    spread = [np.zeros(len(mask)) for mask in masks]
    for start, end, values in zip([0, *ends], ends, of_episode, strict=False):
        for (row, span), value in zip(
            _replies(masks, start, end, len(values)), values, strict=False
        ):
            spread[row][span] = value
    return [row.tolist() for row in spread]


def _records(output: Mapping[str, Any], row: int) -> list[dict[str, Any]]:
    metrics = output.get("env_metrics") or {}
    found: list[dict[str, Any]] | None = metrics[row].get(RECORDS) if metrics else None
    if not found:
        raise ValueError(
            f"response {row} has no turn records in env_metrics: SkyRL keeps none of step-wise "
            "episodes that it cuts off by length (raise max_input_length or lower max_turns), and "
            f"other environments than {ENV_CLASS!r} have none"
        )
    return found


def _replies(masks: Sequence[Any], start: int, end: int, turns: int) -> Iterable[tuple[int, Any]]:
    """The row and the tokens of each reply of an episode, which has the rows from start to end."""
    rows = range(start, end)
    if len(rows) == turns:
        return [(row, masks[row]) for row in rows]
    found = []
    for row in rows:
        at = 0
        for inside, run in groupby(masks[row].tolist()):
            length = len(list(run))
            if inside:
                found.append((row, slice(at, at + length)))
            at += length
    if found and len(found) != turns:
        raise ValueError(
            f"responses {start} to {end - 1} have {len(found)} replies in their loss masks, but "
            f"{turns} turn records"
        )
    return found


class TurnCredit:
    """Mixin before SkyRL's `RayPPOTrainer`: its advantages are those of an estimator.

    Attributes:
        estimator: Set it in the subclass, e.g. `estimator = credit.make("mgr")`.
        rng: For an estimator that draws.
    """

    estimator: Estimator
    rng: np.random.Generator

    def convert_to_training_input(self, generator_output: Any, uids: list[str]) -> Any:
        """Keep the advantages of the responses that become the batch."""
        inherited: Any = super()
        self._advantages = token_advantages(self.estimator, generator_output, uids, rng=self.rng)
        return inherited.convert_to_training_input(generator_output, uids)

    def compute_advantages_and_returns(self, data: Any) -> Any:
        """Put them in place of SkyRL's: responses end at the right, rows of padding get 0."""
        inherited: Any = super()
        data = inherited.compute_advantages_and_returns(data)
        advantages = data["advantages"].new_zeros(data["advantages"].shape)
        for row, values in zip(advantages, self._advantages, strict=False):
            row[len(row) - len(values) :] = row.new_tensor(values)
        data["advantages"] = advantages
        return data
