"""Lessons: demonstrations as text that the pocket policies are pre-trained on.

In stage one they are what a good demonstrator does, slips and recoveries included; later some are
done by half, a habit for reinforcement learning to correct.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from agent_envs.alfworld.explorer import Explorer, demonstration
from agent_envs.alfworld.game import SHORT_NAMES, parse_game
from agent_envs.alfworld.generate import generate_game
from agent_envs.alfworld.world import World
from agent_envs.webshop import shopper
from agent_envs.webshop.catalogue import made_catalogue
from agent_envs.webshop.shop import Shop
from trainer.rollout import INSTRUCTION

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.alfworld.explorer import Shown
    from agent_envs.alfworld.memory import Task

TASK_TYPES = tuple(SHORT_NAMES.values())
MAX_TURNS = 50
CATALOGUES = 32
"""Made-up catalogues of the shop's lessons, none of them the embedded one."""

_FIRST = 1000  # seed of the first of them


@dataclass(frozen=True)
class Lesson:
    """One demonstration as text: the messages a policy would see, and which replies to learn."""

    prompts: list[str]
    replies: list[str]
    mistakes: list[bool]

    def add(self, observation: str, thought: str, action: str, *, mistake: bool) -> None:
        """One more turn."""
        self.prompts.append(observation if self.prompts else f"{INSTRUCTION}\n\n{observation}")
        self.replies.append(f"<think>{thought}</think><action>{action}</action>")
        self.mistakes.append(mistake)


def household(
    rng: np.random.Generator, *, size: float, mistake: float, forget: float = 0.0
) -> Lesson:
    """The explorer's play of one generated game, with mistakes it recovers from.

    With the chance `forget` it does half of a task that has two parts: it brings the thing and has
    forgotten to clean, heat or cool it, or that two were asked for; there the lesson ends.
    """
    task_type = TASK_TYPES[int(rng.integers(len(TASK_TYPES)))]
    data = generate_game(rng, size=size, task_type=task_type)
    world = World(parse_game(data, "pretraining", "pre-training"))
    lesson = Lesson([], [], [])
    expert = Explorer(world.intro)
    if forget and rng.random() < forget:
        expert.task = replace(expert.task, count=1, verb="")
    for turn in demonstration(world, rng, mistake=mistake, expert=expert, max_turns=MAX_TURNS):
        lesson.add(turn.observation, turn.thought, turn.action, mistake=turn.mistake)
        if _brings(turn, expert.task) and expert.task.count == 1:
            break
    return lesson


def shopping(rng: np.random.Generator, *, mistake: float, forget: float = 0.0) -> Lesson:
    """A shopper's trip through a generated catalogue, with slips it recovers from.

    With the chance `forget` it is hasty: it reads no features and chooses one option at most.
    """
    shop = _shop(_FIRST + int(rng.integers(CATALOGUES)))
    goals = list(shop.goals.values())
    goal = goals[int(rng.integers(len(goals)))]
    hasty = forget > 0 and rng.random() < forget
    lesson = Lesson([], [], [])
    for turn in shopper.demonstration(shop, goal, rng, slips=mistake, hasty=hasty):
        lesson.add(turn.observation, turn.thought, turn.action, mistake=turn.slip)
    return lesson


@lru_cache(maxsize=CATALOGUES)
def _shop(seed: int) -> Shop:
    return Shop(
        made_catalogue(seed), kind="synthetic", strict=True, price_seed=seed, attributes=False
    )


def _brings(turn: Shown, task: Task) -> bool:
    """Whether a turn puts a thing of the task's type where the task wants it."""
    words = turn.action.split()
    return (
        not turn.mistake
        and words[0] == "move"
        and (words[1], words[-2]) == (task.thing, task.place)
    )
