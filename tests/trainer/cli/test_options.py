"""Options of a command that are written like those of the environment."""

import pytest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["play", "alfworld", "seed=3"], "write --seed 3 instead of seed=3"),
        (["play", "sokoban", "task=sokoban/1"], "write --task sokoban/1 instead of task=sokoban/1"),
        (["audit", "Sokoban-v0", "seed=3"], "write --seed 3 instead of seed=3"),
    ],
)
def test_an_option_of_the_command_is_named(words, message, call):
    code, _, said = call(*words)
    assert code == 1
    assert message in said
    assert "Traceback" not in said
