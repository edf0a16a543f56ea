"""An environment of your own: change what the world is, and keep the two methods."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.experts import playing

SIZES = {"train": (4, 6, 7, 9, 10, 12), "test": (5, 8, 11)}  # no task is in both splits


class MyWorld(AgentEnv):
    """Find the key in a chest of drawers.

    Description: one drawer holds a key; take it.
    Observation: what was found.
    Action: `open 3` or `take key`.
    Validity: "unknown" for other words, "refused" for a key that is not in sight.
    Progress: 0.5 with the key in sight.
    Anchor: the size of the chest, the open drawer and the drawer of the key.
    Reward: 1 for the key.
    Ends: the key; the turn limit.
    Tasks and splits: "train" and "test", a task for each size of chest and drawer of the key.
    Data: none.
    Source: `agent-envs new`.
    """

    experts = __name__  # this module has the class Explorer

    def __init__(
        self, *, split: str = "train", max_turns: int = 20, render_mode: str | None = None
    ) -> None:
        if split not in SIZES:
            raise ValueError(f"split must be one of {', '.join(SIZES)}, got {split!r}")
        pairs = [(size, key) for size in SIZES[split] for key in range(size)]
        panel = Panel(split, tuple(f"my_world/{split}/{size}-{key}" for size, key in pairs))
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """Start a task: its goal, and what is seen first."""
        # Chance in an episode comes from self.np_random, and from nothing else.
        self.size, self.key = map(int, task_id.rpartition("/")[2].split("-"))
        self.open = -1
        return "take the key", self.show(f"A chest of {self.size} drawers, all closed.")

    def act(self, action: str) -> Turn:
        """Execute an action: what is seen next. What the agent did wrong is `valid=False`."""
        action = action.strip()
        if action in self.drawers():
            self.open = int(action.removeprefix("open "))
            return self.show("A key!" if self.open == self.key else "Empty.")
        if action != "take key":
            return self.reject("unknown", "Nothing happens.")
        if self.open != self.key:
            return self.reject("refused", "There is no key here.")
        return self.show("You have the key.", success=True, reward=1.0, progress=1.0)

    def drawers(self) -> list[str]:
        """The actions that open a drawer."""
        return [f"open {number}" for number in range(self.size)]

    def show(self, observation: str, **rest: Any) -> Turn:
        """A turn in the state as it is."""
        in_sight = self.open == self.key
        return Turn(
            observation,
            anchor=f"{self.open} of {self.size}, key in {self.key}",
            admissible_actions=[*self.drawers(), *["take key"] * in_sight],
            **{"progress": 0.5 * in_sight} | rest,
        )


class Explorer:
    """Opens one drawer after the other; a warm start imitates it."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = playing(env, MyWorld)

    def act(self) -> str:
        """The next action, from what was seen alone."""
        done = self.env.transcript  # (action, observation) of each turn, first ("", observation)
        if done[-1][1] == "A key!":
            return "take key"
        opened = {action for action, _ in done}
        return next(action for action in self.env.drawers() if action not in opened)

    def think(self) -> str:
        """Why; a policy that replies freely learns to say it."""
        return "The key may be in a drawer that I have not opened."
