"""Checks of options and numbers: what was given, what is allowed."""

import difflib
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST = 1e100
"""Numbers of this size and above are refused: their squares and sums would overflow."""


def number(name: str, value: Any) -> None:
    """Refuse what is not a real number, bool included."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is a number, got {value!r:.60}")


def within(name: str, value: float, low: float, high: float, why: str) -> None:
    """Refuse a number outside [low, high], and NaN."""
    number(name, value)
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}] because {why}, got {value}")


def nonnegative(name: str, value: float, why: str) -> None:
    """Refuse a negative number, infinity and NaN."""
    number(name, value)
    if not 0 <= float(value) < LARGEST:
        raise ValueError(f"{name} must lie in [0, {LARGEST:g}) because {why}, got {value}")


def count(name: str, value: int, why: str) -> None:
    """Refuse what is not an integer of at least 0."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} is an integer because {why}, got {value!r:.60}")
    nonnegative(name, int(value), why)


def positive(name: str, value: float, why: str) -> None:
    """Refuse a number that is not above 0, infinity and NaN."""
    number(name, value)
    if not 0 < float(value) < LARGEST:
        raise ValueError(f"{name} must be positive and finite because {why}, got {value}")


def array(name: str, given: Any) -> NDArray[Any]:
    """What NumPy makes of the values.

    Raises:
        TypeError: NumPy cannot read them, as tensors in bfloat16, on a GPU, or with gradients.
    """
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} is a {type(given).__name__} that NumPy cannot read ({error}); pass a tensor "
            f"as {name}.detach().float().cpu().numpy(), and rows of one length"
        ) from error


def finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The values as float64: [N, ...]; refuses NaN, infinity and numbers that would overflow."""
    plain = array(name, values)
    if plain.dtype.kind not in "biuf" and plain.size:
        raise TypeError(f"{name} holds numbers, got {plain.flat[0]!r:.60}")
    numbers = plain.astype(np.float64)
    wrong = np.argwhere(~(np.abs(numbers) < LARGEST))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        where = f"{name} row {place[0]}" if place else name
        raise ValueError(f"{where} is {numbers[place]}; give finite numbers below {LARGEST:g}")
    return numbers


def choose(name: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a word that is not one of `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} is one of {', '.join(allowed)}, got {value!r}")


def text(name: str, value: str) -> None:
    """Refuse what is not text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is text, got {value!r:.60}")


def nearest(given: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, and all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(str(given), names, n=1, cutoff=0.4)
    listed = ", ".join(names) or "none"
    return f"; did you mean {close[0]!r}? known: {listed}" if close else f"; known: {listed}"
