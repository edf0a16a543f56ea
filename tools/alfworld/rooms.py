"""Rooms of a household, drawn at random: their furniture, what can be asked for, what lies where.

Only `Generator.random` is drawn from, so that a seed gives the same rooms on every machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from agent_envs.alfworld.experts import OPENABLE, TOOLS, ThingType, read_things
from agent_envs.alfworld.game import SHORT_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

KINDS = {
    SHORT_NAMES["pick"]: ("kitchen", "livingroom", "bedroom", "bathroom"),
    SHORT_NAMES["look"]: ("livingroom", "bedroom"),
    SHORT_NAMES["clean"]: ("kitchen", "bathroom"),
    SHORT_NAMES["heat"]: ("kitchen",),
    SHORT_NAMES["cool"]: ("kitchen",),
    SHORT_NAMES["pick2"]: ("kitchen", "livingroom", "bedroom", "bathroom"),
}
"""The kinds of rooms in which each task type is at home."""

PLANS = {"kitchen": 0, "livingroom": 200, "bedroom": 300, "bathroom": 400}
"""ALFRED numbers its rooms from here, by kind."""

FEWEST, MOST = 4, 30
"""Receptacles of the smallest and the largest room."""

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

# Kind: receptacles that every such room has | those that a larger one adds, as type, how many at
# most, and how readily | things found there.
_SCENES = """
kitchen: CounterTop Fridge Microwave SinkBasin | Cabinet 12 1, Drawer 8 1, StoveBurner 4 .7, \
CounterTop 2 1.5, DiningTable 1 3, GarbageCan 1 4, CoffeeMachine 1 3, Toaster 1 1.5, Shelf 3 \
.7, SideTable 1 1 | Apple Bowl Bread ButterKnife Cup DishSponge Egg Fork Glassbottle Kettle \
Knife Ladle Lettuce Mug Pan PaperTowelRoll PepperShaker Plate Pot Potato SaltShaker SoapBottle \
Spatula Spoon Statue Tomato Vase WineBottle Book HousePlant
bedroom: Bed Desk SideTable Drawer | Drawer 10 1, Shelf 6 1, SideTable 1 1, Desk 1 .5, Dresser \
1 3, GarbageCan 1 4, ArmChair 1 1.5, LaundryHamper 1 1, Safe 1 1, Cabinet 4 .5, DiningTable 1 \
.4 | AlarmClock BaseballBat BasketBall Book Bowl Box CD CellPhone CreditCard DeskLamp KeyChain \
Laptop Mug Pen Pencil Pillow Statue TeddyBear TennisRacket TissueBox Vase Watch Television
livingroom: Sofa CoffeeTable SideTable ArmChair | Drawer 8 1, Shelf 6 1, SideTable 2 1, \
ArmChair 1 1, Sofa 1 .5, DiningTable 1 2, TVStand 1 3, Dresser 1 1.5, GarbageCan 1 4, Cabinet 5 \
.7, Ottoman 1 1, Safe 1 .3, Desk 1 .5 | Book Bowl Box CellPhone CreditCard DeskLamp FloorLamp \
HousePlant KeyChain Laptop Newspaper Pen Pencil Pillow Plate RemoteControl Statue Television \
TissueBox Vase Watch WateringCan
bathroom: SinkBasin Toilet CounterTop GarbageCan | Cabinet 8 1, Drawer 7 1, HandTowelHolder 2 \
2, TowelHolder 2 1.5, ToiletPaperHanger 1 3, BathtubBasin 1 2.5, Shelf 3 .8, SinkBasin 1 1, \
SideTable 1 .5, Cart 1 1, Dresser 1 .4 | Candle Cloth DishSponge HandTowel HousePlant \
PaperTowelRoll Plunger SoapBar SoapBottle SprayBottle TissueBox ToiletPaper Towel
"""

T = TypeVar("T")


class Draw:
    """Random choices from one stream of uniform numbers, the same on every machine."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def __call__(self) -> float:
        """A number in [0, 1)."""
        return float(self._rng.random())

    def draw_below(self, most: int) -> int:
        """An integer in [0, most)."""
        return int(self._rng.random() * most)

    def choose(self, options: Sequence[T]) -> T:
        """One of the options, all equally likely."""
        return options[self.draw_below(len(options))]

    def choose_weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """One of the (option, weight) pairs."""
        left = self() * sum(weight for _, weight in options)
        for option, weight in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][0]


@dataclass(frozen=True, slots=True)
class Scene:
    """A kind of room: what it always has, what larger ones add (type, weight), what lies about."""

    kind: str
    always: tuple[str, ...]
    extras: tuple[tuple[str, float], ...]
    things: tuple[str, ...]


@cache
def read_scenes() -> Mapping[str, Scene]:
    """All kinds of rooms by name."""
    return MappingProxyType(
        {scene.kind: scene for scene in map(_read_scene, _SCENES.strip().split("\n"))}
    )


def _read_scene(line: str) -> Scene:
    kind, _, rest = line.partition(":")
    always, extras, found = rest.split("|")
    each = (extra.split() for extra in extras.split(","))
    many = [(name, float(weight)) for name, most, weight in each for _ in range(int(most))]
    return Scene(kind, tuple(always.split()), tuple(many), tuple(found.split()))


@dataclass(frozen=True, slots=True)
class Spot:
    """A receptacle of a room: its PDDL name, its type, and the PDDL name of where one stands."""

    name: str
    type: str
    location: str


@dataclass(frozen=True, slots=True)
class Item:
    """A thing that lies about: its PDDL name, its type, its receptacle."""

    name: str
    type: str
    spot: Spot


@dataclass(frozen=True)
class Room:
    """A room with its furniture and without loose things; `plan` is its number."""

    kind: str
    plan: int
    spots: tuple[Spot, ...]
    start: str

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The receptacle types in it, each once."""
        return tuple(dict.fromkeys(spot.type for spot in self.spots))

    def list_offers(self, name: str, *, without: str = "") -> list[tuple[str, float]]:
        """(receptacle type, weight) of the places here for a type of thing, but for one type."""
        places, types = read_things()[name].places, self.types
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
    if kind not in read_scenes():
        raise ValueError(f"unknown kind of room {kind!r}; there are {', '.join(read_scenes())}")
    if not 0 < size <= 1:
        raise ValueError(f"size spans rooms from tiny to full and must lie in (0, 1], got {size}")
    draw, scene = Draw(rng), read_scenes()[kind]
    number = round(FEWEST + (MOST - FEWEST) * size) - len(scene.always)
    left, types = list(scene.extras), list(scene.always)
    for _ in range(number):
        extra = draw.choose_weighted([(extra, extra[1]) for extra in left])
        left.remove(extra)
        types.append(extra[0])
    spots: list[Spot] = []
    for step, name in enumerate(sorted(types)):
        before = spots[-1] if spots else None
        shared = before and before.type == name and name in OPENABLE and draw() < STACKED
        location = before.location if before and shared else _draw_location(draw, step)
        spots.append(Spot(_draw_receptacle_name(draw, name), name, location))
    return Room(kind, PLANS[kind] + plan, tuple(spots), _draw_location(draw, len(types)))


def _draw_location(draw: Draw, step: int) -> str:
    """ALFRED's name of a place to stand: where, facing which way, looking how far down."""
    return _spell_pddl(f"loc|{step - 8}|{draw.draw_below(16) - 8}|{draw.draw_below(4)}|60")


def _draw_receptacle_name(draw: Draw, name: str) -> str:
    position = "|".join(f"{(draw() - 0.5) * span:+06.2f}" for span in (8, 2, 8))
    if name.endswith("Basin"):  # part of a sink or bathtub
        return _spell_pddl(f"{name.removesuffix('Basin')}|{position}|{name}")
    return _spell_pddl(f"{name}|{position}")


def _spell_pddl(name: str) -> str:
    """ALFRED's spelling of `Mug|+01.23|-00.90|+02.05` as a PDDL name."""
    for sign, word in (("|", "_bar_"), ("+", "_plus_"), ("-", "_minus_"), (".", "_dot_")):
        name = name.replace(sign, word)
    return name


def list_jobs(room: Room, task: str) -> list[Job]:
    """All that can be asked for in a room by a task type's short name; none where means lack."""
    found = [
        read_things()[name] for name in read_scenes()[room.kind].things if room.list_offers(name)
    ]
    if task == "look":
        lamps = [thing.name for thing in found if "light" in thing.abilities]
        return [Job(task, thing.name, lamp) for thing in found if is_loose(thing) for lamp in lamps]
    if task in TOOLS and TOOLS[task] not in room.types:
        return []
    return [
        Job(task, thing.name, place)
        for thing in found
        if is_loose(thing) and (task not in TOOLS or task in thing.abilities)
        for place, _ in room.list_offers(thing.name)
        if not place.endswith("Basin")  # nobody asks to leave things in a sink
        if task in TOOLS or room.list_offers(thing.name, without=place)
    ]


def is_loose(thing: ThingType) -> bool:
    """Whether a type of thing can be carried about."""
    return thing.abilities.isdisjoint({"light", "fixed"})


def draw_job(rng: np.random.Generator, room: Room, task: str) -> Job:
    """One of a room's jobs; things are equally likely, and so are the places for each.

    Raises:
        ValueError: the room has no such job.
    """
    possible = list_jobs(room, task)
    if not possible:
        raise ValueError(f"a {room.kind} with {', '.join(room.types)} has no job {task!r}")
    draw = Draw(rng)
    thing = draw.choose(list(dict.fromkeys(job.thing for job in possible)))
    return draw.choose([job for job in possible if job.thing == thing])


def fill_room(rng: np.random.Generator, room: Room, jobs: Sequence[Job]) -> list[Item]:
    """Everything that lies about in a room in which jobs, of different things, are to be done."""
    draw = Draw(rng)
    kept: list[tuple[str, Spot]] = []
    for job in jobs:
        needed = (2 if job.task == "pick2" else 1) + (draw() < SPARE)
        away = job.place if job.task in {"pick", "pick2"} else ""  # not where they are to be put
        kept += [(job.thing, _choose_spot(draw, room, job.thing, away)) for _ in range(needed)]
    scene, wanted = read_scenes()[room.kind].things, {job.thing for job in jobs}
    lamp = next((job.place for job in jobs if job.task == "look"), "DeskLamp")
    if lamp in scene and room.list_offers(lamp):
        kept.append((lamp, _choose_spot(draw, room, lamp)))
    others = [n for n in scene if n not in {*wanted, lamp, "FloorLamp"} and room.list_offers(n)]
    while len(kept) < THINGS * len(room.spots) and others:
        name = draw.choose(others)
        others.remove(name)
        copies = 1 if "fixed" in read_things()[name].abilities else draw.choose_weighted(COPIES)
        kept += [(name, _choose_spot(draw, room, name)) for _ in range(copies)]
    used: Counter[str] = Counter()
    return [Item(_draw_thing_name(draw, name, spot, used), name, spot) for name, spot in kept]


def _choose_spot(draw: Draw, room: Room, name: str, away: str = "") -> Spot:
    """A receptacle for a thing: mostly by habit, sometimes anywhere that takes it."""
    offers = room.list_offers(name, without=away)
    kind = draw.choose(offers)[0] if draw() < SURPRISE else draw.choose_weighted(offers)
    return draw.choose([spot for spot in room.spots if spot.type == kind])


def _draw_thing_name(draw: Draw, name: str, spot: Spot, used: Counter[str]) -> str:
    """A PDDL name of its own: the receptacle's position with a thing's own height."""
    _, x, _, z, *_ = spot.name.split("_bar_")
    height = (
        draw.draw_below(50) * 2 + used[name] % 2
    )  # a thing more of the type: another last digit
    used[name] += 1
    return f"{name}_bar_{x}_bar_{_spell_pddl(f'+{used[name]:02d}.{height:02d}')}_bar_{z}"
