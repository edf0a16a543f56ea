"""Bifurcation-v1: walk through rooms, where the goal's colour is right at two bells only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agent_envs.bifurcation.prompt import TEMPLATE
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import Panel, one_of

KINDS = {
    "decisive": "A wrong door ends the walk at once.",
    "delayed": "No bell is in the last two rooms; the last door shows whether all were right.",
    "distractors": "As decisive, in six rooms; doors bring news without any effect.",
    "early": "The walk can be left in every room, which succeeds after both bells' right doors.",
    "reversible": "A wrong door leads to a side room, from which one can go back.",
    "irreversible": "After a wrong door the walk goes on, but cannot succeed any more.",
}
COLOURS = ("red", "blue", "green", "white", "black", "yellow")
THINGS = (
    "harp", "lamp", "globe", "loom", "kettle", "mirror", "ladder", "barrel", "drum", "statue",
    "clock", "carpet", "stove", "bench", "trunk", "fountain", "cradle", "scale", "kite", "saddle",
)  # fmt: skip
"""What stands in rooms: the first ten in `train`, the others in `test`."""
NEWS = ("You find a coin.", "Music plays.", "A lamp goes out.", "A bird flies up.", "It gets warm.")
DOORS = 3
EACH = 40  # tasks of a kind
SPLITS = {"train": range(30), "test": range(30, EACH), "all": range(EACH)}
TURNS = 8
BACK, ON, LEAVE = "back", "on", "leave"
WORDS = (*COLOURS, BACK, ON, LEAVE)


class Task(NamedTuple):
    """A walk.

    kind: a key of `KINDS`.
    doors: the colours of the doors of each room.
    bells: the numbers of the two rooms with a bell, from 0.
    right: the colour of the goal, which is right there and wrong in the other rooms.
    things: what stands in each room; the goal tells the rooms with a bell by it.
    news: what each door brings, for each room; only in the kind "distractors".
    """

    kind: str
    doors: tuple[tuple[str, ...], ...]
    bells: tuple[int, int]
    right: str
    things: tuple[str, ...]
    news: tuple[tuple[str, ...], ...]


def draw_task(task_id: str) -> Task:
    """The task of an id such as "delayed-07"; the id seeds all of its draws."""
    kind, number = task_id.rsplit("-", 1)
    rng = np.random.default_rng([[*KINDS].index(kind), int(number)])
    rooms = 6 if kind == "distractors" else int(rng.integers(5, 7))
    after = {"delayed": 2, "early": 1, "irreversible": 1}.get(kind, 0)  # rooms after the bells
    first, second = sorted(rng.choice(rooms - after, 2, replace=False).tolist())
    right, *others = rng.permutation(COLOURS).tolist()
    doors = tuple(
        tuple(rng.permutation([right, *rng.permutation(others)[: DOORS - 1]]).tolist())
        for _ in range(rooms)
    )
    news = tuple(tuple(rng.permutation(NEWS)[:DOORS].tolist()) for _ in range(rooms))
    known = THINGS[:10] if int(number) in SPLITS["train"] else THINGS[10:]
    things = tuple(rng.permutation(known)[:rooms].tolist())
    return Task(kind, doors, (first, second), right, things, news if kind == "distractors" else ())


def open_panel(split: str, kind: str | None) -> Panel:
    """The tasks of a split: of one kind, or of all kinds in turn.

    Raises:
        ValueError: no such split or kind.
    """
    one_of("split", split, tuple(SPLITS))
    if kind is not None:
        one_of("kind", kind, tuple(KINDS))
    kinds = KINDS if kind is None else (kind,)
    return Panel(split, tuple(f"{one}-{number:02}" for number in SPLITS[split] for one in kinds))


class Place(NamedTuple):
    """The state of a walk.

    room: the number of the room, from 0.
    lost: whether a wrong door has been taken for good.
    aside: whether it is the side room behind that room.
    """

    room: int = 0
    lost: bool = False
    aside: bool = False


class Bifurcation(AgentEnv):
    """Walk through rooms with coloured doors; what the goal's colour means depends on two bells.

    Description:
        Five or six rooms, each with three doors, of which one has the goal's colour. The goal
        tells behind which two things a bell is hidden. In the rooms with these only the door of the
        goal's colour is right; in the others only that one is wrong, and the other two lead to the
        next room alike. Six kinds of tasks differ in what a wrong door does: it ends the walk
        ("decisive", "distractors"), shows only at the end ("delayed"), can be taken back
        ("reversible") or not ("irreversible"); in "early" the walk can be left in every room.
        `exact.turn_values` computes the true value and advantage of every turn under a policy.

    Observation:
        The number of the room, what stands there, and the doors, after what just happened.

    Action:
        A colour; `back` or `on` in a side room; `leave` in tasks of the kind "early". Case and
        whitespace around it are ignored.

    Validity:
        "format" for a text that is none of these words, "refused" for one that is not possible in
        this place.

    Progress:
        1 - remaining turns of a shortest success / those at the start, at least 0; 0 once success
        is not possible any more, also if no observation shows it.

    Anchor:
        The number of the room, whether a wrong door was taken, and whether it is a side room.

    Reward:
        1 for success, else 0.

    Ends:
        The last door, a wrong door ("decisive", "distractors") and `leave` terminate; a success if
        no wrong door was taken, and both bells were passed. `max_turns` truncates.

    Tasks and splits:
        Forty tasks of each kind, named such as `delayed-07`, from which everything is drawn.
        `train` has the first thirty of each kind, `test` the last ten, with other things in the
        rooms, `all` both.

    Data:
        None. `info` also has `kind`.

    Source:
        Our own, after the tasks that the survey of credit assignment for language models (Zhang,
        2026, arXiv 2604.09459) calls for: one decisive turn, delayed effects, distractors, early
        stops, reversible and irreversible mistakes. It does not follow a published protocol.

    Args:
        split: see Tasks and splits.
        kind: tasks of one kind; None for all.
        max_turns: turn limit.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option.
    """

    template = TEMPLATE
    experts = "agent_envs.bifurcation.experts"
    verbs = (("take_door", "{colour}"), ("go_back", "back"), ("go_on", "on"), ("leave", "leave"))

    def __init__(
        self,
        *,
        split: str = "train",
        kind: str | None = None,
        max_turns: int = TURNS,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(open_panel(split, kind), max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The goal and the first room."""
        self.task, self.place = draw_task(task_id), Place()
        one, other = sorted(self.task.things[bell] for bell in self.task.bells)
        goal = f"Walk through all rooms. Bells are hidden behind the {one} and the {other}: take a "
        goal += f"{self.task.right} door there and nowhere else."
        if self.task.kind == "early":
            goal += " After both you may leave."
        return goal, self._turn("")

    def act(self, action: str) -> Turn:
        """Take a door, go back or on, or leave."""
        word = action.strip().lower()
        if word not in WORDS:
            return self.reject("format", f"An action is one of {', '.join(WORDS)}.")
        if word not in self.list_ways():
            return self.reject("refused", f"There is no {word} here.")
        return self._take_way(word)

    def reject(self, reason: str, notice: str) -> Turn:
        """An invalid turn without effect; the observation has the notice and the place."""
        return super().reject(reason, f"{notice}\n{self._describe_place()}")

    def list_ways(self) -> tuple[str, ...]:
        """The possible actions."""
        if self.place.aside:
            return BACK, ON
        doors = self.task.doors[self.place.room]
        return (*doors, LEAVE) if self.task.kind == "early" else doors

    def count_remaining(self, place: Place) -> int:
        """Turns of a shortest success from a place; 0 if there is none."""
        if place.lost:
            return 0
        rooms = len(self.task.doors) - place.room + place.aside
        if self.task.kind == "early":
            return min(rooms, max(self.task.bells[-1] + 1 - place.room, 0) + 1)
        return rooms

    def _take_way(self, word: str) -> Turn:
        """One of the possible actions."""
        room, lost, aside = self.place
        if word == LEAVE:
            return self._end_walk(success=room > self.task.bells[-1] and not lost)
        if word == BACK:
            return self._move_to(Place(room))
        if word == ON or (word == self.task.right) == (room in self.task.bells):
            return self._pass_door(word, Place(room + 1, lost or aside))
        if self.task.kind in {"decisive", "distractors"}:
            return self._end_walk(success=False)
        if self.task.kind == "reversible":
            return self._move_to(Place(room, aside=True))
        return self._pass_door(word, Place(room + 1, lost=True))

    def _pass_door(self, word: str, there: Place) -> Turn:
        """Through a door of the room to the next one, or out."""
        room = self.place.room
        if there.room == len(self.task.doors):
            return self._end_walk(success=not there.lost)
        if self.task.news:
            return self._move_to(there, self.task.news[room][self.task.doors[room].index(word)])
        silent = self.task.kind == "irreversible" and there.lost and not self.place.lost
        return self._move_to(there, "The bells fall silent." if silent else "")

    def _move_to(self, place: Place, notice: str = "") -> Turn:
        self.place = place
        return self._turn(notice)

    def _end_walk(self, *, success: bool) -> Turn:
        """The end of the walk."""
        notice = "You are out, and the gate is open." if success else "The gate stays shut."
        turn = Turn(notice, extra={"kind": self.task.kind}, anchor="out")
        return turn._replace(
            reward=float(success), progress=float(success), success=success, failure=not success
        )

    def _turn(self, notice: str) -> Turn:
        """The turn of the present place."""
        left, most = self.count_remaining(self.place), self.count_remaining(Place())
        return Turn(
            f"{notice}\n{self._describe_place()}" if notice else self._describe_place(),
            progress=max(1 - left / most, 0.0) if left else 0.0,
            anchor=f"{self.place.room} {self.place.lost} {self.place.aside}",
            admissible_actions=self.list_ways(),
            extra={"kind": self.task.kind},
        )

    def _describe_place(self) -> str:
        """The text of the present place."""
        number = self.place.room + 1
        if self.place.aside:
            return f"A side room behind room {number}. You can go {BACK} or {ON}."
        leave = f" You can {LEAVE}." if self.task.kind == "early" else ""
        thing = self.task.things[self.place.room]
        doors = ", ".join(self.task.doors[self.place.room])
        return f"Room {number} of {len(self.task.doors)}, with a {thing}. Doors: {doors}.{leave}"
