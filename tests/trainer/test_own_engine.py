"""Sampling: exact log-probabilities, a cache that changes nothing, choices that stay allowed."""

import asyncio
import gc
import weakref

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.engine.own import OwnEngine
from trainer.engine.sampling import Decoding
from trainer.learn.batch import collate, make_rows
from trainer.learn.update import token_logprobs
from trainer.model.policy import Policy
from trainer.play.records import Episode, Step

from .conftest import sample, tiny_model, tiny_tokenizer

ACTIONS = ["look", "go to desk 1", "go to desk 12", "go to bed 1", "take mug 1 from bed 1"]


def generator(seed=0):
    return np.random.default_rng(seed)


def policy():
    tokenizer = tiny_tokenizer()
    return Policy(tiny_model(len(tokenizer)), tokenizer)


POLICY = policy()


def opening(text):
    return list(POLICY.chat.opening(text))


@torch.inference_mode()
def logits_of(ids):
    """Logits after every token of one conversation, encoded whole and alone."""
    return POLICY.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()


def recomputed(history, reply, temperature=1.0):
    """Log-probabilities of a reply after `history`, and the entropies, from one whole encoding."""
    scores = logits_of(history + reply.ids)[len(history) - 1 : -1] / temperature
    if reply.allowed is not None:
        for row, allowed in zip(scores, reply.allowed, strict=True):
            rest = torch.ones(len(row), dtype=torch.bool)
            rest[allowed] = False
            row[rest] = -torch.inf
    logprobs = scores.log_softmax(-1)
    entropies = torch.special.entr(logprobs.exp()).sum(-1)
    return logprobs.gather(-1, torch.tensor(reply.ids)[:, None])[:, 0], entropies


def assert_recorded(history, reply, temperature=1.0):
    logprobs, entropies = recomputed(history, reply, temperature)
    torch.testing.assert_close(torch.tensor(reply.logprobs), logprobs, atol=1e-4, rtol=0)
    torch.testing.assert_close(torch.tensor(reply.entropies), entropies, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_recorded_logprobs_are_those_of_a_whole_encoding(temperature):
    decoding = Decoding(temperature=temperature, max_reply_tokens=12)
    session, rng = OwnEngine(POLICY).batch(3, decoding), generator()
    histories = [opening(t) for t in ("You are in a room.", "look", "A much longer text " * 9)]
    new = [list(h) for h in histories]
    for message in ("Nothing happens.", "On the desk 1, you see a mug 1.", "ok"):
        replies = sample(session, range(3), new, rng)
        for i, reply in enumerate(replies):
            assert_recorded(histories[i], reply, temperature)
            new[i] = POLICY.chat.after(reply.ids, message * (i + 1))
            histories[i] += reply.ids + new[i]


@settings(max_examples=20, deadline=None)
@given(
    texts=st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_greedy_with_the_cache_equals_greedy_without(texts, seed, data):
    """Whatever the lengths and whichever rows are dropped on the way."""
    decoding = Decoding(temperature=0, max_reply_tokens=4)
    session = OwnEngine(POLICY).batch(len(texts), decoding)
    histories = {i: opening(text) for i, text in enumerate(texts)}
    new = {i: list(ids) for i, ids in histories.items()}
    for _ in range(3):
        rows = data.draw(st.permutations(sorted(new)))
        rows = rows[: data.draw(st.integers(1, len(rows)))]
        replies = sample(session, rows, [new[i] for i in rows], generator(seed))
        new = {}
        for i, reply in zip(rows, replies, strict=True):
            uncached = sample(
                OwnEngine(POLICY).batch(1, decoding), [0], [histories[i]], generator()
            )[0]
            assert reply.ids == uncached.ids
            new[i] = POLICY.chat.after(reply.ids, f"message {i}")
            histories[i] = histories[i] + reply.ids + new[i]


def test_neighbours_do_not_change_a_row():
    decoding = Decoding(temperature=0, max_reply_tokens=8)
    texts = ["short", "You are in the middle of a room. " * 4, "a mug"]
    together = sample(
        OwnEngine(POLICY).batch(3, decoding), range(3), [opening(t) for t in texts], generator()
    )
    for text, reply in zip(texts, together, strict=True):
        alone = sample(OwnEngine(POLICY).batch(1, decoding), [0], [opening(text)], generator())[0]
        assert alone.ids == reply.ids
        assert alone.logprobs == pytest.approx(reply.logprobs, abs=1e-5)


def test_same_seed_same_replies_and_another_seed_others():
    decoding = Decoding(max_reply_tokens=10)
    prompts = [opening("look")] * 4

    def ids(seed):
        return [
            r.ids
            for r in sample(
                OwnEngine(POLICY).batch(4, decoding), range(4), prompts, generator(seed)
            )
        ]

    assert ids(1) == ids(1)
    assert ids(1) != ids(2)


def test_samples_follow_the_distribution():
    """4,000 first tokens against the model's probabilities: chi-square over the likely tokens."""
    decoding = Decoding(max_reply_tokens=1)
    prompt = opening("look")
    replies = sample(
        OwnEngine(POLICY).batch(4000, decoding), range(4000), [prompt] * 4000, generator(5)
    )
    counts = torch.bincount(torch.tensor([r.ids[0] for r in replies]), minlength=330)
    expected = 4000 * logits_of(prompt)[-1].softmax(-1)
    likely = expected > 10
    chi2 = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert chi2 < 2 * likely.sum()  # mean = number of cells, deviation sqrt(2 cells)


def test_a_reply_ends_at_the_end_of_the_turn_or_is_cut():
    decoding = Decoding(max_reply_tokens=30)
    replies = sample(
        OwnEngine(POLICY).batch(64, decoding), range(64), [opening("look")] * 64, generator(3)
    )
    end = POLICY.chat.end
    closed = [r for r in replies if r.ids[-1] == end]
    cut = [r for r in replies if r.ids[-1] != end]
    assert closed
    assert cut
    assert all(end not in r.ids[:-1] for r in replies)
    assert all(len(r.ids) == 30 for r in cut)
    assert all("<|im_end|>" not in r.text for r in closed)


def test_constrained_replies_are_actions_with_their_renormalised_probability():
    decoding = Decoding(decode="admissible", max_reply_tokens=2)
    session, rng = OwnEngine(POLICY).batch(8, decoding), generator()
    histories = [opening(f"room {i}") for i in range(8)]
    new = [list(h) for h in histories]
    seen = set()
    for _ in range(3):
        for i, reply in enumerate(sample(session, range(8), new, rng, [ACTIONS] * 8)):
            assert reply.text in {f"<think></think><action>{a}</action>" for a in ACTIONS}
            assert tuple(reply.ids) == POLICY.chat.reply(reply.text)
            assert all(t in a for t, a in zip(reply.ids, reply.allowed, strict=True))
            assert_recorded(histories[i], reply)
            new[i] = POLICY.chat.after(reply.ids, "ok")
            histories[i] += reply.ids + new[i]
            seen.add(reply.text)
    assert len(seen) > 2


def test_a_single_action_leaves_no_choice():
    decoding = Decoding(decode="admissible")
    reply = sample(
        OwnEngine(POLICY).batch(1, decoding), [0], [opening("x")], generator(), [["look"]]
    )[0]
    assert reply.logprobs == reply.entropies == [0.0] * len(reply.ids)


def test_probabilities_of_the_actions_sum_to_one():
    """Each action's probability is the product of its recorded tokens' probabilities."""
    decoding = Decoding(decode="admissible")
    replies = sample(
        OwnEngine(POLICY).batch(300, decoding),
        range(300),
        [opening("x")] * 300,
        generator(),
        [ACTIONS] * 300,
    )
    probability = {r.text: torch.tensor(r.logprobs).sum().exp().item() for r in replies}
    assert len(probability) == len(ACTIONS)
    assert sum(probability.values()) == pytest.approx(1.0, abs=1e-5)


@pytest.fixture
def fed(monkeypatch):
    """Token tensors given to the model from now on."""
    given, logits = [], POLICY.logits
    monkeypatch.setattr(
        Policy, "logits", lambda _, ids, keep, **c: (given.append(ids), logits(ids, keep, **c))[1]
    )
    return given


def test_equal_openings_are_encoded_once(fed):
    one, other = opening("You are in a room."), opening("look")
    prompts = [one, other, one, one, other]
    batch = OwnEngine(POLICY).batch(5, Decoding(max_reply_tokens=1))
    replies = sample(batch, range(5), prompts, generator())
    assert sum(ids.numel() for ids in fed) <= 2 * len(one)
    for prompt, reply in zip(prompts, replies, strict=True):
        assert_recorded(prompt, reply)
    assert len({r.ids[0] for r in replies}) > 1  # drawn one by one all the same


def test_nothing_is_encoded_twice(fed):
    """Tokens given to the model over an episode are its tokens, each once."""
    decoding = Decoding(max_reply_tokens=6)
    session, new, total = OwnEngine(POLICY).batch(1, decoding), opening("look"), 0
    for _ in range(4):
        reply = sample(session, [0], [new], generator())[0]
        total += len(new) + len(reply.ids)
        new = POLICY.chat.after(reply.ids, "Nothing happens.")
    assert sum(ids.numel() for ids in fed) == total - 1  # the last sampled token awaits its turn


def test_room_counts_down_to_the_models_positions():
    session = OwnEngine(POLICY).batch(1, Decoding(max_reply_tokens=1))
    assert session.room(0) == 2048
    reply = sample(session, [0], [[5] * 100], generator())[0]
    assert session.room(0) == 2048 - 100 - len(reply.ids)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, r"temperature\n.*greater than or equal to 0.*input_value=-1.0"),
        ({"max_reply_tokens": 0}, r"max_reply_tokens\n.*greater than or equal to 1.*input_value=0"),
        ({"decode": "beam"}, r"decode\n.*'free' or 'admissible'.*input_value='beam'"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Decoding(**options)


def test_misuse_is_refused():
    session = OwnEngine(POLICY).batch(2, Decoding(max_reply_tokens=1))
    with pytest.raises(ValueError, match="2 rows need one token list each, got 1"):
        sample(session, [0, 1], [[1]], generator())
    with pytest.raises(ValueError, match=r"rows \[1\] got no new token"):
        sample(session, [0, 1], [[1], []], generator())
    with pytest.raises(ValueError, match="each row may occur once"):
        sample(session, [0, 0], [[1], [1]], generator())
    with pytest.raises(ValueError, match="only there, got some with decode='free'"):
        sample(session, [0, 1], [[1], [1]], generator(), [["look"], ["look"]])
    with pytest.raises(ValueError, match="longer than the model's 2048 positions"):
        sample(session, [0, 1], [[1], [1] * 2049], generator())
    sample(session, [0], [[1]], generator())
    with pytest.raises(ValueError, match=r"rows \[1\] were dropped"):
        sample(session, [1], [[1]], generator())
    constrained = OwnEngine(POLICY).batch(1, Decoding(decode="admissible"))
    with pytest.raises(ValueError, match="needs actions"):
        constrained.reply([0], [[1]], generator(), [[]])


def test_eager_attention_gives_the_same_replies():
    tokenizer = tiny_tokenizer()
    model = tiny_model(len(tokenizer))
    model.set_attn_implementation("eager")
    decoding = Decoding(temperature=0, max_reply_tokens=6)
    prompts = [opening("look"), opening("You are in the middle of a room.")]
    one, other = (
        sample(OwnEngine(policy).batch(2, decoding), [0, 1], prompts, generator())
        for policy in (Policy(model, tokenizer), POLICY)
    )
    assert [r.ids for r in one] == [r.ids for r in other]


def test_broken_weights_are_refused():
    tokenizer = tiny_tokenizer()
    broken = Policy(tiny_model(len(tokenizer)), tokenizer)
    with torch.no_grad():
        broken.parameters()[-1].fill_(torch.nan)
    with pytest.raises(FloatingPointError, match=r"logits of .* are NaN or infinite"):
        sample(OwnEngine(broken).batch(1, Decoding()), [0], [[5]], generator())


SMALL = {
    "vocab_size": 330,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "initializer_range": 0.3,
}
FAMILIES = {
    "llama": transformers.LlamaConfig(**SMALL),
    "qwen3": transformers.Qwen3Config(**SMALL),
    "mistral": transformers.MistralConfig(**SMALL, sliding_window=None),
    "phi": transformers.PhiConfig(**SMALL | {"num_key_value_heads": 4, "partial_rotary_factor": 1}),
    "gpt2": transformers.GPT2Config(
        vocab_size=330, n_embd=32, n_layer=2, n_head=4, n_positions=256
    ),
}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_families_of_models_sample_what_they_compute(family):
    """Other heads, rotations, norms and positions: cached ragged sampling is still exact."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES[family])
    policy = Policy(model, tiny_tokenizer())
    session = OwnEngine(policy).batch(3, Decoding(max_reply_tokens=5))
    played = [Episode("", "", 0, 0, "history", []) for _ in range(3)]
    for _ in range(3):
        new = [[7 + i] * (1 + 4 * i) for i in range(3)]
        for ids, reply, episode in zip(
            new, sample(session, range(3), new, generator()), played, strict=True
        ):
            episode.steps.append(Step("", "", "", ids, reply.ids, reply.logprobs))
    batch = collate(make_rows(played))
    with torch.no_grad():
        logprobs = token_logprobs(policy, batch)
    assert (logprobs - batch.logprobs).abs().max() < 1e-4


@pytest.mark.smollm2
def test_smollm2_is_sampled_and_recomputed_exactly():
    try:
        policy = Policy.load("smollm2-135m")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    prompt = "You are in a room. You see a bed 1, a desk 1. Your task is to: go to the desk."
    for decode, actions in (("free", None), ("admissible", [ACTIONS] * 2)):
        session = OwnEngine(policy).batch(2, Decoding(decode=decode, max_reply_tokens=12))
        new = [list(policy.chat.opening(prompt * (i + 1))) for i in range(2)]
        replies = sample(session, [0, 1], new, generator(), actions)
        steps = [
            Step("", r.text, "", ids, r.ids, r.logprobs, r.entropies, r.allowed)
            for ids, r in zip(new, replies, strict=True)
        ]
        batch = collate(make_rows([Episode("", "", 0, 0, "history", [s]) for s in steps]))
        with torch.no_grad():
            logprobs = token_logprobs(policy, batch)
        assert (logprobs - batch.logprobs).abs().max() < 1e-4
        assert policy.chat.text(replies[0].ids) == replies[0].text


def test_sliding_windows_are_refused():
    tokenizer = tiny_tokenizer()
    policy = Policy(tiny_model(len(tokenizer)), tokenizer)
    policy.model.config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(ValueError, match="has full_attention, sliding_attention"):
        OwnEngine(policy)
    windowed = transformers.MistralConfig(**SMALL, sliding_window=64)
    model = transformers.AutoModelForCausalLM.from_config(windowed)
    with pytest.raises(ValueError, match="has sliding_attention; use another model"):
        OwnEngine(Policy(model, tokenizer))


def test_the_cache_is_freed_when_the_last_conversation_is_left():
    """Not when Python next looks for cycles: it counts objects, and these few are gigabytes."""
    caches = weakref.WeakSet()
    batch = OwnEngine.batch

    def noted(self, rows, decoding):
        made = batch(self, rows, decoding)
        if rows:
            caches.add(made._cache)
        return made

    async def talk(session):
        await asyncio.gather(*(session.reply(row, opening("x")) for row in range(2)))
        session.leave(0)
        await session.reply(1, opening("y"))
        session.leave(1)

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OwnEngine, "batch", noted)
            for fresh in (False, True):
                session = OwnEngine(POLICY).open([1, 2], Decoding(max_reply_tokens=2), fresh=fresh)
                assert len(caches) == 1
                asyncio.run(talk(session))
                assert len(caches) == 0
    finally:
        gc.enable()
