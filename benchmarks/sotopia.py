"""Conversations with scripted partners: python benchmarks/sotopia.py [--data FOLDER] [--steps N].

Two tables: the environment through `gym.make` with the whole info, rule judge included, and memory.
Times are CPU time of this process on one core. The talker proposes random deals with a reason, asks
a question now and then, and takes another task each episode. With `--data` it is a folder of the
public scenes, played with the echo and without a judge.

With `--talks N` instead: so many conversations of the explorer in each family of the split `test`,
as tables with the judge's seven scores and why the goal has its score.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

# This file has the name of a package beside it.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402

import agent_envs  # noqa: E402, F401  registers the id
from agent_envs.sotopia import explorer  # noqa: E402
from agent_envs.sotopia.families import FAMILIES  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ID = "Sotopia-v0"
SHORT = ("bel", "rel", "kno", "sec", "soc", "fin", "goal")  # the seven scores
QUESTIONS = 0.2  # share of lines that ask one


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", default="embedded", help="folder of public scenes, or embedded")
    options.add_argument("--steps", type=int, default=20_000)
    options.add_argument("--episodes", type=int, default=10_000, help="played to see growth")
    options.add_argument("--talks", type=int, default=0, help="conversations of each family")
    options.add_argument("--only", default="", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.talks:
        for family in FAMILIES:
            print(f"{family}\n", *talks(family, given.talks), "", sep="\n")
        return
    if given.only:
        print(*{"speed": speed, "memory": memory}[given.only](given), sep="\n")
        return
    print(f"{given.data}; Python {sys.version.split()[0]}; CPU time of one core\n")
    for head in ("speed", "memory"):
        print(head, *(f"  {row}" for row in child(given, head)), "", sep="\n", flush=True)


def child(given: argparse.Namespace, what: str) -> list[str]:
    """The rows of one table, from a process of its own."""
    command = [sys.executable, __file__, "--only", what, "--data", given.data]
    command += ["--steps", str(given.steps), "--episodes", str(given.episodes)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def make(given: argparse.Namespace, family: str = "all") -> gym.Env[str, str]:
    if given.data == "embedded":
        return gym.make(ID, data="embedded", family=family)
    return gym.make(ID, data=given.data, split="all", partner="echo", judge="none")


def talks(family: str, count: int) -> Iterator[str]:
    """A table of conversations, spread over the tasks of a family, each with its number as seed."""
    env = gym.make(ID, data="embedded", split="test", family=family)
    yield f"| task | partner | turns | {' | '.join(SHORT)} | why |"
    yield "|---" * (len(SHORT) + 4) + "|"
    tasks = env.unwrapped.panel.task_ids
    for number, task in enumerate(tasks[:: max(1, len(tasks) // count)][:count]):
        _, info = env.reset(seed=number, options={"task_id": task})
        done = False
        while not done:
            _, _, terminated, truncated, info = env.step(explorer(env).act())
            done = terminated or truncated
        scores = " | ".join(f"{score:.3g}" for score in info["scores"].values())
        temper = env.unwrapped.talk.scene.temper[1 - env.unwrapped.side]
        why = f"{info['reasons']['goal'].rstrip('.')}. {info['reasons']['relationship']}"
        yield f"| {task} | {temper} | {info['turn']} | {scores} | {why} |"


def speed(given: argparse.Namespace) -> Iterator[str]:
    env, seconds = timed(lambda: make(given))
    yield f"first gym.make                 {1e3 * seconds:10.1f} ms"
    for again in ("first", "again"):
        resets = [timed(lambda s=seed: env.reset(seed=s))[1] for seed in range(500)]
        yield f"reset, mean of 500, {again}      {1e3 * statistics.mean(resets):10.3f} ms"
    families = ("all", *FAMILIES) if given.data == "embedded" else ("all",)
    for family in families:
        env = make(given, family)
        walk(env, given.steps // 10)
        yield f"turns a second, {family:10}     {given.steps / walk(env, given.steps):10,.0f}"


def memory(given: argparse.Namespace) -> Iterator[str]:
    envs = [make(given) for _ in range(64)]
    for seed, env in enumerate(envs):
        walk(env, 100, seed=seed)
    yield f"peak memory of a process with 64 environments {peak():9.0f} MiB"
    before = 0.0
    rng = np.random.default_rng(0)
    for episode in range(given.episodes):
        play(envs[episode % 64], rng)
        if episode == given.episodes // 2:
            before = resident()
    yield (
        f"growth over the last {given.episodes // 2:,} of {given.episodes:,} episodes "
        f"{resident() - before:9.1f} MiB"
    )


def walk(env: gym.Env[str, str], steps: int, seed: int = 0) -> float:
    """CPU seconds of so many turns of a random talker, resets included."""
    rng = np.random.default_rng(seed)
    start, done = time.process_time(), 0
    while done < steps:
        done += play(env, rng)
    return (time.process_time() - start) * steps / done


def play(env: gym.Env[str, str], rng: np.random.Generator) -> int:
    """One episode of the random talker: its number of turns."""
    env.reset(seed=int(rng.integers(2**31)))
    inner: Any = env.unwrapped
    scene, side = inner.talk.scene, inner.side
    facts = scene.facts[side] or ("I say this because it is true.",)
    while True:
        line = facts[rng.integers(len(facts))]
        if scene.game is not None:
            deals = scene.game.deals
            line += f" I propose: {scene.game.tell(deals[rng.integers(len(deals))], side)}."
        if rng.random() < QUESTIONS:
            line += " What do you think?"
        _, _, terminated, truncated, info = env.step(line)
        if terminated or truncated:
            return int(info["turn"])


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
