"""The experts of Sotopia: what each of them wins, and whom they cannot play."""

import itertools
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from agent_envs.sotopia.acts import Act, parse_act
from agent_envs.sotopia.experts import Explorer, Oracle
from agent_envs.sotopia.families import FAMILIES, draw_scene


def share_of_successes(expert, family):
    """How many of 16 hard tasks an expert wins."""
    env = gym.make("Sotopia-v0", split="hard", family=family)
    won = []
    for task in range(16):
        env.reset(seed=task, options={"task": task})
        ended = False
        while not ended:
            _, _, terminated, truncated, info = env.step(expert(env).act())
            ended = terminated or truncated
        won.append(info["success"])
    return np.mean(won)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_wins_nearly_always_and_who_knows_less_wins_less(family):
    share = share_of_successes(Oracle, family)
    assert share >= 0.8
    assert 0.1 < share_of_successes(Explorer, family) < share


def test_the_oracle_needs_a_mind_to_read():
    env = gym.make("Sotopia-v0", partner="external")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="needs a scripted partner"):
        Oracle(env)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bargain", "donation"])
def test_the_other_sides_limit_is_inferred_to_a_dollar(family):
    exact = []
    for number, side in itertools.product(range(0, 320, 3), (0, 1)):
        scene = draw_scene(family, number)
        *_, hoped = scene.show_goal(side).split("$")
        inferred = scene.game.infer_game(int(hoped.split()[0].strip(".")), side).limits
        assert inferred[side] == scene.game.limits[side]
        assert abs(inferred[1 - side] - scene.game.limits[1 - side]) <= 1
        exact.append(inferred == scene.game.limits)
    assert np.mean(exact) > 0.9


def bargaining():
    env = gym.make("Sotopia-v0", family="bargain").unwrapped
    env.reset(seed=0, options={"task": 0})
    return env


def test_the_explorer_does_not_read_the_others_limit():
    env = bargaining()
    told, scene, own = Explorer(env).act(), env.talk.scene, env.talk.scene.game.limits[env.side]
    for other in (own // 4, own // 2):
        game = replace(scene.game, limits=(own, other) if env.side == 0 else (other, own))
        env.talk = env.talk._replace(scene=replace(scene, game=game))
        assert Explorer(env).act() == told


def test_the_explorer_accepts_what_is_worth_enough():
    env = bargaining()
    game, talk, side = env.talk.scene.game, env.talk, env.side
    worst, *_, best = sorted(game.deals, key=lambda deal: game.value(deal, side))
    for deal, accepts in ((worst, None), (best, True)):
        env.talk = talk.after(1 - side, Act("speak", "So?", offer=deal))
        assert parse_act(Explorer(env).act(), game, side).accept == accepts


def test_the_explorer_plays_generated_scenes_only(public_folder):
    env = gym.make("Sotopia-v0", data=public_folder, split="all", partner="echo", judge="none")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="the Explorer of Sotopia plays generated scenes only, no"):
        Explorer(env)
