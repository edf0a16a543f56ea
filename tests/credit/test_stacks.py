"""Orders of wrappers: a wrong one is refused, and in every other the terms sum to the reward."""

from __future__ import annotations

from functools import partial
from itertools import permutations, product

import gymnasium as gym
import pytest

from agent_envs import ParseReply, Prompt, Template
from agent_envs.contract import ContractError
from agent_envs.testing import check_agent_env
from agent_envs.testing.episodes import list_inputs, write_input
from credit.rewards import (
    GroupReward,
    InvalidPenalty,
    ProgressReward,
    RepetitionPenalty,
    TurnVerifier,
    ValiditySignal,
)
from tests.agent_envs.hallway import Hallway
from tests.test_contract import EACH

PLAIN = Template("{task_description}: {current_observation}", "{current_observation}")


def group(env):
    """A copy of a group; the other one is not played."""
    return GroupReward([env, gym.Env()]).envs[0]


def prompt(env):
    """The environment's own prompt, or another one."""
    return Prompt(env, None if env.unwrapped.template else PLAIN)


REWARDS = {
    "InvalidPenalty": InvalidPenalty,
    "RepetitionPenalty": partial(RepetitionPenalty, q=0),
    "ValiditySignal": ValiditySignal,
    "ProgressReward": partial(ProgressReward, gamma=0.9),
    "TurnVerifier": partial(TurnVerifier, weights={"xml_format": 0.7}),
}
LAYERS = (
    {"ParseReply": ParseReply, "attempt": partial(ParseReply, on_malformed="attempt")},
    REWARDS,
    {"Prompt": prompt},
    {"GroupReward": group},
    {"Autoreset": gym.wrappers.Autoreset},
)
WRAPPERS = {name: wrap for layer in LAYERS for name, wrap in layer.items()}
LAYER = {name: number for number, layer in enumerate(LAYERS) for name in layer}
PAIRS = list(product(WRAPPERS, repeat=2))
FITTING = [
    (inner, outer)
    for inner, outer in PAIRS
    if LAYER[inner] < LAYER[outer] or (inner != outer and {inner, outer} <= REWARDS.keys())
]
OUTERMOST = ("Prompt", "GroupReward", "Autoreset")
ORDERS = [
    *([name] for name in WRAPPERS),
    *FITTING,
    *(["ParseReply", *ours, *OUTERMOST] for ours in permutations(REWARDS)),
]


def wrap(env, names):
    """Wrap an environment, the innermost first; one that reads replies itself is not parsed."""
    for name in names:
        if LAYER[name] or not env.unwrapped.reply_form:
            env = WRAPPERS[name](env)
    return env


def choose_inputs(env, info):
    """A malformed input, a listed one where there is a list, and a reply without tags."""
    listed = list_inputs(env, info)
    yield write_input(env, "q w")
    yield listed[0] if listed else env.action_space.sample()
    yield "no tags" if isinstance(env.action_space, gym.spaces.Text) else 0


@pytest.mark.parametrize(
    ("inner", "outer"), [pair for pair in PAIRS if pair not in FITTING and pair[1] != "Autoreset"]
)
def test_a_wrong_order_is_refused_in_one_line(inner, outer):
    env = wrap(Hallway(), [inner])
    with pytest.raises(ValueError, match=r"belongs inside|leave the second") as refused:
        WRAPPERS[outer](env)
    told = str(refused.value)
    names = [name.replace("attempt", "ParseReply") for name in (inner, outer)]
    assert all(name in told for name in names)
    assert "\n" not in told
    if len(set(names)) == 2:
        assert f"{names[0]}" in told.partition(": ")[2]  # the right order


@pytest.mark.slow
@pytest.mark.parametrize("env_id", EACH)
def test_terms_sum_to_the_reward_in_every_order(env_id):
    env, ended = gym.make(env_id), True
    for names in ORDERS:
        made = wrap(env, names)
        if ended:
            info = made.reset(seed=3)[1]
            assert info["reward_terms"] == {"own": 0.0}
        for action in choose_inputs(made, info):
            _, reward, *ends, info = made.step(action)
            assert list(info["reward_terms"]) == ["own", *list_terms(names)]
            assert sum(info["reward_terms"].values()) == pytest.approx(reward, abs=1e-12), names
            if ended := any(ends):
                break


def list_terms(names):
    """The names of the terms of a stack, from the inside out."""
    return [getattr(REWARDS[one], "func", REWARDS[one]).name for one in names if one in REWARDS]


@pytest.mark.parametrize(
    "names", [[], *([one] for one in WRAPPERS if one != "Autoreset"), ORDERS[-1][:-1]]
)
def test_the_kit_passes_every_wrapper(names):
    check_agent_env(wrap(Hallway(), names))


FOREIGN = {
    "TransformReward": lambda env: gym.wrappers.TransformReward(env, _double),
    "NormalizeReward": gym.wrappers.NormalizeReward,
    "ClipReward": lambda env: gym.wrappers.ClipReward(env, -0.05, 0.05),
}


def _double(reward):
    return 2 * reward


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_transform_of_the_reward_is_found(name):
    for env in (Hallway(), InvalidPenalty(ParseReply(Hallway()))):
        with pytest.raises(ContractError, match=f"the reward .*, wrapped by {name}"):
            check_agent_env(FOREIGN[name](env))
    inside = InvalidPenalty(FOREIGN[name](ParseReply(Hallway())))
    with pytest.raises(ValueError, match=rf"changes the reward without a term: .*{name}"):
        check_agent_env(inside)
