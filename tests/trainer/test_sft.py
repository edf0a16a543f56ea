"""Imitation: demonstrations as the tokens a policy would have sampled, and a loss on replies."""

from dataclasses import replace

import pytest
import torch

from agent_envs import Panel
from agent_envs.replies import FORM
from trainer.engine import Decoding, Prompt
from trainer.engine.own import OwnEngine
from trainer.learn.learner import Learner, Optimizer
from trainer.learn.rows import make_rows
from trainer.learn.sft import (
    attempt_demonstrations,
    encode_demonstration,
    find_end,
    has_reached,
    imitate,
    measure_imitation,
    split_tasks,
)
from trainer.play.environments import Env, PromptOptions
from trainer.play.records import Episode, Step, Task
from trainer.play.rollout import Rollouts
from trainer.run.checks import find_expert

AUTO = Decoding(decode="auto", max_reply_tokens=40)
TURNS = [("You are in a room.", "go to desk 1"), ("On the desk 1, you see a mug 1.", "look")]


def encode(policy, context="history"):
    steps = [Step(seen, FORM.write(act), act, [], []) for seen, act in TURNS]
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


def play_corridor(world="corridor:Corridor"):
    return Rollouts(Env(id=world, max_turns=4), PromptOptions(), "train", max_tokens=2000)


def test_a_demonstration_is_a_choice_where_the_policy_chooses(tiny_policy, corridor):
    tasks, rollouts = [Task("corridor/2", 0, 0)], play_corridor()
    (free,), (chosen,) = (
        attempt_demonstrations(rollouts, tasks, tiny_policy, decoding=decoding)
        for decoding in (Decoding(), AUTO)
    )
    assert {step.allowed for step in free.steps} == {None}
    for step in chosen.steps:
        ways = [tiny_policy.chat.reply(FORM.write(a)) for a in step.admissible]
        assert step.admissible == ["east", "north"]
        for place, allowed in enumerate(step.allowed):  # the tokens that continue what was said
            said = tuple(step.reply_ids[:place])
            assert set(allowed) == {way[place] for way in ways if way[:place] == said}


@pytest.mark.long
@pytest.mark.parametrize("decoding", [Decoding(0, 40), replace(AUTO, temperature=0)])
def test_imitation_is_the_share_of_greedy_replies(tiny_policy, tmp_path, corridor, decoding):
    tasks = [Task(f"corridor/{n}", n, 0) for n in (1, 2, 3)]
    shown = attempt_demonstrations(play_corridor(), tasks, tiny_policy, decoding=decoding)
    rows = make_rows(shown)
    taught = Learner(tiny_policy, Optimizer(learning_rate=3e-3), folder=tmp_path)
    measured = set()
    for _ in range(25):
        engine, same = OwnEngine(tiny_policy), []
        for row in rows:  # its replies, each after the expert's earlier ones
            places = sorted(dict(zip(row.turn[::-1], row.at[::-1], strict=True)).values())
            for start in places:
                ids = row.ids[start : row.at[-1] + 1]
                reply = sample_after(engine, row.ids[:start], decoding)
                same.append(ids[: len(reply)] == reply)
        found = measure_imitation(tiny_policy, rows, tokens=300)
        assert found == pytest.approx(sum(same) / len(same))
        measured.add(found)
        imitate(taught, rows)
    assert {0.0, 1.0} & measured, measured


def sample_after(engine, ids, decoding):
    actions = ("east", "north") if decoding.decode == "auto" else ()
    (reply,) = engine.batch(1, decoding).reply([0], [Prompt(ids, admissible=actions)], [0])
    return reply.ids


def test_a_warm_start_ends_when_it_imitates_or_no_more_improves():
    assert not find_end([0.2], 0.9)
    assert find_end([0.2, 0.85, 0.95, 0.95], 0.9).endswith("has reached sft.until=0.9")
    assert has_reached([0.2, 0.85, 0.95, 0.95], 0.9)
    assert not has_reached([0.95, 0.95], 0.9)
    assert not find_end([0.5, 0.8, 0.8, 1.0], 0.9)  # a lucky one ends nothing
    assert not find_end([1.0, 1.0], 0.9)
    assert not find_end([0.5, 0.9, *[0.5] * 17], 0.95)
    assert not find_end([0.5] * 19 + [0.6], 0.95)
    assert "not risen for 20" in find_end([0.5] * 20, 0.95)


@pytest.mark.parametrize(("size", "left_out"), [(2, 1), (20, 4), (500, 16)])
def test_left_out_tasks_are_not_imitated(size, left_out):
    rest, held_out = split_tasks(Panel("train", tuple(f"t/{n}" for n in range(size))))
    assert (len(rest), len(held_out)) == (size - left_out, left_out)
    assert not {*rest.task_ids} & {*held_out.task_ids}
    one, same = split_tasks(Panel("train", ("t/0",)))
    assert one.task_ids == same.task_ids == ("t/0",)


def test_without_an_expert_a_policy_needs_actions_to_choose_from(corridor):
    assert find_expert(play_corridor(), "auto", AUTO) == "explorer"
    assert find_expert(play_corridor("corridor:Unguided"), "auto", AUTO) == ""
    for world, decoding in (("Silent", AUTO), ("Unguided", Decoding())):
        with pytest.raises(ValueError, match=r"has no Explorer to imitate and lists no actions"):
            find_expert(play_corridor(f"corridor:{world}"), "auto", decoding)
    with pytest.raises(ValueError, match="Unguided has no experts"):
        find_expert(play_corridor("corridor:Unguided"), "explorer", AUTO)
