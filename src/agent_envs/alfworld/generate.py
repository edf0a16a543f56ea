"""Makes AlfWorld games: rooms, what lies in them, a task, and the PDDL problem that says so.

    python -m agent_envs.alfworld.generate --seed 1 --out games    # a tree as the public one
    python -m agent_envs.alfworld.generate --pack env_assets/alfworld    # the embedded set

Every game is solvable by construction and its walkthrough is a shortest solution. Only
`Generator.random` is drawn from, so that a seed gives the same bytes on every machine.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agent_envs.alfworld.data import logic
from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.game import SHORT_NAMES, parse_game
from agent_envs.alfworld.layouts import OPENABLE, TOOLS, Thing, scenes, things
from agent_envs.alfworld.world import World
from agent_envs.assets import MissingAsset, asset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

KINDS = {
    SHORT_NAMES["pick"]: ("kitchen", "livingroom", "bedroom", "bathroom"),
    SHORT_NAMES["look"]: ("livingroom", "bedroom"),
    SHORT_NAMES["clean"]: ("kitchen", "bathroom"),
    SHORT_NAMES["heat"]: ("kitchen",),
    SHORT_NAMES["cool"]: ("kitchen",),
    SHORT_NAMES["pick2"]: ("kitchen", "livingroom", "bedroom", "bathroom"),
}
"""The kinds of rooms in which each task type is at home."""

WORDINGS = {
    "pick": ("put a {thing} in {place}", "put some {thing} on {place}"),
    "look": ("look at {thing} under the {place}", "examine the {thing} with the {place}"),
    "clean": ("put a clean {thing} in {place}", "clean some {thing} and put it in {place}"),
    "heat": ("put a hot {thing} in {place}", "heat some {thing} and put it in {place}"),
    "cool": ("put a cool {thing} in {place}", "cool some {thing} and put it in {place}"),
    "pick2": ("put two {thing} in {place}", "find two {thing} and put them in {place}"),
}
"""What ALFWorld's task lines say, by short name of the task type."""

PLANS = {"kitchen": 0, "livingroom": 200, "bedroom": 300, "bathroom": 400}
"""ALFRED numbers its rooms from here, by kind."""

FEWEST, MOST = 4, 30
"""Receptacles of the smallest and the largest room."""

SIZES = (0.16, 0.46)
"""Sizes of the rooms in a set of splits: 8 to 16 receptacles."""

ROOMS = {"kitchen": (16, 5), "livingroom": (8, 3), "bedroom": (8, 3), "bathroom": (8, 3)}
"""Rooms of each kind in a set of splits: those of `train` and `valid_seen`, then the unseen."""

THINGS = 1.4
"""Things that lie about for each receptacle, as in the public games."""

SURPRISE = 0.3
"""Share of things that lie in just any place that can take them, whatever the habit."""

SPARE = 0.15
"""Chance that one more of the wanted things lies about than is needed."""

STACKED = 0.15
"""Chance that a drawer or cabinet shares its spot with the one before it."""

COPIES = ((1, 6.0), (2, 2.5), (3, 1.5))
"""How many things of a type lie about, with weights."""

FOLDER, FILE = "json_2.1.1", "game.tw-pddl"
GENUINE_TASK, TASK = "UNKNOWN GOAL", "TASK"
_BARE = {
    "pddl_domain": "",
    "grammar": f'""" {{"task": [{{"rhs": "Your task is to: {TASK}."}}]}} """',
}
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
_PROPERTY = {"clean": "isClean", "heat": "isHot", "cool": "isCool"}
_ABILITY = {"clean": "cleanable", "heat": "heatable", "cool": "coolable", "slice": "sliceable"}
_VESSELS = frozenset({"Bowl", "Box", "Cup", "Mug", "Pan", "Plate", "Pot"})

T = TypeVar("T")


class Draw:
    """Random choices from one stream of uniform numbers, the same on every machine."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __call__(self) -> float:
        """A number in [0, 1)."""
        return float(self._rng.random())

    def below(self, most: int) -> int:
        """An integer in [0, most)."""
        return int(self._rng.random() * most)

    def one(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """One of the (option, weight) pairs."""
        left = self() * sum(weight for _, weight in options)
        for option, weight in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][0]


@dataclass(frozen=True, slots=True)
class Spot:
    """A receptacle of a room: its PDDL name, its type, and the PDDL name of where one stands."""

    name: str
    type: str
    location: str


@dataclass(frozen=True, slots=True)
class Room:
    """A room with its furniture and without loose things; `plan` is its number."""

    kind: str
    plan: int
    spots: tuple[Spot, ...]
    start: str

    def types(self) -> list[str]:
        """The receptacle types in it, each once."""
        return list(dict.fromkeys(spot.type for spot in self.spots))

    def offers(self, name: str, *, without: str = "") -> list[tuple[str, float]]:
        """(receptacle type, weight) of the places here for a type of thing, but for one type."""
        places, types = things()[name].places, self.types()
        return [(t, weight) for t, weight in places.items() if t in types and t != without]


@dataclass(frozen=True, slots=True)
class Job:
    """What to do: short name of the task type, types of the thing and of the receptacle or lamp."""

    task: str
    thing: str
    place: str


def draw_room(rng: np.random.Generator, *, kind: str, size: float, plan: int = 1) -> Room:
    """A room of a kind; `size` in (0, 1] spans 4 to 30 receptacles.

    Raises:
        ValueError: an unknown kind or a size out of range.
    """
    if kind not in scenes():
        raise ValueError(f"unknown kind of room {kind!r}; there are {', '.join(scenes())}")
    if not 0 < size <= 1:
        raise ValueError(f"size spans rooms from tiny to full and must lie in (0, 1], got {size}")
    draw, scene = Draw(rng), scenes()[kind]
    number = round(FEWEST + (MOST - FEWEST) * size) - len(scene.always)
    left, types = list(scene.extras), list(scene.always)
    for _ in range(number):
        extra = draw.weighted([(extra, extra[1]) for extra in left])
        left.remove(extra)
        types.append(extra[0])
    spots: list[Spot] = []
    for step, name in enumerate(sorted(types)):
        before = spots[-1] if spots else None
        shared = before and before.type == name and name in OPENABLE and draw() < STACKED
        location = before.location if before and shared else _location(draw, step)
        spots.append(Spot(_receptacle_name(draw, name), name, location))
    return Room(kind, PLANS[kind] + plan, tuple(spots), _location(draw, len(types)))


def _location(draw: Draw, step: int) -> str:
    """ALFRED's name of a place to stand: where, facing which way, looking how far down."""
    return _pddl(f"loc|{step - 8}|{draw.below(16) - 8}|{draw.below(4)}|60")


def _receptacle_name(draw: Draw, name: str) -> str:
    position = "|".join(f"{(draw() - 0.5) * span:+06.2f}" for span in (8, 2, 8))
    if name.endswith("Basin"):  # part of a sink or bathtub
        return _pddl(f"{name.removesuffix('Basin')}|{position}|{name}")
    return _pddl(f"{name}|{position}")


def _pddl(name: str) -> str:
    """ALFRED's spelling of `Mug|+01.23|-00.90|+02.05` as a PDDL name."""
    for sign, word in (("|", "_bar_"), ("+", "_plus_"), ("-", "_minus_"), (".", "_dot_")):
        name = name.replace(sign, word)
    return name


def jobs(room: Room, task: str) -> list[Job]:
    """All that can be asked for in a room by a task type's short name; none where means lack."""
    found = [things()[name] for name in scenes()[room.kind].things if room.offers(name)]
    if task == "look":
        lamps = [thing.name for thing in found if "light" in thing.abilities]
        return [Job(task, thing.name, lamp) for thing in found if _loose(thing) for lamp in lamps]
    if task in TOOLS and TOOLS[task] not in room.types():
        return []
    return [
        Job(task, thing.name, place)
        for thing in found
        if _loose(thing) and (task not in TOOLS or task in thing.abilities)
        for place, _ in room.offers(thing.name)
        if not place.endswith("Basin")  # nobody asks to leave things in a sink
        if task in TOOLS or room.offers(thing.name, without=place)
    ]


def _loose(thing: Thing) -> bool:
    return thing.abilities.isdisjoint({"light", "fixed"})


def draw_job(rng: np.random.Generator, room: Room, task: str) -> Job:
    """One of a room's jobs; things are equally likely, and so are the places for each.

    Raises:
        ValueError: the room has no such job.
    """
    possible = jobs(room, task)
    if not possible:
        raise ValueError(f"a {room.kind} with {', '.join(room.types())} has no job {task!r}")
    draw = Draw(rng)
    thing = draw.one(list(dict.fromkeys(job.thing for job in possible)))
    return draw.one([job for job in possible if job.thing == thing])


def furnish(rng: np.random.Generator, room: Room, job: Job, *, trial: str) -> dict[str, Any]:
    """A game of the embedded set: a room filled with things, and the job as its goal.

    Returns:
        task_id `<task>/<trial>`, task (the sentence), pddl_problem, walkthrough, solvable.

    Raises:
        RuntimeError: the game is solved already or cannot be solved: a fault of this module.
    """
    draw = Draw(rng)
    placed = _place(draw, room, job)
    task = draw.one(WORDINGS[job.task]).format(thing=job.thing.lower(), place=job.place.lower())
    name = f"{SHORT_NAMES[job.task]}-{job.thing}-None-{job.place}-{room.plan}/{trial}"
    problem = "\n".join(_problem(room, job, placed))
    line = {"task_id": name, "task": task, "pddl_problem": problem, "walkthrough": []}
    walkthrough = plan(World(parse_game(complete(line, _BARE), name, name)))
    if not walkthrough:
        raise RuntimeError(f"{name} came out {'solved' if walkthrough == [] else 'unsolvable'}")
    return {**line, "walkthrough": walkthrough, "solvable": True}


def _place(draw: Draw, room: Room, job: Job) -> list[tuple[str, str, Spot]]:
    """(PDDL name, type, receptacle) of everything that lies about."""
    needed = (2 if job.task == "pick2" else 1) + (draw() < SPARE)
    away = job.place if job.task in {"pick", "pick2"} else ""  # not where they are to be put
    kept = [(job.thing, _keep(draw, room, job.thing, away)) for _ in range(needed)]
    scene = scenes()[room.kind].things
    lamp = job.place if job.task == "look" else "DeskLamp"
    if lamp in scene and room.offers(lamp):
        kept.append((lamp, _keep(draw, room, lamp)))
    others = [n for n in scene if n not in {job.thing, lamp, "FloorLamp"} and room.offers(n)]
    while len(kept) < THINGS * len(room.spots) and others:
        name = draw.one(others)
        others.remove(name)
        copies = 1 if "fixed" in things()[name].abilities else draw.weighted(COPIES)
        kept += [(name, _keep(draw, room, name)) for _ in range(copies)]
    used: Counter[str] = Counter()
    return [(_thing_name(draw, name, spot, used), name, spot) for name, spot in kept]


def _keep(draw: Draw, room: Room, name: str, away: str = "") -> Spot:
    """A receptacle for a thing: mostly by habit, sometimes anywhere that takes it."""
    offers = room.offers(name, without=away)
    kind = draw.one(offers)[0] if draw() < SURPRISE else draw.weighted(offers)
    return draw.one([spot for spot in room.spots if spot.type == kind])


def _thing_name(draw: Draw, name: str, spot: Spot, used: Counter[str]) -> str:
    """A PDDL name of its own: the receptacle's position with a thing's own height."""
    _, x, _, z, *_ = spot.name.split("_bar_")
    height = draw.below(50) * 2 + used[name] % 2  # a thing more of the type: another last digit
    used[name] += 1
    return f"{name}_bar_{x}_bar_{_pddl(f'+{used[name]:02d}.{height:02d}')}_bar_{z}"


def _problem(room: Room, job: Job, placed: Sequence[tuple[str, str, Spot]]) -> Iterator[str]:
    """Lines of the PDDL problem."""
    yield f"(define (problem plan_{room.plan})\n(:domain alfred)\n(:objects\nagent1 - agent"
    yield from (f"{name}Type - otype" for name in [*things(), "Sink"])
    yield from (f"{name}Type - rtype" for name in _receptacle_types())
    yield from (f"{name} - object" for name, _, _ in placed)
    yield from (f"{spot.name} - receptacle" for spot in room.spots)
    locations = dict.fromkeys(spot.location for spot in room.spots)
    yield from (f"{location} - location" for location in [*locations, room.start])
    yield f")\n(:init\n(atLocation agent1 {room.start})"
    for spot in room.spots:
        yield f"(receptacleType {spot.name} {spot.type}Type)"
        yield f"(receptacleAtLocation {spot.name} {spot.location})"
        if spot.type in OPENABLE:
            yield f"(openable {spot.name})"
    for name in sorted({kind for _, kind, _ in placed}):
        yield from (f"(canContain {place}Type {name}Type)" for place, _ in room.offers(name))
    for name, kind, spot in placed:
        yield f"(objectType {name} {kind}Type)"
        yield f"(inReceptacle {name} {spot.name})"
        yield f"(objectAtLocation {name} {spot.location})"
        yield from (f"({ability} {name})" for ability in _abilities(things()[kind]))
    yield f")\n(:goal\n{_goal(job)}\n))"


def _receptacle_types() -> list[str]:
    """All receptacle types of all scenes, sorted."""
    every = {t for s in scenes().values() for t in (*s.always, *(extra for extra, _ in s.extras))}
    return sorted(every)


def _abilities(thing: Thing) -> Iterator[str]:
    if "light" in thing.abilities:
        yield "toggleable"
    if _loose(thing):
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


def complete(line: Mapping[str, Any], rules: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A game of the embedded set as the mapping that a `game.tw-pddl` file holds.

    Args:
        line: what `furnish` returns.
        rules: pddl_domain and grammar, with TASK where the task goes; by default our own.
    """
    rules = logic() if rules is None else rules
    return {
        "pddl_domain": rules["pddl_domain"],
        "grammar": rules["grammar"].replace(TASK, line["task"]),
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
    task = _short(task_type)
    room = draw_room(rng, kind=Draw(rng).one(KINDS[SHORT_NAMES[task]]), size=size)
    return complete(furnish(rng, room, draw_job(rng, room, task), trial="trial_1"))


def _short(task_type: str) -> str:
    for short, full in SHORT_NAMES.items():
        if task_type in {short, full}:
            return short
    raise ValueError(f"unknown task type {task_type!r}; one of {', '.join(SHORT_NAMES.values())}")


def generate_splits(seed: int, *, train: int = 600, valid: int = 120) -> dict[str, list[Any]]:
    """Games for `train`, `valid_seen` (rooms of train, other tasks) and `valid_unseen`.

    All task types are equally frequent. Each game is what `furnish` returns.
    """
    seen, unseen = _draw_rooms(seed)
    games = _games(np.random.default_rng([seed, 1]), seen, train)
    known = {_task_of(game) for game in games}
    return {
        "train": games,
        "valid_seen": _games(np.random.default_rng([seed, 2]), seen, valid, known),
        "valid_unseen": _games(np.random.default_rng([seed, 3]), unseen, valid),
    }


def _draw_rooms(seed: int) -> tuple[list[Room], list[Room]]:
    rng = np.random.default_rng([seed, 0])
    rooms: tuple[list[Room], list[Room]] = ([], [])
    for kind, (seen, unseen) in ROOMS.items():
        for number in range(seen + unseen):
            size = SIZES[0] + (SIZES[1] - SIZES[0]) * float(rng.random())
            rooms[number >= seen].append(draw_room(rng, kind=kind, size=size, plan=number + 1))
    return rooms


def _task_of(game: Mapping[str, Any]) -> str:
    task, _, _ = str(game["task_id"]).partition("/")
    return task


def _games(
    rng: np.random.Generator, rooms: Sequence[Room], number: int, known: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Games in these rooms, none with a task (type, thing, place and room) that is known."""
    games: list[dict[str, Any]] = []
    draw, known, tasks = Draw(rng), set(known), list(SHORT_NAMES)
    while len(games) < number:
        task = tasks[len(games) % len(tasks)]
        kind = draw.one(KINDS[SHORT_NAMES[task]])
        room = draw.one([room for room in rooms if room.kind == kind])
        game = furnish(rng, room, draw_job(rng, room, task), trial=f"trial_{len(games):04d}")
        if _task_of(game) not in known:
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
        return {
            "pddl_domain": asset("alfworld/household.pddl").read_text(encoding="utf-8"),
            "grammar": asset("alfworld/household.twl2").read_text(encoding="utf-8"),
        }
    files = {"pddl_domain": folder / "alfred.pddl", "grammar": folder / "alfred.twl2"}
    for file in files.values():
        if not file.is_file():
            raise MissingAsset(f"{file} is not there; name the folder alfworld/data of ALFWorld")
    texts = {key: file.read_text(encoding="utf-8") for key, file in files.items()}
    return {key: text.replace(GENUINE_TASK, TASK) for key, text in texts.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: make games and write them as a tree or packed."""
    parser = argparse.ArgumentParser(prog="agent_envs.alfworld.generate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, default=0, help="draws everything (default: 0)")
    parser.add_argument("--train", type=int, default=600, help="games in train (default: 600)")
    parser.add_argument("--valid", type=int, default=120, help="games in each valid split")
    parser.add_argument("--logic", type=Path, help="folder with alfred.pddl and alfred.twl2")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, help="write a tree of game files into this folder")
    where.add_argument("--pack", type=Path, help="write the embedded set into this folder")
    options = parser.parse_args(arguments)
    rules = read_rules(options.logic)
    if options.pack:
        options.pack.mkdir(parents=True, exist_ok=True)
        (options.pack / "logic.json.xz").write_bytes(pack([rules]))
    splits = generate_splits(options.seed, train=options.train, valid=options.valid)
    if options.out:
        number = write_tree(options.out, splits, rules)
        sys.stdout.write(f"{number} games in {options.out / FOLDER}\n")
        return
    for split, lines in splits.items():
        blob = pack(lines)
        (options.pack / f"{split}.jsonl.xz").write_bytes(blob)
        sys.stdout.write(f"{split}: {len(lines)} games, {len(blob)} bytes\n")


if __name__ == "__main__":
    main()
