"""Evaluation: intervals and tests against numbers worked elsewhere, and fixed panels."""

import io
from dataclasses import replace
from math import comb
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.panels import Panel, Share, measure_share, vary_mean
from trainer.play.records import Episode, Step

evaluations = pytest.importorskip("agent_envs.evaluation", reason="no agent-envs[report]")
Console = pytest.importorskip("rich.console", reason="no agent-envs[cli]").Console
pytest.importorskip("scipy", reason="no agent-envs[report]")
Evaluation, compare_paired = evaluations.Evaluation, evaluations.compare_paired


def evaluation(success, **changes):
    count = len(success)
    made = Evaluation(
        split="valid_unseen",
        source="embedded",
        panel_hash="abc",
        decoding="greedy",
        task_ids=[f"t{n}" for n in range(count)],
        success=success,
        returns=[float(x) for x in success],
        turns=[3] * count,
        valid=0.5,
        repeated=0.1,
        strata={"kind": ["pick" if n % 2 else "look" for n in range(count)]},
    )
    return replace(made, **changes)


def test_wilson_by_hand():
    # 10 of 10, z = 1.959964, z^2 = 3.841459: low = 10 / (10 + 3.841459) = 0.722467, high = 1
    assert Share(10, 10).low == pytest.approx(0.722467, abs=1e-6)
    assert Share(10, 10).high == 1.0
    # 50 of 100: 0.5 -+ z sqrt(0.25/100 + z^2/40000) / (1 + z^2/100) = 0.5 -+ 0.096168
    assert Share(50, 100).low == pytest.approx(0.403832, abs=1e-6)
    assert Share(50, 100).high == pytest.approx(0.596168, abs=1e-6)
    assert evaluations.describe_share(Share(50, 100)) == "50/100  50% [40–60%]"


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_rate_and_mirrors(pair):
    successes, count = pair
    one, other = Share(successes, count), Share(count - successes, count)
    assert -1e-12 <= one.low <= one.share + 1e-12
    assert one.share - 1e-12 <= one.high <= 1 + 1e-12
    assert one.low == pytest.approx(1 - other.high, abs=1e-9)


def test_paired_by_hand():
    # 1 task only the first solved, 8 only the second: p = 2 (C(9,0) + C(9,1)) / 2^9 = 20 / 512
    first = evaluation([True] + [False] * 8 + [True] * 5)
    second = evaluation([False] + [True] * 8 + [True] * 5)
    test = compare_paired(first, second)
    assert (test.only_first, test.only_second) == (1, 8)
    assert test.p == pytest.approx(2 * (comb(9, 0) + comb(9, 1)) / 2**9)
    assert compare_paired(second, first).p == test.p
    assert compare_paired(first, first).p == 1.0


def test_by_stratum():
    # rows 0, 2 are "look", rows 1, 3 "pick"
    found = evaluation([True, False, True, True]).by_stratum
    assert {kind: (x.count, x.total) for kind, x in found.items()} == {
        "look": (2, 2),
        "pick": (1, 2),
    }


def test_a_kind_of_task_has_a_row_whatever_its_name_and_no_kind_has_none():
    console = Console(file=io.StringIO(), width=100)
    console.print(
        evaluations.make_table(evaluation([True, False], strata={"kind": ["[/pick]", "a\x1b"]}))
    )
    shown = console.file.getvalue()
    assert "[/pick]" in shown
    assert "\x1b" not in shown
    made = evaluations.make_table(evaluation([True, False], strata={})).renderables[0]
    assert list(made.columns[0].cells) == ["overall", "valid turns"]


@pytest.mark.parametrize("failed", [[], ["t0"]])
def test_a_file_holds_the_whole_evaluation(failed, tmp_path):
    made = evaluation([False, True], failed=failed, returns=[1 / 3, 1e-7])
    made.save(tmp_path / "step_1.json")
    assert evaluations.load(tmp_path / "step_1.json") == made
    assert ("failed" in (tmp_path / "step_1.json").read_text()) == bool(failed)


def played(task_id, *, success):
    steps = [
        Step("seen", "reply", action, [1], [2], reward=-0.1, valid=success)
        for action in ("go", "stay", "go", "go")
    ]
    return Episode(task_id, "g", 0, 1, "history", steps, success=success, outcome=float(success))


def test_summarize_keeps_the_order_of_the_panel(panel):
    episodes = [played(task, success=task == "b") for task in "abd"]
    made = evaluations.summarize(panel, episodes, decoding="greedy", failed=["c"])
    assert made.success == [False, True, False, False]
    assert made.returns == pytest.approx([-0.4, 0.6, 0.0, -0.4])
    assert (made.valid, made.repeated) == (pytest.approx(1 / 3), 0.5)
    assert (made.turns, made.failed) == ([4, 4, 0, 4], ["c"])
    assert (made.panel_hash, made.origins) == (panel.hash, [])
    alike = replace(panel, origins={"b": "x", "d": "x"})
    made = evaluations.summarize(alike, episodes, decoding="greedy", failed=["c"])
    assert made.origins == [0, 1, 2, 1]


def test_a_draw_is_fixed_and_in_order(panel):
    drawn = evaluations.draw_panel(panel, 2)
    assert drawn.task_ids == evaluations.draw_panel(panel, 2).task_ids
    assert [t for t in panel.task_ids if t in drawn.task_ids] == list(drawn.task_ids)
    assert drawn.hash != panel.hash
    for everything in (0, 4, 5):
        assert evaluations.draw_panel(panel, everything) is panel
    made = replace(panel, origins=dict.fromkeys(panel.task_ids, "one situation"))
    assert evaluations.draw_panel(made, 2).find_shared(made) == ["one situation"]
    assert evaluations.draw_panel(made, 2).find_shared(panel) == []


@pytest.fixture
def panel():
    return Panel("valid_unseen", ("a", "b", "c", "d"))


PAIR = evaluation([True, False])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_paired(PAIR, replace(PAIR, panel_hash="b")), "same split, data and numb"),
        (lambda: compare_paired(PAIR, replace(PAIR, task_ids=["a", "b"])), "same split, data and"),
        (lambda: evaluations.draw_panel(Panel("v", ("a",)), 5, "env.games"),
         "env.games=5, but split 'v' has only 1; lower env.games, or set it to 0"),
        (lambda: evaluations.load(Path("no.json")),
         r"no evaluation at no\.json; make one with `agent"),
    ],
)  # fmt: skip
def test_what_is_refused(call, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        call()


def test_a_measure_of_a_stratum_and_the_mean_over_strata():
    strata = {"level": ["L0"] * 4, "kind": ["pick", "pick", "pick", "look"]}
    scores = [0.2, None, 0.4, 0.9]
    found = evaluation([True, False, False, True], strata=strata, measures={"score": scores})
    assert found.read_measure("score").tolist() == [0.2, 0.4, 0.9]
    assert found.read_measure("score/look").tolist() == [0.9]
    assert found.read_measure("success/mean").tolist() == pytest.approx([1.0, 1 / 3])  # look, pick
    assert found.read_measure("turns/L0").tolist() == [3.0] * 4
    related = replace(found, origins=[0, 0, 2, 3])
    assert related.read_measure("origins").tolist() == [0.0, 0.0, 1.0]
    assert related.read_measure("origins/pick").tolist() == [0.0, 0.0]
    with pytest.raises(KeyError, match=r"no measure 'scor', did you mean 'score'.; there are succ"):
        found.read_measure("scor")
    with pytest.raises(KeyError, match="no task of stratum 'L9' has 'score'; strata are L0, pick"):
        found.read_measure("score/L9")


def test_a_mean_has_the_interval_of_student():
    # 1 and 3: mean 2, s = sqrt(2), t(0.975, 1) = 12.7062, so 2 -+ 12.7062
    assert evaluations.describe_mean(np.array([1.0, 3.0]), [0, 1]) == "2 [-10.7–14.7]"
    assert evaluations.describe_mean(np.array([1.0, 1.0, 3.0, 3.0]), [0, 0, 1, 1]) == (
        "2 [-10.7–14.7]"
    )
    assert evaluations.describe_mean(np.array([0.5, 0.5]), [0, 1]) == "0.5"
    assert evaluations.describe_mean(np.array([0.0, 1.0, 1.0])) == "0.667 [0–1]"  # a share


def test_copies_count_once_in_intervals_means_and_tests():
    """Four more of 12 hands, each dealt four times, and the same by 12 tasks of their own."""
    before, after = [False] * 8 + [True] * 4, [False] * 4 + [True] * 8
    alone = evaluation(before), evaluation(after)
    origins = [number // 4 * 4 for number in range(48)]
    scores = {"score": [float(one) for one in np.repeat(after, 4)]}
    copied = [
        evaluation(np.repeat(one, 4).tolist(), origins=origins, measures=scores, strata={})
        for one in (before, after)
    ]
    for hands, tasks in zip(alone, copied, strict=True):
        assert (tasks.overall.worth, tasks.overall.freedom) == (12, 11)  # t of 11 is 2.201
        assert tasks.overall.low < hands.overall.low < hands.overall.high < tasks.overall.high
        width = tasks.overall.high - tasks.overall.low
        assert width == pytest.approx(hands.overall.high - hands.overall.low, rel=0.1)
    assert compare_paired(*alone).p == compare_paired(*copied).p == 2 / 2**4
    assert str(compare_paired(*copied)) == "exact p of 12 origins = 0.12"
    old = replace(copied[0], origins=[])  # saved by an earlier version
    assert compare_paired(old, copied[1]).p == compare_paired(copied[1], old).p == 0.125
    assert copied[1].describe_measure("score") == "0.667 [0.354–0.98]"
    note = str(evaluations.make_table(copied[1], before=copied[0]).renderables[1])
    assert note.startswith("16 tasks newly solved, 0 newly failed: exact p of 12 origins = 0.12. I")
    assert note.endswith("95%, of tasks made from 12 origins.")


def test_an_origin_counts_by_its_sum():
    """Origins with +2, +1, -1 tasks: in 6 of 8 exchanges the difference is 2 or more."""
    first = evaluation([False] * 4 + [True], origins=[0, 0, 2, 2, 4])
    second = evaluation([True, True, True, False, False], origins=[0, 0, 2, 2, 4])
    test = compare_paired(first, second)
    assert (test.only_first, test.only_second, test.p, test.origins) == (1, 3, 0.75, 3)


def test_tasks_of_one_origin_are_worth_less_where_they_agree():
    alone = [str(number) for number in range(40)]
    fours = [str(number // 10) for number in range(40)]
    alike = [number < 20 for number in range(40)]
    mixed = [number % 2 == 0 for number in range(40)]
    whole = Share(20, 40)
    assert measure_share(alike, alone).low == pytest.approx(whole.low)
    assert (measure_share(mixed, fours).worth, measure_share(mixed, fours).freedom) == (40, 3)
    assert measure_share(alike, fours).low < whole.low - 0.1
    assert measure_share([False] * 40, fours).high > 2 * Share(0, 40).high
    assert measure_share(mixed, ["one"] * 40).worth == 1
    # one of 40 and 40 alone: 80² / (40² + 40) of equal size, which a mean that the one moves hides
    large = measure_share([True] * 60 + [False] * 20, ["one"] * 40 + alone)
    assert large.worth == pytest.approx(6400 / 1640)
    assert large.low < 0.5


def test_a_variance_is_the_jackknifes():
    """Of 1, 1 | 4 | 5, 6: means without a group are 5, 13/4 and 2, that of all is 17/5."""
    found, worth = vary_mean([1, 1, 4, 5, 6], ["a", "a", "b", "c", "c"])
    away = [5 - 17 / 5, 13 / 4 - 17 / 5, 2 - 17 / 5]
    assert found == pytest.approx(2 / 3 * sum(one**2 for one in away))
    assert worth == pytest.approx(25 / 9)
    assert vary_mean([1.0, 3.0], [0, 1]) == (1.0, 2.0)  # s² / n


def test_named_values_of_episodes_come_into_the_evaluation_in_the_order_of_the_panel():
    turn = SimpleNamespace(valid=True, action="a", reward=0.0)
    played = [
        SimpleNamespace(
            success=True, outcome=1.0, steps=[turn], strata={"level": "L0"}, measures={"score": 0.5}
        ),
        SimpleNamespace(success=False, outcome=0.0, steps=[turn], strata={}, measures={}),
    ]
    panel = Panel("test", ("a", "b", "c"), "embedded")
    made = evaluations.summarize(panel, played, decoding="greedy", failed=["b"])
    assert made.strata == {"level": ["L0", "unknown", ""]}
    assert made.measures == {"score": [0.5, None, None]}
