"""The client against small servers of either dialect, and against servers that misbehave."""

from __future__ import annotations

import contextlib
import copy
import json
import multiprocessing
import pickle
import random
import socket
import sys
import threading
import time
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import retry, web
from agent_envs.retrieval import client
from agent_envs.retrieval.client import Http, RetrievalError, read_passage
from agent_envs.retrieval.passages import Passage, Retriever

pytest.importorskip("httpx2", reason="no httpx2; pip install 'agent-envs[search]'")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        self.server.answer(self, asked)

    def log_message(self, *_):
        pass


class Stub(ThreadingHTTPServer):
    """A server that does with each request what `answer(handler, asked)` does."""

    daemon_threads = False

    def __init__(self, answer, port=0):
        self.answer, self.asked, self.connections = answer, [], []
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/retrieve"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))

    def get_request(self):
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def handle_error(self, *_):
        """A client that left is none of ours."""

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.shutdown()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join()


def say(handler, content, status=200, **headers):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def found(query, k):
    """What the servers here find: passages numbered 0, 1, ... of the query's own words."""
    return [Passage(f"{query}-{i}", f'The "{query}"', f"text {i}", 1 / (i + 1)) for i in range(k)]


def documents(query, k):
    """The same as the reference's servers say it: contents only."""
    return [
        {
            "document": {"id": one.id, "contents": f'"{one.title}"\n{one.text}'},
            "score": one.score,
        }
        for one in found(query, k)
    ]


def search_r1(handler, asked):
    """Search-R1's server, with its fault: without scores it fails."""
    if not isinstance(asked.get("queries"), list):
        say(handler, {"detail": [{"loc": ["body", "queries"], "msg": "Field required"}]}, 422)
    elif not asked.get("return_scores"):
        say(handler, b"Internal Server Error", 500)
    else:
        say(handler, {"result": [documents(query, asked["topk"]) for query in asked["queries"]]})


def verl_agent(handler, asked):
    """verl-agent's server: one query a request."""
    if not isinstance(asked.get("query"), str):
        say(handler, {"detail": [{"loc": ["body", "query"], "msg": "Field required"}]}, 422)
    else:
        say(handler, {"result": [documents(asked["query"], asked["topk"])]})


def first_fails(fault, times=1):
    """A server that has a fault some times and is well from then on."""

    def answer(handler, asked):
        if len(handler.server.asked) <= times:
            fault(handler, asked)
        else:
            search_r1(handler, asked)

    return answer


def leaves(handler, _):
    handler.close_connection = True


def leaves_midway(handler, _):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"result": [[')
    handler.close_connection = True


def babbles(handler, _):
    handler.wfile.write(b"this is no HTTP\r\n\r\n")
    handler.close_connection = True


def hangs(handler, _):
    handler.server.closing.wait()
    handler.close_connection = True


def drips(handler, _):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    with contextlib.suppress(OSError):
        while not handler.server.closing.wait(0.05):
            handler.wfile.write(b" ")
    handler.close_connection = True


def drips_headers(handler, _):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    with contextlib.suppress(OSError):
        while not handler.server.closing.wait(0.05):
            handler.wfile.write(b"X: 1\r\n")
    handler.close_connection = True


def bomb(handler, _):
    """256 MiB of spaces in 256 kB."""
    packer = zlib.compressobj(9, wbits=31)
    packed = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(256)) + packer.flush()
    say(handler, packed, Content_Encoding="gzip")


def with_status(status, **headers):
    return lambda handler, _: say(handler, {"detail": "not now"}, status, **headers)


@pytest.fixture
def waits(monkeypatch):
    """Seconds that the client would have waited."""
    waited = []
    monkeypatch.setattr(retry, "sleep", waited.append)
    return waited


@pytest.fixture(scope="module")
def stub():
    with Stub(search_r1) as server:
        yield server


class TestDialects:
    @pytest.mark.parametrize("api", ["auto", "queries"])
    def test_all_queries_go_in_one_request(self, api):
        with Stub(search_r1) as server:
            assert Http(server.url, api=api).search(["a", "b"], 2) == [found("a", 2), found("b", 2)]
            assert server.asked == [{"queries": ["a", "b"], "topk": 2, "return_scores": True}]

    def test_each_query_goes_alone(self):
        with Stub(verl_agent) as server:
            assert Http(server.url, api="query").search(["a", "b"], 1) == [
                found("a", 1),
                found("b", 1),
            ]
            assert server.asked == [
                {"query": "a", "topk": 1, "return_scores": True},
                {"query": "b", "topk": 1, "return_scores": True},
            ]

    def test_the_right_one_is_found_and_remembered(self):
        with Stub(verl_agent) as server:
            one = Http(server.url)
            assert one.search(["a", "b"], 1) == [found("a", 1), found("b", 1)]
            assert copy.deepcopy(one).search(["c"], 1) == one.search(["c"], 1) == [found("c", 1)]
            assert ["queries" in asked for asked in server.asked] == [True] + 4 * [False]

    @pytest.mark.parametrize(("api", "answer"), [("queries", verl_agent), ("query", search_r1)])
    def test_the_wrong_one_raises(self, api, answer, waits):
        with Stub(answer) as server:
            with pytest.raises(
                RetrievalError, match=r"in 1 try: HTTP 422, .*Field required"
            ) as told:
                Http(server.url, api=api).search(["a"], 1)
            assert server.url in str(told.value)
            assert len(server.asked) == 1
        assert told.value.status == 422
        assert not waits

    def test_a_422_for_another_reason_settles_nothing(self):
        def well_at_last(handler, asked):
            number = len(handler.server.asked)
            (search_r1 if number == 3 else with_status(422))(handler, asked)

        with Stub(well_at_last) as server:
            one = Http(server.url)
            with pytest.raises(RetrievalError, match="HTTP 422"):
                one.search(["a"], 1)
            assert one.search(["a"], 1) == [found("a", 1)]

    def test_after_an_answer_a_422_is_an_error(self):
        with Stub(first_fails(search_r1)) as server:
            one = Http(server.url)
            one.search(["a"], 1)
            server.answer = with_status(422)
            with pytest.raises(RetrievalError, match="HTTP 422"):
                one.search(["a", "b"], 1)
            assert len(server.asked) == 2

    def test_no_query_makes_no_request(self):
        with Stub(search_r1) as server:
            assert Http(server.url).search([], 3) == []
            assert server.asked == []

    def test_nothing_found_is_an_answer(self):
        with Stub(lambda handler, asked: say(handler, {"result": [[], []]})) as server:
            assert Http(server.url).search(["a", "b"], 3) == [[], []]

    def test_more_than_asked_for_is_cut(self):
        answer = {"result": [documents("a", 5)]}
        with Stub(lambda handler, asked: say(handler, answer)) as server:
            assert Http(server.url).search(["a"], 2) == [found("a", 2)]

    def test_an_address_without_a_path(self, stub):
        one = Http(stub.url.removesuffix("/retrieve"))
        assert one.search(["a"], 1) == [found("a", 1)]
        assert one.url == stub.url


class TestRefusals:
    @pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://127.0.0.1/", "http://", "/x"])
    def test_addresses(self, url):
        with pytest.raises(ValueError, match=r"url must be like 'http://127.0.0.1:8000"):
            Http(url)

    @pytest.mark.parametrize(
        "options", [{"timeout": 0}, {"timeout": -1.0}, {"retries": -1}, {"outage": -1.0}]
    )
    def test_options(self, options):
        with pytest.raises(
            ValueError, match="timeout must be above 0, retries and outage at least 0"
        ):
            Http("http://localhost", **options)

    def test_a_dialect(self):
        with pytest.raises(ValueError, match="unknown api 'querys', did you mean 'query'"):
            Http("http://localhost", api="querys")

    def test_number_of_passages(self, stub):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            Http(stub.url).search(["a"], 0)

    def test_one_text(self, stub):
        with pytest.raises(TypeError, match="give \\[query\\]"):
            Http(stub.url).search("a", 1)

    def test_without_httpx2(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "httpx2", None)
        with pytest.raises(ImportError, match=r"pip install 'agent-envs\[search\]'"):
            Http("http://localhost")


class TestFaults:
    @pytest.mark.parametrize("fault", [leaves, leaves_midway, babbles])
    @pytest.mark.parametrize("times", [1, 3])
    def test_a_broken_connection_is_made_again(self, fault, times, waits):
        with Stub(first_fails(fault, times)) as server:
            assert Http(server.url).search(["a"], 1) == [found("a", 1)]
            assert len(server.asked) == times + 1
        assert len(waits) == times

    @pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
    def test_a_passing_refusal_is_asked_again(self, status, waits):
        with Stub(first_fails(with_status(status), 2)) as server:
            assert Http(server.url).search(["a"], 1) == [found("a", 1)]
            assert len(server.asked) == 3

    @pytest.mark.parametrize("status", [204, 301, 400, 401, 404, 413])
    def test_another_refusal_is_not(self, status, waits):
        fault = with_status(status, Location="/elsewhere")
        with Stub(fault) as server:
            with pytest.raises(RetrievalError, match=f"in 1 try: HTTP {status}"):
                Http(server.url).search(["a"], 1)
            assert len(server.asked) == 1
        assert not waits

    def test_tries_are_bounded_and_told(self, waits):
        with Stub(with_status(500)) as server:
            with pytest.raises(
                RetrievalError, match=r"in 3 tries and \d s of waiting: HTTP 500, .*not now"
            ) as told:
                Http(server.url, retries=2, outage=0).search(["a"], 1)
            assert server.url in str(told.value)
            assert len(server.asked) == 3
        assert told.value.status == 500
        assert pickle.loads(pickle.dumps(told.value)).status == 500

    @pytest.mark.parametrize("fault", [hangs, drips, drips_headers])
    def test_a_server_that_hangs(self, fault, waits):
        with Stub(fault) as server:
            with pytest.raises(
                RetrievalError, match=rf"{server.url}.* in 2 tries and 0 s of waiting: .*timed out"
            ) as told:
                Http(server.url, timeout=0.2, retries=1, outage=0).search(["a"], 1)
            assert len(server.asked) == 2
        assert told.value.status == 0

    @pytest.mark.slow
    def test_an_answer_without_an_end(self, monkeypatch):
        monkeypatch.setattr(client, "_LARGEST", 1 << 20)
        with Stub(bomb) as server:
            tracemalloc.start()
            with pytest.raises(RetrievalError, match="has more than 1,048,576 bytes"):
                Http(server.url).search(["a"], 1)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert len(server.asked) == 1
        assert peak < 8 << 20

    def test_no_server(self, waits, caplog):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        with pytest.raises(
            RetrievalError,
            match=rf"127.0.0.1:{port}/retrieve .* in \d+ tries and \d+ s of waiting: .*refused",
        ):
            Http(f"http://127.0.0.1:{port}").search(["a"], 1)
        assert 60 <= sum(waits) < 100  # a server that is started again is waited for
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "waiting up to 60 s" in caplog.text

    def test_a_server_that_is_not_what_it_says(self, stub):
        with pytest.raises(RetrievalError, match=r"https://.* (cannot be asked|gave no passages)"):
            Http(stub.url.replace("http:", "https:"), retries=0, outage=0).search(["a"], 1)

    def test_a_server_that_dies_and_comes_back(self, monkeypatch):
        with Stub(search_r1) as first:
            one = Http(first.url)
            assert one.search(["a"], 1) == [found("a", 1)]
        with ExitStack() as stack:
            back = lambda _: stack.enter_context(Stub(search_r1, first.server_port))  # noqa: E731
            monkeypatch.setattr(retry, "sleep", back)
            assert one.search(["b"], 1) == [found("b", 1)]

    def test_an_absence_is_told_once_to_all(self, monkeypatch, caplog):
        monkeypatch.setattr(retry, "BACKOFF", 0.02)
        with Stub(search_r1) as first:
            one = Http(first.url, retries=1)
        with ThreadPoolExecutor(8) as pool:
            found = [pool.submit(copy.deepcopy(one).search, ["a"], 1) for _ in range(8)]
            time.sleep(0.5)
            with Stub(search_r1, first.server_port):
                assert all(len(one.result(timeout=30)[0]) == 1 for one in found)
        said = [record.getMessage() for record in caplog.records]
        assert [("waiting up to" in line, "answers again" in line) for line in said] == [
            (True, False),
            (False, True),
        ]


class TestWaits:
    def test_they_double_up_to_the_longest(self, waits):
        with Stub(with_status(503)) as server, pytest.raises(RetrievalError):
            Http(server.url, retries=12, outage=0).search(["a"], 1)
        longest = [min(0.5 * 2**i, 30.0) for i in range(12)]
        assert all(half / 2 <= w <= half for half, w in zip(longest, waits, strict=True))
        assert len(set(waits)) == 12  # they vary, lest all clients come back at once

    @pytest.mark.parametrize(
        ("header", "least"),
        [("7", 7.0), ("999999", 30.0), ("Fri, 31 Dec 2999 23:59:59 GMT", 30.0)],
    )
    @pytest.mark.parametrize("status", [429, 503])
    def test_a_server_may_ask_for_longer(self, status, header, least, waits):
        with Stub(first_fails(with_status(status, Retry_After=header))) as server:
            Http(server.url).search(["a"], 1)
        assert waits == [least]

    @pytest.mark.parametrize(
        "header", ["0", "soon", "-5", "9" * 5000, "Fri, 31 Dec 1999 23:59:59 GMT"]
    )
    def test_but_not_for_nonsense(self, header, waits):
        with Stub(first_fails(with_status(429, Retry_After=header))) as server:
            Http(server.url).search(["a"], 1)
        assert 0.25 <= waits[0] <= 30.0

    def test_the_generators_of_the_process_stay_as_they_were(self, waits):
        before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
        with Stub(with_status(500)) as server, pytest.raises(RetrievalError):
            Http(server.url).search(["a"], 1)
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


DEEP = b"[" * 100_000


class TestOtherAnswers:
    @pytest.mark.parametrize(
        ("content", "told"),
        [
            (b"", "not JSON"),
            (b"<html>welcome</html>", "not JSON, b'<html>welcome"),
            (b"\xff\xfe\xff", "not JSON"),
            (DEEP, "not JSON"),
            ([], "no lists"),
            ({}, "no lists"),
            ({"results": [[]]}, "no lists"),
            ({"result": None}, "no lists"),
            ({"result": {"0": []}}, "no lists"),
            ({"result": [None]}, "no lists"),
            ({"result": []}, "0 lists of passages for 1 queries"),
            ({"result": [[], []]}, "2 lists of passages for 1 queries"),
            ({"result": [[None]]}, "passage"),
            ({"result": [[{"id": "1"}]]}, "passage"),
            ({"result": [[{"document": None, "score": 1.0}]]}, "passage"),
            (
                {"result": [[{"document": "a", "score": "high"}]]},
                "must be a number, got 'high'",
            ),
            (
                {"result": [[{"document": "a", "score": True}]]},
                "must be a number, got True",
            ),
            ({"result": [[{"document": "a", "score": 10**400}]]}, "too large"),
        ],
    )
    def test_they_raise(self, content, told, waits):
        with Stub(lambda handler, asked: say(handler, content)) as server:
            with pytest.raises(
                RetrievalError, match=rf"gave no answer to a search: .*{told}"
            ) as error:
                Http(server.url).search(["a"], 1)
            assert server.url in str(error.value)
            assert len(server.asked) == 1
        assert not waits


class TestConnections:
    def test_one_is_used_again(self):
        with Stub(search_r1) as server:
            one = Http(server.url)
            assert [one.search([q], 1) for q in "abc"] == [[found(q, 1)] for q in "abc"]
            assert len(server.connections) == 1

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
    def test_a_copy_asks_too(self, copied):
        with Stub(search_r1) as server:
            one = Http(server.url, timeout=7.0, retries=5, outage=9.0)
            one.search(["a"], 1)
            other = copied(one)
            assert other.search(["b"], 1) == [found("b", 1)]
            assert one.search(["c"], 1) == [found("c", 1)]
            assert len(server.connections) == 1
        assert (
            repr(other)
            == repr(one)
            == f"Http({one.url!r}, api='queries', timeout=7.0, retries=5, outage=9.0)"
        )

    @pytest.mark.slow
    def test_a_forked_process_has_connections_of_its_own(self):
        with Stub(search_r1) as server:
            one = Http(server.url)
            one.search(["a"], 1)
            with multiprocessing.get_context("fork").Pool(1) as pool:
                assert pool.apply(one.search, (["b"], 1)) == [found("b", 1)]
            assert one.search(["c"], 1) == [found("c", 1)]
            assert len(server.connections) == 2

    def test_threads_may_share_a_client(self, stub):
        one, results = Http(stub.url), {}

        def search(i):
            results[i] = one.search([f"q{i}"], 2)

        threads = [threading.Thread(target=search, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {i: [found(f"q{i}", 2)] for i in range(16)}

    def test_no_proxy_is_asked_for_this_machine(self, stub, monkeypatch):
        web.close()
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        assert Http(stub.url, retries=0, outage=0).search(["a"], 1) == [found("a", 1)]
        web.close()

    def test_it_is_a_retriever(self, stub):
        assert isinstance(Http(stub.url), Retriever)


TEXT = st.text(st.characters(codec=None))  # with lone surrogates
LINE = TEXT.map(lambda text: text.replace("\n", " "))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "title", "text", "contents", "document", "score"]), inner
        )
    ),
    max_leaves=8,
)


class TestDocuments:
    @given(st.builds(Passage, TEXT, LINE, TEXT, st.floats(allow_nan=False)), st.booleans())
    def test_contents(self, known, bare):
        if known.title[:1] == '"' == known.title[-1:]:
            known = known._replace(quoted=True)  # or its own quotes would be taken for those
        document = {"id": known.id, "contents": f"{known.heading}\n{known.text}"}
        if bare:
            assert read_passage(document) == known._replace(score=0.0)
        else:
            assert read_passage({"document": document, "score": known.score}) == known

    @given(st.builds(Passage, TEXT, TEXT, TEXT, st.floats(allow_nan=False)))
    def test_title_and_text_are_taken_as_they_are(self, known):
        document = {"id": known.id, "title": known.title, "text": known.text}
        for contents in ({}, {"contents": f"{known.heading}\n{known.text}"}):
            one = read_passage({"document": document | contents, "score": known.score})
            assert one[:4] == known[:4]
            assert one.quoted or not known.quoted

    @pytest.mark.parametrize(
        ("document", "title", "text", "heading"),
        [
            ({"contents": '"Paris"\nA city.\nOld.'}, "Paris", "A city.\nOld.", '"Paris"'),
            ({"contents": "Paris\nA city."}, "Paris", "A city.", "Paris"),
            (
                {"contents": '""Heroes" (song)"\nBy Bowie.'},
                '"Heroes" (song)',
                "By Bowie.",
                '""Heroes" (song)"',
            ),
            ({"contents": '"Heroes" (song)\nB.'}, '"Heroes" (song)', "B.", '"Heroes" (song)'),
            ({"title": "Paris", "text": "A city."}, "Paris", "A city.", '"Paris"'),
            ({"title": '"Heroes"', "text": "A song."}, '"Heroes"', "A song.", '""Heroes""'),
            (
                {"title": "Paris", "text": "A city.", "contents": "Paris\nA city."},
                "Paris",
                "A city.",
                "Paris",
            ),
            ({"text": "A city."}, "", "A city.", '""'),
            ('"Paris"\nA city.', "Paris", "A city.", '"Paris"'),
            ("Paris\nA city.", "Paris", "A city.", "Paris"),
        ],
    )
    @pytest.mark.parametrize("wrap", [lambda d: d, lambda d: {"document": d, "score": 2}])
    def test_shapes(self, document, title, text, heading, wrap):
        one = read_passage(wrap(document))
        assert (one.title, one.text, one.heading) == (title, text, heading)
        assert one.score in {0.0, 2.0}

    def test_one_without_an_id_gets_its_own(self):
        ids = [read_passage({"text": text}).id for text in ("a", "b", "a")]
        assert ids[0] == ids[2] != ids[1]
        assert all(ids)
        assert read_passage({"title": "t", "text": "a"}).id not in ids

    def test_an_id_that_is_a_number(self):
        assert read_passage({"id": 0, "text": "a"}).id == "0"

    @given(JSON)
    def test_anything_else_raises_an_error_of_shape(self, item):
        kinds = [str, str, str, float, bool]
        with suppress(TypeError, ValueError, OverflowError):
            kinds = list(map(type, read_passage(json.loads(json.dumps(item)))))
        assert kinds == [str, str, str, float, bool]
