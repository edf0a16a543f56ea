"""Reads elements and isotopes from mendeleev's tables, and who discovered them from ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from tools.encyclopaedia.corrections import ISOTOPE_YEARS
from tools.encyclopaedia.discoveries import DISCOVERIES, PEOPLE
from tools.encyclopaedia.tables import source

_WEIGHED = 98  # no more than a few atoms were ever made of the elements beyond
_HALF_LIVES = {"year": 1.0, "kyear": 1e3, "Myear": 1e6, "Gyear": 1e9, "day": 1 / 365.25}
_LONG = 20 / 365.25  # years
_SURE = 99.0  # percent
_DECAYS = {"B-": "beta minus decay", "A": "alpha decay"}
_CAPTURES = {"EC": "electron capture", "B+": "electron capture or positron emission"}
_CHANGES = {  # of atomic number and mass number
    "beta minus decay": (1, 0),
    "alpha decay": (-2, -4),
    "electron capture": (-1, 0),
    "electron capture or positron emission": (-1, 0),
}


@dataclass(frozen=True)
class Element:
    """A chemical element."""

    number: int
    symbol: str
    name: str
    group: int | None
    period: int
    block: str
    series: str
    configuration: str
    melting: float | None  # kelvin
    boiling: float | None
    density: float | None  # g/cm3
    electronegativity: float | None


@dataclass(frozen=True)
class Isotope:
    """A nuclide, natural or long-lived."""

    number: int
    mass: int
    abundance: float | None  # percent
    year: int
    years: float | None  # half-life
    decay: str  # empty where several ways compete


def _mendeleev(query: str) -> list[sqlite3.Row]:
    path = source("mendeleev", "elements.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        return database.execute(query).fetchall()


def read_elements() -> list[Element]:
    """The elements in the order of their numbers; made ones have no bulk properties."""
    phases = {
        row["atomic_number"]: row
        for row in _mendeleev("select * from phasetransitions order by id desc")
        if not (row["is_sublimation_point"] or row["is_transition"])  # from one solid to another
    }
    found = []
    query = "select e.*, s.name as series from elements e join series s on s.id = e.series_id"
    for row in _mendeleev(f"{query} order by atomic_number"):
        number = row["atomic_number"]
        bulk = number <= 98 and number not in {85, 87}  # noqa: PLR2004 - none was ever weighed
        phase = phases.get(number) if bulk else None
        found.append(
            Element(
                number,
                row["symbol"],
                row["name"],
                row["group_id"],
                row["period"],
                row["block"],
                row["series"],
                row["electronic_configuration"],
                phase["melting_point"] if phase else None,
                phase["boiling_point"] if phase else None,
                row["density"] if bulk else None,
                row["en_pauling"],
            )
        )
    return found


def read_isotopes() -> list[Isotope]:
    """Isotopes found in nature, and those of known elements that live for weeks or longer."""
    modes: dict[int, list[sqlite3.Row]] = {}
    for row in _mendeleev("select * from isotopedecaymodes order by id"):
        modes.setdefault(row["isotope_id"], []).append(row)
    found = []
    query = "select * from isotopes where discovery_year > 0 order by atomic_number, mass_number"
    for row in _mendeleev(query):
        unit, number = row["half_life_unit"], row["atomic_number"]
        years = (row["half_life"] or 0.0) * _HALF_LIVES.get(unit, 0.0)
        if not 1 <= number <= _WEIGHED or not (row["abundance"] or years > _LONG):
            continue
        found.append(
            Isotope(
                number,
                row["mass_number"],
                row["abundance"] or None,
                ISOTOPE_YEARS.get((number, row["mass_number"]), row["discovery_year"]),
                years or None,
                _decay(modes.get(row["id"], [])) if years else "",
            )
        )
    return found


def _decay(modes: list[sqlite3.Row]) -> str:
    """The way in which nearly all nuclei decay, or nothing where there is no such way."""
    for row in modes:
        if row["relation"] == "=" and (row["intensity"] or 0) >= _SURE:
            return {**_DECAYS, **_CAPTURES}.get(row["mode"], "")
    return ""


def daughter(isotope: Isotope) -> tuple[int, int] | None:
    """Atomic and mass number of what the isotope decays to."""
    if not isotope.decay:
        return None
    protons, nucleons = _CHANGES[isotope.decay]
    return isotope.number + protons, isotope.mass + nucleons


@dataclass(frozen=True)
class Person:
    """Someone who discovered an element."""

    name: str
    nationality: str
    born: int
    died: int


def read_people() -> dict[str, Person]:
    """The discoverers by name."""
    rows = (line.split("|") for line in PEOPLE.strip().splitlines())
    return {row[0]: Person(row[0], row[1], int(row[2]), int(row[3])) for row in rows}


def read_discoveries() -> dict[str, tuple[int, tuple[str, ...]]]:
    """Year and discoverers by symbol of the element."""
    rows = (line.split("|") for line in DISCOVERIES.strip().splitlines())
    return {symbol: (int(year), tuple(who.split(", "))) for symbol, year, who in rows}
