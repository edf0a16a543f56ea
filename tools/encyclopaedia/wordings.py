"""Wordings of questions by relation, separated by `|`."""

from __future__ import annotations

from typing import NamedTuple

ASKS = {
    "capital": "What is the capital of {x}?|Which city is the capital of {x}?",
    "capital of": "Of which country is {x} the capital?|Which country has {x} as its capital?",
    "continent": "On which continent is {x}?|What is the continent of {x}?",
    "area": "What is the area of {x}?|How large is {x}?",
    "neighbour": "Which is the only country that shares a land border with {x}?|"
    "What is the sole land neighbour of {x}?",
    "three letters": "What is the three-letter ISO 3166 code of {x}?|"
    "Which three letters stand for {x} in ISO 3166?",
    "two letters": "What is the two-letter ISO 3166 code of {x}?|"
    "Which two letters stand for {x} in ISO 3166?",
    "of three letters": "Which country or territory has the three-letter ISO code {x}?",
    "calling code": "What is the international calling code of {x}?|"
    "Which calling code does one dial to reach {x}?",
    "of calling code": "Which country or territory has the calling code {x}?",
    "domain": "What is the top-level Internet domain of {x}?|"
    "Which top-level domain belongs to {x}?",
    "of domain": "Which country or territory has the top-level domain {x}?",
    "currency": "What is the currency of {x}?|Which currency is used in {x}?|"
    "What do people pay with in {x}?",
    "euro year": "In which year did {x} adopt the euro?|When did {x} adopt the euro?",
    "before the euro": "Which currency came before the euro in {x}?|"
    "What did the euro replace in {x}?",
    "language": "What is the official language of {x}?|Which language is official in {x}?",
    "currency code": "What is the ISO 4217 code of {x}?|"
    "Which three letters stand for {x} in trade?",
    "of currency code": "Which currency has the ISO 4217 code {x}?",
    "user": "In which country or territory is {x} used?|Which country or territory pays with {x}?",
    "language code": "What is the two-letter ISO 639 code of {x}?|"
    "Which two letters stand for {x} in ISO 639?",
    "script": "In which script is {x} written?|Which script is usual for {x}?",
    "zone": "Which tz database zone applies to {x}?|"
    "What is the name of the tz database zone for {x}?",
    "latitude": "At which latitude does {x} lie?",
    "country": "In which country or territory is {x}?|Which country or territory is home to {x}?",
    "state": "In which U.S. state is {x}?|Which U.S. state is home to {x}?",
    "city": "Which city is served by {x}?|What is the name of the city served by {x}?",
    "iata": "What is the IATA code of {x}?",
    "icao": "What is the ICAO code of {x}?",
    "of iata": "Which airport has the IATA code {x}?|What is the name of the airport coded {x}?",
    "airport": "Which airport is listed for {x}?|What is the name of the airport of {x}?",
    "postal": "What is the postal abbreviation of {x}?|How is {x} abbreviated in addresses?",
    "fips": "What is the FIPS code of {x}?",
    "of postal": "Which U.S. state has the postal abbreviation {x}?",
    "symbol": "What is the chemical symbol of {x}?|Which symbol stands for {x}?",
    "of symbol": "Which chemical element has the symbol {x}?",
    "number": "What is the atomic number of {x}?|How many protons are in a nucleus of {x}?",
    "of number": "Which chemical element has the atomic number {x}?",
    "melting": "At what temperature does {x} melt?|What is the melting point of {x}?",
    "boiling": "At what temperature does {x} boil?|What is the boiling point of {x}?",
    "year": "In which year was {x} discovered?|When was {x} discovered?|"
    "What is the year of discovery of {x}?",
    "discoverer": "Who discovered {x}?|Who is credited with the discovery of {x}?",
    "most abundant": "Which isotope of {x} is the most abundant in nature?|"
    "What is the most abundant natural isotope of {x}?",
    "born": "In which year was {x} born?|What is the year of birth of {x}?",
    "died": "In which year did {x} die?|What is the year of death of {x}?",
    "isotope year": "In which year was {x} discovered?|When was {x} discovered?|"
    "What is the year of discovery of {x}?",
    "share": "What is the natural abundance of {x}?",
    "half-life": "What is the half-life of {x}?",
    "decays into": "Into which element does {x} decay?|Which element does {x} turn into?|"
    "Which element results from the decay of {x}?",
    "daughter": "Into which isotope does {x} decay?|Which isotope is left when {x} decays?|"
    "Which isotope results from the decay of {x}?",
}
"""Wordings of the question for a fact, separated by `|`; {x} is the subject."""

PHRASES = {
    "capital of": "the country whose capital is {x}|the country with {x} as its capital",
    "neighbour": "the only country that shares a land border with {x}|"
    "the sole land neighbour of {x}",
    "of three letters": "the {noun} with the three-letter ISO code {x}",
    "of calling code": "the {noun} with the calling code {x}",
    "of domain": "the {noun} with the top-level domain {x}",
    "currency": "the currency of {x}|the currency used in {x}",
    "language": "the official language of {x}",
    "of currency code": "the currency with the ISO 4217 code {x}",
    "user": "the {noun} that uses {x}|the {noun} whose currency is {x}",
    "country": "the {noun} that is home to {x}|the {noun} that includes {x}",
    "state": "the U.S. state that includes {x}|the U.S. state that is home to {x}",
    "city": "the city served by {x}",
    "airport": "the airport of {x}|the airport listed for {x}",
    "of postal": "the U.S. state with the postal abbreviation {x}",
    "of symbol": "the element with the symbol {x}",
    "of number": "the element with the atomic number {x}",
    "discoverer": "the discoverer of {x}|the person who discovered {x}",
    "most abundant": "the most abundant natural isotope of {x}",
    "decays into": "the element that results from the decay of {x}|"
    "the element left after the decay of {x}",
    "daughter": "the isotope that results from the decay of {x}|the decay product of {x}",
}
"""Wordings that describe the answer of a fact, as the subject of a further question."""


class Contest(NamedTuple):
    """How two facts of a relation are compared: the wordings, and how far apart they must be."""

    greater: str
    less: str
    ratio: float = 1.0
    gap: float = 0.0


CONTESTS = {
    "area": Contest(
        "Which is larger in area, {a} or {b}?|Which covers more land, {a} or {b}?",
        "Which is smaller in area, {a} or {b}?",
        ratio=1.6,
    ),
    "latitude": Contest(
        "Which city lies farther north, {a} or {b}?|Which is the more northerly city, {a} or {b}?",
        "Which city lies farther south, {a} or {b}?",
        gap=3,
    ),
    "melting": Contest(
        "Which element has the higher melting point, {a} or {b}?",
        "Which melts at a lower temperature, {a} or {b}?",
        gap=50,
    ),
    "boiling": Contest(
        "Which element has the higher boiling point, {a} or {b}?",
        "Which boils at a lower temperature, {a} or {b}?",
        gap=100,
    ),
    "year": Contest(
        "Which element was discovered later, {a} or {b}?",
        "Which element was discovered earlier, {a} or {b}?|Which was discovered first, {a} or {b}?",
        gap=5,
    ),
    "isotope year": Contest(
        "Which isotope was discovered later, {a} or {b}?",
        "Which isotope was discovered first, {a} or {b}?",
        gap=5,
    ),
    "half-life": Contest(
        "Which has the longer half-life, {a} or {b}?",
        "Which decays faster, {a} or {b}?|Which has the shorter half-life, {a} or {b}?",
        ratio=1.5,
    ),
    "born": Contest(
        "Who was born later, {a} or {b}?",
        "Who was born earlier, {a} or {b}?",
        gap=2,
    ),
    "euro year": Contest(
        "Which adopted the euro later, {a} or {b}?",
        "Which adopted the euro first, {a} or {b}?",
        gap=1,
    ),
}
SAME = {
    "currency": "Do {a} and {b} have the same currency?|Is the same currency used in {a} and {b}?",
    "language": "Do {a} and {b} have the same official language?",
    "continent": "Are {a} and {b} on the same continent?",
    "zone": "Does the same tz database zone apply to {a} and {b}?",
}
"""Questions that are answered with yes or no."""
