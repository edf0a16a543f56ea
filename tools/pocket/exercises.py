"""Exercises: small tasks in which what to do stands in the text, whatever the words mean.

Words are drawn anew for every exercise, everyday ones (`words.txt`) and made-up ones, so that
nothing can be known by heart: a policy learns to read, to find again and to repeat. They are what
`pocket-words` is pre-trained on, for worlds that nobody has thought of yet.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.pocket.lessons import Lesson

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

MADE_UP = 0.3  # share of made-up words
PAIRS = 0.3  # of names of two words
NUMBERS = 0.1  # of names that end with a number
THOUGHTS = 0.3  # of exercises in which replies have a thought
WANTED = 0.6  # of wishes for something; the others are against something
HALF = 0.5
STARTS, VOWELS, ENDS = "bcdfghjklmnprstvwz", "aeiou", ("", "", "n", "r", "s", "t", "l", "ck")


class Writer:
    """The words and phrases of one exercise.

    Args:
        rng: Draws them.
        size: From 0 to 1, how many things there may be.
    """

    def __init__(self, rng: np.random.Generator, size: float = 1.0) -> None:
        self.rng, self.used, self.turns = rng, set[str](), list[tuple[str, str, str]]()
        self.size = size
        self.link = self.choose((" is in ", " is ", ": ", " has ", " goes with ", " of ", " -> "))
        self.stop, self.comma = self.choose((". ", ".\n", "; ", "\n")), self.choose((", ", " / "))
        self.verb, self.next = self.name_verb(), self.name_verb()
        self.capitals = self.rng.random() < PAIRS

    def choose(self, options: Sequence[str]) -> str:
        """One of some texts."""
        return options[int(self.rng.integers(len(options)))]

    def draw_count(self, least: int, most: int) -> int:
        """A number of things or turns, at first mostly the least."""
        return int(self.rng.integers(least, round(least + self.size * (most - least)) + 1))

    def mix(self, items: Sequence[str]) -> list[str]:
        """The items in a random order."""
        return [items[row] for row in self.rng.permutation(len(items))]

    def name_verb(self) -> str:
        """What an action begins with: one or two words."""
        return " ".join(self.draw_word() for _ in range(1 + (self.rng.random() < PAIRS)))

    def name_things(self, count: int) -> list[str]:
        """Different names of one kind: a word, two of them, or one with a number."""
        kind, head = self.rng.random(), self.draw_word()
        if kind < NUMBERS:
            numbers = self.rng.permutation(100)[:count]
            return [f"{head} {number}" for number in numbers]
        if kind < NUMBERS + PAIRS:
            return [f"{self.draw_word()} {head}" for _ in range(count)]
        return [self.draw_word() for _ in range(count)]

    def draw_word(self) -> str:
        """A word that the exercise has not had."""
        while True:
            word = self.make_up() if self.rng.random() < MADE_UP else self.choose(read_words())
            if word not in self.used:
                self.used.add(word)
                return word

    def make_up(self) -> str:
        """A word that there is not."""
        count = int(self.rng.integers(1, 4))
        return "".join(
            self.choose(STARTS) + self.choose(VOWELS) + self.choose(ENDS) for _ in range(count)
        )

    def join(self, sentences: Sequence[str]) -> str:
        """Sentences of one text, in some exercises capitalised."""
        if self.capitals:
            sentences = [one[:1].upper() + one[1:] for one in sentences]
        return self.stop.join(sentences).strip() + self.stop.strip()

    def tell(self, things: Sequence[str], others: Sequence[str]) -> str:
        """That each thing goes with another, in a random order."""
        pairs = zip(things, others, strict=True)
        return self.join(self.mix([f"{one}{self.link}{other}" for one, other in pairs]))

    def list_things(self, things: Sequence[str]) -> str:
        """A list of things in a random order, after a few words."""
        return f"{self.draw_word()} {self.draw_word()}: {self.comma.join(self.mix(things))}."

    def say(self, seen: str, action: str, thought: str = "") -> None:
        """A turn: what is seen, what is done, and what was found for it."""
        self.turns.append((seen, action, thought))


def draw_exercise(rng: np.random.Generator, size: float = 1.0) -> Lesson:
    """One exercise of `KINDS`; the first prompt begins with the goal, as those of own worlds do."""
    writer = Writer(rng, size)
    goal = KINDS[int(rng.integers(len(KINDS)))](writer)
    thinks = rng.random() < THOUGHTS
    lesson = Lesson([], [], [])
    for number, (seen, action, thought) in enumerate(writer.turns):
        text = f"{goal}\n\n{seen}" if goal and not number else seen
        lesson.add(text, thought if thinks else "", action, mistake=False)
    return lesson


def follow_goal(writer: Writer) -> str:
    """The goal names one of the things that are listed."""
    things = writer.name_things(writer.draw_count(2, 7))
    wanted = things[0]
    writer.say(writer.list_things(things), f"{writer.verb} {wanted}", wanted)
    forms = "{0} {1}", "{0} the {1}", "you want the {1}: {0} it", "{1} is what you {0}"
    return writer.choose(forms).format(writer.verb, wanted)


def look_up(writer: Writer) -> str:
    """The goal names a thing, a note what goes with it, and in half of them another note more."""
    count = writer.draw_count(2, 6)
    things, others = writer.name_things(count), writer.name_things(count)
    seen, found = writer.tell(things, others), [things[0], others[0]]
    if writer.rng.random() < HALF * writer.size:
        last = writer.name_things(count)
        texts = writer.mix([seen, writer.tell(others, last)])
        seen, found = "\n".join(texts), [*found, last[0]]
    writer.say(seen, f"{writer.verb} {found[-1]}", writer.link.join(found))
    return f"{writer.verb} what goes with {found[0]}"


def look_up_later(writer: Writer) -> str:
    """Notes come first, and then turn by turn the things that are asked for."""
    count = writer.draw_count(2, 6)
    things, others = writer.name_things(count), writer.name_things(count)
    order, begin = writer.rng.permutation(count), writer.tell(things, others)
    for number, row in enumerate(order[: writer.draw_count(1, count)]):
        asked = f"{writer.next} {things[row]}?"
        told = f"{things[row]}{writer.link}{others[row]}"
        seen = asked if number else f"{begin}\n{asked}"
        writer.say(seen, f"{writer.verb} {others[row]}", told)
    return f"{writer.verb} what goes with it"


def keep_in_mind(writer: Writer) -> str:
    """What goes with what is told in the course of the turns; at last one is wanted."""
    count = writer.draw_count(2, 5)
    things, others = writer.name_things(count), writer.name_things(count)
    for thing, other in zip(things, others, strict=True):
        writer.say(f"{thing}{writer.link}{other}.", writer.next)
    row = int(writer.rng.integers(count))
    told = f"{things[row]}{writer.link}{others[row]}"
    writer.say(f"{writer.draw_word()} {things[row]}?", f"{writer.verb} {others[row]}", told)
    return f"{writer.next}, then {writer.verb}"


def suit_wishes(writer: Writer) -> str:
    """Of things with some properties one suits all wishes, which are told turn by turn."""
    rng, sorts = writer.rng, writer.draw_count(1, 3)
    values = [[writer.draw_word() for _ in range(writer.draw_count(3, 5))] for _ in range(sorts)]
    right = tuple(writer.choose(one) for one in values)
    yes, no, wishes, found = writer.draw_word(), writer.draw_word(), list[str](), {right}
    for place, value in enumerate(right):
        refused = writer.choose([one for one in values[place] if one != value])
        positive = rng.random() < WANTED
        wishes.append(f"{yes} {value}" if positive else f"{no} {refused}")
        worse = [*right]
        worse[place] = refused
        found.add(tuple(worse))
    things = sorted(" ".join(one) for one in found)
    seen, action = writer.list_things(things), f"{writer.verb} {' '.join(right)}"
    told = writer.mix(wishes)
    if rng.random() < HALF:
        writer.say(f"{seen}\n{writer.join(told)}", action, writer.comma.join(told))
        return f"{writer.verb} what suits"
    for wish in told:
        writer.say(seen, writer.next)
        seen = f"{wish}."
    writer.say(seen, action, writer.comma.join(told))
    return f"{writer.next}, then {writer.verb}"


def take_steps(writer: Writer) -> str:
    """The goal or the first text lists steps, which are taken one by one, whatever is seen."""
    things = writer.name_things(writer.draw_count(2, 5))
    steps = [f"{writer.draw_word()} {one}" for one in things]
    listed = writer.choose((", then ", "; ", ", ", "\n")).join(steps)
    for number, step in enumerate(steps):
        left = ", ".join(steps[number + 1 :]) or "done"
        writer.say(f"{writer.draw_word()} {writer.draw_word()}.", step, left)
    return listed


def pass_over(writer: Writer) -> str:
    """Of the things that are listed, one is not among those that are told to be left."""
    things = writer.name_things(writer.draw_count(3, 6))
    left = writer.comma.join(writer.mix(things[1:]))
    seen = [writer.list_things(things), f"{writer.draw_word()} {writer.draw_word()}: {left}."]
    writer.say("\n".join(writer.mix(seen)), f"{writer.verb} {things[0]}", things[0])
    return f"{writer.verb} what is in one list only"


def obey_rules(writer: Writer) -> str:
    """Rules say what to do at each of several sights, which then come turn by turn."""
    count = writer.draw_count(2, 5)
    sights, acts = writer.name_things(count), [writer.name_verb() for _ in range(count)]
    form = writer.choose(("if {}: {}", "at {} you {}", "{}, so {}", "when you see {}, {}"))
    rules = writer.join([form.format(*one) for one in zip(sights, acts, strict=True)])
    around = writer.choose(("{}", "you see {}.", "there is {} here.", f"{{}} {writer.draw_word()}"))
    for number in range(writer.draw_count(1, 5)):
        row = int(writer.rng.integers(count))
        seen = around.format(sights[row])
        writer.say(f"{rules}\n{seen}" if not number else seen, acts[row], sights[row])
    return ""


def repeat_words(writer: Writer) -> str:
    """What is said in each turn is said again."""
    for _ in range(writer.draw_count(1, 3)):
        words = " ".join(writer.draw_word() for _ in range(writer.draw_count(1, 6)))
        writer.say(f"{writer.draw_word()}: {words}", f"{writer.verb} {words}", words)
    return f"{writer.verb} what is said"


KINDS: tuple[Callable[[Writer], str], ...] = (
    follow_goal, look_up, look_up_later, keep_in_mind, suit_wishes, take_steps, pass_over,
    obey_rules, repeat_words,
)  # fmt: skip
"""The kinds of exercises; each writes its turns and returns the goal."""


@lru_cache(maxsize=1)
def read_words() -> tuple[str, ...]:
    """Everyday words."""
    text = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8")
    return tuple(text.split())
