"""The bench of learning: paired runs that go on, their differences, and that credit teaches."""

import json
from dataclasses import replace

import numpy as np
import pytest

import credit
from agent_envs_lab import learning
from agent_envs_lab.learning import Run, Settings

SMALL = ["--steps", "2", "--tasks", "2", "--rollouts", "2", "--seeds", "2"]


@pytest.fixture(autouse=True)
def few_held_out(monkeypatch):
    monkeypatch.setattr(learning, "HELD_OUT", 2)


@pytest.mark.parametrize("name", learning.WORLDS)
def test_a_comparison_goes_on_where_it_stopped(name, tmp_path, capsys):
    arguments = [name, "signal", "has, by anchor", "--out", str(tmp_path), *SMALL]
    learning.main(arguments)
    first = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("seed ") for line in first) == 6
    assert first[6] == "2 seeds"
    assert {line.split(" | ")[0] for line in first[9:]} == {
        "| grpo",
        "| signal",
        "| has, by anchor",
    }
    lost = tmp_path / "signal-1.json"
    told = json.loads(lost.read_text())
    lost.unlink()
    learning.main(arguments)
    again = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in again[:-6]] == ["seed 1, signal"]
    assert again[-6:] == first[6:]  # the same run again
    assert json.loads(lost.read_text())["run"]["curve"] == told["run"]["curve"]


def test_runs_of_other_settings_and_unknown_names_are_refused(tmp_path, capsys):
    learning.main(["points", "--out", str(tmp_path), *SMALL])
    for words, told in (
        (["points", *SMALL, "--rate", "0.5"], "give another --out"),
        (["pints", *SMALL], "unknown world 'pints'; did you mean 'points'"),
        (["points", "sygnal", *SMALL], "did you mean 'signal'"),
        (["points", *SMALL, "--seeds", "0"], "'0' is not a whole number of at least 1"),
        (["points", *SMALL, "--first", "-1"], "'-1' is not a whole number of at least 0"),
        (["points", *SMALL, "--rate", "nan"], "'nan' is not a finite number above 0"),
    ):
        with pytest.raises(SystemExit, match="2"):
            learning.main([*words, "--out", str(tmp_path)])
        assert told in capsys.readouterr().err


def test_a_method_without_its_columns_is_left_out(tmp_path, capsys):
    learning.main(["points", "istar", "rloo", "--out", str(tmp_path), *SMALL])
    told = capsys.readouterr()
    assert told.err.startswith("istar is left out: ")
    assert "| rloo | " in told.out
    assert "istar" not in told.out


def test_a_damaged_run_is_named(tmp_path, capsys):
    (tmp_path / "grpo-0.json").write_text("{")
    with pytest.raises(SystemExit, match="2"):
        learning.main(["points", "--out", str(tmp_path), *SMALL])
    assert "grpo-0.json is damaged" in capsys.readouterr().err


def test_credit_for_the_right_symbol_teaches_and_for_the_wrong_one_unteaches():
    world = learning.WORLDS["points"]
    settings = Settings("points", steps=12, tasks=8, rollouts=8, rate=world.rate)
    start = learning.imitate(world, world.make("train"))
    kept = start.copy()
    teach = credit.make("rloo")
    right = learning.train(settings, start, teach, 0)
    wrong = learning.train(settings, start, lambda turns, rng: -teach(turns, rng), 0)
    assert np.array_equal(start, kept)
    assert right.curve[0] == wrong.curve[0]  # paired: the same tasks and the same policy
    assert np.mean(right.curve[-3:]) > right.curve[0] + 0.2
    assert wrong.curve[-1] <= wrong.curve[0]


@pytest.mark.parametrize("name", learning.WORLDS)
def test_a_view_tells_actions_apart_and_the_first_policy_imitates(name):
    world = replace(learning.WORLDS[name], imitated=2)
    env = world.make("train")
    start = learning.imitate(world, env)
    rng = np.random.default_rng(0)
    task = np.random.default_rng(0).choice(env.panel.task_ids, 2, replace=False)[0]
    guided = learning.play(world, env, task, start, rng, imitate=True)
    assert guided.outcome == 1.0  # the Explorer succeeds
    chances = [turn.chances[turn.taken] * len(turn.chances) for turn in guided.turns]
    assert np.mean(np.log(chances)) > 0.5  # its actions are likelier than by chance
    different = [len({tuple(row) for row in turn.features.tolist()}) for turn in guided.turns]
    assert max(different) >= 3


def test_signs_and_differences_by_hand():
    ours, theirs = [0.3, 0.5, 0.4, 0.6, 0.2], [0.2, 0.4, 0.4, 0.5, 0.3]
    # three higher, one lower, one equal: 2 (4 + 1) / 16
    assert learning.count_wins(ours, theirs) == (3, 4, 0.625)
    assert learning.count_wins([1.0] * 8, [0.0] * 8) == (8, 8, 2 / 256)
    assert learning.count_wins([1.0], [1.0]) == (0, 0, 1.0)
    assert str(learning.difference(ours, theirs)) == "+4.0 [–]"  # below 8 pairs
    assert str(learning.difference([0.25] * 8, [0.125] * 8)) == "+12.5* [12.5, 12.5]"


def test_a_table_has_the_seeds_that_all_methods_have():
    found = {
        "grpo": {0: Run([0.1, 0.3], 0.5, 1.0), 1: Run([0.2, 0.4], 0.5, 1.0)},
        "other": {1: Run([0.4, 0.6], 0.25, 1.0)},
    }
    rows = learning.render_runs(found).splitlines()
    assert rows[0] == "1 seed"
    other, grpo = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows[3:])
    assert other[:5] == ["other", "50.0", "+20.0 [–]", "1 of 1", "1"]
    assert other[5:] == ["25.0", "-25.0 [–]", "0 of 1", "1"]
    assert grpo == ["grpo", "30.0", "", "", "", "50.0", "", "", ""]
    assert learning.render_runs({"grpo": found["grpo"], "other": {}}) == "0 seeds"
