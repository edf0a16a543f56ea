"""verifiers: our environments as a taskset, and an advantage for each turn on its message nodes.

`vf-eval agent-envs-verifiers` and prime-rl find the taskset, the environment and the harness by the
module `agent_envs_verifiers`. The harness makes one chat completion a turn in this process; the
harnesses of verifiers start a program for each turn. Left out: images, and context "turn".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

import credit
from agent_envs.replies import join_thought
from agent_envs_adapters import check_attributes, check_call, use_peer
from agent_envs_adapters.episodes import text_episodes
from credit.rows import rows_of

with use_peer("verifiers", "0.4"):
    import verifiers.v1 as vf
    from openai import AsyncOpenAI
    from pydantic import Field
    from verifiers.v1.dialects.chat import message_to_wire

    message_to_wire(vf.UserMessage(content="text"))
    vf.ProgramResult(exit_code=0, stdout="", stderr="")
    check_call(vf.Trace.record_reward, None, "outcome", 0.0)
    check_call(vf.Trace.record_metrics, None, {})
    check_attributes(vf.Trace, "nodes", "info", "ok", "agent", "id")
    check_attributes(vf.Harness, "resolve_prompt")

if TYPE_CHECKING:
    import numpy as np

    from credit import Estimator
    from trainer.play.episode import TextEpisode

RECORDS, NODES = "turn_records", "turn_nodes"
"""Keys of `Trace.info`: the records of an episode's turns, and the nodes sampled in each turn."""


class AgentEnvsConfig(vf.TasksetConfig):
    """Options of the taskset, `--env.taskset.*` of `vf-eval`.

    Attributes:
        env: Registered id or "package.module:Class" of the environment.
        split: Split whose tasks are played.
        seed: Seed of the episodes' seeds. All episodes of a task have the same seed.
        options: Further options of `text_episodes`, e.g. {"max_turns": 20, "data": "embedded"}.
    """

    env: str = "AlfWorld-v0"
    split: str = "train"
    seed: int = 0
    options: dict[str, Any] = Field(default_factory=dict)


class AgentEnvsData(vf.TaskData):
    """A task: its id (`id`), and the seed of its episodes."""

    seed: int = 0


class AgentEnvsTask(vf.Task[AgentEnvsData]):
    """A task of an environment; the environment opens the conversation."""


class AgentEnvsTaskset(vf.Taskset[AgentEnvsTask, AgentEnvsConfig]):
    """The tasks of an environment's panel, in its order.

    Raises:
        ValueError: The environment or an option does not exist or does not fit.
    """

    def __init__(self, config: AgentEnvsConfig) -> None:
        super().__init__(config)
        self.episodes = text_episodes(config.env, split=config.split, **config.options)

    def load(self) -> Iterator[AgentEnvsTask]:
        """All tasks of the split."""
        for one in self.episodes.tasks(seed=self.config.seed):
            data = AgentEnvsData(id=one["task"], name=one["task"], seed=one["seed"])
            yield AgentEnvsTask(data, self.config.task)


class ChatHarness(vf.Harness[vf.HarnessConfig]):
    """Answers a turn by one chat completion on the whole conversation."""

    APPENDS_SYSTEM_PROMPT: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    EXECUTES_CODE: ClassVar[bool] = False
    NEEDS_CONTAINER: ClassVar[bool] = False

    @override
    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the conversation to the endpoint of verifiers, which records it in the trace."""
        system, said = self.resolve_prompt(data)
        messages = [message_to_wire(one) for one in said]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        async with AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            await client.chat.completions.create(model=ctx.model, messages=messages)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class AgentEnvsEnvConfig(vf.EnvConfig):
    """Options of the environment: the agent that plays, `--env.agent.*` of `vf-eval`."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class AgentEnvsEnv(vf.Env[AgentEnvsEnvConfig]):
    """Plays a task of an `AgentEnvsTaskset` turn by turn.

    The trace gets the reward `outcome`, the metrics `success`, `progress`, `valid` (share of turns)
    and `turn_reward` (sum), and in `Trace.info` the turn records.
    """

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Play one episode."""
        episodes = self.taskset.episodes
        episode = episodes.start(task=task.data.id, seed=task.data.seed)
        nodes: list[list[int]] = []
        try:
            async with agents.agent.interaction(task) as talk:
                while not episode.done:
                    seen = len(talk.trace.nodes)
                    segment = await talk.turn(episode.message)
                    if segment.terminated:
                        break
                    await episode.astep(_reply(segment))
                    new = range(seen, len(talk.trace.nodes))
                    nodes.append([at for at in new if talk.trace.nodes[at].sampled])
            episode.stop()
            _record(talk.trace, episode, nodes)
        finally:
            episodes.release(episode)


def _reply(segment: vf.Segment) -> str:
    """The reply as it was sampled, also where the client has taken the thoughts out."""
    last = segment.messages[-1]
    return join_thought(getattr(last, "reasoning_content", None) or "", segment.last_reply)


def _record(trace: vf.Trace, episode: TextEpisode, nodes: list[list[int]]) -> None:
    records = episode.records
    trace.info |= {RECORDS: [record.to_dict() for record in records], NODES: nodes}
    if trace.ok:
        trace.record_reward("outcome", episode.outcome)
        trace.record_metrics(
            {
                "success": episode.success,
                "progress": records[-1].progress if records else 0.0,
                "valid": sum(record.valid for record in records) / max(len(records), 1),
                "turn_reward": sum(record.reward for record in records),
            }
        )


def assign_advantages(
    estimator: Estimator, episodes: Iterable[vf.Episode], *, rng: np.random.Generator | None = None
) -> None:
    """Write the advantage of each turn to the tokens that were sampled in it.

    `MessageNode.advantages` of the sampled nodes is set. Traces that are not `ok`, or whose agent
    is not trainable, are left out and keep None.

    Args:
        estimator: E.g. `credit.make("gigpo")`.
        episodes: Episodes of `AgentEnvsEnv`, all of a group at once. A group is the consumer's
            `Episode.group`, or the episodes of one task where there is none.
        rng: For an estimator that draws.

    Raises:
        ValueError: A turn without tokens; and what `rows_of` and the estimator refuse.
    """
    played = [
        (episode.group.id if episode.group else episode.task.key, trace)
        for episode in episodes
        for trace in episode.traces
        if trace.ok and trace.agent.trainable
    ]
    if not played:
        return
    made = rows_of(
        [trace.info[RECORDS] for _, trace in played],
        [group for group, _ in played],
        trajectory=[trace.id for _, trace in played],
    )
    advantages = iter(made.advantage(credit.estimate(estimator, made.turns, rng)).tolist())
    for _, trace in played:
        for number, turn in enumerate(trace.info[NODES]):
            advantage = next(advantages)
            masks = [trace.nodes[at].mask for at in turn]
            if not any(map(any, masks)):
                raise ValueError(
                    f"turn {number} of trace {trace.id} has no sampled tokens; an endpoint returns "
                    'them with a client of type "train"'
                )
            for at, mask in zip(turn, masks, strict=True):
                trace.nodes[at].advantages = [advantage] * sum(mask)
