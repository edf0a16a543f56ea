"""Genuine vLLM: every environment's recipe trains with it; stale weights and outages show."""

from __future__ import annotations

import asyncio
import json

import pytest
import torch
from transformers import AutoTokenizer

from trainer import recipe
from trainer.build import make_engine
from trainer.engine import Decoding, EngineError, EngineOptions, Prompt, StaleWeights
from trainer.engine.vllm import _WHOLE
from trainer.engine.worker import WORKER
from trainer.model.policy import Policy
from trainer.model.pretrained import resolve
from trainer.model.weights import LoRA
from trainer.train import train

from .conftest import figures, quiet, tiny_model, tiny_qwen, tiny_tokenizer
from .vllms import REASON, THERE, served

pytestmark = [pytest.mark.vllm, pytest.mark.skipif(not THERE, reason=REASON)]

TEXT = {
    "alfworld gigpo": [],
    "webshop gigpo": [],
    "search mt_grpo": [],
    "search_r1 grpo": [],
    "wiki mt_grpo": [],
    "appworld loop": [],
    "sotopia grpo": ["env.id=Sotopia-v1"],
    "sokoban stapo": ["env.id=Sokoban-v0"],
    "ezpoints mgr": ["env.options={observation='text'}"],
}
SHORT = [
    "engine.name=vllm", "env.max_turns=3", "env.data=auto", "policy.dtype=float32",
    "policy.lora.rank=0", "sampling.tasks=2", "sampling.rollouts=2",
    "sampling.max_reply_tokens=8", "sampling.max_tokens=8192", "sampling.decode=free",
    "sft.steps=0", "run.steps=3", "run.threads=1", "update.learning_rate=1e-3",
    "update.skip_dead_groups=false", "update.tokens=16384", "eval.tasks=1", "eval.every=0",
]  # fmt: skip


@pytest.fixture(autouse=True)
def set_public_data():
    """None are made: bm25s loads numba, after which vLLM 0.32.0 for CPUs does not start.

    Those that start it in this process come first, therefore.
    """


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    """A folder with a random model of Qwen2.5's shape, and a tokenizer for it."""
    folder = tmp_path_factory.mktemp("qwen") / "model"
    tokenizer = AutoTokenizer.from_pretrained(resolve("pocket"))
    model = tiny_qwen(
        len(tokenizer),
        max_position_embeddings=16384,
        initializer_range=0.02,
        eos_token_id=tokenizer.eos_token_id,
    )
    # what a server would take where it is not told otherwise, as many instruct models have it
    model.generation_config.update(top_k=2, top_p=0.5, repetition_penalty=1.3, do_sample=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def server(qwen):
    with served(Policy.load(str(qwen)), qwen.parent, "--worker-extension-cls", WORKER) as running:
        yield running


def test_in_this_process_and_ahead(qwen, tmp_path):
    options = [*SHORT, f"policy.model={qwen}", "update.entropy=0.1"]  # something moves the policy
    train(recipe.load("alfworld gigpo", options), tmp_path / "now", console=quiet())
    train(
        recipe.load("alfworld gigpo", [*options, "sampling.ahead=1"]),
        tmp_path / "ahead",
        console=quiet(),
    )
    now, ahead = (
        [line for line in figures(tmp_path / name) if line["stage"] == "rl"]
        for name in ("now", "ahead")
    )
    assert all(line["logprob_gap"] < 1e-3 for line in now)
    assert [line["staleness"] for line in now] == [0, 0, 0]
    assert [line["staleness"] for line in ahead] == [0, 1, 1]
    assert ahead[0]["logprob_gap"] < 1e-3 < ahead[2]["logprob_gap"]


def tell_distributions_apart(qwen, urls, monkeypatch, folder):
    """The engine with the policy's weights that truncates or penalises is not called stale."""
    policy = Policy.load(str(qwen))
    engine = make_engine(EngineOptions(name="vllm", urls=urls), policy, folder)
    for change in ({"top_p": 0.8}, {"top_k": 50}, {"min_p": 0.5}, {"repetition_penalty": 1.3}):
        monkeypatch.setattr("trainer.engine.vllm._WHOLE", _WHOLE | change)
        with pytest.raises(EngineError, match="draws from another distribution"):
            engine.sync(policy, 1)
    engine.close()


def test_another_distribution_in_this_process_is_told(qwen, monkeypatch, tmp_path):
    tell_distributions_apart(qwen, (), monkeypatch, tmp_path)


def refuse(url, policy, folder, message):
    """An engine of this server is refused before anything is written."""
    with pytest.raises(EngineError, match=message):
        make_engine(EngineOptions(name="vllm", urls=(url,)), policy, folder)
    assert not any((folder / "weights").iterdir())


def test_a_server_without_our_worker_is_refused(qwen, tmp_path):
    policy = Policy.load(str(qwen))
    with served(policy, tmp_path) as running:
        refuse(running.url, policy, tmp_path, "worker-extension-cls")


def test_vllms_own_reload_stays_stale_and_is_found_out(monkeypatch, tmp_path):
    """On a CPU the packed output layer of tied embeddings stays as it was."""
    tokenizer = tiny_tokenizer()
    policy = Policy(tiny_qwen(len(tokenizer)), tokenizer)
    monkeypatch.setattr("trainer.engine.worker.Take._pack", lambda _: None)
    with pytest.raises(StaleWeights, match="given weights 0"):
        make_engine(EngineOptions(name="vllm"), policy, tmp_path)


def test_a_failure_of_vllm_reaches_everyone_and_nothing_hangs(monkeypatch, tmp_path):
    tokenizer = tiny_tokenizer()
    policy = Policy(tiny_qwen(len(tokenizer)), tokenizer)
    engine = make_engine(EngineOptions(name="vllm"), policy, tmp_path)

    def breaks():
        raise RuntimeError("no blocks left")

    monkeypatch.setattr(engine.backend._engine, "step", breaks)
    for _ in range(2):
        with pytest.raises(EngineError, match="no blocks left"):
            talk(engine, policy)
    with pytest.raises(EngineError, match="no blocks left"):
        engine.sync(policy, 1)
    engine.close()


@pytest.mark.parametrize("words", TEXT)
def test_recipes_take_three_steps(words, qwen, server, tmp_path, public_data):
    options = [*SHORT, *TEXT[words], f"policy.model={qwen}", f"engine.urls=['{server.url}']"]
    train(recipe.load(words, options), tmp_path, console=quiet())
    lines = [line for line in figures(tmp_path) if line["stage"] == "rl"]
    assert len(lines) == 3
    assert all(line["logprob_gap"] < 1e-3 for line in lines)
    assert all(line["correction_mean"] == pytest.approx(1, abs=1e-3) for line in lines)


def talk(engine, policy, seed=0):
    async def one():
        session = engine.open([seed], Decoding(max_reply_tokens=24))
        return await session.reply(0, Prompt(policy.chat.opening("look")))

    return asyncio.run(one())


def test_replies_are_drawn_from_the_whole_distribution(qwen, server, tmp_path):
    """400 first tokens against the model's probabilities: chi-square over groups of tokens."""
    assert json.loads((qwen / "generation_config.json").read_text())["top_k"] == 2
    policy = Policy.load(str(qwen))
    engine = make_engine(EngineOptions(name="vllm", urls=(server.url,)), policy, tmp_path)
    prompt = policy.chat.opening("look")

    async def draw():
        session = engine.open(range(400), Decoding(max_reply_tokens=1))
        return await asyncio.gather(*(session.reply(row, Prompt(prompt)) for row in range(400)))

    drawn = torch.tensor([reply.ids[0] for reply in asyncio.run(draw())])
    engine.close()
    with torch.no_grad():
        chance = policy.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    group = torch.arange(len(chance)) % 8
    expected = 400 * torch.zeros(8).index_add(0, group, chance)
    found = torch.bincount(group[drawn], minlength=8)
    assert ((found - expected) ** 2 / expected).sum() < 26  # 0.05% of chi-square, 7 degrees
    assert len(drawn.unique()) > 100  # the model is nearly uniform


def test_another_distribution_of_a_server_is_told(qwen, server, monkeypatch, tmp_path):
    tell_distributions_apart(qwen, (server.url,), monkeypatch, tmp_path)


def test_an_adapter_is_merged(qwen, server, tmp_path):
    policy = Policy.load(str(qwen), lora=LoRA(rank=4))
    options = EngineOptions(name="vllm", urls=(server.url,))
    engine = make_engine(options, policy, tmp_path)
    before = talk(engine, policy)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.3 * torch.randn(weight.shape))
    engine.sync(policy, 1)
    assert talk(engine, policy).logprobs != before.logprobs
    engine.close()


def test_a_server_of_another_shape_is_refused_before_it_breaks(qwen, server, tmp_path):
    policy = Policy.load(str(qwen))
    other = Policy(tiny_model(policy.vocabulary), policy.tokenizer)
    refuse(server.url, other, tmp_path, "hidden_size 128, the policy's is 32")
    make_engine(EngineOptions(name="vllm", urls=(server.url,)), policy, tmp_path).close()


def test_killed_in_mid_rollout_and_started_again(qwen, server, tmp_path):
    """Lost requests are asked again; the new process gets the weights first."""
    policy = Policy.load(str(qwen))

    async def conversations(engine, *, kill):
        session = engine.open(range(4), Decoding(max_reply_tokens=16))

        async def one(row):
            found, new = [], list(policy.chat.opening(f"room {row}"))
            for turn in range(4):
                if kill and row == 0 and turn == 2:
                    server.kill()
                    server.start()
                reply = await session.reply(row, Prompt(new))
                found.append(reply.ids)
                new = list(policy.chat.after(reply.ids, "ok"))
            return found

        return await asyncio.gather(*map(one, range(4)))

    engine = make_engine(EngineOptions(name="vllm", urls=(server.url,)), policy, tmp_path)
    policy.set_weights({name: 0.9 * weight for name, weight in policy.weights().items()})
    engine.sync(policy, 1)
    undisturbed = asyncio.run(conversations(engine, kill=False))
    assert asyncio.run(conversations(engine, kill=True)) == undisturbed
    engine.close()
