"""The error that several rooms raise, and what collects errors of independent checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gymnasium.error import Error as GymError

from agent_envs.imports import message_of


class RecipeError(ValueError):
    """A recipe, option or value is unknown or invalid; the message has the nearest known name."""


class Problems:
    """What independent checks found, so that all of it is told at once."""

    def __init__(self) -> None:
        self._found: list[Exception] = []

    @contextmanager
    def note(self) -> Iterator[None]:
        """Context of one check."""
        try:
            yield
        except (ValueError, OSError, ImportError, GymError) as error:
            self._found.append(error)

    def refuse(self) -> None:
        """Raise what was found: one error as it was, several as one RecipeError."""
        told = {message_of(error): error for error in self._found}
        if len(told) == 1:
            raise self._found[0]
        numbered = [f"({number}) {said}" for number, said in enumerate(told, start=1)]
        if numbered:
            raise RecipeError(f"{len(told)} problems: {'; '.join(numbered)}")
