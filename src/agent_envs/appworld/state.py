"""The state of a small world: rows in tables, and their changes since the start.

Rows are immutable: a change replaces a row by a new one. So a copy of the state only copies the
tables, and a row was changed if it is another object. The key of a state is updated with every
change, so that reading it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

Row = Mapping[str, Any]
_KEYS = 2**128


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
