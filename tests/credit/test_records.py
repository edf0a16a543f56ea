"""Turn records: through JSON and back, and from recorded episodes to rows."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credit
from credit.rows import VERSION, TurnRecord, rows_of, token_advantages
from tests.credit.batches import batches

PLAIN = {"task_id": "t", "goal": "a mug", "step": 0, "action": "go", "anchor": "s0", "valid": True}


def episode(count, outcome, **changed):
    """An episode of `count` turns that ends with an outcome."""
    turns = [
        TurnRecord(**PLAIN | {"step": step, "action": f"go {step}", "anchor": f"s{step}"} | changed)
        for step in range(count)
    ]
    return [*turns[:-1], replace(turns[-1], outcome=outcome, success=outcome > 0)]


finite = st.floats(-1e9, 1e9)
records = st.builds(
    TurnRecord,
    task_id=st.text(),
    goal=st.text(),
    step=st.integers(0, 99),
    action=st.text(),
    anchor=st.text(),
    valid=st.booleans(),
    invalid_reason=st.text(),
    progress=st.floats(0, 1),
    reward=finite | st.integers(-9, 9),
    turn_reward=st.dictionaries(st.text(), finite),
    entropy=st.none() | st.floats(0, 9),
    span=st.none() | st.tuples(st.integers(0, 9), st.integers(9, 20)),
    outcome=st.none() | finite,
    success=st.none() | st.booleans(),
)


@given(record=records)
@settings(max_examples=50)
def test_json_and_pickle_bring_back_the_same_record(record):
    sent = json.loads(json.dumps(record.to_dict(), allow_nan=False))
    assert sent["version"] == VERSION == 1
    assert TurnRecord.of(sent) == record == TurnRecord.of(record)
    assert pickle.loads(pickle.dumps(record)) == record


def test_what_a_record_knows_by_itself():
    record = TurnRecord.of(PLAIN)
    assert record.to_dict() == PLAIN | {
        "invalid_reason": "",
        "progress": 0.0,
        "progress_before": 0.0,
        "reward": 0.0,
        "turn_reward": {},
        "entropy": None,
        "span": None,
        "outcome": None,
        "success": None,
        "version": 1,
    }


def test_numbers_that_leave_their_range_by_rounding_are_set_to_its_end():
    record = TurnRecord.of(PLAIN | {"progress": 1.0000000000000002, "entropy": -1e-9})
    assert (record.progress, record.entropy) == (1.0, 0.0)
    assert type(record.entropy) is float


def test_columns_that_some_turns_lack_are_missing():
    """Only a method that reads them is refused."""
    turns = [episode(2, 1.0, entropy=0.5), episode(1, 0.0, turn_reward={"exact": 1.0})]
    rows = credit.rows_of(turns, ["a", "a"])
    assert np.isfinite(credit.make("grpo")(rows.turns)).all()
    for method, column in (("empg", "entropy"), ("mt_grpo", "turn_reward")):
        with pytest.raises(credit.MissingColumn, match=column):
            credit.make(method)(rows.turns)


def test_rows_of_two_episodes():
    first = episode(2, 1.0, reward=0.5, turn_reward={"exact": 2.0})
    second = [record.to_dict() for record in episode(1, 0.0, turn_reward={"exact": 3.0})]
    rows = rows_of([first, second], ["a", "a"])
    turns = rows.turns
    assert rows.turn.tolist() == [0, 1, 2]
    assert turns.group.tolist() == [0, 0]
    assert turns.trajectory.tolist() == [0, 0, 1]
    assert turns.outcome.tolist() == [1.0, 0.0]
    assert turns.goal.tolist() == ["a mug", "a mug"]
    assert turns.action.tolist() == ["go 0", "go 1", "go 0"]
    assert turns.anchor.tolist() == ["s0", "s1", "s0"]
    assert turns.reward.tolist() == [0.5, 0.5, 0.0]
    assert turns.valid.tolist() == [True] * 3
    assert turns.turn_reward_names == ("exact",)
    assert turns.turn_reward.tolist() == [[2.0], [2.0], [3.0]]
    assert turns.entropy is None


def test_a_reward_that_looks_like_the_outcome_is_kept():
    """The reward of a record never has the outcome in it."""
    assert rows_of([episode(1, 1.0, reward=1.0)], [0]).turns.reward.tolist() == [1.0]


@given(turns=batches(), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_records_in_any_order_give_the_advantages_of_their_turns(turns, seed):
    rng = np.random.default_rng(seed)
    parts, uid, names, which = [], [], [], []
    for one in rng.permutation(len(turns.group)).tolist():
        of_one = np.flatnonzero(turns.trajectory == one)
        for part in np.array_split(rng.permutation(of_one), 2):  # of one episode, in any order
            parts.append([
                TurnRecord(
                    **PLAIN | {"step": int(turns.position[row])},
                ).to_dict() | {
                    "anchor": turns.anchor[row],
                    "action": turns.action[row],
                    "valid": bool(turns.valid[row]),
                    "progress": float(turns.progress[row]),
                    "progress_before": float(turns.progress_before[row]),
                    "reward": float(turns.reward[row]),
                    "entropy": float(turns.entropy[row]),
                    "turn_reward": {"implicit": float(turns.turn_reward[row, 0])},
                    "outcome": float(turns.outcome[one]) if turns.last[row] else None,
                }
                for row in part.tolist()
            ])  # fmt: skip
            uid.append(f"task {turns.group[one]}")
            names.append(f"episode {one}")
            which.extend(part.tolist())
    rows = rows_of(parts, uid, trajectory=names)
    for name in ("grpo", "gigpo", "has", "stapo", "empg", "prime"):
        method = credit.make(name)
        assert rows.advantage(method(rows.turns)) == pytest.approx(method(turns)[which], abs=1e-6)


SPANNED = [[replace(episode(1, won)[0], span=(0, 1))] for won in (0.0, 1.0, 1.0)]


def of_part(first, rows=1):
    """Outcomes as advantages of the tokens of some of three episodes."""
    return token_advantages(
        lambda turns, _: turns.outcome, SPANNED, ["a"] * 3, np.ones((rows, 1)), first=first
    ).tolist()


def test_a_mask_may_have_a_part_of_the_episodes():
    assert [of_part(first) for first in range(3)] == [[[0.0]], [[1.0]], [[1.0]]]
    assert of_part(np.int64(1), rows=2) == [[1.0], [1.0]]
    assert of_part(3, rows=0) == []
    assert len(rows_of([], []).turns) == 0  # no episodes
