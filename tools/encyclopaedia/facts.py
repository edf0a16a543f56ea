"""The facts that questions ask for: each with its answer and the passage in which it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tools.encyclopaedia import corrections as fix
from tools.encyclopaedia.chemistry import isotope_key, share
from tools.encyclopaedia.elements import daughter
from tools.encyclopaedia.places import place_key
from tools.encyclopaedia.tables import currency_name
from tools.encyclopaedia.world import (
    capital_spellings,
    celsius,
    country_spellings,
    half_life,
    number_spellings,
    spellings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.encyclopaedia.tables import Country, Place
    from tools.encyclopaedia.world import World


class Gold(NamedTuple):
    """The passage that tells a fact."""

    entity: str
    topic: str


@dataclass(frozen=True)
class Fact:
    """What one passage tells of a subject."""

    relation: str
    shown: str  # the subject inside a question
    answers: tuple[str, ...]
    gold: Gold
    leads: str = ""  # the entity that is the answer, where that is one
    value: float | None = None  # to compare it by
    names: tuple[str, ...] = ()  # of the subject, as the answer of a comparison


def all_facts(world: World) -> list[Fact]:
    """Every fact that may be asked for."""
    return [
        *(fact for country in world.countries.values() for fact in _country(world, country)),
        *(fact for country in world.countries.values() for fact in _list_codes(world, country)),
        *(fact for country in world.countries.values() for fact in _euro(world, country)),
        *_wealth(world),
        *(fact for place in world.places for fact in _place(world, place)),
        *_states(world),
        *_elements(world),
        *_isotopes(world),
    ]


def _country(world: World, country: Country) -> Iterator[Fact]:
    key, shown = f"country:{country.iso}", world.country(country.iso)
    own = country_spellings(country)
    overview, money, land, tongue = (
        Gold(key, topic) for topic in ("overview", "money", "geography", "language")
    )
    if country.capital:
        yield Fact("capital", shown, capital_spellings(country), overview)
        if not country.territory:
            yield Fact("capital of", country.capital, own, overview, key)
    if country.continent:
        yield Fact("continent", shown, (country.continent,), overview)
    if country.area > 1:
        area = f"{country.area:,} square kilometres"
        yield Fact("area", shown, number_spellings(area), land, value=country.area, names=own)
    if country.sole_neighbour:
        near = country.sole_neighbour
        answers = country_spellings(world.countries[near])
        yield Fact("neighbour", shown, answers, land, f"country:{near}")
    if country.currency:
        answers = _money(world, country.currency)
        yield Fact("currency", shown, answers, money, f"currency:{country.currency}")
    if country.language:
        name = world.languages[country.language].name
        answers = spellings(name, fix.LANGUAGE_ALIASES.get(name, ""))
        yield Fact("language", shown, answers, tongue, f"language:{country.language}")


def _list_codes(world: World, country: Country) -> Iterator[Fact]:
    key, shown = f"country:{country.iso}", world.country(country.iso)
    own, codes = country_spellings(country), Gold(f"country:{country.iso}", "codes")
    yield Fact("three letters", shown, (country.iso3,), codes)
    yield Fact("two letters", shown, (country.iso,), codes)
    yield Fact("of three letters", country.iso3, own, codes, key)
    if country.calling:
        spaced = country.calling
        bare = spaced.lstrip("+")
        answers = tuple(dict.fromkeys([spaced, bare, bare.replace(" ", "-"), f"00{bare}"]))
        yield Fact("calling code", shown, answers, codes)
        yield Fact("of calling code", spaced, own, codes, key)
    if country.domain:
        yield Fact("domain", shown, (country.domain, country.domain[1:]), codes)
        if country.domain[1:].upper() not in fix.COMMON_WORDS:
            yield Fact("of domain", country.domain, own, codes, key)


def _euro(world: World, country: Country) -> Iterator[Fact]:
    if country.before:
        shown, gold = world.country(country.iso), Gold(f"country:{country.iso}", "money")
        names, year = country_spellings(country), country.since
        yield Fact("euro year", shown, (str(year),), gold, value=year, names=names)
        short = country.before.rpartition(" ")[2]
        answers = spellings(country.before, f"{short}|{fix.BEFORE_ALIASES.get(country.before, '')}")
        yield Fact("before the euro", shown, answers, gold)


def _wealth(world: World) -> Iterator[Fact]:
    """Facts on currencies and languages."""
    for code, users in world.users.items():
        name, gold = currency_name(code), Gold(f"currency:{code}", "overview")
        answers = _money(world, code)
        yield Fact("currency code", f"the {name}", (code,), gold)
        yield Fact("of currency code", code, answers, gold, gold.entity)
        if len(users) == 1 and code not in fix.SHARED:
            own = country_spellings(world.countries[users[0]])
            yield Fact("user", f"the {name}", own, gold, f"country:{users[0]}")
    for code, language in world.languages.items():
        gold = Gold(f"language:{code}", "overview")
        yield Fact("language code", language.name, (code,), gold)
        if language.script not in {"", "Latin"}:  # which is what one would guess
            answers = spellings(language.script, fix.SCRIPT_ALIASES.get(code, ""))
            longer = tuple(f"{answer} script" for answer in answers)
            yield Fact("script", language.name, answers + longer, gold)


def _money(world: World, code: str) -> tuple[str, ...]:
    """What counts as a right answer for a currency; `baht` too, where no other has that name."""
    name, others = currency_name(code), fix.CURRENCY_ALIASES.get(code, "")
    short = name.rpartition(" ")[2]
    alike = [other for other in world.users if currency_name(other).rpartition(" ")[2] == short]
    return spellings(name, others if len(alike) > 1 else f"{short}|{others}")


def _place(world: World, place: Place) -> Iterator[Fact]:
    key, country = place_key(place), world.countries[place.country]
    gold, shown = Gold(key, "overview"), world.city(place)
    yield Fact("zone", shown, (place.zone,), gold)
    north, names = place.latitude, spellings(place.name, shown)
    yield Fact("latitude", shown, (_latitude(place),), gold, value=north, names=names)
    if not place.shared:
        own = country_spellings(country)
        yield Fact("country", shown, own, gold, f"country:{place.country}")
        if place.state:
            state = world.states[place.state][0]
            yield Fact("state", shown, (state,), gold, f"state:{place.state}")
    if place.airport:
        airport, at = place.airport, Gold(f"airport:{place.airport.iata}", "overview")
        names, own = spellings(place.name), spellings(airport.name, _shorten(airport.name))
        leads = "" if place.shared else key
        yield Fact("city", airport.name, names, at, leads)
        yield Fact("city", f"the airport with the IATA code {airport.iata}", names, at, leads)
        yield Fact("iata", airport.name, (airport.iata,), at)
        yield Fact("icao", airport.name, (airport.icao,), at)
        yield Fact("of iata", airport.iata, own, at)
        if airport.alone:
            yield Fact("airport", shown, own, gold, at.entity)


def _shorten(airport: str) -> str:
    return airport.replace(" International Airport", " Airport")


def _latitude(place: Place) -> str:
    return f"{abs(place.latitude):.1f} degrees {'north' if place.latitude >= 0 else 'south'}"


def _states(world: World) -> Iterator[Fact]:
    for code, (name, fips) in world.states.items():
        gold = Gold(f"state:{code}", "overview")
        yield Fact("postal", f"the state of {name}", (code,), gold)
        yield Fact("fips", f"the state of {name}", (fips,), gold)
        if code not in fix.COMMON_WORDS:
            yield Fact("of postal", code, (name,), gold, gold.entity)


def _elements(world: World) -> Iterator[Fact]:
    for number, element in world.elements.items():
        key, name = f"element:{number}", world.element(number)
        overview, bulk, found, mixture = (
            Gold(key, topic) for topic in ("overview", "bulk", "discovery", "isotopes")
        )
        own = spellings(name, fix.ELEMENT_ALIASES.get(element.symbol, "").lower())
        yield Fact("symbol", name, (element.symbol,), overview)
        if len(element.symbol) > 1 and element.symbol.upper() not in fix.COMMON_WORDS:
            yield Fact("of symbol", element.symbol, own, overview, key)
        yield Fact("number", name, (str(number),), overview)
        if number > 9:  # noqa: PLR2004 - search engines leave out single digits
            yield Fact("of number", str(number), own, overview, key)
        if element.melting:
            text = celsius(element.melting)
            yield Fact("melting", name, _celsius(text), bulk, value=element.melting, names=own)
        if element.boiling:
            text = celsius(element.boiling)
            yield Fact("boiling", name, _celsius(text), bulk, value=element.boiling, names=own)
        if element.symbol in world.discoveries:
            year, people = world.discoveries[element.symbol]
            yield Fact("year", name, (str(year),), found, value=year, names=own)
            if len(people) == 1:
                yield Fact(
                    "discoverer", name, _person(world, people[0]), found, f"person:{people[0]}"
                )
        natural = world.isotopes_of(number)
        if len(natural) > 1:
            top = natural[0]
            answers = (world.isotope(top.number, top.mass), f"{element.symbol}-{top.mass}")
            leads = isotope_key(top.number, top.mass)
            yield Fact("most abundant", name, answers, mixture, leads)
    for name, person in world.people.items():
        gold = Gold(f"person:{name}", "overview")
        own = _person(world, name)
        yield Fact("born", name, (str(person.born),), gold, value=person.born, names=own)
        yield Fact("died", name, (str(person.died),), gold)


def _person(world: World, name: str) -> tuple[str, ...]:
    """What counts as a right answer for a person; the last name where nobody else has it."""
    first, *_, last = name.split(" ")
    alike = [other for other in world.people if other.endswith(f" {last}")]
    others = [f"{first} {last}", *([last] if len(alike) == 1 else [])]
    return spellings(name, "|".join([*others, fix.PERSON_ALIASES.get(name, "")]))


def _celsius(text: str) -> tuple[str, ...]:
    value = text.removesuffix(" degrees Celsius").replace("minus ", "-")
    return tuple(dict.fromkeys([text, f"{value} °C", value, value.replace(",", "")]))


def _isotopes(world: World) -> Iterator[Fact]:
    for (number, mass), isotope in world.isotopes.items():
        name, gold = world.isotope(number, mass), Gold(isotope_key(number, mass), "overview")
        own = (name, f"{world.elements[number].symbol}-{mass}")
        yield Fact("isotope year", name, (str(isotope.year),), gold, value=isotope.year, names=own)
        if isotope.abundance and isotope.abundance < 100:  # noqa: PLR2004
            text = share(isotope)
            bare = text.removesuffix(" percent")
            yield Fact("share", name, (text, f"{bare}%", bare, f"{bare} per cent"), gold)
        if isotope.years:
            text = half_life(isotope.years)
            plain = tuple(dict.fromkeys([text, text.replace(",", "")]))
            yield Fact("half-life", name, plain, gold, value=isotope.years, names=own)
        heir = daughter(isotope)
        if heir:
            symbol = world.elements[heir[0]].symbol
            element = spellings(world.element(heir[0]), fix.ELEMENT_ALIASES.get(symbol, "").lower())
            yield Fact("decays into", name, element, gold, f"element:{heir[0]}")
            if heir in world.isotopes:
                names = (world.isotope(*heir), f"{symbol}-{heir[1]}")
                yield Fact("daughter", name, names, gold, isotope_key(*heir))
