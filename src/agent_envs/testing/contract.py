"""check_agent_env: checks the environment contract from outside, in two lines of a test.

The rules for every turn are in `rules`; the checks here need several episodes.
"""

from __future__ import annotations

import warnings
from functools import partial
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agent_envs.contract import ContractError
from agent_envs.experts import experts_of
from agent_envs.panels import Panel
from agent_envs.testing import comparisons
from agent_envs.testing.anchors import audit_anchors
from agent_envs.testing.episodes import (
    COPIED,
    NONSENSE,
    Extra,
    Other,
    Record,
    Start,
    dressed,
    episode,
    limit_of,
    listed,
    panel_of,
    shown_by,
    starts,
    wander,
)
from agent_envs.testing.rules import HEADINGS, Possible, Watch, at, headings, replayed, says
from agent_envs.testing.violations import (
    Violation,
    difference,
    explained,
    fresh,
    generators,
    repeats,
    shortest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agent_envs.experts import Expert
    from agent_envs.testing.episodes import Actions, Actor, Env
    from agent_envs.testing.violations import Fresh, Shows

SEED = 7
SURPRISES = 0.2  # share of actions sampled from the space although a list is given
TASKS, EPISODES = 3, (2, 20)
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
PLACES = 4
"""Turns of a way at which copies are made and nonsense is tried."""
RESETS = 20
"""Resets without a seed of which at least one must start another task."""
Way = tuple[Start, list[Any]]
"""The steps of an episode that reaches late states."""


def check_agent_env(
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
        RuntimeError: it is called in a process that it started, while the module of `env` is
            imported there.
    """
    comparisons.refuse_nested()
    make = fresh(env)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            _check(env, make, oracle, actions, copies=copies, processes=processes, turns=turns)
        except Violation as found:
            raise explained(make, found) from None
        except Exception as error:
            _shorten(make, error)
            raise


def _shorten(make: Fresh, error: Exception) -> None:
    """Add a note with fewer steps to an error that the environment raised.

    Raises:
        ContractError: the error is a ContractError of the base class; with its steps.
    """
    steps = vars(error).get("steps")
    if not steps:
        return

    def again(env: Env, fewer: Sequence[Any]) -> Violation | None:
        try:
            comparisons.records(env, fewer)
        except type(error) as same:
            return Violation(str(same), vars(same)["steps"])
        return None

    found = shortest(make, Violation(str(error), steps, again))
    if isinstance(error, ContractError):
        raise found from None
    error.__notes__[:] = [shown_by(found.steps)]


def _check(
    env: Env,
    make: Fresh,
    oracle: Callable[[Env], Expert] | None,
    actions: Actions,
    *,
    copies: bool,
    processes: bool,
    turns: int,
) -> None:
    _check_panel(env)
    listing = _panel(env).hash
    first = [record.action for record in play(env, SEED, actions=actions)][1:]
    _check_repeats(env, first, actions)
    _check_options(env, first)
    _check_seeds(env)
    _check_order(env, first)
    _check_odd_actions(env)
    solutions = _own_solutions(env) if oracle is None else _solutions(env, oracle)
    guided = partial(_guided, solutions, actions)
    late = min(TASKS, max(1, turns // SLOW))
    _check_again(env, guided, late)
    _check_invalid_turns(env, guided)
    furthest = _check_anchors(env, guided, turns)
    ways = (list(solutions.values())[-TASKS:] or furthest)[:late]
    _check_late(env, ways)
    _check_wide(env, ways, actions, turns)
    opening = (Start(SEED), *first)
    _hold(env, comparisons.unspoilt, opening)
    if env.spec is not None:
        _hold(env, comparisons.rebuilt, opening)
    if copies:
        _check_copies(env, [(Start(SEED), first[:PLACES]), *ways])
        _check_side_by_side(env, first, actions)
    _check_gymnasium(env.unwrapped)
    _check_docstring(type(env.unwrapped))
    for start, done in [(Start(SEED), first), *ways[:1]]:
        _hold(env, comparisons.at_another_time, (start, *done))
    _check_limit(env, first)
    _require(_panel(env).hash == listing, "the panel changed during the episodes")
    if processes and env.spec is not None and isinstance(env.spec.entry_point, str):
        _check_elsewhere(env, make, [(Start(SEED), first), *ways])


def play(
    env: Env, seed: int, *, task: int | None = None, actions: Actions = wander
) -> Iterator[Record]:
    """Plays an episode to its end with mostly admissible actions, and checks each turn.

    Without lists of actions, it uses samples of the space, or an actor of `actions`.

    Raises:
        ContractError: a turn violates the contract.
    """
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    unlisted = None if actions is wander else actions(env, np.random.default_rng(seed))

    def act(shown: Any, info: dict[str, Any]) -> Any:
        choices = listed(env, info)
        sampled = not choices or rng.random() < SURPRISES
        if sampled and unlisted is not None:
            return unlisted(shown, info)
        return env.action_space.sample() if sampled else choices[rng.integers(len(choices))]

    return _watched(env, Start(seed, task), lambda: act)


def digest(env: Env, seed: int) -> str:
    """Hex SHA-256 of the panel's hash and of all turns of an episode."""
    return sha256(repr((_panel(env).hash, list(play(env, seed)))).encode()).hexdigest()


def _hold(env: Env, shows: Shows, steps: Sequence[Any]) -> None:
    """Raise the violation that the steps show, if any."""
    found = shows(env, steps)
    if found is not None:
        found.again = shows
        raise found


def _watched(
    env: Env, start: Start, make_actor: Callable[[], Actor], watch: Watch | None = None
) -> Iterator[Record]:
    """Plays an episode with a new actor, each turn checked by the rules."""
    watch = watch or Watch(env, start)
    for record in episode(env, start, make_actor):
        watch(record)
        yield record


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)


def _panel(env: Env) -> Panel:
    return cast("Panel", panel_of(env))


def _check_docstring(env_class: type) -> None:
    found = headings(env_class)
    missing = [heading for heading in HEADINGS if not found.get(heading)]
    _require(
        not missing,
        f"the docstring of {env_class.__name__} lacks the headings {', '.join(missing)}, or has "
        "nothing under them",
    )


def _check_panel(env: Env) -> None:
    panel = panel_of(env)
    for name in ("split", "task_ids", "hash", "source"):
        _require(hasattr(panel, name), f"env.unwrapped.panel must have {name!r}, got {panel!r:.80}")
    panel = cast("Panel", panel)
    _require(
        type(panel.task_ids) is tuple and all(type(task) is str for task in panel.task_ids),
        f"panel.task_ids must be a tuple of str, got {panel.task_ids!r:.80}",
    )
    _require(
        type(panel.source) is str and panel.source != "",
        f"panel.source must name the origin of the tasks, got {panel.source!r}",
    )
    try:
        expected = Panel(panel.split, panel.task_ids).hash
    except ValueError as error:
        raise ContractError(f"env.unwrapped.panel is not a valid panel: {error}") from error
    _require(panel.hash == expected, f"panel.hash must be {expected}, got {panel.hash!r}")
    turns = getattr(env.unwrapped, "max_turns", None)
    _require(
        type(turns) is int and turns > 0, f"env.max_turns must be an int above 0, got {turns!r}"
    )


def _check_gymnasium(env: Env) -> None:
    try:
        check_env(env, skip_render_check=env.spec is None)
    except ContractError:
        raise
    except (AssertionError, UserWarning) as problem:
        if limit_of(env) == 1 and "truncates after 1 step" in str(problem):
            return  # correct for one turn; spaces and reset are already checked at that point
        raise ContractError(f"gymnasium's check_env reports: {problem}") from problem


def _check_options(env: Env, actions: Sequence[Any]) -> None:
    tasks = _panel(env).task_ids
    last: list[dict[str, Any]] = [{"task": len(tasks) - 1}, {"task_id": tasks[-1]}]
    for options in last:
        task_id = env.reset(options=options)[1]["task_id"]
        _require(
            task_id == tasks[-1],
            f"reset(options={options}) must start {tasks[-1]!r}, got {task_id!r}",
        )
    _hold(env, comparisons.named, (Start(SEED), *actions))
    one_too_far, none, both = len(tasks), "no such task", {"task": 0, "task_id": tasks[0]}
    for wrong in ({"tusk": 0}, {"task": one_too_far}, {"task": -1}, {"task_id": none}, both):
        _check_refused(env, cast("dict[str, Any]", wrong))


def _check_refused(env: Env, options: dict[str, Any]) -> None:
    try:
        env.reset(options=options)
    except ValueError:
        return
    raise ContractError(f"reset(options={options}) must raise ValueError, it was accepted")


def _check_seeds(env: Env) -> None:
    """Seeds draw tasks, and a reset without a seed continues the random stream."""
    drawn = [env.reset(seed=seed)[1]["task_id"] for seed in range(20)]
    several = len(_panel(env).task_ids) > 1
    _require(
        len(set(drawn)) > 1 or not several,
        f"20 seeds draw the same task, {drawn[0]!r}, of {len(_panel(env).task_ids)}",
    )
    following = []
    for _ in range(2):
        env.reset(seed=SEED)
        openings = [env.reset() for _ in range(3)]
        following.append([Record(None, shown, 0.0, False, False, info) for shown, info in openings])
    for number, (one, other) in enumerate(zip(*following, strict=True), 1):
        wrong = difference(one, other)
        shown = f"reset(seed={SEED}), then {'reset(), ' * number}".rstrip(", ")
        _require(not wrong, f"{shown}: {wrong} the second time")
    tasks = {record.info["task_id"] for record in following[0]}
    for _ in range(RESETS):
        if len(tasks) > 1 or not several:
            return
        tasks.add(env.reset()[1]["task_id"])
    raise ContractError(
        f"reset() without a seed repeats the same task, {tasks.pop()!r}, of "
        f"{len(_panel(env).task_ids)}: it must draw a new task\n"
        f"  shown by reset(seed={SEED}), then reset() ({RESETS + 3} times)"
    )


def _check_order(env: Env, actions: Sequence[Any]) -> None:
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


def _check_repeats(env: Env, actions: Sequence[Any], others: Actions) -> None:
    """The same seed gives the same episode, also after another episode in between."""
    between = [record.action for record in play(env, SEED + 1, actions=others)][1:]
    same = (Start(SEED), *actions)
    cuts = [one for cut in range(CUTS) for one in same[: cut + 1]]
    _hold_repeating(env, (*same, Start(SEED + 1), *between, *cuts, *same))


def _hold_repeating(env: Env, steps: Sequence[Any]) -> None:
    before = generators()
    _hold(env, repeats, steps)
    if generators() != before:
        _hold(env, comparisons.undrawn, steps)


def _check_again(env: Env, actions: Actions, tasks: int) -> None:
    """Repeats episodes with late states, each after the others."""
    done = []
    for place, start in enumerate(starts(env, tasks, SEED)):
        actor = partial(actions, env, np.random.default_rng([SEED, place, 1]))
        played = [record.action for record in _watched(env, start, actor)][1:]
        done.append((start, *played))
    _hold_repeating(env, [*chain(*done), *chain(*done[::-1])])


def _check_odd_actions(env: Env) -> None:
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


def _check_late(env: Env, ways: Sequence[Way]) -> None:
    """Tries listed actions after a reset and in late states, and nonsense in late states.

    The rules check that the former are valid and the latter are not.
    """
    rng, way = np.random.default_rng(SEED), list[Any]()
    for _ in range(3):
        choices = listed(env, replayed(env, Start(SEED), way)[-1].info)
        for action in choices[:: -(-len(choices) // PROBES)] if choices else ():
            replayed(env, Start(SEED), [*way, action])
        if not choices:
            break
        way.append(choices[len(choices) // 2])
    text = isinstance(env.action_space, gym.spaces.Text)
    late = [(start, actions, place) for start, actions in ways for place in _places(actions)]
    for number, (start, actions, place) in enumerate(late):
        before = replayed(env, start, actions[:place])[-1]
        choices = [] if before.ended else listed(env, before.info)
        tries = rng.permutation(len(choices))[: PROBES // len(late)]
        words = [dressed(env, NONSENSE[number % len(NONSENSE)])] if text else []
        for action in [*words, *(choices[int(one)] for one in tries)]:
            replayed(env, start, [*actions[:place], action])


def _check_wide(env: Env, ways: Sequence[Way], actions: Actions, turns: int) -> None:
    """Plays more tasks and seeds, with actions that are untried at an anchor of their task.

    Some episodes first follow a part of a way.
    """
    rng, played = np.random.default_rng(SEED), 0
    possible: Possible = {}
    tried: dict[tuple[str, str], set[Any]] = {}
    begun: list[Way] = [*((start, []) for start in starts(env, WIDE, SEED + 1)), *ways]
    for number in range(4 * WIDE):
        again, place = divmod(number, len(begun))
        start, way = begun[place]
        start = start._replace(seed=start.seed + (0 if way else again * WIDE))
        led = way[: int(rng.integers(len(way) + 1))]
        actor = partial(_untried, env, tried, actions, led, rng)
        played += len(list(_watched(env, start, actor, Watch(env, start, possible)))) - 1
        if played >= turns:
            return


def _untried(
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
        new = [action for action in listed(env, info) if action not in done]
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


def _guided(
    solutions: Mapping[str, Way], actions: Actions, env: Env, rng: np.random.Generator
) -> Actor:
    """An actor that wanders, in some episodes after following a solution to later states."""
    wandering, share = actions(env, rng), float(rng.choice((0.0, 0.6, 0.9)))
    rest: list[Any] = []

    def act(shown: Any, info: dict[str, Any]) -> Any:
        if not info["turn"]:
            rest[:] = solutions[info["task_id"]][1] if info["task_id"] in solutions else ()
        return rest.pop(0) if rest and rng.random() < share else wandering(shown, info)

    return act


def _check_invalid_turns(env: Env, actions: Actions) -> None:
    """An episode must continue after an invalid turn as without it."""
    if says(env, "Validity"):
        return
    for start in starts(env, TASKS, SEED):
        actor = partial(actions, env, np.random.default_rng(SEED))
        turns = list(_watched(env, start, actor))[1:]
        valid = [turn.action for turn in turns if turn.info["valid"]]
        invalid = [turn.action for turn in turns if not turn.info["valid"]]
        for place, action in enumerate(invalid[:4] if valid else ()):
            before = min(place, len(valid) - 1)
            steps = (start, *valid[:before], Extra(action), *valid[before:])
            _hold(env, comparisons.undisturbed, steps)


def _check_anchors(env: Env, actions: Actions, turns: int) -> list[Way]:
    """A small audit of the anchors, with each turn checked by the rules.

    Returns for each task the episode with the most progress, up to that turn.
    """
    possible: Possible = {}
    furthest: dict[int | None, tuple[float, Way]] = {}

    def watch(start: Start) -> Callable[[Record], None]:
        rules, done = Watch(env, start, possible), list[Any]()

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
    _require(not found.unrepeatable, found.unrepeated)
    if found.witness is not None:
        raise ContractError(
            "the anchor is not the key of the decision state: the same anchor and action have "
            f"different outcomes\n{found.witness}"
        )
    return [way for _, way in furthest.values()]


def _check_side_by_side(env: Env, actions: Sequence[Any], others: Actions) -> None:
    """Two instances that play in turns must not affect each other."""
    between = [record.action for record in play(env, SEED + 1, actions=others)][1:]
    steps: list[Any] = [Start(SEED), Other(Start(SEED + 1))]
    for place in range(max(len(actions), len(between))):
        steps += [Other(action) for action in between[place : place + 1]]
        steps += actions[place : place + 1]
    _hold(env, comparisons.beside, steps)


def _check_copies(env: Env, ways: Sequence[Way]) -> None:
    """Copies made at the reset and at several turns must continue like the original."""
    for start, actions in ways:
        for place in sorted({0, *_places(actions)}):
            _hold(env, comparisons.copies, (start, *actions[:place], COPIED, *actions[place:]))


def _check_limit(env: Env, actions: Sequence[Any]) -> None:
    """The turn limit must be `truncated`, for a passive player and for one that wanders."""
    nothing = dressed(env, NONSENSE[0])
    if not isinstance(env.action_space, gym.spaces.Text):
        nothing = env.action_space.sample()
    for done in (actions, [nothing] * limit_of(env)):
        _hold(env, comparisons.limited, (Start(SEED), *done))


def _own_solutions(env: Env) -> dict[str, Way]:
    """`_solutions` of the environment's own `Oracle`, or else `Explorer`; {} if neither can."""
    for made in reversed(experts_of(type(env.unwrapped)).values()):
        if _can_play(env, made):
            played = list(_led(env, made))
            if all(info["success"] for start, info, _ in played if start in _first(env)):
                return {info["task_id"]: (start, actions) for start, info, actions in played}
    return {}


def _can_play(env: Env, made: Callable[[Env], Expert]) -> bool:
    """Whether an expert can play the environment with its options."""
    (start, *_) = _first(env)
    env.reset(seed=start.seed, options=start.options)
    try:
        made(env)
    except ValueError:
        return False
    return True


def _solutions(env: Env, oracle: Callable[[Env], Expert]) -> dict[str, Way]:
    """Solve the first tasks and those of the small audit; the actions of each, by task id.

    Raises:
        Violation: one of the first tasks is not solved.
    """
    solutions = {}
    for start, info, actions in _led(env, oracle):
        if not info["success"] and start in _first(env):
            raise Violation(
                f"the oracle did not solve {info['task_id']!r} in {info['turn']} turns",
                (start, *actions),
            )
        solutions[info["task_id"]] = start, actions
    return solutions


def _led(
    env: Env, oracle: Callable[[Env], Expert]
) -> Iterator[tuple[Start, dict[str, Any], list[Any]]]:
    """An expert's episodes of the first tasks and the small audit: start, last info, actions."""
    for start in [*_first(env), *starts(env, TASKS, SEED)]:
        records = list(_watched(env, start, lambda: _follower(env, oracle(env))))
        yield start, records[-1].info, [record.action for record in records[1:]]


def _first(env: Env) -> list[Start]:
    return [Start(SEED, task) for task in range(min(TASKS, len(_panel(env).task_ids)))]


def _follower(env: Env, expert: Expert) -> Actor:
    """The actor that takes an expert's actions."""
    return lambda *_: dressed(env, expert.act())


def _check_elsewhere(env: Env, make: Fresh, ways: Sequence[Way]) -> None:
    with comparisons.OtherProcess(env) as elsewhere:
        _require(
            elsewhere.panel_hash == _panel(env).hash,
            "the panel differs in a process with another hash seed",
        )
        for start, actions in ways:
            try:
                _hold(env, elsewhere.shows, (start, *actions))
            except Violation as found:  # explained while the process is still running
                told = explained(make, found)
                raise Violation(told.wrong, told.steps) from None
