"""check_agent_env: the environment contract, checked from outside in two lines of a test.

`agent-envs audit` plays more: it compares processes, instances and times of day, audits the anchors
and shortens the steps that show a violation.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agent_envs.contract import ContractError
from agent_envs.panels import Panel
from agent_envs.testing.episodes import (
    HEADINGS,
    NONSENSE,
    Record,
    Start,
    Violation,
    Watch,
    find_difference,
    limit_of,
    list_inputs,
    name_turn,
    panel_of,
    play_steps,
    read_headings,
    wander,
    write_input,
)

if TYPE_CHECKING:
    from agent_envs.experts import Expert
    from agent_envs.testing.episodes import Actions, Actor, Env

SEED = 7
TASKS = 3
"""Tasks that an expert plays."""
EPISODES = 10
"""Episodes of random tasks and actions."""
SURPRISES = 0.2
"""Share of actions sampled from the space although a list is given."""
RESETS = 12
"""Resets without a seed of which at least one must start another task."""


def check_agent_env(
    env: Env,
    *,
    oracle: Callable[[Env], Expert] | None = None,
    copies: bool = True,
    actions: Actions = wander,
) -> None:
    """Check the contract on `env`, wrapped or not, made by `gym.make` or by hand.

    It checks the docstring headings, the panel and its hash, Gymnasium's own `check_env`, reset
    options, seeds, the order of calls, odd actions and nonsense, and that the same seed and actions
    repeat an episode. The rules of `episodes.RULES` hold at every turn.

    Args:
        env: the environment.
        oracle: makes the expert of an episode, as the class `Oracle` of an environment does. It
            must solve the first tasks; the rules are applied to its episodes, too.
        copies: whether to check that deep copies and pickles continue exactly like the original.
        actions: makes the actor of an episode, for text environments without lists of actions.

    Raises:
        ContractError: the first violation, with the steps that show it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try_panel(env)
        ways = []
        for seed in range(SEED, SEED + EPISODES):
            records = list(play(env, seed, actions=actions))
            ways.append((Start(seed), *(record.action for record in records[1:])))
        if oracle is not None:
            ways += [(start, *done) for start, done in solve_tasks(env, oracle)]
        for start, *done in (ways[0], ways[-1]):
            once, again = (Watch(env, start).replay(done) for _ in range(2))
            hold(compare_plays("the same seed and actions again", once, again, (start, *done)))
            if copies:
                hold(compare_copies(env, start, done))
        try_options(env, ways[0])
        try_seeds(env)
        try_order(env, ways[0])
        try_odd_actions(env)
        try_gymnasium(env.unwrapped)
        try_docstring(type(env.unwrapped))


def play(
    env: Env, seed: int, *, task: int | None = None, actions: Actions = wander
) -> Iterator[Record]:
    """Plays an episode to its end with mostly admissible actions, and applies the rules.

    Without lists of actions, it uses samples of the space, or an actor of `actions`.

    Raises:
        ContractError: a turn violates the contract.
    """
    return Watch(env, Start(seed, task)).play(lambda: choose_listed(env, seed, actions))


def choose_listed(env: Env, seed: int, actions: Actions = wander) -> Actor:
    """The actor of `play`."""
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    unlisted = None if actions is wander else actions(env, np.random.default_rng(seed))

    def act(observation: Any, info: dict[str, Any]) -> Any:
        choices = list_inputs(env, info)
        sampled = not choices or rng.random() < SURPRISES
        if sampled and unlisted is not None:
            return unlisted(observation, info)
        return env.action_space.sample() if sampled else choices[rng.integers(len(choices))]

    return act


def digest(env: Env, seed: int) -> str:
    """Hex SHA-256 of the panel's hash and of all turns of an episode."""
    return sha256(repr((panel_of(env).hash, list(play(env, seed)))).encode()).hexdigest()


def hold(found: Violation | None) -> None:
    """Raise what was found, if anything."""
    if found is not None:
        raise found


def require(holds: bool, message: str) -> None:
    """Raise a ContractError with this message unless it holds."""
    if not holds:
        raise ContractError(message)


def compare_plays(
    how: str, expected: Sequence[Record], found: Sequence[Record], steps: Sequence[Any]
) -> Violation | None:
    """The first difference of two plays of one episode, with the steps up to it."""
    for turn, (one, other) in enumerate(zip(expected, found, strict=False)):
        if wrong := find_difference(one, other):
            at = name_turn(one, turn) if turn else "at the reset"
            return Violation(f"{how}, {at}: {wrong}", steps[: turn + 1])
    if len(expected) != len(found):
        turns = f"{len(expected) - 1} turns, then {len(found) - 1}"
        return Violation(f"{how}: {turns}", steps)
    return None


def compare_copies(env: Env, start: Start, actions: Sequence[Any]) -> Violation | None:
    """A deep copy and a pickle made within an episode must continue like the original."""
    half = len(actions) // 2
    expected = Watch(env, start).replay(actions)
    Watch(env, start).replay(actions[:half])
    try:
        players = {"a deep copy": copy.deepcopy(env), "a pickle": pickle.loads(pickle.dumps(env))}
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ContractError(f"the environment cannot be copied and pickled: {error}") from error
    for kind, player in players.items():
        for turn, record in enumerate(expected[half + 1 :], half + 1):
            found = Record(record.action, *player.step(record.action))
            if wrong := find_difference(record, found):
                where = f"{kind} made at turn {half}, {name_turn(record, turn)}"
                return Violation(f"{where}: {wrong}", (start, *actions[:turn]))
    return None


def solve_tasks(env: Env, oracle: Callable[[Env], Expert]) -> list[tuple[Start, list[Any]]]:
    """The starts and actions of an expert's episodes of the first tasks.

    Raises:
        Violation: a task is not solved.
    """
    solved = []
    for task in range(min(TASKS, len(panel_of(env).task_ids))):
        start = Start(SEED, task)
        records = list(Watch(env, start).play(lambda: follow_expert(env, oracle(env))))
        info, actions = records[-1].info, [record.action for record in records[1:]]
        if not info["success"]:
            wrong = f"the oracle did not solve {info['task_id']!r} in {info['turn']} turns"
            raise Violation(wrong, (start, *actions))
        solved.append((start, actions))
    return solved


def follow_expert(env: Env, expert: Expert) -> Actor:
    """The actor that takes an expert's actions."""
    return lambda *_: write_input(env, expert.act())


def try_docstring(env_class: type) -> None:
    """The class docstring must have all headings."""
    found = read_headings(env_class)
    missing = [heading for heading in HEADINGS if not found.get(heading)]
    require(
        not missing,
        f"the docstring of {env_class.__name__} lacks the headings {', '.join(missing)}, or has "
        "nothing under them",
    )


def try_panel(env: Env) -> None:
    """The panel must be one and name its origin; there must be a turn limit."""
    panel = panel_of(env)
    require(isinstance(panel, Panel), f"env.unwrapped.panel must be a Panel, got {panel!r:.80}")
    require(panel.source != "", "panel.source must name the origin of the tasks, got ''")
    turns = getattr(env.unwrapped, "max_turns", None)
    require(
        type(turns) is int and turns > 0, f"env.max_turns must be an int above 0, got {turns!r}"
    )


def try_gymnasium(env: Env) -> None:
    """Gymnasium's own check must pass."""
    try:
        check_env(env, skip_render_check=env.spec is None)
    except ContractError:
        raise
    except (AssertionError, UserWarning) as problem:
        if limit_of(env) == 1 and "truncates after 1 step" in str(problem):
            return  # correct for one turn; spaces and reset are already checked at that point
        raise ContractError(f"gymnasium's check_env reports: {problem}") from problem


def try_options(env: Env, steps: Sequence[Any]) -> None:
    """The options of `reset` must start the named task; other options are refused."""
    tasks = panel_of(env).task_ids
    for options in ({"task": len(tasks) - 1}, {"task_id": tasks[-1]}):
        task_id = env.reset(options=options)[1]["task_id"]
        require(
            task_id == tasks[-1],
            f"reset(options={options}) must start {tasks[-1]!r}, got {task_id!r}",
        )
    start, *actions = steps
    expected = Watch(env, start).replay(actions)
    task = Start(start.seed, tasks.index(expected[0].info["task_id"]))
    again = Watch(env, task).replay(actions)
    hold(compare_plays(f"{start} again with its task named", expected, again, steps))
    last: dict[str, Any] = {"task": 0, "task_id": tasks[0]}
    wrong = ({"tusk": 0}, {"task": len(tasks)}, {"task": -1}, {"task_id": "no such task"}, last)
    for refused in wrong:
        try:
            env.reset(options=dict(refused))
        except ValueError:
            continue
        raise ContractError(f"reset(options={refused}) must raise ValueError, it was accepted")


def try_seeds(env: Env) -> None:
    """Seeds draw tasks, and a reset without a seed continues the random stream."""
    tasks = len(panel_of(env).task_ids)
    drawn = {env.reset(seed=seed)[1]["task_id"] for seed in range(20)}
    require(len(drawn) > 1 or tasks == 1, f"20 seeds draw the same task, {drawn}, of {tasks}")
    runs: list[list[Record]] = []
    for _ in range(2):
        env.reset(seed=SEED)
        openings = (env.reset() for _ in range(RESETS))
        runs.append([Record(None, shown, 0.0, False, False, info) for shown, info in openings])
    for number, (one, other) in enumerate(zip(*runs, strict=True), 1):
        wrong = find_difference(one, other)
        require(
            not wrong, f"reset(seed={SEED}), then reset() {number} times: {wrong} the second time"
        )
    later = {record.info["task_id"] for record in runs[0]}
    require(
        len(later) > 1 or tasks == 1,
        f"reset() without a seed repeats the same task, {later}, of {tasks}: it must draw a new "
        f"task\n  shown by reset(seed={SEED}), then reset() ({RESETS} times)",
    )


def try_order(env: Env, steps: Sequence[Any]) -> None:
    """`step` must be refused before a reset and after the end."""
    if env.spec is not None:
        _require_reset(env.spec.make(), "before the first reset", ())
    *_, (_, last) = play_steps(env, steps)
    _require_reset(env, f"after the end at turn {last.info['turn']}", steps)


def _require_reset(env: Env, when: str, steps: Sequence[Any]) -> None:
    try:
        env.step(env.action_space.sample())
    except ResetNeeded:
        return
    raise Violation(f"step() {when} must raise gymnasium.error.ResetNeeded, it was accepted", steps)


def try_odd_actions(env: Env) -> None:
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
        record = Watch(env, Start(SEED)).replay([no_action])[-1]
        if (reason := record.info["invalid_reason"]) != "format":
            wrong = f"{name_turn(record, 1)}: must be 'format', got {reason!r}"
            raise Violation(wrong, (Start(SEED), no_action))
    words = [write_input(env, word) for word in NONSENSE]
    for odd in ("", "\x00\x1b[2J look\r\n\t", "ÿ漢字🎉", *words):
        Watch(env, Start(SEED)).replay([odd])
