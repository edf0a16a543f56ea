from __future__ import annotations

import random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import gymnasium as gym
import hallway
import pytest
from hallway import PANEL, Hallway

from agent_envs import AgentEnv, FreeText, Panel, ParseReply, Prompt, Turn
from agent_envs.testing import ContractError, check_agent_env, digest, play

if TYPE_CHECKING:
    from collections.abc import Mapping


@pytest.mark.parametrize(
    "env",
    [
        Hallway(),
        Hallway(max_turns=2),
        gym.make("Hallway-v0"),
        ParseReply(gym.make("Hallway-v0")),
        Prompt(ParseReply(gym.make("Hallway-v0"), on_malformed="attempt")),
    ],
    ids=["by hand", "two turns", "made", "parsing", "prompting"],
)
def test_good_environments_pass(env):
    check_agent_env(env)


def test_oracle_that_solves_passes_and_one_that_does_not_is_told():
    check_agent_env(Hallway(), oracle=hallway.walk)
    with pytest.raises(ContractError, match="oracle did not solve 'toy/train/2' in 12 turns"):
        check_agent_env(Hallway(), oracle=lambda env: "open")


class NoHeadings(Hallway):
    """A hallway.

    Description
        Whatever.
    """


class WrongHash:
    split = PANEL.split
    task_ids = PANEL.task_ids
    hash = "0" * 64


class TwiceListed:
    split = "train"
    task_ids = ("toy/train/2", "toy/train/2")
    hash = ""


class Told(Hallway):
    """Tells one thing differently, from the first step on."""

    __doc__ = Hallway.__doc__
    change: Mapping[str, Any] = MappingProxyType({})

    def act(self, action: str) -> Turn:
        return super().act(action)._replace(**self.change)


class Info(Hallway):
    __doc__ = Hallway.__doc__

    def altered(self, info: dict[str, Any]) -> None:
        raise NotImplementedError

    def step(self, action: str):
        *rest, info = super().step(action)
        self.altered(info)
        return *rest, info


def told(**change: Any) -> Hallway:
    return type("Told", (Told,), {"change": change, "__doc__": Hallway.__doc__})()


def info(altered) -> Hallway:
    return type("Info", (Info,), {"altered": altered, "__doc__": Hallway.__doc__})()


class Shared(Hallway):
    __doc__ = Hallway.__doc__
    cells: ClassVar[list[int]] = [1, 2]

    def told(self, text: str, **rest: Any) -> Turn:
        return super().told(text, **rest)._replace(extra={"cells": self.cells})


class Growing(Hallway):
    __doc__ = Hallway.__doc__

    def begin(self, task_id: str):
        self.path: list[int] = []
        return super().begin(task_id)

    def told(self, text: str, **rest: Any) -> Turn:
        self.path.append(self.cell)
        return super().told(text, **rest)._replace(extra={"path": (self.path,)})


class GlobalRandom(Hallway):
    __doc__ = Hallway.__doc__

    def begin(self, task_id: str):
        random.random()
        return super().begin(task_id)


class Forgetful(Hallway):
    """The number of episodes shows: the seed does not decide alone."""

    __doc__ = Hallway.__doc__
    episodes = 0

    def begin(self, task_id: str):
        Forgetful.episodes += 1
        goal, turn = super().begin(task_id)
        return goal, turn._replace(anchor=f"{turn.anchor} {Forgetful.episodes}")


class Uncopyable(Hallway):
    __doc__ = Hallway.__doc__

    def __init__(self) -> None:
        super().__init__()
        self.parser = lambda text: text


class SharedWorld(Hallway):
    """Copies walk in the original's hallway."""

    __doc__ = Hallway.__doc__
    world: ClassVar[dict[str, int]] = {"steps": 0}

    def begin(self, task_id: str):
        self.world["steps"] = 0
        return super().begin(task_id)

    def act(self, action: str) -> Turn:
        self.world["steps"] += 1
        return super().act(action)._replace(anchor=str(self.world["steps"]))


class NoLimit(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        observation, reward, terminated, _, info = super().step("right")
        self._live = True
        return observation, reward, terminated, False, info


class NeverOver(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        self._live = True
        return super().step(action)


class AnyOption(Hallway):
    __doc__ = Hallway.__doc__

    def reset(self, *, seed=None, options=None):
        options = {k: v for k, v in (options or {}).items() if k in ("task", "task_id")}
        return super().reset(seed=seed, options=options)


class Deaf(Hallway):
    __doc__ = Hallway.__doc__

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options={"task": 0})


class DrawsLess(Hallway):
    """Where the task is named, the seed decides another episode than where it is drawn."""

    __doc__ = Hallway.__doc__

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        return (observation, info) if not options else super().reset(options=options)


class Lenient(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action):
        return super().step(action if isinstance(action, str) else "right")


class Unlimited(Hallway):
    __doc__ = Hallway.__doc__
    action_length = 2_000_000
    observation_length = 2_000_000


class ShortObservations(Hallway):
    __doc__ = Hallway.__doc__
    observation_length = 5


class Fragile(Hallway):
    __doc__ = Hallway.__doc__

    def act(self, action: str) -> Turn:
        assert "\x00" not in action, "cannot happen"
        return super().act(action)


class NumpyReward(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        observation, _, *rest = super().step(action)
        return observation, 0, *rest


class UnequalEnds(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or truncated, terminated or truncated, info


class Surrogate(Hallway):
    __doc__ = Hallway.__doc__

    def step(self, action: str):
        _, *rest = super().step(action)
        return "\udcff", *rest


def turn_from_one(self, info):
    info["turn"] += 1


def whole_progress(self, info):
    info["progress"] = 1


def valid_one(self, info):
    info["valid"] = 1


def drop_goal(self, info):
    del info["goal"]


def more_at_steps(self, info):
    info["more"] = 1


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (NoHeadings(), "NoHeadings lacks the headings Observation, Action, Validity"),
        (Hallway(WrongHash()), "panel.hash must be [0-9a-f]{64}, got '0000"),
        (Hallway(TwiceListed()), "is no panel: task 'toy/train/2' stands twice"),
        (Hallway(()), "panel must have 'split'"),
        (told(progress=1.3), r"info\['progress'\] must lie in \[0, 1\], got 1.3"),
        (told(progress=float("nan")), r"must lie in \[0, 1\], got nan"),
        (info(whole_progress), r"info\['progress'\] must be a float, got 1"),
        (told(invalid_reason="typo", valid=False), "must be one of .*, got 'typo'"),
        (told(valid=False, invalid_reason=""), r"info\['valid'\] is False with .* = ''"),
        (told(valid=True, invalid_reason="unknown"), r"info\['valid'\] is True with .*'unknown'"),
        (info(valid_one), r"info\['valid'\] must be a bool, got 1"),
        (told(anchor=""), r"info\['anchor'\] is empty"),
        (told(admissible_actions=[3]), "admissible action 3 is no str"),
        (told(extra={"cells": {1}}), r"info\['cells'\] must be of builtin types, got set"),
        (told(extra={"cells": ["\ud800"]}), r"info\['cells'\]\[0\] has an unpaired surrogate"),
        (told(extra={}), r"info has \['cells'\] only at some turns"),
        (info(turn_from_one), r"info\['turn'\] must be 1, got 2"),
        (info(drop_goal), "info lacks 'goal'"),
        (info(more_at_steps), r"info has \['more'\] only at some turns"),
        (Shared(), "shares a list or dict with the turn before"),
        (Growing(), "changed the turn before"),
        (GlobalRandom(), "Python's or NumPy's global generator"),
        (Forgetful(), "reset with the same seed: info differs in record 0: 'anchor'"),
        (Uncopyable(), "cannot be copied and pickled"),
        (SharedWorld(), "a deep copy made at reset, step 1: info differs.*'anchor': '1' and '2'"),
        (NoLimit(), r"no end after max_turns = 12 steps"),
        (NeverOver(), r"step\(\) after the end at turn \d+ must raise .*ResetNeeded"),
        (AnyOption(), r"reset\(options={'tusk': 0}\) must raise ValueError"),
        (Deaf(), r"reset\(options={'task': 5}\) must start 'toy/train/7', got 'toy/train/2'"),
        (DrawsLess(), "again with its task named"),
        (Lenient(), r"step\(None\) must raise TypeError"),
        (Unlimited(), "must be 'format' and leave anchor and progress, got"),
        (ShortObservations(), "not .*in.* space"),
        (NumpyReward(), "the reward must be a float, got 0"),
        (UnequalEnds(), "both terminated and truncated"),
        (Surrogate(), "the observation has an unpaired surrogate"),
    ],
)
def test_planted_violations_are_found(env: AgentEnv, message: str):
    with pytest.raises(ContractError, match=f"(?s){message}"):
        check_agent_env(env)


def test_an_environment_that_breaks_on_an_odd_action_is_not_excused():
    with pytest.raises(AssertionError, match="cannot happen"):
        check_agent_env(Fragile())


def test_step_before_reset_is_tried_on_a_fresh_one():
    class Eager(Hallway):
        __doc__ = Hallway.__doc__

        def __init__(self, render_mode: str | None = None) -> None:
            super().__init__(render_mode=render_mode)
            self.begin("toy/train/3")
            self._live = True

    gym.register("Eager-v0", entry_point=Eager, order_enforce=False, disable_env_checker=True)
    with pytest.raises(ContractError, match=r"step\(\) before the first reset must raise"):
        check_agent_env(gym.make("Eager-v0"))
    del gym.registry["Eager-v0"]


def test_what_a_process_decides_is_found_in_another(monkeypatch, tmp_path):
    # The order of a set of strings differs between hash seeds, within a process it never does.
    (tmp_path / "scattered.py").write_text(
        "from hallway import Hallway\n"
        "class Scattered(Hallway):\n"
        "    __doc__ = Hallway.__doc__\n"
        "    def told(self, text, **rest):\n"
        "        words = ' '.join({f'word{i}' for i in range(20)})\n"
        "        return super().told(text, **rest)._replace(observation=words)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    gym.register(
        "Scattered-v0",
        entry_point="scattered:Scattered",
        order_enforce=False,
        disable_env_checker=True,
    )
    check_agent_env(gym.make("Scattered-v0"), processes=False)
    with pytest.raises(ContractError, match="process with another hash seed"):
        check_agent_env(gym.make("Scattered-v0"))
    del gym.registry["Scattered-v0"]


def test_what_is_asked_for_can_be_left_out():
    check_agent_env(Uncopyable(), copies=False)


def test_play_ends_and_digest_tells_seeds_apart():
    env = Hallway()
    records = list(play(env, 3))
    assert records[-1].terminated or records[-1].truncated
    assert [r.info["turn"] for r in records] == list(range(len(records)))
    assert digest(env, 3) == digest(env, 3) != digest(env, 4)


def test_discrete_actions_and_other_observations_are_welcome():
    class Numbered(gym.Env[int, int]):
        __doc__ = Hallway.__doc__
        metadata: ClassVar[dict[str, Any]] = {"render_modes": []}
        action_space = gym.spaces.Discrete(2)
        observation_space = FreeText(100)
        panel = Panel("train", ("a", "b"))
        max_turns = 3

        def reset(self, *, seed=None, options=None):
            for name in options or {}:
                if name not in ("task", "task_id"):
                    raise ValueError(name)
            chosen = dict(options or {})
            super().reset(seed=seed)
            drawn = int(self.np_random.integers(2))
            if len(chosen) > 1 or chosen.get("task", 0) not in (0, 1):
                raise ValueError(chosen)
            if "task_id" in chosen:
                chosen["task"] = self.panel.task_ids.index(chosen["task_id"])
            self.task = chosen.get("task", drawn)
            self.turn = 0
            return "here", self.info()

        def info(self):
            return {
                "goal": "wait",
                "valid": True,
                "invalid_reason": "",
                "progress": self.turn / 3,
                "anchor": str(self.turn),
                "success": False,
                "admissible_actions": [],
                "task_id": self.panel.task_ids[self.task],
                "turn": self.turn,
            }

        def step(self, action):
            if not 0 <= getattr(self, "turn", 3) < 3:
                raise gym.error.ResetNeeded("reset")
            self.turn += 1
            return "here", 0.0, False, self.turn == 3, self.info()

    check_agent_env(Numbered(), copies=False)  # a class inside a function does not pickle
