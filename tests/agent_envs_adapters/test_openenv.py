"""A server of environments with OpenEnv's protocol, its client and OpenEnv's own."""

import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401  registers the ids
import agent_envs_command
import credit
from agent_envs.net.connections import serving
from agent_envs.net.web import ServerError
from agent_envs_adapters.episodes import Episodes
from agent_envs_adapters.gate import Limits

from .solving import check_releases, needs

THERE = importlib.util.find_spec("openenv") is not None
pytestmark = needs("openenv", "openenv")
if THERE:
    from openenv.core import GenericEnvClient

    from agent_envs_adapters.openenv import make_app
    from agent_envs_adapters.remote import Remote

PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "openenv.md"
IDS = [
    name
    for name, spec in gym.registry.items()
    if str(spec.entry_point).startswith("agent_envs.")
    and name not in {"AppWorld-v0", "SearchQA-v0", "Sotopia-v0", "TextWorld-v0"}
    and name not in {"WebShop-v0", "WebShopSite-v1", "WikiSearch-v0"}
]
BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromedriver") and importlib.util.find_spec("selenium")),
        reason="needs Chromium and the extra [browser]",
    ),
]
IDS.append(pytest.param("WebShopSite-v1", marks=BROWSER))
LOOK, BAG = (f"<think></think><action>{one}</action>" for one in ("look", "inventory"))
TOKEN = "0123456789abcdef"  # noqa: S105
COMMAND = [sys.executable, "-c", "import agent_envs_command; agent_envs_command.main()", "serve"]
OWN = """
import threading, time
from pathlib import Path
from pydantic import TypeAdapter
from agent_envs import AgentEnv, Panel, Turn

class Slow(AgentEnv):
    def __init__(self, split="train", max_turns=9):
        super().__init__(Panel("train", ("slow/0", "slow/1")), max_turns=max_turns)

    def begin(self, task_id):
        return "Do it.", Turn("Go on.", anchor="0")

    def act(self, action):
        if action == "sleep":
            Path(__file__).with_name("asleep").touch()
            time.sleep(2.5)
        if action == "hang":
            time.sleep(600)
        if action == "fail":
            raise KeyError("odd")
        if action == "lines":
            raise ValueError("one\\ntwo\\n  \\ud800 three")
        if action == "typed":
            TypeAdapter(int).validate_python("four")
        if action == "lock":
            self.lock = threading.Lock()
        return Turn(f"You said {action}.", anchor=action, reward=0.5, success=action == "win",
                    progress=float(action == "win"))
"""


def act(word):
    return f"<think></think><action>{word}</action>"


@pytest.fixture(scope="module")
def household():
    """A server of AlfWorld with two splits: the gate and the address."""
    app = make_app("AlfWorld-v0", splits=["train", "valid_seen"], max_turns=5)
    with serving(app) as url:
        yield app, url


@pytest.fixture
def url(household):
    return household[1]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder of the module `slow_env`."""
    (tmp_path / "slow_env.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_env", raising=False)
    return tmp_path


@pytest.fixture
def slow(own):
    with serving(make_app("slow_env:Slow")) as url:
        yield url


def until(true, seconds=10.0):
    """Wait until something is true."""
    over = time.monotonic() + seconds
    while not true() and time.monotonic() < over:
        time.sleep(0.02)
    assert true()


def raw(url, *messages, headers=None):
    """Answers to raw messages in one session."""
    from websockets.sync.client import connect

    with connect(f"ws{url[4:]}/ws", additional_headers=headers, proxy=None) as socket:
        for message in messages:
            socket.send(message)
            yield json.loads(socket.recv(timeout=20))


def posted(url, path, body):
    """Status and content of an answer over HTTP."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        request = Request(f"{url}{path}", body, {"Content-Type": "application/json"})  # noqa: S310
        with urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def reply_to(played, rng):
    """A reply to a local episode: mostly an admissible action, sometimes nonsense."""
    action = rng.choice([*played.info["admissible_actions"], "fly", "search[red shoes]", "look"])
    form = played.env.unwrapped.reply_form or "<think>{thought}</think><action>{action}</action>"
    return action if rng.random() < 0.1 else form.format(thought="so", action=action)


@pytest.mark.parametrize("env", IDS)
def test_an_episode_and_its_fork_are_the_local_one(env):
    options = {"max_turns": 6}
    source, rng = Episodes(env, **options), random.Random(1)
    with serving(make_app(env, **options)) as url, Remote(url) as remote:
        local = source.start(task=0, seed=5)
        assert remote.reset(index=0, seed=5) == local.message
        assert (remote.task_id, remote.goal) == (local.task_id, local.goal)
        players = [remote]
        while not local.done:
            if len(local.records) == 2:
                players.append(remote.fork())
                assert players[1].message == remote.message
            reply = reply_to(local, rng)
            local.step(reply)
            for player in players:
                assert player.step(reply) == (local.message, local.done)
                assert player.records == local.records
                assert len(player.images) == len(local.images)
        for player in players:
            assert (player.outcome, player.success) == (local.outcome, local.success)
            assert player.truncated == local.truncated
            player.close()
        assert credit.rows_of([remote.records], ["a"]).turns.outcome.tolist() == [local.outcome]


def test_the_client_of_openenv_plays_too(url):
    local = Episodes("AlfWorld-v0", max_turns=5).start(task=7, seed=2)
    with GenericEnvClient(base_url=url).sync() as env:
        result = env.reset(index=7, seed=2, episode_id="mine")
        assert (result.observation["text"], result.done) == (local.message, False)
        assert result.observation["record"] is result.reward is None
        for reply in (LOOK, BAG):
            local.step(reply)
            result = env.step({"reply": reply})
            assert result.observation["text"] == local.message
            assert result.observation["record"] == local.records[-1].to_dict()
            assert result.reward == local.records[-1].reward
        with GenericEnvClient(base_url=url).sync() as other:
            assert other.reset(fork=result.observation["session"]).observation["turn"] == 2
            while not (result := other.step({"reply": LOOK})).done:
                local.step(LOOK)
            local.step(LOOK)
            state = other.state()
            assert state["records"] == [record.to_dict() for record in local.records]
            assert (state["done"], state["step_count"], state["truncated"]) == (True, 5, True)
        state = env.state()
        assert (state["episode_id"], state["split"], len(state["records"])) == ("mine", "train", 2)
        with pytest.raises(RuntimeError, match=r"step.data.nope = 1: Extra inputs"):
            env.step({"nope": 1})


def test_the_validator_of_openenv_passes(url):
    from openenv.cli._validation import validate_running_environment

    report = validate_running_environment(url, timeout_s=20)
    assert report["passed"], report


def test_the_reward_of_the_last_turn_has_the_outcome(slow):
    with Remote(slow) as one:
        one.reset()
        one.step(act("win"))
        assert (one.outcome, one.success, one.records[0].reward) == (0.5, True, 0.0)
    with GenericEnvClient(base_url=slow).sync() as env:
        env.reset()
        assert env.step({"reply": act("win")}).reward == 0.5


def test_tasks_and_splits(url):
    with Remote(url) as one:
        train, seen = one.tasks("train"), one.tasks("valid_seen")
        one.reset(**seen[3])
        assert one.task_id == seen[3]["task_id"]
        one.reset(index=3, split="valid_seen")
        assert one.task_id == seen[3]["task_id"]
        one.reset(task_id=train[1]["task_id"])
        assert one.task_id == train[1]["task_id"]
    assert posted(url, "/AlfWorld-v0/num_tasks", {"split": "train"}) == (200, {"num_tasks": 600})
    task = {"split": "train", "index": 5, "task_id": train[5]["task_id"]}
    assert posted(url, "/AlfWorld-v0/task", {"split": "train", "index": 5}) == (200, {"task": task})
    some = {"split": "train", "start": -2, "stop": None}
    assert posted(url, "/AlfWorld-v0/task_range", some)[1]["tasks"] == train[-2:]
    with urlopen(f"{url}/AlfWorld-v0/splits", timeout=20) as answer:  # noqa: S310
        assert [one["name"] for one in json.load(answer)] == ["train", "valid_seen"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("task", {"split": "train", "index": 600}, 422),
        ("task", {"split": "train", "index": "x"}, 422),
        ("task", {"split": "train", "index": 1, "more": 1}, 422),
        ("task", b"[" * 5000, 400),
        ("task", b'{"split": "train", "index": ' + b"9" * 5000 + b"}", 400),
        ("task", b"", 422),
        ("tasks", {"split": "test"}, 422),
        ("tasks", {"split": "\ud800"}, 422),
        ("task", {"split": "train", "index": 1, "\ud800": 1}, 422),
        ("tasks", b'{"split": NaN}', 422),
        ("tasks", [], 422),
        ("task_range", {"split": "train", "start": 10**3000}, 200),
        ("tasks", b"x" * 300_000, 413),
    ],
)
def test_hostile_requests_get_an_answer(url, path, body, status):
    answered, content = posted(url, f"/AlfWorld-v0/{path}", body)
    assert answered == status
    if status != 200:
        assert isinstance(content["detail"], str)
        assert "\n" not in content["detail"]


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({"split": "test"}, "split 'test' is not served; there are train, valid_seen"),
        ({"task_id": "embedded/train/none"}, "no task 'embedded/train/none' in split 'train' of"),
        ({"index": 600}, "task must lie in 0..599 for split 'train', got 600"),
        ({"fork": "unknown"}, "no session 'unknown' has an episode"),
        ({"fork": "unknown", "seed": 1}, "give fork alone"),
        ({"index": 0, "task_id": "embedded/train/none"}, "not 'embedded/train/none'; give one"),
        ({"seed": -1}, "reset.data.seed = -1: Input should be greater than or equal to 0"),
        ({"sead": 1}, "reset.data.sead = 1: Extra inputs are not permitted"),
    ],
)
def test_odd_resets_are_refused_and_the_session_goes_on(url, task, says):
    with Remote(url) as one:
        one.reset(seed=1)
        with pytest.raises(ServerError, match=re.escape(says)):
            one.reset(**task)
        one.step(LOOK)
        assert len(one.records) == 1


def test_steps_without_an_episode_are_refused(url):
    with Remote(url) as one:
        with pytest.raises(ServerError, match="no episode runs; reset first"):
            one.step(LOOK)
        one.reset(seed=1)
        while not one.done:
            one.step("?")
        for call in (partial(one.step, LOOK), one.fork):
            with pytest.raises(ServerError, match="has ended; start another one"):
                call()
        one.reset(seed=1)
        one.step(LOOK)


def test_a_fork_of_a_fork_goes_on_when_the_others_are_closed(url):
    with Remote(url) as first:
        first.reset(seed=4)
        first.step(LOOK)
        second = first.fork()
    third = second.fork()
    closed = first.session
    second.close()
    third.step(BAG)
    assert [record.action for record in third.records] == ["look", "inventory"]
    until(lambda: "no session" in next(raw(url, message("reset", fork=closed)))["data"]["message"])
    third.close()


def message(kind, **data):
    return json.dumps({"type": kind, "data": data})


def test_a_session_can_go_back_to_itself_and_forks_at_once_are_equal(url):
    with Remote(url) as one:
        one.reset(seed=4)
        with ThreadPoolExecutor(8) as threads:
            forks = [*threads.map(lambda _: one.fork(), range(8))]
            told = [*threads.map(lambda fork: fork.step(BAG), forks)]
        assert len({*told}) == 1
        assert one.reset(fork=one.session)
        assert one.step(BAG) == told[0]
        for fork in forks:
            fork.close()


def held():
    """Threads, open files and processes of our processes."""
    me = Path("/proc/self")
    children = sum(
        len(path.read_text().split())
        for child in me.glob("task/*/children")
        for one in child.read_text().split()
        for path in Path(f"/proc/{one}").glob("task/*/children")
    )
    return threading.active_count(), len([*me.glob("fd/*")]), children


def nothing_more_than(before):
    return all(now <= then for now, then in zip(held(), before, strict=True))


def plays(url, **how):
    try:
        with Remote(url, **how) as one:
            return bool(one.reset())
    except ServerError:
        return False


def test_a_slow_step_holds_up_no_other_session(slow):
    with Remote(slow) as one, Remote(slow) as two, ThreadPoolExecutor(1) as thread:
        one.reset()
        two.reset()
        sleeping = thread.submit(one.step, act("sleep"))
        for _ in range(5):
            two.step(act("look"))
        assert not sleeping.done()
        assert sleeping.result()[0] == "You said sleep."


def upgraded(url):
    """A connection to a session that reads nothing from now on."""
    host, port = url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(
        f"GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert connection.recv(4096).startswith(b"HTTP/1.1 101")
    return connection


def frame(text):
    """A client's frame of a short text, masked with zeros."""
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode()


def test_a_client_without_a_sign_of_life_is_given_up():
    app = make_app("EZPoints-v0", limits=Limits(idle=0.5))
    with serving(app) as url:
        assert plays(url)  # the server is all there
        until(lambda: app.sessions == 0)
        before = held()
        with upgraded(url) as silent:
            silent.sendall(frame('{"type": "reset"}'))
            until(lambda: app.sessions == 1)
            until(lambda: app.sessions == 0)
            until(lambda: held()[1] <= before[1] + 1, 20)  # 10 s for the answer to the close
        assert plays(url)


def test_a_session_outlives_the_time_for_a_request(monkeypatch):
    monkeypatch.setattr("agent_envs.net.connections.WAIT", 0.3)
    with serving(make_app("EZPoints-v0")) as url, Remote(url) as one:
        one.reset()
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as silent:
            assert silent.recv(10) == b""
        one.step("x")


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("fail", "step failed on the server (KeyError: 'odd'); reset starts"),
        ("lines", "step failed on the server (ValueError: one two \ufffd three); reset starts"),
        ("typed", "(ValidationError: 'four': Input should be a valid integer, unable to parse"),
    ],
)
def test_an_error_of_an_environment_is_one_line_and_leaves_the_server(slow, caplog, action, says):
    with Remote(slow) as one:
        one.reset()
        with pytest.raises(ServerError, match=re.escape(says)) as caught:
            one.step(act(action))
        assert "\n" not in str(caught.value)
        assert "step failed" in caplog.text
        with pytest.raises(ServerError, match="reset"):
            one.step(act("look"))
        assert one.reset()


def test_stop_ends_an_episode(slow):
    local = Episodes("slow_env:Slow").start(task=0)
    with Remote(slow) as one:
        one.stop()
        one.reset(index=0)
        for player in (one, local):
            player.step(act("look"))
            player.step(act("go"))
            player.stop()
            player.stop()
        assert one.records == local.records
        assert (one.done, one.truncated, one.success, one.outcome) == (True, True, False, 1.0)
        assert credit.rows_of([one.records], ["a"]).turns.outcome.tolist() == [1.0]
        one.reset(index=0)
        one.stop()
        assert (one.records, one.done, one.truncated) == ([], True, True)
        one.reset(index=0)
        assert not one.done


def test_what_cannot_be_copied_cannot_be_forked_and_goes_on(slow):
    with Remote(slow) as one:
        one.reset()
        one.step(act("lock"))
        with pytest.raises(ServerError, match="slow_env:Slow cannot be forked: cannot pickle"):
            one.fork()
        assert one.step(act("look"))[0] == "You said look."


def test_64_sessions_at_once_stay_apart(household):
    app, url = household
    local = Episodes("AlfWorld-v0", max_turns=5)
    wanted = []
    for seed in range(8):
        played = local.start(seed=seed)
        wanted.append([played.message, *(played.step(reply)[0] for reply in (LOOK, BAG, "x"))])
    together = threading.Barrier(64)

    def play(place):
        with Remote(url) as one:
            together.wait(60)
            found = [one.reset(seed=place % 8), *(one.step(r)[0] for r in (LOOK, BAG, "x"))]
            together.wait(60)
            assert app.sessions == 64
            together.wait(60)
        return found == wanted[place % 8]

    with ThreadPoolExecutor(64) as threads:
        assert all(threads.map(play, range(64)))
    until(lambda: app.sessions == 0)


@pytest.mark.parametrize(
    ("env", "reply", "sessions"),
    [
        ("AlfWorld-v0", LOOK, 20),
        ("AppWorld-v1", "<think></think>\n```python\nx = 1\n```", 20),
        pytest.param(
            "WebShopSite-v1", "<think></think><action>search[lamp]</action>", 4, marks=BROWSER
        ),
    ],
)
def test_killed_clients_leave_nothing(env, reply, sessions, caplog):
    program = (
        "import sys, time\nfrom agent_envs_adapters.remote import Remote\n"
        "opened = [Remote(sys.argv[1]) for _ in range(int(sys.argv[3]))]\n"
        "for one in opened: one.reset(seed=1); one.step(sys.argv[2])\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    app = make_app(env)
    with serving(app) as url:
        with Remote(url) as one:  # what a server keeps
            one.reset(seed=1)
            one.step(reply)
        until(lambda: app.sessions == 0)
        time.sleep(0.3)
        before = held()
        command = [sys.executable, "-c", program, url, reply, str(sessions)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            client.stdout.readline()
            during = held()
            assert app.sessions == sessions
            assert during[0] >= before[0] + sessions
            assert during[1] >= before[1] + sessions
            client.kill()
            client.wait()
        until(lambda: app.sessions == 0)
        until(lambda: nothing_more_than(before))
        assert plays(url)
    assert caplog.text == ""


def test_the_command_serves_until_it_is_ended():
    with subprocess.Popen(
        [*COMMAND, "alfworld", "max_turns=3", "--split", "valid_seen", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "AGENT_ENVS_TOKEN": TOKEN},
    ) as server:
        said = server.stdout.readline()
        assert said.startswith("serving AlfWorld-v0 at http://127.0.0.1:")
        url = said.split()[-1]
        assert not plays(url)
        with Remote(url, token=TOKEN) as one:
            one.reset()
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
            with pytest.raises(ServerError, match="ended the session"):
                one.step(LOOK)
        assert server.stderr.read() == ""


def processes_of(pid):
    """All processes that a process has started, and those that they have."""
    for path in Path(f"/proc/{pid}").glob("task/*/children"):
        for child in path.read_text().split():
            yield int(child)
            yield from processes_of(child)


@pytest.mark.parametrize(
    ("env", "reply"),
    [
        ("slow_env:Slow", act("hang")),
        ("appworld", "<think></think>\n```python\nwhile True: pass\n```"),
    ],
)
def test_the_command_ends_during_a_step(own, env, reply):
    with subprocess.Popen(
        [*COMMAND, env, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=own,
    ) as server:
        url = server.stdout.readline().split()[-1]
        with Remote(url) as one, Remote(url) as other, ThreadPoolExecutor(1) as thread:
            other.reset()
            other.step("x")
            one.reset()
            stepping = thread.submit(one.step, reply)
            time.sleep(0.5)
            started = [*processes_of(server.pid)]
            assert bool(started) is (env == "appworld")
            server.send_signal(signal.SIGTERM)
            assert server.wait(120) == 0  # 5 s, and on a busy machine the end of the process
            with pytest.raises(ServerError, match=r"ended the session: .* 1012"):
                stepping.result()
        assert "Traceback" not in server.stderr.read()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["alfwrld"], "did you mean 'alfworld'?"),
        (["alfworld", "--split", "test"], "unknown split 'test'"),
        (["alfworld", "split=train"], "write --split train instead"),
        (["alfworld", "max_turn=3"], "no option 'max_turn'"),
        (["alfworld", "--host", "::", "--port", "0"],
         "set a token in $AGENT_ENVS_TOKEN, or listen"),
        (["alfworld", "--idle", "nan"], "limits.idle = nan: Input should be a finite number"),
        (["alfworld", "max_turns=abc"], "max_turns = 'abc': Input should be a valid integer"),
        (["alfworld", "--host", "no.such.host.invalid"], "no host 'no.such.host.invalid' to list"),
        (["alfworld", "--port", "99999"], "port must be in 0..65535"),
    ],
)  # fmt: skip
def test_odd_commands_are_refused_in_one_line(words, says, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["agent-envs", "serve", *words])
    with pytest.raises(SystemExit, match=re.escape(says)) as caught:
        agent_envs_command.main()
    assert "\n" not in caught.value.code
    assert "pydantic" not in caught.value.code
    assert "Traceback" not in caught.value.code


def test_the_example_of_the_page_runs(capsys):
    exec(PAGE.read_text().split("```python\n")[1].split("```")[0], {})  # noqa: S102
    assert "inventory True" in capsys.readouterr().out


def test_no_server_is_a_clear_error():
    with pytest.raises(ServerError, match=r"no server at http://127.0.0.1:9: .*agent-envs serve"):
        Remote("http://127.0.0.1:9")


def test_an_untested_release_is_told_and_a_wrong_one_refused():
    check_releases(
        "openenv",
        "openenv",
        "import openenv.core.env_server as s; s.create_fastapi_app = lambda env: env",
    )
