"""Words of a text as a search index keeps them: Lucene's English analyzer.

Word boundaries of UAX #29, possessives off, lower case, 33 stop words out, Porter's stemmer in its
author's last version. Left out: other languages, positions, offsets.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there
these they this to was will with
"""
LONGEST = 255  # characters of a token; a longer one is cut into pieces

_EMOJI = re.compile(
    "[\u203c\u2049\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u25aa"
    "\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615\u2618\u261d\u2620\u2622"
    "\u2623\u2626\u262a\u262e\u262f\u2638-\u263a\u2640\u2642\u2648-\u2653\u265f\u2660\u2663\u2665"
    "\u2666\u2668\u267b\u267e\u267f\u2692-\u2697\u2699\u269b\u269c\u26a0\u26a1\u26aa\u26ab\u26b0"
    "\u26b1\u26bd\u26be\u26c4\u26c5\u26c8\u26ce\u26cf\u26d1\u26d3\u26d4\u26e9\u26ea\u26f0-\u26f5"
    "\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712\u2714\u2716\u271d\u2721\u2728\u2733"
    "\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763\u2764\u2795-\u2797\u27a1\u27b0\u27bf"
    "\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3297\u3299\U0001f000-\U0001f3fa"
    "\U0001f400-\U0001faff]"
)
_SCRIPTS = {
    **dict.fromkeys(("CJK", "IDEOGRAPHIC"), "I"),
    "HIRAGANA": "R",
    **dict.fromkeys(("KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH KATAKANA"), "K"),
    **dict.fromkeys(("THAI", "LAO", "MYANMAR", "KHMER", "TAI"), "C"),
    "HEBREW": "H",
}
_PUNCTUATION = {
    **dict.fromkeys(":\u00b7\u0387\u055f\u05f4\u2027\ufe13\ufe55\uff1a", "m"),  # between letters
    **dict.fromkeys(",;\u037e\u0589\u060c\u060d\u066c\u07f8\u2044\ufe10\ufe14\uff0c\uff1b", "n"),
    "'": "s",
    **dict.fromkeys(".\u2018\u2019\u2024\ufe52\uff07\uff0e", "q"),  # between either
    '"': "d",
    "\u202f": "E",
    "\u200b": "o",
    "\u200d": "Z",
    **dict.fromkeys("\uff9e\uff9f", "X"),
}


_CATEGORIES = {"Pc": "E", "Nd": "N", **dict.fromkeys(("Mn", "Me", "Mc", "Cf"), "X")}
_MODIFIERS = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")  # skin tones


class _Classes(dict[int, str]):
    """The word-break class of each code point, worked out when first asked for."""

    def __missing__(self, code: int) -> str:
        found = self[code] = _class(chr(code))
        return found


def _class(char: str) -> str:
    """L letter, H Hebrew, N digit, K Katakana, E joiner, X extender, I and R one by one, ..."""
    if char in _PUNCTUATION:
        return _PUNCTUATION[char]
    category = unicodedata.category(char)
    if _EMOJI.match(char):
        return "F" if "\U0001f1e6" <= char <= "\U0001f1ff" else "M"  # F: half a flag
    if char in _MODIFIERS or category in _CATEGORIES:
        return _CATEGORIES.get(category, "X")
    if category[0] == "L" or category == "Nl" or "\u24b6" <= char <= "\u24e9":
        name = unicodedata.name(char, "").removeprefix("HALFWIDTH ")
        return _SCRIPTS.get(name.split(" ")[0], "L")
    return "o"


def _tokens() -> re.Pattern[str]:
    """Tokens in a string of classes."""
    letter = "(?:H[XZ]*(?:s[XZ]*|d[XZ]*(?=H))|[LH][XZ]*)"  # quotes stay with Hebrew
    digit, kana, joiner = "N[XZ]*", "K[XZ]*", "E[XZ]*"
    letters = f"(?:{letter}(?:(?:(?:{joiner})*|[mqs][XZ]*){letter})*)"
    digits = f"(?:{digit}(?:(?:(?:{joiner})*|[nqs][XZ]*){digit})*)"
    core = f"(?:{kana}(?:(?:{joiner})*{kana})*|(?:{digits}|{letters})+)"
    word = f"(?:{joiner})*{core}(?:(?:{joiner})+{core})*(?:{joiner})*"
    return re.compile(f"{word}|(?:C[XZ]*)+|[IR][XZ]*|F[XZ]*F[XZ]*|MX*(?:ZMX*)*Z?")


_STOPPED = frozenset(STOP_WORDS.split())
_CLASSES = _Classes()
_TOKENS = _tokens()


def words(text: str) -> list[str]:
    """The index terms of a text, in order."""
    classes = text.translate(_CLASSES)
    found = []
    for match in _TOKENS.finditer(classes):
        start, end = match.span()
        for at in range(start, end, LONGEST):
            word = _term(text[at : min(end, at + LONGEST)])
            if word:
                found.append(word)
    return found


@lru_cache(maxsize=1 << 17)
def _term(token: str) -> str:
    """The index term of a token; "" for a stop word."""
    if token[-2:-1] in {"'", "\u2019", "\uff07"} and token[-1] in "sS":
        token = token[:-2]
    if not token.isascii():
        token = "".join(low if len(low := char.lower()) == 1 else char for char in token)
    else:
        token = token.lower()
    return "" if token in _STOPPED else stem(token)


_STEPS_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize",
    "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful",
    "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEPS_3 = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}  # fmt: skip
_STEPS_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion",
    "ou", "ism", "ate", "iti", "ous", "ive", "ize",
)  # fmt: skip
_SHORTEST = 2  # words up to here stay
_VOWELS = frozenset("aeiou")


def stem(word: str) -> str:
    """Porter's stem of a lower-case word, with his later rules bli -> ble and logi -> log."""
    if len(word) <= _SHORTEST:
        return word
    word = _plural(word)
    word = _past(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _swap(_swap(word, _STEPS_2), _STEPS_3)
    return _tail(_drop(word))


def _shape(part: str) -> str:
    """Each letter as c or v; y is a vowel after a consonant."""
    shape = ""
    for char in part:
        vowel = char in _VOWELS or (char == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(part: str) -> int:
    """How often a consonant follows a vowel."""
    return _shape(part).count("vc")


def _short(part: str) -> bool:
    """Whether it ends consonant, vowel, consonant, the last not w, x or y."""
    return _shape(part).endswith("cvc") and part[-1] not in "wxy"


def _plural(word: str) -> str:
    if not word.endswith("s"):
        return word
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word if word.endswith("ss") else word[:-1]


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = next((e for e in ("ed", "ing") if word.endswith(e)), "")
    part = word[: len(word) - len(ending)]
    if not ending or "v" not in _shape(part):
        return word
    if part.endswith(("at", "bl", "iz")):
        return part + "e"
    if part[-2:-1] == part[-1:] and _shape(part).endswith("c"):
        return part if part[-1] in "lsz" else part[:-1]
    return part + "e" if _measure(part) == 1 and _short(part) else part


def _swap(word: str, steps: dict[str, str]) -> str:
    """The longest ending of `steps` that the word has, replaced if something is left before it."""
    for length in range(min(7, len(word)), 2, -1):
        ending = word[-length:]
        if ending in steps:
            part = word[:-length]
            return part + steps[ending] if _measure(part) > 0 else word
    return word


def _drop(word: str) -> str:
    ending = max((e for e in _STEPS_4 if word.endswith(e)), key=len, default="")
    if not ending:
        return word
    kept = 1 if ending in {"sion", "tion"} else 0
    part = word[: len(word) - len(ending) + kept]
    return part if _measure(part) > 1 else word


def _tail(word: str) -> str:
    if word.endswith("e"):
        count = _measure(word[:-1])
        if count > 1 or (count == 1 and not _short(word[:-1])):
            word = word[:-1]
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
