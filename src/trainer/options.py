"""Types of options, and their errors: each section of a recipe is a frozen pydantic dataclass.

Values are checked strictly: strings are not accepted as numbers, and unknown options, infinity and
NaN are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field

if TYPE_CHECKING:
    from pydantic import ValidationError

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Threads = Annotated[int, Field(ge=0, le=1024)]
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]
AboveZero = Annotated[float, Field(gt=0)]
NotAboveZero = Annotated[float, Field(le=0)]


def explain_error(error: ValidationError) -> str:
    """What is wrong with each option, in one line."""
    problems = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        whole = problem["type"] == "value_error"  # of a section, which may hold a password
        given = () if whole else (f"{problem['input']!r:.200}",)
        named = " = ".join((*([key] if key else ()), *given))
        said = problem["msg"].removeprefix("Value error, ")
        problems.append(f"{named}: {said}" if named else said)
    return "; ".join(problems)
