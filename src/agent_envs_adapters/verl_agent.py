"""verl-agent: environments behind its environment manager, and credit from its rows.

verl-agent is a fork of verl, installed from its repository. Its rollout loop makes a row of each
turn and keeps from the environment the validity, the reward and the anchor of each turn. Here an
anchor is the key of the environment's state, not a hash of its text, and it carries the record of
the turn, so that credit methods have everything that verl-agent drops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import credit
from agent_envs_adapters.episodes import Episodes
from credit.rows import rows_of

try:
    from agent_system.environments.base import EnvironmentManagerBase
except ImportError as error:
    raise ImportError(
        "this adapter needs verl-agent: clone https://github.com/langfengQ/verl-agent and install "
        "it as its README says, with its folder on the PYTHONPATH"
    ) from error

if TYPE_CHECKING:
    from credit import Estimator
    from credit.rows import TurnRecord
    from trainer.play.episode import TextEpisode


class Anchor(str):
    """Key of the state in which a turn is taken, with the record of the turn once it is taken.

    As text it is the key, so verl-agent's own GiGPO groups by it.
    """

    __slots__ = ("records", "step")
    records: list[TurnRecord]
    step: int

    @classmethod
    def of(cls, episode: TextEpisode, records: list[TurnRecord]) -> Anchor:
        """The anchor of an episode's next turn; `records` gets the record once it is taken."""
        made = cls(episode.info["anchor"])
        made.records, made.step = records, len(episode.steps)
        return made

    @property
    def record(self) -> TurnRecord:
        """The turn that was taken at this anchor."""
        return self.records[self.step]


class EpisodeManager(EnvironmentManagerBase):
    """Plays `groups` tasks, `group_size` episodes each, as verl-agent's environments.

    Args:
        episodes: Episodes with context "turn": verl-agent's prompts are of one turn.
        config: verl-agent's configuration.
        groups: Number of tasks, verl-agent's batch size.
        group_size: Episodes of each task, `env.rollout.n`; 1 for validation.
        seed: Seed of the tasks, which are drawn anew at each reset; None for the first `groups`
            tasks of the split at each reset.

    Raises:
        ValueError: Another context, or more tasks than the split has without a seed.
    """

    envs: Episodes

    def __init__(
        self,
        episodes: Episodes,
        config: Any,
        *,
        groups: int,
        group_size: int = 1,
        seed: int | None = None,
    ) -> None:
        episodes.require_context("turn", "verl-agent makes a prompt for each turn")
        super().__init__(episodes, None, config)
        self.groups, self.group_size = groups, group_size
        self._rng = None if seed is None else np.random.default_rng(seed)
        self._played: list[TextEpisode] = []
        self._records: list[list[TurnRecord]] = []
        if seed is None and groups > (there := len(episodes.panel.task_ids)):
            raise ValueError(f"the split has {there} tasks, got groups={groups}; lower it")

    def reset(
        self, kwargs: Sequence[Mapping[str, Any]] | None = None
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Start all episodes.

        Args:
            kwargs: The rows' `env_kwargs`, as `Episodes.tasks` makes them; None draws tasks.
        """
        self._release()
        drawn = self._tasks() if kwargs is None else []
        repeated = [task for task in drawn for _ in range(self.group_size)]
        for task in repeated if kwargs is None else kwargs:
            self._played.append(self.envs.start(**task))
            self._records.append([])
        return self._observations(), [self._info(one) for one in self._played]

    def step(
        self, text_actions: Sequence[str]
    ) -> tuple[dict[str, Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Step every episode that has not ended with its reply.

        Raises:
            ValueError: There are not as many replies as episodes.
        """
        rewards = np.zeros(len(self._played), dtype=np.float32)
        for row, (episode, reply) in enumerate(zip(self._played, text_actions, strict=True)):
            if not episode.done:
                episode.step(reply)
                self._records[row][:] = episode.records
                rewards[row] = episode.steps[-1].reward + episode.outcome
        dones = np.array([episode.done for episode in self._played])
        return self._observations(), rewards, dones, [self._info(one) for one in self._played]

    def success_evaluator(self, *args: Any, **kwargs: Any) -> dict[str, NDArray[np.float64]]:
        """Success of each episode; verl-agent calls it when its loop ends.

        Episodes that still run end as truncated.
        """
        for episode, records in zip(self._played, self._records, strict=True):
            episode.stop()
            records[:] = episode.records
        found: dict[str, NDArray[np.float64]] = super().success_evaluator(*args, **kwargs)
        return found

    def close(self) -> None:
        """Close the environments."""
        self._release()
        self.envs.close()

    def _release(self) -> None:
        for episode in self._played:
            self.envs.release(episode)
        self._played, self._records = [], []

    def _tasks(self) -> list[dict[str, Any]]:
        if self._rng is None:
            return self.envs.tasks()[: self.groups]
        return self.envs.tasks(self.groups, seed=int(self._rng.integers(2**31)))

    def _observations(self) -> dict[str, Any]:
        """What the model reads next: text, images and anchors of all episodes."""
        shown = [episode.images for episode in self._played]
        if any(len(images) > 1 for images in shown):
            raise ValueError(
                f"verl-agent shows one image a turn, got {max(map(len, shown))}; choose history=1"
            )
        return {
            "text": [episode.message for episode in self._played],
            "image": [images[0].array for images in shown] if all(shown) else None,
            "anchor": list(map(Anchor.of, self._played, self._records)),
        }

    @staticmethod
    def _info(episode: TextEpisode) -> dict[str, Any]:
        return {
            **episode.info,
            "is_action_valid": np.array(episode.info["valid"]),
            "won": episode.success,
        }


def make_envs(
    config: Any, env: str, *, held_out: Mapping[str, Any] | None = None, **options: Any
) -> tuple[EpisodeManager, EpisodeManager]:
    """Managers of training and of validation, as verl-agent's `make_envs`.

    Read from the configuration: `data.train_batch_size`, `data.val_batch_size`, `env.rollout.n`,
    `env.seed`, `env.max_steps` and `env.history_length`.

    Args:
        config: verl-agent's configuration.
        env: Environment, as in `Episodes`.
        held_out: Options that differ in validation, e.g. `{"split": "valid_seen"}`.
        options: Further arguments of `Episodes`.
    """
    options = {
        "context": "turn",
        "max_turns": config.env.max_steps,
        "history": config.env.history_length,
        **options,
    }
    training, validation = Episodes(env, **options), Episodes(env, **options | dict(held_out or {}))
    return (
        EpisodeManager(
            training,
            config,
            groups=config.data.train_batch_size,
            group_size=config.env.rollout.n,
            seed=config.env.seed,
        ),
        EpisodeManager(validation, config, groups=config.data.val_batch_size),
    )


def assign(data: Any, estimator: Estimator, rng: np.random.Generator | None = None) -> Any:
    """Put the credit of each turn at its tokens: `advantages` of a batch.

    Rows that verl-agent repeated to fill the batch get the advantage of their turn, and count once.

    Args:
        data: verl-agent's `DataProto` of B rows with `response_mask`, [B, T], and the columns
            `uid`, `traj_uid` and `anchor_obs`.
        estimator: Credit method.
        rng: For an estimator that draws.

    Raises:
        ValueError: The anchors are not of `EpisodeManager`; and what `credit.rows_of` and the
            estimator refuse.
    """
    columns = data.non_tensor_batch
    anchors = columns["anchor_obs"]
    if not all(isinstance(anchor, Anchor) for anchor in anchors):
        raise ValueError("anchor_obs is not of EpisodeManager; pass its make_envs to the trainer")
    records = [[anchor.record] for anchor in anchors]
    rows = rows_of(records, columns["uid"], trajectory=columns["traj_uid"])
    data.batch["advantages"] = rows.scatter(
        credit.estimate(estimator, rows.turns, rng), data.batch["response_mask"]
    )
    return data


def use(estimator: Estimator, *, seed: int = 0) -> None:
    """Make verl-agent's trainer in this process compute its advantages by a credit method.

    Replaces `compute_advantage` of `verl.trainer.ppo.ray_trainer`; `algorithm.adv_estimator` must
    be one without a critic, e.g. "grpo", and decides nothing else.

    Args:
        estimator: Credit method.
        seed: Seed of the generator for an estimator that draws.
    """
    from verl.trainer.ppo import ray_trainer

    rng = np.random.default_rng(seed)

    def compute_advantage(data: Any, *_: Any, **__: Any) -> Any:
        if "response_mask" not in data.batch:
            data.batch["response_mask"] = ray_trainer.compute_response_mask(data)
        data.batch["returns"] = assign(data, estimator, rng).batch["advantages"]
        return data

    ray_trainer.compute_advantage = compute_advantage
