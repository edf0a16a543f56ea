"""A prompted model behind a server on loopback: the panel, its forms, what is kept and refused."""

import io
import json
import re
from base64 import b64decode
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from agent_envs import evaluation
from agent_envs.net import web
from tests.agent_envs.chat_server import ChatServer, completion, fails, says
from trainer import recipe
from trainer.build import evaluate_policy
from trainer.play import prompted
from trainer.play.rollout import Rollouts

from .conftest import Script

OPTIONS = "env.id=Corridor-v0 env.max_turns=6 eval.split=train eval.tasks=0"
NOTE = "Walk east the next time."


def reply(text, row=0):
    """Walks east and gets stuck at 2."""
    stuck = re.findall(r"You stand at (\d)", text)[-1] == "2"
    return f"<think></think><action>{'north' if stuck else 'east'}</action>"


def answer(handler):
    handler.server.closing.wait(0.01)
    handler.say(completion(reply(handler.body["messages"][-1]["content"])))


def learn(handler):
    """Walks north, unless a reflection says otherwise, and reflects."""
    messages = handler.body["messages"]
    if prompted._REFLECT in messages[-1]["content"]:
        handler.say(completion(f"<think>Why?</think>{NOTE}"))
    else:
        way = "east" if NOTE in messages[0]["content"] else "north"
        handler.say(completion(f"<think>On.</think><action>{way}</action>"))


@pytest.fixture(autouse=True)
def _fresh(corridor, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("agent_envs.net.web.BACKOFF", 0.01)
    web.close()
    yield
    web.close()


@pytest.fixture
def server():
    with ChatServer(answer) as made:
        yield made


@pytest.fixture
def play(server):
    def evaluate(form="", *options, out=None):
        words = [*OPTIONS.split(), *options]
        player = prompted.load_player("stub", server.url, form, "alfworld mgr pocket", words)
        return prompted.evaluate_player(player, out)

    return evaluate


@pytest.mark.parametrize("context", ["history", "turn"])
def test_it_is_the_evaluation_of_a_policy_that_says_the_same(play, server, context):
    options = [*OPTIONS.split(), f"prompt.context={context}"]
    made = recipe.load("alfworld mgr pocket", options)
    held_out = Rollouts(made.env, made.prompt, "train", max_tokens=10**6)
    sampler = Script(reply, temperature=0.0, limit=10**6)
    direct, _ = evaluate_policy(made, sampler, held_out, held_out.panel)
    found = play("", f"prompt.context={context}")
    assert found == replace(direct, decoding="stub, temperature 0, prompt of the recipe")
    assert found.success == [True, True, False, False, False]
    assert found.turns == [1, 2, 6, 6, 6]
    assert server.most > 1  # at the same time
    longest = max(len(one["messages"]) for one in server.asked)
    assert longest == (11 if context == "history" else 1)


def test_react_sends_the_whole_conversation_before_the_prompt_of_the_recipe(play, server):
    play("react", "prompt.context=turn", "env.max_turns=3")
    asked = max((one["messages"] for one in server.asked), key=len)
    assert [one["role"] for one in asked] == ["user", "assistant", "user", "assistant", "user"]
    assert [one["content"] for one in asked[:4]] == [
        f"{prompted._THINK}\n\nYou stand at 0.",
        "<think></think><action>east</action>",
        "You stand at 1.",
        "<think></think><action>east</action>",
    ]
    assert "admissible actions" in asked[-1]["content"]


@pytest.mark.parametrize("context", ["history", "turn"])
def test_an_image_is_sent_in_the_place_of_its_mark(server, context, tmp_path):
    server.act = says("<think>Up.</think><action>up</action>")
    words = ["eval.tasks=2", "env.max_turns=2", f"prompt.context={context}"]
    player = prompted.load_player("stub", server.url, "", "sokoban grpo", words)
    found = prompted.evaluate_player(player, tmp_path / "a.json")
    assert found.turns == [2, 2]
    env = gym.make("VisualSokoban-v0", split="test")
    asked = max((one["messages"] for one in server.asked), key=len)
    assert len(asked) == (3 if context == "history" else 1)
    shown = []
    for task in found.task_ids:
        pixels, _ = env.reset(options={"task_id": task})
        shown += [pixels, env.step("up")[0]]
    for message in [one["messages"][-1] for one in server.asked]:
        (image,) = [part for part in message["content"] if part["type"] == "image_url"]
        assert "<image>" not in json.dumps(message)
        picture = Image.open(io.BytesIO(b64decode(image["image_url"]["url"].partition(",")[2])))
        assert any(np.array_equal(np.asarray(picture), pixels) for pixels in shown)
    kept = (tmp_path / "a.episodes.jsonl").read_text().splitlines()[1:]
    assert [step["images"] for line in kept for step in json.loads(line)["steps"]] == [[]] * 4


def test_a_trial_after_a_reflection_reads_it_and_solves_the_task(play, server, tmp_path):
    server.act = learn
    found = play("reflexion", out=tmp_path / "a.json")
    assert found.success == [True] * 5
    assert found.turns == [1, 2, 3, 4, 5]  # of the trial that solved it
    assert found.decoding == "stub, temperature 0, reflexion (solved in any of 3 trials)"
    assert len(server.asked) == 5 * (6 + 1) + 15
    told = {one["messages"][0]["content"] for one in server.asked if NOTE in json.dumps(one)}
    assert len(told) == 5
    for second in told:
        assert f"Trial 1 of this task failed. You wrote: {NOTE}\n\n" in second
        assert "Why?" not in second
    failed = replace(play("react"), decoding="")
    server.act = says("<think></think><action>north</action>")
    server.asked.clear()
    assert play("reflexion", "eval.tasks=1").success == [False]
    assert len(server.asked) == 3 * 6 + 2  # no reflection on the last trial
    assert failed.success == [False] * 5


def test_what_was_played_is_kept_and_the_same_command_plays_the_others(
    play, server, tmp_path, monkeypatch
):
    monkeypatch.setattr(prompted, "AT_ONCE", 1)
    out, kept = tmp_path / "new" / "a.json", tmp_path / "new" / "a.episodes.jsonl"
    server.script = [answer] * 4 + [fails(401)]
    said = f"check the key in .OPENAI_API_KEY. 2 played tasks are in {kept}; the same command"
    with pytest.raises(prompted.EndpointError, match=said):
        play(out=out)
    with kept.open("a") as file:
        file.write('{"task_id": "corr')  # killed while writing
    server.asked.clear()
    found = play(out=out)
    assert len(server.asked) == 3 * 6
    assert found == play(out=out) == play()
    assert len(server.asked) == 3 * 6 + 21  # the last call keeps nothing
    assert [json.loads(line)["task_id"] for line in kept.read_text().splitlines()[1:]] == [
        f"corridor/{length}" for length in range(1, 6)
    ]
    with pytest.raises(ValueError, match=r"a\.episodes\.jsonl has episodes of other settings"):
        play("react", out=out)


def test_a_task_that_the_server_refuses_costs_no_other_its_reply(play, server, tmp_path):
    def refuse(handler):
        is_long = len(handler.body["messages"]) > 9  # of turn 6
        (fails(400, "too long") if is_long else answer)(handler)

    server.act = refuse
    with pytest.raises(prompted.EndpointError, match=r"turn 6.*too long.* 2 played tasks are in"):
        play(out=tmp_path / "a.json")
    assert [len(one["messages"]) for one in server.asked].count(11) == 3
    server.act = answer
    assert play(out=tmp_path / "a.json").turns == [1, 2, 6, 6, 6]


def test_an_environment_that_fails_costs_its_task_and_is_tried_again(
    play, corridor, tmp_path, monkeypatch
):
    act = corridor.Corridor.act

    def fail(self, action):
        if self.length == 1:
            raise OSError("lost")
        return act(self, action)

    with monkeypatch.context() as patch:
        patch.setattr(corridor.Corridor, "act", fail)
        with pytest.warns(UserWarning, match="1 of 5 tasks count as not solved.*OSError: lost"):
            found = play(out=tmp_path / "a.json")
        assert found.failed == ["corridor/1"]
        assert found.success == [False, True, False, False, False]
        with pytest.raises(ValueError, match=r"sampling\.failures=0 allows 0"):
            play("", "sampling.failures=0")
    assert play(out=tmp_path / "a.json").success == [True, True, False, False, False]


SILENT = ["endpoint.outage=0", "--endpoint", "http://127.0.0.1:9/v1"]
REFUSED = [
    ([], "the answer is empty; raise retries", says("")),
    ([], "check the key in $OPENAI_API_KEY. 0 played tasks need --out to be kept", fails(401)),
    (SILENT, "check that the server runs, or raise outage", answer),
    (["--form", "raect"], "form = 'raect': Input should be '', 'react' or 'reflexion'", answer),
    (["run.steps=3"], "does not read run.steps; it reads env, prompt, eval, endpoint", answer),
    (["env.split=train"], "does not read env.split; it reads", answer),
    (["endpoint.tries=3"], "endpoint.tries = 3: Unexpected keyword argument", answer),
    (["env.id=VisualSokoban-v0", "--form", "react"],
     "shows images, which the form 'react' leaves out; leave --form away", answer),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said", "act"), REFUSED)
def test_what_cannot_be_played_is_refused_in_a_line(call, server, words, said, act):
    server.act = act
    given = [*OPTIONS.split(), "endpoint.retries=0", "--endpoint", server.url, *words]
    code, _, told = call("eval", "stub", *given)
    assert code == 1
    assert said in told
    assert "\n" not in told.strip()


def test_the_command_saves_and_prints_the_evaluation(call, server, tmp_path):
    out = tmp_path / "a.json"
    words = ["eval", "stub", "--endpoint", server.url, "--out", out, *OPTIONS.split()]
    code, said, _ = call(*words)
    assert code == 0
    title = "train (embedded), 5 tasks, stub, temperature 0, prompt of the recipe"
    assert title in " ".join(said.split())
    assert evaluation.load(out).success == [True, True, False, False, False]
    assert call("eval", "stub", "--form", "react")[0] == 2
