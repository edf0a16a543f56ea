"""The server as clients see it: APIs, limits, faults, and searches for many at once."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from urllib.parse import urlsplit

import numpy as np
import pytest

from agent_envs.net import connections
from agent_envs.retrieval import server
from agent_envs.retrieval.client import Http, RetrievalError
from agent_envs.retrieval.factory import Scripted
from agent_envs.retrieval.passages import Passage
from agent_envs.retrieval.server import (
    Batches,
    SearchRequest,
    Waiting,
    serve,
    serving,
    share_search,
)

pytestmark = pytest.mark.slow

for package in ("starlette", "uvicorn", "httpx2"):
    pytest.importorskip(package, reason=f"no {package}; pip install 'agent-envs[search]'")

LONG = 30.0  # seconds that nothing here should take, however busy the machine
TEXTS = ['The "Moon"', "Zürich\n東京 🌍", "", '"', "\ud800 alone", "a\tb\\c/"]
STOPPING = "the server is stopping; ask again once it is back"


class Digests:
    """Finds, for any query, up to six passages that its digest picks."""

    def search(self, queries, k):
        return [self._find(sha256(q.encode(errors="surrogatepass")).digest(), k) for q in queries]

    def _find(self, digest, k):
        found = [
            Passage(f"{digest.hex()[:4]}-{i}", TEXTS[b % 6], TEXTS[b % 5], np.float32(b) / 7)
            for i, b in enumerate(digest[: digest[-1] % 7])
        ]
        return found[:k]


class Held:
    """Finds nothing, and that only once it is let; `calls` are the queries and k of each search."""

    def __init__(self):
        self.calls, self.entered, self.let = [], threading.Event(), threading.Event()

    def search(self, queries, k):
        self.calls.append((list(queries), k))
        self.entered.set()
        assert self.let.wait(LONG)
        return [[] for _ in queries]


class Faulty:
    """Raises for the query "raise", finds too much for "many", and is well otherwise."""

    def search(self, queries, k):
        if "raise" in queries:
            raise ValueError("the index is broken")
        if "exit" in queries:
            sys.exit(1)
        return [[] for _ in queries] + [[]] * queries.count("many")


@pytest.fixture(scope="module")
def url():
    with serving(Digests()) as one:
        yield one


def connect(url):
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=LONG)


def ask(url, body, method="POST", **options):
    """Status and JSON of an answer."""
    connection = connect(url)
    data = json.dumps(body).encode() if isinstance(body, (dict, list, str)) else body
    connection.request(method, urlsplit(url).path, data, **options)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content


def wait_until(condition):
    """Wait for what another thread is about to do."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def came(monkeypatch):
    """For each request that waits to be searched for, or did, where it waits."""
    waits, genuine = [], Batches.ask

    def ask_and_note(self, request):
        found = genuine(self, request)
        waits.append(self)
        return found

    monkeypatch.setattr(Batches, "ask", ask_and_note)
    return waits


def test_answers_are_those_of_the_retriever(url):
    queries = ["moon", "a \ud800", "Zürich 東京", "", "x" * 4096, *map(str, range(200))]
    expected = Digests().search(queries, 6)
    assert Http(url).search(queries, 6) == expected  # with all digits of the scores
    assert Http(url, api="query").search(queries[:9], 6) == expected[:9]
    assert {len(found) for found in expected} == set(range(7))
    most = ["a", "b" * 100_000, "c" * 4096, *map(str, range(4093))]
    assert Http(url).search(most, 16) == Digests().search([q[:4096] for q in most], 16)
    assert ask(url, {"queries": []}) == (200, {"result": []})
    health = url.replace("/retrieve", "/health")
    for slash in ("", "/"):
        assert ask(url + slash, {"queries": []}) == (200, {"result": []})
        assert ask(health + slash, None, "GET") == (200, {"status": "ok"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104
def test_the_address_of_a_public_server_is_one_that_answers(host):
    with (
        server._open_guard(Digests(), 3, "") as guard,
        connections.serving(guard, host=host, public=True) as url,
    ):
        assert ask(f"{url}/retrieve", {"queries": []}) == (200, {"result": []})


@pytest.mark.parametrize("fields", [{"queries": ["7", "8"]}, {"query": "7"}])
def test_documents_with_and_without_scores(fields):
    document = {"id": "7", "contents": '"Moon"\nIt is\nround.'}
    document |= {"title": "Moon", "text": "It is\nround."}
    # 0.1 in single precision, with the digits that it has in double precision
    scored = {"document": document, "score": 0.10000000149011612}
    count = len(fields.get("queries", "7"))
    with serving(Scripted({}, [Passage("7", "Moon", "It is\nround.", np.float32(0.1))])) as url:
        assert ask(url, {**fields, "return_scores": True})[1] == {"result": [[scored]] * count}
        for plain in ({**fields, "return_scores": False}, fields):
            assert ask(url, plain) == (200, {"result": [[document]] * count})


def test_the_default_topk():
    held = Held()
    held.let.set()
    with serving(held, topk=5) as url:
        for topk in ({}, {"topk": None}, {"topk": 0}, {"topk": 7}):
            assert ask(url, {"queries": ["a"], **topk}) == (200, {"result": [[]]})
    assert held.calls == [(["a"], 5)] * 3 + [(["a"], 7)]


def test_accepted_connections_send_at_once():
    with connections.listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # by which asyncio sets TCP_NODELAY


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, b"", "a request is JSON, got b''"),
        (400, b"queries=a", "a request is JSON, got b'queries=a'"),
        (400, b"\xff\xfe\xff", "a request is JSON"),
        (400, b"[" * 100_000, "a request is JSON"),
        (422, [], "give 'queries', a list, or 'query', a text, got []"),
        (422, {"question": "a"}, "got {'question': 'a'}"),
        (422, {"queries": ["a"], "query": "a"}, "give 'queries'"),
        (422, {"queries": "a"}, "queries is a list of texts, query is one, got 'a'"),
        (422, {"queries": ["a", 1]}, "got ['a', 1]"),
        (422, {"query": ["a"]}, "query is one, got [['a']]"),
        (422, {"query": None}, "query is one, got [None]"),
        (422, {"query": "a", "topk": -1}, "topk is in 1..100, or 0 or null for 3, got -1"),
        (422, {"query": "a", "topk": 101}, "topk is in 1..100, or 0 or null for 3, got 101"),
        (422, {"query": "a", "topk": "3"}, "topk is in 1..100, or 0 or null for 3, got '3'"),
        (422, {"query": "a", "topk": True}, "topk is in"),
        (422, {"query": "a", "return_scores": 1}, "return_scores is true or false, got 1"),
        (413, {"queries": ["a"] * 10_000}, "at most 4096 queries, got 10000"),
        (413, {"queries": ["a"] * 4000, "topk": 100}, "at most 65536 passages, not 100 for each"),
    ],
)
def test_refused_requests(url, status, body, message):
    got, content = ask(url, body)
    assert (got, message in content["detail"]) == (status, True), content
    if isinstance(body, dict) and status == 413:
        with pytest.raises(RetrievalError, match=rf"{url}.* 1 try: HTTP 413, .*at most"):
            Http(url).search(body["queries"], body.get("topk", 3))


def test_long_bodies_are_not_read(url, monkeypatch):
    connection = connect(url)
    connection.putrequest("POST", "/retrieve")
    connection.putheader("Content-Length", str(16 * 1024 * 1024 + 1))
    connection.endheaders()
    answer = connection.getresponse()
    assert (answer.status, b"at most 16777216 bytes" in answer.read()) == (413, True)
    connection.close()
    pieces = iter([b'{"query"', b': "mo', b'on"}'])
    assert ask(url, pieces, encode_chunked=True, headers={}) == ask(url, {"query": "moon"})
    monkeypatch.setattr(server, "BODY", 100_000)
    with serving(Digests()) as other:
        status, content = ask(other, (b" " * 10_000 for _ in range(20)), encode_chunked=True)
    assert (status, "at most 100000 bytes" in content["detail"]) == (413, True)


def test_options_that_are_refused(url, monkeypatch):
    port = urlsplit(url).port
    for options, error, message in (
        ({"topk": 0}, ValueError, "topk, a number of passages, must be in 1..100, got 0"),
        ({"topk": 101}, ValueError, "must be in 1..100, got 101"),
        ({"port": 65_536}, ValueError, "port must be in 0..65535, .*got 65536"),
        ({"port": port}, OSError, f"port {port}: Address already in use; stop that process"),
    ):
        with pytest.raises(error, match=message):
            serve(Digests(), **{"port": 0} | options)
    for name in ("starlette", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=r"pip install 'agent-envs\[search\]'"):
            serve(Digests(), port=0)


def test_a_retriever_that_raises(caplog):
    many = "ValueError: got 3 lists of passages for 2 queries"
    with serving(Faulty()) as url:
        for queries, reason in (
            (["raise"], "ValueError: the index is broken"),
            (["exit"], "SystemExit: 1"),
            (["a", "many"], many),
        ):
            detail = f"the retriever raised {reason}"
            assert ask(url, {"queries": queries}) == (500, {"detail": detail})
        assert ask(url, {"query": "a"}) == (200, {"result": [[]]})
    assert caplog.text.count("a search raised") == 3
    assert "the index is" in caplog.text


def request(*queries, k=3):
    return SearchRequest(list(queries), k, scored=True)


@pytest.fixture
def batches():
    """Makes batches that wait for `release` before their first search; closes them."""
    made = []

    def make(retriever, release=None):
        made.append(Batches(retriever, lambda: bool(release) and not release.wait(LONG)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_waiting_requests_are_searched_for_together(batches):
    held = Held()
    one = batches(held)
    first = one.ask(request("a"))
    assert held.entered.wait(LONG)
    others = [one.ask(request(f"b{i}", f"c{i}", k=3 + i % 2)) for i in range(4)]
    left = one.ask(request(*["left"] * 5000))
    assert left.cancel()
    held.let.set()
    assert first.result(LONG) == [[]]
    assert [other.result(LONG) for other in others] == [[[], []]] * 4
    assert held.calls == [(["a"], 3), (["b0", "c0", "b2", "c2"], 3), (["b1", "c1", "b3", "c3"], 4)]


def test_each_request_gets_its_own_and_none_fails_for_another(batches):
    retriever, release = Digests(), threading.Event()
    one, faulty = batches(retriever, release), batches(Faulty(), release)
    requests = [request(*[f"{i}-{j}" for j in range(i % 5)], k=1 + i % 3) for i in range(40)]
    found = [one.ask(each) for each in requests]
    well, broken, too = [faulty.ask(request(query)) for query in ("a", "raise", "b")]
    release.set()
    for each, of in zip(requests, found, strict=True):
        assert of.result(LONG) == retriever.search(each.queries, each.k)
    assert well.result(LONG) == too.result(LONG) == [[]]
    assert broken.exception(LONG).status_code == 500


def test_a_long_request_leaves_room_for_others(batches):
    held = Held()
    one = batches(held)
    long = one.ask(request(*map(str, range(2560))))
    assert held.entered.wait(LONG)
    short = [one.ask(request(query)) for query in ("a", "b")]
    held.let.set()
    assert [each.result(LONG) for each in short] == [[[]]] * 2
    assert long.result(LONG) == [[]] * 2560
    (first, _), (second, _), *rest = held.calls
    assert first == [str(i) for i in range(64)]
    assert {"a", "b"} < set(second)
    searched = [query for queries, _ in held.calls for query in queries]
    assert [query for query in searched if query not in "ab"] == [str(i) for i in range(2560)]
    assert len(rest) < 20  # larger ones, since they take no time


def test_slow_searches_become_smaller(batches, monkeypatch):
    monkeypatch.setattr(server, "TARGET", 0.02)
    sizes = []

    class Slow:
        def search(self, queries, k):
            sizes.append(len(queries))
            time.sleep(0.001 * len(queries))
            return [[] for _ in queries]

    assert batches(Slow()).ask(request(*["a"] * 400)).result(LONG) == [[]] * 400
    assert sizes[0] == 64
    assert max(sizes[3:]) <= 40


@pytest.mark.parametrize(
    ("lengths", "size", "taken"),
    [([300, 1, 300], 64, [31, 1, 32]), ([300] * 5, 3, [1] * 5), ([5, 2], 64, [5, 2])],
)
def test_shares(lengths, size, taken):
    parts = share_search([Waiting(request(*["q"] * n)) for n in lengths], size)
    assert [len(part.queries) for part in parts] == taken


def test_a_client_that_leaves_in_the_queue_costs_nothing(came):
    held = Held()
    with serving(held) as url:
        first = connect(url)
        first.request("POST", "/retrieve", b'{"query": "first"}')
        assert held.entered.wait(LONG)
        leaving = [connect(url) for _ in range(20)]
        for one in leaving:
            one.request("POST", "/retrieve", json.dumps({"queries": ["left"] * 2560}))
        wait_until(lambda: len(came) == 21)
        for one in leaving:
            one.close()
        stays = connect(url)
        stays.request("POST", "/retrieve", b'{"query": "stayed"}')
        wait_until(
            lambda: len(came) == 22 and sum(not x.answer.done() for x in came[0]._waiting) == 2
        )
        held.let.set()
        for one in (first, stays):
            assert json.loads(one.getresponse().read()) == {"result": [[]]}
            one.close()
    searched = [query for queries, _ in held.calls for query in queries]
    assert searched == ["first", "stayed"]  # all had left before the next search


def test_nothing_is_left_and_a_client_goes_on_when_it_is_back(monkeypatch):
    before = set(threading.enumerate())
    with suppress(RuntimeError), serving(Digests()) as url:
        one = Http(url)
        assert one.search(["a"], 3) == Digests().search(["a"], 3)
        raise RuntimeError
    assert {thread.name for thread in set(threading.enumerate()) - before} <= {"agent_envs web"}
    with pytest.raises(ConnectionRefusedError):
        ask(url, {"query": "a"})
    context = serving(Digests(), port=urlsplit(url).port)
    monkeypatch.setattr("agent_envs.net.web.sleep", lambda _: context.__enter__())
    assert one.search(["b"], 3) == Digests().search(["b"], 3)
    context.__exit__(None, None, None)


def test_a_running_search_is_answered_and_no_other(came):
    held = Held()
    context = serving(held)
    url = context.__enter__()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(ask, url, {"query": "first"})
        assert held.entered.wait(LONG)
        second = pool.submit(ask, url, {"query": "second"})
        wait_until(lambda: len(came) == 2)
        stopped = pool.submit(context.__exit__, None, None, None)
        wait_until(came[0].is_stopping)
        held.let.set()
        assert first.result(LONG) == (200, {"result": [[]]})
        assert second.result(LONG) == (503, {"detail": STOPPING})
        stopped.result(LONG)
    assert held.calls == [(["first"], 3)]


def test_a_search_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(connections, "GRACE", 1)
    held = Held()
    with ThreadPoolExecutor(1) as pool:
        with serving(held) as url:
            first = pool.submit(ask, url, {"query": "first"})
            assert held.entered.wait(LONG)
            half = connect(url)
            half.putrequest("POST", "/retrieve")
            half.putheader("Content-Length", "100")
            half.endheaders(b"{")
        assert first.result(LONG)[0] == 503
        assert half.getresponse().status == 503
        half.close()
    held.let.set()


def test_health_while_stopping(url, monkeypatch):
    monkeypatch.setattr(connections.Guard, "is_stopping", True)
    assert ask(url.replace("/retrieve", "/health"), None, "GET") == (503, {"detail": STOPPING})


PROGRAM = """
import sys
from functools import partial
from agent_envs.retrieval.server import serve

class Slow:
    def search(self, queries, k):
        print("searching", flush=True)
        sys.stdin.readline()
        return [[] for _ in queries]

serve(Slow(), port=0, ready=partial(print, flush=True))
print("ended")
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_once_it_has_answered(sent):
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PROGRAM]
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child,
        ThreadPoolExecutor(1) as pool,
    ):
        url = child.stdout.readline().strip()
        answer = pool.submit(ask, url, {"query": "a"})
        assert child.stdout.readline() == "searching\n"
        child.send_signal(sent)
        child.stdin.write("\n")
        child.stdin.flush()
        assert answer.result(LONG) == (200, {"result": [[]]})
        assert child.stdout.read() == "ended\n"
        assert child.stderr.read() == ""
    assert child.returncode == 0
