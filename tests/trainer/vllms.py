"""vLLM for tests: in this process, and a server with a policy's model."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.request import urlopen

import pytest
import torch
from safetensors.torch import load_file

from trainer.engine import Decoding, EngineOptions, Prompt
from trainer.engine.own import OwnEngine
from trainer.engine.worker import WORKER

REASON = "needs vLLM in an environment of its own; see .ci/vllm"
THERE = importlib.util.find_spec("vllm") is not None
VLLMS = ["stand-in"] + [
    pytest.param(name, marks=[pytest.mark.vllm, pytest.mark.skipif(not THERE, reason=REASON)])
    for name in ("vllm", "vllm serve")
]
SPACE = {"VLLM_CPU_KVCACHE_SPACE": "1"}  # GiB
os.environ |= SPACE


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """What `vllm serve` starts, for a model folder; the CPU build's own command does not run."""

    def __init__(self, model, log, *options):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log, self.command = log, [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model),
            "--port", str(self.port), "--dtype", "float32", "--enforce-eager",
            "--logprobs-mode", "processed_logprobs", "--no-enable-chunked-prefill", *options,
        ]  # fmt: skip
        self.start()

    def start(self):
        environment = {**os.environ, **SPACE, "VLLM_SERVER_DEV_MODE": "1"}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self.command, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self, seconds=400):  # on a busy machine
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                with urlopen(f"{self.url}/health", timeout=5):  # noqa: S310
                    return
            except OSError:
                time.sleep(0.5)
        raise AssertionError(self.log.read_text()[-3000:])

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
        self.process.wait()


@contextmanager
def served(policy, folder, *options):
    policy.save(folder / "model")
    server = Server(folder / "model", folder / "server.log", *options)
    try:
        server.wait()
        yield server
    finally:
        server.kill()


@contextmanager
def serving(name, policy, folder):
    """Options of an engine, with its server running."""
    if name == "vllm serve":
        with served(policy, folder, "--worker-extension-cls", WORKER) as server:
            yield EngineOptions(name="vllm", urls=(server.url,), patience=60.0)
    elif name == "stand-in":
        standin = Standin(policy)
        yield EngineOptions(name="vllm", urls=(standin.url,))
        standin.close()
    else:
        yield EngineOptions(name=name)


class Standin:
    """A server with vLLM's routes and the own engine behind them.

    Attributes:
        asked: Requests of `/v1/completions` that were answered, by prompt.
        stale: It accepts weights and goes on with those it has.
        shift: Added to log-probabilities of drawn tokens, as truncated sampling does.
        moods: What becomes of the next requests of `/v1/completions`: an HTTP status, a text to
            answer with, or "drop" to close the connection.
    """

    def __init__(self, policy, *, name="standin", limit=2048, port=0):
        self.policy, self.name, self.limit = policy.twin("standin"), name, limit
        self.label, self.loads, self.asked, self.moods = "default", 0, Counter(), []
        self.stale, self.delay, self.shift, self.folder = False, 0.0, 0.0, ""
        self.lock = Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Routes, self))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def get(self, path):
        if path == "/v1/models":
            return {"data": [{"id": self.name, "max_model_len": self.limit}]}
        return {"weight_version": self.label}

    def post(self, path, body):
        if path == "/collective_rpc":
            assert body["method"] == "take_folder"
            self.loads, self.folder = self.loads + 1, body["kwargs"]["folder"]
            if not self.stale:
                found = load_file(f"{self.folder}/model.safetensors")
                self.policy.set_weights(found)
        elif path == "/update_weight_version":
            self.label = body["new_version"]
        elif path == "/v1/completions":
            return self.complete(body)
        return {}

    def complete(self, body):
        assert body["model"] == self.name
        if "prompt_logprobs" in body:
            return {"choices": [{"prompt_logprobs": self.score(body["prompt"])}]}
        decoding = Decoding(body["temperature"], body["max_tokens"])
        with self.lock:
            batch = OwnEngine(self.policy).batch(1, decoding)
            (reply,) = batch.reply([0], [Prompt(body["prompt"])], [body["seed"]])
            self.asked[tuple(body["prompt"])] += 1
        logprobs = [one + self.shift for one in reply.logprobs]
        choice = {"token_ids": reply.ids, "logprobs": {"token_logprobs": logprobs}}
        return {"choices": [choice]}

    def score(self, ids):
        with torch.no_grad():
            scores = self.policy.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        told = [{str(i): {"logprob": float(at[i])}} for i, at in zip(ids[1:], scores, strict=False)]
        return [None, *told]


class _Routes(BaseHTTPRequestHandler):
    def __init__(self, standin, *given):
        self.standin = standin
        super().__init__(*given)

    def do_GET(self):
        self.send(200, json.dumps(self.standin.get(self.path)))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or "{}")
        mood = None
        if self.path == "/v1/completions":
            time.sleep(self.standin.delay)
            mood = self.standin.moods.pop(0) if self.standin.moods else None
        if mood == "drop":
            self.close_connection = True
            self.connection.close()
        elif isinstance(mood, int):
            self.send(mood, "not now")
        else:
            self.send(200, mood or json.dumps(self.standin.post(self.path, body)))

    def send(self, status, text):
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass
