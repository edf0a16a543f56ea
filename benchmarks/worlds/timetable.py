"""Three appointments need free slots. Call the people for their wishes, then make a plan in which all hold."""

import random
import re
from functools import cache
from itertools import permutations
from zlib import crc32

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.experts import playing

DAYS, PARTS = (
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
    ["morning", "afternoon", "evening"],
)
WEEK = [f"{day} {part}" for day in DAYS for part in PARTS]
PEOPLE = [
    "dentist",
    "banker",
    "plumber",
    "teacher",
    "lawyer",
    "barber",
    "painter",
    "doctor",
    "baker",
    "pilot",
]
WISHES = {  # what a person can wish, in several wordings
    "on": ["I am only in town on {}.", "It has to be {}.", "For me, {} is the only day."],
    "not on": ["I cannot come on {}.", "Any day but {}.", "I am away on {}."],
    "in": [
        "I only have time in the {}.",
        "Please find an hour in the {}.",
        "The {} is best, on any day.",
    ],
    "not in": [
        "Never in the {}, please.",
        "Every time but the {} is fine.",
        "I have no time in the {}.",
    ],
}
ORDERS = [
    "The {} must come on an earlier day than the {}.",
    "First see the {}, on a later day the {}.",
]
OPENINGS = ["Free in your week: {}.", "Your week has these free slots: {}.", "You can offer {}."]


def good(plan: dict, wishes: dict, order: tuple) -> bool:
    kept = [
        (word in plan[p].split()) != kind.startswith("not")
        for p, (kind, word) in wishes.items()
        if p in plan
    ]
    days = [DAYS.index(plan[person].split()[0]) for person in order if person in plan]
    return all(kept) and days == sorted(set(days))


@cache
def tasks(split: str, count: int) -> list[dict]:
    found, seed = {}, 0
    while len(found) < count:
        rng = random.Random(f"timetable {(seed := seed + 1)}")
        people = rng.sample(PEOPLE, 3)
        slots = sorted(rng.sample(WEEK, 5), key=WEEK.index)
        kinds = {person: rng.choice(sorted(WISHES)) for person in people}
        wishes = {
            p: (kind, rng.choice(DAYS if kind.endswith("on") else PARTS))
            for p, kind in kinds.items()
        }
        task = dict(people=people, slots=slots, wishes=wishes, order=rng.sample(people, 2))
        right = sum(
            good(dict(zip(people, c)), wishes, task["order"]) for c in permutations(slots, 3)
        )
        if 1 <= right <= 5 and (crc32(repr(task).encode()) % 5 == 0) == (split == "test"):
            found[repr(task)] = task
    return list(found.values())


class Timetable(AgentEnv):
    """Put three appointments into free slots so that all wishes hold.

    Description: each person has a wish, which a call tells; the order of two appointments is told at the start.
    Observation: the free slots and the order, then what a person says, or the plan so far.
    Action: `call dentist`, `put dentist on Monday evening`, `clear dentist`, `send the plan`.
    Validity: "unknown" for other words, "refused" for what cannot be put or cleared now, or an unfinished plan.
    Progress: a quarter for each appointment in the plan while no wish is broken, else 0.
    Anchor: the task and the plan so far.
    Reward: 1 for a plan in which all wishes hold.
    Ends: sending the plan; the turn limit.
    Tasks and splits: "train" and "test", drawn by seed; no task is in both.
    Data: none.
    Source: this file.
    """

    experts = __name__

    def __init__(
        self, *, split: str = "train", max_turns: int = 12, render_mode: str | None = None
    ) -> None:
        if split not in ("train", "test"):
            raise ValueError(f"split must be train or test, got {split!r}")
        self.drawn = tasks(split, 600 if split == "train" else 120)
        panel = Panel(split, tuple(f"timetable/{split}/{i}" for i in range(len(self.drawn))))
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        self.week, self.plan = self.drawn[int(task_id.rpartition("/")[2])], {}
        self.rules = self.week["wishes"], self.week["order"]
        text = self.np_random.choice(OPENINGS).format(", ".join(self.week["slots"]))
        order = self.np_random.choice(ORDERS).format(*self.week["order"])
        return f"find a time for the {', the '.join(self.week['people'])}", self.show(
            f"{text} {order}"
        )

    def act(self, action: str) -> Turn:
        action = action.strip()
        order, person, _, slot = (action.split(" ", 3) + [""] * 3)[:4]
        if action not in self.choices():
            known = (
                person in self.week["people"] and order in ("put", "clear")
            ) or action == "send the plan"
            return self.show(
                "That cannot be done now.",
                valid=False,
                invalid_reason="refused" if known else "unknown",
            )
        if order == "call":
            kind, word = self.week["wishes"][person]
            return self.show(
                f"The {person} says: {self.np_random.choice(WISHES[kind]).format(word)}"
            )
        if order == "send":
            if good(self.plan, *self.rules):
                return self.show("Everybody agrees.", success=True, reward=1.0, progress=1.0)
            return self.show("Somebody does not agree at all.", failure=True)
        self.plan = {p: s for p, s in self.plan.items() if p != person} | (
            {person: slot} if slot else {}
        )
        return self.show(
            f"The plan: {', '.join(f'{p} on {s}' for p, s in self.plan.items()) or 'empty'}."
        )

    def choices(self) -> list[str]:
        people = [person for person in self.week["people"] if person not in self.plan]
        slots = [slot for slot in self.week["slots"] if slot not in self.plan.values()]
        actions = [f"call {person}" for person in self.week["people"]]
        actions += [f"put {person} on {slot}" for person in people for slot in slots]
        return (
            actions + [f"clear {person}" for person in self.plan] + ["send the plan"] * (not people)
        )

    def show(self, text: str, **rest) -> Turn:
        rest.setdefault("progress", len(self.plan) / 4 * good(self.plan, *self.rules))
        anchor = f"{self.task_id}, {sorted(self.plan.items())}" + ", sent" * (
            "failure" in rest or "success" in rest
        )
        return Turn(text, anchor=anchor, admissible_actions=self.choices(), **rest)


class Explorer:
    """Calls everybody, makes a plan in its head in which all wishes hold, and writes it down."""

    def __init__(self, env) -> None:
        self.env = playing(env, Timetable)

    def act(self) -> str:
        turns, people, wishes = self.env.transcript, re.findall(r"the (\w+)", self.env.goal), {}
        said = {action.removeprefix("call "): text for action, text in turns}
        for person in people:
            if person not in said:
                return f"call {person}"
            forms = [
                (kind, way.replace("{}", r"(\w+)")) for kind, ways in WISHES.items() for way in ways
            ]
            wishes[person] = next(
                (kind, m[1]) for kind, form in forms if (m := re.search(form, said[person]))
            )
        slots = [slot for slot in WEEK if slot in turns[0][1]]
        order = next(
            m.groups()
            for way in ORDERS
            if (m := re.search(way.replace("{}", r"(\w+)"), turns[0][1]))
        )
        plan = next(
            p for c in permutations(slots, 3) if good(p := dict(zip(people, c)), wishes, order)
        )
        now = [text for _, text in turns if text.startswith("The plan: ")]
        placed = dict(re.findall(r"(\w+) on (\w+ \w+)", now[-1] if now else ""))
        todo = [f"clear {person}" for person in placed if placed[person] != plan[person]]
        todo += [f"put {person} on {plan[person]}" for person in people if person not in placed]
        return (todo + ["send the plan"])[0]

    def think(self) -> str:
        return "All wishes must hold together."
