"""STAPO: normalized entropy, fences and masks worked by hand, relations, ablations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import credit
from credit.methods.stapo import STAPO, fences, normalized_entropy, outliers
from tests.credit.batches import batch, batches

few = settings(max_examples=25)


def test_normalized_entropy():  # state 0 has 1, 2, 3: mean 2, deviation 1; state 1 occurs once
    entropy, states = [1.0, 5.0, 2.0, 3.0], [0, 1, 0, 0]
    assert normalized_entropy(entropy, states) == pytest.approx([-1, 0, 0, 1], abs=1e-5)
    raw = normalized_entropy(entropy, states, singleton="raw")
    assert raw == pytest.approx([-1, 5, 0, 1], abs=1e-5)


def test_fences():  # 0..8: quartiles 2 and 6, IQR 4: 2 - 1.5 * 4 and 6 + 1.5 * 4
    assert fences(np.arange(9.0)) == pytest.approx((-4, 12))
    assert fences(np.arange(9.0), lam=0.5) == pytest.approx((0, 8))
    # 0, 1, 2, 10: quartiles at the positions 0.25 * 3 and 0.75 * 3 = 2.25: 0.75 and 2 + 0.25 * 8
    assert fences([0.0, 1.0, 2.0, 10.0], lam=0.0) == pytest.approx((0.75, 4.0))


def test_the_fence_itself_is_inside():
    # 0..8: fences 2 - 0.5 * 4 = 0 and 6 + 0.5 * 4 = 8; with lam 0.25 they are 1 and 7
    assert outliers(np.arange(9.0), lam=0.5).tolist() == [False] * 9
    assert outliers(np.arange(9.0), lam=0.25).tolist() == [True] + [False] * 7 + [True]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "mean_norm"},
        {"baseline": "step", "omega": 0.5, "eps": 0.1},
        {"anchors": "similar", "threshold": 0.5, "gamma": 0.5},
    ],
)
@given(turns=batches())
@few
def test_the_advantage_is_gigpos_bit_for_bit(turns, options):  # App. H
    its, own = (credit.make(name, **options)(turns) for name in ("stapo", "gigpo"))
    assert its.tobytes() == own.tobytes()


def stay(**columns):
    """Ten turns in one state; all but one have entropy near 1."""
    entropy = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.02, 0.98, 3.0]
    return batch([10], [1.0], [0], anchor=["s"] * 10, entropy=entropy, **columns)


@pytest.mark.parametrize(
    ("entropy", "deviations"),
    [
        ([2.0, 2.0, 2.0, 2.0, 7.0], [-1, -1, -1, -1, 4]),  # mean 3, variance (4 + 16) / 4 = 5
        ([7.0, 7.0, 7.0, 7.0, 2.0], [1, 1, 1, 1, -4]),  # mean 6, variance 5
    ],
)
def test_outliers_on_both_sides_are_masked(entropy, deviations):
    # both quartiles are that of the four equal turns: IQR 0, and only the last turn is outside
    turns = batch([5], [1.0], [0], anchor=["s"] * 5, entropy=entropy)
    expected = np.array(deviations) / 5**0.5
    assert STAPO().outlier_score(turns) == pytest.approx(expected, abs=1e-5)
    assert STAPO().mask(turns).tolist() == [False] * 4 + [True]


def test_a_state_with_many_actions_is_an_outlier_of_shannon_entropy_only():  # App. B
    # four narrow states with 0.4, 0.5, 0.6, and a wide one with 2.9, 3.0, 3.1. H: quartiles 0.45
    # and 0.6, upper fence 0.6 + 1.5 * 0.15 = 0.825. H_n: -1, 0, 1 in every state, fences -4 and 4
    anchor = [f"narrow {k}" for k in range(4) for _ in range(3)] + ["wide"] * 3
    entropy = [0.4, 0.5, 0.6] * 4 + [2.9, 3.0, 3.1]
    turns = batch([15], [1.0], [0], anchor=anchor, entropy=entropy)
    assert fences(turns.entropy)[1] == pytest.approx(0.825)
    assert STAPO(entropy="shannon").mask(turns).tolist() == [False] * 12 + [True] * 3
    assert STAPO().outlier_score(turns) == pytest.approx([-1, 0, 1] * 5, abs=1e-4)
    assert not STAPO().mask(turns).any()


def test_weights_of_the_selective_terms():
    reward, penalty = STAPO(alpha=0.02, penalty_weight=0.03).weights(stay())
    assert reward == pytest.approx([0] * 9 + [0.02])
    assert penalty == pytest.approx([0] * 9 + [0.03])
    reward, penalty = STAPO(penalty="single").weights(stay())
    assert (reward[9], penalty[9]) == pytest.approx((0.01, 0.0))


@pytest.mark.parametrize(
    ("options", "every"),
    [({"entropy": "none"}, 0.01), ({"entropy": "none", "masking": "goal"}, 0.01),
     ({"masking": "none"}, 0.0)],
)  # fmt: skip
def test_without_an_entropy_every_turn_is_selected(options, every):  # Fig. 4, "All"
    reward, penalty = STAPO(**options).weights(batch([3, 2], [1.0, 0.0], [0, 0]))  # not measured
    assert (reward.tolist(), penalty.tolist()) == ([every] * 5, [every] * 5)


@given(batches(), st.floats(0, 3))
@few
def test_wider_fences_mask_fewer(turns, lam):
    entropy = turns.progress * 3
    known = batch(
        np.bincount(turns.trajectory).tolist(),
        turns.outcome.tolist(),
        turns.group.tolist(),
        anchor=turns.anchor,
        entropy=entropy,
    )
    narrow, wide = STAPO(lam=lam).mask(known), STAPO(lam=lam + 1).mask(known)
    assert not (wide & ~narrow).any()
    assert not STAPO(lam=np.inf).mask(known).any()
    assert not STAPO(masking="none").mask(known).any()
    assert np.array_equal(STAPO(lam=lam, singleton="zero").mask(known), narrow)


def test_equal_entropies_have_no_outlier():
    turns = batch([6], [1.0], [0], anchor=["s"] * 6, entropy=[0.1] * 6)
    assert not STAPO(lam=0.0).mask(turns).any()
