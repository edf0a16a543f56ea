"""A corridor to walk along: the smallest environment that keeps the whole contract."""

import gymnasium as gym

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.alfworld.prompt import TEMPLATE

PANEL = Panel("train", tuple(f"corridor/{n}" for n in range(1, 6)))
MADE = []


class Corridor(AgentEnv):
    """Walk `n` steps east; walking north is invalid."""

    template = TEMPLATE
    experts = __name__

    def __init__(self, split="train", data="auto", max_turns=50, render_mode=None):
        super().__init__(PANEL, max_turns=max_turns, render_mode=render_mode)
        self.steps = 0
        MADE.append(self)

    def begin(self, task_id):
        self.length, self.at = int(task_id.rpartition("/")[2]), 0
        return f"Walk {self.length} steps.", self._turn()

    def act(self, action):
        self.steps += 1
        self.at += action == "east"
        return self._turn(valid=action == "east")

    def _turn(self, *, valid=True):
        won = self.at == self.length
        return Turn(
            f"You stand at {self.at}.",
            valid=valid,
            invalid_reason="" if valid else "refused",
            progress=self.at / self.length,
            anchor=f"at {self.at}",
            reward=float(won),
            success=won,
            admissible_actions=["east", "north"],
            extra={"task_type": "walk"},
        )


class Explorer:
    """The expert: always east."""

    def __init__(self, env):
        self.env = env

    def think(self):
        return ""

    def act(self):
        return "east"


def register():
    """Make the corridor known as Corridor-v0."""
    gym.register("Corridor-v0", entry_point=Corridor, order_enforce=False, disable_env_checker=True)
