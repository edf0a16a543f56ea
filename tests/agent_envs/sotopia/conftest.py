"""Talks made by hand, and a stub of an OpenAI-compatible server."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs.sotopia.acts import parse_act
from agent_envs.sotopia.families import draw_scene
from agent_envs.sotopia.talk import Talk


@pytest.fixture(autouse=True)
def _embedded_data(monkeypatch):
    monkeypatch.delenv("SOTOPIA_DATA", raising=False)


@pytest.fixture
def talked():
    """A function that makes the talk of a scene's lines, side 0 first."""

    def talk(family, number, *lines):
        made = Talk(draw_scene(family, number))
        for place, line in enumerate(lines):
            made = made.after(place % 2, parse_act(line))
        return made

    return talk


@pytest.fixture
def play():
    """A function that plays episodes by `act(env)`: their last infos."""

    def played(act, *, family, split="val", partner="scripted", tasks=48):
        env = gym.make("Sotopia-v0", split=split, family=family, partner=partner)
        infos = []
        for task in range(min(tasks, len(env.unwrapped.panel))):
            env.reset(seed=task, options={"task": task})
            ended = False
            while not ended:
                _, _, terminated, truncated, info = env.step(act(env))
                ended = terminated or truncated
            infos.append(info)
        return infos

    return played


@pytest.fixture(scope="session")
def public_folder(shared_data):
    """The public profiles, or a skip."""
    if not (shared_data / "sotopia").is_dir():
        pytest.skip(f"no public data at {shared_data / 'sotopia'}")
    return shared_data / "sotopia"


class Stub(BaseHTTPRequestHandler):
    """Answers what `server.script` says, one entry a request, then `server.content`."""

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.asked.append(body)
        server.keys.append(self.headers["Authorization"])
        what = server.script.pop(0) if server.script else "good"
        if what == "reset":
            self.connection.close()
            return
        if what == "silent":
            server.released.wait(5)
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._answer(what)

    def _answer(self, what):
        status = what if isinstance(what, int) else 200
        text = what["content"] if isinstance(what, dict) else self.server.content
        answer = {
            "id": "1", "object": "chat.completion", "created": 0, "model": "stub",
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": text}}],
        }  # fmt: skip
        if status != 200:
            told = f"{self.server.filler}wrong key {self.headers['Authorization']}"
            answer = {"error": {"message": told}}
        reply = b"<html>" if what == "html" else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        if status == 429:
            self.send_header("Retry-After", "0.25")
        self.end_headers()
        for byte in (reply[i : i + 1] for i in range(len(reply))) if what == "slow" else [reply]:
            self.wfile.write(byte)
            self.wfile.flush()
            if what == "slow":
                time.sleep(0.05)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    """The stub, listening; `server.url` is its base address."""
    monkeypatch.setattr("agent_envs.retry.BACKOFF", 0.001)
    stub = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    stub.daemon_threads = True
    stub.script, stub.asked, stub.keys, stub.content = [], [], [], "{}"
    stub.filler, stub.released = "", threading.Event()
    stub.url = f"http://127.0.0.1:{stub.server_port}/v1"
    thread = threading.Thread(target=stub.serve_forever, args=(0.01,))
    thread.start()
    yield stub
    stub.released.set()
    stub.shutdown()
    thread.join()
    stub.server_close()
