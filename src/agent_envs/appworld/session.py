"""A session of the generated world: its tables, the log-ins, and the calls of its apps.

Rows are immutable: a change replaces a row by a new one. So a copy only copies the tables, and a
row was changed if it is another object. The key of a state is updated with every change, so that
reading it costs nothing. No app deletes a row, so all that was done can be seen in the tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

UNKNOWN_APP = "No app named {!r:.60} found."
UNKNOWN_API = "No API named {!r:.60} found in the {} app."
REFUSED = "Response status code is {}:\n{}"
_NOT_LOGGED_IN = "The access_token is wrong or of another app; call login of this app."
_ENDED = "The task is completed; nothing more can be done."
CALLS = 500  # most calls of one turn
_TOO_MANY = {  # one shared object for all such replies
    "error": REFUSED.format(
        429,
        json.dumps({"message": f"Too many calls: one turn may make {CALLS}; go on in the next."}),
    )
}
Row = Mapping[str, Any]
_KEYS = 2**128
FIRST_ID = 101


class Refusal(Exception):
    """An API refuses a call; the arguments are an HTTP status and a message."""


class Opened(NamedTuple):
    """The start of a task: the request, the person (name, email and so on), the time."""

    instruction: str
    supervisor: dict[str, str]
    datetime: str


class Verdict(NamedTuple):
    """Names of the tests of a task that pass now and of those that fail."""

    passes: tuple[str, ...]
    failures: tuple[str, ...]


class Fact(NamedTuple):
    """A row that was added (id 0), or the fields of a row that were changed."""

    table: str
    row_id: int
    fields: str


class State:
    """Tables of rows by id; ids count up in each table and are used once.

    Args:
        tables: rows by table, each an iterable of rows without ids.

    Attributes:
        tables: rows by table and id, in the order of their ids.
    """

    def __init__(self, tables: Mapping[str, Iterable[Row]]) -> None:
        self.tables: dict[str, dict[int, Row]] = {
            name: {row_id: {"id": row_id, **row} for row_id, row in enumerate(rows, FIRST_ID)}
            for name, rows in tables.items()
        }
        self._sum = 0  # of the keys of added rows, minus those of replaced rows

    def copy(self) -> State:
        """A copy with the same rows; changes to one do not affect the other."""
        other = State({})
        other.tables = {name: dict(rows) for name, rows in self.tables.items()}
        other._sum = self._sum
        return other

    @property
    def key(self) -> int:
        """For copies of one state, equal iff all rows are equal."""
        return self._sum

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
        row_id = FIRST_ID + len(self.tables[table])
        self.tables[table][row_id] = row = {"id": row_id, **fields}
        self._sum = (self._sum + _hash_row(table, row)) % _KEYS
        return row_id

    def change(self, table: str, row_id: int, **fields: Any) -> None:
        """Set fields of a row."""
        old = self.tables[table][row_id]
        self.tables[table][row_id] = new = {**old, **fields}
        self._sum = (self._sum + _hash_row(table, new) - _hash_row(table, old)) % _KEYS

    def list_changes(self, before: State) -> list[Fact]:
        """What was added and changed since `before`; ids of added rows do not matter."""
        facts = []
        for table, rows in self.tables.items():
            old_rows = before.tables[table]
            for row_id, row in rows.items():
                old = old_rows.get(row_id)
                if old is row:
                    continue
                new = {
                    name: value
                    for name, value in row.items()
                    if (name != "id" if old is None else old[name] != value)
                }
                if new:
                    facts.append(Fact(table, 0 if old is None else row_id, repr(new)))
        return facts


def _hash_row(table: str, row: Row) -> int:
    text = repr((table, row)).encode("utf-8", "backslashreplace")
    return int.from_bytes(blake2b(text, digest_size=16).digest())


class Household(NamedTuple):
    """A world: the person, passwords by app, the time in ISO form, the state."""

    person: dict[str, str]
    passwords: dict[str, str]
    now: str
    state: State


class Session:
    """One task's world; copies share no mutable data.

    Args:
        household: the person, and the state at the start.
        apps: the classes of the apps that can be called, by name.
        instruction: the request.
        answer_type: the type of its answer, "" if it asks for none.

    Attributes:
        before, state: The state at the start and now.
        ended: The answer and the status that completed the task; None until then.
        faults: For each call of this turn, "" if it was answered, else "unknown" or "refused".
    """

    def __init__(
        self,
        household: Household,
        apps: Mapping[str, Any],
        instruction: str = "",
        answer_type: str = "",
    ) -> None:
        self.apps = apps
        self.before = household.state
        self.state = household.state.copy()
        self.now = household.now
        self.person = household.person
        self.email = household.person["email"]
        self.passwords = household.passwords
        self.instruction, self.answer_type = instruction, answer_type
        self.logged_in: set[str] = set()
        self.ended: tuple[Any, str] | None = None
        self.faults: list[str] = []

    def begin(self) -> None:
        """Begin a turn, with a new budget of calls."""
        self.faults = []

    def call(self, app: str, api: str, given: dict[str, Any]) -> dict[str, Any]:
        """A call's reply: its value, or the text of its error."""
        if len(self.faults) >= CALLS:
            self.faults[-1:] = ["refused"]
            return _TOO_MANY
        self.faults.append("unknown")
        kind = self.apps.get(app)
        if kind is None:
            return {"error": UNKNOWN_APP.format(app)}
        found = kind.apis.get(api)
        if found is None:
            return {"error": UNKNOWN_API.format(api, app)}
        self.faults[-1] = "refused"
        try:
            found.check_arguments(given)
            if self.ended is not None:
                raise Refusal(409, _ENDED)  # noqa: TRY301
            known = self.make_token(app) if app in self.logged_in else None
            if given.get("access_token", known) != known:
                raise Refusal(401, _NOT_LOGGED_IN)  # noqa: TRY301
            value = found.call(kind(self), given)
        except Refusal as refusal:
            status, message = refusal.args
            return {"error": REFUSED.format(status, json.dumps({"message": message}))}
        self.faults[-1] = ""
        return {"value": value}

    def make_token(self, app: str) -> str:
        """The access token of an app."""
        secret = f"{app} {self.email} {self.passwords.get(app)}"
        return blake2b(secret.encode(), digest_size=12).hexdigest()

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal iff the state, the log-ins and the end are equal."""
        return (self.state.key, tuple(sorted(self.logged_in)), self.ended)
