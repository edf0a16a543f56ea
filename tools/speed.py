"""Compare the speed of this tree with that of another commit, `main` unless one is named.

python -m tools.speed [COMMIT] [--rounds 3] [--only WORD]

The trees play in turns, each measurement in a process of its own. Times are CPU time; of each the
best round counts, and of what seems slower the best of four times as many. A ratio is the rate of
this tree by that of the other, so more is better. Below 0.9 it is red, and the exit status is 1; it
is 77 where there is nothing to compare. Only public names are used; what the other tree lacks, or
does not play, is new. It measures imports, the first `gym.make` with a reset, steps with the resets
of new tasks, `Turns` with five methods, and an evaluation of a pocket policy as a command.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("AGENT_ENVS_TEST_DATA", ROOT.parent / "shared" / "data"))
RED = 0.9
NOT_RUN = 77  # exit status, as in tools/full.py
SECONDS = 1.0  # of a measured loop, at least
METHODS = ("grpo", "gigpo", "mgr", "stapo", "has")
ENVIRONMENTS = (
    "AlfWorld-v0", "AppWorld-v1", "EZPoints-v0", "Points-v0", "SearchQA-v1", "Sokoban-v0",
    "Sotopia-v1", "WebShop-v0", "WebShop-v1", "WikiSearch-v1",
)  # fmt: skip
FOLDERS = {"WebShop-v0": "webshop"}  # of public data
PARTS = (
    *(f"import {name}" for name in ("agent_envs", "credit", "trainer.train")),
    *(f"make {name}" for name in ENVIRONMENTS),
    *(f"steps {name}" for name in ENVIRONMENTS),
    *(f"credit {name}" for name in ("Turns", *METHODS)),
    "rollouts",
)


def measure(part: str) -> float:
    """The rate of a part in this process: how often a CPU second does it.

    Raises:
        LookupError: This tree has no such environment or method.
    """
    what, _, name = part.partition(" ")
    if what == "import":
        start = time.process_time()
        __import__(name)
        return 1 / (time.process_time() - start)
    if what in {"make", "steps"}:
        return measure_environment(name, first=what == "make")
    if what == "credit":
        return measure_credit(name)
    return measure_rollouts()


def repeat(act: Callable[[], object], count: int = 1) -> float:
    """How many of the `count` things that a call does a CPU second does, at the best call."""
    best, end = float("inf"), time.process_time() + SECONDS
    while best == float("inf") or time.process_time() < end:
        start = time.process_time()
        act()
        best = min(best, time.process_time() - start)
    return count / best


def measure_environment(name: str, *, first: bool) -> float:
    """Steps with resets by an expert's actions, known before; or the first `make` and reset."""
    import gymnasium as gym

    import agent_envs

    if name not in gym.registry:
        raise LookupError(name)
    options: dict[str, Any] = {"data": str(DATA / FOLDERS[name])} if name in FOLDERS else {}
    start = time.process_time()
    env = gym.make(name, **options)
    env.reset(seed=0, options={"task": 0})
    if first:
        return 1 / (time.process_time() - start)
    lines: list[tuple[int, list[str]]] = []
    count = 0
    for task in range(20):
        env.reset(seed=task, options={"task": task})
        player = agent_envs.expert(env, "oracle" if name in FOLDERS else "explorer")
        done = False
        actions: list[str] = []
        while not done:
            actions.append(player.act())
            *_, terminated, truncated, _ = env.step(actions[-1])
            done = terminated or truncated
        lines.append((task, actions))
        count += len(actions)

    def play() -> None:
        for task, actions in lines:
            env.reset(seed=task, options={"task": task})
            for action in actions:
                env.step(action)

    return repeat(play, count)


def measure_credit(name: str) -> float:
    """Batches of 512 trajectories of 20 turns a second."""
    import numpy as np

    import credit

    if name != "Turns" and name not in credit.names():
        raise LookupError(name)
    rng, tasks, length = np.random.default_rng(0), 64, 20
    count = 8 * tasks
    columns: dict[str, Any] = {
        "group": np.repeat(np.arange(tasks), 8),
        "outcome": rng.integers(0, 2, count).astype(float),
        "goal": [f"goal {i // 8}" for i in range(count)],
        "trajectory": np.repeat(np.arange(count), length),
        "reward": np.zeros(count * length),
        "valid": rng.random(count * length) < 4 / 5,
        "progress": np.tile(np.arange(1, length + 1) / length, count),
        "anchor": [f"state {i}" for i in rng.integers(0, 50, count * length)],
        "action": [f"go to room {i}" for i in rng.integers(0, 10, count * length)],
    }
    turns: Any = credit.Turns(**columns)
    if name == "Turns":
        return repeat(lambda: credit.Turns(**columns))
    method = credit.make(name)
    return repeat(lambda: method(turns, rng))


def measure_rollouts() -> float:
    """Evaluations of a pocket policy on 16 games a second, with all that the command starts."""
    program = "import agent_envs_command; agent_envs_command.main()"
    command = [sys.executable, "-c", program, "eval", "pocket", "eval.tasks=16"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    if "16 tasks" not in done.stdout:
        raise RuntimeError(f"no evaluation of 16 tasks:\n{done.stdout}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1 / (used.ru_utime + used.ru_stime)


def ask_tree(tree: Path, part: str) -> float | None:
    """The rate of a part with the packages of a tree; None where it has or plays no such thing."""
    env = os.environ | {
        "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}",
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore",
        "PYTHONDONTWRITEBYTECODE": "",  # else the other tree would be compiled at every start
    }  # fmt: skip
    command = [sys.executable, str(Path(__file__)), "--measure", part]
    done = subprocess.run(
        command, cwd=tree, env=env, check=False, capture_output=True, text=True, timeout=600
    )
    if done.returncode and tree == ROOT:
        raise RuntimeError(f"{part}:\n{done.stderr[-2000:]}")
    if done.returncode:
        print(f"{part} does not run there: {done.stderr.strip().rpartition(chr(10))[2][:80]}")
        return None
    rate: float | None = json.loads(done.stdout.splitlines()[-1])
    return rate


def compare_trees(other: Path, parts: list[str], rounds: int) -> bool:
    """Print the best rates of both trees and their ratios; whether none is red."""
    red, compared = False, 0
    print(f"{'part':22} {'before':>10} {'now':>10} {'ratio':>6}")
    for part in parts:
        best: dict[Path, float] = {}
        for number in range(4 * rounds):
            for tree in (ROOT, other)[:: 1 if number % 2 else -1]:
                if (rate := ask_tree(tree, part)) is not None:
                    best[tree] = max(best.get(tree, 0.0), rate)
            seems_slower = 0 < best.get(ROOT, 0.0) < RED * best.get(other, 0.0)
            if number + 1 >= rounds and not seems_slower:
                break
        if ROOT in best and other in best:
            compared += 1
            ratio = best[ROOT] / best[other]
            red |= ratio < RED
            end = f"{best[other]:10.4g} {best[ROOT]:10.4g} {ratio:6.2f}{'  RED' * (ratio < RED)}"
        else:
            end = f"{'-':>10} {best.get(ROOT, 0):10.4g}    new" if ROOT in best else "gone"
        print(f"{part:22} {end}", flush=True)
    if not compared:
        print("there is nothing that both trees play")
        sys.exit(NOT_RUN)
    return not red


def main() -> None:
    """Measure a part in this process, or compare two trees."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("commit", nargs="?", default="main")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="parts with this in their name")
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        try:
            print(json.dumps(measure(given.measure)))
        except LookupError:
            print("null")
        return
    git = ["git", "-C", str(ROOT)]
    known = [*git, "rev-parse", "--quiet", "--verify", f"{given.commit}^{{commit}}"]
    if subprocess.run(known, check=False, stdout=subprocess.DEVNULL).returncode:
        print(f"there is no commit {given.commit} here: name the one to compare with")
        sys.exit(NOT_RUN)
    if not subprocess.run(
        [*git, "diff", "--quiet", given.commit, "--", "src"], check=False
    ).returncode:
        print(f"src is that of {given.commit}: there is nothing to compare")
        sys.exit(NOT_RUN)
    parts = [part for part in PARTS if given.only in part]
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other")
        subprocess.run(
            [*git, "worktree", "add", "-q", "--detach", str(other), given.commit], check=True
        )
        try:
            fine = compare_trees(other, parts, given.rounds)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(other)], check=True)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
