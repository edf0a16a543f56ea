"""Every engine: what a reply depends on, what is recorded with it, and what is refused."""

import asyncio

import pytest

from trainer.build import make_engine
from trainer.engine import Decoding, Prompt, conversation_seeds
from trainer.learn.batch import collate
from trainer.learn.rows import make_rows
from trainer.learn.update import token_logprobs
from trainer.model.policy import Policy
from trainer.play.records import Episode, Step

from .conftest import tiny_qwen, tiny_tokenizer
from .vllms import VLLMS, serving

MESSAGES = ["Nothing happens.", "On the desk 1, you see a mug 1. " * 3, "ok"]
ROOMS = ["You are in a room.", "look", "A much longer text. " * 9, "go to desk 1", "a mug"]


@pytest.fixture(autouse=True)
def set_public_data():
    """None are made: bm25s loads numba, after which vLLM 0.32.0 for CPUs does not start."""


@pytest.fixture(scope="module")
def policy():
    tokenizer = tiny_tokenizer()
    return Policy(tiny_qwen(len(tokenizer)), tokenizer)


@pytest.fixture(scope="module", params=["own", *VLLMS])
def opened(request, policy, tmp_path_factory):
    """An engine for all tests of the module: vLLM takes seconds to start."""
    folder = tmp_path_factory.mktemp("engine")
    with serving(request.param, policy, folder) as options:
        made = make_engine(options, policy, folder)
        yield made
        made.close()


@pytest.fixture
def engine(opened, policy):
    if opened.policy is not policy:
        opened.sync(policy, 0)
    return opened


def talks(engine, policy, seeds, *, turns=3, fresh=False, rooms=ROOMS, **decoding):
    """Conversations of each seed that are held at the same time, each with its own length."""
    decoding = Decoding(**({"max_reply_tokens": 12} | decoding))

    async def talk(session, row, room):
        episode = Episode("t", "g", 0, 0, "turn" if fresh else "history", [])
        new = list(policy.chat.opening(room))
        for turn in range(turns):
            reply = await session.reply(row, Prompt(new))
            step = Step("", reply.text, "", new, reply.ids, reply.logprobs, reply.entropies)
            episode.steps.append(step)
            assert reply.version == engine.version
            text = MESSAGES[(row + turn) % len(MESSAGES)]
            new = list(policy.chat.opening(text) if fresh else policy.chat.after(reply.ids, text))
        session.leave(row)
        return episode

    async def hold():
        session = engine.open(seeds, decoding, fresh=fresh)
        return await asyncio.gather(
            *(talk(session, row, rooms[row % len(rooms)]) for row in range(len(seeds)))
        )

    return asyncio.run(hold())


def replies(episodes):
    return [[step.reply_ids for step in episode.steps] for episode in episodes]


def gap(policy, episodes, temperature):
    """Largest difference of recorded log-probabilities from those of whole rows."""
    batch = collate(make_rows(episodes))
    logprobs = token_logprobs(policy, batch, temperature=temperature)
    return (logprobs - batch.logprobs).abs().max().item()


@pytest.mark.parametrize(("temperature", "fresh"), [(1.0, False), (0.6, True)])
def test_logprobs_are_those_of_the_policy(engine, policy, temperature, fresh):
    played = talks(engine, policy, range(5), temperature=temperature, fresh=fresh)
    assert gap(policy, played, temperature) < 1e-4


@pytest.mark.parametrize("fresh", [False, True])
def test_a_reply_depends_on_its_seed_and_turn_only(engine, policy, fresh):
    seeds = conversation_seeds(7, 0, 2)
    together = replies(talks(engine, policy, seeds, fresh=fresh))
    for row, seed in enumerate(seeds):
        alone = talks(engine, policy, [seed] * (row + 1), fresh=fresh)
        assert replies(alone)[row] == together[row]
    assert replies(talks(engine, policy, conversation_seeds(8, 0, 2), fresh=fresh)) != together


def test_seeds_of_a_part_are_those_of_the_whole():
    assert conversation_seeds(3, 2, 4) == conversation_seeds(3, 0, 6)[2:]
    assert len(set(conversation_seeds(3, 0, 5000))) == 5000
    assert not set(conversation_seeds(3, 0, 100)) & set(conversation_seeds(4, 0, 100))


def test_a_sync_changes_weights_and_version(engine, policy):
    before = replies(talks(engine, policy, [1, 2]))
    other = policy.twin("other")
    other.set_weights({name: -weight for name, weight in policy.weights().items()})
    engine.sync(other, 7)
    after = talks(engine, other, [1, 2])
    assert engine.version == 7
    assert replies(after) != before
    assert gap(other, after, 1.0) < 1e-4


def test_a_reply_ends_at_the_end_of_the_turn_or_is_cut(engine, policy):
    played = talks(engine, policy, range(32), rooms=["look"], turns=1, max_reply_tokens=30)
    found = [step.reply_ids for episode in played for step in episode.steps]
    ends = policy.chat.ends
    assert any(ids[-1] in ends for ids in found)
    assert all(len(ids) == 30 for ids in found if ids[-1] not in ends)
    assert not any(set(ids[:-1]) & set(ends) for ids in found)


def test_room_shrinks_by_prompt_and_reply(engine, policy):
    async def measured():
        session = engine.open([0], Decoding(max_reply_tokens=3))
        before = session.room(0)
        reply = await session.reply(0, Prompt([5] * 100))
        return before - session.room(0) - 100 - len(reply.ids)

    assert asyncio.run(measured()) == 0


def test_a_conversation_longer_than_the_models_positions_is_refused(engine):
    async def ask():
        await engine.open([0], Decoding()).reply(0, Prompt([5] * 2049))

    with pytest.raises(ValueError, match="longer than the model's 2048"):
        asyncio.run(ask())
