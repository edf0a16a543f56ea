"""Self-chat: a policy that does not learn plays the other side of Sotopia."""

import io
import json
import threading
import time

import numpy as np
import pytest
import torch
from rich.console import Console

from agent_envs.sotopia.games import draw_scene
from agent_envs.sotopia.models import RANGES, Verdict
from agent_envs.sotopia.scene import Character, Scene
from agent_envs.sotopia.talk import Act, Talk, speak
from tests.agent_envs.sotopia.test_published import PAIRING, PERSON, SITUATION
from trainer import recipe
from trainer.build import load_partner, make_rollouts
from trainer.engine import Decoding, Reply
from trainer.model.policy import Policy
from trainer.play.partner import PolicyPartner, prompt
from trainer.play.source import draw_tasks
from trainer.run import metrics
from trainer.train import train

from .conftest import Script, own_sampler

LETTERS = "sampling.max_tokens=100000"  # a token each
PEOPLE = tuple(
    Character(first, "Quill")._replace(secret=secret)
    for first, secret in (("Ada", "Cannot swim"), ("Bo", "Sings"))
)
SCENE = Scene("rain", "It rains.", ("Stay dry", "Get wet"), 1, PEOPLE)
TALK = Talk(SCENE).after(0, speak("I pay $9."))


class Scripted(PolicyPartner):
    """Replies from a list instead of a model, and the prompts that it was given."""

    def __init__(self, *replies):
        self.engine = self.policy = self.chat = self
        self.decoding = Decoding(max_reply_tokens=8)
        self.replies, self.batches = list(replies), []

    def opening(self, text):
        return [text]

    def batch(self, rows, decoding):
        return self

    def reply(self, rows, prompts, seeds):
        self.batches.append([prompt.ids[0] for prompt in prompts])
        assert len(rows) == len(prompts)
        return [Reply(text=self.replies.pop(0)) for _ in rows]


def said(text):
    return f"<think>.</think><action>{text}</action>"


def chat(tiny_folder, *options):
    given = [
        f"policy.model={tiny_folder}", f"partner.model={tiny_folder}", "policy.lora.rank=0",
        "policy.dtype=float32", "policy.device=cpu", "policy.gradient_checkpointing=false",
        "partner.max_reply_tokens=8", "sampling.max_reply_tokens=8", "sampling.max_tokens=4000",
        "run.threads=1", "env.id=Sotopia-v1", "env.max_turns=2",
        "sampling.tasks=2", "sampling.rollouts=2",
    ]  # fmt: skip
    return recipe.load("sotopia grpo", [*given, *options])


def tasks(rollouts, count=3):
    return draw_tasks(rollouts.panel, tasks=count, rollouts=2, seed=0, step=1)


def play(loaded, partner, text):
    """Rollouts in which the policy always says the same."""
    rollouts, script = make_rollouts(loaded, "train"), Script(lambda *_: said(text), limit=10**6)
    object.__setattr__(rollouts, "partner", partner)
    return rollouts.play(tasks(rollouts), script, seed=0)


class Waiting:
    """A judge that waits, and notes in which threads it is asked."""

    waits = True

    def __init__(self):
        self.threads = set()

    def judge(self, talk, side):
        self.threads.add(threading.get_ident())
        time.sleep(0.02)
        return AtOnce().judge(talk, side)


class AtOnce:
    """A judge that counts acts."""

    def judge(self, talk, side):
        return Verdict(dict.fromkeys(RANGES, float(-len(talk.said) % 3)), {})


class ByLength:
    """A judge that likes long talks."""

    def judge(self, talk, side):
        length = sum(len(act.argument) for who, act in talk.said if who == side)
        middle = {name: sum(both) / 2 for name, both in RANGES.items()}
        return Verdict(middle | {"goal": float(length % 11)}, {})


@pytest.mark.long
def test_the_partner_speaks_in_one_thread_also_where_the_judge_waits(tiny_folder, monkeypatch):
    def played(judge):
        monkeypatch.setattr("agent_envs.sotopia.env.open_judge", lambda _: judge)
        load_partner.cache_clear()  # a model loaded anew says the same
        rollouts = make_rollouts(loaded, "train")
        sampler = own_sampler(loaded, rollouts.partner.engine.policy)
        speakers, acts = set(), rollouts.partner.acts
        monkeypatch.setattr(
            rollouts.partner,
            "acts",
            lambda *given: speakers.add(threading.get_ident()) or acts(*given),
        )
        episodes = rollouts.play(tasks(rollouts), sampler, seed=0)
        return episodes, speakers

    loaded = chat(tiny_folder, "sampling.rows=6")
    judge = Waiting()
    together, speakers = played(judge)
    assert speakers == {threading.get_ident()}
    assert len(judge.threads) > 1
    assert repr(together) == repr(played(AtOnce())[0])


def test_the_partner_reads_its_own_side_only():
    text = prompt(TALK, 1)
    assert TALK.scene.render_background(1) in text
    assert 'said: "I pay $9."' in text
    assert TALK.scene.show_goal(0) not in text
    assert TALK.scene.characters[0].secret not in text
    assert "You are at Turn 1." in text
    assert text.startswith(f"Imagine you are {TALK.scene.characters[1].name}, ")
    first = prompt(Talk(TALK.scene), 0)
    assert "since then" not in first
    assert "You are at Turn 1." in first
    scene = draw_scene("meet-000", 4)
    text = prompt(Talk(scene).after(0, speak("Hello.")), 1)
    assert text.startswith(scene.render_background(1))
    assert f'Now: {scene.characters[0].name} said: "Hello."' in text


@pytest.mark.parametrize(
    ("reply", "act"),
    [
        (said("No, $90."), speak("No, $90.")),
        (said("left the conversation"), Act("leave")),
        ("No tags.", Act("none")),
        (said('{"action_type": "sing"}'), Act("none")),
    ],
)
def test_replies_are_acts_and_what_is_none_does_nothing(reply, act):
    partner = Scripted(reply)
    speaker = partner.begin(TALK.scene, 1, np.random.default_rng(0))
    assert speaker.reply(TALK) == act


def test_all_running_episodes_are_answered_in_one_batch(tiny_folder):
    loaded = chat(tiny_folder, LETTERS, "env.options.family=meet", "env.max_turns=3")
    partner = Scripted(*[said(f"I say ${n}.") for n in range(100)])
    played = play(loaded, partner, "Hello there.")
    assert [len(episode.steps) for episode in played] == [3] * 6
    batches = [len(batch) for batch in partner.batches]
    # Who is side 1 is spoken to at the reset, one by one, and not after the last turn.
    second = sum(int(episode.task_id[-1]) % 2 for episode in played)
    assert batches == [1] * second + [6, 6] + [6 - second] * (second < 6)


def test_an_act_that_ends_the_talk_is_not_answered(tiny_folder):
    loaded = chat(tiny_folder, LETTERS)
    partner = Scripted(*[said("Good day.")] * 9)
    played = play(loaded, partner, '{"leave": true}')
    assert all(len(episode.steps) == 1 and not episode.truncated for episode in played)
    assert all(len(batch) == 1 for batch in partner.batches)  # those at the reset


@pytest.mark.long
def test_two_pocket_policies_talk_and_one_of_them_learns(tmp_path, monkeypatch):
    monkeypatch.setattr("agent_envs.sotopia.env.open_judge", lambda _: ByLength())
    for name, rows in {
        "environment_profiles": [SITUATION], "env_agent_combo_storages": [PAIRING],
        "agent_profiles": [PERSON, PERSON | {"agent_id": "A2"}],
    }.items():  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    loaded = chat(
        "pocket", "env.id=Sotopia-v0", f"env.data={tmp_path}", "env.split=all", "eval.split=all",
        "env.options.judge=none", "env.max_turns=3", "sampling.tasks=2", "sampling.rollouts=4",
        "run.steps=1",
        "sampling.max_tokens=4096", "sampling.max_reply_tokens=48", "partner.max_reply_tokens=48",
        "update.learning_rate=1e-3", "update.skip_dead_groups=false", "eval.tasks=1",
        "eval.every=0", "sampling.temperature=1.0",
    )  # fmt: skip
    load_partner.cache_clear()
    partner = load_partner(loaded.partner, loaded.policy)
    before = [w.clone() for w in partner.engine.policy.model.parameters()]
    monkeypatch.setattr("agent_envs.panels.Panel.find_shared", lambda *_: [])
    folder = tmp_path / "run"
    train(loaded, folder, console=Console(file=io.StringIO()))
    line = metrics.read_log(folder / "metrics.jsonl")[-1]
    assert line["episodes"] == 8
    assert line["valid"] > 0
    assert load_partner(loaded.partner, loaded.policy) is partner
    after = list(partner.engine.policy.model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    trained = Policy.load(str(folder / "checkpoints" / "step_1")).model.parameters()
    assert any(not torch.equal(a, b) for a, b in zip(before, trained, strict=True))


@pytest.mark.parametrize(
    ("words", "option", "message"),
    [
        ("sotopia grpo", "env.options.partner=external", r"set partner\.model to the policy"),
        ("alfworld mgr pocket", "partner.model=pocket", "has no option 'partner'"),
    ],
)
def test_a_partner_that_is_the_policy_or_of_another_environment_is_refused(words, option, message):
    with pytest.raises(recipe.RecipeError, match=message):
        assert make_rollouts(recipe.load(words, [option]), "train").panel
