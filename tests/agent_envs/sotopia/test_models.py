"""Models as partner and judge, against a server on loopback."""

import io
import json
import math

import gymnasium as gym
import pytest
from rich.console import Console

import agent_envs  # noqa: F401  registers the id
from agent_envs.net.endpoint import Endpoint, EndpointError
from agent_envs.sotopia.games import draw_scene
from agent_envs.sotopia.models import RANGES, JudgeError, ModelJudge, ModelPartner
from agent_envs.sotopia.talk import Act, Talk, speak
from tests.agent_envs.chat_server import fails, says
from trainer import recipe
from trainer.run import metrics
from trainer.train import train

KEY = "sk-very-secret-0123456789"
FULL = {
    name: {"reasoning": "so", "score": (low + high) / 2} for name, (low, high) in RANGES.items()
}
GOOD = json.dumps(FULL)
TALK = Talk(draw_scene("bargain-000", 4)).after(0, speak("Hello.")).after(1, Act("leave"))
MISSING = json.dumps({name: FULL[name] for name in list(FULL)[1:]})
SAYS = {"say": "Hello.", "offer": None, "accept": None, "leave": None}
LEAVE = '{"leave": true}'


def says_score(name, score):
    return json.dumps(FULL | {name: {"reasoning": "", "score": score}})


def opened(seed=1, task=0, **options):
    env = gym.make("Sotopia-v1", family="bargain", split="test", **options)
    env.reset(seed=seed, options={"task": task})
    return env


@pytest.fixture
def endpoint(server):
    return Endpoint("stub", server.url, timeout=20.0, retries=2, outage=0.0)


@pytest.fixture
def judge(server, endpoint):
    server.act = says(GOOD)
    return ModelJudge(endpoint)


@pytest.mark.parametrize(
    "wrong",
    [
        "{", MISSING, "[]", says_score("goal", 11), says_score("secret", 0.5),
        says_score("goal", "ten"), says_score("goal", True), says_score("goal", math.nan),
        says_score("goal", None),
    ],
    ids=lambda text: text[-40:],
)  # fmt: skip
def test_a_judge_without_all_scores_is_asked_again_and_then_an_error(server, judge, wrong):
    server.script = [says(wrong)]
    assert judge.judge(TALK, 0).scores["goal"] == 5
    assert len(server.asked) == 2
    server.script = [says(wrong)] * 3
    with pytest.raises(JudgeError, match=f"stub at {server.url} gave no answer on") as error:
        judge.judge(TALK, 0)
    assert "'bargain-000' after 2 acts in 3 tries" in str(error.value)


def test_scores_are_read_between_thoughts_and_as_strings(server, judge):
    strings = GOOD.replace("5.0", '"5"').replace('-"5"', '"-5.0"')
    server.act = says(f"<think>Is it {MISSING}?</think>\nMy scores: {strings} Best wishes.")
    assert judge.judge(TALK, 0) == (
        {name: (low + high) / 2 for name, (low, high) in RANGES.items()},
        dict.fromkeys(RANGES, "so"),
    )


def test_the_judge_is_asked_about_one_side(server, judge):
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
    server.act, server.script = says(GOOD), [fails(500), fails(429)]
    options = (
        f"env.options.judge=openai:stub@{server.url}", "run.steps=1", "run.threads=1",
        "sampling.tasks=1", "sampling.rollouts=2", "env.max_turns=1", "eval.tasks=1",
        "eval.every=0", "sft.steps=0", "run.save_every=1", "run.episodes_every=1",
    )  # fmt: skip
    told = io.StringIO()
    train(recipe.load("sotopia grpo pocket", options), tmp_path, console=Console(file=told))
    assert {one["Authorization"] for one in server.headers} == {f"Bearer {KEY}"}
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert tmp_path / "report.html" in files
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert KEY not in told.getvalue()
    lines = metrics.read_log(tmp_path / "metrics.jsonl")
    assert sum(line["endpoint_requests"] for line in lines) == len(server.asked) > 2


def test_a_partner_reads_its_own_side_only(server, endpoint):
    server.act = says(LEAVE)
    talk = Talk(TALK.scene).after(0, speak("Hi."))
    assert ModelPartner(endpoint).begin(talk.scene, 1, None).reply(talk) == Act("leave")
    text = server.asked[0]["messages"][1]["content"]
    assert talk.scene.render_background(1) in text
    assert talk.scene.show_goal(0) not in text
    assert 'said: "Hi."' in text


def test_both_in_the_environment_by_name_and_by_table(server):
    server.script = [says(json.dumps(SAYS)), says(GOOD)] * 2
    spec = f"openai:stub@{server.url}"
    table = {"model": "stub", "url": server.url, "max_tokens": 90, "temperature": 0.2}
    for judge in (spec, table):
        env = opened(partner=spec, judge=judge)
        *_, info = env.step("Hello, I pay $9.")
        assert info["scores"] == {"financial_and_material_benefits": 0, "goal": 0}
        _, reward, terminated, _, info = env.step(LEAVE)
        # What is a fact is no matter of opinion: there is no deal. The rest is the model's.
        assert (terminated, reward, info["scores"]["goal"]) == (True, 0, 0)
        assert (info["scores"]["believability"], info["scores"]["secret"]) == (5, -5)
        assert list(info["scores"]) == list(RANGES)
    assert [asked["temperature"] for asked in server.asked] == [0.7, 0, 0.7, 0.2]
    assert server.asked[-1]["max_tokens"] == 90


def test_a_failed_judge_raises_or_is_flagged_and_is_never_a_zero(server):
    server.act = says("no")
    judge = ModelJudge(Endpoint("stub", server.url, retries=0))
    with pytest.raises(JudgeError):
        opened(judge=judge).step(LEAVE)
    _, reward, terminated, _, info = opened(judge=judge, on_judge_error="flag").step(LEAVE)
    assert terminated
    assert math.isnan(reward)
    assert ("believability" in info["scores"], info["success"]) == (False, False)
    assert server.url in info["judge_error"]
    server.script = [says(GOOD)]  # it fails on the other side only
    *_, info = opened(judge=judge, partner="external", on_judge_error="flag").step(LEAVE)
    assert (info["scores"]["believability"], "secret" in info["partner_scores"]) == (5, False)
    assert server.url in info["judge_error"]


def test_a_model_binds_itself_by_a_field(server, endpoint):
    server.act = says(json.dumps(SAYS | {"say": "Fine.", "accept": True}))
    offer = {"say": "So?", "offer": {"price": 100, "with": []}}
    observation, _, terminated, _, info = opened(partner=endpoint).step(json.dumps(offer))
    assert observation.endswith('said: "Fine." [accepts the offer]')
    assert (info["agreed"], terminated) == ("$100", True)
    assert "Agree to nothing" in server.asked[-1]["messages"][1]["content"]
    schema = server.asked[-1]["response_format"]["json_schema"]["schema"]
    assert schema["required"] == ["say", "offer", "accept", "leave"]
    assert schema["properties"]["offer"]["anyOf"][0]["properties"] == {
        "price": {"type": "integer"},
        "with": {"type": "array", "items": {"type": "string"}},
    }


@pytest.mark.parametrize(
    "wrong",
    [
        *("{}", '{"dance": true}', json.dumps(SAYS | {"say": " "})),
        json.dumps(SAYS | {"accept": True}),  # there is nothing to accept
        json.dumps(SAYS | {"say": "z" * 4097}),
        'So: {"say": "Hi.", "say": "Bye."}',
    ],
    ids=["no act", "unknown act", "no word", "nothing to accept", "too long", "a key twice"],
)
@pytest.mark.parametrize("task", [0, 1])
def test_what_a_model_cannot_do_is_asked_for_again_and_not_shown(server, endpoint, wrong, task):
    server.act, server.script = says(json.dumps(SAYS)), [says(wrong)]
    env = gym.make("Sotopia-v1", partner=endpoint, family="bargain", split="test")
    observation, _ = env.reset(seed=1, options={"task": task})
    if not server.asked:
        observation, *_ = env.step("Good morning.")
    assert observation.endswith('"Hello."')
    assert len(server.asked) == 2
    server.script = [says(wrong)] * 3
    with pytest.raises(EndpointError, match=r"gave no answer on .* acts in 3 tries"):
        env.step("Lovely weather.")
