"""Options of methods: the annotation of each field says what is allowed."""

from collections.abc import Callable
from functools import partial
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

from credit.validation import (
    check_choice,
    check_count,
    check_nonnegative,
    check_positive,
    check_range,
    check_similarity,
    check_text,
)

Check: TypeAlias = Callable[[str, Any], None]
"""Raises an error about an option of this name if the value is not allowed."""


def nonnegative(why: str) -> Check:
    """Check of a number of at least 0; `why` completes the message."""
    return partial(check_nonnegative, why=why)


def within(low: float, high: float, why: str) -> Check:
    """Check of a number in [low, high]; `why` completes the message."""
    return partial(check_range, low=low, high=high, why=why)


def positive(why: str) -> Check:
    """Check of a number above 0; `why` completes the message."""
    return partial(check_positive, why=why)


def counting(why: str) -> Check:
    """Check of an integer of at least 0; `why` completes the message."""
    return partial(check_count, why=why)


Discount: TypeAlias = Annotated[float, within(0, 1, "it discounts later rewards")]
Epsilon: TypeAlias = Annotated[float, nonnegative("it is added to a standard deviation")]
Similarity: TypeAlias = Annotated[float, check_similarity]
Text: TypeAlias = Annotated[str, check_text]
Weight: TypeAlias = Annotated[float, nonnegative("it weights an advantage")]


class Options:
    """Base of frozen dataclasses of options, which checks them when one is made.

    A field annotated with `Literal` takes one of its strings. A field annotated with
    `Annotated[type, check]` takes what `check(name, value)` does not refuse.

    Raises:
        ValueError: An option is out of range.
        TypeError: An option has another type.
    """

    _checks: ClassVar[list[tuple[str, Check]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._checks = _declared(cls)

    def __post_init__(self) -> None:
        for name, check in self._checks:
            check(name, getattr(self, name))


def _declared(options: type) -> list[tuple[str, Check]]:
    """Name and check of each field that has one."""
    found: list[tuple[str, Check]] = []
    for name, kind in get_type_hints(options, include_extras=True).items():
        if get_origin(kind) is Literal:
            found.append((name, partial(check_choice, allowed=get_args(kind))))
        found += [(name, check) for check in getattr(kind, "__metadata__", ())]
    return found
