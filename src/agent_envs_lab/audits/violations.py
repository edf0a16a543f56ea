"""Violations: what is wrong, and the steps that show it, shortened by leaving steps out.

Steps are a flat list: a `Start` is a reset, followed by the actions of its episode; there can be
several episodes. Before a difference is blamed on a rule, the same steps are repeated: if the
environment does not repeat itself, that is the violation.
"""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from agent_envs.testing.episodes import (
    Record,
    Start,
    Violation,
    find_difference,
    name_turn,
    play_steps,
    spec_of,
)
from agent_envs_lab.audits.episodes import COPIED, Chance, Extra, Other
from agent_envs_lab.audits.watch import Breaks

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from agent_envs.testing.episodes import Env

    Shows: TypeAlias = Callable[[Env, Sequence[Any]], Violation | None]
    Fresh: TypeAlias = Callable[[], AbstractContextManager[Env]]

SHORTER = 300
"""Most episodes that are played to shorten and simplify the steps of a violation."""
SMALL = 6
"""Up to this size every size of parts to leave out is tried; larger sizes are halved."""
TRIES = 3
"""How often steps are tried if a difference can be random."""
TIMES = 6
"""How often steps are repeated before a difference is considered not random."""


class Shown(Violation):
    """A violation that other steps may show, too; `again` tests that on a new environment."""

    def __init__(self, wrong: str, steps: Sequence[Any], again: Shows) -> None:
        super().__init__(wrong, steps)
        self.again = again


def hold(env: Env, shows: Shows, steps: Sequence[Any]) -> None:
    """Raise the violation that the steps show, if any."""
    found = shows(env, steps)
    if found is not None:
        raise Shown(found.wrong, found.steps, shows)


def find_test(found: Violation) -> Shows | None:
    """How to test whether other steps show the same violation."""
    if isinstance(found, Shown):
        return found.again
    return None if found.rule is None else Breaks(found.rule)


def make_fresh(env: Env) -> Fresh:
    """A factory of unused environments like `env`.

    They are made from its spec, else copied from a copy made now, else it is `env` itself.
    """
    try:
        pristine = None if spec_of(env) is not None else copy.deepcopy(env)
    except Exception:  # noqa: BLE001  `_check_copies` reports what is wrong
        return lambda: nullcontext(env)

    @contextmanager
    def make_env() -> Iterator[Env]:
        if pristine is not None:
            yield copy.deepcopy(pristine)
            return
        one = cast("Any", env.spec).make()
        try:
            yield one
        finally:
            one.close()

    return make_env


def explain(make: Fresh, found: Violation) -> Violation:
    """The violation to report: with few steps, and attributed to its cause.

    make: returns an unused environment, or always the same one if none can be made.
    """
    if find_test(found) not in (None, repeats, repeats_by_chance):
        steps = [one.action if isinstance(one, Extra) else one for one in found.steps]
        plain = [one for one in steps if one is not COPIED and not isinstance(one, Other)]
        with make() as env:
            unrepeated = repeats(env, plain * TIMES)
        if unrepeated is not None:
            return shorten(make, unrepeated)
    return shorten(make, found)


def shorten(make: Fresh, found: Violation) -> Violation:
    """The same violation with fewer and simpler steps, as far as leaving steps out allows."""
    again = find_test(found)
    if again is None:
        return found
    shown = try_steps(again, make, found.steps)
    if shown is None and again is repeats:  # earlier steps matter, too
        shown = try_steps(again, make, [*_cuts(found.steps), *found.steps])
    if shown is None:
        return found
    found, budget = _leave_out(make, shown, again, SHORTER)
    if again not in (repeats, repeats_by_chance):
        return _simplify(make, found, again, budget)
    for turn in range(len(found.steps), 0, -1):
        found = _choose_shorter(found, try_steps(again, make, _remove_turn(found.steps, turn)))
    return found


def _leave_out(make: Fresh, found: Violation, again: Shows, budget: int) -> tuple[Violation, int]:
    """The violation with parts left out, beginning with half of the steps; the budget left."""
    size = max(1, len(found.steps) // 2)
    while size and budget:
        before = len(found.steps)
        for place in range(0, before, size):
            steps = found.steps[:place] + found.steps[place + size :]
            if budget and len(steps) < len(found.steps):
                budget -= 1
                found = _choose_shorter(found, try_steps(again, make, steps))
        if len(found.steps) < before:  # now parts of this size may be left out
            size = max(size, min(SMALL, len(found.steps) // 2))
        else:
            size = size // 2 if size > SMALL else size - 1
    return found, budget


def _choose_shorter(found: Violation, other: Violation | None) -> Violation:
    """The other violation if it has fewer steps."""
    return found if other is None or len(other.steps) >= len(found.steps) else other


def _remove_turn(steps: Sequence[Any], turn: int) -> list[Any]:
    """All episodes without that turn, since a comparison needs it removed from both."""
    kept, done = list[Any](), 0
    for step in steps:
        done = 0 if isinstance(step, Start) else done + 1
        kept += [step] * (isinstance(step, Start) or done != turn)
    return kept


def _cuts(steps: Sequence[Any]) -> list[Any]:
    """Each episode, cut after each of its turns."""
    cuts, begun = list[Any](), 0
    for place, step in enumerate(steps):
        begun = place if isinstance(step, Start) else begun
        cuts += steps[begun : place + 1]
    return cuts


def _simplify(make: Fresh, found: Violation, again: Shows, budget: int) -> Violation:
    """The violation with actions replaced by the simplest of them: all at once or one by one."""
    actions = [one for one in found.steps if _is_action(one)]
    if not actions or not budget:
        return found
    simple = min(actions, key=lambda action: len(repr(action)))
    places = [n for n, one in enumerate(found.steps) if _is_action(one) and one is not simple]

    def replace_actions(found: Violation, changed: Sequence[int]) -> Violation:
        steps = [simple if n in changed else one for n, one in enumerate(found.steps)]
        simpler = try_steps(again, make, steps)
        return found if simpler is None or len(simpler.steps) > len(found.steps) else simpler

    all_at_once = replace_actions(found, places) if places else found
    if all_at_once is not found:
        return all_at_once
    for place in places[: budget - 1]:
        found = replace_actions(found, [place])
    return found


def _is_action(step: Any) -> bool:
    return step is not COPIED and not isinstance(step, (Start, Other, Extra))


def try_steps(again: Shows, make: Fresh, steps: Sequence[Any]) -> Violation | None:
    """The violation that these steps show, None if they do not show it."""
    if not steps or not isinstance(steps[0], Start):
        return None
    found = None
    for _ in range(TRIES if again is repeats else 1):  # `repeats` can depend on chance
        try:
            with make() as env:
                found = found or again(env, tuple(steps))
        except Exception:  # noqa: BLE001  another error is another violation
            return None
    return None if found is None else Shown(found.wrong, found.steps, again)


def repeats(
    env: Env,
    steps: Sequence[Any],
    how: str = "the same seed and actions give another episode",
    chance: Chance | None = None,
) -> Violation | None:
    """Turns after the same seed, task and actions must be equal, whatever was played before."""
    known: dict[Any, Record] = {}
    done: list[Any] = []
    history: tuple[Any, ...] = ()
    for play, record in play_steps(env, steps, chance):
        if not play.actions:
            history = (play.start,)
            done.append(play.start)
        else:
            history = hash(history), key_of(record.action)
            done.append(record.action)
        before = known.get(history)
        if before is None:
            known[history] = copy.deepcopy(record)
        elif wrong := find_difference(before, record):
            at = name_turn(record, len(play.actions))
            return Shown(f"{how}: {wrong}, at {at}{_note_draws(env, steps)}", done, repeats)
    return None


def repeats_by_chance(env: Env, steps: Sequence[Any]) -> Violation | None:
    """As `repeats`, with the random states fixed as in the audit of anchors."""
    return repeats(env, steps, chance=Chance(env))


def _note_draws(env: Env, steps: Sequence[Any]) -> str:
    """A note for messages if the steps draw from the global generators, else ""."""
    with keep_generators():
        before = read_generators()
        for _ in play_steps(env, steps):
            pass
        if read_generators() != before:
            return "; it draws from Python's or NumPy's global generator, not from self.np_random"
    return ""


def read_generators() -> tuple[Any, bytes]:
    """The states of the global generators of Python and NumPy."""
    return random.getstate(), pickle.dumps(np.random.get_state())


@contextmanager
def keep_generators() -> Iterator[None]:
    """Restore the global generators at the end."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def key_of(action: Any) -> Any:
    """A hashable key of an action."""
    try:
        hash(action)
    except TypeError:
        return repr(action)
    return action
