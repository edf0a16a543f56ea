"""Phrases: a pattern, and words of which every match has one, so that most texts are not searched.

The words are found from the pattern: of each alternative the run of letters that is hardest to
meet. A text with none of them cannot match. Pattern and words are made when they are first used.

Left out: flags and groups with names within a pattern.
"""

from __future__ import annotations

import re
from functools import cached_property

from agent_envs.sotopia.indexed import compiled

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


def words_of(text: str) -> list[str] | None:
    """The runs of letters of a text in lower case; None if it has others than those of ASCII."""
    return text.encode().translate(_LETTERS).decode().split() if text.isascii() else None


def may_have(wanted: frozenset[str], words: list[str] | None) -> bool:
    """Whether a text with these words (`words_of` it) may have a wanted one in any case."""
    return words is None or not wanted.isdisjoint(words)


class Phrases:
    """A pattern that is searched only in texts that have one of its words."""

    def __init__(self, plain: str) -> None:
        self._plain = plain

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return compiled(self._plain)

    @cached_property
    def needed(self) -> tuple[frozenset[str], tuple[str, ...]]:
        """Words and parts of words; every match has at least one."""
        needed = _needed(self._plain)
        parts = {run.strip("*") for run in needed if "*" in run}
        return needed - {run for run in needed if "*" in run}, tuple(sorted(parts))

    def search(self, text: str, words: list[str] | None) -> re.Match[str] | None:
        """The first match in a text; `words` are `words_of` it or of a longer text with it."""
        if words is not None:
            whole, parts = self.needed
            if whole.isdisjoint(words) and not any(part in text for part in parts):
                return None
        return self.pattern.search(text)


def _needed(pattern: str) -> Runs:
    """Runs of letters of which every match has one; `*` alone where there are none."""
    tree = _tree(_TOKEN.findall(pattern)[::-1])
    return _alternatives(tree, _UNKNOWN)[0] or _UNKNOWN


def _tree(tokens: list[str]) -> Tree:
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
            group = _tree(tokens)
            if sign in ("(", "(?:"):
                tree[-1].append((group, ""))
    return tree


def _alternatives(tree: Tree, runs: Runs, *, closed: bool = False) -> tuple[Runs | None, Runs]:
    """What each alternative needs, None if one needs nothing, and the runs that go on behind.

    closed: whether runs surely end behind them.
    """
    made = [_sequence(sequence, runs, closed=closed) for sequence in tree]
    needs = [need for need, _ in made if need is not None]
    needed = Runs().union(*needs) if len(needs) == len(made) else None
    return needed, Runs().union(*[after for _, after in made])


def _sequence(sequence: Sequence, runs: Runs, *, closed: bool) -> tuple[Runs | None, Runs]:
    """The runs of which a sequence needs one, the rarest, and the runs that go on behind it."""
    found: list[Runs | None] = []
    for place, (item, times) in enumerate(sequence):
        ends = _follows(sequence[place + 1 :])
        need, after = _item(item, runs, closed=ends and not times)
        if times.startswith(_REPEATED) and not _item(item, after)[1] <= after:
            need, after = need or _open(after), _repeated(item)
        if times.startswith(_OPTIONAL):
            need, after = None, after | runs
        if len(after) > _MOST:
            need, after = need or _open(after), _UNKNOWN
        found += need, _ended(after) if ends else None
        runs = after
    found.append(_ended(runs) if closed else _open(runs))
    return min(filter(None, found), key=_met, default=None), runs


def _item(item: str | Tree, runs: Runs, *, closed: bool = False) -> tuple[Runs | None, Runs]:
    """The runs that end with a sign or within a group, and those that go on behind it."""
    if isinstance(item, list):
        return _alternatives(item, runs, closed=closed)
    letters = _letters(item)
    if letters:
        return None, Runs(run + letter for run in runs for letter in letters)
    if item in _SIGNS or _SETS.fullmatch(item):
        return _ended(runs), _NONE
    return _open(runs), _UNKNOWN


def _letters(item: str | Tree) -> str:
    """The letters of which an item is one; "" if it is something else."""
    if not isinstance(item, str) or not item.isascii():
        return ""
    letters = item[1:-1] if item.startswith("[") else item
    return letters.lower() if letters.isalnum() else ""


def _repeated(item: str | Tree) -> Runs:
    """The runs that go on behind a repeated item."""
    return Runs(f"*{letter}" for letter in _letters(item)) or _UNKNOWN


def _follows(rest: Sequence) -> bool:
    """Whether a run has surely ended where this follows."""
    for item, times in rest:
        if isinstance(item, str) and item not in _SIGNS and not _SETS.fullmatch(item):
            return False
        if isinstance(item, list) and not all(one and _follows(one) for one in item):
            return False
        if not times.startswith(_OPTIONAL):
            return True
    return False


def _ended(runs: Runs) -> Runs | None:
    """Runs that have ended; None if there may be no run."""
    return runs if runs.isdisjoint(("", "*")) else None


def _open(runs: Runs) -> Runs | None:
    """Runs that may be longer; None if there may be no run."""
    return Runs(f"{run}*" for run in runs) if runs.isdisjoint(("", "*")) else None


def _met(runs: Runs) -> float:
    """How often one of these runs is met, estimated."""
    parts = [run.strip("*") for run in runs if "*" in run]
    words = sum(_OFTEN.get(run, _RARE) for run in runs if "*" not in run)
    return words + sum(1.0 if len(part) >= _FEW else 100 / len(part) for part in parts)
