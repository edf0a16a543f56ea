"""What messages of measurements, studies and audits advise is done here."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from hallway import Hallway, alter

from agent_envs.testing.episodes import Start
from agent_envs_lab import fidelity
from agent_envs_lab.audits.anchors import audit_anchors
from agent_envs_lab.audits.comparisons import compare_generators
from agent_envs_lab.audits.rewards import Case, audit_checker
from agent_envs_lab.benchmark import find_estimator
from agent_envs_lab.learning import Settings, find_runs
from agent_envs_lab.truth import Truth
from agent_envs_lab.truth.figures import publish
from agent_envs_lab.truth.run import Plan, measure, source_of
from tests.remedies import follow
from trainer import recipe

SMALL = [
    "env.max_turns=3", "env.data=auto", "sampling.rollouts=6", "sampling.temperature=0.4",
    "sampling.max_reply_tokens=2", "run.threads=1",
]  # fmt: skip


def publish_truth(model, folder, option="", world="Sums", **plan):
    """Measure a truth in a folder, and raise what its table notes."""
    words = [*SMALL, f"env.id=worlds:{world}", f"policy.model={model}", *option.split()]
    given = Plan(**{"groups": 2, "reliability": 0.1, "most": 4.0, "fresh": 0} | plan)
    result = measure(recipe.load("alfworld mgr pocket", words), Path(folder), given, jobs=1)
    for line in publish(result, Path(folder)).splitlines():
        if ": raise --" in line:
            raise RuntimeError(line)


def draw(env, action):
    random.random()
    return Hallway.act(env, action)


def compare_draws(act):
    """Raise what is wrong with what an episode draws."""
    if found := compare_generators(alter(act=act), [Start(7), "left"]):
        raise RuntimeError(found)


def audit(max_turns):
    """Raise what an audit of anchors lacks."""
    said = str(audit_anchors(Hallway(max_turns=max_turns), tasks=2, episodes=2))
    if "no turns compared" in said:
        raise RuntimeError(said)


TRUTH = {"model": "{model}", "folder": "{at}/truth"}
REMEDIES = {
    "holds a truth with another {}; give another folder with --out": (publish_truth,
        TRUTH | {"groups": 3}, {"folder": "{at}/new"}),
    "holds a run, not a truth; give another folder with --out": (publish_truth,
        TRUTH | {"/truth/plan.json": None}, {"folder": "{at}/new"}),
    "{}; restore it, or give another folder with --out": (publish_truth,
        TRUTH | {"/truth/plan.json": "["}, {"folder": "{at}/new"},
        lambda found, at: {"/truth/plan.json": (at / "saved/plan.json").read_text()}),
    "has the rollouts of another measurement; restore it, or give another folder with --out": (
        publish_truth, TRUTH | {"folder": "{at}/other"}, {"folder": "{at}/new"},
        lambda found, at: shutil.copy(at / "saved/episodes.parquet", at / "other") and None),
    "does not fit the {} turns; delete it": (publish_truth,
        TRUTH | {"gradients": True, "folder": "{at}/graded"},
        lambda found, at: (at / "graded/gradients.npy").unlink()),
    "; set it to {}": (publish_truth, TRUTH | {"option": "env.processes=2"},
        lambda found, at: {"option": f"env.processes={found[1].split()[0]}"}),
    "measure it with --plain, which gives copies fresh noise, and another --out": (publish_truth,
        TRUTH | {"world": "Dice", "folder": "{at}/new"}, {"plain": True, "folder": "{at}/plain"}),
    "Either the world draws at random: measure it with --plain and another --out": (publish_truth,
        TRUTH | {"world": "Shared", "folder": "{at}/new"},
        {"world": "Sums", "folder": "{at}/mended"}),
    "raise --most, with another --out": (publish_truth,
        TRUTH | {"reliability": 0.88, "folder": "{at}/new"}, {"most": 60.0, "folder": "{at}/more"}),
    "A task and its seed must give one state: draw it from np_random": (publish_truth,
        TRUTH | {"world": "Opening", "folder": "{at}/new"},
        {"world": "Sums", "folder": "{at}/mended"}),
    "no truth at {}; `agent-envs truth` measures one": (Truth.load,
        {"path": "{at}/new/truth.parquet"}, {"path": "{at}/truth/truth.parquet"}),
    "measure it again, or install the agent-envs that made it": (Truth.load,
        {"path": "{at}/truth/truth.parquet", "/truth/truth.parquet": "x"},
        {"path": "{at}/saved/truth.parquet"}),
    "is neither a run nor a checkpoint; give a run folder": (lambda given: source_of(Path(given)),
        {"given": "{at}"}, {"given": "{model}"}),
    "measure more tasks": (fidelity.fidelity, {"advantage": np.arange(4.0),
        "truth": np.arange(4.0) % 3, "error": [0.1] * 4, "group": [0] * 4},
        {"group": [0, 0, 1, 1]}),
    "measure it with more rollouts": (fidelity.fidelity, {"advantage": np.arange(4.0),
        "truth": np.arange(4.0) % 3, "error": [9.0] * 4, "group": [0, 0, 1, 1]},
        {"error": [0.1] * 4}),
    "give your own as module:Name": (find_estimator, {"name": "mine"}, {"name": "credit:GRPO"}),
    "is damaged ({}); delete it": (
        lambda folder: find_runs(Settings("points"), ["grpo"], Path(folder)),
        {"folder": "{at}/runs", "/runs/grpo-0.json": "{"}, {"/runs/grpo-0.json": None}),
    "raise max_turns": (audit, {"max_turns": 1}, {"max_turns": 6}),
    "use self.np_random": (compare_draws, {"act": draw}, {"act": Hallway.act}),
    "give at least one of each family": (lambda cases: audit_checker(lambda given: True, cases),
        {"cases": []}, {"cases": [Case("a", "x", True)]}),
}  # fmt: skip


@pytest.fixture(scope="module")
def measured(tiny_folder, tmp_path_factory):
    """Finished truths of two seeds."""
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent / "truth")
        for name, option in (("truth", ""), ("other", "run.seed=5")):
            publish_truth(tiny_folder, folder / name, option)
        yield folder


@pytest.mark.long
@pytest.mark.parametrize("advice", REMEDIES)
def test_advice(advice, measured, tiny_folder, tmp_path, monkeypatch):
    def prepare(at):
        for name in ("truth", "saved", "other", "graded"):
            shutil.copytree(measured / "truth", at / name)
        shutil.copy(measured / "other/episodes.parquet", at / "other")
        np.save(at / "graded/gradients.npy", np.zeros((1, 3)))

    follow(advice, REMEDIES[advice], tmp_path, monkeypatch, prepare, model=tiny_folder)
