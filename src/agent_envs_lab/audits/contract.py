"""check_contract: the environment contract, checked by many comparisons of episodes.

The rules for every turn are in the kit and in `watch`, the comparisons in `comparisons`. Violations
are shortened to few steps.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from agent_envs.contract import ContractError
from agent_envs.experts import experts_of
from agent_envs.testing.contract import (
    SEED,
    TASKS,
    choose_listed,
    follow_expert,
    require,
    try_docstring,
    try_gymnasium,
    try_odd_actions,
    try_options,
    try_order,
    try_panel,
    try_seeds,
)
from agent_envs.testing.episodes import (
    NONSENSE,
    Record,
    Start,
    Violation,
    has_exception,
    limit_of,
    list_inputs,
    panel_of,
    show_steps,
    spec_of,
    wander,
    write_input,
)
from agent_envs_lab.audits import comparisons
from agent_envs_lab.audits.anchors import audit_anchors
from agent_envs_lab.audits.episodes import COPIED, Extra, Other, draw_starts
from agent_envs_lab.audits.evidence import explain_in_time
from agent_envs_lab.audits.violations import (
    Shown,
    explain,
    hold,
    make_fresh,
    read_generators,
    repeats,
    shorten,
)
from agent_envs_lab.audits.watch import DeepWatch, Possible

if TYPE_CHECKING:
    from agent_envs.experts import Expert
    from agent_envs.testing.episodes import Actions, Actor, Env
    from agent_envs_lab.audits.violations import Fresh

EPISODES = 2, 20
"""Fewest and most episodes of each task in the small audit of anchors."""
WIDE = 10
"""Tasks in which untried listed actions are tried."""
SEEDS = 3
"""Number of seeds from which the small audit plays each task."""
PROBES = 40
"""Most listed actions that are tried in a state; in late states, the total number."""
SLOW = 100
"""Turns of the small audit for each task whose late states are checked."""
CUTS = 5
"""Resets in the middle of episodes, after 0 to so many turns less one."""
Way = tuple[Start, list[Any]]
"""The steps of an episode that reaches late states."""
PLACES = 4
"""Turns of a way at which copies are made and nonsense is tried."""


def check_contract(
    env: Env,
    *,
    oracle: Callable[[Env], Expert] | None = None,
    copies: bool = True,
    processes: bool = True,
    turns: int = 300,
    actions: Actions = wander,
) -> None:
    """Check the whole contract on `env`, wrapped or not, made by `gym.make` or by hand.

    It checks the docstring headings, the panel and its hash, Gymnasium's own `check_env`, reset
    options, the order of calls, every rule of `rules.RULES` at every turn, ends, determinism, odd
    actions, nonsense and listed actions in early and late states, effects of invalid turns, the
    anchors by a small audit from several seeds, the time of day, the turn limit, interference by
    callers and other instances, and rebuilding from the spec.

    Args:
        env: the environment.
        oracle: makes the expert of an episode, as the class `Oracle` of an environment does. It
            must solve the first tasks; its episodes provide the late states. By default the
            environment's own `Oracle`, or else its `Explorer`, if it can play these tasks and
            solves them. Without an expert the late states are those in which the audit of the
            anchors came furthest.
        copies: whether to check that deep copies and pickles continue exactly like the original,
            and that concurrent instances do not affect each other.
        processes: whether to play once more in a process with another hash seed, which needs a
            spec with its entry point as a string.
        turns: most turns per task in the small audit; use fewer for slow environments.
        actions: makes the actor of an episode that does not follow the oracle, for text
            environments without lists of actions.

    Raises:
        ContractError: the first violation, with the shortest steps found that show it.
    """
    if os.environ.get(comparisons.CHILD):  # a module checks itself, and is imported there
        return
    make = make_fresh(env)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            _try_everything(
                env, make, oracle, actions, copies=copies, processes=processes, turns=turns
            )
        except Violation as found:
            raise explain_in_time(partial(explain, make, found), found) from None
        except Exception as error:
            explain_in_time(partial(_shorten, make, error), None)
            raise


def _shorten(make: Fresh, error: Exception) -> None:
    """Add a note with fewer steps to an error that the environment raised.

    Raises:
        ContractError: the error is a ContractError of the base class; with its steps.
    """
    steps = vars(error).get("steps")
    if not steps or isinstance(error, TimeoutError):
        return

    def again(env: Env, fewer: Sequence[Any]) -> Violation | None:
        try:
            comparisons.record_steps(env, fewer)
        except type(error) as same:
            return Violation(str(same), vars(same)["steps"])
        return None

    found = shorten(make, Shown(str(error), steps, again))
    if isinstance(error, ContractError):
        raise found from None
    error.__notes__[:] = [show_steps(found.steps)]


def _try_everything(
    env: Env,
    make: Fresh,
    oracle: Callable[[Env], Expert] | None,
    actions: Actions,
    *,
    copies: bool,
    processes: bool,
    turns: int,
) -> None:
    try_panel(env)
    listing = panel_of(env).hash
    first = _play(env, SEED, actions)
    _try_repeats(env, first, actions)
    try_options(env, (Start(SEED), *first))
    try_seeds(env)
    try_order(env, (Start(SEED), *first))
    try_odd_actions(env)
    solved = find_solutions(env) if oracle is None else solve_tasks(env, oracle)
    guided = partial(_follow_partly, solved, actions)
    late = min(TASKS, max(1, turns // SLOW))
    _try_again(env, guided, late)
    _try_invalid_turns(env, guided)
    furthest = _audit_anchors(env, guided, turns)
    ways = (list(solved.values())[-TASKS:] or furthest)[:late]
    _try_late(env, ways)
    _try_wide(env, ways, actions, turns)
    opening = (Start(SEED), *first)
    hold(env, comparisons.compare_unspoilt, opening)
    spec = spec_of(env)
    if spec is not None:
        hold(env, comparisons.compare_rebuilt, opening)
    if copies:
        _try_copies(env, [(Start(SEED), first[:PLACES]), *ways])
        _try_side_by_side(env, first, actions)
    try_gymnasium(env.unwrapped)
    try_docstring(type(env.unwrapped))
    for start, done in [(Start(SEED), first), *ways[:1]]:
        hold(env, comparisons.compare_times, (start, *done))
    _try_limit(env, first)
    require(panel_of(env).hash == listing, "the panel changed during the episodes")
    if processes and spec is not None and isinstance(spec.entry_point, str):
        _try_elsewhere(env, make, [(Start(SEED), first), *ways])


def _play(env: Env, seed: int, actions: Actions) -> list[Any]:
    """The actions of an episode as `testing.play` chooses them."""
    records = DeepWatch(env, Start(seed)).play(lambda: choose_listed(env, seed, actions))
    return [record.action for record in records][1:]


def _try_repeats(env: Env, actions: Sequence[Any], others: Actions) -> None:
    """The same seed gives the same episode, also after another episode in between."""
    between = _play(env, SEED + 1, others)
    same = (Start(SEED), *actions)
    cuts = [one for cut in range(CUTS) for one in same[: cut + 1]]
    _hold_repeating(env, (*same, Start(SEED + 1), *between, *cuts, *same))


def _hold_repeating(env: Env, steps: Sequence[Any]) -> None:
    before = read_generators()
    hold(env, repeats, steps)
    if read_generators() != before:
        hold(env, comparisons.compare_generators, steps)


def _try_again(env: Env, actions: Actions, tasks: int) -> None:
    """Repeats episodes with late states, each after the others."""
    done = []
    for place, start in enumerate(draw_starts(env, tasks, SEED)):
        actor = partial(actions, env, np.random.default_rng([SEED, place, 1]))
        played = [record.action for record in DeepWatch(env, start).play(actor)][1:]
        done.append((start, *played))
    _hold_repeating(env, [*chain(*done), *chain(*done[::-1])])


def _try_late(env: Env, ways: Sequence[Way]) -> None:
    """Tries listed actions after a reset and in late states, and nonsense in late states.

    The rules check that the former are valid and the latter are not.
    """
    rng, way = np.random.default_rng(SEED), list[Any]()
    for _ in range(3):
        choices = list_inputs(env, DeepWatch(env, Start(SEED)).replay(way)[-1].info)
        for action in choices[:: -(-len(choices) // PROBES)] if choices else ():
            DeepWatch(env, Start(SEED)).replay([*way, action])
        if not choices:
            break
        way.append(choices[len(choices) // 2])
    text = isinstance(env.action_space, gym.spaces.Text)
    late = [(start, actions, place) for start, actions in ways for place in _places(actions)]
    for number, (start, actions, place) in enumerate(late):
        before = DeepWatch(env, start).replay(actions[:place])[-1]
        choices = [] if before.ended else list_inputs(env, before.info)
        tries = rng.permutation(len(choices))[: PROBES // len(late)]
        words = [write_input(env, NONSENSE[number % len(NONSENSE)])] if text else []
        for action in [*words, *(choices[int(one)] for one in tries)]:
            DeepWatch(env, start).replay([*actions[:place], action])


def _try_wide(env: Env, ways: Sequence[Way], actions: Actions, turns: int) -> None:
    """Plays more tasks and seeds, with actions that are untried at an anchor of their task.

    Some episodes first follow a part of a way.
    """
    rng, played = np.random.default_rng(SEED), 0
    possible: Possible = {}
    tried: dict[tuple[str, str], set[Any]] = {}
    begun: list[Way] = [*((start, []) for start in draw_starts(env, WIDE, SEED + 1)), *ways]
    for number in range(4 * WIDE):
        again, place = divmod(number, len(begun))
        start, way = begun[place]
        start = start._replace(seed=start.seed + (0 if way else again * WIDE))
        led = way[: int(rng.integers(len(way) + 1))]
        actor = partial(_explore, env, tried, actions, led, rng)
        played += len(list(DeepWatch(env, start, possible).play(actor))) - 1
        if played >= turns:
            return


def _explore(
    env: Env,
    tried: dict[tuple[str, str], set[Any]],
    actions: Actions,
    led: Sequence[Any],
    rng: np.random.Generator,
) -> Actor:
    """An actor that takes the actions of `led`, then listed actions untried at the anchor."""
    rest, wandering = [*led], actions(env, rng)

    def act(shown: Any, info: dict[str, Any]) -> Any:
        if rest:
            return rest.pop(0)
        done = tried.setdefault((info["task_id"], info["anchor"]), set())
        new = [action for action in list_inputs(env, info) if action not in done]
        if not new:
            return wandering(shown, info)
        action = new[int(rng.integers(len(new)))]
        done.add(action)
        return action

    return act


def _places(actions: Sequence[Any]) -> list[int]:
    """Evenly spaced turns of an episode before its last one, including the latest."""
    last = max(len(actions) - 1, 0)
    return sorted({last - (last * n) // PLACES for n in range(PLACES)})


def _follow_partly(
    solved: Mapping[str, Way], actions: Actions, env: Env, rng: np.random.Generator
) -> Actor:
    """An actor that wanders, in some episodes after following a solution to later states."""
    wandering, share = actions(env, rng), float(rng.choice((0.0, 0.6, 0.9)))
    rest: list[Any] = []

    def act(shown: Any, info: dict[str, Any]) -> Any:
        if not info["turn"]:
            rest[:] = solved[info["task_id"]][1] if info["task_id"] in solved else ()
        return rest.pop(0) if rest and rng.random() < share else wandering(shown, info)

    return act


def _try_invalid_turns(env: Env, actions: Actions) -> None:
    """An episode must continue after an invalid turn as without it."""
    if has_exception(env, "Validity"):
        return
    for start in draw_starts(env, TASKS, SEED):
        actor = partial(actions, env, np.random.default_rng(SEED))
        turns = list(DeepWatch(env, start).play(actor))[1:]
        valid = [turn.action for turn in turns if turn.info["valid"]]
        invalid = [turn.action for turn in turns if not turn.info["valid"]]
        for place, action in enumerate(invalid[:4] if valid else ()):
            before = min(place, len(valid) - 1)
            steps = (start, *valid[:before], Extra(action), *valid[before:])
            hold(env, comparisons.compare_undisturbed, steps)


def _audit_anchors(env: Env, actions: Actions, turns: int) -> list[Way]:
    """A small audit of the anchors, with each turn checked by the rules.

    Returns for each task the episode with the most progress, up to that turn.
    """
    possible: Possible = {}
    furthest: dict[int | None, tuple[float, Way]] = {}

    def watch(start: Start) -> Callable[[Record], None]:
        rules, done = DeepWatch(env, start, possible), list[Any]()

        def see(record: Record) -> None:
            rules(record)
            done.extend([record.action] * bool(record.info["turn"]))
            reached = record.info["progress"]
            if start.task not in furthest or reached > furthest[start.task][0]:
                furthest[start.task] = reached, (start, [*done])

        return see

    least, most = EPISODES
    found = audit_anchors(
        env,
        actions=actions,
        watch=watch,
        tasks=TASKS,
        episodes=min(max(turns // limit_of(env), least), most),
        seeds=SEEDS,
        seed=SEED,
    )
    require(not found.unrepeatable, found.unrepeated)
    if found.witness is not None:
        raise ContractError(
            "the anchor is not the key of the decision state: the same anchor and action have "
            f"different outcomes\n{found.witness}"
        )
    return [way for _, way in furthest.values()]


def _try_side_by_side(env: Env, actions: Sequence[Any], others: Actions) -> None:
    """Two instances that play in turns must not affect each other."""
    between = _play(env, SEED + 1, others)
    steps: list[Any] = [Start(SEED), Other(Start(SEED + 1))]
    for place in range(max(len(actions), len(between))):
        steps += [Other(action) for action in between[place : place + 1]]
        steps += actions[place : place + 1]
    hold(env, comparisons.compare_beside, steps)


def _try_copies(env: Env, ways: Sequence[Way]) -> None:
    """Copies made at the reset and at several turns must continue like the original."""
    for start, actions in ways:
        for place in sorted({0, *_places(actions)}):
            hold(
                env, comparisons.compare_copies, (start, *actions[:place], COPIED, *actions[place:])
            )


def _try_limit(env: Env, actions: Sequence[Any]) -> None:
    """The turn limit must be `truncated`, for a passive player and for one that wanders."""
    nothing = write_input(env, NONSENSE[0])
    if not isinstance(env.action_space, gym.spaces.Text):
        nothing = env.action_space.sample()
    for done in (actions, [nothing] * limit_of(env)):
        hold(env, comparisons.compare_limits, (Start(SEED), *done))


def _try_elsewhere(env: Env, make: Fresh, ways: Sequence[Way]) -> None:
    with comparisons.OtherProcess(env) as elsewhere:
        require(
            elsewhere.panel_hash == panel_of(env).hash,
            "the panel differs in a process with another hash seed",
        )
        for start, actions in ways:
            try:
                hold(env, elsewhere.compare, (start, *actions))
            except Violation as found:  # explained while the process is still running
                told = explain(make, found)
                raise Violation(told.wrong, told.steps) from None


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
