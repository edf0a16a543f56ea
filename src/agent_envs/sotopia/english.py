"""English sentences as clauses: contractions written out, number words as digits, who and how.

A clause has a connector (`but`, `if`, `because`, ...) and is a question or not. Left out: spelling
mistakes, other languages and anything that needs a parser.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_WRITTEN_OUT = tuple(
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"\bcan(?:['’]?t|not)\b", "can not"),
        (r"\bwon['’]?t\b", "will not"),
        (r"\bshan['’]t\b", "shall not"),
        (r"\bain['’]?t\b", "is not"),
        (r"\b(do|does|did|is|are|was|were|would|could|should|has|have|had|must|need)n['’]?t\b",
         r"\1 not"),
        (r"\blet['’]?s\b(?! me\b)", "let us"),
        (r"\b(i|you|we|they|he|she|it|that|there|who|this)['’]ll\b", r"\1 will"),
        (r"\b(i|you|we|they|he|she|it|that|there|who|what|how)['’]d\b", r"\1 would"),
        (r"\b(i|you|we|they|who|what|there)['’]ve\b", r"\1 have"),
        (r"\b(could|would|should|might|must)['’]ve\b", r"\1 have"),
        (r"\b(you|we|they|who|what)['’]re\b", r"\1 are"),
        (r"\bi['’]?m\b", "I am"),
        (r"\b(it|that|he|she|there|here|what|who|where|how|when|why|this|everything|nothing|one)"
         r"['’]s\b", r"\1 is"),
        (r"\b(mon|tues|wednes|thurs|fri|satur|sun)day['’]s\b", r"\1day is"),
        (r"\b(thats|its (?=a deal|yours|ok|fine|too))\b", "that is"),
        (r"\bgonna\b", "going to"),
        (r"\bwanna\b", "want to"),
        (r"\bgotta\b", "have to"),
        (r"\blemme\b", "let me"),
        (r"\bgimme\b", "give me"),
        (r"\bdunno\b", "do not know"),
        (r"\by['’]all\b", "you all"),
        (r"\b(?:o\.k\.|okay|okey|okey-dokey)(?=\W|$)", "ok"),
        (r"\b(?:alright|all right)\b", "ok"),
        (r"\bthank you\b", "thanks"),
        (r"\bno one\b", "nobody"),
        (r"\ba couple(?: of)?\b", "two"),
        (r"\bhalf a dozen\b", "six"),
        (r"\ba dozen\b", "twelve"),
    )
)  # fmt: skip
_ONES = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen".split()
    )
}
_TENS = {
    word: 10 * number
    for number, word in enumerate(
        "twenty thirty forty fifty sixty seventy eighty ninety".split(), 2
    )
}
_SCALES = {"hundred": 100, "thousand": 1000, "grand": 1000}
_NUMBER = "|".join((*_ONES, *_TENS, *_SCALES))
_NUMBERS = re.compile(
    rf"\b(?:an?\s+(?=hundred|thousand|grand))?(?:{_NUMBER})(?:(?:[\s-]+(?:and\s+)?)(?:{_NUMBER}))*\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;…])[\"')\]]*\s+|\s+[–—-]+\s+|—|\n|:\s+(?!\d)")
_SUBJECT = (
    r"(?:i|you|we|it|that|this|he|she|they|there|let us|let me|my|your|please|maybe|perhaps|make)"
)
_CLAUSE = re.compile(
    r",\s+(?:and\s+|so\s+|then\s+)?(?=(?P<after>but|because|since|if|unless|provided|though"
    r"|although|as long as|so long as|however|yet|while|except|only)\b)?"
    r"|\s+(?=(?:but|because|unless|though|although|provided|as long as|so long as|however|yet|if"
    r"|since|except that|only if)\s)"
    rf"|\s+(?:and|so|or)\s+(?={_SUBJECT}\s)",
    re.IGNORECASE,
)
_LINKS = re.compile(
    r"(but|because|since|if|unless|provided(?: that)?|though|although|as long as|so long as"
    r"|however|yet|even if|even though|only if|on condition that|assuming|once|while|whereas"
    r"|except(?: that)?|as)\b[\s,]*",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"(?:(?:and|so|but|or|well|ok|then|also|now|please|sorry|tell me|hm+|oh|hey)[\s,]+)*"
    r"(?:(?:what|why|how|when|where|who|whom|whose|which)\b(?! ever)"
    r"|(?:is|are|was|were|do|does|did|can|could|would|will|shall|should|has|have|had|may|am"
    r"|might|must|need)(?: not)? "
    r"(?:i|you|we|he|she|it|they|that|this|these|those|there|the|your|my|our|any|anyone|anybody"
    r"|everyone|some\w*|\d+|\$\d+|\w+days?)\b)",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"(?:ok|right|yes|yeah|no|deal|please|then|eh|huh|hm+|agreed|is it|is not it|are you"
    r"|do you|does it|will you|would you|could you|my friend|sir|madam|what do you (?:say|think)"
    r"|how does that sound|how about it|does that work(?: for you)?|how is that|sound good"
    r"|sounds? (?:good|fair|ok)|(?:is|would) that (?:be )?(?:ok|fine|fair|good)(?: with you)?)"
    r"(?: then)?",
    re.IGNORECASE,
)


class Clause(NamedTuple):
    """One clause: its words in small letters, as they were spelt, its connector and its mood."""

    text: str
    spelt: str
    link: str = ""
    question: bool = False


@lru_cache(maxsize=8192)
def clauses(line: str) -> tuple[Clause, ...]:
    """The clauses of a line, in order."""
    found: list[Clause] = []
    for sentence in _SENTENCE.split(written_out(line)):
        asked = sentence.rstrip("\"'”’) ").endswith("?")
        found += _clauses(sentence.strip(), asked=asked)
    return tuple(found)


def _clauses(sentence: str, *, asked: bool) -> list[Clause]:
    """The clauses of a sentence; of a question those that ask, a tag passes it on to the one before."""
    parts = [part.strip(" ,.!?;:\"'“”()…*") for part in _parts(sentence)]
    parts = [part for part in parts if part]
    found: list[Clause] = []
    for place, spelt in enumerate(parts):
        link = _LINKS.match(spelt)
        rest = spelt[link.end() :] if link and link.end() < len(spelt) else spelt
        last = place == len(parts) - 1 or all(_TAG.fullmatch(tag) for tag in parts[place + 1 :])
        question = bool(_ASKING.match(rest)) or (asked and last)
        word = link[1].lower() if link and link.end() < len(spelt) else ""
        found.append(Clause(rest.lower(), rest, word, question))
    return found


def _parts(sentence: str) -> list[str]:
    """A sentence cut at its connectors and commas, which stay with what they begin."""
    parts, start = [], 0
    for cut in _CLAUSE.finditer(sentence):
        parts.append(sentence[start : cut.start()])
        start = cut.end()
    return [*parts, sentence[start:]]


@lru_cache(maxsize=8192)
def written_out(line: str) -> str:
    """A line with contractions written out and number words as digits."""
    line = line.replace("’", "'").replace("…", "... ").replace("“", '"').replace("”", '"')
    for pattern, full in _WRITTEN_OUT:
        line = pattern.sub(full, line)
    return _NUMBERS.sub(_digits, line)


def _digits(found: re.Match[str]) -> str:
    """The digits of number words; a lone "one" may be a pronoun and stays."""
    words = [w for w in re.split(r"[\s-]+", found[0].lower()) if w not in ("and", "a", "an")]
    if words == ["one"] or (words[0] in _SCALES and len(words) == 1 and " " not in found[0]):
        return found[0]
    total, part, tens = 0, 0, False
    for word in words:
        if word in _SCALES:
            part = (part or 1) * _SCALES[word]
            if word != "hundred":
                total, part = total + part, 0
        elif word in _TENS:
            # "one fifty" is said for 150, "two twenty" for 220
            part = part * 100 + _TENS[word] if 0 < part < 10 else part + _TENS[word]
            tens = True
        else:
            number = _ONES[word]
            if part % 10 or (part and number >= 10 and part % 100):
                return " ".join(str(_value(w)) for w in words)  # two numbers side by side
            part += number
    del tens
    return str(total + part)


def _value(word: str) -> int:
    return _ONES.get(word, _TENS.get(word, _SCALES.get(word, 0)))
