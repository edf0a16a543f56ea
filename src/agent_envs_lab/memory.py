"""How much memory a recipe needs, by part."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from trainer.learn.batch import collate
from trainer.learn.rows import Row
from trainer.model.logprobs import CHUNK
from trainer.run.needs import GIB, MOMENTS

if TYPE_CHECKING:
    from trainer.model.policy import Policy
    from trainer.recipe import Recipe

_SHORT, _LONG = 32, 96  # tokens of two rows that are measured
_HEAD_COPIES = 3  # of the logits of a chunk: scores, their softmax, and the gradient
_HALF = 2.0  # bytes of a bfloat16 number


def estimate_memory(
    policy: Policy, recipe: Recipe, *, reference: bool, twin: bool = False
) -> dict[str, float]:
    """Bytes that training needs on the policy's device, by part; a model is counted as loaded.

    Activations are measured: what a forward pass over two short rows keeps for its backward pass
    gives the bytes of a token, and `update.tokens` of them are held at once.

    Args:
        policy: The loaded policy.
        recipe: The recipe.
        reference: Whether the update or the method compares with a reference policy.
        twin: Whether the method trains a second model of the policy's size.
    """
    held = {id(p): p for p in policy.model.parameters()}
    mine = policy.parameters()
    trained = sum(p.numel() for p in mine)
    matrices = {id(p) for layer in policy.matrices() for p in layer.parameters()}
    rounded = matrices if recipe.update.optimizer == "adamw8bit-sr" else set()
    size = {key: _HALF if key in rounded else float(p.element_size()) for key, p in held.items()}
    config = policy.model.config.get_text_config()
    parts = {
        "weights": sum(p.numel() * size[key] for key, p in held.items()),
        "gradients": sum(p.numel() * size[id(p)] for p in mine),
        "moments of AdamW": MOMENTS[recipe.update.optimizer] * trained,
    }
    if policy.dtype != torch.float32:
        cast = (p.numel() for key, p in held.items() if key in matrices and size[key] > _HALF)
        parts["weights in bfloat16 during a pass"] = _HALF * sum(cast)
    if reference and trained:
        parts["reference"] = 4.0 * trained
    parts["activations"] = _measure_token(policy) * recipe.update.tokens
    parts["logits of a chunk"] = 4.0 * _HEAD_COPIES * max(CHUNK, config.vocab_size)
    if recipe.engine.name == "own":
        parts["keys and values of sampling"] = _estimate_cache(policy, recipe)
    if twin:
        parts["a second model with its optimiser"] = parts["weights"] + 12.0 * trained
    return parts


def _estimate_cache(policy: Policy, recipe: Recipe) -> float:
    """Bytes of the keys and values of all conversations at their longest."""
    config = policy.model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rows = recipe.sampling.rows or recipe.sampling.tasks * recipe.sampling.rollouts
    size = torch.finfo(policy.dtype).bits // 8
    layers, tokens = int(config.num_hidden_layers), rows * recipe.sampling.max_tokens
    return 2.0 * layers * int(heads) * int(width) * size * tokens


def _measure_token(policy: Policy) -> float:
    """Bytes that a forward pass keeps for the backward pass, for each token."""
    short, long = (_measure_row(policy, length) for length in (_SHORT, _LONG))
    return max(long - short, 0) / (_LONG - _SHORT)


def _measure_row(policy: Policy, length: int) -> int:
    """Bytes that a pass over one row keeps, less those of the weights."""
    weights = {p.untyped_storage().data_ptr() for p in policy.model.parameters()}
    seen: dict[int, int] = {}

    def pack(kept: torch.Tensor) -> torch.Tensor:
        storage = kept.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
        return kept

    row = Row(ids=[5] * length, at=[length - 1], turn=[0], logprobs=[0.0])
    batch = collate([row], policy.device)
    with policy.training(), torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        policy.logits(batch.ids, batch.keep)
        return sum(seen.values())


def read_total(device: torch.device) -> float:
    """Bytes of memory that the device has in total."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def describe_parts(parts: dict[str, float]) -> str:
    """The parts of an estimate in one line, the largest first."""
    order = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {size / GIB:.2g} GiB" for name, size in order)


def suggest_remedy(parts: dict[str, float]) -> str:
    """What to change so that the largest part that options change gets smaller."""
    largest = max(parts.keys() - {"logits of a chunk"}, key=parts.__getitem__)
    if largest == "activations":
        return "set policy.gradient_checkpointing=true or lower update.tokens"
    if largest == "keys and values of sampling":
        return "lower sampling.rows or sampling.max_tokens"
    return (
        "the model itself is too large: set policy.lora.rank=16 or update.optimizer='adamw8bit', "
        "take a smaller one, or divide it among GPUs (docs/scale.md)"
    )
