"""Columns of a batch: their types, and the checks of what is given for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from credit.validation import as_finite, as_list, as_vector, check_rows, clip_rounding

PER_TRAJECTORY: dict[str, Any] = {"group": np.int64, "outcome": np.float64, "goal": object}
"""Types of the columns with a row for each trajectory."""
RECORDED: dict[str, Any] = {
    "reward": np.float64,
    "valid": np.bool_,
    "progress": np.float64,
    "anchor": object,
    "action": object,
}
"""Types of the columns that are recorded of each turn."""
PER_TURN: dict[str, Any] = {"trajectory": np.int64} | RECORDED
"""Types of the columns with a row for each turn."""
MEASURED: dict[str, Any] = dict.fromkeys(("entropy", "gold_logprob", "progress_before"), np.float64)
"""Types of the columns with a row for each turn that not every batch has."""
OPTIONAL = ("turn_reward", *MEASURED)
"""The columns that a batch may lack."""
KINDS = PER_TRAJECTORY | PER_TURN | MEASURED
"""Types of all columns but `turn_reward`."""
_BOUNDS = {
    "progress": (0.0, 1.0, "progress must lie in [0, 1]"),
    "progress_before": (0.0, 1.0, "progress must lie in [0, 1]"),
    "entropy": (0.0, np.inf, "an entropy is at least 0 nats: minus a mean log-probability"),
    "gold_logprob": (-np.inf, 0.0, "a log-probability is at most 0 nats"),
}


def as_column(name: str, given: Any) -> NDArray[Any]:
    """Copy values into a read-only column of a batch and check them: [K] -> [K].

    Numbers that leave their range by rounding, at most `validation.ROUNDING`, are set to its end.

    Raises:
        ValueError: A number that `Turns` refuses; the message names the row.
        TypeError: Values of another type.
    """
    kind = KINDS[name]
    if kind is object:
        return as_texts(name, given)
    column = as_vector(name, given, kind)
    if name in _BOUNDS:
        low, high, rule = _BOUNDS[name]
        column = clip_rounding(column, low, high)
        column.flags.writeable = False
        check_rows(name, column, (column >= low) & (column <= high), rule)
    return column


def group_by_verifier(turns: Sequence[Any]) -> dict[str, list[Any]]:
    """Rewards of each verifier from the mapping that each turn has: [N] mappings -> [N] each.

    Raises:
        ValueError: A turn has no mapping from names, or turns have different verifiers.
    """
    first: Mapping[str, Any] = next(iter(turns), {})
    for row, rewards in enumerate(turns):
        if not isinstance(rewards, Mapping) or set(rewards) != set(first):
            shown = f"{rewards!r:.60}, the first is {first!r:.60}"
            raise ValueError(f"turn_reward row {row} is {shown}; give each turn the same verifiers")
    return {name: [rewards[name] for rewards in turns] for name in first}


def stack_turn_rewards(paid: Mapping[str, Any]) -> dict[str, Any]:
    """The columns `turn_reward` and `turn_reward_names` from rewards of verifiers: [N] each."""
    if not paid:
        return {}
    return {"turn_reward": np.stack([*paid.values()], axis=1), "turn_reward_names": tuple(paid)}


def as_verifiers(given: Any, names: Any) -> tuple[NDArray[np.float64] | None, tuple[str, ...]]:
    """Copy rewards of verifiers into a read-only table, one column each: [N, R] -> [N, R], names.

    Raises:
        TypeError: The rewards are not numbers, or the names are no list.
        ValueError: The table has not one column for each name, a name is repeated, or a number is
            not finite.
    """
    if given is None:
        return None, ()
    table, listed = as_finite("turn_reward", given), tuple(as_list("turn_reward_names", names))
    if table.shape == (0,):  # an empty list
        table = table.reshape(-1 if listed else 0, len(listed))
    if table.shape[1:] != (len(listed),) or len(set(listed)) < len(listed):
        shown = f"shape {table.shape} and the names {listed!r:.80}"
        raise ValueError(f"turn_reward has {shown}; give [N, R] numbers and R different names")
    table.flags.writeable = False
    return table, listed


def as_texts(name: str, given: Any) -> NDArray[np.object_]:
    """Copy texts into a read-only vector of str: [N] -> [N].

    Integers are converted to text if all rows are integers.

    Raises:
        TypeError: A row is neither, or `given` is no list.
    """
    rows = as_list(name, given)
    if set(map(type, rows)) - {str}:
        whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in rows)
        for row, value in enumerate(rows):
            if not (whole or isinstance(value, str)):
                remedy = "all texts or all integers; of an array its sha256, as text"
                raise TypeError(f"{name} row {row} is {value!r:.60}; give {remedy}")
        rows = list(map(str, rows))
    column = np.empty(len(rows), dtype=object)
    column[:] = rows
    column.flags.writeable = False
    return column
