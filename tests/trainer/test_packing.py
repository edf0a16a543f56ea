"""Packed rows: the log-probabilities, gradients and values of the same rows alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainer import recipe
from trainer.learn.batch import collate
from trainer.learn.rows import credit_rows, make_rows
from trainer.learn.update import Update, recompute_logprobs, token_logprobs
from trainer.methods.critic import Critic
from trainer.model.policy import Policy
from trainer.model.weights import LoRA

from .conftest import gradient, rollouts, tiny_llama, tiny_model, tiny_tokenizer


def made(kind=tiny_model, **options):
    tokenizer = tiny_tokenizer()
    return Policy(kind(len(tokenizer)), tokenizer, **options)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("context", ["history", "turn"])
@pytest.mark.parametrize("kind", [tiny_model, tiny_llama])
def test_packed_rows_have_the_log_probabilities_of_rows_alone(kind, context, attention):
    policy = made(kind)
    policy.model.set_attn_implementation(attention)
    rows = make_rows(rollouts(policy, context=context, temperature=0.7, decode="admissible"))
    with torch.no_grad():
        packed = token_logprobs(policy, collate(rows, packed=True), temperature=0.7)
        alone = torch.cat([token_logprobs(policy, collate([r]), temperature=0.7) for r in rows])
    torch.testing.assert_close(packed, alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("lora", [LoRA(), LoRA(rank=2)], ids=["full", "lora"])
@pytest.mark.parametrize("ratio", ["token", "turn", "sequence"])
def test_the_gradient_is_that_of_padded_rows(ratio, lora, tmp_path):
    policy = made(lora=lora)
    rows = credit_rows(make_rows(rollouts(policy)), np.linspace(-1, 2, 12))
    policy.keep_reference()
    options = {"ratio": ratio, "aggregate": "sequence-mean", "kl": "k3", "entropy": 0.01}
    padded = gradient(policy, rows, Update(**options), tmp_path)
    for tokens in (1, 150, 10_000):
        update = Update(packed=True, **options)
        packed = gradient(policy, rows, update, tmp_path, tokens=tokens, packed=True)
        for one, other in zip(padded, packed, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_values_of_a_critic_are_those_of_padded_rows():
    critic = Critic(made(), own=False)
    torch.nn.init.normal_(critic.head.weight, generator=torch.manual_seed(0))
    rows = make_rows(rollouts(critic.policy))
    with torch.no_grad():
        one, other = (critic.values(collate(rows, packed=packed)) for packed in (False, True))
    torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_models_that_cannot_pack_are_refused(vision_folder, monkeypatch):
    policy = made()
    own = policy.model.forward
    monkeypatch.setattr(policy.model, "forward", lambda position_ids=None, **inputs: own(**inputs))
    rows = make_rows(rollouts(policy))
    for one in (policy, Policy.load(str(vision_folder))):
        with pytest.raises(ValueError, match=r"does not keep packed rows apart.*update.packed=f"):
            recompute_logprobs(one, rows, tokens=100, packed=True)


def test_bfloat16_packs_too():
    assert recipe.load("alfworld mgr pocket", ["update.packed=true"]).update.packed
    policy = made(dtype="bfloat16")
    rows = make_rows(rollouts(policy))
    one, other = (recompute_logprobs(policy, rows, tokens=400, packed=p) for p in (0, 1))
    assert np.abs(one - other).mean() < 0.02
