"""Truth files and the benchmark that ranks estimators on them."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from credit import benchmark
from credit.truth import Truth
from credit.turns import Turns


def made(groups=6, rollouts=4, length=5, seed=0, **changed):
    """A truth of random values, with outcomes that follow them."""
    rng = np.random.default_rng(seed)
    count = groups * rollouts
    outcome = rng.integers(0, 2, count).astype(float)
    starts = np.repeat(rng.uniform(0.2, 0.8, groups), rollouts)
    owner = np.repeat(np.arange(count), length)
    inner = rng.uniform(0, 1, (count, length - 1))
    values = np.column_stack([starts, inner, outcome])
    before, after = values[:, :-1].ravel(), values[:, 1:].ravel()
    noise = 0.05 * rng.standard_normal((2, count * length))
    turns = Turns(
        group=np.repeat(np.arange(groups), rollouts),
        outcome=outcome,
        goal=["find it"] * count,
        trajectory=owner,
        reward=np.zeros(len(owner)),
        valid=rng.random(len(owner)) < 0.9,
        progress=np.clip(after, 0, 1),
        anchor=[f"state {n}" for n in rng.integers(0, 9, len(owner))],
        action=["go"] * len(owner),
        entropy=rng.uniform(0.1, 2, len(owner)),
        outcome_in_reward=False,
    )
    columns = {
        "turns": turns,
        "value_before": before,
        "value_after": after,
        "first": after - before + noise[0],
        "second": after - before + noise[1],
        "error": np.full(len(owner), 0.035),
        "about": {"name": "made", "groups": groups},
    }
    return Truth(**{**columns, **changed})


def test_a_file_holds_everything(tmp_path):
    truth = made()
    truth.save(tmp_path / "truth.parquet")
    again = Truth.load(tmp_path / "truth.parquet")
    for name in ("value_before", "value_after", "first", "second", "error", "advantage"):
        np.testing.assert_array_equal(getattr(again, name), getattr(truth, name))
    for name in ("group", "outcome", "trajectory", "anchor", "entropy", "valid"):
        np.testing.assert_array_equal(getattr(again.turns, name), getattr(truth.turns, name))
    assert again.about == {"name": "made", "groups": 6}
    assert again.reliability == pytest.approx(truth.reliability)
    assert list(tmp_path.iterdir()) == [tmp_path / "truth.parquet"]


def test_values_that_do_not_add_up_are_refused():
    whole = made()
    with pytest.raises(ValueError, match="trajectory 0 sum to"):
        made(value_before=whole.value_before + np.eye(1, 120, 2)[0])
    with pytest.raises(ValueError, match="error has 3 rows, there are 120 turns"):
        made(error=np.zeros(3))
    with pytest.raises(ValueError, match="first row 0"):
        made(first=np.full(120, np.inf))
    ends = whole.turns.last * 0.5
    shifted = {"value_after": whole.value_after + ends, "value_before": whole.value_before + ends}
    with pytest.raises(ValueError, match="trajectory 0 is not its outcome"):
        made(**shifted)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="agent-envs truth"):
        Truth.load(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(ValueError, match="no readable Parquet"):
        Truth.load(tmp_path / "text.parquet")
    made().turns.to_parquet(tmp_path / "turns.parquet")
    with pytest.raises(ValueError, match="holds no truth"):
        Truth.load(tmp_path / "turns.parquet")


def test_a_file_of_another_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("credit.truth.VERSION", 7)
    made().save(tmp_path / "truth.parquet")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="truth of version 7, this is version 1"):
        Truth.load(tmp_path / "truth.parquet")


def test_the_true_advantage_is_ranked_first_and_its_opposite_last():
    truth = made(groups=12)
    estimators = benchmark.methods() | {
        "true": lambda turns, rng: truth.advantage,
        "opposite": lambda turns, rng: -truth.advantage,
    }
    scores, differences, left = benchmark.scored(truth, estimators)
    ranked = sorted(scores, key=lambda name: scores[name].pearson.value)
    assert (ranked[-1], ranked[0]) == ("true", "opposite")
    assert scores["true"].sign.value == 1.0
    assert differences["grpo"].pearson.value == 0.0
    assert differences["true"].pearson.low > 0 > differences["opposite"].pearson.high
    assert left == {}
    assert "true" in benchmark.table(truth, (scores, differences, left)).splitlines()[2]


def test_the_perfect_critic_is_the_outcome_minus_the_value():
    truth = made()
    found, _ = benchmark.advantages(truth, {})
    expected = truth.turns.outcome[truth.turns.trajectory] - truth.value_before
    np.testing.assert_array_equal(found[benchmark.CRITIC], expected)


def test_estimators_that_lack_a_column_are_left_out_with_the_reason():
    def needs(turns, rng):
        return turns.verifier_reward("exact")

    _, _, left = benchmark.scored(made(), benchmark.methods() | {"needs": needs})
    assert "exact" in left["needs"]


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (np.zeros(3), r"wrong returned float64 of shape \[3\].*N=120"),
        (np.full(120, np.nan), "wrong returned nan for turn 0"),
        (["a"] * 120, "wrong returned"),
        (None, "wrong returned"),
    ],
)
def test_estimators_that_return_something_else_are_refused(returned, told):
    with pytest.raises((ValueError, TypeError), match=told):
        benchmark.scored(made(), {"wrong": lambda turns, rng: returned})


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "credit.benchmark", *arguments],
        cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_command_ranks_an_estimator_of_ones_own(tmp_path):
    made().save(tmp_path / "some.parquet")
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n\nclass Last:\n    def __call__(self, turns, rng):\n"
        "        return turns.outcome[turns.trajectory] * turns.last\n\nnothing = 3\n"
    )
    shown = run("mine:Last", "--truth", "some.parquet", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "made: 120 turns of 24 episodes, reliability" in shown.stdout
    assert "mine:Last" in shown.stdout
    plain = run("mine:Last", "--json", "--truth", "some.parquet", cwd=tmp_path)
    assert json.loads(plain.stdout)["some.parquet"]["mine:Last"]["groups"] == 6
    for name, told in (
        ("mine:Nope", "cannot import 'mine:Nope'"),
        ("mine:nothing", "is no estimator"),
        ("nope", "unknown credit method 'nope'"),
    ):
        refused = run(name, "--truth", "some.parquet", cwd=tmp_path)
        assert refused.returncode == 2
        assert told in refused.stderr.splitlines()[-1]


def test_the_overview_counts_truths_with_a_difference():
    one, two = made(groups=12), made(groups=12, seed=1)
    found = [
        benchmark.scored(truth, benchmark.methods() | {"true": lambda _, __, t=truth: t.advantage})
        for truth in (one, two)
    ]
    rows = [line.rsplit(None, 4) for line in benchmark.overview([x[:2] for x in found]).split("\n")]
    assert rows[1][0].strip() == "true"
    assert rows[1][2:] == ["2", "0", "2"]
    grpo = next(row for row in rows if row[0].strip() == "grpo")
    assert grpo[1:] == ["+0.000", "0", "0", "2"]


SHIPPED = sorted(benchmark.SHIPPED.glob("*.parquet"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_ships_is_reliable_and_agrees_with_fresh_rollouts(path):
    truth = Truth.load(path)  # checks that advantages sum to R - V(s0)
    about = truth.about
    assert about["name"].startswith(path.stem.partition("_")[0])
    assert truth.reliability > 0.795
    # of a dozen truths one may be 3 standard errors off
    assert abs(about["V(s0) minus fresh rollouts"]) < 3.2 * about["standard error of it"]
    assert about["groups"] >= 16
    assert len(truth.turns) == about["turns"]


def test_several_environments_ship_with_two_policies_each():
    names = {path.stem.rpartition("_")[0] for path in SHIPPED}
    assert len(names) >= 6
    assert len(SHIPPED) == 2 * len(names)


@pytest.mark.slow
def test_the_command_ranks_on_what_ships(tmp_path):
    shown = run("dr_grpo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("dr_grpo") == len(SHIPPED) + 1
    assert "mean difference to GRPO" in shown.stdout
