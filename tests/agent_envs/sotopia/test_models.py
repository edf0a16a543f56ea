"""Models as partner and judge, against a stub of their server."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import gymnasium as gym
import pytest
from rich.console import Console

import agent_envs  # noqa: F401  registers the id
from agent_envs.endpoint import Endpoint, EndpointError
from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.families import draw_scene
from agent_envs.sotopia.models import ModelJudge, ModelPartner
from agent_envs.sotopia.rules import RANGES, JudgeError
from agent_envs.sotopia.talk import Talk
from trainer import recipe
from trainer.run import metrics
from trainer.train import train

KEY = "sk-very-secret-0123456789"
FULL = {
    name: {"reasoning": "so", "score": (low + high) / 2} for name, (low, high) in RANGES.items()
}
GOOD = json.dumps(FULL)
TALK = Talk(draw_scene("bargain", 0)).after(0, speak("Hello.")).after(1, Act("leave"))
MISSING = json.dumps({name: FULL[name] for name in list(FULL)[1:]})


def scored(name, score):
    return json.dumps(FULL | {name: {"reasoning": "", "score": score}})


@pytest.fixture
def endpoint(server):
    return Endpoint("stub", server.url, timeout=20.0, retries=2, outage=0.0)


@pytest.fixture
def judge(server, endpoint):
    server.content = GOOD
    return ModelJudge(endpoint)


WRONG = [
    "{", MISSING, "[]", scored("goal", 11), scored("secret", 0.5), scored("goal", "ten"),
    scored("goal", True), scored("goal", math.nan), scored("goal", 10**400), scored("goal", None),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda text: text[-40:])
def test_a_judge_without_all_scores_is_asked_again_and_then_an_error(server, judge, wrong):
    server.script = [{"content": wrong}]
    assert judge.judge(TALK, 0).scores["goal"] == 5
    assert len(server.asked) == 2
    server.script = [{"content": wrong}] * 3
    with pytest.raises(JudgeError, match=f"stub at {server.url} gave no answer on") as error:
        judge.judge(TALK, 0)
    assert "'bargain_touring_bicycle' after 2 acts in 3 tries" in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        f"```json\n{GOOD}\n```",
        f"<think>Is it {MISSING}?</think>\nMy scores: {GOOD} Best wishes.",
        GOOD.replace("5.0", '"5"').replace('-"5"', '"-5.0"'),
    ],
    ids=["fence", "thinking", "strings"],
)
def test_scores_are_read_however_a_model_writes_them(server, judge, content):
    server.content = content
    assert judge.judge(TALK, 0) == (
        {name: (low + high) / 2 for name, (low, high) in RANGES.items()},
        dict.fromkeys(RANGES, "so"),
    )


def test_what_was_judged_costs_no_call(server, endpoint, tmp_path):
    server.content = GOOD
    judge = ModelJudge(replace(endpoint, cache=str(tmp_path)))
    first = judge.judge(TALK, 0)
    assert judge.judge(TALK, 0) == first
    assert len(server.asked) == 1
    judge.judge(TALK, 1)
    judge.judge(TALK.after(0, speak("More.")), 0)
    assert len(server.asked) == 3


def test_the_question(server, judge):
    judge.judge(TALK, 1)
    asked = server.asked[0]
    text = asked["messages"][0]["content"]
    name = TALK.scene.characters[1].name
    assert text.startswith(f"Two characters had this conversation. Score {name}, and only {name}.")
    assert 'said: "Hello."' in text
    assert asked["temperature"] == 0
    assert asked["response_format"]["json_schema"]["schema"]["required"] == list(RANGES)


def test_no_file_of_a_run_has_the_key(server, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.content, server.script = GOOD, [500, 429]
    options = (
        f"env.options.judge=openai:stub@{server.url}", "run.steps=1", "run.threads=1",
        "sampling.tasks=1", "sampling.rollouts=2", "env.max_turns=1", "eval.tasks=1",
        "eval.every=0", "run.save_every=1", "run.episodes_every=1",
    )  # fmt: skip
    told = io.StringIO()
    train(recipe.load("sotopia grpo pocket", options), tmp_path, console=Console(file=told))
    assert server.keys
    assert set(server.keys) == {f"Bearer {KEY}"}
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert tmp_path / "report.html" in files
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert KEY not in told.getvalue()
    lines = metrics.read(tmp_path / "metrics.jsonl")
    asked = [line["endpoint_requests"] for line in lines]
    assert sum(asked) == len(server.asked) > 2
    assert lines[0]["endpoint_prompt_tokens"] == 0  # this server counts none


@pytest.mark.parametrize(
    "content",
    ["{}", '{"action_type": "dance", "argument": ""}', '{"action_type": "speak", "argument": " "}'],
)
def test_a_partner_that_does_no_act_is_asked_again_and_then_an_error(server, endpoint, content):
    speaker = ModelPartner(endpoint).begin(TALK.scene, 1, None)
    server.content = json.dumps({"action_type": "speak", "argument": "Good day."})
    server.script = [{"content": content}]
    talk = Talk(TALK.scene).after(0, speak("Hi."))
    assert speaker.reply(talk) == speak("Good day.")
    server.script = [{"content": content}] * 3
    with pytest.raises(EndpointError, match=r"after 1 acts in 3 tries"):
        speaker.reply(talk)


def test_a_partner_reads_its_own_side_only(server, endpoint):
    server.content = json.dumps({"action_type": "leave", "argument": ""})
    talk = Talk(TALK.scene).after(0, speak("Hi."))
    assert ModelPartner(endpoint).begin(talk.scene, 1, None).reply(talk) == Act("leave")
    text = server.asked[0]["messages"][1]["content"]
    assert talk.scene.background(1) in text
    assert talk.scene.characters[0].secret not in text
    assert talk.scene.goal(0) not in text
    assert 'said: "Hi."' in text


def test_both_in_the_environment(server):
    server.content = json.dumps({"action_type": "speak", "argument": "Deal."} | FULL)
    spec = f"openai:stub@{server.url}"
    env = gym.make("Sotopia-v0", partner=spec, judge=spec, family="bargain")
    env.reset(seed=1, options={"task": 0})
    _, _, _, _, info = env.step("Hello, I pay $9.")
    assert (info["progress"], info["progress_known"], info["scores"]) == (0, False, {})
    _, reward, terminated, _, info = env.step('{"action_type": "leave"}')
    assert terminated
    assert reward == 0.5
    assert info["progress"] == 5 / 6  # a success needs more than 6
    assert info["progress_known"]
    assert info["scores"]["goal"] == 5
    env.close()


def test_a_failed_judge_raises_or_is_flagged_and_is_never_a_zero(server, monkeypatch):
    server.content = "no"
    judge = ModelJudge(Endpoint("stub", server.url, retries=0))
    env = gym.make("Sotopia-v0", judge=judge)
    env.reset(seed=1)
    with pytest.raises(JudgeError):
        env.step('{"action_type": "leave"}')
    flagging = gym.make("Sotopia-v0", judge=judge, on_judge_error="flag")
    flagging.reset(seed=1)
    _, reward, terminated, _, info = flagging.step('{"action_type": "leave"}')
    assert terminated
    assert math.isnan(reward)
    assert info["scores"] == {}
    assert server.url in info["judge_error"]
    assert not info["success"]


def test_a_judge_that_fails_on_the_other_side_is_flagged_too(server, endpoint):
    server.content, server.script = "no", [{"content": GOOD}]
    judge = ModelJudge(replace(endpoint, retries=0))
    env = gym.make("Sotopia-v0", judge=judge, partner="external", on_judge_error="flag")
    env.reset(seed=1)
    *_, info = env.step('{"action_type": "leave"}')
    assert info["scores"]["goal"] == 5
    assert info["partner_scores"] == {}
    assert server.url in info["judge_error"]


def test_a_table_names_a_model_with_its_options(server):
    server.content = json.dumps({"action_type": "speak", "argument": "Deal."} | FULL)
    table = {"model": "stub", "url": server.url, "max_tokens": 90}
    env = gym.make("Sotopia-v0", partner=table, judge={**table, "temperature": 0.2})
    env.reset(seed=1, options={"task": 0})
    env.step("Hello.")
    env.step('{"action_type": "leave"}')
    assert [asked["max_tokens"] for asked in server.asked] == [90, 90]
    assert [asked["temperature"] for asked in server.asked] == [0.7, 0.2]
    with pytest.raises(ValueError, match="no option 'modle', did you mean 'model'"):
        gym.make("Sotopia-v0", partner={"modle": "stub"})


def test_models_are_waited_for(endpoint):
    assert not gym.make("Sotopia-v0").unwrapped.waits
    assert gym.make("Sotopia-v0", partner=endpoint).unwrapped.waits
    assert gym.make("Sotopia-v0", judge=endpoint).unwrapped.waits


@pytest.mark.parametrize(("option", "given"), [("partner", "scriptd"), ("judge", "rule")])
def test_unknown_names_are_refused(option, given):
    with pytest.raises(ValueError, match=f"unknown {option} '{given}', did you mean"):
        gym.make("Sotopia-v0", **{option: given})


def test_a_model_binds_itself_by_a_field(server):
    fields = {"action_type": "speak", "argument": "Fine.", "offer": None, "accept": True}
    server.content = json.dumps(fields)
    spec = f"openai:stub@{server.url}"
    env = gym.make("Sotopia-v0", partner=spec, family="bargain")
    env.reset(seed=1, options={"task": 0})
    offer = {"action_type": "speak", "argument": "So?", "offer": {"price": 100}}
    observation, *_, info = env.step(json.dumps(offer))
    assert observation.endswith('said: "Fine." [accepts the offer]')
    assert info["agreed"] == "$100"
    schema = server.asked[-1]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["action_type", "argument", "offer", "accept"]
    assert schema["properties"]["offer"]["anyOf"][0]["properties"] == {"price": {"type": "integer"}}
    env.close()


ACCEPTS = {"action_type": "speak", "argument": "ok", "offer": None, "accept": True}
SAYS = {"action_type": "speak", "argument": "Hello.", "offer": None, "accept": None}
TWICE = '{"action_type": "speak", "action_type": "leave", "argument": "Bye."}'


@pytest.mark.parametrize(
    "wrong",
    [json.dumps(ACCEPTS), json.dumps(SAYS | {"argument": "z" * 4097}), TWICE, f"So: {TWICE}"],
    ids=["nothing to accept", "too long", "a key twice", "a key twice, in text"],
)
@pytest.mark.parametrize("task", [0, 1])
def test_what_a_model_cannot_do_is_asked_for_again_and_not_shown(server, endpoint, wrong, task):
    env = gym.make("Sotopia-v0", partner=endpoint, family="bargain", split="test")
    server.content, server.script = json.dumps(SAYS), [{"content": wrong}]
    observation, _ = env.reset(seed=1, options={"task": task})
    if not server.asked:
        observation, *_ = env.step("Good morning.")
    assert observation.endswith('"Hello."')
    assert len(server.asked) == 2
    server.script = [{"content": wrong}] * 3
    with pytest.raises(EndpointError, match="gave no answer on"):
        env.step("Lovely weather.")


def test_the_longest_act_of_a_model_fits_the_observation_space(server, endpoint):
    server.content = json.dumps(SAYS | {"argument": '"' * 4096})
    env = gym.make("Sotopia-v0", partner=endpoint, family="bargain", split="test")
    assert env.observation_space.contains(env.reset(seed=1, options={"task": 0})[0])
    assert env.observation_space.contains(env.step("Hello.")[0])


def test_what_nobody_judged_is_no_payment_of_0(judge):
    env = gym.make("Sotopia-v0", judge=judge)
    env.reset(seed=1)
    *_, info = env.step("Hello.")
    assert info["partner_reward"] == 0
    *_, info = env.step('{"action_type": "leave"}')
    assert math.isnan(info["partner_reward"])
    assert info["partner_scores"] == {}
