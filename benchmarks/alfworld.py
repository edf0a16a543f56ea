"""AlfWorld's native engine beside the genuine one: python benchmarks/alfworld.py [--data FOLDER].

One table. Times are CPU time of this process on one core; where the extra [alfworld] is installed
the genuine engine plays the same games and commands in the same run, otherwise its column is empty.
Games are drawn evenly from a split; with `--data` the public ones, else the embedded set.
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

import agent_envs  # noqa: F401  registers the id
from agent_envs.alfworld import data as games
from agent_envs.alfworld.data import open_library
from agent_envs.alfworld.genuine import load_genuine_engine
from agent_envs.alfworld.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_envs.alfworld.data import Library

TURNS = 15

# This file has the name of the package that the genuine engine imports.
sys.path = [
    folder for folder in sys.path if Path(folder).resolve() != Path(__file__).parent.resolve()
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", default="embedded", help="folder of public games, or embedded")
    options.add_argument("--split", default="train")
    options.add_argument("--games", type=int, default=8, help="games on the genuine engine")
    options.add_argument("--tasks", type=int, default=100, help="of rates and memory")
    options.add_argument("--growth", type=int, default=10_000, help="games started to see growth")
    given = options.parse_args()
    library = open_library(given.data, given.split)
    tasks = library.panel.task_ids[:: max(1, len(library.panel) // 200)]
    few = tasks[:: max(1, len(tasks) // given.games)][: given.games]
    genuine = genuine_column(library, few)
    native = native_column(library, few)
    rows = [(name, native[name], genuine.get(name)) for name in native]
    table = [(name, *texts(mine, theirs)) for name, mine, theirs in rows]
    source = f"{len(library.panel)} games of {given.split}, {given.data}"
    print(f"{source}; Python {sys.version.split()[0]}; CPU time of one core\n")
    show([("the same games and commands", "native", "genuine", "ratio"), *table])
    print()
    show([("gym.make, whole info", "value"), *env_rows(given, tasks)])
    print()
    show([("memory and index", "value"), *memory_rows(given, library, tasks)])


def cpu(work: Callable[[], Any], repeat: int = 1) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - start) / repeat


def native_start(library: Library, task: str) -> World:
    """A game from its file to its first admissible list and anchor, nothing remembered."""
    games._load_game.cache_clear()  # noqa: SLF001
    world = World(library.load(task))
    _ = world.intro, world.admissible(), world.anchor()
    return world


def script(library: Library, task: str) -> list[str]:
    """Random admissible commands of a game."""
    world, rng, commands = native_start(library, task), np.random.default_rng(0), []
    for _ in range(TURNS):
        admissible = world.admissible()
        commands.append(admissible[rng.integers(len(admissible))])
        world.execute(commands[-1])
    return commands


def run(world: World, commands: list[str]) -> None:
    for command in commands:
        world.execute(command)
        world.admissible()


def native_column(library: Library, tasks: tuple[str, ...]) -> dict[str, float]:
    starts, steps = [], []
    for task in tasks:
        starts.append(cpu(lambda task=task: native_start(library, task), 20))
        world, commands = native_start(library, task), script(library, task)
        copies = [copy.deepcopy(world) for _ in range(200)]
        steps.append(cpu(lambda c=copies, s=commands: [run(w, s) for w in c]) / 200 / TURNS)
    return {"start, s": statistics.mean(starts), "step, s": statistics.mean(steps)}


def genuine_column(library: Library, tasks: tuple[str, ...]) -> dict[str, float]:
    try:
        start = load_genuine_engine()
    except ImportError as error:
        print(f"no genuine column: {error}", file=sys.stderr)
        return {}
    starts, steps = [], []
    for task in tasks:
        began = time.process_time()
        world = start(library, task, "0.4")
        starts.append(time.process_time() - began)
        commands = script(library, task)
        steps.append(cpu(lambda w=world, s=commands: run(w, s)) / TURNS)
    return {"start, s": statistics.mean(starts), "step, s": statistics.mean(steps)}


def env_rows(given: argparse.Namespace, tasks: tuple[str, ...]) -> list[tuple[str, str]]:
    """Steps a second of random play, without and with resets, and the time of a reset."""
    rows = []
    for progress in ("facts", "distance", "none"):
        env = gym.make("AlfWorld-v0", data=given.data, split=given.split, progress=progress)
        played = [rate_of(env, tasks[: min(60, given.tasks)], seed) for seed in range(3)]
        rows += [
            (f"progress={progress}, {what}", f"{statistics.median(values):,.0f}")
            for what, values in zip(
                (
                    "steps/s, resets left out",
                    "steps/s, a new game each episode",
                    "steps/s, eight episodes a game",
                    "µs a reset of a new game",
                    "µs a reset of the same game",
                ),
                zip(*played, strict=True),
                strict=True,
            )
        ]
    return rows


def rate_of(env: gym.Env[str, str], tasks: tuple[str, ...], seed: int) -> tuple[float, ...]:
    """Steps a CPU second of random play: without resets, with one of a new game, in groups of 8;
    microseconds of a reset of a new game and of the same one."""
    rng, steps, spent, first, again = np.random.default_rng(seed), 0, 0.0, 0.0, 0.0
    for task in tasks:
        games._load_game.cache_clear()  # noqa: SLF001
        first += cpu(lambda task=task: env.reset(options={"task_id": task}))
        again += cpu(lambda task=task: env.reset(options={"task_id": task}))
        info = env.reset(options={"task_id": task})[1]
        draws, ended = cycle(rng.random(64).tolist()), False
        start = time.process_time()
        while not ended:
            admissible = info["admissible_actions"]
            _, _, terminated, truncated, info = env.step(
                admissible[int(next(draws) * len(admissible))]
            )
            steps, ended = steps + 1, terminated or truncated
        spent += time.process_time() - start
    rates = steps / spent, steps / (spent + first), steps / (spent + (first + 7 * again) / 8)
    return (*rates, first / len(tasks) * 1e6, again / len(tasks) * 1e6)


def memory_rows(
    given: argparse.Namespace, library: Library, tasks: tuple[str, ...]
) -> list[tuple[str, str]]:
    """What a live environment holds after a game, what many games leave, and index times."""
    make = {"data": given.data, "split": given.split}
    env = gym.make("AlfWorld-v0", **make)
    env.reset(seed=0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    live = [played(gym.make("AlfWorld-v0", **make), task) for task in tasks[: given.tasks]]
    games._load_game.cache_clear()  # noqa: SLF001
    gc.collect()
    each = (tracemalloc.get_traced_memory()[0] - before) / len(live)
    del live
    tracemalloc.stop()
    for number in range(min(200, given.growth)):
        env.reset(options={"task": number % len(library.panel)})
    start = resident()
    for number in range(given.growth):
        env.reset(options={"task": number % len(library.panel)})
    grown = resident() - start
    rows = [
        ("KB a live game, environment included", f"{each / 1024:.0f}"),
        (f"KB grown over {given.growth:,} games", f"{grown / 1024:,.0f}"),
    ]
    if library.folder is not None:
        with tempfile.TemporaryDirectory() as cache:
            rows += [
                (f"index, {how}, s", f"{indexed(given, cache):.2f}")
                for how in ("nothing remembered", "remembered")
            ]
            kept = sum(file.stat().st_size for file in Path(cache).rglob("*.games"))
            rows.append(("MB of parsed games in the cache folder", f"{kept / 1e6:.1f}"))
    return rows


def played(env: gym.Env[str, str], task: str) -> gym.Env[str, str]:
    """An environment after fifty turns of one game."""
    rng = np.random.default_rng(0)
    _, info = env.reset(options={"task_id": task})
    for _ in range(50):
        admissible = info["admissible_actions"]
        *_, info = (step := env.step(admissible[rng.integers(len(admissible))]))
        if step[2]:
            break
    return env


def resident() -> int:
    """Resident bytes of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def indexed(given: argparse.Namespace, cache: str) -> float:
    """Seconds that a new process takes to list a split, imports not counted."""
    code = (
        "import sys, time; from agent_envs.alfworld.data import open_library\n"
        "start = time.perf_counter(); open_library(*sys.argv[1:])\n"
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code, str(Path(given.data).absolute()), given.split]
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def texts(mine: float, theirs: float | None) -> tuple[str, str, str]:
    """A row's figures; the ratio says how many times as fast the native engine is."""
    if theirs is None:
        return f"{mine:.3g}", "", ""
    return f"{mine:.3g}", f"{theirs:.3g}", f"{theirs / mine:,.0f}"


def show(table: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    main()
