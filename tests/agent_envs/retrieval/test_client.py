"""The client against small servers of either API, and against servers that misbehave."""

import copy
import json
import pickle
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.net import web
from agent_envs.retrieval.client import Http, RetrievalError, read_passage
from agent_envs.retrieval.passages import Passage
from tests.agent_envs import chat_server as chat

pytest.importorskip("httpx2", reason="no httpx2; pip install 'agent-envs[search]'")


@contextmanager
def serving(act, *first):
    """A server and its address; `first` answer a request each, then `act` does."""
    with chat.ChatServer(act) as server:
        server.script = list(first)
        yield server, server.url.replace("/v1", "/retrieve")


def found(query, k):
    """What the servers here find: passages numbered 0, 1, ... of the query's own words."""
    return [Passage(f"{query}-{i}", f'The "{query}"', f"text {i}", 1 / (i + 1)) for i in range(k)]


def documents(query, k):
    """The same as the reference's servers say it: contents only."""
    return [
        {"document": {"id": p.id, "contents": f'"{p.title}"\n{p.text}'}, "score": p.score}
        for p in found(query, k)
    ]


def search_r1(handler):
    """Search-R1's server, with its fault: without scores it fails."""
    fields = handler.body
    if not isinstance(fields.get("queries"), list):
        chat.fails(422, "Field required")(handler)
    elif not fields.get("return_scores"):
        chat.fails(500)(handler)
    else:
        handler.say({"result": [documents(query, fields["topk"]) for query in fields["queries"]]})


def verl_agent(handler):
    """verl-agent's server: one query a request."""
    if not isinstance(handler.body.get("query"), str):
        chat.fails(422, "Field required")(handler)
    else:
        handler.say({"result": [documents(handler.body["query"], handler.body["topk"])]})


@pytest.fixture
def waits(monkeypatch):
    """Seconds that the client would have waited."""
    waited = []
    monkeypatch.setattr(web, "sleep", waited.append)
    return waited


def test_all_queries_go_in_one_request_or_each_alone():
    for api in ("auto", "queries"):
        with serving(search_r1) as (server, url):
            assert Http(url, api=api).search(["a", "b"], 2) == [found("a", 2), found("b", 2)]
            assert server.asked == [{"queries": ["a", "b"], "topk": 2, "return_scores": True}]
    with serving(verl_agent) as (server, url):
        one = Http(url)
        assert one.search(["a", "b"], 1) == [found("a", 1), found("b", 1)]
        assert copy.deepcopy(one).search(["c"], 1) == one.search(["c"], 1) == [found("c", 1)]
        assert ["queries" in fields for fields in server.asked] == [True] + 4 * [False]
        assert server.asked[1] == {"query": "a", "topk": 1, "return_scores": True}


def test_results_of_any_number():
    with serving(chat.raw({"result": [[], documents("b", 5)]})) as (server, url):
        one = Http(url.removesuffix("/retrieve"))
        assert one.search(["a", "b"], 3) == [[], found("b", 3)]
        assert one.search([], 3) == []
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("fault", "times", "least", "most"),
    [
        (chat.cuts, 3, 0.25, 2),
        (chat.gibberish, 1, 0.25, 0.5),
        (chat.fails(429), 1, 0.25, 0.5),
        (chat.fails(500), 1, 0.25, 0.5),
        (chat.fails(503), 3, 0.25, 2),
        (chat.fails(503, Retry_After="7"), 1, 7, 7),
    ],
)
def test_a_passing_fault_is_retried(fault, times, least, most, waits):
    with serving(search_r1, *[fault] * times) as (server, url):
        assert Http(url).search(["a"], 1) == [found("a", 1)]
        assert len(server.asked) == times + 1
    assert len(waits) == times
    assert all(least <= wait <= most for wait in waits)


@pytest.mark.parametrize(
    ("fault", "api", "message", "tries"),
    [
        (verl_agent, "queries", "in 1 try: HTTP 422, .*Field required", 1),
        (search_r1, "query", "in 1 try: HTTP 422, .*Field required", 1),
        (chat.fails(204), "auto", "in 1 try: HTTP 204", 1),
        (chat.fails(301, Location="/elsewhere"), "auto", "in 1 try: HTTP 301", 1),
        (chat.fails(404), "auto", "in 1 try: HTTP 404", 1),
        (chat.fails(500, "bad"), "auto", r"in 3 tries and \d s of waiting: HTTP 500, .*bad", 3),
        (chat.hangs, "auto", r"in 3 tries and \d s of waiting: .*timed out", 3),
    ],
)
def test_a_lasting_fault_raises(fault, api, message, tries, waits):
    with serving(fault) as (server, url):
        one = Http(url, api=api, timeout=0.3, retries=2, outage=0)
        with pytest.raises(RetrievalError, match=rf"{url}.* {message}") as caught:
            one.search(["a"], 1)
        assert len(server.asked) == tries
    assert pickle.loads(pickle.dumps(caught.value)).status == caught.value.status
    assert len(waits) == tries - 1


def test_an_outage_is_waited_for(waits, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/retrieve"
    with pytest.raises(RetrievalError, match=rf"{url} .* in \d+ tries and \d+ s .*refused"):
        Http(url).search(["a"], 1)
    assert 60 <= sum(waits) < 100
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "waiting up to 60 s" in caplog.text


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
        ({"result": [[{"id": "1"}]]}, "passage"),
        ({"result": [[{"document": None, "score": 1.0}]]}, "passage"),
        ({"result": [[{"document": "a", "score": "high"}]]}, "must be a number, got 'high'"),
        ({"result": [[{"document": "a", "score": 10**400}]]}, "too large"),
    ],
)
def test_invalid_answers(content, message, waits):
    with serving(chat.raw(content)) as (server, url):
        with pytest.raises(RetrievalError, match=rf"{url} gave no valid .*{message}"):
            Http(url).search(["a"], 1)
        assert len(server.asked) == 1
    assert not waits


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("localhost:8000", {}, "url must be like 'http://127.0.0.1:8000"),
        ("ftp://127.0.0.1/", {}, "url must be like"),
        ("http://", {}, "url must be like"),
        ("http://localhost", {"api": "querys"}, "unknown api 'querys', did you mean 'query'"),
        ("http://localhost", {}, r"pip install 'agent-envs\[search\]'"),
    ],
)
def test_refusals(url, options, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises((ValueError, ImportError), match=message):
        Http(url, **options)


def test_threads_and_copies_share_connections():
    with serving(search_r1) as (server, url):
        one = Http(url)
        for each in (one, one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert each.search(["a"], 1) == [found("a", 1)]
        assert len(server.connections) == 1
        with ThreadPoolExecutor(16) as pool:
            results = list(pool.map(lambda i: one.search([f"q{i}"], 2), range(16)))
    assert results == [[found(f"q{i}", 2)] for i in range(16)]


TEXT = st.text(st.characters(codec=None))  # with lone surrogates
LINE = TEXT.map(lambda text: text.replace("\n", " "))
NAMES = st.sampled_from(["id", "title", "text", "contents", "document", "score"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
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


def test_ids_of_documents_without_one():
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
