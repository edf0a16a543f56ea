"""Optimisers that save memory: what they store, how far they move weights, and refusals."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from transformers import Qwen2ForCausalLM

from trainer.learn.learner import Learner, Optimizer
from trainer.learn.rows import credit_rows, make_rows
from trainer.learn.update import Update, recompute_logprobs
from trainer.methods.critic import Critic
from trainer.model.policy import Policy
from trainer.model.weights import LoRA

from .conftest import rollouts, tiny_model, tiny_tokenizer

needs_torchao = pytest.mark.skipif(
    find_spec("torchao") is None, reason="torchao is not installed: pip install 'agent-envs[optim]'"
)


@pytest.fixture(autouse=True)
def _not_compiled():
    """Compilation takes minutes on a CPU; what is computed is the same."""
    with torch.compiler.set_stance("force_eager"):
        yield


def wide(dtype="bfloat16", **options):
    """With matrices of 4,096 weights or more, which have 8-bit moments."""
    tokenizer = tiny_tokenizer()
    config = tiny_model(len(tokenizer)).config
    config.hidden_size, config.intermediate_size, config.initializer_range = 64, 128, 0.05
    torch.manual_seed(0)
    return Policy(Qwen2ForCausalLM(config), tokenizer, dtype=dtype, **options)


def taught(policy, tmp_path, optimizer, rate=1e-3):
    return Learner(policy, Optimizer(optimizer=optimizer, learning_rate=rate), folder=tmp_path)


def steps(learner, rows, count):
    for _ in range(count):
        Update()(learner, rows, rng=np.random.default_rng(0))
    return {name: p.float() for name, p in learner.model.weights().items()}


def rows_of(policy):
    rows = make_rows(rollouts(policy))
    return credit_rows(rows, np.linspace(-1, 1, 12))


def stored(learner):
    """Bytes of trained matrices that torchao makes small, by what they are for, per weight."""
    big = [p for p in learner.model.parameters() if p.ndim == 2 and p.numel() >= 4096]
    big = [p for p in big if p.numel() % 256 == 0 and p.shape[0] != learner.model.vocabulary]
    moments = [learner.optimizer.state[p][m] for p in big for m in ("exp_avg", "exp_avg_sq")]
    size = sum(p.numel() for p in big)
    held = sum(
        sum(getattr(m, n).nbytes for n in m.tensor_attrs)
        if hasattr(m, "tensor_attrs")
        else m.nbytes
        for m in moments
    )
    return sum(p.nbytes for p in big) / size, held / size


@needs_torchao
@pytest.mark.parametrize(
    ("optimizer", "weights", "moments"),
    [("adamw", 4, 8), ("adamw8bit", 4, 2), ("adamw8bit-sr", 2, 2)],
)
def test_bytes_of_a_weight(optimizer, weights, moments, tmp_path):
    policy = wide()
    learner = taught(policy, tmp_path, optimizer)
    steps(learner, rows_of(policy), 1)
    assert stored(learner) == (weights, pytest.approx(moments, rel=0.2))  # and tables of codes


@needs_torchao
@pytest.mark.parametrize("optimizer", ["adamw8bit", "adamw8bit-sr"])
def test_weights_move_in_the_direction_of_adamw(optimizer, tmp_path):
    moved = []
    for name in ("adamw", optimizer):
        policy = wide()
        before = {k: p.float() for k, p in policy.weights().items()}
        after = steps(taught(policy, tmp_path, name), rows_of(policy), 5)
        moved.append(torch.cat([(after[k] - before[k]).flatten() for k in before]))
    if optimizer == "adamw8bit":
        assert torch.cosine_similarity(*moved, dim=0) > 0.98
        assert moved[1].norm().item() == pytest.approx(moved[0].norm().item(), rel=0.05)
    else:  # noise of the rounding, half of the distance of two numbers of bfloat16
        assert torch.cosine_similarity(*moved, dim=0) > 0.8


@needs_torchao
def test_small_updates_count_on_average(tmp_path):
    """Updates of 1e-5, where numbers of bfloat16 near 0.05 are 2.4e-4 apart."""
    moved = []
    for name in ("adamw", "adamw8bit-sr"):
        policy = wide()
        learner = taught(policy, tmp_path, name, rate=1e-5)
        before = {k: p.float() for k, p in policy.weights().items() if "mlp" in k}
        after = steps(learner, rows_of(policy), 3)
        moved.append(torch.cat([(after[k] - before[k]).flatten() for k in before]))
    exact, rounded = moved
    sign = exact.sign()  # about 3e-5 each, in its own direction
    assert (rounded * sign).mean().item() == pytest.approx((exact * sign).mean().item(), rel=0.1)
    assert rounded.norm() > 2 * exact.norm()


@needs_torchao
@pytest.mark.parametrize("optimizer", ["adamw8bit", "adamw8bit-sr"])
def test_a_resumed_learner_goes_on_bit_for_bit(optimizer, tmp_path):
    first = wide()
    rows = rows_of(first)
    learner = taught(first, tmp_path, optimizer)
    steps(learner, rows, 2)
    first.save(tmp_path / "policy")
    torch.save(learner.state_dict(), tmp_path / "learner.pt")
    straight = steps(learner, rows, 2)
    second = Policy.load(str(tmp_path / "policy"), dtype="bfloat16")
    torch.manual_seed(1)  # no random state is read
    other = taught(second, tmp_path, optimizer)
    other.load_state_dict(torch.load(tmp_path / "learner.pt", weights_only=True))
    resumed = steps(other, rows, 2)
    assert all(torch.equal(value, resumed[name]) for name, value in straight.items())
    one, two = (recompute_logprobs(policy, rows, tokens=400) for policy in (first, second))
    assert (one == two).all()


@needs_torchao
@pytest.mark.parametrize("lora", [LoRA(), LoRA(rank=4)], ids=["full", "lora"])
def test_matrices_alone_are_rounded(lora, tmp_path):
    policy = wide(lora=lora)
    before = recompute_logprobs(policy, rows := rows_of(policy), tokens=400)
    taught(policy, tmp_path, "adamw8bit-sr")
    kinds = {
        name: p.dtype for name, p in policy.model.named_parameters() if p.dtype != torch.bfloat16
    }
    assert all("embed" in name or "norm" in name or "bias" in name for name in kinds)
    after = recompute_logprobs(policy, rows, tokens=400)
    assert (after == before).all()  # products rounded them anyway


@needs_torchao
def test_a_critic_is_stored_the_same_way(tmp_path):
    critic = Critic(wide(), own=True)
    taught(critic, tmp_path, "adamw8bit-sr")
    assert {p.dtype for p in critic.head.parameters()} == {torch.float32}
    assert critic.policy.model.model.layers[0].mlp.up_proj.weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        pytest.param("adamw8bit-sr", "set policy.dtype='bfloat16'", marks=needs_torchao),
        ("adamw8bit", r"the package torchao.optim .*'agent-envs\[optim\]'"),
        ("sgd", r"'adamw', 'adamw8bit' or 'adamw8bit-sr'.*'sgd'"),
    ],
)
def test_what_is_refused(optimizer, message, monkeypatch, tmp_path):
    if optimizer == "adamw8bit":
        monkeypatch.setitem(sys.modules, "torchao.optim", None)
    with pytest.raises((ValueError, ImportError), match=message):
        taught(wide("float32"), tmp_path, optimizer)
