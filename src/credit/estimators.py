"""Estimators by name, a user's own by import string, and the check of what they return."""

import inspect
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
from credit.methods.rtmc import RTMC
from credit.methods.stapo import STAPO
from credit.methods.trace import TRACE
from credit.methods.trajectory import GRPO, RLOO, DrGRPO, MergedGRPO, Reinforce, ReinforcePP
from credit.methods.turn_rloo import TurnRLOO
from credit.stats import Array
from credit.turns import Turns
from credit.validation import as_array, check_generator, check_known

Estimator: TypeAlias = Callable[[Turns, np.random.Generator | None], Array]
"""Function from turns and a random generator to the advantage of each turn: [N] float64.

An estimator that reads an optional column of `Turns` lists it in a tuple attribute `needs`. One
that reads the outcome as success, 0 or 1, has the attribute `reads_success = True`.
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
    "reinforce": Reinforce,
    "reinforce_pp": ReinforcePP,
    "rloo": RLOO,
    "rtmc": RTMC,
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
    """The function or class of "package.module:Name".

    Args:
        what: What it is used as, for messages.
        name: Name of the module, a colon and the name in the module.

    Raises:
        ValueError: There is no such module, it fails when it is imported, or it has no such
            name.
    """
    module, _, attribute = name.partition(":")
    try:
        loaded = import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ValueError(
                f"{what} {name}: there is no module {error.name!r}; install it, or put its folder "
                "on PYTHONPATH"
            ) from None
        raise ValueError(
            f"{what} {name}: the module {module} fails when it is imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not hasattr(loaded, attribute):
        raise ValueError(f"{what} {name}: {module} has no {attribute!r}")
    return getattr(loaded, attribute)


def explain_refusal(function: Callable[..., Any], arguments: int) -> str:
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


_GENERATOR = np.random.Generator
_ALLOWED = "it must return one finite number for each turn"


def estimate(
    estimator: Callable[..., Any], turns: Turns, rng: np.random.Generator | None = None
) -> Array:
    """Advantages by any estimator, checked: -> [N] float64.

    Args:
        estimator: Callable from (turns, rng), or from (turns) alone, to [N] numbers.
        turns: The batch.
        rng: Generator of an estimator that draws.

    Raises:
        TypeError: An argument is of another type, or what was returned is no array of numbers.
        ValueError: The estimator draws, and there is no `rng`. What was returned has another shape,
            or a number that is not finite.
    """
    _check_callable(estimator)
    check_turns(turns)
    check_generator(rng)
    given = _call(estimator, turns, rng)
    try:
        found = as_array("the advantage", given)
    except TypeError as error:
        raise TypeError(f"the estimator returned no array of numbers: {error}") from error
    if found.dtype.kind not in "iuf":
        raise TypeError(f"the estimator returned {found.dtype}; {_ALLOWED}")
    if found.shape != (len(turns),):
        raise ValueError(
            f"the estimator returned shape {list(found.shape)} for N={len(turns)} turns; {_ALLOWED}"
        )
    if (wrong := np.flatnonzero(~np.isfinite(found))).size:
        row = wrong[0]
        raise ValueError(f"the estimator returned {found[row]} for turn {row}; {_ALLOWED}")
    return found.astype(np.float64)


def check_turns(given: object) -> None:
    """Raise TypeError unless an estimator was given `Turns`."""
    if not isinstance(given, Turns):
        raise TypeError(
            f"an estimator reads credit.Turns, got {given!r:.60} ({type(given).__name__}); make "
            "them by credit.Turns(group=..., outcome=..., trajectory=...), or from a trainer's "
            "rows by credit.rows(...).turns"
        )


def _check_callable(estimator: Any) -> None:
    """Raise TypeError unless this is an estimator, and not the name or the class of one."""
    if isinstance(estimator, type):
        raise TypeError(
            f"the estimator is the class {estimator.__name__}; make one of it, as "
            f"{estimator.__name__}()"
        )
    if not callable(estimator):
        raise TypeError(
            "the estimator must be callable as (turns) or (turns, rng), got "
            f"{estimator!r:.60} ({type(estimator).__name__}); credit.make(name) makes one by name"
        )
    if (why := explain_refusal(estimator, 1)) and explain_refusal(estimator, 2):
        raise TypeError(f"the estimator must be callable as (turns) or (turns, rng): {why}")


def _call(estimator: Callable[..., Any], turns: Turns, rng: np.random.Generator | None) -> Any:
    """What an estimator returns, with `rng` if it takes one."""
    if explain_refusal(estimator, 2):
        return estimator(turns)
    try:
        return estimator(turns, rng)
    except AttributeError as error:
        if rng is not None or error.obj is not None or not hasattr(_GENERATOR, str(error.name)):
            raise
        raise ValueError(
            f"the estimator reads rng.{error.name}, and no rng was given: make "
            "rng = np.random.default_rng(seed) once and call credit.estimate(estimator, turns, rng)"
        ) from error
