"""Openings that begin alike are encoded once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.engine import UNBEGUN, Begun
from trainer.engine.own import OwnEngine
from trainer.engine.prefixes import levels
from trainer.engine.sampling import FORM, Decoding

OPENINGS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12)


def encoded(openings, least):
    """Encode as the parts say: what each row holds at the end, and the number of tokens."""
    held, count = {}, 0
    for parts in levels(openings, least=least):
        before = {row: list(tokens) for row, tokens in held.items()}
        for row, source, start, end in parts:
            assert start == 0 if source is None else len(before[source]) >= start
            held[row] = [*(before[source][:start] if source is not None else ()),
                         *openings[row][start:end]]  # fmt: skip
            count += end - start
    return held, count


@given(OPENINGS, st.integers(1, 6))
def test_every_opening_is_encoded_whole(listed, least):
    openings = {row + 10: opening for row, opening in enumerate(listed)}
    held, count = encoded(openings, least)
    assert held == openings
    distinct = {tuple(opening) for opening in listed}
    assert count <= sum(map(len, distinct))


@given(OPENINGS)
def test_no_common_beginning_is_encoded_twice(listed):
    _, count = encoded(dict(enumerate(listed)), least=1)
    assert count == len({tuple(one[:k]) for one in listed for k in range(1, len(one) + 1)})


def test_conversations_that_share_their_opening_are_sampled_as_alone(tiny_policy):
    rng = np.random.default_rng(0)
    stem = rng.integers(7, 300, 60).tolist()
    openings = [stem, stem, [*stem, 9], [*stem[:40], 8, 8], [5, 6, 7], [*stem, 9, 11]]
    decoding = Decoding(1.0, 12)
    engine = OwnEngine(tiny_policy)
    together = engine.batch(len(openings), decoding)
    rows = range(len(openings))
    first = together.reply(rows, openings, list(rows))
    second = together.reply(rows, [[20, 21]] * len(openings), list(rows))
    for row, opening in enumerate(openings):
        alone = engine.batch(1, decoding)
        for replies, new in ((first, opening), (second, [20, 21])):
            (reply,) = alone.reply([0], [new], [row])
            assert reply.ids == replies[row].ids
            np.testing.assert_allclose(reply.logprobs, replies[row].logprobs, atol=1e-4)


def test_a_reply_begins_as_given_and_goes_on_in_proportion(tiny_policy):
    batch = OwnEngine(tiny_policy).batch(1, Decoding(1.0, 4))
    (free,) = batch.reply([0], [[30, 31, 32]], [0])
    given_ids = (40, 41)
    with torch.inference_mode():
        ids = torch.tensor([[30, 31, 32, *given_ids]])
        logits = tiny_policy.model(ids).logits[0, -1]
    logprobs = logits.log_softmax(-1)
    without = tuple(logprobs.topk(3).indices.tolist())
    rest = 1 - logprobs[list(without)].exp().sum()
    seen = set()
    for seed in range(40):
        batch = OwnEngine(tiny_policy).batch(1, Decoding(1.0, 4))
        (reply,) = batch.reply([0], [[30, 31, 32]], [seed], begun=[Begun(given_ids, without)])
        assert tuple(reply.ids[:2]) == given_ids
        assert reply.logprobs[:2] == [0.0, 0.0]
        assert reply.ids[2] not in without
        assert reply.logprobs[2] == pytest.approx(
            (logprobs[reply.ids[2]] - rest.log()).item(), abs=1e-4
        )
        assert len(reply.ids) <= 4
        seen.add(reply.ids[2])
    assert len(seen) > 1
    assert free.ids != reply.ids


def test_beginnings_that_cannot_be_given_are_refused(tiny_policy):
    batch = OwnEngine(tiny_policy).batch(1, Decoding(1.0, 2))
    with pytest.raises(ValueError, match="begins with 2 tokens, but has 2 at most"):
        batch.reply([0], [[30]], [0], begun=[Begun((1, 2))])
    every = tuple(range(tiny_policy.model.config.vocab_size))
    with pytest.raises(ValueError, match="leave some"):
        batch.reply([0], [[30]], [0], begun=[Begun((), every)])
    with pytest.raises(ValueError, match=r"begins with the tokens \[1\], but no admissible action"):
        choose(tiny_policy, ["look"], Begun((1,)))
    first = tiny_policy.chat.reply(FORM.format(thought="", action="look"))
    with pytest.raises(ValueError, match="leave some"):
        choose(tiny_policy, ["look"], Begun(first[:3], first[3:4]))


def choose(policy, actions, begun=UNBEGUN, seed=0):
    batch = OwnEngine(policy).batch(1, Decoding(4.0, 2, "admissible"))
    return batch.reply([0], [[30, 31]], [seed], [actions], begun=[begun])[0]


def test_one_of_the_admissible_actions_goes_on_from_a_beginning_in_proportion(tiny_policy):
    """Against the probabilities of the actions without it; the tokens that it forbids are gone."""
    actions = ["go to desk 1", "go to desk 2", "go to shelf 1", "look", "open desk 1"]
    free = {}
    for seed in range(150):
        reply = choose(tiny_policy, actions, seed=seed)
        free[tuple(reply.ids)] = math.exp(sum(reply.logprobs))
    assert sum(free.values()) == pytest.approx(1.0, abs=1e-5)
    for ids in free:
        for size in range(len(ids)):
            others = {other: p for other, p in free.items() if other[:size] == ids[:size]}
            left = {other: p for other, p in others.items() if other[size] != ids[size]}
            if not left:
                continue
            drawn = [choose(tiny_policy, actions, Begun(ids[:size], ids[size : size + 1]), seed)
                     for seed in range(12)]  # fmt: skip
            for reply in drawn:
                p = left[tuple(reply.ids)] / sum(left.values())
                assert math.exp(sum(reply.logprobs)) == pytest.approx(p, rel=1e-3)
                assert ids[size] not in reply.allowed[size]
                assert all(t in a for t, a in zip(reply.ids, reply.allowed, strict=True))
