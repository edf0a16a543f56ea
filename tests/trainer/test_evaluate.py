"""Evaluation: intervals and tests against numbers worked elsewhere, and fixed panels."""

from __future__ import annotations

import json
from dataclasses import replace
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.play.records import Episode, Step
from trainer.run import evaluate
from trainer.run.evaluate import Evaluation, PanelError, compare_paired, compute_wilson


def evaluation(success, **changes):
    count = len(success)
    made = Evaluation(
        split="valid_unseen",
        source="embedded",
        panel_hash="abc",
        decoding="greedy",
        task_ids=[f"t{n}" for n in range(count)],
        task_types=["pick" if n % 2 else "look" for n in range(count)],
        success=success,
        returns=[float(x) for x in success],
        turns=[3] * count,
        valid=0.5,
        repeated=0.1,
    )
    return replace(made, **changes)


def test_wilson_by_hand():
    # 10 of 10, z = 1.959964, z^2 = 3.841459: low = 10 / (10 + 3.841459) = 0.722467, high = 1
    assert compute_wilson(10, 10).low == pytest.approx(0.722467, abs=1e-6)
    assert compute_wilson(10, 10).high == pytest.approx(1.0)
    # 50 of 100: 0.5 -+ z sqrt(0.25/100 + z^2/40000) / (1 + z^2/100) = 0.5 -+ 0.096168
    assert compute_wilson(50, 100).low == pytest.approx(0.403832, abs=1e-6)
    assert compute_wilson(50, 100).high == pytest.approx(0.596168, abs=1e-6)
    assert str(compute_wilson(50, 100)) == "50/100  50% [40–60%]"


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_rate_and_mirrors(pair):
    successes, count = pair
    one, other = compute_wilson(successes, count), compute_wilson(count - successes, count)
    assert -1e-12 <= one.low <= one.rate + 1e-12
    assert one.rate - 1e-12 <= one.high <= 1 + 1e-12
    assert one.low == pytest.approx(1 - other.high, abs=1e-9)


@pytest.mark.parametrize(("successes", "count"), [(0, 0), (3, 2), (-1, 2)])
def test_no_interval_of_nothing(successes, count):
    with pytest.raises(ValueError, match=f"got {successes}, {count}"):
        compute_wilson(successes, count)


def test_paired_by_hand():
    # 1 task only the first solved, 8 only the second: p = 2 (C(9,0) + C(9,1)) / 2^9 = 20 / 512
    first = evaluation([True] + [False] * 8 + [True] * 5)
    second = evaluation([False] + [True] * 8 + [True] * 5)
    test = compare_paired(first, second)
    assert (test.only_first, test.only_second) == (1, 8)
    assert test.p == pytest.approx(2 * (comb(9, 0) + comb(9, 1)) / 2**9)


def test_paired_is_symmetric_and_blind_to_agreement():
    first = evaluation([True, False, False, False, True])
    second = evaluation([False, True, True, True, True])
    assert compare_paired(first, second).p == compare_paired(second, first).p
    assert compare_paired(first, first).p == 1.0


@pytest.mark.parametrize("changes", [{"panel_hash": "other"}, {"task_ids": ["a", "b"]}])
def test_different_panels_are_not_compared(changes):
    one = evaluation([True, False])
    with pytest.raises(PanelError, match="same split, data and number of tasks"):
        compare_paired(one, replace(one, **changes))


def test_by_type():
    # rows 0, 2 are "look", rows 1, 3 "pick"
    found = evaluation([True, False, True, True]).by_type
    assert {kind: (x.successes, x.count) for kind, x in found.items()} == {
        "look": (2, 2),
        "pick": (1, 2),
    }


def test_tasks_without_a_type_have_one_row_of_success():
    made = evaluate.make_table(evaluation([True, False], task_types=["", ""])).renderables[0]
    assert list(made.columns[0].cells) == ["overall", "valid turns"]


def test_a_file_holds_the_whole_evaluation(tmp_path):
    made = evaluation([True, False])
    made.save(tmp_path / "step_1.json")
    assert evaluate.load(tmp_path / "step_1.json") == made


def test_no_file_and_no_evaluation(tmp_path):
    with pytest.raises(FileNotFoundError, match="agent-envs eval"):
        evaluate.load(tmp_path / "step_1.json")
    for text in ("{", '{"split": 1}', "[]"):
        (tmp_path / "step_2.json").write_text(text)
        with pytest.raises(ValueError, match=r"step_2\.json holds no evaluation"):
            evaluate.load(tmp_path / "step_2.json")


def played(task_id, *, success):
    step = Step("seen", "reply", "go", [1], [2], reward=-0.1, valid=success)
    return Episode(task_id, "g", 0, 1, "history", [step], success=success, outcome=float(success))


def test_summarize_keeps_the_order_of_the_panel(panel):
    episodes = [played(task, success=row == 1) for row, task in enumerate(panel.task_ids)]
    made = evaluate.summarize(panel, episodes, decoding="greedy")
    assert made.success == [False, True, False, False]
    assert made.returns == pytest.approx([-0.1, 0.9, -0.1, -0.1])
    assert made.valid == 0.25
    assert made.panel_hash == panel.hash
    with pytest.raises(ValueError, match="once, in the order of the panel"):
        evaluate.summarize(panel, episodes[::-1], decoding="greedy")


def test_a_draw_is_fixed_and_in_order(panel):
    drawn = evaluate.draw_panel(panel, 2)
    assert drawn.task_ids == evaluate.draw_panel(panel, 2).task_ids
    assert [t for t in panel.task_ids if t in drawn.task_ids] == list(drawn.task_ids)
    assert drawn.hash != panel.hash
    assert evaluate.draw_panel(panel, 0) is panel
    assert evaluate.draw_panel(panel, 4).hash == panel.hash
    with pytest.raises(ValueError, match=r"eval\.tasks=5.*has 4 tasks"):
        evaluate.draw_panel(panel, 5)


@pytest.fixture
def panel():
    from agent_envs.panels import Panel

    return Panel("valid_unseen", ("a", "b", "c", "d"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("success", [1, 0]),
        ("success", []),
        ("success", 3),
        ("task_ids", []),
        ("returns", ["a"]),
        ("turns", None),
        ("valid", "x"),
        ("split", 3),
    ],
)
def test_an_evaluation_with_another_field_is_refused(name, value, tmp_path):
    ids = ["a"]
    tree = dict.fromkeys(("split", "source", "panel_hash", "decoding"), "x")
    tree |= {"task_ids": ids, "task_types": [""], "success": [True], "returns": [1.0]}
    tree |= {"turns": [2], "valid": 1.0, "repeated": 0.0}
    path = tmp_path / "e.json"
    path.write_text(json.dumps(tree))
    assert evaluate.load(path).overall.rate == 1.0
    path.write_text(json.dumps(tree | {name: value}))
    with pytest.raises(ValueError, match=r"e\.json holds no evaluation"):
        evaluate.load(path)
