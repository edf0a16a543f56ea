"""Checks of types, for all environments: constructor options, and what a turn reports.

Ranges and known names are not in an annotation; each constructor checks these itself.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from inspect import Parameter, formatannotation, signature
from typing import Any

import numpy as np

_NUMBER, _FLAG = (float, int, np.number), (bool, int, np.bool_)
_OF_TURN = {1: _FLAG, 3: _NUMBER, 5: _NUMBER, 6: _FLAG, 7: _FLAG, 8: _FLAG}  # by place in `Turn`
MANY = (list, tuple, set, frozenset)


def find_fault(turn: Any) -> tuple[str, str] | None:
    """What a `Turn` reports that it must not, such as "False" for a flag, and the rule."""
    if (at := _find_odd(tuple(map(type, turn)))) is not None:
        return f"{turn._fields[at]}={turn[at]!r:.60}", f"it must be a {_OF_TURN[at][0].__name__}"
    if turn.success and turn.progress != 1:
        return f"success with progress {turn.progress!r}", "success implies progress 1.0"
    return None


@lru_cache(maxsize=1024)
def _find_odd(kinds: tuple[type, ...]) -> int | None:
    """The place of the first value of another type than it must have, by the types of all."""
    return next((at for at, fit in _OF_TURN.items() if not issubclass(kinds[at], fit)), None)


def check_options(made: type, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Refuse an option whose value does not have the type annotated in `made`'s constructor.

    Checked are bool, int, float, str, None, paths, iterables of str, sequences of numbers, mappings
    from str to float, and unions of them. An int is accepted as a float; a bool is not a number,
    and NaN is refused.
    Other annotations, such as a user's class, and unknown names are left to the constructor.

    Raises:
        TypeError: the message has the option, its types and what was given.
    """
    kinds = annotations_of(made)
    given = dict(zip(kinds, args, strict=False)) | dict(options)
    for name, value in given.items():
        allowed = kinds.get(name, ())
        if allowed and not any(_fits(value, kind) for kind in allowed):
            raise TypeError(
                f"{made.__name__}: {name} must be {' or '.join(_WORDS[kind] for kind in allowed)}, "
                f"got {value!r:.80} ({type(value).__name__})"
            )


def require_methods(option: str, given: Any, *names: str) -> None:
    """Refuse an object that does not have all of these methods.

    Raises:
        TypeError: the message has the option, the methods and what was given.
    """
    if not all(callable(getattr(given, name, None)) for name in names):
        raise TypeError(
            f"{option} must be a str, or an object with the methods {', '.join(names)}, "
            f"got {given!r:.80} ({type(given).__name__})"
        )


@lru_cache(maxsize=64)
def annotations_of(made: type) -> dict[str, tuple[str, ...]]:
    """The types of each constructor option by name, in order; () if one of them is not checked.

    If a constructor passes on `**options`, the options of its base class follow.
    """
    kinds: dict[str, tuple[str, ...]] = {}
    for one in made.__mro__:
        if "__init__" not in vars(one):
            continue
        parameters = list(signature(vars(one)["__init__"]).parameters.values())[1:]
        for parameter in parameters:
            if parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL):
                kinds.setdefault(parameter.name, _parts(parameter.annotation))
        if all(parameter.kind is not Parameter.VAR_KEYWORD for parameter in parameters):
            break
    return kinds


def _parts(annotation: Any) -> tuple[str, ...]:
    """The members of a union by name; () if one of them is not checked."""
    told = annotation if isinstance(annotation, str) else formatannotation(annotation)
    parts = tuple(part.strip().removeprefix("collections.abc.") for part in told.split("|"))
    return parts if all(part in _WORDS for part in parts) else ()


def _fits(value: Any, kind: str) -> bool:
    if kind in _PLAIN:
        return isinstance(value, _PLAIN[kind]) and (kind == "bool") == isinstance(value, bool)
    if kind == "float":
        return _is_number(value)
    if kind == "Mapping[str, float]":
        return isinstance(value, Mapping) and all(
            isinstance(key, str) and _is_number(number) for key, number in value.items()
        )
    if kind == "tuple[str, ...]" and not isinstance(value, tuple):
        return False
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return False
    fits = _is_number if kind == "Sequence[float]" else lambda item: isinstance(item, str)
    return not isinstance(value, MANY) or all(map(fits, value))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


_PLAIN: dict[str, type] = {
    "bool": bool,
    "int": int,
    "str": str,
    "None": type(None),
    "os.PathLike[str]": os.PathLike,
}
_WORDS = {
    "bool": "a bool",
    "int": "an int",
    "float": "a number",
    "str": "a str",
    "None": "None",
    "os.PathLike[str]": "a path",
    "Mapping[str, float]": "a mapping from names to numbers",
    "tuple[str, ...]": "a tuple of str",
    "Sequence[float]": "a sequence of numbers",
    "Sequence[str]": "a sequence of str",
    "Iterable[str]": "an iterable of str",
}
