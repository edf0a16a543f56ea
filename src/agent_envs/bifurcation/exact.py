"""The true value and advantage of every turn under a policy, by dynamic programming.

It works on every small environment whose copies continue identically. The value of a state is the
expected sum of the rewards to come, the turn limit included.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from agent_envs.contract import AgentEnv

    Policy = Callable[[str, Mapping[str, Any]], Mapping[str, float]]


class TurnValue(NamedTuple):
    """The value V(s) before a turn, the value Q(s, a) of its action, and Q(s, a) - V(s)."""

    value: float
    action_value: float
    advantage: float


def turn_values(
    env: AgentEnv, task_id: str, policy: Policy, actions: Sequence[str], *, seed: int = 0
) -> list[TurnValue]:
    """The true values of the turns of one episode: one for each action.

    Args:
        env: the environment; it is copied and not changed.
        task_id: the task of the episode.
        policy: the probability of each action, from observation and info; they sum to 1. An action
            that is not listed is possible, too. It sees nothing else of the past.
        actions: the actions of the episode, from the reset on.
        seed: the seed of the reset.

    Raises:
        ValueError: an unknown task, probabilities that do not sum to 1, or actions beyond the end.
    """
    known: dict[tuple[str, str, int], float] = {}
    begun = copy.deepcopy(env)
    here, found = _State(begun, *begun.reset(seed=seed, options={"task_id": task_id})), []
    for number, action in enumerate(actions):
        if here.ended:
            raise ValueError(f"the episode ends after {number} actions, got {len(actions)}")
        value = _compute_value(here, policy, known)
        reward, there = here.step(action)
        worth = reward + _compute_value(there, policy, known)
        found.append(TurnValue(value, worth, worth - value))
        here = there
    return found


class _State(NamedTuple):
    """A copy of the environment, and what it shows."""

    env: AgentEnv
    observation: str
    info: Mapping[str, Any]
    ended: bool = False

    def step(self, action: str) -> tuple[float, _State]:
        """The reward of an action, and the state after it."""
        env = copy.deepcopy(self.env)
        observation, reward, terminated, truncated, info = env.step(action)
        return reward, _State(env, observation, info, terminated or truncated)


def _compute_value(
    state: _State, policy: Policy, known: dict[tuple[str, str, int], float]
) -> float:
    """The value of a state; `known` holds those that have been computed."""
    if state.ended:
        return 0.0
    key = state.info["anchor"], state.observation, state.info["turn"]
    if key not in known:
        chances = policy(state.observation, state.info)
        if not math.isclose(sum(chances.values()), 1) or min(chances.values()) < 0:
            raise ValueError(f"probabilities must be at least 0 and sum to 1, got {chances}")
        total = 0.0
        for action, chance in chances.items():
            if chance:
                reward, there = state.step(action)
                total += chance * (reward + _compute_value(there, policy, known))
        known[key] = total
    return known[key]
