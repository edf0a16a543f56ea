"""Environments of OpenEnv servers: ours, one that OpenEnv ships, and servers that misbehave."""

import copy
import importlib.util
import json
import time
from contextlib import contextmanager
from threading import Thread

import pytest

from agent_envs.experts import expert
from agent_envs.imports import find_creator
from agent_envs.net.web import ServerError
from agent_envs.testing import check_agent_env
from agent_envs.vector import call_concurrently

THERE = importlib.util.find_spec("openenv") is not None
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not THERE, reason="needs openenv; see .ci/foreign"),
]


def lift(url, **options):
    return find_creator(f"openenv:{url}", option="env.id")(**options)


@pytest.fixture(scope="module")
def household():
    from agent_envs.net.connections import serving
    from agent_envs_adapters.openenv import make_app

    with serving(make_app("AlfWorld-v0", max_turns=30)) as url:
        yield url


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """The environment that `openenv init` makes, on a server of its own with four sessions."""
    import uvicorn
    from openenv.cli.commands.init import init

    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")  # uv would ask the network for a lock file
        patch.syspath_prepend(folder)
        init("echo", str(folder))
        app = folder / "echo" / "server" / "app.py"
        app.write_text(app.read_text().replace("max_concurrent_envs=1", "max_concurrent_envs=4"))
        made = importlib.import_module("echo.server.app").app
    server = uvicorn.Server(uvicorn.Config(made, port=0, log_level="error"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


class Server:
    """Answers messages of sessions with what `answers` holds, in turn; no answer for None.

    `sent` has what it received.
    """

    def __init__(self, *answers, action=None, observation=None):
        self.answers, self.sent = list(answers), []
        self.schema = {"action": action or {}, "observation": observation or {}}

    def answer(self, session):
        for message in session:
            self.sent.append(json.loads(message))
            answer = self.answers.pop(0)
            if answer == "close":
                return
            if answer is not None:
                session.send(answer if isinstance(answer, str) else json.dumps(answer))

    def show(self, session, request):
        if request.path == "/schema":
            return session.respond(200, json.dumps(self.schema))
        return None


@contextmanager
def run(server):
    from websockets.sync.server import serve

    with serve(server.answer, "127.0.0.1", 0, process_request=server.show) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.socket.getsockname()[1]}"
        running.shutdown()


def tell(reward=None, done=False, **fields):
    return {"type": "observation", "data": {"observation": fields, "reward": reward, "done": done}}


def refuse(code, said="odd"):
    return {"type": "error", "data": {"message": said, "code": code}}


def test_our_server_reports_the_signals_of_the_environment(household):
    from agent_envs_adapters.episodes import Episodes

    form = "<think></think><action>{}</action>"
    env = lift(household, action=form, max_turns=40, reset_options={"index": 7})
    local = Episodes("AlfWorld-v0", max_turns=30).start(task=7, seed=0)
    observation, info = env.reset(seed=0, options={"task_id": "seed-0"})
    assert observation == local.message
    assert info["goal"] == local.goal
    player, turns = expert(local.env), []
    for action in [lambda: "fly", *[player.act] * 29]:
        done = action()
        local.step(form.format(done))
        observation, reward, terminated, truncated, info = env.step(done)
        record = local.records[-1]
        assert observation == local.message
        assert (info["valid"], info["progress"]) == (record.valid, record.progress)
        assert reward == record.reward + (record.outcome or 0)
        turns.append(info)
        if local.done:
            break
    assert (turns[0]["invalid_reason"], turns[-1]["invalid_reason"]) == ("unknown", "")
    assert (terminated, truncated, info["success"]) == (True, False, True)
    env.close()


def test_our_server_ends_an_episode_at_its_limit(household):
    env = lift(household, action="<think></think><action>{}</action>")
    env.reset(seed=0)
    *_, last = [env.step("look") for _ in range(30)]
    assert last[2:4] == (False, True)


def test_the_environment_of_openenv_keeps_the_contract(echo):
    env = lift(echo, success_reward=2.0, max_turns=4)
    check_agent_env(env, copies=False)
    observation, info = env.reset(seed=1)
    assert observation == info["goal"] == "Echo environment ready!"
    assert env.step("hello")[:4] == ("hello", 0.5, False, False)
    assert env.anchor == "history"
    with pytest.raises(TypeError, match="the state of a server cannot be copied"):
        copy.deepcopy(env)
    env.close()


def test_copies_are_sessions_and_step_at_once(echo):
    first, second = (lift(echo, success_reward=2.0) for _ in range(2))
    call_concurrently([lambda env=env: env.reset(seed=1) for env in (first, second)])
    texts = call_concurrently([lambda: first.step("one")[0], lambda: second.step("two")[0]])
    assert texts == ["one", "two"]
    more = [lift(echo, success_reward=2.0) for _ in range(3)]
    with pytest.raises(ServerError, match=r"^http://127.0.0.1:\d+: .*capacity"):
        call_concurrently([lambda env=env: env.reset(seed=1) for env in more])
    for env in (first, second, *more):
        env.close()


def test_a_session_that_ended_between_episodes_is_opened_again():
    server = Server(tell(text="a"), "close", tell(text="b"))
    with run(server) as url:
        env = lift(url, success_reward=1.0)
        env.reset(seed=1)
        assert env.reset(seed=1)[0] == '{"text": "b"}'
        env.close()


STRING, NUMBER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("fields", "required", "action", "sent"),
    [
        ({"code": STRING}, ["code"], "x", {"code": "x"}),
        ({"metadata": {"type": "object"}, "say": STRING, "loud": NUMBER}, [], "x", {"say": "x"}),
        ({"say": {"anyOf": [STRING, {"type": "null"}]}}, [], "x", {"say": "x"}),
        ({"to": {"$ref": "#/$defs/To"}}, ["to"], "UP", {"to": "UP"}),
        ({"kind": {"const": "a"}, "column": NUMBER}, ["column"], "3", {"column": 3}),
        ({"say": STRING, "row": NUMBER}, ["say", "row"], '{"row": 1}', {"row": 1}),
        ({"tool": STRING, "with": {"type": "object"}}, ["tool"], '{"tool": "a"}', {"tool": "a"}),
    ],
)
def test_the_fields_of_an_action(fields, required, action, sent):
    schema = {
        "properties": fields,
        "required": required,
        "$defs": {"To": {"enum": ["UP"], **STRING}},
    }
    server = Server(tell(text="a"), tell(text="b"), action=schema)
    with run(server) as url:
        env = lift(url, success_reward=1.0)
        *_, info = env.reset(seed=1)
        assert ("An action is JSON: " in info["goal"]) == (
            next(iter(sent.values())) not in ("x", "UP")
        )
        assert env.step(action)[-1]["valid"]
        assert server.sent[1] == {"type": "step", "data": sent}
        env.close()


@pytest.mark.parametrize(
    ("fields", "options", "shown"),
    [
        ({"text": "a", "more": "b"}, {}, "a"),
        ({"board": "a", "moves": 3}, {}, "a"),
        ({"board": "a", "moves": [3]}, {}, '{"board": "a", "moves": [3]}'),
        ({"board": "a", "moves": "b"}, {"text": "moves"}, "b"),
    ],
)
def test_the_fields_of_an_observation(fields, options, shown):
    kinds = {str: "string", int: "integer", list: "array"}
    schema = {name: {"type": kinds[type(value)]} for name, value in fields.items()}
    with run(Server(tell(**fields), observation={"properties": schema})) as url:
        env = lift(url, success_reward=1.0, **options)
        assert env.reset(seed=1)[0] == shown
        env.close()


@pytest.mark.parametrize(
    ("answer", "reason"), [("VALIDATION_ERROR", "format"), ("EXECUTION_ERROR", "error")]
)
def test_an_action_that_the_server_refuses_is_invalid(answer, reason):
    server = Server(tell(text="a"), refuse(answer, "no\nsuch move"), tell(1, True, text="won"))
    with run(server) as url:
        env = lift(url, success_reward=1.0, field="")
        env.reset(seed=1)
        observation, reward, *ended, info = env.step('{"a": 1}')
        assert (reward, ended, info["invalid_reason"]) == (0.0, [False, False], reason)
        assert "no such move" in observation
        assert "127.0.0.1" not in observation
        *_, info = env.step('{"a": 2}')
        assert info["success"]
        env.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("nonsense", "answers step with 'nonsense', not as OpenEnv's protocol does"),
        ({"type": "state", "data": {}}, "not as OpenEnv's protocol does: 'reward'"),
        (tell("much", text="b"), "not as OpenEnv's protocol does: could not convert"),
        ([1], "not as OpenEnv's protocol does: list indices"),
        (refuse("SESSION_ERROR", "full\nhouse"), ": full house$"),
        (None, "no answer to step within 0.5 s, which timeout= raises; connect again"),
        ("close", "ended the session: .*; connect again"),
    ],
)
def test_a_server_that_fails_is_one_line(answer, said):
    with run(Server(tell(text="a"), answer)) as url:
        env = lift(url, success_reward=1.0, timeout=0.5)
        env.reset(seed=1)
        with pytest.raises(ServerError, match=f"^{url} ?.*{said}") as caught:
            env.step("{}")
        assert "\n" not in str(caught.value)
        env.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"field": "sya"}, "has no field 'sya', did you mean 'say'"),
        ({"text": "told"}, "has no field 'told'; it has seen"),
        ({}, "must know what a success is"),
        ({"success_rewards": 1.0}, "success_rewards"),
    ],
)
def test_wrong_options(options, said):
    fields = {
        "action": {"properties": {"say": STRING}},
        "observation": {"properties": {"seen": STRING}},
    }
    with run(Server(**fields)) as url, pytest.raises((ValueError, TypeError), match=said):
        lift(url, **options)


def test_wrong_addresses(echo):
    with pytest.raises(ValueError, match=r"must be like 'http://127.0.0.1:8000', got"):
        lift("127.0.0.1:8000", success_reward=1.0)
    with pytest.raises(ValueError, match=r"set \$AGENT_ENVS_TOKEN"):
        lift("http://me:secret@127.0.0.1:8000", success_reward=1.0)
    with pytest.raises(ServerError, match=r"^no server at http://127.0.0.1:9: .*agent-envs serve"):
        lift("http://127.0.0.1:9", success_reward=1.0)
    with pytest.raises(ServerError, match=r"^no server at http://127.0.0.1:.*403"):
        lift(f"{echo}/elsewhere", success_reward=1.0)


def test_the_server_s_end_is_one_line():
    with run(Server(tell(text="a"), "close")) as url:
        env = lift(url, success_reward=1.0, timeout=5.0)
        env.reset(seed=1)
        with pytest.raises(ServerError, match="ended the session"):
            env.step("{}")
    with pytest.raises(ServerError, match="no server at"):
        env.reset(seed=1)
