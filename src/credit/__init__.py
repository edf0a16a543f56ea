"""Turn-level credit assignment and reward shaping on plain arrays.

Columns of a batch go into `Turns`; an estimator is a frozen dataclass that is its own configuration
and, called with turns, gives one advantage a turn. What works on log-probabilities needs torch and
is imported by name: `credit.surrogate`, `kl`, `gae`, `selective`, `implicit`, `turnrd`,
`turnrd_loss`. Reward wrappers are in `credit.wrappers`.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np

from credit import anchors, decomposers, filters, segments
from credit.choices import nearest
from credit.decomposers import Progressive
from credit.empg import EMPG
from credit.gigpo import GiGPO
from credit.has import HAS
from credit.istar import IStar, Prime
from credit.judge import Judge
from credit.mgr import MGR
from credit.multi_turn import MTGRPO, MTRLOO
from credit.segments import Array
from credit.stapo import STAPO, STAPODynamic
from credit.trajectory import GRPO, RLOO, DrGRPO, MergedGRPO, Reinforce, ReinforcePP
from credit.turns import Turns

Estimator: TypeAlias = Callable[[Turns, np.random.Generator | None], Array]
"""Turns, and a generator for what draws, to one advantage a turn: [N].

An estimator that reads an optional column of `Turns` names it in an attribute `needs`, a tuple.
"""

__all__ = [
    "EMPG",
    "GRPO",
    "HAS",
    "MGR",
    "MTGRPO",
    "MTRLOO",
    "RLOO",
    "STAPO",
    "DrGRPO",
    "Estimator",
    "GiGPO",
    "IStar",
    "Judge",
    "MergedGRPO",
    "Prime",
    "Progressive",
    "Reinforce",
    "ReinforcePP",
    "STAPODynamic",
    "Turns",
    "anchors",
    "decomposers",
    "filters",
    "make",
    "names",
    "segments",
]

_METHODS: dict[str, type[Any]] = {
    "dr_grpo": DrGRPO,
    "empg": EMPG,
    "gigpo": GiGPO,
    "grpo": GRPO,
    "grpo_mr": MergedGRPO,
    "grpo_or": GRPO,
    "has": HAS,
    "istar": IStar,
    "loop": RLOO,
    "mgr": MGR,
    "mt_grpo": MTGRPO,
    "mt_rloo": MTRLOO,
    "prime": Prime,
    "reinforce": Reinforce,
    "reinforce_pp": ReinforcePP,
    "rloo": RLOO,
    "stapo": STAPO,
    "stapo_dynamic": STAPODynamic,
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
        raise ValueError(f"unknown credit method {name!r}{nearest(name, _METHODS)}")
    known = [option.name for option in fields(_METHODS[name])]
    for option in options:
        if option not in known:
            raise ValueError(f"{name} has no option {option!r}{nearest(option, known)}")
    made: Estimator = _METHODS[name](**options)
    return made
