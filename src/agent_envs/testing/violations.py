"""Violations: what is wrong, and the steps that show it, shortened by leaving steps out.

Steps are a flat list: a `Start` is a reset, followed by the actions of its episode; there can be
several episodes. Before a difference is blamed on a rule, the same steps are repeated: if the
environment does not repeat itself, that is the violation.
"""

from __future__ import annotations

import copy
import math
import pickle
import random
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from agent_envs.contract import ContractError
from agent_envs.testing.episodes import (
    COPIED,
    Chance,
    Extra,
    Other,
    Record,
    Start,
    performed,
    quoted,
    shown_by,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from agent_envs.testing.episodes import Env

    Shows: TypeAlias = Callable[[Env, Sequence[Any]], "Violation | None"]
    Fresh: TypeAlias = Callable[[], AbstractContextManager[Env]]

SHORTER = 300
"""Most episodes that are played to shorten and simplify the steps of a violation."""
SMALL = 6
"""Up to this size every size of parts to leave out is tried; larger sizes are halved."""
TRIES = 3
"""How often steps are tried if a difference can be random."""
TIMES = 6
"""How often steps are repeated before a difference is considered not random."""


class Violation(ContractError):
    """What is wrong, and the steps that show it.

    again: tests on a new environment whether other steps show the same violation.
    """

    def __init__(self, wrong: str, steps: Sequence[Any], again: Shows | None = None) -> None:
        self.wrong, self.steps, self.again = wrong, tuple(steps), again
        super().__init__(f"{wrong}\n{shown_by(self.steps)}" if self.steps else wrong)


def hold(env: Env, shows: Shows, steps: Sequence[Any]) -> None:
    """Raise the violation that the steps show, if any."""
    found = shows(env, steps)
    if found is not None:
        found.again = shows
        raise found


def fresh(env: Env) -> Fresh:
    """A factory of unused environments like `env`.

    They are made from its spec, else copied from a copy made now, else it is `env` itself.
    """
    try:
        pristine = None if env.spec is not None else copy.deepcopy(env)
    except Exception:  # noqa: BLE001  `_check_copies` reports what is wrong
        return lambda: nullcontext(env)

    @contextmanager
    def made() -> Iterator[Env]:
        if pristine is not None:
            yield copy.deepcopy(pristine)
            return
        one = cast("Any", env.spec).make()
        try:
            yield one
        finally:
            one.close()

    return made


def explained(make: Fresh, found: Violation) -> Violation:
    """The violation to report: with few steps, and attributed to its cause.

    make: returns an unused environment, or always the same one if none can be made.
    """
    if found.again not in (None, repeats, repeats_drawing):
        steps = [one.action if isinstance(one, Extra) else one for one in found.steps]
        plain = [one for one in steps if one is not COPIED and not isinstance(one, Other)]
        with make() as env:
            unrepeated = repeats(env, plain * TIMES)
        if unrepeated is not None:
            return shortest(make, unrepeated)
    return shortest(make, found)


def shortest(make: Fresh, found: Violation) -> Violation:
    """The same violation with fewer and simpler steps, as far as leaving steps out allows."""
    again = found.again
    if again is None:
        return found
    shown = tried(again, make, found.steps)
    if shown is None and again is repeats:  # earlier steps matter, too
        shown = tried(again, make, [*_cuts(found.steps), *found.steps])
    if shown is None:
        return found
    found, budget = _fewer(make, shown, again, SHORTER)
    if again not in (repeats, repeats_drawing):
        return _simplest(make, found, again, budget)
    for turn in range(len(found.steps), 0, -1):
        found = _better(found, tried(again, make, _without(found.steps, turn)))
    return found


def _fewer(make: Fresh, found: Violation, again: Shows, budget: int) -> tuple[Violation, int]:
    """The violation with parts left out, beginning with half of the steps; the budget left."""
    size = max(1, len(found.steps) // 2)
    while size and budget:
        before = len(found.steps)
        for place in range(0, before, size):
            steps = found.steps[:place] + found.steps[place + size :]
            if budget and len(steps) < len(found.steps):
                budget -= 1
                found = _better(found, tried(again, make, steps))
        if len(found.steps) < before:  # now parts of this size may be left out
            size = max(size, min(SMALL, len(found.steps) // 2))
        else:
            size = size // 2 if size > SMALL else size - 1
    return found, budget


def _better(found: Violation, other: Violation | None) -> Violation:
    """The other violation if it has fewer steps."""
    return found if other is None or len(other.steps) >= len(found.steps) else other


def _without(steps: Sequence[Any], turn: int) -> list[Any]:
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


def _simplest(make: Fresh, found: Violation, again: Shows, budget: int) -> Violation:
    """The violation with actions replaced by the simplest of them: all at once or one by one."""
    actions = [one for one in found.steps if _is_action(one)]
    if not actions or not budget:
        return found
    simple = min(actions, key=lambda action: len(repr(action)))
    places = [n for n, one in enumerate(found.steps) if _is_action(one) and one is not simple]

    def replaced(found: Violation, changed: Sequence[int]) -> Violation:
        steps = [simple if n in changed else one for n, one in enumerate(found.steps)]
        simpler = tried(again, make, steps)
        return found if simpler is None or len(simpler.steps) > len(found.steps) else simpler

    all_at_once = replaced(found, places) if places else found
    if all_at_once is not found:
        return all_at_once
    for place in places[: budget - 1]:
        found = replaced(found, [place])
    return found


def _is_action(step: Any) -> bool:
    return step is not COPIED and not isinstance(step, (Start, Other, Extra))


def tried(again: Shows, make: Fresh, steps: Sequence[Any]) -> Violation | None:
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
    if found is not None:
        found.again = again
    return found


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
    for play, record in performed(env, steps, chance):
        if not play.actions:
            history = (play.start,)
            done.append(play.start)
        else:
            history = hash(history), key_of(record.action)
            done.append(record.action)
        before = known.get(history)
        if before is None:
            known[history] = copy.deepcopy(record)
        elif wrong := difference(before, record):
            where = f"step {len(play.actions)} ({quoted(record.action, 60)})"
            at = where if play.actions else "reset"
            return Violation(f"{how}: {wrong}, at {at}{_drawn(env, steps)}", done, repeats)
    return None


def repeats_drawing(env: Env, steps: Sequence[Any]) -> Violation | None:
    """As `repeats`, with the random states fixed as in the audit of anchors."""
    return repeats(env, steps, chance=Chance(env))


def _drawn(env: Env, steps: Sequence[Any]) -> str:
    """A note for messages if the steps draw from the global generators, else ""."""
    with generators_kept():
        before = generators()
        for _ in performed(env, steps):
            pass
        if generators() != before:
            return "; it draws from Python's or NumPy's global generator, not from self.np_random"
    return ""


def generators() -> tuple[Any, bytes]:
    """The states of the global generators of Python and NumPy."""
    return random.getstate(), pickle.dumps(np.random.get_state())


@contextmanager
def generators_kept() -> Iterator[None]:
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


def difference(one: Record, other: Record) -> str:
    """The first field in which two records differ, with both values; "" if they are equal."""
    for name, a, b in zip(Record._fields, one, other, strict=True):
        if not _same(a, b):
            return f"{name} differs: {_both(a, b)}"
    return ""


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    equal = one == other
    return equal if isinstance(equal, bool) else bool(np.all(equal))


def _both(one: Any, other: Any) -> str:
    if isinstance(one, dict) and isinstance(other, dict):
        key = next(k for k in {**one, **other} if not _same(one.get(k), other.get(k)))
        return f"{key!r}: {_apart(one.get(key), other.get(key))}"
    return _apart(one, other)


def _apart(one: Any, other: Any) -> str:
    """Both values; long texts from their first difference on."""
    if isinstance(one, str) and isinstance(other, str):
        same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
        if same > AGREED:
            one, other = "…" + one[same - 10 :], "…" + other[same - 10 :]
    return f"{quoted(one, 80)} and {quoted(other, 80)}"


AGREED = 40  # texts with a longer common beginning are shown from their first difference on
