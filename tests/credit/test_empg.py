"""EMPG: a batch worked by hand, and what it reduces to."""

import numpy as np
import pytest
from hypothesis import given

import credit
from credit.methods.empg import EMPG, min_max
from tests.credit.batches import batch, batches


def test_by_hand():
    # entropies 1, 2, 3 -> 0, 1/2, 1; g = e^0, e^-1/2, e^-1 over their mean
    turns = batch([2, 1], [1.0, 0.0], [0, 0], entropy=[1.0, 2.0, 3.0])
    g = np.exp([0, -0.5, -1]) / np.exp([0, -0.5, -1]).mean()
    a = 0.5**0.5  # advantage of outcome 1 beside outcome 0: 0.5 / sqrt(0.5)
    # the turn before entropy 2 gets the bonus 0.05 e^-1/2, last turns get none
    whole = np.array([a * g[0] + 0.05 * np.exp(-0.5), a * g[1], -a * g[2]])
    assert EMPG()(turns) == pytest.approx(whole - whole.mean(), abs=1e-5)


def test_bonus_alone():  # one trajectory, A^E = 0: 0.1 e^(-2 * 1/2), 0.1 e^(-2 * 1), 0
    turns = batch([3], [1.0], [0], entropy=[1.0, 2.0, 3.0])
    f = 0.1 * np.exp([-1, -2, -np.inf])
    assert EMPG(zeta=0.1, k_prime=2.0)(turns) == pytest.approx(f - f.mean())
    assert min_max(np.array([0.3, 0.1 + 0.2])).tolist() == [0, 0]  # but for rounding they are equal


@given(batches())
def test_without_entropy_weights_it_is_grpo_centred(turns):
    known = batch(
        np.bincount(turns.trajectory).tolist(),
        turns.outcome.tolist(),
        turns.group.tolist(),
        entropy=turns.progress,
    )
    grpo = credit.make("grpo")(known)
    assert EMPG(k=0.0, zeta=0.0)(known) == pytest.approx(grpo - grpo.mean(), abs=1e-9)
    assert EMPG()(known).sum() == pytest.approx(0, abs=1e-8)
