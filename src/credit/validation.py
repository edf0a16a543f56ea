"""Checks of options and columns: an error says what was given and what is allowed."""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
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
    np.float64: "not a real number; give numbers such as 0.5",
    np.int64: "not a 64-bit integer; give whole numbers",
    np.bool_: "not a bool; give True or False, or 1 or 0",
}
_NUMBERED = {
    "group": ", numbered by np.unique(group, return_inverse=True)[1]",
    "trajectory": ": 0, 1, 2, ... in the order of their turns",
}


def check_number(name: str, value: Any) -> None:
    """Raise TypeError unless the value is a real number; a bool is not."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r:.60}")


def check_range(name: str, value: float, low: float, high: float, why: str) -> None:
    """Raise ValueError unless the value lies in [low, high]; NaN does not."""
    check_number(name, value)
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}] because {why}, got {value}")


def check_nonnegative(name: str, value: float, why: str) -> None:
    """Raise ValueError if the value is negative, infinite or NaN."""
    check_number(name, value)
    if not 0 <= float(value) < LARGEST:
        raise ValueError(f"{name} must lie in [0, {LARGEST:g}) because {why}, got {value}")


def check_count(name: str, value: int, why: str) -> None:
    """Raise an error unless the value is an integer of at least 0."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer because {why}, got {value!r:.60}")
    check_nonnegative(name, int(value), why)


def check_positive(name: str, value: float, why: str) -> None:
    """Raise ValueError unless the value is above 0 and finite."""
    check_number(name, value)
    if not 0 < float(value) < LARGEST:
        raise ValueError(f"{name} must be positive and finite because {why}, got {value}")


def check_similarity(name: str, value: float) -> None:
    """Raise ValueError unless the value lies in (0, 1]."""
    check_number(name, value)
    if not 0 < value <= 1:
        raise ValueError(f"{name} must lie in (0, 1] because it is a similarity, got {value}")


def check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raise ValueError unless the value is one of the allowed strings."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def check_known(what: str, given: Iterable[str], known: Iterable[str], own: str = "") -> None:
    """Raise ValueError at the first name that is not known, with the nearest known one.

    `own` ends the message: how to give what has no name here.
    """
    listed = list(known)
    for name in given:
        if name not in listed:
            raise ValueError(f"{what} {name!r}{nearest(name, listed)}{own and '; '}{own}")


def check_length(name: str, column: Sized, like: str, rows: int) -> None:
    """Raise ValueError unless a column has as many rows as another, `like`."""
    if len(column) != rows:
        raise ValueError(f"{name} has {len(column)} rows, {like} has {rows}")


def check_rows(name: str, column: NDArray[Any], allowed: NDArray[np.bool_], rule: str) -> None:
    """Raise ValueError at the first row of a column that is not allowed."""
    if not allowed.all():
        row = int(np.argmin(allowed))
        raise ValueError(f"{name} row {row} is {column[row]}; {rule}")


def check_generator(rng: Any) -> None:
    """Raise TypeError unless `rng` is a NumPy generator or None."""
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise TypeError(
            f"rng must be a numpy.random.Generator, got {rng!r:.60} ({type(rng).__name__}); make "
            "rng = np.random.default_rng(seed) once and pass it at every step"
        )


def check_axes(name: str, given: Any, axes: str) -> None:
    """Raise ValueError unless an array has the axes, such as "R, T"."""
    if len(given.shape) != len(axes.split(",")):
        raise ValueError(f"{name} must be [{axes}], got shape {tuple(given.shape)}: {given!r:.60}")


def check_text(name: str, value: str) -> None:
    """Raise TypeError unless the value is a str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {value!r:.60}")


def nearest(given: str, known: Iterable[str]) -> str:
    """End of an error message about an unknown name: the nearest known name and the list of all."""
    names = sorted(known)
    close = difflib.get_close_matches(str(given), names, n=1, cutoff=0.4)
    listed = ", ".join(names) or "none"
    return f"; did you mean {close[0]!r}? known: {listed}" if close else f"; known: {listed}"


def clip_rounding(x: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """Numbers that leave [low, high] by at most `ROUNDING`, set to its end: [N] -> [N]."""
    ends = np.clip(x, low, high)
    return np.where((ends != x) & (np.abs(ends - x) <= ROUNDING), ends, x)


def as_array(name: str, given: Any) -> NDArray[Any]:
    """Convert to a NumPy array.

    Raises:
        TypeError: NumPy cannot read the values, such as a tensor in bfloat16, on a GPU, or with
            gradients.
    """
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} is a {type(given).__name__} that NumPy cannot read ({error}); pass a tensor "
            f"as {name}.detach().float().cpu().numpy(), and rows of one length"
        ) from error


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


def as_finite(name: str, values: ArrayLike, below: float = LARGEST) -> NDArray[np.float64]:
    """Convert to float64: [N, ...] -> [N, ...].

    Raises:
        TypeError: The values are not numbers.
        ValueError: A value is NaN, infinite, or `below` or more in size.
    """
    plain = as_array(name, values)
    if plain.dtype.kind not in "biuf" and plain.size:
        place = np.unravel_index(_first_other(plain.ravel()), plain.shape)
        value = plain[place].item() if isinstance(plain[place], np.generic) else plain[place]
        raise TypeError(f"{_where(name, place)} is {value!r:.60}, {_ALLOWED[np.float64]}")
    numbers = plain.astype(np.float64)
    wrong = np.argwhere(~(np.abs(numbers) < below))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        shown = f"{_where(name, place)} is {numbers[place]}"
        raise ValueError(f"{shown}; give finite numbers below {below:g}")
    return numbers


def _where(name: str, place: tuple[Any, ...]) -> str:
    """Name and row of an element of an array; a number alone has no row."""
    return f"{name} row {place[0]}" if place else name


def as_numbers(name: str, given: Any) -> NDArray[np.float64]:
    """Copy finite numbers into a read-only vector: [N] -> [N].

    Raises:
        TypeError: The values are not numbers.
        ValueError: The values are not a vector, or one is what `as_finite` refuses.
    """
    column: NDArray[np.float64] = as_vector(name, given, np.float64)
    as_finite(name, column)
    return column


def as_vector(name: str, given: Any, kind: Any) -> NDArray[Any]:
    """Copy numbers into a read-only vector of a dtype: [N] -> [N].

    Raises:
        TypeError: The values are not numbers.
        ValueError: The values are not a vector, or a value has no equal in the dtype.
    """
    plain = _numbers(name, given, kind)
    with np.errstate(invalid="ignore"):  # NaN among integers is rejected below, by row
        column = np.array(plain, dtype=kind)
    if kind is not np.float64 and plain.size and (column != plain).any():
        row = np.argwhere(column != plain)[0][0]
        raise ValueError(_explain_value(name, row, plain[row], kind))
    column.flags.writeable = False
    return column


def _numbers(name: str, given: Any, kind: Any) -> NDArray[Any]:
    plain = as_array(name, given)
    check_axes(name, plain, "N")
    if plain.dtype.kind == "O":
        if None in (listed := plain.tolist()):
            row = listed.index(None)
            raise ValueError(f"{name} row {row} is None; every row of {name} needs a value")
        plain = as_array(name, listed)
    if plain.dtype.kind not in "biuf" and plain.size:
        row = _first_other(given)
        raise TypeError(_explain_value(name, row, repr(as_list(name, given)[row]), kind))
    return plain


def _first_other(given: Any) -> int:
    """Index of the first value that is no real number, or 0."""
    values = enumerate(as_list("values", given))
    return next((row for row, value in values if not isinstance(value, Real | np.bool_)), 0)


def _explain_value(name: str, row: int, shown: Any, kind: Any) -> str:
    """Message about a value that has no equal in a dtype."""
    return f"{name} row {row} is {shown!s:.60}, {_ALLOWED[kind]}{_NUMBERED.get(name, '')}"


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
        cls._checks = _find_checks(cls)

    def __post_init__(self) -> None:
        for name, check in self._checks:
            check(name, getattr(self, name))


def _find_checks(options: type) -> list[tuple[str, Check]]:
    """Name and check of each field that has one."""
    found: list[tuple[str, Check]] = []
    for name, kind in get_type_hints(options, include_extras=True).items():
        if get_origin(kind) is Literal:
            found.append((name, partial(check_choice, allowed=get_args(kind))))
        found += [(name, check) for check in getattr(kind, "__metadata__", ())]
    return found
