"""Types of options, and their errors: each section of a recipe is a frozen pydantic dataclass.

Values are checked strictly: strings are not accepted as numbers, and unknown options, infinity and
NaN are refused.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from inspect import signature
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from agent_envs.machine import explain_error
from credit.validation import refuse_unread
from trainer.errors import RecipeError

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Threads = Annotated[int, Field(ge=0, le=1024)]
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]
AboveZero = Annotated[float, Field(gt=0)]
NotAboveZero = Annotated[float, Field(le=0)]
_Options = TypeVar("_Options")


class Section:
    """Base of dataclasses of options some of which are not read with others, see `find_unread`."""

    unread: ClassVar[dict[str, str]] = {}

    def __post_init__(self) -> None:
        refuse_unread(self)


def make_options(kind: type[_Options], given: Mapping[str, Any], section: str = "") -> _Options:
    """The options of a table as an instance of `kind`; `section` is its name in errors.

    Raises:
        RecipeError: An option is unknown, or a value is invalid.
    """
    try:
        given_json = json.dumps(given, default=str)  # of a dict strict mode takes no dataclass
        return TypeAdapter(kind).validate_json(given_json)
    except ValidationError as error:
        known = f"; {section} has {', '.join(signature(kind).parameters)}" if section else ""
        said = explain_error(error, *([section] if section else ()))
        raise RecipeError(said + known) from error


def refuse_broken(rules: Mapping[str, Any]) -> None:
    """Refuse options that break a rule; `rules` has what each says, and whether it is broken.

    Raises:
        RecipeError: One is.
    """
    if broken := [rule for rule, is_broken in rules.items() if is_broken]:
        raise RecipeError("; ".join(broken))


def flatten(
    tree: Mapping[str, Any], whole: Container[str] = (), prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of nested tables; one that is empty or in `whole` is a value."""
    for name, value in tree.items():
        key = prefix + name
        if isinstance(value, dict) and value and key not in whole:
            yield from flatten(value, whole, f"{key}.")
        else:
            yield key, value
