"""Training in bfloat16 changes the weights as training in float32 does, at the papers' rates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import credit
from trainer import recipe, recipes
from trainer.learn.batch import collate
from trainer.learn.learner import Learner, Optimizer
from trainer.learn.rows import credit_rows, make_rows
from trainer.learn.update import Update, recompute_logprobs, token_logprobs
from trainer.model.policy import Policy
from trainer.model.weights import FULL, LoRA

from .conftest import conversations, tiny_tokenizer


def small(seed=0, **options):
    """A random Llama with weights of the usual size: what an update has to be seen beside."""
    tokenizer = tiny_tokenizer("llama3")
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=96, intermediate_size=192, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024,
        tie_word_embeddings=True, initializer_range=0.05, bos_token_id=None, eos_token_id=6,
    )  # fmt: skip
    return Policy(LlamaForCausalLM(config), tokenizer, **options)


def rows_of(episodes, estimator="mgr"):
    turns = credit.Turns.from_episodes(episodes)
    advantage = credit.make(estimator)(turns, np.random.default_rng(0))
    return credit_rows(make_rows(episodes), advantage)


def moved(policy, rows, folder, *, rate, steps=10):
    """What `steps` updates change: all weights' differences as one vector."""
    before = [p.detach().double().clone() for p in policy.parameters()]
    learner = Learner(policy, Optimizer(learning_rate=rate, tokens=4000), folder=folder)
    for step in range(steps):
        Update()(learner, rows, rng=np.random.default_rng(step))
    after = [p.detach().double() for p in policy.parameters()]
    return torch.cat([(b - a).flatten() for a, b in zip(before, after, strict=True)])


@pytest.fixture(scope="module")
def episodes():
    return conversations(small())


def test_gradients_add_up_in_float32(episodes, tmp_path):
    """In many microbatches or in one: the same step, which sums of bfloat16 would not be."""
    rows = rows_of(episodes)
    steps = []
    for tokens in (60, 10_000):
        policy = small(dtype="bfloat16")
        learner = Learner(
            policy, Optimizer(learning_rate=1e-6, tokens=tokens, grad_norm=1e9), folder=tmp_path
        )
        learner.optimizer.step = lambda: None
        learner.optimizer.zero_grad = lambda: None
        Update()(learner, rows, rng=np.random.default_rng(0))
        assert {p.grad.dtype for p in policy.parameters()} == {torch.float32}
        steps.append(torch.cat([p.grad.flatten() for p in policy.parameters()]))
    assert (steps[0] - steps[1]).norm() < 0.02 * steps[1].norm()


@pytest.mark.long
def test_sampler_and_update_read_the_same_weights(tmp_path):
    """After an update too: masters that moved are what both of them round."""
    policy = small(dtype="bfloat16")
    for _ in range(2):
        episodes = conversations(policy)
        rows = make_rows(episodes)
        recorded = np.concatenate([row.logprobs for row in rows])
        again = recompute_logprobs(policy, rows, tokens=400)
        assert 0 < np.abs(again - recorded).max() < 0.05
        assert np.abs(again - recorded).mean() < 0.005
        moved(policy, rows_of(episodes), tmp_path, rate=1e-3, steps=1)


@pytest.mark.long
def test_what_is_trained_is_float32_and_what_is_not_is_small(episodes, tmp_path):
    policy = small(dtype="bfloat16", lora=LoRA(rank=4))
    assert {p.dtype for p in policy.parameters()} == {torch.float32}
    kinds = {
        name.rpartition(".")[0].rpartition(".")[2]: p.dtype
        for name, p in policy.model.named_parameters()
        if not p.requires_grad
    }
    assert kinds["base_layer"] == torch.bfloat16
    assert kinds["embed_tokens"] == kinds["input_layernorm"] == kinds["norm"] == torch.float32
    rows = rows_of(episodes)
    assert (moved(policy, rows, tmp_path, rate=1e-5, steps=2) != 0).double().mean() > 0.99


def test_freezing_changes_nothing_that_is_said(episodes):
    policy = small(dtype="bfloat16")
    batch = collate(make_rows(episodes))
    with torch.no_grad():
        before = token_logprobs(policy, batch)
        after = token_logprobs(policy.freeze(), batch)
    assert torch.equal(before, after)
    assert policy.parameters() == []
    assert policy.model.model.layers[0].mlp.up_proj.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("lora", [FULL, pytest.param(LoRA(rank=4), marks=pytest.mark.long)])
def test_copies_and_files_keep_every_digit(episodes, tmp_path, lora):
    policy = small(dtype="bfloat16", lora=lora)
    policy.name = str(tmp_path / "base")
    if lora.rank:
        small().save(tmp_path / "base")
        policy.model.peft_config["default"].base_model_name_or_path = policy.name
    rows = rows_of(episodes)
    policy.keep_reference()
    moved(policy, rows, tmp_path, rate=1e-6, steps=2)
    twin = policy.twin("other")
    policy.save(tmp_path / "saved")
    again = Policy.load(str(tmp_path / "saved"), dtype="bfloat16")
    again.restore(tmp_path / "saved")
    for other in (twin, again):
        assert {p.dtype for p in other.parameters()} == {torch.float32}
        own = policy.weights()
        for name, weight in other.weights().items():
            assert torch.equal(weight, own[name])
    batch = collate(rows)
    with torch.no_grad():
        said = [token_logprobs(one, batch) for one in (policy, twin, again)]
        for one in (policy, again):
            with one.as_reference():
                said.append(token_logprobs(one, batch))
    assert torch.equal(said[0], said[1])
    assert torch.equal(said[0], said[2])
    assert torch.equal(said[3], said[4])
    assert not torch.equal(said[0], said[3])


def settings(words):
    """What decides how far a recipe's updates get, of every model that it trains."""
    loaded = recipe.load(words)
    rates = [loaded.sft.learning_rate] if loaded.sft.steps else []
    rates += [loaded.update.learning_rate] if loaded.run.steps else []
    rates += [loaded.credit.models.get(name, {}).get("learning_rate") for name in ("critic", "prm")]
    policy, decay = loaded.policy, loaded.update.weight_decay
    return {(policy.dtype, policy.lora.rank, decay, rate) for rate in rates if rate}


@pytest.mark.parametrize(
    "model", [*recipes.names("model"), pytest.param("", marks=pytest.mark.long)]
)
def test_every_recipe_trains(episodes, tmp_path, model):
    """Two steps at its rate change what it trains: the first of LoRA moves B alone."""
    axes = itertools.product(recipes.names("environment"), recipes.names("method"), [model])
    rows = rows_of(episodes)
    for dtype, rank, decay, rate in sorted(set().union(*map(settings, map(" ".join, axes)))):
        policy = small(dtype=dtype, lora=LoRA(rank=rank))
        before = policy.weights()
        optimizer = Optimizer(learning_rate=rate, weight_decay=decay, tokens=4000)
        learner = Learner(policy, optimizer, folder=tmp_path)
        for step in range(2):
            Update()(learner, rows, rng=np.random.default_rng(step))
        changed = torch.cat([(v != before[k]).flatten() for k, v in policy.weights().items()])
        assert changed.double().mean() >= 0.99, (dtype, rank, rate)
