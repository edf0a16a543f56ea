"""Milestones: progress by reached facts, without a search for the remaining way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.alfworld.game import DONE

if TYPE_CHECKING:
    from agent_envs.alfworld.world import World


class Milestones:
    """Share of the goal's milestones that are reached, in [0, 1]; 1 exactly when the game is won.

    Milestones of each required object: seen, held, treated (if the task requires it), placed. For
    looking at an object under a lamp: seen, held, lamp switched on at the agent's location with
    the object in hand. The objects with the most milestones count. "Placed" includes the others;
    "held" is lost when the object is put down elsewhere. Only facts that an observation has shown
    count, so progress reveals nothing that the policy could not know.

    An instance caches the last value until an action changes the state or something new is seen.
    """

    __slots__ = ("_key", "_last")

    def __init__(self) -> None:
        self._key = (-1, -1)
        self._last = 0.0

    def __call__(self, world: World) -> float:
        """The progress of a world."""
        if world.won:
            return 1.0
        key = (world.version, len(world.seen))
        if key != self._key:
            self._key, self._last = key, reached(world)
        return self._last


def reached(world: World) -> float:
    """Share of the milestones that are reached in a world that is not won."""
    game = world.game
    goal = game.goal
    done = world.props[DONE[goal.treatment]] if goal.treatment else game.goal_objects
    whole = 4 if goal.treatment else 3
    steps = {
        thing: 1 + (thing == world.held) + (thing in done and bool(goal.treatment))
        for thing in game.goal_objects & world.seen
    }
    best = sum(sorted(steps.values())[-goal.count :])
    for receptacle in game.goal_receptacles:
        placed = done & steps.keys() & set(world.contents[receptacle])
        if placed:
            counts = sorted(whole if thing in placed else steps[thing] for thing in steps)
            best = max(best, sum(counts[-goal.count :]))
    return best / (whole * goal.count)
