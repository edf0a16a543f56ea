"""Checks of values that were read from a file, which may be damaged or another program's."""

from __future__ import annotations

import sys
from typing import Any


def is_number(value: Any) -> bool:
    """Whether it is a finite number, which JSON need not hold."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
