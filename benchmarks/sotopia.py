"""Conversations with scripted partners: python benchmarks/sotopia.py [--data FOLDER] [--steps N].

Two tables: the environment through `gym.make` with the whole info, rule judge included, and memory.
Times are CPU time of this process on one core. The talker proposes random deals with a reason, asks
a question now and then, and takes another task each episode. With `--data` it is a folder of the
public scenes, played with the echo and without a judge.

With `--players` instead the share of successes of the scripted players on the splits `test` and
`hard`, those that do not listen included. With `--talks N` so many conversations of the Explorer
in each family of the split `test`, as tables with the judge's seven scores and why the goal has its
score. With `--fixed N` the best of N sequences of acts that do not look at what is said, found by
changing the best so far.
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

from agent_envs import expert  # noqa: E402  registers the id
from agent_envs.experts import EXPERTS  # noqa: E402
from agent_envs.sotopia.env import ACTS  # noqa: E402
from agent_envs.sotopia.families import FAMILIES, SUBJECTS, VARIANTS, draw_scene  # noqa: E402
from agent_envs_lab.audits.sotopia import NON_SOLVERS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ID = "Sotopia-v0"
SHORT = ("bel", "rel", "kno", "sec", "soc", "fin", "goal")  # the seven scores
GENERAL = 0.4  # share of a fixed sequence's lines that are of these
LINES = (
    "Hello, nice to meet you.", "Agreed.", "Can you do better?", "That is too much.",
    "Please, I need this because my family depends on it.", "What matters to you?", "Deal.",
    "Thank you, I appreciate it because it helps me a lot.", '{"action_type": "leave"}',
)  # fmt: skip
FOUND_ON = 48  # tasks that a fixed sequence is found on
QUESTIONS = 0.2  # share of lines that ask one


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", default="embedded", help="folder of public scenes, or embedded")
    options.add_argument("--steps", type=int, default=20_000)
    options.add_argument("--episodes", type=int, default=10_000, help="played to see growth")
    options.add_argument("--talks", type=int, default=0, help="conversations of each family")
    options.add_argument("--players", action="store_true", help="successes of scripted players")
    options.add_argument("--fixed", type=int, default=0, help="sequences tried in each family")
    options.add_argument("--only", default="", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.talks:
        for family in FAMILIES:
            print(f"{family}\n", *talks(family, given.talks), "", sep="\n")
        return
    if given.players:
        print(*players(), sep="\n")
        return
    if given.fixed:
        for family in FAMILIES:
            print(fixed(family, given.fixed), flush=True)
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
        explorer, done = expert(env), False
        while not done:
            _, _, terminated, truncated, info = env.step(explorer.act())
            done = terminated or truncated
        scores = " | ".join(f"{score:.3g}" for score in info["scores"].values())
        temper = env.unwrapped.talk.scene.temper[1 - env.unwrapped.side]
        why = f"{info['reasons']['goal'].rstrip('.')}. {info['reasons']['relationship']}"
        yield f"| {task} | {temper} | {info['turn']} | {scores} | {why} |"


def players() -> Iterator[str]:
    """Successes on all tasks of a split, and the mean reward under "weighted"."""
    names = (*reversed(EXPERTS), *NON_SOLVERS)
    yield f"| family | split | {' | '.join(names)} |"
    yield "|---" * (len(names) + 2) + "|"
    for family in FAMILIES:
        for split in ("test", "hard"):
            env = gym.make(ID, data="embedded", split=split, family=family, reward="weighted")
            cells = [won(env, name) for name in names]
            yield f"| {family} | {split} | {' | '.join(cells)} |"


def won(env: gym.Env[str, str], name: str) -> str:
    """Share of successes and mean reward of a player, seeds by task number."""
    results = []
    for task in range(len(env.unwrapped.panel)):
        seen, info = env.reset(seed=task, options={"task": task})
        played = expert(env, name) if name in EXPERTS else None
        actor = NON_SOLVERS[name](np.random.default_rng(task)) if name in NON_SOLVERS else None
        done = False
        while not done:
            action = played.act() if played is not None else actor(seen, info)
            seen, reward, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        results.append((info["success"], reward))
    success, paid = np.mean(results, axis=0)
    return f"{success:.0%} {paid:.2f}"


def fixed(family: str, tries: int) -> str:
    """Successes of the best fixed sequence, on the tasks that it was found on and on all."""
    rng = np.random.default_rng(0)
    some, every = (gym.make(ID, data="embedded", family=family, split=s) for s in ("train", "all"))
    tasks = rng.permutation(some.unwrapped.panel.task_ids)[:FOUND_ON].tolist()

    def line() -> str:
        if rng.random() < GENERAL:
            return LINES[rng.integers(len(LINES))]
        game = draw_scene(family, int(rng.integers(SUBJECTS * VARIANTS))).game
        deal = game.deals[rng.integers(len(game.deals))]
        return f"I propose: {game.wordings[int(rng.integers(2))].propose(deal)}."

    best, won = [line() for _ in range(ACTS // 2)], -1.0
    for number in range(tries):
        changed = set(rng.integers(len(best), size=1 + rng.integers(3)).tolist())
        # every fourth is a new one, so that the search is not stuck with its first
        new = [line() if at in changed or number % 4 == 0 else old for at, old in enumerate(best)]
        share = successes(some, tasks, new)
        if share >= won:
            best, won = new, share
    return (
        f"{family:10} {tries:,} sequences: {won:.0%} of {len(tasks)} tasks, and of all "
        f"{successes(every, every.unwrapped.panel.task_ids, best):.0%}; {' / '.join(best)}"
    )


def successes(env: gym.Env[str, str], tasks: Sequence[str], lines: list[str]) -> float:
    """Share of tasks that are won by saying these lines one after the other."""
    won = 0
    for number, task in enumerate(tasks):
        env.reset(seed=number, options={"task_id": task})
        for said in lines:
            _, _, terminated, truncated, info = env.step(said)
            if terminated or truncated:
                break
        won += info["success"]
    return won / len(tasks)


def speed(given: argparse.Namespace) -> Iterator[str]:
    env, seconds = timed(lambda: make(given))
    yield f"first gym.make                 {1e3 * seconds:10.1f} ms"
    count = min(500, given.steps)
    for again in ("first", "again"):
        resets = [timed(lambda s=seed: env.reset(seed=s))[1] for seed in range(count)]
        yield f"reset, mean of {count}, {again}      {1e3 * statistics.mean(resets):10.3f} ms"
    families = ("all", *FAMILIES) if given.data == "embedded" else ("all",)
    for family in families:
        env = make(given, family)
        walk(env, given.steps // 10)
        yield f"turns a second, {family:10}     {given.steps / walk(env, given.steps):10,.0f}"


def memory(given: argparse.Namespace) -> Iterator[str]:
    envs = [make(given) for _ in range(64)]
    for seed, env in enumerate(envs):
        walk(env, min(100, given.steps), seed=seed)
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
            line += (
                f" I propose: {scene.game.wordings[side].propose(deals[rng.integers(len(deals))])}."
            )
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
