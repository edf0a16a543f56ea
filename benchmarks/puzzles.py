"""Puzzles: python benchmarks/puzzles.py [--only sokoban|ezpoints] [--steps 100000] [--peer PYTHON].

A table a puzzle. Times are CPU time of one process on one core. With `--peer`, a Python that has
gym-sokoban 0.0.6 (`.ci/gym_sokoban` makes one), its figures stand beside ours, from the same run.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

# This file's folder has files with the names of packages.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402

import agent_envs  # noqa: E402, F401  registers the ids
from agent_envs.sokoban.rooms import Settings, draft_plan, furnish_plan  # noqa: E402
from agent_envs.sokoban.solver import BUDGET, choose_solver  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_envs.sokoban.board import Room

PLAYED = {  # options of a side
    6: {"boxes": 1, "max_turns": 15},
    8: {"boxes": 3, "max_solution": 60, "max_turns": 80},
    10: {"boxes": 4, "max_solution": 100, "max_turns": 120},
}
SIZES = {
    "6x6, 1 box": (Settings(), 2000),
    "6x6, 2 boxes": (Settings(6, 6, 2), 1000),
    "7x7, 2 boxes": (Settings(7, 7, 2, 3, 30), 500),
    "8x8, 3 boxes": (Settings(8, 8, 3, 3, 60), 100),
    "10x10, 4 boxes": (Settings(10, 10, 4, 3, 120), 50),
}
"""Settings and how many rooms are made of them."""

PEER = """
import random, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from gym_sokoban.envs.room_utils import generate_room
from gym_sokoban.envs.sokoban_env import SokobanEnv

def cpu(work, times):
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times

def room(side, boxes):  # as SokobanEnv.reset, without the picture
    while True:
        try:
            return generate_room((side, side), num_steps=int(1.7 * 2 * side), num_boxes=boxes)
        except (RuntimeError, RuntimeWarning):
            pass

random.seed(0)
np.random.seed(0)
for name, side, boxes, times in (("6x6, 1 box", 6, 1, 200), ("10x10, 4 boxes", 10, 4, 3)):
    print(name, cpu(lambda: room(side, boxes), times), sep="|")
env = SokobanEnv(dim_room=(6, 6), num_boxes=1, max_steps=10**9)
for name, mode in (("RGB", "rgb_array"), ("tiny", "tiny_rgb_array")):
    step = lambda: env.step(random.randint(1, 4), observation_mode=mode)
    print(name, 1 / cpu(step, 1000), sep="|")
"""


def draw_room(rng: np.random.Generator, settings: Settings) -> Room:
    """The room of the first plan that works out."""
    while isinstance(room := furnish_plan(rng, settings, draft_plan(rng, settings)), str):
        pass
    return room


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", choices=["", *TABLES])
    options.add_argument("--steps", type=int, default=100_000)
    options.add_argument("--peer", default="", help="a Python that has gym-sokoban 0.0.6")
    given = options.parse_args()
    print(f"Python {sys.version.split()[0]}; CPU time of one core")
    for name, table in TABLES.items():
        if given.only in ("", name):
            print(f"\n{name}", *(f"  {row}" for row in table(given)), sep="\n", flush=True)


def sokoban(given: argparse.Namespace) -> Iterator[str]:
    """Rooms, solver, steps and memory of Sokoban."""
    theirs = peer(given.peer)
    for name, (settings, most) in SIZES.items():
        count = max(1, min(most, given.steps // 50))
        rng = np.random.default_rng(0)
        draw_room(rng, settings)
        rooms, seconds = timed(
            lambda s=settings, n=count, r=rng: [draw_room(r, s) for _ in range(n)]
        )
        yield beside(f"a room, {name}, ms", 1e3 * seconds / count, 1e3 * theirs.get(name, 0.0))
        solved = [
            timed(lambda r=room: choose_solver(r, BUDGET).find_remaining(r.start)) for room in rooms
        ]
        took = [1e3 * seconds for _, seconds in solved]
        found = [left.actions for left, _ in solved if left.exact]
        gave_up = count - len(found)
        yield f"  solver, median and slowest, ms   {statistics.median(took):9.3f}{max(took):11.3f}"
        yield f"  median solution; given up on {statistics.median(found):13.0f}{gave_up:11}"
    env, seconds = timed(lambda: gym.make("Sokoban-v0"))
    yield beside("first gym.make, ms", 1e3 * seconds)
    seconds = walk(env, given.steps)
    yield beside("text steps a second, rooms made meanwhile", given.steps / seconds)
    for side, options in PLAYED.items():
        rooms = max(given.steps // 1000, 1)
        env = gym.make("Sokoban-v0", height=side, width=side, rooms=rooms, **options)
        for task in range(rooms):
            env.reset(options={"task": task})
        rate = given.steps / walk(env, given.steps, seed=1)
        yield beside(f"steps a second, {side}x{side}, {options['boxes']} boxes, rooms known", rate)
    for env_id, known in (("Sokoban-v0", "tiny"), ("VisualSokoban-v0", "RGB")):
        env = gym.make(env_id)
        walk(env, given.steps // 2)
        rate = given.steps / walk(env, given.steps, seed=1)
        kind = "text" if known == "tiny" else "RGB"
        yield beside(f"{kind} steps a second, rooms known", rate, theirs.get(known, 0.0))
    gc.collect()
    start = resident()
    envs = [gym.make("VisualSokoban-v0") for _ in range(64)]
    for seed, env in enumerate(envs):
        walk(env, min(200, given.steps), seed)
    yield beside("memory of 64 environments more, MiB", resident() - start)
    yield beside("peak memory of the process, MiB", peak())


def ezpoints(given: argparse.Namespace) -> Iterator[str]:
    """Steps of EZPoints, resets and their pictures included; the first drawing of the cards not."""
    steps = given.steps
    for reward in ("success", "rl4vlm"):
        seconds = offered(gym.make("EZPoints-v0", reward=reward), steps)
        yield f"text steps a second, {reward:8}    {steps / seconds:10,.0f}"
    env = gym.make("EZPoints-v0", observation="image")
    yield f"drawing all cards once           {1e3 * offered(env, min(2000, steps)):8,.0f} ms"
    yield f"picture steps a second           {steps / offered(env, steps):10,.0f}"


def offered(env: gym.Env[Any, str], steps: int) -> float:
    """CPU seconds of so many steps of a player who picks among what is offered."""
    picks = np.random.default_rng(0).integers(1 << 30, size=steps).tolist()
    _, info = env.reset(seed=0)
    start = time.process_time()
    for pick in picks:
        actions = info["admissible_actions"] or ["="]
        _, _, terminated, truncated, info = env.step(actions[pick % len(actions)])
        if terminated or truncated:
            _, info = env.reset()
    return time.process_time() - start


TABLES: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "sokoban": sokoban,
    "ezpoints": ezpoints,
}


def peer(python: str) -> dict[str, float]:
    """gym-sokoban's figures, measured by another Python; none without one."""
    if not python:
        return {}
    done = subprocess.run([python, "-c", PEER], capture_output=True, text=True, check=True)
    rows = (line.split("|") for line in done.stdout.splitlines() if line.count("|") == 1)
    return {name: float(value) for name, value in rows}


def beside(name: str, ours: float, theirs: float = 0.0) -> str:
    """A row: our figure, and where it is known gym-sokoban's and the larger by the smaller."""
    row = f"{name:42}{ours:12,.3f}"
    if not theirs:
        return row
    return f"{row}   gym-sokoban {theirs:12,.3f}   {max(ours, theirs) / min(ours, theirs):8,.0f} x"


def walk(env: gym.Env[Any, str], steps: int, seed: int = 0) -> float:
    """CPU seconds of so many random steps, resets included."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    words = info["admissible_actions"]
    draws = rng.integers(len(words), size=steps).tolist()
    start = time.process_time()
    for draw in draws:
        _, _, terminated, truncated, _ = env.step(words[draw])
        if terminated or truncated:
            env.reset()
    return time.process_time() - start


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
