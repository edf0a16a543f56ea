"""TRL: environments as a `rollout_func`, and a `GRPOTrainer` with an advantage for each turn.

A completion is a whole conversation: replies, and between them the environment's messages, which
are masked. Replies are sampled by TRL's own generation, so its settings hold, and their tokens stay
as they were sampled. Left out: images, and context "turn", whose prompts are no single completion.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import credit as estimators
from agent_envs.vector import call_concurrently, waits
from agent_envs_adapters import check_attributes, check_call, use_peer
from agent_envs_adapters.episodes import require_text
from credit.rows import TurnRecord, token_advantages
from trainer.model.chat import Chat
from trainer.model.pretrained import count_positions

with use_peer("trl", "1.16"):
    from accelerate.utils import gather_object
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    check_call(GRPOTrainer, None, None, None, rollout_func=None)
    check_call(GRPOTrainer._generate_single_turn, None, [], None, {}, 1)  # noqa: SLF001
    check_call(GRPOTrainer._generate_and_score_completions, None, [])  # noqa: SLF001
    check_call(
        GRPOTrainer._get_per_token_logps_and_entropies,  # noqa: SLF001
        *(None, None, None, None, 1),
        batch_size=1,
        compute_entropy=True,
    )
    check_attributes(
        GRPOTrainer,
        *("_tokenizer", "_metrics", "_step", "eos_token_ids", "generation_config", "use_vllm"),
        *("num_generations", "num_generations_eval", "max_completion_length"),
    )
    check_attributes(
        GRPOConfig, "mask_truncated_completions", "gradient_accumulation_steps", "seed"
    )

if TYPE_CHECKING:
    from agent_envs_adapters.episodes import Episodes
    from trainer.play.episode import TextEpisode

_NO_RECORDS = (
    "the rollout_func must return the TurnRecords of each completion, at least one, as 'records', "
    "as Rollout does"
)


def dataset(episodes: Episodes, count: int = 0, *, seed: int = 0) -> Dataset:
    """Tasks as TRL's `train_dataset` or `eval_dataset`; a prompt is the JSON of a task.

    `count` and `seed` are those of `Episodes.tasks`.
    """
    tasks = episodes.tasks(count, seed=seed)
    return Dataset.from_list([{"prompt": json.dumps(task)} for task in tasks])


def outcome(records: Sequence[Sequence[TurnRecord]] | None = None, **_: Any) -> list[float | None]:
    """TRL's `reward_funcs` for a `Rollout`: the outcome of each episode."""
    return [turns[-1].outcome for turns in _read_records(records)]


class Rollout:
    """Plays the tasks of the prompts: TRL's `rollout_func`.

    `max_completion_length` of `GRPOConfig` limits the tokens of a whole episode after its first
    prompt. An episode without room for another reply ends as truncated.

    Args:
        episodes: Episodes of the training tasks, with context "history".
        max_reply_tokens: Tokens after which a reply is cut.
        held_out: Episodes of the tasks of `eval_dataset`; None for `episodes`.

    Raises:
        ValueError: Another context. At the call: a prompt that `dataset` did not make, images, a
            first prompt that leaves no room for a reply, or a model that does not stop after one.
    """

    def __init__(
        self, episodes: Episodes, *, max_reply_tokens: int = 512, held_out: Episodes | None = None
    ) -> None:
        for one in (episodes, held_out or episodes):
            one.require_context("history", "a completion of TRL is one sequence")
        self.episodes, self.held_out = episodes, held_out or episodes
        self.max_reply_tokens = max_reply_tokens
        self._chat: Chat | None = None

    def __call__(self, prompts: Sequence[str], trainer: GRPOTrainer) -> dict[str, Any]:
        """Play one episode for each prompt.

        Returns:
            TRL's `prompt_ids`, `completion_ids`, `env_mask` (1 for replies) and `logprobs` (0 for
            the environment's tokens; None without vLLM, where TRL computes them itself), and
            `records`, the turns of each episode with their spans in `completion_ids`.
        """
        episodes = self.episodes if trainer.model.training else self.held_out
        chat = self._load_chat(trainer)
        room = self._room(trainer)
        played: list[_Played] = []
        try:
            started = (episodes.start(**_read_task(prompt)) for prompt in prompts)
            played.extend(_Played(episode, chat, room) for episode in started)
            while rows := _most(trainer, sum(not one.episode.done for one in played)):
                self._turn(
                    [one for one in played if not one.episode.done], played[0], rows, trainer
                )
        finally:
            for one in played:
                episodes.release(one.episode)
        sampled = any(one.logprobs for one in played)
        return {
            "prompt_ids": [one.prompt_ids for one in played],
            "completion_ids": [one.completion_ids for one in played],
            "logprobs": [one.logprobs for one in played] if sampled else None,
            "env_mask": [one.mask for one in played],
            "records": [one.records for one in played],
        }

    def _turn(
        self, playing: Sequence[_Played], spare: _Played, rows: int, trainer: GRPOTrainer
    ) -> None:
        """Sample a reply for each running episode and step it.

        TRL's server mode, and sharded weights, need calls of equal size in all processes, so others
        than the largest repeat the first prompt of `spare`.
        """
        prompts = [one.prompt_ids + one.completion_ids for one in playing]
        prompts += [spare.prompt_ids] * (rows - len(playing))
        with _at_most(trainer, self.max_reply_tokens):
            generate = trainer._generate_single_turn  # noqa: SLF001 - what TRL's own tool loop calls
            replies, logprobs = generate(prompts, None, {}, 1)
        steps = [
            partial(one.take, list(replies[row]), None if logprobs is None else logprobs[row])
            for row, one in enumerate(playing)
        ]
        if any(waits(one.episode.env) for one in playing):
            call_concurrently(steps)
        else:
            for step in steps:
                step()

    def _load_chat(self, trainer: GRPOTrainer) -> Chat:
        """Token pieces of conversations, by the trainer's tokenizer."""
        tokenizer = trainer._tokenizer  # noqa: SLF001 - also that of a processor
        if self._chat is None or self._chat.tokenizer is not tokenizer:
            self._chat = Chat(tokenizer)
            if self._chat.end not in trainer.eos_token_ids:
                raise ValueError(
                    f"the chat template ends a reply with {tokenizer.decode([self._chat.end])!r}, "
                    "which does not stop generation; add its id to "
                    "model.generation_config.eos_token_id"
                )
        return self._chat

    def _room(self, trainer: GRPOTrainer) -> tuple[int, int]:
        """Tokens that a prompt and a completion may have before a reply: in all, and without it."""
        longest = count_positions(trainer.model.config) or 2**31
        if trainer.use_vllm and trainer.vllm_mode == "colocate":
            longest = trainer.vllm_generation.llm.llm_engine.model_config.max_model_len
        return (
            longest - self.max_reply_tokens,
            trainer.max_completion_length - self.max_reply_tokens,
        )


class _Played:
    """One episode and its tokens."""

    def __init__(self, episode: TextEpisode, chat: Chat, room: tuple[int, int]) -> None:
        self.episode, self.chat, self.room = episode, chat, room
        require_text(episode)
        self.prompt_ids = list(chat.opening(episode.message))
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float | None] = []
        self.spans: list[tuple[int, int]] = []
        if not self._fits(0):
            raise ValueError(
                f"the first prompt of {episode.task_id!r} has {len(self.prompt_ids)} tokens and "
                f"leaves no room for a reply: the model's positions have {room[0]} for the prompt, "
                f"and max_completion_length {room[1]} beside the reply; lower max_reply_tokens"
            )

    @property
    def records(self) -> list[TurnRecord]:
        """The turns so far, with their spans."""
        records = self.episode.records
        return [replace(one, span=span) for one, span in zip(records, self.spans, strict=True)]

    def take(self, reply: list[int], logprobs: Sequence[float | None] | None) -> None:
        """Step with a reply, and append it and, if the episode goes on, the next message."""
        start = len(self.completion_ids)
        self._append(reply, 1, logprobs)
        self.spans.append((start, len(self.completion_ids)))
        message, done = self.episode.step(self.chat.text(reply))
        if done:
            return
        after = self.chat.after(reply, message)
        if self._fits(len(after)):
            self._append(after, 0, None if logprobs is None else [0.0] * len(after))
        else:
            self.episode.stop()

    def _append(
        self, ids: Sequence[int], kind: int, logprobs: Sequence[float | None] | None
    ) -> None:
        self.completion_ids += ids
        self.mask += [kind] * len(ids)
        self.logprobs += logprobs or ()

    def _fits(self, more: int) -> bool:
        """Whether `more` tokens and another reply fit."""
        completion = len(self.completion_ids) + more
        whole, after_prompt = self.room
        return len(self.prompt_ids) + completion <= whole and completion <= after_prompt


def _read_task(prompt: Any) -> dict[str, Any]:
    """The keyword arguments of `Episodes.start` in a prompt."""
    try:
        return dict(json.loads(prompt))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the prompt {prompt!r:.80} is no task of an environment; make the data set with "
            "agent_envs_adapters.trl.dataset(episodes)"
        ) from error


def _read_records(given: Any) -> list[list[TurnRecord]]:
    """The records of each completion."""
    if not given or not all(isinstance(turns, list | tuple) and turns for turns in given):
        raise ValueError(f"got the records {given!r:.60}; {_NO_RECORDS}")
    return [[TurnRecord.of(one) for one in turns] for turns in given]


def _most(trainer: GRPOTrainer, count: int) -> int:
    """The largest count of all processes."""
    return max(gather_object([count])) if trainer.accelerator.num_processes > 1 else count


@contextmanager
def _at_most(trainer: GRPOTrainer, tokens: int) -> Iterator[None]:
    """Limit TRL's generation to this number of tokens."""
    limited, name = (
        (trainer.vllm_generation, "max_completion_length")
        if trainer.use_vllm
        else (trainer.generation_config, "max_new_tokens")
    )
    before = getattr(limited, name)
    setattr(limited, name, tokens)
    try:
        yield
    finally:
        setattr(limited, name, before)


class CreditGRPOTrainer(GRPOTrainer):
    """`GRPOTrainer` whose advantage is that of a credit method, turn by turn.

    The turns of whole groups are gathered from all processes, and each process computes the same
    advantages. Reward functions are logged and do not change them.

    Args:
        model: As for `GRPOTrainer`.
        reward_funcs: As for `GRPOTrainer`; what it logs.
        args: As for `GRPOTrainer`.
        credit: Name of a method, see `credit.names()`, or an estimator.
        credit_options: Options of a method given by name.
        rollout_func: `Rollout`, or a function that returns `records` as it does.
        options: Further arguments of `GRPOTrainer`.

    Raises:
        ValueError: An unknown method or option, or `mask_truncated_completions`.
            While training: completions without records, spans that do not match the mask, or an
            environment that does not report what the method reads, e.g. scores where MGR needs
            success.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = outcome,
        args: GRPOConfig | None = None,
        *,
        credit: str | estimators.Estimator = "mgr",
        credit_options: Mapping[str, Any] | None = None,
        rollout_func: Any,
        **options: Any,
    ) -> None:
        if isinstance(credit, str):
            credit = estimators.make(credit, **(credit_options or {}))
        elif credit_options:
            raise ValueError(f"credit_options belong to a method by name, got {credit!r:.200}")
        if args is not None and args.mask_truncated_completions:
            raise ValueError(
                "mask_truncated_completions=True would drop whole episodes whose last reply was "
                "cut; with turns a cut reply is an invalid turn, so set it to False"
            )
        self.credit = credit
        super().__init__(model, reward_funcs, args, rollout_func=rollout_func, **options)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's batch, with [B, T] advantages."""
        first, uid = self._number_groups(len(inputs))
        out: dict[str, Any] = super()._generate_and_score_completions(inputs)
        records = _read_records([row.get("records") for row in inputs])
        if "entropy" in getattr(self.credit, "needs", ()):
            records = self._with_entropy(records, out)
        everyone = gather_object(records)
        mask = out["completion_mask"] * out.get("tool_mask", 1)
        # A generator of the step has no state that a checkpoint would have to hold.
        step = self._step % self.args.gradient_accumulation_steps
        rng = np.random.default_rng([self.args.seed, self.state.global_step, step])
        out["advantages"] = token_advantages(self.credit, everyone, uid, mask, first=first, rng=rng)
        self._log(everyone)
        return out

    def _number_groups(self, count: int) -> tuple[int, list[int]]:
        """Number of this process's first completion among all, and the group of every completion.

        TRL's sampler gives whole groups, one after another.
        """
        size = self.num_generations if self.model.training else self.num_generations_eval
        counts = gather_object([count])
        first = sum(counts[: self.accelerator.process_index])
        return first, [row // size for row in range(sum(counts))]

    def _with_entropy(
        self, records: Sequence[Sequence[TurnRecord]], out: Mapping[str, Any]
    ) -> list[list[TurnRecord]]:
        """Records with the mean token entropy of the replies, from a forward pass."""
        kind = "train" if self.model.training else "eval"
        size = getattr(self.args, f"per_device_{kind}_batch_size")
        with torch.no_grad():
            _, entropies, _ = self._get_per_token_logps_and_entropies(
                self.model,
                torch.cat([out["prompt_ids"], out["completion_ids"]], dim=1),
                torch.cat([out["prompt_mask"], out["completion_mask"]], dim=1),
                out["completion_ids"].size(1),
                batch_size=size,
                compute_entropy=True,
            )
        return [
            [
                replace(one, entropy=float(row[slice(*one.span)].mean())) if one.span else one
                for one in turns
            ]
            for turns, row in zip(records, entropies, strict=True)
        ]

    def _log(self, episodes: Sequence[Sequence[TurnRecord]]) -> None:
        """Log success, valid turns and turns of an episode."""
        turns = [turn for episode in episodes for turn in episode]
        metrics = self._metrics["train" if self.model.training else "eval"]
        metrics["success"].append(float(np.mean([bool(one[-1].success) for one in episodes])))
        metrics["valid_turns"].append(float(np.mean([turn.valid for turn in turns])))
        metrics["turns"].append(len(turns) / len(episodes))
