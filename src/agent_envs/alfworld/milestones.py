"""Progress by milestones: how much of the goal the facts say is reached, without knowing the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

_DONE = {"clean": "isclean", "heat": "ishot", "cool": "iscool"}

if TYPE_CHECKING:
    from agent_envs.alfworld.world import World


class Milestones:
    """Share of the goal's milestones that are reached now, in [0, 1]; 1 exactly when the game is won.

    For each of the goal's things: seen, held, given the property where one is asked for, placed. For a
    look task: thing seen, thing held, a lamp of the type seen, that lamp on beside the held thing.
    A thing counts with the best that any object of its type has reached. Being seen stays; the rest is
    undone when the world undoes it.
    """

    __slots__ = ("world",)

    def __init__(self, world: World) -> None:
        self.world = world

    def progress(self) -> float:
        """How far the goal is, by the facts of this moment."""
        world = self.world
        if world.won:
            return 1.0
        game, goal, seen = world.game, world.game.goal, world.seen
        if goal.lamp:
            held = world.held in game.goal_objects
            found = held or not seen.isdisjoint(game.goal_objects)
            return (found + held + (not seen.isdisjoint(game.goal_lamps))) / 4
        steps = 4 if goal.treatment else 3
        reached = sorted(map(self._reached, game.goal_objects), reverse=True)[: goal.count]
        return min(sum(reached), steps * goal.count - 1) / (steps * goal.count)

    def _reached(self, thing: int) -> int:
        """Milestones that one object has reached, the last of which is being placed as asked."""
        world, game = self.world, self.world.game
        treatment = game.goal.treatment
        ready = not treatment or thing in world.props[_DONE[treatment]]
        treated = int(bool(treatment) and ready)
        if ready and any(thing in world.contents[place] for place in game.goal_receptacles):
            return 3 + treated
        return 2 + treated if world.held == thing else int(thing in world.seen) + treated
