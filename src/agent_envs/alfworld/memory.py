"""What an AlfWorld agent can know: the task, and the facts in the observations so far."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_OPPOSITE = {"heat": "cool", "cool": "heat"}
_VERBS = {"clean": "clean", "heat": "heat", "hot": "heat", "cool": "cool"}

_TASK = re.compile(r"Your task is to: (.*?)\.?\s*$", re.MULTILINE)
_LIGHT = re.compile(r"(?:look at|examine) (?:an? |the |some )?(\w+) (?:under|with) the (\w+)")
_PLACE = re.compile(
    r"(?:(?P<before>clean|heat|cool) some |(?:put|find) (?P<count>two|some|an?) )"
    r"(?:(?P<state>clean|hot|cool) )?(?P<thing>\w+) "
    r"(?:and put (?:it|them) )?(?:in|on) (?P<place>\w+)"
)
_NAME = re.compile(r"\ban? (\S+ \d+)")


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A parsed task line: `count` things of a type, each treated with `verb`, in a place.

    light: the place is a lamp, and the task is to look at the thing under it.
    """

    thing: str
    place: str
    count: int = 1
    verb: str = ""
    light: bool = False


def read_task(text: str) -> TaskLine:
    """The task named in an opening text (or in a bare task line).

    Raises:
        ValueError: no task line, or a wording that AlfWorld does not use.
    """
    line = _TASK.search(text)
    wording = line[1] if line else text.strip().rstrip(".")
    if found := _LIGHT.match(wording):
        return TaskLine(found[1], found[2], light=True)
    if found := _PLACE.match(wording):
        verb = _VERBS.get(found["before"] or found["state"] or "", "")
        return TaskLine(found["thing"], found["place"], 2 if found["count"] == "two" else 1, verb)
    raise ValueError(
        f"no AlfWorld task in {text[-200:]!r}; expected a line such as "
        f"'Your task is to: put a clean mug in shelf.'"
    )


def kind_of(name: str) -> str:
    """`drawer 3` -> `drawer`."""
    return name.partition(" ")[0]


def named(text: str) -> list[str]:
    """The things or receptacles in a list such as `a mug 2, and a pen 1`."""
    return _NAME.findall(text)


@dataclass(slots=True)
class Memory:
    """The facts in the observations so far."""

    places: list[str]  # every receptacle, in the order of the opening text
    here: set[str] = field(default_factory=set)  # receptacles within reach
    together: dict[str, set[str]] = field(default_factory=dict)  # those at the same location
    seen: dict[str, list[str]] = field(default_factory=dict)  # contents, oldest view first
    closed: set[str] = field(default_factory=set)  # their contents, once seen, stay known
    held: str = ""
    treated: dict[str, set[str]] = field(default_factory=dict)  # thing -> clean, heat, cool
    unfit: set[tuple[str, str]] = field(default_factory=set)  # (thing, place or verb) refused

    def arrive(self, place: str) -> None:
        """The agent is now at this place, and at all others at the same location."""
        self.here = self.together.setdefault(place, {place})

    def share(self, places: set[str]) -> None:
        """These places are all at the agent's location."""
        group = set(places)
        for place in places:
            group |= self.together.get(place, set())
        for place in group:
            self.together[place] = group
        self.here = group

    def view(self, place: str, things: list[str]) -> None:
        """The agent sees the contents of a place."""
        self.seen.pop(place, None)
        self.seen[place] = things
        self.closed.discard(place)

    def take(self, thing: str, place: str) -> None:
        """The agent took a thing."""
        self.held = thing
        self.forget(thing, place)

    def put(self, thing: str, place: str) -> None:
        """The agent put a thing down."""
        self.held = ""
        self.seen.setdefault(place, []).append(thing)

    def forget(self, thing: str, place: str) -> None:
        """A thing is no longer where it was seen."""
        if thing in self.seen.get(place, ()):
            self.seen[place].remove(thing)

    def treat(self, verb: str, thing: str) -> None:
        """The agent cleaned, heated or cooled a thing."""
        done = self.treated.setdefault(thing, set())
        done.add(verb)
        done.discard(_OPPOSITE.get(verb, ""))

    def find(self, kind: str) -> list[tuple[str, str]]:
        """Every (thing, place) of a type that was seen and not taken away since."""
        return [
            (thing, place)
            for place, things in self.seen.items()
            for thing in things
            if kind_of(thing) == kind and thing != self.held
        ]

    def learn(self, observation: str) -> None:
        """Process an observation."""
        for pattern, lesson in _LESSONS:
            if found := pattern.search(observation):
                lesson(self, found)


_LESSONS: tuple[tuple[re.Pattern[str], Callable[[Memory, re.Match[str]], None]], ...] = (
    (re.compile(r"You arrive at (\S+ \d+)\."), lambda memory, found: memory.arrive(found[1])),
    (
        re.compile(r"You are facing the (.*?)\. "),
        lambda memory, found: memory.share(set(found[1].replace("and ", "").split(", "))),
    ),
    (re.compile(r"The (\S+ \d+) is closed\."), lambda memory, found: memory.closed.add(found[1])),
    (re.compile(r"You close the (\S+ \d+)\."), lambda memory, found: memory.closed.add(found[1])),
    (
        re.compile(r"(?:On the|The) (\S+ \d+)(?: is open\. In it)?, you see (.*)\."),
        lambda memory, found: memory.view(found[1], named(found[2])),
    ),
    (
        re.compile(r"You pick up the (\S+ \d+) from the (\S+ \d+)\."),
        lambda memory, found: memory.take(found[1], found[2]),
    ),
    (
        re.compile(r"You (?:move|put) the (\S+ \d+) (?:to|in/on) the (\S+ \d+)\."),
        lambda memory, found: memory.put(found[1], found[2]),
    ),
    (
        re.compile(r"You (clean|heat|cool) the (\S+ \d+) using"),
        lambda memory, found: memory.treat(found[1], found[2]),
    ),
    (
        re.compile(r"You are carrying: an? (\S+ \d+)\."),
        lambda memory, found: setattr(memory, "held", found[1]),
    ),
)
"""Patterns of sentences in observations, and how each updates the memory."""
