"""Writes the articles on countries: overview, geography, money, language and codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.encyclopaedia.corrections import SHARED
from tools.encyclopaedia.sentences import Article, count_noun, join_names, sentence
from tools.encyclopaedia.tables import currency_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.encyclopaedia.sentences import Writer
    from tools.encyclopaedia.tables import Country
    from tools.encyclopaedia.world import World

_SHOWN = 5  # names in a list of examples
_MORE = {
    "overview": (
        "Names of places are spelled here as GeoNames spells them.",
        "What changes from year to year, such as the number of people, is left out on purpose.",
        "So are heads of state and governments.",
    ),
    "geography": (
        "The figures come from the table of countries that GeoNames keeps.",
        "Climate, rivers and the number of people are left out on purpose.",
    ),
    "money": ("Rates of exchange change every day and are left out on purpose.",),
    "language": (
        "The statement follows CLDR, the tables of the Unicode Consortium.",
        "Numbers of speakers are left out on purpose.",
    ),
    "codes": (
        "The first two are letters, so that people can read them; the last is for machines.",
    ),
}
"""What short articles also contain, by topic."""


def countries(world: World, writer: Writer) -> Iterator[Article]:
    """All articles of this module."""
    for country in world.countries.values():
        yield from _country(world, writer, country)


def _country(world: World, writer: Writer, country: Country) -> Iterator[Article]:
    key, name = f"country:{country.iso}", world.country(country.iso)
    for topic, heading, lines in (
        ("overview", country.name, _overview(world, writer, country, name)),
        ("geography", f"Geography of {name}", _land(world, writer, country, name)),
        ("money", f"Money in {name}", _currency(world, writer, country, name)),
        ("language", f"Language in {name}", _language(world, writer, country, name)),
        ("codes", f"Codes for {name}", _codes(writer, country, name)),
    ):
        if lines:
            yield Article(key, topic, heading, writer.fill_passage(lines, *_MORE[topic]))


def _codes(writer: Writer, country: Country, name: str) -> list[str]:
    one = writer.one
    lines = [
        one(
            f"In the standard ISO 3166, {name} has the two-letter code {country.iso} and the "
            f"three-letter code {country.iso3}; its number there is {country.number}.",
            f"{sentence(name)} is abbreviated {country.iso} in two letters and {country.iso3} in "
            f"three letters by the standard ISO 3166, which also gives it the number "
            f"{country.number}.",
            f"The ISO 3166 codes for {name} are {country.iso} (two letters), {country.iso3} (three "
            f"letters) and {country.number} (digits).",
        )
    ]
    if country.calling:
        lines.append(
            one(
                f"Telephone numbers there are dialled from abroad with the calling code "
                f"{country.calling}.",
                f"Its international calling code is {country.calling}.",
                f"Callers from elsewhere start with {country.calling}.",
            )
        )
    if country.domain:
        lines.append(
            one(
                f"The top-level domain on the Internet is {country.domain}.",
                f"Web sites from there may end in {country.domain}, its top-level domain.",
                f"On the Internet, {country.domain} is its own top-level domain.",
            )
        )
    lines.append(
        one(
            "Such codes appear in postal addresses, banking, customs papers and data bases.",
            "Statistics offices, carriers and post services use these codes in place of the name.",
        )
    )
    return lines


def _noun(country: Country) -> str:
    return "territory" if country.territory else "country"


def _overview(world: World, writer: Writer, country: Country, name: str) -> list[str]:
    one, noun = writer.one, _noun(country)
    where = f" in {country.continent}" if country.continent else ""
    plural = "territories" if country.territory else "countries"
    lines = [f"{sentence(name)} is a {noun}{where}."]
    if where:
        lines = [one(*lines, f"{sentence(name)} is one of the {plural}{where}.")]
    if country.capital:
        last = country.capital.removesuffix(".")  # before a full stop
        lines.append(
            one(
                f"Its capital is {last}.",
                f"{country.capital} is the capital.",
                f"Its capital city is {last}.",
            )
        )
    if country.zone:
        lines.append(
            one(
                f"A single entry of the tz database covers it, {country.zone}.",
                f"All its clocks follow one entry of the tz database, namely {country.zone}.",
            )
        )
    if country.neighbours:
        around = count_noun(len(country.neighbours), "neighbour")
        lines.append(one("It has land borders with", "By land it touches") + f" {around}.")
    cities = [place.name for place in world.cities.get(country.iso, [])][:_SHOWN]
    if cities:
        lines.append(
            one(
                f"This encyclopaedia has {'articles' if cities[1:] else 'an article'} on "
                f"{join_names(cities)}.",
                f"Places described here include {join_names(cities)}.",
                f"Articles on places there: {join_names(cities)}.",
            )
        )
    lines.append(
        one(
            f"Further articles deal with its land and with the codes that stand for {name}.",
            "Its geography and its international codes have articles of their own.",
            f"How large it is, what lies around and how {name} is abbreviated is told elsewhere "
            "in this encyclopaedia.",
        )
    )
    return lines


def _land(world: World, writer: Writer, country: Country, name: str) -> list[str]:
    one = writer.one
    lines = _size(world, writer, country, name) if country.area > 1 else []
    if country.neighbours:
        around = join_names(country.neighbours)
        lines.append(
            one(
                f"It borders {around}.",
                f"Its neighbours by land: {around}.",
                f"{sentence(name)} has land borders with {around}.",
            )
        )
    lines += _ends(world, writer, country)
    if country.zone:
        lines.append(f"The tz database lists the area as {country.zone}.")
    lines.append(
        one(
            "Lengths of coasts and heights of mountains are not given in this article, which "
            "keeps to area and borders.",
            "Figures for area differ a little between sources, which count lakes and islands in "
            "different ways.",
            "Disputed stretches of land and inland waters can make other figures for the area "
            "differ from this one.",
        )
    )
    return lines


def _size(world: World, writer: Writer, country: Country, name: str) -> list[str]:
    lines = [
        writer.one(
            f"{sentence(name)} covers about {country.area:,} square kilometres.",
            f"The area of {name} is about {country.area:,} square kilometres.",
            f"GeoNames gives {name} an area of about {country.area:,} square kilometres.",
        )
    ]
    ranks = sorted(world.countries.values(), key=lambda other: (other.area, other.iso))
    at = ranks.index(country)
    below, above = ranks[max(0, at - 1)], ranks[min(len(ranks) - 1, at + 1)]
    if below.area < country.area < above.area and below.area > 1:
        small, large = world.country(below.iso), world.country(above.iso)
        lines.append(
            writer.one(
                f"In the list of GeoNames by area it stands between {small} and {large}.",
                f"By the figures of GeoNames, that is more than {small} has and less than {large}.",
                f"Sorted by area in the table of GeoNames, {small} comes before it and {large} "
                "after it.",
            )
        )
    return lines


def _ends(world: World, writer: Writer, country: Country) -> list[str]:
    """Which of a country's cities lie farthest north and south, where that is clear."""
    cities = sorted(world.cities.get(country.iso, []), key=lambda place: place.latitude)
    norths = [place.latitude for place in cities]
    if len(cities) < 2 or norths[0] == norths[1] or norths[-2] == norths[-1]:  # noqa: PLR2004
        return []
    south, north = cities[0].name, cities[-1].name
    return [
        writer.one(
            f"Among the places described here, {north} is the northernmost and {south} the "
            "southernmost.",
            f"Of the places with an article, {north} lies farthest north and {south} farthest "
            "south.",
        )
    ]


def _currency(world: World, writer: Writer, country: Country, name: str) -> list[str]:
    if not country.currency:
        return []
    one, money = writer.one, currency_name(country.currency)
    lines = [
        one(
            f"The currency of {name} is the {money}.",
            f"People in {name} pay with the {money}.",
            f"In {name}, the {money} is legal tender.",
            f"{sentence(name)} uses the {money} as its currency.",
        )
    ]
    if country.before:
        coins = "; coins and notes followed in 2002" if country.since < 2002 else ""  # noqa: PLR2004
        lines.append(
            one(
                f"It was adopted in {country.since} in place of the {country.before}{coins}.",
                f"The {country.before} was the currency until the euro was adopted in "
                f"{country.since}{coins}.",
                f"It took the place of the {country.before} when it was adopted in "
                f"{country.since}{coins}.",
            )
        )
    lines += _sharing(world, writer, country)
    lines.append(
        one(
            "Wages, taxes and prices in shops are stated in it, and banks keep accounts in it.",
            "Banks quote rates of exchange for it, and shops state their prices in it.",
            "Shop prices and bank accounts are kept in this money.",
        )
    )
    lines.append(
        one(
            f"How the {money} is abbreviated in trade is told in the article on that currency.",
            f"The article on the {money} has its code and says where else it circulates.",
        )
    )
    return lines


def _sharing(world: World, writer: Writer, country: Country) -> list[str]:
    """Where else a country's currency is used."""
    others = [world.country(iso) for iso in world.users[country.currency] if iso != country.iso]
    if others:
        more = others[_SHOWN:]
        return [
            writer.one(
                f"The same currency is used in {join_names(others[:_SHOWN])}"
                f"{', among others' if more else ''}.",
                f"It shares this currency with {'others, such as ' if more else ''}"
                f"{join_names(others[:_SHOWN])}.",
            )
        ]
    if country.currency in SHARED:
        return []
    return [
        writer.one(
            "No other country or territory described here has the same currency.",
            "Among the places in this encyclopaedia it is the only one with that currency.",
        )
    ]


def _language(world: World, writer: Writer, country: Country, name: str) -> list[str]:
    if not country.language:
        return []
    one, language = writer.one, world.languages[country.language].name
    lines = [
        one(
            f"The official language of {name} is {language}.",
            f"{language} is the official language of {name}.",
            f"{sentence(name)} has one official language, {language}.",
        )
    ]
    others = [world.country(iso) for iso in world.speakers[country.language] if iso != country.iso]
    if others:
        lines.append(
            one(
                f"The same holds for {'others, such as ' if others[_SHOWN:] else ''}"
                f"{join_names(others[:_SHOWN])}.",
                f"{language} has that position in {join_names(others[:_SHOWN])} as well.",
            )
        )
    lines.append(
        one(
            "Laws, schools and public offices use it, whatever people speak at home.",
            "It is the language of laws and of public offices; at home, people may speak others.",
        )
    )
    lines.append(
        one(
            "How it is written and by which code it is known is told in the article on the "
            "language itself.",
            "Its script, its own name and its code are given where the language is described.",
        )
    )
    return lines
