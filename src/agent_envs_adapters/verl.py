"""verl: environments as an agent loop, and credit methods as advantage estimators.

verl loads this module itself, as a plug-in (entry point `verl.plugins`). It registers

* the agent loop `agent_envs`, which plays an episode through verl's tokens-in, tokens-out server,
* an advantage estimator `credit_NAME` for each credit method, and
* the trainers `credit_sync`, `credit_colocate_async` and `credit_separate_async`, which are verl's
  own, except that they give the turn records to these estimators: verl passes them only rewards,
  masks and uids.

Left out: images, and verl's deprecated trainer with context "turn", where a row is a turn.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

import credit
from agent_envs_adapters import check_attributes, check_call, use_peer
from agent_envs_adapters.episodes import Episodes, require_text
from credit.rows import rows_of, spans_of

try:
    with use_peer("verl", "0.9"):
        from verl import DataProto
        from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register
        from verl.trainer.ppo.core_algos import register_adv_est
        from verl.utils.profiler import simple_timer

        with simple_timer("tool_calls", {}):
            AgentLoopOutput(
                prompt_ids=[1],
                response_ids=[2],
                response_mask=[1],
                response_logprobs=None,
                reward_score=0.0,
                num_turns=2,
                metrics={},
                extra_fields={},
            )
        check_call(AgentLoopBase.ct_build_initial_tokens, None, [])
        check_call(AgentLoopBase.ct_merge_context_msg, None, [], [], [], [], None)
        check_call(
            AgentLoopBase.ct_merge_assistant_token, None, [], [], [], None, assistant_logprobs=None
        )
        check_attributes(AgentLoopBase, "rollout_config", "server_manager", "tokenizer")
        check_call(DataProto, None, {})
except ImportError as error:  # verl hides why a plug-in cannot be loaded
    logging.getLogger(__name__).warning("the verl plug-in of agent-envs is off: %s", error)
    raise

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.play.episode import TextEpisode

AGENT = "agent_envs"
"""Name of the agent loop, verl's `agent_name`."""
PREFIX = "credit_"
"""Prefix of the names of estimators and trainers."""
MODES = ("sync", "colocate_async", "separate_async")
"""verl's modes of its trainers."""
_recorded: ContextVar[tuple[DataProto, np.random.Generator] | None] = ContextVar(
    "recorded", default=None
)
"""Batch with turn records that a trainer of this module gives to an estimator, and its `rng`."""


def write_tasks(
    path: str | Path,
    env: str,
    *,
    count: int = 0,
    seed: int = 0,
    max_reply_tokens: int = 512,
    **options: Any,
) -> Path:
    """Write tasks of an environment as verl's `data.train_files` or `data.val_files`.

    Needs pyarrow.

    Args:
        path: Parquet file to write.
        env: Environment, as in `Episodes`.
        count: Number of tasks, see `Episodes.tasks`; 0 for the whole split.
        seed: Seed of the draw and of the episodes' seeds.
        max_reply_tokens: Tokens after which a reply is cut.
        options: Further arguments of `Episodes`, as JSON values.

    Raises:
        ValueError: The environment shows images.
        ValueError: As `Episodes` does.
    """
    import pyarrow as pa
    from pyarrow import parquet

    arguments = json.dumps({"env": env, **options})
    episodes = Episodes(env, **options)
    table: list[dict[str, Any]] = []
    for index, task in enumerate(episodes.tasks(count, seed=seed)):
        episode = episodes.start(**task)
        require_text(episode)
        table.append(
            {
                "data_source": env,
                "agent_name": AGENT,
                "prompt": [{"role": "user", "content": episode.message}],
                "reward_model": {"style": "rule", "ground_truth": ""},
                "extra_info": {
                    "index": index,
                    "episodes": arguments,
                    "max_reply_tokens": max_reply_tokens,
                    "task": task["task"],
                    "seed": task["seed"],
                },
            }
        )
        episodes.release(episode)
    episodes.close()
    parquet.write_table(pa.Table.from_pylist(table), path)
    return Path(path)


@cache
def _episodes(arguments: str) -> Episodes:
    """Episodes of a data set; one for all loops of this process."""
    return Episodes(**json.loads(arguments))


@register(AGENT)
class EpisodeLoop(AgentLoopBase):
    """Plays the task of a row of `write_tasks`.

    With context "history" an episode is one output: replies, and between them the environment's
    messages, which are masked. With context "turn" it is one output for each turn, which verl's v1
    trainers accept. Earlier messages of the row's prompt, such as a system prompt, are kept.

    `rollout.response_length` limits the tokens of an output. An episode without room for another
    reply of `max_reply_tokens` ends as truncated.

    Raises:
        ValueError: There is no room for a first reply, or context "turn" in the deprecated trainer.
    """

    async def run(
        self, sampling_params: dict[str, Any], priority: int = 0, **row: Any
    ) -> AgentLoopOutput | list[AgentLoopOutput]:
        """Play one episode; `extra_fields` has its `turn_records` and its id, `trajectory`."""
        task = row["extra_info"]
        source = _episodes(task["episodes"])
        context = source.prompt.context
        if context == "turn" and "session_id" not in row:
            raise ValueError(
                "context='turn' makes an output of each turn, which only verl's v1 trainers take; "
                "set trainer.use_v1=True, or write the data set with context='history'"
            )
        self.reply_tokens = int(task["max_reply_tokens"])
        if self.reply_tokens > (most := self.rollout_config.response_length):
            raise ValueError(
                f"rollout.response_length={most} leaves no room for a reply of "
                f"{self.reply_tokens} tokens; raise it, or lower max_reply_tokens of write_tasks"
            )
        sample = partial(
            self.server_manager.generate,
            request_id=uuid4().hex,
            sampling_params=sampling_params | {"max_tokens": self.reply_tokens},
            priority=int(priority),
        )
        before = list(row["raw_prompt"])[:-1]
        episode = source.start(task=task["task"], seed=int(task["seed"]))
        played = []
        try:
            while not episode.done:
                played.append(await self._play(episode, before, sample, context))
        finally:
            source.release(episode)
        outputs = _outputs(episode, played)
        return outputs if context == "turn" else outputs[0]

    async def _play(
        self, episode: TextEpisode, before: list[Any], sample: Callable[..., Any], context: str
    ) -> _Tokens:
        """Play the rest of the episode, or one turn of it, as one sequence of tokens."""
        messages = [*before, {"role": "user", "content": episode.message}]
        tokens = _Tokens(await self.ct_build_initial_tokens(messages))
        while True:
            reply = await self._reply(tokens, sample)
            with simple_timer("tool_calls", tokens.metrics):
                message, done = await episode.astep(reply)
            if done or context == "turn":
                return tokens
            messages.append({"role": "assistant", "content": reply})
            asked = [*messages, {"role": "user", "content": message}]
            merged, mask, logprobs = await self.ct_merge_context_msg(
                messages, asked, tokens.ids, tokens.mask, tokens.logprobs
            )
            if len(mask) + self.reply_tokens > self.rollout_config.response_length:
                episode.stop()
                return tokens
            start, end = tokens.spans[-1]
            tokens.spans[-1] = start, end - merged.removed_prefix_token_count
            tokens.ids, tokens.mask, tokens.logprobs = merged.token_ids, mask, logprobs
            messages = asked

    async def _reply(self, tokens: _Tokens, sample: Callable[..., Any]) -> str:
        """Sample a reply: its text, without the end token."""
        with simple_timer("generate_sequences", tokens.metrics):
            sampled = await sample(prompt_ids=tokens.ids)
        ids, given = list(sampled.token_ids), list(sampled.log_probs or ())
        if len(given) != len(ids):
            tokens.logprobs = None
        merged, tokens.mask, tokens.logprobs = await self.ct_merge_assistant_token(
            tokens.ids,
            ids,
            tokens.mask,
            tokens.logprobs,
            assistant_logprobs=None if tokens.logprobs is None else given,
        )
        tokens.ids = merged.token_ids
        tokens.spans.append((len(tokens.mask) - len(ids), len(tokens.mask)))
        first = {name: tokens.steps[name] for name in ("min_global_steps",) if name in tokens.steps}
        tokens.steps = {**sampled.extra_fields, **first}
        return self._text(ids)

    def _text(self, ids: list[int]) -> str:
        """Text of a reply without its end token; a tag such as `</action>` may be a token, too."""
        decode = partial(self.tokenizer.decode, clean_up_tokenization_spaces=False)
        ends = ids[-1:] and ids[-1] in self.tokenizer.all_special_ids
        if ends and (ids[-1] == self.tokenizer.eos_token_id or decode(ids[-1:])[:2] != "</"):
            ids = ids[:-1]
        return str(decode(ids))


@dataclass
class _Tokens:
    """Tokens of one output."""

    ids: list[int]
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    steps: dict[str, Any] = field(default_factory=dict)


def _outputs(episode: TextEpisode, played: Sequence[_Tokens]) -> list[AgentLoopOutput]:
    """Outputs of an episode that has ended, with the turns of each."""
    records, trajectory = iter(episode.records), uuid4().hex
    logged = {
        "success": float(episode.success),
        "valid_turns": float(np.mean([record.valid for record in episode.records])),
        "turns": len(episode.records),
    }
    outputs = []
    for tokens in played:
        turns = [replace(next(records), span=span).to_dict() for span in tokens.spans]
        first = len(tokens.ids) - len(tokens.mask)
        outputs.append(
            AgentLoopOutput(
                prompt_ids=tokens.ids[:first],
                response_ids=tokens.ids[first:],
                response_mask=tokens.mask,
                response_logprobs=tokens.logprobs,
                reward_score=episode.outcome,
                num_turns=2 * len(turns),
                metrics=tokens.metrics,
                extra_fields={
                    **tokens.steps,
                    "turn_records": turns,
                    "trajectory": trajectory,
                    "reward_extra_info": logged,
                    "turn_scores": [],
                    "tool_rewards": [],
                },
            )
        )
    return outputs


def assign(
    data: DataProto, estimator: credit.Estimator, rng: np.random.Generator | None = None
) -> DataProto:
    """Put the credit of each turn at its tokens: `advantages` of a batch.

    Args:
        data: Batch with `response_mask`, [B, T], and the columns `uid`, `turn_records` and
            `trajectory` that the agent loop fills.
        estimator: Credit method.
        rng: For an estimator that draws.

    Raises:
        ValueError: The batch has no turn records, or no spans; and what `credit.rows_of`,
            `Rows.scatter` and the estimator refuse.
    """
    columns = data.non_tensor_batch
    if missing := [name for name in ("turn_records", "trajectory", "uid") if name not in columns]:
        raise ValueError(
            f"the batch has no {missing[0]}; set agent_name to {AGENT!r} in the data set, as "
            f"write_tasks does, and use one of the trainers {', '.join(map(PREFIX.__add__, MODES))}"
        )
    records = columns["turn_records"]
    rows = rows_of(records, columns["uid"], trajectory=columns["trajectory"])
    data.batch["advantages"] = rows.scatter(
        credit.estimate(estimator, rows.turns, rng), data.batch["response_mask"], spans_of(records)
    )
    return data


def _register_estimator(name: str) -> None:
    """Register a credit method as verl's advantage estimator `credit_NAME`."""

    def estimate(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        config: Any = None,
        index: Any = None,
        *,
        batch: Any = None,
        non_tensor_batch: Any = None,
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        """Advantages, twice; options of the method are in `algorithm.credit`: [B, T], [B, T]."""
        method = credit.make(name, **((config or {}).get("credit") or {}))
        given = _recorded.get()
        if given is None and "turn_records" in (non_tensor_batch or {}):  # verl's pull request 7473
            given = DataProto(batch.copy(), non_tensor_batch), np.random.default_rng(0)
        if given is not None:
            assigned = assign(given[0], method, given[1]).batch["advantages"]
        else:
            assigned = _from_rewards(method, token_level_rewards, response_mask, index)
        assigned = assigned * response_mask  # verl's rollout correction leaves tokens out
        return assigned, assigned

    register_adv_est(PREFIX + name)(estimate)


def _from_rewards(method: credit.Estimator, rewards: Tensor, mask: Tensor, uid: Any) -> Tensor:
    """Credit without turn records: a row's replies are its turns, its rewards the outcome."""
    spans = [
        (row, turn, *span)
        for row, kinds in enumerate(mask.tolist())
        for turn, span in enumerate(_runs(kinds))
    ]
    outcome = rewards.sum(dim=-1).tolist()
    try:
        rows = credit.rows(
            uid=[uid[row] for row, *_ in spans],
            trajectory=[row for row, *_ in spans],
            step=[turn for _, turn, *_ in spans],
            outcome=[outcome[row] for row, *_ in spans],
        )
        advantage = method(rows.turns, None)
    except credit.MissingColumn as error:
        raise credit.MissingColumn(
            f"{error}; verl gives an estimator no turn records: play with the agent loop "
            f"{AGENT!r}, and set trainer.v1.trainer_mode={PREFIX}sync, which passes them"
        ) from error
    assigned: Tensor = rows.scatter(advantage, mask, [(row, *span) for row, _, *span in spans])
    return assigned


def _runs(kinds: Sequence[int]) -> list[tuple[int, int]]:
    """First and end of each run of ones."""
    edges = np.flatnonzero(np.diff([0, *kinds, 0]))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _register_trainers() -> None:
    """Register verl's trainers with turn records; they need its TransferQueue."""
    import transfer_queue as tq
    from verl.trainer.ppo import v1

    def register(mode: str, trainer: type[Any]) -> None:
        class Recorded(trainer):
            """A trainer of verl that gives turn records to the advantage estimator."""

            def __init__(self, config: Any) -> None:
                if config.algorithm.use_kl_in_reward:
                    raise ValueError(
                        "algorithm.use_kl_in_reward=True changes rewards of tokens, which the "
                        "credit of turns does not read; set it to False and "
                        "actor_rollout_ref.actor.use_kl_loss=True"
                    )
                config.trainer.v1.trainer_mode = mode  # verl asks for the names of its own
                super().__init__(config)

            def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
                stored = tq.kv_batch_get(
                    keys=batch.keys,
                    partition_id=batch.partition_id,
                    select_fields=["uid", "response_mask", "extra_fields", "entropy"],
                )
                rng = np.random.default_rng([self.global_steps, self.local_trigger_step])
                token = _recorded.set((_with_records(stored, batch.tags), rng))
                try:
                    return super()._compute_advantage(batch, metrics)
                finally:
                    _recorded.reset(token)

        v1.register_trainer(PREFIX + mode)(Recorded)

    for mode in MODES:
        register(mode, v1.get_trainer_cls(mode))


def _with_records(stored: Any, tags: Sequence[Mapping[str, Any]]) -> DataProto:
    """The batch that `assign` reads, from what the agent loops stored.

    Rows that fill up the batch have no turns. Turns get the entropy that the trainer computed.
    """
    played, uid = (stored.pop(name).tolist() for name in ("extra_fields", "uid"))
    padded = stored.to_padded_tensor()
    mask, columns = padded.select("response_mask"), {"uid": np.array(uid, dtype=object)}
    of_turns = {name: np.empty(len(tags), dtype=object) for name in ("turn_records", "trajectory")}
    for row, (one, tag) in enumerate(zip(played, tags, strict=True)):
        records = [] if tag.get("is_padding") else one.get("turn_records")
        if records is None:  # of another agent loop, which `assign` refuses
            return DataProto(mask, columns)
        if "entropy" in padded:
            means = [padded["entropy"][row, slice(*record["span"])].mean() for record in records]
            records = [
                record | {"entropy": float(mean)}
                for record, mean in zip(records, means, strict=True)
            ]
        of_turns["turn_records"][row], of_turns["trajectory"][row] = records, one["trajectory"]
    return DataProto(mask, columns | of_turns)


for _name in credit.names():
    _register_estimator(_name)
if find_spec("transfer_queue"):
    _register_trainers()
