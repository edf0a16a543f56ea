"""Patterns of many alternatives, rewritten so that few are tried: grouped by their first letters.

`re` tries the alternatives of a pattern one after the other at every place of a text. It skips one
at once only if it begins with a letter or a set of letters. So what all alternatives begin with
(a word's edge, `^`) is put before them, groups at their beginnings are multiplied out, and those
that begin alike become one. The rewritten pattern matches the same texts at the same places:
alternatives change their order only where at most one of them can match.

Left out: patterns with groups that capture, which may be multiplied.
"""

from __future__ import annotations

import re
from itertools import groupby

_SPECIAL = frozenset(r"\.^$*+?{}[]|()")
_GROUP = "(?:"
_WORD = r"\b"
_ANCHORS = (_WORD, "^")
_CASES = {"i": "iIİı", "k": "kK\u212a", "s": "sSſ"}  # as `re.IGNORECASE` has it
_LONGEST = 1500  # letters that multiplying out a group may add

Alternative = tuple[str, str]
"""A first letter, "" where there is none that is known, and what follows it."""


def compiled(pattern: str, *, any_case: bool = False) -> re.Pattern[str]:
    """A pattern in which `|`, groups and letters mean what they always do, compiled."""
    return re.compile(indexed(pattern, any_case=any_case), re.IGNORECASE if any_case else 0)


def indexed(pattern: str, *, any_case: bool = False) -> str:
    """The pattern with its alternatives grouped by anchor and first letter."""
    runs: list[tuple[str, list[Alternative]]] = []
    for part in _flat(pattern):
        anchor = next((one for one in _ANCHORS if part.startswith(one)), "")
        if not runs or runs[-1][0] != anchor:
            runs.append((anchor, []))
        runs[-1][1].extend(_headed(part.removeprefix(anchor)))
    found = []
    for words, some in groupby(runs, key=_begins_words):
        parts = [
            f"{'' if words and anchor == _WORD else anchor}(?:{_grouped(heads, any_case)})"
            for anchor, heads in some
        ]
        found.append(f"{_WORD}(?:{'|'.join(parts)})" if words else "|".join(parts))
    return "|".join(found)


def _begins_words(run: tuple[str, list[Alternative]]) -> bool:
    """Whether a word begins wherever one of these alternatives matches."""
    anchor, heads = run
    return anchor == _WORD or (anchor == "^" and all(letter.isalnum() for letter, _ in heads))


def _flat(pattern: str) -> list[str]:
    """The alternatives of a pattern; one that is but a group is those of the group."""
    found = []
    for part in _split(pattern):
        end = _end(part) if part.startswith(_GROUP) else -1
        found += _flat(part[len(_GROUP) : end - 1]) if end == len(part) else [part]
    return found


def _split(pattern: str) -> list[str]:
    """A pattern's alternatives."""
    parts, depth, start = [], 0, 0
    for place, sign in _signs(pattern):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            parts.append(pattern[start:place])
            start = place + 1
    return [*parts, pattern[start:]]


def _end(pattern: str) -> int:
    """Where the group that a pattern begins with has ended."""
    depth = 0
    for place, sign in _signs(pattern):
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return place + 1
    raise ValueError(f"a group of this pattern does not end: {pattern!r:.60}")


def _signs(pattern: str) -> list[tuple[int, str]]:
    """Brackets and bars of a pattern with their places, those in sets and escaped ones left out."""
    found = re.finditer(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|([()|])", pattern, re.DOTALL)
    return [(one.start(1), one[1]) for one in found if one[1]]


def _headed(part: str) -> list[Alternative]:
    """An alternative as several that begin with a letter, as far as they do."""
    if part.startswith(_GROUP):
        end = _end(part)
        inner, sign, rest = part[len(_GROUP) : end - 1], part[end : end + 1], part[end:]
        lazy = part[end + 1 : end + 2] in ("?", "+")
        if sign not in ("?", "*", "+", "{"):
            return _multiplied(part, inner, rest)
        if sign == "?" and not lazy:
            return _multiplied(part, inner, rest[1:], [*_headed(rest[1:])])
    elif part and part[0] not in _SPECIAL and part[1:2] not in ("?", "*", "+", "{"):
        return [(part[0], part[1:])]
    elif part and part[0] not in _SPECIAL and part[1:2] == "?" and part[2:3] not in ("?", "+"):
        return [(part[0], part[2:]), *_headed(part[2:])]
    return [("", part)]


def _multiplied(
    part: str, inner: str, rest: str, without: list[Alternative] | None = None
) -> list[Alternative]:
    """A group and what follows it as alternatives; `without` are those without the group."""
    heads = [head for one in _split(inner) for head in _headed(one)]
    made = [
        (letter, f"(?:{'|'.join(tails)}){rest}")
        for run in _runs(heads)
        for letter, tails in run.items()
    ]
    if len(made) * len(rest) > _LONGEST:
        return [("", part)]
    return made + (without or [])


def _grouped(heads: list[Alternative], any_case: bool) -> str:
    """Alternatives with those together that begin with the same letter."""
    return "|".join(
        f"{_letter(letter, any_case)}{_tails(tails, any_case)}" if letter else "|".join(tails)
        for run in _runs(heads)
        for letter, tails in run.items()
    )


def _runs(heads: list[Alternative]) -> list[dict[str, list[str]]]:
    """What follows each first letter, in runs between alternatives without one."""
    runs: list[dict[str, list[str]]] = [{}]
    for letter, tail in heads:
        if runs[-1] and (not letter) != ("" in runs[-1]):
            runs.append({})
        runs[-1].setdefault(letter, []).append(tail)
    return runs


def _tails(tails: list[str], any_case: bool) -> str:
    if len(tails) == 1:
        return tails[0]
    return f"(?:{_grouped([_plain(tail) for tail in _flat('|'.join(tails))], any_case)})"


def _plain(tail: str) -> Alternative:
    """A tail as an alternative that begins with a letter, if it plainly does."""
    plain = tail and tail[0] not in _SPECIAL and tail[1:2] not in ("?", "*", "+", "{")
    return (tail[0], tail[1:]) if plain else ("", tail)


def _letter(letter: str, any_case: bool) -> str:
    if not any_case or letter.lower() == letter.upper():
        return letter
    return f"(?-i:[{_CASES.get(letter.lower(), letter.lower() + letter.upper())}])"
