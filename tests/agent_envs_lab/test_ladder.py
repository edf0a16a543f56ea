"""The ladder: which rung solves a world that needs nothing else, and when it says nothing."""

import math
import os
import re
import subprocess
import sys
from functools import partial
from itertools import product

import numpy as np
import pytest

from agent_envs import AgentEnv, Panel, Turn
from agent_envs_lab.audits.evidence import NOT_SHOWN, REFUTED, SHOWN
from agent_envs_lab.ladder import Memory, Step, align_slots, climb_ladder, fill_slots

COUNTS = {"train": 60, "test": 40}
SYLLABLES = ("Ba", "Ke", "Lo", "Mi", "Su"), ("ra", "ti", "no", "lu"), "nrst"
NAMES = list(map("".join, product(*SYLLABLES)))


class Puzzle(AgentEnv):
    """One question with one right answer, or two; a subclass says which."""

    experts = __name__
    hint = "Go on."

    def __init__(self, *, split="train", max_turns=4, render_mode=None):
        ids = tuple(f"{split}/{number}" for number in range(COUNTS[split]))
        origins = {one: f"{split} {number // 10}" for number, one in enumerate(ids)}
        panel = Panel(split, ids, origins=origins)
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id):
        split, number = task_id.split("/")
        rng = np.random.default_rng([split == "test", int(number)])
        self.done = 0
        goal, self.first, self.answers = self.pose(rng)
        return goal, self.show(self.first)

    def act(self, action):
        right = action == self.answers[self.done]
        self.done += right
        if self.done == len(self.answers):
            return self.show("Right.", success=True, reward=1.0, progress=1.0)
        return self.show(
            self.hint if right else "Wrong.", valid=right, invalid_reason="" if right else "refused"
        )

    def show(self, text, **rest):
        return Turn(text, anchor=f"{self.answers} {self.done}", **{"progress": 0.0} | rest)


class Explorer:
    def __init__(self, env):
        self.env = env.unwrapped

    def act(self):
        return self.env.answers[self.env.done]


class Template(Puzzle):
    """The same programme with other names."""

    def pose(self, rng):
        person, thing = rng.choice(NAMES, 2, replace=False)
        steps = [f"take {thing}", f"hand {thing} to {person}"]
        return f"give {thing} to {person}", "A market.", steps


class Copying(Puzzle):
    """The answer is the number that is shown."""

    def pose(self, rng):
        number = int(rng.integers(10**6))
        return "say the code", f"The door says {number}.", [f"code {number}"]


class Fixed(Puzzle):
    """The answer is always the same."""

    def pose(self, rng):
        return f"greet {rng.choice(NAMES)}", "A door.", ["knock", "wait"]


class Adding(Puzzle):
    """The answer is a sum, which nothing shows."""

    def pose(self, rng):
        a, b = (int(n) for n in rng.integers(100, 900, 2))
        return f"add {a} and {b}", "Well?", [f"say {a + b}"]


class Unsolved(Adding):
    experts = ""


class Listed(Adding):
    """The right action is listed among others and shares a word with the goal."""

    def pose(self, rng):
        self.names = list(rng.choice(NAMES, 6, replace=False))
        return f"call {self.names[0]}", "A hall.", [f"call {self.names[0]}"]

    def show(self, text, **rest):
        listed = sorted(f"call {name}" for name in self.names)
        return super().show(text, **rest)._replace(admissible_actions=listed)


def climb(kind, **options):
    return climb_ladder(lambda split: kind(split=split), seconds=60, **options)


@pytest.mark.parametrize(
    ("kind", "rung"),
    [
        (Template, "nearest goal"),
        (Copying, "last observation"),
        (Copying, "typed, first"),
        (Fixed, "fixed script"),
        (Listed, "goal words, first"),
        (Listed, "linear ranker"),
    ],
)
def test_a_rung_solves_what_needs_nothing_else(kind, rung):
    found = climb(kind, tasks=30)
    assert found.rungs[rung].share > 0.8
    assert found.verdict == REFUTED
    assert found.headroom < 0.2
    assert f"headroom {found.headroom:.1%} above {found.best}" in str(found)


def test_no_rung_adds():
    found = climb(Adding, tasks=40)
    assert found.rungs[found.best].share <= 0.05
    assert found.experts["explorer"].share == 1
    assert found.headroom >= 0.95
    assert (found.verdict, found.json()["verdict"]) == (SHOWN, SHOWN)
    assert found.overlap["goal forms"] == found.overlap["programmes"] == 1
    assert found.overlap["entities"] < 0.5


def test_nothing_is_shown_without_solved_episodes_or_time_or_tasks():
    unsolved = climb(Unsolved, tasks=30)
    assert (unsolved.verdict, unsolved.solved, unsolved.experts) == (NOT_SHOWN, 0, {})
    assert math.isnan(unsolved.headroom)
    assert "headroom" not in str(unsolved)
    assert climb(Adding, tasks=5).verdict == NOT_SHOWN
    late = climb_ladder(lambda split: Adding(split=split), seconds=0)
    assert late.verdict == NOT_SHOWN
    assert "its time was over" in str(late)


def test_the_same_seed_gives_the_same_ladder():
    assert climb(Listed, tasks=20) == climb(Listed, tasks=20)


@pytest.mark.parametrize(
    ("old", "new", "action", "filled"),
    [
        ("send 5 to Ann", "send 7 to Bob", "pay('Ann', 5)", "pay('Bob', 7)"),
        ("call Ann Lee now", "call Bob now", "dial Ann Lee", "dial Bob"),
        ("call Ann", "call Ann", "dial Ann", "dial Ann"),
        ("take a pen", "take a penguin", "open, take pen", "open, take penguin"),
    ],
)
def test_what_differs_is_substituted(old, new, action, filled):
    assert fill_slots(action, align_slots(old, new)) == filled


def test_rare_words_that_are_not_asked_for_make_a_text_less_similar():
    others = [f"key red the find {name}" for name in NAMES[:5]]
    common = [f"{name} please now" for name in NAMES[5:40]]
    goals = [*others, "find the red key please now", *common]
    memory = Memory([[Step(goal, "", "look", [])] for goal in goals])
    assert memory.goals.find("find the red key") == 5


PLAYED = """
import gymnasium as gym
from agent_envs_lab.audits import audit
from agent_envs_lab.ladder import climb_ladder
def make(split="test"):
    return gym.make("agent_envs:EZPoints-v0", split=split)
print(climb_ladder(make, tasks=10), audit(make(), tasks=2, episodes=8, players=8))
"""


@pytest.mark.long
def test_every_process_measures_the_same():
    """Sets of texts are ordered by the hash seed, and sums are rounded in order."""
    env = [os.environ | {"PYTHONHASHSEED": str(number)} for number in range(8)]
    call = partial(subprocess.run, [sys.executable, "-c", PLAYED], check=True, capture_output=True)
    assert len({re.sub(rb"\S+ s\b", b"", call(env=one).stdout) for one in env}) == 1
