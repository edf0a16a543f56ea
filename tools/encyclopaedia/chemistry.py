"""Writes the articles on chemical elements, their isotopes and their discoverers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.encyclopaedia.elements import daughter
from tools.encyclopaedia.sentences import Article, count_noun, join_names, sentence
from tools.encyclopaedia.world import celsius, half_life

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.encyclopaedia.elements import Element, Isotope, Person
    from tools.encyclopaedia.sentences import Writer
    from tools.encyclopaedia.world import World

_SERIES = {
    "Nonmetals": "nonmetals",
    "Poor metals": "post-transition metals",
}
_UNSURE = frozenset({30, 48, 71, 80, 84, 85, 103})  # books differ on the series
_MADE = 109  # nothing is known of the chemistry from here on
_GASES = frozenset({"H", "He", "N", "O", "F", "Ne", "Cl", "Ar", "Kr", "Xe", "Rn"})


def chemistry(world: World, writer: Writer) -> Iterator[Article]:
    """All articles of this module."""
    for element in world.elements.values():
        yield _element(writer, element)
        if element.melting or element.boiling:
            yield _bulk(writer, element)
        if element.symbol in world.discoveries:
            yield _discovery(world, writer, element)
        if world.isotopes_of(element.number):
            yield _natural(world, writer, element)
    for isotope in world.isotopes.values():
        yield _isotope(world, writer, isotope)
    for person in world.people.values():
        yield _person(world, writer, person)


def _element(writer: Writer, element: Element) -> Article:
    one, name = writer.one, element.name.lower()
    lines = [
        one(
            f"{element.name} is the chemical element with the symbol {element.symbol} and the "
            f"atomic number {element.number}.",
            f"The chemical element {name} has the symbol {element.symbol} and the atomic number "
            f"{element.number}.",
            f"The symbol {element.symbol} and the atomic number {element.number} belong to {name}, "
            "a chemical element.",
        )
    ]
    spot = f"period {element.period}"
    if element.group and element.block != "f" and element.number not in {57, 89}:
        spot = f"group {element.group} and period {element.period}"
    lines.append(
        one(
            f"In the periodic table it stands in {spot}, in the {element.block} block.",
            f"Its place in the periodic table is {spot}; it belongs to the {element.block} block.",
        )
    )
    if element.number not in _UNSURE and element.number < _MADE:
        series = _SERIES.get(element.series, element.series.lower())
        lines.append(one("It is counted", "Chemists count it") + f" among the {series}.")
    lines.append(
        one(
            f"A neutral atom of {name} has {count_noun(element.number, 'electron')} around a "
            f"nucleus with as many protons.",
            f"Every nucleus of {name} holds {count_noun(element.number, 'proton')}, and a neutral "
            "atom has the same number of electrons.",
        )
    )
    if element.number < _MADE:
        lines.append(
            one(
                f"The electrons of a free atom are arranged as {element.configuration}.",
                f"Its electron configuration is written {element.configuration}.",
            )
        )
    if element.electronegativity:
        lines.append(f"On the scale of Pauling, its electronegativity is "
                     f"{element.electronegativity:.2f}.")  # fmt: skip
    return Article(f"element:{element.number}", "overview", element.name, " ".join(lines))


def _bulk(writer: Writer, element: Element) -> Article:
    one, name, lines = writer.one, element.name.lower(), list[str]()
    if element.melting:
        lines.append(
            one(
                f"{element.name} melts at about {celsius(element.melting)}.",
                f"The melting point of {name} is about {celsius(element.melting)}.",
                f"At about {celsius(element.melting)}, solid {name} turns into a liquid.",
            )
        )
    if element.boiling:
        lines.append(
            one(
                f"Liquid {name} boils at about {celsius(element.boiling)}.",
                f"The boiling point of {name} is about {celsius(element.boiling)}.",
            )
        )
    if element.symbol in _GASES:
        lines.append("At room temperature and ordinary pressure it is a gas.")
    elif element.density:
        weight = f"about {element.density:.3g} grams"
        lines.append(
            one(
                f"Its density near room temperature is {weight} per cubic centimetre.",
                f"One cubic centimetre of it weighs {weight} near room temperature.",
            )
        )
    lines += [
        one(
            "All of this holds at the ordinary pressure of the air.",
            "Statements of this kind hold at ordinary pressure.",
        ),
        one(
            "Samples that are not pure, and other forms of the solid, can behave differently.",
            "Other solid forms, where they exist, and impure samples give somewhat different "
            "values.",
        ),
        one(
            "Values of this kind are measured on bulk samples and collected in handbooks of "
            "chemistry and physics.",
            "Handbooks of chemistry and physics list such values for each pure substance.",
        ),
    ]
    title = f"Physical properties of {name}"
    return Article(f"element:{element.number}", "bulk", title, " ".join(lines))


def _discovery(world: World, writer: Writer, element: Element) -> Article:
    one, name = writer.one, element.name.lower()
    year, people = world.discoveries[element.symbol]
    who = join_names(people)
    lines = [
        one(
            f"{element.name} was discovered in {year} by {who}.",
            f"The discovery of {name}, in {year}, is credited to {who}.",
            f"In {year}, {who} discovered {name}.",
        )
    ]
    same = [symbol for symbol, (_, others) in world.discoveries.items() if others == people]
    rest = [world.by_symbol[s].name.lower() for s in same if s != element.symbol]
    if rest:
        plural = "people are" if len(people) > 1 else "person is"
        lines.append(f"The same {plural} credited with {join_names(rest)}.")
    else:
        lines.append(
            one(
                "No other element is credited to exactly the same people here.",
                "Nothing else on the list of elements has exactly the same discoverers here.",
            )
        )
    lines += [
        one(
            "By discovery one understands here the first report that the substance holds an "
            "element of its own, or the first time that it was set free.",
            "The year is that of the first report or of the first sample; finding an element in "
            "an ore and setting it free were often years apart.",
        ),
        one(
            "For elements that several laboratories worked on, older books may name others.",
            "Older books at times name other workers, who came close or saw traces before.",
        ),
    ]
    return Article(
        f"element:{element.number}", "discovery", f"Discovery of {name}", " ".join(lines)
    )


def _natural(world: World, writer: Writer, element: Element) -> Article:
    one, name, isotopes = writer.one, element.name.lower(), world.isotopes_of(element.number)
    names = [world.isotope(isotope.number, isotope.mass) for isotope in isotopes]
    if len(names) == 1:
        lines = [
            one(
                f"All {name} in nature consists of one isotope, {names[0]}.",
                f"{names[0].capitalize()} is the only isotope of {name} found in nature.",
            )
        ]
    else:
        lines = [
            one(
                f"In nature, {name} is a mixture of {count_noun(len(names), 'isotope')}: "
                f"{join_names(names)}.",
                f"Natural {name} consists of {count_noun(len(names), 'isotope')}, namely "
                f"{join_names(names)}.",
            ),
            one(
                f"The most abundant of them is {names[0]}.",
                f"Most abundant among these is {names[0]}.",
            ),
        ]
    others = [i for i in world.isotopes.values() if i.number == element.number and not i.abundance]
    if others:
        made = join_names([world.isotope(i.number, i.mass) for i in others])
        lines.append(f"Of its other isotopes, this encyclopaedia describes {made}.")
    lines += [
        one(
            f"Isotopes of {name} differ in the number of neutrons and share the number of protons.",
            f"All isotopes of {name} have the same number of protons and hardly differ in their "
            "chemistry.",
        ),
        one(
            "How much of each there is, when it was discovered and whether it decays is told in "
            "the articles on the single isotopes.",
            "Each of them has an article of its own, with its share in nature or its half-life.",
        ),
    ]
    title = f"Isotopes of {name}"
    return Article(f"element:{element.number}", "isotopes", title, " ".join(lines))


def isotope_key(number: int, mass: int) -> str:
    """An isotope's entity."""
    return f"isotope:{number}:{mass}"


def share(isotope: Isotope) -> str:
    """An isotope's share in nature, such as `1.06 percent`."""
    return f"{isotope.abundance:.4g} percent"


def _isotope(world: World, writer: Writer, isotope: Isotope) -> Article:
    one, number, mass = writer.one, isotope.number, isotope.mass
    name, element = world.isotope(number, mass), world.element(number)
    neutrons = count_noun(mass - number, "neutron")
    lines = [
        one(
            f"{sentence(name)} is an isotope of {element} with {count_noun(number, 'proton')} and "
            f"{neutrons} in its nucleus.",
            f"The nucleus of {name}, an isotope of {element}, holds {count_noun(number, 'proton')} "
            f"and {neutrons}.",
        )
    ]
    if isotope.abundance == 100:  # noqa: PLR2004
        lines.append(f"It makes up all of the {element} in nature.")
    elif isotope.abundance:
        lines.append(
            one(
                f"Its natural abundance is about {share(isotope)} of the atoms of {element}.",
                f"About {share(isotope)} of the {element} in nature is of this kind, which is "
                "called its natural abundance.",
            )
        )
    else:
        lines.append(
            one(
                "It plays no part in the natural mixture of the element.",
                f"Natural {element} holds none of it, or traces at most.",
            )
        )
    lines += _decay(world, writer, isotope)
    lines += [
        one(
            f"The tables of nuclides give {isotope.year} as the year of its discovery.",
            f"It was discovered in {isotope.year}, by the tables of nuclides.",
            f"Its discovery is dated to {isotope.year} in the tables of nuclides.",
        ),
        one(
            f"Its name is made of that of the element and the mass number {mass}.",
            f"The number {mass} in the name counts the protons and the neutrons together.",
        ),
    ]
    return Article(isotope_key(number, mass), "overview", sentence(name), " ".join(lines))


def _decay(world: World, writer: Writer, isotope: Isotope) -> list[str]:
    one, lines = writer.one, list[str]()
    if isotope.years:
        lines.append(
            one(
                f"It is radioactive with a half-life of about {half_life(isotope.years)}.",
                f"Half of a sample of this radioactive isotope decays in about "
                f"{half_life(isotope.years)}.",
                f"Its half-life is about {half_life(isotope.years)}.",
            )
        )
    heir = daughter(isotope)
    if heir:
        lines.append(
            one(
                f"By {isotope.decay} it turns into {world.isotope(*heir)}.",
                f"It decays to {world.isotope(*heir)} by {isotope.decay}.",
                f"What it leaves after {isotope.decay} is {world.isotope(*heir)}.",
            )
        )
    return lines


def _person(world: World, writer: Writer, person: Person) -> Article:
    one, name = writer.one, person.name
    found = [world.by_symbol[symbol] for symbol in world.found_by[name]]
    names = join_names([element.name.lower() for element in found])
    article = "an" if person.nationality[0] in "AEIOU" else "a"
    kind = f"{article} {person.nationality} scientist"
    lines = [
        one(
            f"{name} was {kind} who was born in {person.born} and died in {person.died}.",
            f"The {person.nationality} scientist {name} lived from {person.born} to {person.died}.",
            f"{name}, {kind}, was born in {person.born} and died in {person.died}.",
        ),
        one(
            f"The list of discoveries in this encyclopaedia credits {name} with {names}, alone or "
            "together with others.",
            f"In the history of the chemical elements, {name} is named for {names}, alone or "
            "with colleagues.",
        ),
        one(
            "When each discovery was made, and with whom, is told in the article on that "
            "discovery.",
            "The articles on the discoveries give the years and the names of those who took part.",
        ),
        one(
            "Other work of this person is not described here.",
            "This article leaves out whatever else this person did in science.",
        ),
    ]
    return Article(f"person:{name}", "overview", name, " ".join(lines))
