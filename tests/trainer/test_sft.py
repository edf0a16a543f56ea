"""Imitation: demonstrations as the tokens a policy would have sampled, and a loss on replies."""

import numpy as np
import pytest
import torch

from trainer.engine import Decoding, Prompt
from trainer.engine.own import OwnEngine
from trainer.learn.batch import collate, make_rows
from trainer.learn.learner import Learner, Optimizer
from trainer.learn.sft import encode_demonstration, imitate

TURNS = [("You are in a room.", "go to desk 1"), ("On the desk 1, you see a mug 1.", "look")]


def test_a_demonstration_is_the_conversation_of_its_replies(tiny_policy):
    chat = tiny_policy.chat
    shown = encode_demonstration(chat, TURNS, task_id="embedded/train/x", goal="g")
    assert [s.action for s in shown.steps] == ["go to desk 1", "look"]
    assert shown.steps[0].reply == "<think></think><action>go to desk 1</action>"
    assert tuple(shown.steps[0].reply_ids) == chat.reply(shown.steps[0].reply)
    first = shown.steps[0]
    assert first.prompt_ids == list(chat.opening(TURNS[0][0]))
    assert shown.steps[1].prompt_ids == chat.after(first.reply_ids, TURNS[1][0])


def test_prompts_of_their_own_are_openings(tiny_policy):
    shown = encode_demonstration(tiny_policy.chat, TURNS, context="turn")
    openings = [list(tiny_policy.chat.opening(text)) for text, _ in TURNS]
    assert [s.prompt_ids for s in shown.steps] == openings
    assert len(make_rows([shown])) == 2


def test_loss_is_the_cross_entropy_of_the_reply_tokens(tiny_policy, tmp_path):
    rows = make_rows([encode_demonstration(tiny_policy.chat, TURNS)])
    with torch.no_grad():
        logits = tiny_policy.model(input_ids=torch.tensor([rows[0].ids])).logits[0]
    at = torch.tensor(rows[0].at)
    by_torch = torch.nn.functional.cross_entropy(logits[at - 1], torch.tensor(rows[0].ids)[at])
    taught = Learner(tiny_policy, Optimizer(learning_rate=0.0), folder=tmp_path)
    assert imitate(taught, rows)["loss"] == pytest.approx(by_torch.item(), abs=1e-4)


def test_imitation_learns_to_repeat_a_demonstration(tiny_policy, tmp_path):
    taught = Learner(tiny_policy, Optimizer(learning_rate=1e-2, warmup=3), folder=tmp_path)
    rows = make_rows([encode_demonstration(tiny_policy.chat, TURNS)])
    losses = [imitate(taught, rows)["loss"] for _ in range(40)]
    assert losses[-1] < 0.05 < losses[0]
    batch = OwnEngine(tiny_policy).batch(1, Decoding(temperature=0))
    (reply,) = batch.reply([0], [Prompt(tiny_policy.chat.opening(TURNS[0][0]))], [0])
    assert reply.text == "<think></think><action>go to desk 1</action>"


def test_environment_tokens_teach_nothing(tiny_policy):
    """The rows train on reply tokens only: 2 replies, the opening and the message left out."""
    shown = encode_demonstration(tiny_policy.chat, TURNS)
    batch = collate(make_rows([shown]))
    assert batch.target.tolist() == [t for s in shown.steps for t in s.reply_ids]
    assert int(batch.keep.sum()) == np.sum([len(s.reply_ids) for s in shown.steps])


def test_nothing_to_imitate_is_refused(tiny_policy, tmp_path):
    with pytest.raises(ValueError, match="the demonstration of 'x' has no turn"):
        encode_demonstration(tiny_policy.chat, [], task_id="x")
    with pytest.raises(ValueError, match="context is one of history, turn, got 'window'"):
        encode_demonstration(tiny_policy.chat, TURNS, context="window")
    with pytest.raises(ValueError, match="needs at least one row"):
        imitate(Learner(tiny_policy, Optimizer(learning_rate=0.0), folder=tmp_path), [])
