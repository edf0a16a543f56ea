"""Relations that hold for every method on any batch, checks of options, and public names."""

import re
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credit
from tests.credit.batches import batch, batches, rows, turn_rows

# without its gate MGR draws nothing, so that the order of trajectories does not matter
METHODS = {
    name: credit.make(name, **({"gate": "none"} if name == "mgr" else {}))
    for name in credit.names()
}
METHODS |= {
    "gigpo similar": credit.make("gigpo", anchors="similar"),
    "gigpo step": credit.make("gigpo", baseline="step"),
    "gigpo means": credit.make("gigpo", mode="mean_norm"),
    "has anchor": credit.make("has", normalize="anchor"),
    "has group": credit.make("has", normalize="group"),
    "mt_grpo anchor": credit.make("mt_grpo", normalize="anchor"),
    "mt_grpo code": credit.make("mt_grpo", variant="code"),
    "hgpo means": credit.make("hgpo", mode="mean_norm", weights="paper", omega=0.5),
    "igpo separate": credit.make("igpo", mode="separate", gain="log_prob_diff", gamma=0.9),
    "istar max": credit.make("istar", scale="max"),
    "kevin max": credit.make("kevin", returns="max"),
    "rtmc std": credit.make("rtmc", mode="std", prior=0.0),
    "istar merged": credit.make("istar", variant="merged"),
}
ACROSS = {"empg", "istar max", "rebn", "reinforce_pp", "signal"}  # these compare across the batch
WITHIN_GROUPS = sorted(METHODS.keys() - ACROSS)
COMPARING = sorted(METHODS.keys() - {"empg", "rebn", "reinforce", "reinforce_pp", "signal"})
ORDER_BLIND = [name for name in WITHIN_GROUPS if name != "gigpo similar"]
few = settings(max_examples=10)
UNREAD = [
    (name, condition, option)
    for name, made in METHODS.items()
    if name in credit.names()
    for condition, options in getattr(made, "unread", {}).items()
    for option in options.split()
]
TEXTS = {
    "entropy": "shannon", "penalty": "single", "estimator": "k3", "singleton": "raw",
    "anchors": "similar", "baseline": "step", "scale": "max", "weights": "paper", "column": "mine",
    "normalize": "group",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(METHODS))
@given(turns=batches())
@few
def test_one_finite_number_per_turn_the_same_at_every_call(name, turns):
    advantage = METHODS[name](turns)
    assert (advantage.shape, advantage.dtype) == ((len(turns),), np.float64)
    assert np.isfinite(advantage).all()
    assert np.array_equal(METHODS[name](turns), advantage)
    advantage[:] = 0  # the caller may write to the result


@pytest.mark.parametrize(("name", "condition", "option"), UNREAD)
@given(turns=batches())
@few
def test_what_is_not_read_changes_nothing_and_is_refused(name, condition, option, turns):
    key, sign, value = re.split("(!?=)", condition)
    given = type(getattr(METHODS[name], key))(value)
    made = credit.make(name, **{key: given if sign == "=" else given + 0.1})
    default = getattr(made, option)
    other = TEXTS.get(option) or (default + 1 if type(default) is int else default / 2 + 0.35)
    with pytest.raises(ValueError, match=rf"^{option}=.* is not read with {key}=.*; leave out"):
        replace(made, **{option: other})
    changed = copy(made)
    object.__setattr__(changed, option, other)  # as if it were not refused
    both = [each(turns, np.random.default_rng(0)) for each in (changed, made)]
    assert both[0] == pytest.approx(both[1], abs=1e-5)
    for one, two in (
        zip(*(each.weights(turns) for each in (made, changed)), strict=True)
        if (name.startswith("stapo"))
        else ()
    ):
        assert one.tolist() == two.tolist()


@pytest.mark.parametrize("name", [*ORDER_BLIND, *sorted(ACROSS)])
@given(turns=batches(), seed=st.integers(0, 99))
@few
def test_order_of_trajectories_does_not_matter(name, turns, seed):
    order = np.random.default_rng(seed).permutation(len(turns.group))
    shuffled = METHODS[name](rows(turns, order))
    assert shuffled == pytest.approx(METHODS[name](turns)[turn_rows(turns, order)], abs=1e-6)


@pytest.mark.parametrize("name", WITHIN_GROUPS)
@given(turns=batches())
@few
def test_tasks_do_not_leak(name, turns):
    members = np.flatnonzero(turns.group == turns.group[0])
    alone = METHODS[name](rows(turns, members))
    assert alone == pytest.approx(METHODS[name](turns)[turn_rows(turns, members)], abs=1e-6)


@pytest.mark.parametrize("name", sorted(METHODS))
@given(turns=batches())
@few
def test_group_numbers_are_only_names(name, turns):
    renamed = rows(turns, range(len(turns.group)), group=7 - 3 * turns.group)
    assert METHODS[name](renamed) == pytest.approx(METHODS[name](turns), abs=1e-6)


@pytest.mark.parametrize("name", sorted(METHODS))
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([1e-3, 1.0, 1e3]),
    different=st.integers(1, 3),
    paid=st.booleans(),
)
@few
def test_rounding_changes_nothing(name, seed, size, different, paid):
    """Equal numbers of another order of summation differ by 1e-15 of their size."""
    rng = np.random.default_rng(seed)
    total = 24
    values = np.round(rng.normal(size=different), 2) * size
    numbers = {
        "reward": np.tile(rng.choice(values, 4), 6) * paid,
        "turn_reward": rng.choice(values, total)[:, None],
        "entropy": rng.choice(np.abs(values), total),
        "gold_logprob": -rng.choice(np.abs(values), total),
        "progress": rng.choice([0.0, 0.1, 0.3, 0.7], total),
    }
    others = {
        "valid": rng.random(total) < 0.8,
        "anchor": [f"s{state}" for state in rng.integers(0, 3, total)],
        "action": [f"a{action}" for action in rng.integers(0, 3, total)],
        "turn_reward_names": ("implicit",),
    }
    outcome = rng.integers(0, 2, 6).tolist()
    rounded = {
        key: column * (1 + 1e-15 * rng.integers(-4, 5, column.shape))
        for key, column in numbers.items()
    }
    first, second = (
        METHODS[name](batch([4] * 6, outcome, [0] * 3 + [1] * 3, **columns, **others))
        for columns in (numbers, rounded)
    )
    assert second == pytest.approx(first, rel=1e-4, abs=1e-4 * max(1.0, np.abs(first).max()))


@pytest.mark.parametrize("name", COMPARING)
def test_single_trajectories_in_states_that_occur_once_get_zero(name):
    turns = batch(
        [2, 1],
        [1.0, 0.0],
        [0, 1],
        turn_reward=[[1.0], [1.0], [5.0]],
        turn_reward_names=("implicit",),
        entropy=[0.1, 0.2, 0.3],
        gold_logprob=[-0.1, -0.2, -0.3],
        progress=[0.5, 1.0, 0.0],
        anchor=["you are at the desk", "nothing of that kind", "a garden"],
    )
    assert METHODS[name](turns).tolist() == [0, 0, 0]


SHIFTED = "has mt_grpo mt_rloo istar grpo_mr empg rebn reinforce_pp grpo dr_grpo rloo signal"


@pytest.mark.parametrize("name", SHIFTED.split())
@given(turns=batches())
@few
def test_a_constant_added_to_the_outcome_changes_nothing(name, turns):
    shifted = rows(turns, range(len(turns.group)), outcome=turns.outcome + 2)
    assert METHODS[name](shifted) == pytest.approx(METHODS[name](turns), abs=1e-6)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_an_empty_batch_gives_an_empty_array(name):
    assert METHODS[name](batch([], [], [])).shape == (0,)


@pytest.mark.parametrize("second", [-9e99, 9e99])  # their sum may be above the largest number
@pytest.mark.parametrize("name", sorted(METHODS))
def test_columns_near_the_largest_number_stay_finite(name, second):
    big = np.array([9e99, second, 9e99, 0.0])
    turns = batch(
        [2, 2],
        [1.0, 0.0],
        [0, 0],
        reward=big,
        entropy=np.abs(big),
        gold_logprob=-np.abs(big),
        anchor=["s"] * 4,
        turn_reward=big[:, None],
        turn_reward_names=("implicit",),
    )
    assert np.isfinite(METHODS[name](turns)).all()


def test_public_names():
    assert " ".join(credit.__all__) == (
        "EMPG GRPO HAS HGPO IGPO MGR MTGRPO MTRLOO RLOO RTMC STAPO TRACE DrGRPO Estimator GiGPO "
        "IStar Judge Kevin MergedGRPO MissingColumn Prime Progressive ReBN Reinforce ReinforcePP "
        "Rows SignalCritic TurnRLOO TurnRecord Turns anchors estimate filters make names rows "
        "rows_of stats"
    )
    assert " ".join(credit.names()) == (
        "dr_grpo empg gigpo grpo grpo_mr grpo_or has hgpo igpo istar kevin loop mgr mt_grpo "
        "mt_rloo prime rebn reinforce reinforce_pp rloo rtmc signal stapo stapo_dynamic trace "
        "turn_rloo"
    )
