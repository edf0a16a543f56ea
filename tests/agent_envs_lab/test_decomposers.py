"""Two decomposers on the same trajectories: decisive turns by hand, and runs of HAS with TurnRD."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import credit
from agent_envs_lab.attribution import play_panel
from agent_envs_lab.decomposers import (
    compare_credits,
    compare_decomposers,
    credit_turns,
    find_checkpoint,
    find_decisive,
    rank_decomposer,
)
from agent_envs_lab.papers.lab import read_lab
from agent_envs_lab.truth import Truth
from credit.stats import standardize
from tests.credit.batches import batch
from tests.trainer.conftest import METHODS, quiet, short
from trainer import recipe
from trainer.errors import RecipeError
from trainer.play.episode_files import write_episodes
from trainer.run.checkpoint import CheckpointError
from trainer.train import train


def test_the_decisive_turn_is_the_best_of_a_success_and_the_worst_of_a_failure():  # App. A
    turns = batch([3, 2, 3], [1.0, 0.0, 0.0], [0, 0, 0])
    success = np.array([True, False, False])
    one = np.array([-0.9, 0.8, 0.1, 1.2, -0.9, 0.4, -0.4, -0.4])
    other = np.array([0.5, 0.5, 0.0, 0.3, 0.1, -0.1, 0.2, -0.1])
    assert find_decisive(one, turns, success).tolist() == [1, 1, 1]
    assert find_decisive(other, turns, success).tolist() == [0, 1, 0]
    _, same = compare_credits(one, other, turns, success)
    assert same.tolist() == [0, 1, 0]


def test_the_correlation_of_two_credits_by_hand():
    turns, success = batch([2, 2], [1.0, 0.0], [0, 0]), np.array([True, False])
    one, other = np.array([-1.0, 0.0, 1.0, 0.0]), np.array([-1.0, 1.0, 1.0, -1.0])
    # both are centered: (1 + 1) / sqrt(2 * 4)
    related, _ = compare_credits(one, other, turns, success)
    assert related.tolist() == pytest.approx([0.5**0.5])
    assert compare_credits(one, np.ones(4), turns, success)[0].tolist() == [0.0]


@pytest.fixture(scope="module")
def runs(corridor, tiny_folder, tmp_path_factory):
    """Runs of HAS with TurnRD, with the goal and without, in their third round."""
    folder = tmp_path_factory.mktemp("has")
    brief = ["sft.steps=0", "run.steps=3", "run.save_every=3", "eval.every=0"]
    for name, goal in (("aware", "true"), ("blind", "false")):
        options = [*METHODS["has"], f"credit.models.turnrd.goal={goal}", *brief]
        train(short(tiny_folder, *options), folder / name, console=quiet())
    return folder


@pytest.mark.long
def test_the_turnrd_of_two_runs_on_the_trajectories_of_one(runs, tmp_path):
    made = recipe.load(runs / "aware")
    found = compare_decomposers(runs / "aware", made, runs / "blind")
    assert found.keys() == {
        "turnrd_drift", "correlation_progress", "decisive_progress", "correlation_other",
        "decisive_other",
    }  # fmt: skip
    policy, episodes = play_panel(made, find_checkpoint(runs / "aware"))
    turns = credit.Turns.from_episodes(episodes)
    shares = credit_turns(runs / "aware", made, policy, episodes)
    sums = np.bincount(turns.trajectory, shares, len(turns.group))
    assert sums == pytest.approx(turns.outcome)
    assert found["turnrd_drift"][0] == np.abs(sums - turns.outcome).max()
    assert len(found["decisive_other"]) == len(episodes) == made.eval.tasks
    again = compare_decomposers(
        runs / "aware", made, shutil.copytree(runs / "aware", tmp_path / "a")
    )
    assert again["correlation_other"][0] == pytest.approx(1.0)
    assert again["decisive_other"].all()


@pytest.mark.long
def test_the_command_adds_them_to_the_measures_of_a_run(runs, call, tmp_path):
    blind, aware = runs / "blind", runs / "aware"
    code, out, _ = call("attribute", blind, "--against", aware, "--out", tmp_path / "lab.json")
    assert code == 0
    assert "decisive_other" in out
    found = compare_decomposers(blind, recipe.load(blind), aware)
    for name, values in found.items():
        assert read_lab(tmp_path, name)[0] == pytest.approx(values.mean(), abs=1e-9)


@pytest.mark.long
def test_what_cannot_be_compared_is_refused(runs, tiny_folder, tmp_path):
    made = recipe.load(runs / "aware")
    plain = short(tiny_folder)
    recipe.save(plain, tmp_path / "config.toml")
    with pytest.raises(
        RecipeError, match=rf"{tmp_path} has no trained TurnRD; name a run of `has`"
    ):
        compare_decomposers(runs / "aware", made, tmp_path)
    with pytest.raises(RecipeError, match="has no trained TurnRD"):
        compare_decomposers(runs / "aware", replace(made, credit=plain.credit))
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        find_checkpoint(tmp_path)


@pytest.mark.long
def test_turnrds_credit_is_ranked_by_a_measured_truth(runs, call, tmp_path):
    """Of a truth that is the credit itself, turn by turn, known without error."""
    run = shutil.copytree(runs / "aware", tmp_path / "run")
    made = recipe.load(run)
    policy, episodes = play_panel(made, find_checkpoint(run), rollouts=8)
    turns = credit.Turns.from_episodes(episodes)
    shares = credit_turns(run, made, policy, episodes)
    parts = np.split(shares, np.flatnonzero(turns.position == 0)[1:])
    after = np.concatenate([part.cumsum() for part in parts])
    (run / "truth").mkdir()
    columns = {"value_before": after - shares, "value_after": after}
    columns |= {"first": shares, "second": shares, "error": np.zeros(len(turns))}
    truth = Truth(turns=turns, **columns)
    truth.save(run / "truth" / "truth.parquet")
    write_episodes(run / "truth" / "episodes.parquet", episodes)
    plan = run / "truth" / "plan.json"
    plan.write_text(json.dumps({"policy": str(find_checkpoint(run))}))
    code, out, _ = call("attribute", run)
    assert code == 0
    assert rank_decomposer(run, made) in out
    alone = standardize(shares, turns.segment_ids("position"))
    both = (standardize(turns.outcome, turns.group)[turns.trajectory] + alone) / 2
    for name, advantage in (("TurnRD alone", alone), ("has, by TurnRD", both)):
        found = float(re.search(rf"{name} +(\S+)", out)[1])
        assert found == pytest.approx(np.corrcoef(advantage, shares)[0, 1], abs=0.006)
    plan.write_text(json.dumps({"policy": "/before/step_2"}))
    _, out, _ = call("attribute", run)
    assert "truth.parquet is of step_2, not of step_3: left out" in out
    assert "TurnRD alone" not in out
    assert "true_advantage" not in out
