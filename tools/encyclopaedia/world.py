"""World: everything that the encyclopaedia tells of, read from the tables, with names for it.

An entity is a key such as `country:TD`, `place:NG:Kano`, `element:6` or `isotope:6:14`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tools.encyclopaedia import corrections as fix
from tools.encyclopaedia import elements, tables
from tools.encyclopaedia.tables import plain

if TYPE_CHECKING:
    from tools.encyclopaedia.elements import Element, Isotope, Person
    from tools.encyclopaedia.tables import Country, Language, Place


@dataclass(frozen=True)
class World:
    """Countries, cities, airports, money, languages, elements, isotopes and their discoverers."""

    countries: dict[str, Country]
    states: dict[str, tuple[str, str]]
    places: list[Place]
    languages: dict[str, Language]
    elements: dict[int, Element]
    isotopes: dict[tuple[int, int], Isotope]
    people: dict[str, Person]
    discoveries: dict[str, tuple[int, tuple[str, ...]]]

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """The countries of each currency."""
        found: dict[str, list[str]] = {}
        for country in self.countries.values():
            if country.currency:
                found.setdefault(country.currency, []).append(country.iso)
        return dict(sorted(found.items()))

    @cached_property
    def speakers(self) -> dict[str, list[str]]:
        """The countries that have a language as their only official one."""
        found: dict[str, list[str]] = {}
        for country in self.countries.values():
            if country.language:
                found.setdefault(country.language, []).append(country.iso)
        return dict(sorted(found.items()))

    @cached_property
    def cities(self) -> dict[str, list[Place]]:
        """The cities of each country, the most populous first."""
        found: dict[str, list[Place]] = {}
        for place in self.places:
            found.setdefault(place.country, []).append(place)
        return found

    @cached_property
    def found_by(self) -> dict[str, list[str]]:
        """Symbols of the elements that each person discovered, alone or with others."""
        found: dict[str, list[str]] = {name: [] for name in self.people}
        for symbol, (_, people) in self.discoveries.items():
            for name in people:
                found[name].append(symbol)
        return found

    @cached_property
    def by_symbol(self) -> dict[str, Element]:
        """The elements by symbol."""
        return {element.symbol: element for element in self.elements.values()}

    def country(self, iso: str) -> str:
        """A country's name as it stands inside a sentence."""
        country = self.countries[iso]
        return f"the {country.name}" if country.article else country.name

    def city(self, place: Place) -> str:
        """A city's name, with its country or state where there are others of that name."""
        area = self.states[place.state][0] if place.state else self.country(place.country)
        return f"{place.name} in {area}" if place.shared else place.name

    def element(self, number: int) -> str:
        """An element's name inside a sentence."""
        return self.elements[number].name.lower()

    def isotope(self, number: int, mass: int) -> str:
        """An isotope's name inside a sentence, such as `carbon-14`."""
        return f"{self.element(number)}-{mass}"

    def isotopes_of(self, number: int) -> list[Isotope]:
        """The natural isotopes of an element, the most abundant first."""
        natural = [i for i in self.isotopes.values() if i.number == number and i.abundance]
        return sorted(natural, key=lambda isotope: -(isotope.abundance or 0))


def read_world() -> World:
    """The world in the tables of the installed source packages.

    Raises:
        MissingAsset: a source package is not installed.
    """
    tables.versions()
    countries = tables.read_countries()
    places = tables.read_places(countries)
    for place in places:
        country = countries[place.country]
        if plain(place.name) == country.capital:  # a fuller spelling of it
            country = replace(country, capital=place.name)
        if place.zone != country.zone:  # the tables disagree
            country = replace(country, zone="")
        countries[country.iso] = country
    spoken = {country.language for country in countries.values() if country.language}
    return World(
        countries=countries,
        states=tables.read_states(),
        places=places,
        languages=tables.read_languages(spoken),
        elements={element.number: element for element in elements.read_elements()},
        isotopes={(i.number, i.mass): i for i in elements.read_isotopes()},
        people=elements.read_people(),
        discoveries=elements.read_discoveries(),
    )


def spellings(name: str, others: str = "") -> tuple[str, ...]:
    """A name, its other names (separated by `|`), and both without diacritics; each once."""
    names = [name, *(other for other in others.split("|") if other)]
    return tuple(dict.fromkeys([*names, *map(plain, names)]))


def number_spellings(text: str) -> tuple[str, ...]:
    """A number with its unit, also without commas and without the unit."""
    bare = text.replace(",", "")
    return tuple(dict.fromkeys([text, bare, bare.split(" ")[0]]))


def country_spellings(country: Country) -> tuple[str, ...]:
    """What counts as a right answer for a country."""
    return spellings(country.name, fix.ALIASES.get(country.iso, ""))


def capital_spellings(country: Country) -> tuple[str, ...]:
    """What counts as a right answer for its capital."""
    return spellings(country.capital, fix.CAPITAL_ALIASES.get(country.iso, ""))


def celsius(kelvin: float) -> str:
    """A temperature such as `1,085 degrees Celsius`."""
    value = kelvin - 273.15
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"  # noqa: PLR2004
    return f"{number.replace('-', 'minus ')} degrees Celsius"


def half_life(years: float) -> str:
    """A half-life such as `5,700 years` or `8.02 days`, to three digits."""
    for unit, size in (("billion years", 1e9), ("million years", 1e6), ("years", 1.0)):
        if years >= size:
            return f"{_digits(years / size)} {unit}"
    return f"{_digits(years * 365.25)} days"


def _digits(value: float) -> str:
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.10g}"
