"""The household: the types of things, their properties, and where people keep them.

Type names are ALFRED's. The weights are our own estimates: of ten such things in a home, how many
are in that place. The Explorer's search and the generator of the embedded games use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent_envs.assets import table

if TYPE_CHECKING:
    from collections.abc import Mapping

OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave", "Safe"})
"""Receptacle types that have a door; all doors are closed at the start of a game."""

TOOLS = MappingProxyType({"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"})
"""The receptacle type that gives a property."""

CHANCE = 0.05
"""Weight of a receptacle type that the table does not list for a thing."""


@dataclass(frozen=True, slots=True)
class ThingType:
    """A type of thing: its properties, and its weight for each receptacle type."""

    name: str
    abilities: frozenset[str]
    places: Mapping[str, float]


@cache
def things() -> Mapping[str, ThingType]:
    """All types of things by name, in alphabetical order, from `things.toml`."""
    return MappingProxyType(
        {
            name: ThingType(
                name,
                frozenset(entry.get("abilities", ())),
                MappingProxyType({place: float(n) for place, n in entry["places"].items()}),
            )
            for name, entry in table("alfworld/things.toml").items()
        }
    )


@cache
def habits() -> Mapping[str, Mapping[str, float]]:
    """ThingType type -> receptacle type -> weight, lower-cased as in the game's text."""
    return MappingProxyType(
        {
            name.lower(): {place.lower(): weight for place, weight in thing.places.items()}
            for name, thing in things().items()
        }
    )
