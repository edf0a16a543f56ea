"""Game: an ALFWorld game from its `game.tw-pddl` file, as tables of small integers.

Objects, receptacles and locations are numbered in the order of their lower-cased ids, which is the
order in which the genuine engine lists them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

from agent_envs.alfworld.pddl import Atom, Problem
from agent_envs.assets import BadAsset, read_json

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

KEYS = {"pddl_domain": str, "grammar": str, "pddl_problem": str, "walkthrough": list}
"""The required keys of a `game.tw-pddl` file and their types."""

ABLE = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}
"""Treatment -> the domain's property of objects that can be treated."""

DONE = {"clean": "isclean", "heat": "ishot", "cool": "iscool"}
"""Treatment -> the domain's property of objects that were treated."""

PROPERTIES = ("isclean", "ishot", "iscool", "issliced", "istoggled")
_SAME = (*ABLE.values(), "openable", "opened", "pickupable", "toggleable", "sliceable")
_KNIVES = ("knifetype", "butterknifetype")
_SINKS = ("sinktype", "sinkbasintype")
_TASK = "Your task is to: "
_RULES = re.compile(r'"""(.*?)"""', re.DOTALL)
_ACTION = re.compile(r'action (\w+) \{\s*template :: "([^"]*)";\s*feedback :: "([^"]*)"')
_PUT = re.compile(r"\w+ \{o\} \S+ \{r\}").fullmatch
_SAID = re.compile(r"([^{}]|\{(o|r|lend)\})+").fullmatch
_COMMANDS = {
    "GotoLocation": "go to [{r.name | receptacleatlocation(r:receptacle, lend:location)}]",
    **{f"{verb.title()}Object": f"{verb} {{r}}" for verb in ("open", "close")},
    **{f"{verb.title()}Object": f"{verb} {{o}} with {{r}}" for verb in ABLE},
    "PutObject": "move {o} to {r}",
    "PickupObject": "take {o} from {r}",
    "ToggleObject": "use {o}",
    "SliceObject": "slice {co} with {ko}",
}
"""The commands as ALFWorld's grammar writes them; only that of `PutObject` has changed."""


class Words(NamedTuple):
    """The words that differ between versions of ALFWorld's grammar; the default is today's.

    put, put_feedback: the command that puts an object into a receptacle, and its feedback.
    arrival: the feedback of `go to`, before the view of the receptacle.
    has_help: whether there is a command `help`.
    """

    put: str = "move {o} to {r}"
    put_feedback: str = "You move the {o} to the {r}."
    arrival: str = "You arrive at {r}."
    has_help: bool = True


OLDER = Words(
    "put {o} in/on {r}", "You put the {o} in/on the {r}.", "You arrive at {lend}.", has_help=False
)
"""The words of games from before December 2024 (alfworld 0.3)."""


@dataclass(frozen=True)
class Goal:
    """The winning condition: `count` treated objects of a type in one receptacle of a type.

    treatment: "", "clean", "heat" or "cool".
    lamp: type of the lamp that must be on at the agent's location with the object in hand;
        such a goal has no receptacle type.
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
    """One game: its tables and initial state. Immutable, shared by all its worlds.

    Objects, receptacles and locations are indices into `objects`, `receptacles` and `locations`,
    the displayed names ("mug 2"; "loc 7" for locations, which are never displayed).

    task_id: "<source>/<split>/<task>/<trial>", as given by the caller.
    task: the task sentence, "put a clean mug in coffeemachine."
    words: of its version of ALFWorld.
    also: the second goal of a game of two, both of which must hold at the end.
    object_type, receptacle_type: lower-cased PDDL symbols, "mugtype"; "" if not given.
    place: location of each receptacle; `at` has the receptacles of each location.
    fits: the receptacles that can take each object, ascending.
    inner: the contents of each object that can hold others; they never change.
    contents: objects in each receptacle at the start. object_at: (object, location) at the start.
    props: per predicate of `PROPERTIES` the objects for which it holds at the start.
    goal_objects, goal_receptacles, goal_lamps: indices of the goal's types.
    key: digest of the ids; it differs between households.
    """

    task_id: str
    task: str
    words: Words
    goal: Goal
    also: Goal | None
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
    fits: tuple[tuple[int, ...], ...]
    inner: tuple[tuple[int, ...], ...]
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

    @cached_property
    def parts(self) -> tuple[Game, ...]:
        """The game with each of its goals as the only one."""
        if self.also is None:
            return (self,)
        having = {name: getattr(self, name) for name in _SAME}
        own = _select_goal(self.also, self.object_type, self.receptacle_type, having)
        return (self, replace(self, goal=self.also, **own))  # type: ignore[arg-type]

    @property
    def task_type(self) -> str:
        """The task type, of the first goal, as in the folder names: "pick_and_place_simple"."""
        return SHORT_NAMES[self.goal.task]

    @property
    def level(self) -> str:
        """MGR's level: "L0", "L1" or "L2"."""
        return next(level for level, tasks in LEVELS.items() if self.goal.task in tasks)

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        return self


def load_game(path: Path, task_id: str = "") -> Game:
    """The game in a `game.tw-pddl` file; `task_id` defaults to its last three folders.

    Raises:
        MissingAsset: no such file.
        BadAsset: not a game; names the file and the place in it.
    """
    return parse_game(read_json(path), task_id or "/".join(path.parts[-4:-1]), str(path))


def parse_game(data: Any, task_id: str, source: str) -> Game:
    """The game in a decoded `game.tw-pddl`; `source` names it in errors.

    Raises:
        BadAsset: a key is missing or of the wrong type, or the PDDL or the grammar is broken.
    """
    if not isinstance(data, dict):
        raise BadAsset(f"{source}: a game is a JSON object, got {type(data).__name__}")
    for key, kind in KEYS.items():
        if key not in data:
            raise BadAsset(f"{source}: key {key!r} is missing; a game has {', '.join(KEYS)}")
        if not isinstance(data[key], kind):
            got = type(data[key]).__name__
            raise BadAsset(f"{source}: key {key!r} must be a {kind.__name__}, got {got}")
    walkthrough = tuple(data["walkthrough"])
    if not all(isinstance(command, str) for command in walkthrough):
        raise BadAsset(f"{source}: key 'walkthrough' lists commands, got {walkthrough!r:.80}")
    task, words = _read_grammar(data["grammar"], source)
    return _build_game(Problem(data["pddl_problem"], source), task_id, task, words, walkthrough)


def _read_grammar(grammar: str, source: str) -> tuple[str, Words]:
    """The task sentence in the grammar's `task` rule, and the words of its version."""
    rules = _RULES.search(grammar)
    if rules is None:
        raise BadAsset(f'{source}: key \'grammar\' has no """...""" block with the task in it')
    try:
        said = json.loads(rules[1])
        text = said["task"][0]["rhs"]
    except json.JSONDecodeError as error:
        line = grammar.count("\n", 0, rules.start(1)) + error.lineno
        raise BadAsset(
            f"{source}: key 'grammar', line {line}, column {error.colno}: {error.msg}"
        ) from error
    except (KeyError, IndexError, TypeError) as error:
        raise BadAsset(f"{source}: key 'grammar' has no rule 'task' with a text 'rhs'") from error
    if not isinstance(text, str) or not text.startswith(_TASK):
        raise BadAsset(f"{source}: key 'grammar', rule 'task': {text!r:.60} is not {_TASK!r}…")
    return text.removeprefix(_TASK), _read_words(grammar, said, source)


def _read_words(grammar: str, rules: Mapping[str, Any], source: str) -> Words:
    """The words of the grammar's actions; `rules` has their feedback."""
    texts = {}
    for name, command, told in _ACTION.findall(grammar):
        match rules.get(told.strip("#")):
            case [{"rhs": str(said)}, *_]:
                pass
            case _:
                said = told
        texts[name] = command, said.partition(" #")[0].replace(".name}", "}")
        known = _COMMANDS.get(name, command)
        if command != known and not (name == "PutObject" and _PUT(command)):
            raise BadAsset(
                f"{source}: key 'grammar', action {name}: the command {command!r:.80} is not one "
                f"of ALFWorld's, such as {known!r}; get the file again"
            )
    put, put_feedback = texts.get("PutObject", Words()[:2])
    _, arrival = texts.get("GotoLocation", Words()[1:3])
    if not _SAID(put_feedback) or not _SAID(arrival):
        raise BadAsset(
            f"{source}: key 'grammar': feedback names {{o}}, {{r}} and {{lend}} only, got "
            f"{put_feedback!r:.80} and {arrival!r:.80}; get the file again"
        )
    return Words(put, put_feedback, arrival, has_help=not texts or "help" in texts)


def _match_goals(problem: Problem) -> tuple[Goal, Goal | None]:
    """The goals, each in one of the six known forms; names of variables do not matter.

    Raises:
        BadAsset: another form, or more than two goals.
    """
    atoms = problem.goal
    if whole := _match_atoms(atoms):
        return whole, None
    for cut in range(1, len(atoms)):
        parts = atoms[:cut], atoms[cut:]
        names = [{w for atom in part for w in atom[1:] if w.startswith("?")} for part in parts]
        first, second = map(_match_atoms, parts)
        if first and second and names[0].isdisjoint(names[1]):
            return first, second
    raise problem.build_error("goal", "the goal has none of the six forms of ALFWorld's tasks")


def _match_atoms(atoms: Sequence[Atom]) -> Goal | None:
    """The goal of these atoms; None if they have none of the known forms."""
    said = {atom[0]: atom for atom in atoms}
    kinds = [atom[-1] for atom in atoms if atom[0] == "objecttype"]
    place = said["receptacletype"][-1] if "receptacletype" in said else ""
    forms = [Goal(thing, place, treatment) for thing in kinds for treatment in ("", *ABLE)]
    forms += [Goal(thing, place, count=2) for thing in kinds]
    forms += [Goal(thing, lamp=lamp) for thing, lamp in permutations(kinds, 2)]
    shape = _normalize_atoms(atoms)
    return next((form for form in forms if shape == _normalize_atoms(_write_goal(form))), None)


def _write_goal(goal: Goal) -> list[Atom]:
    """The atoms of a goal."""
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
    things = ("?o", "?p")[: goal.count]
    atoms: list[Atom] = [("receptacletype", "?r", goal.receptacle_type)]
    for thing in things:
        atoms += [("objecttype", thing, goal.object_type), ("inreceptacle", thing, "?r")]
    if goal.treatment:
        atoms += [(ABLE[goal.treatment], "?o"), (DONE[goal.treatment], "?o")]
    return [*atoms, ("differ", *things)] if goal.count > 1 else atoms


def _normalize_atoms(atoms: Iterable[Atom]) -> list[tuple[str, ...]]:
    """The atoms, each once, with each variable replaced by its predicates."""
    once = set(atoms)
    said: dict[str, list[str]] = {}
    for name, *words in once:
        known = " ".join(word for word in words if not word.startswith("?"))
        for place, word in enumerate(words):
            if word.startswith("?"):
                at = "" if name == "differ" else place
                said.setdefault(word, []).append(f"{name} {at} {known}")
    role = {word: "; ".join(sorted(facts)) for word, facts in said.items()}
    return sorted((name, *(role.get(word, word) for word in words)) for name, *words in once)


def _name_symbols(ids: Sequence[str]) -> dict[str, str]:
    """The displayed names: per kind, numbers count down through the sorted ids.

    The kind is the part before the first `_bar_`, with "basin" added if the id contains it.
    """
    kinds = {}
    for symbol in ids:
        kind, bar, _ = symbol.partition("_bar_")
        kinds[symbol] = (kind + "basin" if "basin" in symbol else kind) if bar else ""
    left = Counter(kinds.values())
    names = {}
    for symbol, kind in kinds.items():
        names[symbol] = f"{kind} {left[kind]}" if kind else f"{symbol} "
        left[kind] -= 1
    return names


def _build_game(
    problem: Problem, task_id: str, task: str, words: Words, walkthrough: tuple[str, ...]
) -> Game:
    """The game that a problem describes.

    Raises:
        BadAsset: inconsistent facts.
    """
    facts, (goal, also) = problem.facts, _match_goals(problem)
    ids = sorted({name for group in facts.values() for fact in group for name in fact})
    names = _name_symbols(ids)
    kinds = ("object", "receptacle", "location")
    objects, receptacles, locations = ([s for s in ids if problem.symbols[s] == k] for k in kinds)
    number = {s: i for group in (objects, receptacles, locations) for i, s in enumerate(group)}
    pairs = {
        name: [(number[one], number[other]) for one, other in facts[name]]
        for name in ("receptacleatlocation", "objectatlocation", "inreceptacle")
    }
    types = {fact[0]: fact[1] for fact in facts["objecttype"] + facts["receptacletype"]}
    object_type = tuple(types.get(o, "") for o in objects)
    receptacle_type = tuple(types.get(r, "") for r in receptacles)

    having = {
        name: frozenset(number[fact[0]] for fact in facts[name])
        for name in (*_SAME, "isreceptacleobject")
    }
    place = dict(pairs["receptacleatlocation"])
    agent, start, held = _find_agent(problem)
    listing = "\n".join((*objects, "", *receptacles, "", *locations))
    return Game(
        task_id=task_id,
        task=task,
        words=words,
        goal=goal,
        also=also,
        walkthrough=walkthrough,
        agent=agent,
        objects=tuple(names[o] for o in objects),
        receptacles=tuple(names[r] for r in receptacles),
        locations=tuple(names[location] for location in locations),
        object_type=object_type,
        receptacle_type=receptacle_type,
        place=tuple(place.get(r, -1) for r in range(len(receptacles))),
        at=_group_pairs(((location, r) for r, location in place.items()), len(locations)),
        fits=_find_fits(problem, object_type, receptacle_type),
        inner=_group_pairs(
            ((number[outer], number[thing]) for thing, outer in facts["inreceptacleobject"]),
            len(objects),
        ),
        start=number[start],
        held=number.get(held, -1),
        contents=_group_pairs(((r, thing) for thing, r in pairs["inreceptacle"]), len(receptacles)),
        object_at=frozenset(pairs["objectatlocation"]),
        props={p: frozenset(number[thing] for (thing,) in facts[p]) for p in PROPERTIES},
        key=blake2b(listing.encode(), digest_size=16).digest(),
        a_object=tuple(f"a {names[o]}" for o in objects),
        goto=dict(sorted((f"go to {names[receptacles[r]]}", r) for r in place)),
        **{name: having[name] for name in _SAME},
        containers=having["isreceptacleobject"],
        knives=_select_types(object_type, _KNIVES),
        sinks=_select_types(receptacle_type, _SINKS),
        microwaves=_select_types(receptacle_type, ("microwavetype",)),
        fridges=_select_types(receptacle_type, ("fridgetype",)),
        **_select_goal(goal, object_type, receptacle_type, having),
    )


def _select_goal(
    goal: Goal,
    object_type: Sequence[str],
    receptacle_type: Sequence[str],
    having: Mapping[str, frozenset[int]],
) -> dict[str, frozenset[int]]:
    """The indices of a goal's types."""
    things = _select_types(object_type, (goal.object_type,))
    return {
        "goal_objects": things & having.get(ABLE.get(goal.treatment, ""), things),
        "goal_receptacles": _select_types(receptacle_type, (goal.receptacle_type,)),
        "goal_lamps": _select_types(object_type, (goal.lamp,)) & having["toggleable"],
    }


def _find_agent(problem: Problem) -> tuple[str, str, str]:
    """The agent's name, its location and its held object ("" for none) at the start."""
    facts = problem.facts
    starts, held, stands = facts["atlocation"], facts["holds"], facts["receptacleatlocation"]
    rules = {
        f"the agent starts at one location, got {len(starts)}": len(starts) != 1,
        "the agent holds at most one object; `holdsany` goes with it": (
            len(held) > 1 or len(held) != len(facts["holdsany"])
        ),
        "a receptacle stands at two locations; each has one": (
            len({receptacle for receptacle, _ in stands}) < len(stands)
        ),
    }
    for said, is_broken in rules.items():
        if is_broken:
            raise problem.build_error("init", said)
    agent, start = starts[0]
    return agent, start, held[0][1] if held else ""


def _find_fits(
    problem: Problem, object_type: Sequence[str], receptacle_type: Sequence[str]
) -> tuple[tuple[int, ...], ...]:
    """The receptacles that can take each object, by `cancontain`, ascending."""
    takers: dict[str, set[str]] = {}
    for taker, taken in problem.facts["cancontain"]:
        takers.setdefault(taken, set()).add(taker)
    by_type = {
        kind: tuple(r for r, taker in enumerate(receptacle_type) if taker in takers.get(kind, ()))
        for kind in set(object_type)
    }
    return tuple(by_type[kind] for kind in object_type)


def _select_types(types: Sequence[str], wanted: Iterable[str]) -> frozenset[int]:
    return frozenset(i for i, kind in enumerate(types) if kind in wanted and kind)


def _group_pairs(pairs: Iterable[tuple[int, int]], count: int) -> tuple[tuple[int, ...], ...]:
    """Second members by first member 0..count-1, ascending."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for group, member in pairs:
        groups[group].append(member)
    return tuple(tuple(sorted(group)) for group in groups)
