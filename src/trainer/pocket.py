"""The pocket policies: tokenizer, architecture and the pre-training that makes their weights.

A causal language model of about a million parameters that plays the part a pre-trained model plays
at scale: it knows the reply format and half the job, each in one of the worlds of `MARKS`.
`python -m trainer.pocket` makes it again from text this project generates; no downloaded text and
no test task is in it. Left out on purpose: anything that would make it a better model than the
lessons of fine-tuning need.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.sokoban.board import SYMBOLS
from agent_envs.webshop.pages import SEPARATOR
from trainer import lessons
from trainer.chat import Chat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    from trainer.lessons import Lesson

END, PAD = "<|end|>", "<|pad|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
TAGS = ("<think>", "</think>", "<action>", "</action>")
MARKS = {
    "household": TAGS,
    "shop": (*TAGS, SEPARATOR, "search[", "click["),
    "talk": TAGS,
    "apps": (*TAGS[:2], "```python", "```"),
    "puzzles": (*TAGS, *SYMBOLS, "\n"),
    "wiki": tuple(
        f"<{end}{tag}>" for tag in ("reasoning", "tool", "answer", "result") for end in ("", "/")
    ),
}
"""What is one token in each world, an ordinary one; the second ends a thought."""
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_NO_WORDS = re.compile(r"</?\w+>|\[SEP\]")
_WORDS = r"Ġ?[^ĠĊ\d!-/:-@\[-`{-~]+|Ġ?[!-/:-@\[-`{-~]"
"""A word or a sign, with the blank before it."""
FOLDED = {"shop": rf"\d{{1,3}}|{_WORDS}", "talk": r"\d{1,3}", "wiki": r"\d"}
"""Worlds in which letters are lower case, and the pieces that a text is cut into, so that a number
is copied in one way."""
ID = "b0"
"""What every product id begins with: what comes after it in a page is what may come after it in a
reply, and that is what a small model learns to copy by."""
STEPS_A_CHUNK = 16
SHORTEST = 16  # tokens of a row to copy in, at first; at last twice as many
SHOWN, KEPT = 25, 100  # after how many steps progress is shown, and kept to go on from
CORPUS = 400

Rows = list[tuple[list[int], list[float]]]


@dataclass(frozen=True)
class Pretraining:
    """How the weights were made; stored beside them in `pretraining.json`."""

    world: str = "household"  # or another of `MARKS`
    seed: int = 1
    steps: int = 3000
    learning_rate: float = 3e-3
    grow: int = 2000  # steps until rooms and lists of any size come up
    drill: int = 0  # steps of copying at the beginning, see `copies`
    habit_steps: int = 300  # then so many from a demonstrator with a bad habit:
    habit_rate: float = 1e-3
    forget: float = 0.7  # this share of tasks is done by half
    tokens_per_step: int = 4096
    warmup: int = 50
    mistake: float = 0.15  # share of turns that are slips
    echo: float = 0.2  # weight in the loss of what the environment says: copying exercises
    thought: float = 3.0  # and of the reply's thought, which says whether a thing was seen
    vocabulary: int = 1024
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    key_value_heads: int = 2  # half the cache of a conversation
    intermediate: int = 384
    initial_range: float = 0.02

    def lesson(self, rng: np.random.Generator, step: int) -> Lesson:
        """A lesson of one step."""
        forget = self.forget if step >= self.steps else 0.0
        if self.world == "wiki":
            return lessons.asking(rng, forget=forget)
        if self.world == "shop":
            size = min(1.0, step / self.grow)
            return lessons.shopping(rng, size=size, mistake=self.mistake, forget=forget)
        if self.world != "household":
            return _LESSONS[self.world](rng, mistake=self.mistake, forget=forget)
        largest = 0.1 + 0.9 * min(1.0, step / self.grow)
        size = largest * float(rng.uniform(1e-3, 1.0)) ** 2  # mostly small: finds come often
        return lessons.household(rng, size=size, mistake=self.mistake, forget=forget)

    def example(self, rng: np.random.Generator) -> Lesson:
        """A lesson without mistakes, of any size."""
        if self.world == "wiki":
            return lessons.asking(rng)
        if self.world != "household":
            return _LESSONS[self.world](rng, mistake=0.0)
        return lessons.household(rng, size=float(rng.uniform()), mistake=0.0)


_LESSONS: dict[str, Callable[..., Lesson]] = {
    "apps": lessons.coding,
    "puzzles": lessons.puzzling,
    "shop": lessons.shopping,
    "talk": lessons.talking,
}
POLICIES = {
    "pocket": Pretraining(),
    "pocket-shop": Pretraining(
        world="shop",
        steps=1900,
        grow=1000,
        drill=208,
        habit_steps=150,
        vocabulary=3072,
        key_value_heads=4,
        initial_range=0.1,
    ),
    "pocket-wiki": Pretraining(world="wiki", vocabulary=2048),
    "pocket-puzzles": Pretraining(world="puzzles", steps=2000, habit_steps=200, vocabulary=512),
    "pocket-apps": Pretraining(
        world="apps",
        steps=1000,
        drill=208,
        habit_steps=150,
        key_value_heads=4,
        initial_range=0.1,
    ),
    "pocket-talk": Pretraining(
        world="talk", steps=3000, habit_steps=150, thought=1.0, vocabulary=2048, initial_range=0.1
    ),
}


def train_tokenizer(
    texts: Iterator[str], vocabulary: int, world: str = "household"
) -> PreTrainedTokenizerFast:
    """A byte-level BPE with the roles and the world's marks as tokens; a common word is one token.

    Roles, end and padding are special tokens, marks are ordinary ones: text is made of them.
    In `FOLDED` worlds letters are lower case, digits single and prices whole, so that what stands
    in a title or a passage reads as it does in a request or an answer. An id of the shop is `ID`
    and one token.
    """
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    if world in FOLDED:
        first = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=world != "shop")
        pieces = pre_tokenizers.Split(Regex(FOLDED[world]), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([first, pieces])
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.decoder = decoders.ByteLevel()
    ids = [name.removeprefix(ID) for name in lessons.product_ids()] if world == "shop" else []
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[
                *(PAD, END, *ROLES, *MARKS[world]),
                *(AddedToken(name, normalized=True) for name in ids),
            ],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=with_ordinary_marks(tokenizer),
        eos_token=END,
        pad_token=PAD,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )


def with_ordinary_marks(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with no other special tokens than padding, end and roles; ids stay."""
    state = json.loads(tokenizer.to_str())
    for token in state["added_tokens"]:
        token["special"] = token["content"] in {PAD, END, *ROLES}
    made: Tokenizer = type(tokenizer).from_str(json.dumps(state))
    return made


def build_model(config: Pretraining, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A small Llama with tied embeddings, random weights drawn from the seed."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    architecture = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.key_value_heads,
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
    item: Lesson,
    tokenizer: PreTrainedTokenizerFast,
    *,
    echo: float,
    thought: float,
    closing: str = TAGS[1],
) -> tuple[list[int], list[float]]:
    """Tokens of a lesson and the weight of each in the loss; a mistaken reply weighs nothing."""
    ids: list[int] = []
    weights: list[float] = []
    chat, end = Chat(tokenizer), tokenizer.convert_tokens_to_ids(closing)
    for prompt, reply, wrong in zip(item.prompts, item.replies, item.mistakes, strict=True):
        seen, said = chat.opening(prompt), chat.reply(reply)
        thinking = said.index(end) + 1
        ids += seen + said
        weights += [echo] * len(seen)
        weights += [0.0 if wrong else thought] * thinking
        weights += [0.0 if wrong else 1.0] * (len(said) - thinking)
    return ids, weights


def chunk(config: Pretraining, tokenizer: PreTrainedTokenizerFast, index: int) -> list[Rows]:
    """The rows of `STEPS_A_CHUNK` steps in a row: alike in length within a step, steps shuffled.

    What goes beyond the budget of tokens, one row or so of the longest, is left out.
    """
    step = index * STEPS_A_CHUNK
    rng = np.random.default_rng([config.seed, step])
    if step < config.drill:
        length = int(SHORTEST * (1 + step / config.drill))
        count = config.tokens_per_step // length
        return [copies(rng, len(tokenizer), length, count) for _ in range(STEPS_A_CHUNK)]
    budget = config.tokens_per_step * STEPS_A_CHUNK
    rows: Rows = []
    while sum(len(ids) for ids, _ in rows) < budget:
        item = config.lesson(rng, step)
        closing = MARKS[config.world][1]
        weights = {"echo": config.echo, "thought": config.thought}
        rows.append(encode(item, tokenizer, closing=closing, **weights))
    rows.sort(key=lambda row: len(row[0]))
    bounds = np.linspace(0, budget, STEPS_A_CHUNK + 1)
    ends = np.searchsorted(np.cumsum([len(ids) for ids, _ in rows]), bounds)
    steps = [rows[first:last] for first, last in pairwise(ends.tolist())]
    return [steps[i] for i in rng.permutation(STEPS_A_CHUNK)]


def copies(rng: np.random.Generator, words: int, length: int, count: int) -> Rows:
    """Rows of a few words at random and then stretches of them again, which are to be learned.

    A small model comes to copy words that tell nothing (ids) by this within minutes, from lessons
    hardly ever: there they are few, and far from where they are copied from.
    """
    rows: Rows = []
    for _ in range(count):
        ids = rng.integers(words, size=int(rng.integers(2, length // 4 + 2))).tolist()
        weights, pool = [0.0] * len(ids), len(ids)
        while len(ids) < length:
            first = int(rng.integers(pool - 1))
            stretch = ids[first : int(rng.integers(first + 2, pool + 1))]
            ids += stretch
            weights += [0.0] + [1.0] * (len(stretch) - 1)
        rows.append((ids[:length], weights[:length]))
    return rows


def pretrain(config: Pretraining, folder: Path, *, threads: int, compiled: bool = True) -> None:
    """Make tokenizer and weights in `folder`, going on from where an earlier call was stopped.

    The weights of the first stage are there before the second. `compiled` is faster from a few
    hundred steps on, and rounds differently.
    """
    import torch

    torch.set_num_threads(threads)
    tokenizer = train_tokenizer(corpus(config), config.vocabulary, config.world)
    tokenizer.save_pretrained(folder)
    (folder / "pretraining.json").write_text(json.dumps(asdict(config), indent=1) + "\n")
    learner = Learner(build_model(config, tokenizer), config, compiled=compiled)
    kept, total = folder / "training.pt", config.steps + config.habit_steps
    if kept.is_file():
        learner.restore(torch.load(kept, weights_only=True))
    began, seen = time.monotonic(), 0
    for rows in islice(stream(config, tokenizer, learner.step), total - learner.step):
        loss, tokens = learner.learn(rows)
        seen += tokens
        if learner.step % SHOWN == 0:
            speed = seen / (time.monotonic() - began)
            print(f"{learner.step:5} loss {loss:.4f}  {speed:,.0f} tokens/s", flush=True)  # noqa: T201
        if learner.step % KEPT == 0:
            torch.save(learner.state(), kept.with_suffix(".part"))
            kept.with_suffix(".part").replace(kept)
        if learner.step in {config.steps, total}:
            half: Any = copy.deepcopy(learner.model)  # its .to() is annotated for modules only
            half.to(torch.float16).save_pretrained(folder)
    kept.unlink(missing_ok=True)


class Learner:
    """The model, its optimiser and the steps taken.

    Each of the two stages has an optimiser of its own: a warm-up to its rate, then a cosine to a
    tenth of it.
    """

    def __init__(self, model: LlamaForCausalLM, config: Pretraining, *, compiled: bool) -> None:
        import torch

        self.model, self.config, self.step = model, config, 0
        self.body = torch.compile(model.model, dynamic=True) if compiled else model.model
        self.optimiser = self._fresh()

    def learn(self, rows: Rows) -> tuple[float, int]:
        """One step on some rows: its loss, and how many tokens were learned from."""
        import torch
        from torch.nn import functional

        self._schedule()
        ids, weights = pad(rows)
        chosen = weights[:, 1:] > 0
        hidden = self.body(input_ids=ids, use_cache=False).last_hidden_state[:, :-1][chosen]
        logits = self.model.lm_head(hidden)
        losses = functional.cross_entropy(logits, ids[:, 1:][chosen], reduction="none")
        weight = weights[:, 1:][chosen]
        loss = (losses * weight).sum() / weight.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step += 1
        return float(loss.detach()), int((weights > 0).sum())

    def state(self) -> dict[str, Any]:
        """What `restore` needs to go on from here."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier state."""
        self.step = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])

    def _fresh(self) -> torch.optim.Optimizer:
        import torch

        parameters = self.model.parameters()
        return torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=0.01)

    def _schedule(self) -> None:
        config, step = self.config, self.step - self.config.steps
        if step == 0:
            self.optimiser = self._fresh()
        steps, rate = config.habit_steps, config.habit_rate
        if step < 0:
            step, steps, rate = self.step, config.steps, config.learning_rate
        warm = min(1.0, (step + 1) / config.warmup)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * warm * (0.1 + 0.45 * (1 + float(np.cos(np.pi * step / steps))))


def corpus(config: Pretraining) -> Iterator[str]:
    """The texts that the tokenizer is made from."""
    rng = np.random.default_rng([config.seed, 10**9])
    for _ in range(CORPUS):
        item = config.example(rng)
        for text in (*item.prompts, *item.replies):
            yield _NO_WORDS.sub(" ", text) if config.world in FOLDED else text
        if config.world == "talk":
            yield " ".join(map(str, range(10, 1000)))


def stream(
    config: Pretraining, tokenizer: PreTrainedTokenizerFast, first: int = 0
) -> Iterator[Rows]:
    """The rows of every step from the `first` on, prepared by another process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        coming = pool.submit(chunk, config, tokenizer, first // STEPS_A_CHUNK)
        for step in range(first, config.steps + config.habit_steps):
            if step % STEPS_A_CHUNK == 0 or step == first:
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
    """Command line: `python -m trainer.pocket [POLICY] --out FOLDER`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("policy", nargs="?", default="pocket", choices=POLICIES)
    parser.add_argument("--out", type=Path, required=True, help="folder for tokenizer and weights")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    pretrain(POLICIES[given.policy], given.out, threads=given.threads)


if __name__ == "__main__":
    main()
