"""Reward wrappers on a scripted environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from credit.methods.mgr import MGR
from credit.rewards import (
    InvalidPenalty,
    ProgressReward,
    RepetitionPenalty,
    TurnVerifier,
    ValiditySignal,
)
from tests.credit.batches import batch


class Scripted(gym.Env[str, str]):
    """Pays 0.5 a turn. "to 0.4" sets the progress; an action that starts with "!" is invalid."""

    observation_space = action_space = gym.spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return "", {"valid": True, "progress": 0.1}

    def step(self, action: str):
        progress = float(action[3:]) if action.startswith("to ") else 0.1
        info = {"valid": action[0] != "!", "progress": progress, "answers": ["Paris"]}
        return f"<result>{action}</result>", 0.5, False, False, info


def echo(turn):
    """A user-defined verifier."""
    return len(turn.reply) / 10 if turn.reply != "nan" else np.nan


def test_invalid_penalty_is_reported():  # 0.5 - 0.1
    env = InvalidPenalty(Scripted(), -0.1)
    env.reset()
    assert env.step("go")[1] == 0.5
    _, reward, _, _, info = env.step("!go")
    assert reward == pytest.approx(0.4)
    assert info["reward_terms"] == {"own": 0.5, "invalid_penalty": -0.1}


def test_validity_signal_equals_the_local_reward_of_mgr():
    actions = ["go", "!x", "go", "go", "go", "!x", "!y"]
    env = ValiditySignal(Scripted(), beta=0.2, alpha=0.3, q=1)
    env.reset()
    online = [env.step(action)[1] - 0.5 for action in actions]
    turns = batch(
        [len(actions)], [1.0], [0], valid=[not a.startswith("!") for a in actions], action=actions
    )
    assert online == pytest.approx(MGR(beta=0.2, alpha=0.3, q=1).local_reward(turns))
    env.reset()
    assert env.step("go")[1] == pytest.approx(1.5)  # the count starts anew


def test_repetition_penalty():  # the N-th valid "go" costs 0.5 * (N - 1)
    env = RepetitionPenalty(Scripted(), alpha=0.5, q=1)
    env.reset()
    terms = [env.step(a)[4]["reward_terms"]["repetition_penalty"] for a in ("go", "go", "!x", "go")]
    assert terms == pytest.approx([0, -0.5, 0, -1.0])
    env.reset()
    assert env.step("go")[1] == 0.5


class Parsed(gym.Wrapper):
    """Reports what follows the third character as the action."""

    def step(self, action):
        *others, info = super().step(action)
        return *others, info | {"action": action[3:]}


def test_repetition_is_counted_by_the_parsed_action():
    env = RepetitionPenalty(Parsed(Scripted()), q=1)
    env.reset()
    rewards = [env.step(reply)[1] for reply in ("hm:go", "so:go")]
    assert rewards == pytest.approx([0.5, 0.0])  # 0.5, and 0.5 - 0.5 * (2 - 1)


def test_progress_is_a_potential():
    # progress 0.1, 0.4, 0.2: 2 * (0.5 * 0.4 - 0.1) and 2 * (0.5 * 0.2 - 0.4)
    env = ProgressReward(Scripted(), scale=2.0, gamma=0.5)
    env.reset()
    terms = [env.step(a)[4]["reward_terms"]["progress_reward"] for a in ("to 0.4", "to 0.2")]
    assert terms == pytest.approx([0.2, -0.6])
    env.reset()
    assert env.step("to 0.1")[1] == pytest.approx(0.5 + 2 * (0.05 - 0.1))


def test_verifiers_are_weighted_and_reported_one_by_one():
    # xml_format is 0.8, because <reasoning> is missing: 0.2 * 0.8; the answer is accepted: 0.5 * 1
    env = TurnVerifier(Scripted(), {"xml_format": 0.2, "answer_contains": 0.5})
    env.reset()
    _, reward, _, _, info = env.step("<answer>It is paris.</answer>")
    assert info["turn_reward"] == pytest.approx({"xml_format": 0.16, "answer_contains": 0.5})
    assert info["reward_terms"] == {"own": 0.5, "turn_verifier": pytest.approx(0.66)}
    assert reward == pytest.approx(1.16)


def test_the_papers_six_are_the_default():
    # the tool ran, its result has "Paris", and both XML scores are 1; there is no <answer>
    env = TurnVerifier(Scripted())
    env.reset()
    info = env.step("<reasoning>r</reasoning><tool>Paris</tool>")[4]
    paid = {"tool_execution": 0.2, "result_has_answer": 0.5, "xml_format": 0.2, "xml_usage": 0.2}
    assert info["turn_reward"] == pytest.approx(paid | {"answer_contains": 0, "exact": 0})


def test_a_user_defined_verifier():  # "abc": 0.5 + 2 * 3 / 10
    env = TurnVerifier(Scripted(), {f"{__name__}:echo": 2.0})
    env.reset()
    assert env.step("abc")[1] == pytest.approx(1.1)


def opens(turn):
    """A user-defined verifier of the action."""
    return float(turn.action.startswith("open"))


def test_a_verifier_reads_the_parsed_action_or_else_the_reply():
    for inner, reply in ((Scripted(), "open 1"), (Parsed(Scripted()), "hm:open 1")):
        env = TurnVerifier(inner, {f"{__name__}:opens": 0.1})
        env.reset()
        assert env.step(reply)[4]["turn_reward"] == {f"{__name__}:opens": 0.1}


def test_progress_that_was_rounded_is_a_share():  # 1 - 0.1, and 0 - 1
    env = ProgressReward(Scripted(), scale=1.0)
    env.reset()
    terms = [env.step(f"to {share}")[4]["reward_terms"] for share in (1.0000000000000002, -1e-9)]
    assert [one["progress_reward"] for one in terms] == pytest.approx([0.9, -1.0], abs=1e-12)
