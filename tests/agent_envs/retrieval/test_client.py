"""The client against small servers of either API, and against servers that misbehave."""

from __future__ import annotations

import copy
import json
import pickle
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import web
from agent_envs.retrieval.client import Http, RetrievalError, read_passage
from agent_envs.retrieval.passages import Passage

pytest.importorskip("httpx2", reason="no httpx2; pip install 'agent-envs[search]'")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        fields = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(fields)
        self.server.answer(self, fields)

    def log_message(self, *_):
        pass


class Stub(ThreadingHTTPServer):
    """A server that does with each request what `answer(handler, fields)` does."""

    daemon_threads = False

    def __init__(self, answer):
        self.answer, self.asked, self.connections = answer, [], []
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
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
    for name, value in {**headers, "Content-Length": str(len(data))}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def found(query, k):
    """What the servers here find: passages numbered 0, 1, ... of the query's own words."""
    return [Passage(f"{query}-{i}", f'The "{query}"', f"text {i}", 1 / (i + 1)) for i in range(k)]


def documents(query, k):
    """The same as the reference's servers say it: contents only."""
    return [
        {"document": {"id": p.id, "contents": f'"{p.title}"\n{p.text}'}, "score": p.score}
        for p in found(query, k)
    ]


def search_r1(handler, fields):
    """Search-R1's server, with its fault: without scores it fails."""
    if not isinstance(fields.get("queries"), list):
        say(handler, {"detail": [{"loc": ["body", "queries"], "msg": "Field required"}]}, 422)
    elif not fields.get("return_scores"):
        say(handler, b"Internal Server Error", 500)
    else:
        say(handler, {"result": [documents(query, fields["topk"]) for query in fields["queries"]]})


def verl_agent(handler, fields):
    """verl-agent's server: one query a request."""
    if not isinstance(fields.get("query"), str):
        say(handler, {"detail": [{"loc": ["body", "query"], "msg": "Field required"}]}, 422)
    else:
        say(handler, {"result": [documents(fields["query"], fields["topk"])]})


def fail_first(fault, times=1):
    """A server that has a fault some times and is well from then on."""

    def answer(handler, fields):
        (fault if len(handler.server.asked) <= times else search_r1)(handler, fields)

    return answer


def leave_midway(handler, _):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"result": [[')
    handler.close_connection = True


def babble(handler, _):
    handler.wfile.write(b"this is no HTTP\r\n\r\n")
    handler.close_connection = True


def hang(handler, _):
    handler.server.closing.wait()
    handler.close_connection = True


def with_status(status, **headers):
    return lambda handler, _: say(handler, {"detail": "not now"}, status, **headers)


@pytest.fixture
def waits(monkeypatch):
    """Seconds that the client would have waited."""
    waited = []
    monkeypatch.setattr(web, "sleep", waited.append)
    return waited


# the two APIs


def test_all_queries_go_in_one_request_or_each_alone():
    for api in ("auto", "queries"):
        with Stub(search_r1) as server:
            assert Http(server.url, api=api).search(["a", "b"], 2) == [found("a", 2), found("b", 2)]
            assert server.asked == [{"queries": ["a", "b"], "topk": 2, "return_scores": True}]
    with Stub(verl_agent) as server:
        one = Http(server.url)
        assert one.search(["a", "b"], 1) == [found("a", 1), found("b", 1)]
        assert copy.deepcopy(one).search(["c"], 1) == one.search(["c"], 1) == [found("c", 1)]
        assert ["queries" in fields for fields in server.asked] == [True] + 4 * [False]
        assert server.asked[1] == {"query": "a", "topk": 1, "return_scores": True}


@pytest.mark.parametrize(("api", "answer"), [("queries", verl_agent), ("query", search_r1)])
def test_the_wrong_api_raises(api, answer, waits):
    with Stub(answer) as server:
        with pytest.raises(RetrievalError, match=r"in 1 try: HTTP 422, .*Field required") as caught:
            Http(server.url, api=api).search(["a"], 1)
        assert server.url in str(caught.value)
        assert len(server.asked) == 1
    assert (caught.value.status, pickle.loads(pickle.dumps(caught.value)).status) == (422, 422)
    assert not waits


def test_results_of_any_number():
    with Stub(lambda handler, _: say(handler, {"result": [[], documents("b", 5)]})) as server:
        one = Http(server.url.removesuffix("/retrieve"))
        assert one.search(["a", "b"], 3) == [[], found("b", 3)]
        assert one.search([], 3) == []
        assert len(server.asked) == 1


# faults


@pytest.mark.parametrize(
    ("fault", "times"),
    [
        (leave_midway, 3),
        (babble, 1),
        (with_status(429), 1),
        (with_status(500), 1),
        (with_status(503), 3),
    ],
)
def test_a_passing_fault_is_retried(fault, times, waits):
    with Stub(fail_first(fault, times)) as server:
        assert Http(server.url).search(["a"], 1) == [found("a", 1)]
        assert len(server.asked) == times + 1
    assert len(waits) == times


@pytest.mark.parametrize(
    ("fault", "message", "tries"),
    [
        (with_status(204), "in 1 try: HTTP 204", 1),
        (with_status(301, Location="/elsewhere"), "in 1 try: HTTP 301", 1),
        (with_status(404), "in 1 try: HTTP 404", 1),
        (with_status(500), r"in 3 tries and \d s of waiting: HTTP 500, .*not now", 3),
        (hang, r"in 3 tries and \d s of waiting: .*timed out", 3),
    ],
)
def test_a_lasting_fault_raises(fault, message, tries, waits):
    with Stub(fault) as server:
        with pytest.raises(RetrievalError, match=rf"{server.url}.* {message}"):
            Http(server.url, timeout=0.3, retries=2, outage=0).search(["a"], 1)
        assert len(server.asked) == tries
    assert len(waits) == tries - 1


def test_an_outage_is_waited_for(waits, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/retrieve"
    with pytest.raises(RetrievalError, match=rf"{url} .* in \d+ tries and \d+ s .*refused"):
        Http(url).search(["a"], 1)
    assert 60 <= sum(waits) < 100
    longest = [min(0.5 * 2**i, 30.0) for i in range(len(waits))]  # doubled up to the longest
    assert all(half / 2 <= wait <= half for half, wait in zip(longest, waits, strict=True))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "waiting up to 60 s" in caplog.text


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [("7", 7.0, 7.0), ("999999", 30.0, 30.0), ("soon", 0.25, 0.5), ("-5", 0.25, 0.5)],
)
def test_a_server_may_ask_for_a_longer_wait(header, least, most, waits):
    with Stub(fail_first(with_status(503, Retry_After=header))) as server:
        Http(server.url).search(["a"], 1)
    assert least <= waits[0] <= most


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>welcome</html>", "in b'<html>welcome"),
        (b"\xff\xfe\xff", "codec"),
        (b"[" * 100_000, "recursion"),
        ([], "no lists"),
        ({"result": {"0": []}}, "no lists"),
        ({"result": [None]}, "no lists"),
        ({"result": []}, "0 lists of passages for 1 queries"),
        ({"result": [[], []]}, "2 lists of passages for 1 queries"),
        ({"result": [[None]]}, "passage"),
        ({"result": [[{"id": "1"}]]}, "passage"),
        ({"result": [[{"document": None, "score": 1.0}]]}, "passage"),
        ({"result": [[{"document": "a", "score": "high"}]]}, "must be a number, got 'high'"),
        ({"result": [[{"document": "a", "score": 10**400}]]}, "too large"),
    ],
)
def test_invalid_answers(content, message, waits):
    with Stub(lambda handler, _: say(handler, content)) as server:
        with pytest.raises(RetrievalError, match=rf"{server.url} gave no valid .*{message}"):
            Http(server.url).search(["a"], 1)
        assert len(server.asked) == 1
    assert not waits


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("localhost:8000", {}, "url must be like 'http://127.0.0.1:8000"),
        ("ftp://127.0.0.1/", {}, "url must be like"),
        ("http://", {}, "url must be like"),
        ("http://localhost", {"api": "querys"}, "unknown api 'querys', did you mean 'query'"),
    ],
)
def test_refusals(url, options, message, monkeypatch):
    with pytest.raises(ValueError, match=message):
        Http(url, **options)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=r"pip install 'agent-envs\[search\]'"):
        Http("http://localhost")


# connections


def test_threads_and_copies_share_connections():
    with Stub(search_r1) as server:
        one = Http(server.url)
        for each in (one, one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert each.search(["a"], 1) == [found("a", 1)]
        assert len(server.connections) == 1
        with ThreadPoolExecutor(16) as pool:
            results = list(pool.map(lambda i: one.search([f"q{i}"], 2), range(16)))
    assert results == [[found(f"q{i}", 2)] for i in range(16)]


# documents

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


@given(st.builds(Passage, TEXT, LINE, TEXT, st.floats(allow_nan=False)))
def test_a_document_has_contents_or_title_and_text(known):
    document = {"id": known.id, "title": known.title, "text": known.text}
    contents = {"contents": f"{known.heading}\n{known.text}"}
    for fields in (document, document | contents):
        assert read_passage({"document": fields, "score": known.score})[:4] == known[:4]
    if known.title[:1] == '"' == known.title[-1:]:
        known = known._replace(quoted=True)  # or its own quotes would be taken for those
        contents = {"contents": f"{known.heading}\n{known.text}"}
    assert read_passage({"id": known.id, **contents}) == known._replace(score=0.0)


@pytest.mark.parametrize(
    ("document", "title", "text", "heading"),
    [
        ({"contents": '"Paris"\nA city.\nOld.'}, "Paris", "A city.\nOld.", '"Paris"'),
        ({"contents": "Paris\nA city."}, "Paris", "A city.", "Paris"),
        ({"contents": '""Heroes" (song)"\nB.'}, '"Heroes" (song)', "B.", '""Heroes" (song)"'),
        ({"contents": '"Heroes" (song)\nB.'}, '"Heroes" (song)', "B.", '"Heroes" (song)'),
        ({"title": '"Heroes"', "text": "A song."}, '"Heroes"', "A song.", '""Heroes""'),
        ({"title": "P", "text": "A city.", "contents": "P\nA city."}, "P", "A city.", "P"),
        ({"text": "A city."}, "", "A city.", '""'),
        ('"Paris"\nA city.', "Paris", "A city.", '"Paris"'),
    ],
)
def test_forms_of_a_document(document, title, text, heading):
    for item in (document, {"document": document, "score": 2}):
        one = read_passage(item)
        assert (one.title, one.text, one.heading) == (title, text, heading)
        assert one.score in {0.0, 2.0}


def test_ids():
    ids = [read_passage({"text": text}).id for text in ("a", "b", "a")]
    assert ids[0] == ids[2] != ids[1]
    assert read_passage({"title": "t", "text": "a"}).id not in ids
    assert read_passage({"id": 0, "text": "a"}).id == "0"


@given(JSON)
def test_other_items_raise_an_error_of_form(item):
    kinds = [str, str, str, float, bool]
    with suppress(TypeError, ValueError, OverflowError):
        kinds = list(map(type, read_passage(json.loads(json.dumps(item)))))
    assert kinds == [str, str, str, float, bool]
