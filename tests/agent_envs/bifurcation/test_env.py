"""Bifurcation-v1: the contract, walks of every kind, signals."""

import gymnasium as gym
import pytest

from agent_envs import INFO_KEYS
from agent_envs.bifurcation.env import BACK, DOORS, EACH, KINDS, LEAVE, ON, draw_task
from agent_envs.testing import check_agent_env


def begin(kind, number=0):
    """The environment at the start of a task, the task, and the doors of a success."""
    env, name = gym.make("Bifurcation-v1", split="all"), f"{kind}-{number:02}"
    env.reset(options={"task_id": name})
    task = draw_task(name)
    way = [
        next(door for door in doors if (door == task.right) == (room in task.bells))
        for room, doors in enumerate(task.doors)
    ]
    return env, task, way


def find_wrong(task):
    """A wrong door at the last bell."""
    return next(door for door in task.doors[task.bells[-1]] if door != task.right)


def walk(env, actions):
    """Observation, reward, ended, success and progress of each step."""
    steps = [env.step(action) for action in actions]
    return [(o, r, ended, i["success"], i["progress"]) for o, r, ended, _, i in steps]


def walk_on(env):
    """Doors to the end: reward and number of turns."""
    reward, turns, ended = 0.0, 0, False
    while not ended:
        _, reward, ended, _, _ = env.step(env.unwrapped.list_ways()[0])
        turns += 1
    return reward, turns


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"split": "test", "kind": "reversible"}, {"max_turns": 4}])
def test_the_contract_with_other_options(options):
    env = gym.make("Bifurcation-v1", **options)
    assert set(env.reset(seed=1)[1]) == {*INFO_KEYS, "kind"}
    check_agent_env(env)


def test_splits_share_no_task_and_have_every_kind_as_often():
    splits = ("train", "test", "all")
    tasks = {split: gym.make("Bifurcation-v1", split=split).panel.task_ids for split in splits}
    assert not set(tasks["train"]) & set(tasks["test"])
    assert set(tasks["train"]) | set(tasks["test"]) == set(tasks["all"])
    things = [{t for i in tasks[split] for t in draw_task(i).things} for split in splits[:2]]
    assert not things[0] & things[1]
    for ids in tasks.values():
        assert len(set(ids)) == len(ids)
        assert all(sum(i.startswith(f"{k}-") for i in ids) == len(ids) // 6 for k in KINDS)
    assert gym.make("Bifurcation-v1", kind="early").panel.task_ids[0] == "early-00"
    with pytest.raises(ValueError, match="unknown kind 'late', did you mean 'delayed'"):
        gym.make("Bifurcation-v1", kind="late")


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_are_as_described(kind):
    tasks = [draw_task(f"{kind}-{number:02}") for number in range(EACH)]
    for task in tasks:
        assert 5 <= len(task.doors) <= 6
        assert all(len(set(doors)) == DOORS for doors in task.doors)
        assert all(task.right in doors for doors in task.doors)
        assert len(set(task.things)) == len(task.doors)
        assert bool(task.news) == (kind == "distractors")
    bells = [task.bells for task in tasks]
    assert all(first < second for first, second in bells)
    after = {"delayed": 2, "early": 1, "irreversible": 1}.get(kind, 0)  # rooms that follow
    assert all(task.bells[-1] + after < len(task.doors) for task in tasks)
    assert max(map(bells.count, bells)) <= EACH * 0.4  # no two rooms are a good guess


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_door_succeeds_and_a_wrong_one_may_end_the_walk(kind):
    env, task, way = begin(kind)
    *before, last = walk(env, way)
    assert all(step[1:4] == (0.0, False, False) for step in before)
    assert last == ("You are out, and the gate is open.", 1.0, True, True, 1.0)
    if kind in ("decisive", "distractors"):
        env, *_ = begin(kind)
        *_, last = walk(env, [*way[: task.bells[-1]], find_wrong(task)])
        assert last == ("The gate stays shut.", 0.0, True, False, 0.0)


def test_a_delayed_effect_shows_only_at_the_end():
    (env, task, way), (other, *_) = begin("delayed"), begin("delayed")
    bell = task.bells[-1]
    good, bad = walk(env, way), walk(other, [*way[:bell], find_wrong(task), *way[bell + 1 :]])
    assert [step[:4] for step in bad[:-1]] == [step[:4] for step in good[:-1]]
    assert bad[-1][:2] == ("The gate stays shut.", 0.0)
    assert {step[4] for step in bad[bell:]} == {0.0}  # the agent does not see this


@pytest.mark.parametrize("kind", KINDS)
def test_the_goals_colour_is_wrong_without_a_bell(kind):
    number = next(n for n in range(EACH) if 1 not in draw_task(f"{kind}-{n:02}").bells)
    env, task, way = begin(kind, number)
    steps = walk(env, [way[0], task.right])
    assert steps[-1][4] == 0  # progress
    assert steps[-1][2] == (kind in ("decisive", "distractors"))
    assert steps[-1][2] or "side room" in steps[-1][0] or walk_on(env)[0] == 0


def test_news_change_nothing():
    number = next(n for n in range(EACH) if 0 not in draw_task(f"distractors-{n:02}").bells)
    env, task, _ = begin("distractors", number)
    safe = [row for row, door in enumerate(task.doors[0]) if door != task.right]
    for row in safe:
        env.reset(options={"task_id": f"distractors-{number:02}"})
        observation, *_, info = env.step(task.doors[0][row])
        assert observation.splitlines()[0] == task.news[0][row]
        assert info["anchor"] == "1 False False"


def test_leaving_succeeds_after_both_right_doors_only():
    made = {n: draw_task(f"early-{n:02}") for n in range(EACH)}
    number = next(n for n, task in made.items() if task.bells[-1] + 2 < len(task.doors))
    env, task, way = begin("early", number)
    first, bell = task.bells
    assert walk(env, [LEAVE])[0][1:4] == (0.0, True, False)
    env, *_ = begin("early", number)
    assert walk(env, [*way[:bell], find_wrong(task), LEAVE])[-1][1:4] == (0.0, True, False)
    env, *_ = begin("early", number)
    assert walk(env, [*way[: first + 1], LEAVE])[-1][1:4] == (0.0, True, False)
    env, *_ = begin("early", number)
    steps = walk(env, [*way[: bell + 1], LEAVE])
    assert steps[-1][1:4] == (1.0, True, True)
    shortest = bell + 2  # the rooms to the last bell, its door, and leaving
    shares = [turn / shortest for turn in range(1, shortest + 1)]
    assert [step[4] for step in steps] == pytest.approx(shares)


def test_a_reversible_mistake_can_be_taken_back():
    env, task, way = begin("reversible")
    bell = task.bells[-1]
    steps = walk(env, [*way[:bell], find_wrong(task), BACK, *way[bell:]])
    assert steps[bell][0].startswith("A side room behind room")
    assert steps[-1][1:4] == (1.0, True, True)
    env, task, way = begin("reversible")
    *_, last = walk(env, [*way[:bell], find_wrong(task), ON])
    assert last[4] == 0.0  # progress
    assert bell == len(way) - 1 or walk_on(env)[0] == 0.0


def test_after_an_irreversible_mistake_nothing_succeeds():
    env, task, way = begin("irreversible")
    bell = task.bells[-1]
    *_, last = walk(env, [*way[:bell], find_wrong(task)])
    assert (last[0].splitlines()[0], last[2]) == ("The bells fall silent.", False)
    assert walk_on(env) == (0.0, len(way) - bell - 1)


@pytest.mark.parametrize(
    ("action", "reason"), [("door", "format"), ("", "format"), ("leave", "refused")]
)
def test_other_words_change_nothing(action, reason):
    env, _, way = begin("decisive")
    before = env.unwrapped.transcript[-1][1]
    observation, reward, terminated, _, info = env.step(action)
    assert observation.splitlines()[-1] == before
    assert (reward, terminated, info["valid"], info["invalid_reason"]) == (0, False, False, reason)
    assert env.step(f"  {way[0].upper()} ")[4]["valid"]  # case and spaces do not matter
