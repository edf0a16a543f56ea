"""The audits of Sotopia-v0: anchors of the decision state, and players that do not listen."""

import gymnasium as gym
import numpy as np
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs.sotopia.families import FAMILIES
from agent_envs_lab.audits import audit_anchors
from agent_envs_lab.audits.sotopia import NON_SOLVERS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("options", [{}, {"reward": "weighted"}, {"family": "friend"}])
def test_anchors_are_keys_of_the_decision_state(options):
    found = audit_anchors(gym.make("Sotopia-v0", **options), tasks=4, episodes=60)
    assert found.passed, str(found)
    assert found.anchor.revisited > 100
    assert found.observation.diverging > 0  # of what is read alone they would not be


def test_anchors_without_what_was_said_before_diverge():
    env = gym.make("Sotopia-v0", family="bargain")

    def blind(observation, info):
        inner = env.unwrapped
        return repr((inner.task_id, inner.talk.standing, inner.talk.agreed, inner.speaker.state))

    assert audit_anchors(env, anchor=blind, tasks=4, episodes=60).anchor.diverging > 0


@pytest.mark.parametrize("name", NON_SOLVERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_players_that_do_not_listen(family, name):
    env = gym.make("Sotopia-v0", split="test", family=family, reward="weighted")
    wins, paid = [], []
    for task in range(0, 96, 4):
        observation, info = env.reset(seed=task, options={"task": task})
        actor, done = NON_SOLVERS[name](np.random.default_rng(task)), False
        while not done:
            observation, reward, terminated, truncated, info = env.step(actor(observation, info))
            done = terminated or truncated
        wins.append(info["success"])
        paid.append(reward)
    if name == "deaf":  # wins, and is published as the baseline to beat
        assert np.mean(wins) > 0.4 or family == "friend"
    else:
        assert np.mean(wins) < 0.4
        assert np.mean(paid) < 0.7
    assert name != "leave" or not any(paid)
