"""World: the native engine of the ALFWorld domain, byte-identical to TextWorld's.

The texts are those of the games' grammar, the rules those of their PDDL domain, quirks included:

* `examine` accepts any receptacle at the agent's location, but only the object in hand;
* commands reach every receptacle at the agent's location, not only the one it went to;
* `use` switches a lamp on permanently; heating, cooling and cleaning do not require an open door;
* `slice`, and the floor in `look`, depend on where objects were put down. An object counts as on
  the floor once it was taken from a receptacle at this location and put down there again.
"""

from __future__ import annotations

import copy
from bisect import bisect, insort
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_envs.alfworld.game import DONE, OLDER, Words

if TYPE_CHECKING:
    from agent_envs.alfworld.game import Game

NOTHING = "Nothing happens."
WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
DIALECTS = {"0.4": Words(), "0.3": OLDER}

HELP = """\
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
EXAMINED = (  # properties of the object in hand and the words for them; the first match counts
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
_BIT = {"isclean": 1, "ishot": 2, "iscool": 4, "issliced": 8, "istoggled": 16}
_AGENT, _DOORS = 16, 20  # offsets in the encoded state: location and held object, open doors

Action: TypeAlias = "tuple[Callable[[World, int, int], str], int, int]"
"""What does it, object or -1, receptacle or -1; for `slice` the knife is the last."""


class World:
    """A running game; `copy.deepcopy` branches from the current state, pickling keeps it.

    The state, for searches and progress (read only; indices of `game`):
        location, held (-1: nothing), contents (per receptacle, ascending), opened,
        props (predicate to objects), seen (objects that some observation listed, or in hand).
    won: the goal holds now. accepted: whether the last command was admissible.
    """

    def __init__(self, game: Game, *, dialect: str = "auto") -> None:
        self.game = game
        self.words = DIALECTS.get(dialect, game.words)
        self.location = game.start
        self.held = game.held
        self.contents = [list(things) for things in game.contents]
        self.opened = set(game.opened)
        self.props = {name: set(things) for name, things in game.props.items()}
        self.seen: set[int] = set() if game.held < 0 else {game.held}
        self.accepted = True
        self._object_at = set(game.object_at)
        self._taken: set[tuple[int, int]] = set()
        self._commands: dict[str, Action] | None = None
        self._listing: list[str] | None = None
        self._anchor = ""
        self._width = (len(game.receptacles) + 7) // 8
        self._code = self._encode_state()
        self.won = self._is_won()

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        twin = copy.copy(self)
        twin.contents = [things.copy() for things in self.contents]
        twin.props = {name: things.copy() for name, things in self.props.items()}
        for name in ("opened", "seen", "_object_at", "_taken", "_code"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    @property
    def intro(self) -> str:
        """The opening text, task included."""
        view = self._look() if self.game.at[self.game.start] else self._overview()
        return f"{WELCOME}\n\n{view}\n\nYour task is to: {self.game.task}"

    def admissible(self) -> list[str]:
        """All commands that do something now, sorted; a new list."""
        if self._listing is None:
            self._listing = self._list_commands()
        return self._listing.copy()

    def execute(self, command: str) -> str:
        """Execute a command, return its feedback; ignores whitespace around it, case matters."""
        command = command.strip()
        self.accepted = True
        goto = self.game.goto.get(command, -1)
        if goto >= 0 and self.game.place[goto] != self.location:
            return self._go(goto)
        if self._commands is None:
            self._commands = self._find_commands()
        action = self._commands.get(command)
        if action is None:
            self.accepted = False
            return NOTHING
        do, thing, place = action
        return do(self, thing, place)

    def anchor(self) -> str:
        """Key of the state: location, held object, contents, open doors, properties.

        If something can be sliced, also where it was last put down, which `slice` depends on. For
        worlds of one household, keys are equal iff these are; the path to the state is not part.
        """
        if not self._anchor:
            digest, game = blake2b(self._code, digest_size=16), self.game
            if game.knives and game.sliceable:
                lying = sorted(put for put in self._object_at if put[0] in game.sliceable)
                digest.update(repr(lying).encode())
            self._anchor = digest.hexdigest()
        return self._anchor

    def facts(self) -> list[str]:
        """The facts that can change, as the domain's predicates over displayed names, sorted."""
        game = self.game
        facts = [f"atlocation({game.agent}, {game.locations[self.location]})"]
        if self.held >= 0:
            facts.append(f"holds({game.agent}, {game.objects[self.held]})")
        for receptacle, things in enumerate(self.contents):
            facts += [
                f"inreceptacle({game.objects[o]}, {game.receptacles[receptacle]})" for o in things
            ]
        facts += [f"opened({game.receptacles[r]})" for r in self.opened]
        for name, having in self.props.items():
            facts += [f"{name}({game.objects[o]})" for o in having]
        facts += [
            f"objectatlocation({game.objects[o]}, {game.locations[place]})"
            for o, place in self._object_at
        ]
        return sorted(facts)

    def is_reachable(self, receptacle: int) -> bool:
        """Whether things can be taken from and moved to a receptacle: it has no door or is open."""
        return receptacle in self.opened or receptacle not in self.game.openable

    def _find_commands(self) -> dict[str, Action]:
        """The admissible commands other than `go to`, with their actions."""
        game, held = self.game, self.held
        commands: dict[str, Action] = {
            "inventory": (World._inventory, -1, -1),
            "look": (World._look, -1, -1),
            **({"help": (World._help, -1, -1)} if self.words.has_help else {}),
        }
        for r in game.at[self.location]:
            name = game.receptacles[r]
            commands[f"examine {name}"] = (World._view, -1, r)
            if r in game.openable:
                verb, do = ("close", World._close) if r in self.opened else ("open", World._open)
                commands[f"{verb} {name}"] = (do, -1, r)
            for o in game.toggleable.intersection(self.contents[r]):
                commands[f"use {game.objects[o]}"] = (World._use, o, r)
            if held >= 0:
                self._offer_held(commands, r)
            elif self.is_reachable(r):
                for o in game.pickupable.intersection(self.contents[r]):
                    commands[f"take {game.objects[o]} from {name}"] = (World._take, o, r)
        if held >= 0:
            name = game.objects[held]
            commands[f"examine {name}"] = (World._examine, held, -1)
            if held in game.knives:
                for o in game.sliceable.intersection(self._find_lying()):
                    commands[f"slice {game.objects[o]} with {name}"] = (World._slice, o, held)
        return commands

    def _find_lying(self) -> list[int]:
        """Objects that were last put down at the agent's location."""
        return [o for o, location in self._object_at if location == self.location]

    def _offer_held(self, commands: dict[str, Action], r: int) -> None:
        """Add the commands for the object in hand at a receptacle."""
        game, o = self.game, self.held
        thing, place = game.objects[o], game.receptacles[r]
        if r in game.fits[o] and self.is_reachable(r):
            commands[self.words.put.format(o=thing, r=place)] = (World._move, o, r)
        if r in game.sinks and o in game.cleanable:
            commands[f"clean {thing} with {place}"] = (World._clean, o, r)
        if r in game.microwaves and o in game.heatable:
            commands[f"heat {thing} with {place}"] = (World._heat, o, r)
        if r in game.fridges and o in game.coolable:
            commands[f"cool {thing} with {place}"] = (World._cool, o, r)

    def _list_commands(self) -> list[str]:
        if self._commands is None:
            self._commands = self._find_commands()
        commands, going = sorted(self._commands), list(self.game.goto)
        for r in self.game.at[self.location]:
            going.remove(f"go to {self.game.receptacles[r]}")
        at = bisect(commands, "go to")
        commands[at:at] = going
        return commands

    def _go(self, receptacle: int) -> str:
        self.location = self.game.place[receptacle]
        self._code[_AGENT : _AGENT + 2] = self.location.to_bytes(2, "big")
        self._commands = self._listing = None
        self._anchor = ""
        if self.game.goal.lamp:
            self.won = self._is_won()
        arrival = self.words.arrival.format(
            r=self.game.receptacles[receptacle], lend=self.game.locations[self.location]
        )
        return f"{arrival} {self._view(-1, receptacle)}"

    def _note_change(self) -> None:
        """Forget what depends on the state, after each change other than the agent's location."""
        self._commands = self._listing = None
        self._anchor = ""
        self.won = self._is_won()

    def _open(self, _: int, receptacle: int) -> str:
        self.opened.add(receptacle)
        self._flip(_DOORS, receptacle)
        self._note_change()
        return f"You open the {self.game.receptacles[receptacle]}. {self._view(-1, receptacle)}"

    def _close(self, _: int, receptacle: int) -> str:
        self.opened.discard(receptacle)
        self._flip(_DOORS, receptacle)
        self._note_change()
        return f"You close the {self.game.receptacles[receptacle]}."

    def _take(self, thing: int, receptacle: int) -> str:
        self.contents[receptacle].remove(thing)
        self._flip(self._locate_contents(thing), receptacle)
        self._hold(thing)
        self.seen.add(thing)
        self._taken.add((thing, receptacle))
        self._object_at.discard((thing, self.location))
        self._note_change()
        return f"You pick up the {self.game.objects[thing]} from the {self._name_of(receptacle)}."

    def _move(self, thing: int, receptacle: int) -> str:
        things = self.contents[receptacle]
        if thing not in things:  # it may have been in two receptacles
            insort(things, thing)
            self._flip(self._locate_contents(thing), receptacle)
        self._hold(-1)
        self._taken.discard((thing, receptacle))
        self._object_at.add((thing, self.location))
        self._note_change()
        return self.words.put_feedback.format(
            o=self.game.objects[thing], r=self._name_of(receptacle), lend=""
        )

    def _clean(self, thing: int, receptacle: int) -> str:
        return self._treat("clean", thing, receptacle, "isclean")

    def _heat(self, thing: int, receptacle: int) -> str:
        self._unmark("iscool", thing)
        return self._treat("heat", thing, receptacle, "ishot")

    def _cool(self, thing: int, receptacle: int) -> str:
        self._unmark("ishot", thing)
        return self._treat("cool", thing, receptacle, "iscool")

    def _treat(self, verb: str, thing: int, receptacle: int, prop: str) -> str:
        self._mark(prop, thing)
        self._note_change()
        return f"You {verb} the {self.game.objects[thing]} using the {self._name_of(receptacle)}."

    def _use(self, thing: int, _: int) -> str:
        self._mark("istoggled", thing)
        self._note_change()
        return f"You turn on the {self.game.objects[thing]}."

    def _slice(self, thing: int, knife: int) -> str:
        self._mark("issliced", thing)
        self._note_change()
        return f"You sliced the {self.game.objects[thing]} with the {self.game.objects[knife]}."

    def _name_of(self, receptacle: int) -> str:
        return self.game.receptacles[receptacle]

    def _hold(self, thing: int) -> None:
        self.held = thing
        self._code[_AGENT + 2 : _AGENT + 4] = (thing + 1).to_bytes(2, "big")

    def _locate_contents(self, thing: int) -> int:
        """The offset in the encoded state of the receptacles that contain an object."""
        return _DOORS + self._width + len(self.game.objects) + thing * self._width

    def _flip(self, start: int, bit: int) -> None:
        self._code[start + bit // 8] ^= 1 << bit % 8

    def _mark(self, name: str, thing: int) -> None:
        self.props[name].add(thing)
        self._code[_DOORS + self._width + thing] |= _BIT[name]

    def _unmark(self, name: str, thing: int) -> None:
        self.props[name].discard(thing)
        self._code[_DOORS + self._width + thing] &= ~_BIT[name]

    def _encode_state(self) -> bytearray:
        """The state as bytes: household key, location, held, open bits, properties, contents."""
        game, width = self.game, self._width
        code = bytearray(game.key)
        code += self.location.to_bytes(2, "big") + (self.held + 1).to_bytes(2, "big")
        code += sum(1 << r for r in self.opened).to_bytes(width, "little")
        marks = bytearray(len(game.objects))
        for name, bit in _BIT.items():
            for o in self.props[name]:
                marks[o] |= bit
        code += marks
        inside = [0] * len(game.objects)
        for receptacle, things in enumerate(self.contents):
            for o in things:
                inside[o] |= 1 << receptacle
        return code + b"".join(bits.to_bytes(width, "little") for bits in inside)

    def _is_won(self) -> bool:
        return all(map(self.has_reached, self.game.parts))

    def has_reached(self, game: Game) -> bool:
        """Whether the goal of one of the game's parts holds."""
        goal = game.goal
        if goal.lamp:
            lit = game.goal_lamps & self.props["istoggled"]
            return (
                self.held in game.goal_objects
                and bool(lit)
                and any(not lit.isdisjoint(self.contents[r]) for r in game.at[self.location])
            )
        able = game.goal_objects
        if goal.treatment:
            able = able & self.props[DONE[goal.treatment]]
        return any(
            len(able.intersection(self.contents[r])) >= goal.count for r in game.goal_receptacles
        )

    def _view(self, _: int, receptacle: int) -> str:
        game = self.game
        name = game.receptacles[receptacle]
        if receptacle in game.openable and receptacle not in self.opened:
            return f"The {name} is closed."
        things = self.contents[receptacle]
        self.seen.update(things)
        listed = write_list([game.a_object[o] for o in things])
        if receptacle in game.openable:
            return f"The {name} is open. In it, you see {listed}."
        return f"On the {name}, you see {listed}."

    def _look(self, *_: int) -> str:
        game = self.game
        here = game.at[self.location]
        if not here:
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        lying = self._find_lying() if self._taken else ()
        floor = sorted(o for o, place in self._taken if place in here and o in lying)
        self.seen.update(floor)
        facing = write_list([game.receptacles[r] for r in here])
        listed = write_list([game.a_object[o] for o in floor])
        return f"You are facing the {facing}. Next to it, you see {listed}."

    def _overview(self) -> str:
        game = self.game
        around = write_list(
            [f"a {name}" for r, name in enumerate(game.receptacles) if game.place[r] >= 0]
        )
        return f"You are in the middle of a room. Looking quickly around you, you see {around}."

    def _inventory(self, *_: int) -> str:
        if self.held < 0:
            return "You are not carrying anything."
        return f"You are carrying: {self.game.a_object[self.held]}."

    def _help(self, *_: int) -> str:
        return HELP.format(move=self.words.put.format(o="(object)", r="(receptacle)"))

    def _examine(self, thing: int, _: int) -> str:
        game, props = self.game, self.props
        name = game.objects[thing]
        if thing in game.containers:
            inside = write_list([game.a_object[o] for o in game.inner[thing]])
            return f"This is a normal {name}. In it, you see {inside}."
        for needed, words in EXAMINED:
            if all(thing in props[prop] for prop in needed):
                return f"This is a {words}{name}."
        if thing in game.toggleable & props["istoggled"]:
            return f"This {name} is on."
        if thing in game.sliceable & props["issliced"]:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."


def write_list(items: list[str]) -> str:
    """`x`, `x, and y`, `x, y, and z`; `nothing` for none."""
    if len(items) > 1:
        return f"{', '.join(items[:-1])}, and {items[-1]}"
    return items[0] if items else "nothing"
