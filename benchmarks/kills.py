"""Trainings that are killed again and again, a full disk, a clock that jumps: what is lost.

    python benchmarks/kills.py [--signals 14] [--only critic]
    python benchmarks/kills.py --disk
    python benchmarks/kills.py --clock

Each kind of training is ended by 5 SIGKILL for every 2 SIGTERM, at random moments, and continued
every time; its log and weights are compared with those of a run that nothing ended. `--disk` trains
on a full disk, and continues when there is room; it needs root. `--clock` trains while every look
at the clock of the day, in all Python processes, finds another hour.
"""

# ruff: noqa: ANN001, ANN003, ANN201
from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import cycle, islice, pairwise
from pathlib import Path

# The last is this folder, because its trainer.py is not the package.
sys.path.sort(key=lambda path: Path(path).resolve() == Path(__file__).parent.resolve())

from reliability import AGENT_ENVS, below

SMALL = [
    *("run.save_every=3", "run.threads=1", "sampling.tasks=2"),
    *("sampling.rollouts=4", "eval.tasks=2", "eval.every=8", "sft.steps=3", "sft.episodes=8"),
    "env.max_turns=15",
]
PATTERN = ["SIGKILL", "SIGTERM", "SIGKILL", "SIGKILL", "SIGTERM", "SIGKILL", "SIGKILL"]
KINDS = {
    "critic": ["mgr", "credit.model=critic", "credit.models.critic.learning_rate=1e-3"],
    "TurnRD": ["has", "credit.model=turnrd"],
    "iStar": ["istar"],
    "worker processes": ["gigpo", "env.processes=2"],
    "two processes": ["mgr"],
}
JUMPS = """
import itertools, time

real, hours = time.time, itertools.cycle([0, 3600, -3600])
time.time = lambda: real() + next(hours)
"""


def training(kind, folder, steps, **variables):
    """A training of a kind, started in a session of its own, or continued."""
    method, *options = KINDS[kind]
    words = [
        "train",
        "alfworld",
        method,
        "pocket",
        *SMALL,
        *options,
        f"run.steps={steps}",
        "--out",
        str(folder),
        "--resume",
    ]
    start = AGENT_ENVS
    if kind == "two processes":
        run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        start = [
            *run,
            "--master-port",
            str(random.randrange(20_000, 60_000)),
            "--no-python",
            *AGENT_ENVS,
        ]
    return subprocess.Popen(
        [*start, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
    )  # fmt: skip


def whole(kind, folder, steps, **variables):
    """Train to the end."""
    process = training(kind, folder, steps, **variables)
    said, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(said)


def logged(folder):
    """Lines of the log."""
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def kills(kind, signals, steps):
    """A row of the table: signals, exit codes, and whether log and weights are the same."""
    rng, codes, odd = random.Random(kind), {}, []
    names = list(islice(cycle(PATTERN), signals))
    rng.shuffle(names)
    with tempfile.TemporaryDirectory() as place:
        one, cut = Path(place) / "whole", Path(place) / "cut"
        whole(kind, one, steps)
        same = []
        while names:
            process, due = training(kind, cut, steps), logged(cut) + rng.randrange(3)
            while process.poll() is None and logged(cut) < due:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 1.0))
            if process.poll() is None:
                name = names.pop()
                if name == "SIGTERM":
                    process.terminate()
                elif kind == "two processes" and rng.random() < 0.5:  # one of them alone
                    os.kill(rng.choice(below(process.pid) or [process.pid]), signal.SIGKILL)
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            key = f"{name} {process.returncode}"
            codes[key] = codes.get(key, 0) + 1
            odd += ["Traceback"] * ("Traceback" in said and kind != "two processes")
            if process.returncode == 0:
                same.append(alike(one, cut))
                shutil.rmtree(cut)
        whole(kind, cut, steps)
        same.append(alike(one, cut))
    shown = ", ".join(f"{key}: {number}" for key, number in sorted(codes.items()))
    return f"| {kind} | {shown} | {len(odd)} | {sum(same)} of {len(same)} |"


def alike(one, other):
    """Whether the logs, without clocks, and the last weights of two runs are the same."""
    return figures(one) == figures(other) and weights(one) == weights(other)


def lines_of(folder):
    """The lines of a log."""
    from trainer.run import metrics

    return metrics.read_log(folder / "metrics.jsonl")


def figures(folder):
    """The lines of a log without clocks."""
    from trainer.run.metrics import CLOCKS

    return [{k: v for k, v in x.items() if not k.endswith(CLOCKS)} for x in lines_of(folder)]


def weights(folder):
    """Digests of the last checkpoint's weights."""
    last = max((folder / "checkpoints").glob("step_*"), key=lambda path: int(path.name[5:]))
    files = json.loads((last / "manifest.json").read_text())["files"]
    return sorted((name, digest) for name, (_, digest) in files.items() if "safetensors" in name)


def disk(steps):
    """Train on a disk that fills up, and continue when there is room; needs root."""
    with tempfile.TemporaryDirectory() as place:
        one, full = Path(place) / "whole", Path(place) / "disk"
        full.mkdir()
        whole("critic", one, steps)
        size = sum(path.stat().st_size for path in one.rglob("*") if path.is_file())
        said = []
        with ExitStack() as mounted:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size // 4}", "none", full], check=True
            )
            mounted.callback(subprocess.run, ["umount", full], check=True)
            process = training("critic", full / "run", steps)
            said, _ = process.communicate()
            print(f"exit code {process.returncode}: {said.splitlines()[-1]}")
            subprocess.run(["mount", "-o", f"remount,size={4 * size}", full], check=True)
            whole("critic", full / "run", steps)
            print(f"continued to the same log and weights: {alike(one, full / 'run')}")


def clock(steps):
    """Train with worker processes while the clock jumps by hours."""
    with tempfile.TemporaryDirectory() as place:
        one, jumping = Path(place) / "whole", Path(place) / "jumping"
        whole("worker processes", one, steps)
        (Path(place) / "sitecustomize.py").write_text(JUMPS)
        path = os.pathsep.join([place, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        whole("worker processes", jumping, steps, PYTHONPATH=path)
        times = [line["time"] for line in lines_of(jumping)]
        back = sum(later < earlier for earlier, later in pairwise(times))
        print(f"{len(times)} lines of the log, {back} of them earlier than the line before")
        print(f"the same log and weights: {alike(one, jumping)}")


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--signals", type=int, default=14)
    parser.add_argument("--steps", type=int, default=16, help="of reinforcement learning")
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--disk", action="store_true")
    parser.add_argument("--clock", action="store_true")
    given = parser.parse_args()
    if given.disk or given.clock:
        (disk if given.disk else clock)(given.steps)
        return
    for kind in [given.only] if given.only else KINDS:
        print(kills(kind, given.signals, given.steps), flush=True)


if __name__ == "__main__":
    main()
