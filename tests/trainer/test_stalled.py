"""What is said of a run that seems to learn nothing."""

import pytest

from trainer.run.metrics import StallWatch


def said(*steps):
    """After steps with these shares of dead and identical groups."""
    stalled = StallWatch()
    return [
        stalled.note_step({"dead_groups": dead, "identical_groups": same}) for dead, same in steps
    ]


@pytest.mark.parametrize("step", [(0.8, 0.8), (0.0, 0.0)])
def test_nothing_is_said_up_to_four_fifths(step):
    assert said(*[step] * 12) == [""] * 12


def test_five_steps_are_needed_and_their_mean_decides():
    assert said(*[(1.0, 0.0)] * 4) == [""] * 4
    mean = said((0.5, 0), (0.9, 0), (0.9, 0), (0.9, 0), (0.9, 0))  # 0.82
    assert mean[:4] == [""] * 4
    assert mean[4].startswith("82% of the groups of the last 5 steps had equal outcomes")


def test_equal_replies_are_said_rather_than_equal_outcomes():
    found = said(*[(1.0, 0.9)] * 5)[-1]
    assert found.startswith("in 90% of the groups of the last 5 steps all rollouts had the same")
    assert "lower update.learning_rate" in found


def test_what_was_said_is_said_again_only_after_five_more_steps():
    found = said(*[(1.0, 0.0)] * 12)
    assert [number for number, text in enumerate(found, 1) if text] == [5, 10]
