"""Tinker's cookbook: our environments for its loop, and an advantage for each turn in its data.

The cookbook gives a whole trajectory one advantage and has no option for another one; `use`
replaces the function of its loop that makes the data. Left out: images, and context "turn".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

import credit
from agent_envs.replies import join_thought
from agent_envs_adapters import check_call, use_peer
from agent_envs_adapters.episodes import Episodes, text_episodes
from credit.rows import TurnRecord, rows_of

with use_peer("tinker-cookbook", "0.5"):
    import chz
    from tinker import Datum, ModelInput, TensorData
    from tinker_cookbook.renderers import Renderer, get_renderer, get_text_content
    from tinker_cookbook.rl import train, types
    from tinker_cookbook.rl.data_processing import trajectory_to_data
    from tinker_cookbook.tokenizer_utils import get_tokenizer

    types.StepResult(0.0, True, ModelInput.empty(), [], metrics={}, logs={})
    check_call(trajectory_to_data, None, 1.0)
    check_call(train.assemble_training_data, [], [])

if TYPE_CHECKING:
    import numpy as np

    from credit import Estimator
    from trainer.play.episode import TextEpisode

RECORD = "turn_record"
"""Key of `Transition.logs`: the turn's record as JSON, as if the episode ended with it."""


class AgentEnvsEnv(types.Env):
    """One episode of an environment of ours.

    A step's reward is that of the turn, with the outcome on the last one. Replies that the renderer
    cannot parse, or that were cut, are turns, too: the environment decides whether they are valid.

    Args:
        episode: A running episode.
        renderer: The cookbook's renderer of the conversation.
        limits: The cookbook's `RolloutLimits`.
    """

    def __init__(self, episode: TextEpisode, renderer: Renderer, limits: Any = None) -> None:
        self.episode, self.renderer, self.rollout_limits = episode, renderer, limits
        self.messages: list[Any] = []

    async def initial_observation(self) -> tuple[ModelInput, list[Any]]:
        """The conversation up to the next reply, and what ends the reply."""
        self.messages.append({"role": "user", "content": self.episode.message})
        prompt = self.renderer.build_generation_prompt(self.messages)
        return prompt, self.renderer.get_stop_sequences()

    async def step(self, action: list[int], *, extra: Any = None) -> types.StepResult:  # noqa: ARG002
        """Play the tokens of a reply."""
        reply, _ = self.renderer.parse_response(action)
        self.messages.append(reply)
        _, done = await self.episode.astep(_write_reply(reply))
        record = self.episode.stopped_records[-1]
        after = (ModelInput.empty(), []) if done else await self.initial_observation()
        return types.StepResult(
            record.reward + (record.outcome or 0.0),
            done,
            *after,
            metrics={"valid": float(record.valid)},
            logs={RECORD: json.dumps(record.to_dict())},
        )


def _write_reply(message: Mapping[str, Any]) -> str:
    """The reply with the thoughts that the renderer has taken out."""
    content = message["content"]
    parts = [] if isinstance(content, str) else content
    thoughts = "".join(part["thinking"] for part in parts if part["type"] == "thinking")
    return join_thought(thoughts, get_text_content(message))


class AgentEnvsGroup(types.EnvGroupBuilder):
    """The episodes of one task; they start alike.

    Args:
        episodes: The environment's episodes.
        task: Keyword arguments of `Episodes.start`.
        size: Number of episodes.
        shown: Renderer and limits, as for `AgentEnvsEnv`.
    """

    def __init__(
        self, episodes: Episodes, task: dict[str, Any], size: int, shown: tuple[Renderer, Any]
    ) -> None:
        self.episodes, self.task, self.size, self.shown = episodes, task, size, shown
        self.played: list[TextEpisode] = []

    async def make_envs(self) -> Sequence[AgentEnvsEnv]:
        """Start the episodes."""
        started = [self.episodes.start(**self.task) for _ in range(self.size)]
        self.played += started
        return [AgentEnvsEnv(one, *self.shown) for one in started]

    async def compute_group_rewards(
        self,
        trajectory_group: list[types.Trajectory],  # noqa: ARG002
        env_group: Sequence[types.Env],
    ) -> list[tuple[float, dict[str, float]]]:
        """No further reward; success and progress for the log."""
        last = [env.episode.info for env in env_group]
        return [(0.0, {key: float(one[key]) for key in ("success", "progress")}) for one in last]

    async def cleanup(self) -> None:
        """Give the environments back."""
        while self.played:
            self.episodes.release(self.played.pop())


class AgentEnvsDataset(types.RLDataset):
    """Batches of groups.

    Args:
        groups: The group of each task.
        batch_size: Groups of a batch.
    """

    def __init__(self, groups: Sequence[AgentEnvsGroup], batch_size: int) -> None:
        self.groups, self.batch_size = groups, batch_size

    def get_batch(self, index: int) -> Sequence[AgentEnvsGroup]:
        """The groups of a batch."""
        return self.groups[index * self.batch_size :][: self.batch_size]

    def __len__(self) -> int:
        """Number of whole batches."""
        return len(self.groups) // self.batch_size


@chz.chz
class AgentEnvsDatasetBuilder(types.RLDatasetBuilder):
    """The tasks of an environment, for `dataset_builder` of the cookbook's `train.Config`.

    Attributes:
        env: Registered id or "package.module:Class" of the environment.
        model_name: Model whose tokenizer is used.
        renderer_name: The cookbook's renderer.
        batch_size: Groups of a batch.
        group_size: Episodes of a group.
        batches: Number of batches; their tasks are drawn.
        seed: Seed of the draw and of the episodes.
        options: As for `text_episodes`, e.g. {"split": "train", "max_turns": 30}.
        held_out: Options that differ in the test data, which is a batch as in training, e.g.
            {"split": "valid_seen"}; empty for no test data.
        limits: The cookbook's `RolloutLimits`, e.g. of the tokens of an episode.
    """

    env: str
    model_name: str
    renderer_name: str
    batch_size: int
    group_size: int
    batches: int
    seed: int = 0
    options: dict[str, Any] = chz.field(default_factory=dict)
    held_out: dict[str, Any] = chz.field(default_factory=dict)
    limits: Any = None

    async def __call__(self) -> tuple[AgentEnvsDataset, AgentEnvsDataset | None]:
        """The training data, and the test data if there are `held_out` options."""
        renderer = get_renderer(self.renderer_name, get_tokenizer(self.model_name))

        def make(options: dict[str, Any], batches: int) -> AgentEnvsDataset:
            episodes = text_episodes(self.env, **options)
            tasks = episodes.tasks(batches * self.batch_size, seed=self.seed)
            shown, size = (renderer, self.limits), self.group_size
            groups = [AgentEnvsGroup(episodes, task, size, shown) for task in tasks]
            return AgentEnvsDataset(groups, self.batch_size)

        test = make({**self.options, **self.held_out}, 1) if self.held_out else None
        return make(dict(self.options), self.batches), test


def assemble_data(
    estimator: Estimator,
    groups: Sequence[types.TrajectoryGroup],
    *,
    rng: np.random.Generator | None = None,
) -> tuple[list[Datum], list[dict[str, int]]]:
    """The cookbook's data of whole groups, with the advantage of its turn at every sampled token.

    Args:
        estimator: E.g. `credit.make("gigpo")`.
        groups: Groups of episodes of `AgentEnvsEnv`.
        rng: For an estimator that draws.

    Returns:
        Data and metadata, as `assemble_training_data` of the cookbook.

    Raises:
        ValueError: A turn without a record; and what `rows_of` and the estimator refuse.
    """
    played = [
        (uid, number, one)
        for uid, group in enumerate(groups)
        for number, one in enumerate(group.trajectories_G)
    ]
    table = rows_of([_read_records(one) for *_, one in played], [uid for uid, *_ in played])
    advantages = iter(table.advantage(credit.estimate(estimator, table.turns, rng)).tolist())
    data: list[Datum] = []
    metadata: list[dict[str, int]] = []
    for uid, number, trajectory in played:
        turns = [[next(advantages)] * len(one.ac.tokens) for one in trajectory.transitions]
        values = torch.tensor([value for turn in turns for value in turn])
        for datum in trajectory_to_data(trajectory, 1.0):
            inside = datum.loss_fn_inputs["mask"].to_torch() > 0
            spread = torch.zeros(len(inside))
            spread[inside], values = values[: inside.sum()], values[inside.sum() :]
            datum.loss_fn_inputs["advantages"] = TensorData.from_torch(spread)
            data.append(datum)
            metadata.append({"group_idx": uid, "traj_idx": number})
    return data, metadata


def _read_records(trajectory: types.Trajectory) -> list[TurnRecord]:
    """The records of a trajectory, which the cookbook may have ended at any turn."""
    logs = [transition.logs for transition in trajectory.transitions]
    if missing := [at for at, log in enumerate(logs) if RECORD not in log]:
        raise ValueError(
            f"turn {missing[0]} of a trajectory has no record in its logs; make the data with "
            f"{AgentEnvsDatasetBuilder.__name__}"
        )
    records = [TurnRecord.of(json.loads(log[RECORD])) for log in logs]
    running = [
        replace(one, reward=one.reward + (one.outcome or 0.0), outcome=None, success=None)
        for one in records[:-1]
    ]
    return [*running, *records[-1:]]


def use(estimator: Estimator, *, rng: np.random.Generator | None = None) -> None:
    """Make the cookbook's loop in this process train on the advantages of a credit method.

    Replaces `assemble_training_data` of `tinker_cookbook.rl.train`; what the loop passes as
    advantages is not read.

    Args:
        estimator: Credit method.
        rng: For an estimator that draws.
    """
    train.assemble_training_data = lambda groups, _: assemble_data(estimator, groups, rng=rng)
