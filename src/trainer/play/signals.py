"""The signals of a turn, checked where an episode reads them: what is wrong costs this episode.

Left out: what `agent_envs.testing` checks of an environment beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    **dict.fromkeys(("goal", "task_id", "anchor", "invalid_reason"), ("a text", (str,))),
    **dict.fromkeys(("valid", "success"), ("True or False", (bool, np.bool_))),
    "admissible_actions": ("a list of texts", (list,)),
}


def check_info(info: dict[str, Any]) -> dict[str, Any]:
    """The `info` of a reset or a step, if its texts, flags and lists are such.

    Raises:
        ValueError: One is missing or of another type.
    """
    for name, (kind, types) in _KINDS.items():
        given = info.get(name)
        are_texts = not isinstance(given, list) or all(isinstance(one, str) for one in given)
        if not (isinstance(given, types) and are_texts):
            raise ValueError(f"{name} is {given!r:.60}; the environment must report {kind}")
    return info


def read_number(name: str, given: Any, most: float = math.inf) -> float:
    """A number that an environment reports; with `most` it is from 0 to that.

    Raises:
        ValueError: It is another one, or none.
    """
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (most < math.inf and not 0 <= number <= most):
        wanted = "a finite number" if most == math.inf else f"a number from 0 to {most:g}"
        raise ValueError(f"{name} is {given!r:.60}; the environment must report {wanted}")
    return number


def read_numbers(info: Mapping[str, Any], key: str) -> dict[str, float]:
    """Finite numbers by name that an environment may report under a key of `info`.

    Raises:
        ValueError: They have no names, or one is no finite number.
    """
    given = info.get(key, {})
    if not isinstance(given, Mapping):
        raise ValueError(  # noqa: TRY004 - as of any other signal
            f"{key} is {given!r:.60}; the environment must report numbers by name"
        )
    return {name: read_number(f"{key}[{name!r}]", value) for name, value in given.items()}
