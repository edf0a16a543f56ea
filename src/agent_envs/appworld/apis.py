"""APIs of apps: documentation from signatures, and the check of a call's arguments.

The annotations of an API name kinds of values (`KINDS`); its docstring is its documentation.
"""

from __future__ import annotations

import inspect
import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

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


class Refusal(Exception):
    """An API refuses a call, with an HTTP status and a message."""

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
    """An API as shown in its documentation."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    response: str


def documented(name: str, method: Callable[..., Any]) -> Api:
    """The API of a method."""
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
        Refusal: 422: unknown, missing or wrong arguments. 401: no access token.
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
    """The description of a kind if the value is not of that kind, else ""."""
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
    """Refuse a value that is not allowed."""
    if value not in allowed:
        raise Refusal(422, f"{name} must be one of {allowed}, got {value!r:.60}.")
