"""What is lost when environments and servers fail.

    python benchmarks/reliability.py soak [--episodes 2000] [--only AlfWorld-v0]
    python benchmarks/reliability.py servers [--episodes 2000]

`soak` plays the experts' replies in every environment, in worker processes whose environments
raise, hang and die in some episodes; all other episodes must end as they do without faults.
`servers` ends and restarts what environments talk to: a retrieval server, a model's endpoint,
Chromium.
"""

# ruff: noqa: ANN001, ANN202, ANN002, ANN201, ANN204, ARG002, PTH208, S101
from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import gymnasium as gym
import numpy as np

# The last is this folder, because its trainer.py is not the package.
sys.path.sort(key=lambda path: Path(path).resolve() == Path(__file__).parent.resolve())

from agent_envs import expert
from agent_envs.experts import experts_of
from agent_envs.search_qa.world import open_world
from trainer.play.environments import Env

FAULTS = {"raise": 0.01, "hang": 0.005, "die": 0.0025}
"""Shares of the episodes."""
IDS = [
    name
    for name, spec in sorted(gym.registry.items())
    if str(spec.entry_point).startswith("agent_envs.")
    and name != "VisualSokoban-v0"
    and f"{spec.name}-v{spec.version + 1}" not in gym.registry
]
"""Without pictures, for which the script has no tokens, and public questions."""
STARTED = "import agent_envs_command; agent_envs_command.main()"
AGENT_ENVS = [sys.executable, "-c", STARTED]
HEAD = (
    "| environment | failed of those put in | others failed | ended otherwise "
    "| descriptors after a quarter, at the end | processes | MiB "
    "| afterwards: descriptors, processes, folders | seconds |\n" + "|---" * 9 + "|"
)
SERVERS_HEAD = (
    "| | failed | ended otherwise | descriptors after a quarter, at the end | MiB "
    "| afterwards: descriptors, processes, folders | seconds |\n" + "|---" * 7 + "|"
)
SIZE = 64  # episodes at the same time
DATA = tempfile.TemporaryDirectory()  # questions and passages for the retrieval server
WORDS = {"raise": "was put in", "hang": "step_seconds", "die": "exited with 3"}
OPTIONS = {
    "AppWorld-v1": {"max_turns": 12},
    "SearchQA-v1": {"max_turns": 5},
    "Sotopia-v1": {"max_turns": 12},
}


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
        from trainer.engine import Decoding

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

    async def reply(self, row, prompt):
        from trainer.engine import Reply

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
        from trainer.play.environments import PromptOptions, find_form, make_env
        from trainer.play.records import Task

        made = make_env(env, PromptOptions(), split=env.split)
        ids = made.unwrapped.panel.task_ids
        form, kind = find_form(made), next(iter(experts_of(type(made.unwrapped))))
        self.tasks = [Task(ids[n % len(ids)], n, n) for n in range(count)]
        self.replies, self.ends = [], []
        for task in self.tasks:
            _, info = made.reset(seed=task.seed, options={"task_id": task.task_id})
            player, done, replies, anchors = expert(made, kind), False, [], []
            while not done:
                anchors.append(info["anchor"])
                thought, action = player.think(), player.act()
                replies.append(form.write(action, thought))
                _, reward, ended, cut, info = made.step(replies[-1])
                done = ended or cut
            self.replies.append(replies)
            self.ends.append((anchors, float(reward), bool(info["success"])))
        made.close()


def play(env, told, meanwhile=lambda: None):
    """Give the replies again; failures by kind, episodes that ended otherwise, what was left."""
    from trainer.play.environments import PromptOptions
    from trainer.play.failures import Failure
    from trainer.play.rollout import Rollouts

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
                failed.append(str(one))  # its error holds what it was raised in
            else:
                other += ([step.anchor for step in one.steps], one.outcome, one.success) != end
        marks.append(left())
        meanwhile()
    for one in player.envs(min(SIZE, len(told.tasks))):
        one.close()
    del player, made, one, sampler
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
    options = OPTIONS.get(name, {})
    told = Episodes(Env("WebShop-v1" if name == "WebShopSite-v1" else name, **options), count)
    seconds = 15.0 if name == "WebShopSite-v1" else 2.0
    faulty = Env(
        name, processes=2, step_seconds=seconds, wrappers={"reliability:Fault": {}}, **options
    )
    began = time.monotonic()
    failed, other, early, late, after = play(faulty, told)
    took = time.monotonic() - began
    kinds = [next((k for k, word in WORDS.items() if word in one), "else") for one in failed]
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


# ---- servers, browsers, endpoints ----


class Talker(BaseHTTPRequestHandler):
    """A model's endpoint that refuses, fails, drips, or hangs up for some of the requests."""

    faults = 0.0
    rng = random.Random(0)
    said = json.dumps({"action_type": "speak", "argument": "I would rather not."})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        kind = (
            self.rng.choice(["429", "500", "drip", "gone"])
            if self.rng.random() < self.faults
            else ""
        )
        if kind in {"429", "500"}:
            self.send_error(int(kind))
        elif kind != "gone":
            message = {"role": "assistant", "content": self.said}
            body = json.dumps({"choices": [{"message": message}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for at in range(0, len(body), 40):
                self.wfile.write(body[at : at + 40])
                time.sleep(0.05 if kind == "drip" else 0)

    def log_message(self, *given):
        pass


class Server(ThreadingHTTPServer):
    """An endpoint on a port that it gets back after an absence."""

    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128


@contextmanager
def endpoint():
    """The address of an endpoint, and a function that takes it away for some seconds."""
    kept = [Server(("127.0.0.1", 0), Talker)]
    port = kept[0].server_port

    def run():
        threading.Thread(target=kept[0].serve_forever, args=(0.05,), daemon=True).start()

    def away(seconds):
        kept[0].shutdown()
        kept[0].server_close()
        threading.Timer(seconds, back).start()

    def back():
        kept[0] = Server(("127.0.0.1", port), Talker)
        run()

    run()
    yield f"http://127.0.0.1:{port}/v1", away
    kept[0].shutdown()


@contextmanager
def retrieval():
    """The address of a retrieval server, and a function that kills it for some seconds."""
    command = [*AGENT_ENVS, "retrieval", "serve", "--data", DATA.name, "--port"]
    open_world("train").export(Path(DATA.name))

    def start(port):
        process = subprocess.Popen([*command, port], stdout=subprocess.PIPE, text=True)
        return process, next(line.split()[1] for line in process.stdout if "serving" in line)

    kept, timer = start("0"), None

    def away(seconds):
        nonlocal timer
        kept[0].kill()
        kept[0].wait()
        timer = threading.Timer(seconds, back)
        timer.start()

    def back():
        nonlocal kept
        kept = start(str(urlsplit(kept[1]).port))

    try:
        yield kept[1], away
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()  # it may be starting a server
        kept[0].kill()
        kept[0].wait()


def served(what, env, told, meanwhile):
    """A row of the table of servers."""
    began, count = time.monotonic(), len(told.tasks)
    failed, other, early, late, after = play(env, told, meanwhile)
    if failed:
        print(failed[0])
    return (
        f"| {what} | {len(failed)} of {count} | {other} | {early[0]}, {late[0]} "
        f"| {early[2]}, {late[2]} | {after[0]}, {after[1]}, {after[2]} "
        f"| {time.monotonic() - began:.0f} |"
    )


def absences(count, away, seconds):
    """What is called after each wave: takes the server away four times."""
    waves, every = iter(range(10**9)), max(1, count // SIZE // 4)
    return lambda: away(seconds) if next(waves) % every == every // 2 else None


def retriever(count):
    """A retrieval server that is killed and started again."""
    with retrieval() as (url, away):
        env = Env("SearchQA-v0", data=DATA.name, max_turns=5, options={"retriever": url})
        told = Episodes(env, count)
        what = "retrieval server killed four times, back after 10 s"
        return served(what, env, told, absences(count, away, 10))


def partner(count):
    """A model's endpoint that fails, and goes away."""
    with endpoint() as (url, away):
        options = {"partner": f"openai:stub@{url}", "family": "bargain"}
        env = Env("Sotopia-v1", max_turns=6, options=options)
        told = Episodes(env, count)
        Talker.faults = 0.04
        what = "endpoint: 4% of requests fail, four times away for 60 s"
        return served(what, env, told, absences(count, away, 60))


def browser(count):
    """Chromium, whose processes are killed."""
    told = Episodes(Env("WebShop-v1"), count)
    over = threading.Event()

    def kill():
        rng = random.Random(0)
        while not over.wait(10):
            found = [one for one in below(os.getpid()) if b"chrom" in cmdline(one)]
            with suppress(ProcessLookupError, IndexError):
                os.kill(rng.choice(found), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    what = "a process of Chromium killed every 10 s"
    try:
        return served(what, Env("WebShopSite-v1"), told, lambda: None)
    finally:
        over.set()


SERVERS = (retriever, partner, browser)


def cmdline(process):
    """The command line of a process, empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def main():
    """Print one of the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=["soak", "servers"])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--only", default="", help="an environment, or a part of a row's name")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        tempfile.tempdir = os.environ["TMPDIR"] = place  # what is left behind is ours
        if given.table == "soak":
            print(HEAD)
            names = [name for name in IDS if given.only in {"", name}]
            rows = (soak(name, given.episodes) for name in names)
        else:
            print(SERVERS_HEAD)
            rows = (row(given.episodes) for row in SERVERS if given.only in row.__name__)
        for row in rows:
            print(row, flush=True)


if __name__ == "__main__":
    main()
