"""What a step of each method costs: python benchmarks/trainer.py [--steps N --tasks N --turns N].

Every method runs in a process of its own: three steps of 8 games x 8 rollouts of the pocket policy
on embedded AlfWorld, one thread, no evaluation; figures are of the steps after the first. Peak
memory is the process's resident set.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

# This file has the name of the package that it measures.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

METHODS = (
    *("grpo", "rloo", "gigpo", "empg", "mgr", "mgr_critic", "ppo"),
    *("has_progressive", "has_turnrd_film", "istar", "stapo"),
)


def ours(method: str, steps: int, tasks: int, turns: int) -> dict[str, float]:
    """Figures of our trainer on one method."""
    from trainer import metrics, recipe
    from trainer.train import train

    options = [
        f"run.steps={steps}", "run.threads=1", "sft.steps=0", "run.save_every=1000", "eval.tasks=1",
        f"sampling.tasks={tasks}", f"env.max_turns={turns}", "turnrd.round=1",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        train(recipe.load(f"study/{method}", options), Path(folder))
        lines = [x for x in metrics.read(Path(folder) / "metrics.jsonl") if x["stage"] == "rl"][1:]
    tokens, seconds = (sum(line[key] for line in lines) for key in ("tokens", "seconds"))
    sampling = sum(line["tokens"] / line["tokens_per_second"] for line in lines)
    return {
        "seconds a step": seconds / len(lines),
        "tokens a second": tokens / seconds,
        "of it sampling": sampling / seconds,
        "turns a step": sum(line["turns"] * line["episodes"] for line in lines) / len(lines),
    }


def alone(what: str, options: argparse.Namespace) -> dict[str, float]:
    """The figures of one method, from a process of its own."""
    command = [sys.executable, __file__, "--only", what, "--steps", str(options.steps)]
    command += ["--tasks", str(options.tasks), "--turns", str(options.turns)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{what} failed:\n{done.stderr[-3000:]}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--turns", type=int, default=20)
    options = parser.parse_args()
    if options.only:
        load = options.steps, options.tasks, options.turns
        told = ours(options.only, *load)
        told["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(told))
        return
    head = ("seconds a step", "turns a step", "tokens a second", "of it sampling", "peak MiB")
    print(f"{options.tasks} games x 8 rollouts, at most {options.turns} turns, one thread")
    print(f"{'':18}" + "".join(f"{name:>17}" for name in head))
    base = 0.0
    for what in METHODS:
        told = alone(what, options)
        base = base or told["seconds a step"] / told["turns a step"]
        cells = (f"{told[name]:17,.2f}" if name in told else f"{'':17}" for name in head)
        ratio = told["seconds a step"] / told["turns a step"] / base
        print(f"{what:18}" + "".join(cells) + f"   {ratio:.2f} x grpo a turn", flush=True)


if __name__ == "__main__":
    main()
