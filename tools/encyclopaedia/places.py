"""Writes the articles on cities, airports, states, currencies and languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.encyclopaedia.sentences import Article, count_noun, degrees, join_names, sentence
from tools.encyclopaedia.tables import currency_name, distance
from tools.encyclopaedia.tables import key as letters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.encyclopaedia.sentences import Writer
    from tools.encyclopaedia.tables import Airport, Place
    from tools.encyclopaedia.world import World

_MANY = 12  # countries of a language, whose names fill the article


def places(world: World, writer: Writer) -> Iterator[Article]:
    """All articles of this module."""
    for place, other, away in _nearest(world):
        yield _place(world, writer, place, other, away)
        if place.airport:
            yield _airport(world, writer, place, place.airport, other)
    yield from _money(world, writer)
    yield from _languages(world, writer)
    yield from _states(world, writer)


def _nearest(world: World) -> Iterator[tuple[Place, Place, int]]:
    """Each city, the nearest other one, and the kilometres between them."""
    for place in world.places:
        away, at = min(
            (distance(place, other), number)
            for number, other in enumerate(world.places)
            if other is not place
        )
        yield place, world.places[at], max(10, round(away / 10) * 10)


def _place(world: World, writer: Writer, place: Place, other: Place, away: int) -> Article:
    one, name, country = writer.one, place.name, world.countries[place.country]
    where = world.country(place.country)
    if place.state:
        where = f"{world.states[place.state][0]}, a state of {where}"
    capital = letters(name) == letters(country.capital.split(",")[0]) and not place.state
    lines = [
        one(
            f"{name} is the capital of {where}.",
            f"The city of {name} is the capital of {where}.",
        )
        if capital
        else one(
            f"{name} is a city in {where}.",
            f"The city of {name} lies in {where}.",
            f"The city called {name} belongs to {where}.",
        )
    ]
    half = "northern" if place.latitude >= 0 else "southern"
    lines.append(
        one(
            f"Its position is about {degrees(place.latitude, place.longitude)}, in the {half} "
            "hemisphere.",
            f"It lies in the {half} hemisphere, at about "
            f"{degrees(place.latitude, place.longitude)}.",
            f"On the map it is found near {degrees(place.latitude, place.longitude)}.",
        )
    )
    lines.append(
        one(
            f"Clocks there follow the tz database zone {place.zone}.",
            f"The tz database zone for the city is {place.zone}.",
            f"For the time of day, the tz database refers to {place.zone}.",
        )
    )
    if place.airport:
        lines.append(_by_air(writer, place.airport))
    lines.append(_near(writer, world.city(other), away))
    return Article(place_key(place), "overview", place_title(world, place), " ".join(lines))


def _near(writer: Writer, near: str, away: int) -> str:
    return writer.one(
        f"The nearest other city described in this encyclopaedia is {near}, about {away:,} "
        "kilometres away as the crow flies.",
        f"In a straight line, it is about {away:,} kilometres from {near}, the nearest other place "
        "that has an article here.",
        f"{sentence(near)}, about {away:,} kilometres away, is the nearest of the other cities "
        "that are described here.",
    )


def _by_air(writer: Writer, airport: Airport) -> str:
    """What a city's article tells of its airport, which may be one of several."""
    if airport.alone:
        return writer.one(
            f"The airport listed for it is {airport.name}.",
            f"Travellers by air find it under {airport.name}.",
            f"{airport.name} is listed as its airport.",
        )
    return writer.one(
        f"One of the airports listed for it is {airport.name}.",
        f"{airport.name} is one of its airports.",
    )


def place_key(place: Place) -> str:
    """A city's entity."""
    return f"place:{place.country}:{place.state}:{place.name}:{place.latitude}:{place.longitude}"


def place_title(world: World, place: Place) -> str:
    """A city's title, with its country or state where the name alone would not tell which."""
    area = world.states[place.state][0] if place.state else world.countries[place.country].name
    return f"{place.name} ({area})" if place.shared else place.name


def _airport(world: World, writer: Writer, place: Place, airport: Airport, other: Place) -> Article:
    one, name, city = writer.one, airport.name, world.city(place)
    lines = [
        one(
            f"{name} is listed as an airport of the city of {city}.",
            f"The city of {city} has {name}.",
            f"{name} belongs to the city of {city} in the tables of airports.",
        ),
        one(
            f"Its IATA code, which stands on tickets and baggage tags, is {airport.iata}; the ICAO "
            f"code, used by pilots and controllers, is {airport.icao}.",
            f"Tickets and baggage tags show its IATA code {airport.iata}, flight plans its ICAO "
            f"code {airport.icao}.",
            f"The letters {airport.iata} are its code with IATA, and {airport.icao} is its code "
            "with ICAO.",
        ),
        one(
            f"It lies at about {degrees(airport.latitude, airport.longitude)}.",
            f"The field is found near {degrees(airport.latitude, airport.longitude)}.",
        ),
    ]
    if other.airport:
        lines.append(
            one(
                f"Of the other airports described here, {other.airport.name} serves the city that "
                "is nearest to it.",
                f"The nearest other city of this encyclopaedia is served by {other.airport.name}.",
            )
        )
    lines.append(
        one(
            "In which country it stands can be read in the article on the city.",
            "More on the surroundings is told in the article on the city.",
            "The article on the city tells what lies around.",
        )
    )
    return Article(f"airport:{airport.iata}", "overview", name, " ".join(lines))


def _money(world: World, writer: Writer) -> Iterator[Article]:
    one = writer.one
    for code, users in world.users.items():
        name = currency_name(code)
        where = [world.country(iso) for iso in users]
        lines = [
            one(
                f"The {name} is a currency with the ISO 4217 code {code}.",
                f"In the standard ISO 4217, the {name} has the code {code}.",
                f"{code} is the code of the {name} in the standard ISO 4217.",
            ),
            one(
                f"It is used in {join_names(where)}.",
                f"It circulates in {join_names(where)}.",
                f"One pays with it in {join_names(where)}.",
            ),
            one(
                "Banks and traders on foreign exchange markets write the code in place of the "
                "name, so that currencies with like names are not mixed up.",
                "The three letters stand in price lists, contracts and on exchange boards, where "
                "the name alone could mean several currencies.",
                "The code tells it from other currencies with a similar name on exchange boards, "
                "in contracts and in bank transfers.",
            ),
            one(
                f"This list names the {count_noun(len(where), 'place')} described in this "
                "encyclopaedia, according to GeoNames and CLDR.",
                "Only countries and territories on which two tables agree are named here, those "
                "of GeoNames and CLDR.",
            ),
        ]
        title = sentence(name)
        yield Article(f"currency:{code}", "overview", title, " ".join(lines))


def _languages(world: World, writer: Writer) -> Iterator[Article]:
    one = writer.one
    for code, language in world.languages.items():
        name, users = language.name, [world.country(iso) for iso in world.speakers[code]]
        lines = [
            one(
                f"{name} is a language with the two-letter code {code} in the standard ISO 639.",
                f"The language {name} has the two-letter code {code} in the standard ISO 639.",
            )
        ]
        if language.own_name:
            lines.append(
                one(
                    f"Its speakers write its name {language.own_name}.",
                    f"In the language itself, its name is {language.own_name}.",
                )
            )
        if language.script:
            lines.append(
                one(
                    f"As a rule it is written in the {language.script} script.",
                    f"The {language.script} script is the usual one for it.",
                )
            )
        lines += [
            one(
                f"It is the only official language of {join_names(users)}.",
                f"{sentence(join_names(users))} {'has' if len(users) == 1 else 'have'} it as the "
                "only official language.",
            ),
            one(
                "Where it is official beside other languages, or only in a region, is not told "
                "in this article.",
                "Countries in which it shares that position with other languages are not listed.",
            ),
        ]
        if len(users) <= _MANY:
            lines.append(
                one(
                    "Software uses the code to pick dictionaries and to label texts.",
                    "Libraries and software label texts with the code.",
                )
            )
        yield Article(f"language:{code}", "overview", f"{name} language", " ".join(lines))


def _states(world: World, writer: Writer) -> Iterator[Article]:
    one = writer.one
    countries = {country.name for country in world.countries.values()}
    for code, (name, fips) in world.states.items():
        places = [place for place in world.places if place.state == code]
        lines = [
            one(
                f"{name} is one of the 50 states of the United States.",
                f"The state of {name} is a member of the United States.",
                f"{name} is a state of the United States.",
            ),
            one(
                f"Its postal abbreviation is {code}.",
                f"In addresses it is shortened to {code}.",
                f"Letters to places there carry the abbreviation {code}.",
            ),
            one(
                f"The Census and other offices know it by the FIPS number {fips}.",
                f"In federal statistics its number, the FIPS code, is {fips}.",
            ),
        ]
        if places:
            names = join_names([place.name for place in places])
            verb = "has" if len(places) == 1 else "have"
            lines.append(f"Of its cities, {names} {verb} an article in this encyclopaedia.")
        lines.append(
            one(
                "Like every other state it has a constitution, a governor and a legislature of "
                "its own, and it sends two senators to Congress.",
                "It elects two senators to Congress and has, as every state, its own governor, "
                "courts and laws.",
            )
        )
        title = f"{name} (state)" if name in countries | {"New York", "Washington"} else name
        yield Article(f"state:{code}", "overview", title, " ".join(lines))
