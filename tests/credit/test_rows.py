"""Rows of a trainer: in any order and of any type, to turns and back to tokens."""

import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credit
from credit.rows import COLUMNS
from tests.credit.batches import batches

# docs/credit.md, "Needs" of each method; outcome and ids are always given
NEEDS = {name: set() for name in ("dr_grpo", "grpo", "grpo_or", "loop", "rloo", "signal")}
NEEDS |= {"reinforce": set(), "reinforce_pp": set()}
NEEDS |= {name: {"turn_reward"} for name in ("grpo_mr", "istar", "mt_grpo", "mt_rloo", "prime")}
NEEDS |= {name: {"anchor", "reward"} for name in ("gigpo", "stapo", "stapo_dynamic")}
NEEDS |= {name: {"reward"} for name in ("kevin", "rebn", "turn_rloo")}
NEEDS |= {"hgpo": {"anchor", "reward"}}
NEEDS |= {"rtmc": {"anchor", "action", "reward"}}
NEEDS |= {name: {"gold_logprob"} for name in ("igpo", "trace")}
NEEDS |= {"empg": {"entropy"}, "has": {"progress"}, "mgr": {"action", "valid"}}
# what a method reads if it is given
READS = {"signal": {"anchor", "action", "progress", "progress_before", "valid"}}
OPTIONAL = ("goal", "turn_reward", *COLUMNS)


def made(name):
    return credit.make(name, **({"gate": "none"} if name == "mgr" else {}))


def ids(**changed):
    """Two trajectories "x" and "y" of task "t", three turns and one, out of order."""
    plain = {
        "uid": ["t", "t", "t", "t"],
        "trajectory": ["x", "y", "x", "x"],
        "step": [2, 0, 0, 1],
        "outcome": [1.0, 0.0, 1.0, 1.0],
    }
    return plain | changed


def every_column():
    """The rows of `ids` with all columns."""
    return ids(
        goal=["a mug"] * 4,
        reward=[0.25, 0.5, 0.0, -0.5],
        valid=[True, True, True, False],
        progress=[1.0, 0.5, 0.25, 0.5],
        anchor=["c", "a", "a", "b"],
        action=["take", "look", "go", "fly"],
        entropy=[0.1, 0.4, 0.2, 0.9],
        gold_logprob=[-0.5, -2.0, -1.0, -0.25],
        progress_before=[0.5, 0.0, 0.0, 0.25],
        turn_reward={"implicit": [0.5, 0.25, -1.0, 2.0]},
    )


def test_rows_out_of_order_are_sorted():
    rows = credit.rows(**every_column())
    # x is the first trajectory that occurs: its steps 0, 1, 2 are rows 2, 3, 0; then y, row 1
    assert rows.turns.trajectory.tolist() == [0, 0, 0, 1]
    assert rows.turns.group.tolist() == [0, 0]
    assert rows.turns.outcome.tolist() == [1.0, 0.0]
    assert rows.turns.action.tolist() == ["go", "fly", "take", "look"]
    assert rows.turns.progress.tolist() == [0.25, 0.5, 1.0, 0.5]
    assert rows.turns.valid.tolist() == [True, False, True, True]
    assert rows.turns.turn_reward_names == ("implicit",)
    assert rows.turns.turn_reward.tolist() == [[-1.0], [2.0], [0.5], [0.25]]
    assert rows.turn.tolist() == [2, 3, 0, 1]
    assert rows.advantage([10, 11, 12, 20]).tolist() == [12, 20, 10, 11]


def test_groups_and_trajectories_are_numbered_as_they_occur():
    rows = credit.rows(
        uid=["b", "a", "b"], trajectory=["b1", "a1", "b0"], step=[0, 0, 0], outcome=[1, 2, 3]
    )
    assert rows.turns.group.tolist() == [0, 1, 0]
    assert rows.turns.outcome.tolist() == [1.0, 2.0, 3.0]


def flattened(turns, order):
    """A trainer's rows of a batch, in an order."""
    owner = turns.trajectory
    columns = {name: getattr(turns, name) for name in COLUMNS}
    whole = {
        "uid": [f"task {group}" for group in turns.group_of_turn],
        "trajectory": [
            f"{group}/{one}" for group, one in zip(turns.group_of_turn, owner, strict=True)
        ],
        "step": turns.position,
        "outcome": turns.outcome[owner],
        "goal": turns.goal[owner],
    }
    taken = {name: [column[row] for row in order] for name, column in (whole | columns).items()}
    paid = turns.verifier_reward("implicit")
    return taken | {"turn_reward": [{"implicit": paid[row]} for row in order]}


@pytest.mark.parametrize("name", ["grpo", "gigpo", "has", "mgr", "istar", "empg"])
@given(turns=batches(), data=st.data())
@settings(max_examples=25)
def test_any_order_of_rows_gives_each_row_its_advantage(name, turns, data):
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(len(turns))
    rows = credit.rows(**flattened(turns, order))
    assert rows.advantage(made(name)(rows.turns)) == pytest.approx(
        made(name)(turns)[order], abs=1e-6
    )


@given(turns=batches(), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_rows_keep_what_was_given(turns, seed):
    """In order they are the turns bit for bit; in any order each row has its own values."""
    rng = np.random.default_rng(seed)
    for order in (np.arange(len(turns)), rng.permutation(len(turns))):
        rows = credit.rows(**flattened(turns, order))
        for name in (*COLUMNS, "position"):
            kept = getattr(rows.turns, name)[rows.turn]
            assert kept.tolist() == getattr(turns, name)[order].tolist()
        owner = rows.turns.trajectory[rows.turn]
        assert rows.turns.outcome[owner].tolist() == turns.outcome[turns.trajectory][order].tolist()
    in_order = credit.rows(**flattened(turns, np.arange(len(turns))))
    for name in credit.names():
        assert made(name)(in_order.turns).tolist() == made(name)(turns).tolist()


@given(turns=batches(), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_equal_rows_count_once(turns, seed):
    """verl-agent fills a batch with copies of its rows."""
    drawn = np.random.default_rng(seed).integers(0, len(turns), len(turns))
    order = np.concatenate([np.arange(len(turns)), drawn])
    rows = credit.rows(**flattened(turns, order))
    assert len(rows.turns) == len(turns)
    alone = made("gigpo")(turns)
    assert rows.advantage(made("gigpo")(rows.turns)) == pytest.approx(alone[order], abs=1e-9)


@pytest.mark.parametrize("kind", ["object arrays", "typed arrays", "uuids as text", "numbers"])
def test_columns_as_trainers_hold_them(kind):
    given = every_column()
    plain = credit.rows(**given)
    turn_reward = [{"implicit": paid} for paid in given["turn_reward"]["implicit"]]
    if kind == "object arrays":  # verl's non_tensor_batch
        given = {name: np.array(column, dtype=object) for name, column in given.items()}
        given["turn_reward"] = np.array(turn_reward, dtype=object)
    elif kind == "typed arrays":
        paid = given.pop("turn_reward")["implicit"]
        given = {name: np.array(column) for name, column in given.items()}
        given["outcome"] = given["outcome"].astype(np.float32)
        given["turn_reward"] = {"implicit": np.array(paid)}
    elif kind == "uuids as text":
        names = {name: str(uuid.uuid4()) for name in ("t", "x", "y")}
        given |= {key: [names[one] for one in given[key]] for key in ("uid", "trajectory")}
    else:
        given |= {"uid": np.full(4, -7), "trajectory": [np.int64(9), 3, 9, 9]}
    rows = credit.rows(**given)
    assert rows.turn.tolist() == plain.turn.tolist()
    for name in credit.names():
        assert made(name)(rows.turns).tolist() == made(name)(plain.turns).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "bool", "int64"])
def test_tensors(dtype):
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    given = every_column()
    for name in ("outcome", "reward", "progress"):  # all are multiples of 1/4
        given[name] = torch.tensor(given[name], dtype=torch.bfloat16, requires_grad=True)
    given |= {"step": torch.tensor(given["step"]), "uid": torch.zeros(4, dtype=torch.int32)}
    rows = credit.rows(**given)
    assert rows.turns.progress.tolist() == [0.25, 0.5, 1.0, 0.5]
    mask = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]]).to(kind)
    spread = rows.scatter(torch.tensor([0.5, 1.5, 2.5, -1.0], dtype=torch.bfloat16), mask)
    assert (spread.dtype, spread.device) == (torch.float32, mask.device)
    assert spread.tolist() == [[0, 2.5, 2.5], [-1, 0, 0], [0, 0, 0], [1.5, 1.5, 1.5]]
    spans = torch.tensor([[0, 1, 3], [1, 0, 1], [2, 0, 0], [3, 0, 3]])
    assert rows.scatter([0.5, 1.5, 2.5, -1.0], mask, spans).tolist() == spread.tolist()


def test_every_method_has_its_needs():
    assert set(NEEDS) == set(credit.names())


@pytest.mark.parametrize("without", OPTIONAL)
@pytest.mark.parametrize("name", credit.names())
def test_a_method_names_the_column_that_it_lacks(name, without):
    given = every_column()
    whole = made(name)(credit.rows(**given).turns)
    del given[without]
    rows = credit.rows(**given)
    if without in NEEDS[name]:
        with pytest.raises(ValueError, match=without):
            made(name)(rows.turns)
    else:
        found = made(name)(rows.turns)
        assert without in READS.get(name, ()) or found.tolist() == whole.tolist()


def test_none_is_a_column_that_is_left_out_and_the_outcome_is_not_the_reward():
    rows = credit.rows(**ids(entropy=None, goal=None, turn_reward=None))
    assert not any(rows.turns.has(name) for name in OPTIONAL)
    # x ends with reward 1.25, of which the outcome is 1: 0.25 of the turn's own are left
    given = ids(reward=[1.25, 0.0, 0.0, 0.0], outcome_in_reward=True)
    assert credit.rows(**given).turns.reward.tolist() == [0.0, 0.0, 0.25, 0.0]


def test_each_row_of_a_mask_is_a_turn():
    rows = credit.rows(**ids())
    mask = [[0, 0, 1], [1, 1, 0], [0, 0, 0], [0, 1, 1]]
    spread = rows.scatter([10, 11, 12, 20], mask)
    assert spread.dtype == np.float64
    assert spread.tolist() == [[0, 0, 12], [20, 20, 0], [0, 0, 0], [0, 11, 11]]


def test_several_turns_in_a_row_of_a_mask():
    rows = credit.rows(**ids())
    # tokens of x: reply, reply, observation, reply, observation, reply; of y: reply
    mask = [[1, 1, 0, 1, 0, 1], [1, 0, 0, 0, 0, 0]]
    spans = [(0, 5, 6), (1, 0, 1), (0, 0, 2), (0, 3, 4)]  # of the rows in their own order
    assert rows.scatter([10, 11, 12, 20], mask, spans).tolist() == [
        [10, 10, 0, 11, 0, 12],
        [20, 0, 0, 0, 0, 0],
    ]


@given(data=st.data())
@settings(max_examples=50)
def test_spans_and_rows_put_the_same_numbers_at_the_same_replies(data):
    """The replies of each trajectory one after another in a row, or each in a row of its own."""
    turns = data.draw(batches())
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    order = rng.permutation(len(turns))
    rows = credit.rows(**flattened(turns, order))
    advantage = rng.normal(size=len(turns))
    lengths = rng.integers(0, 4, len(turns))  # of the rows' replies
    single = np.arange(4) < lengths[:, None]
    wide = np.zeros((len(turns.group), 7 * 30), dtype=bool)
    owner, step = turns.trajectory[order], turns.position[order]
    spans = np.stack([owner, 7 * step, 7 * step + lengths], axis=1)
    for at, start, end in spans:
        wide[at, start:end] = True
    packed = rows.scatter(advantage, wide, spans)
    apart = rows.scatter(advantage, single)
    for row, (at, start, end) in enumerate(spans):
        assert packed[at, start:end].tolist() == apart[row, : lengths[row]].tolist()
    assert not packed[~wide].any()
    assert packed.sum() == pytest.approx(apart.sum())


def test_equal_rows_may_have_one_span():
    rows = credit.rows(uid=[1, 1], trajectory=["x", "x"], step=[0, 0], outcome=[1.0, 1.0])
    assert rows.scatter([3.0], [[0, 1, 1]], [(0, 1, 3), (0, 1, 3)]).tolist() == [[0, 3, 3]]
    assert rows.scatter([3.0], [[0, 1], [1, 0]]).tolist() == [[0, 3], [3, 0]]
    with pytest.raises(ValueError, match="spans 0 and 1 have tokens of row 0 in common"):
        rows.scatter([3.0], [[1, 1, 1]], [(0, 0, 2), (0, 1, 3)])


def test_no_rows():
    rows = credit.rows(uid=[], trajectory=[], step=[], outcome=[], turn_reward=[], anchor=[])
    assert (len(rows.turns), rows.turn.tolist()) == (0, [])
    assert rows.scatter([], np.zeros((0, 5))).shape == (0, 5)
    assert rows.scatter([], np.zeros((2, 5)), []).tolist() == [[0.0] * 5] * 2
