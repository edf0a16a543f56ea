"""Patterns of many alternatives: grouped by first letters, searched only where they can match.

`re` tries the alternatives of a pattern one after the other at every place of a text. It skips one
at once only if it begins with a letter or a set of letters. So what all alternatives begin with
(a word's edge, `^`) is put before them, groups at their beginnings are multiplied out, and those
that begin alike become one. The rewritten pattern matches the same texts at the same places:
alternatives change their order only where at most one of them can match.

`Phrases` also knows words of which every match has one: of each alternative the run of letters that
is hardest to meet. A text with none of them is not searched. `Lexicon` reads both from a file.

Left out: flags, groups with names and groups that capture, which may be multiplied.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import groupby

from agent_envs.assets import table

_SPECIAL = frozenset(r"\.^$*+?{}[]|()")
_GROUP = "(?:"
_WORD = r"\b"
_ANCHORS = (_WORD, "^")
_CASES = {"i": "iIİı", "k": "kK\u212a", "s": "sSſ"}  # as `re.IGNORECASE` has it
_LONGEST = 1500  # letters that multiplying out a group may add

Alternative = tuple[str, str]
"""A first letter, "" where there is none that is known, and what follows it."""


def compile_pattern(pattern: str, *, any_case: bool = False) -> re.Pattern[str]:
    """A pattern in which `|`, groups and letters mean what they always do, compiled."""
    return re.compile(index_pattern(pattern, any_case=any_case), re.IGNORECASE if any_case else 0)


def index_pattern(pattern: str, *, any_case: bool = False) -> str:
    """The pattern with its alternatives grouped by anchor and first letter."""
    runs: list[tuple[str, list[Alternative]]] = []
    for part in _flatten(pattern):
        anchor = next((one for one in _ANCHORS if part.startswith(one)), "")
        if not runs or runs[-1][0] != anchor:
            runs.append((anchor, []))
        runs[-1][1].extend(_split_heads(part.removeprefix(anchor)))
    found = []
    for words, some in groupby(runs, key=_is_word_start):
        parts = [
            f"{'' if words and anchor == _WORD else anchor}(?:{_group_heads(heads, any_case)})"
            for anchor, heads in some
        ]
        found.append(f"{_WORD}(?:{'|'.join(parts)})" if words else "|".join(parts))
    return "|".join(found)


def _is_word_start(run: tuple[str, list[Alternative]]) -> bool:
    """Whether a word begins wherever one of these alternatives matches."""
    anchor, heads = run
    return anchor == _WORD or (anchor == "^" and all(letter.isalnum() for letter, _ in heads))


def _flatten(pattern: str) -> list[str]:
    """The alternatives of a pattern; one that is but a group is those of the group."""
    found = []
    for part in _split(pattern):
        end = _find_end(part) if part.startswith(_GROUP) else -1
        found += _flatten(part[len(_GROUP) : end - 1]) if end == len(part) else [part]
    return found


def _split(pattern: str) -> list[str]:
    """A pattern's alternatives."""
    parts, depth, start = [], 0, 0
    for place, sign in _find_signs(pattern):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and not depth:
            parts.append(pattern[start:place])
            start = place + 1
    return [*parts, pattern[start:]]


def _find_end(pattern: str) -> int:
    """Where the group that a pattern begins with has ended."""
    depth = 0
    for place, sign in _find_signs(pattern):
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return place + 1
    raise ValueError(f"a group of this pattern does not end: {pattern!r:.60}")


def _find_signs(pattern: str) -> list[tuple[int, str]]:
    """Brackets and bars of a pattern with their places, those in sets and escaped ones left out."""
    found = re.finditer(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|([()|])", pattern, re.DOTALL)
    return [(one.start(1), one[1]) for one in found if one[1]]


def _split_heads(part: str) -> list[Alternative]:
    """An alternative as several that begin with a letter, as far as they do."""
    if part.startswith(_GROUP):
        end = _find_end(part)
        inner, sign, rest = part[len(_GROUP) : end - 1], part[end : end + 1], part[end:]
        lazy = part[end + 1 : end + 2] in ("?", "+")
        if sign not in ("?", "*", "+", "{"):
            return _multiply_out(part, inner, rest)
        if sign == "?" and not lazy:
            return _multiply_out(part, inner, rest[1:], [*_split_heads(rest[1:])])
    elif part and part[0] not in _SPECIAL and part[1:2] not in ("?", "*", "+", "{"):
        return [(part[0], part[1:])]
    elif part and part[0] not in _SPECIAL and part[1:2] == "?" and part[2:3] not in ("?", "+"):
        return [(part[0], part[2:]), *_split_heads(part[2:])]
    return [("", part)]


def _multiply_out(
    part: str, inner: str, rest: str, without: list[Alternative] | None = None
) -> list[Alternative]:
    """A group and what follows it as alternatives; `without` are those without the group."""
    heads = [head for one in _split(inner) for head in _split_heads(one)]
    made = [
        (letter, f"(?:{'|'.join(tails)}){rest}")
        for run in _group_runs(heads)
        for letter, tails in run.items()
    ]
    if len(made) * len(rest) > _LONGEST:
        return [("", part)]
    return made + (without or [])


def _group_heads(heads: list[Alternative], any_case: bool) -> str:
    """Alternatives with those together that begin with the same letter."""
    return "|".join(
        f"{_write_letter(letter, any_case)}{_join_tails(tails, any_case)}"
        if letter
        else "|".join(tails)
        for run in _group_runs(heads)
        for letter, tails in run.items()
    )


def _group_runs(heads: list[Alternative]) -> list[dict[str, list[str]]]:
    """What follows each first letter, in runs between alternatives without one."""
    runs: list[dict[str, list[str]]] = [{}]
    for letter, tail in heads:
        if runs[-1] and (not letter) != ("" in runs[-1]):
            runs.append({})
        runs[-1].setdefault(letter, []).append(tail)
    return runs


def _join_tails(tails: list[str], any_case: bool) -> str:
    if len(tails) == 1:
        return tails[0]
    return f"(?:{_group_heads([_plain(tail) for tail in _flatten('|'.join(tails))], any_case)})"


def _plain(tail: str) -> Alternative:
    """A tail as an alternative that begins with a letter, if it plainly does."""
    plain = tail and tail[0] not in _SPECIAL and tail[1:2] not in ("?", "*", "+", "{")
    return (tail[0], tail[1:]) if plain else ("", tail)


def _write_letter(letter: str, any_case: bool) -> str:
    if not any_case or letter.lower() == letter.upper():
        return letter
    return f"(?-i:[{_CASES.get(letter.lower(), letter.lower() + letter.upper())}])"


_LETTERS = bytes(ord(chr(i).lower()) if chr(i).isalnum() else 32 for i in range(128)).ljust(256)
_TOKEN = re.compile(
    r"\(\?(?:[:=!]|<[=!])|[?*+][?+]?|\{[\d,]+\}[?+]?|\\.|\[\^?\]?(?:\\.|[^]\\])*\]|.", re.DOTALL
)
_SETS = re.compile(r"\[(?:[^\\a-zA-Z0-9^]|\\[s.])*\]")  # sets without letters
_SIGNS = frozenset((r"\b", r"\s", r"\W", r"\.", r"\$", *"^$ ,;:'\"!?-"))
_OPTIONAL = ("?", "*", "{0", "{,")
_REPEATED = ("*", "+", "{")
_MOST = 2000  # runs of letters that are followed at once
_FEW = 4  # letters of a part of a word that is rare
_RARE = 0.05  # how often a word is met that is not one of these, the most common first
_COMMON = (
    "i you the a it is to that for of and can not have in my me do be we your this with are on "
    "like will what would at so no if about how just all was one as but from or too an much more "
    "price want get know take think good give need let say could there then they he she who when "
    "out up go make keep help us am has had by work find should last end than must ask live now "
    "right way next use any very"
)
_OFTEN = {word: 100 / (2 + rank) for rank, word in enumerate(_COMMON.split())}

Tree = list["Sequence"]
Sequence = list[tuple["str | Tree", str]]
"""A pattern's alternatives, and one: signs and groups, each with its repetition."""
Runs = frozenset[str]
"""Runs of letters; `*` before or behind one means that it may be part of a longer one."""
_UNKNOWN, _NONE = Runs({"*"}), Runs({""})


def split_words(text: str) -> list[str] | None:
    """The runs of letters of a text in lower case; None if it has others than those of ASCII."""
    return text.encode().translate(_LETTERS).decode().split() if text.isascii() else None


def can_have(wanted: frozenset[str], words: list[str] | None) -> bool:
    """Whether a text with these words (`words_of` it) may have a wanted one in any case."""
    return words is None or not wanted.isdisjoint(words)


class Phrases:
    """A pattern that is searched only in texts that have one of its words."""

    def __init__(self, plain: str) -> None:
        self._plain = plain

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return compile_pattern(self._plain)

    @cached_property
    def needed(self) -> tuple[frozenset[str], tuple[str, ...]]:
        """Words and parts of words; every match has at least one."""
        needed = _find_needed(self._plain)
        parts = {run.strip("*") for run in needed if "*" in run}
        return needed - {run for run in needed if "*" in run}, tuple(sorted(parts))

    def search(self, text: str, words: list[str] | None) -> re.Match[str] | None:
        """The first match in a text; `words` are `words_of` it or of a longer text with it."""
        if words is not None:
            whole, parts = self.needed
            if whole.isdisjoint(words) and not (parts and any(map(text.__contains__, parts))):
                return None
        return self.pattern.search(text)


def _find_needed(pattern: str) -> Runs:
    """Runs of letters of which every match has one; `*` alone where there are none."""
    tree = _parse_tree(_TOKEN.findall(pattern)[::-1])
    return _follow_alternatives(tree, _UNKNOWN)[0] or _UNKNOWN


def _parse_tree(tokens: list[str]) -> Tree:
    """The tree of reversed tokens, up to the end of a group."""
    tree: Tree = [[]]
    while tokens:
        sign = tokens.pop()
        if sign == ")":
            break
        if sign == "|":
            tree.append([])
        elif sign[0] in "?*+{":
            tree[-1][-1] = tree[-1][-1][0], sign
        elif sign[0] != "(":
            tree[-1].append((sign, ""))
        else:
            group = _parse_tree(tokens)
            if sign in ("(", "(?:"):
                tree[-1].append((group, ""))
    return tree


def _follow_alternatives(
    tree: Tree, runs: Runs, *, closed: bool = False
) -> tuple[Runs | None, Runs]:
    """What each alternative needs, None if one needs nothing, and the runs that go on behind.

    closed: whether runs surely end behind them.
    """
    made = [_follow_sequence(sequence, runs, closed=closed) for sequence in tree]
    needs = [need for need, _ in made if need is not None]
    needed = Runs().union(*needs) if len(needs) == len(made) else None
    return needed, Runs().union(*[after for _, after in made])


def _follow_sequence(sequence: Sequence, runs: Runs, *, closed: bool) -> tuple[Runs | None, Runs]:
    """The runs of which a sequence needs one, the rarest, and the runs that go on behind it."""
    found: list[Runs | None] = []
    for place, (item, times) in enumerate(sequence):
        ends = _has_end(sequence[place + 1 :])
        need, after = _follow_item(item, runs, closed=ends and not times)
        if times.startswith(_REPEATED) and not _follow_item(item, after)[1] <= after:
            need, after = need or _open_runs(after), _repeat(item)
        if times.startswith(_OPTIONAL):
            need, after = None, after | runs
        if len(after) > _MOST:
            need, after = need or _open_runs(after), _UNKNOWN
        found += need, _end_runs(after) if ends else None
        runs = after
    found.append(_end_runs(runs) if closed else _open_runs(runs))
    return min(filter(None, found), key=_estimate_frequency, default=None), runs


def _follow_item(item: str | Tree, runs: Runs, *, closed: bool = False) -> tuple[Runs | None, Runs]:
    """The runs that end with a sign or within a group, and those that go on behind it."""
    if isinstance(item, list):
        return _follow_alternatives(item, runs, closed=closed)
    letters = _list_letters(item)
    if letters:
        return None, Runs(run + letter for run in runs for letter in letters)
    if item in _SIGNS or _SETS.fullmatch(item):
        return _end_runs(runs), _NONE
    return _open_runs(runs), _UNKNOWN


def _list_letters(item: str | Tree) -> str:
    """The letters of which an item is one; "" if it is something else."""
    if not isinstance(item, str) or not item.isascii():
        return ""
    letters = item[1:-1] if item.startswith("[") else item
    return letters.lower() if letters.isalnum() else ""


def _repeat(item: str | Tree) -> Runs:
    """The runs that go on behind a repeated item."""
    return Runs(f"*{letter}" for letter in _list_letters(item)) or _UNKNOWN


def _has_end(rest: Sequence) -> bool:
    """Whether a run has surely ended where this follows."""
    for item, times in rest:
        if isinstance(item, str) and item not in _SIGNS and not _SETS.fullmatch(item):
            return False
        if isinstance(item, list) and not all(one and _has_end(one) for one in item):
            return False
        if not times.startswith(_OPTIONAL):
            return True
    return False


def _end_runs(runs: Runs) -> Runs | None:
    """Runs that have ended; None if there may be no run."""
    return runs if runs.isdisjoint(("", "*")) else None


def _open_runs(runs: Runs) -> Runs | None:
    """Runs that may be longer; None if there may be no run."""
    return Runs(f"{run}*" for run in runs) if runs.isdisjoint(("", "*")) else None


def _estimate_frequency(runs: Runs) -> float:
    """How often one of these runs is met, estimated."""
    parts = [run.strip("*") for run in runs if "*" in run]
    words = sum(_OFTEN.get(run, _RARE) for run in runs if "*" not in run)
    return words + sum(1.0 if len(part) >= _FEW else 100 / len(part) for part in parts)


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

    def pattern(self, name: str) -> re.Pattern[str]:
        """An entry as a compiled pattern."""
        return compile_pattern(self.plain(name))

    def phrases(self, name: str) -> Phrases:
        """An entry as phrases."""
        return Phrases(self.plain(name))

    def plain(self, name: str) -> str:
        """An entry as one pattern, its alternatives as they are written."""
        lines = self._entries[name].splitlines()
        text = "|".join(line.removeprefix("|") for line in lines)
        return f"(?:{re.sub(r'{([a-z_]+)}', lambda part: self.plain(part[1]), text)})"
