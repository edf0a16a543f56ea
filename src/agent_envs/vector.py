"""make_vec: many copies of an environment stepped together, in this process or in one each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
from gymnasium.vector import AutoresetMode, VectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def make_vec(
    env_id: str,
    n: int = 1,
    *,
    vectorization_mode: Literal["sync", "async"] = "sync",
    autoreset: Literal["next_step", "same_step", "disabled"] = "next_step",
    env_kwargs: Mapping[str, Any] | None = None,
    wrappers: Sequence[Callable[[gym.Env[Any, Any]], gym.Wrapper[Any, Any, Any, Any]]] = (),
) -> VectorEnv[Any, Any, Any]:
    """`n` copies of `env_id`: observations and actions are tuples of n strings, `info` n-arrays.

    "sync" steps them one after the other in this process, which is fastest where a step takes
    microseconds; "async" gives each a process, for heavy environments, and sends texts by pipes.

    When an episode ends, `autoreset` says how the next begins, on a task that the copy draws:
    "next_step" (Gymnasium's default): the next step ignores that copy's action and returns the
        reset's observation with reward 0; leave such rows out of training;
    "same_step": the ending step returns the reset's observation; the last observation and info
        are in `info["final_obs"]` and `info["final_info"]`;
    "disabled": nothing happens by itself; reset with `options={"reset_mask": ended}`.
    `reset(seed=s)` seeds copy i with s + i, `reset(seed=[...])` each with its own.

    Raises:
        ValueError: fewer than one copy, or an unknown `vectorization_mode` or `autoreset`.
    """
    if n < 1:
        raise ValueError(f"n counts the copies and is at least 1, got {n}")
    if vectorization_mode not in ("sync", "async"):
        raise ValueError(f"vectorization_mode is 'sync' or 'async', got {vectorization_mode!r}")
    vector_kwargs: dict[str, Any] = {"autoreset_mode": _autoreset(autoreset)}
    if vectorization_mode == "async":
        vector_kwargs["shared_memory"] = False
    return gym.make_vec(
        env_id,
        num_envs=n,
        vectorization_mode=vectorization_mode,
        vector_kwargs=vector_kwargs,
        wrappers=list(wrappers),
        **(env_kwargs or {}),
    )


def _autoreset(name: str) -> AutoresetMode:
    try:
        return AutoresetMode[name.upper()]
    except KeyError:
        known = tuple(mode.name.lower() for mode in AutoresetMode)
        raise ValueError(f"autoreset is one of {known}, got {name!r}") from None
