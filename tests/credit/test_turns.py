"""The batch: derived columns, refusals, reading and writing."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from credit import Turns
from tests.credit.batches import batch, batches

GOOD: dict[str, Any] = {
    "group": [0, 0],
    "outcome": [1.0, 0.0],
    "goal": ["g", "g"],
    "trajectory": [0, 0, 1],
    "reward": [0.0, 0.0, 0.0],
    "valid": [True, False, True],
    "progress": [0.0, 0.5, 1.0],
    "anchor": ["a", "b", "a"],
    "action": ["x", "y", "z"],
}


def test_positions_and_last_turns():
    turns = Turns(**GOOD)
    assert turns.position.tolist() == [0, 1, 0]
    assert turns.last.tolist() == [False, True, True]
    assert turns.group_of_turn.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outcome": [1.0]}, "outcome has 1 rows, group has 2"),
        ({"valid": [True]}, "valid has 1 rows, trajectory has 3"),
        ({"entropy": [0.1]}, "entropy has 1 rows"),
        (
            {"trajectory": [0, 1, 0]},
            "trajectory row 2 is 0; rows of a trajectory must be contiguous",
        ),
        ({"trajectory": [0, 0, 0]}, "trajectory 1 of 2 has no turn"),
        ({"trajectory": [0, 1, 2]}, "trajectory row 2 is 2; group has 2 rows"),
        ({"reward": [0.0, np.nan, 0.0]}, "reward row 1 is nan"),
        ({"outcome": [np.inf, 0.0]}, "outcome row 0 is inf"),
        ({"progress": [0.0, 1.5, 0.0]}, r"progress row 1 is 1.5; progress must lie in \[0, 1\]"),
        (
            {"outcome": [1e100, 0.0]},
            "outcome row 0 is 1e[+]100; give finite numbers below 1e[+]100",
        ),
        ({"group": [0.0, np.nan]}, "group row 1 is nan, not a 64-bit integer"),
        ({"group": [0, 0.5]}, r"group row 1 is 0.5, not .*numbered by np\.unique"),
        ({"trajectory": [0, 0.5, 1]}, "trajectory row 1 is 0.5, not .*: 0, 1, 2, ... in the order"),
        ({"valid": [1, 0.5, 1]}, "valid row 1 is 0.5, not a bool; give True or False"),
        ({"valid": [1, 2, 1]}, "valid row 1 is 2, not a bool; give True or False, or 1 or 0"),
        ({"outcome": [1.0, None]}, "outcome row 1 is None; every row of outcome needs a value"),
        ({"group": [None, 0]}, "group row 0 is None; every row of group needs a value"),
        ({"turn_reward": [[1.0]] * 3}, r"shape \(3, 1\), turn_reward_names has 0 names"),
        ({"reward": [[0.0], [0.0], [0.0]]}, r"reward must be \[N\], got shape \(3, 1\)"),
        ({"entropy": [0.1, -0.1, 0.0]}, "entropy row 1 is -0.1; an entropy is at least 0 nats"),
        (
            {"gold_logprob": [-0.1, 0.1, 0.0]},
            "gold_logprob row 1 is 0.1; a log-probability is at most 0 nats",
        ),
        ({"turn_reward_names": ("a",)}, "names are .*, but there is no turn_reward"),
        (
            {"turn_reward": [[1, 2]] * 3, "turn_reward_names": ("a", "a")},
            "must be unique texts",
        ),
        ({"turn_reward": np.zeros((4, 0))}, "turn_reward has 4 rows, trajectory has 3"),
    ],
)
def test_refusals_name_column_and_row(change, message):
    with pytest.raises(ValueError, match=message):
        Turns(**{**GOOD, **change})


class Tensor:
    """A stand-in for a tensor in bfloat16 or on a GPU, which NumPy cannot read."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Got unsupported ScalarType BFloat16")

    def __len__(self):
        return 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"anchor": [np.zeros((2, 2))] * 3}, r"(?s)anchor row 0 is array.* \(ndarray\); .*sha256"),
        ({"anchor": np.zeros((3, 8, 8, 3), np.uint8)}, r"anchor row 0 .*\(list\); .*sha256"),
        ({"anchor": ["a", None, "b"]}, r"anchor row 1 is None \(NoneType\); anchor must be text"),
        (
            {"anchor": [1, "1", 1]},
            r"anchor row 0 is 1 \(int\); anchor must be text, or all integers",
        ),
        ({"anchor": [0.1, 0.2, 0.3]}, r"anchor row 0 is 0.1 \(float\)"),
        ({"anchor": [b"a", b"b", b"c"]}, r"anchor row 0 is b'a' \(bytes\)"),
        ({"action": [("go", 1)] * 3}, r"action row 0 is \('go', 1\) \(tuple\)"),
        ({"goal": [None, "g"]}, r"goal row 0 is None"),
        (
            {"turn_reward": [[1, 2]] * 3, "turn_reward_names": "ab"},
            "turn_reward_names must be a list of values in order, got 'ab'",
        ),
        ({"goal": "ab"}, "goal must be a list of values in order, got 'ab'"),
        ({"outcome_in_reward": "no"}, "outcome_in_reward must be True, False or None, got 'no'"),
        ({"group": ["5e3c", "5e3c"]}, r"group row 0 is .*5e3c.*, not .*numbered by np\.unique"),
        ({"reward": ["a", "b", "c"]}, "reward row 0 is 'a', not a real number; give numbers such"),
        ({"reward": [0.0, 1.0, "b"]}, "reward row 2 is 'b', not a real number"),
        ({"reward": [0.0, 1j, 0.0]}, "reward row 1 is 1j, not a real number"),
        ({"reward": np.array(["1", "2", "3"])}, "reward row 0 is '1', not a real number"),
        ({"valid": ["yes", "no", "no"]}, "valid row 0 is 'yes', not a bool; give True or False"),
        (
            {"turn_reward": [[1], [None], [1]], "turn_reward_names": ("a",)},
            "turn_reward row 1 is None, not a real number",
        ),
        (
            {"turn_reward": [[1], [2], ["3"]], "turn_reward_names": ("a",)},
            "turn_reward row 0 is '1', not a real number",
        ),
        ({"rewards": [0.0] * 3}, "Turns has no column 'rewards'; did you mean 'reward'"),
        ({"gold_logprobs": [0.0] * 3}, "no column 'gold_logprobs'; did you mean 'gold_logprob'"),
        ({"reward": Tensor()}, r"reward is a Tensor that NumPy cannot read .*BFloat16.*float\(\)"),
        ({"turn_reward": Tensor(), "turn_reward_names": ("a",)}, "turn_reward is a Tensor"),
        ({"reward": [[1.0], [1.0, 2.0], []]}, "reward is a list that NumPy cannot read"),
    ],
)
def test_columns_of_another_type(change, message):
    with pytest.raises(TypeError, match=message):
        Turns(**{**GOOD, **change})


def test_real_tensors():
    torch = pytest.importorskip("torch")
    turns = Turns(**{**GOOD, "reward": torch.tensor([0.0, 0.5, 0.0])})
    assert turns.reward.tolist() == [0.0, 0.5, 0.0]
    for tensor in (torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3, requires_grad=True)):
        with pytest.raises(TypeError, match=r"reward\.detach\(\)\.float\(\)\.cpu\(\)"):
            Turns(**{**GOOD, "reward": tensor})


def test_integer_keys_become_text():
    turns = Turns(**{**GOOD, "anchor": np.array([3, 30, 3]), "action": [1, 2, 1]})
    assert turns.anchor.tolist() == ["3", "30", "3"]
    assert turns.action.tolist() == ["1", "2", "1"]
    assert Turns(**{**GOOD, "anchor": np.array(["a", "b", "a"])}).anchor.tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("reward", "where"),
    [
        (
            [-0.1, 1.0, 0.3],
            "on the last turn of every trajectory",
        ),  # the reward of the failure does not matter
        ([0.25, 0.75, 0.0], "summed over the turns"),
    ],
)
def test_rewards_that_include_the_outcome_are_refused(reward, where):
    with pytest.raises(ValueError, match=f"reward {where}.*outcome_in_reward=True"):
        Turns(**{**GOOD, "reward": reward})
    assert Turns(**{**GOOD, "reward": reward}, outcome_in_reward=False).reward.tolist() == reward
    without = Turns(**{**GOOD, "reward": reward}, outcome_in_reward=True).reward
    assert without == pytest.approx(np.array(reward) - [0, 1, 0])


def test_a_small_outcome_is_not_taken_for_a_reward_of_zero():
    assert Turns(**{**GOOD, "outcome": [1e-12, 0.0]}).reward.tolist() == [0.0] * 3
    for size in (1e-12, 1.0, 1e9):  # 0.1 + 0.2 is not exactly 0.3
        columns = {"outcome": [0.3 * size, 0.0], "reward": [0.1 * size, 0.2 * size, 0.0]}
        with pytest.raises(ValueError, match="summed over the turns"):
            Turns(**{**GOOD, **columns})


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


def test_columns_are_given_by_name():
    with pytest.raises(TypeError, match=r"given by name, as Turns\(group=.*got \{\}"):
        Turns({})


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
    episode.turns[1].turn_reward = {"a": 1.0}
    with pytest.raises(ValueError, match=r"turn_reward row 1 has \['a'\]"):
        Turns.from_episodes([episode])
    episode.turns[0].turn_reward = None
    with pytest.raises(ValueError, match=r"row 1 has \['a'\], the first has \[\]"):
        Turns.from_episodes([episode])


def test_entropy_of_some_turns_only():
    turn = {"reward": 0.0, "valid": True, "progress": 0.0, "anchor": "s", "action": "go"}
    some = [SimpleNamespace(**turn, entropy=0.5), SimpleNamespace(**turn, entropy=None)]
    with pytest.raises(ValueError, match="entropy row 1 is None"):
        Turns.from_episodes([SimpleNamespace(group=0, outcome=1.0, goal="", turns=some)])


@given(batches())
@settings(max_examples=20)
def test_round_trips_through_parquet(tmp_path_factory, turns):
    path = tmp_path_factory.mktemp("turns") / "turns.parquet"
    turns.to_parquet(path)
    again = Turns.from_parquet(path)
    for name in (*GOOD, "entropy", "gold_logprob", "turn_reward"):
        assert getattr(again, name).tolist() == getattr(turns, name).tolist()


def test_optional_columns_round_trip(tmp_path):
    turns = batch(
        [2, 1],
        [1.0, 0.0],
        [0, 0],
        entropy=[0.1, 0.2, 0.3],
        turn_reward=[[1.0, 0.0], [0.5, 2.0], [0.0, 0.0]],
        turn_reward_names=("tool", "answer"),
    )
    turns.to_parquet(tmp_path / "t.parquet")
    again = Turns.from_parquet(tmp_path / "t.parquet")
    assert again.turn_reward.tolist() == turns.turn_reward.tolist()
    assert again.turn_reward_names == ("tool", "answer")
    assert again.entropy.tolist() == [0.1, 0.2, 0.3]


def test_empty_batch(tmp_path):
    empty = batch([], [], [])
    empty.to_parquet(tmp_path / "empty.parquet")
    assert len(Turns.from_parquet(tmp_path / "empty.parquet")) == 0


def test_missing_columns_stay_missing(tmp_path):
    batch([1], [1.0], [0]).to_parquet(tmp_path / "t.parquet")
    again = Turns.from_parquet(tmp_path / "t.parquet")
    assert (again.entropy, again.turn_reward, again.turn_reward_names) == (None, None, ())
