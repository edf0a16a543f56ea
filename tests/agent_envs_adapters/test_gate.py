"""What passes the gate of a server, without a server."""

import asyncio
import json

import pytest

from agent_envs_adapters.gate import Gate, Limits, judge_message

STEP = json.dumps({"type": "step", "data": {"reply": "look"}})
TOKEN = "0123456789abcdef"  # noqa: S105


async def echo(scope, receive, send):
    """Answers what passed."""
    if scope["type"] == "http":
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
        return
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] != "websocket.disconnect":
        await send({"type": "websocket.send", "text": message["text"]})


def played(gate, *messages, path="/ws", query=b"", headers=(), ended=True):
    """What a gate answers to the messages of a session, parsed."""
    given = [
        {"type": "websocket.connect"},
        *({"type": "websocket.receive", **message} for message in messages),
        *([{"type": "websocket.disconnect", "code": 1000}] if ended else []),
    ]
    sent, sessions = [], gate.sessions

    async def receive():
        if not given:
            await asyncio.sleep(60)
        return given.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": path, "query_string": query, "headers": [*headers]}
    asyncio.run(gate(scope, receive, send))
    assert gate.sessions == sessions
    return [
        json.loads(one["text"]) if "text" in one else one.get("code", one["type"]) for one in sent
    ]


def page(gate, path, *, method="GET", body=b"", headers=()):
    """Status and content of an answer over HTTP."""
    parts = [body[:5], body[5:]]
    sent = []

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": path, "method": method, "headers": [*headers]}
    asyncio.run(gate(scope, receive, send))
    return sent[0]["status"], sent[1]["body"].decode()


def gate(token="", **limits):
    return Gate(echo, "Odd-v0", limits=Limits(**limits), token=token)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "reset"},
        {"type": "reset", "data": {}},
        {"type": "reset", "data": {"seed": None, "split": None}},
        {"type": "reset", "data": {"seed": 2**63 - 1, "index": 0, "episode_id": "a"}},
        {"type": "step", "data": {"reply": "", "metadata": {"any": [1]}}},
        {"type": "step", "data": {"reply": "é\x00\u2028"}},
        {"type": "step", "data": {"stop": True}},
        {"type": "state"},
        {"type": "close"},
    ],
)
def test_messages_that_pass(message):
    assert judge_message(json.dumps(message), 1000) is None


RESET, NEEDS = '{"type": "reset", "data": %s}', "a step needs the model's reply"


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (None, "INVALID_JSON", "got a binary one"),
        ("", "INVALID_JSON", "Invalid JSON"),
        ("[" * 100_000, "INVALID_JSON", "recursion limit"),
        ("[" * 100_001, "VALIDATION_ERROR", "shorten the reply"),
        ("é" * 60_000, "VALIDATION_ERROR", "--message"),
        (RESET % ('{"seed": ' + "9" * 5000 + "}"), "INVALID_JSON", "number out of range"),
        (RESET % '{"seed": NaN}', "VALIDATION_ERROR", "reset.data.seed = nan"),
        (RESET % '{"seed": 9223372036854775808}', "VALIDATION_ERROR", "should be less than"),
        (RESET % '{"seed": -1}', "VALIDATION_ERROR", "seed = -1: Input should be greater"),
        (RESET % '{"seed": true}', "VALIDATION_ERROR", "seed = True: Input should be a valid int"),
        (RESET % '{"seed": 1.0}', "VALIDATION_ERROR", "seed = 1.0: Input should be a valid int"),
        (RESET % '{"task_id": 3}', "VALIDATION_ERROR", "task_id = 3: Input should be a valid str"),
        (RESET % f'{{"fork": "{"a" * 256}"}}', "VALIDATION_ERROR", "at most 255 characters"),
        (RESET % '{"sead": 3}', "VALIDATION_ERROR", "reset.data.sead = 3: Extra inputs"),
        (RESET % '{"\\ud800": 1}', "INVALID_JSON", "Invalid JSON"),
        (RESET % "null", "VALIDATION_ERROR", "reset.data = None: Input should be an object"),
        ('{"type": "reset", "more": 1}', "VALIDATION_ERROR", "reset.more = 1: Extra inputs"),
        ('{"type": "state", "data": {}}', "VALIDATION_ERROR", "state.data = {}: Extra inputs"),
        ('{"type": "step"}', "VALIDATION_ERROR", "step.data"),
        ('{"type": "step", "data": {}}', "VALIDATION_ERROR", NEEDS),
        ('{"type": "step", "data": {"stop": true, "reply": "a"}}', "VALIDATION_ERROR", NEEDS),
        ('{"type": "step", "data": {"reply": null}}', "VALIDATION_ERROR", "step.data.reply = None"),
        ('{"type": "step", "data": {"reply": "\\ud800"}}', "INVALID_JSON", "Invalid JSON"),
        ('{"type": "mcp", "data": {}}', "UNKNOWN_TYPE", "'reset', 'step', 'state', 'close'"),
        ('{"type": {"a": 1}}', "UNKNOWN_TYPE", "'reset', 'step', 'state', 'close'"),
        ("7", "VALIDATION_ERROR", "7: Input should be an object"),
    ],
)
def test_messages_that_are_refused(text, code, says):
    refusal = judge_message(text, 100_000)
    assert refusal.code == code
    assert says in refusal.why
    assert len(refusal.why) <= 300
    assert "\n" not in refusal.why
    assert json.loads(refusal.frame["text"])["data"] == {"message": refusal.why, "code": code}


def test_a_session_goes_on_after_a_refusal():
    bad = {"text": "no json"}, {"bytes": b"\x00"}, {"text": '{"type": "reset", "data": {"x": 1}}'}
    answers = played(gate(), *bad, {"text": STEP})
    assert answers[0] == "websocket.accept"
    assert [one["type"] for one in answers[1:]] == ["error", "error", "error", "step"]


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"path": "/mcp"}, "sessions are at /ws"),
        ({"path": "/ws", "query": b"session_id=1"}, "as fork"),
        ({"headers": [(b"origin", b"http://evil")]}, "web pages"),
    ],
)
def test_other_sockets_are_refused_in_words_and_closed(where, says):
    accepted, error, code = played(gate(), {"text": STEP}, **where)
    assert (accepted, code) == ("websocket.accept", 1008)
    assert says in error["data"]["message"]


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ((), "no token: send the server's token"),
        (((b"authorization", b"Bearer 0123456789abcdeX"),), "a wrong token: send"),
        (((b"authorization", TOKEN.encode()),), "a wrong token"),
        (((b"authorization", b"Bearer \xff\xfe"),), "a wrong token"),
        (((b"authorization", f"Bearer {TOKEN}".encode()),) * 2, "a wrong token"),
    ],
)
def test_a_token_is_required(headers, says):
    _, error, code = played(gate(TOKEN), {"text": STEP}, headers=headers)
    assert says in error["data"]["message"]
    assert TOKEN not in error["data"]["message"]
    assert code == 1008
    status, body = page(gate(TOKEN), "/schema", headers=headers)
    assert (status, says in body) == (401, True)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_with_the_token_all_passes(scheme):
    headers = ((b"authorization", f"{scheme} {TOKEN}".encode()),)
    assert played(gate(TOKEN), {"text": STEP}, headers=headers)[1]["type"] == "step"
    assert page(gate(TOKEN), "/schema", headers=headers)[0] == 200
    assert page(gate(TOKEN), "/health")[0] == 200  # for what only asks whether it is up


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"token": "short"}, "at least 16 printable ASCII characters; make one with"),
        ({"token": "with é 0123456789"}, "at least 16 printable ASCII characters"),
        ({"token": "line\n0123456789abc"}, "at least 16 printable ASCII characters"),
        ({"sessions": 0}, "sessions\n  Input should be greater than or equal to 1"),
        ({"message": -1}, "message\n  Input should be greater than or equal to 1"),
        ({"idle": float("inf")}, "idle\n  Input should be a finite number"),
    ],
)
def test_odd_tokens_and_limits_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        gate(**options)


def test_sessions_have_a_limit():
    full = gate(sessions=2)
    full.sessions = 2
    _, error, code = played(full, {"text": STEP})
    assert "all 2 sessions are in use" in error["data"]["message"]
    assert code == 1013


@pytest.mark.parametrize("fails", [OSError, None])
def test_a_client_that_takes_no_answer_is_given_up(fails):
    """It is gone, or it does not read; further messages are not read, and the session ends."""
    read, sent = 0, []

    async def receive():
        nonlocal read
        read += 1
        if read == 1:
            return {"type": "websocket.connect"}
        return {"type": "websocket.receive", "text": STEP}

    async def send(message):
        sent.append(message["type"])
        if len(sent) > 3:
            if fails:
                raise fails("the connection is lost")
            await asyncio.sleep(60)

    scope = {"type": "websocket", "path": "/ws", "query_string": b"", "headers": []}
    made = gate(idle=0.1)
    asyncio.run(made(scope, receive, send))
    assert (made.sessions, read) == (0, 4)  # the connect and three messages
    assert sent == ["websocket.accept", *["websocket.send"] * 3]


def test_an_idle_session_is_closed():
    _, error = played(gate(idle=0.01), ended=False)
    assert "after 0.01 s without a message; connect again" in error["data"]["message"]


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/schema", "GET", 200),
        ("/Odd-v0/splits", "GET", 200),
        ("/mcp", "POST", 200),
        ("/", "GET", 404),
        ("/reset", "POST", 404),
        ("/docs", "GET", 404),
        ("//tasks", "POST", 404),
        ("/../../etc/passwd", "GET", 404),
        ("/Other-v0/tasks", "POST", 404),
    ],
)
def test_pages(path, method, status):
    answered, body = page(gate(), path, method=method)
    assert answered == status
    if status != 200:
        assert json.loads(body)["detail"]
    if path == "/mcp":
        assert json.loads(body)["jsonrpc"] == "2.0"


def test_long_requests_are_not_read():
    whole = "x" * 10
    assert page(gate(message=10), "/Odd-v0/task", body=whole.encode()) == (200, whole)
    status, said = page(gate(message=10), "/Odd-v0/task", body=b"x" * 11)
    assert (status, json.loads(said)["detail"]) == (413, "a request has at most 10 bytes")
