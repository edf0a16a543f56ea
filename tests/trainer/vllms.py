"""vLLM for tests: in this process, and a server with a policy's model."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.request import urlopen

import pytest

from trainer.engines.options import EngineOptions
from trainer.engines.request import WORKER

REASON = "needs vLLM in an environment of its own; see .ci/vllm"
THERE = importlib.util.find_spec("vllm") is not None
VLLMS = [
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

    def wait(self, seconds=180):
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
    else:
        yield EngineOptions(name=name)
