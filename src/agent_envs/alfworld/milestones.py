"""Milestones: progress by what the facts say is reached, without knowing the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs.alfworld.game import DONE

if TYPE_CHECKING:
    from agent_envs.alfworld.world import World


class Milestones:
    """Share of the goal's milestones that are reached, in [0, 1]; 1 exactly when the game is won.

    Per required object: seen, held, given the property where one is asked for, placed; to look at
    something under a lamp: seen, held, that lamp on where the object is held. The objects that have
    come furthest count. Being placed as asked includes the others; being held ends when the object
    is put down elsewhere. Nothing counts that no observation has shown, so a policy learns nothing
    from it that it could not know.

    An instance keeps the last answer and works it out anew when something was done or first seen.
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
