"""World: the native engine of the ALFWorld domain, byte-identical to TextWorld's.

The texts are those of the games' grammar, the rules those of their PDDL domain, quirks included:

* `examine` takes any receptacle here, of objects only the one in hand;
* commands reach every receptacle at the agent's location, also those it did not go to;
* `use` leaves a lamp on for good; heating, cooling and cleaning ask for no open door;
* `slice` and the floor that `look` lists go by where objects were put down, and an object is on
  the floor once it was taken from a receptacle here and lies at this location again.
"""

from __future__ import annotations

import copy
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_envs.alfworld.game import Game

NOTHING = "Nothing happens."
WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
DIALECTS = ("0.4", "0.3")

_HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  {move}:  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
_MOVE = {
    "0.4": ("move {} to {}", "You move the {} to the {}."),
    "0.3": ("put {} in/on {}", "You put the {} in/on the {}."),
}
_TREATMENTS = {"clean": "isclean", "heat": "ishot", "cool": "iscool"}
_BIT = {"isclean": 1, "ishot": 2, "iscool": 4, "issliced": 8, "istoggled": 16}
_EXAMINED = (  # what must hold of the object in hand, first match first, and the words for it
    (("isclean", "ishot", "issliced"), "hot and clean sliced "),
    (("isclean", "iscool", "issliced"), "cool and clean sliced "),
    (("isclean", "issliced"), "clean sliced "),
    (("ishot", "issliced"), "hot sliced "),
    (("iscool", "issliced"), "cool sliced "),
    (("isclean", "ishot"), "hot and clean "),
    (("isclean", "iscool"), "cool and clean "),
    (("ishot",), "hot "),
    (("isclean",), "clean "),
    (("iscool",), "cold "),
)

Action = tuple[str, int, int]
"""Verb, object or -1, receptacle (the second object of `slice`) or -1."""


class World:
    """A game being played; `copy.deepcopy` branches from the current state, pickling keeps it.

    State, for those who search or measure it (read only; indices of `game`):
        location, held (-1: nothing), contents (per receptacle, ascending), opened,
        props (predicate to objects), seen (objects that some observation listed, or in hand).
    won: the goal holds now. accepted: whether the last command was admissible.
    version: changes with every change of state other than the agent's location.

    Raises:
        ValueError: an unknown dialect.
    """

    __slots__ = (
        "_anchor",
        "_code",
        "_commands",
        "_listing",
        "_object_at",
        "_taken",
        "_width",
        "accepted",
        "contents",
        "dialect",
        "game",
        "held",
        "location",
        "opened",
        "props",
        "seen",
        "version",
        "won",
    )

    def __init__(self, game: Game, *, dialect: str = "0.4") -> None:
        if dialect not in DIALECTS:
            raise ValueError(f"dialect is in {DIALECTS}, got {dialect!r}")
        self.game = game
        self.dialect = dialect
        self.location = game.start
        self.held = game.held
        self.contents = [list(things) for things in game.contents]
        self.opened = set(game.opened)
        self.props = {name: set(things) for name, things in game.props.items()}
        self.seen: set[int] = set() if game.held < 0 else {game.held}
        self.version = 0
        self.accepted = True
        self._object_at = set(game.object_at)
        self._taken: set[tuple[int, int]] = set()
        self._commands: dict[str, Action] | None = None
        self._listing: list[str] | None = None
        self._anchor = ""
        self._width = (len(game.receptacles) + 7) // 8
        self._code = self._encoded()
        self.won = self._is_won()

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        twin = copy.copy(self)
        twin.contents = [things.copy() for things in self.contents]
        twin.opened = self.opened.copy()
        twin.props = {name: things.copy() for name, things in self.props.items()}
        twin.seen = self.seen.copy()
        twin._object_at = self._object_at.copy()
        twin._taken = self._taken.copy()
        twin._code = self._code.copy()
        return twin

    @property
    def intro(self) -> str:
        """The opening text, task included."""
        view = self._look() if self.game.at[self.game.start] else self._overview()
        return f"{WELCOME}\n\n{view}\n\nYour task is to: {self.game.task}"

    def admissible(self) -> list[str]:
        """All commands that do something now, sorted; a new list."""
        if self._listing is None:
            self._listing = self._listed()
        return self._listing.copy()

    def execute(self, command: str) -> str:
        """Do a command and give its feedback; blanks around it do not count, case does."""
        command = command.strip()
        if self._commands is None:
            self._commands = self._local()
        action = self._commands.get(command)
        self.accepted = True
        if action is not None:
            return self._act(*action)
        game = self.game
        goto = game.goto.get(command)
        if goto is not None and game.place[goto] != self.location:
            return self._go(goto)
        if command == "look":
            return self._look()
        if command == "inventory":
            carried = game.a_object[self.held] if self.held >= 0 else ""
            return f"You are carrying: {carried}." if carried else "You are not carrying anything."
        if command == "help":
            move = _MOVE[self.dialect][0].format("(object)", "(receptacle)")
            return _HELP.format(move=move)
        if self.dialect == "0.3" and command.startswith("move "):
            thing, _, place = command.removeprefix("move ").partition(" to ")
            action = self._commands.get(_MOVE["0.3"][0].format(thing, place))
            if action is not None:
                return self._act(*action)
        self.accepted = False
        return NOTHING

    def anchor(self) -> str:
        """Key of the state: location, what is held, lies where, is open, has which properties.

        Equal iff those are, for worlds of one household; the way there does not matter.
        """
        if not self._anchor:
            self._anchor = blake2b(self._code, digest_size=16).hexdigest()
        return self._anchor

    def facts(self) -> list[str]:
        """What holds now and can change, as the domain's predicates over readable names, sorted."""
        game = self.game
        facts = [f"atlocation({game.agent}, {game.locations[self.location]})"]
        if self.held >= 0:
            facts.append(f"holds({game.agent}, {game.objects[self.held]})")
        for receptacle, things in enumerate(self.contents):
            facts += [
                f"inreceptacle({game.objects[o]}, {game.receptacles[receptacle]})" for o in things
            ]
        facts += [f"opened({game.receptacles[r]})" for r in self.opened]
        for name, things in self.props.items():
            facts += [f"{name}({game.objects[o]})" for o in things]
        facts += [
            f"objectatlocation({game.objects[o]}, {game.locations[place]})"
            for o, place in self._object_at
        ]
        return sorted(facts)

    def reachable(self, receptacle: int) -> bool:
        """Whether things can be taken from and moved to a receptacle: it has no door or is open."""
        return receptacle in self.opened or receptacle not in self.game.openable

    def _local(self) -> dict[str, Action]:
        """Commands that depend on what is here, with what they do."""
        game, held = self.game, self.held
        objects, receptacles = game.objects, game.receptacles
        here = game.at[self.location]
        commands: dict[str, Action] = {}
        for r in here:
            name = receptacles[r]
            commands[f"examine {name}"] = ("examine", -1, r)
            reachable = True
            if r in game.openable:
                reachable = r in self.opened
                verb = "close" if reachable else "open"
                commands[f"{verb} {name}"] = (verb, -1, r)
            things = self.contents[r]
            if game.toggleable:
                for o in game.toggleable.intersection(things):
                    commands[f"use {objects[o]}"] = ("use", o, r)
            if held < 0:
                if reachable:
                    tail = f" from {name}"
                    pickupable = game.pickupable
                    for o in things:
                        if o in pickupable:
                            commands[f"take {objects[o]}{tail}"] = ("take", o, r)
                continue
            if reachable and r in game.fits[held]:
                commands[_MOVE[self.dialect][0].format(objects[held], name)] = ("move", held, r)
            if r in game.sinks and held in game.cleanable:
                commands[f"clean {objects[held]} with {name}"] = ("clean", held, r)
            if r in game.microwaves and held in game.heatable:
                commands[f"heat {objects[held]} with {name}"] = ("heat", held, r)
            if r in game.fridges and held in game.coolable:
                commands[f"cool {objects[held]} with {name}"] = ("cool", held, r)
        if held >= 0:
            commands[f"examine {objects[held]}"] = ("examine", held, -1)
            if held in game.knives:
                for o in game.sliceable:
                    if (o, self.location) in self._object_at:
                        commands[f"slice {objects[o]} with {objects[held]}"] = ("slice", o, held)
        return commands

    def _listed(self) -> list[str]:
        if self._commands is None:
            self._commands = self._local()
        commands = [*self._commands, *self.game.goto, "help", "inventory", "look"]
        for r in self.game.at[self.location]:
            commands.remove(f"go to {self.game.receptacles[r]}")
        commands.sort()
        return commands

    def _go(self, receptacle: int) -> str:
        self.location = self.game.place[receptacle]
        self._code[16:18] = self.location.to_bytes(2, "big")
        self._commands = self._listing = None
        self._anchor = ""
        if self.game.goal.lamp:
            self.won = self._is_won()
        return f"You arrive at {self.game.receptacles[receptacle]}. {self._view(receptacle)}"

    def _act(self, verb: str, thing: int, place: int) -> str:
        game = self.game
        if verb == "examine":
            return self._view(place) if thing < 0 else self._examined(thing)
        self.version += 1
        self._commands = self._listing = None
        self._anchor = ""
        if verb in ("open", "close"):
            self._swing(place, verb == "open")
            name = game.receptacles[place]
            return (
                f"You open the {name}. {self._view(place)}"
                if verb == "open"
                else (f"You close the {name}.")
            )
        if verb == "take":
            self._take(thing, place)
            text = f"You pick up the {game.objects[thing]} from the {game.receptacles[place]}."
        elif verb == "move":
            self._move(thing, place)
            text = _MOVE[self.dialect][1].format(game.objects[thing], game.receptacles[place])
        elif verb == "use":
            self.props["ison"] ^= {thing}
            self._mark("istoggled", thing)
            text = f"You turn on the {game.objects[thing]}."
        elif verb == "slice":
            self._mark("issliced", thing)
            text = f"You sliced the {game.objects[thing]} with the {game.objects[place]}."
        else:
            self._mark(_TREATMENTS[verb], thing)
            if verb != "clean":
                self._unmark("iscool" if verb == "heat" else "ishot", thing)
            text = f"You {verb} the {game.objects[thing]} using the {game.receptacles[place]}."
        self.won = self._is_won()
        return text

    def _swing(self, receptacle: int, opened: bool) -> None:
        (self.opened.add if opened else self.opened.discard)(receptacle)
        self._code[20 + receptacle // 8] ^= 1 << receptacle % 8

    def _take(self, thing: int, receptacle: int) -> None:
        self.contents[receptacle].remove(thing)
        self.held = thing
        self.seen.add(thing)
        self._taken.add((thing, receptacle))
        self._object_at.discard((thing, self.location))
        self._place_bit(thing, receptacle)

    def _move(self, thing: int, receptacle: int) -> None:
        things = self.contents[receptacle]
        if thing not in things:
            things.append(thing)
            things.sort()
            self._place_bit(thing, receptacle)
        self.held = -1
        self._taken.discard((thing, receptacle))
        self._object_at.add((thing, self.location))
        self._code[18:20] = b"\0\0"

    def _place_bit(self, thing: int, receptacle: int) -> None:
        self._code[18:20] = (self.held + 1).to_bytes(2, "big")
        first = 20 + self._width + len(self.game.objects) + thing * self._width
        self._code[first + receptacle // 8] ^= 1 << receptacle % 8

    def _mark(self, name: str, thing: int) -> None:
        self.props[name].add(thing)
        self._code[20 + self._width + thing] |= _BIT[name]

    def _unmark(self, name: str, thing: int) -> None:
        self.props[name].discard(thing)
        self._code[20 + self._width + thing] &= ~_BIT[name]

    def _encoded(self) -> bytearray:
        """The state as bytes: household key, location, held, open bits, properties, contents."""
        game, width = self.game, self._width
        code = bytearray(game.key)
        code += self.location.to_bytes(2, "big") + (self.held + 1).to_bytes(2, "big")
        code += sum(1 << r for r in self.opened).to_bytes(width, "little")
        code += bytes(
            sum(bit for name, bit in _BIT.items() if o in self.props[name])
            for o in range(len(game.objects))
        )
        inside = [0] * len(game.objects)
        for receptacle, things in enumerate(self.contents):
            for o in things:
                inside[o] |= 1 << receptacle
        return code + b"".join(bits.to_bytes(width, "little") for bits in inside)

    def _is_won(self) -> bool:
        game, goal = self.game, self.game.goal
        if goal.lamp:
            lit = game.goal_lamps & self.props["istoggled"]
            return (
                self.held in game.goal_objects
                and bool(lit)
                and any(not lit.isdisjoint(self.contents[r]) for r in game.at[self.location])
            )
        able = game.goal_objects
        if goal.treatment:
            able = able & self.props[_TREATMENTS[goal.treatment]]
        if not able:
            return False
        return any(
            len(able.intersection(self.contents[r])) >= goal.count for r in game.goal_receptacles
        )

    def _view(self, receptacle: int) -> str:
        game = self.game
        name = game.receptacles[receptacle]
        if receptacle in game.openable and receptacle not in self.opened:
            return f"The {name} is closed."
        things = self.contents[receptacle]
        self.seen.update(things)
        listed = _list([game.a_object[o] for o in things])
        if receptacle in game.openable:
            return f"The {name} is open. In it, you see {listed}."
        return f"On the {name}, you see {listed}."

    def _look(self) -> str:
        game = self.game
        here = game.at[self.location]
        if not here:
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        floor = []
        if self._taken:
            floor = sorted(
                o
                for o, receptacle in self._taken
                if receptacle in here and (o, self.location) in self._object_at
            )
            self.seen.update(floor)
        facing = _list([game.receptacles[r] for r in here])
        listed = _list([game.a_object[o] for o in floor])
        return f"You are facing the {facing}. Next to it, you see {listed}."

    def _overview(self) -> str:
        game = self.game
        around = _list(
            [f"a {name}" for r, name in enumerate(game.receptacles) if game.place[r] >= 0]
        )
        return f"You are in the middle of a room. Looking quickly around you, you see {around}."

    def _examined(self, thing: int) -> str:
        game, props = self.game, self.props
        name = game.objects[thing]
        if thing in game.containers:
            inside = _list([game.a_object[o] for o in game.inner.get(thing, ())])
            return f"This is a normal {name}. In it, you see {inside}."
        for needed, words in _EXAMINED:
            if all(thing in props[prop] for prop in needed):
                return f"This is a {words}{name}."
        if thing in game.toggleable and thing in props["istoggled"]:
            return f"This {name} is on."
        if thing in game.sliceable and thing in props["issliced"]:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."


def _list(items: list[str]) -> str:
    """`x`, `x, and y`, `x, y, and z`; `nothing` for none."""
    if len(items) > 1:
        return f"{', '.join(items[:-1])}, and {items[-1]}"
    return items[0] if items else "nothing"
