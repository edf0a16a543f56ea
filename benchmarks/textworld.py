"""TextWorld-v0 beside plain TextWorld: python benchmarks/textworld.py [--walks 8] [--only KIND].

CPU time of this process on one core; both play the same commands of a game, in turns. A walk
follows TextWorld's solution in two turns of five and is random else. Plain TextWorld is asked for
what the environment reports: possible commands and solution.
"""

from __future__ import annotations

import argparse
import copy
import pickle
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

# This file's folder has files with the names of packages.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402

import agent_envs  # noqa: E402, F401  registers the ids
from agent_envs.textworld.games import KINDS, make_game, open_game  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

INFOS = ("feedback", "admissible_commands", "policy_commands", "score", "won", "lost", "moves")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=8, help="in the first test game of each kind")
    parser.add_argument("--only", default="", help="beginning of one kind")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"Python {sys.version.split()[0]}, textworld {version('textworld')}\n")
    print(
        "| kind | turns | plain, steps/s | TextWorld-v0, steps/s | ratio | plain start, ms | first "
        "reset of a game, ms | next reset, ms | deep copy, ms | pickle, KB |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    for kind in KINDS:
        if kind.startswith(given.only):
            env = gym.make("TextWorld-v0", split="test", kind=kind)
            print_row(kind, env, env.unwrapped.panel.task_ids[0], given.walks)


def cpu(work: Callable[[], Any], repeat: int = 1) -> float:
    """CPU milliseconds of one call."""
    start = time.process_time()
    for _ in range(repeat):
        work()
    return 1e3 * (time.process_time() - start) / repeat


def draw_walk(env: Any, reset: Callable[[], Any], seed: int) -> list[str]:
    """The commands of one episode."""
    rng, ended, walk = np.random.default_rng(seed), False, list[str]()
    _, info = reset()
    while not ended:
        policy, listed = env.unwrapped.play.policy, info["admissible_actions"]
        follows = policy and rng.random() < 0.4
        walk.append(policy[0] if follows else listed[int(rng.integers(len(listed)))])
        *_, terminated, truncated, info = env.step(walk[-1])
        ended = terminated or truncated
    return walk


def play(env: Any, reset: Callable[[], Any], walk: list[str]) -> None:
    reset()
    for command in walk:
        env.step(command)


def start_plain(task: str) -> Any:
    import textworld

    path = make_game(task).with_suffix(".z8")
    env = textworld.start(str(path), textworld.EnvInfos(**dict.fromkeys(INFOS, True)))
    env.reset()
    return env


def print_row(kind: str, env: Any, task: str, count: int) -> None:
    """Speeds in the same walks, and times of starts and copies."""

    def reset() -> Any:
        return env.reset(options={"task_id": task})

    make_game(task)
    walks = [draw_walk(env, reset, seed) for seed in range(count)]
    plain, spent = start_plain(task), np.zeros(2)
    for walk in walks:
        spent += (
            cpu(lambda w=walk: play(plain, plain.reset, w)),
            cpu(lambda w=walk: play(env, reset, w)),
        )
    turns = sum(map(len, walks))
    rates = 1e3 * turns / spent
    start = cpu(lambda: start_plain(task))
    open_game.cache_clear()
    times = start, cpu(reset), cpu(reset, 20), cpu(lambda: copy.deepcopy(env), 50)
    cells = (*rates, rates[1] / rates[0], *times, len(pickle.dumps(env)) / 1024)
    print(
        f"| `{kind}` | {turns:,} | " + " | ".join(f"{cell:.3g}" for cell in cells) + " |",
        flush=True,
    )


if __name__ == "__main__":
    main()
