"""The contract kit: environments that keep the contract pass, and each planted fault is found."""

from __future__ import annotations

import math
import random
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hallway import PANEL, Hallway, Walker, alter, inform, keep_cell, report, return_other, state

from agent_envs import Panel, ParseReply, Prompt
from agent_envs.testing import ContractError, check_agent_env, digest, play, say_words
from agent_envs.testing.episodes import Start


def answer(reason: str, **change: Any) -> Hallway:
    """A hallway whose invalid turns with this reason have other values."""

    def act(self, action):
        turn = Hallway.act(self, action)
        return turn._replace(**change) if turn.invalid_reason == reason else turn

    return alter(act=act)


def list_more(*actions: str) -> Hallway:
    return state(lambda env, turn: {"admissible_actions": [*turn.admissible_actions, *actions]})


def move_when_invalid(self, action):
    turn = Hallway.act(self, action)
    if turn.invalid_reason == "unknown":
        self.cell = min(self.cell + 1, self.length)
        turn = self.told(turn.observation, valid=False, invalid_reason="unknown")
    return turn


def swap_goal(self, action):
    self.goal = "open any door"
    return Hallway.act(self, action)


def swap_task(self, action):
    self.task_id = PANEL.task_ids[0 if self.task_id != PANEL.task_ids[0] else 1]
    return Hallway.act(self, action)


def stay_alive(self, action):
    self._live = True
    return Hallway.step(self, action)


def go_on(self, action):
    observation, reward, terminated, _, info = Hallway.step(self, "right")
    self._live = True
    return observation, reward, terminated, False, info


def reset_with(choose):
    """A `reset` with another seed and options: `choose(seed, options)`."""

    def reset(self, *, seed=None, options=None):
        seed, options = choose(seed, options)
        return Hallway.reset(self, seed=seed, options=options)

    return alter(reset=reset)


def reset_twice(self, *, seed=None, options=None):
    """Where the task is named, the seed decides another episode than where it is drawn."""
    opening = Hallway.reset(self, seed=seed, options=options)
    return Hallway.reset(self, options=options) if options else opening


def draw_seed(seed, options):
    entropy = random.SystemRandom().randrange(10**6)
    return entropy if seed is None and not options else seed, options


def fix_seed(seed, options):
    return 3 if seed is None and not options else seed, options


def leave_out(key, value):
    """Takes a reset's option of this value for task 0."""
    return lambda seed, options: (seed, {} if options == {key: value} else options)


def arrive_early(env, turn):
    return {"progress": max(turn.progress, float(env.cell == env.length))}


def take_anything(self, action):
    return Hallway.step(self, action if isinstance(action, str) else "x")


def fail_on_oddness(self, action):
    assert "\x00" not in action, "cannot happen"
    return Hallway.act(self, action)


FEW_HEADINGS = "A hallway.\n\nDescription\n    Whatever.\n"
NO_ACTION = str(Hallway.__doc__).replace('"left", "right", "open".', "")
FAULTS = [
    (alter(FEW_HEADINGS), "Altered lacks the headings Observation, Action, Validity"),
    (alter(NO_ACTION), "lacks the headings Action, or has nothing under them"),
    (Hallway(Panel("train", PANEL.task_ids, "")), "panel.source must name the origin .*, got ''"),
    (Hallway(()), r"panel must be a Panel, got \(\)"),
    (report(progress=1.3), r"info\['progress'\] must lie in \[0, 1\], got 1.3"),
    (report(invalid_reason="typo", valid=False), "must be one of .*, got 'typo'"),
    (report(valid=False, invalid_reason=""), r"info\['valid'\] is False with .* = ''"),
    (report(valid=True, invalid_reason="unknown"), r"info\['valid'\] is True with .*'unknown'"),
    (report(anchor=""), r"info\['anchor'\] is empty"),
    (report(admissible_actions=[3]), "admissible action 3 is not a str"),
    (report(extra={"cells": [[{1}]]}), r"info\['cells'\]\[0\]\[0\] must be of builtin types"),
    (report(extra={"cells": ["\ud800"]}), r"info\['cells'\]\[0\] has an unpaired surrogate"),
    (report(extra={}), r"info has \['cells'\] only at some turns"),
    (report(reward=math.nan), "the reward is NaN"),
    (inform(lambda info: info.update(progress=1)), r"info\['progress'\] must be a float, got 1"),
    (inform(lambda info: info.update(turn=info["turn"] + 1)), r"info\['turn'\] must be 1, got 2"),
    (inform(lambda info: info.pop("goal")), "info lacks 'goal'"),
    (state(lambda env, turn: {"anchor": turn.observation}), "'anchor'] is the observation"),
    (state(lambda env, turn: {"anchor": turn.observation[::-1]}), "an invalid turn .* anchor"),
    (state(lambda env, turn: {"anchor": f"{random.random()}"}), "invalid turn .* anchor|the same"),
    (state(lambda env, turn: {"progress": 0.0}), "reports success with progress 0"),
    (state(arrive_early), r"info\['progress'\] is 1 without success"),
    (list_more("dance"), r"\('dance'\): the action is in .* and is refused"),
    (list_more("left"), "admissible action 'left' is listed 2 times"),
    (list_more("x" * 5000), r"admissible action 'xxx\w+ is not in FreeText"),
    (alter(act=move_when_invalid), r"an invalid turn \('unknown'\) changes anchor"),
    (answer("unknown", progress=0.99), r"an invalid turn \('unknown'\) changes progress"),
    (answer("unknown", reward=0.5), r"a reward of 0.5 for an invalid turn \('unknown'\)"),
    (report(valid=True, invalid_reason=""), "nonsense is valid although"),
    (alter(act=swap_goal), "the goal was 'open the door . steps away', now 'open any door'"),
    (alter(act=swap_task), "the task was 'toy/train/.', now 'toy/train/.'"),
    (alter(begin=keep_cell), "the same seed and actions again, at the reset: info differs"),
    (alter(step=go_on), "no end after max_turns = 12 steps"),
    (alter(step=stay_alive), r"step\(\) after the end at turn \d+ must raise .*ResetNeeded"),
    (reset_with(lambda seed, options: (seed, {"task": 0})), r"must start .*/7', got .*/2'"),
    (reset_with(lambda seed, options: (seed, options or {"task": 0})), "20 seeds draw the same"),
    (reset_with(fix_seed), "without a seed repeats the same task"),
    (reset_with(draw_seed), r"reset\(seed=7\), then reset\(\) \d+ times: .* the second time"),
    (reset_with(leave_out("tusk", 0)), r"reset\(options={'tusk': 0}\) must raise ValueError"),
    (reset_with(leave_out("task", -1)), r"reset\(options={'task': -1}\) must raise ValueError"),
    (alter(reset=reset_twice), "again with its task named"),
    (alter(step=take_anything), r"step\(None\) must raise TypeError"),
    (alter(action_length=2 * 10**6, observation_length=2 * 10**6), "'format', got 'unknown'"),
    (alter(observation_length=5), "not .*in.* space"),
    (return_other(lambda shown, _, *rest: (shown, 0, *rest)), "the reward must be a float, got 0"),
    (return_other(lambda _, *rest: ("\udcff", *rest)), "the observation has an unpaired surrogate"),
    (return_other(lambda *told: (*told[:3], any(told[2:4]), told[4])), "both terminated and tr"),
    (return_other(lambda *told: (*told[:3], not told[2], told[4])), "truncated before the turn"),
    (return_other(lambda o, r, end, *rest: (o, r, np.bool_(end), *rest)), "must be a bool"),
    (return_other(lambda o, r, end, *rest: (o, r, False, *rest)), "success must be terminated"),
]


@pytest.mark.parametrize(("env", "words"), FAULTS, ids=[words for _, words in FAULTS])
def test_faults_are_found(env, words):
    with pytest.raises(ContractError, match=f"(?s){words}"):
        check_agent_env(env, oracle=Walker, copies=False)


class ForgetfulCopy(Hallway):
    """Copies start from the beginning of the episode."""

    __doc__ = Hallway.__doc__

    def __deepcopy__(self, memo):
        twin = Hallway()
        twin.reset(seed=7)
        return twin


class ForgetfulPickle(Hallway):
    """Pickles lose the cell."""

    __doc__ = Hallway.__doc__

    def __reduce__(self):
        return start_hallway, ()


def start_hallway():
    env = Hallway()
    env.reset(seed=7)
    return env


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (ForgetfulCopy(), r"a deep copy made at turn \d, step \d"),
        (ForgetfulPickle(), r"a (pickle|deep copy) made at turn \d, step \d"),
        (alter(), "cannot be copied and pickled"),  # made by a function
    ],
)
def test_faults_of_copies_are_found(env, words):
    with pytest.raises(ContractError, match=words):
        check_agent_env(env)
    check_agent_env(env, copies=False)


@pytest.mark.parametrize(
    "env",
    [
        Hallway(max_turns=2),
        gym.make("Hallway-v0"),
        ParseReply(gym.make("Hallway-v0")),
        Prompt(ParseReply(gym.make("Hallway-v0"), on_malformed="attempt")),
    ],
    ids=["two turns", "made", "parsing", "prompting"],
)
def test_good_environments_pass(env):
    check_agent_env(env)


def test_the_oracle_must_solve_the_first_tasks():
    class Hasty(Walker):
        def act(self):
            return "open"

    with pytest.raises(ContractError, match="oracle did not solve 'toy/train/2' in 12 turns"):
        check_agent_env(Hallway(), oracle=Hasty)


def test_a_violation_has_its_steps():
    with pytest.raises(ContractError, match="is refused") as found:
        check_agent_env(list_more("dance"))
    start, *actions = found.value.steps
    assert start == Start(7)
    assert actions[-1] == "dance"
    assert f"shown by {start}, then " in str(found.value)


def test_an_error_of_the_environment_has_a_note_with_its_steps():
    with pytest.raises(AssertionError, match="cannot happen") as found:
        check_agent_env(alter(act=fail_on_oddness), copies=False)
    assert "shown by reset(seed=7)" in found.value.__notes__[0]


def test_words_are_played_where_no_actions_are_listed():
    def act(self, action):
        if action == "open":
            raise KeyError(action)
        return Hallway.act(self, action)._replace(admissible_actions=())

    with pytest.raises(KeyError):
        check_agent_env(alter(act=act), copies=False, actions=say_words(["right", "open"]))


def test_a_step_before_the_first_reset_is_refused():
    class Eager(Hallway):
        __doc__ = Hallway.__doc__

        def __init__(self, render_mode: str | None = None) -> None:
            super().__init__(render_mode=render_mode)
            self.begin("toy/train/3")
            self._live = True

    gym.register("Eager-v0", entry_point=Eager, order_enforce=False, disable_env_checker=True)
    with pytest.raises(ContractError, match=r"step\(\) before the first reset must raise"):
        check_agent_env(gym.make("Eager-v0"), copies=False)
    del gym.registry["Eager-v0"]


def test_play_ends_and_digest_depends_on_the_seed():
    env = Hallway()
    records = list(play(env, 3))
    assert records[-1].ended
    assert [record.info["turn"] for record in records] == list(range(len(records)))
    assert digest(env, 3) == digest(env, 3) != digest(env, 4)
