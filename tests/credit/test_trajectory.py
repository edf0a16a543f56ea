"""Trajectory-level methods: numbers worked by hand, and relations."""

import pytest

import credit
from tests.credit.batches import batch


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # group 3 has outcomes 1, 0, 0 (mean 1/3), group 8 has 1, 1
        ("reinforce", [1, 1, 0, 0, 1, 1]),
        ("dr_grpo", [2 / 3, 2 / 3, -1 / 3, -1 / 3, 0, 0]),
        # variance (4/9 + 1/9 + 1/9) / 2 = 1/3: deviations times sqrt(3)
        ("grpo", [1.1547005, 1.1547005, -0.5773503, -0.5773503, 0, 0]),
        # 1 - 0, and 0 - 1/2 for both failures
        ("rloo", [1, 1, -0.5, -0.5, 0, 0]),
        ("loop", [1, 1, -0.5, -0.5, 0, 0]),
        # whole batch 1, 0, 0, 1, 1: mean 3/5, variance (3 * 4/25 + 2 * 9/25) / 4 = 3/10
        ("reinforce_pp", [0.7302967, 0.7302967, -1.0954451, -1.0954451, 0.7302967, 0.7302967]),
    ],
)
def test_worked_numbers(name, expected):
    turns = batch([2, 1, 1, 1, 1], [1.0, 0.0, 0.0, 1.0, 1.0], [3, 3, 3, 8, 8])
    assert credit.make(name)(turns) == pytest.approx(expected, abs=2e-6)
