"""The household of a task: a random supervisor with friends, mails, events, songs and so on.

A task family adds its subject to a `Draft`; `Draft.finish` makes the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.appworld.session import State
from agent_envs.assets import table

if TYPE_CHECKING:
    from random import Random

TRAIN_SEEDS = 12  # the first seeds of each family; further ones come after those of all splits
SCENARIOS = 20  # seeds with their own scenario
_ACCOUNTS = ("calendar", "contacts", "files", "mail", "music", "notes", "payments", "shopping")
FIRST_ID = 101
_SHUFFLED = ("contacts", "events", "files", "mails", "notes", "requests", "transactions")
_TABLES = (*_SHUFFLED, "lists", "items", "songs", "playlists")
_RELATIONSHIPS = ("family",) * 4 + ("friend",) * 7 + ("coworker",) * 5 + ("neighbour",) * 3


def freeze(value: Any) -> Any:
    """A value with tuples in place of lists, in lists and tables, too."""
    if isinstance(value, dict):
        return {name: freeze(one) for name, one in value.items()}
    return tuple(map(freeze, value)) if isinstance(value, list) else value


WORDS: dict[str, Any] = freeze(table("appworld/words.toml"))
"""Words that the small world is made of."""


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
        first, *names = rng.sample(WORDS["first_names"], 1 + len(_RELATIONSHIPS))
        last, *surnames = rng.sample(WORDS["last_names"], 1 + len(_RELATIONSHIPS))
        self.person = {
            "first_name": first,
            "last_name": last,
            "email": _make_address(first, last),
            "phone": self._draw_phone(),
            "birthday": self._draw_birthday(),
        }
        self.me = self.person["email"]
        for name, surname, relationship in zip(names, surnames, _RELATIONSHIPS, strict=True):
            family = last if relationship == "family" else surname
            self._add_contact(name, family, relationship)
        self.contacts = self.rows["contacts"]
        self._add_everyday()

    def choose_subject(self, values: Sequence[Any]) -> Any:
        """The subject of this task: each of the seeds 0-19 has its own one of the values.

        Further seeds draw from those of seeds 0-11, so that the subjects of the splits `val` and
        `test` never occur in `train`.
        """
        if self._seed < SCENARIOS:
            return values[self._seed]
        return self.rng.choice([*values[:TRAIN_SEEDS], *values[SCENARIOS:]])

    def choose_people(self, count: int, *relationships: str) -> list[dict[str, Any]]:
        """Different contacts with these relationships, or any if none is given."""
        fit = [c for c in self.contacts if not relationships or c["relationship"] in relationships]
        return self.rng.sample(fit, count)

    def format_time(self, days: int, hour: int = 12, minute: int = 0) -> str:
        """The time `days` days from today, in ISO form to the minute."""
        when = (self.now + timedelta(days=days)).replace(hour=hour, minute=minute)
        return when.isoformat(timespec="minutes")

    def add_row(self, table: str, **fields: Any) -> int:
        """Add a row, return its place (that of its id in tables that are not shuffled)."""
        self.rows[table].append(fields)
        return FIRST_ID + len(self.rows[table]) - 1

    def add_mail(
        self, sender: str, subject: str, body: str, *, days: int, folder: str = "inbox"
    ) -> None:
        """Add a mail to the supervisor."""
        self.add_row(
            "mails",
            folder=folder,
            sender=sender,
            recipients=[self.me],
            subject=subject,
            body=body,
            sent_at=self.format_time(-days, self.rng.randrange(7, 9), self.rng.randrange(60)),
            read=self.rng.choice((True, False)),
            starred=False,
        )

    def add_note(self, title: str, text: str, *tags: str) -> None:
        """Add a note."""
        self.add_row("notes", title=title, text=text, tags=list(tags), pinned=False)

    def add_event(
        self, title: str, days: int, hour: int, minutes: int, place: str = "", *guests: str
    ) -> None:
        """Add an event."""
        start = datetime.fromisoformat(self.format_time(days, hour))
        end = (start + timedelta(minutes=minutes)).isoformat(timespec="minutes")
        self.add_row(
            "events",
            title=title,
            start=self.format_time(days, hour),
            end=end,
            place=place,
            guests=list(guests),
        )

    def add_file(self, path: str, text: str, *, days: int = 30) -> None:
        """Add a file."""
        self.add_row("files", path=path, text=text, created_at=self.format_time(-days, 10))

    def add_payment(
        self, sender: str, receiver: str, amount: float, note: str, *, days: int
    ) -> None:
        """Add a payment."""
        self.add_row(
            "transactions",
            sender=sender,
            receiver=receiver,
            amount=amount,
            note=note,
            paid_at=self.format_time(-days, self.rng.randrange(6, 9), self.rng.randrange(60)),
        )

    def add_request(
        self, requester: str, payer: str, amount: float, note: str, status: str = "pending"
    ) -> None:
        """Add a request for money."""
        asked = self.format_time(-self.rng.randrange(1, 9), 8, self.rng.randrange(60))
        self.add_row(
            "requests",
            requester=requester,
            payer=payer,
            amount=amount,
            note=note,
            asked_at=asked,
            status=status,
        )

    def add_shopping_list(self, title: str, items: dict[str, int]) -> int:
        """Add a shopping list with how many of each item, return its id."""
        list_id = self.add_row("lists", title=title)
        for name, quantity in items.items():
            self.add_row("items", list_id=list_id, name=name, quantity=quantity, bought=False)
        return list_id

    def draw_amount(self, low: int, high: int) -> float:
        """A sum of money with cents."""
        return round(self.rng.randrange(low * 100, high * 100, 25) / 100, 2)

    def finish(self) -> Household:
        """The finished world, with rows in random order."""
        for name in _SHUFFLED:
            self.rng.shuffle(self.rows[name])
        homes = self.rng.sample(WORDS["streets"], 2)
        city = self.rng.choice(WORDS["cities"])
        addresses = tuple(
            {"name": name, "street": f"{self.rng.randrange(1, 90)} {street}", "city": city}
            for name, street in zip(("home", "work"), homes, strict=True)
        )
        passwords = {
            app: "".join(self.rng.choices("abcdefghjkmnpqrstuvwxyz23456789", k=9))
            for app in _ACCOUNTS
        }
        now = self.now.isoformat(timespec="seconds")
        return Household(self.person, addresses, passwords, now, State(self.rows))

    def _add_contact(self, first: str, last: str, relationship: str) -> None:
        self.add_row(
            "contacts",
            name=f"{first} {last}",
            email=_make_address(first, last),
            phone=self._draw_phone(),
            relationship=relationship,
            birthday=self._draw_birthday(),
            city=self.rng.choice(WORDS["cities"]),
        )

    def _add_everyday(self) -> None:
        """Add the contents of every household, independent of the task."""
        rng = self.rng
        for title, text, tag in rng.sample(WORDS["notes"], 9):
            self.add_note(title, text, tag)
        for title, place, minutes in WORDS["events"]:
            self.add_event(title, rng.randrange(-12, 15), rng.randrange(9, 19), minutes, place)
        for subject, body in WORDS["mails"]:
            (sender,) = self.choose_people(1)
            self.add_mail(sender["email"], subject, body, days=rng.randrange(2, 40))
        for name, subject, body in rng.sample(WORDS["newsletters"], 4):
            address = f"news@{name}.example"
            for _ in range(rng.randrange(2, 4)):
                self.add_mail(address, subject, body, days=rng.randrange(1, 60))
        for address, subject, body in WORDS["spam"]:
            self.add_mail(address, subject, body, days=rng.randrange(1, 60), folder="spam")
        for path, text in WORDS["files"]:
            self.add_file(path, text, days=rng.randrange(40, 400))
        self._add_money()
        self._add_music()
        self.add_shopping_list("Groceries", self.draw_groceries(5))
        self.add_shopping_list("Hardware store", {"screws": 40, "sandpaper": 3, "light bulbs": 2})

    def draw_groceries(self, count: int) -> dict[str, int]:
        """Different groceries and how many of each."""
        names = self.rng.sample(WORDS["groceries"], count)
        return {name: self.rng.randrange(1, 5) for name in names}

    def _add_money(self) -> None:
        rng = self.rng
        self.add_payment(
            "payroll@meridian.example", self.me, 2400.0, "salary", days=rng.randrange(61, 80)
        )
        for _ in range(14):
            (other,) = self.choose_people(1, "friend", "coworker", "neighbour")
            sender, receiver = rng.sample((self.me, other["email"]), 2)
            amount, purpose = self.draw_amount(4, 40), rng.choice(WORDS["purposes"])
            self.add_payment(sender, receiver, amount, purpose, days=rng.randrange(1, 60))

    def _add_music(self) -> None:
        rng = self.rng
        titles = [f"{one} {other}" for one in WORDS["song_starts"] for other in WORDS["song_ends"]]
        artists = rng.sample(WORDS["artists"], 12)
        genres = rng.sample(WORDS["genres"], 6)
        lengths = rng.sample(range(120, 420), 48)
        plays = rng.sample(range(2, 400), 48)
        for place, title in enumerate(rng.sample(titles, 48)):
            artist = artists[place % len(artists)]
            self.add_row(
                "songs",
                title=title,
                artist=artist,
                album=WORDS["album_words"][(place * 5 + len(artist)) % len(WORDS["album_words"])],
                genre=rng.choice(genres),
                year=rng.randrange(1985, 2024),
                seconds=lengths[place],
                plays=plays[place],
                liked=rng.randrange(5) == 0,
                rating=rng.choice((0, 0, 3, 4, 5)),
            )
        rng.shuffle(self.rows["songs"])
        for title in rng.sample(WORDS["playlists"], 2):
            ids = rng.sample(range(FIRST_ID, FIRST_ID + 48), 6)
            self.add_row("playlists", title=title, song_ids=ids)

    def _draw_phone(self) -> str:
        return f"555-{self.rng.randrange(10_000):04d}-{self.rng.randrange(100):02d}"

    def _draw_birthday(self) -> str:
        day = date(1950, 1, 1) + timedelta(days=self.rng.randrange(55 * 365))
        return day.isoformat()


def _make_address(first: str, last: str) -> str:
    return f"{first}.{last}@postbox.example".lower()
