"""Calls of estimators that cannot work: what was given, what is allowed, what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import credit
from tests.credit.batches import batch

TURNS = batch([2, 1], [1.0, 0.0], [0, 0])


def test_only_turns_are_read():
    with pytest.raises(TypeError, match=r"an estimator reads credit.Turns, got .*credit\.rows"):
        credit.estimate(credit.GRPO(), {})


@pytest.mark.parametrize("rng", [0, np.random.RandomState(0), np.random])
def test_an_rng_that_is_no_generator(rng):
    for call in (credit.MGR(), lambda *given: credit.estimate(credit.GRPO(), *given)):
        with pytest.raises(TypeError, match=r"numpy\.random\.Generator, got .*default_rng\(seed\)"):
            call(TURNS, rng)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        ("grpo", r"callable as \(turns\) or \(turns, rng\), got 'grpo' \(str\); credit\.make"),
        (credit.GRPO, r"the class GRPO; make one of it, as GRPO\(\)"),
        (lambda: 0, r"callable as \(turns\) or \(turns, rng\): too many positional"),
        (lambda turns, rng, more: 0, r"callable as \(turns\) or \(turns, rng\): missing"),
    ],
)
def test_what_is_no_estimator(estimator, message):
    with pytest.raises(TypeError, match=message):
        credit.estimate(estimator, TURNS)


def test_an_estimator_that_draws_needs_an_rng():
    def noise(turns, rng):
        return rng.normal(size=len(turns))

    remedy = re.escape("credit.estimate(estimator, turns, rng)")
    with pytest.raises(ValueError, match=f"reads rng.normal, and no rng was given.*{remedy}"):
        credit.estimate(noise, TURNS)
    with pytest.raises(ValueError, match=r"no rng was given.*credit\.estimate\(mgr, turns, rng\)"):
        credit.estimate(credit.MGR(), TURNS)
    drawn = credit.estimate(noise, TURNS, np.random.default_rng(0))
    assert drawn.tolist() == np.random.default_rng(0).normal(size=3).tolist()


def test_other_errors_of_an_estimator_are_its_own():
    with pytest.raises(AttributeError, match="nothing"):
        credit.estimate(lambda turns, rng: turns.nothing, TURNS)
    with pytest.raises(AttributeError, match="shuffled"):
        credit.estimate(lambda turns, rng: rng.shuffled(), TURNS)


@pytest.mark.parametrize(
    "returned", [[0.0, np.nan, 0.0], [True] * 3, [1j] * 3, ["a"] * 3, [0.0], None]
)
def test_what_an_estimator_must_return(returned):
    with pytest.raises((TypeError, ValueError), match="must return one finite number for each"):
        credit.estimate(lambda turns: returned, TURNS)


def test_an_unknown_name_says_how_to_use_an_estimator_of_ones_own():
    with pytest.raises(ValueError, match=r"'patrol'.*credit\.estimate\(estimator, turns\)"):
        credit.make("patrol")
    with pytest.raises(ValueError, match=r"'patrol'.*is given as the function itself"):
        credit.make("has", decomposer="patrol")
