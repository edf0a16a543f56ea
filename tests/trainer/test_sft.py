"""Imitation: demonstrations as the tokens a policy would have sampled, and a loss on replies."""

import pytest
import torch

from trainer.engine import FORM, Decoding, Prompt
from trainer.engine.own import OwnEngine
from trainer.learn.learner import Learner, Optimizer
from trainer.learn.rows import make_rows
from trainer.learn.sft import encode_demonstration, imitate
from trainer.play.records import Episode, Step

TURNS = [("You are in a room.", "go to desk 1"), ("On the desk 1, you see a mug 1.", "look")]


def encode(policy, context="history"):
    steps = [Step(seen, FORM.format(thought="", action=act), act, [], []) for seen, act in TURNS]
    shown = Episode("embedded/train/x", "g", 0, 0, context, steps)
    encode_demonstration(shown, policy)
    return shown


def test_a_demonstration_has_the_tokens_of_a_conversation_or_of_turns(tiny_policy):
    chat = tiny_policy.chat
    first, second = encode(tiny_policy).steps
    assert tuple(first.reply_ids) == chat.reply("<think></think><action>go to desk 1</action>")
    assert first.prompt_ids == list(chat.opening(TURNS[0][0]))
    assert second.prompt_ids == chat.after(first.reply_ids, TURNS[1][0])
    shown = encode(tiny_policy, "turn")
    assert [s.prompt_ids for s in shown.steps] == [list(chat.opening(text)) for text, _ in TURNS]
    assert len(make_rows([shown])) == 2


def test_loss_is_the_cross_entropy_of_the_reply_tokens(tiny_policy, tmp_path):
    rows = make_rows([encode(tiny_policy)])
    with torch.no_grad():
        logits = tiny_policy.model(input_ids=torch.tensor([rows[0].ids])).logits[0]
    at = torch.tensor(rows[0].at)
    by_torch = torch.nn.functional.cross_entropy(logits[at - 1], torch.tensor(rows[0].ids)[at])
    taught = Learner(tiny_policy, Optimizer(learning_rate=0.0), folder=tmp_path)
    assert imitate(taught, rows)["loss"] == pytest.approx(by_torch.item(), abs=1e-4)
    with pytest.raises(ValueError, match=r"needs at least one row.*sampling\.max_tokens"):
        imitate(taught, [])


def test_imitation_learns_to_repeat_a_demonstration(tiny_policy, tmp_path):
    taught = Learner(tiny_policy, Optimizer(learning_rate=1e-2, warmup=3), folder=tmp_path)
    rows = make_rows([encode(tiny_policy)])
    losses = [imitate(taught, rows)["loss"] for _ in range(40)]
    assert losses[-1] < 0.05 < losses[0]
    batch = OwnEngine(tiny_policy).batch(1, Decoding(temperature=0))
    (reply,) = batch.reply([0], [Prompt(tiny_policy.chat.opening(TURNS[0][0]))], [0])
    assert reply.text == "<think></think><action>go to desk 1</action>"
