"""Every benchmark measures, at tiny sizes: all of its tables, TRL's where that is installed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent.parent / "benchmarks"
# Name, with what tells it from others of its file: options, and a part of the last table.
QUICK = {
    "alfworld": ("--games 1 --tasks 1 --growth 4", "KB grown over 4 games"),
    "audit": ("--only EZPoints --scale 0.05", "| `EZPoints-v0` |"),
    "audit --rewards": ("--only EZPoints --rewards --scale 0.05", "says 2+10="),
    "bias": ("--rollouts 2", "`turn_rloo`"),
    "truth": ("--measurements 8", "| 4 × 6 "),
    "ladders": ("--only EZPoints --tasks 2 --seconds 60", "| `EZPoints-v0` | 2 |"),
    "serve": ("--seconds 0.3 --sessions 1 4 --only EZPoints-v0", "AppWorld-v1:"),
    "sotopia --players": ("--players --tasks 1", "| all | hard | 100.0% | 100.0% |"),
    "textworld": ("--walks 1 --only coin", "| `coin_collector` |"),
}
HEAVY = {  # those that take long at any size
    "appworld": ("--calls 2 --worlds 2", "growth of this process for each world"),
    "puzzles": ("--steps 50", "picture steps a second"),
    "sotopia": ("--steps 200", "peak memory of this process with 64 environments"),
    "credit": ("--turns 400", "gigpo similar"),
    "learning": ("exact --steps 2 --seeds 2",
                 "reversible: rank correlation of fidelity and success"),
    "gpu": ("--size tiny --rollouts 2 --turns 1 --steps 2", "resumed, seconds of its step"),
    "kills": ("--signals 1 --steps 1 --only critic", "| 0 | 1 of 1 |"),
    "kills --clock": ("--clock --steps 1", "the same log and weights: True"),
    "reliability": ("soak --episodes 64 --only EZPoints-v0", "| 0 | 0 of 6"),
    "reliability servers": ("servers --episodes 64 --only retriever", "| 0 of 64 | 0 |"),
    "rollout": ("--rows 2 --turns 1", "2048"),
    "search_qa": ("--queries 2 --requests 1 --vectors 300",
                  "answers identical to those in this process: True"),
    "trainer": ("--steps 2 --tasks 1 --turns 2 --methods mgr", "at most 2 turns, one thread"),
    "webshop": ("--steps 20 --episodes 8 --sizes 100", "a query asked before"),
}  # fmt: skip


def measure(name, *options):
    command = [sys.executable, FOLDER / f"{name.split()[0]}.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


OPENENV = [
    pytest.mark.openenv,
    pytest.mark.skipif(
        find_spec("openenv") is None,
        reason="needs openenv in an environment of its own; see .ci/openenv",
    ),
]


TEXTWORLD = [
    pytest.mark.foreign,
    pytest.mark.skipif(find_spec("textworld") is None, reason="see .ci/foreign"),
]
BESIDE = {"serve": OPENENV, "textworld": TEXTWORLD}


@pytest.mark.parametrize(
    ("name", "options", "shown"),
    [
        *(pytest.param(n, *row, marks=BESIDE.get(n, ())) for n, row in QUICK.items()),
        *(pytest.param(n, *row, marks=pytest.mark.long) for n, row in HEAVY.items()),
    ],
)
def test_a_benchmark_measures(name, options, shown):
    assert shown in measure(name, *options.split())


def test_every_benchmark_is_started():
    assert {name.split()[0] for name in QUICK | HEAVY} == {p.stem for p in FOLDER.glob("*.py")}


@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed")
def test_trl_takes_the_same_steps():
    load = ["--steps", "2", "--tasks", "1", "--turns", "2"]
    assert '"peak MiB"' in measure("trainer", "--only", "trl", *load).splitlines()[-1]
