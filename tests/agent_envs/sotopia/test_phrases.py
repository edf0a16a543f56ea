"""A quick test before a pattern never changes what is found: it is compared with the plain one."""

import json
import random
import re
from itertools import product
from pathlib import Path

import pytest

from agent_envs.sotopia import conduct, english, reading, speech
from agent_envs.sotopia.phrases import _TOKEN, Phrases, _tree, may_have, words_of

LINES = [
    json.loads(line)["text"]
    for path in sorted((Path(__file__).parent / "lines").rglob("*.jsonl"))
    for line in path.read_text(encoding="utf-8").splitlines()
]
PHRASES = {
    name: one
    for module in (conduct, reading)
    for name, one in vars(module).items()
    if isinstance(one, Phrases)
}
ODD = (
    *"’'—–-.,:;!?\"”)… \n\t_7",
    "\u212a",
    "ſ",
    "İ",
    "ı",
    "é",
    " - ",
    ". ",
    ", ",
    ": ",
    " and ",
    " if ",
)


def spoilt(rng, count):
    """Lines with a few signs inserted or left out, and words with their case changed."""
    texts = []
    for line in rng.choices(LINES, k=count):
        letters = list(rng.choice((line, line.upper(), line.title(), line)))
        for _ in range(rng.randrange(6)):
            place = rng.randrange(len(letters) + 1)
            letters[place : place + rng.randrange(2)] = rng.choice(ODD)
        texts.append("".join(letters))
    return texts


def made(tree, rng):
    """A text that a pattern's tree describes, its conditions aside."""
    text = ""
    for item, times in rng.choice(tree):
        optional = times.startswith(("?", "*", "{"))
        for _ in range(
            rng.randrange(0 if optional else 1, 3 if times and times[0] in "*+{" else 2)
        ):
            text += made(item, rng) if isinstance(item, list) else sign(item, rng)
    return text


def sign(item, rng):
    if item in (r"\b", "^", "$"):
        return ""
    some = [one for one in "abekstyzAZ019 .,:'-$_" if re.fullmatch(item, one)]
    return rng.choice(some) if some else item


@pytest.mark.parametrize("name", PHRASES)
def test_a_text_without_the_words_has_no_match(name):
    phrases, rng, matched = PHRASES[name], random.Random(name), 0
    tree = _tree(_TOKEN.findall(phrases._plain)[::-1])
    for text in [
        *(made(tree, rng) for _ in range(400)),
        *(s.lower() for s in rng.choices(LINES, k=400)),
    ]:
        around = (
            rng.choice(("", "so ", "x", "1", "_", "'")) + text + rng.choice(("", " ok", "s", "7"))
        )
        for one in (text, around):
            expected, found = phrases.pattern.search(one), phrases.search(one, words_of(one))
            assert (found and found.span()) == (expected and expected.span()), one
            matched += bool(expected)
    assert matched


def test_words_of_a_pattern():
    assert Phrases(r"\bdeal|\b(?:no|not) sale\b").needed == ({"sale"}, ("deal",))
    assert Phrases(r"^(?:it is )?sold(?: to you)*$|\bcolou?rs\b").needed[0] == {
        "sold", "colors", "colours",
    }  # fmt: skip
    assert Phrases(r"\d+|\bdeal\b").needed == (set(), ("",))  # a number needs no word
    assert Phrases(r"\b\w+er than you\b").needed == ({"than"}, ())


def test_words_of_a_text():
    assert words_of("Isn't 7th_heaven O.K.?") == ["isn", "t", "7th", "heaven", "o", "k"]
    assert words_of("o\u212a") is None
    assert may_have(frozenset({"ok"}), None)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (speech._COURTESY, speech._COURTEOUS),
        (speech._REASON, speech._REASONS),
        (english._SPEAKING, english._SPOKEN_WORDS),
    ],
    ids=["courtesy", "reason", "spoken"],
)
def test_a_line_without_a_pattern_s_words_has_no_match(pattern, words):
    rng, matched = random.Random(pattern.pattern), 0
    pieces = (
        *english._SPOKEN,
        *english._ONES,
        *sorted(speech._COURTEOUS),
        "so that",
        "because",
        "Since",
        " ",
        *ODD,
    )
    texts = ["".join(rng.choices(pieces, k=rng.randrange(1, 8))) for _ in range(3000)]
    for text in (*spoilt(rng, 3000), *texts, *map(str.upper, texts)):
        if pattern.search(text):
            matched += 1
            assert may_have(words, words_of(text)), text
    assert matched > 100


def test_numbers_in_words_are_looked_for_where_there_may_be_some():
    rng, kept = random.Random(2), 0
    pieces = (*english._ONES, "one", "One", "ONE", "hundred", "a ", "and ", "-", " ", " ", *ODD)
    texts = ["".join(rng.choices(pieces, k=rng.randrange(1, 8))) for _ in range(6000)]
    for text in (*spoilt(rng, 3000), *texts):
        if not english._counts(words_of(text)):
            kept += "one" in text.lower()
            assert english._NUMBERS.sub(english._digits, text) == text
    assert kept > 100


def test_contractions_are_looked_for_where_their_letters_are():
    rng = random.Random(1)
    pieces = (
        "can't", "CANNOT", "cant", "won't", "shan't", "ain't", "isn't", "LET'S",
        "let'ſ", "I'll", "who'd",
        "we've", "you're", "İ'm", "i'm", "it's", "Monday's", "dog's", "y'all", "Y'ALL", "n't",
        "'s", "'", " ok",
        " far", "’s", *" tsdm", "\u212a",
    )  # fmt: skip
    for _ in range(6000):
        line = "".join(rng.choices((*pieces, " ", " "), k=rng.randrange(1, 9)))
        plain = line.replace("’", "'")
        if "'" in plain:
            plain = re.sub(r"\b(?:can't|cannot|cant)\b", "can not", plain, flags=re.IGNORECASE)
            for _, pattern, full in english._CONTRACTED:
                plain = pattern.sub(full, plain)
        plain = english._SPEAKING.sub(lambda found: english._SPOKEN[found[0].lower()], plain)
        assert english.written_out(line) == english._NUMBERS.sub(english._digits, plain), line


def test_sentences_and_clauses_are_cut_at_the_same_places():
    sentence = re.compile(r"(?<=[.!?;…])[\"')\]]*\s+|\s+[–—-]+\s+|—|\n|:\s+(?!\d)")
    clause = re.compile(
        r",\s+(?:and\s+|so\s+|then\s+)?"
        rf"|\s+(?:(?=(?:{english._LINKED})\s)|(?:and|so|or)\s+(?=(?:{english._SUBJECT})\s)"
        rf"|(?=(?:once|assuming)\s+(?:{english._SUBJECT})\s))",
        re.IGNORECASE,
    )
    joins = re.compile(r"\b(?:and|so|or|then)\b")
    pieces = (
        *".!?;…\"')]–—-\n:, \t7", ", and ", " so i ", " and ſ", ",  SO you ", " or we ", " but ",
        " if ", " once you ", " and android ", ", then ", "x", "ok",
    )  # fmt: skip
    rng = random.Random(2)
    texts = ["".join(rng.choices(pieces, k=rng.randrange(1, 12))) for _ in range(8000)]
    for text in (*spoilt(rng, 3000), *texts):
        assert english._SENTENCE.split(text) == sentence.split(text), text
        parts, start, word = [], 0, ""
        for cut in clause.finditer(text):
            parts.append((text[start : cut.start()], word))
            start, word = cut.end(), (joins.search(cut[0].lower()) or [""])[0]
        assert english._parts(text) == [*parts, (text[start:], word)], text


def test_the_forms_of_names():
    def root(word):
        for ending, cut in product(("s", "es", "est", "er", "iest", "ier"), ("", "y", "e")):
            stem = word.removesuffix(ending)
            if stem != word and stem + cut in calls:
                return stem + cut
        return None

    calls = conduct._NAMES | conduct._TRAITS
    words = {word.lower() for line in LINES for word in line.split()} | set(conduct._ROOTS)
    words |= {call + ending for call in calls for ending in ("s", "es", "r", "ing", "ss")}
    for word in words:
        assert conduct._ROOTS.get(word) == (word if word in calls else root(word)), word


def test_letters_in_any_case():
    either = re.compile(r"[a-z]+(?:['’][a-z]+)?|\d+", re.IGNORECASE)
    letters = "".join(map(chr, range(0x110000)))
    assert re.findall(speech._LETTER, letters) == re.findall("[a-z]", letters, re.IGNORECASE)
    for text in spoilt(random.Random(3), 3000):
        assert speech._WORD.findall(text) == either.findall(text)
