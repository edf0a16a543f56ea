"""Turn records: through JSON and back, and from recorded episodes to rows."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credit
from credit.rows import VERSION, TurnRecord, rows_of, spans_of, token_advantages
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
        "reward": 0.0,
        "turn_reward": {},
        "entropy": None,
        "span": None,
        "outcome": None,
        "success": None,
        "version": 1,
    }


@pytest.mark.parametrize("changed", [{}, {"token_ids": [1, 2]}, {"goal": None}])
def test_another_version_is_refused_as_such(changed):
    """A later version may have other keys and other types."""
    with pytest.raises(ValueError, match="record of version 2, this is version 1; install the sa"):
        TurnRecord.of({**PLAIN, **changed, "version": 2})
    with pytest.raises(ValueError, match="version 2"):
        TurnRecord(**PLAIN, version=2)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("valid", 1, r"valid of a turn record must be bool, got 1 \(int\)"),
        ("valid", np.bool_(1), "valid of a turn record must be bool"),
        ("step", 0.0, "step of a turn record must be int"),
        ("step", True, "step of a turn record must be int"),
        ("reward", np.float32(1), "reward of a turn record must be int or float"),
        ("progress", None, "progress of a turn record must be int or float, got None"),
        ("anchor", 3, "anchor of a turn record must be str, got 3"),
        ("outcome", "1", "outcome of a turn record must be int or float or None"),
        ("success", 1, "success of a turn record must be bool or None"),
        ("turn_reward", None, "turn_reward of a turn record must be dict"),
        (
            "turn_reward",
            {"exact": "1"},
            r"turn_reward\['exact'\] of a turn record must be int or float, got '1'",
        ),
        ("turn_reward", {"exact": np.float32(1)}, "must be int or float"),
        (
            "turn_reward",
            {0: 1.0},
            r"a name in turn_reward of a turn record must be str, got 0 \(int\)",
        ),
        ("span", 5, "span of a turn record must be tuple or list or None"),
        ("span", (1, 2, 3), "span of a turn record is two integers"),
        ("span", (0.0, 1.0), "span of a turn record is two integers"),
    ],
)
def test_values_of_another_type_are_refused(name, value, message):
    with pytest.raises(TypeError, match=message):
        TurnRecord.of(PLAIN | {name: value})


@pytest.mark.parametrize("span", [(3, 2), (-1, 2)])
def test_a_span_begins_before_it_ends(span):
    with pytest.raises(ValueError, match="first token and end"):
        TurnRecord(**PLAIN, span=span)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reward", float("nan")),
        ("outcome", float("-inf")),
        ("outcome", 10**400),
        ("turn_reward", {"exact": float("nan")}),
        ("progress", 1.5),
        ("progress", -0.1),
        ("progress", float("nan")),
        ("entropy", -1.0),
        ("entropy", 10**400),
        ("step", -1),
        ("step", 10**30),
        ("goal", "a \ud800 b"),
        ("anchor", "\udfff"),
    ],
)
def test_values_that_json_or_credit_cannot_hold_are_refused(name, value):
    with pytest.raises(ValueError, match=rf"{name}.* of a turn record "):
        TurnRecord.of(PLAIN | {name: value})


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


def test_what_is_no_record_is_refused():
    with pytest.raises(ValueError, match=r"a turn record has no 'anchors'.*did you mean 'anchor'"):
        TurnRecord.of({**PLAIN, "anchors": "s"})
    with pytest.raises(TypeError, match=r"needs task_id, goal, .* got no goal"):
        TurnRecord.of({name: value for name, value in PLAIN.items() if name != "goal"})
    for other in ("go", 3, None, ["go"]):
        with pytest.raises(TypeError, match="a turn record is a mapping, got"):
            TurnRecord.of(other)


# from episodes to rows


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


def test_no_episodes():
    assert len(rows_of([], []).turns) == 0


CUT = episode(3, 1.0)
REFUSED = {
    "unfinished": ([CUT[:-1]], "episode 0 has no outcome: its last turn is missing.*stop"),
    "of two tasks": ([[*CUT[:2], replace(CUT[2], task_id="other")]], "share the task"),
    "without a middle turn": ([[CUT[0], CUT[2]]], "trajectory 0 has no step 1, but step 2"),
    "ended twice": (
        [[replace(CUT[0], outcome=0.5), *CUT[1:]]],
        "episode 0 has the outcome 0.5 at step 0 and 1.0 at step 2; only the last turn has one",
    ),
    "two ends": ([[*CUT, replace(CUT[2], outcome=0.0)]], "episode 0 has the outcome 1.0 at step 2"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_episodes_are_refused(what):
    episodes, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        rows_of(episodes, list(range(len(episodes))))


def test_an_episode_of_two_groups_is_refused():
    with pytest.raises(ValueError, match="'e' has the uid 'a' in row 0 and 'b' in row 1"):
        rows_of([CUT[:1], CUT[1:]], ["a", "b"], trajectory=["e", "e"])


def test_each_episode_needs_a_uid():
    with pytest.raises(ValueError, match="1 episodes, 2 uids and 1 trajectories"):
        rows_of([CUT], ["a", "b"])
    with pytest.raises(ValueError, match="1 episodes, 1 uids and 2 trajectories"):
        rows_of([CUT], ["a"], trajectory=["x", "y"])
    with pytest.raises(TypeError, match="episode 0 must be a list of values in order, got Turn"):
        rows_of(CUT, [0, 1, 2])
    with pytest.raises(TypeError, match=r"episode 0 must be a list of values in order, got \{"):
        rows_of([PLAIN], [0])
    with pytest.raises(TypeError, match="a turn record is a mapping, got 'go'"):
        rows_of([["go"]], [0])


@pytest.mark.parametrize("given", [iter([CUT]), None, {0: CUT}, 3])
def test_episodes_are_a_list(given):
    """A generator would be used up."""
    for call in (lambda: rows_of(given, ["a"]), lambda: spans_of(given)):
        with pytest.raises(TypeError, match="episodes must be a list"):
            call()


@pytest.mark.parametrize("name", ["uid", "trajectory"])
@pytest.mark.parametrize("given", [3, {"a", "b"}, "ab", None])
def test_ids_of_episodes_are_a_list(name, given):
    ids = {"uid": ["a", "a"]} | {name: given}
    if ids == {"uid": ["a", "a"], "trajectory": None}:  # the episodes are numbered
        assert len(rows_of([CUT, CUT], **ids).turns) == 6
        return
    with pytest.raises(TypeError, match=f"{name} must be a list of values in order"):
        rows_of([CUT, CUT], **ids)


# a part of the tokens

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


@pytest.mark.parametrize(("first", "rows"), [(3, 1), (1, 3), (0, 4), (10**9, 1)])
def test_the_rows_of_a_mask_are_episodes(first, rows):
    message = f"the mask has {rows} rows from episode first={first} on, but the episodes are 0 to 2"
    with pytest.raises(ValueError, match=message):
        of_part(first, rows)


@pytest.mark.parametrize("first", [None, 1.0, "0", True])
def test_first_is_a_number(first):
    with pytest.raises(TypeError, match=f"it is the number of an episode, got {first!r}"):
        of_part(first)


@pytest.mark.parametrize("first", [-1, -3])
def test_first_is_not_counted_from_the_end(first):
    with pytest.raises(ValueError, match=f"it is the number of an episode, got {first}"):
        of_part(first)


def test_a_mask_is_needed():
    with pytest.raises(TypeError, match=r"mask must be \[R, T\] ones and zeros, got None"):
        token_advantages(lambda turns, _: turns.outcome, SPANNED, ["a"] * 3, None)
