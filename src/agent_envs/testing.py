"""check_agent_env: the environment contract checked from outside, two lines in anyone's tests.

from agent_envs.testing import check_agent_env
check_agent_env(gym.make("my_package:MyWorld-v0"))
"""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
import warnings
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from agent_envs.contract import INFO_KEYS, INVALID_REASONS, ContractError
from agent_envs.panels import Panel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Env = gym.Env[Any, Any]

HEADINGS = (
    "Description",
    "Observation",
    "Action",
    "Validity",
    "Progress",
    "Anchor",
    "Reward",
    "Ends",
    "Tasks and splits",
    "Data",
    "Source",
)
TYPES = dict(zip(INFO_KEYS, (str, bool, str, float, str, bool, list, str, int), strict=True))
PLAIN = (str, bool, int, float, type(None), list, dict, tuple)
SEED = 7
SURPRISES = 0.2  # share of actions sampled from the space although some are admissible
CHILD = """
import pickle, sys
from agent_envs.testing import digest
spec, seed = pickle.load(sys.stdin.buffer)
print(digest(spec.make(), seed))
"""


class Record(NamedTuple):
    """One turn as seen from outside; the first has action None."""

    action: Any
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def check_agent_env(
    env: Env,
    *,
    oracle: Callable[[Env], Any] | None = None,
    copies: bool = True,
    processes: bool = True,
) -> None:
    """Check the whole contract on `env`, wrapped or not, made by `gym.make` or by hand.

    Docstring headings, panel and its hash, Gymnasium's own `check_env` (silent), reset options,
    order of calls, every key of `info` at every turn, ends, determinism, odd actions, rebuilding
    from the spec, and:

    oracle: action for the environment as it stands; it has to succeed on the first tasks.
    copies: whether deep copies and pickles must go on exactly like the original.
    processes: whether to play once more in a process with another hash seed, which needs a spec
        with its entry point as a string.

    Raises:
        ContractError: the first thing that is not as the contract says.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _check_docstring(type(env.unwrapped))
        _check_panel(env)
        _check_same_episode(env, "reset with the same seed", env)
        _check_gymnasium(env.unwrapped)
        _check_options(env)
        _check_order(env)
        _check_odd_actions(env)
        if env.spec is not None:
            _check_same_episode(env, "made again from env.spec", env.spec.make())
        if copies:
            _check_copies(env)
        if oracle is not None:
            _check_oracle(env, oracle)
        if processes and env.spec is not None and isinstance(env.spec.entry_point, str):
            _check_elsewhere(env)


def play(env: Env, seed: int, *, task: int | None = None) -> Iterator[Record]:
    """An episode to its end, most actions admissible, each turn checked as it comes.

    Raises:
        ContractError: a turn that is not as the contract says.
    """
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed, options=None if task is None else {"task": task})
    record = Record(None, observation, 0.0, False, False, info)
    _check_record(env, record, 0)
    yield record
    for turn in range(1, _max_turns(env) + 1):
        choices = record.info["admissible_actions"]
        sampled = not choices or rng.random() < SURPRISES
        action = env.action_space.sample() if sampled else choices[rng.integers(len(choices))]
        before, kept = record, copy.deepcopy(record)
        record = Record(action, *cast("Any", env.step(action)))
        _check_equal([kept], [before], f"{_at(record, turn)} changed the turn before it")
        _require(
            not _parts(before.info) & _parts(record.info),
            f"{_at(record, turn)}: info shares a list or dict with the turn before",
        )
        _check_record(env, record, turn)
        changed = sorted(set(before.info) ^ set(record.info))
        _require(not changed, f"{_at(record, turn)}: info has {changed} only at some turns")
        yield record
        if record.terminated or record.truncated:
            return
    raise ContractError(f"no end after max_turns = {_max_turns(env)} steps: truncated must be True")


def digest(env: Env, seed: int) -> str:
    """Hex SHA-256 of the panel's hash and all that an episode shows."""
    return sha256(repr((_panel(env).hash, list(play(env, seed)))).encode()).hexdigest()


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)


def _at(record: Record, turn: int) -> str:
    return "reset" if turn == 0 else f"step {turn} ({record.action!r:.60})"


def _panel(env: Env) -> Panel:
    return cast("Panel", cast("Any", env.unwrapped).panel)


def _max_turns(env: Env) -> int:
    turns = getattr(env.unwrapped, "max_turns", None)
    _require(
        type(turns) is int and turns > 0, f"env.max_turns must be an int above 0, got {turns!r}"
    )
    return cast("int", turns)


def _parts(value: Any) -> set[int]:
    """Identities of the lists and dicts inside a value."""
    inside = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list, tuple)):
        return set()
    return {id(value)} - {id(())} | set().union(*map(_parts, inside))


def _check_docstring(env_class: type) -> None:
    lines = (env_class.__doc__ or "").splitlines()
    found = {line.partition(":")[0].strip("#* ") for line in lines}
    missing = [heading for heading in HEADINGS if heading not in found]
    _require(
        not missing,
        f"the docstring of {env_class.__name__} lacks the headings {', '.join(missing)}",
    )


def _check_panel(env: Env) -> None:
    panel = getattr(env.unwrapped, "panel", None)
    for name in ("split", "task_ids", "hash"):
        _require(hasattr(panel, name), f"env.unwrapped.panel must have {name!r}, got {panel!r:.80}")
    panel = cast("Panel", panel)
    try:
        expected = Panel(panel.split, panel.task_ids).hash
    except ValueError as error:
        raise ContractError(f"env.unwrapped.panel is no panel: {error}") from error
    _require(panel.hash == expected, f"panel.hash must be {expected}, got {panel.hash!r}")


def _check_gymnasium(env: Env) -> None:
    try:
        check_env(env, skip_render_check=env.spec is None)
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


def _check_record(env: Env, record: Record, turn: int) -> None:
    where, info = _at(record, turn), record.info
    _check_info(info, where)
    _check_text(record.observation, f"{where}: the observation")
    _require(record.observation in env.observation_space, f"{where}: observation not in its space")
    _require(info["turn"] == turn, f"{where}: info['turn'] must be {turn}, got {info['turn']}")
    known = _panel(env).task_ids
    _require(info["task_id"] in known, f"{where}: {info['task_id']!r} is not a task of the panel")
    if turn == 0:
        _require(info["valid"], f"{where}: info['valid'] must be True")
        _require(not info["success"], f"{where}: info['success'] must be False")
        return
    reward, terminated, truncated = record[2:5]
    _require(type(reward) is float, f"{where}: the reward must be a float, got {reward!r}")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        _require(type(flag) is bool, f"{where}: {name} must be a bool, got {flag!r}")
    _require(not info["success"] or terminated, f"{where}: success must be terminated")
    _require(not (terminated and truncated), f"{where}: both terminated and truncated")
    limit = _max_turns(env)
    _require(not truncated or turn == limit, f"{where}: truncated before the turn limit of {limit}")


def _check_info(info: dict[str, Any], where: str) -> None:
    for key, kind in TYPES.items():
        _require(key in info, f"{where}: info lacks {key!r}")
        _require(
            type(info[key]) is kind,
            f"{where}: info[{key!r}] must be a {kind.__name__}, got {info[key]!r:.60}",
        )
    for key, value in info.items():
        _check_plain(value, f"{where}: info[{key!r}]")
    progress, reason = info["progress"], info["invalid_reason"]
    _require(0 <= progress <= 1, f"{where}: info['progress'] must lie in [0, 1], got {progress}")
    _require(
        reason in INVALID_REASONS,
        f"{where}: info['invalid_reason'] must be one of {INVALID_REASONS}, got {reason!r}",
    )
    _require(
        info["valid"] == (reason == ""),
        f"{where}: info['valid'] is {info['valid']} with info['invalid_reason'] = {reason!r}",
    )
    for action in info["admissible_actions"]:
        _require(type(action) is str, f"{where}: admissible action {action!r} is no str")
    _require(info["goal"] != "", f"{where}: info['goal'] is empty")
    _require(info["anchor"] != "", f"{where}: info['anchor'] is empty")


def _check_plain(value: Any, name: str) -> None:
    _require(
        type(value) in PLAIN,
        f"{name} must be of builtin types, got {type(value).__name__} {value!r:.60}",
    )
    _check_text(value, name)
    if isinstance(value, dict):
        for key, inside in value.items():
            _check_plain(key, f"a key of {name}")
            _check_plain(inside, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for place, inside in enumerate(value):
            _check_plain(inside, f"{name}[{place}]")


def _check_text(value: Any, name: str) -> None:
    if isinstance(value, str):
        _require(
            not any("\ud800" <= c <= "\udfff" for c in value),
            f"{name} has an unpaired surrogate and cannot be written as UTF-8",
        )


def _check_same_episode(env: Env, how: str, again: Env) -> None:
    before = _global_generators()
    expected = list(play(env, SEED))
    _require(
        before == _global_generators(),
        "an episode drew from Python's or NumPy's global generator; use self.np_random",
    )
    _check_equal(expected, list(play(again, SEED)), how)


def _global_generators() -> tuple[Any, bytes]:
    return random.getstate(), pickle.dumps(np.random.get_state())  # noqa: NPY002


def _check_equal(expected: list[Record], found: list[Record], how: str) -> None:
    for turn, (one, other) in enumerate(zip(expected, found, strict=False)):
        for field, a, b in zip(Record._fields, one, other, strict=True):
            if not np.all(a == b):
                raise ContractError(f"{how}: {field} differs in record {turn}: {_differ(a, b)}")
    _require(len(expected) == len(found), f"{how}: {len(expected)} turns, then {len(found)}")


def _differ(a: Any, b: Any) -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        key = next(k for k in {**a, **b} if a.get(k) != b.get(k))
        return f"{key!r}: {a.get(key)!r:.80} and {b.get(key)!r:.80}"
    return f"{a!r:.80} and {b!r:.80}"


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
        _, before = env.reset(seed=SEED)
        record = _single_step(env, no_action)
        found = record.info["invalid_reason"], record.info["anchor"], record.info["progress"]
        _require(
            found == ("format", before["anchor"], before["progress"]),
            f"{_at(record, 1)}: must be 'format' and leave anchor and progress, got {found}",
        )
    for odd in ("", "\x00\x1b[2J look\r\n\t", "ÿ漢字🎉"):
        env.reset(seed=SEED)
        _single_step(env, odd)


def _single_step(env: Env, action: str) -> Record:
    record = Record(action, *cast("Any", env.step(action)))
    _check_record(env, record, 1)
    return record


def _check_copies(env: Env) -> None:
    _, info = env.reset(seed=SEED)
    try:
        copies = {"a deep copy": copy.deepcopy(env), "a pickle": pickle.loads(pickle.dumps(env))}  # noqa: S301
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ContractError(f"the environment cannot be copied and pickled: {error}") from error
    rng = np.random.default_rng(SEED)
    env.action_space.seed(SEED)
    for turn in range(1, _max_turns(env) + 1):
        choices = info["admissible_actions"] or [env.action_space.sample()]
        action = choices[rng.integers(len(choices))]
        expected = Record(action, *cast("Any", env.step(action)))
        for how, other in copies.items():
            found = Record(action, *cast("Any", other.step(action)))
            _check_equal([expected], [found], f"{how} made at reset, step {turn}")
        info = expected.info
        if expected.terminated or expected.truncated:
            return


def _check_oracle(env: Env, oracle: Callable[[Env], Any]) -> None:
    for task in range(min(3, len(_panel(env).task_ids))):
        _, info = env.reset(seed=SEED, options={"task": task})
        ended = False
        while not ended:
            _, _, terminated, truncated, info = env.step(oracle(env))
            ended = terminated or truncated
        _require(
            info["success"], f"the oracle did not solve {info['task_id']!r} in {info['turn']} turns"
        )


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
