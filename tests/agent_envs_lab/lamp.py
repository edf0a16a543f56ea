"""A lamp in one of several rooms, which keeps the contract, and one subclass for each fault.

The faults need a late state, another seed, another time or another episode to show.
"""

from __future__ import annotations

import random
import time
from typing import Any

import gymnasium as gym

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.experts import playing


class Lamp(AgentEnv):
    """Light the lamp and leave from the last room.

    Description: rooms in a row, a lamp in one of them.
    Observation: the room, the lamp, the light.
    Action: "wait", "left", "right", "press", "leave".
    Validity: what is not listed is refused, other words are unknown.
    Progress: 0.5 with the light on.
    Anchor: all of the state.
    Reward: 1 for leaving.
    Ends: success, the turn limit.
    Tasks and splits: 2 to 5 rooms.
    Data: none.
    Source: ours.
    """

    def __init__(self, *, max_turns: int = 30, render_mode: str | None = None) -> None:
        panel = Panel("train", [f"lamp/{rooms}" for rooms in range(2, 6)])
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        self.task, self.rooms = task_id, int(task_id[-1])
        self.lamp = int(self.np_random.integers(self.rooms))
        self.room, self.lit = 0, False
        self.prepare()
        return "light the lamp, leave from the last room", self.told(self.text())

    def prepare(self) -> None:
        """For faults."""

    def key(self) -> str:
        return f"{self.task}|{self.room}|{self.lamp}|{self.lit}"

    def possible(self) -> list[str]:
        last = self.room == self.rooms - 1
        left, right = ["left"] * (self.room > 0), ["right"] * (not last)
        press, leave = ["press"] * (self.room == self.lamp), ["leave"] * (last and self.lit)
        return ["wait", *left, *right, *press, *leave]

    def listed(self) -> list[str]:
        return self.possible()

    def text(self) -> str:
        lamp, light = " A lamp." * (self.room == self.lamp), " Bright." * self.lit
        return f"Room {self.room} of {self.rooms}.{lamp}{light}"

    def told(self, text: str, **rest: Any) -> Turn:
        signals = {"progress": 0.5 * self.lit} | rest
        return Turn(text, anchor=self.key(), admissible_actions=self.listed(), **signals)

    def act(self, action: str) -> Turn:
        word = action.strip()
        if word not in self.possible():
            reason = "refused" if word in ("left", "right", "press", "leave") else "unknown"
            return self.told("Nothing happens.", valid=False, invalid_reason=reason)
        if word == "leave":
            return self.told("Out.", success=True, progress=1.0, reward=1.0)
        self.room += (word == "right") - (word == "left")
        if word == "press":
            self.press()
        return self.told(self.text())

    def press(self) -> None:
        self.lit = not self.lit


class Lighter:
    """The expert: to the lamp, then out."""

    def __init__(self, env: gym.Env[str, str]) -> None:
        self.env = playing(env, Lamp)

    def act(self) -> str:
        lamp = self.env
        if not lamp.lit:
            here = lamp.room == lamp.lamp
            return "press" if here else "right" if lamp.room < lamp.lamp else "left"
        return "right" if lamp.room < lamp.rooms - 1 else "leave"

    def think(self) -> str:
        return ""


class Wind(Lamp):
    """Blows at some turns, by the generator of the environment."""

    def act(self, action: str) -> Turn:
        blown = action == "right" and "right" in self.possible() and self.np_random.random() < 0.3
        return self.told("Wind.") if blown else super().act(action)


class Noisy(Lamp):
    """Rewards are drawn."""

    def act(self, action: str) -> Turn:
        turn = super().act(action)
        return turn._replace(reward=turn.reward + float(self.np_random.normal()) * turn.valid)


class Impatient(Lamp):
    """Five invalid turns are a failure, at the turn limit too."""

    def __init__(self, *, max_turns: int = 5, render_mode: str | None = None) -> None:
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def prepare(self) -> None:
        self.left = 5

    def key(self) -> str:
        return f"{super().key()}|{self.left}"

    def act(self, action: str) -> Turn:
        turn = super().act(action)
        self.left -= not turn.valid
        return turn._replace(anchor=self.key(), failure=self.left == 0)


class Question(Lamp):
    """One turn, right or wrong."""

    def __init__(self, *, max_turns: int = 1, render_mode: str | None = None) -> None:
        super().__init__(max_turns=max_turns, render_mode=render_mode)

    def listed(self) -> list[str]:
        return ["even", "odd"]

    def act(self, action: str) -> Turn:
        if action not in self.listed():
            return self.told("What?", valid=False, invalid_reason="unknown", failure=True)
        right = (action == "even") == (self.rooms % 2 == 0)
        return self.told("So.", success=right, progress=float(right), failure=not right)


class Unlisted(Lamp):
    """Lists nothing."""

    def listed(self) -> list[str]:
        return []


class OneTask(Lamp):
    """Every reset starts the same task."""

    def __init__(self, *, max_turns: int = 30, render_mode: str | None = None) -> None:
        super().__init__(max_turns=max_turns, render_mode=render_mode)
        self.panel = Panel("train", ["lamp/3"])


CORRECT = (Lamp, Wind, Noisy, Impatient, Question, Unlisted, OneTask)


class Faulty(Lamp):
    """A lamp with a fault."""

    wrong, shown = "", ""


class CopyForgets(Faulty):
    """Pickles and copies lose the light."""

    wrong = r"a deep copy made at turn \d, step \d \('\w+'\): .*'progress': 0.5 and 0.0"
    shown = r"(('right', )?'press', )a copy is made, '\w+'$"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"lit": False}


class CopyShares(Faulty):
    """Copies have the same drawer as the original."""

    wrong = "the original, after a deep copy made at reset had played on, step"
    shown = "a copy is made"

    class Drawer:
        lit = False

        def __deepcopy__(self, memo: Any) -> Any:
            return self

    def prepare(self) -> None:
        self.drawer = self.Drawer()

    def press(self) -> None:
        self.drawer.lit = self.lit = not self.drawer.lit


class ListsRefused(Faulty):
    """Lists an action that is refused, in one state of one task."""

    wrong = r"step 2 \('leave'\): the action is in info\['admissible_actions'\] and is refused"
    shown = "'press', 'leave'$"

    def listed(self) -> list[str]:
        return [*self.possible(), *["leave"] * (self.lit and self.room == 0 and self.rooms == 5)]


class HidesDraw(Faulty):
    """Where the lamp is, which the seed draws, is not in the anchor."""

    wrong = "the anchor came before, but 'press' was not listed both times"
    shown = r"reset\(seed=\d+, options={'task': \d}\), then (.*, )?reset\(seed=\d+, options={'task"

    def key(self) -> str:
        return f"{self.task}|{self.room}|{self.lit}"


class HidesDrawUnlisted(HidesDraw):
    """The same where no list shows it."""

    wrong = "the same anchor and action have different outcomes"
    shown = r"  reset\(seed=\d+, .*  or reset\(seed=\d+, options={'task': \d}\), then"

    def listed(self) -> list[str]:
        return ["wait", "left", "right", "press"]

    def act(self, action: str) -> Turn:
        turn = super().act(action)
        waits = not turn.valid and action in self.listed()
        return turn._replace(valid=True, invalid_reason="") if waits else turn


class Clock(Faulty):
    """The time of day, by the hour, so that it seldom changes while a test runs."""

    wrong = "at another time of day, at the reset: observation differs"
    shown = r"shown by reset\(seed=7\)$"

    def text(self) -> str:
        return super().text() + time.strftime(" It is %H o'clock.")


class ClockInSeconds(Clock):
    """Whole hours since 1970."""

    def text(self) -> str:
        return f"{super().text()} {time.time() // 3600}"


class Leftover(Faulty):
    """The light stays on over a reset."""

    wrong = "the same seed and actions give another episode: .*, at reset"
    shown = r"shown by reset\((.*)\), then ('right', )*'press', reset\(\1\)$"

    def begin(self, task_id: str) -> tuple[str, Turn]:
        was = getattr(self, "lit", False)
        goal, _ = super().begin(task_id)
        self.lit = was
        return goal, self.told(self.text())


class Unseeded(Faulty):
    """Pressing is a matter of chance that no seed decides."""

    wrong = r"the same seed and actions give another episode.*it draws from Python's or NumPy's"
    shown = r"shown by (reset.*'press'), (then )?reset\("

    def press(self) -> None:
        self.lit ^= random.random() < 0.5


class HashWhere(Faulty):
    """The hash of a text decides."""

    wrong = "in a process with another hash seed, at the reset: .* look for hash()"
    shown = r"shown by reset\(seed=7\)$"

    def prepare(self) -> None:
        self.lamp = hash(self.task) % self.rooms

    def key(self) -> str:
        return f"{super().key()}|{hash(self.task)}"  # rooms are few: they may agree by chance


class LimitTerminates(Faulty):
    """The turn limit comes as an end of the task."""

    wrong = r"the turn limit of 30 is reported as terminated, but with max_turns=31 the"
    shown = r"then '\w+' \(30 times\)$"

    def step(self, action: str) -> Any:
        *rest, terminated, truncated, info = super().step(action)
        return *rest, terminated or truncated, False, info


FAULTS = [*Faulty.__subclasses__(), ClockInSeconds, HidesDrawUnlisted]
for made in (*CORRECT, *FAULTS):
    made.__doc__ = Lamp.__doc__
    if made is Impatient:
        takes = "Validity: an invalid turn takes effect, it"
        made.__doc__ = str(Lamp.__doc__).replace("Validity: what", takes)
    if f"{made.__name__}-v0" not in gym.registry:
        gym.register(
            f"{made.__name__}-v0",
            entry_point=f"lamp:{made.__name__}",
            order_enforce=False,
            disable_env_checker=True,
        )
