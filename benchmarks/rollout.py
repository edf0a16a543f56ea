"""Speed of sampling and of the update, one thread: python benchmarks/rollout.py [--rows 128].

Conversations of fixed shape with a random model of the pocket policy's size, so that the figures
need no data and do not change with what a policy has learnt. Times are CPU time of this process.
Tables: turns and tokens a second with the cache kept across turns, beside the same replies with
every conversation encoded again at every turn; the same conversations by each engine that is
installed; the share of Python; rollouts of environments that wait, in seconds of the clock; and the
update's tokens a second for trajectories of growing length, which says whether its cost is linear,
with the share of the arithmetic that this core does in one large product of matrices.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

# Files beside this one have the names of packages.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM  # noqa: E402

from agent_envs import AgentEnv, Panel, Turn  # noqa: E402
from trainer.build import make_engine  # noqa: E402
from trainer.engine import (  # noqa: E402
    Decoding,
    Engine,
    EngineOptions,
    Prompt,
    Sampler,
    Session,
)
from trainer.engine.own import OwnEngine  # noqa: E402
from trainer.learn.learner import Learner, Optimizer  # noqa: E402
from trainer.learn.rows import credit_rows, make_rows  # noqa: E402
from trainer.learn.update import Update  # noqa: E402
from trainer.model.policy import Policy  # noqa: E402
from trainer.play.environments import Env, PromptOptions  # noqa: E402
from trainer.play.records import Episode, Step  # noqa: E402
from trainer.play.rollout import Rollouts  # noqa: E402
from trainer.play.source import draw_tasks  # noqa: E402

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
            replies = batch.reply(active, list(map(Prompt, new)), seeds)
        else:
            whole = [pasts[row] + ids for row, ids in zip(active, new, strict=True)]
            batch = engine.batch(len(active), decoding)
            replies = batch.reply(range(len(active)), list(map(Prompt, whole)), seeds)
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


def engines(rows: int, most: int) -> None:
    """Print tokens a CPU second of each engine on the same conversations."""
    print(f"engines, {rows} conversations of one shape at a time, heads 64 wide")
    print(f"{'shape':12} {'engine':>8} {'replies/s':>10} {'tokens/s':>9}")
    for name in ("own", *(["vllm"] if find_spec("vllm") else [])):
        policy = pocket_sized(2)
        with tempfile.TemporaryDirectory() as folder:
            engine = make_engine(EngineOptions(name=name), policy, Path(folder))
            for shape in SHAPES:
                talk(engine, rows, shape, 1)
                replies, tokens, seconds = talk(engine, rows, shape, most)
                print(f"{shape:12} {name:>8} {replies / seconds:10.0f} {tokens / seconds:9.0f}")
            engine.close()
    if not find_spec("vllm"):
        print("vLLM is not installed; .ci/vllm makes an environment that has it")


def talk(engine: Engine, rows: int, shape: str, most: int) -> tuple[int, int, float]:
    """Conversations of a shape by an engine: replies, tokens, CPU seconds."""
    opening, message, reply, turns = SHAPES[shape]
    draw = np.random.default_rng(0)

    def words(count: int) -> list[int]:
        return draw.integers(2, WORDS, size=count).tolist()

    async def one(session: Session, row: int) -> tuple[int, int]:
        new, tokens, replies = words(opening), 0, min(turns, most)
        for _ in range(replies):
            answer = await session.reply(row, Prompt(new))
            tokens += len(new) + len(answer.ids)
            new = words(message)
        session.leave(row)
        return replies, tokens

    async def everyone() -> list[tuple[int, int]]:
        session = engine.open(range(rows), Decoding(max_reply_tokens=reply))
        return await asyncio.gather(*(one(session, row) for row in range(rows)))

    start = time.process_time()
    found = asyncio.run(everyone())
    seconds = time.process_time() - start
    return sum(replies for replies, _ in found), sum(tokens for _, tokens in found), seconds


class Slow(AgentEnv):
    """A step waits as one does that asks a server."""

    reply_form = "{action}"  # every reply is a step

    def __init__(self, max_turns: int = 5, *, seconds: float = 0.0, waits: bool = False) -> None:
        super().__init__(PANEL, max_turns=max_turns)
        self.seconds, self.waits = seconds, waits

    def begin(self, task_id: str) -> tuple[str, Turn]:
        return "Wait.", Turn("You wait.", anchor=task_id, extra={"action": ""})

    def act(self, action: str) -> Turn:
        time.sleep(self.seconds)
        return Turn("You wait.", anchor=str(self.turn), extra={"action": action})


PANEL = Panel("train", [f"wait/{i}" for i in range(64)], source="benchmark")
gym.register("Slow-v0", entry_point=Slow, order_enforce=False, disable_env_checker=True)


def waiting(count: int, seconds: float) -> None:
    """Print what a turn takes if the steps of all environments wait."""
    print(f"{count} environments whose steps wait {1e3 * seconds:.0f} ms, 5 turns, clock time")
    print(f"{'steps':>20} {'seconds a turn':>15}")
    policy, took = pocket_sized(4), []
    for name, waits in (("one by one", False), ("at the same time", True)):
        env = Env(id="Slow-v0", max_turns=5, options={"seconds": seconds, "waits": waits})
        rollouts = Rollouts(env, PromptOptions(), "train")
        sampler = Sampler(OwnEngine(policy), policy, Decoding(max_reply_tokens=2))
        tasks = draw_tasks(rollouts.panel, tasks=count, rollouts=1, seed=0, step=0)
        rollouts.play(tasks[:1], sampler, 0)
        start = time.monotonic()
        rollouts.play(tasks, sampler, 0)
        took.append((time.monotonic() - start) / 5)
        print(f"{name:>20} {took[-1]:15.3f}")
    print(f"{'ratio':>20} {took[0] / took[1]:15.1f}")


def peak() -> float:
    """Arithmetic that this core does in one large product of matrices, FLOP a CPU second."""
    one = torch.rand(1024, 1024)
    one @ one
    start = time.process_time()
    for _ in range(8):
        one @ one
    return 8 * 2 * 1024**3 / (time.process_time() - start)


def overhead() -> None:
    """Print what one forward pass and one whole reply cost where there is next to no arithmetic."""
    policy = pocket_sized(4)
    batch = OwnEngine(policy).batch(1, Decoding(max_reply_tokens=100))
    batch.reply([0], [Prompt([5])], [0])
    start = time.process_time()
    count = len(batch.reply([0], [Prompt([5])], [1])[0].ids)
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
    print(f"{'tokens':>8} {'tokens/s':>9} {'of the peak':>12}")
    policy, top = pocket_sized(4), peak()
    weights = sum(p.numel() for p in policy.parameters())
    for length in (256, 512, 1024, 2048):
        step = Step("", "", "", [5] * 24, [7] * 8, [-1.0] * 8)
        played = [Episode("", "", 0, 0, "history", [step] * (length // 32)) for _ in range(count)]
        rows = credit_rows(make_rows(played), np.ones(count * length // 32))
        with tempfile.TemporaryDirectory() as folder:
            learner = Learner(
                policy, Optimizer(learning_rate=0.0, tokens=4096), folder=Path(folder)
            )
            Update()(learner, rows[:2], rng=np.random.default_rng(0))
            start = time.process_time()
            Update()(learner, rows, rng=np.random.default_rng(0))
        speed = count * length / (time.process_time() - start)
        attention = 6 * 4 * 128 * length  # of 4 layers, half of the positions each
        print(f"{length:8} {speed:9.0f} {speed * (6 * weights + attention) / top:12.0%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--turns", type=int, default=20, help="at most, of a conversation")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sampling(given.rows, given.turns)
    engines(given.rows, given.turns)
    overhead()
    waiting(min(40, 2 * given.rows), 0.05)
    update(min(16, given.rows))
