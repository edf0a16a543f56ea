"""AppWorld's generated world and its sandbox: python benchmarks/appworld.py [--worlds 64].

Two tables. Times are wall time, and the CPU time of this process and of its children, per call:
on a machine that does other work only the latter tell of this code. Memory is what each world adds:
`RSS` with the pages that it shares with others, `own` without.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

# This file has the name of a package beside it.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402

import agent_envs  # noqa: E402, F401  registers the id
from agent_envs.appworld.experts import Oracle, write_solution  # noqa: E402
from agent_envs.appworld.mini import MiniWorld  # noqa: E402
from agent_envs.appworld.sandbox import start_warden  # noqa: E402
from agent_envs.appworld.world import FAMILIES, list_tasks, make_task  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TASK = "train-creditor+hosts+move-1"
CALL = "profile = apis.supervisor.show_profile()"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=300, help="of which a time is the mean")
    options.add_argument("--worlds", type=int, default=64, help="that run at once")
    given = options.parse_args()
    started, wall = timed(start_warden, 1)
    show(
        f"Python {sys.version.split()[0]}, the kernel enforces {started.enforced}; "
        f"the warden started in {1e3 * wall[0]:.0f} ms",
        "ms, mean of a call                    wall  CPU here  CPU of interpreters",
        speed(given.calls),
    )
    show(f"{given.worlds} worlds at once", "", together(given.worlds))


def show(title: str, head: str, rows: Iterator[str]) -> None:
    print(title, *([head] if head else []), sep="\n")
    for row in rows:
        print(f"  {row}", flush=True)
    print()


def speed(calls: int) -> Iterator[str]:
    world = MiniWorld()
    ids = iter([*list_tasks("train")] * (1 + calls // 200))

    def new() -> None:
        make_task.cache_clear()
        world.open(next(ids))

    def opened() -> None:
        world.open(TASK)

    def first() -> None:
        world.open(TASK)
        world.execute("x = 1")

    yield row("open a task never opened before", timed(new, min(calls, 300)))
    yield row("open a task again (reset, warm)", timed(opened, calls))
    yield row("open a task and execute", timed(first, calls))
    yield row("execute without API", timed(lambda: world.execute("x = 1"), calls))
    yield row("execute with one API call", timed(lambda: world.execute(CALL), calls))
    yield row("tests of the task", timed(world.evaluate, calls))
    env = gym.make("AppWorld-v1")
    yield row("env.reset", timed(lambda: env.reset(options={"task_id": TASK}), calls))
    yield row("env: an episode of 5 turns", timed(lambda: episode(env), min(calls, 100)))
    world.close()
    env.close()


def episode(env: gym.Env[str, str]) -> None:
    """The expert's episode."""
    env.reset(options={"task_id": TASK})
    for code in Oracle(env).plan():
        info = env.step(f"```python\n{code}\n```")[4]
    if not info["success"]:
        sys.exit(f"the expert failed: {info['failures']}")


def together(count: int) -> Iterator[str]:
    """Worlds that all have an interpreter, and play a task at the same time."""
    before = resident(os.getpid())
    worlds = [MiniWorld(timeout=300) for _ in range(count)]
    ids = [one for one in list_tasks("train") if not make_task(one).missing][:count]
    _, times = timed(lambda: spread(solve, worlds, ids), 1)
    if any(world.evaluate().failures for world in worlds):
        sys.exit("a solution failed")
    parts = [memory(pid) for pid in interpreters()]
    here = (resident(os.getpid()) - before) / count
    yield f"all play a task to success: {times[0]:.1f} s wall, {sum(times[1:]):.1f} s CPU"
    yield f"interpreters: {len(parts)}"
    yield f"RSS of an interpreter, mean {mean(parts, 0):.1f} MiB, own {mean(parts, 1):.1f} MiB"
    yield f"growth of this process for each world {here:.2f} MiB"
    for world in worlds:
        world.close()


def spread(work: Callable[..., Any], *given: Any) -> None:
    with ThreadPoolExecutor(len(given[0])) as threads:
        list(threads.map(work, *given))


def solve(world: MiniWorld, task_id: str) -> None:
    world.open(task_id)
    parts = zip(world.task.programme, world.task.given, strict=True)
    for code in write_solution([(FAMILIES[name], given) for name, given in parts]):
        world.execute(code)


def interpreters() -> list[int]:
    """Process numbers of the interpreters: those two below the warden's first process."""
    first = start_warden().pid
    return [pid for inner in children(first) for pid in children(inner)]


def children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def memory(pid: int) -> tuple[float, float]:
    """MiB of a process: all that is resident, and what it shares with no other."""
    told = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split()[0]: int(line.split()[1]) / 1024 for line in told[1:]}
    return sizes["Rss:"], sizes["Private_Clean:"] + sizes["Private_Dirty:"]


def mean(rows: list[tuple[float, float]], column: int) -> float:
    return sum(row[column] for row in rows) / max(len(rows), 1)


def row(name: str, times: tuple[Any, tuple[float, float, float]]) -> str:
    return f"{name:34}" + "".join(f"{1e3 * seconds:10.3f}" for seconds in times[1])


def timed(work: Callable[[], Any], calls: int) -> tuple[Any, tuple[float, float, float]]:
    """What the last call gave; seconds of a call: wall, CPU here, CPU of the warden's processes."""
    start, here, there = time.perf_counter(), time.process_time(), below()
    for _ in range(calls):
        result = work()
    spent = time.perf_counter() - start, time.process_time() - here, below() - there
    wall, cpu, other = (seconds / calls for seconds in spent)
    return result, (wall, cpu, other)


def below() -> float:
    """CPU seconds of the warden and of its interpreters, those that ended included."""
    ticks = os.sysconf("SC_CLK_TCK")
    started = start_warden().pid
    return (
        sum(
            sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
            for pid in (started, *children(started), *interpreters())
        )
        / ticks
    )


def resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
