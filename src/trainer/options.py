"""Types of options, and their errors: each section of a recipe is a frozen pydantic dataclass.

Values are checked strictly: strings are not accepted as numbers, and unknown options, infinity and
NaN are refused.
"""

from __future__ import annotations

import json
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from trainer.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Threads = Annotated[int, Field(ge=0, le=1024)]
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]
AboveZero = Annotated[float, Field(gt=0)]
NotAboveZero = Annotated[float, Field(le=0)]
_Options = TypeVar("_Options")


def make_options(kind: type[_Options], given: Mapping[str, Any], section: str) -> _Options:
    """The options of a section that the recipe keeps as a table, as an instance of `kind`.

    Raises:
        RecipeError: An option is unknown, or a value is invalid.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(given))  # strict mode refuses dicts
    except ValidationError as error:
        known = ", ".join(signature(kind).parameters)
        raise RecipeError(f"{explain_error(error, section)}; {section} has {known}") from error


def explain_error(error: ValidationError, *section: str) -> str:
    """What is wrong with each option of a section, in one line."""
    problems = []
    for problem in error.errors():
        key = ".".join(str(part) for part in (*section, *problem["loc"]))
        whole = problem["type"] == "value_error"  # of a section, which may hold a password
        given = () if whole else (f"{problem['input']!r:.200}",)
        named = " = ".join((*([key] if key else ()), *given))
        said = problem["msg"].removeprefix("Value error, ")
        problems.append(f"{named}: {said}" if named else said)
    return "; ".join(problems)


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
