"""Buy something for exactly the least price that its seller would take, or leave if that is more than you have.
She names a last price; a habit of hers tells how far below it she would go."""

import random
import re
from functools import cache
from zlib import crc32

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.experts import playing

SELLERS = ["Amira", "Berta", "Chloe", "Dora", "Elif", "Fatma", "Gina", "Hana", "Irma", "Judith"]
THINGS = [
    "lamp",
    "carpet",
    "clock",
    "mirror",
    "bicycle",
    "guitar",
    "teapot",
    "chair",
    "radio",
    "globe",
]
HABITS = ["smiles", "coughs", "frowns", "laughs", "sighs", "winks", "yawns", "nods"]
TALK = {  # what she says if asked about something
    "other buyers": ["My uncle wants it, too.", "Many have looked at it today."],
    "its age": ["It is older than my shop.", "My mother had it as a child."],
    "its maker": ["A man from the hills made it.", "Nobody makes such things any more."],
    "her last price": [
        "Give me {}, not a coin less.",
        "{} is my last word.",
        "I let it go for {}.",
    ],
}
OPENINGS = [
    "{s} asks {p} for the {t}. You have {b}.",
    "There is a {t}, {p} says {s}. In your purse is {b}.",
]
WARNINGS = [
    "A friend says: watch her when you ask about {}.",
    "You heard that talk about {} betrays her.",
]
ADVICE = [
    "If she then {}, she would take {} less than her last price.",
    "When she {} at that, she would go {} lower.",
]
ANSWERS = ['{s} {h}. "{w}"', '"{w}" {s} {h}.', 'She {h} and says: "{w}"']


@cache
def tasks(split: str, count: int) -> list[dict]:
    found, seed = {}, 0
    while len(found) < count:
        rng = random.Random(f"haggle {(seed := seed + 1)}")
        start, step, named = rng.randrange(20, 60, 5), rng.randrange(3), rng.randrange(2, 7)
        offers = [start + 5 * i for i in range(7)]
        least = offers[named - step]
        budget = least - 5 if rng.random() < 0.2 else least + rng.randrange(0, 20, 5)
        task = dict(
            seller=rng.choice(SELLERS), thing=rng.choice(THINGS), offers=offers, named=offers[named]
        )
        task |= dict(
            least=least, budget=budget, topic=rng.choice([*TALK][:3]), signs=rng.sample(HABITS, 3)
        )
        task["habits"] = {topic: rng.choice(task["signs"]) for topic in TALK}
        task["habits"][task["topic"]] = task["signs"][step]
        if (crc32(repr(task).encode()) % 5 == 0) == (split == "test"):
            found[repr(task)] = task
    return list(found.values())


class Haggle(AgentEnv):
    """Buy for the least price that the seller would take, if you have that much.

    Description: a friend tells when she betrays herself, and what her habits then mean.
    Observation: her price and the advice, then what she says and does.
    Action: `ask about its age`, `offer 35`, `accept` (the price that she named), `leave`.
    Validity: "unknown" for other words, "refused" for a question that was asked.
    Progress: a third each for her last price and for the question that betrays her.
    Anchor: the task, the questions that were asked, and how many offers were too low.
    Reward: 1 for the least price, or for leaving if it is more than one has.
    Ends: a sale; leaving; the second offer that is too low; the turn limit.
    Tasks and splits: "train" and "test", drawn by seed; no task is in both.
    Data: none.
    Source: this file.
    """

    experts = __name__

    def __init__(
        self, *, split: str = "train", max_turns: int = 10, render_mode: str | None = None
    ) -> None:
        if split not in ("train", "test"):
            raise ValueError(f"split must be train or test, got {split!r}")
        self.drawn = tasks(split, 600 if split == "train" else 120)
        panel = Panel(split, tuple(f"haggle/{split}/{i}" for i in range(len(self.drawn))))
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        self.deal = deal = self.drawn[int(task_id.rpartition("/")[2])]
        self.asked, self.low, self.price = set(), 0, deal["named"] + 15
        words = dict(s=deal["seller"], t=deal["thing"], p=self.price, b=deal["budget"])
        lines = [self.say(OPENINGS).format(**words), self.say(WARNINGS).format(deal["topic"])]
        lines += [
            self.say(ADVICE).format(*pair)
            for pair in sorted(zip(deal["signs"], ("nothing", 5, 10)))
        ]
        return "buy for the least price that she would take; leave if you have less", self.show(
            " ".join(lines)
        )

    def say(self, texts: list[str]) -> str:
        return str(self.np_random.choice(texts))

    def act(self, action: str) -> Turn:
        action = action.strip()
        if action not in self.choices():
            reason = "refused" if action.removeprefix("ask about ") in self.asked else "unknown"
            return self.show("That is not possible.", valid=False, invalid_reason=reason)
        if action.startswith("ask"):
            self.asked.add(topic := action.removeprefix("ask about "))
            self.price = self.deal["named"] if "her last price" in self.asked else self.price
            words = self.say(TALK[topic]).format(self.price)
            return self.show(
                self.say(ANSWERS).format(
                    s=self.deal["seller"], h=self.deal["habits"][topic], w=words
                )
            )
        least, budget = self.deal["least"], self.deal["budget"]
        paid = (
            self.price
            if action == "accept"
            else int(action.removeprefix("offer "))
            if action != "leave"
            else 0
        )
        if 0 < paid < least and not self.low:
            self.low = 1
            return self.show(
                "Far too little!" if paid < least - 5 else "That is nearly enough, but only nearly."
            )
        if paid == (least if least <= budget else 0):
            return self.show("That was right.", success=True, reward=1.0, progress=1.0)
        return self.show("That was not right.", failure=True)

    def choices(self) -> list[str]:
        asks = [f"ask about {topic}" for topic in TALK if topic not in self.asked]
        return asks + [f"offer {price}" for price in self.deal["offers"]] + ["accept", "leave"]

    def show(self, text: str, **rest) -> Turn:
        rest.setdefault("progress", len(self.asked & {"her last price", self.deal["topic"]}) / 3)
        ended = ", over" * ("failure" in rest or "success" in rest)
        anchor = f"{self.task_id}, asked {sorted(self.asked)}, {self.low} too low{ended}"
        return Turn(text, anchor=anchor, admissible_actions=self.choices(), **rest)


class Explorer:
    """Asks for the last price and the topic of the advice, then pays what the habit means."""

    def __init__(self, env) -> None:
        self.env = playing(env, Haggle)

    def act(self) -> str:
        turns = dict(self.env.transcript)
        first, price = turns[""], turns.get("ask about her last price")
        topic = re.search("about (other buyers|its age|its maker)", first)[1]
        if price is None or f"ask about {topic}" not in turns:
            return "ask about her last price" if price is None else f"ask about {topic}"
        habit = next(habit for habit in HABITS if habit in turns[f"ask about {topic}"])
        less = re.search(rf"{habit}.*?(nothing|5|10) (?:less|lower)", first)[1]
        least = int(re.search(r"\d+", price)[0]) - int(less.replace("nothing", "0"))
        budget = int(re.search(r"(?:You have|In your purse is) (\d+)", first)[1])
        return f"offer {least}" if least <= budget else "leave"

    def think(self) -> str:
        return "Her habit tells what she would take."
