"""Game: one ALFWorld game read from its `game.tw-pddl`, as tables of small integers.

The PDDL problem is parsed in full (objects, facts, goal); the domain's rules are `world.World`.
Objects, receptacles and locations are numbered in the order of their lower-cased ids, which is the
order in which the genuine engine lists them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from agent_envs.assets import BadAsset, MissingAsset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SHORT_NAMES = {
    "pick": "pick_and_place_simple",
    "look": "look_at_obj_in_light",
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
    "pick2": "pick_two_obj_and_place",
}
"""Short name to the task type of the folder names."""

LEVELS = {"L0": ("pick", "look"), "L1": ("clean", "heat"), "L2": ("cool", "pick2")}
"""MGR's difficulty levels, by short name."""

KEYS = ("pddl_domain", "grammar", "pddl_problem", "walkthrough")

# Predicate: the declared type of each argument. What a problem may say about its start.
_SIGNATURES = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "inreceptacle": ("object", "receptacle"),
    "isreceptacleobject": ("object",),
    "inreceptacleobject": ("object", "object"),
    "isreceptacleobjectfull": ("object",),
    "wasinreceptacle": ("object", "receptacle"),
    "checked": ("receptacle",),
    "examined": ("location",),
    "receptacletype": ("receptacle", "rtype"),
    "cancontain": ("rtype", "otype"),
    "objecttype": ("object", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    "holdsanyreceptacleobject": ("agent",),
    "full": ("receptacle",),
    "isclean": ("object",),
    "cleanable": ("object",),
    "ishot": ("object",),
    "heatable": ("object",),
    "iscool": ("object",),
    "coolable": ("object",),
    "pickupable": ("object",),
    "moveable": ("object",),
    "toggleable": ("object",),
    "ison": ("object",),
    "istoggled": ("object",),
    "sliceable": ("object",),
    "issliced": ("object",),
}
_CLASSES = ("agent", "location", "receptacle", "object", "rtype", "otype")
_ABLE = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}
_DONE = {"clean": "isclean", "heat": "ishot", "cool": "iscool"}
_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")
_TASK = "Your task is to: "

Node = list[Any]
"""A parsed list: the number of its opening token, then words and lists."""


class Goal(NamedTuple):
    """What wins: `count` objects of a type, `treatment` done to them, in one receptacle of a type.

    treatment: "", "clean", "heat" or "cool".
    lamp: type of the lamp that must be on where the agent stands with the object in hand; then
        there is no receptacle type.
    """

    object_type: str
    receptacle_type: str = ""
    treatment: str = ""
    count: int = 1
    lamp: str = ""

    @property
    def task(self) -> str:
        """Short name of the task type."""
        if self.lamp:
            return "look"
        return self.treatment or ("pick2" if self.count > 1 else "pick")


@dataclass(frozen=True, eq=False)
class Game:
    """One game: its tables and its start. Immutable, shared by all its worlds.

    Objects, receptacles and locations are indices into `objects`, `receptacles` and `locations`,
    the names that players read ("mug 2"; locations, which they never read, "loc 7").

    task_id: "<source>/<split>/<task>/<trial>", as the caller named it.
    task: the task sentence, "put a clean mug in coffeemachine."
    object_type, receptacle_type: lower-cased PDDL symbols, "mugtype"; "" where none is given.
    place: location of each receptacle; `at` has the receptacles of each location.
    fits: the receptacles that can take each object.
    inner: what lies inside objects that can hold others; it never changes.
    contents: objects in each receptacle at the start. object_at: (object, location) at the start.
    props: per predicate ("isclean", "ishot", "iscool", "issliced", "istoggled", "ison") the
        objects for which it holds at the start.
    goal_objects, goal_receptacles, goal_lamps: indices that the goal's types name.
    key: digest of the ids, which tells games of different households apart.
    """

    task_id: str
    task: str
    goal: Goal
    walkthrough: tuple[str, ...]
    agent: str
    objects: tuple[str, ...]
    receptacles: tuple[str, ...]
    locations: tuple[str, ...]
    object_type: tuple[str, ...]
    receptacle_type: tuple[str, ...]
    place: tuple[int, ...]
    at: tuple[tuple[int, ...], ...]
    openable: frozenset[int]
    pickupable: frozenset[int]
    cleanable: frozenset[int]
    heatable: frozenset[int]
    coolable: frozenset[int]
    toggleable: frozenset[int]
    sliceable: frozenset[int]
    containers: frozenset[int]
    knives: frozenset[int]
    sinks: frozenset[int]
    microwaves: frozenset[int]
    fridges: frozenset[int]
    fits: tuple[frozenset[int], ...]
    inner: Mapping[int, tuple[int, ...]]
    start: int
    held: int
    contents: tuple[tuple[int, ...], ...]
    opened: frozenset[int]
    object_at: frozenset[tuple[int, int]]
    props: Mapping[str, frozenset[int]]
    goal_objects: frozenset[int]
    goal_receptacles: frozenset[int]
    goal_lamps: frozenset[int]
    key: bytes
    a_object: tuple[str, ...]
    goto: Mapping[str, int]

    @property
    def task_type(self) -> str:
        """The task type as the folder names have it, "pick_and_place_simple"."""
        return SHORT_NAMES[self.goal.task]

    @property
    def level(self) -> str:
        """MGR's level: "L0", "L1" or "L2"."""
        return next(level for level, tasks in LEVELS.items() if self.goal.task in tasks)

    def __copy__(self) -> Game:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        return self


def load_game(path: Path, task_id: str = "") -> Game:
    """The game in a `game.tw-pddl` file; `task_id` defaults to its last three folders.

    Raises:
        MissingAsset: no such file. BadAsset: not a game; names the file and the place in it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise MissingAsset(
            f"{path} is not there; give the folder that $ALFWORLD_DATA names, or get the games "
            "with `pip install alfworld && alfworld-download`"
        ) from error
    except UnicodeDecodeError as error:
        raise BadAsset(f"{path}: not UTF-8 text at byte {error.start}; get it anew") from error
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadAsset(
            f"{path}: not JSON at line {error.lineno}, column {error.colno} ({error.msg}); the "
            "file may be cut short: get it anew with `alfworld-download`"
        ) from error
    return parse_game(data, task_id or "/".join(path.parts[-4:-1]), str(path))


def parse_game(data: Any, task_id: str, source: str) -> Game:
    """The game in a decoded `game.tw-pddl`; `source` names it in errors.

    Raises:
        BadAsset: a key is missing or of the wrong type, or the PDDL or the grammar is broken.
    """
    if not isinstance(data, dict):
        raise BadAsset(f"{source}: a game is a JSON object, got {type(data).__name__}")
    for key in KEYS:
        if key not in data:
            raise BadAsset(f"{source}: key {key!r} is missing; a game has {', '.join(KEYS)}")
        kind = list if key == "walkthrough" else str
        if not isinstance(data[key], kind):
            raise BadAsset(
                f"{source}: key {key!r} is a {kind.__name__}, got {type(data[key]).__name__}"
            )
    if not all(isinstance(command, str) for command in data["walkthrough"]):
        raise BadAsset(f"{source}: key 'walkthrough' lists commands, got {data['walkthrough']!r}")
    task = _task(data["grammar"], source)
    problem = _Problem(data["pddl_problem"], source)
    return _tables(problem, task_id, task, tuple(data["walkthrough"]))


def _task(grammar: str, source: str) -> str:
    """The task sentence of the grammar's `task` rule."""
    block = re.search(r'"""(.*?)"""', grammar, re.DOTALL)
    if block is None:
        raise BadAsset(f'{source}: key \'grammar\' has no """...""" block with the task in it')
    try:
        rule = json.loads(block[1])["task"][0]["rhs"]
    except json.JSONDecodeError as error:
        line = grammar.count("\n", 0, block.start(1)) + error.lineno
        raise BadAsset(
            f"{source}: key 'grammar', line {line}, column {error.colno}: {error.msg}"
        ) from error
    except (KeyError, IndexError, TypeError) as error:
        raise BadAsset(f"{source}: key 'grammar' has no rule 'task' with a text `rhs`") from error
    if not isinstance(rule, str) or not rule.startswith(_TASK):
        raise BadAsset(f"{source}: key 'grammar': the task starts with {_TASK!r}, got {rule!r:.80}")
    return rule.removeprefix(_TASK)


class _Problem:
    """A parsed PDDL problem: declared symbols, checked facts by predicate, goal."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.text = text = text.lower()
        self.code = _COMMENT.sub(lambda m: " " * len(m[0]), text) if ";" in text else text
        sections = self._sections(self._nested())
        self.symbols = self._symbols(sections["objects"])
        self.facts = self._facts(sections["init"])
        self.goal = self._goal(sections["goal"])

    def fail(self, place: Node | int, message: str) -> NoReturn:
        """Raise BadAsset with the line and column of a list, or of a token by its number."""
        number = place if isinstance(place, int) else place[0]
        offset = len(self.text)
        for count, token in enumerate(_TOKEN.finditer(self.code)):
            if count == number:
                offset = token.start()
                break
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        where = f"{self.source}: key 'pddl_problem', line {line}, column {column}"
        raise BadAsset(f"{where}: {message}")

    def _nested(self) -> Node:
        tokens = _TOKEN.findall(self.code)
        top: Node = [0]
        current, stack = top, []
        for number, token in enumerate(tokens):
            if token == "(":  # noqa: S105
                inner: Node = [number]
                current.append(inner)
                stack.append(current)
                current = inner
            elif token == ")":  # noqa: S105
                if not stack:
                    self.fail(number, "a ')' that closes nothing")
                current = stack.pop()
            else:
                current.append(token)
        if stack:
            self.fail(current, "this '(' is never closed")
        if len(top) != 2 or top[1][1:2] != ["define"]:  # noqa: PLR2004
            self.fail(top, "expected one '(define (problem ...) ...)'")
        return top[1]  # type: ignore[no-any-return]

    def _sections(self, define: Node) -> dict[str, Node]:
        sections: dict[str, Node] = {}
        for part in define[2:]:
            if isinstance(part, str) or len(part) < 2 or isinstance(part[1], list):  # noqa: PLR2004
                self.fail(define if isinstance(part, str) else part, "expected a '(:section ...)'")
            sections[part[1].removeprefix(":")] = part
        for name in ("problem", "objects", "init", "goal"):
            if name not in sections:
                self.fail(define, f"the problem has no '{name}' section")
        return sections

    def _symbols(self, section: Node) -> dict[str, str]:
        """Declared symbol to its class, one of `_CLASSES`."""
        symbols: dict[str, str] = {}
        pending: list[str] = []
        words = iter(section[2:])
        for word in words:
            if isinstance(word, list):
                self.fail(word, "a list among the objects")
            if word != "-":
                pending.append(word)
                continue
            kind = next(words, None)
            if kind not in _CLASSES:
                self.fail(section, f"{pending} are of unknown type {kind!r}; known: {_CLASSES}")
            symbols.update(dict.fromkeys(pending, kind))
            pending = []
        if pending:
            self.fail(section, f"{pending} have no type")
        return symbols

    def _facts(self, section: Node) -> dict[str, dict[tuple[str, ...], None]]:
        facts: dict[str, dict[tuple[str, ...], None]] = {name: {} for name in _SIGNATURES}
        symbols = self.symbols
        for fact in section[2:]:
            if not isinstance(fact, list) or len(fact) < 2:  # noqa: PLR2004
                self.fail(section, f"expected facts in the init section, got {fact!r:.60}")
            if fact[1] == "=":  # travel costs, which no rule reads
                continue
            signature = _SIGNATURES.get(fact[1]) if isinstance(fact[1], str) else None
            if signature is None:
                self.fail(fact, f"unknown predicate {fact[1]!r:.60}")
            arguments = tuple(fact[2:])
            if len(arguments) != len(signature):
                self.fail(fact, f"{fact[1]} takes {len(signature)} names, got {len(arguments)}")
            for argument, kind in zip(arguments, signature, strict=True):
                if isinstance(argument, list) or symbols.get(argument) != kind:
                    self.fail(fact, f"{fact[1]} needs a declared {kind}, got {argument!r:.60}")
            facts[fact[1]][arguments] = None
        return facts

    def _goal(self, section: Node) -> Goal:
        if len(section) != 3 or isinstance(section[2], str):  # noqa: PLR2004
            self.fail(section, "a goal is one formula")
        variables: dict[str, str] = {}
        atoms: list[tuple[str, ...]] = []
        self._flatten(section[2], variables, atoms)
        said = {atom[0]: atom for atom in atoms}
        types = {a[1]: a[2] for a in atoms if a[0] == "objecttype"}
        for goal in self._candidates(said, types):
            if sorted(_canonical(atoms)) == sorted(_canonical(_goal_atoms(goal))):
                return goal
        self.fail(section, "the goal is none of the six forms of ALFWorld tasks")

    def _flatten(
        self, node: Node, variables: dict[str, str], atoms: list[tuple[str, ...]], scope: str = ""
    ) -> None:
        """Collect the atoms of nested `exists` and `and`, with variables made unique by scope."""
        if len(node) < 2 or isinstance(node[1], list):  # noqa: PLR2004
            self.fail(node, "expected a formula")
        if node[1] == "and":
            for part in node[2:]:
                if isinstance(part, str):
                    self.fail(node, f"expected a formula, got {part!r}")
                self._flatten(part, variables, atoms, scope)
        elif node[1] == "exists":
            if len(node) != 4 or isinstance(node[2], str) or isinstance(node[3], str):  # noqa: PLR2004
                self.fail(node, "expected '(exists (variables) formula)'")
            inner = dict(variables)
            inner.update({w: f"{w}@{node[0]}" for w in node[2][1:] if w.startswith("?")})
            self._flatten(node[3], inner, atoms, scope)
        elif node[1] == "not" and len(node) == 3 and node[2][1:2] == ["="]:  # noqa: PLR2004
            pair = (variables.get(word, word) for word in node[2][2:])
            atoms.append(("differ", *pair))
        else:
            words = node[2:]
            if any(isinstance(word, list) for word in words):
                self.fail(node, "expected a fact")
            atoms.append((node[1], *(variables.get(word, word) for word in words)))

    def _candidates(
        self, said: dict[str, tuple[str, ...]], types: dict[str, str]
    ) -> Iterator[Goal]:
        """The goals that the atoms could mean, told by which predicates and types occur."""
        receptacle = said.get("receptacletype", ("", "", ""))[2]
        if "istoggled" in said:
            lamp = types.get(said["istoggled"][1], "")
            for held in types.values():
                yield Goal(object_type=held, lamp=lamp)
            return
        for thing in set(types.values()):
            if "differ" in said:
                yield Goal(thing, receptacle, count=2)
            for treatment in ("", *_DONE):
                yield Goal(thing, receptacle, treatment)


def _goal_atoms(goal: Goal) -> list[tuple[str, ...]]:
    """The formula of each of the six forms, as a list of atoms that must all hold."""
    if goal.lamp:
        return [
            ("objecttype", "?lamp", goal.lamp),
            ("toggleable", "?lamp"),
            ("istoggled", "?lamp"),
            ("receptacleatlocation", "?r", "?l"),
            ("atlocation", "?a", "?l"),
            ("inreceptacle", "?lamp", "?r"),
            ("objecttype", "?o", goal.object_type),
            ("holds", "?b", "?o"),
        ]
    atoms = [
        ("objecttype", "?o", goal.object_type),
        ("receptacletype", "?r", goal.receptacle_type),
        ("inreceptacle", "?o", "?r"),
    ]
    if goal.treatment:
        atoms += [(_ABLE[goal.treatment], "?o"), (_DONE[goal.treatment], "?o")]
    if goal.count > 1:
        atoms += [
            ("differ", "?o", "?p"),
            ("objecttype", "?p", goal.object_type),
            ("inreceptacle", "?p", "?r"),
        ]
    return atoms


def _canonical(atoms: list[tuple[str, ...]]) -> list[tuple[Any, ...]]:
    """The atoms with each variable replaced by all that is said of it, so that names do not matter.

    One agent stands for all, and an atom said twice is one.
    """
    said: dict[str, list[tuple[Any, ...]]] = {}
    for atom in set(atoms):
        for place, word in enumerate(atom):
            if word.startswith("?"):
                others = tuple(w for w in atom[1:] if not w.startswith("?"))
                said.setdefault(word, []).append(
                    (atom[0], 0 if atom[0] == "differ" else place, others)
                )
    role = {name: str(sorted(facts)) for name, facts in said.items()}
    return [
        (atom[0], *(sorted if atom[0] == "differ" else list)(role.get(w, w) for w in atom[1:]))
        for atom in sorted(set(atoms))
    ]


def _named(ids: list[str]) -> dict[str, str]:
    """Readable names: per kind, numbers count down through the sorted ids.

    The kind is what stands before the first `_bar_`, with "basin" added where the id has it.
    """
    kinds = {}
    for symbol in ids:
        kind, bar, _ = symbol.partition("_bar_")
        kinds[symbol] = (kind + "basin" if "basin" in symbol else kind) if bar else ""
    left = Counter(kinds.values())
    names = {}
    for symbol in ids:
        kind = kinds[symbol]
        names[symbol] = f"{kind} {left[kind]}" if kind else f"{symbol} "
        left[kind] -= 1
    return names


def _tables(problem: _Problem, task_id: str, task: str, walkthrough: tuple[str, ...]) -> Game:
    facts, symbols = problem.facts, problem.symbols
    used = {name for group in facts.values() for fact in group for name in fact}
    ids = sorted(used)
    names = _named(ids)
    objects = [s for s in ids if symbols[s] == "object"]
    receptacles = [s for s in ids if symbols[s] == "receptacle"]
    locations = [s for s in ids if symbols[s] == "location"]
    number = {s: i for group in (objects, receptacles, locations) for i, s in enumerate(group)}

    def having(predicate: str) -> frozenset[int]:
        return frozenset(number[fact[0]] for fact in facts[predicate])

    object_type = {o: t for o, t in facts["objecttype"]}
    receptacle_type = {r: t for r, t in facts["receptacletype"]}
    places = {number[r]: number[location] for r, location in facts["receptacleatlocation"]}
    if len(places) < len(facts["receptacleatlocation"]):
        problem.fail(0, "a receptacle stands at two locations; each has one")
    starts = [location for _, location in facts["atlocation"]]
    if len(starts) != 1:
        problem.fail(0, f"the agent starts at one location, got {len(starts)}")
    takes: dict[str, set[str]] = {}
    for rtype, otype in facts["cancontain"]:
        takes.setdefault(otype, set()).add(rtype)
    by_type: dict[str, set[int]] = {}
    for receptacle, kind in receptacle_type.items():
        by_type.setdefault(kind, set()).add(number[receptacle])
    fits = {
        otype: frozenset(i for rtype in rtypes for i in by_type.get(rtype, ()))
        for otype, rtypes in takes.items()
    }
    contents: list[list[int]] = [[] for _ in receptacles]
    for thing, receptacle in facts["inreceptacle"]:
        contents[number[receptacle]].append(number[thing])
    inner: dict[int, list[int]] = {}
    for thing, container in facts["inreceptacleobject"]:
        inner.setdefault(number[container], []).append(number[thing])
    at: list[list[int]] = [[] for _ in locations]
    for i in range(len(receptacles)):
        if i in places:
            at[places[i]].append(i)
    goal = problem.goal
    typed = [object_type.get(o, "") for o in objects]
    kinds = [receptacle_type.get(r, "") for r in receptacles]
    held = [number[thing] for _, thing in facts["holds"]]
    if len(held) > 1 or bool(held) != bool(facts["holdsany"]):
        problem.fail(0, "the agent holds at most one object, with `holdsany` to say so")
    treated = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}.get(goal.treatment)
    able = having(treated) if treated else frozenset(range(len(objects)))
    toggleable = having("toggleable")
    listing = "\n".join((*objects, "", *receptacles, "", *locations))
    readable = [names[o] for o in objects]
    return Game(
        task_id=task_id,
        task=task,
        goal=goal,
        walkthrough=walkthrough,
        agent=next(agent for agent, _ in facts["atlocation"]),
        objects=tuple(readable),
        receptacles=tuple(names[r] for r in receptacles),
        locations=tuple(names[place] for place in locations),
        object_type=tuple(typed),
        receptacle_type=tuple(kinds),
        place=tuple(places.get(i, -1) for i in range(len(receptacles))),
        at=tuple(map(tuple, at)),
        openable=having("openable"),
        pickupable=having("pickupable"),
        cleanable=having("cleanable"),
        heatable=having("heatable"),
        coolable=having("coolable"),
        toggleable=toggleable,
        sliceable=having("sliceable"),
        containers=having("isreceptacleobject"),
        knives=frozenset(i for i, t in enumerate(typed) if t in ("knifetype", "butterknifetype")),
        sinks=frozenset(i for i, t in enumerate(kinds) if t in ("sinktype", "sinkbasintype")),
        microwaves=frozenset(i for i, t in enumerate(kinds) if t == "microwavetype"),
        fridges=frozenset(i for i, t in enumerate(kinds) if t == "fridgetype"),
        fits=tuple(fits.get(t, frozenset()) for t in typed),
        inner={container: tuple(sorted(things)) for container, things in inner.items()},
        start=number[starts[0]],
        held=held[0] if held else -1,
        contents=tuple(tuple(sorted(things)) for things in contents),
        opened=having("opened"),
        object_at=frozenset((number[o], number[place]) for o, place in facts["objectatlocation"]),
        props={
            name: having(name)
            for name in ("isclean", "ishot", "iscool", "issliced", "istoggled", "ison")
        },
        goal_objects=frozenset(
            i for i, t in enumerate(typed) if t == goal.object_type and i in able
        ),
        goal_receptacles=frozenset(i for i, t in enumerate(kinds) if t == goal.receptacle_type),
        goal_lamps=frozenset(i for i, t in enumerate(typed) if t == goal.lamp and i in toggleable),
        key=blake2b(listing.encode(), digest_size=16).digest(),
        a_object=tuple(f"a {name}" for name in readable),
        goto=dict(
            sorted((f"go to {names[r]}", i) for i, r in enumerate(receptacles) if i in places)
        ),
    )
