"""Sampling: exact log-probabilities, a cache that changes nothing, choices that stay allowed."""

import asyncio
import gc
import math
import weakref

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.replies import FORM, Form
from trainer.engine import Begun, Decoding, Prompt
from trainer.engine.conversations import plan_levels
from trainer.engine.own import OwnEngine
from trainer.learn.batch import collate
from trainer.learn.rows import make_rows
from trainer.learn.update import token_logprobs
from trainer.model.policy import Policy
from trainer.play.records import Episode, Step

from .conftest import sample, tiny, tiny_model, tiny_tokenizer

ACTIONS = ["look", "go to desk 1", "go to desk 12", "go to bed 1", "take mug 1 from bed 1"]
OPENINGS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12)


def generator(seed=0):
    return np.random.default_rng(seed)


POLICY = tiny()


def start(rows, decode="free", policy=POLICY, **options):
    return OwnEngine(policy).batch(rows, Decoding(decode=decode, **options))


def opening(text):
    return list(POLICY.chat.opening(text))


@torch.inference_mode()
def logits_of(ids):
    """Logits after every token of one conversation, encoded whole and alone."""
    return POLICY.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()


def assert_recorded(history, reply):
    """Log-probabilities and entropies of a reply after `history` are those of one encoding."""
    scores = logits_of(history + reply.ids)[len(history) - 1 : -1].clone()
    for row, allowed in zip(scores, reply.allowed or (), strict=False):
        rest = torch.ones(len(row), dtype=torch.bool)
        rest[allowed] = False
        row[rest] = -torch.inf
    logprobs = scores.log_softmax(-1)
    entropies = torch.special.entr(logprobs.exp()).sum(-1)
    chosen = logprobs.gather(-1, torch.tensor(reply.ids)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(reply.logprobs), chosen, atol=1e-4, rtol=0)
    torch.testing.assert_close(torch.tensor(reply.entropies), entropies, atol=1e-4, rtol=1e-4)


@settings(max_examples=10, deadline=None)
@given(
    texts=st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_greedy_with_the_cache_equals_greedy_without(texts, seed, data):
    """Whatever the lengths and whichever rows are dropped on the way."""
    greedy = {"temperature": 0, "max_reply_tokens": 4}
    session = start(len(texts), **greedy)
    histories = {i: opening(text) for i, text in enumerate(texts)}
    new = {i: list(ids) for i, ids in histories.items()}
    for _ in range(3):
        rows = data.draw(st.permutations(sorted(new)))
        rows = rows[: data.draw(st.integers(1, len(rows)))]
        replies = sample(session, rows, [new[i] for i in rows], generator(seed))
        new = {}
        for i, reply in zip(rows, replies, strict=True):
            assert reply.ids == sample(start(1, **greedy), [0], [histories[i]], generator())[0].ids
            new[i] = POLICY.chat.after(reply.ids, f"message {i}")
            histories[i] = histories[i] + reply.ids + new[i]


def test_samples_follow_the_distribution():
    """4,000 first tokens against the model's probabilities: chi-square over the likely tokens."""
    prompt = opening("look")
    replies = sample(start(4000, max_reply_tokens=1), range(4000), [prompt] * 4000, generator(5))
    counts = torch.bincount(torch.tensor([r.ids[0] for r in replies]), minlength=330)
    expected = 4000 * logits_of(prompt)[-1].softmax(-1)
    likely = expected > 10
    chi2 = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert chi2 < 2 * likely.sum()  # mean = number of cells, deviation sqrt(2 cells)


def test_constrained_replies_are_actions_with_their_renormalised_probability():
    session, rng = start(8, "admissible", max_reply_tokens=2), generator()
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


@pytest.fixture
def fed(monkeypatch):
    """Token tensors given to the model from now on."""
    tensors, logits = [], POLICY.logits
    monkeypatch.setattr(
        Policy, "logits", lambda _, ids, keep, **c: (tensors.append(ids), logits(ids, keep, **c))[1]
    )
    return tensors


def test_nothing_is_encoded_twice(fed):
    """Tokens given to the model over an episode are its tokens, each once."""
    session, new, total = start(1, max_reply_tokens=6), opening("look"), 0
    for _ in range(4):
        reply = sample(session, [0], [new], generator())[0]
        total += len(new) + len(reply.ids)
        new = POLICY.chat.after(reply.ids, "Nothing happens.")
    assert sum(ids.numel() for ids in fed) == total - 1  # the last sampled token awaits its turn


def encode(openings, least):
    """Encode as planned: what each row holds at the end, and the number of tokens."""
    held, count = {}, 0
    for parts in plan_levels(openings, least=least):
        before = {row: list(tokens) for row, tokens in held.items()}
        for row, source, first, end in parts:
            assert first == 0 if source is None else len(before[source]) >= first
            copied = before[source][:first] if source is not None else []
            held[row] = [*copied, *openings[row][first:end]]
            count += end - first
    return held, count


@given(OPENINGS, st.integers(1, 6))
def test_every_opening_is_encoded_whole_and_no_common_beginning_twice(listed, least):
    openings = {row + 10: ids for row, ids in enumerate(listed)}
    held, count = encode(openings, least)
    assert held == openings
    assert count <= sum(map(len, set(map(tuple, listed))))
    _, count = encode(openings, least=1)
    assert count == len({tuple(one[:k]) for one in listed for k in range(1, len(one) + 1)})


def test_conversations_that_share_their_opening_are_sampled_as_alone():
    stem = generator().integers(7, 300, 60).tolist()
    openings = [stem, stem, [*stem, 9], [*stem[:40], 8, 8], [5, 6, 7], [*stem, 9, 11]]
    rows, later = range(6), [20, 21]
    together = start(6, max_reply_tokens=12)
    first = together.reply(rows, list(map(Prompt, openings)), list(rows))
    second = together.reply(rows, [Prompt(later)] * 6, list(rows))
    for row, ids in enumerate(openings):
        alone = start(1, max_reply_tokens=12)
        for replies, new in ((first, ids), (second, later)):
            (reply,) = alone.reply([0], [Prompt(new)], [row])
            assert reply.ids == replies[row].ids
            np.testing.assert_allclose(reply.logprobs, replies[row].logprobs, atol=1e-4)


def test_a_reply_begins_as_given_and_goes_on_in_proportion():
    begun, history = (40, 41), [30, 31, 32]
    logprobs = logits_of([*history, *begun])[-1].log_softmax(-1)
    without = tuple(logprobs.topk(3).indices.tolist())
    rest = 1 - logprobs[list(without)].exp().sum()
    prompt, seen = Prompt(history, begun=Begun(begun, without)), set()
    for seed in range(40):
        (reply,) = start(1, max_reply_tokens=4).reply([0], [prompt], [seed])
        assert tuple(reply.ids[:2]) == begun
        assert reply.logprobs[:2] == [0.0, 0.0]
        third = reply.ids[2]
        assert third not in without
        assert reply.logprobs[2] == pytest.approx((logprobs[third] - rest.log()).item(), abs=1e-4)
        assert len(reply.ids) <= 4
        seen.add(third)
    assert len(seen) > 1


def test_one_of_the_admissible_actions_goes_on_from_a_beginning_in_proportion():
    """Against the probabilities of the actions without it; the tokens that it forbids are gone."""
    actions = ["go to desk 1", "go to desk 2", "go to shelf 1", "look", "open desk 1"]

    def choose(seed, *begun):
        prompt = Prompt([30, 31], (), actions, Begun(*begun))
        session = start(1, "admissible", temperature=4.0, max_reply_tokens=2)
        return session.reply([0], [prompt], [seed])[0]

    free = {tuple(r.ids): math.exp(sum(r.logprobs)) for r in map(choose, range(150))}
    assert sum(free.values()) == pytest.approx(1.0, abs=1e-5)
    for ids in free:
        for size in range(len(ids)):
            others = {other: p for other, p in free.items() if other[:size] == ids[:size]}
            left = {other: p for other, p in others.items() if other[size] != ids[size]}
            for seed in range(12 if left else 0):
                reply = choose(seed, ids[:size], ids[size : size + 1])
                p = left[tuple(reply.ids)] / sum(left.values())
                assert math.exp(sum(reply.logprobs)) == pytest.approx(p, rel=1e-3)
                assert ids[size] not in reply.allowed[size]
                assert all(t in a for t, a in zip(reply.ids, reply.allowed, strict=True))


def test_eager_attention_gives_the_same_replies():
    tokenizer = tiny_tokenizer()
    model = tiny_model(len(tokenizer))
    model.set_attn_implementation("eager")
    prompts = [opening("look"), opening("You are in the middle of a room.")]
    one, other = (
        sample(start(2, policy=p, temperature=0, max_reply_tokens=6), [0, 1], prompts, generator())
        for p in (Policy(model, tokenizer), POLICY)
    )
    assert [r.ids for r in one] == [r.ids for r in other]


SMALL = {
    "vocab_size": 330, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 8, "initializer_range": 0.3,
}  # fmt: skip
FAMILIES = {
    "llama": transformers.LlamaConfig(**SMALL),
    "qwen3": transformers.Qwen3Config(**SMALL),
    "mistral": transformers.MistralConfig(**SMALL, sliding_window=None),
    "phi": transformers.PhiConfig(**SMALL | {"num_key_value_heads": 4, "partial_rotary_factor": 1}),
    "gpt2": transformers.GPT2Config(
        vocab_size=330, n_embd=32, n_layer=2, n_head=4, n_positions=256
    ),
    "mistral, a window": transformers.MistralConfig(**SMALL, sliding_window=6),
    "qwen2, windows": transformers.Qwen2Config(
        **SMALL, use_sliding_window=True, sliding_window=6, max_window_layers=1
    ),
    "gemma2": transformers.Gemma2Config(
        **SMALL, sliding_window=6, attn_implementation="eager", query_pre_attn_scalar=8
    ),
    "gemma3": transformers.Gemma3TextConfig(
        **SMALL, sliding_window=6, layer_types=["sliding_attention", "full_attention"]
    ),
    "gpt-oss": transformers.GptOssConfig(
        **SMALL, sliding_window=6, num_local_experts=2, num_experts_per_tok=1,
        attn_implementation="eager",
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_families_of_models_sample_what_they_compute(family):
    """Other heads, rotations, norms and positions: cached ragged sampling is still exact."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES[family])
    policy = Policy(model, tiny_tokenizer())
    session = start(3, policy=policy, max_reply_tokens=5)
    played = [Episode("", "", 0, 0, "history", []) for _ in range(3)]
    for _ in range(3):
        new = [[7 + i] * (1 + 4 * i) for i in range(3)]
        replies = sample(session, range(3), new, generator())
        for ids, reply, episode in zip(new, replies, played, strict=True):
            episode.steps.append(Step("", "", "", ids, reply.ids, reply.logprobs))
    batch = collate(make_rows(played))
    with torch.no_grad():
        assert (token_logprobs(policy, batch) - batch.logprobs).abs().max() < 1e-4


def test_auto_chooses_where_the_actions_are_listed_as_they_are():
    auto, form = Decoding(decode="auto"), FORM
    assert auto.constrains(["look", "go 1 < 2"], form)
    assert not auto.constrains(["click[x]", "search[<keywords>]"], form)
    assert not auto.constrains([], form)
    assert not auto.constrains(["look"], Form("{action}"))
    assert Decoding(decode="admissible").constrains(["search[<keywords>]"], form)


def test_what_is_refused():
    for options, words in (
        ({"temperature": -1.0}, r"temperature\n.*greater than or equal to 0.*input_value=-1.0"),
        ({"max_reply_tokens": 0}, r"max_reply_tokens\n.*greater than or equal to 1.*input_value=0"),
        ({"decode": "beam"}, r"decode\n.*'free', 'admissible' or 'auto'.*input_value='beam'"),
    ):
        with pytest.raises(ValueError, match=words):
            Decoding(**options)
    broken = tiny()
    with torch.no_grad():
        broken.parameters()[-1].fill_(torch.nan)
    with pytest.raises(FloatingPointError, match=r"logits of .* are NaN or infinite"):
        sample(start(1, policy=broken), [0], [[5]], generator())
    broken.model.config.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(ValueError, match=r"has layers of linear_attention, and .*engine.name"):
        OwnEngine(broken)


def test_the_cache_is_freed_when_the_last_conversation_is_left(monkeypatch):
    """Not when Python next looks for cycles: it counts objects, and these few are gigabytes."""
    caches = weakref.WeakSet()
    batch = OwnEngine.batch

    def note(self, rows, decoding):
        conversations = batch(self, rows, decoding)
        if rows:
            caches.add(conversations._cache)
        return conversations

    async def talk(session):
        await asyncio.gather(*(session.reply(row, Prompt(opening("x"))) for row in range(2)))
        session.leave(0)
        await session.reply(1, Prompt(opening("y")))
        session.leave(1)

    monkeypatch.setattr(OwnEngine, "batch", note)
    gc.collect()
    gc.disable()
    try:
        for fresh in (False, True):
            session = OwnEngine(POLICY).open([1, 2], Decoding(max_reply_tokens=2), fresh=fresh)
            assert len(caches) == 1
            asyncio.run(talk(session))
            assert len(caches) == 0
    finally:
        gc.enable()
