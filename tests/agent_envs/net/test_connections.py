"""The servers of environments, passages and the shop: what each refuses and outlives."""

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager, suppress
from threading import Event, Semaphore
from urllib.parse import urlsplit

import pytest

from agent_envs import cli
from agent_envs.net import connections
from agent_envs.retrieval.client import Http
from agent_envs.retrieval.factory import Scripted
from agent_envs.retrieval.passages import Passage

pytestmark = pytest.mark.slow

for package in ("starlette", "uvicorn", "httpx2", "jinja2"):
    pytest.importorskip(package, reason=f"no {package}; pip install 'agent-envs[search,browser]'")

TOKEN = "0123456789abcdef"  # noqa: S105
VARIABLES = {"serve": "AGENT_ENVS_TOKEN", "retrieval": "AGENT_ENVS_RETRIEVAL_TOKEN"}
COMMAND = [sys.executable, "-c", "import agent_envs.cli; agent_envs.cli.main()"]
NEEDS_OPENENV = pytest.mark.skipif(not importlib.util.find_spec("openenv"), reason="no openenv")
SERVE = pytest.param("serve", marks=NEEDS_OPENENV)
each = pytest.mark.parametrize("name", [SERVE, "retrieval", "site"])
with_token = pytest.mark.parametrize("name", [SERVE, "retrieval"])


@contextmanager
def run(name, token=""):
    """A server: host and port, and a page of it."""
    if name == "serve":
        from agent_envs_adapters.openenv import make_app

        with connections.serving(make_app("EZPoints-v0", token=token)) as url:
            yield urlsplit(url), "/metadata"
    elif name == "retrieval":
        from agent_envs.retrieval.server import serving

        with serving(Scripted({}, [Passage("1", "a", "b")]), token=token) as url:
            yield urlsplit(url), "/health"
    else:
        from agent_envs.webshop.shop import open_facts
        from agent_envs.webshop.site import Site

        shop = open_facts("val", 1, seed=1)
        with Site(shop) as site:
            yield urlsplit(site.start(next(iter(shop.goals)))), "/0/"


def ask(where, path, headers=(), method="GET", body=None):
    """Status, headers and text of an answer; `headers` are pairs, and Host is ours if not there."""
    with closing(http.client.HTTPConnection(where.hostname, where.port, timeout=20)) as connection:
        connection.putrequest(method, path, skip_host="Host" in dict(headers))
        for header, value in headers:
            connection.putheader(header, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


def connect(where, sent=b""):
    one = socket.create_connection((where.hostname, where.port), timeout=20)
    one.sendall(sent)
    return one


def read_end(one):
    """All that comes until the connection is closed."""
    read = b""
    with suppress(ConnectionError), one:
        while part := one.recv(65_536):
            read += part
    return read


@each
def test_only_names_of_this_machine_and_own_pages(name):
    with run(name) as (where, page):
        here = f"127.0.0.1:{where.port}"
        for host in (
            *("evil.example", f"evil.example:{where.port}", "127.0.0.1.evil.example", "", "127.1"),
            *("localhost.evil.example", "evil@127.0.0.1", "10.0.0.1", "[::2]:80", "\xe9"),
        ):
            for path in (page, "/health", "/nothing"):
                status, _, text = ask(where, path, [("Host", host)])
                assert (status, "127.0.0.1 and localhost only" in text) == (403, True), host
        old = connect(where, b"GET %s HTTP/1.0\r\n\r\n" % page.encode())
        assert b" 403 " in read_end(old).partition(b"\r\n")[0]
        for host in (
            here,
            "localhost",
            "LOCALHOST:1",
            "127.0.0.2",
            "[::1]:80",
            socket.gethostname(),
        ):
            assert ask(where, page, [("Host", host)])[0] == 200, host
        for origin in ("http://evil.example", "null", "", f"https://{here}", "http://127.0.0.1:1"):
            for method in ("GET", "POST"):
                status, _, text = ask(where, page, [("Origin", origin)], method)
                assert (status, "(by the header Origin) are refused" in text) == (403, True), origin
        assert ask(where, page, [("Origin", f"http://{here}")])[0] == 200
        assert ask(where, page, [("Origin", f"http://{here}")] * 2)[0] == 403


@with_token
def test_a_token(name, monkeypatch):
    with run(name, TOKEN) as (where, _):
        path = "/retrieve" if name == "retrieval" else "/metadata"
        for given, says in (
            ("", "no token"),
            ("Bearer x", "a wrong token"),
            (TOKEN, "a wrong token"),
        ):
            sent = [("Authorization", given)] * bool(given)
            status, headers, text = ask(where, path, sent, "POST")
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert says in json.loads(text)["detail"]
        assert ask(where, "/health")[0] == 200
        assert ask(where, path, [("Authorization", f"Bearer {TOKEN}")])[0] in {200, 404}
        if name == "retrieval":
            monkeypatch.setenv(VARIABLES[name], TOKEN)
            assert Http(where.geturl()).search(["a"], 1) == [[Passage("1", "a", "b")]]


@with_token
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_other_machines_are_let_in_only_on_purpose(name, host, monkeypatch, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "title": "Chad", "text": "a country"}\n')
    serves = {"serve": ["serve", "EZPoints-v0"]}
    words = serves.get(name, ["retrieval", "serve", "--data", str(tmp_path)])
    monkeypatch.setattr(sys, "argv", ["agent-envs", *words, "--host", host, "--port", "0"])
    monkeypatch.delenv(VARIABLES[name], raising=False)
    advice = (
        rf"lets other machines connect, so set a token in \${VARIABLES[name]}, or listen on 127"
    )
    with pytest.raises(SystemExit, match=advice) as caught:
        cli.main()
    assert "\n" not in caught.value.code
    served = []
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: served.extend(sockets))
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--public"])
    with suppress(SystemExit):
        cli.main()
    monkeypatch.setenv(VARIABLES[name], TOKEN)
    monkeypatch.setattr(sys, "argv", sys.argv[:-1])
    with suppress(SystemExit):
        cli.main()
    assert len(served) == 2


HEAD = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"


@each
def test_what_never_comes_whole_is_given_up(name, monkeypatch):
    monkeypatch.setattr(connections, "WAIT", 0.3)
    with run(name) as (where, page), ExitStack() as stack:
        whole = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % page.encode()
        halves = [b"", b"G", HEAD, HEAD + b"\r\n", HEAD + b"\r\n{"]
        opened = [stack.enter_context(connect(where, sent)) for sent in halves * 20]
        kept = [stack.enter_context(connect(where, whole + sent)) for sent in halves]
        drip = stack.enter_context(connect(where, HEAD + b"X: "))
        drip.settimeout(0.02)
        with suppress(ConnectionError):
            for _ in range(500):  # more bytes do not prolong it
                with suppress(TimeoutError):
                    drip.sendall(b"a")
                    assert drip.recv(1) == b""
                    break
            else:
                pytest.fail("it is still open")
        assert {read_end(one) for one in opened} == {b""}
        assert all(read_end(one).startswith(b"HTTP/1.1 200") for one in kept)
        assert ask(where, page)[0] == 200


@each
def test_idle_connections_make_room(name, monkeypatch):
    monkeypatch.setattr(connections, "MOST", 20)
    with run(name) as (where, page), ExitStack() as opened:
        whole = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % page.encode()
        for sent in (b"", HEAD, HEAD + b"\r\n{", whole):
            waiting = [opened.enter_context(connect(where, sent)) for _ in range(60)]
            assert ask(where, page)[0] == 200
            assert read_end(waiting[0]) == b"" or sent == whole


def test_a_running_search_does_not_make_room(monkeypatch):
    from agent_envs.retrieval.server import Batches, serving

    came, let, genuine = Semaphore(0), Event(), Batches.ask

    class Held:
        def search(self, queries, k):
            assert let.wait(20)
            return [[] for _ in queries]

    def note(self, request):
        came.release()
        return genuine(self, request)

    monkeypatch.setattr(Batches, "ask", note)
    monkeypatch.setattr(connections, "MOST", 4)
    asked = HEAD.replace(b"100", b"14") + b'\r\n{"query": "a"}'
    with serving(Held()) as url, ExitStack() as opened:
        where, busy = urlsplit(url), []
        for _ in range(7):
            for _ in range(10):
                opened.enter_context(connect(where))
            busy.append(opened.enter_context(connect(where, asked)))
            assert came.acquire(timeout=20)
        assert ask(where, "/health")[0] == 503  # all have something to do
        let.set()
        assert all(one.recv(65_536).startswith(b"HTTP/1.1 200") for one in busy)


@each
def test_long_bodies(name):
    with run(name) as (where, page):
        for length in (1 << 25, 10**19):
            status, _, text = ask(where, page, [("Content-Length", str(length))], "POST")
            assert (status, "a request has at most" in text) == (413, True)


@contextmanager
def run_command(name, folder, before=()):
    """A command's process and its address; `before` are words in front of it."""
    corpus = folder / "corpus.jsonl"
    corpus.write_text('{"id": "1", "title": "Chad", "text": "a country"}\n')
    words = {
        "serve": ["serve", "EZPoints-v0", "--port", "0"],
        "retrieval": ["retrieval", "serve", "--data", str(corpus), "--port", "0"],
        "site": ["play", "webshop", "--browser"],
    }
    given = [*before, *COMMAND, *words[name]]
    pipe = subprocess.PIPE
    with subprocess.Popen(given, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            url = next(line for line in child.stdout if "http://" in line)
            yield child, urlsplit(url[url.index("http://") :].split()[0])
        finally:
            child.kill()


@each
@pytest.mark.parametrize(
    "sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_signal_ends_each_command(name, sent, tmp_path):
    with run_command(name, tmp_path) as (child, where), connect(where, HEAD) as half:
        child.send_signal(sent)
        assert child.wait(20) == 0
        assert child.stderr.read() == ""
        assert read_end(half) == b""


@each
def test_a_burst_takes_few_files(name, tmp_path):
    limit = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    with run_command(name, tmp_path, limit) as (child, where), ExitStack() as opened:
        for _ in range(4):
            for _ in range(30):
                opened.enter_context(connect(where))
            assert ask(where, "/")[0] in {302, 404}
        child.terminate()
        # asyncio complains of each connection for which there is no file, and stops for a second
        assert (child.wait(20), child.stderr.read()) == (0, "")


@NEEDS_OPENENV
def test_sessions_take_at_most_two_thirds_of_the_files(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 12)
    upgrade = b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket"
    upgrade += (
        b"\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with run("serve") as (where, _), ExitStack() as opened:
        told = []
        for _ in range(10):
            one = opened.enter_context(connect(where))
            with suppress(ConnectionError):
                one.sendall(upgrade)
                told.append(one.recv(65_536)[:12])
        assert told.count(b"HTTP/1.1 101") == 8
