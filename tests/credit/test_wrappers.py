"""Reward wrappers on a scripted environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from credit.mgr import MGR
from credit.wrappers import InvalidPenalty, ValiditySignal
from tests.credit.batches import batch


class Scripted(gym.Env[str, str]):
    """Pays 0.5 a turn; an action that starts with "!" is invalid."""

    observation_space = action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return "", {"valid": True}

    def step(self, action: str):
        return "", 0.5, False, False, {"valid": not action.startswith("!")}


def test_invalid_penalty_is_reported():
    env = InvalidPenalty(Scripted(), -0.1)
    env.reset()
    assert env.step("go")[1] == 0.5
    _, reward, _, _, info = env.step("!go")
    assert reward == pytest.approx(0.4)
    assert info["reward_terms"] == {"invalid_penalty": -0.1}


def test_validity_signal_is_mgr_online():
    actions = ["go", "!x", "go", "go", "go", "!x", "!y"]
    env = ValiditySignal(Scripted(), beta=0.2, alpha=0.3, q=1)
    env.reset()
    online = [env.step(action)[1] - 0.5 for action in actions]
    turns = batch(
        [len(actions)], [1.0], [0], valid=[not a.startswith("!") for a in actions], action=actions
    )
    assert online == pytest.approx(MGR(beta=0.2, alpha=0.3, q=1).local(turns))
    env.reset()
    assert env.step("go")[1] == pytest.approx(1.5)  # the count starts anew


def test_terms_add_up_in_any_order():
    for env in (
        InvalidPenalty(ValiditySignal(Scripted(), scale=0.1)),
        ValiditySignal(InvalidPenalty(Scripted()), scale=0.1),
    ):
        env.reset()
        env.step("go")
        _, reward, _, _, info = env.step("!x")
        assert reward == pytest.approx(0.29)  # the sum of 0.5, -0.1 and a tenth of -1.1
        assert reward == pytest.approx(0.5 + sum(info["reward_terms"].values()))
        assert set(info["reward_terms"]) == {"invalid_penalty", "validity_signal"}


def test_a_bonus_for_invalid_turns_is_refused():
    with pytest.raises(ValueError, match=r"must lie in .*got 0\.1"):
        InvalidPenalty(Scripted(), 0.1)
