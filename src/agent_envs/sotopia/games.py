"""The generated scenes: games whose truth is facts, their tasks, and the words that say facts.

In each game the side that asks has a goal, in points, dollars or friends, and the other side has
private facts that decide which deals it accepts. It says them in talk. Nothing here reads talk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from agent_envs.panels import Panel, one_of
from agent_envs.sotopia.scene import WORDS, WORLD, Character, Fact, Game, Scene

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agent_envs.sotopia.scene import Deal

NUMBERS = {"train": range(400), "val": range(400, 480), "test": range(500, 580)}
NUMBERS["hard"] = range(600, 680)
"""The numbers of the scenes of each split, in each family."""
CONSTRAINTS = {"train": 4, "val": 4, "test": 4, "hard": 5}
"""How many facts the other side has in a split by default."""
MOST = 5
_DEAREST = 999


@dataclass(frozen=True)
class Bargain(Game):
    """A price and extras. A deal is the price, then 1 for each extra that is taken, else 0.

    limit: worth of the good to the asker. extras: the worth of each.
    """

    limit: int
    extras: tuple[tuple[str, int], ...]
    listed: ClassVar[bool] = False
    material: ClassVar[bool] = True

    @classmethod
    def draw(cls, rng: Random, names: tuple[str, str], asker: int, split: str, count: int) -> Game:
        """A game with `count` facts: the least price, and what each extra costs."""
        words = WORDS[split]
        limit, room, extras = rng.randint(100, 220), rng.randint(15, 45), []
        least = [str(limit - room), str(limit - room - rng.randint(8, 24))]
        rng.shuffle(least)
        facts = [Fact("least", "price", *least)]
        chosen = rng.sample(WORLD["extras"][words].split(), count - 1)
        for extra in chosen:
            worth, above, below = rng.randint(10, 20), rng.randint(6, 9), rng.randint(6, 9)
            costs = [str(worth - below), str(worth + above)]  # taken for the other, it is a mistake
            rng.shuffle(costs)
            extras.append((extra, worth))
            facts.append(Fact("cost", extra, *costs))
        good, listed = rng.choice(WORLD["goods"][words].split()), ", ".join(chosen)
        more = "".join(f", the {name} ${worth} more" for name, worth in extras)
        return cls(
            asker, names, split, tuple(facts),
            '{"price": <dollars>' + (f', "with": [<of {listed}>]}}' if extras else "}"),
            f"{names[0]} wants to buy a {good} from {names[1]}."
            + (f" Extras: {listed}." if extras else ""),
            f"Buy as cheaply as you can. The {good} is worth ${limit} to you{more}. {names[1]} "
            "accepts a price that covers the least price and the extras' costs.",
            (limit - rng.randint(1, 4), *[0] * len(extras)), limit, tuple(extras),
        )  # fmt: skip

    def list_deals(self) -> Iterator[Deal]:
        """For each choice of extras the lowest price that the other side accepts."""
        costs = [int(fact.yes) for fact in self.facts]
        for taken in product((0, 1), repeat=len(self.extras)):
            yield sum(map(int.__mul__, (1, *taken), costs)), *taken

    def measure(self, deal: Deal) -> float:
        """The gain in dollars."""
        gains = [worth * taken for (_, worth), taken in zip(self.extras, deal[1:], strict=True)]
        return self.limit + sum(gains) - deal[0]

    def find_broken(self, deal: Deal) -> tuple[int, ...]:
        """If the price is too low: the least price, and the costs of the extras taken."""
        taken = [place for place, one in enumerate((1, *deal[1:])) if one]
        enough = deal[0] >= sum(int(self.facts[place].yes) for place in taken)
        return () if enough else tuple(taken)

    def read_offer(self, offer: object) -> Deal:
        """The deal in the field `offer` of an act."""
        names = ("price", "with") if self.extras else ("price",)
        price, *rest = self._take_fields("an offer", offer, names)
        extras, taken = [name for name, _ in self.extras], rest[0] if rest else []
        if not isinstance(taken, list):
            raise self._refuse(f"with is a list of extras, got {taken!r:.60}")
        places = [self._find_word("an extra", one, extras) for one in taken]
        if len(set(places)) < len(places):
            raise self._refuse(f"with has an extra twice, got {taken!r:.60}")
        count = self._take_number("price", price, _DEAREST)
        return count, *(int(place in places) for place in range(len(extras)))

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """A deal as the field `offer` of an act."""
        taken = [name for (name, _), one in zip(self.extras, deal[1:], strict=True) if one]
        return {"price": deal[0]} | ({"with": taken} if self.extras else {})

    def describe(self, deal: Deal) -> str:
        """A deal in words."""
        taken = self.write_offer(deal).get("with", [])
        return " with ".join([f"${deal[0]}", *([" and ".join(taken)] if taken else [])])


@dataclass(frozen=True)
class Divide(Game):
    """Things to divide. A deal is how many of each the asker keeps.

    things: name, number and the asker's points of each. known: how many the other side needs of the
    things that no fact is about.
    """

    things: tuple[tuple[str, int, int], ...]
    known: tuple[int, ...]
    listed: ClassVar[bool] = False
    material: ClassVar[bool] = True

    @classmethod
    def draw(cls, rng: Random, names: tuple[str, str], asker: int, split: str, count: int) -> Game:
        """A game with `count` facts: how many of each thing the other side needs."""
        chosen = rng.sample(WORLD["things"][WORDS[split]].split(), max(2, count))
        things = tuple((name, rng.randint(7, 9), rng.randint(6, 9)) for name in chosen)
        facts = []
        for name in chosen[:count]:
            less = rng.randint(1, 3)
            needs = [str(less), str(rng.randint(less + 3, 6))]  # mistaken, more than 5% are lost
            rng.shuffle(needs)
            facts.append(Fact("need", name, *needs))
        known = tuple(rng.randint(1, 6) for _ in chosen[count:])
        listed = ", ".join(f"{n} {name}s" for name, n, _ in things)
        told = zip(chosen[count:], known, strict=True)
        own = [points for *_, points in things]
        return cls(
            asker, names, split, tuple(facts),
            f'{{"keep": {{{", ".join(f"{one!r}: <0 to {n}>" for one, n, _ in things)}}}}}'
            .replace("'", '"'),
            f"{names[0]} and {names[1]} divide {listed}. "
            f"{names[1]} agrees if enough of each is left for {names[1]}."
            + "".join(f" Of the {one}s {names[1]} needs {number}." for one, number in told),
            "Keep as many points as you can. Your points for one: "
            f"{', '.join(f'{one} {points}' for one, _, points in things)}.",
            tuple(int(place == own.index(min(own))) for place in range(len(things))),
            things, known,
        )  # fmt: skip

    def list_deals(self) -> Iterator[Deal]:
        """The deal that leaves what the other side needs."""
        yield tuple(one[1] - need for one, need in zip(self.things, self._needs, strict=True))

    def measure(self, deal: Deal) -> float:
        """The asker's points."""
        return sum(worth * kept for (_, _, worth), kept in zip(self.things, deal, strict=True))

    @cached_property
    def _needs(self) -> tuple[int, ...]:
        return (*(int(fact.yes) for fact in self.facts), *self.known)

    def find_broken(self, deal: Deal) -> tuple[int, ...]:
        """The facts on things of which too few are left; all if only known needs are not met."""
        left = [one[1] - kept for one, kept in zip(self.things, deal, strict=True)]
        short = [place for place, need in enumerate(self._needs) if left[place] < need]
        told = range(len(self.facts))
        return tuple(place for place in short if place in told) or tuple(told if short else ())

    def read_offer(self, offer: object) -> Deal:
        """The deal in the field `offer` of an act."""
        names = [name for name, *_ in self.things]
        (kept,) = self._take_fields("an offer", offer, ("keep",))
        both = zip(self._take_fields("keep", kept, names), self.things, strict=True)
        return tuple(self._take_number(name, n, most) for n, (name, most, _) in both)

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """A deal as the field `offer` of an act."""
        return {"keep": {one[0]: kept for one, kept in zip(self.things, deal, strict=True)}}

    def describe(self, deal: Deal) -> str:
        """A deal in words."""
        kept = [f"{n} {one[0]}" for one, n in zip(self.things, deal, strict=True) if n]
        return f"{self.names[0]} keeps {', '.join(kept) or 'nothing'}"


@dataclass(frozen=True)
class Meet(Game):
    """A meeting. A deal is the option chosen in each issue.

    issues: name, options and the asker's points of each option.
    """

    issues: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...]

    @classmethod
    def draw(cls, rng: Random, names: tuple[str, str], asker: int, split: str, count: int) -> Game:
        """A game with `count` facts: what is the only, an impossible or a tied option."""
        given: Mapping[str, Any] = WORLD["issues"]
        issues, ranked = [], dict[str, list[str]]()
        for name in list(given)[: max(2, count)]:
            words = given[name] if isinstance(given[name], str) else given[name][WORDS[split]]
            options = rng.sample(words.split(), len(words.split()))
            worths = [rng.randint(8, 10), 5, *rng.choices((1, 2), k=len(options) - 2)]
            ranked[name] = options
            points = dict(zip(options, worths, strict=True))
            issues.append((name, tuple(words.split()), tuple(points[one] for one in words.split())))
        facts: list[Fact] = []
        holds = ""  # the option that the first fact leaves
        for place, topic in enumerate(rng.sample(list(ranked), count)):
            best, second, *others = ranked[topic]
            other, case = rng.choice(others), rng.randrange(3)  # best, other or second is left
            if place == _TIED:
                tied = rng.choice([one for one in ranked[facts[0].topic] if one != holds])
                facts.append(Fact("if", topic, best, rng.choice([holds, tied])))
                continue
            kind = ("only", "never")[rng.randrange(2)] if case == 0 else ("only", "never")[case - 1]
            said = (best, other) if case == 0 else (other, best)
            facts.append(Fact(kind, topic, *said))
            holds = holds or (best, other, second)[case]
        rng.shuffle(facts)
        form = ", ".join(f'"{name}": "<{name}>"' for name, *_ in issues)
        wishes = "; ".join(
            f"{name}: {', '.join(map('{} {}'.format, options, worths))}"
            for name, options, worths in issues
        )
        return cls(
            asker, names, split, tuple(facts), f"{{{form}}}",
            f"{names[0]} and {names[1]} want to meet and settle "
            f"{', '.join(name for name, *_ in issues)}.",
            f"Meet with as many points as {names[1]} allows. Your points: {wishes}.", None,
            tuple(issues),
        )  # fmt: skip

    def list_deals(self) -> Iterator[Deal]:
        """All deals."""
        return product(*(range(len(options)) for _, options, _ in self.issues))

    def measure(self, deal: Deal) -> float:
        """The asker's points."""
        return sum([one[2][choice] for one, choice in zip(self.issues, deal, strict=True)])

    @cached_property
    def _tests(self) -> list[tuple[str, int, int, tuple[int, int]]]:
        """Of each fact kind, place and option; place and option of what an "if" needs."""
        places = {name: place for place, (name, *_) in enumerate(self.issues)}
        where = {
            one: (place, number)
            for place, (_, options, _) in enumerate(self.issues)
            for number, one in enumerate(options)
        }
        return [
            (kind, places[topic], where[no if kind == "never" else yes][1], where[no])
            for kind, topic, yes, no in self.facts
        ]

    def find_broken(self, deal: Deal) -> tuple[int, ...]:
        """The facts that the deal breaks."""
        broken = []
        for place, (kind, issue, option, (other, needed)) in enumerate(self._tests):
            chosen, met = deal[issue] == option, kind == "if" and deal[other] == needed
            if chosen == (kind != "only") and not met:
                broken.append(place)
        return tuple(broken)

    def read_offer(self, offer: object) -> Deal:
        """The deal in the field `offer` of an act."""
        given = self._take_fields("an offer", offer, [name for name, *_ in self.issues])
        both = zip(given, self.issues, strict=True)
        return tuple(self._find_word(name, one, options) for one, (name, options, _) in both)

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """A deal as the field `offer` of an act."""
        both = zip(self.issues, deal, strict=True)
        return {name: options[choice] for (name, options, _), choice in both}


@dataclass(frozen=True)
class Friend(Game):
    """Friends of the asker, one of whom the other side knows. A deal is the place of a friend.

    friends: name and traits of each. kinds: of the traits.
    """

    friends: tuple[tuple[str, tuple[str, ...]], ...]
    kinds: tuple[str, ...]

    @classmethod
    def draw(cls, rng: Random, names: tuple[str, str], asker: int, split: str, count: int) -> Game:
        """A game with `count` facts: traits of the friend. Without any one of them two fit."""
        words = WORDS[split]
        kinds = tuple(rng.sample(list(WORLD["traits"]), max(2, count)))
        values = {kind: WORLD["traits"][kind][words].split() for kind in kinds}
        one = tuple(rng.choice(values[kind]) for kind in kinds)
        facts = [
            Fact("trait", kind, yes, rng.choice([other for other in values[kind] if other != yes]))
            for kind, yes in zip(kinds[:count], one, strict=False)
        ]
        # First who is meant if some facts are misunderstood.
        mixed = product(*((fact.yes, fact.no) for fact in facts))
        people = [(*some, *one[count:]) for some in mixed]
        while len(people) < _FRIENDS * count:
            other = tuple(rng.choice(values[kind]) for kind in kinds)
            if other[:count] != one[:count] and (other not in people or count == 1):
                people.append(other)
        rng.shuffle(people)
        known = [name for name in WORLD["names"][words].split() if name not in names]
        friends = tuple(zip(rng.sample(known, len(people)), people, strict=True))
        rng.shuffle(facts)
        listed = "; ".join(f"{', '.join(traits)}: {name}" for name, traits in friends)
        return cls(
            asker, names, split, tuple(facts), '{"friend": "<name>"}',
            f"{names[0]} and {names[1]} have one friend in common, whose name {names[1]} forgot.",
            f"Find the friend. Your friends, by {', '.join(kinds)}: {listed}.", None,
            friends, kinds,
        )  # fmt: skip

    def list_deals(self) -> Iterator[Deal]:
        """All deals."""
        return ((place,) for place in range(len(self.friends)))

    def measure(self, deal: Deal) -> float:
        """1 for the friend in common, else 0."""
        return float(not self.find_broken(deal))

    def find_broken(self, deal: Deal) -> tuple[int, ...]:
        """The facts that do not fit the friend."""
        traits = dict(zip(self.kinds, self.friends[deal[0]][1], strict=True))
        facts = enumerate(self.facts)
        return tuple(place for place, fact in facts if traits[fact.topic] != fact.yes)

    def read_offer(self, offer: object) -> Deal:
        """The deal in the field `offer` of an act."""
        (given,) = self._take_fields("an offer", offer, ("friend",))
        return (self._find_word("friend", given, [name for name, _ in self.friends]),)

    def write_offer(self, deal: Deal) -> dict[str, Any]:
        """A deal as the field `offer` of an act."""
        return {"friend": self.friends[deal[0]][0]}


_TIED = 2  # the fact of a meeting that ties an option to one of another issue
_FRIENDS = 8  # for each fact
FAMILIES: dict[str, type[Any]] = {
    "bargain": Bargain, "divide": Divide, "friend": Friend, "meet": Meet,
}  # fmt: skip


def open_panel(split: str, family: str) -> Panel:
    """The tasks `family-number` of a split, ordered by number and then by family."""
    one_of("split", split, tuple(NUMBERS))
    one_of("family", family, ("all", *FAMILIES))
    families = FAMILIES if family == "all" else (family,)
    return Panel(
        split, tuple(f"{one}-{number:03}" for number in NUMBERS[split] for one in families)
    )


@lru_cache(maxsize=4096)
def draw_scene(task_id: str, constraints: int) -> Scene:
    """The scene of a task, drawn by a generator that is seeded with the arguments.

    The side that begins, 0, asks in scenes of even numbers.
    """
    family, _, digits = task_id.rpartition("-")
    number = int(digits)
    split = next(split for split, numbers in NUMBERS.items() if number in numbers)
    rng, asker = Random(f"{task_id} {constraints}"), number % 2
    names = tuple(rng.sample(WORLD["names"][WORDS[split]].split(), 2))
    game = FAMILIES[family].draw(rng, names, asker, split, constraints)
    people = [Character(name) for name in names]
    holds = f"Agree to nothing that these do not allow. {game.conditions}"
    goals = [game.goal, holds]
    if asker == 1:
        people.reverse()
        goals.reverse()
    return Scene(task_id, game.situation, (goals[0], goals[1]), 1, (people[0], people[1]), game)
