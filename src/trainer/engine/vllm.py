"""vLLM as engine: in this process, or servers started by `vllm serve`.

Prompts and replies are tokens. Conversations are sent whole; vLLM's prefix cache encodes what is
new. There is no lock step: a reply is drawn as soon as it is asked for. After each sync a canary
compares vLLM's log-probabilities with the policy's. Left out: images, and constrained decoding,
whose choices vLLM cuts into other tokens than training does.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from agent_envs.assets import require
from agent_envs.vector import run_coroutine
from trainer.engine import (
    Decoding,
    EngineError,
    EngineOptions,
    Prompt,
    Reply,
    StaleWeights,
    check_length,
)
from trainer.engine.servers import SCORE, Servers
from trainer.engine.worker import WORKER
from trainer.learn.rows import Row, join_values
from trainer.learn.update import recompute_logprobs
from trainer.scale import parallel

if TYPE_CHECKING:
    from trainer.model.chat import Chat
    from trainer.model.policy import Policy

_CANARY = Decoding(temperature=0.7, max_reply_tokens=8)  # not 1: raw log-probabilities differ
_CANARIES = 4
_SHIFT, _ERRORS = 1e-3, 4.0  # nats and standard errors by which drawn tokens may be likelier
_TOKENS = 1 << 16  # of the canary's one batch
_WHOLE: dict[str, Any] = dict.fromkeys(("top_p", "repetition_penalty"), 1.0) | dict.fromkeys(
    ("top_k", "min_p", "presence_penalty", "frequency_penalty"), 0
)
"""What would change the distribution; a server takes what is not given from the model's files."""
_NOISE, _LEAST = 0.5, 0.05  # of the weights' deviation, in the proof that the servers follow


class VLLMEngine:
    """Samples by vLLM.

    Args:
        policy: The policy whose weights it samples with.
        options: Where it runs.
        folder: Folder for weights on their way to servers.
        version: Version of the weights.

    Attributes:
        backend: vLLM.

    Raises:
        ValueError: The policy reads images, or an option is invalid.
        EngineError: vLLM is not installed, or a server does not answer or has another model.
        StaleWeights: vLLM does not follow the policy's weights.
    """

    def __init__(
        self, policy: Policy, options: EngineOptions, folder: Path, version: int = 0
    ) -> None:
        if policy.vision is not None:
            raise ValueError('images need engine.name="own": vLLM is given tokens only')
        self.policy, self.options, self.version = policy, options, version
        self._tolerance = options.tolerance or (1e-3 if policy.dtype == torch.float32 else 0.1)
        self.backend: Any = (
            Servers(options, folder / "weights") if options.urls else InProcess(policy, options)
        )
        with ExitStack() as opened:
            opened.callback(self.close)
            if options.urls:
                self._prove()
            self.sync(policy, version)
            opened.pop_all()

    def open(self, seeds: Sequence[int], decoding: Decoding, *, fresh: bool = False) -> VLLMSession:
        """Start a conversation for each seed; see `trainer.engine.Engine.open`."""
        chat, version = self.policy.chat, self.version
        return VLLMSession(self.backend, chat, version, seeds, decoding, fresh)

    def sync(self, policy: Policy, version: int) -> None:
        """Take over the weights of the policy; the canary must agree with it.

        Raises:
            StaleWeights: It does not.
        """
        before, self.policy = self.version, policy
        self.backend.take(policy, version)
        gaps = self._measure_gaps(replies=True)
        gap, shift = float(np.abs(gaps).mean()), float(gaps.mean())
        noise = max(_SHIFT, _ERRORS * float(gaps.std()) / len(gaps) ** 0.5)
        if not (gap <= self._tolerance and shift <= noise):
            said = f"vLLM was given weights {version} (before: {before}), but log-probabilities"
            if np.abs(self._measure_gaps(replies=False)).mean() <= self._tolerance:
                raise EngineError(
                    f"{said} of its replies differ by {gap:.2g}, those of prompts do not: it draws "
                    "from another distribution. Let nothing on the way change top_p, top_k, min_p, "
                    "penalties or temperature; start servers with "
                    "--logprobs-mode processed_logprobs --generation-config vllm"
                )
            raise StaleWeights(
                f"{said} differ by {gap:.2g}, allowed {self._tolerance:g} (engine.tolerance). "
                "Restart it with the policy's model and dtype; servers with "
                f"--logprobs-mode processed_logprobs --worker-extension-cls {WORKER}"
            )
        self.version = version

    def close(self) -> None:
        """Free the engine."""
        self.backend.close()

    def _measure_gaps(self, *, replies: bool) -> NDArray[np.float64]:
        """Difference log π_vLLM - log π_policy of replies drawn now, or of prompts: [P], nats.

        That of prompts comes from the weights alone, however replies are drawn.
        """
        words = min(len(self.policy.tokenizer), self.policy.vocabulary)
        prompts = [
            np.random.default_rng([i, words]).integers(words, size=8).tolist()
            for i in range(_CANARIES)
        ]
        session = self.open(range(_CANARIES), _CANARY)

        async def ask(row: int, ids: list[int]) -> tuple[list[int], list[float]]:
            if not replies:
                return ids, await self.backend.score(row, ids)
            reply = await session.reply(row, Prompt(ids))
            return [*ids, *reply.ids], reply.logprobs

        async def ask_all() -> list[tuple[list[int], list[float]]]:
            return await asyncio.gather(*(ask(row, ids) for row, ids in enumerate(prompts)))

        rows = [
            Row(ids, list(range(len(ids) - len(told), len(ids))), [0] * len(told), told)
            for ids, told in parallel.run_on_first(lambda: run_coroutine(ask_all()))
        ]
        temperature = _CANARY.temperature if replies else 1.0
        own = recompute_logprobs(self.policy, rows, tokens=_TOKENS, temperature=temperature)
        return join_values(rows, "logprobs") - own

    def _prove(self) -> None:
        """Send disturbed weights first: a server may have the policy's own from the start."""
        rng = torch.Generator().manual_seed(0)
        weights = self.policy.weights()
        disturbed = {}
        for name, weight in weights.items():
            deviation = max(_NOISE * float(weight.std(correction=0)), _LEAST)  # 0 of an adapter
            noise = torch.randn(weight.shape, generator=rng).to(weight)
            disturbed[name] = weight + deviation * noise
        self.policy.set_weights(disturbed)
        try:
            self.sync(self.policy, self.version)
        finally:
            self.policy.set_weights(weights)


@dataclass(frozen=True)
class VLLMSession:
    """Conversations that are drawn each at its own pace.

    Attributes:
        backend: Where vLLM runs.
        chat: Chat of the policy.
        version: Version of the weights that vLLM has.
        seeds: Seed of each conversation.
        decoding: How replies are drawn.
        fresh: Whether each reply begins a new conversation.
        first: Number of the first conversation, where others are held at the same time.
        turns: Number of the next turn, by conversation.
        ids: Tokens of each conversation.

    Raises:
        ValueError: Constrained decoding.
    """

    backend: Servers | InProcess
    chat: Chat
    version: int
    seeds: Sequence[int]
    decoding: Decoding
    fresh: bool = False
    first: int = 0
    turns: Counter[int] = field(default_factory=Counter)
    ids: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        if self.decoding.decode != "free":
            raise ValueError(
                f'decode={self.decoding.decode!r} needs engine.name="own": vLLM would cut a choice '
                "into other tokens than training computes; or set sampling.decode=free"
            )

    def room(self, row: int) -> int:
        """Tokens that still fit into vLLM's longest sequence after conversation `row`."""
        return self.backend.limit - len(self.ids[row])

    async def reply(self, row: int, prompt: Prompt) -> Reply:
        """The next reply of conversation `row`; see `trainer.engine.Session.reply`."""
        ids = [*self.ids[row], *prompt.ids]
        check_length(len(ids) + 1, self.backend.limit)
        seed = np.random.SeedSequence([self.seeds[row], self.turns[row]]).generate_state(1)[0]
        options = _WHOLE | {
            "temperature": self.decoding.temperature,
            "max_tokens": self.decoding.max_reply_tokens,
            "seed": int(seed),
            "stop_token_ids": list(self.chat.ends),
            "ignore_eos": True,  # only the ends of the chat template end a turn
            "logprobs": 0,  # of the drawn token itself
        }
        drawn, logprobs = await self.backend.answer(self.first + row, ids, options)
        self.turns[row] += 1
        if not self.fresh:
            self.ids[row] = [*ids, *drawn]
        return Reply(drawn, logprobs, [], self.chat.text(drawn), version=self.version)

    def leave(self, row: int) -> None:
        """End conversation `row`."""
        self.ids.pop(row, None)


class InProcess:
    """vLLM in this process, driven by one thread of its own."""

    def __init__(self, policy: Policy, options: EngineOptions) -> None:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        vllm = require("vllm", "vllm")
        config, on_cpu = policy.model.config, policy.device.type == "cpu"
        chosen = {
            "max_model_len": policy.positions or None,
            "gpu_memory_utilization": 0.4,
            "enforce_eager": on_cpu,
            "enable_chunked_prefill": not on_cpu,  # with seeds, it fails there
            "enable_prefix_caching": True,
            "disable_log_stats": True,
        } | options.options
        self._make_options: Any = vllm.SamplingParams
        self._waiting: dict[str, Future[Any]] = {}  # by the name of the request
        self._names = map(str, count())
        try:
            with TemporaryDirectory() as folder:  # weights come from the policy
                config.save_pretrained(folder)
                self._llm: Any = vllm.LLM(
                    folder,
                    load_format="dummy",
                    skip_tokenizer_init=True,
                    dtype=str(policy.dtype).removeprefix("torch."),
                    logprobs_mode="processed_logprobs",
                    worker_extension_cls=WORKER,
                    **chosen,
                )
        except (AttributeError, OSError, RuntimeError, TypeError, ValueError) as error:
            raise EngineError(
                f"vLLM does not start ({type(error).__name__}: {error}); look at engine.options"
                ", e.g. gpu_memory_utilization, or start it as a server and set engine.urls"
            ) from error
        self._engine = self._llm.llm_engine
        self.limit = int(self._engine.model_config.max_model_len)
        self._thread = ThreadPoolExecutor(1, "vllm")

    async def answer(
        self, _conversation: int, ids: list[int], options: dict[str, Any]
    ) -> tuple[list[int], list[float]]:
        """Tokens and log-probabilities of a reply, drawn with all others that wait."""
        output = (await self._request(ids, options)).outputs[0]
        drawn = list(output.token_ids)
        return drawn, [at[t].logprob for t, at in zip(drawn, output.logprobs, strict=True)]

    async def score(self, _conversation: int, ids: list[int]) -> list[float]:
        """Log-probability of each token of a prompt after the first."""
        told = (await self._request(ids, SCORE)).prompt_logprobs
        return [at[token].logprob for token, at in zip(ids[1:], told[1:], strict=True)]

    async def _request(self, ids: list[int], options: dict[str, Any]) -> Any:
        answered: Future[Any] = Future()
        answered.set_running_or_notify_cancel()  # so that nobody can cancel it
        await asyncio.wrap_future(self._thread.submit(self._add, ids, options, answered))
        return await asyncio.wrap_future(answered)

    def take(self, policy: Policy, version: int) -> None:
        """Load the policy's weights and forget what the old ones encoded."""
        weights = list(policy.export_weights())

        def load() -> None:
            self._engine.collective_rpc("take_weights", args=(weights,))
            self._engine.reset_prefix_cache()
            self._engine.set_weight_version(str(version))

        self._thread.submit(load).result()

    def close(self) -> None:
        """End the thread and free the engine."""
        self._thread.shutdown()
        del self._engine, self._llm

    def _add(self, ids: list[int], options: dict[str, Any], answered: Future[Any]) -> None:
        """Begin a request; in the thread."""
        params, name = self._make_options(**options, detokenize=False), next(self._names)
        self._engine.add_request(name, {"prompt_token_ids": ids}, params)
        self._waiting[name] = answered
        if len(self._waiting) == 1:
            self._start_step()

    def _start_step(self) -> None:
        self._thread.submit(self._step).add_done_callback(self._raise_failure)

    def _step(self) -> None:
        """One step for all requests, and then the next; others may begin in between."""
        for output in self._engine.step():
            if output.finished:
                self._waiting.pop(output.request_id).set_result(output)
        if self._waiting:
            self._start_step()

    def _raise_failure(self, step: Future[None]) -> None:
        """Raise the error of a step in all that wait."""
        if (error := step.exception()) is not None:
            failure = EngineError(f"vLLM failed in this process: {error!r}; continue with --resume")
            while self._waiting:
                self._waiting.popitem()[1].set_exception(failure)
