"""Rewritten patterns match what the plain ones do, and no text is left out that could match."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from agent_envs.assets import table
from agent_envs.sotopia.patterns import Lexicon, Phrases, can_have, compile_pattern, split_words

LINES = [
    json.loads(line)["text"]
    for path in sorted((Path(__file__).parent / "lines").rglob("*.jsonl"))
    for line in path.read_text(encoding="utf-8").splitlines()
]
PATTERNS = (
    r"one|two|three|ten",
    r"\b(?:one|two|ten)(?:[\s-]+(?:and\s+)?(?:one|two|ten))*\b",
    r"\b(?:an?\s+(?=hundred|kilo))?(?:hundred|kilo|six)\b",
    r"^(?:it is |that is )?(?:a |an )?(?:deal|sale)$|\bdeal(?: of)?\b|^i (?:do|will)\b",
    r"\b(?:i|we)(?: do| will)* (?:see|sell|take)\b|\b(?:see|seen)\b|^see|see",
    r"\$?\d+ (?:is|isn)|h+m+|is|isn|(?:is|sk)+y|(?:k|s)?i",
    r"\bmy (?:\w+ )?(?:key|kiss)\b|[ks]i|(?:ki|\d) \(x\)|ki\|s",
    r"(?:a|ab)(?:c|bcd)(?:d*)|ab|a",
    r"k|ki|kis|kiss|s|si|i|is",
)
PIECES = (
    *"kKsSiIaAbBcCdD ", "\u212a", "ſ", "İ", "ı", "\n", "one", "two", "Three", "ten", "hundred",
    "kilo", "six", " and ", "it is ", "that is ", "a ", "an ", "deal", "Sale", "i ", "we", " do",
    " will", " see", " sell", "seen", "$", "7", "hm", "my ", "key", "kiss", "(x)", "|", "-", "is",
)  # fmt: skip


def spans(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    return [found.span() for found in pattern.finditer(text)]


@pytest.mark.parametrize("any_case", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_it_matches_the_same_texts_at_the_same_places(pattern, any_case):
    plain = re.compile(pattern, re.IGNORECASE if any_case else 0)
    grouped, rng = compile_pattern(pattern, any_case=any_case), random.Random(pattern)
    for _ in range(1500):
        text = "".join(rng.choices(PIECES, k=rng.randrange(1, 12)))
        assert spans(grouped, text) == spans(plain, text), text


@pytest.mark.parametrize("name", ["reading", "conduct"])
def test_lexicons_match_the_same_lines_at_the_same_places(name):
    lexicon, rng = Lexicon(name), random.Random(name)
    words = [word for line in LINES for word in line.lower().split()]
    texts = [" ".join(rng.choices(words, k=rng.randrange(1, 14))) for _ in range(300)]
    texts += rng.sample([line.lower() for line in LINES], 300)
    for entry in table(f"sotopia/{name}.toml"):
        plain, phrases = re.compile(lexicon.plain(entry)), lexicon.phrases(entry)
        pieces = [" ".join(re.findall(r"[a-z]+|\W", plain.pattern)[at:][:9]) for at in range(200)]
        for text in (*texts, *pieces):
            assert spans(lexicon.pattern(entry), text) == spans(plain, text), (entry, text)
            expected, found = plain.search(text), phrases.search(text, split_words(text))
            assert (found and found.span()) == (expected and expected.span()), (entry, text)


def test_words_of_a_pattern_and_of_a_text():
    assert Phrases(r"\bdeal|\b(?:no|not) sale\b").needed == ({"sale"}, ("deal",))
    assert Phrases(r"^(?:it is )?sold(?: to you)*$|\bcolou?rs\b").needed[0] == {
        "sold", "colors", "colours",
    }  # fmt: skip
    assert Phrases(r"\d+|\bdeal\b").needed == (set(), ("",))  # a number needs no word
    assert Phrases(r"\b\w+er than you\b").needed == ({"than"}, ())
    assert split_words("Isn't 7th_heaven O.K.?") == ["isn", "t", "7th", "heaven", "o", "k"]
    assert split_words("o\u212a") is None
    assert can_have(frozenset({"ok"}), None)
