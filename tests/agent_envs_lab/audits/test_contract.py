"""The deep check of the contract: faults that the kit does not find are shown in few steps."""

from __future__ import annotations

import math
import random
import re
import time
from typing import ClassVar

import gymnasium as gym
import hallway
import lamp
import numpy as np
import pytest
from hallway import PANEL, Hallway, alter, inform, keep_cell, return_other, state

from agent_envs import Panel, ParseReply, Prompt
from agent_envs.testing import ContractError
from agent_envs_lab.audits import check_contract


def remember(start, **methods):
    """A hallway that has something of its own, `start(env)`, from the beginning of an episode."""

    def begin(self, task_id):
        start(self)
        return Hallway.begin(self, task_id)

    return alter(begin=begin, **methods)


def act_jammed(self, action):
    """The door pays less once nonsense was said; no signal shows it."""
    turn = Hallway.act(self, action)
    self.jammed |= turn.invalid_reason == "unknown"
    return turn._replace(reward=0.5) if turn.success and self.jammed else turn


def act_with_key(self, action):
    """The door pays more to those who went left before; the anchor does not have it."""
    self.key |= action == "left"
    turn = Hallway.act(self, action)
    return turn._replace(reward=2.0) if turn.success and self.key else turn


def hide_step(**change):
    """Opening where there is no door has another outcome after a step to the left."""

    def act(self, action):
        self.key |= action == "left"
        turn = Hallway.act(self, action)
        return turn._replace(**change) if turn.invalid_reason == "refused" and self.key else turn

    return remember(lambda env: setattr(env, "key", False), act=act)


def act_paying_first_visits(self, action):
    turn = Hallway.act(self, action)
    new = turn.valid and self.cell not in self.been
    self.been.add(self.cell)
    return turn._replace(reward=turn.reward + 0.1 * new)


def list_less_later(self, text, **rest):
    turn = Hallway.told(self, text, **rest)
    self.done += turn.valid
    return turn._replace(admissible_actions=turn.admissible_actions[self.done > 3 :])


def use_what_it_gave():
    """The environment reads the list that it returned."""

    def share(self, info):
        self.mine = info["cells"] = [1]

    def step(self, action):
        action = "left" if action == "right" and not self.mine else action
        *rest, info = Hallway.step(self, action)
        share(self, info)
        return *rest, info

    def reset(self, **given):
        observation, info = Hallway.reset(self, **given)
        share(self, info)
        return observation, info

    def told(self, text, **rest):
        return Hallway.told(self, text, **rest)._replace(extra=None)

    return alter(step=step, reset=reset, told=told)


def change_panel(self, action):
    self.panel = Panel("tried", PANEL.task_ids)
    return Hallway.act(self, action)


def draw_globally(self, task_id):
    random.random()
    return Hallway.begin(self, task_id)


CELLS = [1, 2]
CANVAS = np.zeros(1, np.int64)


def grow_path(self, action):
    *rest, info = Hallway.step(self, action)
    self.path.append(self.cell)
    info["cells"] = (self.path,)
    return *rest, info


def redraw(_, *rest):
    CANVAS[0] = rest[-1]["turn"]
    return CANVAS, *rest


def draw_on_canvas():
    env = return_other(redraw)
    env.observation_space = gym.spaces.Box(0, 99, (1,), np.int64)
    type(env).reset = lambda self, **given: redraw(*Hallway.reset(self, **given))
    return env


class SharedWorld(Hallway):
    """Copies walk in the original's hallway."""

    __doc__ = Hallway.__doc__
    world: ClassVar[dict[str, int]] = {"steps": 0}

    def begin(self, task_id):
        self.world["steps"] = 0
        return super().begin(task_id)

    def act(self, action):
        turn = super().act(action)
        self.world["steps"] += turn.valid
        return turn

    def told(self, text, **rest):
        turn = super().told(text, **rest)
        return turn._replace(extra={**turn.extra, "steps": self.world["steps"]})


OTHER_OUTCOME = "the same anchor and action have different outcomes.*"
FAULTS = [
    (
        state(lambda env, turn: {"anchor": "here"}),
        "the anchor came before, but 'open' was not listed both times",
    ),
    (
        remember(lambda env: setattr(env, "done", -1), told=list_less_later),
        "the anchor came before, but 'left' was not listed both times",
    ),
    (
        remember(lambda env: setattr(env, "jammed", False), act=act_jammed),
        "after the invalid turn .* the action 'open' pays 0.5 instead of 1.0",
    ),
    (
        remember(lambda env: setattr(env, "key", False), act=act_with_key),
        rf"{OTHER_OUTCOME}'open' gives\n  reward",
    ),
    (hide_step(invalid_reason="error"), rf"{OTHER_OUTCOME}'open' gives\n  invalid_reason"),
    (hide_step(failure=True), rf"{OTHER_OUTCOME}'open' gives\n  terminated"),
    (
        remember(lambda env: setattr(env, "been", {-1}), act=act_paying_first_visits),
        rf"{OTHER_OUTCOME}reward (0\.0 or 0\.1|0\.1 or)",
    ),
    (
        state(lambda env, turn: {"extra": {**turn.extra, "now": int(time.time()) // 60 * 60}}),
        r"info\['now'\] = \d+ is the time of day",
    ),
    (
        state(lambda env, turn: {"extra": {**turn.extra, "at": time.strftime("on %Y-%m-%d")}}),
        r"info\['at'\] has today's date",
    ),
    (alter(begin=keep_cell), "the same seed and actions give another episode.*shown by .*, reset"),
    (use_what_it_gave(), "after the caller emptied the lists of each info"),
    (alter(act=change_panel), "the panel changed during an episode"),
    (inform(lambda info: info.update(cells=CELLS)), "shares a list or dict with the turn before"),
    (
        remember(lambda env: setattr(env, "path", []), step=grow_path),
        "changed the turn before it: info differs: 'cells'",
    ),
    (draw_on_canvas(), "changed the turn before it: observation differs"),
    (alter(begin=draw_globally), "Python's or NumPy's global generator"),
    (SharedWorld(), "after a deep copy made at reset had played on, step 1 .*: 'steps': 0 and 1"),
]


@pytest.mark.parametrize(("env", "words"), FAULTS, ids=[words for _, words in FAULTS])
def test_faults_are_found_and_shown(env, words):
    with pytest.raises(ContractError, match=f"(?s){words}") as found:
        check_contract(env, oracle=hallway.Walker, copies=isinstance(env, SharedWorld))
    assert "reset(seed=" in str(found.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [
        Hallway(max_turns=2),
        gym.make("Hallway-v0"),
        Prompt(ParseReply(gym.make("Hallway-v0"), on_malformed="attempt")),
        *(
            pytest.param(gym.make(f"{kind.__name__}-v0"), marks=pytest.mark.long if number else ())
            for number, kind in enumerate(lamp.CORRECT)
        ),
    ],
    ids=["two turns", "made", "prompting", *(kind.__name__ for kind in lamp.CORRECT)],
)
def test_good_environments_pass(env):
    check_contract(env, processes=not isinstance(env.unwrapped, lamp.Lamp))


@pytest.mark.slow
@pytest.mark.parametrize("fault", lamp.FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize(
    "led", [True, pytest.param(False, marks=pytest.mark.long)], ids=["oracle", "alone"]
)
def test_faults_of_late_states_other_seeds_times_and_episodes_are_shown(fault, led):
    oracle = lamp.Lighter if led else None
    with pytest.raises(ContractError, match=f"(?s){fault.wrong}") as found:
        check_contract(gym.make(f"{fault.__name__}-v0"), oracle=oracle)
    assert re.search(fault.shown, str(found.value), re.DOTALL)


def test_a_violation_is_shown_with_few_actions():
    def told(self, text, **rest):
        paid = -math.inf if self.cell == self.length - 1 and self.length > 3 else 0.0
        return Hallway.told(self, text, **rest)._replace(reward=paid)

    env = alter(told=told)
    env.max_turns = 200
    with pytest.raises(ContractError, match="the reward is -inf") as found:
        check_contract(env)
    start, *actions = found.value.steps
    env = Hallway()
    env.reset(seed=start.seed, options=start.options)
    assert actions == ["right"] * max(1, env.length - 1 - env.cell)
