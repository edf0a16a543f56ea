"""Exact bias of an estimator, in worlds so small that every group of rollouts can be enumerated.

A world is a finite decision process with a softmax policy, whose parameters are the logits of each
state. `World.gradient` is the gradient of its expected return. `measure` calls an estimator with
every group that the policy can sample, each by its probability, so that neither has an error of
sampling. Left out: clipping, weights of tokens, and every other part of an update.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from credit.columns import stack_turn_rewards
from credit.estimators import estimate
from credit.stats import Array
from credit.turns import Turns
from credit.validation import check_known, check_positive

END = ""
"""The state after the last turn."""


class Move(NamedTuple):
    """An action of a state.

    Attributes:
        probability: Probability under the policy, above 0.
        to: Next state, or `END`.
        reward: Reward of the turn.
        outcome: Outcome of the trajectory, if it ends.
        progress: Progress after the turn, in [0, 1].
        valid: Whether the turn is valid.
    """

    probability: float
    to: str = END
    reward: float = 0.0
    outcome: float = 0.0
    progress: float = 0.0
    valid: bool = True


class Path(NamedTuple):
    """A trajectory: its (state, action) pairs, and its probability given the task."""

    taken: tuple[tuple[str, str], ...]
    probability: float


@dataclass(frozen=True, eq=False)
class World:
    """A finite world and the policy that acts in it.

    Args:
        states: The actions of each state.
        tasks: First state of each task. Tasks are equally frequent, and a group has one task.
        texts: What the observation of a state is, if it is not its name; it is the anchor.

    Raises:
        ValueError: The probabilities of a state do not sum to 1, a state is unknown, or a
            trajectory would never end.
    """

    states: Mapping[str, Mapping[str, Move]]
    tasks: tuple[str, ...] = ("start",)
    texts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for state, moves in self.states.items():
            total = sum(move.probability for move in moves.values())
            if not math.isclose(total, 1) or min(move.probability for move in moves.values()) <= 0:
                raise ValueError(f"probabilities of {state!r} must be above 0 and sum to 1")
        for task in self.tasks:
            self._check_ends(task, ())

    def _check_ends(self, state: str, before: tuple[str, ...]) -> None:
        check_known("unknown state", [state], self.states)
        if state in before:
            raise ValueError(f"a trajectory must end, but {state!r} leads back to itself")
        for move in self.states[state].values():
            if move.to != END:
                self._check_ends(move.to, (*before, state))

    @cached_property
    def parameters(self) -> dict[tuple[str, str], int]:
        """Index of the logit of each action of each state, P in total."""
        pairs = [(state, action) for state, moves in self.states.items() for action in moves]
        return {pair: index for index, pair in enumerate(pairs)}

    @property
    def binary(self) -> bool:
        """Whether outcomes are 0 and 1, and turns are not paid."""
        moves = [move for moves in self.states.values() for move in moves.values()]
        return all(move.outcome in {0.0, 1.0} and not move.reward for move in moves)

    def value(self, state: str) -> float:
        """Expected return from a state on, with the outcome."""
        return sum(
            move.probability * self.action_value(state, action)
            for action, move in self.states[state].items()
        )

    def action_value(self, state: str, action: str) -> float:
        """Expected return after an action in a state, with its reward and the outcome."""
        move = self.states[state][action]
        return move.reward + (move.outcome if move.to == END else self.value(move.to))

    def paths(self, state: str) -> Iterator[Path]:
        """Every trajectory from a state on."""
        for action, move in self.states[state].items():
            rests = [Path((), 1.0)] if move.to == END else self.paths(move.to)
            for rest in rests:
                yield Path(((state, action), *rest.taken), move.probability * rest.probability)

    def score(self, state: str, action: str) -> Array:
        """Gradient of the log-probability of an action: [P]."""
        slope = np.zeros(len(self.parameters))
        for other, move in self.states[state].items():
            slope[self.parameters[state, other]] = (other == action) - move.probability
        return slope

    def gradient(self) -> Array:
        """Gradient of the expected return, averaged over tasks: [P]."""
        paths = [path for task in self.tasks for path in self.paths(task)]
        total = [
            path.probability * self._whole(path) * sum(self.score(*pair) for pair in path.taken)
            for path in paths
        ]
        return np.asarray(sum(total) / len(self.tasks))

    def turns(self, groups: Sequence[Sequence[Path]], *, split: bool = True) -> Turns:
        """The columns of some groups of trajectories.

        The only verifier, "implicit", gives the exact advantage of the turn; it takes the place of
        a learned model of rewards. The entropy is that of the policy. In a binary world the right
        answer has, before each turn, the probability of success; a batch in which it is 0 somewhere
        has no `gold_logprob`.

        Args:
            groups: Trajectories of each group.
            split: Whether rewards are in `reward` and in `turn_reward` as "paid", in the place of
                "implicit". Otherwise `outcome` is the whole return, which the last reward is
                without, as in an episode of the trainer.
        """
        paths = [path for group in groups for path in group]
        pairs = [pair for path in paths for pair in path.taken]
        moves = [self.states[state][action] for state, action in pairs]
        paid = [move.reward for move in moves]
        if split:
            reward, outcome, verified = paid, self._outcome, {"paid": paid}
        else:
            better = [self.action_value(*pair) - self.value(pair[0]) for pair in pairs]
            outcome, verified = self._whole, {"implicit": better}
            reward, last = [*paid], -1
            for path in paths:
                last += len(path.taken)
                reward[last] += self._outcome(path) - self._whole(path)
        columns: dict[str, Any] = {
            "group": np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
            "outcome": [outcome(path) for path in paths],
            "goal": ["goal"] * len(paths),
            "trajectory": np.repeat(np.arange(len(paths)), [len(path.taken) for path in paths]),
            "reward": reward,
            "valid": [move.valid for move in moves],
            "progress": [move.progress for move in moves],
            "anchor": [self.texts.get(state, state) for state, _ in pairs],
            "action": [action for _, action in pairs],
            **stack_turn_rewards(verified),
            "entropy": [self._entropy(state) for state, _ in pairs],
        }
        if self.binary and all(self.value(state) for state, _ in pairs):
            columns["gold_logprob"] = [math.log(self.value(state)) for state, _ in pairs]
        return Turns(**columns)

    def _outcome(self, path: Path) -> float:
        state, action = path.taken[-1]
        return self.states[state][action].outcome

    def _whole(self, path: Path) -> float:
        return self._outcome(path) + sum(self.states[s][a].reward for s, a in path.taken)

    def _entropy(self, state: str) -> float:
        chances = [move.probability for move in self.states[state].values()]
        return abs(-sum(chance * math.log(chance) for chance in chances))


class Bias(NamedTuple):
    """Expectation of an estimated gradient, and how it compares with the true one.

    Attributes:
        expected: [P] expected gradient.
        relative: Norm of its difference from the true gradient, over that of the true one.
        cosine: Cosine with the true gradient; 0 if the expected gradient is 0.
        noise: Standard deviation of the gradient of one batch (root of the summed variances), over
            the norm of the expected gradient; infinite if that is 0.
    """

    expected: Array
    relative: float
    cosine: float
    noise: float


def measure(
    estimator: Callable[..., ArrayLike], world: World, rollouts: int, *, split: bool = True
) -> Bias:
    """Exact expectation of the policy gradient of an estimator.

    E[1/K Σ_i Σ_t A_{i,t} ∇ log π(a_{i,t} | s_{i,t})], averaged over tasks. A batch has one group of
    K rollouts of each task, and every batch is enumerated.

    Args:
        estimator: Callable from `Turns`, or from `Turns` and a generator that is None, to [N]
            advantages.
        world: World and policy.
        rollouts: Size K of a group.
        split: See `World.turns`. True for one that reads rewards of verifiers.

    Returns:
        The expected gradient and its bias.

    Raises:
        TypeError: The estimator returns no numbers.
        ValueError: `rollouts` is below 1, the true gradient is 0, or the estimator returns not one
            finite number for each turn.
    """
    check_positive("rollouts", rollouts, "it is the size of a group")
    mean, square = np.zeros(len(world.parameters)), 0.0
    for turns, scores, chance in _batches(world, rollouts, split):
        gradient = estimate(estimator, turns) @ scores
        mean += chance * gradient
        square += chance * float(gradient @ gradient)
    return _compare_gradients(mean, world.gradient(), square)


class _Batch(NamedTuple):
    turns: Turns
    scores: Array  # [N, P], divided by the number of trajectories
    chance: float


@lru_cache(maxsize=8)
def _batches(world: World, rollouts: int, split: bool) -> list[_Batch]:
    """Every batch that the policy can sample, with its probability."""
    scores = {pair: world.score(*pair) for pair in world.parameters}
    choices = [list(_groups(list(world.paths(task)), rollouts)) for task in world.tasks]
    batches = []
    for batch in product(*choices):
        groups, chances = zip(*batch, strict=True)
        slopes = [scores[pair] for group in groups for path in group for pair in path.taken]
        turns = world.turns(groups, split=split)
        batches.append(_Batch(turns, np.asarray(slopes) / len(turns.group), math.prod(chances)))
    return batches


def _groups(paths: list[Path], rollouts: int) -> Iterator[tuple[tuple[Path, ...], float]]:
    """Every multiset of trajectories with its probability."""
    for members in combinations_with_replacement(paths, rollouts):
        repeated = math.prod(map(math.factorial, Counter(members).values()))
        orders = math.factorial(rollouts) // repeated
        yield members, orders * math.prod(path.probability for path in members)


def _compare_gradients(mean: Array, truth: Array, square: float) -> Bias:
    size, norm = float(np.linalg.norm(mean)), float(np.linalg.norm(truth))
    if not norm:
        raise ValueError("the true gradient is 0, so that no bias is relative to it")
    error = float(np.linalg.norm(mean - truth)) / norm
    if size < 1e-12 * norm:  # what rounding leaves of 0
        return Bias(mean, error, 0.0, math.inf)
    variance = max(square - size**2, 0.0)
    return Bias(mean, error, float(mean @ truth) / (size * norm), math.sqrt(variance) / size)


def _stopping(pay: float, falls: float) -> World:
    """Three turns, each of which may be the last one; c = 0.6 continues."""
    ends = [1.0 - falls * turn if falls else 0.0 for turn in range(3)]
    return World(
        {
            "start": {"stop": Move(0.4, END, pay, ends[0]), "go": Move(0.6, "turn 2", pay)},
            "turn 2": {"stop": Move(0.4, END, pay, ends[1]), "go": Move(0.6, "turn 3", pay)},
            "turn 3": {"end": Move(1.0, END, pay, ends[2])},
        }
    )


WORLDS: dict[str, World] = {
    # Every turn is paid 1, and the policy may stop early.
    "stop": _stopping(pay=1.0, falls=0.0),
    # Every turn is paid 0.25, and every further turn costs 0.2 of the outcome: to go on is right.
    "falling": _stopping(pay=0.25, falls=0.2),
    # Two rooms have one text, and a trajectory may enter both.
    "alias": World(
        {
            "start": {"left": Move(0.5, "room 1"), "right": Move(0.5, "room 2")},
            "room 1": {"take": Move(0.4, END, outcome=1.0), "go on": Move(0.6, "room 2")},
            "room 2": {"take": Move(0.7, END), "look": Move(0.3, END, outcome=1.0)},
        },
        texts={"room 1": "a room", "room 2": "a room"},
    ),
    # Two tasks of one turn: one is solved half of the time, the other nearly always.
    "dead": World(
        {
            "hard": {"right": Move(0.5, END, outcome=1.0), "wrong": Move(0.5, END)},
            "easy": {"right": Move(0.95, END, outcome=1.0), "wrong": Move(0.05, END)},
        },
        tasks=("hard", "easy"),
    ),
    # Two turns or four; the longer way succeeds more often.
    "lengths": World(
        {
            "start": {"short": Move(0.5, "gamble"), "long": Move(0.5, "walk")},
            "gamble": {"win": Move(0.4, END, outcome=1.0), "lose": Move(0.6, END)},
            "walk": {"on": Move(1.0, "walk on")},
            "walk on": {"on": Move(1.0, "fair")},
            "fair": {"win": Move(0.7, END, outcome=1.0), "lose": Move(0.3, END)},
        }
    ),
    # A valid action lowers the chance of success, and an invalid one is harmless.
    "harm": World(
        {
            "start": {"break": Move(0.6, "broken"), "mumble": Move(0.4, "whole", valid=False)},
            "broken": {"win": Move(0.3, END, outcome=1.0), "lose": Move(0.7, END)},
            "whole": {"win": Move(0.6, END, outcome=1.0), "lose": Move(0.4, END)},
        }
    ),
    # Progress can be undone and made again: the same two states are entered twice.
    "undo": World(
        {
            "empty": {"put": Move(1.0, "full", progress=0.5)},
            "full": {
                "finish": Move(0.5, END, outcome=1.0, progress=1.0),
                "drop": Move(0.1, END, progress=0.5),
                "undo": Move(0.4, "empty again"),
            },
            "empty again": {"put": Move(1.0, "full again", progress=0.5)},
            "full again": {
                "finish": Move(0.5, END, outcome=1.0, progress=1.0),
                "drop": Move(0.5, END, progress=0.5),
            },
        },
        tasks=("empty",),
        texts={"empty again": "empty", "full again": "full"},
    ),
}
"""Worlds for a table of biases."""
