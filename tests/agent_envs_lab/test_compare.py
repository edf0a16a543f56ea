"""Two runs compared: published intervals, clear errors, notes on what differs."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from agent_envs.evaluation import PanelError
from agent_envs_lab import compare
from agent_envs_lab.compare import CompareError, difference, side
from tests.trainer.run_folders import evaluation, run_folder
from trainer import recipe


def outcomes(success):
    count = len(success)
    return replace(
        evaluation(0),
        task_ids=[f"task/{n}" for n in range(count)],
        strata={},
        success=[bool(one) for one in success],
        returns=[0.0] * count,
        turns=[1] * count,
    )


def tables(both, first, second, neither):
    """Two evaluations with these counts of tasks, solved by both, by one alone, by neither."""
    return (
        outcomes([1] * both + [1] * first + [0] * second + [0] * neither),
        outcomes([1] * both + [0] * first + [1] * second + [0] * neither),
    )


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((36, 2, 12, 0), 0.0569, 0.3404),  # Newcombe 1998, table II
        ((1, 7, 1, 12), -0.507, -0.026),  # Bentur et al. 2009, in Fagerland et al. 2014
        ((14, 0, 5, 22), 0.011, 0.226),  # Altman et al. 2000, Statistics with Confidence
    ],
)
def test_the_interval_is_newcombes(counts, low, high):
    found = difference(*tables(*counts))
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-4)


def test_the_interval_covers_the_truth():
    """500 pairs of evaluations of 60 tasks whose chances depend on the task: rates .45 and .55."""
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(500):
        chance = rng.beta(1, 1, 60) * 0.9
        one, other = rng.random(60) < chance, rng.random(60) < chance + 0.1
        found = difference(outcomes(one), outcomes(other))
        hits.append(found.low <= 0.1 <= found.high)
    assert 0.93 <= np.mean(hits) <= 0.99


def test_copies_count_once():
    """Of 12 hands, and of 48 tasks that are four copies of each."""
    hands = tables(3, 1, 5, 3)
    copies = [outcomes(np.repeat(one.success, 4)) for one in hands]
    alike = [replace(one, origins=[row // 4 * 4 for row in range(48)]) for one in copies]
    alone, told, untold = (difference(*pair) for pair in (hands, alike, copies))
    assert told.low < alone.low < alone.high < told.high
    assert told.high - told.low < 1.2 * (alone.high - alone.low)  # by t of 11
    old = difference(replace(alike[0], origins=[]), alike[1])  # saved by an earlier version
    assert (old.low, old.high) == (told.low, told.high)
    assert untold.high - untold.low < 0.7 * (alone.high - alone.low)


def test_evaluations_are_related_as_their_origins_are():
    """Each solves as many of an origin's four tasks as the other, and where it can, other ones."""
    solved = np.array([0, 1, 2, 3, 4, 2, 1, 3, 2, 2, 3, 1])[:, None]
    one, other = (
        replace(outcomes((order < solved).ravel()), origins=[row // 4 for row in range(48)])
        for order in (np.arange(4), np.arange(4)[::-1])
    )
    found, share = difference(one, other), one.overall
    assert found.change == 0
    # Unrelated ones would have the root of the sum of squares, and these tasks are opposed.
    assert found.high < 0.6 * np.hypot(share.high - share.share, share.share - share.low)


@pytest.mark.parametrize("counts", [(10, 0, 0, 10), (0, 0, 0, 5), (5, 0, 0, 0), (0, 0, 9, 0)])
def test_evaluations_without_variation_have_an_interval(counts):
    found = difference(*tables(*counts))
    assert -1.0 <= found.low <= found.change <= found.high <= 1.0
    assert found.low < found.high


def shown(first, second, width=80):
    page = Console(file=io.StringIO(), width=width)
    page.print(compare.table(first, second), markup=False)
    return page.file.getvalue()


@pytest.fixture
def runs(tmp_path):
    """Two finished runs of 5 + 40 steps; the second has another seed and solved 10 tasks more."""
    for name, seed in (("one", 0), ("two", 1)):
        (tmp_path / name).mkdir()
        run_folder(tmp_path / name)
        options = {"name": name, "run": {"steps": 40, "seed": seed}, "sft": {"steps": 5}}
        recipe.save(recipe.parse(options), tmp_path / name / "config.toml")
    evaluation(54).save(tmp_path / "two" / "eval" / "step_45.json")
    return tmp_path / "one", tmp_path / "two"


def test_two_runs_side_by_side(runs):
    text = shown(side(runs[0]), side(runs[1]))
    for part in (
        "44/60  73%", "54/60  90%", "+16.7 points", "p = 0.002", "alone: 10 (task/44,",
        "by the first alone: 0", "run.seed  0      1",
    ):  # fmt: skip
        assert part in text
    assert max(map(len, text.splitlines())) <= 80
    assert "versions" not in text


def add_column(path):
    """An evaluation of a later version."""
    path.write_text(json.dumps(json.loads(path.read_text()) | {"wins": 3}))


@pytest.mark.parametrize(
    ("change", "step", "said"),
    [
        (lambda run: None, 7, r"no evaluation of step 7; it has 5, 25, 45"),
        (lambda run: replace(evaluation(9), panel_hash="beef").save(run / "eval" / "step_45.json"),
         None, "panels differ"),
        (lambda run: add_column(run / "eval" / "step_45.json"), 45,
         r"step_45\.json .*wins.*; write it again with `agent-envs eval .*step_45"),
    ],
)  # fmt: skip
def test_runs_that_cannot_be_compared_are_refused(runs, change, step, said):
    change(runs[0])
    with pytest.raises((CompareError, PanelError, FileNotFoundError), match=said):
        compare.table(side(runs[0], step), side(runs[1]))


def test_other_versions_are_said(runs):
    tasks = {"split": "train", "source": "embedded", "count": 1, "hash": "a"}
    made = {"versions": ["9.0"], "python": "3.11", "packages": {}}
    text = json.dumps(made | {"training": tasks, "evaluation": tasks})
    (runs[0] / "provenance.json").write_text(text)
    text = " ".join(shown(side(runs[0]), side(runs[1])).split())
    assert "The runs are of different versions: 9.0 and unknown." in text


def test_other_decoding_and_failures_are_said(runs):
    changed = replace(evaluation(44), decoding="temperature 0.7", failed=["task/59"])
    changed.save(runs[1] / "eval" / "step_45.json")
    text = " ".join(shown(side(runs[0]), side(runs[1])).split())
    assert "Replies were drawn differently: greedy and temperature 0.7." in text
    assert "1 tasks of the second count as not solved: they failed." in text
