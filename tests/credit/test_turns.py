"""The batch: derived columns, refusals, reading and writing."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings

from credit import Turns
from tests.credit.batches import GOOD, batch, batches


def test_positions_and_last_turns():
    turns = Turns(**GOOD)
    assert turns.position.tolist() == [0, 1, 0]
    assert turns.last.tolist() == [False, True, True]
    assert turns.group_of_turn.tolist() == [0, 0, 0]


def test_integer_keys_become_text():
    turns = Turns(**{**GOOD, "anchor": np.array([3, 30, 3]), "action": [1, 2, 1]})
    assert turns.anchor.tolist() == ["3", "30", "3"]
    assert turns.action.tolist() == ["1", "2", "1"]
    assert Turns(**{**GOOD, "anchor": np.array(["a", "b", "a"])}).anchor.tolist() == ["a", "b", "a"]


@pytest.mark.parametrize("reward", [[-0.1, 1.0, 0.3], [0.25, 0.75, 0.0]])
def test_whether_the_reward_has_the_outcome_is_declared_and_not_read_off_the_numbers(reward):
    assert Turns(**{**GOOD, "reward": reward}).reward.tolist() == reward
    without = Turns(**{**GOOD, "reward": reward}, outcome_in_reward=True).reward
    assert without == pytest.approx(np.array(reward) - [0, 1, 0])


@pytest.mark.parametrize(
    ("name", "end", "inwards"),
    [("progress", 0.0, 1), ("progress", 1.0, -1), ("entropy", 0.0, 1), ("gold_logprob", 0.0, -1)],
)
def test_what_leaves_its_range_by_rounding_is_set_to_its_end(name, end, inwards):
    given = [end - inwards * 1e-9, end - inwards * 9e-7, end + inwards * 1e-9]
    column = getattr(Turns(**{**GOOD, name: given}), name)
    assert column.tolist() == [end, end, given[2]]
    assert not column.flags.writeable
    with pytest.raises(ValueError, match=f"{name} row 0 is "):
        Turns(**{**GOOD, name: [end - inwards * 2e-6, end, end]})


def test_whole_numbers_of_any_type_are_groups():
    for group in ([1.0, 0.0], [True, False], np.array([1, 0], np.uint8)):
        assert Turns(**{**GOOD, "group": group}).group.tolist() == [1, 0]


def test_a_batch_can_be_pickled_and_copied():
    turns = Turns(**GOOD)
    for again in (pickle.loads(pickle.dumps(turns)), copy.deepcopy(turns), replace(turns)):
        assert again.reward.tolist() == turns.reward.tolist()
        assert repr(again) == repr(turns)


def test_columns_are_read_only_copies():
    given = np.zeros(3)
    turns = Turns(**{**GOOD, "reward": given})
    with pytest.raises(ValueError, match="read-only"):
        turns.reward[0] = 1.0
    given[0] = 5.0  # the array of the caller is still writable
    assert turns.reward[0] == 0.0


@pytest.mark.parametrize(
    ("before", "gain"),
    [
        (None, [0.2, 0.3, 0.25, 0.25]),  # 0.2 - 0, 0.5 - 0.2; 0.25 - 0, 0.5 - 0.25
        ([0.2, 0.9, 0.25, 0.9], [0.0, 0.3, 0.0, 0.25]),  # a world that begins at 1/5 and at 1/4
    ],
)
def test_the_first_turn_gains_from_where_its_trajectory_began(before, gain):
    turns = batch([2, 2], [1, 0], [0, 0], progress=[0.2, 0.5, 0.25, 0.5], progress_before=before)
    assert turns.read_gain() == pytest.approx(gain)


def test_from_episodes():
    plain = {"reward": 0.25, "valid": True, "progress": 0.25, "anchor": "s", "action": "go"}
    turn = SimpleNamespace(**plain, entropy=0.1, gold_logprob=-0.5)
    episode = SimpleNamespace(group=4, outcome=1.0, goal="win", turns=[turn, turn])
    turns = Turns.from_episodes([episode, episode])
    assert (len(turns), turns.trajectory.tolist()) == (4, [0, 0, 1, 1])
    assert turns.entropy == pytest.approx([0.1] * 4)
    assert turns.gold_logprob == pytest.approx([-0.5] * 4)
    assert turns.turn_reward is None


def test_from_episodes_with_verifiers():
    def turn(**rewards):
        return SimpleNamespace(
            reward=0.0, valid=True, progress=0.0, anchor="s", action="go", turn_reward=rewards
        )

    episode = SimpleNamespace(
        group=0, outcome=1.0, goal="", turns=[turn(a=1.0, b=2.0), turn(b=4.0, a=3.0)]
    )
    turns = Turns.from_episodes([episode])
    assert turns.turn_reward_names == ("a", "b")
    assert turns.turn_reward.tolist() == [[1, 2], [3, 4]]
    assert turns.verifier_reward("b").tolist() == [2, 4]
    episode.turns[1].turn_reward = {"a": 1.0}
    with pytest.raises(ValueError, match=r"turn_reward row 1 is \{'a'"):
        Turns.from_episodes([episode])


@given(batches())
@settings(max_examples=20)
def test_round_trips_through_parquet(tmp_path_factory, turns):
    path = tmp_path_factory.mktemp("turns") / "turns.parquet"
    turns.to_parquet(path)
    again = Turns.from_parquet(path)
    for name in (*GOOD, "entropy", "gold_logprob", "progress_before", "turn_reward"):
        assert getattr(again, name).tolist() == getattr(turns, name).tolist()


def test_an_empty_batch_and_missing_columns_in_a_file(tmp_path):
    empty = batch([], [], [])
    empty.to_parquet(tmp_path / "empty.parquet")
    assert len(Turns.from_parquet(tmp_path / "empty.parquet")) == 0
    # missing columns stay missing
    batch([1], [1.0], [0]).to_parquet(tmp_path / "t.parquet")
    again = Turns.from_parquet(tmp_path / "t.parquet")
    assert (again.entropy, again.turn_reward, again.turn_reward_names) == (None, None, ())
