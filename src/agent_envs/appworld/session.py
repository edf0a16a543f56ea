"""A session of the small world: its state, log-ins, calls of its apps, and their effects.

The state is rows in tables. Rows are immutable: a change replaces a row by a new one. So a copy
only copies the tables, and a row was changed if it is another object. The key of a state is updated
with every change, so that reading it costs nothing.

The ledger has the irreversible effects (mails, invitations, payments, deletions) and compares them
with those requested. It is append-only: undoing something in the apps does not remove its effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from agent_envs.appworld.reading import is_same

UNKNOWN_APP = "No app named {!r:.60} found."
UNKNOWN_API = "No API named {!r:.60} found in the {} app."
REFUSED = "Response status code is {}:\n{}"
_NOT_LOGGED_IN = "The access_token is wrong or of another app; call login of this app."
_ENDED = "The task is completed; nothing more can be done."
CALLS = 500  # most calls of one turn
_TEXTS = ("files", "notes")  # tables whose rows have a text
_TOO_MANY = {  # one shared object for all such replies
    "error": REFUSED.format(
        429,
        json.dumps({"message": f"Too many calls: one turn may make {CALLS}; go on in the next."}),
    )
}
_SHOWN = 200  # characters of an effect's text
Row = Mapping[str, Any]
_KEYS = 2**128


_FAULTS = (
    ("timeout", re.compile("timed out after|Maximum number of executions")),
    ("unknown", re.compile("No app named|No API named")),
    ("refused", re.compile(r"Response status code is 4\d\d")),
)


class Refusal(Exception):
    """An API refuses a call; the arguments are an HTTP status and a message."""


def classify_failure(text: str) -> str:
    """The `info["invalid_reason"]` of the text of a failure; "" if it is none of a call."""
    return next((fault for fault, sign in _FAULTS if sign.search(text)), "")


class Opened(NamedTuple):
    """The start of a task: the request, the person (name, email and so on), the time."""

    instruction: str
    supervisor: dict[str, str]
    datetime: str


class Verdict(NamedTuple):
    """Names of the tests of a task that pass now and of those that fail."""

    passes: tuple[str, ...]
    failures: tuple[str, ...]


class Changes(NamedTuple):
    """The changes of a table: rows added and removed, and fields changed, by id."""

    added: dict[int, Row]
    changed: dict[int, dict[str, Any]]
    removed: dict[int, Row]


class State:
    """Tables of rows by id; ids count up in each table and are used once.

    Args:
        tables: rows by table, each an iterable of rows without ids.

    Attributes:
        tables: rows by table and id, in the order of their ids.
    """

    def __init__(self, tables: Mapping[str, Iterable[Row]]) -> None:
        self.tables: dict[str, dict[int, Row]] = {
            name: {row_id: {"id": row_id, **row} for row_id, row in enumerate(rows, 101)}
            for name, rows in tables.items()
        }
        self._last = {name: 100 + len(rows) for name, rows in self.tables.items()}
        self._sum = 0  # of the keys of added rows, minus those of removed rows

    def copy(self) -> State:
        """A copy with the same rows; changes to one do not affect the other."""
        other = State({})
        other.tables = {name: dict(rows) for name, rows in self.tables.items()}
        other._last = dict(self._last)
        other._sum = self._sum
        return other

    @property
    def key(self) -> tuple[int, ...]:
        """For copies of one state, equal iff all rows and next ids are equal."""
        return (self._sum, *self._last.values())

    def find_rows(self, table: str, **fields: Any) -> list[Row]:
        """The rows whose fields have these values, in the order of their ids."""
        return [
            row
            for row in self.tables[table].values()
            if all(row[name] == value for name, value in fields.items())
        ]

    def get(self, table: str, row_id: int) -> Row | None:
        """A row by its id."""
        return self.tables[table].get(row_id)

    def add(self, table: str, **fields: Any) -> int:
        """Add a row, return its id."""
        row_id = self._last[table] = self._last[table] + 1
        self.tables[table][row_id] = row = {"id": row_id, **fields}
        self._sum = (self._sum + _hash_row(table, row)) % _KEYS
        return row_id

    def change(self, table: str, row_id: int, **fields: Any) -> None:
        """Set fields of a row."""
        old = self.tables[table][row_id]
        self.tables[table][row_id] = new = {**old, **fields}
        self._sum = (self._sum + _hash_row(table, new) - _hash_row(table, old)) % _KEYS

    def remove(self, table: str, row_id: int) -> None:
        """Remove a row."""
        self._sum = (self._sum - _hash_row(table, self.tables[table].pop(row_id))) % _KEYS

    def find_changes(self, before: State) -> dict[str, Changes]:
        """The changes of each table since `before`, without unchanged tables."""
        found = {}
        for name, rows in self.tables.items():
            changes = _compare(before.tables[name], rows)
            if any(changes):
                found[name] = changes
        return found


def _hash_row(table: str, row: Row) -> int:
    text = repr((table, row)).encode("utf-8", "backslashreplace")
    return int.from_bytes(blake2b(text, digest_size=16).digest())


def _compare(before: Mapping[int, Row], now: Mapping[int, Row]) -> Changes:
    added = {row_id: row for row_id, row in now.items() if row_id not in before}
    removed = {row_id: row for row_id, row in before.items() if row_id not in now}
    changed = {}
    for row_id, row in now.items():
        old = before.get(row_id)
        if old is None or old is row:
            continue
        fields = {name: value for name, value in row.items() if old[name] != value}
        if fields:
            changed[row_id] = fields
    return Changes(added, changed, removed)


class Effect(NamedTuple):
    """One irreversible effect: its kind, such as "mail", and its fields.

    A wanted effect has the fields that matter, with values for `reading.is_same`.
    """

    kind: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        fields = ", ".join(f"{name} {value!r:.60}" for name, value in self.fields.items())
        return f"{self.kind}: {fields}"[:_SHOWN]


class Ledger:
    """The effects of an episode in order.

    Args:
        wanted: the effects that the task requests, each once.

    Attributes:
        effects: all effects.
        unasked: effects that the task did not request, including repetitions of wanted ones.
    """

    def __init__(self, wanted: Iterable[Effect] = ()) -> None:
        self.effects: list[Effect] = []
        self.unasked: list[Effect] = []
        self._open = list(enumerate(wanted))

    def add(self, kind: str, **fields: Any) -> None:
        """Record an irreversible effect."""
        effect = Effect(kind, fields)
        self.effects.append(effect)
        for place, (_, wanted) in enumerate(self._open):
            if wanted.kind == kind and has_values(fields, wanted.fields):
                del self._open[place]
                return
        self.unasked.append(effect)

    @property
    def missing(self) -> tuple[int, ...]:
        """The places of the wanted effects that have not happened yet."""
        return tuple(number for number, _ in self._open)


def has_values(fields: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether fields have the wanted values; paths exactly, other texts by their words."""
    return all(
        name in fields
        and (fields[name] == value if name == "path" else is_same(fields[name], value))
        for name, value in wanted.items()
    )


class Session:
    """One task's world; copies share no mutable data.

    Args:
        household: the person, and the state at the start.
        instruction: the request.
        apps: the classes of the apps that can be called, by name.
        wanted: the effects that the task requests, for the ledger.

    Attributes:
        before, state: The state at the start and now.
        ledger: The irreversible effects.
        ended: The answer and the status that completed the task; None until then.
    """

    def __init__(
        self,
        household: Any,
        instruction: str,
        apps: Mapping[str, Any],
        wanted: Iterable[Effect] = (),
    ) -> None:
        self.apps = apps
        self.before = household.state
        self.state: State = household.state.copy()
        self.now = household.now
        self.person = household.person
        self.email = household.person["email"]
        self.addresses = household.addresses
        self.passwords = household.passwords
        self.instruction = instruction
        self.logged_in: set[str] = set()
        self.ledger = Ledger(wanted)
        self.ended: tuple[Any, str] | None = None
        self._calls = 0

    def begin(self) -> None:
        """Begin a turn, with a new budget of calls."""
        self._calls = 0

    def call(self, app: str, api: str, given: dict[str, Any]) -> dict[str, Any]:
        """A call's reply: its value, or the text of its error."""
        self._calls += 1
        if self._calls > CALLS:
            return _TOO_MANY
        kind = self.apps.get(app)
        if kind is None:
            return {"error": UNKNOWN_APP.format(app)}
        found = kind.apis.get(api)
        if found is None:
            return {"error": UNKNOWN_API.format(api, app)}
        try:
            found.check_arguments(given)
            if self.ended is not None:
                raise Refusal(409, _ENDED)  # noqa: TRY301
            known = self.make_token(app) if app in self.logged_in else None
            if given.get("access_token", known) != known:
                raise Refusal(401, _NOT_LOGGED_IN)  # noqa: TRY301
            return {"value": found.call(kind(self), given)}
        except Refusal as refusal:
            status, message = refusal.args
            return {"error": REFUSED.format(status, json.dumps({"message": message}))}

    def make_token(self, app: str) -> str:
        """The access token of an app."""
        secret = f"{app} {self.email} {self.passwords.get(app)}"
        return blake2b(secret.encode(), digest_size=12).hexdigest()

    @property
    def lost(self) -> list[Effect]:
        """The losses of texts that existed at the start and are now replaced by others."""
        return [
            Effect("overwritten text", {"table": table, **old})
            for table in _TEXTS
            for row_id, old in self.before.tables[table].items()
            if (row := self.state.get(table, row_id)) is not None and row is not old
            if old["text"].strip() and old["text"] not in row["text"]
        ]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal iff the state, the log-ins, the wanted effects so far, harm and end are equal."""
        done = self.ledger.missing, bool(self.ledger.unasked)
        return (self.state.key, tuple(sorted(self.logged_in)), done, self.ended)
