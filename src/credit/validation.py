"""Checks of options and columns: an error says what was given and what is allowed."""

import difflib
from collections.abc import Iterable, Mapping, Sequence, Sized
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NO_LISTS = (str, bytes, set, frozenset, Mapping)
LARGEST = 1e100
"""Numbers of this size and above are rejected: their squares and sums would overflow."""


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


def check_known(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError at the first name that is not known, with the nearest known one."""
    listed = list(known)
    for name in given:
        if name not in listed:
            raise ValueError(f"{what} {name!r}{nearest(name, listed)}")


def check_length(name: str, column: Sized, like: str, rows: int) -> None:
    """Raise ValueError unless a column has as many rows as another, `like`."""
    if len(column) != rows:
        raise ValueError(f"{name} has {len(column)} rows, {like} has {rows}")


def check_rows(name: str, column: NDArray[Any], allowed: NDArray[np.bool_], rule: str) -> None:
    """Raise ValueError at the first row of a column that is not allowed."""
    if not allowed.all():
        row = int(np.argmin(allowed))
        raise ValueError(f"{name} row {row} is {column[row]}; {rule}")


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


def as_finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Convert to float64: [N, ...] -> [N, ...].

    Raises:
        TypeError: The values are not numbers.
        ValueError: A value is NaN, infinite, or `LARGEST` or more in size.
    """
    plain = as_array(name, values)
    if plain.dtype.kind not in "biuf" and plain.size:
        raise TypeError(f"{name} must hold numbers, got {plain.flat[0]!r:.60}")
    numbers = plain.astype(np.float64)
    wrong = np.argwhere(~(np.abs(numbers) < LARGEST))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        where = f"{name} row {place[0]}" if place else name
        raise ValueError(f"{where} is {numbers[place]}; give finite numbers below {LARGEST:g}")
    return numbers


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
        raise ValueError(f"{name} row {row} is {plain[row]}, not {np.dtype(kind).name}")
    column.flags.writeable = False
    return column


def _numbers(name: str, given: Any, kind: Any) -> NDArray[Any]:
    plain = as_array(name, given)
    check_axes(name, plain, "N")
    if plain.dtype.kind == "O":  # None among numbers
        plain = as_array(name, [np.nan if value is None else value for value in plain.tolist()])
    if plain.dtype.kind not in "biuf" and plain.size:
        remedy = "; number them by np.unique(group, return_inverse=True)[1]"
        raise TypeError(
            f"{name} row 0 is {plain.item(0)!r:.60}, not {np.dtype(kind).name}"
            f"{remedy if name == 'group' else ''}"
        )
    return plain
