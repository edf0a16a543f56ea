"""NeMo Gym: our environments as a resources server of its `gymnasium_agent`.

NeMo Gym starts the `app.py` of a server's folder; docs/integrations/nemo_gym.md has it with its
configuration. Left out: images.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

import credit
from agent_envs.replies import join_thought
from agent_envs_adapters import check_attributes, check_call, use_peer
from agent_envs_adapters.episodes import Episodes, text_episodes
from credit.rows import rows_of

with use_peer("nemo-gym", "0.4"):
    from fastapi import HTTPException
    from nemo_gym.base_resources_server import BaseResourcesServerConfig
    from pydantic import Field, PrivateAttr
    from resources_servers.gymnasium import GymnasiumServer, extract_text

    check_call(GymnasiumServer.reset, None, {}, "session")
    check_call(GymnasiumServer.step, None, None, {}, "session")
    check_call(GymnasiumServer.close_session, None, "session")
    check_call(extract_text, None)
    check_attributes(GymnasiumServer, "session_state", "config")

if TYPE_CHECKING:
    import numpy as np
    from nemo_gym.openai_utils import NeMoGymResponse

    from credit import Estimator
    from trainer.play.episode import TextEpisode

RECORDS = "turn_records"
"""Key of `info`: the records of all turns so far."""
AGENT = "agent_envs_gymnasium_agent"
"""The agent's name in the configuration of the docs."""

Stepped = tuple[str | None, float, bool, bool, dict[str, Any]]


class AgentEnvsServerConfig(BaseResourcesServerConfig):
    """Configuration of the server.

    Attributes:
        env: Registered id or "package.module:Class" of the environment.
        options: As for `text_episodes`, e.g. {"split": "train", "max_turns": 30}.
        idle_seconds: An episode without a step for this long is given up at the next reset; the
            agent does not say when it ends one early.
    """

    env: str = "AlfWorld-v0"
    options: dict[str, Any] = Field(default_factory=dict)
    idle_seconds: float = 1800.0


class AgentEnvsServer(GymnasiumServer):
    """Serves episodes of one environment, each in a session of NeMo Gym.

    A step's reward is that of the turn, with the outcome on the last one; the agent adds them up.
    `info` has the environment's success and progress, and the records of all turns so far. The last
    one is marked as the end, so they are a whole episode also where the agent stops.
    """

    config: AgentEnvsServerConfig
    _episodes: Episodes = PrivateAttr()
    _used: dict[str | None, float] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any, /) -> None:
        """Make the episodes; an environment that does not exist is refused at the start."""
        super().model_post_init(context)
        self._episodes = text_episodes(self.config.env, **self.config.options)

    async def reset(
        self, metadata: Mapping[str, Any], session_id: str | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start the episode of the row's `task` and `seed`; a running one of the session ends."""
        now = time.monotonic()
        idle = [one for one, at in self._used.items() if now - at > self.config.idle_seconds]
        for one in {*idle, session_id}:
            await self.close_session(one)
        try:
            episode = self._episodes.start(task=metadata.get("task"), seed=metadata.get("seed"))
        except ValueError as error:
            raise HTTPException(status_code=400, detail=str(error)) from error
        self.session_state[session_id], self._used[session_id] = episode, now
        return episode.message, {"task_id": episode.task_id}

    @override
    async def step(
        self, action: NeMoGymResponse, metadata: Mapping[str, Any], session_id: str | None = None
    ) -> Stepped:
        """Play the text of a response."""
        episode: TextEpisode | None = self.session_state.get(session_id)
        if episode is None or episode.done:
            raise HTTPException(
                status_code=400, detail="no running episode in this session; call /reset first"
            )
        self._used[session_id] = time.monotonic()
        message, done = await episode.astep(_reply(action))
        last = episode.records[-1]
        info = {
            "success": episode.success,
            "progress": last.progress,
            RECORDS: [one.to_dict() for one in episode.stopped_records],
        }
        paid = last.reward + (last.outcome or 0.0)
        return (
            None if done else message,
            paid,
            done and not episode.truncated,
            episode.truncated,
            info,
        )

    async def close_session(self, session_id: str | None) -> None:
        """Give the session's environment back."""
        episode = self.session_state.get(session_id)
        self._used.pop(session_id, None)
        await super().close_session(session_id)
        if episode is not None:
            self._episodes.release(episode)


def _reply(response: NeMoGymResponse) -> str:
    """The text of a response, with the thoughts that a model server has taken out."""
    thoughts = "".join(
        part.text for item in response.output if item.type == "reasoning" for part in item.summary
    )
    text = extract_text(response)
    return join_thought(thoughts, text)


def dataset_rows(
    env: str, count: int = 0, *, seed: int = 0, agent: str = AGENT, **options: Any
) -> list[dict[str, Any]]:
    """Rows of NeMo Gym's data set; write them as JSON lines.

    Args:
        env: As in the server's configuration.
        count: Number of tasks, drawn; 0 takes all tasks of the split in order.
        seed: Seed of the draw and of the episodes' seeds.
        agent: Name of the agent in the configuration.
        options: As in the server's configuration.
    """
    reference = {"type": "responses_api_agents", "name": agent}
    return [
        {"responses_create_params": {"input": []}, "agent_ref": reference, **task}
        for task in text_episodes(env, **options).tasks(count, seed=seed)
    ]


def token_advantages(
    estimator: Estimator,
    results: Sequence[Mapping[str, Any]],
    uids: Sequence[str],
    *,
    rng: np.random.Generator | None = None,
) -> list[list[list[float]]]:
    """Advantages of generated tokens: for each result, for each turn, for each token.

    Args:
        estimator: E.g. `credit.make("gigpo")`.
        results: What the agent's `/run` returned, as mappings; a reply's tokens are
            `generation_token_ids` of an item of its output.
        uids: [M] text, the prompt of each result.
        rng: For an estimator that draws.

    Raises:
        ValueError: Replies with tokens that are not as many as the turn records; and what
            `rows_of` and the estimator refuse.
    """
    records = [result["info"].get(RECORDS, []) for result in results]
    table = rows_of(records, uids)
    advantages = iter(table.advantage(credit.estimate(estimator, table.turns, rng)).tolist())
    spread = []
    for at, result in enumerate(results):
        lengths = [
            len(item["generation_token_ids"])
            for item in result["response"]["output"]
            if item.get("generation_token_ids")
        ]
        if len(lengths) != len(records[at]):
            raise ValueError(
                f"result {at} has {len(lengths)} replies with tokens, but {len(records[at])} turn "
                f"records; give results of {AgentEnvsServer.__name__}, and let the model server "
                "return token ids (return_token_id_information)"
            )
        spread.append([[next(advantages)] * length for length in lengths])
    return spread
