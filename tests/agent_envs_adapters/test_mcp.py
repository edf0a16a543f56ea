"""An MCP server of an environment: sessions, orders, odd callers, over both transports."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import gymnasium as gym
import pytest

import agent_envs
import agent_envs_command
from agent_envs.net.connections import serving
from agent_envs_adapters.gate import Limits

from .solving import check_releases, needs

pytestmark = [*needs("agents", "mcp"), pytest.mark.slow]
if find_spec("mcp"):
    from mcp import Client, StdioServerParameters
    from mcp.shared.exceptions import MCPError

    from agent_envs_adapters.mcp import META, START, Gate, make_server, read_episode
else:  # the tests are collected and skipped
    META, START = "", ""

TOKEN = "0123456789abcdef"  # noqa: S105
RUN = [sys.executable, "-c", "import agent_envs_command; agent_envs_command.main()", "serve"]
OWN = """
import threading, time
from agent_envs import AgentEnv, Panel, Turn

class Odd(AgentEnv):
    verbs = (("say", "{text}"),)

    def __init__(self, split="train", max_turns=9, verb="say"):
        super().__init__(Panel("train", ("odd/0", "odd/1")), max_turns=max_turns)
        self.verbs = ((verb, "{text}"),)

    def begin(self, task_id):
        return "Do it.", Turn("Go on.", anchor="0")

    def act(self, action):
        if action == "hang":
            time.sleep(600)
        if action == "fail":
            raise KeyError("odd\\n\\ud800")
        if action == "print":
            print("a line that is no message", flush=True)
        return Turn(f"You said {action}.", anchor=action, success=action == "win",
                    progress=float(action == "win"))
"""


def make_tools(**options):
    options = {"max_turns": 5} | options
    return agent_envs.tools(gym.make("AlfWorld-v0", disable_env_checker=True, **options))


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder of the module `odd_env`."""
    (tmp_path / "odd_env.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "odd_env", raising=False)
    return tmp_path


@pytest.fixture
def odd(own):
    """The address of a server of `Odd`."""
    from odd_env import Odd

    with serve(lambda: agent_envs.tools(Odd())) as url:
        yield url


def serve(make, **how):
    return serving(Gate(make_server("a world", make), **how))


def say(result):
    return result.content[0].text


def act(client, action):
    return client.call_tool("act", {"action": action})


@asynccontextmanager
async def connect(how):
    """A client of a new server over HTTP or over stdin and stdout."""
    if how == "http":
        with serve(make_tools) as url:
            async with Client(f"{url}/mcp") as client:
                yield client
    else:
        words = [*RUN[1:], "alfworld", "--mcp", "max_turns=5"]
        async with Client(
            StdioServerParameters(command=RUN[0], args=words, env={**os.environ})
        ) as it:
            yield it


@pytest.mark.parametrize("how", ["http", "stdio"])
def test_a_client_plays_in_the_order_of_its_calls_and_is_told_the_end(how):
    async def play():
        async with connect(how) as client:
            assert [one.name for one in (await client.list_tools()).tools] == [START, "act"]
            early = await act(client, "look")
            assert early.is_error
            assert say(early) == f"no episode has been started: call {START} first"
            calls = [client.call_tool(START, {"task": 3, "seed": 1})]
            calls += [act(client, one) for one in ("look", "inventory", "fly", "look", "look")]
            results = await asyncio.gather(*calls, act(client, "look"))
            again = await client.call_tool(START, {"task": 3, "seed": 1})
            return results, again

    results, again = asyncio.run(play())
    local = make_tools()
    assert say(results[0]) == say(again) == local.start(task=3, seed=1)
    for result, action in zip(
        results[1:], ("look", "inventory", "fly", "look", "look", "look"), strict=True
    ):
        assert say(result) == local.call("act", {"action": action})
        assert not result.is_error
    assert "The episode has ended, and the task is not solved." in say(results[-2])
    assert "nothing was done" in say(results[-1])
    assert read_episode(results) == local.episode
    with pytest.raises(ValueError, match=f"no result has '{META}' in its meta; give those from"):
        read_episode([])
    assert [len(result.meta[META]["turns"]) for result in results] == [0, 1, 1, 1, 1, 1, 0]


def test_each_session_has_its_own_environment():
    async def play():
        with serve(make_tools) as url:
            async with Client(f"{url}/mcp") as one, Client(f"{url}/mcp") as other:
                results = [
                    await one.call_tool(START, {"task": 3}),
                    await other.call_tool(START, {"task": 4}),
                ]
                results.append(await act(one, "look"))
                results.append(await act(other, "inventory"))
                return [result.meta[META] for result in results]

    told = asyncio.run(play())
    assert told[0]["task_id"] == told[2]["task_id"] != told[1]["task_id"] == told[3]["task_id"]
    assert [one["turns"][0]["action"] for one in told[2:]] == ["look", "inventory"]


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        (START, {"task": -1}, r"task must lie in 0\.\.599 for split 'train', got -1"),
        (START, {"task": 10**30}, r"task must lie in 0\.\.599|task.int"),
        (START, {"task": True}, r"task\.int = True: Input should be a valid integer"),
        (START, {"task": [1]}, r"task\.int = \[1\]: Input should be a valid integer"),
        (START, {"task": "none"}, "no task 'none' in split 'train'"),
        (START, {"task": "x" * 10**5}, "String should have at most 255"),
        (START, {"seed": -1}, "seed = -1: Input should be greater than or equal to 0"),
        (START, {"sead": 1}, "sead = 1: Extra inputs are not permitted"),
        ("acct", {}, "There is no tool 'acct', did you mean 'act'"),
        ("x" * 10**5, {"y" * 10**5: 1}, "There is no tool 'xxxx"),
        ("act", {"action": 5}, "action must be a text, got 5"),
        ("act", {"action": "x" * 10**5}, "The action has 100000 characters, more than 4096"),
        ("act", {"action": None, "z": [[[]]]},
         "the arguments are action, and action, z were given"),
        ("act", None, "the arguments are action, and none were given"),
    ],
)  # fmt: skip
def test_what_a_peer_gets_wrong_is_one_answer_and_the_session_goes_on(name, given, says):
    async def play():
        with serve(make_tools) as url:
            async with Client(f"{url}/mcp") as client:
                await client.call_tool(START, {"task": 3})
                said = say(await client.call_tool(name, given))
                return said, say(await act(client, "inventory"))

    said, after = asyncio.run(play())
    assert re.search(says, said)
    assert len(said) < 600
    assert after == "You are not carrying anything."


def post(url, body, **headers):
    """Status and text of an answer to a body."""
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urlopen(Request(f"{url}/mcp", body, accept | headers), timeout=20) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a peer", "version": "1"},
    },
}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": START}}
ODD = [
    (b"", 400),
    (b"[" * 100_000, 400),
    (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b"}", 400),
    (b"\xff\xfe", 400),
    (b"x" * 300_000, 413),
    ([HELLO, HELLO], 400),
    ({"jsonrpc": "2.0", "id": 3, "method": "nope"}, 400),
    (CALL, 400),
    (CALL | {"params": {"name": 5}}, 400),
]


def test_odd_requests_get_an_answer_and_others_go_on():
    async def play():
        with serve(make_tools) as url:
            async with Client(f"{url}/mcp") as client:
                await client.call_tool(START, {"task": 3})
                for body, status in ODD:
                    found, _ = await asyncio.to_thread(post, url, body)
                    assert found == status, body
                for body in (CALL, HELLO):
                    gone = {"Mcp-Session-Id": "no such session"}
                    assert (await asyncio.to_thread(post, url, body, **gone))[0] == 404
                host = {"Host": "a.page.of.others"}
                assert (await asyncio.to_thread(post, url, HELLO, **host))[0] == 403
                assert say(await act(client, "inventory")) == "You are not carrying anything."
            with pytest.raises(HTTPError, match="405"):
                await asyncio.to_thread(urlopen, f"{url}/mcp", timeout=20)

    asyncio.run(play())


def test_a_protocol_without_sessions_is_told_to_begin_with_the_handshake():
    async def play():
        with serve(make_tools) as url:
            async with Client(f"{url}/mcp", mode="2026-07-28") as client:
                return await client.call_tool(START, {})

    result = asyncio.run(play())
    assert result.is_error
    assert say(result) == "protocol 2026-07-28 has no sessions; begin with initialize"


def test_a_token_is_asked_for():
    with serve(make_tools, token=TOKEN) as url:
        assert post(url, HELLO)[0] == 401
        assert post(url, HELLO, Authorization=f"Bearer {TOKEN}")[0] == 200


def until(holds, seconds=10.0):
    over = time.monotonic() + seconds
    while not holds() and time.monotonic() < over:
        time.sleep(0.02)
    assert holds()


def test_sessions_are_counted_and_an_idle_or_closed_one_is_given_up():
    closed = []

    def make():
        toolset = make_tools()
        toolset.env.close = lambda: closed.append(toolset)
        return toolset

    async def play(url):
        async with Client(f"{url}/mcp") as client:
            await client.call_tool(START, {})
            assert post(url, HELLO)[0] == 503
        until(lambda: len(closed) == 2)  # one told the tools

    with serve(make, limits=Limits(sessions=1)) as url:
        asyncio.run(play(url))
    closed.clear()

    async def wait(url):
        async with Client(f"{url}/mcp") as client:
            await client.call_tool(START, {})
            await asyncio.to_thread(until, lambda: len(closed) == 2)
            with pytest.raises(MCPError, match="Session"):
                await act(client, "look")

    with serve(make, limits=Limits(idle=0.5)) as url:
        asyncio.run(wait(url))


def test_an_error_of_the_environment_is_one_line_and_another_episode_starts(odd):
    async def play():
        async with Client(f"{odd}/mcp") as client:
            await client.call_tool(START, {})
            failed = [await act(client, "fail"), await act(client, "go")]
            await client.call_tool(START, {})
            return failed, await act(client, "win")

    (first, second), won = asyncio.run(play())
    assert first.is_error
    assert re.search(
        r"failed on the server: KeyError: .*; start_episode starts another", say(first)
    )
    assert "\n" not in say(first)
    assert second.is_error
    assert "the task is solved" in say(won)


def run(own, *words):
    """The command that serves `Odd`."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([*RUN, "odd_env:Odd", "--mcp", *words], **pipes, cwd=own)


def send(server, *lines):
    """Send lines, objects as JSON, and read an answer to each object."""
    sent = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    server.stdin.write(b"\n".join([*sent, b""]))
    server.stdin.flush()
    return [json.loads(server.stdout.readline()) for line in lines if isinstance(line, dict)]


def call_act(number, action):
    params = {"name": "act", "arguments": {"action": action}}
    return CALL | {"id": number, "params": params}


def test_other_lines_on_stdin_and_prints_of_an_environment_break_nothing(own):
    lines = (
        b"garbage",
        b"[" * 100_000,
        b"\xff",
        b'{"jsonrpc": "2.0", "method": "\\ud800"}',
        b"x" * 10**6,
    )
    with run(own) as server:
        answers = send(server, HELLO, *lines, CALL, call_act(3, "print"))
        server.stdin.close()
        assert [one["id"] for one in answers] == [1, 2, 3]
        assert answers[2]["result"]["content"][0]["text"] == "You said print."
        assert b"a line that is no message" in server.stderr.read()


@pytest.mark.parametrize("end", [signal.SIGINT, "stdin"])
def test_the_command_ends_over_stdin_during_a_step(end, own):
    with run(own) as server:
        send(server, HELLO, CALL)
        server.stdin.write(json.dumps(call_act(3, "hang")).encode() + b"\n")
        server.stdin.flush()
        time.sleep(0.5)
        if end == "stdin":
            server.stdin.close()
        else:
            server.send_signal(end)
        assert server.wait(60) == (0 if end == "stdin" else -end)
        assert b"Traceback" not in server.stderr.read()


def begin_session(url):
    """The header of a new session."""
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    hello = Request(f"{url}/mcp", json.dumps(HELLO).encode(), accept)  # noqa: S310
    with urlopen(hello, timeout=20) as answer:  # noqa: S310
        return {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}


def test_a_step_that_hangs_holds_up_no_other_session_and_no_end_of_the_server(odd):
    one, other = begin_session(odd), begin_session(odd)
    post(odd, CALL, **one)

    def hang():
        with suppress(OSError):  # the server ends before it answers
            post(odd, call_act(3, "hang"), **one)

    threading.Thread(target=hang, daemon=True).start()
    time.sleep(0.2)
    post(odd, CALL, **other)
    assert "You said hello." in post(odd, call_act(3, "hello"), **other)[1]


def test_calls_that_arrive_in_another_order_are_made_in_that_of_their_numbers(odd):
    session, answers = begin_session(odd), {}

    def act(number):
        answer = post(odd, call_act(number, f"{number}"), **session)
        answers[number] = json.loads(answer[1])["result"]

    def find_before(number):  # the anchor of a state is the action that led to it
        return answers[number]["_meta"][META]["turns"][0]["anchor"]

    post(odd, CALL, **session)
    threads = [threading.Thread(target=act, args=(number,)) for number in (6, 5, 4, 3)]
    for one in threads:
        one.start()
        time.sleep(0.1)
    for one in threads:
        one.join()
    assert [find_before(number) for number in (3, 4, 5, 6)] == ["0", "3", "4", "5"]
    act(9)  # waits for 7 and 8
    act(8)
    assert find_before(9) == "6"
    said = answers[8]["content"][0]["text"]
    assert said == "nothing was done: a call after this one came before it; over HTTP await each"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["alfwrld", "--mcp"], "did you mean 'alfworld'?"),
        (["alfworld", "--mcp", "max_turn=3"], "no option 'max_turn', did you mean 'max_turns'?"),
        (["alfworld", "--mcp", "--split", "a", "--split", "b"], "--mcp serves one split, got a, b"),
        (["alfworld", "--mcp", "--split", "test"], "unknown split 'test'"),
        (["alfworld", "--typed"], "--typed is for tools: give --mcp, too"),
        (["alfworld", "--mcp", "--public"], "for --host and --public give --port"),
        (["visualsokoban", "--mcp"], "tools return texts"),
        (["odd_env:Odd", "--mcp", "--typed", f"verb={'start_episode'}"], "another name"),
        (["alfworld", "--mcp", "--port", "0", "--host", "::"], "set a token in $AGENT_ENVS_TOKEN"),
    ],
)
@pytest.mark.usefixtures("own")
def test_odd_commands_are_refused_in_one_line(words, says, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["agent-envs", "serve", *words])
    with pytest.raises(SystemExit, match=re.escape(says)) as caught:
        agent_envs_command.main()
    assert "\n" not in caught.value.code


def test_typed_tools_are_served():
    async def play(url):
        async with Client(f"{url}/mcp") as client:
            names = [one.name for one in (await client.list_tools()).tools]
            await client.call_tool(START, {"task": 0})
            return names, await client.call_tool("search", {"words": "lamp"})

    with serve(lambda: agent_envs.tools(gym.make("WebShop-v1"), typed=True)) as url:
        names, result = asyncio.run(play(url))
    assert names == [START, "search", "click"]
    assert result.meta[META]["turns"][0]["action"] == "search[lamp]"


def test_an_untested_release_warns_and_one_without_what_is_used_is_refused():
    change = "import mcp.server.runner as it; it.serve_loop = lambda server: None"
    check_releases("mcp", "mcp", change)
