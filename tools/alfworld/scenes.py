"""The kinds of rooms: which receptacles they have and which things are found there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
