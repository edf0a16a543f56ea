"""Turn-level credit assignment and reward shaping on plain arrays.

`Turns` holds the columns of a batch. An estimator is a frozen dataclass of its options. Called with
turns, it returns one advantage for each turn. The modules `credit.surrogate`, `kl`, `gae`,
`implicit`, `turnrd` and `tokens` need torch and are not imported here. Reward wrappers are in
`credit.wrappers`. `fidelity` compares advantages with measured true ones, and `credit.benchmark`
ranks estimators on those that ship.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np

from credit import anchors, decomposers, filters, segments
from credit.decomposers import Progressive
from credit.empg import EMPG
from credit.estimators import estimate
from credit.fidelity import Fidelity, fidelity
from credit.gigpo import GiGPO
from credit.has import HAS
from credit.hgpo import HGPO
from credit.igpo import IGPO
from credit.istar import IStar, Prime
from credit.judge import Judge
from credit.kevin import Kevin
from credit.mgr import MGR
from credit.multi_turn import MTGRPO, MTRLOO
from credit.records import TurnRecord, rows_of
from credit.rows import Rows, rows
from credit.rtmc import RTMC
from credit.segments import Array
from credit.stapo import STAPO
from credit.trace import TRACE
from credit.trajectory import GRPO, RLOO, DrGRPO, MergedGRPO, Reinforce, ReinforcePP
from credit.truth import Truth
from credit.turn_rloo import TurnRLOO
from credit.turns import MissingColumn, Turns
from credit.validation import check_known

Estimator: TypeAlias = Callable[[Turns, np.random.Generator | None], Array]
"""Function from turns and a random generator to the advantage of each turn: [N] float64.

An estimator that reads an optional column of `Turns` lists it in a tuple attribute `needs`. One
that reads the outcome as success, 0 or 1, has the attribute `reads_success = True`.
"""

__all__ = [
    "EMPG",
    "GRPO",
    "HAS",
    "HGPO",
    "IGPO",
    "MGR",
    "MTGRPO",
    "MTRLOO",
    "RLOO",
    "RTMC",
    "STAPO",
    "TRACE",
    "DrGRPO",
    "Estimator",
    "Fidelity",
    "GiGPO",
    "IStar",
    "Judge",
    "Kevin",
    "MergedGRPO",
    "MissingColumn",
    "Prime",
    "Progressive",
    "Reinforce",
    "ReinforcePP",
    "Rows",
    "Truth",
    "TurnRLOO",
    "TurnRecord",
    "Turns",
    "anchors",
    "decomposers",
    "estimate",
    "fidelity",
    "filters",
    "make",
    "names",
    "rows",
    "rows_of",
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
    "hgpo": HGPO,
    "igpo": IGPO,
    "istar": IStar,
    "kevin": Kevin,
    "loop": RLOO,
    "mgr": MGR,
    "mt_grpo": MTGRPO,
    "mt_rloo": MTRLOO,
    "prime": Prime,
    "reinforce": Reinforce,
    "reinforce_pp": ReinforcePP,
    "rloo": RLOO,
    "rtmc": RTMC,
    "stapo": STAPO,
    "stapo_dynamic": STAPO,
    "trace": TRACE,
    "turn_rloo": TurnRLOO,
}


def names() -> tuple[str, ...]:
    """Sorted names of the estimators that `make` makes."""
    return tuple(sorted(_METHODS))


def make(name: str, **options: Any) -> Estimator:
    """Make an estimator from its name and options.

    Args:
        name: A name of `names()`.
        options: Options of the estimator, as in its class.

    Raises:
        ValueError: The name or an option is unknown, or an option is out of range. The message has
            the nearest known name.
        TypeError: An option has another type.
    """
    own = "an estimator of your own is called as it is, or by credit.estimate(estimator, turns)"
    check_known("unknown credit method", [name], _METHODS, own)
    check_known(f"{name} has no option", options, [one.name for one in fields(_METHODS[name])])
    made: Estimator = _METHODS[name](**options)
    return made
