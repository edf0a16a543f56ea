"""One recorded batch gives the same token advantages everywhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

import credit

METHODS = {"mgr": {}, "gigpo": {}, "stapo": {}, "has": {}, "grpo": {}}


def in_our_trainer(recorded, name) -> np.ndarray:
    """Token advantages as our trainer computes them: [M, T]."""
    made = pytest.importorskip("trainer.learn.rows", exc_type=ImportError)
    turns = credit.Turns.from_episodes(recorded.episodes, outcome_in_reward=False)
    advantage = credit.make(name, **METHODS[name])(turns, np.random.default_rng(3))
    rows = made.credit_rows(made.make_rows(recorded.episodes), advantage)
    found = np.zeros((len(rows), max(len(row.ids) for row in rows)))
    for row, one in enumerate(rows):
        found[row, one.at] = one.advantage
    return found


@pytest.mark.parametrize("name", METHODS)
def test_rows_of_records_that_crossed_a_network(recorded, name):
    sent = json.loads(json.dumps([[t.to_dict() for t in turns] for turns in recorded.records]))
    rows = credit.rows_of(sent, recorded.uid)
    spans = [(row, *turn["span"]) for row, turns in enumerate(sent) for turn in turns]
    advantage = credit.make(name, **METHODS[name])(rows.turns, np.random.default_rng(3))
    found = rows.scatter(advantage, recorded.mask(), spans)
    expected = in_our_trainer(recorded, name)
    assert (expected != 0).mean() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-12)
