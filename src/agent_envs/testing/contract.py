"""check_agent_env: the environment contract checked from outside, two lines in anyone's tests.

What holds at every turn is in `rules`; here is what only several episodes show.
"""

from __future__ import annotations

import copy
import os
import pickle
import random
import string
import subprocess
import sys
import warnings
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agent_envs.contract import ContractError
from agent_envs.panels import Panel
from agent_envs.testing.anchors import audit_anchors
from agent_envs.testing.episodes import (
    Play,
    Record,
    Start,
    dressed,
    episode,
    limit_of,
    listed,
    panel_of,
    starts,
    wander,
)
from agent_envs.testing.rules import (
    HEADINGS,
    Violation,
    Watch,
    at,
    difference,
    headings,
    replayed,
    says,
    shortest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from agent_envs.testing.episodes import Actions, Actor, Env

SEED = 7
SURPRISES = 0.2  # share of actions sampled from the space although some are admissible
TASKS, EPISODES = 3, (2, 20)
"""Of the small audit of anchors; the fewest and the most episodes of each task."""
PROBES = 40
"""Listed actions that are tried from a reset, at most."""
CHILD = """
import pickle, sys
from agent_envs.testing import digest
spec, seed = pickle.load(sys.stdin.buffer)
print(digest(spec.make(), seed))
"""


def check_agent_env(
    env: Env,
    *,
    oracle: Callable[[Env], Any] | None = None,
    copies: bool = True,
    processes: bool = True,
    turns: int = 300,
) -> None:
    """Check the whole contract on `env`, wrapped or not, made by `gym.make` or by hand.

    Docstring headings, panel and its hash, Gymnasium's own `check_env` (silent), reset options,
    order of calls, every rule of `rules.RULES` at every turn, ends, determinism, odd actions and
    nonsense, every listed action, what invalid turns leave behind, a small audit of the anchors,
    whether callers and other instances can interfere, rebuilding from the spec, and:

    oracle: action for the environment as it is; it has to succeed on the first tasks.
    copies: whether deep copies and pickles must go on exactly like the original, and instances that
        play at the same time must not see each other.
    processes: whether to play once more in a process with another hash seed, which needs a spec
        with its entry point as a string.
    turns: how many turns of a task the small audit plays, at most; fewer for slow environments.

    Raises:
        ContractError: the first thing that is not as the contract requires, with the actions that
            show it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            _check(env, oracle=oracle, copies=copies, processes=processes, turns=turns)
        except Violation as found:
            raise shortest(env, found) from None


def _check(
    env: Env,
    *,
    oracle: Callable[[Env], Any] | None,
    copies: bool,
    processes: bool,
    turns: int,
) -> None:
    _check_panel(env)
    listing = _panel(env).hash
    _check_same_episode(env, "reset with the same seed", env)
    _check_gymnasium(env.unwrapped)
    _check_options(env)
    _check_seeds(env)
    _check_order(env)
    _check_odd_actions(env)
    _check_nonsense(env)
    _check_listed(env)
    solutions = {} if oracle is None else _check_oracle(env, oracle)
    actions = partial(_guided, solutions)
    _check_invalid_turns(env, actions)
    _check_anchors(env, actions, turns)
    _check_callers(env)
    if env.spec is not None:
        _check_same_episode(env, "made again from env.spec", env.spec.make())
    if copies:
        _check_copies(env)
        _check_side_by_side(env, copy.deepcopy(env) if env.spec is None else env.spec.make())
    _check_docstring(type(env.unwrapped))
    _require(_panel(env).hash == listing, "the panel changed while episodes were played")
    if processes and env.spec is not None and isinstance(env.spec.entry_point, str):
        _check_elsewhere(env)


def play(env: Env, seed: int, *, task: int | None = None) -> Iterator[Record]:
    """An episode to its end, most actions admissible, each turn checked as it comes.

    Raises:
        ContractError: a turn that is not as the contract requires.
    """
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)

    def act(_: Any, info: dict[str, Any]) -> Any:
        choices = listed(env, info)
        sampled = not choices or rng.random() < SURPRISES
        return env.action_space.sample() if sampled else choices[rng.integers(len(choices))]

    return _watched(env, Start(seed, task), lambda: act)


def digest(env: Env, seed: int) -> str:
    """Hex SHA-256 of the panel's hash and all that an episode shows."""
    return sha256(repr((_panel(env).hash, list(play(env, seed)))).encode()).hexdigest()


def _watched(
    env: Env, start: Start, make_actor: Callable[[], Actor], watch: Watch | None = None
) -> Iterator[Record]:
    """An episode by the actor that is made after its reset, each turn under the rules."""
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
        f"panel.source must say where the tasks come from, got {panel.source!r}",
    )
    try:
        expected = Panel(panel.split, panel.task_ids).hash
    except ValueError as error:
        raise ContractError(f"env.unwrapped.panel is no panel: {error}") from error
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
        raise ContractError(f"gymnasium's check_env is not silent: {problem}") from problem


def _check_options(env: Env) -> None:
    tasks = _panel(env).task_ids
    last: list[dict[str, Any]] = [{"task": len(tasks) - 1}, {"task_id": tasks[-1]}]
    for options in last:
        task_id = env.reset(options=options)[1]["task_id"]
        _require(
            task_id == tasks[-1],
            f"reset(options={options}) must start {tasks[-1]!r}, got {task_id!r}",
        )
    drawn = env.reset(seed=SEED)[1]["task_id"]
    named = list(play(env, SEED, task=tasks.index(drawn)))
    _check_equal(list(play(env, SEED)), named, f"reset(seed={SEED}) again with its task named")
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
    """Seeds draw tasks, and a reset without one goes on from the last seed."""
    drawn = [env.reset(seed=seed)[1]["task_id"] for seed in range(20)]
    _require(
        len(set(drawn)) > 1 or len(_panel(env).task_ids) == 1,
        f"20 seeds draw one task, {drawn[0]!r}, of {len(_panel(env).task_ids)}",
    )
    following = []
    for _ in range(2):
        env.reset(seed=SEED)
        openings = [env.reset() for _ in range(3)]
        following.append([Record(None, shown, 0.0, False, False, info) for shown, info in openings])
    for one, other in zip(*following, strict=True):
        wrong = difference(one, other)
        _require(not wrong, f"reset(seed={SEED}), then reset(): {wrong} the second time")


def _check_order(env: Env) -> None:
    if env.spec is not None:
        _check_reset_needed(env.spec.make(), "before the first reset")
    *_, last = play(env, SEED)
    _check_reset_needed(env, f"after the end at turn {last.info['turn']}")


def _check_reset_needed(env: Env, when: str) -> None:
    try:
        env.step(env.action_space.sample())
    except ResetNeeded:
        return
    raise ContractError(f"step() {when} must raise gymnasium.error.ResetNeeded, it was accepted")


def _check_same_episode(env: Env, how: str, again: Env) -> None:
    before = _global_generators()
    expected = list(play(env, SEED))
    _require(
        before == _global_generators(),
        "an episode drew from Python's or NumPy's global generator; use self.np_random",
    )
    list(play(env, SEED + 1))  # leaves nothing behind
    _check_equal(expected, list(play(again, SEED)), how)


def _global_generators() -> tuple[Any, bytes]:
    return random.getstate(), pickle.dumps(np.random.get_state())  # noqa: NPY002


def _check_equal(expected: Sequence[Record], found: Sequence[Record], how: str) -> None:
    for turn, (one, other) in enumerate(zip(expected, found, strict=False)):
        if wrong := difference(one, other):
            raise Violation(
                f"{how}: {wrong.replace(' differs:', f' differs in record {turn}:', 1)}",
                Start(SEED),
                [record.action for record in expected[1 : turn + 1]],
            )
    _require(len(expected) == len(found), f"{how}: {len(expected)} turns, then {len(found)}")


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
        _require(found == "format", f"{at(record, 1)}: must be 'format', got {found!r}")
    for odd in ("", "\x00\x1b[2J look\r\n\t", "ÿ漢字🎉"):
        replayed(env, Start(SEED), [odd])


def _check_nonsense(env: Env) -> None:
    """Where actions are listed, random letters are none."""
    if not isinstance(env.action_space, gym.spaces.Text):
        return
    rng = np.random.default_rng(SEED)
    for length in (1, 7, 30):
        word = "".join(rng.choice(list(string.ascii_lowercase), size=length).tolist())
        action = dressed(env, word)
        before, record = replayed(env, Start(SEED), [action])
        choices = listed(env, before.info)
        if choices and action not in choices and record.info["valid"]:
            raise Violation(
                f"{at(record, 1)}: nonsense is valid although info['admissible_actions'] lists "
                "what can be done",
                Start(SEED),
                [action],
            )


def _check_listed(env: Env) -> None:
    """Each listed action is valid, tried from a reset and from later in an episode."""
    way: list[Any] = []
    for _ in range(3):
        choices = listed(env, replayed(env, Start(SEED), way)[-1].info)
        for action in choices[:: -(-len(choices) // PROBES)] if choices else ():
            replayed(env, Start(SEED), [*way, action])
        if not choices:
            return
        way.append(choices[len(choices) // 2])


def _guided(solutions: Mapping[str, Sequence[Any]], env: Env, rng: np.random.Generator) -> Actor:
    """Wanders, in some episodes along a solution of the task, so that its later states are seen."""
    wandering, share = wander(env, rng), float(rng.choice((0.0, 0.6, 0.9)))
    rest: list[Any] = []

    def act(shown: Any, info: dict[str, Any]) -> Any:
        if not info["turn"]:
            rest[:] = solutions.get(info["task_id"], ())
        return rest.pop(0) if rest and rng.random() < share else wandering(shown, info)

    return act


def _check_invalid_turns(env: Env, actions: Actions) -> None:
    """An episode goes on after an invalid turn as it would have without it."""
    if says(env, "Validity"):
        return
    for start in starts(env, TASKS, SEED):
        actor = partial(actions, env, np.random.default_rng(SEED))
        records = list(_watched(env, start, actor))
        valid = [record.action for record in records[1:] if record.info["valid"]]
        invalid = [record.action for record in records[1:] if not record.info["valid"]]
        expected = replayed(env, start, valid)
        for place, action in enumerate(invalid[:4]):
            at_turn = min(place, len(expected) - 2)
            if at_turn < 0:
                continue
            found = replayed(env, start, [*valid[:at_turn], action, *valid[at_turn:]])
            if found[at_turn + 1].info["valid"]:
                continue  # here it is an action
            _compare_after(start, expected, found, at_turn)


def _compare_after(
    start: Start, expected: Sequence[Record], found: Sequence[Record], place: int
) -> None:
    """Compare what followed an invalid turn put in at a place with what followed without it."""
    for turn in range(place + 1, min(len(expected), len(found) - 1)):
        one, other = expected[turn], found[turn + 1]
        if one.truncated or other.truncated:  # the turn limit comes a turn earlier
            return
        if one.reward != other.reward:
            raise Violation(
                f"after the invalid turn {found[place + 1].action!r:.80} the action "
                f"{one.action!r:.80} pays {other.reward} instead of {one.reward}: an invalid turn "
                "must leave the state as it is",
                start,
                [record.action for record in found[1 : turn + 2]],
            )
        for key in ("valid", "invalid_reason", "progress", "anchor", "success"):
            if one.info[key] != other.info[key]:
                raise Violation(
                    f"after the invalid turn {found[place + 1].action!r:.80} the action "
                    f"{one.action!r:.80} gives another {key}, {other.info[key]!r:.80} instead of "
                    f"{one.info[key]!r:.80}: an invalid turn must leave the state as it is",
                    start,
                    [record.action for record in found[1 : turn + 2]],
                )


def _check_anchors(env: Env, actions: Actions, turns: int) -> None:
    """A small audit of the anchors, each turn of which is under the rules."""
    possible: dict[Start, dict[str, frozenset[str]]] = {}
    least, most = EPISODES
    found = audit_anchors(
        env,
        actions=actions,
        watch=lambda start: Watch(env, start, possible.setdefault(start, {})),
        tasks=TASKS,
        episodes=min(max(turns // limit_of(env), least), most),
        seed=SEED,
    )
    if found.witness is not None:
        raise ContractError(
            "the anchor is not the key of the decision state: the same anchor and action have "
            f"different outcomes\n{found.witness}"
        )
    _require(not found.unrepeatable, "the same seed and actions give another outcome")


def _check_callers(env: Env) -> None:
    """What a caller does to what it was given changes nothing."""
    expected = list(play(env, SEED))
    actions = [record.action for record in expected[1:]]
    spoilt, run = "after the caller emptied the lists of each info", Play(env, Start(SEED))
    found = [copy.deepcopy(run.record)]
    for action in actions:
        _spoil(run.record.info)
        try:
            found.append(copy.deepcopy(run.step(action)))
        except Exception as error:
            raise Violation(f"{spoilt}, step() raises {error!r}", run.start, run.actions) from error
    _check_equal(expected, found, spoilt)


def _spoil(value: Any) -> None:
    """Empty all lists and dicts inside a value."""
    if isinstance(value, (dict, list, tuple)):
        for inside in value.values() if isinstance(value, dict) else value:
            _spoil(inside)
        if not isinstance(value, tuple):
            value.clear()


def _check_side_by_side(env: Env, other: Env) -> None:
    """Two instances that take turns do not see each other."""
    expected = list(play(env, SEED))
    run, between = Play(env, Start(SEED)), Play(other, Start(SEED + 1))
    found, wandering = [run.record], wander(other, np.random.default_rng(SEED))
    for record in expected[1:]:
        if not between.record.ended:
            between.step(wandering(between.record.observation, between.record.info))
        found.append(run.step(record.action))
    _check_equal(expected, found, "with another instance that plays at the same time")


def _check_copies(env: Env) -> None:
    """Copies made at the reset and two turns later go on like the original."""
    expected = list(play(env, SEED))
    actions = [record.action for record in expected[1:]]
    for place in (0, 2):
        run = Play(env, Start(SEED))
        for action in actions[:place]:
            run.step(action)
        try:
            pickled = pickle.loads(pickle.dumps(env))  # noqa: S301  our own
            copies = {"a deep copy": copy.deepcopy(env), "a pickle": pickled}
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise ContractError(f"the environment cannot be copied and pickled: {error}") from error
        when = "reset" if not place else f"turn {place}"
        for turn, action in enumerate(actions[place:], place + 1):
            run.step(action)
            for how, other in copies.items():
                copied = Record(action, *cast("Any", other.step(action)))
                if wrong := difference(run.record, copied):
                    raise Violation(
                        f"{how} made at {when}, step {turn}: {wrong}", run.start, run.actions
                    )


def _check_oracle(env: Env, oracle: Callable[[Env], Any]) -> dict[str, list[Any]]:
    """Solve the first tasks and those of the small audit; what was done in each, by task id."""
    first = [Start(SEED, task) for task in range(min(TASKS, len(_panel(env).task_ids)))]
    solutions = {}
    for start in [*first, *starts(env, TASKS, SEED)]:
        records = list(_watched(env, start, lambda: lambda *_: oracle(env)))
        info, actions = records[-1].info, [record.action for record in records[1:]]
        if not info["success"] and start in first:
            raise Violation(
                f"the oracle did not solve {info['task_id']!r} in {info['turn']} turns",
                start,
                actions,
            )
        solutions[info["task_id"]] = actions
    return solutions


def _check_elsewhere(env: Env) -> None:
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    variables = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((env.spec, SEED)),
        capture_output=True,
        check=False,
        env=os.environ | variables,
    )
    _require(child.returncode == 0, f"in another process: {child.stderr.decode()[-400:]}")
    _require(
        child.stdout.decode().strip() == digest(env, SEED),
        "the same seed gives another episode in a process with another hash seed: look for hash(), "
        "the order of a set, or the order of files",
    )
