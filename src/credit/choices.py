"""Checks of options: what was given, what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def within(name: str, value: float, low: float, high: float, why: str) -> None:
    """Refuse a number outside [low, high]."""
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low:g}, {high:g}] because {why}, got {value}")


def choose(name: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse a word that is not one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} is one of {', '.join(allowed)}, got {value!r}")
