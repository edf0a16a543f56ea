"""A server of `agent-envs serve` over WebSockets: python benchmarks/serve.py [--seconds 5].

Speed of sessions of AlfWorld-v0 that play at the same time, from one client process; episodes over
the wire against local ones; forks; what is left of clients that are killed. CPU times are the
server's. Latencies have the client's own time in them, on a machine with few cores much of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

# A file beside this one has the name of a package.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402

import agent_envs  # noqa: E402, F401  registers the ids
from agent_envs_adapters.episodes import Episodes, TextEpisode  # noqa: E402
from agent_envs_adapters.remote import Remote  # noqa: E402
from trainer.play.environments import find_form  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = "import agent_envs_command; agent_envs_command.main()"
REPLIES = tuple(
    f"<think>Where is it?</think><action>{action}</action>"
    for action in ("look", "inventory", "go to desk 1", "examine desk 1", "open drawer 1", "help")
)
CODE = "<think></think>\n```python\nx = 1\n```"  # starts AppWorld's sandbox
KILLED = 20  # sessions of the client that is killed
NEEDS = ("AppWorld-v0", "SearchQA-v0", "Sotopia-v0", "WebShop-v0", "WikiSearch-v0")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=5.0, help="of each measured row")
    options.add_argument("--sessions", type=int, nargs="+", default=[1, 16, 64])
    options.add_argument("--only", default="", help="ids whose episodes are compared; with a comma")
    given = options.parse_args()
    with server("AlfWorld-v0", "max_turns=50") as (url, process):
        print(f"{'AlfWorld-v0':12} turns/s  p50 ms  p99 ms  CPU ms a turn  KB a session")
        asyncio.run(speed(url, 2, 1.0, process.pid))  # warm
        for sessions in given.sessions:
            print(asyncio.run(speed(url, sessions, given.seconds, process.pid)), flush=True)
    ids = [name for name, spec in gym.registry.items() if "agent_envs." in str(spec.entry_point)]
    wanted = given.only.split(",") if given.only else [one for one in ids if one not in NEEDS]
    print(f"\n{'':18}turns  equal over the wire  equal after forks")
    for name in wanted:
        with server(name) as (url, _):
            print(compared(name, url), flush=True)
    for name in ("AlfWorld-v0", "AppWorld-v1"):
        with server(name) as (url, process):
            print(f"\n{name}: {killed(url, process.pid)}", flush=True)


@contextmanager
def server(name: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server in a process of its own: its address and the process."""
    command = [sys.executable, "-c", COMMAND, "serve", name, *options, "--port", "0"]
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        try:
            ready = process.stdout.readline() if process.stdout else ""
            if " at " not in ready:
                raise SystemExit("the server did not start")
            yield ready.rpartition(" at ")[2].strip(), process
        finally:
            process.terminate()  # a background job has SIGINT ignored
            process.wait()


async def speed(url: str, sessions: int, seconds: float, pid: int) -> str:
    """A row of the table: sessions that play until the time is over."""
    from websockets.asyncio.client import connect

    lasted: list[float] = []
    before = memory(pid)

    async def play(place: int, opened: asyncio.Barrier) -> None:
        rng = random.Random(place)
        address = f"{url.replace('http', 'ws')}/ws"
        async with connect(address, compression=None, proxy=None) as socket:

            async def asked(kind: str, **data: Any) -> dict[str, Any]:
                await socket.send(json.dumps({"type": kind, "data": data}))
                answer: dict[str, Any] = json.loads(await socket.recv())
                return answer["data"]

            await asked("reset", seed=place)
            await opened.wait()
            while time.perf_counter() < until[0]:
                began = time.perf_counter()
                answer = await asked("step", reply=rng.choice(REPLIES))
                lasted.append(time.perf_counter() - began)
                if answer["done"]:
                    await asked("reset", seed=rng.randrange(1000))
            await opened.wait()

    until = [float("inf")]
    opened = asyncio.Barrier(sessions + 1)
    async with asyncio.TaskGroup() as tasks:
        for place in range(sessions):
            tasks.create_task(play(place, opened))
        grown: list[float] = []
        while opened.n_waiting < sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        grown.append(memory(pid) - before)
        used, began = cpu(pid), time.perf_counter()
        until[0] = began + seconds
        await opened.wait()
        while opened.n_waiting < sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        used, wall = cpu(pid) - used, time.perf_counter() - began
        await opened.wait()
    p50, p99 = 1e3 * np.quantile(lasted, [0.5, 0.99])
    rate, each = len(lasted) / wall, 1e3 * used / len(lasted)
    return (
        f"{sessions:3} sessions {rate:8.0f} {p50:7.1f} {p99:7.1f} {each:14.2f}"
        f" {grown[0] / sessions:13.0f}"
    )


def replies(played: TextEpisode, rng: random.Random) -> str:
    """A reply to a local episode: mostly an admissible action, sometimes nonsense."""
    inner: Any = played.env.unwrapped
    action = rng.choice([*played.info["admissible_actions"], "fly", "search[red shoes]", "look"])
    if rng.random() < 0.1:
        return action
    return find_form(inner).write(action, "so")


def compared(name: str, url: str) -> str:
    """Whether episodes over the wire are the local ones, and forks the originals."""
    source, turns, same, forks = Episodes(name), 0, True, True
    for seed in range(3):
        rng = random.Random(seed)
        local = source.start(seed=seed)
        with ExitStack() as stack:
            remote = stack.enter_context(Remote(url))
            remote.reset(seed=seed)
            same &= remote.message == local.message and remote.goal == local.goal
            players = [remote]
            while not local.done:
                if len(local.records) in {2, 4}:
                    players.append(stack.enter_context(remote.fork()))
                reply = replies(local, rng)
                local.step(reply)
                for player in players:
                    player.step(reply)
                    wanted = (local.message, local.done, local.records, local.outcome)
                    equal = (player.message, player.done, player.records, player.outcome) == wanted
                    if player is remote:
                        same &= equal
                    else:
                        forks &= equal
                turns += 1
        source.release(local)
    return f"{name:18}{turns:5}  {same!s:>19}  {forks!s:>17}"


def killed(url: str, pid: int) -> str:
    """What the server has before, with and after a client process that is killed."""
    rows = []
    with Remote(url) as first:  # what a server keeps: data, the warden of sandboxes
        first.reset(seed=1)
        first.step(CODE)
    settle(pid)
    rows.append(("before", *held(pid)))
    program = (
        "import sys, time\nfrom agent_envs_adapters.remote import Remote\n"
        f"open_ = [Remote({url!r}) for _ in range({KILLED})]\n"
        f"for one in open_: one.reset(seed=1); one.step({CODE!r})\n"
        "print('ready', flush=True); time.sleep(600)"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as client:
        if client.stdout:
            client.stdout.readline()
        rows.append((f"{KILLED} sessions", *held(pid)))
        client.kill()
    began = time.perf_counter()
    while held(pid) != rows[0][1:] and time.perf_counter() - began < 10:
        time.sleep(0.01)
    rows.append((f"killed, {1e3 * (time.perf_counter() - began):.0f} ms later", *held(pid)))
    head = f"{'':22}threads  files  processes"
    return "\n".join([head, *(f"{what:22}{a:7}{b:7}{c:11}" for what, a, b, c in rows)])


def settle(pid: int) -> None:
    """Wait until the server has no more sessions to close."""
    last, same = held(pid), 0
    while same < 20:
        time.sleep(0.05)
        same = same + 1 if held(pid) == last else 0
        last = held(pid)


def held(pid: int) -> tuple[int, int, int]:
    """Threads, open files and descendants of a process."""
    folder = Path(f"/proc/{pid}")
    return len(list(folder.glob("task/*"))), len(list(folder.glob("fd/*"))), descendants(pid)


def descendants(pid: int) -> int:
    """How many processes a process has started, with theirs."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = status.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(words[1]), []).append(int(status.parent.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return len(found) - 1


def cpu(pid: int) -> float:
    """CPU seconds of a process."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Resident memory of a process in KB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return float(status.partition("VmRSS:")[2].split()[0])


if __name__ == "__main__":
    main()
