"""The pocket policy: its tokenizer, its architecture and the pre-training that makes its weights.

A causal language model of about a million parameters that plays the part a pre-trained model plays
at scale: it knows the reply format and half the job. `python -m trainer.pocket` makes it again from
text this project generates; no downloaded text and no test task is in it. Left out on purpose:
anything that would make it a better model than the lessons of fine-tuning need.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agent_envs.alfworld.explorer import Explorer, demonstration
from agent_envs.alfworld.game import SHORT_NAMES, parse_game
from agent_envs.alfworld.generate import generate_game
from agent_envs.alfworld.world import World
from trainer.rollout import INSTRUCTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

END, PAD = "<|end|>", "<|pad|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
TAGS = ("<think>", "</think>", "<action>", "</action>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TASK_TYPES = tuple(SHORT_NAMES.values())
MAX_TURNS = 50
STEPS_A_CHUNK = 16
CORPUS = 400

Rows = list[tuple[list[int], list[float]]]


@dataclass(frozen=True)
class Pretraining:
    """How the weights were made; stored beside them in `pretraining.json`."""

    seed: int = 1
    cycles: tuple[int, ...] = (2000, 2500, 1800)  # steps; each starts with a fresh optimiser
    thoughts: int = 4496  # first step whose lessons show what the explorer is after
    grow: int = 1333  # steps until rooms of any size come up
    tokens_per_step: int = 4096
    learning_rate: float = 3e-3
    warmup: int = 50
    mistake: float = 0.1
    echo: float = 1.0  # weight of the environment's own tokens in the loss: copying exercises
    vocabulary: int = 1024
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    intermediate: int = 384
    initial_range: float = 0.02


@dataclass(frozen=True)
class Lesson:
    """One demonstration as text: the messages a policy would see, and which replies to learn."""

    prompts: list[str]
    replies: list[str]
    mistakes: list[bool]


def lesson(
    rng: np.random.Generator, *, size: float, mistake: float, thoughts: bool = True
) -> Lesson:
    """The explorer's play of one generated game, with mistakes it recovers from."""
    task_type = TASK_TYPES[int(rng.integers(len(TASK_TYPES)))]
    data = generate_game(rng, size=size, task_type=task_type)
    world = World(parse_game(data, "pretraining", "pre-training"))
    prompts: list[str] = []
    replies: list[str] = []
    mistakes: list[bool] = []
    expert = Explorer(world.intro)
    for observation, action, wrong in demonstration(world, rng, mistake=mistake, expert=expert):
        prompts.append(observation if prompts else f"{INSTRUCTION}\n\n{observation}")
        thought = expert.think() if thoughts else ""
        replies.append(f"<think>{thought}</think><action>{action}</action>")
        mistakes.append(wrong)
    return Lesson(prompts[:MAX_TURNS], replies[:MAX_TURNS], mistakes[:MAX_TURNS])


def train_tokenizer(texts: Iterator[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE with the roles and tags as tokens; a household word becomes one token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[PAD, END, *ROLES, *TAGS],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )


def build_model(config: Pretraining, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A small Llama with tied embeddings, random weights drawn from the seed."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    architecture = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        intermediate_size=config.intermediate,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        initializer_range=config.initial_range,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        return LlamaForCausalLM(architecture)


def encode(
    item: Lesson, tokenizer: PreTrainedTokenizerFast, echo: float
) -> tuple[list[int], list[float]]:
    """Tokens of a lesson and the weight of each in the loss; a mistaken reply weighs nothing."""
    ids: list[int] = []
    weights: list[float] = []
    for prompt, reply, wrong in zip(item.prompts, item.replies, item.mistakes, strict=True):
        seen = tokenizer.encode(f"<|user|>{prompt}{END}<|assistant|>", add_special_tokens=False)
        said = tokenizer.encode(f"{reply}{END}", add_special_tokens=False)
        ids += seen + said
        weights += [echo] * len(seen) + [0.0 if wrong else 1.0] * len(said)
    return ids, weights


def chunk(config: Pretraining, tokenizer: PreTrainedTokenizerFast, index: int) -> list[Rows]:
    """The rows of `STEPS_A_CHUNK` steps in a row: alike in length within a step, steps shuffled."""
    step = index * STEPS_A_CHUNK
    rng = np.random.default_rng([config.seed, step])
    budget = config.tokens_per_step * STEPS_A_CHUNK
    rows: Rows = []
    while sum(len(ids) for ids, _ in rows) < budget:
        largest = 0.1 + 0.9 * min(1.0, step / config.grow)
        size = float(rng.uniform(0.0, largest))
        item = lesson(rng, size=size, mistake=config.mistake, thoughts=step >= config.thoughts)
        rows.append(encode(item, tokenizer, config.echo))
    rows.sort(key=lambda row: len(row[0]))
    bounds = np.linspace(0, budget, STEPS_A_CHUNK + 1)
    ends = np.searchsorted(np.cumsum([len(ids) for ids, _ in rows]), bounds)
    steps = [rows[first:last] for first, last in pairwise(ends.tolist())]
    return [steps[i] for i in rng.permutation(STEPS_A_CHUNK)]


def pretrain(
    config: Pretraining, folder: Path, *, cycle: int, threads: int, compiled: bool = True
) -> None:
    """Run one cycle: the first makes tokenizer and weights in `folder`, a later one goes on there.

    `compiled` is faster from a few hundred steps on, and rounds differently.
    """
    import torch
    from torch.nn import functional
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    torch.set_num_threads(threads)
    if cycle == 0:
        tokenizer = train_tokenizer(corpus(config), config.vocabulary)
        tokenizer.save_pretrained(folder)
        model = build_model(config, tokenizer)
    else:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    body = torch.compile(model.model, dynamic=True) if compiled else model.model
    optimiser = torch.optim.AdamW(
        model.parameters(), config.learning_rate, betas=(0.9, 0.98), weight_decay=0.01
    )
    length, first = config.cycles[cycle], sum(config.cycles[:cycle])
    began, seen = time.monotonic(), 0
    for step, rows in enumerate(stream(config, tokenizer, first, length)):
        ids, weights = pad(rows)
        warm = min(1.0, (step + 1) / config.warmup)
        scale = warm * (0.1 + 0.45 * (1 + np.cos(np.pi * step / length)))
        for group in optimiser.param_groups:
            group["lr"] = config.learning_rate * scale
        chosen = weights[:, 1:] > 0
        hidden = body(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][chosen]
        losses = functional.cross_entropy(
            model.lm_head(hidden), ids[:, 1:][chosen], reduction="none"
        )
        weight = weights[:, 1:][chosen]
        loss = (losses * weight).sum() / weight.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        seen += int((weights > 0).sum())
        if (step + 1) % 25 == 0:
            rate = seen / (time.monotonic() - began)
            print(f"{first + step + 1:5} loss {loss:.4f}  {rate:,.0f} tokens/s", flush=True)  # noqa: T201
    model.to(torch.float16).save_pretrained(folder)  # type: ignore[arg-type]
    (folder / "pretraining.json").write_text(json.dumps(asdict(config), indent=1) + "\n")


def corpus(config: Pretraining) -> Iterator[str]:
    """The texts that the tokenizer is made from."""
    rng = np.random.default_rng([config.seed, 10**9])
    for _ in range(CORPUS):
        item = lesson(rng, size=float(rng.uniform()), mistake=0.0, thoughts=False)
        yield from item.prompts
        yield from item.replies


def stream(
    config: Pretraining, tokenizer: PreTrainedTokenizerFast, first: int, length: int
) -> Iterator[Rows]:
    """The rows of `length` steps from step `first` on, prepared by another process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        coming = pool.submit(chunk, config, tokenizer, first // STEPS_A_CHUNK)
        for step in range(first, first + length):
            if step == first or step % STEPS_A_CHUNK == 0:
                steps = coming.result()
                coming = pool.submit(chunk, config, tokenizer, step // STEPS_A_CHUNK + 1)
            yield steps[step % STEPS_A_CHUNK]


def pad(rows: Rows) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows as token ids [B, L] and loss weights [B, L], L a multiple of 64."""
    import torch

    length = -(-max(len(ids) for ids, _ in rows) // 64) * 64
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    weights = torch.zeros(len(rows), length)
    for row, (tokens, weight) in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        weights[row, : len(weight)] = torch.tensor(weight)
    return ids, weights


def main() -> None:
    """Command line: `python -m trainer.pocket --out FOLDER [--cycle N] [--threads N]`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for tokenizer and weights")
    parser.add_argument("--cycle", type=int, help="only this cycle, from 0; all by default")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    config = Pretraining()
    given.out.mkdir(parents=True, exist_ok=True)
    for cycle in range(len(config.cycles)):
        if given.cycle in {None, cycle}:
            pretrain(config, given.out, cycle=cycle, threads=given.threads)


if __name__ == "__main__":
    main()
