"""Log-probabilities in chunks: the values and gradients of the whole formula, in bounded memory."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from agent_envs.spaces import Picture
from trainer.learn.batch import Batch, collate
from trainer.learn.rows import Row
from trainer.learn.update import token_logprobs, token_logprobs_and_entropies, token_scores
from trainer.model import logprobs
from trainer.model.policy import Policy
from trainer.model.weights import LoRA

from .conftest import tiny_llama, tiny_model, tiny_tokenizer

TEMPERATURE = 0.7
SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.3,
    "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 2,
}  # fmt: skip
CHANGED = {  # logits are changed after the output layer
    "gemma2": (Gemma2ForCausalLM, Gemma2Config, {"head_dim": 8, "final_logit_softcapping": 4.0}),
    "granite": (GraniteForCausalLM, GraniteConfig, {"logits_scaling": 3.0}),
    "cohere": (CohereForCausalLM, CohereConfig, {"logit_scale": 0.25}),
}


def made(name, **options):
    tokenizer = tiny_tokenizer()
    if name in CHANGED:
        torch.manual_seed(0)
        kind, config, more = CHANGED[name]
        model = kind(config(vocab_size=len(tokenizer), **SIZES, **more)).eval()
    else:
        model = {"qwen": tiny_model, "llama": tiny_llama}[name](len(tokenizer))
    return Policy(model, tokenizer, **options)


def batch_of(count=40, vocabulary=330, *, held=False, packed=False) -> Batch:
    """Three rows with `count` reply tokens, every other one drawn from five allowed tokens."""
    rng = torch.Generator().manual_seed(0)
    rows = []
    for size in (count // 2, count // 4, count - count // 2 - count // 4):
        ids = torch.randint(3, vocabulary, (size + 4,), generator=rng).tolist()
        at = list(range(3, size + 3))
        allowed = [[ids[p], 3, 4, 5, 6] if p % 2 else [] for p in at] if held else None
        rows.append(Row(ids, at, [0] * size, [0.0] * size, allowed))
    return collate(rows, packed=packed)


def whole(policy, batch, temperature):
    """The formula on all logits of the model at once."""
    scores = policy.model(input_ids=batch.ids).logits[batch.keep].float() / temperature
    if batch.allowed is not None:
        for token in batch.allowed[:, 0].unique().tolist():
            allowed = batch.allowed[batch.allowed[:, 0] == token, 1]
            away = torch.full_like(scores[token], -1e9)
            away[allowed] = 0
            scores = torch.cat(
                [scores[:token], scores[token : token + 1] + away, scores[token + 1 :]]
            )
    logs = scores - scores.logsumexp(-1, keepdim=True)
    return logs.gather(-1, batch.target[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


def gradient(policy, loss):
    policy.model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten().clone() for p in policy.parameters() if p.grad is not None])


@pytest.fixture
def chunks(monkeypatch):
    monkeypatch.setattr(logprobs, "CHUNK", 7 * 330)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("temperature", [1.0, TEMPERATURE])
@pytest.mark.parametrize("name", ["qwen", "llama", *CHANGED])
def test_values_and_gradients_are_those_of_the_whole_formula(name, temperature, held):
    policy, batch = made(name), batch_of(held=held)
    expected, entropies = whole(policy, batch, temperature)
    with policy.training():
        found = token_logprobs(policy, batch, temperature=temperature)
        same, dispersed = token_logprobs_and_entropies(policy, batch, temperature=temperature)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)
    torch.testing.assert_close(same, found, atol=1e-6, rtol=0)
    torch.testing.assert_close(dispersed, entropies, atol=1e-4, rtol=0)
    weight = torch.sin(torch.arange(len(found)))
    wanted = gradient(policy, (weight * expected).sum())
    for values in (found, same):
        gap = gradient(policy, (weight * values).sum()) - wanted
        assert gap.norm() < 1e-6 * wanted.norm()


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_the_entropy_has_a_gradient_where_that_is_wanted(held):
    policy, batch = made("qwen"), batch_of(held=held)
    _, expected = whole(policy, batch, TEMPERATURE)
    wanted = gradient(policy, expected.sum())
    _, found = token_logprobs_and_entropies(policy, batch, temperature=TEMPERATURE, gradient=True)
    assert (gradient(policy, found.sum()) - wanted).norm() < 2e-6 * wanted.norm()
    logs, found = token_logprobs_and_entropies(policy, batch, temperature=TEMPERATURE)
    assert not gradient(policy, 0 * logs.sum() + found.sum()).any()


@pytest.mark.parametrize("targets", ["all-linear", ("lm_head", "q_proj")])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_chunks_change_nothing_for_adapters_and_mixed_precision(monkeypatch, dtype, targets):
    policy = made("llama", lora=LoRA(rank=4, targets=targets), dtype=dtype)
    for parameter in policy.parameters():
        torch.nn.init.normal_(parameter, std=0.1, generator=torch.manual_seed(0))
    batch, found = batch_of(), []
    for chunk in (2**25, 7 * 330):
        monkeypatch.setattr(logprobs, "CHUNK", chunk)
        with policy.training():
            values = token_logprobs(policy, batch, temperature=TEMPERATURE)
            found.append((values.detach(), gradient(policy, values.square().sum())))
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-5, rtol=0)
    # In bfloat16 a last bit of float32 may round a product to the next number.
    tolerance = 1e-6 if dtype == "float32" else 1e-2
    assert (found[0][1] - found[1][1]).norm() < tolerance * found[0][1].norm()


@pytest.mark.usefixtures("chunks")
def test_tokens_of_images_are_never_sampled(vision_folder):
    policy = Policy.load(str(vision_folder))
    mark = policy.vision.token
    picture = Picture(28, 28, bytes(28 * 28 * 3))
    image = ["<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]
    texts = [5, *policy.tokenizer.convert_tokens_to_ids(image), *range(6, 30)]
    ids = policy.vision.expand_marks(texts, [picture])
    at = list(range(len(ids) - 20, len(ids)))
    batch = collate([Row(ids, at, [0] * 20, [0.0] * 20, images=(picture,))])
    logs, entropies = token_logprobs_and_entropies(policy, batch)
    scores = token_scores(policy, batch)
    assert scores[:, mark].max() <= -1e8
    expected = scores.log_softmax(-1)
    torch.testing.assert_close(logs, expected.gather(-1, batch.target[:, None])[:, 0])
    torch.testing.assert_close(entropies, -(expected.exp() * expected).sum(-1), atol=1e-5, rtol=0)
    banned = replace(batch, target=torch.full_like(batch.target, mark))
    assert token_logprobs(policy, banned).max() <= -1e8


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor that is allocated, in bytes."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self.size = max(self.size, one.untyped_storage().nbytes())
        return result


VOCABULARY = 151_936  # of Qwen2.5


def wide():
    """A small model with a large vocabulary."""
    torch.manual_seed(0)
    sizes = SIZES | {"hidden_size": 8, "intermediate_size": 8, "max_position_embeddings": 1024}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCABULARY, tie_word_embeddings=True, **sizes))
    return Policy(model, tiny_tokenizer())


@pytest.mark.parametrize(
    "held", [False, pytest.param(True, marks=pytest.mark.long)], ids=["free", "held"]
)
@pytest.mark.parametrize("value", [
    token_logprobs,
    token_logprobs_and_entropies,
    lambda *a, **k: token_logprobs_and_entropies(*a, **k, gradient=True),
], ids=["logprobs", "entropies", "entropy gradients"])  # fmt: skip
def test_memory_does_not_grow_with_the_number_of_tokens(monkeypatch, value, held):
    """No tensor of tokens x vocabulary exists, neither forward nor backward."""
    monkeypatch.setattr(logprobs, "CHUNK", 2**22)  # 27 tokens
    policy, sizes = wide(), []
    for count in (40, 120):
        batch = batch_of(count, VOCABULARY, held=held)
        with Largest() as most, policy.training():
            found = value(policy, batch, temperature=TEMPERATURE)
            total = found.sum() if isinstance(found, torch.Tensor) else sum(f.sum() for f in found)
            total.backward()
        sizes.append(most.size)
        assert 4 * VOCABULARY * 8 <= most.size <= 4 * logprobs.CHUNK
    assert sizes[0] == sizes[1] < VOCABULARY * count


@pytest.mark.parametrize("name", ["qwen", *CHANGED])
def test_the_model_is_left_as_it_was_found(name):
    """Also after an error; a hook left behind would change what the model says."""
    policy, batch = made(name), batch_of()
    with torch.no_grad():
        before = policy.model(input_ids=batch.ids).logits

    def fails(*_):
        raise ZeroDivisionError

    for _ in range(2):
        token_logprobs(policy, batch)
        with pytest.raises(ZeroDivisionError):
            policy.apply_head(batch.ids, batch.keep, fails)
    assert "forward" not in vars(policy.model.get_output_embeddings())
    with torch.no_grad():
        assert torch.equal(policy.model(input_ids=batch.ids).logits, before)


@pytest.mark.parametrize("name", ["qwen", *CHANGED])
def test_gradients_pass_the_output_of_the_model(name):
    """Before they reach a weight: sharded modules gather their weights there."""
    policy, batch, seen = made(name), batch_of(), []
    weight = policy.model.get_output_embeddings().weight

    def note(model, inputs, output):
        output.logits.register_hook(lambda _: seen.append("output"))

    policy.model.register_forward_hook(note)
    weight.register_hook(lambda _: seen.append("weight"))
    with policy.training():
        token_logprobs(policy, batch).sum().backward()
    assert seen[-2:] == ["output", "weight"]


@pytest.mark.parametrize("odd", [
    lambda x: x + 1,
    lambda x: x.clamp(max=20),
    lambda x: x + torch.arange(x.shape[-1]),
    lambda x: x[..., :5],
    lambda x: x.index_fill(2, torch.tensor([3]), -math.inf),
])  # fmt: skip
def test_another_finish_is_refused(odd, monkeypatch):
    own = Qwen2ForCausalLM.forward

    def forward(self, **inputs):
        out = own(self, **inputs)
        out.logits = odd(out.logits)
        return out

    monkeypatch.setattr(Qwen2ForCausalLM, "forward", forward)
    policy = made("qwen")
    with pytest.raises(
        ValueError, match=r"in another way than by scaling or soft-capping.*sampled"
    ):
        token_logprobs(policy, batch_of())
