"""Turn-level credit assignment and reward shaping on plain arrays.

Columns of a batch go into `Turns`; an estimator is a frozen dataclass that is its own configuration
and, called with turns, gives one advantage a turn.
"""

from __future__ import annotations

import difflib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from credit import anchors, segments
from credit.gigpo import GiGPO
from credit.mgr import MGR
from credit.trajectory import GRPO, RLOO, DrGRPO, Reinforce, ReinforcePP
from credit.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    Estimator = Callable[[Turns, np.random.Generator | None], NDArray[np.float64]]

__all__ = [
    "GRPO",
    "MGR",
    "RLOO",
    "DrGRPO",
    "GiGPO",
    "Reinforce",
    "ReinforcePP",
    "Turns",
    "anchors",
    "make",
    "names",
    "segments",
]

_METHODS: dict[str, type[Any]] = {
    "dr_grpo": DrGRPO,
    "gigpo": GiGPO,
    "grpo": GRPO,
    "loop": RLOO,
    "mgr": MGR,
    "reinforce": Reinforce,
    "reinforce_pp": ReinforcePP,
    "rloo": RLOO,
}


def names() -> tuple[str, ...]:
    """Names that `make` knows, sorted."""
    return tuple(sorted(_METHODS))


def make(name: str, **options: Any) -> Estimator:
    """The estimator of a name, with its options.

    Raises:
        ValueError: an unknown name or option; the message has the nearest known one.
    """
    if name not in _METHODS:
        raise ValueError(f"unknown credit method {name!r}{_nearest(name, names())}")
    known = [option.name for option in fields(_METHODS[name])]
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}{_nearest(option, known)}")
    made: Estimator = _METHODS[name](**options)
    return made


def _nearest(given: str, known: tuple[str, ...] | list[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.4)
    listed = ", ".join(known) or "none"
    return f"; did you mean {close[0]!r}? known: {listed}" if close else f"; known: {listed}"
