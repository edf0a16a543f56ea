"""Speed of sampling and of the update, one thread: python benchmarks/rollout.py [--rows 128].

Conversations of fixed shape with a random model of the pocket policy's size, so that the figures
need no data and do not change with what a policy has learnt. Times are CPU time of this process.
Three tables: turns and tokens a second with the cache kept across turns, beside the same replies
with every conversation encoded again at every turn; the share of Python in it; and the update's
tokens a second for trajectories of growing length, which says whether its cost is linear.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

# Files beside this one have the names of packages.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from trainer.batch import credited, make_rows  # noqa: E402
from trainer.engines.own import OwnEngine  # noqa: E402
from trainer.episodes import Episode, Step  # noqa: E402
from trainer.learner import Learner, Optimizer  # noqa: E402
from trainer.policy import Policy  # noqa: E402
from trainer.sampling import Decoding  # noqa: E402
from trainer.update import Update  # noqa: E402

WORDS = 2048
ENDS = 0.03  # share of conversations that end at a turn
SHAPES = {  # tokens of the opening, of each message, of each reply; turns
    "small room": (60, 14, 7, 12),
    "real game": (350, 50, 10, 20),
}
TEMPLATE = (
    "{% for m in messages %}{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|agent|>{% endif %}"
)


def pocket_sized(heads: int) -> Policy:
    """A random policy of about a million parameters that hardly ever ends a reply."""
    names = ["<|end|>", "<|agent|>", *(f"w{i}" for i in range(WORDS - 2))]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, "w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        eos_token="<|end|>",  # noqa: S106
        additional_special_tokens=["<|agent|>"],
        chat_template=TEMPLATE,
    )
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=WORDS,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=heads,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
    )
    return Policy(Qwen2ForCausalLM(config), tokenizer)


def play(
    policy: Policy, rows: int, shape: str, most: int, *, keep: bool
) -> tuple[list[Episode], float]:
    """Conversations of a shape, a few ending at every turn, and the CPU seconds they took."""
    opening, message, reply, turns = SHAPES[shape]
    draw = random.Random(0)

    def words(count: int) -> list[int]:
        return [draw.randrange(2, WORDS) for _ in range(draw.randint(count // 2, count * 3 // 2))]

    engine, decoding = OwnEngine(policy), Decoding(max_reply_tokens=reply)
    played = [Episode("", "", 0, 0, "history", []) for _ in range(rows)]
    pasts: list[list[int]] = [[] for _ in range(rows)]
    active, new = list(range(rows)), [words(opening) for _ in range(rows)]
    batch = engine.batch(rows, decoding)
    start = time.process_time()
    for turn in range(min(turns, most)):
        seeds = [[row, turn] for row in active]
        if keep:
            replies = batch.reply(active, new, seeds)
        else:
            whole = [pasts[row] + ids for row, ids in zip(active, new, strict=True)]
            batch = engine.batch(len(active), decoding)
            replies = batch.reply(range(len(active)), whole, seeds)
        for row, ids, answer in zip(active, new, replies, strict=True):
            played[row].steps.append(Step("", "", "", ids, answer.ids, answer.logprobs))
            pasts[row] += ids + answer.ids
        active = [row for row in active if draw.random() > ENDS]
        new = [words(message) for _ in active]
    return played, time.process_time() - start


def sampling(rows: int, most: int) -> None:
    """Print turns and tokens a second, with and without the cache kept."""
    print(f"sampling, {rows} rows; re-encoding = the whole conversation at every turn")
    print(f"{'shape':12} {'KV heads':>8} {'turns/s':>8} {'tokens/s':>9} {'re-encoding':>12}  ratio")
    for shape in SHAPES:
        for heads in (4, 1):
            policy = pocket_sized(heads)
            play(policy, rows, shape, most, keep=True)  # warm up memory and kernels
            played, kept = play(policy, rows, shape, most, keep=True)
            again = play(policy, rows, shape, most, keep=False)[1]
            turns = sum(len(episode.steps) for episode in played)
            tokens = sum(episode.tokens for episode in played)
            print(
                f"{shape:12} {heads:8} {turns / kept:8.0f} {tokens / kept:9.0f} "
                f"{turns / again:8.0f} t/s {again / kept:6.1f}"
            )


def overhead() -> None:
    """Print what one forward pass and one whole reply cost where there is next to no arithmetic."""
    policy = pocket_sized(4)
    batch = OwnEngine(policy).batch(1, Decoding(max_reply_tokens=100))
    batch.reply([0], [[5]], [0])
    start = time.process_time()
    count = len(batch.reply([0], [[5]], [1])[0].ids)
    each = (time.process_time() - start) / count
    ids, keep = torch.tensor([[5]]), torch.ones(1, 1, dtype=torch.bool)
    with torch.inference_mode():
        start = time.process_time()
        for _ in range(count):
            policy.logits(ids, keep)
        bare = (time.process_time() - start) / count
    print(f"one row, one token: {1e3 * each:.2f} ms, of it {1e3 * bare:.2f} ms in the model")


def update(count: int) -> None:
    """Print the update's tokens a second for trajectories of growing length."""
    print(f"update, {count} trajectories of one length, a quarter of their tokens in replies")
    print(f"{'tokens':>8} {'tokens/s':>9}")
    policy = pocket_sized(4)
    for length in (256, 512, 1024, 2048):
        step = Step("", "", "", [5] * 24, [7] * 8, [-1.0] * 8)
        played = [Episode("", "", 0, 0, "history", [step] * (length // 32)) for _ in range(count)]
        rows = credited(make_rows(played), np.ones(count * length // 32))
        with tempfile.TemporaryDirectory() as folder:
            learner = Learner(
                policy, Optimizer(learning_rate=0.0, tokens=4096), folder=Path(folder)
            )
            Update()(learner, rows[:2], rng=np.random.default_rng(0))
            start = time.process_time()
            Update()(learner, rows, rng=np.random.default_rng(0))
        print(f"{length:8} {count * length / (time.process_time() - start):9.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--turns", type=int, default=20, help="at most, of a conversation")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sampling(given.rows, given.turns)
    overhead()
    update(min(16, given.rows))
