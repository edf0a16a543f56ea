"""Sessions, interpreters without a world, and a server that speaks as the benchmark's does."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from agent_envs.appworld.apps import APPS
from agent_envs.appworld.interpreter import Interpreter
from agent_envs.appworld.mini import MiniWorld
from agent_envs.appworld.session import Session
from agent_envs.appworld.world import list_tasks, make_task

sys.path.append(str(Path(__file__).parent))  # for attacks.py


@pytest.fixture
def session():
    """The apps of a household."""
    task = make_task("train-event+host+label-0")
    return Session(task.household, APPS, task.instruction, task.answer_type)


@pytest.fixture
def call(session):
    """Calls an API of an app that needs log-in: the value, or the status of the refusal."""
    tokens = {}

    def called(app, api, **given):
        if app not in tokens:
            account = {"username": session.email, "password": session.passwords[app]}
            tokens[app] = session.call(app, "login", account)["value"]["access_token"]
        reply = session.call(app, api, {"access_token": tokens[app], **given})
        return reply["value"] if "value" in reply else read_status(reply)

    return called


def read_status(reply):
    """The status in a refusal."""
    return int(reply["error"].partition("status code is ")[2][:3])


def echo(app, api, given):
    """Replies to a call with the call."""
    return {"value": [app, api, given]}


@pytest.fixture
def run():
    """Runs code in one interpreter that echoes calls."""
    interpreter = Interpreter("2024-05-03T10:30:00", "seed", timeout=20)
    yield lambda code: interpreter.execute(code, echo)
    interpreter.close()


class Served:
    """A generated world at the addresses of `appworld serve environment`, with faults on demand.

    faults: what happens to the next requests, one each: a status, "hang up", "nonsense" or
        "too deep".
    """

    def __init__(self, port=0):
        self.world, self.faults, self.asked = MiniWorld(), [], []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                served.answer(self, None)

            def do_POST(self):
                size = int(self.headers["Content-Length"])
                served.answer(self, json.loads(self.rfile.read(size)))

            def log_message(self, *told):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def answer(self, handler, given):
        self.asked.append(handler.path)
        fault = self.faults.pop(0) if self.faults else 200
        if fault == "hang up":
            handler.close_connection = True
            return
        odd = {"nonsense": b"{", "too deep": b"[" * 100_000}
        body = odd.get(fault) or json.dumps({"output": self.output(handler, given)})
        body = body if isinstance(body, bytes) else body.encode()
        handler.send_response(fault if isinstance(fault, int) else 200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def output(self, handler, given):
        what = handler.path.split("/")[1]
        if what == "tasks":
            task = make_task(unquote(handler.path.split("/")[2]))
            who = task.household
            return {"instruction": task.instruction, "supervisor": who.person, "datetime": who.now}
        if what == "initialize":
            return {"task_id": self.world.open(given["task_id"]) and given["task_id"]}
        if what == "execute":
            return self.world.execute(given["code"])
        if what == "task_completed":
            return self.world.is_completed()
        if what == "evaluate":
            assert given["suppress_errors"] is True
            judged = self.world.evaluate()
            passes = [{"requirement": name, "label": None} for name in judged.passes]
            failures = [{"requirement": name, "trace": ""} for name in judged.failures]
            return {"success": not failures, "passes": passes, "failures": failures}
        assert what == "close"
        return None

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.world.close()


@pytest.fixture
def served():
    """A server with the generated world's tasks."""
    server = Served()
    yield server
    server.close()


@pytest.fixture
def lists(tmp_path):
    """A folder with lists of task ids, as the benchmark's data has them."""
    folder = tmp_path / "data" / "datasets"
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("\n".join([*list_tasks("train")][::12]) + "\n")
    return tmp_path
