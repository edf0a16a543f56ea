"""What a run needs, by arithmetic before anything is loaded, and a recipe that fits a machine.

`agent-envs doctor` measures the same on the machine that has the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trainer import recipe as recipes
from trainer.model.pretrained import open_model

if TYPE_CHECKING:
    from trainer.recipe import Recipe

GIB = 2.0**30
PEAK = 312e12
"""Operations a second of an A100 in bfloat16."""
_LEARNING, _SAMPLING = 0.35, 0.1  # shares of it that updates and decoding reach
_ROWS = 64  # episodes that a machine samples at once
_STEPS = 20  # most steps without a GPU
_CORE = 50e9  # operations a second of a core
_TURNS, _REPLY = 0.5, 0.25  # shares of the limits that episodes are taken to need
_LIMIT = 50  # turns, where the recipe leaves the limit to the environment
MOMENTS = {"adamw": 8.0, "adamw8bit": 2.0, "adamw8bit-sr": 2.0}
"""Bytes of the moments of a trained weight, by optimiser."""

LORA = ("policy.lora.rank=16", "policy.lora.alpha=32", "update.learning_rate=1e-4")
CPU = ("policy.dtype=float32", "policy.gradient_checkpointing=false", "update.tokens=8192")
SHORT = (
    *("sampling.tasks=4", "sampling.rollouts=4", "sampling.max_reply_tokens=64"),
    *("sampling.max_tokens=4096", "env.max_turns=10", "eval.tasks=8", "eval.every=0"),
    "sampling.decode=auto",
)
"""Options of a model of one's own on a machine without a GPU."""


class Shape(NamedTuple):
    """Numbers of a public model: from the config.json of its page."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    width: int
    vocabulary: int
    tied: bool
    beside: float = 0.0

    @classmethod
    def read(cls, config: Any) -> Shape:
        """The shape of a model that transformers describes; mixtures of experts are not known."""
        text = config.get_text_config()
        heads = text.num_attention_heads
        return cls(
            layers=text.num_hidden_layers,
            hidden=text.hidden_size,
            inner=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
            heads=heads,
            kv_heads=getattr(text, "num_key_value_heads", None) or heads,
            width=getattr(text, "head_dim", None) or text.hidden_size // heads,
            vocabulary=text.vocab_size,
            tied=bool(getattr(text, "tie_word_embeddings", True)),
        )

    @property
    def weights(self) -> float:
        """Number of weights; `beside` are those of a vision tower."""
        attention = self.hidden * self.width * (2 * self.heads + 2 * self.kv_heads)
        layer = attention + 3 * self.hidden * self.inner
        embedding = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * layer + embedding + self.beside


class Need(NamedTuple):
    """GiB that a run needs in all, and the hours of an A100."""

    memory: float
    hours: float


def estimate_needs(recipe: Recipe, shape: Shape) -> Need:
    """What a run needs, roughly: from the sizes of its model, batches and limits.

    Weights and moments are kept in float32, a pass casts to bfloat16, and only the inputs of the
    layers are kept for the backward pass. Episodes take half their turns, and a quarter of the
    tokens of a reply; 64 are sampled at once, unless `sampling.rows` says how many. A model that is
    not trained is loaded in bfloat16.
    """
    weights, sampling, update = shape.weights, recipe.sampling, recipe.update
    rank = recipe.policy.lora.rank
    sides = 2 * shape.width * (shape.heads + shape.kv_heads) + 7 * shape.hidden + 3 * shape.inner
    trained = rank * shape.layers * sides if rank else weights
    twins = _count_twins(recipe)
    compares = (update.kl != "none" or recipe.credit.name.startswith("stapo")) and not rank
    parts = [
        weights * (2 if rank else 4),
        trained * (4 + MOMENTS[update.optimizer]),
        0 if rank else 2 * weights,
        4.0 * weights * compares,
        twins * 16.0 * trained,
        update.tokens * shape.layers * shape.hidden * 2.0,
        update.tokens * (34.0 * shape.hidden + 6.0 * shape.inner),
    ]
    episodes = sampling.tasks * sampling.rollouts
    limit = recipe.env.max_turns
    turns = _TURNS * (limit if limit and isinstance(limit, int) else _LIMIT)
    replies = episodes * turns * sampling.max_reply_tokens * _REPLY
    whole = recipe.prompt.context == "history"
    prompts = episodes * sampling.max_tokens * (_TURNS if whole else turns)
    tokens = replies + prompts / (1 if whole else 2)
    rows = sampling.rows or min(episodes, _ROWS)
    cache = 2.0 * shape.layers * shape.kv_heads * shape.width * 2 * rows * _TURNS
    if not (recipe.run.steps or recipe.sft.steps):
        parts = [2.0 * weights]  # it is only evaluated
    parts.append(cache * sampling.max_tokens if recipe.engine.name == "own" else 0)
    passes = 2 * (1 + compares + 2 * twins) + 8 * (update.epochs + twins)
    step = weights * (passes * tokens / _LEARNING + 2 * (replies / _SAMPLING + tokens / _LEARNING))
    warm = recipe.sft.steps * recipe.sft.episodes / max(episodes, 1) * 8 * tokens * weights
    return Need(sum(parts) / GIB, (step * recipe.run.steps + warm / _LEARNING) / PEAK / 3600)


def _count_twins(recipe: Recipe) -> int:
    credit = recipe.credit
    if credit.name in {"istar", "prime"} and credit.model in {"", "prm"}:
        return 1
    own = credit.models.get("critic", {}).get("trunk") == "own"
    return int(credit.model == "prm" or (credit.model == "critic" and own))


def find_memory() -> float:
    """GiB of the accelerators of this machine together, or its main memory."""
    import torch

    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        return sum(torch.cuda.get_device_properties(n).total_memory for n in range(count)) / GIB
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB


def fit_recipe(
    load: Callable[[Sequence[str]], Recipe], given: Sequence[str]
) -> tuple[Recipe, list[str]]:
    """A recipe with which this machine can train a model of one's own, and what changed and why.

    A GPU without room for the training of all weights gets LoRA and smaller batches. Without a GPU
    the model gets LoRA, episodes are few and short, actions are chosen among the listed ones, and
    there are as many steps as an hour allows at 50 billion operations a second and core.

    Args:
        load: Makes the recipe from options `key=value`.
        given: The user's options, which stay as they are.
    """
    import torch

    kept, chosen, told = set(map(recipes.key_of, given)), list(given), []

    def choose(why: str, *options: str) -> None:
        new = [option for option in options if recipes.key_of(option) not in kept]
        if new:
            chosen[:0] = new
            told.append(f"{' '.join(new)}  # {why}")

    recipe = load(chosen)
    shape, there = Shape.read(open_model(recipe.policy.model).config), 0.9 * find_memory()
    if torch.cuda.is_available():
        if estimate_needs(recipe, shape).memory > there:
            choose(f"all weights and moments have no room in {there:.0f} GiB", *LORA)
    else:
        choose("without a GPU an adapter is trained, in float32", *LORA, *CPU)
        choose("without a GPU episodes are few and short", *SHORT)
        recipe = load(chosen)
        hours = estimate_needs(recipe, shape).hours * PEAK / (_CORE * (os.cpu_count() or 1))
        steps = max(1, min(_STEPS, recipe.run.steps, int(recipe.run.steps / max(hours, 1e-9))))
        choose(f"at most an hour here; the recipe has {recipe.run.steps}", f"run.steps={steps}")
    recipe = load(chosen)
    rows = recipe.sampling.rows or recipe.sampling.tasks * recipe.sampling.rollouts
    sizes = ("update.tokens", recipe.update.tokens, 2048), ("sampling.rows", rows, 1)
    for key, most, least in sizes:
        size, smaller = most, [f"{key}={most}"]
        while size > least and estimate_needs(load([*smaller, *chosen]), shape).memory > there:
            size = max(least, size // 2)
            smaller = [f"{key}={size}"]
        choose(f"has room in {there:.2g} GiB", *smaller[: size < most])
    return load(chosen), told
