from __future__ import annotations

import copy
import pickle
import time
from hashlib import sha256

import numpy as np
import pytest

from agent_envs import Panel

PANEL = Panel("valid", ("look/1", "heat/2", "heat/3"))


def test_the_hash_is_that_of_the_documented_listing():
    assert PANEL.hash == sha256(b'["valid","look/1","heat/2","heat/3"]').hexdigest()
    assert PANEL.hash.startswith("0178505248a88b44")  # as computed once, elsewhere


def test_other_scripts_are_escaped():
    assert Panel("s", ("é",)).hash == sha256(b'["s","\\u00e9"]').hexdigest()


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


def test_a_list_of_ids_becomes_a_tuple():
    assert Panel("valid", list(PANEL.task_ids)) == PANEL
    assert len(PANEL) == 3


@pytest.mark.parametrize("task", [1, np.int64(1)])
def test_tasks_by_number(task):
    assert PANEL.at(task) == "heat/2"


@pytest.mark.parametrize("task", [-1, 3, 10**30])
def test_a_number_outside_is_refused(task):
    with pytest.raises(ValueError, match=rf"must lie in 0\.\.2 for split 'valid', got {task}"):
        PANEL.at(task)


@pytest.mark.parametrize("task", ["1", 1.0, None, True])
def test_what_is_no_number_is_refused(task):
    with pytest.raises(TypeError, match=f"must be an integer, got {task!r}"):
        PANEL.at(task)


def test_tasks_by_name():
    assert PANEL.find("heat/3") == "heat/3"
    with pytest.raises(ValueError, match=r"no task 'heat/4' in split 'valid'.*mean 'heat/3'"):
        PANEL.find("heat/4")
    with pytest.raises(ValueError, match=r"no task 3 in split 'valid' of 3 tasks;"):
        PANEL.find(3)


def test_where_tasks_come_from_is_told_and_not_hashed():
    named = Panel("valid", PANEL.task_ids, "alfworld:games")
    assert PANEL.source == "embedded"
    assert named.hash == PANEL.hash
    assert named != PANEL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "place"), [("9", 0), ("9", 31), ("9", -1), ("", 5), ("", 40), ("00", 3), ("x", 60)]
)
def test_the_nearest_of_many_names_is_found_in_no_time(change, place):
    rng = np.random.default_rng(0)
    ids = [
        f"alfworld/train/pick_{rng.integers(10**9)}/trial_T2019{rng.integers(10**12):012}"
        for _ in range(100_000)
    ]
    wanted = ids[777]
    place %= len(wanted)
    given = wanted[:place] + change + wanted[place + 1 :]
    start = time.process_time()
    with pytest.raises(ValueError, match=f"did you mean '{wanted}'"):
        Panel("train", ids).find(given)
    assert time.process_time() - start < 2  # difflib over all of them took 8 s


@pytest.mark.parametrize(
    ("ids", "message"), [((), "split 'x' has no tasks"), (("a", "b", "a"), "'a' is twice")]
)
def test_an_empty_or_repeating_panel_is_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        Panel("x", ids)


def test_copies():
    assert copy.deepcopy(PANEL) is PANEL
    assert copy.copy(PANEL) is PANEL
    assert pickle.loads(pickle.dumps(PANEL)) == PANEL
