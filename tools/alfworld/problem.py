"""The PDDL problem of a game, in ALFRED's predicates and goal forms."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from agent_envs.alfworld.layouts import OPENABLE, TOOLS, ThingType, things
from tools.alfworld.rooms import loose
from tools.alfworld.scenes import scenes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.alfworld.rooms import Item, Job, Room

_PROPERTY = {"clean": "isClean", "heat": "isHot", "cool": "isCool"}
_ABILITY = {"clean": "cleanable", "heat": "heatable", "cool": "coolable", "slice": "sliceable"}
_VESSELS = frozenset({"Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot"})


def problem(room: Room, job: Job, items: Sequence[Item]) -> Iterator[str]:
    """Lines of the PDDL problem."""
    yield f"(define (problem plan_{room.plan})\n(:domain alfred)\n(:objects\nagent1 - agent"
    yield from (f"{name}Type - otype" for name in [*things(), "Sink"])
    yield from (f"{name}Type - rtype" for name in _receptacle_types())
    yield from (f"{item.name} - object" for item in items)
    yield from (f"{spot.name} - receptacle" for spot in room.spots)
    locations = dict.fromkeys(spot.location for spot in room.spots)
    yield from (f"{location} - location" for location in [*locations, room.start])
    yield f")\n(:init\n(atLocation agent1 {room.start})"
    for spot in room.spots:
        yield f"(receptacleType {spot.name} {spot.type}Type)"
        yield f"(receptacleAtLocation {spot.name} {spot.location})"
        if spot.type in OPENABLE:
            yield f"(openable {spot.name})"
    for name in sorted({item.type for item in items}):
        yield from (f"(canContain {place}Type {name}Type)" for place, _ in room.offers(name))
    for item in items:
        yield f"(objectType {item.name} {item.type}Type)"
        yield f"(inReceptacle {item.name} {item.spot.name})"
        yield f"(objectAtLocation {item.name} {item.spot.location})"
        yield from (f"({ability} {item.name})" for ability in _abilities(things()[item.type]))
    yield f")\n(:goal\n{_goal(job)}\n))"


@cache
def _receptacle_types() -> list[str]:
    """All receptacle types of all scenes, sorted."""
    every = {t for s in scenes().values() for t in (*s.always, *(extra for extra, _ in s.extras))}
    return sorted(every)


def _abilities(thing: ThingType) -> Iterator[str]:
    if "light" in thing.abilities:
        yield "toggleable"
    if loose(thing):
        yield "pickupable"
    if thing.name in _VESSELS:
        yield "isReceptacleObject"
    yield from (_ABILITY[name] for name in sorted(thing.abilities & _ABILITY.keys()))


def _goal(job: Job) -> str:
    """The goal in ALFRED's form for the task type."""
    if job.task == "look":
        return (
            f"(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location)\n"
            f"(and (objectType ?ot {job.place}Type) (toggleable ?ot) (isToggled ?ot)\n"
            f"(receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))\n"
            f"(exists (?o - object ?a - agent)\n"
            f"(and (objectType ?o {job.thing}Type) (holds ?a ?o))))"
        )
    first = f"(objectType ?o {job.thing}Type) (receptacleType ?r {job.place}Type)"
    if job.task == "pick2":
        return (
            f"(and (exists (?r - receptacle) (exists (?o - object)\n"
            f"(and {first} (inReceptacle ?o ?r)\n"
            f"(exists (?o2 - object) (and (not (= ?o ?o2)) (objectType ?o2 {job.thing}Type)\n"
            f"(receptacleType ?r {job.place}Type) (inReceptacle ?o2 ?r)))))))"
        )
    done = f"({_ABILITY[job.task]} ?o) ({_PROPERTY[job.task]} ?o) " if job.task in TOOLS else ""
    return (
        f"(and (exists (?r - receptacle) (exists (?o - object)\n"
        f"(and {first} {done}(inReceptacle ?o ?r)))))"
    )
