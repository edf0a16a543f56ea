"""Servers of vLLM that fail, restart, are stale or are something else, with a stand-in for vLLM."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from trainer.build import make_engine
from trainer.engine import Decoding, EngineError, EngineOptions, Prompt, StaleWeights
from trainer.model.policy import Policy
from trainer.model.weights import LoRA

from .conftest import tiny, tiny_eyes, tiny_tokenizer
from .vllms import Standin, free_port


@pytest.fixture(scope="module")
def policy():
    return tiny()


def engine(policy, folder, *standins, **options):
    urls = tuple(one.url for one in standins)
    return make_engine(EngineOptions(name="vllm", urls=urls, **options), policy, folder)


def talk(made, policy, conversations=6, turns=2):
    """Replies of conversations that are held at the same time."""

    async def one(session, row):
        found, new = [], list(policy.chat.opening(f"room {row}"))
        for _ in range(turns):
            reply = await session.reply(row, Prompt(new))
            found.append(reply.ids)
            new = list(policy.chat.after(reply.ids, "ok"))
        return found

    async def everyone():
        session = made.open(range(conversations), Decoding(max_reply_tokens=4))
        return await asyncio.gather(*(one(session, row) for row in range(conversations)))

    return asyncio.run(everyone())


def test_an_opening_sends_disturbed_weights_first(policy, standin, tmp_path):
    for folder in ("mine", "0-123-0a1b2c3d"):  # of the user, and left by a run before
        (tmp_path / "weights" / folder).mkdir(parents=True)
    made = engine(policy, tmp_path, standin)
    assert standin.loads == 2
    before = policy.weights()
    assert all((before[name] == w).all() for name, w in standin.policy.weights().items())
    made.close()
    assert [one.name for one in (tmp_path / "weights").iterdir()] == ["mine"]


@pytest.mark.parametrize("mood", ["drop", 429, pytest.param(503, marks=pytest.mark.long)])
def test_a_lost_request_is_asked_again_and_nothing_twice(policy, standin, tmp_path, mood):
    undisturbed = talk(engine(policy, tmp_path, standin), policy)
    made = engine(policy, tmp_path, standin)
    standin.asked.clear()
    standin.moods = [None, mood, None, mood, mood]
    assert talk(made, policy) == undisturbed
    assert set(standin.asked.values()) == {1}


def test_a_restarted_server_gets_the_weights_again(policy, tmp_path, monkeypatch):
    """Its new process begins with weights of its own."""
    monkeypatch.setattr("trainer.engine.servers.RESTART", 0.0)
    port, other = free_port(), policy.twin("fresh")
    other.set_weights({name: -weight for name, weight in policy.weights().items()})
    first = Standin(policy, port=port)
    made = engine(policy, tmp_path, first)
    expected = talk(made, policy)
    first.close()
    second = Standin(other, port=port)
    assert talk(made, policy) == expected
    assert second.loads == 1
    second.close()


def test_conversations_are_divided_and_a_dead_server_is_replaced(policy, tmp_path):
    one, other = Standin(policy), Standin(policy)
    made = engine(policy, tmp_path, one, other)
    for standin in (one, other):
        standin.asked.clear()
    expected = talk(made, policy)
    assert one.asked.total() == other.asked.total() == 6
    other.close()
    made.sync(policy, 1)
    one.asked.clear()
    assert talk(made, policy) == expected
    assert one.asked.total() == 12
    one.close()


@pytest.mark.parametrize("lora", [2, pytest.param(0, marks=pytest.mark.long)])
def test_a_server_that_stays_as_it_is_is_found_out_at_once(standin, tmp_path, lora):
    """It answers with the policy's very weights, or without the new adapter, which is 0."""
    policy = tiny(lora=LoRA(rank=lora))
    made = engine(policy, tmp_path, standin)
    standin.stale = True
    before = policy.weights()
    with pytest.raises(StaleWeights, match=r"given weights 0 .*worker-extension-cls"):
        engine(policy, tmp_path, standin)
    assert all((before[name] == w).all() for name, w in policy.weights().items())
    policy.set_weights({name: weight + 0.5 for name, weight in before.items()})
    with pytest.raises(StaleWeights, match=r"weights 3 .*before: 0.*allowed 0\.001"):
        made.sync(policy, 3)


@pytest.mark.parametrize(
    ("dtype", "shift"),
    [
        ("bfloat16", 0.05),
        *(pytest.param("float32", shift, marks=pytest.mark.long) for shift in (0.5, -0.5)),
    ],
)
def test_another_distribution_is_not_taken_for_other_weights(standin, tmp_path, dtype, shift):
    """Also within what rounding may change in bfloat16: top_p=0.95 makes each token likelier."""
    policy = tiny(dtype=dtype)
    made = engine(policy, tmp_path, standin)
    standin.shift = shift
    with pytest.raises(EngineError, match=r"weights 1 .*another distribution.*top_p") as caught:
        made.sync(policy, 1)
    assert not isinstance(caught.value, StaleWeights)


@pytest.mark.parametrize(
    ("mood", "message"),
    [
        (400, "refuses, HTTP 400: not now"),
        ('{"choices": [{"text": "hello"}]}', "no tokens with log-probabilities"),
        ("<html>", "answers no JSON but '<html>'"),
        ("closed", r"no answer for 0 s .*http.*--resume"),
        ("slow", "timed out: no whole answer within 1.5 s"),
    ],
)
def test_a_server_that_gives_no_answer_that_can_be_used(policy, standin, tmp_path, mood, message):
    made = engine(policy, tmp_path, standin, patience=0.0)
    if mood == "closed":
        standin.close()
    else:
        standin.moods, standin.delay = [mood], 4.0 * (mood == "slow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.engine.servers.SECONDS", 1.5)
        with pytest.raises(EngineError, match=message):
            talk(made, policy, conversations=1)


def test_what_does_not_fit_is_refused(policy, standin, tmp_path):
    other, nowhere = Standin(policy, name="another"), f"http://127.0.0.1:{free_port()}"
    tokenizer = tiny_tokenizer()
    seeing = Policy(tiny_eyes(tokenizer), tokenizer, images=object())
    vllm = EngineOptions(name="vllm", urls=(standin.url,))
    for options, used, error, message in (
        (replace(vllm, urls=(nowhere,)), policy, EngineError, "_MODE=1 vllm serve MODEL"),
        (
            replace(vllm, urls=(standin.url, other.url)),
            policy,
            EngineError,
            "must serve one model.*another.*standin",
        ),
        (vllm, seeing, ValueError, 'images need engine.name="own"'),
    ):
        with pytest.raises(error, match=message):
            make_engine(options, used, tmp_path)
    with pytest.raises(ValueError, match=r"decode=.admissible. needs"):
        make_engine(vllm, policy, tmp_path).open([0], Decoding(decode="admissible"))
    other.close()
