"""Makes AlfWorld games: rooms, what lies in them, a task, and the PDDL problem that says so.

Every game is solvable by construction and its walkthrough is a shortest solution. Only
`Generator.random` is drawn from, so that a seed gives the same bytes on every machine.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.alfworld.data import FILE, FOLDER, TASK, fill_task_sentence, read_logic
from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.experts import OPENABLE, TOOLS, ThingType, read_things
from agent_envs.alfworld.game import SHORT_NAMES, parse_game
from agent_envs.alfworld.world import World
from agent_envs.assets import MissingAsset
from tools.alfworld.rooms import (
    KINDS,
    Draw,
    Item,
    Job,
    Room,
    draw_job,
    draw_room,
    fill_room,
    is_loose,
    read_scenes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

WORDINGS = {
    "pick": ("put a {thing} in {place}", "put some {thing} on {place}"),
    "look": ("look at {thing} under the {place}", "examine the {thing} with the {place}"),
    "clean": ("put a clean {thing} in {place}", "clean some {thing} and put it in {place}"),
    "heat": ("put a hot {thing} in {place}", "heat some {thing} and put it in {place}"),
    "cool": ("put a cool {thing} in {place}", "cool some {thing} and put it in {place}"),
    "pick2": ("put two {thing} in {place}", "find two {thing} and put them in {place}"),
}
"""What ALFWorld's task lines say, by short name of the task type."""

SIZES = (0.16, 0.46)
"""Sizes of the rooms in a set of splits: 8 to 16 receptacles."""

ROOMS = {"kitchen": (16, 5), "livingroom": (8, 3), "bedroom": (8, 3), "bathroom": (8, 3)}
"""Rooms of each kind in a set of splits: those of `train` and `valid_seen`, then the unseen."""

GENUINE_TASK = "UNKNOWN GOAL"
"""Stands in ALFWorld's grammar where the task sentence goes."""

_PROPERTY = {"clean": "isClean", "heat": "isHot", "cool": "isCool"}
_ABILITY = {"clean": "cleanable", "heat": "heatable", "cool": "coolable", "slice": "sliceable"}
_VESSELS = frozenset({"Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot"})
_BARE = {
    "pddl_domain": "",
    "grammar": f'""" {{"task": [{{"rhs": "Your task is to: {TASK}."}}]}} """',
}
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]


def furnish(rng: np.random.Generator, room: Room, *jobs: Job, trial: str) -> dict[str, Any]:
    """A game of the embedded set: a room filled with things, and one or two jobs as its goals.

    Returns:
        task_id `<task>/<trial>`, task (the sentence), pddl_problem, walkthrough, solvable.

    Raises:
        RuntimeError: the game is solved already or cannot be solved: a fault of this module.
    """
    items = fill_room(rng, room, jobs)
    task = ", and ".join(
        Draw(rng)
        .choose(WORDINGS[job.task])
        .format(thing=job.thing.lower(), place=job.place.lower())
        for job in jobs
    )
    kinds = "+".join(f"{SHORT_NAMES[job.task]}-{job.thing}-None-{job.place}" for job in jobs)
    name = f"{kinds}-{room.plan}/{trial}"
    text = "\n".join(write_problem(room, jobs, items))
    line = {"task_id": name, "task": task, "pddl_problem": text, "walkthrough": []}
    walkthrough = plan(World(parse_game(complete(line, _BARE), name, name)))
    if not walkthrough:
        raise RuntimeError(f"{name} came out {'solved' if walkthrough == [] else 'unsolvable'}")
    return {**line, "walkthrough": walkthrough, "solvable": True}


def complete(line: Mapping[str, Any], rules: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A game of the embedded set as the mapping that a `game.tw-pddl` file holds.

    Args:
        line: what `furnish` returns.
        rules: pddl_domain and grammar, with TASK where the task goes; by default our own.
    """
    return {
        **fill_task_sentence(rules or read_logic(), line["task"]),
        "pddl_problem": line["pddl_problem"],
        "solvable": True,
        "walkthrough": list(line["walkthrough"]),
    }


def generate_game(rng: np.random.Generator, *, size: float, task_type: str) -> dict[str, Any]:
    """A game of a type in a new room, as the mapping that a `game.tw-pddl` file holds.

    Args:
        rng: draws everything.
        size: in (0, 1]; 4 to 30 receptacles.
        task_type: one of ALFRED's six, or its short name.

    Raises:
        ValueError: an unknown task type or a size out of range.
    """
    task = _find_short_name(task_type)
    room = draw_room(rng, kind=Draw(rng).choose(KINDS[SHORT_NAMES[task]]), size=size)
    return complete(furnish(rng, room, draw_job(rng, room, task), trial="trial_1"))


def _find_short_name(task_type: str) -> str:
    for short, full in SHORT_NAMES.items():
        if task_type in {short, full}:
            return short
    raise ValueError(f"unknown task type {task_type!r}; one of {', '.join(SHORT_NAMES.values())}")


def generate_splits(seed: int, *, train: int = 600, valid: int = 120) -> dict[str, list[Any]]:
    """Games for `train`, `valid_seen` (rooms of train, other tasks) and `valid_unseen`.

    All task types are equally frequent. Each game is what `furnish` returns.
    """
    seen, unseen = _draw_rooms(seed)
    games = _draw_games(np.random.default_rng([seed, 1]), seen, train)
    known = {_find_task(game) for game in games}
    return {
        "train": games,
        "valid_seen": _draw_games(np.random.default_rng([seed, 2]), seen, valid, known),
        "valid_unseen": _draw_games(np.random.default_rng([seed, 3]), unseen, valid),
    }


def generate_pairs(seed: int, *, train: int, valid: int) -> dict[str, list[Any]]:
    """Games with two goals for `train_two` and, in unseen rooms, `valid_two`."""
    seen, unseen = _draw_rooms(seed)
    return {
        "train_two": _draw_pairs(np.random.default_rng([seed, 4]), seen, train),
        "valid_two": _draw_pairs(np.random.default_rng([seed, 5]), unseen, valid),
    }


def _draw_pairs(
    rng: np.random.Generator, rooms: Sequence[Room], number: int
) -> list[dict[str, Any]]:
    """Games with two goals of different things; first goals are equally often of each type."""
    games: list[dict[str, Any]] = []
    draw, tasks = Draw(rng), [task for task in SHORT_NAMES if task != "look"]
    while len(games) < number:
        first = tasks[len(games) % len(tasks)]
        kind = draw.choose(KINDS[SHORT_NAMES[first]])
        room = draw.choose([room for room in rooms if room.kind == kind])
        second = draw.choose([task for task in tasks if kind in KINDS[SHORT_NAMES[task]]])
        jobs = [draw_job(rng, room, task) for task in (first, second)]
        if jobs[0].thing != jobs[1].thing:
            games.append(furnish(rng, room, *jobs, trial=f"trial_{len(games):04d}"))
    return games


def _draw_rooms(seed: int) -> tuple[list[Room], list[Room]]:
    rng = np.random.default_rng([seed, 0])
    rooms: tuple[list[Room], list[Room]] = ([], [])
    for kind, (seen, unseen) in ROOMS.items():
        for number in range(seen + unseen):
            size = SIZES[0] + (SIZES[1] - SIZES[0]) * float(rng.random())
            rooms[number >= seen].append(draw_room(rng, kind=kind, size=size, plan=number + 1))
    return rooms


def _find_task(game: Mapping[str, Any]) -> str:
    task, _, _ = str(game["task_id"]).partition("/")
    return task


def _draw_games(
    rng: np.random.Generator, rooms: Sequence[Room], number: int, known: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Games in these rooms, none with a task (type, thing, place and room) that is known."""
    games: list[dict[str, Any]] = []
    draw, known, tasks = Draw(rng), set(known), list(SHORT_NAMES)
    while len(games) < number:
        task = tasks[len(games) % len(tasks)]
        kind = draw.choose(KINDS[SHORT_NAMES[task]])
        room = draw.choose([room for room in rooms if room.kind == kind])
        game = furnish(rng, room, draw_job(rng, room, task), trial=f"trial_{len(games):04d}")
        if _find_task(game) not in known:
            games.append(game)
    return games


def write_tree(folder: Path, splits: Mapping[str, Iterable[Any]], rules: Mapping[str, str]) -> int:
    """Write games as ALFWorld keeps them, `json_2.1.1/<split>/<task>/<trial>/game.tw-pddl`.

    Returns:
        How many were written.
    """
    games = [(split, game) for split, lines in splits.items() for game in lines]
    for split, game in games:
        file = folder / FOLDER / split / game["task_id"] / FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(complete(game, rules), indent=1), encoding="utf-8")
    return len(games)


def pack(lines: Iterable[Any]) -> bytes:
    """JSON lines, compressed; the same bytes for the same games."""
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    return lzma.compress(text.encode(), check=lzma.CHECK_CRC32, filters=_FILTERS)


def read_rules(folder: Path | None) -> dict[str, str]:
    """Domain and grammar from `alfred.pddl` and `alfred.twl2` in a folder, or our own for None.

    Raises:
        MissingAsset: the folder lacks one of them.
    """
    if folder is None:
        own = Path(__file__).with_name("household.pddl")
        files = {"pddl_domain": own, "grammar": own.with_suffix(".twl2")}
        return {key: file.read_text(encoding="utf-8") for key, file in files.items()}
    files = {"pddl_domain": folder / "alfred.pddl", "grammar": folder / "alfred.twl2"}
    for file in files.values():
        if not file.is_file():
            raise MissingAsset(f"{file} is not there; name the folder alfworld/data of ALFWorld")
    texts = {key: file.read_text(encoding="utf-8") for key, file in files.items()}
    return {key: text.replace(GENUINE_TASK, TASK) for key, text in texts.items()}


def write_problem(room: Room, jobs: Sequence[Job], items: Sequence[Item]) -> Iterator[str]:
    """Lines of the PDDL problem."""
    yield f"(define (problem plan_{room.plan})\n(:domain alfred)\n(:objects\nagent1 - agent"
    yield from (f"{name}Type - otype" for name in [*read_things(), "Sink"])
    yield from (f"{name}Type - rtype" for name in _list_receptacle_types())
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
        yield from (f"(canContain {place}Type {name}Type)" for place, _ in room.list_offers(name))
    for item in items:
        yield f"(objectType {item.name} {item.type}Type)"
        yield f"(inReceptacle {item.name} {item.spot.name})"
        yield f"(objectAtLocation {item.name} {item.spot.location})"
        yield from (
            f"({ability} {item.name})" for ability in _list_abilities(read_things()[item.type])
        )
    goals = "\n".join(map(_write_goal, jobs))
    yield f")\n(:goal\n{goals if len(jobs) == 1 else f'(and {goals})'}\n))"


@cache
def _list_receptacle_types() -> list[str]:
    """All receptacle types of all scenes, sorted."""
    every = {
        t for s in read_scenes().values() for t in (*s.always, *(extra for extra, _ in s.extras))
    }
    return sorted(every)


def _list_abilities(thing: ThingType) -> Iterator[str]:
    if "light" in thing.abilities:
        yield "toggleable"
    if is_loose(thing):
        yield "pickupable"
    if thing.name in _VESSELS:
        yield "isReceptacleObject"
    yield from (_ABILITY[name] for name in sorted(thing.abilities & _ABILITY.keys()))


def _write_goal(job: Job) -> str:
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
