"""README and tutorials with exactly the extras that they name; `.ci/extras` runs these tests.

The blocks of a tutorial run in order in one empty folder.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.extras]

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
PAGES = "".join((ROOT / page).read_text() for page in ("README.md", "docs/training.md"))
TRAINED = sorted({*re.findall(r"`(?:agent-envs train )?(\w+ \w+ pocket)`", PAGES)})
FEW = (
    "run.steps=1 sft.steps=0 sampling.tasks=2 sampling.rollouts=2 eval.tasks=2 eval.every=0 "
    "run.threads=1"
)
COMMAND = [sys.executable, "-c", "from agent_envs.cli import main; main()"]


def run(command, folder):
    child = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"HOME": str(folder), "PYTHONPATH": os.pathsep.join(["", *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


def same(shown, printed):
    """Whether a block shows what was printed; dots in a line of their own stand for any lines."""
    lines = [".*" if line == "..." else re.escape(line) for line in shown.splitlines()]
    return re.fullmatch("\n".join(lines), printed.rstrip("\n"), re.DOTALL) is not None


def outline(log):
    """The words of a run's log, without warnings; # for numbers, which depend on the machine.

    Where a line is broken depends on the width of the numbers in the table above it.
    """
    lines = [line for line in log.splitlines() if not line.startswith("warning: ")]
    return " ".join(re.sub(r"\d[\d,.:e-]*(?: s\b)?", "#", "\n".join(lines)).split())


def play(page, folder):
    """What each block of a page printed, which a block of text repeats; a named file is written."""
    said, trained = [], False
    text = (TUTORIALS / page).read_text(encoding="utf-8")
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if name := re.match(r"# file: (\S+)\n", block):
            (folder / name[1]).write_text(block)
        elif kind == "python":
            said.append(run([sys.executable, "-W", "error", "-c", block], folder))
            trained = False
        elif kind == "text" and trained:
            assert outline(said[-1]) == outline(block)
        elif kind == "text":
            assert same(block, said[-1]), said[-1]
        elif kind == "sh":
            for line in block.splitlines():
                program, *arguments = shlex.split(line)
                start = COMMAND if program == "agent-envs" else [sys.executable]
                said.append(run([*start, *arguments], folder))
                trained = arguments[0] == "train"
    return said


def test_first_agent(tmp_path):
    step, measured, model = play("first_agent.md", tmp_path)
    assert "False unknown" in step
    wanderer, explorer = re.findall(r"success (\d+)%", measured)
    assert int(wanderer) < int(explorer)
    assert model == "look True\n"


def test_own_trainer(tmp_path):
    (printed,) = play("own_trainer.md", tmp_path)
    success = dict(line.split() for line in printed.splitlines())
    assert success.keys() == {"reinforce", "grpo", "gigpo", "rtmc"}
    assert float(success["gigpo"]) > 0.6  # a policy that draws doors at random: one in three


def test_own_world(tmp_path):
    check, audit, ranking, trained = play("own_world.md", tmp_path)
    assert check == ""
    assert audit.startswith("contract of Patrol\nkept\n")
    assert "patrol:Gain" in ranking
    assert list(tmp_path.glob("runs/*/report.html")), trained


@pytest.mark.parametrize("recipe", TRAINED)
def test_readme_trains(recipe, tmp_path):
    run([*COMMAND, "train", *recipe.split(), *FEW.split()], tmp_path)
    assert list(tmp_path.glob("runs/*/report.html"))


def test_readme_names_recipes():
    assert len(TRAINED) >= 5
