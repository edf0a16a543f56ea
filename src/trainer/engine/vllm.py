"""vLLM as engine: in this process, or servers started by `vllm serve`.

Prompts and replies are tokens. After each sync a canary compares vLLM's log-probabilities with the
policy's. Left out: images, and constrained decoding, whose choices vLLM cuts into other tokens than
training does.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import torch

from trainer.engine import StaleWeights
from trainer.engine.gather import run
from trainer.engine.in_process import InProcess
from trainer.engine.request import WORKER, Answer, Backend, Request
from trainer.engine.sampling import Decoding
from trainer.engine.servers import Servers
from trainer.engine.talks import Talks
from trainer.learn.batch import Row
from trainer.learn.update import recomputed
from trainer.scale import parallel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainer.engine.options import EngineOptions
    from trainer.model.policy import Policy

_CANARY = Decoding(temperature=0.7, max_reply_tokens=8)  # not 1: raw log-probabilities differ
_CANARIES = 4
_TOKENS = 1 << 16  # of the canary's one batch
_NOISE, _LEAST = 0.5, 0.05  # of the weights' deviation, in the proof that the servers follow


class VLLMEngine:
    """Samples by vLLM.

    Args:
        policy: The policy whose weights it samples with.
        options: Where it runs.
        folder: Folder for weights on their way to servers.
        version: Version of the weights.

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
        fine = policy.dtype == torch.float32
        self._tolerance = options.tolerance or (1e-3 if fine else 0.1)
        self._backend: Backend
        if options.urls:
            self._backend = Servers(options, folder / "weights")
        else:
            self._backend = InProcess(policy, options)
        with ExitStack() as failing:
            failing.callback(self.close)
            if options.urls:
                self._prove()
            self.sync(policy, version)
            failing.pop_all()

    def open(self, seeds: Sequence[int], decoding: Decoding, *, fresh: bool = False) -> Talks:
        """Start a conversation for each seed; see `trainer.engine.Engine.open`."""
        chat, version = self.policy.chat, self.version
        return Talks(self._backend, chat, version, seeds, decoding, fresh=fresh)

    def sync(self, policy: Policy, version: int) -> None:
        """Take over the weights of the policy; the canary must agree with it.

        Raises:
            StaleWeights: It does not.
        """
        before, self.policy = self.version, policy
        self._backend.take(policy, version)
        gap = self._canary()
        if not gap <= self._tolerance:
            raise StaleWeights(
                f"vLLM was given weights {version} and does not answer with them (before: "
                f"{before}): mean difference of log-probabilities {gap:.2g}, allowed "
                f"{self._tolerance:g} (engine.tolerance). Check that it has the policy's model and "
                "dtype and, for servers, --logprobs-mode processed_logprobs "
                f"--worker-extension-cls {WORKER}; then restart it"
            )
        self.version = version

    @property
    def sent(self) -> Path:
        """Folder of the weights that the servers were given.

        Raises:
            ValueError: There are no servers.
        """
        if not isinstance(self._backend, Servers) or self._backend.sent is None:
            raise ValueError("vLLM in this process has no folder of weights; set engine.urls")
        return self._backend.sent

    def close(self) -> None:
        """Free the engine."""
        self._backend.close()

    def _canary(self) -> float:
        """Mean |log π_policy - log π_vLLM| over a few replies that vLLM draws now, nats."""
        known = self.policy.model.config.get_text_config().vocab_size
        words = min(len(self.policy.tokenizer), known)  # a tokenizer may have tokens of its own
        prompts = [
            np.random.default_rng([i, words]).integers(words, size=8).tolist()
            for i in range(_CANARIES)
        ]
        ends = list(self.policy.chat.ends)

        async def asked() -> list[Answer]:
            requests = [Request(i, ids, i, _CANARY, ends) for i, ids in enumerate(prompts)]
            return await asyncio.gather(*map(self._backend.answer, requests))

        answers = parallel.first(lambda: run(asked()))
        rows = [
            Row(
                ids=[*ids, *answer.ids],
                at=list(range(len(ids), len(ids) + len(answer.ids))),
                turn=[0] * len(answer.ids),
                logprobs=answer.logprobs,
            )
            for ids, answer in zip(prompts, answers, strict=True)
        ]
        own = recomputed(self.policy, rows, tokens=_TOKENS, temperature=_CANARY.temperature)
        gaps = [np.subtract(mine, row.logprobs) for row, mine in zip(rows, own, strict=True)]
        return float(np.abs(np.concatenate(gaps)).mean())

    def _prove(self) -> None:
        """Send disturbed weights first: a server may have the policy's own from the start."""
        rng = torch.Generator().manual_seed(0)
        weights = self.policy.weights()
        disturbed = {
            name: w + _noise(w) * torch.randn(w.shape, generator=rng).to(w)
            for name, w in weights.items()
        }
        self.policy.set_weights(disturbed)
        try:
            self.sync(self.policy, self.version)
        finally:
            self.policy.set_weights(weights)


def _noise(weight: torch.Tensor) -> float:
    """Deviation of what is added to a weight; those of an adapter may all be 0."""
    return max(_NOISE * float(weight.std(correction=0)), _LEAST)
