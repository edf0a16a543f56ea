"""The household as data: which things exist, what can be done to them, where people keep them.

Type names are ALFRED's, so that generated games read like the public ones. The weights are our own
common sense (roughly: of ten such things in a home, how many lie there). The generator places
things by them and the Explorer searches by them. What one room looks like is drawn in `generate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
"""Receptacle types that have a door; every one stands closed when a game starts."""

TOOLS = MappingProxyType({"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"})
"""The receptacle type that gives a property."""

CHANCE = 0.05
"""Weight of a receptacle type that the table does not name for a thing."""

# Type: what can be done to it | where it is kept, with weights. A place that is named can also take
# the thing. The household's tools clean, heat, cool and slice; lamps are lights; fixed things stay.
_THINGS = """
AlarmClock: | Desk 4, SideTable 3, Shelf 3, Dresser 2, DiningTable 1, CounterTop .2
Apple: clean heat cool slice | CounterTop 4, Fridge 4, DiningTable 2, Microwave 2, GarbageCan 2, \
SinkBasin 1.5, SideTable .5
BaseballBat: | Bed 2, SideTable 1, DiningTable 1
BasketBall: | Bed 2, Desk 1, Dresser 1, SideTable 1, DiningTable .5
Book: | Bed 5, Desk 3, Drawer 2, CounterTop 2, Dresser 1, DiningTable 1, SideTable 1, \
Cabinet .7, CoffeeTable 1, Sofa .8, Shelf .8, ArmChair .5, Ottoman .3
Bowl: clean cool | Cabinet 4, CounterTop 3, Fridge 3, DiningTable 2, Desk 2, Shelf 1.5, \
SinkBasin 1, Microwave .6, Dresser .5, CoffeeTable .5, SideTable .3
Box: | DiningTable 2, Sofa 3, CoffeeTable 3, Shelf 1, SideTable 1, Desk 1, Cabinet .6, \
Dresser .6, ArmChair .6, Ottoman .3
Bread: heat cool slice | CounterTop 6, DiningTable 4, Fridge 2, SideTable .5, GarbageCan .3, \
Microwave .2
ButterKnife: clean | CounterTop 5, DiningTable 3, Drawer 2, SinkBasin 1, SideTable .5
CD: | Drawer 3, Desk 3, Dresser 2, SideTable 2, GarbageCan 1, Shelf 1, DiningTable 1, \
Cabinet .3, Safe .3, CounterTop .2
Candle: | CounterTop 3, Toilet 3, Drawer 1.5, Cabinet 1.5, Shelf 1, SideTable 1, CoffeeTable .5, \
DiningTable .3, Cart .5, Dresser .3
CellPhone: | Bed 3, Drawer 2.5, Desk 2, Dresser 1, SideTable 1.5, CounterTop 1, DiningTable 1, \
Shelf .8, ArmChair .5, Sofa .5, CoffeeTable .5, Safe .3, Ottoman .2
Cloth: clean | BathtubBasin 4, Cabinet 2, CounterTop 2, Drawer 2, Shelf .8, SinkBasin 1, \
Toilet .6, Cart .5, Dresser .3, GarbageCan .2, LaundryHamper .3, SideTable .2, ArmChair .1, \
Desk .1, DiningTable .1
CreditCard: | Drawer 2.5, Shelf 1.5, SideTable 1.5, Desk 1.2, Dresser 1.2, Sofa 1, ArmChair 1, \
CounterTop 1, CoffeeTable 1, DiningTable .6, Safe .3, Ottoman .2
Cup: clean heat cool | Cabinet 3, CounterTop 3, Fridge 3, DiningTable 2, SinkBasin 2, \
Microwave 1.2, SideTable .5, Shelf .5
DeskLamp: light | SideTable 4, Desk 3.5, Dresser 2, Shelf 1, CoffeeTable .3
DishSponge: clean | CounterTop 3, Cabinet 2.5, Drawer 2.5, DiningTable 1.2, SinkBasin 1.2, \
GarbageCan .7, Shelf .5, BathtubBasin .5, Toilet .4, Cart .4, SideTable .2
Egg: clean heat cool slice | Fridge 4, CounterTop 4, SinkBasin 2, GarbageCan 2, DiningTable 2, \
Microwave 2, SideTable .5
FloorLamp: light | SideTable 1, DiningTable .5
Fork: clean | CounterTop 4, DiningTable 3, Drawer 3, SinkBasin 1.2, SideTable .5
Glassbottle: | Cabinet 3, CounterTop 3, DiningTable 1.5, SinkBasin 1.2, Fridge 1.2, \
GarbageCan 1, Shelf .5, Microwave .2
HandTowel: | HandTowelHolder 9, CounterTop .6, Cabinet .1, Cart .1, Drawer .1, GarbageCan .1, \
Shelf .1, SideTable .1, SinkBasin .1, Toilet .1, BathtubBasin .1
HousePlant: fixed | CounterTop 4, SideTable 2, DiningTable 1, Shelf 1, CoffeeTable 1, Desk .5
Kettle: clean | StoveBurner 4, CounterTop 3, Cabinet 3, DiningTable 1, SinkBasin .4, Shelf .3, \
SideTable .2
KeyChain: | Drawer 2.5, SideTable 2, Shelf 1.3, Desk 1.3, Dresser 1.3, CoffeeTable 1, \
DiningTable .7, ArmChair .7, Sofa .7, Safe .5, CounterTop .4, Ottoman .3
Knife: clean | CounterTop 4, DiningTable 3, Drawer 3, SinkBasin 1, SideTable .5
Ladle: clean | CounterTop 4, Cabinet 2.5, Drawer 2, DiningTable 2, SinkBasin .5
Laptop: | Bed 5, Desk 2, Sofa 1.5, DiningTable 1.2, CoffeeTable 1.2, Dresser .7, ArmChair .4, \
SideTable .4, CounterTop .2, Ottoman .3
Lettuce: clean cool slice | CounterTop 5, DiningTable 4, Fridge 3, SinkBasin 1, SideTable .5, \
GarbageCan .3
Mug: clean heat cool | CounterTop 3, CoffeeMachine 3, Cabinet 2, Fridge 2, DiningTable 1.2, \
Microwave 1, Desk 2, SinkBasin 1, Shelf 1, SideTable 1, Dresser .5
Newspaper: | Sofa 2.5, CoffeeTable 2.5, DiningTable 2, SideTable 2, Shelf 1.2, Dresser 1, \
ArmChair 1, Drawer .4, GarbageCan .3, Ottoman .4, Cabinet .2
Pan: clean cool | StoveBurner 5, CounterTop 3, Cabinet 1, DiningTable 1, Fridge .8, \
SinkBasin .3, SideTable .2
PaperTowelRoll: | CounterTop 5, GarbageCan 2, DiningTable 2, Shelf 1, Toilet .5, SideTable .3, \
Cart .3
Pen: | Desk 3, Drawer 2, Dresser 2, SideTable 2, Shelf 1.5, DiningTable 1.2, CounterTop 1, \
CoffeeTable .4, GarbageCan .4
Pencil: | Desk 2.5, Drawer 2.5, SideTable 2, Shelf 1.5, Dresser 1.3, DiningTable 1, \
GarbageCan .8, CounterTop .6, CoffeeTable .4
PepperShaker: | Cabinet 3, CounterTop 3, DiningTable 2, Drawer 2, Shelf .6, SideTable .4
Pillow: | Bed 7, Sofa 3, ArmChair 1, Ottoman .2
Plate: clean heat cool | Cabinet 4, CounterTop 3, DiningTable 2.5, Fridge 1.2, Shelf 1, \
SinkBasin .5, CoffeeTable .4, SideTable .4, Microwave .2, Dresser .3
Plunger: | Cabinet .5, Cart .5
Pot: clean cool | StoveBurner 7, CounterTop 2, Fridge .8, DiningTable .8, Cabinet .6, Shelf .3, \
SinkBasin .3, SideTable .2
Potato: clean heat cool slice | CounterTop 4, Fridge 4, DiningTable 2, SinkBasin 1.5, \
Microwave 1.5, GarbageCan 1, SideTable .5
RemoteControl: | CoffeeTable 3, Sofa 2.5, SideTable 2, DiningTable 1.2, Drawer 1.2, \
ArmChair 1.2, Dresser 1.2, TVStand 1, Desk .6, Shelf .5, Ottoman .4, CounterTop .2
SaltShaker: | CounterTop 3, Cabinet 3, DiningTable 2, Drawer 2, Shelf .6, SideTable .4
SoapBar: clean | CounterTop 2.5, Toilet 2, SinkBasin 2, BathtubBasin 2, Cabinet 1.5, Drawer 1.5, \
GarbageCan .8, Shelf .5, SideTable .3, Cart .3
SoapBottle: | CounterTop 4, Cabinet 3, DiningTable 1.5, GarbageCan 1, Toilet 2, Shelf .6, \
Drawer .5, SideTable .3, Cart .3
Spatula: clean | CounterTop 4, DiningTable 3, Drawer 3, SinkBasin 1.2, SideTable .4
Spoon: clean | CounterTop 4, Drawer 3, DiningTable 2.5, SinkBasin 1.4, SideTable .5
SprayBottle: | CounterTop 3, Toilet 3, Cabinet 2, GarbageCan 1, Shelf .8, Cart .4, \
DiningTable .3, SideTable .3, Drawer .3, Dresser .3
Statue: | Shelf 3, CoffeeTable 2.5, CounterTop 1.5, DiningTable 1.5, SideTable 2, Dresser 1.2, \
TVStand .7, Desk .5, Safe .1
TeddyBear: | Bed 9, Sofa .5, ArmChair .5
Television: fixed | TVStand 4, Dresser 4, CoffeeTable 1
TennisRacket: | Bed 2, Desk 1, Dresser 1, DiningTable 1, SideTable 1
TissueBox: | Shelf 2, CoffeeTable 2, Drawer 1.5, CounterTop 1.5, DiningTable 1.2, SideTable 1.5, \
Desk 1, TVStand .4, Cabinet .4, Dresser .4, Toilet .5, Cart .3, GarbageCan .3
ToiletPaper: | Toilet 3, CounterTop 2.5, ToiletPaperHanger 1.5, Cabinet 1.5, Drawer 1.5, \
GarbageCan 1, Shelf .7, Dresser .3, Cart .3, SideTable .2
Tomato: clean heat cool slice | Fridge 4, CounterTop 4, DiningTable 2.5, GarbageCan 1, \
SinkBasin 1, Microwave .6, SideTable .5
Towel: | TowelHolder 9, CounterTop .2
Vase: | Shelf 4, CounterTop 2, Cabinet 1.5, CoffeeTable 1.2, DiningTable 1, Dresser 1, \
SideTable 1, TVStand .4, Desk .3, Safe .1
Watch: | Drawer 2.5, CoffeeTable 2.5, SideTable 2, DiningTable 1.5, Dresser 1.2, TVStand 1, \
Shelf 1, Desk .5
WateringCan: | CoffeeTable 4, Shelf 3, SideTable 1, Cabinet .3, Desk .3, DiningTable .3, \
Drawer .2, Dresser .3
WineBottle: cool | CounterTop 4, Cabinet 3, DiningTable 3, GarbageCan 1, Shelf .4, Fridge .6, \
SideTable .2
"""


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


@dataclass(frozen=True, slots=True)
class Thing:
    """A type of thing: what can be done to it and how likely each receptacle type keeps it."""

    name: str
    abilities: frozenset[str]
    places: Mapping[str, float]


@cache
def things() -> Mapping[str, Thing]:
    """All types of things by name, in alphabetical order."""
    return MappingProxyType(
        {thing.name: thing for thing in map(_thing, _THINGS.strip().split("\n"))}
    )


def _thing(line: str) -> Thing:
    name, _, rest = line.partition(":")
    abilities, _, places = rest.partition("|")
    pairs = (place.split() for place in places.split(","))
    weights = {receptacle: float(weight) for receptacle, weight in pairs}
    return Thing(name, frozenset(abilities.split()), MappingProxyType(weights))


@cache
def habits() -> Mapping[str, Mapping[str, float]]:
    """Thing type -> receptacle type -> weight, lower-cased as in the game's text."""
    return MappingProxyType(
        {
            name.lower(): {place.lower(): weight for place, weight in thing.places.items()}
            for name, thing in things().items()
        }
    )


@dataclass(frozen=True, slots=True)
class Scene:
    """A kind of room: what it always has, what larger ones add (type, weight), what lies about."""

    kind: str
    always: tuple[str, ...]
    extras: tuple[tuple[str, float], ...]
    things: tuple[str, ...]


@cache
def scenes() -> Mapping[str, Scene]:
    """All kinds of rooms by name."""
    return MappingProxyType(
        {scene.kind: scene for scene in map(_scene, _SCENES.strip().split("\n"))}
    )


def _scene(line: str) -> Scene:
    kind, _, rest = line.partition(":")
    always, extras, found = rest.split("|")
    each = (extra.split() for extra in extras.split(","))
    many = [(name, float(weight)) for name, most, weight in each for _ in range(int(most))]
    return Scene(kind, tuple(always.split()), tuple(many), tuple(found.split()))
