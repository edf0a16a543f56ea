"""The household of a task: a random supervisor with friends, mails, events, songs and so on.

A task family adds its subject to a `Draft`; `Draft.household` makes the state.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agent_envs.appworld import words
from agent_envs.appworld.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

TRAIN_SEEDS = 12  # the first seeds of each family; further ones come after those of all splits
SCENARIOS = 20  # seeds with their own scenario
Value = TypeVar("Value")
APPS_WITH_ACCOUNTS = (
    "calendar",
    "contacts",
    "files",
    "mail",
    "music",
    "notes",
    "payments",
    "shopping",
)
FIRST_ID = 101
_SHUFFLED = ("contacts", "events", "files", "mails", "notes", "requests", "transactions")
_TABLES = (*_SHUFFLED, "lists", "items", "songs", "playlists")
_RELATIONSHIPS = ("family",) * 4 + ("friend",) * 7 + ("coworker",) * 5 + ("neighbour",) * 3


class Household(NamedTuple):
    """A world: person, addresses, passwords by app, the time in ISO form, the state."""

    person: dict[str, str]
    addresses: tuple[dict[str, str], ...]
    passwords: dict[str, str]
    now: str
    state: State


class Draft:
    """A world under construction: rows by table, without ids.

    Args:
        rng: the source of all randomness.
        seed: the number of the task in its family, which determines its scenario.

    Attributes:
        rng: the source of all randomness.
        now: the time of the task, on the hour.
        me: the supervisor's email address.
        contacts: rows of all contacts.
    """

    def __init__(self, rng: Random, seed: int) -> None:
        self.rng, self._seed = rng, seed
        day = date(2024, 3, 4) + timedelta(days=rng.randrange(180))
        self.now = datetime.combine(day, time(rng.randrange(9, 18)))
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
        first, *names = rng.sample(words.FIRST_NAMES, 1 + len(_RELATIONSHIPS))
        last, *surnames = rng.sample(words.LAST_NAMES, 1 + len(_RELATIONSHIPS))
        self.person = {
            "first_name": first,
            "last_name": last,
            "email": _email(first, last),
            "phone": self._phone(),
            "birthday": self._birthday(),
        }
        self.me = self.person["email"]
        for name, surname, relationship in zip(names, surnames, _RELATIONSHIPS, strict=True):
            family = last if relationship == "family" else surname
            self._contact(name, family, relationship)
        self.contacts = self.rows["contacts"]
        self._everyday()

    def scenario(self, values: Sequence[Value]) -> Value:
        """The subject of this task: each of the seeds 0-19 has its own one of the values.

        Further seeds draw from those of seeds 0-11, so that the subjects of the splits `val` and
        `test` never occur in `train`.
        """
        if len(values) < SCENARIOS or len(set(values)) < len(values):
            raise ValueError(f"a family needs {SCENARIOS} different scenarios, got {values}")
        if self._seed < SCENARIOS:
            return values[self._seed]
        return self.rng.choice([*values[:TRAIN_SEEDS], *values[SCENARIOS:]])

    def people(self, count: int, *relationships: str) -> list[dict[str, Any]]:
        """Different contacts with these relationships, or any if none is given."""
        fit = [c for c in self.contacts if not relationships or c["relationship"] in relationships]
        return self.rng.sample(fit, count)

    def at(self, days: int, hour: int = 12, minute: int = 0) -> str:
        """The time `days` days from today, in ISO form to the minute."""
        when = (self.now + timedelta(days=days)).replace(hour=hour, minute=minute)
        return when.isoformat(timespec="minutes")

    def add(self, table: str, **fields: Any) -> int:
        """Add a row, return its place (that of its id in tables that are not shuffled)."""
        self.rows[table].append(fields)
        return FIRST_ID + len(self.rows[table]) - 1

    def mail(
        self, sender: str, subject: str, body: str, *, days: int, folder: str = "inbox"
    ) -> None:
        """Add a mail to the supervisor."""
        self.add(
            "mails",
            folder=folder,
            sender=sender,
            recipients=[self.me],
            subject=subject,
            body=body,
            sent_at=self.at(-days, self.rng.randrange(7, 9), self.rng.randrange(60)),
            read=self.rng.choice((True, False)),
            starred=False,
        )

    def note(self, title: str, text: str, *tags: str) -> None:
        """Add a note."""
        self.add("notes", title=title, text=text, tags=list(tags), pinned=False)

    def event(
        self, title: str, days: int, hour: int, minutes: int, place: str = "", *guests: str
    ) -> None:
        """Add an event."""
        start = datetime.fromisoformat(self.at(days, hour))
        end = (start + timedelta(minutes=minutes)).isoformat(timespec="minutes")
        self.add(
            "events",
            title=title,
            start=self.at(days, hour),
            end=end,
            place=place,
            guests=list(guests),
        )

    def file(self, path: str, text: str, *, days: int = 30) -> None:
        """Add a file."""
        self.add("files", path=path, text=text, created_at=self.at(-days, 10))

    def paid(self, sender: str, receiver: str, amount: float, note: str, *, days: int) -> None:
        """Add a payment."""
        self.add(
            "transactions",
            sender=sender,
            receiver=receiver,
            amount=amount,
            note=note,
            paid_at=self.at(-days, self.rng.randrange(6, 9), self.rng.randrange(60)),
        )

    def request(
        self, requester: str, payer: str, amount: float, note: str, status: str = "pending"
    ) -> None:
        """Add a request for money."""
        asked = self.at(-self.rng.randrange(1, 9), 8, self.rng.randrange(60))
        self.add(
            "requests",
            requester=requester,
            payer=payer,
            amount=amount,
            note=note,
            asked_at=asked,
            status=status,
        )

    def shopping_list(self, title: str, items: dict[str, int]) -> int:
        """Add a shopping list with how many of each item, return its id."""
        list_id = self.add("lists", title=title)
        for name, quantity in items.items():
            self.add("items", list_id=list_id, name=name, quantity=quantity, bought=False)
        return list_id

    def amount(self, low: int, high: int) -> float:
        """A sum of money with cents."""
        return round(self.rng.randrange(low * 100, high * 100, 25) / 100, 2)

    def household(self) -> Household:
        """The finished world, with rows in random order."""
        for name in _SHUFFLED:
            self.rng.shuffle(self.rows[name])
        homes = self.rng.sample(words.STREETS, 2)
        city = self.rng.choice(words.CITIES)
        addresses = tuple(
            {"name": name, "street": f"{self.rng.randrange(1, 90)} {street}", "city": city}
            for name, street in zip(("home", "work"), homes, strict=True)
        )
        passwords = {
            app: "".join(self.rng.choices("abcdefghjkmnpqrstuvwxyz23456789", k=9))
            for app in APPS_WITH_ACCOUNTS
        }
        now = self.now.isoformat(timespec="seconds")
        return Household(self.person, addresses, passwords, now, State(self.rows))

    def _contact(self, first: str, last: str, relationship: str) -> None:
        self.add(
            "contacts",
            name=f"{first} {last}",
            email=_email(first, last),
            phone=self._phone(),
            relationship=relationship,
            birthday=self._birthday(),
            city=self.rng.choice(words.CITIES),
        )

    def _everyday(self) -> None:
        """Add the contents of every household, independent of the task."""
        rng = self.rng
        for title, text, tag in rng.sample(words.NOTES, 9):
            self.note(title, text, tag)
        for title, place, minutes in words.EVENTS:
            self.event(title, rng.randrange(-12, 15), rng.randrange(9, 19), minutes, place)
        for subject, body in words.MAILS:
            (sender,) = self.people(1)
            self.mail(sender["email"], subject, body, days=rng.randrange(2, 40))
        for name, subject, body in rng.sample(words.NEWSLETTERS, 4):
            address = f"news@{name}.example"
            for _ in range(rng.randrange(2, 4)):
                self.mail(address, subject, body, days=rng.randrange(1, 60))
        for address, subject, body in words.SPAM:
            self.mail(address, subject, body, days=rng.randrange(1, 60), folder="spam")
        for path, text in words.FILES:
            self.file(path, text, days=rng.randrange(40, 400))
        self._money()
        self._music()
        self.shopping_list("Groceries", self.groceries(5))
        self.shopping_list("Hardware store", {"screws": 40, "sandpaper": 3, "light bulbs": 2})

    def groceries(self, count: int) -> dict[str, int]:
        """Different groceries and how many of each."""
        names = self.rng.sample(words.GROCERIES, count)
        return {name: self.rng.randrange(1, 5) for name in names}

    def _money(self) -> None:
        rng = self.rng
        self.paid("payroll@meridian.example", self.me, 2400.0, "salary", days=rng.randrange(61, 80))
        for _ in range(14):
            (other,) = self.people(1, "friend", "coworker", "neighbour")
            sender, receiver = rng.sample((self.me, other["email"]), 2)
            amount, purpose = self.amount(4, 40), rng.choice(words.PURPOSES)
            self.paid(sender, receiver, amount, purpose, days=rng.randrange(1, 60))

    def _music(self) -> None:
        rng = self.rng
        titles = [f"{one} {other}" for one in words.SONG_STARTS for other in words.SONG_ENDS]
        artists = rng.sample(words.ARTISTS, 12)
        genres = rng.sample(words.GENRES, 6)
        lengths = rng.sample(range(120, 420), 48)
        plays = rng.sample(range(2, 400), 48)
        for place, title in enumerate(rng.sample(titles, 48)):
            artist = artists[place % len(artists)]
            self.add(
                "songs",
                title=title,
                artist=artist,
                album=words.ALBUM_WORDS[(place * 5 + len(artist)) % len(words.ALBUM_WORDS)],
                genre=rng.choice(genres),
                year=rng.randrange(1985, 2024),
                seconds=lengths[place],
                plays=plays[place],
                liked=rng.randrange(5) == 0,
                rating=rng.choice((0, 0, 3, 4, 5)),
            )
        rng.shuffle(self.rows["songs"])
        for title in rng.sample(words.PLAYLISTS, 2):
            ids = rng.sample(range(FIRST_ID, FIRST_ID + 48), 6)
            self.add("playlists", title=title, song_ids=ids)

    def _phone(self) -> str:
        return f"555-{self.rng.randrange(10_000):04d}-{self.rng.randrange(100):02d}"

    def _birthday(self) -> str:
        day = date(1950, 1, 1) + timedelta(days=self.rng.randrange(55 * 365))
        return day.isoformat()


def _email(first: str, last: str) -> str:
    return f"{first}.{last}@postbox.example".lower()
