"""A game being played: TextWorld's interpreter and its logic, side by side, with exact copies.

The interpreter cannot be copied, but its state can be read and set: one interpreter plays all
copies of a game. The logic is TextWorld's `GameProgression`: facts, possible actions, solution.
"""

from __future__ import annotations

import copy
import re
import threading
import warnings
from collections.abc import Callable
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from agent_envs.assets import BadAsset, read_json, require, unpack_file

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = 198
"""Most characters of a command that the interpreter reads."""
WON, LOST = "*** The End ***", "*** You lost! ***"

_HEADER = 0x40  # bytes at the start of a story, which its checksum leaves out
_SETUP = ("tw-extra-infos moves", "tw-extra-infos score", "tw-trace-actions")
"""Commands after which each reply also names score, turn and events; they take no turn."""
_EVENT = re.compile(r"\[[^]]+\]\n?")
_DONE = " - succeeded"
_INNER = re.compile(r"\(\d+\) ")  # of an action that is a part of another one
_FROM = re.compile(r"removing (the .+) from the .+")
_UNTRACKED = "The game does not follow that command; use one of the possible commands for it."
_SCORE = re.compile(r"<score>\n(-?\d+)\s*</score>", re.DOTALL)
_TURN = re.compile(r"<moves>\n\d+\s*</moves>", re.DOTALL)
_STATUS = re.compile(r"\n>[^\n]*\Z")  # the prompt with room, score and turn
_BANNER = re.compile(r"\A(?:[^A-Za-z0-9\n]*\n)*")  # drawn with signs
_NAMELESS = {"P", "I", "r"}  # types of player, inventory and rooms, which are told apart anyway


class Game:
    """A loaded game; a copy is itself, and a pickle is opened by `reopen(name)`.

    Attributes:
        world: TextWorld's object of it.
        inform: its names of actions and things.
        opening, state: text and the interpreter's state at the start.
        logic: the logic at the start.
    """

    def __init__(
        self, name: str, description: Path, story: Path, reopen: Callable[[str], Game]
    ) -> None:
        self.name, self._reopen = name, reopen
        self.world = read_world(description)
        check_story(story)
        generator = require("textworld.generator", "textworld")
        jericho = require("jericho", "textworld")
        self.inform = generator.inform7.Inform7Game(self.world)
        self.logic = generator.game.GameProgression(self.world)
        self.facts = frozenset(self.logic.state.facts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it knows no scores of this file
            self._frotz = jericho.FrotzEnv(str(story))
        self._lock = threading.Lock()
        text, _ = self._frotz.reset()
        for command in _SETUP:
            self._frotz.step(command)
        self.state = self._last = self._frotz.get_state()
        self.opening = _BANNER.sub("", _STATUS.sub("", text)).strip()
        room = self.world.infos[self.world.world.player_room.id].name or ""
        if f"-= {room.title()} =-" not in text:
            raise BadAsset(
                f"{story} does not start in the room {room!r} of {description}: they are of two "
                "games; put the story and the .json of one game there, or make both again"
            )

    def __deepcopy__(self, _: Any) -> Self:
        return self

    def __reduce__(self) -> Any:
        return self._reopen, (self.name,)

    @property
    def max_score(self) -> float:
        """The points of all quests; infinite if one can be repeated."""
        most: float = self.world.max_score
        return most

    @cached_property
    def effects(self) -> frozenset[str]:
        """The first words of the events that change facts."""
        kb = self.world.kb
        changing = {name for name, rule in kb.rules.items() if set(rule.added) | set(rule.removed)}
        events = kb.inform7_events.items()
        return frozenset(event.split()[0] for name, event in events if name in changing)

    def answer(self, state: Any, command: str) -> tuple[Reply, Any]:
        """What the interpreter answers to a command in a state, and its next state."""
        with self._lock:
            if state is not self._last:
                self._frotz.set_state(state)
            text, *_ = self._frotz.step(command)
            self._last = self._frotz.get_state()
            return read_reply(text), self._last

    def find_action(self, logic: Any, event: str) -> Any:
        """The possible action that the interpreter calls by this name; None if there is none.

        To take a thing from a place without naming the place has another name.
        """
        events = self.world.kb.inform7_events
        for action in sorted(logic.valid_actions, key=lambda one: -len(one.preconditions)):
            name = events[action.name].format(**self.inform._get_name_mapping(action)).lower()  # noqa: SLF001
            taken = _FROM.fullmatch(name)
            if event in (name, f"taking {taken[1]}" if taken else ""):
                return action
        return None

    def write_fact(self, fact: Any) -> str:
        """A fact as text; things without a name are alike."""
        names = (
            one.name if self.world.infos[one.name].name or one.type in _NAMELESS else one.type
            for one in fact.arguments
        )
        return f"{fact.name}({','.join(names)})"


class Play:
    """One game of a `Game`; a deep copy and a pickle continue in the same way.

    Attributes:
        score: the points so far.
        won, lost: whether the game is over.
        commands: the possible commands, sorted.
        policy: the commands left to a solution, () if none is known.
        anchor: digest of the facts that differ from the start, and of the quests that were paid.
    """

    def __init__(self, game: Game) -> None:
        self.game, self._state, self._logic = game, game.state, game.logic.copy()
        self._events: tuple[str, ...] = ()  # all so far, for a pickle
        self._paid = (False,) * len(game.world.quests)
        self.score, self.won, self.lost = 0, False, False
        self._read_logic()

    def __deepcopy__(self, _: Any) -> Self:
        made = copy.copy(self)
        vars(made)["_logic"] = self._logic.copy()  # no other part is ever changed
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_logic"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._logic = self.game.logic.copy()
        for event in self._events:
            self._logic.update(self.game.find_action(self._logic, event))

    def send(self, command: str) -> Reply:
        """Play a command; one that does nothing in the logic leaves the state as it was.

        Only the interpreter's count of turns goes on as if it had stayed.
        """
        reply, state = self.game.answer(self._state, command)
        logic = self._logic.copy() if len(reply.events) > 1 else self._logic
        followed, untracked = list[str](), list[str]()
        for event in reply.events:
            if (action := self.game.find_action(logic, event)) is not None:
                logic.update(action)
                followed.append(event)
            else:
                untracked.append(event)
        if not followed:
            untracked += reply.inner
        if any(event.split()[0] in self.game.effects for event in untracked):
            self._pass_turn()
            return reply._replace(text=_UNTRACKED)
        if followed or reply.won or reply.lost:
            self._state, self._logic = state, logic
            self._events += tuple(followed)
            self.won, self.lost = reply.won, reply.lost
            self.score = self.score if reply.score is None else reply.score
            self._read_logic()
        elif reply.took_turn:
            self._pass_turn()
        return reply._replace(moves=len(followed))

    def _pass_turn(self) -> None:
        """Let a turn of the interpreter pass, unless that gives points or ends the game."""
        waited, state = self.game.answer(self._state, "wait")
        if waited.score == self.score and not (waited.won or waited.lost):
            self._state = state

    def _read_logic(self) -> None:
        """Set `commands`, `policy` and `anchor` to those of the logic."""
        game, logic = self.game, self._logic
        self._paid = tuple(
            paid or (not quest.repeatable and quest.is_winning(logic.state))
            for paid, quest in zip(self._paid, game.world.quests, strict=True)
        )
        write = game.inform.gen_commands_from_actions
        self.commands = sorted(set(write(logic.valid_actions)))
        self.policy = tuple(write(logic.winning_policy or ()))
        changed = sorted(map(game.write_fact, game.facts.symmetric_difference(logic.state.facts)))
        self.anchor = blake2b(repr((changed, self._paid)).encode(), digest_size=16).hexdigest()


class Reply(NamedTuple):
    """What the interpreter answered.

    text: its text without what it names for us.
    events: the names of the actions that succeeded.
    inner: those of the actions that succeeded as parts of others.
    score: the points so far, None if the command took no turn.
    took_turn: whether the interpreter carried out, or refused, an action.
    won, lost: whether the game ended.
    moves: the number of actions that the logic knows.
    """

    text: str
    events: tuple[str, ...]
    inner: tuple[str, ...]
    score: int | None
    took_turn: bool
    won: bool
    lost: bool
    moves: int = 0


def read_reply(text: str) -> Reply:
    """The parts of an interpreter's answer."""
    found, took_turn = _SCORE.search(text), _TURN.search(text) is not None
    text = _TURN.sub("", _SCORE.sub("", text))
    tags = _EVENT.findall(text)
    for tag in tags:
        text = text.replace(tag, "")
    done = [tag.strip()[1:].partition(_DONE)[0].lower() for tag in tags if _DONE in tag]
    return Reply(
        _STATUS.sub("", text).strip(),
        tuple(name for name in done if not _INNER.match(name)),
        tuple(_INNER.sub("", name, count=1) for name in done if _INNER.match(name)),
        int(found[1]) if found else None,
        took_turn,
        WON in text,
        LOST in text,
    )


def read_world(path: Path) -> Any:
    """TextWorld's object of a game's .json file.

    Raises:
        MissingAsset: there is no such file.
        BadAsset: it is damaged, or no game of this version of TextWorld.
    """
    textworld = require("textworld", "textworld")
    content = read_json(path)
    if not (isinstance(content, dict) and content.keys() >= {"world", "quests", "infos", "KB"}):
        raise BadAsset(f"{path} is no game of TextWorld; make one with tw-make")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return textworld.Game.deserialize(content)
    except Exception as error:  # whatever a damaged description makes TextWorld raise
        raise BadAsset(
            f"{path} cannot be read by textworld {textworld.__version__} "
            f"({type(error).__name__}: {error!s:.100}); make the game again with tw-make"
        ) from error


def check_story(path: Path) -> None:
    """Refuse a story file that the interpreter would crash on.

    Raises:
        MissingAsset: there is no such file.
        BadAsset: it is no story of the Z-machine, or damaged.
    """
    content = unpack_file(path)
    length = int.from_bytes(content[0x1A:0x1C], "big") * 8
    total = int.from_bytes(content[0x1C:0x1E], "big")
    if content[:1] != b"\x08" or not _HEADER < length <= len(content):
        raise BadAsset(f"{path} is no whole story of the Z-machine, version 8; make it again")
    if sum(content[_HEADER:length]) & 0xFFFF != total:
        raise BadAsset(f"{path} is damaged (its checksum is wrong); make it again")
