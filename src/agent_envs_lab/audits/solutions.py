"""Episodes of an expert, whose states come late in an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_envs.experts import experts_of
from agent_envs.testing.contract import SEED, TASKS, follow_expert
from agent_envs.testing.episodes import Start, Violation, panel_of
from agent_envs_lab.audits.episodes import draw_starts
from agent_envs_lab.audits.watch import DeepWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_envs.experts import Expert
    from agent_envs.testing.episodes import Env

Way = tuple[Start, list[Any]]
"""The steps of an episode that reaches late states."""


def find_solutions(env: Env) -> dict[str, Way]:
    """The solutions of the environment's own `Oracle`, or else `Explorer`; {} if neither can."""
    for made in reversed(experts_of(type(env.unwrapped)).values()):
        if _can_play(env, made):
            played = list(_follow(env, made))
            if all(info["success"] for start, info, _ in played if start in _first_starts(env)):
                return {info["task_id"]: (start, actions) for start, info, actions in played}
    return {}


def _can_play(env: Env, made: Callable[[Env], Expert]) -> bool:
    """Whether an expert can play the environment with its options."""
    (start, *_) = _first_starts(env)
    env.reset(seed=start.seed, options=start.options)
    try:
        made(env)
    except ValueError:
        return False
    return True


def solve_tasks(env: Env, oracle: Callable[[Env], Expert]) -> dict[str, Way]:
    """Solve the first tasks and those of the small audit; the actions of each, by task id.

    Raises:
        Violation: one of the first tasks is not solved.
    """
    solved = {}
    for start, info, actions in _follow(env, oracle):
        if not info["success"] and start in _first_starts(env):
            raise Violation(
                f"the oracle did not solve {info['task_id']!r} in {info['turn']} turns",
                (start, *actions),
            )
        solved[info["task_id"]] = start, actions
    return solved


def _follow(
    env: Env, oracle: Callable[[Env], Expert]
) -> Iterator[tuple[Start, dict[str, Any], list[Any]]]:
    """An expert's episodes of the first tasks and the small audit: start, last info, actions."""
    for start in [*_first_starts(env), *draw_starts(env, TASKS, SEED)]:
        records = list(DeepWatch(env, start).play(lambda: follow_expert(env, oracle(env))))
        yield start, records[-1].info, [record.action for record in records[1:]]


def _first_starts(env: Env) -> list[Start]:
    return [Start(SEED, task) for task in range(min(TASKS, len(panel_of(env).task_ids)))]
