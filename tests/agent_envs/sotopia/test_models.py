"""Models as partner and judge, against a stub of a server that misbehaves in every known way."""

from __future__ import annotations

import copy
import io
import json
import logging
import math
import pickle

import gymnasium as gym
import pytest
from rich.console import Console

import agent_envs  # noqa: F401  registers the id
from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.endpoint import Endpoint, EndpointError, open_endpoint
from agent_envs.sotopia.families import scene
from agent_envs.sotopia.models import ModelJudge, ModelPartner
from agent_envs.sotopia.rules import RANGES, JudgeError
from agent_envs.sotopia.talk import Talk
from trainer import recipe
from trainer.train import train

KEY = "sk-very-secret-0123456789"
FULL = {
    name: {"reasoning": "so", "score": (low + high) / 2} for name, (low, high) in RANGES.items()
}
GOOD = json.dumps(FULL)
TALK = Talk(scene("bargain", 0)).after(0, speak("Hello.")).after(1, Act("leave"))
MISSING = json.dumps({name: FULL[name] for name in list(FULL)[1:]})


def scored(name, score):
    return {"content": json.dumps(FULL | {name: {"reasoning": "", "score": score}})}


@pytest.fixture
def endpoint(server):
    made = Endpoint("stub", server.url, timeout=20.0, retries=2)
    yield made
    made.close()


@pytest.fixture
def judge(server, endpoint):
    server.content = GOOD
    return ModelJudge(endpoint)


FAILURES = [
    "html", "reset", "silent", "slow", 429, 500, 503, {"content": "{"}, {"content": None},
    {"content": MISSING}, {"content": "[]"}, scored("goal", 11), scored("secret", 0.5),
    scored("goal", "ten"), scored("goal", True), scored("goal", math.nan), scored("goal", 10**400),
]  # fmt: skip
SLOW = ("silent", "slow")


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_passing_failure_is_tried_again(server, judge, failure):
    judge.endpoint.timeout = 1.0 if failure in SLOW else 20.0
    server.script = [failure]
    assert judge.judge(TALK, 0).scores["goal"] == 5
    assert len(server.asked) == 2


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_lasting_failure_is_an_error_with_endpoint_and_conversation(server, judge, failure):
    judge.endpoint.timeout = 0.3 if failure in SLOW else 20.0
    server.script = [failure] * 3
    with pytest.raises(JudgeError, match=f"stub at {server.url} gave no answer on") as error:
        judge.judge(TALK, 0)
    assert "'bargain_touring_bicycle' after 2 acts in 3 tries" in str(error.value)
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_is_not_tried_again(server, judge, status):
    server.script = [status]
    with pytest.raises(JudgeError, match=f"in 1 try: HTTP {status}"):
        judge.judge(TALK, 0)


def test_retry_after_is_waited_for(server, judge, monkeypatch):
    waits = []
    monkeypatch.setattr("agent_envs.patience.sleep", waits.append)
    server.script = [429, 500]
    judge.judge(TALK, 0)
    assert waits[0] == 0.25
    assert 0 < waits[1] <= 0.002


def test_what_was_judged_costs_no_call(server, endpoint, tmp_path):
    server.content = GOOD
    judge = ModelJudge(endpoint, cache=tmp_path)
    first = judge.judge(TALK, 0)
    assert judge.judge(TALK, 0) == first
    assert ModelJudge(endpoint, cache=tmp_path).judge(TALK, 0) == first
    assert len(server.asked) == 1
    judge.judge(TALK, 1)
    judge.judge(TALK.after(0, speak("More.")), 0)
    assert len(server.asked) == 3
    assert {path.suffix for path in tmp_path.iterdir()} == {".json"}


def test_a_damaged_answer_in_the_cache_is_named(server, endpoint, tmp_path):
    server.content = GOOD
    ModelJudge(endpoint, cache=tmp_path).judge(TALK, 0)
    (kept,) = tmp_path.iterdir()
    kept.write_text(GOOD[:50])
    with pytest.raises(JudgeError, match=f"{kept} holds no scores, delete it"):
        ModelJudge(endpoint, cache=tmp_path).judge(TALK, 0)


def test_a_failure_is_not_kept(server, judge):
    server.script = [400]
    with pytest.raises(JudgeError):
        judge.judge(TALK, 0)
    assert judge.judge(TALK, 0).scores["goal"] == 5


def test_the_question(server, judge):
    judge.judge(TALK, 1)
    asked = server.asked[0]
    text = asked["messages"][0]["content"]
    name = TALK.scene.characters[1].name
    assert text.startswith(f"Two characters had this conversation. Score {name}, and only {name}.")
    assert 'said: "Hello."' in text
    assert asked["temperature"] == 0
    assert asked["response_format"]["json_schema"]["schema"]["required"] == list(RANGES)


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    server, endpoint, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    server.content, server.script = GOOD, [401]
    judge = ModelJudge(endpoint, cache=tmp_path)
    with pytest.raises(JudgeError) as error:
        judge.judge(TALK, 0)
    judge.judge(TALK, 0)
    assert server.keys == [f"Bearer {KEY}"] * 2
    seen = [str(error.value), repr(endpoint), str(endpoint), caplog.text, repr(vars(judge))]
    seen += [path.read_text() for path in tmp_path.iterdir()]
    assert "wrong key Bearer ***" in seen[0]
    assert all(KEY not in text for text in seen)
    assert KEY.encode() not in pickle.dumps(judge)


@pytest.mark.parametrize("status", [401, 200])
def test_a_message_that_is_cut_has_no_part_of_the_key(server, monkeypatch, status):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for length in range(140, 300, 10):
        server.filler = "." * length
        server.content = f"{server.filler}{KEY} is no JSON"
        server.script = [status] if status != 200 else []
        endpoint = Endpoint("stub", server.url, retries=0)
        with pytest.raises(JudgeError) as error:
            ModelJudge(endpoint).judge(TALK, 0)
        endpoint.close()
        assert KEY[:8] not in str(error.value)


def test_no_file_of_a_run_has_the_key(server, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.content, server.script = GOOD, [500, 429]
    options = (
        f"env.options.judge=openai:stub@{server.url}", "run.steps=1", "run.threads=1",
        "sampling.tasks=1", "sampling.rollouts=2", "env.max_turns=1", "eval.tasks=1",
        "eval.every=0", "run.save_every=1", "run.episodes_every=1",
    )  # fmt: skip
    told = io.StringIO()
    train(recipe.load("sotopia_quickstart", options), tmp_path, console=Console(file=told))
    assert server.keys
    assert set(server.keys) == {f"Bearer {KEY}"}
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert tmp_path / "report.html" in files
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert KEY not in told.getvalue()


def test_copies_ask_for_themselves(server, judge):
    judge.judge(TALK, 0)
    for other in (copy.deepcopy(judge), pickle.loads(pickle.dumps(judge))):
        assert other.judge(TALK, 0).scores["goal"] == 5
        other.judge(TALK, 1)
        other.endpoint.close()
    assert len(server.asked) == 3


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
    judge.endpoint.close()


def test_a_judge_that_fails_on_the_other_side_is_flagged_too(server, endpoint):
    server.content, server.script = "no", [{"content": GOOD}]
    judge = ModelJudge(endpoint)
    judge.endpoint.retries = 0
    env = gym.make("Sotopia-v0", judge=judge, partner="external", on_judge_error="flag")
    env.reset(seed=1)
    *_, info = env.step('{"action_type": "leave"}')
    assert info["scores"]["goal"] == 5
    assert info["partner_scores"] == {}
    assert server.url in info["judge_error"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("openai:", "written openai:<model>@<base url>"),
        ("openai:m", "written openai:<model>@<base url>"),
        ("openai:@http://h/v1", "a model and an address"),
        ("openai:m@http://", "a model and an address"),
        (f"openai:m@http://me:{KEY}@h/v1", "holds a name, a password or a query"),
        (f"openai:m@http://h/v1?key={KEY}", "holds a name, a password or a query"),
    ],
)
def test_no_endpoint(spec, says):
    with pytest.raises(ValueError, match=r"endpoint|address") as refusal:
        open_endpoint(spec)
    assert says in str(refusal.value)
    assert KEY not in str(refusal.value)


def test_endpoint_options():
    with pytest.raises(ValueError, match="timeout is above 0"):
        Endpoint("m", "http://h/v1", timeout=0)
    with pytest.raises(ValueError, match="retries at least 0"):
        Endpoint("m", "http://h/v1", retries=-1)
    assert open_endpoint("openai:org/m@x@https://h/v1").model == "org/m@x"


@pytest.mark.parametrize(("option", "given"), [("partner", "scriptd"), ("judge", "rule")])
def test_unknown_names_are_refused(option, given):
    with pytest.raises(ValueError, match=f"unknown {option} '{given}', did you mean"):
        gym.make("Sotopia-v0", **{option: given})
