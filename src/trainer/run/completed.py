"""A call that has ended: its value or its error, for whoever waits for it elsewhere.

An error of a call belongs to who asked for it, who may be another thread, task or process. Errors
that end the process, such as an interrupt, are raised at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Completed(Generic[_Value]):
    """A call that has returned or failed.

    Attributes:
        value: What it returned; None if it failed.
        error: What it raised, if it failed.
    """

    value: _Value | None = None
    error: Exception | None = None

    @classmethod
    def of(cls, call: Callable[[], _Value]) -> Completed[_Value]:
        """Make a call."""
        try:
            return cls(call())
        except Exception as error:  # noqa: BLE001 - raised by whoever asks for the result
            return cls(error=error)

    def result(self) -> _Value:
        """What the call returned.

        Raises:
            Exception: What it raised.
        """
        if self.error is not None:
            raise self.error
        return cast("_Value", self.value)
