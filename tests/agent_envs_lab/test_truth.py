"""Truth files and the benchmark that ranks estimators on them."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import credit
from agent_envs_lab import benchmark
from agent_envs_lab.truth import Truth
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
    noise = 0.05 * rng.standard_normal(count * length)
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
    )
    columns = {
        "turns": turns,
        "value_before": before,
        "value_after": after,
        "first": after - before + noise,
        "second": after - before - noise,
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


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda: {"value_before": made().value_before + np.eye(1, 120, 2)[0]}, "trajectory 0 sum"),
        (lambda: {"error": np.zeros(3)}, "error has 3 rows, turns has 120"),
        (lambda: {"first": np.full(120, np.inf)}, "first row 0"),
    ],
)
def test_values_that_do_not_add_up_are_refused(changed, told):
    with pytest.raises(ValueError, match=told):
        made(**changed())


def damaged(path, truth, note=None, **columns):
    """A truth's file with other columns or another note."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    truth.save(path)
    table = pq.read_table(path)
    kept = table.schema.metadata
    for name, column in columns.items():
        at = table.column_names.index(name)
        table = (
            table.remove_column(at)
            if column is None
            else table.set_column(at, name, pa.array(column))
        )
    pq.write_table(
        table.replace_schema_metadata(
            {**kept, **({} if note is None else {b"agent-envs truth": note})}
        ),
        path,
    )


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda path: None, "no truth at .*`agent-envs truth` measures one"),
        (lambda path: path.write_text("hello"), "Parquet"),
        (made().turns.to_parquet, "a truth of version None"),
        (lambda path: damaged(path, made(), note=b"not json"), "Expecting value"),
        (lambda path: damaged(path, made(), note=b"[1]"), "is damaged or of another version"),
        (lambda path: damaged(path, made(), note=b'{"version": "1"}'), "'1', this is version 1"),
        (lambda path: damaged(path, made(), error=None), "error"),
        (lambda path: damaged(path, made(), trajectory=None), "trajectory"),
        (lambda path: damaged(path, made(), error=np.full(120, -1.0)), r"error row 0 is -1\.0"),
        (lambda path: damaged(path, made(), group=["g"] * 120), "group row 0 is 'g'"),
        (lambda path: cut_rows(path, made()), "a truth needs turns"),
    ],
)
def test_files_that_hold_no_truth_are_refused_with_their_name(tmp_path, write, told):
    path = tmp_path / "some.parquet"
    write(path)
    with pytest.raises((ValueError, FileNotFoundError), match=told) as refused:
        Truth.load(path)
    assert "some.parquet" in str(refused.value)
    assert "\n" not in str(refused.value)


def cut_rows(path, truth):
    """A truth's file without rows."""
    pq = pytest.importorskip("pyarrow.parquet")
    truth.save(path)
    pq.write_table(pq.read_table(path).slice(0, 0), path)


def test_reliability_has_an_interval_over_groups():
    truth = made(groups=30)
    found = truth.reliability_score
    agreement = np.corrcoef(truth.first, truth.second)[0, 1]
    assert found.value == pytest.approx(2 * agreement / (1 + agreement))
    assert found.low < found.value < found.high < 1
    assert str(made().reliability_score).endswith("[–]")  # 6 groups


def test_the_true_advantage_is_ranked_first_and_its_opposite_last():
    truth = made(groups=12)
    estimators = benchmark.make_methods() | {
        "true": lambda turns, rng: truth.advantage,
        "opposite": lambda turns, rng: -truth.advantage,
    }
    found = benchmark.score_estimators(truth, estimators)
    scores, differences, left, failed = found
    ranked = sorted(scores, key=lambda name: scores[name].pearson.value)
    assert (ranked[-1], ranked[0]) == ("true", "opposite")
    assert scores["true"].sign.value == 1.0
    assert differences["grpo"].pearson.value == 0.0
    assert differences["true"].pearson.low > 0 > differences["opposite"].pearson.high
    assert left == failed == {}
    assert "true" in benchmark.render_table(truth, found).splitlines()[2]


def test_the_perfect_critic_is_the_outcome_minus_the_value():
    truth = made()
    found, _, _ = benchmark.estimate_advantages(truth, {})
    expected = truth.turns.outcome[truth.turns.trajectory] - truth.value_before
    np.testing.assert_array_equal(found[benchmark.CRITIC], expected)


def test_the_overview_ranks_by_correlation_and_by_gradient():
    truths = made(groups=12), made(seed=1, groups=12)
    sketch = np.random.default_rng(0).standard_normal((len(truths[0].turns), 3))
    results = [
        benchmark.score_estimators(truth, {name: credit.make(name) for name in ("grpo", "rloo")})
        for truth in (replace(truths[0], gradient=sketch), truths[1])
    ]
    critic, *_ = rows = benchmark.render_overview(results).splitlines()[1:]
    assert critic.startswith(benchmark.CRITIC)  # these outcomes follow nothing but the values
    (grpo,) = (row for row in rows if row.startswith("grpo"))
    place = int(grpo.split()[-1])
    assert 1 <= place <= 3
    differences = results[0].differences
    assert place == 1 + sum(one.gradient.value > 0 for one in differences.values())
    zero = "+0.000 [0.00, 0.00]", "0", "0"
    assert " ".join(grpo.split()) == " ".join(["grpo", *zero, "2", *zero, "1", str(place)])


def outcomes(turns):
    return turns.outcome[turns.trajectory]


def test_only_what_the_batch_lacks_leaves_an_estimator_out():
    graded = made()
    graded = Truth(
        **{name: getattr(graded, name) / 2 for name in COLUMNS},
        turns=replace(graded.turns, outcome=graded.turns.outcome / 2),
    )

    def needs(turns, rng):
        return turns.verifier_reward("exact")

    found = benchmark.score_estimators(graded, benchmark.make_methods() | {"needs": needs})
    assert "exact" in found.left.pop("needs")
    assert all("must be 0 or 1" in why for why in found.left.values())
    assert (set(found.left), found.failed) == ({"mgr", "mgr, no gate"}, {})


COLUMNS = ("value_before", "value_after", "first", "second", "error")


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (np.zeros(3), r"ValueError: .*\[120\] finite numbers, got float64 of shape \[3\]"),
        (np.full(120, np.nan), "ValueError: .*row 0 is nan"),
        (KeyError("x"), "^KeyError: 'x'"),
    ],
)
def test_what_is_wrong_with_one_estimator_is_told_and_the_others_are_scored(returned, told):
    def wrong(turns, rng):
        if isinstance(returned, BaseException):
            raise returned
        return returned

    found = benchmark.score_estimators(made(), benchmark.make_methods() | {"wrong": wrong})
    assert re.search(told, found.failed["wrong"])
    assert "grpo" in found.scores
    assert "wrong" not in found.scores | found.left
    assert "failed: " in benchmark.render_table(made(), found).splitlines()[-1]


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "agent_envs_lab.benchmark", *arguments],
        cwd=cwd, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_truths_are_given_one_by_one_and_a_failure_is_the_exit_status(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    made().save("some.parquet")
    made(seed=1, groups=9).save("other.parquet")
    (tmp_path / "own.py").write_text(
        "def last(turns):\n    return turns.outcome[turns.trajectory] * turns.last\n\n"
        "def broken(turns):\n    raise KeyError(3)\n"
    )
    files = ["--truth", "some.parquet", "--truth", "other.parquet"]
    with pytest.raises(SystemExit, match="1"):
        benchmark.main([*files, "own:last", "own:broken", "--json"])
    said = capsys.readouterr()
    assert said.err == "failed: own:broken\n"
    found = json.loads(said.out, parse_constant=pytest.fail)  # NaN is no JSON
    assert list(found) == files[1::2]
    assert found["some.parquet"]["failed"] == {"own:broken": "KeyError: 3"}
    assert found["some.parquet"]["differences"]["own:last"]["pearson"]["low"] is None  # 6 groups
    assert found["other.parquet"]["differences"]["grpo"]["pearson"]["low"] == 0
    benchmark.main(["--truth", "some.parquet", "own:last"])
    assert "own:last" in capsys.readouterr().out


def test_without_pyarrow_one_line_says_what_to_install(tmp_path, monkeypatch, capsys):
    made().save(tmp_path / "some.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(SystemExit, match="2"):
        benchmark.main(["--truth", str(tmp_path / "some.parquet")])
    assert "pip install 'agent-envs[report]'" in capsys.readouterr().err.splitlines()[-1]


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


@pytest.mark.long
@pytest.mark.slow
def test_the_command_ranks_on_what_ships(tmp_path):
    shown = run("dr_grpo", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("dr_grpo") == len(SHIPPED) + 1
    assert "gradient to GRPO" in shown.stdout
