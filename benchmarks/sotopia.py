"""Generated conversations: python benchmarks/sotopia.py [--data FOLDER] [--steps N] [--players].

Speed and memory of the environment through `gym.make`, with the whole info. Times are CPU time of
this process on one core. The talker asks, talks and offers random deals, and takes another task
each episode. With `--data` it plays a folder of the public scenes with the echo, without a judge.

With `--players` instead the share of successes of experts and of players that do not listen on all
tasks of `test` and `hard`; with `--dial` those on `test` by the number of facts.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

# This file has the name of a package beside it.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402

from agent_envs import expert  # noqa: E402  registers the ids
from agent_envs.experts import EXPERTS  # noqa: E402
from agent_envs.sotopia.games import FAMILIES, MOST  # noqa: E402
from agent_envs_lab.audits.sotopia import NON_SOLVERS, list_offers  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = (*reversed(EXPERTS), *NON_SOLVERS)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", default="", help="folder of public scenes")
    options.add_argument("--steps", type=int, default=20_000)
    options.add_argument("--tasks", type=int, default=80, help="of each family, for the players")
    options.add_argument("--players", action="store_true", help="successes of scripted players")
    options.add_argument("--dial", action="store_true", help="successes by the number of facts")
    given = options.parse_args()
    if given.players:
        print(*list_players(given.tasks), sep="\n")
    elif given.dial:
        print(*list_dial(given.tasks), sep="\n")
    else:
        print(f"Python {sys.version.split()[0]}; CPU time of one core\n")
        print(*measure_speed(given), sep="\n")


def make(given: argparse.Namespace, family: str = "all") -> gym.Env[str, str]:
    if given.data:
        options = {"split": "all", "partner": "echo", "judge": "none"}
        return gym.make("Sotopia-v0", data=given.data, **options)
    return gym.make("Sotopia-v1", family=family)


def list_players(tasks: int) -> Iterator[str]:
    """A table of successes by family and split."""
    yield f"| family | split | {' | '.join(NAMES)} |"
    yield "|---" * (len(NAMES) + 2) + "|"
    for split in ("test", "hard"):
        shares = []
        for family in FAMILIES:
            env = gym.make("Sotopia-v1", split=split, family=family)
            shares.append([count_successes(env, name, tasks) for name in NAMES])
            yield f"| `{family}` | {split} | {' | '.join(f'{one:.0%}' for one in shares[-1])} |"
        yield f"| all | {split} | {' | '.join(f'{one:.1%}' for one in np.mean(shares, axis=0))} |"


def list_dial(tasks: int) -> Iterator[str]:
    """A table of successes on `test` by the number of facts, mean of the families."""
    yield f"| facts | {' | '.join(NAMES)} |"
    yield "|---" * (len(NAMES) + 1) + "|"
    for facts in range(1, MOST + 1):
        shares = []
        for family in FAMILIES:
            env = gym.make("Sotopia-v1", split="test", family=family, constraints=facts)
            shares.append([count_successes(env, name, tasks) for name in NAMES])
        yield f"| {facts} | {' | '.join(f'{one:.1%}' for one in np.mean(shares, axis=0))} |"


def count_successes(env: gym.Env[str, str], name: str, tasks: int) -> float:
    """The share of successes of a player, seeds by task number."""
    won = 0
    for task in range(tasks):
        seen, info = env.reset(seed=task, options={"task": task})
        played = expert(env, name) if name in EXPERTS else None
        actor = NON_SOLVERS[name](np.random.default_rng(task)) if name in NON_SOLVERS else None
        done = False
        while not done:
            action = played.act() if played is not None else actor(seen, info)
            seen, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        won += info["success"]
    return won / tasks


def measure_speed(given: argparse.Namespace) -> Iterator[str]:
    env, seconds = measure(lambda: make(given))
    yield f"first gym.make                 {1e3 * seconds:10.1f} ms"
    count = min(500, given.steps)
    for again in ("first", "again"):
        resets = [measure(lambda s=seed: env.reset(seed=s))[1] for seed in range(count)]
        yield f"reset, mean of {count}, {again}      {1e3 * statistics.mean(resets):10.3f} ms"
    for family in ("all",) if given.data else ("all", *FAMILIES):
        env = make(given, family)
        walk(env, given.steps // 10)
        yield f"turns a second, {family:10}     {given.steps / walk(env, given.steps):10,.0f}"
    envs = [make(given) for _ in range(64)]
    for seed, one in enumerate(envs):
        walk(one, min(100, given.steps), seed=seed)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"peak memory of this process with 64 environments {most:9.0f} MiB"


def walk(env: gym.Env[str, str], steps: int, seed: int = 0) -> float:
    """CPU seconds of so many turns of a random talker, resets included."""
    rng = np.random.default_rng(seed)
    acts: dict[str, list[str]] = {}
    spent = done = 0.0
    while done < steps:
        start = time.process_time()
        observation, info = env.reset(seed=int(rng.integers(2**31)))
        spent += time.process_time() - start
        if info["task_id"] not in acts:
            acts[info["task_id"]] = list_acts(env, observation, info)
        some, ended = acts[info["task_id"]], False
        while not ended:
            start = time.process_time()
            act = some[rng.integers(len(some))]
            _, _, terminated, truncated, info = env.step(act)
            spent += time.process_time() - start
            ended = terminated or truncated
            done += 1
    return spent * steps / done


def list_acts(env: gym.Env[str, str], observation: str, info: dict[str, Any]) -> list[str]:
    """Acts of the talker in a scene."""
    inner: Any = env.unwrapped
    lines = [f"Line number {number}." for number in range(4)]
    if inner.talk.scene.game is None:
        return lines
    offers = list_offers(observation, info["goal"])[::9]
    asks = [f'{{"ask": "{topic}"}}' for topic in inner.game.topics]
    read = inner.game.read_offer
    write = inner.game.write_offer
    return lines + asks + [str({"offer": write(read(one))}).replace("'", '"') for one in offers[:6]]


def measure(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


if __name__ == "__main__":
    main()
