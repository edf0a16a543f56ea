"""What the experts of Sotopia-v1 win, and what wins without listening."""

import gymnasium as gym
import numpy as np
import pytest

from agent_envs.sotopia.experts import Explorer, Oracle
from agent_envs.sotopia.games import FAMILIES
from agent_envs_lab.audits.sotopia import NON_SOLVERS, list_offers


def share_of_successes(family, split, begin, tasks):
    """The share of tasks that an actor wins; `begin(env, task)` makes it."""
    env, won = gym.make("Sotopia-v1", split=split, family=family), []
    for task in range(tasks):
        observation, info = env.reset(seed=task, options={"task": task})
        act, ended = begin(env, task), False
        while not ended:
            observation, _, terminated, truncated, info = env.step(act(observation, info))
            ended = terminated or truncated
        won.append(info["success"])
    return np.mean(won)


@pytest.mark.parametrize("split", ["train", "val", "test", "hard"])
@pytest.mark.parametrize("family", FAMILIES)
def test_who_listens_and_who_knows_win(family, split):
    for expert in (Explorer, Oracle):

        def begin(env, _, expert=expert):
            return lambda *_: expert(env).act()

        assert share_of_successes(family, split, begin, 20) == 1


@pytest.mark.slow
@pytest.mark.parametrize("split", ["test", "hard"])
@pytest.mark.parametrize("name", NON_SOLVERS)
@pytest.mark.parametrize(
    ("tasks", "most"), [(30, 0.2), pytest.param(80, 0.15, marks=pytest.mark.long)]
)
def test_who_does_not_listen_loses(name, split, tasks, most):
    def begin(_, task):
        return NON_SOLVERS[name](np.random.default_rng(task))

    shares = [share_of_successes(family, split, begin, tasks) for family in FAMILIES]
    assert np.mean(shares) < 0.1
    assert max(shares) < most  # one family alone has few tasks, so that chance shows


def test_players_that_do_not_listen_know_all_offers():
    for family in FAMILIES:
        env = gym.make("Sotopia-v1", family=family).unwrapped
        observation, info = env.reset(seed=0, options={"task": 0})
        deals = [env.game.read_offer(offer) for offer in list_offers(observation, info["goal"])]
        worths = [env.game.measure(deal) for deal in deals]
        assert len(deals) > 30
        assert family == "friend" or worths == sorted(worths, reverse=True)


def test_the_explorer_goes_on_from_any_state():
    env = gym.make("Sotopia-v1", family="divide", split="test")
    env.reset(seed=0, options={"task": 0})
    game = env.unwrapped.game
    keeps_all = {name: number for name, number, _ in game.things}
    env.step(f'{{"offer": {{"keep": {keeps_all}}}}}'.replace("'", '"'))
    env.step("Hello.")
    ended = False
    while not ended:
        *_, terminated, truncated, info = env.step(Explorer(env).act())
        ended = terminated or truncated
    assert info["success"]


def test_self_chat_has_nobody_who_answers():
    env = gym.make("Sotopia-v1", partner="external")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="needs a partner that answers"):
        Explorer(env)
