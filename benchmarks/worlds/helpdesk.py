"""A customer writes. Ask what the house rules make important, then send the message to the right queue."""

import random
import re
from functools import cache
from zlib import crc32

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.experts import playing

QUEUES = ["workshop", "stores", "cashier", "office", "depot", "counter", "archive", "studio"]
NAMES = ["Ana", "Boris", "Carla", "Dinesh", "Edda", "Farid", "Greta", "Hugo", "Ines", "Jonas"]
GOODS = ["kettle", "lamp", "radio", "chair", "drill", "heater", "camera", "mixer", "clock", "tent"]
TOPICS = {  # what the rules call it, and how customers say it
    "damaged goods": [
        "my new {} is in two pieces",
        "a part of the {} broke off",
        "the {} has a crack",
    ],
    "lost parcels": [
        "my {} never came",
        "I still wait for the {}",
        "nobody has brought the {} so far",
    ],
    "wrong bills": [
        "you charged me twice for the {}",
        "the {} cost more than you said",
        "I paid the {} twice",
    ],
    "wrong goods": [
        "I ordered a {}, but got a book",
        "this is not the {} that I chose",
        "it is the wrong {}",
    ],
}
QUESTIONS = ["guarantee", "membership", "receipt", "voucher", "deadline", "discount"]
YES = ["Yes, I have one.", "Yes, certainly.", "I do, yes.", "Of course I have."]
NO = ["No, I have none.", "No, sadly not.", "Not that I know of.", "I have nothing like that."]
OPENINGS = [
    "{n} writes: hello, {m}.",
    "A new message. Dear team, {m}. Yours, {n}",
    "Hi, {m}, please help. {n}",
]
RULES = [
    "{t} go to the {a} with a {q}, to the {b} without.",
    "{t}: with a {q} to the {a}, without to the {b}.",
]
RUSH = ["Whoever has a {} is urgent.", "A message is urgent if the customer has a {}."]


@cache
def tasks(split: str, count: int) -> list[dict]:
    """The tasks of a split; a checksum of what a task is decides which split it is in."""
    found, seed = {}, 0
    while len(found) < count:
        rng = random.Random(f"helpdesk {(seed := seed + 1)}")
        asked, topics, queues = (
            rng.sample(QUESTIONS, 4),
            rng.sample(sorted(TOPICS), 3),
            rng.sample(QUEUES, 6),
        )
        task = {
            "rules": [(topics[i], asked[i], queues[2 * i], queues[2 * i + 1]) for i in range(3)],
            "rush": asked[3],
            "has": {question: rng.random() < 0.5 for question in QUESTIONS},
            "said": rng.choice(TOPICS[rng.choice(topics)]).format(rng.choice(GOODS)),
        }
        if (crc32(repr(task).encode()) % 5 == 0) == (split == "test"):
            found[repr(task)] = task
    return list(found.values())


def topic_of(text: str) -> str:
    said = [(t, way.replace("{}", r"\w+")) for t, ways in TOPICS.items() for way in ways]
    return next(topic for topic, way in said if re.search(way, text))


class Helpdesk(AgentEnv):
    """Send a customer's message to the right queue.

    Description: house rules say by topic which fact decides the queue, and which fact makes a message urgent.
    Observation: the message and the rules, then the customer's answers.
    Action: `ask about guarantee`, `send to depot`, `send to depot, urgent`.
    Validity: "unknown" for other words, "refused" for a question that was asked or is one too many.
    Progress: a third for each of the two questions that matter.
    Anchor: the task and the questions that were asked.
    Reward: 1 for the right queue and urgency.
    Ends: every sending; the turn limit.
    Tasks and splits: "train" and "test", drawn by seed; no task is in both.
    Data: none.
    Source: this file.
    """

    experts = __name__

    def __init__(
        self, *, split: str = "train", max_turns: int = 8, render_mode: str | None = None
    ) -> None:
        if split not in ("train", "test"):
            raise ValueError(f"split must be train or test, got {split!r}")
        self.cases = tasks(split, 600 if split == "train" else 120)
        panel = Panel(split, tuple(f"helpdesk/{split}/{i}" for i in range(len(self.cases))))
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        self.case = case = self.cases[int(task_id.rpartition("/")[2])]
        self.asked: set[str] = set()
        _, question, yes, no = next(
            rule for rule in case["rules"] if rule[0] == topic_of(case["said"])
        )
        self.needed = {question, case["rush"]}
        self.right = (
            f"send to {yes if case['has'][question] else no}"
            + ", urgent" * case["has"][case["rush"]]
        )
        say = self.np_random.choice
        lines = [say(OPENINGS).format(n=say(NAMES), m=case["said"]), "House rules:"]
        lines += [
            say(RULES).format(t=t.capitalize(), q=q, a=a, b=b) for t, q, a, b in case["rules"]
        ]
        lines.append(say(RUSH).format(case["rush"]))
        return "send the message to the right queue", self.show("\n".join(lines))

    def act(self, action: str) -> Turn:
        action = action.strip()
        if action not in self.choices():
            reason = "refused" if action in [f"ask about {q}" for q in QUESTIONS] else "unknown"
            return self.show("That is not possible.", valid=False, invalid_reason=reason)
        if action.startswith("ask"):
            self.asked.add(question := action.removeprefix("ask about "))
            return self.show(str(self.np_random.choice(YES if self.case["has"][question] else NO)))
        if action == self.right:
            return self.show(
                "The colleagues there can help.", success=True, reward=1.0, progress=1.0
            )
        return self.show("It comes back: not for us, or not like this.", failure=True)

    def choices(self) -> list[str]:
        asks = [f"ask about {q}" for q in QUESTIONS if q not in self.asked and len(self.asked) < 3]
        queues = sorted(queue for rule in self.case["rules"] for queue in rule[2:])
        return asks + [f"send to {queue}{rush}" for queue in queues for rush in ("", ", urgent")]

    def show(self, text: str, **rest) -> Turn:
        rest.setdefault("progress", len(self.needed & self.asked) / 3)
        anchor = f"{self.task_id}, asked {sorted(self.asked)}" + ", sent" * rest.get(
            "success", rest.get("failure", False)
        )
        return Turn(text, anchor=anchor, admissible_actions=self.choices(), **rest)


class Explorer:
    """Asks the two questions that the rules name, then sends."""

    def __init__(self, env) -> None:
        self.env = playing(env, Helpdesk)

    def act(self) -> str:
        (_, first), *later = self.env.transcript
        message, rules = first.split("House rules:")
        line = next(
            line for line in rules.split("\n") if line.lower().startswith(topic_of(message))
        )
        answers = {action.removeprefix("ask about "): text in YES for action, text in later}
        question, rush = re.search(r"with a (\w+)", line)[1], re.search(r"has a (\w+)", rules)[1]
        for needed in (question, rush):
            if needed not in answers:
                return f"ask about {needed}"
        yes, no = re.findall(r"to the (\w+)", line)
        return f"send to {yes if answers[question] else no}" + ", urgent" * answers[rush]

    def think(self) -> str:
        return "The rules name what I must know first."
