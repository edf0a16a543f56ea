import difflib
from hashlib import sha256

import numpy as np
import pytest

from agent_envs import Panel
from agent_envs.panels import find_quantile

PANEL = Panel("valid", ("look/1", "heat/2", "heat/3"))


def test_the_hash_is_that_of_the_documented_listing():
    listed = Panel("valid", [*PANEL.task_ids], "alfworld:games")
    assert listed.hash == PANEL.hash  # the source is not hashed
    assert listed.task_ids == PANEL.task_ids
    assert Panel("s", ("é",)).hash == sha256(b'["s","\\u00e9"]').hexdigest()
    assert PANEL.hash == sha256(b'["valid","look/1","heat/2","heat/3"]').hexdigest()
    assert PANEL.hash.startswith("0178505248a88b44")  # as computed once, elsewhere


@pytest.mark.parametrize(
    "other",
    [
        Panel("train", PANEL.task_ids),
        Panel("valid", PANEL.task_ids[:2]),
        Panel("valid", PANEL.task_ids[::-1]),
        Panel("valid", ("look/1heat/2", "heat/3")),
        Panel("valid", ('look/1","heat/2', "heat/3")),
    ],
)
def test_split_tasks_and_order_are_in_the_hash(other):
    assert other.hash != PANEL.hash


def test_tasks_by_number_and_name():
    assert PANEL.at(1) == PANEL.at(np.int64(1)) == "heat/2"
    for number in (-1, 3, 10**30):
        with pytest.raises(ValueError, match=rf"lie in 0\.\.2 for split 'valid', got {number}"):
            PANEL.at(number)
    for no_number in ("1", 1.0, None, True):
        with pytest.raises(TypeError, match=f"must be an integer, got {no_number!r}"):
            PANEL.at(no_number)
    assert PANEL.find("heat/3") == "heat/3"
    with pytest.raises(ValueError, match=r"no task 'heat/4' in split 'valid'.*mean 'heat/3'"):
        PANEL.find("heat/4")
    with pytest.raises(ValueError, match=r"no task 3 in split 'valid' of 3 tasks;"):
        PANEL.find(3)


@pytest.mark.slow
def test_the_nearest_of_many_names_is_found_without_a_look_at_each(monkeypatch):
    looked, look = [], difflib.get_close_matches
    monkeypatch.setattr(
        difflib, "get_close_matches", lambda *a, **b: looked.append(len(a[1])) or look(*a, **b)
    )
    rng = np.random.default_rng(0)
    ids = [
        f"alfworld/train/pick_{rng.integers(10**9)}/trial_T2019{rng.integers(10**12):012}"
        for _ in range(100_000)
    ]
    panel, wanted = Panel("train", ids), ids[777]
    for change, at in (("9", 0), ("9", -1), ("", 40), ("00", 3)):
        given = wanted[:at] + change + wanted[at:][1:]
        with pytest.raises(ValueError, match=f"did you mean '{wanted}'"):
            panel.find(given)
    assert len(looked) == 4
    assert max(looked) <= 64  # difflib over all of them takes 8 s


@pytest.mark.parametrize(
    ("ids", "message"), [((), "split 'x' has no tasks"), (("a", "b", "a"), "'a' is twice")]
)
def test_an_empty_or_repeating_panel_is_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        Panel("x", ids)


def test_quantiles_are_those_of_students_t():
    stats = pytest.importorskip("scipy.stats")
    for freedom in (5, 7, 15, 23, 100):
        assert find_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=1e-3)
    assert find_quantile(1) == pytest.approx(stats.t.ppf(0.975, 1), rel=0.12)
