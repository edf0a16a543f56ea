"""A bare model of transformers, as training needs it: the parts and the forward pass of any kind.

Left out: adapters, precision and weights, which `trainer.model.policy` adds.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def prepare(model: Any, *, gradient_checkpointing: bool) -> None:
    """Turn dropout off, and gradient checkpointing on where it is wanted."""
    _without_dropout(model)
    if gradient_checkpointing:
        enable = getattr(model, "activation_checkpointing_enable", None)  # its name since 5.23
        (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})


def _without_dropout(model: Any) -> None:
    module: Any
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    model.eval()


def matrices(model: Any) -> list[nn.Linear]:
    """The linear layers of a model, all but the output layer."""
    head = set(model.get_output_embeddings().modules())  # several if it has an adapter
    return [
        module for module in model.modules() if isinstance(module, nn.Linear) and module not in head
    ]


def blocks(model: Any) -> set[str]:
    """Names of the classes of the blocks of layers."""
    return set(model._no_split_modules or ())  # noqa: SLF001 - its only public place


def has_experts(model: Any) -> bool:
    """Whether a model is a mixture of experts."""
    config = model.config.get_text_config()
    return any(getattr(config, name, None) for name in _EXPERTS)


def untrained(model: Any, device: torch.device | str) -> Any:
    """A model of the same architecture with other weights, in float32."""
    from torch.distributed.fsdp import FSDPModule

    kind: Any = next(c for c in type(model).__mro__ if not issubclass(c, FSDPModule))
    with torch.random.fork_rng(devices=[]), torch.device(device):
        made = kind(model.config).float()
    made.tie_weights()
    return made


def restore(model: Any, weights: Mapping[str, Tensor]) -> tuple[list[str], list[str]]:
    """Set the weights of a model; returns the missing and the unexpected names."""
    found = model.load_state_dict(weights, strict=False)
    tied = model.all_tied_weights_keys
    return [name for name in found.missing_keys if name not in tied], found.unexpected_keys


@functools.cache
def _has_cache(forward: Callable[..., Any]) -> bool:
    """Whether a model's forward calls its cache so."""
    return "cache" in inspect.signature(forward).parameters


def run(
    model: Any, ids: Tensor, head: Callable[[Tensor], Tensor], context: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Run a model with another function in the place of its output layer.

    `context` has the model's other arguments, under the names of today's transformers. Returns the
    result of `head`, and what the model made of it.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # of adapters
    if "cache" in context and not _has_cache(type(inner).forward):
        context = context | {"past_key_values": context["cache"]}  # its name before 5.24
        del context["cache"]
    made: list[Tensor] = []

    def forward(hidden: Tensor) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            made.append(head(hidden))
        return made[0]

    layer = model.get_output_embeddings()
    layer.forward = forward
    try:
        out: Tensor = model(input_ids=ids, **{"use_cache": False} | context).logits
    finally:
        del layer.forward
    return made[0], out
