"""The tree of a group's rollouts, and what the value of each state is made of.

The rollouts of a group start in one state. Those that gave the same replies share their exact
conversation, a node of the tree. The value of a node is

    V = Σ p(reply) V(node after the reply) + q x,    q = 1 − Σ p(reply),

where the sum is over the replies that the rollouts gave there, with the exact probabilities that
were recorded when they were drawn, and x is the value of giving any other reply. Only x has to be
estimated. Outcomes of the rollouts enter only as what is certain: an ended episode has its outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import exp
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trainer.engine import Begun

if TYPE_CHECKING:
    from credit.stats import Array
    from trainer.play.records import Episode, Step


CAUSES = (
    "Either the world draws at random: measure it with --plain and another --out. Or it keeps "
    "state outside the environment (attributes of a class, globals, files), which other episodes "
    "change: move it into the environment, and mend its copy (copy.deepcopy)"
)


class NotReproducible(ValueError):
    """An environment does not continue in the same way after the same replies."""


class Leaving(NamedTuple):
    """One way to give a reply that no rollout gave, and its probability."""

    begun: Begun
    probability: float


@dataclass(slots=True)
class Node:
    """A state: the conversation after some replies.

    Attributes:
        parent: Node before the last reply, -1 at the start.
        episode: A rollout that got here.
        turn: Number of its turns so far.
        probability: Probability of the last reply in the parent's state.
        outcome: Outcome, if the episode has ended here.
        children: Nodes after the replies that were given here.
        leaving: The ways to give another reply.
    """

    parent: int
    episode: int
    turn: int
    probability: float = 1.0
    outcome: float | None = None
    children: list[int] = field(default_factory=list)
    leaving: list[Leaving] = field(default_factory=list)


class Tree:
    """The states of a group's rollouts.

    Args:
        episodes: Rollouts of one task from one state, drawn at a temperature above 0.
        plain: Whether every turn has a node of its own, whose value is estimated by rollouts alone:
            for a world in which the same replies can have different results.

    Attributes:
        episodes, plain: As given.
        nodes: The states; a node's children come after it.
        paths: For each rollout the nodes that it passed, from the start to its end.

    Raises:
        NotReproducible: The same replies had different results.
    """

    def __init__(self, episodes: Sequence[Episode], *, plain: bool = False) -> None:
        self.episodes, self.plain = episodes, plain
        self.nodes = [Node(-1, 0, 0)]
        self.paths: list[list[int]] = []
        known: dict[tuple[int, object], int] = {}
        for number, episode in enumerate(episodes):
            check_start(episodes[0], opening(episode.steps[0]), f"rollout {number}")
            path = [0]
            for turn, step in enumerate(episode.steps):
                key = path[-1], (number if plain else tuple(step.reply_ids))
                if (at := known.get(key)) is None:
                    at = known[key] = self._add(path[-1], number, turn, plain=plain)
                else:
                    self._check_same(self.nodes[at], number, turn)
                path.append(at)
            self.paths.append(path)
        for node in self.nodes:
            if node.outcome is None:
                replies = [] if plain else [self.step(self.nodes[child]) for child in node.children]
                node.leaving = ways_out(replies)

    def step(self, node: Node) -> Step:
        """The turn that led to a node."""
        return self.episodes[node.episode].steps[node.turn - 1]

    @property
    def off(self) -> Array:
        """Probability q of leaving the tree at each node: [n]."""
        return np.array([sum(way.probability for way in node.leaving) for node in self.nodes])

    @cached_property
    def remaining(self) -> Array:
        """Mean number of turns that the rollouts still took from each node on, at least 1: [n]."""
        total, passed = np.zeros(len(self.nodes)), np.zeros(len(self.nodes))
        for path in self.paths:
            total[path] += np.arange(len(path))[::-1]
            passed[path] += 1
        return np.maximum(total / passed, 1.0)

    def values(self) -> tuple[Array, Array]:
        """Values as W x + c, x the value of leaving at each node: W [n, n] and c [n]."""
        count, off = len(self.nodes), self.off
        weights, known = np.zeros((count, count)), np.zeros(count)
        for at in reversed(range(count)):
            node = self.nodes[at]
            weights[at, at] = off[at]
            if node.outcome is not None:
                known[at] = node.outcome
            for child in node.children:
                p = self.nodes[child].probability
                weights[at] += p * weights[child]
                known[at] += p * known[child]
        return weights, known

    def turns(self) -> tuple[list[int], list[int]]:
        """The nodes before and after each turn of the rollouts, one rollout after another."""
        pairs = [pair for path in self.paths for pair in pairwise(path)]
        return [before for before, _ in pairs], [after for _, after in pairs]

    def _add(self, parent: int, number: int, turn: int, *, plain: bool) -> int:
        episode = self.episodes[number]
        p = 0.0 if plain else exp(min(sum(episode.steps[turn].logprobs), 0.0))
        ended = turn + 1 == len(episode.steps)
        at = len(self.nodes)
        self.nodes.append(Node(parent, number, turn + 1, p, episode.outcome if ended else None))
        self.nodes[parent].children.append(at)
        return at

    def _check_same(self, node: Node, number: int, turn: int) -> None:
        """Check that a turn had the same result in another rollout."""
        first, other = self.episodes[node.episode], self.episodes[number]
        if found := difference(result(first, turn), result(other, turn)):
            raise NotReproducible(
                f"task {first.task_id!r}: rollouts {node.episode} and {number} gave the same "
                f"replies up to turn {turn}, but {found}. {CAUSES}"
            )


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """How two results of a turn differ, "" if they do not."""
    for name, a in one.items():
        if a != (b := other[name]):
            return f"{name} was {a!r:.80} and {b!r:.80}"
    return ""


def result(episode: Episode, turn: int) -> dict[str, Any]:
    """What a turn of a finished episode led to, by name."""
    following = episode.steps[turn + 1 : turn + 2]
    prompt = following[0] if following else None
    return describe_result(episode.steps[turn], prompt, episode.outcome)


def opening(step: Step) -> dict[str, Any]:
    """What an episode starts with; `step` is its first turn."""
    return _describe_prompt(step, "first")


def check_start(recorded: Episode, start: Mapping[str, Any], other: str) -> None:
    """Check that an episode started as a recorded one did.

    Args:
        recorded: The episode.
        start: `opening` of the other one.
        other: What the other one is, for the message.

    Raises:
        NotReproducible: It did not.
    """
    if found := difference(opening(recorded.steps[0]), start):
        raise NotReproducible(
            f"task {recorded.task_id!r}: {other} did not start in the state that the first rollout "
            f"started in: {found}. A task and its seed must give one state: draw it from np_random "
            "after reset(seed=...) alone, and keep no state outside the environment (attributes of "
            "a class, globals, files)"
        )


def _describe_prompt(step: Step | None, which: str) -> dict[str, Any]:
    """What the policy is told before a turn, by name; None for all where there is none."""
    actions = None if step is None else step.admissible
    return {
        f"the {which} observation": step and step.observation,
        f"the {which} prompt": step and step.prompt_ids,
        f"the {which} images": step and step.images,
        f"the {which} admissible actions": None if actions is None else sorted(set(actions)),
    }


def describe_result(step: Step, then: Step | None, outcome: float) -> dict[str, Any]:
    """The result of a turn, and then the next prompt or, where there is none, the outcome."""
    names = ("reward", "valid", "progress", "anchor", "turn_reward")
    return {name: getattr(step, name) for name in names} | {
        "the end": then is None,
        **_describe_prompt(then, "next"),
        "the outcome": outcome if then is None else None,
    }


def ways_out(replies: Sequence[Step]) -> list[Leaving]:
    """The ways to give a reply that is none of these: to agree for some tokens, then to differ.

    Their probabilities, and those of the replies, sum to 1, but for the rounding of those recorded.
    """
    reach: dict[tuple[int, ...], float] = {(): 1.0}
    after: dict[tuple[int, ...], dict[int, float]] = {(): {}}
    closed: set[tuple[int, ...]] = set()  # every token that decoding allows next was given
    for step in replies:
        p, ids = 1.0, tuple(step.reply_ids)
        for place, (token, logprob) in enumerate(zip(ids, step.logprobs, strict=True)):
            reach[ids[:place]] = p
            given = after.setdefault(ids[:place], {})
            given[token] = exp(logprob)
            if step.allowed is not None and given.keys() >= set(step.allowed[place]):
                closed.add(ids[:place])
            p *= exp(logprob)
    found = []
    for ids, tokens in after.items():
        p = reach[ids] * (1.0 - sum(tokens.values()))
        if p > _ROUNDING and ids not in closed:
            found.append(Leaving(Begun(ids, tuple(sorted(tokens))), p))
    return found


_ROUNDING = 1e-6
