"""The base of all apps: log-in, pages, rows of the session's state. Public methods are APIs."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from agent_envs.appworld.apis import Api, Email, Refusal, Text, documented

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_envs.appworld.session import Session
    from agent_envs.appworld.state import Row, State

MOST_ROWS = 300  # most rows of a kind in an app


class App:
    """An app over a session's state; `login` comes with it unless `open` says it has none.

    Attributes:
        name: What it is called in `apis.<name>`.
        open: Whether its APIs need no log-in.
        apis: Its APIs by name.
    """

    name: ClassVar[str]
    open: ClassVar[bool] = False

    apis: ClassVar[dict[str, Api]]

    def __init_subclass__(cls) -> None:
        cls.apis = {
            name: documented(name, method)
            for name, method in inspect.getmembers(cls, inspect.isfunction)
            if not name.startswith("_") and not (name == "login" and cls.open)
        }

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def _state(self) -> State:
        return self._session.state

    @property
    def _now(self) -> str:
        return self._session.now

    def login(self, username: Email, password: Text) -> dict[str, Any]:
        """Log in to the app.

        Gives: access_token

        Args:
            username: the supervisor's email address
            password: the password of the account, see supervisor.show_account_passwords
        """
        if username != self._session.email or password != self._session.passwords[self.name]:
            raise Refusal(401, "Wrong username or password; the username is the email address.")
        self._session.logged_in.add(self.name)
        return {"access_token": self._session.token(self.name)}

    def _add(self, table: str, **fields: Any) -> int:
        """Add a row, if there is room, and return its id."""
        if len(self._state.tables[table]) >= MOST_ROWS:
            raise Refusal(
                409, f"The {self.name} app is full: it keeps at most {MOST_ROWS} {table}."
            )
        return self._state.add(table, **fields)

    def _remove(self, table: str, row_id: int) -> None:
        """Remove a row; if it existed before the task, this is an effect."""
        before = self._session.before.get(table, row_id)
        if before is not None:
            self._effect("deletion", table=table, **before)
        self._state.remove(table, row_id)

    def _effect(self, kind: str, **fields: Any) -> None:
        """Record an irreversible effect, see `ledger`."""
        self._session.ledger.add(kind, **fields)

    def _found(self, table: str, row_id: int, what: str) -> Row:
        """A row that must exist."""
        row = self._state.get(table, row_id)
        if row is None:
            raise Refusal(404, f"There is no {what} with id {row_id}.")
        return row

    def _give(self, table: str, row_id: int, what: str, **new: Any) -> None:
        """Set values of a row, which must exist; None keeps the old value."""
        self._found(table, row_id, what)
        given = {name: value for name, value in new.items() if value is not None}
        self._state.change(table, row_id, **given)


def page(rows: Iterable[Any], page_index: int, page_limit: int) -> list[Any]:
    """One page of rows."""
    return list(rows)[page_index * page_limit : (page_index + 1) * page_limit]


def has_words(query: str, *texts: str) -> bool:
    """Whether every word of a query is in one of the texts, in any case."""
    all_of_it = " ".join(texts).lower()
    return all(word in all_of_it for word in query.lower().split())


def only(row: Row, *fields: str) -> dict[str, Any]:
    """Some fields of a row."""
    return {name: row[name] for name in fields}
