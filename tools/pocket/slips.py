"""Demonstrations with slips: an expert plays, errs now and then, and recovers.

The pocket policies are pre-trained on them. Slips are seen and not learned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from agent_envs.alfworld.experts import TOOLS, Searcher, kind_of, read_habits
from agent_envs.webshop import pages
from agent_envs.webshop.experts import Shopper, read_request
from agent_envs.webshop.pages import BUY, Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from agent_envs.alfworld.experts import Memory
    from agent_envs.webshop.goals import Goal
    from agent_envs.webshop.shop import FactShop


class Shown(NamedTuple):
    """One turn of a demonstration: what was seen, what was done and why, whether it was a slip."""

    observation: str
    action: str
    thought: str
    mistake: bool


class Playable(Protocol):
    """What a demonstration needs of a world."""

    @property
    def intro(self) -> str:
        """The opening text."""

    @property
    def won(self) -> bool:
        """Whether the task is done."""

    def execute(self, command: str) -> str:
        """Do a command and return what is seen of it."""


def play_household(
    world: Playable,
    rng: np.random.Generator,
    *,
    mistake: float = 0.1,
    max_turns: int = 50,
    expert: Searcher | None = None,
) -> Iterator[Shown]:
    """Play a world with the expert, who slips now and then and recovers; ends when won.

    Args:
        world: a fresh world; it is played to its end.
        rng: draws the slips.
        mistake: share of turns that are slips, in [0, 1).
        max_turns: the demonstration is cut here.
        expert: who plays; by default one without tastes.
    """
    expert, observation = expert or Searcher(world.intro), world.intro
    for _ in range(max_turns):
        slip = rng.random() < mistake
        action = _choose_slip(expert, rng) if slip else expert.act()
        thought = (_find_aim(action) if slip else "") or expert.think()
        yield Shown(observation, action, thought, slip)
        observation = world.execute(action)
        expert.observe(action, observation)
        if world.won:
            return


def _choose_slip(expert: Searcher, rng: np.random.Generator) -> str:
    """A plausible mistake in this situation; none of them makes the task impossible."""
    memory, right = expert.memory, expert.act()
    place, here = _pick(memory.places, rng), _pick(sorted(memory.here), rng)
    number = int(rng.integers(1, 4))
    slips = [
        f"go to {place}",  # nothing to do there
        f"go to {_pick(list(memory.seen), rng) or place}",  # seen already
        f"go to {kind_of(place)} {number + 20}",  # no such place
        f"take {expert.task.thing} {number} from {here or place}",  # not there, or behind a door
        _pick(["look", "inventory", f"examine {here or place}"], rng),
    ]
    if memory.held:
        slips.append(f"move {memory.held} to {here or place}")  # not where it belongs
        slips.append(f"{_pick(list(TOOLS), rng)} {memory.held} with {here or place}")
    else:
        slips += [f"take {thing} from {here}" for thing in _list_loose(memory, here)][:2]
    wrong = [slip for slip in slips if slip != right]
    return _pick(wrong, rng)


def _find_aim(action: str) -> str:
    """The thing that a slip hopes to take, as if it were there; "" for any other action."""
    thing, _, place = action.removeprefix("take ").partition(" from ")
    return thing if place else ""


def _list_loose(memory: Memory, place: str) -> list[str]:
    """Things within sight that can be taken from a place and surely be put back there."""
    things = [] if place in memory.closed else memory.seen.get(place, [])
    return [thing for thing in things if kind_of(place) in read_habits().get(kind_of(thing), {})]


def _pick(names: Sequence[str], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))] if names else ""


def play_shop(
    shop: FactShop,
    goal: Goal,
    rng: np.random.Generator,
    *,
    mistake: float = 0.1,
    hasty: bool = False,
    max_turns: int = 20,
) -> Iterator[Shown]:
    """A shopper's trip to its purchase, with slips, which are random clicks that buy nothing.

    A `hasty` one reads no page, buys the first product below the limit, and chooses one option.
    """
    request = read_request(goal.text)
    if hasty:
        request = request._replace(options=request.options[:1], wishes=())
    shopper, trail = Shopper(shop, request), [Page()]
    for _ in range(max_turns):
        page = trail[-1]
        seen = pages.write_text(shop.list_elements(page, goal.text), marked=True)
        action, thought = shopper.take_step(trail)
        others = [t for t in shop.read_body(page).clickable if t not in {"search", BUY.lower()}]
        slip = bool(others) and rng.random() < mistake
        if slip:
            action = f"click[{others[int(rng.integers(len(others)))]}]".lower()
        yield Shown(seen, action, thought, slip)
        trail.append(shop.follow(page, "", *shop.parse(action))[0])
        if trail[-1].kind == "done":
            return
