"""Estimators by name, a user's own by import string, and the check of what they return."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from credit.methods.empg import EMPG
from credit.methods.gigpo import GiGPO
from credit.methods.has import HAS
from credit.methods.hgpo import HGPO
from credit.methods.igpo import IGPO
from credit.methods.istar import IStar, Prime
from credit.methods.kevin import Kevin
from credit.methods.mgr import MGR
from credit.methods.mt_grpo import MTGRPO, MTRLOO
from credit.methods.rebn import ReBN
from credit.methods.rtmc import RTMC
from credit.methods.signal import SignalCritic
from credit.methods.stapo import STAPO
from credit.methods.trace import TRACE
from credit.methods.trajectory import GRPO, RLOO, DrGRPO, MergedGRPO, Reinforce, ReinforcePP
from credit.methods.turn_rloo import TurnRLOO
from credit.stats import Array
from credit.turns import Turns
from credit.validation import check_known, check_rows

Estimator: TypeAlias = Callable[[Turns, np.random.Generator | None], Array]
"""Function from turns and a random generator to the advantage of each turn: [N] float64.

An estimator that reads an optional column of `Turns` lists it in a tuple attribute `needs`. One
that reads the rewards of turns has the attribute `reads_reward = True`: the others read what the
environment paid as the outcome, and what wrappers add is lost on them. One that reads the outcome
as success, 0 or 1, has `reads_success = True`, one whose `gold_logprob` is that of the frozen
reference `reads_reference = True`, and one that compares turns with equal anchors
`reads_anchors = True`.
"""

METHODS: dict[str, type[Any]] = {
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
    "rebn": ReBN,
    "reinforce": Reinforce,
    "reinforce_pp": ReinforcePP,
    "rloo": RLOO,
    "rtmc": RTMC,
    "signal": SignalCritic,
    "stapo": STAPO,
    "stapo_dynamic": STAPO,
    "trace": TRACE,
    "turn_rloo": TurnRLOO,
}
"""Class of each method's name."""


def names() -> tuple[str, ...]:
    """Sorted names of the estimators that `make` makes."""
    return tuple(sorted(METHODS))


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
    check_known("unknown credit method", [name], METHODS, own)
    check_known(f"{name} has no option", options, [one.name for one in fields(METHODS[name])])
    made: Estimator = METHODS[name](**options)
    return made


def import_object(what: str, name: str) -> Any:
    """The function or class of "package.module:Name"; `what` it is used as begins messages.

    Raises:
        ValueError: There is no such module, or it has no such name.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        remedy = "install it, or put its folder on PYTHONPATH"
        raise ValueError(f"{what} {name}: {error}; {remedy}") from error
    except AttributeError as error:
        raise ValueError(f"{what} {name}: {error}") from error


def find_misfit(function: Callable[..., Any], arguments: int) -> str:
    """Why a function cannot be called with so many arguments; "" if it can.

    A function without a signature, which is one written in C, is taken to accept them.
    """
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError as error:
        return str(error)
    except ValueError:
        pass
    return ""


def estimate(
    estimator: Callable[..., Any], turns: Turns, rng: np.random.Generator | None = None
) -> Array:
    """Advantages by any estimator, checked: -> [N] float64.

    Args:
        estimator: Callable from (turns, rng), or from (turns) alone, to [N] numbers.
        turns: The batch.
        rng: Generator of an estimator that draws.

    Raises:
        TypeError: An argument is of another type.
        ValueError: What the estimator returned is not one finite number for each turn.
    """
    alone = find_misfit(estimator, 2)
    if isinstance(estimator, type) or (alone and find_misfit(estimator, 1)):
        how = "callable as (turns) or (turns, rng), as credit.make(name)"
        raise TypeError(f"the estimator must be {how}, got {estimator!r:.60}")
    if not isinstance(turns, Turns):
        raise TypeError(f"turns must be credit.Turns or credit.rows(...).turns, got {turns!r:.60}")
    _tell_unread(estimator, turns)
    found = np.asarray(estimator(turns) if alone else estimator(turns, rng))
    if found.dtype.kind not in "iuf" or found.shape != (len(turns),):
        shown = f"{found.dtype} of shape {list(found.shape)}"
        raise ValueError(f"an estimator must return [{len(turns)}] finite numbers, got {shown}")
    check_rows("the advantage", found, np.isfinite(found), "give finite numbers")
    return found.astype(np.float64)


def _tell_unread(estimator: Callable[..., Any], turns: Turns) -> None:
    """Warn that a method reads outcomes alone where more was paid than these."""
    reads = getattr(estimator, "reads_reward", type(estimator) not in METHODS.values())
    if reads or "reward" not in vars(turns):
        return
    paid = np.append(np.bincount(turns.trajectory, turns.reward), 0.0)
    if turns.turn_reward is not None and "turn_reward" in getattr(estimator, "needs", ()):
        told = np.append(np.bincount(turns.trajectory, turns.turn_reward.sum(axis=1)), 0.0)
        paid = min(paid, paid - told, key=lambda one: float(np.abs(one).max()))
    rounding = 1e-6 * np.abs(turns.reward).max(initial=0.0)
    if np.abs(paid).max() > rounding:  # the same words at every step are printed once
        remedy = (
            "leave out what pays (but LastReward), or choose a method that reads it, e.g. GiGPO"
        )
        said = (
            f"{type(estimator).__name__} reads outcomes, and turns were paid beside them: {remedy}"
        )
        warnings.warn(said, stacklevel=3)
