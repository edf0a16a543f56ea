"""Types of options: each section of a recipe is a frozen pydantic dataclass.

Values are checked strictly: strings are not accepted as numbers, and unknown options, infinity and
NaN are refused.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Threads = Annotated[int, Field(ge=0, le=1024)]
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]
AboveZero = Annotated[float, Field(gt=0)]
NotAboveZero = Annotated[float, Field(le=0)]
