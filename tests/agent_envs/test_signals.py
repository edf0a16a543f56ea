"""Signals on plain worlds: what hooks say, chance, copies, and worlds that misbehave."""

import copy
import math
import random
import re
import threading
from collections import deque
from enum import Enum

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from agent_envs import ContractError, Signals
from agent_envs.signals.state import digest_state, keep_chance
from agent_envs.testing import check_agent_env


class Guess(gym.Env):
    """Guess a number below ten in five tries; one answer in five is "maybe"."""

    action_space = observation_space = spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number, self.tries, self.log = random.randrange(10), 0, []
        return "Guess a number below ten.", {"left": 1.0, "rules": "Guess."}

    def step(self, action):
        self.log.append(action)  # before it may raise
        guess = int(action)
        self.tries += 1
        info = {"left": self.tries / 5, "rules": "Guess.", "won": guess == self.number}
        if guess > 9:
            return "Too large a number.", -0.1, False, self.tries >= 5, info
        if self.draw() < 0.2:
            return "maybe", 0.0, False, self.tries >= 5, info
        said = "right" if info["won"] else "more" if guess < self.number else "less"
        return said, float(info["won"]), info["won"], not info["won"] and self.tries >= 5, info

    def draw(self):
        return random.random()


class OfNumPy(Guess):
    def draw(self):
        return np.random.random()  # noqa: NPY002


class OfGymnasium(Guess):
    def draw(self):
        return self.np_random.random()


class Sure(Guess):
    def draw(self):
        return 1.0


class Uncopied(Guess):
    def __init__(self):
        self.lock = threading.Lock()


GIVEN = {"success_reward": 1.0, "invalid_rewards": (-0.1,)}


def guesses(env, rng):
    return lambda observation, info: str(rng.integers(12))


def play(env, actions, **reset):
    env.reset(**reset)
    return [env.step(action) for action in actions]


@pytest.mark.parametrize("world", [Guess, OfNumPy, OfGymnasium, Sure, Uncopied])
def test_a_lifted_world_keeps_the_contract(world):
    env = Signals(world(), **GIVEN)
    check_agent_env(env, actions=guesses, copies=world is not Uncopied)
    assert env.anchor == ("history" if world is Uncopied else "state")


@pytest.mark.parametrize("world", [Guess, OfNumPy, OfGymnasium])
def test_chance_comes_from_np_random_alone_and_global_state_is_left_alone(world):
    env = Signals(world(), **GIVEN)
    random.seed(5), np.random.seed(5)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    env.reset(seed=1, options={"task": 3})
    twins = [copy.deepcopy(env) for _ in range(40)]
    for number, twin in enumerate(twins):
        twin.np_random = np.random.default_rng(number)
    said = {twin.step("4")[0] for twin in twins}
    assert len(said - {"maybe"}) == 1 < len(said)  # chance, and the answer of this task
    again = [copy.deepcopy(env).step("4")[0] for _ in range(5)]
    assert len(set(again)) == 1
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002


def test_a_world_without_chance_draws_nothing():
    env = Signals(Sure(), **GIVEN)
    env.reset(seed=1)
    before = env.np_random.bit_generator.state
    env.step("3")
    assert env.np_random.bit_generator.state == before


def test_what_raises_is_an_invalid_turn_that_changes_nothing():
    env = Signals(Sure(), **GIVEN)
    _, info = env.reset(seed=1)
    observation, reward, *ended, after = env.step("seven")
    assert (after["valid"], after["invalid_reason"], reward, ended) == (
        False,
        "error",
        0,
        [False] * 2,
    )
    assert "ValueError: invalid literal" in observation
    assert after["anchor"] == info["anchor"]
    assert env.world.log == []


@pytest.mark.parametrize("kind", [ConnectionError, ContractError])
def test_errors_that_the_agent_did_not_cause_are_raised(kind):
    class Broken(Sure):
        def step(self, action):
            raise kind("the server is gone")

    env = Signals(Broken(), **GIVEN)
    env.reset(seed=1)
    with pytest.raises(kind, match="the server is gone"):
        env.step("1")


def test_an_episode_leaves_nothing_behind():
    class Grows(Sure):
        played = ()

        def reset(self, *, seed=None, options=None):
            self.played += (seed,)
            return f"Episode {len(self.played)}.", {}

    env = Signals(Grows(), **GIVEN)
    assert {env.reset(seed=n)[0] for n in range(4)} == {"Episode 1."}


def test_hooks_are_constants_keys_functions_and_import_strings():
    env = Signals(
        Sure(), goal="Find the number.", success="won", progress="left",
        admissible=["1", "2", "20"],
        valid=lambda step: "unknown" if int(step.action) > 9 else "",
        text=lambda step: step.observation.upper(),
        anchor=lambda step: f"{step.world.number} {step.world.tries}",
    )  # fmt: skip
    observation, info = env.reset(seed=0, options={"task_id": "seed-7"})
    assert (observation, info["goal"]) == ("GUESS A NUMBER BELOW TEN.", "Find the number.")
    turns = [env.step(action) for action in ("20", "4")]
    assert [turn[-1]["invalid_reason"] for turn in turns] == ["unknown", ""]
    assert [turn[-1]["progress"] for turn in turns] == [0.2, 0.4]
    assert [turn[-1]["anchor"] for turn in turns] == [f"{env.world.number} {n}" for n in (1, 2)]
    assert turns[1][-1]["admissible_actions"] == ["1", "2", "20"]
    env.step(str(env.world.number))
    assert env.transcript[-1][1] == "RIGHT"
    env = Signals(Sure(), success="one")
    env.reset(seed=0)
    with pytest.raises(KeyError, match=r"the hook success reads info\['one'\], .*; it has left"):
        env.step("1")


def test_an_unlisted_action_is_refused_if_nothing_else_says_what_is_valid():
    env = Signals(Sure(), success_reward=1.0, admissible=lambda step: ["1", "2"])
    env.reset(seed=3, options={"task": 0})
    assert [env.step(action)[-1]["valid"] for action in ("1", "3", "2")] == [True, False, True]


def test_validity_by_rewards_texts_and_the_form_of_an_action():
    texts = Signals(Sure(), success_reward=1.0, invalid_texts=["^Too large"])
    assert [turn[-1]["valid"] for turn in play(texts, ["12", "3"], seed=1)] == [False, True]
    rewards = Signals(Sure(), **GIVEN)
    assert [turn[-1]["valid"] for turn in play(rewards, ["12", "3"], seed=1)] == [False, True]

    def read(action):
        if not action.startswith("say "):
            raise ValueError("it must start with say")
        return action[4:]

    form = Signals(Sure(), action=read, **GIVEN)
    turns = play(form, ["3", "say 3"], seed=1)
    assert [turn[-1]["invalid_reason"] for turn in turns] == ["format", ""]
    padded = Signals(Sure(), action="0{}", **GIVEN)
    assert play(padded, ["3"], seed=1)[0][:4] == play(rewards, ["3"], seed=1)[0][:4]
    assert padded.world.log == ["03"]


def test_success_ends_and_limits():
    env = Signals(Sure(), **GIVEN)
    env.reset(seed=1)
    number = env.world.number
    turns = play(env, [str(n) for n in range(10) if n != number][:5], seed=1)
    assert [turn[2:4] for turn in turns][-1] == (False, True)
    *_, (_, reward, terminated, truncated, info) = play(env, [str(number)], seed=1)
    assert (reward, terminated, truncated, info["success"], info["progress"]) == (
        1,
        True,
        False,
        True,
        1,
    )
    harder = Signals(Sure(), success_reward=2.0)
    assert play(harder, [str(number)], seed=1)[0][2] is True  # a failure
    assert not play(harder, [str(number)], seed=1)[0][-1]["success"]


def test_the_splits_have_seeds_of_their_own():
    ids = [
        set(Signals(Sure(), split=one, **GIVEN).panel.task_ids) for one in ("train", "val", "test")
    ]
    assert [len(one) for one in ids] == [1000, 100, 100]
    assert len(set.union(*ids)) == 1200


REFUSED = [
    (Sure(), {}, ValueError, "give success_reward=R"),
    (object(), GIVEN, TypeError, "reset, step"),
    (Sure(), {**GIVEN, "split": "tets"}, ValueError, "did you mean 'test'"),
    (Sure(), {**GIVEN, "action": "say it"}, ValueError, "has no {} in the place"),
    (Uncopied(), {**GIVEN, "anchor": "state"}, ValueError, "needs a copy of the world: TypeError"),
    (Sure(), {**GIVEN, "invalid_rewards": "-0.1"}, TypeError, "a sequence of numbers, got '-0.1'"),
    (Sure(), {**GIVEN, "valid": "nowhere.at:all"}, ValueError, "the hook valid names"),
]


@pytest.mark.parametrize(("world", "options", "kind", "said"), REFUSED)
def test_wrong_options_are_refused_when_it_is_made(world, options, kind, said):
    with pytest.raises(kind, match=said):
        Signals(world, **options)


def test_what_a_world_or_hook_returns_is_checked():
    class Numbers(Sure):
        def reset(self, *, seed=None, options=None):
            return np.zeros(3), {}

    with pytest.raises(TypeError, match=r"observation is a ndarray, .*give text="):
        Signals(Numbers(), **GIVEN).reset(seed=1)
    with pytest.raises(ValueError, match=r"the hook progress gave 7.0; it must lie in \[0, 1\]"):
        Signals(Sure(), progress=7.0, **GIVEN).reset(seed=1)
    env = Signals(Sure(), valid=lambda step: "because", **GIVEN)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="reason of the hook valid"):
        env.step("1")
    with pytest.raises(ContractError, match="starts task"):
        Signals(Sure(), success=lambda step: True).reset(seed=1)
    odds = [("success", odd) for odd in ("False", math.nan, -1)] + [("valid", []), ("valid", 2)]
    for name, odd in odds:
        env = Signals(Sure(), **GIVEN | {name: lambda step, odd=odd: step.action and odd})
        env.reset(seed=1)
        with pytest.raises(ValueError, match=f"the hook {name} gave .* must be True or False"):
            env.step("1")
    for name, odd in (
        ("progress", "0.5"),
        ("progress", [1]),
        ("admissible", "go"),
        ("admissible", 3),
    ):
        with pytest.raises((TypeError, ValueError), match=f"the hook {name} gave .*; it must"):
            Signals(Sure(), **GIVEN | {name: lambda step, odd=odd: odd}).reset(seed=1)
    for odd in (None, math.nan):
        env = Signals(Sure(), anchor=lambda step, odd=odd: odd, **GIVEN)
        env.reset(seed=1)
        with pytest.raises(ValueError, match=r"the hook anchor gave \w+; it must give a key"):
            env.step("1")


HOOKS = ("goal", "text", "valid", "progress", "success", "anchor", "admissible")


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_raises_is_named(name):
    def play():
        env = Signals(Sure(), **GIVEN | {name: lambda step: step.info["missing"]})
        env.reset(seed=1)
        env.step("1")

    with pytest.raises(RuntimeError, match=rf"the hook {name} failed with KeyError: 'missing' \("):
        play()


class Colour(Enum):
    RED = 1
    BLUE = 2


class Slots:
    __slots__ = ("left", "right")

    def __init__(self, left, right):
        self.left, self.right = left, right


def held(number, colour):
    box = {"a": [number, {colour, Colour.BLUE}], "d": deque([number]), "x": np.arange(3) + number}
    box["self"] = box
    box["slots"] = Slots(number, lambda: number)
    box["rng"] = random.Random(number)
    box["pattern"] = re.compile("[a-z]")
    return box


def test_digests_are_those_of_values():
    first = digest_state(held(1, Colour.RED))
    assert (
        first
        == digest_state(copy.deepcopy(held(1, Colour.RED)))
        == digest_state(held(1, Colour.RED))
    )
    others = {digest_state(held(2, Colour.RED)), digest_state(held(1, Colour.BLUE))}
    moved = held(1, Colour.RED)
    moved["rng"].random()
    assert len({first, *others, digest_state(moved)}) == 4
    values = [1, 1.0, True, "1", b"1", None, (), [], {}, set(), [1], (1,), [[1]], {1: 1}, {"1": 1}]
    assert len({digest_state(one) for one in values}) == len(values)
    assert digest_state({"a": 1, "b": 2}) == digest_state({"b": 2, "a": 1})
    assert digest_state({"spec": 1}) != digest_state({"spec": 2})  # a key is no attribute


def test_attributes_can_be_left_out_of_a_digest():
    one, other = Sure(), Sure()
    one.reset(seed=1), other.reset(seed=1)
    one.number = other.number = 3
    one.tries = 4
    assert digest_state(one) != digest_state(other)
    assert digest_state(one, ["tries"]) == digest_state(other, ["tries"])
    one.np_random.random()
    assert digest_state(one, ["tries"]) == digest_state(other, ["tries"])
    with pytest.raises(TypeError):
        digest_state(iter_forever())


def iter_forever():
    while True:
        yield 1


def test_what_a_world_prints_is_dropped(capsys):
    with keep_chance(0, None):
        print("a board")  # noqa: T201
    assert capsys.readouterr().out == ""
