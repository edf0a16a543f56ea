"""Exact values: worked by hand for every kind, and sums over an episode."""

import gymnasium as gym
import numpy as np
import pytest

from agent_envs.bifurcation.env import BACK, KINDS, LEAVE, ON, draw_task
from agent_envs.bifurcation.exact import turn_values


def uniform(_, info):
    ways = info["admissible_actions"]
    return dict.fromkeys(ways, 1 / len(ways))


def make(kind, number=0, **options):
    """The environment, the task's name and task."""
    name = f"{kind}-{number:02}"
    return gym.make("Bifurcation-v1", split="all", **options), name, draw_task(name)


def choose_doors(task, at_bell):
    """The door at the last bell, and elsewhere the first that is not wrong."""
    safe = [
        next(door for door in doors if (door == task.right) == (room in task.bells))
        for room, doors in enumerate(task.doors)
    ]
    return [at_bell if room == task.bells[-1] else door for room, door in enumerate(safe)]


def find_wrong(task):
    return next(door for door in task.doors[task.bells[-1]] if door != task.right)


@pytest.mark.parametrize("kind", ["decisive", "delayed", "distractors", "irreversible"])
def test_what_each_door_is_worth(kind):  # of three doors one is right at the bell, elsewhere two
    env, name, task = make(kind)
    chances = [1 / 3 if room in task.bells else 2 / 3 for room in range(len(task.doors))]
    bell = task.bells[-1]
    values = [np.prod(chances[room:]) for room in range(len(chances))]
    for door, after in ((task.right, 1.0), (find_wrong(task), 0.0)):
        ends = kind in {"decisive", "distractors"} and not after
        actions = choose_doors(task, door)[: bell + 1 if ends else None]
        for room, turn in enumerate(turn_values(env, name, uniform, actions)):
            value = values[room] * (after if room > bell else 1)
            there = (values[room] / chances[room]) * (after if room >= bell else 1)
            assert (turn.value, turn.action_value) == pytest.approx((value, there))


def test_leaving_early():
    # after the bells 1/4 leave and 2/4 go on: V = 3/4 in the last room, 5/8 in the one before, ...;
    # at a bell one of four ways is right, elsewhere two
    env, name, task = make("early")
    first, bell = task.bells
    after = 1.0
    for _ in range(len(task.doors) - bell - 1):
        after = 1 / 4 + after / 2
    before = [after / 2 ** (bell - room + 2 + (room <= first)) for room in range(bell + 1)]
    found = turn_values(env, name, uniform, choose_doors(task, task.right))
    assert [turn.value for turn in found[: bell + 1]] == pytest.approx(before)
    assert found[bell].advantage == pytest.approx(after * 3 / 4)
    (left,) = turn_values(env, name, uniform, [LEAVE])
    assert left.advantage == pytest.approx(-before[0])


@pytest.mark.long
def test_a_mistake_that_can_be_taken_back():
    # without a limit, with W for what follows: at a bell V = 1/3 W + 2/3 (1/2 V), so V = 1/2 W;
    # elsewhere V = 2/3 W + 1/3 (1/2 V), so V = 4/5 W
    env, name, task = make("reversible", max_turns=60)
    left = len(task.doors) - task.bells[-1] - 1
    value = 1 / 2 * (4 / 5) ** left
    fallen = choose_doors(task, find_wrong(task))[: task.bells[-1] + 1]
    *_, fall, back = turn_values(env, name, uniform, [*fallen, BACK])
    assert (fall.value, fall.advantage) == pytest.approx((value, -value / 2))
    assert (back.value, back.action_value) == pytest.approx((value / 2, value))
    *_, on = turn_values(env, name, uniform, [*fallen, ON])
    assert on.advantage == pytest.approx(-value / 2)
    # one turn more than the rooms: going back takes two, so that only the first try counts
    env, *_ = make("reversible", max_turns=len(task.doors) + 1)
    *_, fall, back = turn_values(env, name, uniform, [*fallen, BACK])
    assert fall.value == pytest.approx(1 / 3 * (2 / 3) ** left)
    assert (back.value, back.advantage) == (0, 0)


def test_a_policy_of_its_own_and_invalid_actions():
    # a policy that says something else half of the time, and knows the door: it needs four right
    # turns in twelve; V is the chance of that
    env, name, task = make("decisive", max_turns=12)

    def knowing(observation, info):
        doors = [way for way in info["admissible_actions"] if way != task.right]
        bell = any(task.things[room] in observation for room in task.bells)
        return {task.right if bell else doors[0]: 0.5, "dance": 0.5}

    rooms = len(task.doors)
    short = sum(np.prod([(12 - i) / (i + 1) for i in range(right)]) for right in range(rooms))
    found = turn_values(env, name, knowing, ["dance", *choose_doors(task, task.right)])
    assert found[0].value == pytest.approx(1 - short / 2**12)
    assert found[0].advantage < 0


@pytest.mark.parametrize("kind", KINDS)
def test_advantages_sum_to_the_return_less_the_first_value(kind):
    env, name, _ = make(kind, 3)
    rng = np.random.default_rng(0)
    for _ in range(5):
        _, info = env.reset(options={"task_id": name})
        actions, total, ended = [], 0.0, False
        while not ended:
            ways = info["admissible_actions"]
            actions.append(ways[rng.integers(len(ways))])
            _, reward, terminated, truncated, info = env.step(actions[-1])
            total, ended = total + reward, terminated or truncated
        found = turn_values(env, name, uniform, actions)
        assert sum(turn.advantage for turn in found) == pytest.approx(total - found[0].value)


def test_the_environment_is_unchanged_and_mistakes_are_refused():
    env, name, task = make("decisive")
    env.reset(options={"task_id": name})
    before = list(env.unwrapped.transcript)
    with pytest.raises(ValueError, match=r"the episode ends after \d actions, got \d"):
        turn_values(env, name, uniform, [*choose_doors(task, task.right), "red"])
    with pytest.raises(ValueError, match="must be at least 0 and sum to 1"):
        turn_values(env, name, lambda *_: {"red": 0.5}, ["red"])
    assert env.unwrapped.transcript == before
