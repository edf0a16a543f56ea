"""Options of the engine."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from trainer.learn.correction import Correction
from trainer.options import STRICT, AboveZero, Count, NonNegative, Share


@dataclass(frozen=True, config=STRICT)
class EngineOptions:
    """Where replies are sampled.

    Attributes:
        name: "own", or "vllm" (extra [vllm]).
        urls: With "vllm", servers of `vllm serve`, e.g. ["http://gpu1:8000"]; none for vLLM in this
            process.
        memory: With vLLM in this process, its share of the GPU's memory.
        max_model_len: With vLLM in this process, its longest sequence; 0 for the model's.
        options: With vLLM in this process, further options of `vllm.LLM`.
        seconds: Time limit of one request to a server.
        patience: Seconds for which a request without an answer is sent again.
        tolerance: Largest mean difference of log-probabilities, in nats, between engine and policy
            after a sync; 0 for 0.001 in float32 and 0.1 in bfloat16.
        correction: Importance weights where engine and policy differ.
    """

    name: Literal["own", "vllm"] = "own"
    urls: tuple[str, ...] = ()
    memory: Share = 0.4
    max_model_len: Count = 0
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    seconds: AboveZero = 600.0
    patience: NonNegative = 300.0
    tolerance: NonNegative = 0.0
    correction: Correction = dataclasses.field(default_factory=Correction)

    @property
    def corrects(self) -> bool:
        """Whether gains get importance weights."""
        auto = self.correction.level == "auto"
        return self.name != "own" if auto else self.correction.level != "none"
