"""Runs that learn: a room in seconds, and the quickstart, which CI runs beside the others."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from agent_envs import evaluation
from trainer import recipe
from trainer.learn.update import Update
from trainer.run.run_folder import RunFolder
from trainer.train import train

from .conftest import COLD, figures, quiet, tiny_tokenizer

EASY = [
    *COLD, "sft.steps=0", "run.steps=8", "run.save_every=99", "sampling.rollouts=6",
    "update.kl=none", "update.kl_coefficient=0.0", "update.kl_target=0.0", "eval.tasks=0",
    "eval.every=0", "env.max_turns=5",  # the longest task has no turn to spare
]  # fmt: skip


@pytest.mark.parametrize(
    "method",
    ["mgr", *(pytest.param(name, marks=pytest.mark.long) for name in ("grpo", "gigpo", "ppo"))],
)
def test_a_room_is_learned_in_8_steps(method, corridor, tiny_folder, tmp_path):
    """Half of the rollouts succeed at first, as from tossing a coin between the two actions."""
    options = [*EASY, f"policy.model={tiny_folder}", "prompt.goal=false"]  # as half are solved
    train(recipe.load(f"alfworld {method} pocket", options), tmp_path, console=quiet())
    (_, start), (_, end) = RunFolder(tmp_path).read_evaluations()
    assert (start.overall.share, end.overall.share) == (0.6, 1.0)
    success = [line["success"] for line in figures(tmp_path) if line["stage"] == "rl"]
    assert 0.4 <= success[0] <= 0.6
    assert min(success[-3:]) > 0.85


@pytest.mark.long
@pytest.mark.parametrize("context", ["history", "turn"])
def test_every_token_learns_from_the_credit_of_its_own_turn(
    context, corridor, tiny_folder, tmp_path, monkeypatch
):
    """A turn east gets 1 and any other -1, and so does every token that says so."""
    seen, update = [], Update.__call__

    def spy(self, learner, rows, **options):
        seen.extend(rows)
        return update(self, learner, rows, **options)

    def eastward(turns, rng):
        return np.where(turns.action == "east", 1.0, -1.0)

    monkeypatch.setattr(Update, "__call__", spy)
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(eastward=eastward))
    options = [*EASY, f"policy.model={tiny_folder}", "run.steps=1", "credit.name=mine:eastward"]
    options += [f"prompt.context={context}"]
    train(recipe.load("alfworld grpo pocket", options), tmp_path, console=quiet())
    tokenizer, east = tiny_tokenizer(), []
    for row in seen:
        for turn in set(row.turn):
            places = [place for place, its in enumerate(row.turn) if its == turn]
            east.append("east" in tokenizer.decode([row.ids[row.at[place]] for place in places]))
            assert {row.advantage[place] for place in places} == {1.0 if east[-1] else -1.0}
    assert 10 < sum(east) < len(east) - 10


@pytest.mark.long
def test_the_quickstart_learns_in_a_sixth_of_its_steps(tmp_path):
    chosen = recipe.load("alfworld mgr pocket", ["run.steps=5", "run.threads=1", "eval.every=0"])
    train(chosen, tmp_path, console=quiet())
    _, start, end = (found for _, found in RunFolder(tmp_path).read_evaluations())
    test = evaluation.compare_paired(start, end)
    assert end.overall.share > start.overall.share + 0.08
    assert test.p < 0.05
    assert end.valid > start.valid - 0.05
