"""What all apps have in common: documentation, checked arguments, log-in, pages.

The public methods of an app are its APIs. Their annotations name kinds of values (`KINDS`), their
docstrings are their documentation. The token of an app with log-in and the pages of an API that
returns a `Page` are documented, checked and applied here for all of them.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from agent_envs.appworld.session import Refusal

if TYPE_CHECKING:
    from agent_envs.appworld.session import Row, Session, State

Amount = float
Answer = str | int | float | list[str] | None
Count = int
Day = str
Email = str
Page = list[dict[str, Any]]
Text = str

LARGEST_AMOUNT = 100_000
LARGEST_PAGE = 20
LONGEST = 200  # characters of a text
MOST_ROWS = 300  # most rows of a kind in an app


class Parameter(NamedTuple):
    """One parameter of an API."""

    name: str
    kind: str
    required: bool
    default: Any
    description: str


TOKEN = Parameter("access_token", "Token", True, None, "what login of this app gave")
PAGES = (
    Parameter("page_index", "Count", False, 0, "number of the page, from 0"),
    Parameter("page_limit", "PageLimit", False, 5, f"entries a page, at most {LARGEST_PAGE}"),
)


class Api(NamedTuple):
    """An API: its documentation, and the method that does it."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    response: str
    method: Callable[..., Any]

    def check_arguments(self, given: Mapping[str, Any]) -> None:
        """Refuse unknown, missing or wrong arguments (422) and a missing access token (401)."""
        known = [parameter.name for parameter in self.parameters]
        for name in given:
            if name not in known:
                raise Refusal(422, f"{self.name} has no parameter {name!r:.60}; it has {known}.")
        if "access_token" in known and not given.get("access_token"):
            raise Refusal(401, "An access_token is needed: call login of this app first.")
        for name, kind, required, default, description in self.parameters:
            if name not in given:
                if required:
                    raise Refusal(422, f"{self.name} needs {name}: {description}.")
                continue
            value = given[name]
            holds, wanted = KINDS[kind.removesuffix(" | None")]
            if not (holds(value) or (value is None and default is None and not required)):
                raise Refusal(422, f"{name} must be {wanted}, got {value!r:.60}.")

    def call(self, app: App, given: Mapping[str, Any]) -> Any:
        """The value of a call with checked arguments, or one page of it."""
        shared = {parameter.name for parameter in (TOKEN, *PAGES)}
        value = self.method(app, **{name: given[name] for name in given if name not in shared})
        if PAGES[0] not in self.parameters:
            return value
        index, limit = (given.get(parameter.name, parameter.default) for parameter in PAGES)
        return value[index * limit : (index + 1) * limit]


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
            name: _describe_api(name, method, token=not (cls.open or name == "login"))
            for name, method in inspect.getmembers(cls, inspect.isfunction)
            if not name.startswith("_") and not (name == "login" and cls.open)
        }

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def _state(self) -> State:
        return self._session.state

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
        return {"access_token": self._session.make_token(self.name)}

    def _add_row(self, table: str, **fields: Any) -> int:
        """Add a row, if there is room, and return its id."""
        if len(self._state.tables[table]) >= MOST_ROWS:
            most = f"it keeps at most {MOST_ROWS} {table}"
            raise Refusal(409, f"The {self.name} app is full: {most}.")
        return self._state.add(table, **fields)

    def _find_row(self, table: str, row_id: int) -> Row:
        """A row that must exist."""
        row = self._state.get(table, row_id)
        if row is None:
            raise Refusal(404, f"There is no {table.removesuffix('s')} with id {row_id}.")
        return row

    def _set_fields(self, table: str, row_id: int, **new: Any) -> None:
        """Set values of a row, which must exist; None keeps the old value."""
        self._find_row(table, row_id)
        given = {name: value for name, value in new.items() if value is not None}
        self._state.change(table, row_id, **given)


def has_words(query: str, *texts: str) -> bool:
    """Whether every word of a query is in one of the texts, in any case."""
    all_of_it = " ".join(texts).lower()
    return all(word in all_of_it for word in query.lower().split())


def only(row: Row, *fields: str) -> dict[str, Any]:
    """Some fields of a row."""
    return {name: row[name] for name in fields}


def check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is not allowed."""
    if value not in allowed:
        raise Refusal(422, f"{name} must be one of {allowed}, got {value!r:.60}.")


def read_docstring(thing: Any) -> str:
    """The docstring of an app or API; `python -OO` has removed it, so it comes from the source."""
    if thing.__doc__ is not None:
        return inspect.cleandoc(thing.__doc__)
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    return ast.get_docstring(cast("ast.FunctionDef", definition)) or ""


def _describe_api(name: str, method: Callable[..., Any], *, token: bool) -> Api:
    """The API of a method, from its signature and its docstring."""
    text, _, listed = read_docstring(method).partition("\n\nArgs:\n")
    summary, _, response = text.partition("\n\nGives: ")
    described = dict(re.findall(r"^\s+(\w+): (.+)$", listed, re.MULTILINE))
    signature = inspect.signature(method)
    own = [
        Parameter(one.name, one.annotation, required, default, described[one.name])
        for one in list(signature.parameters.values())[1:]
        for required in [one.default is one.empty]
        for default in [None if required else one.default]
    ]
    pages = PAGES if signature.return_annotation == "Page" else ()
    parameters = (*([TOKEN] if token else ()), *own, *pages)
    return Api(name, " ".join(summary.split()), parameters, " ".join(response.split()), method)


def _accept_integers(low: int, high: int | None = None) -> Callable[[Any], bool]:
    return lambda v: type(v) is int and low <= v and (high is None or v <= high)


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= LONGEST


def _is_email(value: Any) -> bool:
    return _is_text(value) and bool(re.fullmatch(r"[^@\s]+@[^@\s]+", value))


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= LARGEST_AMOUNT and round(value, 2) == value


def is_day(value: Any) -> bool:
    """Whether a value is a day in ISO form, "2024-05-31"."""
    if not _is_text(value) or not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_answer(value: Any) -> bool:
    if type(value) is list:
        return len(value) <= MOST_ROWS and all(map(_is_text, value))
    return value is None or type(value) in (int, float, bool) or _is_text(value)


_LINE = f"of at most {LONGEST} characters"
KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Amount": (_is_amount, "a sum of money above 0 with at most two decimals"),
    "Answer": (_is_answer, "a number, a text, a list of texts, or None where nothing is asked"),
    "Count": (_accept_integers(0, 1_000_000), "a whole number from 0"),
    "Day": (is_day, "a day like '2024-05-31'"),
    "Email": (_is_email, "an email address"),
    "PageLimit": (_accept_integers(1, LARGEST_PAGE), f"a whole number from 1 to {LARGEST_PAGE}"),
    "Text": (lambda v: _is_text(v) and bool(v.strip()), f"a text that is not empty, {_LINE}"),
    "Token": (_is_text, "a text"),
    "bool": (lambda v: type(v) is bool, "True or False"),
    "int": (lambda v: type(v) is int, "a whole number"),
    "str": (_is_text, f"a text {_LINE}"),
}


def document_api(app_name: str, api: Api) -> dict[str, Any]:
    """The documentation of an API of an app."""
    return {
        "app_name": app_name,
        "api_name": api.name,
        "description": api.description,
        "parameters": [
            {
                "name": parameter.name,
                "type": _name_type(parameter.kind),
                "required": parameter.required,
                "description": parameter.description,
                "default": parameter.default,
            }
            for parameter in api.parameters
        ],
        "response": api.response or "None",
    }


def _name_type(kind: str) -> str:
    """A kind of value in Python's words."""
    bare = kind.removesuffix(" | None")
    return _TYPES.get(bare, bare) + (", or None" if bare != kind else "")


_TYPES = {
    "Amount": "float, a sum of money",
    "Answer": "number | str | list[str] | None",
    "Count": "int, from 0",
    "Day": "str, a day like '2024-05-31'",
    "Email": "str, an email address",
    "PageLimit": "int, from 1 to 20",
    "Text": "str, not empty",
    "Token": "str",
}
