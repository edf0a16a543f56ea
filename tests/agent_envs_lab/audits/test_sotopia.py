"""The audits of Sotopia-v1: anchors of the decision state."""

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs_lab.audits import audit_anchors

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("options", [{}, {"family": "divide", "split": "hard"}])
def test_anchors_are_keys_of_the_decision_state(options):
    found = audit_anchors(gym.make("Sotopia-v1", **options), tasks=4, episodes=60)
    assert found.passed, str(found)
    assert found.anchor.revisited > 20


def test_anchors_without_what_was_told_diverge():
    env = gym.make("Sotopia-v1", family="meet")

    def blind(observation, info):
        inner = env.unwrapped
        return repr((inner.task_id, inner.talk.standing, inner.talk.agreed, inner.talk.is_over))

    assert audit_anchors(env, anchor=blind, tasks=4, episodes=60).anchor.diverging > 0
