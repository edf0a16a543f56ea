"""A toy environment that keeps the contract; the tests of the plumbing use it and break it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agent_envs import AgentEnv, Panel, Template, Turn
from agent_envs.experts import playing

PANEL = Panel("train", tuple(f"toy/train/{length}" for length in range(2, 8)))


WALK = Template(
    full="Goal: {task_description}. Done: {action_history}. Now ({current_step}): "
    "{current_observation}. Possible: {admissible_actions}.",
    blind="Now ({current_step}): {current_observation}. Possible: {admissible_actions}.",
)


class Hallway(AgentEnv):
    """A hallway with a door at its right end and a pit at its left.

    Description
        Walk right until the door, and open it.
    Observation
        Where you are.
    Action
        "left", "right", "open".
    Validity
        Opening where there is no door is refused, other words are unknown.
    Progress
        Share of the hallway behind you; 1 once the door is open.
    Anchor
        The cell.
    Reward
        1 for the door.
    Ends
        The door (success), the pit (failure).
    Tasks and splits
        Lengths 2 to 7.
    Data
        None.
    Source
        Ours.
    """

    template = WALK

    def __init__(
        self, panel: Panel = PANEL, *, max_turns: int = 12, render_mode: str | None = None
    ) -> None:
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        self.length = int(task_id.rpartition("/")[2])
        self.cell = int(self.np_random.integers(self.length))
        return f"open the door {self.length} steps away", self.told("You are in a hallway.")

    def act(self, action: str) -> Turn:
        word = action.strip()
        if word == "open" and self.cell == self.length:
            return self.told("It opens.", reward=1.0, success=True)
        if word == "open":
            return self.told("No door here.", valid=False, invalid_reason="refused")
        if word not in ("left", "right"):
            return self.told(f"What is {action!r}?", valid=False, invalid_reason="unknown")
        self.cell = min(self.cell + (1 if word == "right" else -1), self.length)
        if self.cell < 0:
            return self.told("You fell.", failure=True)
        return self.told(f"Cell {self.cell}.")

    def told(self, text: str, **rest: Any) -> Turn:
        return Turn(
            text,
            progress=1.0 if rest.get("success") else max(self.cell, 0) / (self.length + 1),
            anchor=f"{self.length}/{self.cell}",
            admissible_actions=["left", "right", *["open"] * (self.cell == self.length)],
            extra={"cells": list(range(self.length))},
            **rest,
        )


class Slow(Hallway):
    """A hallway behind a server, of which the floor may slip; `answer` is called at each turn."""

    waits = True
    answer = staticmethod(lambda: None)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        self.answer()
        return super().begin(task_id)

    def act(self, action: str) -> Turn:
        self.answer()
        if action == "break":
            raise OSError(f"no answer at cell {self.cell}")
        return super().act("left" if self.np_random.random() < 0.3 else action)


class Walker:
    """The expert: right to the door, then open it."""

    def __init__(self, env: gym.Env[str, str]) -> None:
        self.env = playing(env, Hallway)

    def act(self) -> str:
        return "open" if self.env.cell == self.env.length else "right"

    def think(self) -> str:
        return ""


def alter(doc: str = Hallway.__doc__, **members: Any) -> Hallway:
    """A hallway with other members."""
    return type("Altered", (Hallway,), {"__doc__": doc, **members})()


def report(**change: Any) -> Hallway:
    """A hallway whose turns have other values, but not the one of the reset."""

    def act(self, action):
        return Hallway.act(self, action)._replace(**change)

    return alter(act=act)


def state(change) -> Hallway:
    """A hallway whose turns have other values, also at the reset: `change(env, turn)`."""

    def told(self, text, **rest):
        turn = Hallway.told(self, text, **rest)
        return turn._replace(**change(self, turn))

    return alter(told=told)


def inform(change) -> Hallway:
    """A hallway whose `info` is changed at steps."""

    def step(self, action):
        *rest, info = Hallway.step(self, action)
        change(info)
        return *rest, info

    return alter(step=step)


def return_other(change) -> Hallway:
    """A hallway whose steps return something else: `change(observation, reward, ended, ...)`."""
    return alter(step=lambda self, action: change(*Hallway.step(self, action)))


def keep_cell(self, task_id):
    """A `begin` in which the cell of the last episode stays."""
    before = getattr(self, "cell", None)
    goal, turn = Hallway.begin(self, task_id)
    if before is not None and 0 < before < self.length:
        self.cell = before
        turn = self.told(turn.observation)
    return goal, turn


for name in ("Hallway", "Slow"):
    if f"{name}-v0" not in gym.registry:
        gym.register(
            f"{name}-v0",
            entry_point=f"hallway:{name}",
            order_enforce=False,
            disable_env_checker=True,
        )
