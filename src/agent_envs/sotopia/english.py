"""English sentences as clauses, with contractions expanded and number words as digits; lexicons.

A clause has a connector (`but`, `if`, `because`, ...) and is a question or not. Not supported:
spelling mistakes, other languages and anything that needs a parser.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from agent_envs.assets import table


class Lexicon:
    """The entries of a file of this package: lists of words, or patterns.

    In a pattern a line break means `|` (a `|` at the beginning of the next line is optional), and
    `{name}` inserts the pattern of another entry.
    """

    def __init__(self, name: str) -> None:
        self._entries: dict[str, str] = table(f"sotopia/{name}.toml")

    def words(self, name: str) -> frozenset[str]:
        """The words of an entry."""
        return frozenset(self._entries[name].split())

    def pattern(self, name: str, flags: int = 0) -> re.Pattern[str]:
        """An entry as a compiled pattern."""
        return re.compile(self.plain(name), flags)

    def plain(self, name: str) -> str:
        """An entry as one pattern."""
        lines = self._entries[name].splitlines()
        text = "|".join(line.removeprefix("|") for line in lines)
        return f"(?:{re.sub(r'{([a-z_]+)}', lambda part: self.plain(part[1]), text)})"


_PRONOUNS = "i you we they he she it that there who"
_IS = (
    "it that he she there here what who where how when why this everything nothing one monday "
    "tuesday wednesday thursday friday saturday sunday"
)


def _match_behind(words: str, ending: str) -> str:
    """A pattern of an ending behind one of the words; it begins with the ending, for speed."""
    known = "|".join(rf"(?<=\b{word}{ending})" for word in words.split())
    return rf"{ending}\b(?:{known})"


_IS_TOO = (  # words whose 's is never a possessive
    r"'s(?<=\w's)(?= (?:all|yours|mine|fine|ok|great|good|perfect|ideal|too|not|no|out|an?"
    r"|the|far|way|just|so|very|really|already|free|busy|bad|impossible|better|worse|enough)\b)"
)
_CONTRACTED = tuple(  # by letters that the case-folded line must contain
    (letters, re.compile(pattern, re.IGNORECASE), full)
    for letters, pattern, full in (
        ("can't", r"\bcan't\b", "can not"),
        ("won't", r"\bwon't\b", "will not"),
        ("shan't", r"\bshan't\b", "shall not"),
        ("n't", r"\bain't\b", "is not"),
        ("n't", r"n(?<=\w\w)'t\b", " not"),
        ("let's", r"\blet's\b", "let us"),
        ("'ll", _match_behind(f"{_PRONOUNS} this", "'ll"), " will"),
        ("'d", _match_behind(f"{_PRONOUNS} what how", "'d"), " would"),
        ("'ve", r"\b(\w+)'ve\b", r"\1 have"),
        ("'re", r"\b(\w+)'re\b", r"\1 are"),
        ("'m", r"\bi'm\b", "I am"),
        ("'s", _match_behind(_IS, "'s"), " is"),
        ("'s", _IS_TOO, " is"),
        ("y'all", r"\by'all\b", "you all"),
    )
)
_SPOKEN = {
    "cannot": "can not", "cant": "can not", "dont": "do not", "doesnt": "does not", "im": "I am",
    "isnt": "is not", "wont": "will not", "didnt": "did not", "ive": "I have", "thats": "that is",
    "gonna": "going to", "wanna": "want to", "gotta": "have to", "ill be": "I will be",
    "lemme": "let me",
    "gimme": "give me", "dunno": "do not know", "okay": "ok", "okey": "ok", "okey-dokey": "ok",
    "o.k": "ok", "alright": "ok", "all right": "ok", "thank you": "thanks", "no one": "nobody",
    "a couple of": "two", "a couple": "two", "half a dozen": "six", "a dozen": "twelve",
    "lets": "let us", "youre": "you are", "its a deal": "it is a deal", "its yours": "it is yours",
}  # fmt: skip
_SPEAKING = re.compile(
    rf"\b(?:{'|'.join(sorted(map(re.escape, _SPOKEN), key=len, reverse=True))})\b", re.IGNORECASE
)
_ONES = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
    "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90,
}  # fmt: skip
_SCALES = {"hundred": 100, "thousand": 1000, "grand": 1000}
_VALUES = _ONES | _TENS | _SCALES
_DIGITS = range(1, 10)
_NUMBER = "|".join(_VALUES)
_NUMBERS = re.compile(
    rf"\b(?:an?\s+(?=hundred|thousand"
    rf"|grand))?(?:{_NUMBER})(?:(?:[\s-]+(?:and\s+)?)(?:{_NUMBER}))*\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(  # begins with a set of signs, which `re` finds fast
    r"[\"')\]\s—:](?:(?<=[.!?;…]\s)\s*|(?<=[.!?;…][\"')\]])[\"')\]]*\s+|(?<=\s)\s*[–—-]+\s+"
    r"|(?<=—)|(?<=\n)|(?<=:)\s+(?!\d))"
)
_SUBJECT = "i|you|we|it|that|this|he|she|they|there|let us|let me|my|your|please|maybe|perhaps|make"
_LINKED = (
    "but|because|unless|though|although|provided|as long as|so long as|however|yet|if|since"
    "|except that|only if"
)
_CLAUSE = re.compile(  # begins with a set of signs, which `re` finds fast
    r"[,\s](?:(?<=,)\s+(?:and\s+|so\s+|then\s+)?"
    rf"|(?<=\s)\s*(?:(?=(?:{_LINKED})\s)|(?:and|so|or)\s+(?=(?:{_SUBJECT})\s)"
    rf"|(?=(?:once|assuming)\s+(?:{_SUBJECT})\s)))",
    re.IGNORECASE,
)
_JOINS = frozenset({"and", "so", "or", "then"})
_LINK = (
    "but|because|since|if|unless|provided(?: that)?|though|although|as long as|so long as"
    "|however|yet|even if|even though|only if|on condition that|assuming|once|while|whereas"
    "|except(?: that)?|as"
)
_LINKS = re.compile(rf"({_LINK})\b[\s,]*", re.IGNORECASE)
_BEFORE = r"(?:and|so|but|or|well|ok|then|also|now|please|sorry|tell me|hm+|oh|hey)[\s,]+"
_QUESTION = (
    r"(?:what|why(?! not$)|how|when|where|who|whom|whose|which)\b(?! ever)"
    r"|(?:is|are|was|were|do|does|did|can|could|would|will|shall|should|has|have|had|may|am"
    r"|might|must|need)(?: not)? "
    r"(?:i|you|we|he|she|it|they|that|this|these|those|there|the|your|my|our|any|anyone|anybody"
    r"|everyone|some\w*|\d+|\$\d+|\w+days?)\b"
)
_ASKING = re.compile(rf"(?:{_BEFORE})*(?:{_QUESTION})", re.IGNORECASE)
_TAG = re.compile(
    r"(?:ok|right|yes|yeah|no|deal|please|then|eh|huh|hm+|agreed|is it|is not it|are you"
    r"|do you|does it|will you|would you|could you|my friend|sir|madam|what do you (?:say|think)"
    r"|how does that sound|how about it|does that work(?: for you)?|how is that(?: for .*)?"
    r"|what about that|fair|sound good"
    r"|sounds? (?:good|fair|ok)|(?:is|would) that (?:be )?(?:ok|fine|fair|good)(?: with you)?)"
    r"(?: then)?",
    re.IGNORECASE,
)


_LONGEST = 300  # letters of a clause that are read
_FRAGMENT = 4  # most words of a question without a verb
_DIGITS_IN = re.compile(r"\d\d*(?:[.,:]\d+)*")


class Clause(NamedTuple):
    """One clause: its words in lower case, as spelt, and its relation to other clauses.

    link: the connector that makes it subordinate, or a contrast. joined: "and", "so" or "or" before
    it. question: whether it asks.
    """

    text: str
    spelt: str
    link: str = ""
    joined: str = ""
    question: bool = False

    @property
    def form(self) -> Clause:
        """The clause with all numbers replaced by one number, which its class depends on."""
        if not _DIGITS_IN.search(self.text):
            return self
        text, spelt = _DIGITS_IN.sub("7", self.text), _DIGITS_IN.sub("7", self.spelt)
        return Clause(text, spelt, self.link, self.joined, self.question)


@lru_cache(maxsize=8192)
def split_clauses(line: str) -> tuple[Clause, ...]:
    """The clauses of a line, in order."""
    found: list[Clause] = []
    for sentence in _SENTENCE.split(write_out(line)):
        asked = sentence.rstrip("\"'”’) ").endswith("?")
        found += _split_sentence(sentence.strip(), asked=asked)
    return tuple(found)


@lru_cache(maxsize=8192)
def normalize_clauses(line: str) -> tuple[Clause, ...]:
    """The `form` of each clause of a line."""
    return tuple([clause.form for clause in split_clauses(line)])


def has_question(line: str) -> bool:
    """Whether a line is a question; a question mark after "please" does not count."""
    return any(
        _ASKING.match(clause.text)
        or (len(clause.text.split()) <= _FRAGMENT and not _TAG.fullmatch(clause.text))
        for clause in split_clauses(line)
        if clause.question
    )


def _split_sentence(sentence: str, *, asked: bool) -> list[Clause]:
    """The clauses of a sentence; a question tag at its end makes it a question."""
    bare = [(part.strip(" ,.!?;:\"'“”()…*"), word) for part, word in _split_parts(sentence)]
    cut = [one for one in bare if one[0]]
    found: list[Clause] = []
    for place, (spelt, joined) in enumerate(cut):
        link = _LINKS.match(spelt)
        rest = (spelt[link.end() :] if link and link.end() < len(spelt) else spelt)[:_LONGEST]
        asks = asked and all(_TAG.fullmatch(tag) for tag, _ in cut[place + 1 :])
        question = asks or bool(_ASKING.match(rest))
        word = link[1].lower() if link and link.end() < len(spelt) else ""
        found.append(Clause(rest.lower(), rest, word, joined, question))
    return found


def _split_parts(sentence: str) -> list[tuple[str, str]]:
    """A sentence split at connectors and commas, with the "and", "so" or "or" before each part."""
    parts, start, word = [], 0, ""
    for cut in _CLAUSE.finditer(sentence):
        parts.append((sentence[start : cut.start()], word if word in _JOINS else ""))
        start, word = cut.end(), cut[0].lstrip(",").strip().lower()
    parts.append((sentence[start:], word if word in _JOINS else ""))
    return parts


@lru_cache(maxsize=8192)
def write_out(line: str) -> str:
    """A line with contractions expanded and number words as digits."""
    line = line.replace("’", "'").replace("…", "... ").replace("“", '"').replace("”", '"')
    if "'" in line:
        folded = line.casefold()
        for letters, pattern, full in _CONTRACTED:
            if letters in folded:
                line = pattern.sub(full, line)
    line = _SPEAKING.sub(lambda found: _SPOKEN.get(found[0].lower(), found[0]), line)
    return _NUMBERS.sub(_write_digits, line)


def _write_digits(found: re.Match[str]) -> str:
    """The digits of number words; a single "one" may be a pronoun and is kept."""
    words = [w for w in re.split(r"[\s-]+", found[0].lower()) if w not in ("and", "a", "an")]
    single = len(words) == 1 and words[0] in _SCALES and " " not in found[0]
    if single or words == ["one"] or not _VALUES.keys() >= set(words):  # an odd letter: "fıve"
        return found[0]
    total = part = 0
    for word in words:
        if word in _SCALES:
            part = (part or 1) * _SCALES[word]
            if word != "hundred":
                total, part = total + part, 0
        else:
            joined = _join_number(part, word)
            if joined is None:
                return " ".join(str(_VALUES[word]) for word in words)  # two numbers side by side
            part = joined
    return str(total + part)


def _join_number(part: int, word: str) -> int | None:
    """The number so far with a word below a hundred; None if the word begins another number."""
    number = _VALUES[word]
    if word in _TENS:  # "one fifty" means 150, "two twenty" means 220
        return part * (100 if part in _DIGITS else 1) + number
    return None if part % 10 or (part % 100 and number not in _DIGITS) else part + number
