"""Importance weights between engine and policy: their values, and what an update makes of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from trainer.learn.batch import credit_rows, make_rows
from trainer.learn.correction import Correction, correct_rows, fill_entropies
from trainer.learn.update import Update, recompute_logprobs

from .conftest import conversations, gradient, learner, rollouts

GAPS = [0.0, math.log(1.5), math.log(4.0), -math.log(2.0)]


def test_weights_of_tokens_are_cut_at_the_cap():
    weights, cut = Correction(level="token", cap=2.0).weights(GAPS)
    np.testing.assert_allclose(weights, [1.0, 1.5, 2.0, 0.5])
    assert cut.tolist() == [False, False, True, False]


def test_masked_weights_above_the_cap_are_zero():
    weights, _ = Correction(level="token", above="mask", cap=2.0).weights(GAPS)
    np.testing.assert_allclose(weights, [1.0, 1.5, 0.0, 0.5])


def test_a_sequence_has_one_weight():
    weights, cut = Correction(level="sequence", cap=4.0).weights(GAPS)
    np.testing.assert_allclose(weights, [3.0] * 4)  # 1 x 1.5 x 4 x 0.5
    assert not cut.any()
    weights, cut = Correction(level="sequence", cap=2.5).weights(GAPS)
    np.testing.assert_allclose(weights, [2.5] * 4)
    assert cut.all()


def test_a_hopeless_gap_stays_finite():
    weights, _ = Correction(level="sequence", cap=2.0).weights([500.0, 500.0])
    np.testing.assert_allclose(weights, [2.0, 2.0])


@pytest.mark.parametrize("options", [{"cap": 0.9}, {"level": "turn"}, {"above": "drop"}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValidationError):
        Correction(**options)


def disturbed(rows, shift):
    """Rows as an engine would record them that is off by `shift` nats at every other token."""
    return [
        replace(row, logprobs=[p - shift * (i % 2) for i, p in enumerate(row.logprobs)])
        for row in rows
    ]


def test_the_ratio_starts_from_the_policy(tiny_policy):
    rows = make_rows(rollouts(tiny_policy))
    own = recompute_logprobs(tiny_policy, rows, tokens=8192)
    made, figures = correct_rows(
        tiny_policy, disturbed(rows, math.log(3.0)), Correction(cap=2.0), tokens=8192
    )
    for row, before, mine in zip(made, rows, own, strict=True):
        assert row.logprobs == mine
        assert row.ids == before.ids
        expected = [2.0 if i % 2 else 1.0 for i in range(len(mine))]
        np.testing.assert_allclose(row.weight, expected, rtol=1e-3)
    assert figures["logprob_gap"] == pytest.approx(math.log(3.0), abs=1e-3)
    assert figures["correction_max"] == 2.0
    share = sum(len(row.at) // 2 for row in rows) / sum(len(row.at) for row in rows)
    assert figures["correction_cut"] == pytest.approx(share)
    assert 1.0 < figures["correction_mean"] < 2.0


def test_a_weight_multiplies_the_gradient_of_its_token(tiny_policy, tmp_path):
    """Weight 0 at all tokens but those of the first turns leaves the gradient of these."""
    rows = make_rows(rollouts(tiny_policy, turns=2))
    advantage = np.random.default_rng(0).normal(size=8)
    update = Update(skip_dead_groups=False)
    whole = credit_rows(rows, advantage)
    only = [replace(row, weight=[float(turn % 2 == 0) for turn in row.turn]) for row in whole]
    silent = credit_rows(rows, np.where(np.arange(8) % 2 == 0, advantage, 0.0))
    for one, other in zip(
        gradient(tiny_policy, only, update, tmp_path),
        gradient(tiny_policy, silent, update, tmp_path),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-7)


def test_without_a_gap_nothing_changes(tiny_policy, tmp_path):
    rows = make_rows(rollouts(tiny_policy))
    made, figures = correct_rows(tiny_policy, rows, Correction(), tokens=8192)
    assert figures["correction_cut"] == 0.0
    assert figures["correction_mean"] == pytest.approx(1.0, abs=1e-4)
    update = Update()
    values = update(
        learner(tiny_policy, tmp_path), credit_rows(made, np.ones(12)), rng=np.random.default_rng(0)
    )
    assert values["clip_fraction"] == 0.0


def test_missing_entropies_are_those_of_the_policy(tiny_policy):
    """The engine recorded them at sampling; recomputed, they are the same."""
    played = conversations(tiny_policy, tasks=2, rollouts=2, turns=2)
    steps = [step for episode in played for step in episode.steps]
    recorded = [step.entropies for step in steps]
    for step in steps[1:]:
        step.entropies = []
    fill_entropies(tiny_policy, played, make_rows(played), tokens=8192)
    for step, entropies in zip(steps, recorded, strict=True):
        np.testing.assert_allclose(step.entropies, entropies, atol=1e-4)
