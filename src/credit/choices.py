"""Checks of options and numbers: what was given, what is allowed."""

import difflib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST = 1e100
"""Numbers of this size and above are refused: their squares and sums would overflow."""


def within(name: str, value: float, low: float, high: float, why: str) -> None:
    """Refuse a number outside [low, high], and NaN."""
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}] because {why}, got {value}")


def nonnegative(name: str, value: float, why: str) -> None:
    """Refuse a negative number, infinity and NaN."""
    if not 0 <= value < LARGEST:
        raise ValueError(f"{name} must lie in [0, {LARGEST:g}) because {why}, got {value}")


def positive(name: str, value: float, why: str) -> None:
    """Refuse a number that is not above 0, infinity and NaN."""
    if not 0 < value < LARGEST:
        raise ValueError(f"{name} must be positive and finite because {why}, got {value}")


def finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """The values as float64: [N, ...]; refuses NaN, infinity and numbers that would overflow."""
    numbers = np.asarray(values, dtype=np.float64)
    wrong = np.argwhere(~(np.abs(numbers) < LARGEST))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        where = f"{name} row {place[0]}" if place else name
        raise ValueError(f"{where} is {numbers[place]}; give finite numbers below {LARGEST:g}")
    return numbers


def choose(name: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a word that is not one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} is one of {', '.join(allowed)}, got {value!r}")


def nearest(given: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, and all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(str(given), names, n=1, cutoff=0.4)
    listed = ", ".join(names) or "none"
    return f"; did you mean {close[0]!r}? known: {listed}" if close else f"; known: {listed}"
