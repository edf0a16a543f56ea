"""What apps share: APIs documented and checked by their signatures, pages, log-in.

A public method of an app is an API. The names of its annotations are kinds of values (`KINDS`),
its docstring is its documentation.
"""

from __future__ import annotations

import inspect
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agent_envs.appworld.session import Session
    from agent_envs.appworld.state import Row, State

Amount = float
Body = str
Count = int
Day = str
Email = str
Emails = list[str]
Moment = str
PageLimit = int
Rating = int
Text = str
Token = str
Words = list[str]
Written = str

LARGEST_AMOUNT = 100_000
LARGEST_PAGE = 20
LONGEST_LINE = 200
LONGEST_LIST = 50
LONGEST_TEXT = 5000
MOST_ROWS = 300  # of a kind that an app keeps


class Refusal(Exception):
    """An API refuses a call: the HTTP status and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Parameter(NamedTuple):
    """One parameter of an API."""

    name: str
    kind: str
    required: bool
    default: Any
    description: str


class Api(NamedTuple):
    """An API as its documentation shows it."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    response: str


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
            name: _api(name, method)
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
        """Add a row, if there is room for it: its id."""
        if len(self._state.tables[table]) >= MOST_ROWS:
            raise Refusal(
                409, f"The {self.name} app is full: it keeps at most {MOST_ROWS} {table}."
            )
        return self._state.add(table, **fields)

    def _remove(self, table: str, row_id: int) -> None:
        """Remove a row; of what was there before the task that is an effect."""
        before = self._session.before.get(table, row_id)
        if before is not None:
            self._effect("deletion", table=table, **before)
        self._state.remove(table, row_id)

    def _effect(self, kind: str, **fields: Any) -> None:
        """Something happens that cannot be taken back, see `ledger`."""
        self._session.ledger.add(kind, **fields)

    def _found(self, table: str, row_id: int, what: str) -> Row:
        """A row that has to be there."""
        row = self._state.get(table, row_id)
        if row is None:
            raise Refusal(404, f"There is no {what} with id {row_id}.")
        return row

    def _give(self, table: str, row_id: int, what: str, **new: Any) -> None:
        """Give a row, which has to be there, new values; None leaves the old one."""
        self._found(table, row_id, what)
        given = {name: value for name, value in new.items() if value is not None}
        self._state.change(table, row_id, **given)


def _api(name: str, method: Callable[..., Any]) -> Api:
    told, _, listed = inspect.cleandoc(method.__doc__ or "").partition("\n\nArgs:\n")
    summary, _, response = told.partition("\n\nGives: ")
    described = dict(re.findall(r"^\s+(\w+): (.+)$", listed, re.MULTILINE))
    parameters = [
        Parameter(
            parameter.name,
            str(parameter.annotation),
            parameter.default is parameter.empty,
            None if parameter.default is parameter.empty else parameter.default,
            _COMMON.get(parameter.name) or described[parameter.name],
        )
        for parameter in list(inspect.signature(method).parameters.values())[1:]
    ]
    return Api(name, " ".join(summary.split()), tuple(parameters), " ".join(response.split()))


_COMMON = {
    "access_token": "what login of this app gave",
    "page_index": "number of the page, from 0",
    "page_limit": f"entries a page, at most {LARGEST_PAGE}",
}


def checked(api: Api, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call.

    Raises:
        Refusal: 422: unknown or missing ones, or values of another kind. 401: no access token.
    """
    known = [parameter.name for parameter in api.parameters]
    for name in given:
        if name not in known:
            raise Refusal(422, f"{api.name} has no parameter {name!r}; it has {known}.")
    if "access_token" in known and not given.get("access_token"):
        raise Refusal(401, "An access_token is needed: call login of this app first.")
    for parameter in api.parameters:
        if parameter.name not in given:
            if parameter.required:
                raise Refusal(422, f"{api.name} needs {parameter.name}: {parameter.description}.")
            continue
        value = given[parameter.name]
        wanted = wrong(parameter.kind, value)
        if wanted and not (value is None and parameter.default is None and not parameter.required):
            raise Refusal(422, f"{parameter.name} must be {wanted}, got {value!r:.60}.")
    return given


def wrong(kind: str, value: Any) -> str:
    """What a value of a kind must be; nothing where it is."""
    holds, wanted = KINDS[kind.removesuffix(" | None")]
    return "" if holds(value) else wanted


def _integer(low: int, high: int | None = None) -> Callable[[Any], bool]:
    return lambda v: type(v) is int and low <= v and (high is None or v <= high)


def _text(value: Any, longest: int = LONGEST_LINE) -> bool:
    return type(value) is str and len(value) <= longest


def _line(value: Any) -> bool:
    return _text(value) and bool(value.strip())


def _email(value: Any) -> bool:
    return _text(value) and bool(re.fullmatch(r"[^@\s]+@[^@\s]+", value))


def _list(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: type(v) is list and len(v) <= LONGEST_LIST and all(map(holds, v))


def _amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= LARGEST_AMOUNT and round(value, 2) == value


def _moment(form: str, kind: type[date]) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        if not _text(value) or not re.fullmatch(form, value):
            return False
        try:
            kind.fromisoformat(value)
        except ValueError:
            return False
        return True

    return holds


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Amount": (_amount, "a sum of money above 0 with at most two decimals"),
    "Body": (
        lambda v: _text(v, LONGEST_TEXT),
        f"a text of at most {LONGEST_TEXT} characters",
    ),
    "Count": (_integer(0, 1_000_000), "a whole number from 0"),
    "Day": (_moment(r"\d{4}-\d\d-\d\d", date), "a day like '2024-05-31'"),
    "Email": (_email, "an email address"),
    "Emails": (_list(_email), f"a list of at most {LONGEST_LIST} email addresses"),
    "Moment": (
        _moment(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?", datetime),
        "a time like '2024-05-31T18:30'",
    ),
    "PageLimit": (_integer(1, LARGEST_PAGE), f"a whole number from 1 to {LARGEST_PAGE}"),
    "Rating": (_integer(1, 5), "a whole number from 1 to 5"),
    "Text": (_line, f"a text that is not empty, of at most {LONGEST_LINE} characters"),
    "Token": (_text, "a text"),
    "Words": (
        _list(_line),
        f"a list of at most {LONGEST_LIST} texts of at most {LONGEST_LINE} characters",
    ),
    "bool": (lambda v: type(v) is bool, "True or False"),
    "int": (lambda v: type(v) is int, "a whole number"),
    "list[int]": (
        lambda v: type(v) is list and all(type(i) is int for i in v),
        "a list of whole numbers",
    ),
    "Written": (
        lambda v: _text(v, LONGEST_TEXT) and bool(v.strip()),
        f"a text that is not empty, of at most {LONGEST_TEXT} characters",
    ),
    "str": (_text, f"a text of at most {LONGEST_LINE} characters"),
    "Answer": (
        lambda v: v is None or type(v) in (str, int, float, bool),
        "a text or a number, or None where nothing was asked",
    ),
}


def check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is none of those allowed."""
    if value not in allowed:
        raise Refusal(422, f"{name} must be one of {allowed}, got {value!r:.60}.")


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
