"""STAPO: normalised entropy, fences and masks by hand, relations, ablations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import credit
from credit.stapo import STAPO, STAPODynamic, fences, normalized_entropy, outliers
from tests.credit.batches import batch, batches


def test_normalized_entropy():  # state 0: 1, 2, 3 around 2 with deviation 1; state 1 alone
    entropy, states = [1.0, 5.0, 2.0, 3.0], [0, 1, 0, 0]
    assert normalized_entropy(entropy, states) == pytest.approx([-1, 0, 0, 1], abs=1e-5)
    raw = normalized_entropy(entropy, states, singleton="raw")
    assert raw == pytest.approx([-1, 5, 0, 1], abs=1e-5)


def test_fences():  # 0..8: quartiles 2 and 6, IQR 4: 2 - 6 and 6 + 6
    assert fences(np.arange(9.0)) == pytest.approx((-4, 12))
    assert fences(np.arange(9.0), lam=0.5) == pytest.approx((0, 8))
    # 0, 1, 2, 10: quartiles at 0.75 and 1 * 3 * 0.75 = place 2.25: 2 + 0.25 * 8 = 4
    assert fences([0.0, 1.0, 2.0, 10.0], lam=0.0) == pytest.approx((0.75, 4.0))


def test_the_fence_itself_is_inside():
    assert outliers(np.arange(9.0), lam=0.5).tolist() == [False] * 9
    assert outliers(np.arange(9.0), lam=0.25).tolist() == [True] + [False] * 7 + [True]


def stay(**columns):
    """Ten turns in one state; all but one have entropy near 1."""
    entropy = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.02, 0.98, 3.0]
    return batch([10], [1.0], [0], anchor=["s"] * 10, entropy=entropy, **columns)


def test_the_unusual_turn_is_masked_on_both_sides():
    assert STAPO().mask(stay()).tolist() == [False] * 9 + [True]
    low = batch([5], [1.0], [0], anchor=["s"] * 5, entropy=[2.0, 2.1, 1.9, 2.0, 0.1])
    assert STAPO().mask(low).tolist() == [False] * 4 + [True]


def test_a_hard_state_is_no_outlier_where_shannon_entropy_says_so():
    # state "wide" has entropy about 3 every time: App. B, false positives
    anchor = ["narrow"] * 12 + ["wide"] * 3
    entropy = [0.5, 0.6] * 6 + [3.0, 3.1, 2.9]
    turns = batch([15], [1.0], [0], anchor=anchor, entropy=entropy)
    assert STAPO(entropy="shannon").mask(turns).tolist() == [False] * 12 + [True] * 3
    assert not STAPO().mask(turns).any()


def test_weights_of_the_selective_terms():
    reward, penalty = STAPO(alpha=0.02, penalty_weight=0.03).weights(stay())
    assert reward == pytest.approx([0] * 9 + [0.02])
    assert penalty == pytest.approx([0] * 9 + [0.03])
    reward, penalty = STAPO(penalty="single").weights(stay())
    assert (reward[9], penalty[9]) == pytest.approx((0.01, 0.0))


@given(batches())
def test_the_advantage_is_gigpos(turns):
    assert STAPO()(turns).tolist() == credit.make("gigpo")(turns).tolist()
    assert STAPODynamic()(turns).tolist() == STAPO()(turns).tolist()


@given(batches(), st.floats(0, 3))
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


def test_dynamic_clips_higher():
    assert (STAPODynamic().clip_low, STAPODynamic().clip_high) == pytest.approx((0.2, 0.28))
    assert STAPODynamic().dynamic_sampling
    assert not STAPO().dynamic_sampling


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": -0.1}, "lam must lie in .* got -0.1"),
        ({"penalty_weight": -1.0}, "penalty_weight must lie in"),
        ({"gamma": 2.0}, "gamma must lie in .* got 2.0"),
        ({"threshold": 0.0, "anchors": "similar"}, "threshold must lie in"),
        ({"singleton": "skip"}, "singleton is one of zero, raw"),
        ({"masking": "all"}, "masking is one of both, goal, history, none"),
        ({"entropy": "raw"}, "entropy is one of normalized, shannon"),
        ({"penalty": "no"}, "penalty is one of selective, single"),
        ({"estimator": "k1"}, "estimator is one of exact, k3"),
    ],
)
def test_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        STAPO(**options)


@pytest.mark.parametrize("use", [STAPO().mask, STAPO(entropy="shannon").mask, credit.EMPG()])
def test_entropy_is_needed(use):
    with pytest.raises(ValueError, match="reads the column entropy, which none of 1 turns has"):
        use(batch([1], [1.0], [0]))
