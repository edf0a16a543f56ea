"""A game file as tables: what the PDDL problem says, read once and shared by every episode of it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from agent_envs.assets import BadAsset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

SHORT_NAMES = {
    "pick": "pick_and_place_simple",
    "look": "look_at_obj_in_light",
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
    "pick2": "pick_two_obj_and_place",
}
LEVELS = {"L0": ("pick", "look"), "L1": ("clean", "heat"), "L2": ("cool", "pick2")}
"""MGR's difficulty splits (appendix A.5)."""
LEVEL_OF = {SHORT_NAMES[short]: level for level, shorts in LEVELS.items() for short in shorts}

KEYS = ("pddl_domain", "grammar", "pddl_problem", "walkthrough")
ABILITIES = ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable")
PROPERTIES = ("isclean", "ishot", "iscool", "issliced", "istoggled")
_TOKEN = re.compile(r";[^\n]*|[()]|[^\s();]+")
_TASK = re.compile(r'"(Your task is to: [^"]*)"')

Tree = list[Any]


@dataclass(frozen=True)
class Goal:
    """What wins: `count` things of a type, with `needs` true of them, in a receptacle of a type.

    With `lamp`, winning is to hold the thing where a lamp of that type is on.
    """

    thing: str
    place: str = ""
    needs: str = ""
    count: int = 1
    lamp: str = ""


@dataclass(frozen=True)
class Game:
    """The tables of one game; receptacles and objects are numbers in the order of their ids.

    `receptacle_*` and `object_*` are parallel; `spot` is the location of a receptacle (-1 for none)
    and `lies_at` the locations where the problem says an object is. Types are lower-case PDDL names
    such as "fridgetype". `able` and `initially` hold one set of objects for each of `ABILITIES` and
    `PROPERTIES`.
    """

    task_id: str
    task_type: str
    task: str
    walkthrough: tuple[str, ...]
    receptacle_ids: tuple[str, ...]
    receptacle_names: tuple[str, ...]
    receptacle_types: tuple[str, ...]
    spot: tuple[int, ...]
    openable: frozenset[int]
    opened: frozenset[int]
    object_ids: tuple[str, ...]
    object_names: tuple[str, ...]
    object_types: tuple[str, ...]
    contents: tuple[tuple[int, ...], ...]
    lies_at: tuple[frozenset[int], ...]
    start: int
    locations: tuple[str, ...]
    fits: frozenset[tuple[str, str]]
    able: Mapping[str, frozenset[int]]
    initially: Mapping[str, frozenset[int]]
    vessels: Mapping[int, tuple[int, ...]]
    goal: Goal

    @property
    def level(self) -> str:
        """MGR's level of the task's type, "" for another type."""
        return LEVEL_OF.get(self.task_type, "")

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that tell this room's things from those of another room."""
        ids = "\n".join((*self.receptacle_ids, "", *self.object_ids))
        return blake2b(ids.encode(), digest_size=16).digest()

    @cached_property
    def go(self) -> dict[str, int]:
        """Receptacle of each `go to` command, in the order of the commands."""
        pairs = zip(self.receptacle_names, range(len(self.spot)), strict=True)
        commands = {f"go to {name}": place for name, place in pairs if self.spot[place] >= 0}
        return dict(sorted(commands.items()))

    @cached_property
    def go_from(self) -> dict[int, list[str]]:
        """The `go to` commands that are possible at each location, in order."""
        return {
            spot: [command for command, place in self.go.items() if self.spot[place] != spot]
            for spot in range(-1, len(self.locations))
        }

    @cached_property
    def places_at(self) -> dict[int, list[int]]:
        """Receptacles at each location, in the order of their ids."""
        places: dict[int, list[int]] = {spot: [] for spot in range(-1, len(self.locations))}
        for place, spot in enumerate(self.spot):
            if spot >= 0:
                places[spot].append(place)
        return places


def parse_game(data: Mapping[str, Any], task_id: str, source: str) -> Game:
    """The game in a `game.tw-pddl` mapping; `source` names the file in errors.

    Raises:
        BadAsset: a missing key, broken PDDL, or a problem that lacks what a game needs.
    """
    for key in KEYS:
        if key not in data:
            raise BadAsset(f"{source}: no key {key!r}; a game.tw-pddl file has {', '.join(KEYS)}")
    task = _TASK.search(data["grammar"])
    if task is None:
        raise BadAsset(f"{source}: the grammar has no line 'Your task is to: …'")
    try:
        sections = {part[0]: part[1:] for part in read_pddl(data["pddl_problem"])[1:] if part}
        return _build(sections, task[1], tuple(data["walkthrough"]), task_id)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise BadAsset(f"{source}: broken PDDL problem: {error!s:.300}") from error


def load_game(path: Path, task_id: str = "") -> Game:
    """The game in a file; see `parse_game`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadAsset(f"{path}: not a JSON game file: {error}; fetch it again") from error
    if not isinstance(data, dict):
        raise BadAsset(f"{path}: holds {type(data).__name__}, a game file holds a JSON object")
    return parse_game(data, task_id or "/".join(path.parts[-3:-1]), str(path))


def read_pddl(text: str) -> Tree:
    """The first parenthesised expression in `text`, lower-cased, as nested lists.

    Raises:
        ValueError: unbalanced parentheses, with the line of the one left open or closed too often.
    """
    stack: list[Tree] = [[]]
    opened: list[int] = []
    for token in _TOKEN.finditer(text.lower()):
        word = token[0]
        if word == "(":
            stack.append([])
            opened.append(token.start())
        elif word == ")":
            if not opened:
                raise ValueError(f"')' without '(' at line {_line(text, token.start())}")
            opened.pop()
            done = stack.pop()
            stack[-1].append(done)
        elif word[0] != ";":
            stack[-1].append(word)
    if opened:
        raise ValueError(f"'(' at line {_line(text, opened[-1])} is never closed")
    if not stack[0] or not isinstance(stack[0][0], list):
        raise ValueError("no expression in parentheses")
    found: Tree = stack[0][0]
    return found


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _build(
    sections: Mapping[str, Tree], task: str, walkthrough: tuple[str, ...], task_id: str
) -> Game:
    kinds = dict(_typed(_section(sections, ":objects")))
    facts = _Facts(_section(sections, ":init"), kinds)
    names = _names(kinds)
    places, things, spots = facts.ids("receptacle"), facts.ids("object"), facts.ids("location")
    spot_of = dict(facts.pairs("receptacleatlocation"))
    place_type, thing_type = dict(facts.pairs("receptacletype")), dict(facts.pairs("objecttype"))
    agent = facts.pairs("atlocation")
    if len(agent) != 1:
        raise ValueError(f"the agent must be at one location, got {agent}")
    within = facts.groups("inreceptacle")
    lies = facts.groups("objectatlocation", key=0)
    vessels = facts.groups("inreceptacleobject")
    spot_number = {spot: number for number, spot in enumerate(spots)}
    number = {thing: i for i, thing in enumerate(things)}
    marked = {name: frozenset(number[i] for i in facts.marked(name, "object")) for name in _MARKS}
    return Game(
        task_id=task_id,
        task_type=task_id.rpartition("/")[0].rpartition("/")[2].partition("-")[0],
        task=task,
        walkthrough=walkthrough,
        receptacle_ids=tuple(places),
        receptacle_names=tuple(names[place] for place in places),
        receptacle_types=tuple(place_type.get(place, "") for place in places),
        spot=tuple(spot_number[spot_of[p]] if p in spot_of else -1 for p in places),
        openable=frozenset(places.index(i) for i in facts.marked("openable", "receptacle")),
        opened=frozenset(places.index(i) for i in facts.marked("opened", "receptacle")),
        object_ids=tuple(things),
        object_names=tuple(names[thing] for thing in things),
        object_types=tuple(thing_type.get(thing, "") for thing in things),
        contents=tuple(tuple(sorted({number[i] for i in within.get(p, ())})) for p in places),
        lies_at=tuple(frozenset(spot_number[i] for i in lies.get(t, ())) for t in things),
        start=spot_number[agent[0][1]],
        locations=tuple(spots),
        fits=frozenset(facts.pairs("cancontain")),
        able={name: marked[name] for name in ABILITIES},
        initially={name: marked[name] for name in PROPERTIES},
        vessels={
            i: tuple(sorted(number[inner] for inner in vessels.get(things[i], ())))
            for i in sorted(marked["isreceptacleobject"])
        },
        goal=_goal(_section(sections, ":goal")),
    )


_MARKS = (*ABILITIES, *PROPERTIES, "isreceptacleobject")


class _Facts:
    """The `:init` section by predicate, each argument checked against the declared objects."""

    def __init__(self, init: Tree, kinds: Mapping[str, str]) -> None:
        self.kinds = kinds
        self.of: dict[str, list[list[str]]] = {}
        for fact in init:
            if not isinstance(fact, list) or not fact:
                raise ValueError(f"expected a fact in :init, got {fact!r}")
            name, *arguments = fact
            if name == "=":
                continue  # action costs
            for argument in arguments:
                if argument not in kinds:
                    raise ValueError(
                        f"fact ({' '.join(map(str, fact))}) names undeclared {argument!r}"
                    )
            self.of.setdefault(name, []).append(arguments)

    def ids(self, kind: str) -> list[str]:
        return sorted(i for i, declared in self.kinds.items() if declared == kind)

    def marked(self, name: str, kind: str) -> list[str]:
        return [
            arguments[0] for arguments in self.of.get(name, ()) if self.kinds[arguments[0]] == kind
        ]

    def pairs(self, name: str) -> list[tuple[str, str]]:
        pairs = []
        for arguments in self.of.get(name, ()):
            if len(arguments) != 2:  # noqa: PLR2004
                raise ValueError(f"{name} takes two arguments, got {arguments}")
            pairs.append((arguments[0], arguments[1]))
        return pairs

    def groups(self, name: str, key: int = 1) -> dict[str, list[str]]:
        """The other argument of each fact by its argument number `key`."""
        groups: dict[str, list[str]] = {}
        for pair in self.pairs(name):
            groups.setdefault(pair[key], []).append(pair[1 - key])
        return groups


def _section(sections: Mapping[str, Tree], name: str) -> Tree:
    if name not in sections:
        raise ValueError(f"no section {name}")
    return sections[name]


def _typed(declarations: Tree) -> Iterator[tuple[str, str]]:
    """(name, type) of a typed list such as `a b - object c - location`."""
    waiting: list[str] = []
    words = iter(declarations)
    for word in words:
        if word != "-":
            waiting.append(word)
            continue
        kind = next(words, None)
        if kind is None:
            raise ValueError(f"no type after '-' for {', '.join(waiting)}")
        yield from ((name, kind) for name in waiting)
        waiting = []
    if waiting:
        raise ValueError(f"no type for {', '.join(waiting)}")


def _names(ids: Iterable[str]) -> dict[str, str]:
    """What the agent reads for an id: its type and a number that counts down through the ids."""
    groups: dict[str, list[str]] = {}
    for full in sorted(ids):
        kind, _, rest = full.partition("_bar_")
        groups.setdefault(f"{kind}basin" if "basin" in rest else kind, []).append(full)
    return {
        full: f"{kind} {len(group) - place}"
        for kind, group in groups.items()
        for place, full in enumerate(group)
    }


def _goal(section: Tree) -> Goal:
    """The goal of one of ALFRED's six templates, by the facts it asks for."""
    facts = list(_atoms(section))
    thing_types = {fact[1]: fact[2] for fact in facts if fact[0] == "objecttype"}
    place_types = [fact[2] for fact in facts if fact[0] == "receptacletype"]
    needs = sorted({fact[0] for fact in facts} & {"isclean", "ishot", "iscool", "issliced"})
    if not thing_types or len(needs) > 1:
        raise ValueError(
            f"the goal must ask for an objectType and at most one property, got {facts}"
        )
    toggled = [fact[1] for fact in facts if fact[0] == "istoggled"]
    if toggled:
        held = next(fact[2] for fact in facts if fact[0] == "holds")
        return Goal(thing_types[held], lamp=thing_types[toggled[0]])
    if not place_types or len(set(thing_types.values())) > 1:
        raise ValueError(f"the goal must put one objectType in one receptacleType, got {facts}")
    return Goal(
        next(iter(thing_types.values())),
        place_types[0],
        needs[0] if needs else "",
        len(thing_types),
    )


def _atoms(tree: Tree) -> Iterator[list[str]]:
    """The facts in a goal, negated ones left out."""
    for part in tree:
        if isinstance(part, list) and part and part[0] != "not":
            if all(isinstance(word, str) for word in part):
                yield part
            else:
                yield from _atoms(part)
