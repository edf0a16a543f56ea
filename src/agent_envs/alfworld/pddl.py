"""Problem: the PDDL problem of an ALFWorld game, parsed in full and checked against its domain.

Not parsed: the domain itself (its rules are in `world.World`), and PDDL that ALFWorld's problems do
not use (negation other than "two different objects", numbers other than travel costs).
"""

from __future__ import annotations

import re
from typing import Any

from agent_envs.assets import BadAsset

CLASSES = ("agent", "location", "receptacle", "object", "rtype", "otype")

_OBJECT_ONLY = """pickupable moveable cleanable heatable coolable toggleable sliceable isclean ishot
iscool issliced istoggled ison isreceptacleobject isreceptacleobjectfull"""

SIGNATURES = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "full": ("receptacle",),
    "checked": ("receptacle",),
    "examined": ("location",),
    "inreceptacle": ("object", "receptacle"),
    "wasinreceptacle": ("object", "receptacle"),
    "inreceptacleobject": ("object", "object"),
    "receptacletype": ("receptacle", "rtype"),
    "objecttype": ("object", "otype"),
    "cancontain": ("rtype", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    "holdsanyreceptacleobject": ("agent",),
    **dict.fromkeys(_OBJECT_ONLY.split(), ("object",)),
}
"""The domain's predicates -> the declared class of each argument."""

_LIST = re.compile(r"\(([^()]*)\)|([()]|[^\s()][^()]*)")  # a flat list, a parenthesis, words
_COMMENT = re.compile(r";[^\n]*")
_OPEN, _CLOSE = "()"

Node = list[Any]
"""A parsed list: the number of the match it starts with, then words and lists."""

Atom = tuple[str, ...]
"""A predicate and its arguments, lower-cased."""


class Problem:
    """A parsed problem, lower-cased: declared symbols, facts by predicate, atoms of the goal.

    symbols: declared name to its class, one of `CLASSES`.
    facts: per predicate of `SIGNATURES` the argument tuples, each once, in the file's order.
    goal: the atoms that must all hold; existential variables start with "?", and two that must
        differ are an atom "differ".

    Raises:
        BadAsset: the text is no such problem; names the source, line and column.
    """

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.text = text.lower()
        self._code = _COMMENT.sub(lambda comment: " " * len(comment[0]), self.text)
        self._sections = self._split_sections(self._parse_lists())
        self.symbols = self._read_symbols(self._sections["objects"])
        self.facts = self._read_facts(self._sections["init"])
        self.goal = self._read_goal(self._sections["goal"])

    def build_error(self, place: Node | int | str, message: str) -> BadAsset:
        """The error with line and column of a list, a match by its number, or a section."""
        place = self._sections[place] if isinstance(place, str) else place
        number = place if isinstance(place, int) else place[0]
        starts = (match.start() for match in _LIST.finditer(self._code))
        offset = next((at for count, at in enumerate(starts) if count == number), len(self.text))
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        where = f"{self.source}: key 'pddl_problem', line {line}, column {column}"
        return BadAsset(f"{where}: {message}; get the file again")

    def _parse_lists(self) -> Node:
        """The text as nested lists; there must be exactly one at the top."""
        current: Node = [0]
        top, stack = current, []
        for number, (words, token) in enumerate(_LIST.findall(self._code)):
            if token == _OPEN:
                inner: Node = [number]
                current.append(inner)
                stack.append(current)
                current = inner
            elif token == _CLOSE:
                if not stack:
                    raise self.build_error(number, "a ')' that closes nothing")
                current = stack.pop()
            elif token:
                current += token.split()
            else:
                current.append([number, *words.split()])
        if stack:
            raise self.build_error(current, "this '(' is never closed; the text may be truncated")
        match top[1:]:
            case [[_, "define", *_]]:
                return list(top[1])
        raise self.build_error(0, "expected one '(define (problem ...) ...)'")

    def _split_sections(self, define: Node) -> dict[str, Node]:
        sections: dict[str, Node] = {}
        for part in define[2:]:
            if isinstance(part, str) or not isinstance(next(iter(part[1:]), 0), str):
                raise self.build_error(
                    define, f"expected a list '(:section ...)', got {part!r:.60}"
                )
            sections[part[1].removeprefix(":")] = part
        for name in ("problem", "objects", "init", "goal"):
            if name not in sections:
                raise self.build_error(define, f"the problem has no section {name!r}")
        return sections

    def _read_symbols(self, section: Node) -> dict[str, str]:
        symbols: dict[str, str] = {}
        pending: list[str] = []
        words = iter(section[2:])
        for word in words:
            if not isinstance(word, str):
                raise self.build_error(word, "a list among the objects")
            if word != "-":
                pending.append(word)
                continue
            kind = next(words, None)
            if kind not in CLASSES:
                raise self.build_error(
                    section, f"{pending} are of type {kind!r}; known are {CLASSES}"
                )
            symbols.update(dict.fromkeys(pending, kind))
            pending = []
        if pending:
            raise self.build_error(section, f"{pending} have no type")
        return symbols

    def _read_facts(self, section: Node) -> dict[str, list[Atom]]:
        facts: dict[str, dict[Atom, None]] = {name: {} for name in SIGNATURES}
        kind_of = self.symbols.get
        for fact in section[2:]:
            _, name, *words = fact if isinstance(fact, list) and len(fact) > 1 else (0, "")
            if tuple(map(kind_of, map(str, words))) == SIGNATURES.get(str(name)):
                facts[name][tuple(words)] = None
            elif name != "=":  # the cost of travel, which no rule reads
                raise self._explain_misfit(fact, section)
        return {name: list(group) for name, group in facts.items()}

    def _explain_misfit(self, fact: Node | str, section: Node) -> BadAsset:
        """The error about an invalid fact."""
        if isinstance(fact, str) or len(fact) == 1 or isinstance(fact[1], list):
            return self.build_error(section, f"expected facts, got {fact!r:.60}")
        name, words = fact[1], fact[2:]
        if name not in SIGNATURES:
            known = ", ".join(SIGNATURES)
            return self.build_error(fact, f"unknown predicate {name!r:.60}; known are {known}")
        kinds = ", ".join(SIGNATURES[name])
        return self.build_error(
            fact, f"{name} takes declared names of ({kinds}), got {words!r:.160}"
        )

    def _read_goal(self, section: Node) -> list[Atom]:
        match section[2:]:
            case [[_, *_] as formula]:
                return self._flatten_formula(formula, {})
        raise self.build_error(section, "a goal is one formula")

    def _flatten_formula(self, formula: Node, variables: dict[str, str]) -> list[Atom]:
        """The atoms of nested `exists` and `and`; a variable is named after its quantifier."""
        match formula:
            case [_, "and", *parts] if all(isinstance(part, list) for part in parts):
                return [atom for part in parts for atom in self._flatten_formula(part, variables)]
            case [number, "exists", [_, *words], [_, *_] as body]:
                bound = {f"{w}": f"{w}@{number}" for w in words if str(w).startswith("?")}
                return self._flatten_formula(body, variables | bound)
            case [_, "not", [_, "=", str(one), str(other)]]:
                pair = sorted((variables.get(one, one), variables.get(other, other)))
                return [("differ", *pair)]
            case [_, str(name), *words] if all(isinstance(word, str) for word in words):
                if name not in SIGNATURES or len(words) != len(SIGNATURES[name]):
                    raise self._explain_misfit(formula, formula)
                return [(name, *(variables.get(word, word) for word in words))]
        raise self.build_error(
            formula, f"not a formula that ALFWorld's goals use: {formula[1:]!r:.80}"
        )
