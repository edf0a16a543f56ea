"""Checks of options: what was given, what is allowed."""

import difflib
from collections.abc import Iterable, Sequence


def within(name: str, value: float, low: float, high: float, why: str) -> None:
    """Refuse a number outside [low, high], and NaN."""
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}] because {why}, got {value}")


def positive(name: str, value: float, why: str) -> None:
    """Refuse a number that is not above 0."""
    if not value > 0:
        raise ValueError(f"{name} must be positive because {why}, got {value}")


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
