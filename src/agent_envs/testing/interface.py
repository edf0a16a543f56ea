"""Checks of an environment's interface: docstring, panel, reset, order of calls and odd actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agent_envs.contract import ContractError
from agent_envs.panels import Panel
from agent_envs.testing import comparisons
from agent_envs.testing.episodes import NONSENSE, Record, Start, dressed, limit_of, panel_of
from agent_envs.testing.rules import HEADINGS, at, headings
from agent_envs.testing.violations import Violation, difference, hold
from agent_envs.testing.watch import replayed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_envs.testing.episodes import Env

SEED = 7
RESETS = 20
"""Resets without a seed of which at least one must start another task."""


def require(holds: bool, message: str) -> None:
    """Raise a ContractError with this message unless it holds."""
    if not holds:
        raise ContractError(message)


def listed_panel(env: Env) -> Panel:
    """The panel of an environment, which has one."""
    return cast("Panel", panel_of(env))


def check_docstring(env_class: type) -> None:
    """The class docstring must have all headings."""
    found = headings(env_class)
    missing = [heading for heading in HEADINGS if not found.get(heading)]
    require(
        not missing,
        f"the docstring of {env_class.__name__} lacks the headings {', '.join(missing)}, or has "
        "nothing under them",
    )


def check_panel(env: Env) -> None:
    """The panel must be complete, and its hash that of its tasks."""
    panel = panel_of(env)
    for name in ("split", "task_ids", "hash", "source"):
        require(hasattr(panel, name), f"env.unwrapped.panel must have {name!r}, got {panel!r:.80}")
    panel = cast("Panel", panel)
    require(
        type(panel.task_ids) is tuple and all(type(task) is str for task in panel.task_ids),
        f"panel.task_ids must be a tuple of str, got {panel.task_ids!r:.80}",
    )
    require(
        type(panel.source) is str and panel.source != "",
        f"panel.source must name the origin of the tasks, got {panel.source!r}",
    )
    try:
        expected = Panel(panel.split, panel.task_ids).hash
    except ValueError as error:
        raise ContractError(f"env.unwrapped.panel is not a valid panel: {error}") from error
    require(panel.hash == expected, f"panel.hash must be {expected}, got {panel.hash!r}")
    turns = getattr(env.unwrapped, "max_turns", None)
    require(
        type(turns) is int and turns > 0, f"env.max_turns must be an int above 0, got {turns!r}"
    )


def check_gymnasium(env: Env) -> None:
    """Gymnasium's own check must pass."""
    try:
        check_env(env, skip_render_check=env.spec is None)
    except ContractError:
        raise
    except (AssertionError, UserWarning) as problem:
        if limit_of(env) == 1 and "truncates after 1 step" in str(problem):
            return  # correct for one turn; spaces and reset are already checked at that point
        raise ContractError(f"gymnasium's check_env reports: {problem}") from problem


def check_options(env: Env, actions: Sequence[Any]) -> None:
    """The options of `reset` must start the named task; other options are refused."""
    tasks = listed_panel(env).task_ids
    last: list[dict[str, Any]] = [{"task": len(tasks) - 1}, {"task_id": tasks[-1]}]
    for options in last:
        task_id = env.reset(options=options)[1]["task_id"]
        require(
            task_id == tasks[-1],
            f"reset(options={options}) must start {tasks[-1]!r}, got {task_id!r}",
        )
    hold(env, comparisons.named, (Start(SEED), *actions))
    one_too_far, none, both = len(tasks), "no such task", {"task": 0, "task_id": tasks[0]}
    for wrong in ({"tusk": 0}, {"task": one_too_far}, {"task": -1}, {"task_id": none}, both):
        _check_refused(env, cast("dict[str, Any]", wrong))


def _check_refused(env: Env, options: dict[str, Any]) -> None:
    try:
        env.reset(options=options)
    except ValueError:
        return
    raise ContractError(f"reset(options={options}) must raise ValueError, it was accepted")


def check_seeds(env: Env) -> None:
    """Seeds draw tasks, and a reset without a seed continues the random stream."""
    drawn = [env.reset(seed=seed)[1]["task_id"] for seed in range(20)]
    several = len(listed_panel(env).task_ids) > 1
    require(
        len(set(drawn)) > 1 or not several,
        f"20 seeds draw the same task, {drawn[0]!r}, of {len(listed_panel(env).task_ids)}",
    )
    following = []
    for _ in range(2):
        env.reset(seed=SEED)
        openings = [env.reset() for _ in range(3)]
        following.append([Record(None, shown, 0.0, False, False, info) for shown, info in openings])
    for number, (one, other) in enumerate(zip(*following, strict=True), 1):
        wrong = difference(one, other)
        shown = f"reset(seed={SEED}), then {'reset(), ' * number}".rstrip(", ")
        require(not wrong, f"{shown}: {wrong} the second time")
    tasks = {record.info["task_id"] for record in following[0]}
    for _ in range(RESETS):
        if len(tasks) > 1 or not several:
            return
        tasks.add(env.reset()[1]["task_id"])
    raise ContractError(
        f"reset() without a seed repeats the same task, {tasks.pop()!r}, of "
        f"{len(listed_panel(env).task_ids)}: it must draw a new task\n"
        f"  shown by reset(seed={SEED}), then reset() ({RESETS + 3} times)"
    )


def check_order(env: Env, actions: Sequence[Any]) -> None:
    """`step` must be refused before a reset and after the end."""
    if env.spec is not None:
        _check_reset_needed(env.spec.make(), "before the first reset")
    *_, last = comparisons.records(env, (Start(SEED), *actions))
    _check_reset_needed(env, f"after the end at turn {last.info['turn']}", (Start(SEED), *actions))


def _check_reset_needed(env: Env, when: str, steps: Sequence[Any] = ()) -> None:
    try:
        env.step(env.action_space.sample())
    except ResetNeeded:
        return
    raise Violation(f"step() {when} must raise gymnasium.error.ResetNeeded, it was accepted", steps)


def check_odd_actions(env: Env) -> None:
    """What is not text must raise, and odd texts must be invalid turns."""
    if not isinstance(env.action_space, gym.spaces.Text):
        return
    for no_text in (None, 3, b"look", ["look"]):
        env.reset(seed=SEED)
        try:
            env.step(no_text)
        except TypeError:
            continue
        raise ContractError(f"step({no_text!r}) must raise TypeError, it was accepted")
    for no_action in ("x" * 1_000_000, "\ud800 look"):
        record = replayed(env, Start(SEED), [no_action])[-1]
        found = record.info["invalid_reason"]
        if found != "format":
            raise Violation(
                f"{at(record, 1)}: must be 'format', got {found!r}", (Start(SEED), no_action)
            )
    for odd in ("", "\x00\x1b[2J look\r\n\t", "ÿ漢字🎉"):
        replayed(env, Start(SEED), [odd])
    for word in NONSENSE:
        replayed(env, Start(SEED), [dressed(env, word)])
