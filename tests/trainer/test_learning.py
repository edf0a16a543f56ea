"""Long runs that learn; CI runs them once."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from trainer import evaluate, recipe
from trainer.report import evaluations_of
from trainer.train import train


@pytest.mark.learning
def test_the_quickstart_learns_in_a_third_of_its_steps(tmp_path):
    chosen = recipe.load("alfworld mgr pocket", ["run.steps=10", "run.threads=1", "eval.every=0"])
    train(chosen, tmp_path, console=Console(file=io.StringIO()))
    (_, start), (_, end) = evaluations_of(tmp_path)
    test = evaluate.paired(start, end)
    assert end.overall.rate > start.overall.rate + 0.08
    assert test.p < 0.05
    assert end.valid > start.valid - 0.05
