"""What is lost when environments, servers, browsers, disks and processes fail.

    python benchmarks/reliability.py soak [--episodes 2000] [--only AlfWorld-v0]
    python benchmarks/reliability.py servers [--episodes 2000]
    python benchmarks/reliability.py disk MODEL
    python benchmarks/reliability.py kills MODEL [--rounds 2] [--only critic]

`soak` plays the experts' replies in every environment, in worker processes whose environments raise,
hang and die in some episodes; all other episodes must end as they do without faults. `servers` ends
and restarts what environments talk to: a retrieval server, Chromium, a model's endpoint. `disk`
trains on a full disk and continues when there is room. `kills` trains tiny runs again and again, ends
them by SIGKILL and SIGTERM, and compares them with runs that nothing ended.
"""

# ruff: noqa: ANN, ARG002, S101, PTH208, S603
from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import gymnasium as gym
import numpy as np

sys.path.append(sys.path.pop(0))  # benchmarks/trainer.py is not the package

from agent_envs import expert

FAULTS = {"raise": 0.01, "hang": 0.005, "die": 0.0025}
"""Shares of the episodes."""
SIZE = 64  # episodes at the same time
WORDS = {"raise": "was put in", "hang": "step_seconds", "die": "exited with 3"}
OPTIONS = {
    "AppWorld-v0": {"max_turns": 12},
    "SearchQA-v0": {"max_turns": 5},
    "Sotopia-v0": {"max_turns": 12},
}
HERE = Path(__file__).parent
TESTS = str(HERE.parent / "tests" / "trainer")


class Fault(gym.Wrapper):
    """An environment that fails in some episodes, in their first or second turn, by their seed."""

    def reset(self, *, seed=None, options=None):
        self.turn = 0
        self.kind, self.when = drawn(seed)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.turn == self.when:
            if self.kind == "hang":
                time.sleep(600)
            if self.kind == "die":
                os._exit(3)
            if self.kind == "raise":
                raise ConnectionResetError("a fault that was put in")
        self.turn += 1
        return super().step(action)


def drawn(seed):
    """The fault of an episode, "" for none, and its turn."""
    rng = np.random.default_rng([seed, 1])
    shares = [*FAULTS.values(), 1 - sum(FAULTS.values())]
    return str(rng.choice([*FAULTS, ""], p=shares)), int(rng.integers(2))


class Script:
    """A sampler without a model: replies by conversation and turn."""

    vision = None

    def __init__(self):
        from trainer.sampling import Decoding

        self.decoding, self.policy, self.chat = Decoding(max_reply_tokens=8), self, self
        self.replies, self.turns = [], {}

    def opening(self, text):
        return [0] * (len(text) // 4 + 1)

    def after(self, reply_ids, text):
        return self.opening(text)

    def open(self, seeds, *, fresh):
        self.turns = dict.fromkeys(range(len(seeds)), 0)
        return self

    def room(self, row):
        return 10**9

    async def reply(self, row, new_ids, **given):
        from trainer.engines import Reply

        await asyncio.sleep(0)
        said = self.replies[row][self.turns[row]]
        self.turns[row] += 1
        return Reply([1], [0.0], [0.0], said)

    def leave(self, row):
        pass


class Episodes:
    """What the expert does in the episodes of an environment: replies, and how each ended.

    Whoever gives the same replies to another copy of the environment must see the same.
    """

    def __init__(self, env, count):
        from trainer.environments import PromptOptions, form_of, make_env
        from trainer.rollout import Task
        from trainer.sft import FORM

        made = make_env(env, PromptOptions(), split=env.split)
        ids = made.unwrapped.panel.task_ids
        form = form_of(made) or FORM
        self.tasks = [Task(ids[n % len(ids)], n, n) for n in range(count)]
        self.replies, self.ends = [], []
        for task in self.tasks:
            _, info = made.reset(seed=task.seed, options={"task_id": task.task_id})
            player, done, replies, anchors = expert(made), False, [], []
            while not done:
                anchors.append(info["anchor"])
                thought, action = player.think(), player.act()
                replies.append(form.format(thought=thought, action=action))
                _, reward, ended, cut, info = made.step(replies[-1])
                done = ended or cut
            self.replies.append(replies)
            self.ends.append((anchors, float(reward), bool(info["success"])))
        made.close()


def play(env, told, meanwhile=lambda: None):
    """Give the replies again; failures by kind, episodes that ended otherwise, what was left."""
    from trainer.environments import PromptOptions
    from trainer.failures import Failure
    from trainer.rollout import Rollouts

    before = set(os.listdir(tempfile.gettempdir()))
    player, sampler = Rollouts(env, PromptOptions(), env.split, max_tokens=10**9), Script()
    failed, other, marks = [], 0, []
    for first in range(0, len(told.tasks), SIZE):
        part = slice(first, first + SIZE)
        sampler.replies = told.replies[part]
        made = player.attempt(told.tasks[part], sampler, seed=0, first=first)
        assert len(made) == len(sampler.replies)
        for one, end in zip(made, told.ends[part], strict=True):
            if isinstance(one, Failure):
                failed.append(one)
            else:
                other += ([step.anchor for step in one.steps], one.outcome, one.success) != end
        marks.append(left())
        meanwhile()
    player._workers.kill() if env.processes else [one.close() for one in player.envs(1)]
    del player, made, one
    gc.collect()
    time.sleep(3)
    folders = len(set(os.listdir(tempfile.gettempdir())) - before)
    return failed, other, marks[len(marks) // 4], marks[-1], (*left()[:2], folders)


def left():
    """Open files, processes below this one, and resident memory of this one in MiB."""
    status = Path("/proc/self/statm").read_text().split()
    memory = int(status[1]) * resource.getpagesize() // 2**20
    return len(os.listdir("/proc/self/fd")), len(below(os.getpid())), memory


def below(process):
    """The processes that a process started, and that those started."""
    found = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                found += [int(child), *below(int(child))]
    return found


def soak(name, count):
    """A row of the table: the faults put in, what failed, and what was left behind."""
    from trainer.environments import Env

    options = OPTIONS.get(name, {})
    told = Episodes(Env("WebShop-v0" if name == "WebShopSite-v0" else name, **options), count)
    seconds = 15.0 if name == "WebShopSite-v0" else 2.0
    faulty = Env(
        name, processes=2, step_seconds=seconds, wrappers={"reliability:Fault": {}}, **options
    )
    began = time.monotonic()
    failed, other, early, late, after = play(faulty, told)
    took = time.monotonic() - began
    kinds = [next((k for k, word in WORDS.items() if word in one.error), "else") for one in failed]
    due = [
        kind
        for task, replies in zip(told.tasks, told.replies, strict=True)
        for kind, when in [drawn(task.seed)]
        if kind and when < len(replies)
    ]
    shares = ", ".join(f"{kinds.count(kind)} of {due.count(kind)} {kind}" for kind in FAULTS)
    if "else" in kinds:
        print(next(one for one, kind in zip(failed, kinds, strict=True) if kind == "else"))
    return (
        f"| `{name}` | {shares} | {kinds.count('else')} | {other} of {count - len(failed)} "
        f"| {early[0]}, {late[0]} | {early[1]}, {late[1]} | {early[2]}, {late[2]} "
        f"| {after[0]}, {after[1]}, {after[2]} | {took:.0f} |"
    )


if __name__ == "__main__":
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp()
    print(soak(sys.argv[1], int(sys.argv[2])))
