"""AReaL: our environments as a workflow that plays a group, with the credit of a turn as reward.

AReaL gives each completion a reward of its own. Without critic, discount and normalization
(docs/integrations/areal.md) this reward is the advantage of all tokens of the completion. Left out:
images, and context "turn".
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import credit as estimators
from agent_envs_adapters import check_attributes, check_call, use_peer
from agent_envs_adapters.episodes import text_episodes
from credit.rows import rows_of

with use_peer("areal", "1.0"):
    from areal import workflow_context
    from areal.api import RolloutWorkflow
    from areal.api.cli_args import GenerationHyperparameters
    from areal.experimental.openai import ArealOpenAI
    from areal.utils import stats_tracker
    from areal.utils.hf_utils import apply_chat_template, load_hf_tokenizer

    check_call(ArealOpenAI, None, None, api_key="none")
    check_call(ArealOpenAI.set_reward, None, "id", 0.0)
    check_call(ArealOpenAI.export_interactions, None, "individual")
    check_call(apply_chat_template, None, [], tokenize=True, add_generation_prompt=True)
    check_attributes(
        GenerationHyperparameters, "max_new_tokens", "temperature", "top_p", "n_samples"
    )

if TYPE_CHECKING:
    from credit import Estimator
    from trainer.play.episode import TextEpisode


class AgentEnvsWorkflow(RolloutWorkflow):
    """Plays all episodes of a group, and rewards each completion with the credit of its turn.

    A row of AReaL's data set is `{"task": an id, "seed": a number}`, as `Episodes.tasks` returns
    them. Outcome, success and number of turns go to AReaL's statistics.

    Args:
        env: Registered id or "package.module:Class" of the environment.
        credit: Name of a method, see `credit.names()`, or an estimator.
        tokenizer: AReaL's tokenizer, or its path.
        gconfig: AReaL's options of generation; of these, the new tokens of a reply, temperature
            and top_p. Its `n_samples` must be 1.
        group_size: Episodes of a group.
        max_tokens: Tokens of a conversation. An episode without room for another reply ends.
        credit_options: Options of a method given by name.
        options: As for `text_episodes`, e.g. {"split": "train", "max_turns": 30}.
        seed: Seed of the generator of a method that draws.

    Raises:
        ValueError: The environment or the method does not exist or does not fit, or AReaL would
            play a group of groups.
    """

    def __init__(
        self,
        env: str,
        *,
        credit: str | Estimator,
        tokenizer: Any,
        gconfig: GenerationHyperparameters,
        group_size: int,
        max_tokens: int = 16_384,
        credit_options: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        if gconfig.n_samples != 1:
            raise ValueError(
                f"gconfig.n_samples must be 1, because a whole group is played at once, got "
                f"{gconfig.n_samples}; give the number of episodes as group_size"
            )
        named = isinstance(credit, str)
        self.estimator: Any = (
            estimators.make(credit, **(credit_options or {})) if named else credit  # type: ignore[arg-type]
        )
        self.episodes = text_episodes(env, **(options or {}))
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.gconfig, self.group_size, self.max_tokens = gconfig, group_size, max_tokens
        self.rng = np.random.default_rng(seed)

    async def arun_episode(self, engine: Any, data: Mapping[str, Any]) -> dict[str, Any] | None:
        """AReaL's interactions of a group by their ids; None if no first prompt fits."""
        task = {name: data[name] for name in ("task", "seed")}
        clients = [
            ArealOpenAI(engine, self.tokenizer, api_key="none") for _ in range(self.group_size)
        ]
        played = await asyncio.gather(*(self._play(client, task) for client in clients))
        table = rows_of([records for records, _ in played], ["one group"] * len(played))
        advantages = iter(estimators.estimate(self.estimator, table.turns, self.rng).tolist())
        found: dict[str, Any] = {}
        for client, (_, ids) in zip(clients, played, strict=True):
            for one in ids:
                client.set_reward(one, next(advantages))
            found |= client.export_interactions("individual")
        return found or None

    async def _play(self, client: ArealOpenAI, task: dict[str, Any]) -> tuple[list[Any], list[str]]:
        """The records of an episode, and the id of each turn's completion."""
        episode = self.episodes.start(**task)
        messages: list[dict[str, Any]] = []
        ids: list[str] = []
        try:
            while not episode.done:
                messages.append({"role": "user", "content": episode.message})
                if not self._fits(messages):
                    episode.stop()
                    break
                completion = await client.chat.completions.create(
                    messages=messages,
                    temperature=self.gconfig.temperature,
                    top_p=self.gconfig.top_p,
                    max_completion_tokens=self.gconfig.max_new_tokens,
                )
                reply = completion.choices[0].message
                messages.append(reply.model_dump(exclude_none=True))
                ids.append(completion.id)
                await episode.astep(reply.content or "")
            _record(episode)
            return episode.records, ids
        finally:
            self.episodes.release(episode)
            await client.close()

    def _fits(self, messages: list[dict[str, Any]]) -> bool:
        """Whether the conversation leaves room for a reply."""
        prompt = apply_chat_template(
            self.tokenizer, messages, tokenize=True, add_generation_prompt=True
        )
        fits: bool = len(prompt) + self.gconfig.max_new_tokens <= self.max_tokens
        return fits


def _record(episode: TextEpisode) -> None:
    stats_tracker.get(workflow_context.stat_scope()).scalar(
        reward=episode.outcome, success=float(episode.success), num_turns=len(episode.records)
    )
