"""Comparisons: each function plays some steps in two ways and returns how the results differ.

`check_contract` applies them to many steps, and `violations.shorten` to fewer of them.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, cast

from agent_envs.contract import ContractError
from agent_envs.testing.contract import compare_plays
from agent_envs.testing.episodes import (
    Play,
    Record,
    Start,
    Violation,
    find_difference,
    limit_of,
    name_turn,
    panel_of,
    play_steps,
    quote,
    spec_of,
)
from agent_envs_lab.audits.episodes import COPIED, Chance, Extra, Other
from agent_envs_lab.audits.violations import keep_generators, read_generators

if TYPE_CHECKING:
    from agent_envs.testing.episodes import Env

CHILD = "AGENT_ENVS_CHECK_PROCESS"
"""Environment variable of the process of `OtherProcess`, where a module may check itself again."""
LATER = 400 * 86_400 + 5 * 3_600 + 43 * 60 + 17
"""Seconds by which the clock is moved forward."""
ZONE = "XXX+03:17"
"""A time zone whose minutes differ from UTC."""


def record_steps(env: Env, steps: Sequence[Any], chance: Chance | None = None) -> list[Record]:
    """The turns of these steps."""
    return [record for _, record in play_steps(env, steps, chance)]


def compare_generators(env: Env, steps: Sequence[Any]) -> Violation | None:
    """An episode must not draw from the global generators of Python and NumPy."""
    with keep_generators():
        before = read_generators()
        record_steps(env, steps)
        if read_generators() == before:
            return None
    return Violation(
        "an episode drew from Python's or NumPy's global generator; use self.np_random", steps
    )


def compare_rebuilt(env: Env, steps: Sequence[Any]) -> Violation | None:
    """An environment made again from its spec must give the same episode."""
    other = cast("Any", env.spec).make()
    how = "made again from env.spec"
    return compare_plays(how, record_steps(env, steps), record_steps(other, steps), steps)


def compare_undisturbed(env: Env, steps: Sequence[Any]) -> Violation | None:
    """An episode must continue after an invalid turn (an `Extra`) as without it."""
    place = next((n for n, one in enumerate(steps) if isinstance(one, Extra)), None)
    if place is None:
        return None
    extra = steps[place].action
    with keep_generators():  # equal turns draw equal numbers, whatever the invalid turn drew
        expected = record_steps(env, [*steps[:place], *steps[place + 1 :]], Chance(env))
        found = record_steps(env, [*steps[:place], extra, *steps[place + 1 :]], Chance(env))
    if len(found) <= place or found[place].info["valid"]:  # the extra action is valid here
        return None
    for turn in range(place, min(len(expected), len(found) - 1)):
        one, other = expected[turn], found[turn + 1]
        if one.truncated or other.truncated:  # the turn limit comes one turn earlier
            return None
        what = f"after the invalid turn {quote(extra)} the action {quote(one.action)}"
        wrong = ""
        if one.reward != other.reward:
            wrong = f"pays {other.reward} instead of {one.reward}"
        for key in ("valid", "invalid_reason", "progress", "anchor", "success"):
            if not wrong and one.info[key] != other.info[key]:
                values = f"{quote(other.info[key], 80)} instead of {quote(one.info[key], 80)}"
                wrong = f"gives another {key}, {values}"
        if wrong:
            return Violation(
                f"{what} {wrong}: an invalid turn must leave the state as it is", steps[: turn + 2]
            )
    return None


def compare_unspoilt(env: Env, steps: Sequence[Any]) -> Violation | None:
    """Changing the returned objects must not change the environment."""
    how, found = "after the caller emptied the lists of each info", list[Record]()
    expected = [copy.deepcopy(record) for record in record_steps(env, steps)]
    try:
        for _, record in play_steps(env, steps):
            found.append(copy.deepcopy(record))
            _empty_parts(record.info)
    except Exception as error:  # noqa: BLE001  it did not raise without the change
        return Violation(f"{how}, step() raises {error!r}", steps[: len(found) + 1])
    return compare_plays(how, expected, found, steps)


def _empty_parts(value: Any) -> None:
    """Empty all lists and dicts inside a value."""
    if isinstance(value, (dict, list, tuple)):
        for inside in value.values() if isinstance(value, dict) else value:
            _empty_parts(inside)
        if not isinstance(value, tuple):
            value.clear()


def compare_beside(env: Env, steps: Sequence[Any]) -> Violation | None:
    """Another instance, which takes the steps in `Other`, must have no effect."""
    own = [step for step in steps if not isinstance(step, Other)]
    expected, found = record_steps(env, own), list[Record]()
    spec = spec_of(env)
    other = copy.deepcopy(env) if spec is None else spec.make()
    run: Play | None = None
    between: Play | None = None
    for place, step in enumerate(steps):
        if isinstance(step, Other) and isinstance(step.step, Start):
            between = Play(other, step.step)
        elif isinstance(step, Other):
            if between is not None and not between.record.ended:
                between.step(step.step)
        else:
            if isinstance(step, Start):
                run = Play(env, step)
            elif run is None or run.record.ended:
                continue
            else:
                run.step(step)
            found.append(run.record)
            how = "with another instance that plays at the same time"
            if wrong := compare_plays(how, expected[: len(found)], found, own):
                return Violation(wrong.wrong, steps[: place + 1])
    return None


def compare_copies(env: Env, steps: Sequence[Any]) -> Violation | None:
    """A deep copy and a pickle made at `COPIED` must continue like the original.

    The copy plays on first, then the original, then the pickle: a shared part that one of them
    changes shows as a difference in the next.
    """
    place = next((n for n, one in enumerate(steps) if one is COPIED), 0)
    before, after = steps[:place], steps[place + 1 :]
    if not before:
        return None
    expected = [record for _, record in play_steps(env, [*before, *after])]
    turn, reached = len(before) - 1, [record for _, record in play_steps(env, before)]
    if len(reached) < len(before) or reached[-1].ended:
        return None
    try:
        pickled, copied = pickle.loads(pickle.dumps(env)), copy.deepcopy(env)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ContractError(f"the environment cannot be copied and pickled: {error}") from error
    when = f"made at turn {turn}" if turn else "made at reset"
    players = (
        (f"a deep copy {when}", copied),
        (f"the original, after a deep copy {when} had played on", env),
        (f"a pickle {when}, after the original had played on", pickled),
    )
    following: Record | None = None
    for how, player in players:
        for done, record in enumerate(expected[turn + 1 :], turn + 1):
            steps, where = (*before, COPIED, *after[: done - turn]), name_turn(record, done)
            try:
                found = Record(record.action, *player.step(record.action))
            except Exception as error:  # noqa: BLE001  the original did not raise
                return Violation(f"{how}, {where}: {error!r}", steps)
            if wrong := find_difference(record, found):
                return Violation(f"{how}, {where}: {wrong}", steps)
        if expected[-1].ended:
            observation, info = player.reset()
            opening = Record(None, observation, 0.0, False, False, info)
            if following is not None and (wrong := find_difference(following, opening)):
                return Violation(f"{how}, then reset(): {wrong}", (*before, COPIED, *after))
            following = opening
    return None


def compare_times(env: Env, steps: Sequence[Any]) -> Violation | None:
    """The time of day must have no effect."""
    expected = record_steps(env, steps)
    with _move_clock():
        found = record_steps(env, steps)
    return compare_plays("at another time of day", expected, found, steps)


@contextmanager
def _move_clock() -> Iterator[None]:
    """Another date, time and zone, as far as Python allows to replace them."""
    kept = {name: getattr(time, name) for name in ("time", "time_ns", *_OF_SECONDS, *_OF_STRUCTS)}
    zone = os.environ.get("TZ")

    def now() -> float:
        return float(kept["time"]()) + LATER

    time.time = now
    time.time_ns = lambda: int(kept["time_ns"]()) + LATER * 10**9
    for name in _OF_SECONDS:
        setattr(time, name, _with_now(kept[name], now))
    time.strftime = lambda form, when=None: kept["strftime"](form, when or time.localtime())
    time.asctime = lambda when=None: kept["asctime"](when or time.localtime())
    os.environ["TZ"] = ZONE
    _apply_zone()
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(time, name, function)
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        _apply_zone()


_OF_SECONDS = ("localtime", "gmtime", "ctime")
_OF_STRUCTS = ("strftime", "asctime")


def _with_now(function: Callable[[float], Any], now: Callable[[], float]) -> Callable[..., Any]:
    return lambda seconds=None: function(now() if seconds is None else seconds)


def _apply_zone() -> None:
    if hasattr(time, "tzset"):  # not on Windows
        time.tzset()


def compare_limits(env: Env, steps: Sequence[Any]) -> Violation | None:
    """An end at the turn limit that a larger limit removes must be `truncated`."""
    *_, last = found = record_steps(env, steps)
    limit = limit_of(env)
    turn = len(found) - 1
    if turn != limit or not last.terminated or last.info["success"]:
        return None
    for longer in _make_longer(env, limit + 1):
        later = record_steps(longer, steps)
        if len(later) == len(found) and not later[-1].ended:
            return Violation(
                f"step {turn} ({quote(last.action, 60)}): the turn limit of {limit} is reported "
                f"as terminated, but with max_turns={limit + 1} the episode goes on; truncate it",
                steps,
            )
    return None


def _make_longer(env: Env, limit: int) -> Iterator[Env]:
    """The environment with another turn limit, in all ways to set it."""
    inner = cast("Any", env.unwrapped)
    kept = inner.max_turns
    try:
        inner.max_turns = limit
        yield env
    except AttributeError:  # it cannot be set
        pass
    finally:
        if inner.max_turns != kept:
            inner.max_turns = kept
    if (spec := spec_of(env)) is not None:
        try:
            yield spec.make(max_turns=limit)
        except TypeError:  # its constructor takes no turn limit
            return


class OtherProcess:
    """A process with another hash seed that plays the same steps; `shows` compares.

    Raises:
        ContractError: the process fails.
    """

    def __init__(self, env: Env) -> None:
        hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        variables = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  closed at the exit
        self._child = subprocess.Popen(
            [sys.executable, "-c", "from agent_envs_lab.audits.comparisons import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            env=os.environ | variables | {CHILD: "1"},
        )
        self.panel_hash = self._request(env.spec)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._child.stdin, self._child.stdout):
            with suppress(BrokenPipeError):
                cast("Any", pipe).close()
        self._child.wait()
        self._output.close()

    def compare(self, env: Env, steps: Sequence[Any]) -> Violation | None:
        """The same seed must give the same episode in a process with another hash seed."""
        found = compare_plays(
            "in a process with another hash seed",
            record_steps(env, steps),
            self._request(steps),
            steps,
        )
        if found is None:
            return None
        hint = "look for hash(), the order of a set, or the order of files"
        return Violation(f"{found.wrong}; {hint}", found.steps)

    def _request(self, request: Any) -> Any:
        stdin, stdout = cast("Any", self._child.stdin), cast("Any", self._child.stdout)
        try:
            pickle.dump(request, stdin)
            stdin.flush()
            return pickle.load(stdout)
        except (EOFError, BrokenPipeError):
            self._child.wait()
            self._output.seek(0)
            lines = self._output.read().decode(errors="replace").strip().splitlines()
            last = lines[-1] if lines else f"it ended with {self._child.returncode}"
            raise ContractError(f"in another process: {last}") from None


def serve() -> None:
    """The main function of `OtherProcess`: makes the environment, then plays given steps."""
    answers, requests = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)  # keep what the environment prints out of the answers
    env = pickle.load(requests).make()
    pickle.dump(panel_of(env).hash, answers)
    answers.flush()
    while True:
        try:
            steps = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(record_steps(env, steps), answers)
        answers.flush()
