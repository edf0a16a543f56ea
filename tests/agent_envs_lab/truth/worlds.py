"""Small worlds in which any reply matters, so that a random policy has something to measure."""

import random

import gymnasium as gym
from gymnasium.spaces import Text

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.alfworld.prompt import TEMPLATE

PANEL = Panel("train", tuple(f"sum/{n}" for n in range(1, 6)))


class Sums(AgentEnv):
    """Three replies; success if the lengths of the texts sum to an even number."""

    reply_form = "{thought}{action}"
    template = TEMPLATE
    shared = 0

    def __init__(self, split="train", data="auto", max_turns=3, render_mode=None):
        super().__init__(PANEL, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id):
        self.total, self.left = int(task_id.rpartition("/")[2]), 3
        return f"Task {self.total}.", self.told("")

    def act(self, action):
        self.total += len(action)
        self.left -= 1
        return self.told(action)

    def told(self, action):
        won = self.left == 0 and self.total % 2 == 0
        return Turn(
            f"{self.left} left, sum {self.total % 7}.",
            valid=True,
            invalid_reason="",
            progress=1.0 if won else 0.0,
            anchor=f"{self.left} {self.total}",
            reward=float(won),
            success=won,
            failure=self.left == 0 and not won,
            extra={"action": action},
        )


class Choices(Sums):
    """Lists what can be said."""

    reply_form = ""

    def told(self, action):
        things = [f"{thing} {n}" for thing in ("desk", "shelf", "lamp") for n in (1, 2, 13)]
        words = [f"{verb} {thing}" for verb in ("go to", "open", "take") for thing in things]
        return super().told(action)._replace(admissible_actions=words[self.left :])


class Plain(gym.Env):
    """Reports text, reward and a list of words alone; its start is drawn by Python's generator."""

    action_space = observation_space = Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.total, self.left = random.randrange(5), 3
        return self.tell(), {"words": ["desk", "shelf", "go to", "take"]}

    def step(self, action):
        self.total, self.left = self.total + len(action), self.left - 1
        won = self.left == 0 and self.total % 2 == 0
        words = {"words": ["desk", "shelf", "go to", "take"]}
        return self.tell(), float(won), self.left == 0, False, words

    def tell(self):
        return f"{self.left} left, sum {self.total % 7}."


class Shared(Sums):
    """Its state is kept by the class, so a copy changes the original."""

    def act(self, action):
        type(self).shared += 1
        self.total += type(self).shared
        return super().act(action)


class Hidden(Choices):
    """After a while its second state offers less, as the class counts; no text shows it."""

    at, begun = 2, 0

    def begin(self, task_id):
        type(self).begun += 1
        return super().begin(task_id)

    def told(self, action):
        turn = super().told(action)
        if self.left != self.at or self.begun <= 8:
            return turn
        return turn._replace(admissible_actions=turn.admissible_actions[:3])


class HiddenStart(Hidden):
    """Likewise its first state."""

    at = 3


class Opening(Sums):
    """After a while it begins with another text, as the class counts."""

    begun = 0

    def begin(self, task_id):
        type(self).begun += 1
        goal, turn = super().begin(task_id)
        text = turn.observation if self.begun <= 8 else "Once more."
        return goal, turn._replace(observation=text)


class Late(Sums):
    """Nothing succeeds once the class says so."""

    late = False

    def act(self, action):
        turn = super().act(action)
        if not self.late:
            return turn
        return turn._replace(success=False, failure=self.left == 0, reward=0.0)


class Dice(Sums):
    """Every turn adds a die to the sum."""

    def act(self, action):
        self.total += int(self.np_random.integers(6))
        return super().act(action)


class Dull(Sums):
    """Nothing that is said matters."""

    def act(self, action):
        turn = super().act(action)
        return turn._replace(success=False, failure=self.left == 0, reward=0.0, progress=0.0)
