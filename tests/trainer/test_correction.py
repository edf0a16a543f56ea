"""Importance weights between engine and policy: their values, and what an update makes of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from credit.losses import truncate_ratios
from trainer.learn.correction import Correction, correct_rows, fill_entropies
from trainer.learn.rows import credit_rows, make_rows, split_values
from trainer.learn.update import Update, recompute_logprobs

from .conftest import conversations, gradient, rollouts

GAPS = [0.0, math.log(1.5), math.log(4.0), -math.log(2.0)]


@pytest.mark.parametrize(
    ("options", "gaps", "wanted", "over"),
    [
        ({"level": "token", "cap": 2.0}, GAPS, [1.0, 1.5, 2.0, 0.5], [2]),
        ({"level": "token", "drop": True, "cap": 2.0}, GAPS, [1.0, 1.5, 0.0, 0.5], [2]),
        ({"level": "sequence", "cap": 4.0}, GAPS, [3.0] * 4, []),  # 1 x 1.5 x 4 x 0.5
        ({"level": "sequence", "cap": 2.5}, GAPS, [2.5] * 4, [0, 1, 2, 3]),
        ({"level": "sequence", "cap": 2.0}, [500.0] * 2, [2.0] * 2, [0, 1]),  # and no infinity
    ],
)
def test_weights_by_hand(options, gaps, wanted, over):
    row = torch.zeros(len(gaps), dtype=torch.long) if options.pop("level") == "sequence" else None
    weights, cut = truncate_ratios(torch.tensor(gaps), row, **options)
    np.testing.assert_allclose(weights, wanted)
    assert np.flatnonzero(cut).tolist() == over


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
    for row, before, mine in zip(made, rows, split_values(rows, own), strict=True):
        assert row.logprobs == mine.tolist()
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


def test_missing_entropies_are_those_of_the_policy(tiny_policy):
    """The engine recorded them at sampling; recomputed, they are the same."""
    played = conversations(tiny_policy, episodes=4, size=2, turns=2)
    steps = [step for episode in played for step in episode.steps]
    recorded = [step.entropies for step in steps]
    for step in steps[1:]:
        step.entropies = []
    fill_entropies(tiny_policy, played, make_rows(played), tokens=8192)
    for step, entropies in zip(steps, recorded, strict=True):
        np.testing.assert_allclose(step.entropies, entropies, atol=1e-4)
