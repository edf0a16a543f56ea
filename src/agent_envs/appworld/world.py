"""The generated world: households, families, and the tasks that are composed of them.

A task is a programme, a chain of families in which each is about what the one before it found, in
a household of its own. A family is a piece of code: it finds a row in lists of rows, does an act
with it by an API, or answers a question about it. The same code gives the truth here, run on the
tables, and the experts' solution, run in the sandbox. English is rendered from it and never read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import count
from random import Random
from types import CodeType, SimpleNamespace
from typing import Any, NamedTuple

from agent_envs.appworld.apps import APPS
from agent_envs.appworld.session import Fact, Household, Session, State, Verdict
from agent_envs.assets import table
from agent_envs.panels import one_of

_FILE = table("appworld/world.toml")
_KEY = b"a world from facts"
PARTS = (2, 3, 4)
SPLITS = ("train", "val", "test", "test_unseen")
# Tasks of each programme, in `train` if not said otherwise.
SEEDS = 4
# Most programmes of a split.
LARGEST = {"train": 240, "val": 40, "test": 80, "test_unseen": 80}
_HELD_OUT = (("test", 0.25), ("val", 0.25))  # shares of the programmes left, without held families
# Chance that a task needs something that is not there, where its programme has such tasks.
MISSING = 0.12
_TRIES = 30  # draws of values in one household
_QUARTERS = {"train": (0, 1), "val": (2,), "test": (3,), "test_unseen": (3,)}
RELATIONSHIPS = ("friend", "coworker", "neighbour", "cousin")
# The app of each table.
APPS_OF = {
    "contacts": "contacts",
    "events": "calendar",
    "mails": "mail",
    "transactions": "payments",
    "requests": "payments",
}
TABLES = tuple(APPS_OF)
_PRONOUNS = {kind: f"that {kind}" for kind in ("person", "event", "mail", "request")}
_LETTERS = "ABCD"
# Families of which the second would say nothing new, or not be clear, after the first.
_CLASHES = {
    ("pay", "paid"), ("pay", "last_paid"), ("ask", "owed"), ("rehome", "home"),
    ("mail", "subject"), ("oldest_mail", "subject"), ("youngest_in", "home"), ("oldest_in", "home"),
    ("creditor", "wants"), ("modest", "wants"), ("recent", "last_paid"), ("host", "hosts"),
    ("hosts", "host"), ("hosted", "host"), ("latest", "sender"), ("earliest", "sender"),
}  # fmt: skip


class Family(NamedTuple):
    """One part of a programme; see world.toml."""

    name: str
    takes: str
    finds: str
    given: dict[str, str]
    said: tuple[str, ...]
    code: str
    held: bool

    @property
    def is_question(self) -> bool:
        """Whether it answers a question, and so ends a programme."""
        return self.finds in ("number", "name", "date", "list")

    @property
    def is_act(self) -> bool:
        """Whether it changes something."""
        return not self.finds

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it reads."""
        return tuple(name for name in TABLES if f"in {name}" in self.code)

    @property
    def apps(self) -> set[str]:
        """The apps with log-in that it needs."""
        people = {"contacts"} if "person(" in self.code else set[str]()
        acts = set(re.findall(r"apis\.(\w+)\.", self.code))
        return {APPS_OF[name] for name in self.tables} | people | acts


FAMILIES: dict[str, Family] = {
    name: Family(
        name,
        one.get("takes", ""),
        one.get("finds", ""),
        one.get("given", {}),
        tuple(one["said"]),
        one["code"].strip(),
        one.get("held", False),
    )
    for name, one in _FILE["families"].items()
}
Programme = tuple[str, ...]


@cache
def list_programmes(parts: int) -> dict[str, tuple[Programme, ...]]:
    """The programmes of each split, in a fixed order; no programme is in two of them.

    Every family of `val` and `test` is in `train`, as long as that is not cut to its largest size.
    No act follows an act, so that no two programmes are the same in another order.
    """
    every = list(_extend((), "", parts))
    every.sort(key=lambda one: blake2b(" ".join(one).encode(), key=_KEY).digest())
    train = [one for one in every if not any(FAMILIES[name].held for name in one)]
    found = {"test_unseen": [one for one in every if one not in train]}
    uses = Counter(name for one in train for name in one)
    for split, share in _HELD_OUT:
        most = round(share * len(train))
        found[split] = []
        for one in list(train):
            if len(found[split]) < most and all(uses[name] > 1 for name in one):
                found[split].append(one)
                train.remove(one)
                uses.subtract(one)
    found["train"] = train
    return {split: tuple(found[split][: LARGEST[split]]) for split in SPLITS}


def _extend(start: Programme, kind: str, parts: int) -> Iterator[Programme]:
    """All programmes that begin with `start`, which has found something of a kind."""
    last = FAMILIES[start[-1]] if start else None
    for name, family in FAMILIES.items():
        if family.takes != kind or name in start or (start and (start[-1], name) in _CLASHES):
            continue
        if any((one, name) in _CLASHES for one in start if FAMILIES[one].is_act):
            continue
        if last and last.is_act and family.is_act:
            continue
        ends = family.is_question or (family.is_act and kind != "person")
        if parts == 1 and (family.is_act or family.is_question):
            yield (*start, name)
        elif parts > 1 and not ends:
            yield from _extend((*start, name), family.finds or kind, parts - 1)


def list_tasks(
    split: str, parts: int = 3, seeds: int = SEEDS, families: tuple[str, ...] = ()
) -> dict[str, str]:
    """The ids of a split's tasks with their programmes; `families` keeps those of only these.

    Raises:
        ValueError: An unknown split, family or number of parts, no seeds, or no task left.
    """
    one_of("split", split, SPLITS)
    if parts not in PARTS or isinstance(parts, bool):
        raise ValueError(f"parts must be one of {PARTS}, got {parts!r}")
    if seeds < 1:
        raise ValueError(f"train_seeds must be at least 1, got {seeds}")
    for name in families:
        one_of("family", name, tuple(FAMILIES))
    found = {
        f"{split}-{'+'.join(one)}-{seed}": "+".join(one)
        for one in list_programmes(parts)[split]
        if not families or set(one) <= set(families)
        for seed in range(seeds)
    }
    if not found:
        told = f"families={list(families)} and parts={parts}"
        raise ValueError(f"no task of {split} has {told}; add families, or change parts")
    return found


def list_apps(programme: Iterable[str]) -> list[str]:
    """The apps with log-in that a programme needs."""
    return sorted({app for name in programme for app in FAMILIES[name].apps})


@dataclass(frozen=True)
class Task:
    """A task with its world at the start.

    Attributes:
        programme: names of its families.
        given: the values of each family.
        instruction: the request.
        household: the world.
        missing: whether something that it needs is not there.
        answer: the right answer as `apps.read_answer` reads it.
        changes: all that must be added and changed.
    """

    programme: Programme
    given: tuple[dict[str, Any], ...]
    instruction: str
    household: Household
    missing: bool
    answer: Any
    changes: tuple[Fact, ...]

    @property
    def answer_type(self) -> str:
        """The type of the answer, "" if none is wanted."""
        last = FAMILIES[self.programme[-1]]
        return last.finds if last.is_question else ""

    def judge(self, session: Session) -> Verdict:
        """The outcome of the tests: each change, nothing else, the end, the answer."""
        done = Counter(session.state.list_changes(session.before))
        wanted = Counter(self.changes)
        tests = {
            f"change {number} of {len(self.changes)} in {fact.table} is made": done[fact] > 0
            for number, fact in enumerate(self.changes, 1)
        }
        tests["nothing else is changed"] = not done - wanted
        status = "fail" if self.missing else "success"
        ended = session.ended
        tests[f"the task is completed with status {status!r}"] = bool(ended and ended[1] == status)
        if self.answer_type and not self.missing:
            tests["the answer is right"] = bool(ended and ended == (self.answer, "success"))
        passes = tuple(name for name, passed in tests.items() if passed)
        return Verdict(passes, tuple(name for name, passed in tests.items() if not passed))


@lru_cache(maxsize=1024)
def make_task(task_id: str) -> Task:
    """The task with that id, the same on every machine.

    Raises:
        ValueError: An unknown task.
    """
    split, _, rest = task_id.partition("-")
    names, _, seed = rest.rpartition("-")
    programme = tuple(names.split("+"))
    known = split in SPLITS and seed.isdecimal() and len(programme) in PARTS
    if not known or programme not in list_programmes(len(programme))[split]:
        form = "<split>-<family>+<family>-<seed>"
        raise ValueError(
            f"no task {task_id!r:.200}; a task is {form}, with a programme of its split"
        )
    # Not Random(task_id), since an agent could try all ids until the clock fits.
    rng = Random(blake2b(task_id.encode(), key=_KEY, digest_size=16).digest())
    wanted = rng.random() < MISSING
    for number in count():
        missing = wanted and number == 0  # one household, as some programmes never miss a thing
        household = draw_household(rng, split)
        for _ in range(_TRIES):
            given = tuple(_draw_values(FAMILIES[name], household, rng, split) for name in programme)
            try:
                found = find_truth(programme, given, household)
            except ValueError:
                continue
            if found.missing is missing:
                instruction = render(programme, given, rng, split)
                truth = found.answer, found.changes
                return Task(programme, given, instruction, household, missing, *truth)
    raise AssertionError


class Truth(NamedTuple):
    """What a programme comes to: whether something is missing, the answer, the changes."""

    missing: bool
    answer: Any = None
    changes: tuple[Fact, ...] = ()


def find_truth(
    programme: Programme, given: tuple[dict[str, Any], ...], household: Household
) -> Truth:
    """What is right in a household.

    Raises:
        ValueError: The request would not be clear there: two rows fit, a thing leads back to an
            earlier one, an act is refused or changes nothing, something is missing after an act, or
            the answer is 0 or empty.
    """
    session = Session(household, APPS)
    space = _open_space(session)
    seen, answer = list[int](), None
    for name, values in zip(programme, given, strict=True):
        family, before = FAMILIES[name], session.state.key
        space.update(values)
        exec(_compile(name), space)  # noqa: S102  our own code
        result = space["answer" if family.is_question else "it"]
        if result is None and session.state.key == household.state.key:
            return Truth(missing=True)
        if family.is_act:
            clear = session.state.key != before
        else:
            clear = bool(result) and id(result) not in seen
            seen.append(id(result))
        if not clear:
            raise ValueError(f"the request is not clear at {name!r}")
        answer = _normalise(result) if family.is_question else None
    return Truth(False, answer, tuple(session.state.list_changes(session.before)))


def _normalise(answer: Any) -> Any:
    """A right answer as `apps.read_answer` reads it."""
    if isinstance(answer, list):
        return sorted(one.casefold() for one in answer)
    return answer.casefold() if isinstance(answer, str) else round(float(answer), 2)


@cache
def _compile(name: str) -> CodeType:
    return compile(FAMILIES[name].code, name, "exec")


def one(found: list[Any]) -> Any:
    """The only one of some rows, None if there is none.

    Raises:
        ValueError: There are several.
    """
    (row,) = found or [None]
    return row


def _open_space(session: Session) -> dict[str, Any]:
    """The names that families' code uses, over the tables of a session."""

    def find_person(email: str | None) -> Any:
        return next((c for c in rows["contacts"] if c["email"] == email), None)

    def make_app(app: str) -> Any:
        return SimpleNamespace(**{api: _make_call(session, app, api) for api in APPS[app].apis})

    rows = {name: list(session.state.tables[name].values()) for name in TABLES}
    rows["mails"] = [mail for mail in rows["mails"] if mail["folder"] == "inbox"]
    apps = [name for name in APPS if not APPS[name].open]
    tokens = {f"{app}_token": session.make_token(app) for app in apps}
    session.logged_in.update(apps)
    return {
        **rows,
        **tokens,
        "it": None,
        "me": session.person,
        "today": session.now[:10],
        "one": one,
        "person": find_person,
        "apis": SimpleNamespace(**{app: make_app(app) for app in apps}),
    }


def _make_call(session: Session, app: str, api: str) -> Any:
    def call(**given: Any) -> Any:
        reply = session.call(app, api, given)
        if "error" in reply:
            raise ValueError(reply["error"])
        return reply["value"]

    return call


def _draw_values(family: Family, household: Household, rng: Random, split: str) -> dict[str, Any]:
    """Values of a family's names; those of a table are of rows of this household."""
    values = dict[str, Any]()
    for name, source in family.given.items():
        if source == "amount":
            values[name] = rng.randrange(500, 9000, 5) / 100
        elif source == "day":
            later = date.fromisoformat(household.now[:10]) + timedelta(rng.randrange(70, 160))
            values[name] = later.isoformat()
        elif "." in source:
            rows, _, field = source.partition(".")
            values[name] = rng.choice(
                [row[field] for row in household.state.find_rows(rows) if row[field]]
            )
        else:
            values[name] = rng.choice(list_words(source, split))
    return values


@cache
def list_words(name: str, split: str) -> tuple[str, ...]:
    """The words of a list that a split uses."""
    words = _FILE["words"][name]
    return tuple(word for row, word in enumerate(words) if row % 4 in _QUARTERS[split])


def draw_household(rng: Random, split: str) -> Household:
    """A random person with contacts, events, mails, payments and requests."""

    def words(name: str) -> tuple[str, ...]:
        return list_words(name, split)

    today = date(2024, 3, 4) + timedelta(days=rng.randrange(180))
    names = [f"{first} {last}" for first in words("first_names") for last in words("last_names")]
    me, *others = rng.sample(names, 21)
    mine, emails = _make_address(me), [_make_address(name) for name in others]
    couples = rng.sample(emails, 12)
    partners = dict(zip(couples, reversed(couples), strict=True))
    cities = rng.sample(words("cities"), 5)
    births = rng.sample(range(55 * 365), 20)
    contacts = [
        {
            "name": name,
            "email": email,
            "relationship": RELATIONSHIPS[row % 4],
            "birthday": (date(1950, 1, 1) + timedelta(days=births[row])).isoformat(),
            "city": rng.choice((*cities, *cities, None)),
            "partner": partners.get(email),
            "manager": rng.choice([e for e in emails if e != email] + [None] * 6),
            "emergency": rng.choice([e for e in emails if e != email] + [None] * 6),
            "label": None,
        }
        for row, (name, email) in enumerate(zip(others, emails, strict=True))
    ]
    rng.shuffle(contacts)
    days = [day for day in range(-60, 61) if day]
    events = []
    for day in rng.sample(days, 30):
        host, *guests = rng.sample(emails, rng.randrange(3, 6))
        events.append(
            {
                "title": rng.choice(words("titles")),
                "day": (today + timedelta(days=day)).isoformat(),
                "place": rng.choice((*words("places"), None)),
                "host": host,
                "guests": guests,
                "cancelled": False,
            }
        )
    mails = [
        {
            "folder": rng.choice(("inbox", "inbox", "inbox", "archive")),
            "sender": rng.choice(emails),
            "recipient": mine,
            "subject": rng.choice(words("subjects")),
            "body": rng.choice(words("texts")),
            "sent_at": f"{today - timedelta(days=day)}T{rng.randrange(7, 20):02}:00",
            "starred": False,
        }
        for day in rng.sample(range(1, 200), 40)
    ]
    amounts = [cents / 100 for cents in rng.sample(range(500, 9000, 5), 64)]

    def draw_sum(days_ago: int) -> dict[str, Any]:
        day = (today - timedelta(days=days_ago)).isoformat()
        return {"amount": amounts.pop(), "note": rng.choice(words("purposes")), "day": day}

    transactions = []
    for days_ago in rng.sample(range(1, 120), 40):
        sender, receiver = rng.sample((mine, rng.choice(emails)), 2)
        transactions.append({"sender": sender, "receiver": receiver, **draw_sum(days_ago)})
    requests = []
    for mine_is in ("payer", "requester"):
        other = "requester" if mine_is == "payer" else "payer"
        for email in rng.sample(emails, 12):
            status = rng.choice(("pending", "pending", "pending", "paid", "declined"))
            money = draw_sum(rng.randrange(1, 60))
            requests.append({other: email, mine_is: mine, **money, "status": status})
    rng.shuffle(requests)
    first, last = me.split()
    rows = (contacts, events, mails, transactions, requests)
    passwords = {
        app: "".join(rng.choices("abcdefghjkmnpqrstuvwxyz23456789", k=9))
        for app in APPS
        if not APPS[app].open
    }
    return Household(
        {"first_name": first, "last_name": last, "email": mine},
        passwords,
        f"{today}T{rng.randrange(9, 18):02}:00",
        State(dict(zip(TABLES, rows, strict=True))),
    )


def _make_address(name: str) -> str:
    return f"{name.replace(' ', '.')}@postbox.example".lower()


def render(programme: Programme, given: tuple[dict[str, Any], ...], rng: Random, split: str) -> str:
    """The request in English, in a style of the split.

    Training nests each part in the next, or looks things up one after the other. The tests name
    the things by letters and say what they are last.
    """
    style = rng.choice(("nested", "stepwise")) if split in ("train", "val") else "letters"
    things = sum(FAMILIES[name].finds in _PRONOUNS for name in programme)
    letters = iter(_LETTERS[:things][::-1])  # the last thing is A
    sentences, definitions, it = list[str](), list[str](), ""
    for name, values in zip(programme, given, strict=True):
        family = FAMILIES[name]
        wording = family.said[2] if style == "letters" else rng.choice(family.said[:2])
        shown = {key: f"{x:.2f}" if isinstance(x, float) else x for key, x in values.items()}
        said = wording.format(it=it, **shown)
        if family.finds not in _PRONOUNS:
            sentences.append(said)
            it = it if style == "letters" else _PRONOUNS[family.takes]
        elif style == "nested":
            it = said
        elif style == "stepwise":
            sentences.append(f"Look up {said}.")
            it = _PRONOUNS[family.finds]
        else:
            it = next(letters)
            definitions.insert(0, f"{it} is {said}.")
    return " ".join([*sentences, *definitions])
