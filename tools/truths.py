"""Make the truth files of the credit benchmark: `python -m tools.truths FOLDER [NAME ...]`.

For each environment the pocket policy is measured as it is, and after some steps of reinforcement
learning. Runs and measurements are in FOLDER and go on where they were stopped; the files come to
src/credit/truths. Hours on two cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from credit.truth import Truth
from trainer import recipe

TRUTHS = Path(__file__).parents[1] / "src/credit/truths"
MADE = {
    "alfworld": ("mgr", 12),
    "appworld": ("mgr", 6),
    "ezpoints": ("gigpo", 6),
    "sokoban": ("gigpo", 10),
    "sotopia": ("grpo", 10),
    "webshop": ("gigpo", 6),
    "wiki": ("mt_grpo", 8),
}
"""The method and the steps that train the policy of each environment."""
STATES = ("start", "trained")


def main(folder: Path, names: list[str]) -> None:
    """Measure both policies of these environments and copy the truths."""
    for name in names:
        method, steps = MADE[name]
        words, run = [name, method, "pocket"], folder / name
        measure = ["--groups", "16", "--fresh", "16", "--gradients"]
        first = ["--groups", "24", "--gradients"] if name == "alfworld" else measure
        _call("truth", *words, *first, "--out", folder / f"{name}_start")
        options = [f"run.steps={steps}", "eval.every=1000", "run.threads=1"]
        _call("train", *words, *options, "--out", run, "--resume")
        _call("truth", *words, *measure, "--policy", run, "--out", folder / f"{name}_trained")
        for state in STATES:
            publish(folder, name, state)


def publish(folder: Path, name: str, state: str) -> None:
    """Copy a measured truth to those that ship, under a name that says what it is."""
    measured = folder / f"{name}_{state}"
    method, steps = MADE[name]
    told = "as it is" if state == "start" else f"after {steps} steps of {method}"
    truth = Truth.load(measured / "truth.parquet")
    model = recipe.load(measured).policy.model
    about = {**truth.about, "name": f"{name}, {told}", "policy": f"{model}, {told}"}
    replace(truth, about=about).save(TRUTHS / f"{name}_{state}.parquet")


def _call(*words: object) -> None:
    subprocess.run([Path(sys.executable).with_name("agent-envs"), *map(str, words)], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.truths", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the runs and measurements")
    parser.add_argument("name", nargs="*", help=f"of {', '.join(MADE)}; all by default")
    given = parser.parse_args()
    if unknown := set(given.name) - set(MADE):
        parser.error(f"no environment {', '.join(unknown)}; there are {', '.join(MADE)}")
    main(given.folder, given.name or list(MADE))
