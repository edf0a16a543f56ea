"""GroupReward: the numbers of `credit.make` on the turns of a group, played in any way."""

from __future__ import annotations

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import credit
from agent_envs import ParseReply, expert, make_vec
from agent_envs.testing import wander
from credit.rewards import GroupReward, InvalidPenalty, TurnVerifier
from tests.agent_envs.hallway import Hallway

COPIES = 4
UNMEASURED = ("empg", "igpo", "istar", "prime", "trace")
"""Methods that read what only a model knows."""


def make_copies(env_id, wrap=lambda env: env, max_turns=7):
    return [wrap(gym.make(env_id, max_turns=max_turns)) for _ in range(COPIES)]


def choose_actors(envs, rng):
    """After the resets: every second copy follows the expert and makes mistakes."""
    for number, env in enumerate(envs):
        wandering, explorer = wander(env, rng), expert(env) if number % 2 else None
        yield (
            lambda seen, info, one=wandering, two=explorer: (
                two.act() if two is not None and rng.random() < 0.8 else one(seen, info)
            )
        )


def play(envs, seed, table=None):
    """Play all copies to their ends; `table` gets the columns of the turns."""
    rng = np.random.default_rng(seed)
    starts = [env.reset(seed=seed) for env in envs]
    actors = choose_actors(envs, rng)
    for number, (env, (seen, info), act) in enumerate(zip(envs, starts, actors, strict=True)):
        ended = False
        while not ended:
            action, before = act(seen, info), info
            seen, reward, terminated, truncated, info = env.step(action)  # noqa: PLW2901
            ended = terminated or truncated
            if table is not None:
                own = info["reward_terms"]["own"]
                row = {"trajectory": number, "anchor": before["anchor"], "own": own}
                row |= {"action": env.unwrapped.transcript[-1][0], "reward": reward}
                row |= {name: info[name] for name in ("valid", "progress", "success")}
                row |= {"before": before["progress"], "paid": info.get("turn_reward")}
                table.append(row | {"goal": info["goal"], "ended": ended})


def make_turns(table, *, by_success):
    """The batch that a user would make of the columns."""
    ends = [row for row in table if row["ended"]]
    earned = np.bincount([one["trajectory"] for one in table], [one["own"] for one in table])
    paid = [
        row["reward"] - earned[row["trajectory"]] if row["ended"] else row["reward"]
        for row in table
    ]
    names = tuple(table[0]["paid"] or ())
    columns = {n: [row[n] for row in table] for n in ("trajectory", "anchor", "action", "valid")}
    return credit.Turns(
        group=[0] * COPIES,
        outcome=[row["success"] for row in ends] if by_success else earned,
        goal=[row["goal"] for row in ends],
        reward=paid,
        progress=[row["progress"] for row in table],
        progress_before=[row["before"] for row in table],
        turn_reward=[[row["paid"][n] for n in names] for row in table] if names else None,
        turn_reward_names=names,
        **columns,
    )


def parse(env):
    """Whole replies, a penalty and a verifier."""
    return TurnVerifier(InvalidPenalty(ParseReply(env)), {"xml_format": 0.3, "xml_usage": 0.2})


@pytest.mark.parametrize("env_id", ["AlfWorld-v0", "Sokoban-v0", "EZPoints-v0"])
@pytest.mark.parametrize("method", sorted(set(credit.names()) - {*UNMEASURED}))
def test_the_numbers_are_those_of_the_method_bit_for_bit(env_id, method):
    wrap = (
        (lambda env: TurnVerifier(env, {"xml_format": 0.3})) if "m" in method else (lambda env: env)
    )
    group, table = GroupReward(make_copies(env_id, wrap), method), []
    estimator = credit.make(method)
    for seed in (2, 3):
        table.clear()
        play(group.envs, seed, table)
        turns = make_turns(table, by_success=method == "mgr")
        expected = credit.estimate(estimator, turns, np.random.default_rng(seed))
        rewards = group.compute_rewards(np.random.default_rng(seed))
        assert np.concatenate(rewards).tolist() == expected.tolist()
        assert [len(one) for one in rewards] == np.bincount(turns.trajectory).tolist()


@pytest.mark.parametrize("env_id", ["AlfWorld-v0", "Sokoban-v0", "Bifurcation-v1", "WebShop-v1"])
def test_mgr_never_pays_an_invalid_turn_and_a_success_earns_more(env_id):
    copies = make_copies(env_id, max_turns=32 if env_id == "WebShop-v1" else 7)
    group, rng = GroupReward(copies), np.random.default_rng(0)
    invalid, earned = 0, {True: [], False: []}
    for seed in range(12):
        play(group.envs, seed)
        for turns, rewards in zip(group.records, group.compute_rewards(rng), strict=True):
            earned[turns[-1].success].append(sum(rewards))
            for turn, paid in zip(turns, rewards, strict=True):
                invalid += not turn.valid
                assert turn.valid or paid <= 0
    assert invalid > 20
    assert np.mean(earned[True]) > np.mean(earned[False])


ACTIONS = [
    ["go to sidetable 1", "take creditcard 1 from sidetable 1", "use desklamp 1"],
    ["go to sidetable 1", "?", "take creditcard 1 from sidetable 1", "use desklamp 1"],
    ["?", "look", "look", "look", "look"],
    ["look", "go to sidetable 1", "?", "use desklamp 1", "look"],
]
"""A success in three turns, one in four, and two failures at the limit of five; seed 34."""


@pytest.fixture(scope="module")
def in_turn():
    """The rewards of ACTIONS in a list of environments."""
    group = GroupReward([gym.make("AlfWorld-v0", max_turns=5) for _ in ACTIONS], gate="none")
    for env, actions in zip(group.envs, ACTIONS, strict=True):
        env.reset(seed=34)
        for action in actions:
            env.step(action)
    return group.compute_rewards()


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.slow)])
@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_a_vector_gives_the_same(mode, autoreset, in_turn):
    options = {"vectorization_mode": mode, "autoreset": autoreset, "max_turns": 5}
    group = GroupReward(make_vec("AlfWorld-v0", COPIES, **options), gate="none")
    for _ in range(2):
        group.envs.reset(seed=[34] * COPIES)
        for turn in range(5):
            ended = np.array([turn >= len(one) for one in ACTIONS])
            if autoreset == "disabled" and ended.any():
                group.envs.reset(options={"reset_mask": ended, "task": 0})
            group.envs.step([one[turn] if turn < len(one) else "look" for one in ACTIONS])
        assert group.has_ended
        assert group.compute_rewards() == in_turn
    group.envs.close()


def test_rewards_come_when_all_have_ended_and_a_reset_begins_another_group():
    group = GroupReward([Hallway() for _ in range(2)], "grpo")
    first, second = group.envs
    end = partial(lambda env, action: [*iter(lambda: any(env.step(action)[2:4]), True)])
    first.reset(seed=1, options={"task": 0})
    end(first, "right")
    with pytest.raises(ValueError, match="copy 1 has not ended its episode"):
        group.compute_rewards()
    second.reset(seed=1, options={"task": 0})
    second.step("right")
    second.reset(seed=1, options={"task": 0})  # anew
    end(second, "left")
    assert [sum(turn.reward for turn in turns) for turns in group.records] == [0, 0]
    rewards = group.compute_rewards()
    assert rewards == group.compute_rewards()
    first.reset(seed=1, options={"task": 1})
    assert not group.has_ended
    with pytest.raises(ValueError, match="copy 0 has not ended"):
        group.compute_rewards()


REFUSALS = {
    "an environment": (lambda: GroupReward(Hallway()), TypeError, "envs must be a list of"),
    "one": (lambda: GroupReward([Hallway()]), ValueError, "at least 2 copies of a task, got 1"),
    "none": (lambda: GroupReward([]), ValueError, "at least 2 copies of a task, got 0"),
    "twice": (lambda: GroupReward([Hallway()] * 3), ValueError, "one environment twice"),
    "method": (lambda: GroupReward(pair(), "mrg"), ValueError, "unknown credit method .*'mgr'"),
    "option": (lambda: GroupReward(pair(), q=-1), ValueError, "q must"),
    "model": (lambda: GroupReward(pair(), "empg"), ValueError, "empg reads entropy, which the mod"),
    "tasks": (lambda: begin_tasks(pair()), ValueError, "copy 1 plays .* give all resets"),
    "info": (lambda: begin_tasks(carts()), KeyError, r"GroupReward reads info\['a"),
}


def pair():
    return [Hallway(), Hallway()]


def carts():
    return [gym.make("CartPole-v1") for _ in range(2)]


def begin_tasks(envs):
    for task, env in enumerate(GroupReward(envs).envs):
        env.reset(options={"task": task})


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_no_group_is_refused(name):
    call, error, words = REFUSALS[name]
    with pytest.raises(error, match=words):
        call()
