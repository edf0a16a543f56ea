"""Low-rank adapters by peft: their options, new ones, saved ones, and a second one of a model."""

from __future__ import annotations

import copy
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from pydantic.dataclasses import dataclass

from trainer.options import STRICT, Count, Positive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor


@dataclass(frozen=True, config=STRICT)
class LoRA:
    """Low-rank adapters.

    Attributes:
        rank: Rank of each adapter; 0 for no adapters, i.e. all weights are trained.
        alpha: Scale; the adapter's output is multiplied by alpha / rank.
        targets: "all-linear", or the names of the modules that get an adapter.
    """

    rank: Count = 0
    alpha: Positive = 32
    targets: str | tuple[str, ...] = "all-linear"


FULL = LoRA()
"""No adapters: every weight is trained."""


def add_adapters(model: Any, lora: LoRA, name: str) -> Any:
    """The model with new adapters, the same at every start; `name` is recorded as its base."""
    from peft import LoraConfig, get_peft_model

    targets = lora.targets if isinstance(lora.targets, str) else list(lora.targets)
    config = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, target_modules=targets, task_type="CAUSAL_LM"
    )
    model.name_or_path = name  # peft records it as the base; a name is the same on every machine
    with _without_peft_warning(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same adapter at every start, whatever the random state
        return get_peft_model(model, config)


def with_saved(model: Any, folder: str) -> Any:
    """The model with the adapter that a folder holds, trainable."""
    from peft import PeftModel

    with _without_peft_warning():
        return PeftModel.from_pretrained(model, folder, is_trainable=True)


def add(model: Any, name: str, *, like: str) -> None:
    """Add another adapter to a model, of the shape of one that it has."""
    with _without_peft_warning(), torch.random.fork_rng(devices=[]):
        model.add_adapter(name, copy.deepcopy(model.peft_config[like]))


def restore(model: Any, weights: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Set the weights of a model's adapter; returns the missing and the unexpected names."""
    from peft import set_peft_model_state_dict

    found: Any = set_peft_model_state_dict(model, dict(weights))
    return [name for name in found.missing_keys if "lora_" in name], found.unexpected_keys


@contextmanager
def _without_peft_warning() -> Iterator[None]:
    with warnings.catch_warnings():  # peft 0.21 uses a deprecated name of transformers 5.23
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        yield
