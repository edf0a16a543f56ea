"""Options of methods and columns of numbers: an error says what was given and what is allowed."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import MISSING, fields
from functools import partial
from numbers import Integral, Real
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

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NO_LISTS = (str, bytes, set, frozenset, Mapping)
LARGEST = 1e100
"""Numbers of this size and above are rejected: their squares and sums would overflow."""
ROUNDING = 1e-6
"""A number that leaves its range by at most this much was rounded, and is set to the end of it."""
_ALLOWED: dict[Any, str] = {
    np.int64: "give whole numbers, as by np.unique(ids, return_inverse=True)[1]",
    np.bool_: "give True or False, or 1 or 0",
}


def check_range(name: str, value: float, low: float, high: float, why: str) -> None:
    """Raise an error unless the value is a number in [low, high]; NaN and a bool are not."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r:.60}")
    if not low <= float(value) <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}] because {why}, got {value}")


def check_positive(name: str, value: float, why: str) -> None:
    """Raise an error unless the value is a number above 0."""
    check_range(name, value, 0, LARGEST, why)
    if value == 0:
        raise ValueError(f"{name} must be positive because {why}, got {value}")


def check_count(name: str, value: int, why: str) -> None:
    """Raise an error unless the value is an integer of at least 0."""
    check_range(name, value, 0, LARGEST, why)
    if not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer because {why}, got {value!r:.60}")


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raise ValueError unless the value is one of the allowed strings."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def check_known(what: str, given: Iterable[str], known: Iterable[str], own: str = "") -> None:
    """Raise ValueError at the first name that is not known, with the nearest known one.

    `own` ends the message: how to give what has no name here.
    """
    listed = list(known)
    for name in given:
        if name not in listed:
            raise ValueError(f"{what} {name!r}{suggest_name(name, listed)}{own and '; '}{own}")


def check_length(name: str, column: Sized, like: str, rows: int) -> None:
    """Raise ValueError unless a column has as many rows as another, `like`."""
    if len(column) != rows:
        raise ValueError(f"{name} has {len(column)} rows, {like} has {rows}")


def check_rows(name: str, column: NDArray[Any], allowed: NDArray[np.bool_], rule: str) -> None:
    """Raise ValueError at the first row of a column that is not allowed."""
    if not allowed.all():
        place = tuple(np.argwhere(~allowed)[0].tolist())  # () for a number alone
        where = f" row {place[0]}" if place else ""
        raise ValueError(f"{name}{where} is {column[place]}; {rule}")


def suggest_name(given: str, known: Iterable[str]) -> str:
    """End of an error message about an unknown name: the nearest known name and the list of all."""
    names = sorted(known)
    close = difflib.get_close_matches(str(given), names, n=1, cutoff=0.4)
    listed = ", ".join(names) or "none"
    return f"; did you mean {close[0]!r}? known: {listed}" if close else f"; known: {listed}"


def clip_rounding(x: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """Numbers that leave [low, high] by at most `ROUNDING`, set to its end: [N] -> [N]."""
    ends = np.clip(x, low, high)
    return np.where((ends != x) & (np.abs(ends - x) <= ROUNDING), ends, x)


def as_list(name: str, given: Any) -> list[Any]:
    """Convert values in order, such as an array, tensor or iterator, to plain Python values.

    Raises:
        TypeError: The values have no order, or `given` is a single value.
    """
    if hasattr(given, "detach"):
        given = given.detach().cpu()
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, _NO_LISTS) or not hasattr(given, "__iter__"):
        raise TypeError(
            f"{name} must be a list of values in order, got {given!r:.60} ({type(given).__name__})"
        )
    return list(given)


def as_numbers(name: str, given: Any) -> NDArray[Any]:
    """Convert to an array of real numbers: [N, ...] -> [N, ...].

    Raises:
        TypeError: A value is not a number.
    """
    if np.ma.is_masked(given):
        row = int(np.argwhere(np.ma.getmaskarray(given))[0][0])
        raise TypeError(f"{name} row {row} is masked; give a number in every row")
    plain = np.asarray(given)
    if plain.dtype.kind == "O":
        plain = np.asarray(plain.tolist())
    if plain.dtype.kind not in "biuf" and plain.size:
        rows = enumerate(np.asarray(given, dtype=object).tolist())
        row, value = next((pair for pair in rows if not isinstance(pair[1], Real)), (0, given))
        raise TypeError(f"{name} row {row} is {value!r:.60}; give a number in every row")
    return plain


def as_finite(name: str, values: ArrayLike, below: float = LARGEST) -> NDArray[np.float64]:
    """Convert to float64: [N, ...] -> [N, ...].

    Raises:
        TypeError: A value is not a number.
        ValueError: A value is NaN, infinite, or `below` or more in size.
    """
    numbers = as_numbers(name, values).astype(np.float64)
    check_rows(name, numbers, np.abs(numbers) < below, f"give finite numbers below {below:g}")
    return numbers


def as_vector(name: str, given: Any, kind: Any = np.float64) -> NDArray[Any]:
    """Copy numbers into a read-only vector of a dtype: [N] -> [N].

    Raises:
        TypeError: A value is not a number.
        ValueError: The values are not a vector, a value is not finite, or has no equal in the
            dtype.
    """
    plain = as_numbers(name, given)
    if plain.ndim != 1:
        raise ValueError(f"{name} must be [N], got shape {plain.shape}")
    with np.errstate(invalid="ignore"):  # NaN among integers is rejected below, by row
        column = plain.astype(kind)
    if kind is np.float64:
        as_finite(name, column)
    else:
        check_rows(name, plain, column == plain, _ALLOWED[kind])
    column.flags.writeable = False
    return column


Check: TypeAlias = Callable[[str, Any], None]
"""Raises an error about an option of this name if the value is not allowed."""


def within(low: float, high: float, why: str) -> Check:
    """Check of a number in [low, high]; `why` completes the message."""
    return partial(check_range, low=low, high=high, why=why)


def nonnegative(why: str) -> Check:
    """Check of a number of at least 0; `why` completes the message."""
    return within(0, LARGEST, why)


def positive(why: str) -> Check:
    """Check of a number above 0; `why` completes the message."""
    return partial(check_positive, why=why)


def counting(why: str) -> Check:
    """Check of an integer of at least 0; `why` completes the message."""
    return partial(check_count, why=why)


Discount: TypeAlias = Annotated[float, within(0, 1, "it discounts later rewards")]
Epsilon: TypeAlias = Annotated[float, nonnegative("it is added to a standard deviation")]
Similarity: TypeAlias = Annotated[
    float, positive("it is a similarity"), within(0, 1, "it is a similarity")
]
Weight: TypeAlias = Annotated[float, nonnegative("it weights an advantage")]
Penalty: TypeAlias = Annotated[float, nonnegative("it is subtracted from the outcome")]


def find_unread(kind: Any, given: Mapping[str, Any]) -> dict[str, str]:
    """Options that change nothing with others as given, each with the condition in `kind.unread`.

    An option at its default is none of them.
    """
    conditions: dict[str, str] = getattr(kind, "unread", {})
    values = {
        one.name: one.default if one.default_factory is MISSING else one.default_factory()
        for one in (fields(kind) if conditions else ())
    }
    changed = {name for name, one in given.items() if name in values and one != values[name]}
    values |= given
    found: dict[str, str] = {}
    for condition, names in conditions.items():
        name, sign, value = re.split("(!?=)", condition, maxsplit=1)
        own = values[name]
        shown = f"{own:g}" if isinstance(own, Real) else str(tuple(own) if own == [] else own)
        if (value == shown) == (sign == "="):
            why = f"{name}={shown}" if shown else f'{name}=""'
            found |= dict.fromkeys(changed.intersection(names.split()), why)
    return found


def refuse_unread(options: Any) -> None:
    """Raise ValueError at the first option that changes nothing, as `find_unread` says."""
    for name, why in find_unread(type(options), vars(options)).items():
        given = f"{name}={getattr(options, name)!r:.60}"
        raise ValueError(f"{given} is not read with {why}; leave out one, or change the other")


class Options:
    """Base of frozen dataclasses of options, which checks them when one is made.

    A field annotated with `Literal` takes one of its strings. A field annotated with
    `Annotated[type, check]` takes what `check(name, value)` does not refuse. `unread` has by
    condition, "mode=raw" or "omega!=0", the fields that are not read then, which take only their
    default.

    Raises:
        ValueError: An option is out of range, or not read.
        TypeError: An option has another type.
    """

    unread: ClassVar[dict[str, str]] = {}
    _checks: ClassVar[list[tuple[str, Check]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._checks = []
        for name, kind in get_type_hints(cls, include_extras=True).items():
            if get_origin(kind) is Literal:
                cls._checks.append((name, partial(check_choice, allowed=get_args(kind))))
            cls._checks += [(name, check) for check in getattr(kind, "__metadata__", ())]

    def __post_init__(self) -> None:
        for name, check in self._checks:
            check(name, getattr(self, name))
        refuse_unread(self)
