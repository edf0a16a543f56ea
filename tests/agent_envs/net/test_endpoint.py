"""Endpoints against a server on loopback that misbehaves in every known way."""

import json
import logging
import math
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import pytest

from agent_envs.net import web
from agent_envs.net.endpoint import (
    Endpoint,
    EndpointError,
    Usage,
    open_endpoint,
    read_number,
    read_usage,
)
from tests.agent_envs import chat_server as chat
from tests.agent_envs.chat_server import ChatServer, says

KEY = "sk-very-secret-0123456789"
HELLO = [{"role": "user", "content": "Hello?"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """No key, brief pauses, and a process that has asked nothing yet."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("agent_envs.net.web.BACKOFF", 0.01)
    web.close()
    yield
    web.close()


@pytest.fixture
def server():
    with ChatServer(says("hello")) as made:
        yield made


@pytest.fixture
def endpoint(server):
    return Endpoint("stub", server.url, timeout=10.0, retries=2, outage=0.0)


def ask(endpoint, about="a talk"):
    return endpoint.ask(HELLO, about=about)


def read(answer):
    if not isinstance(answer, dict) or "a" not in answer:
        raise ValueError("there is no a")
    return read_number(answer["a"])


def ask_json(endpoint, messages=HELLO, schema=SCHEMA):
    return endpoint.ask_json(messages, schema=schema, read=read, about="a talk")


def test_an_answer_is_asked_for_and_counted(server, endpoint):
    assert ask(endpoint) == "hello"
    assert server.asked == [{"model": "stub", "messages": HELLO, "temperature": 0.0}]
    assert endpoint.usage == read_usage() == Usage(1, 30, 4, 0.0)
    priced = replace(endpoint, prompt_price=2.0, completion_price=8.0, max_tokens=7)
    assert ask(replace(priced, temperature=-1.0)) == ask(priced) == "hello"
    assert server.asked[1:] == [
        {"model": "stub", "messages": HELLO, "max_tokens": 7},
        {"model": "stub", "messages": HELLO, "max_tokens": 7, "temperature": 0.0},
    ]
    assert priced.usage.cost == pytest.approx((30 * 2 + 4 * 8) / 1e6)
    assert (read_usage().requests, read_usage().tokens) == (3, 3 * 34)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": " as it is\n"}, " as it is\n"),
        ({"content": "yes", "reasoning_content": "no"}, "yes"),
        ({"content": [{"type": "thinking", "text": "no"}, {"type": "text", "text": "yes"}]}, "yes"),
        ({"content": "<think>so</think>yes"}, "<think>so</think>yes"),
        ({"content": "\ud83d\ude00 \ud800"}, "\U0001f600 \ud800"),
    ],
)
def test_an_answer_is_the_content_of_the_message(server, endpoint, message, text):
    server.act = says(**message)
    assert ask(endpoint) == text


JSON = [
    '{"a": 1}',
    ' \n{"a": 1}\n ',
    '```json\n{"a": 1}\n```',
    '```\n{"a": 1}\n```',
    'Sure! Here it is:\n```json\n{\n  "a": 1\n}\n```\nDo ask again.',
    'The answer is {"a": 1}.',
    'In set notation {x}: {"a": 1}',
    'First {"a": 7}, on reflection {"a": 1}',
    '<think>perhaps {"a": 5}?</think>{"a": 1}',
    '<think>perhaps {"a": 5}?</think>\n\n```json\n{"a": 1}\n```',
    'perhaps {"a": 5}?</think>{"a": 1}',
    '{"a": 1, "b": "</think>"}',
    '{"a": "1"}',
    '{"a": " 1.0 "}',
    '{"a": 1e0}',
]
NO_JSON = [
    "no", "{", '{"a": }', '<think>{"a": 1}', '<think>{"a": 1}</think>', "[]", "[1]", "null", '"a"',
    '{"b": 1}', '{"a": "one"}', '{"a": true}', '{"a": NaN}', '{"a": 1e999}', '{"a": null}',
    '{"a": [1]}', '{"a": ' + "1" * 5000 + "}", '{"a": ' + "1" * 400 + "}", "[" * 100_000,
    "{" * 100_000, '{"' * 100_000, '<think>hm</think>{"a": 1, "b": "</think>{\\"a\\": 3}"}',
    '{"a": 1}</think>', '{"a": 1, "a": 2}',
]  # fmt: skip


@pytest.mark.parametrize("content", [*JSON, *NO_JSON], ids=lambda text: text[:12])
def test_json_is_found_in_what_models_write_or_asked_for_again(server, endpoint, content):
    server.act, server.script = says('{"a": 1}'), [says(content)]
    assert ask_json(endpoint) == 1
    assert len(server.asked) == (1 if content in JSON else 2)
    if content in JSON:
        return
    schema = f"Answer with one JSON value of this schema and nothing else:\n{json.dumps(SCHEMA)}"
    said = [asked["messages"][-1]["content"] for asked in server.asked]
    assert said == ["Hello?", f"Hello?\n\n{schema}"]
    server.script = [says(content)] * 3
    with pytest.raises(EndpointError, match="gave no answer on a talk in 3 tries: ") as error:
        ask_json(endpoint)
    assert len(str(error.value)) < 800


def knows(*forms):
    """A server that refuses other forms of the answer, and answers what it was not told badly."""

    def act(handler):
        form = handler.body.get("response_format", {"type": "text"})["type"]
        if form in forms:
            handler.say(chat.completion('{"a": 1}'))
        else:
            status = 400 if form == "json_schema" else 422
            handler.say({"error": f"{form} is not supported"}, status)

    return act


@pytest.mark.parametrize(
    ("forms", "first"),
    [
        (("json_schema", "json_object", "text"), ["json_schema"]),
        (("json_object", "text"), ["json_schema", "json_object"]),
        (("text",), ["json_schema", "json_object", "text"]),
    ],
)
def test_a_server_without_schemas_is_told_the_schema(server, endpoint, forms, first, caplog):
    server.act = knows(*forms)
    assert ask_json(endpoint) == ask_json(endpoint) == 1
    asked = [one.get("response_format", {"type": "text"}) for one in server.asked]
    assert [one["type"] for one in asked] == [*first, first[-1]]
    assert asked[0]["json_schema"]["schema"] == SCHEMA
    told = [json.dumps(SCHEMA) in one["messages"][-1]["content"] for one in server.asked]
    assert told == [one["type"] != "json_schema" for one in asked]
    assert len(caplog.records) == (len(first) > 1)
    assert ask(endpoint) == '{"a": 1}' if "text" in forms else True


SHORT = 0.4
DOWN = {
    "408": chat.fails(408), "409": chat.fails(409), "425": chat.fails(425), "429": chat.fails(429),
    "500": chat.fails(500), "503": chat.fails(503), "599": chat.fails(599),
    "resets": chat.resets, "cuts": chat.cuts, "gibberish": chat.gibberish,
    "endless header": chat.endless_header,
}  # fmt: skip
SLOW = {
    "hangs": chat.hangs, "drips headers": chat.drips_headers, "drips a body": chat.drips_body,
    "drips chunks": chat.drips_chunks,
}  # fmt: skip
WRONG = {
    "html": chat.raw(b"<html>"), "empty": chat.raw(b""), "binary": chat.raw(b"\xff\xfe\x00"),
    "list": chat.raw(b"[]"), "no choices": chat.raw(b'{"choices": []}'), "null": says(None),
    "blank": says(" \n"), "number": says(3), "odd": chat.raw(b'{"choices": [{"message": 1}]}'),
    "deep": chat.raw(b"[" * 200_000), "floods": chat.floods(), "bomb": chat.bomb(),
    "brotli": lambda handler: handler.say(b"x", Content_Encoding="br"),
    "no gzip": lambda handler: handler.say(b"x" * 50, Content_Encoding="gzip"),
}  # fmt: skip
REFUSED = (204, 307, 400, 401, 403, 404)


@pytest.mark.parametrize(
    "fault", [*DOWN, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW), *WRONG]
)
def test_a_passing_fault_is_tried_again_and_a_lasting_one_says_what_to_do(server, endpoint, fault):
    endpoint = replace(endpoint, timeout=SHORT) if fault in SLOW else endpoint
    server.script = [(DOWN | SLOW | WRONG)[fault]]
    assert ask(endpoint) == "hello"
    answered = fault in WRONG or fault.isdecimal()
    assert (len(server.asked), endpoint.usage.requests) == (2, 1 + answered)
    server.act = (DOWN | SLOW | WRONG)[fault]
    said = f"stub at {server.url} gave no answer on a talk in 2 tries"
    with pytest.raises(EndpointError, match=said) as told:
        ask(replace(endpoint, retries=1))
    keeps = "raise retries, or use a model that follows the schema"
    says = keeps if fault in WRONG else "check that the server runs, or raise outage"
    assert str(told.value).endswith(f"; {says}")
    assert len(server.asked) == 4
    assert not server.finished


@pytest.mark.parametrize("status", [*REFUSED, 301, 302, 303, 308])
def test_a_refusal_is_not_tried_again_and_a_redirect_not_followed(
    server, endpoint, monkeypatch, status
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer(says("stolen")) as other:
        server.act = chat.fails(status, Location=f"{other.url}/{KEY}")
        match = f"in 1 try: HTTP {status}.*; check (the key|url)"
        with pytest.raises(EndpointError, match=match) as told:
            ask(endpoint)
        assert ("which is not followed" in str(told.value)) == (other.url in str(told.value))
        assert (other.url in str(told.value)) == (300 <= status < 400)
        assert KEY not in str(told.value)
        assert (len(server.asked), other.asked) == (1, [])


@pytest.mark.parametrize("act", [chat.bomb(), chat.bomb(500), chat.floods(), chat.floods(500)])
def test_no_more_is_held_than_an_answer_may_have(server, endpoint, act):
    ask(endpoint)
    server.act = act
    tracemalloc.start()
    try:
        with pytest.raises(EndpointError, match="the answer has more than 1,048,576 bytes"):
            ask(replace(endpoint, retries=0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_server_says_when_to_come_again(server, endpoint, caplog):
    """But no server asks for more patience than there is."""
    server.script, began = [chat.fails(429, Retry_After="0.7")], time.monotonic()
    ask(endpoint)
    assert time.monotonic() - began >= 0.7
    server.act = chat.fails(429, Retry_After="3600")
    waited = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "agent_envs.net.endpoint.choose_delay", lambda _, asked: waited.append(asked) or 0
        )
        with pytest.raises(EndpointError, match="HTTP 429"):
            ask(replace(endpoint, retries=1, outage=0.0))
        server.script, server.act = [chat.fails(503, Retry_After="6")], says("hello")
        assert ask(replace(endpoint, outage=60.0)) == "hello"
    assert waited == [5, 6]
    assert "requests a wait of 6 s" in caplog.text


def test_an_outage_is_waited_out_and_logged_once(server, endpoint, caplog):
    patient = replace(endpoint, retries=1, outage=30.0)
    server.script = [chat.fails(503)] * 20
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, [patient] * 4)) == ["hello"] * 4
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith(f"stub at {server.url}: HTTP 503, ")
    assert lines[0].endswith("waiting up to 30 s")
    assert "answers again after" in lines[1]
    assert patient.usage.requests == 24


def test_an_interrupt_is_heard_at_once(server, endpoint):
    def interrupt(handler):
        os.kill(os.getpid(), signal.SIGINT)
        chat.hangs(handler)

    server.act = interrupt
    with pytest.raises(KeyboardInterrupt):
        ask(endpoint)
    assert (len(server.asked), server.finished) == (1, [])  # it waited for no time limit
    server.act = says("hello")
    assert ask(endpoint) == "hello"


def test_budgets(server, endpoint):
    for option, most, allowed in (
        ("budget_requests", 2, 2),
        ("budget_tokens", 35, 2),
        ("budget_cost", 40.0, 2),
    ):
        limited = replace(endpoint, **{option: most}, prompt_price=1e6)
        for _ in range(allowed):
            ask(limited)
        with pytest.raises(EndpointError, match=f"the budget is used up, .* of {option}=") as told:
            ask(limited, about="the last talk")
        assert "on the last talk" in str(told.value)
    assert len(server.asked) == 6
    server.act = chat.waits(0.2)
    limited = replace(endpoint, budget_requests=3)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, limited) for _ in range(8)]
    assert sum(one.exception() is None for one in asked) == 3


def test_a_budget_of_tokens_needs_a_server_that_counts(server, endpoint):
    body = chat.completion("hello")
    for usage in (None, [], {}, {"prompt_tokens": "3", "completion_tokens": 1}):
        server.act = chat.raw(json.dumps({**body, "usage": usage}).encode())
        assert ask(endpoint) == "hello"
        with pytest.raises(EndpointError, match="set budget_requests instead"):
            ask(replace(endpoint, budget_tokens=10))


def test_the_key_goes_to_the_server_and_nowhere_else(
    server, endpoint, monkeypatch, caplog, tmp_path
):
    ask(endpoint)
    assert "Authorization" not in server.headers.pop()
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")  # as $(cat key) has it
    caplog.set_level(logging.DEBUG, "agent_envs")
    endpoint = replace(endpoint, key="MY_KEY", cache=str(tmp_path))
    seen = [repr(endpoint), str(endpoint), str(vars(endpoint)), pickle.dumps(endpoint).decode("l1")]

    def tells(status):
        return lambda handler: handler.say({"error": handler.headers["Authorization"]}, status)

    server.script = [tells(503), tells(401)]
    with pytest.raises(EndpointError, match=r"check the key in \$MY_KEY") as error:
        ask(replace(endpoint, outage=2.0, retries=0))
    ask(endpoint)
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    seen += [str(error.value), caplog.text, *(file.read_text() for file in tmp_path.iterdir())]
    assert "Bearer ***" in caplog.text
    assert not [text for text in seen if KEY in text]
    for odd in ("sk-\u00e4", "a\nb", "\x7f"):
        monkeypatch.setenv("MY_KEY", odd)
        with pytest.raises(EndpointError, match=r"the key in \$MY_KEY has characters"):
            ask(replace(endpoint, cache=""))


@pytest.mark.parametrize("status", [200, 400, 503])
def test_a_message_that_is_cut_has_no_part_of_the_key(server, endpoint, monkeypatch, status):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for length in range(0, 320, 9):
        text = "." * length + KEY
        server.act = says(json.dumps({"a": text})) if status == 200 else chat.fails(status, text)
        with pytest.raises(EndpointError) as error:
            ask_json(replace(endpoint, retries=0))
        assert KEY[:6] not in str(error.value)


def test_the_cache_keeps_apart_all_that_changes_an_answer_and_nothing_else(
    server, endpoint, tmp_path
):
    server.act, folder = says('{"a": 1}'), tmp_path / "new" / "folder"
    kept = replace(endpoint, cache=str(folder))
    with ChatServer(says('{"a": 2}')) as other:
        calls = [
            lambda: ask(kept),
            lambda: ask(replace(kept, model="other")),
            lambda: ask(replace(kept, url=other.url)),
            lambda: ask(replace(kept, temperature=0.5)),
            lambda: ask(replace(kept, max_tokens=9)),
            lambda: kept.ask([*HELLO, *HELLO], about=""),
            lambda: ask_json(kept),
            lambda: ask_json(kept, schema={**SCHEMA, "title": "other"}),
        ]
        for count, call in enumerate(calls, 1):
            call()
            assert [file.suffix for file in folder.iterdir()] == [".json"] * count
        again = [call() for call in calls]
        assert ask(replace(kept, timeout=3.0, parallel=2, key="OTHER")) == again[0]
        assert len(server.asked) + len(other.asked) == len(calls)


def test_only_answers_in_the_form_asked_for_are_kept_and_a_broken_file_is_named(
    server, endpoint, tmp_path
):
    kept = replace(endpoint, cache=str(tmp_path), retries=0)
    server.script = [says("{}"), chat.fails(401), chat.fails(500), says('```{"a": 3}```')]
    for _ in range(3):
        with pytest.raises(EndpointError):
            ask_json(kept)
    assert list(tmp_path.iterdir()) == []
    assert ask_json(kept) == ask_json(kept) == 3
    (file,) = tmp_path.iterdir()
    for broken in (b"", b"\xff", b"[]", b"{}", b'{"answer": 3}', b'{"answer": "no"}', b"[" * 99999):
        file.write_bytes(broken)
        with pytest.raises(EndpointError, match=f"{file} has no valid answer on a talk; delete it"):
            ask_json(kept)


def test_many_are_under_way_at_the_same_time_and_no_more_than_allowed(server, endpoint):
    def act(handler):  # nobody is answered before 17 have asked
        if len(server.flying) > 16:
            enough.set()
        enough.wait(30)
        handler.say(chat.completion("hello"))

    enough, server.act = threading.Event(), act
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(ask, [endpoint] * 32)) == ["hello"] * 32
        assert enough.is_set()
        server.act, server.most = chat.waits(0.02), 0
        list(pool.map(ask, [replace(endpoint, parallel=3) for _ in range(24)]))
    assert server.most == 3
    known = len(server.connections)
    for _ in range(5):
        ask(endpoint)
    assert len(server.connections) == known  # used again


LEAVES = """
import sys, threading, time
from agent_envs.net.endpoint import Endpoint
endpoint = Endpoint("stub", sys.argv[1], outage=60.0)
said = endpoint.ask([{"role": "user", "content": "Hello?"}], about="it")
late = [{"role": "user", "content": "Late?"}]
threading.Thread(target=endpoint.ask, args=(late,), kwargs={"about": ""}, daemon=True).start()
time.sleep(0.5)
print(said)
"""


@pytest.mark.slow
def test_a_request_that_hangs_does_not_keep_a_process_from_its_end(server):
    server.script = [says("bye"), chat.hangs]
    command = [sys.executable, "-W", "error", "-c", LEAVES, server.url]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout == "bye\n"
    assert not server.finished


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0.25", 0.25), ("7", 7), ("1000", 30), ("inf", 30), ("-1", 0), ("nan", 0), ("", 0),
        (None, 0), ("soon", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 9999 07:28:00 GMT", 30), ("Wed, 99 Oct 2015 07:28:00 GMT", 0),
    ],
)  # fmt: skip
def test_what_a_server_asks_for(header, seconds):
    assert web.read_retry_after(header) == seconds


def test_pauses_grow_up_to_a_limit_and_draw_from_a_generator_of_their_own(monkeypatch):
    waited, before = [], random.getstate()
    monkeypatch.undo()
    monkeypatch.setattr(web, "sleep", waited.append)
    for tried in (1, 2, 3, 10, 10**6):
        web.pause(tried)
    web.pause(1, 5.0)
    bounds = [(0.25, 0.5), (0.5, 1), (1, 2), (15, 30), (15, 30), (5, 5)]
    assert all(low <= wait <= high for wait, (low, high) in zip(waited, bounds, strict=True))
    assert random.getstate() == before
    assert (web.count_tries(1), web.count_tries(3)) == ("1 try", "3 tries")


WRONG_OPTIONS = [
    *((option.name, wrong, "must be a") for option in fields(Endpoint) for wrong in ([], True)),
    *(
        (option.name, type(option.default)(-1), "must be finite and ")
        for option in fields(Endpoint)
        if type(option.default) is not str and option.name != "temperature"
    ),
    ("key", 3, "key must be a str"),
    ("retries", "x", "retries must be an int"),
    ("timeout", math.nan, "timeout must be a number, got nan"),
    ("timeout", 0, "timeout of an endpoint must be finite and above 0, got 0"),
    ("temperature", math.inf, "finite"),
    ("parallel", 0, "parallel of an endpoint must be finite and above 0, got 0"),
    ("budget_cost", 3.0, "needs prompt_price and completion_price"),
    ("url", "ftp://h", "a model and an address"),
    ("url", "http://h:99999/v1", "Port out of range"),
    ("url", "http://h:0/v1", "at 'h:0'"),
    ("url", "http://h:x/v1", "Port could not be"),
    ("key", f"sk-{KEY}", "the name of an environment variable"),
    ("key", KEY * 9, "the name of an environment variable"),
    ("timout", 3, "no option 'timout', did you mean 'timeout'?"),
]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *(({"model": "m", "url": "http://h", name: v}, says) for name, v, says in WRONG_OPTIONS),
        ({"url": "http://h"}, "a model and an address"),
        ("openai:", "has the form openai:<model>@<base url>"),
        ("openai:m", "has the form openai:<model>@<base url>"),
        ("openai:@http://h/v1", "a model and an address"),
        ("openai:m@http://", "a model and an address"),
        (f"openai:m@http://me:{KEY}@h/v1", "contains a user name, password or query"),
        (f"openai:m@http://h/v1?key={KEY}", "contains a user name, password or query"),
    ],
)
def test_no_endpoint(given, says):
    with pytest.raises((ValueError, TypeError)) as refusal:
        open_endpoint(given)
    assert says in str(refusal.value)
    assert KEY not in str(refusal.value)


def test_endpoints_are_named_by_a_text_a_table_or_themselves():
    made = open_endpoint("openai:org/m@x@https://h/v1", temperature=0.7)
    assert made == Endpoint("org/m@x", "https://h/v1", temperature=0.7)
    table = {"model": "org/m@x", "url": "https://h/v1"}
    assert open_endpoint(table, temperature=0.7) == made
    assert open_endpoint({**table, "temperature": 0.1}, temperature=0.7).temperature == 0.1
    assert open_endpoint(made, temperature=0.1) is made
