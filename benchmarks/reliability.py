"""Episodes whose environments raise, hang and die, and trainings that are killed: what is lost.

    python benchmarks/reliability.py soak 2000
    python benchmarks/reliability.py kills MODEL 10

`soak` plays episodes of an environment in two worker processes that fails in some of them, and
counts. `kills` trains a tiny run again and again, ends it by SIGKILL and SIGTERM at random moments,
and compares it with one that nothing ended.
"""

# ruff: noqa: ANN001, ANN003, ANN201, ANN204, ARG002, S101, PTH208
from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(sys.path.pop(0))  # benchmarks/trainer.py is not the package

from agent_envs import AgentEnv, Panel, Template, Turn

FAULTS = {"raise": 0.01, "hang": 0.0025, "die": 0.0025}
"""Shares of the episodes."""
TURNS = 4


class Faulty(AgentEnv):
    """Four turns; whether and when it fails derives from the seed of the episode."""

    template = Template("{current_observation}", "{current_observation}")

    def __init__(self, max_turns=9):
        super().__init__(Panel("train", tuple(f"t/{n}" for n in range(100))), max_turns=max_turns)

    def begin(self, task_id):
        self.at, self.fault = 0, ""
        draw, self.when = self.np_random.random(), int(self.np_random.integers(TURNS))
        for name, share in FAULTS.items():
            if 0 <= draw < share and not self.fault:
                self.fault = name
            draw -= share
        return "Go on.", Turn("at 0", anchor="0")

    def act(self, action):
        if self.fault and self.at == self.when:
            if self.fault == "hang":
                time.sleep(600)
            if self.fault == "die":
                os._exit(3)
            raise ConnectionResetError("a fault that was put in")
        self.at += 1
        won = self.at == TURNS
        return Turn(f"at {self.at}", anchor=f"{self.at}", success=won, progress=self.at / TURNS)


class Script:
    """A sampler without a model."""

    vision = None

    def __init__(self):
        from trainer.sampling import Decoding

        self.decoding, self.policy, self.chat = Decoding(max_reply_tokens=8), self, self

    def opening(self, text):
        return list(map(ord, text))

    def after(self, reply_ids, text):
        return list(map(ord, text))

    def open(self, seeds, *, fresh):
        return self

    def room(self, row):
        return 10**6

    async def reply(self, row, new_ids, **given):
        from trainer.engines import Reply

        await asyncio.sleep(0)
        return Reply([1], [0.0], [0.0], "<think></think><action>on</action>")

    def leave(self, row):
        pass


def children() -> int:
    """Processes that this one started and that still run."""
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return len(path.read_text().split())


def soak(episodes: int) -> None:
    """Play so many episodes; print what became of them and what was left behind."""
    import resource

    from trainer.environments import Env, PromptOptions
    from trainer.failures import divided
    from trainer.rollout import Rollouts, Task

    env = Env("reliability:Faulty", max_turns=9, processes=2, step_seconds=1.0)
    player, sampler = Rollouts(env, PromptOptions(), "train", max_tokens=10**6), Script()
    kinds: dict[str, int] = {}
    played = 0
    size, began = 64, time.monotonic()
    marks = []
    for first in range(0, episodes, size):
        tasks = [Task(f"t/{n % 100}", n, n) for n in range(first, min(first + size, episodes))]
        done, failed = divided(player.attempt(tasks, sampler, seed=0, first=first))
        assert len(done) + len(failed) == len(tasks)
        assert all(one.success and len(one.steps) == TURNS for one in done)
        played += len(done)
        for one in failed:
            kind = "raise" if "fault that was put in" in one.error else "hang"
            kind = "die" if "exited with 3" in one.error else kind
            kinds[kind] = kinds.get(kind, 0) + 1
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        marks.append((len(os.listdir("/proc/self/fd")), children(), memory))
    seconds = time.monotonic() - began
    print(f"{episodes} episodes in {seconds:.0f} s: {played} played, {kinds} failed")
    expected = dict.fromkeys(FAULTS, 0)
    for n in range(episodes):
        one = Faulty()
        one.reset(seed=n)
        if one.fault:
            expected[one.fault] += 1
    print(f"put in: {expected}")
    for name, column in zip(
        ("descriptors", "processes", "MiB"), zip(*marks, strict=True), strict=True
    ):
        print(f"{name}: {column[0]} after the first {size}, {column[-1]} after the last")
    del player, failed, done
    gc.collect()
    time.sleep(2)
    print(f"processes left: {children()}")


RUN = """
import sys
sys.path.insert(0, {tests!r})
sys.argv = {words!r}
import corridor
corridor.register()
from trainer.cli import main
main()
"""


def kills(model: str, count: int) -> None:
    """End a training `count` times by SIGKILL and as often by SIGTERM; print what differs."""
    tests = str(Path(__file__).parents[1] / "tests" / "trainer")
    options = [
        "env.id=Corridor-v0",
        "env.max_turns=4",
        "env.data=auto",
        "sft.steps=4",
        "sft.episodes=3",
        "run.steps=40",
        "run.save_every=3",
        "run.threads=1",
        "sampling.tasks=4",
        "sampling.rollouts=4",
        "eval.tasks=3",
        "sampling.decode=admissible",
        "sampling.max_tokens=2000",
        "sampling.max_reply_tokens=40",
        "critic.learning_rate=1e-3",
    ]

    def start(folder: Path) -> subprocess.Popen[str]:
        words = ["agent-envs", "train", "alfworld", "mgr", "pocket", *options]
        words += [f"policy.model={model}", "--out", str(folder), "--resume"]
        code = RUN.format(tests=tests, words=words)
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def logged(folder: Path) -> int:
        path = folder / "metrics.jsonl"
        return path.read_text().count("\n") if path.is_file() else 0

    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as place:
        whole, cut = Path(place) / "whole", Path(place) / "cut"
        process = start(whole)
        said, _ = process.communicate()
        assert process.returncode == 0, said
        codes: dict[str, int] = {}
        for name in [name for _ in range(count) for name in ("SIGKILL", "SIGTERM")]:
            before = logged(cut)
            if before >= 44:
                shutil.rmtree(cut)
                before = 0
            process = start(cut)
            while process.poll() is None and logged(cut) <= before + 1:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.3))
            process.send_signal(getattr(signal, name))
            said, _ = process.communicate()
            key = f"{name} -> {process.returncode}"
            codes[key] = codes.get(key, 0) + 1
            assert "Traceback" not in said, said
            assert logged(cut) >= before
        process = start(cut)
        said, _ = process.communicate()
        assert process.returncode == 0, said
        print(f"exit codes: {codes}")
        print(f"the same log: {_figures(whole) == _figures(cut)}")
        print(f"the same weights: {_weights(whole) == _weights(cut)}")


def _figures(folder: Path) -> list[dict]:
    from trainer import metrics

    lines = metrics.read(folder / "metrics.jsonl")
    return [{k: v for k, v in x.items() if not k.endswith(metrics.CLOCKS)} for x in lines]


def _weights(folder: Path) -> list[tuple[str, str]]:
    last = max((folder / "checkpoints").glob("step_*"), key=lambda path: int(path.name[5:]))
    manifest = json.loads((last / "manifest.json").read_text())
    return sorted((name, digest) for name, (_, digest) in manifest.items() if "safetensors" in name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["soak"]:
        soak(int(sys.argv[2]))
    elif sys.argv[1:2] == ["kills"]:
        kills(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(__doc__)
