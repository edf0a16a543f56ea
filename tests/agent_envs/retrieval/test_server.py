"""The server as clients see it: dialects, limits, faults, and searches for many at once."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.retrieval import server
from agent_envs.retrieval.client import Http, RetrievalError
from agent_envs.retrieval.passages import Passage
from agent_envs.retrieval.server import Batches, SearchRequest, Waiting, serve, serving

pytestmark = pytest.mark.slow

for package in ("starlette", "uvicorn", "httpx2"):
    pytest.importorskip(package, reason=f"no {package}; pip install 'agent-envs[search]'")

LONG = 30.0  # seconds that nothing here should take, however busy the machine
TEXTS = ['The "Moon"', "Zürich\n東京 🌍", "", '"', "\ud800 alone", "a\tb\\c/"]


class Digests:
    """Finds, for any query, up to six passages that its digest picks."""

    def search(self, queries, k):
        return [self._found(sha256(q.encode(errors="surrogatepass")).digest(), k) for q in queries]

    def _found(self, digest, k):
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


def connected(url):
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=LONG)


def ask(url, body, method="POST", **headers):
    """Status and JSON of an answer."""
    connection, path = connected(url), urlsplit(url).path
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content


def raw(url):
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), LONG)


def until(condition):
    """Wait for what another thread is about to do."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def came(monkeypatch):
    """For each request that waits to be searched for, or did, where it waits."""
    waits, genuine = [], Batches.ask

    def ask_and_tell(self, asked):
        found = genuine(self, asked)
        waits.append(self)
        return found

    monkeypatch.setattr(Batches, "ask", ask_and_tell)
    return waits


class TestAnswers:
    QUERIES = ("moon", "a \ud800", "Zürich 東京", "", "x" * 4096)

    def test_they_are_those_of_the_retriever(self, url):
        queries = [*self.QUERIES, *map(str, range(200))]
        expected = Digests().search(queries, 6)
        assert Http(url).search(queries, 6) == expected
        assert Http(url, api="query").search(queries[:9], 6) == expected[:9]
        assert {len(found) for found in expected} == set(range(7))

    def test_scores_keep_all_their_digits(self, url):
        scores = [one.score for found in Http(url).search(["moon", "sun"], 6) for one in found]
        assert {type(score) for score in scores} == {float}
        assert scores == [
            float(one.score) for found in Digests().search(["moon", "sun"], 6) for one in found
        ]

    @pytest.mark.parametrize("asked", [{"queries": ["7", "8"]}, {"query": "7"}])
    def test_with_and_without_scores(self, url, asked):
        status, scored = ask(url, {**asked, "return_scores": True})
        assert status == 200
        assert len(scored["result"]) == len(asked.get("queries", ["7"]))
        for plain in ({**asked, "return_scores": False}, asked):
            bare = [[item["document"] for item in found] for found in scored["result"]]
            assert ask(url, plain) == (200, {"result": bare})

    def test_a_document(self):
        class One:
            def search(self, queries, k):
                return [[Passage("7", "Moon", "It is\nround.", np.float32(0.1))]]

        document = {
            "id": "7",
            "contents": '"Moon"\nIt is\nround.',
            "title": "Moon",
            "text": "It is\nround.",
        }
        with serving(One()) as url:
            status, content = ask(url, {"query": "q", "return_scores": True})
        # 0.1 in single precision, with the digits that it has in double precision
        assert content == {"result": [[{"document": document, "score": 0.10000000149011612}]]}
        assert status == 200

    @pytest.mark.parametrize("topk", [{}, {"topk": None}, {"topk": 0}])
    def test_topk_where_none_is_given(self, topk):
        held = Held()
        held.let.set()
        with serving(held, topk=5) as url:
            assert ask(url, {"queries": ["a"], **topk}) == (200, {"result": [[]]})
        assert held.calls == [(["a"], 5)]

    def test_no_queries(self, url):
        assert ask(url, {"queries": []}) == (200, {"result": []})

    def test_health(self, url):
        assert ask(url.replace("/retrieve", "/health"), None, "GET") == (200, {"status": "ok"})

    def test_accepted_connections_send_at_once(self, url):
        connection = connected(url)
        connection.request("POST", "/retrieve", b'{"query": "a"}')
        connection.getresponse().read()
        mine = connection.sock.getsockname()
        ends = [one for one in gc.get_objects() if type(one) is socket.socket and one.fileno() >= 0]
        theirs = [one for one in ends if self.peer(one) == mine]
        assert len(theirs) == 1
        assert theirs[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.close()

    @staticmethod
    def peer(one):
        try:
            return one.getpeername()
        except OSError:  # a listening one
            return None


class TestRefusals:
    @pytest.mark.parametrize("body", [b"", b"{", b"queries=a", b"\xff\xfe\xff", b"[" * 100_000])
    def test_no_json(self, url, body):
        status, content = ask(url, body)
        assert status == 400
        assert content["detail"].startswith("a request is JSON, got b")

    @pytest.mark.parametrize(
        ("body", "told"),
        [
            ([], "give either 'queries', a list, or 'query', a text, got []"),
            ("queries", "give either"),
            ({}, "give either"),
            ({"question": "a"}, "got {'question': 'a'}"),
            ({"queries": ["a"], "query": "a"}, "give either"),
            ({"queries": "a"}, "queries are a list of texts, a query is one, got 'a'"),
            ({"queries": None}, "queries are a list of texts"),
            ({"queries": ["a", 1]}, "got ['a', 1]"),
            ({"queries": [["a"]]}, "queries are a list of texts"),
            ({"query": ["a"]}, "a query is one, got [['a']]"),
            ({"query": None}, "a query is one, got [None]"),
            ({"query": "a", "topk": -1}, "topk is in 1..100, or 0 or null for 3, got -1"),
            ({"query": "a", "topk": 101}, "topk is in 1..100, or 0 or null for 3, got 101"),
            ({"query": "a", "topk": "3"}, "topk is in 1..100, or 0 or null for 3, got '3'"),
            ({"query": "a", "topk": 1.5}, "topk is in"),
            ({"query": "a", "topk": True}, "topk is in"),
            ({"query": "a", "return_scores": 1}, "return_scores is true or false, got 1"),
            ({"query": "a", "return_scores": None}, "return_scores is true or false, got None"),
        ],
    )
    def test_another_shape(self, url, body, told):
        status, content = ask(url, body)
        assert status == 422
        assert told in content["detail"]

    @pytest.mark.parametrize(
        ("body", "told"),
        [
            ({"queries": ["a"] * 10_000}, "at most 4096 queries, got 10000"),
            ({"queries": ["a"] * 4000, "topk": 100}, "got a request for 100 for each of 4000"),
        ],
    )
    def test_too_much(self, url, body, told):
        status, content = ask(url, body)
        assert status == 413
        assert told in content["detail"]

    def test_a_query_that_is_too_long_is_cut_and_no_other(self, url):
        queries = ["a", "b" * 100_000, "c" * 4096, "d"]
        assert Http(url).search(queries, 6) == Digests().search([q[:4096] for q in queries], 6)

    def test_as_much_as_is_allowed(self, url):
        queries = [str(i) for i in range(4096)]
        assert Http(url).search(queries, 16) == Digests().search(queries, 16)

    def test_a_body_that_says_it_is_too_long_is_not_read(self, url):
        connection = connected(url)
        connection.putrequest("POST", "/retrieve")
        connection.putheader("Content-Length", str(16 * 1024 * 1024 + 1))
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 413
        assert "at most 16777216 bytes" in json.loads(answer.read())["detail"]
        connection.close()

    def test_nor_is_one_that_turns_out_to_be(self, url, monkeypatch):
        monkeypatch.setattr(server, "BODY", 100_000)
        pieces = (b" " * 10_000 for _ in range(20))
        connection = connected(url)
        connection.request("POST", "/retrieve", pieces, encode_chunked=True)
        answer = connection.getresponse()
        assert answer.status == 413
        assert "at most 100000 bytes" in json.loads(answer.read())["detail"]
        connection.close()

    def test_one_in_pieces_that_is_not(self, url):
        pieces = iter([b'{"query"', b': "mo', b'on"}'])
        connection = connected(url)
        connection.request("POST", "/retrieve", pieces, encode_chunked=True)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())) == ask(url, {"query": "moon"})
        connection.close()

    @pytest.mark.parametrize(
        ("path", "method", "status"),
        [("/retrieve", "GET", 405), ("/", "POST", 404), ("/search", "POST", 404)],
    )
    def test_another_address(self, url, path, method, status):
        got, content = ask(url.replace("/retrieve", path), b"{}", method)
        assert got == status
        assert content["detail"]

    def test_a_client_is_told(self, url):
        with pytest.raises(
            RetrievalError, match=r"1 try: HTTP 413, .*at most 65536 passages"
        ) as told:
            Http(url).search(["a"] * 4000, 100)
        assert url in str(told.value)
        assert told.value.status == 413

    @given(
        st.dictionaries(
            st.sampled_from(["queries", "query", "topk", "return_scores", "other"]),
            st.none()
            | st.booleans()
            | st.integers(-2, 200)
            | st.floats()
            | st.text(max_size=5)
            | st.lists(st.text(max_size=5) | st.none(), max_size=3),
        )
    )
    def test_any_object_is_read_or_refused(self, fields):
        from starlette.exceptions import HTTPException

        try:
            asked = server.read_request(json.dumps(fields).encode(), 3)
        except HTTPException as error:
            status = error.status_code
        else:
            status = 200
            assert asked.queries == fields.get("queries", [fields.get("query")])
            assert asked.k == (fields.get("topk") or 3)
            assert asked.scored == fields.get("return_scores", False)
        assert status in {200, 422}

    @pytest.mark.parametrize("topk", [0, 101])
    @pytest.mark.parametrize("start", [serve, serving])
    def test_topk_of_the_server(self, start, topk):
        with pytest.raises(
            ValueError, match=rf"topk, a number of passages, must be in 1..100, got {topk}"
        ):
            start(Digests(), port=0, topk=topk).__enter__()

    @pytest.mark.parametrize("port", [-1, 65_536])
    def test_ports(self, port):
        with pytest.raises(ValueError, match=rf"port must be in 0..65535, .*got {port}"):
            serve(Digests(), port=port)

    def test_a_port_that_is_taken(self, url):
        port = urlsplit(url).port
        with pytest.raises(OSError, match=f"port {port} is in use"):
            serve(Digests(), port=port)

    @pytest.mark.parametrize("package", ["starlette", "uvicorn"])
    def test_without_its_packages(self, package, monkeypatch):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=r"pip install 'agent-envs\[search\]'"):
            serve(Digests(), port=0)


class TestFaults:
    def test_a_retriever_that_raises(self, caplog):
        with serving(Faulty()) as url:
            told = "the retriever raised ValueError: the index is broken"
            assert ask(url, {"query": "raise"}) == (500, {"detail": told})
            assert ask(url, {"query": "exit"}) == (
                500,
                {"detail": "the retriever raised SystemExit: 1"},
            )
            told = "the retriever raised ValueError: got 3 lists of passages for 2 queries"
            assert ask(url, {"queries": ["a", "many"]}) == (500, {"detail": told})
            assert ask(url, {"query": "a"}) == (200, {"result": [[]]})
        assert caplog.text.count("a search raised") == 3
        assert "the index is" in caplog.text

    def test_a_client_that_leaves_in_the_midst_of_its_request(self, url, caplog):
        head = b"POST /retrieve HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n"
        for piece in (head[:10], head, head + b"{"):
            with raw(url) as one:
                one.sendall(piece)
        assert ask(url, {"query": "7"})[0] == 200
        assert not caplog.records

    def test_a_client_that_leaves_before_its_answer(self, caplog):
        held = Held()
        with serving(held) as url:
            connection = connected(url)
            connection.request("POST", "/retrieve", b'{"query": "left"}')
            assert held.entered.wait(LONG)
            connection.close()
            held.let.set()
            assert ask(url, {"query": "stayed"}) == (200, {"result": [[]]})
        assert [queries for queries, _ in held.calls] == [["left"], ["stayed"]]
        assert not caplog.records

    def test_what_is_no_http(self, url):
        with raw(url) as one:
            one.sendall(b"\x00\x01\x02\r\n\r\n")
            assert one.recv(12) == b"HTTP/1.1 400"
        assert ask(url, {"query": "7"})[0] == 200


class TestBatches:
    def test_who_waits_is_searched_for_at_once(self):
        held = Held()
        batches = Batches(held, lambda: False)
        first = batches.ask(SearchRequest(["a"], 3, scored=True))
        assert held.entered.wait(LONG)
        others = [
            batches.ask(SearchRequest([f"b{i}", f"c{i}"], 3 + i % 2, scored=False))
            for i in range(4)
        ]
        held.let.set()
        assert first.result(LONG) == [[]]
        assert [other.result(LONG) for other in others] == [[[], []]] * 4
        batches.close()
        assert held.calls == [
            (["a"], 3),
            (["b0", "c0", "b2", "c2"], 3),
            (["b1", "c1", "b3", "c3"], 4),
        ]

    def test_each_gets_its_own(self):
        retriever, release = Digests(), threading.Event()
        batches = Batches(
            retriever, lambda: not release.wait(LONG)
        )  # waits before its first search
        asked = [
            SearchRequest([f"{i}-{j}" for j in range(i % 5)], 1 + i % 3, scored=True)
            for i in range(40)
        ]
        found = [batches.ask(one) for one in asked]
        release.set()
        for one, of in zip(asked, found, strict=True):
            assert of.result(LONG) == retriever.search(one.queries, one.k)
        batches.close()

    def test_none_fails_for_another(self):
        release = threading.Event()
        batches = Batches(Faulty(), lambda: not release.wait(LONG))
        batches.ask(SearchRequest(["first"], 3, scored=True))
        found = [
            batches.ask(SearchRequest([query], 3, scored=True)) for query in ("a", "raise", "b")
        ]
        release.set()
        assert found[0].result(LONG) == found[2].result(LONG) == [[]]
        assert found[1].exception(LONG).status_code == 500
        batches.close()

    def test_a_long_request_leaves_room_for_others(self):
        held = Held()
        batches = Batches(held, lambda: False)
        long = batches.ask(SearchRequest([str(i) for i in range(2560)], 3, scored=True))
        assert held.entered.wait(LONG)
        short = [batches.ask(SearchRequest([q], 3, scored=True)) for q in ("a", "b")]
        held.let.set()
        assert [one.result(LONG) for one in short] == [[[]]] * 2
        assert long.result(LONG) == [[]] * 2560
        batches.close()
        (first, _), (second, _), *rest = held.calls
        assert first == [str(i) for i in range(64)]
        assert {"a", "b"} < set(second)
        assert len(second) <= 4096
        searched = [query for queries, _ in held.calls for query in queries]
        assert [query for query in searched if query not in "ab"] == [str(i) for i in range(2560)]
        assert len(rest) < 40

    def test_searches_are_as_long_as_they_should_be(self, monkeypatch):
        monkeypatch.setattr("agent_envs.retrieval.server.TARGET", 0.02)

        class Slow:
            def __init__(self):
                self.sizes = []

            def search(self, queries, k):
                self.sizes.append(len(queries))
                time.sleep(0.001 * len(queries))
                return [[] for _ in queries]

        batches = Batches(slow := Slow(), lambda: False)
        found = batches.ask(SearchRequest(["a"] * 400, 3, scored=True))
        assert found.result(LONG) == [[]] * 400
        batches.close()
        assert slow.sizes[0] == 64
        assert max(slow.sizes[3:]) <= 40

    @given(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.integers(1, 200), st.data())
    def test_shares(self, lengths, size, data):
        waiting = [Waiting(SearchRequest(["q"] * n, 3, scored=True)) for n in lengths]
        for one, n in zip(waiting, lengths, strict=True):
            one.found = [[]] * data.draw(st.integers(0, n - 1))
        left = [n - len(one.found) for one, n in zip(waiting, lengths, strict=True)]
        parts = share_search(waiting, size)
        assert [part.of for part in parts] == waiting
        taken = [len(part.queries) for part in parts]
        assert all(1 <= took <= rest for took, rest in zip(taken, left, strict=True))
        assert sum(taken) <= max(size, len(lengths))
        # who has more to ask gets no less, but for what does not divide
        unsaturated = [took for took, rest in zip(taken, left, strict=True) if took < rest]
        if unsaturated:
            assert min(unsaturated) + 1 >= max(taken)

    def test_what_was_cancelled_is_not_searched_for(self):
        held = Held()
        batches = Batches(held, lambda: False)
        batches.ask(SearchRequest(["first"], 3, scored=True))
        assert held.entered.wait(LONG)
        left = batches.ask(SearchRequest(["left"] * 5000, 3, scored=True))
        stayed = batches.ask(SearchRequest(["stayed"], 3, scored=True))
        assert left.cancel()
        held.let.set()
        assert stayed.result(LONG) == [[]]
        batches.close()
        assert [queries for queries, _ in held.calls] == [["first"], ["stayed"]]

    def test_a_client_that_leaves_in_the_queue_costs_nothing(self, came):
        held = Held()
        with serving(held) as url:
            first = connected(url)
            first.request("POST", "/retrieve", b'{"query": "first"}')
            assert held.entered.wait(LONG)
            leaving = []
            for _ in range(20):
                leaving.append(connected(url))
                leaving[-1].request("POST", "/retrieve", json.dumps({"queries": ["left"] * 2560}))
            until(lambda: len(came) == 21)
            for one in leaving:
                one.close()
            stays = connected(url)
            stays.request("POST", "/retrieve", b'{"query": "stayed"}')
            until(lambda: sum(not one.answer.done() for one in came[0]._waiting) == 2)
            held.let.set()
            assert json.loads(stays.getresponse().read()) == {"result": [[]]}
            assert json.loads(first.getresponse().read()) == {"result": [[]]}
            for one in (first, stays):
                one.close()
        searched = [query for queries, _ in held.calls for query in queries]
        assert searched[0] == "first"
        assert "stayed" in searched
        assert len(searched) <= 2  # all had left before the next search

    def test_over_http(self, came):
        held = Held()
        with serving(held) as url, ThreadPoolExecutor(12) as pool:
            first = pool.submit(Http(url).search, ["first"], 3)
            assert held.entered.wait(LONG)
            others = [pool.submit(Http(url).search, [str(i)], 3) for i in range(11)]
            until(lambda: len(came) == 12)
            held.let.set()
            assert first.result(LONG) == [[]]
            assert [other.result(LONG) for other in others] == [[[]]] * 11
        assert [len(queries) for queries, _ in held.calls] == [1, 11]
        assert sorted(held.calls[1][0]) == sorted(map(str, range(11)))

    def test_many_clients(self, url):
        def search(i):
            one = Http(url, api=("queries", "query")[i % 2])
            return [one.search([f"{i}-{j}" for j in range(turn)], 1 + i % 6) for turn in range(3)]

        with ThreadPoolExecutor(64) as pool:
            answers = list(pool.map(search, range(64)))
        assert answers == [
            [Digests().search([f"{i}-{j}" for j in range(turn)], 1 + i % 6) for turn in range(3)]
            for i in range(64)
        ]


class TestStopping:
    def test_no_thread_is_left(self):
        before = set(threading.enumerate())
        with serving(Digests()) as url:
            ask(url, {"query": "a"})
        assert set(threading.enumerate()) <= before
        with pytest.raises(ConnectionRefusedError):
            ask(url, {"query": "a"})

    def test_an_error_in_the_context_stops_it_too(self):
        def fails():
            with serving(Digests()) as url:
                raise RuntimeError(url)

        with pytest.raises(RuntimeError, match=r"http://127\.0\.0\.1") as told:
            fails()
        with pytest.raises(ConnectionRefusedError):
            ask(str(told.value), {"query": "a"})

    def test_a_search_under_way_is_answered_and_no_other(self, came):
        held = Held()
        context = serving(held)
        url = context.__enter__()
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(ask, url, {"query": "first"})
            assert held.entered.wait(LONG)
            second = pool.submit(ask, url, {"query": "second"})
            until(lambda: len(came) == 2)
            stopped = pool.submit(context.__exit__, None, None, None)
            until(came[0].is_stopping)
            held.let.set()
            assert first.result(LONG) == (200, {"result": [[]]})
            status, content = second.result(LONG)
            stopped.result(LONG)
        assert status == 503
        assert content["detail"] == "the server is stopping; ask again once it is back"
        assert held.calls == [(["first"], 3)]

    def test_one_that_hangs_is_given_up(self, monkeypatch):
        monkeypatch.setattr(server, "GRACE", 1)
        held = Held()
        with ThreadPoolExecutor(1) as pool:
            with serving(held) as url:
                first = pool.submit(ask, url, {"query": "first"})
                assert held.entered.wait(LONG)
                half = connected(url)
                half.putrequest("POST", "/retrieve")
                half.putheader("Content-Length", "100")
                half.endheaders(b"{")
            assert first.result(LONG)[0] == 503
            assert half.getresponse().status == 503
            half.close()
        held.let.set()

    def test_health_says_so(self):
        batches, said = Batches(Digests(), lambda: True), []
        scope = {"type": "http", "method": "GET", "path": "/health", "headers": []}

        async def send(message):
            said.append(message)

        asyncio.run(
            server.build_application(batches, 3)({**scope, "query_string": b""}, None, send)
        )
        assert said[0]["status"] == 503
        batches.close()

    def test_it_comes_back_on_its_port_and_a_client_goes_on(self, monkeypatch):
        with serving(Digests()) as url:
            one = Http(url)
            assert one.search(["a"], 3) == Digests().search(["a"], 3)
        with pytest.raises(RetrievalError, match=r"in 1 try: .*refused"):
            Http(url, retries=0, outage=0).search(["a"], 3)
        context = serving(Digests(), port=urlsplit(url).port)
        monkeypatch.setattr("agent_envs.retry.sleep", lambda _: context.__enter__())
        assert one.search(["b"], 3) == Digests().search(["b"], 3)
        context.__exit__(None, None, None)


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
