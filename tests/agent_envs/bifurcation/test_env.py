"""Bifurcation-v0: the contract, walks of every kind, signals."""

from __future__ import annotations

import gymnasium as gym
import pytest

from agent_envs import INFO_KEYS, expert
from agent_envs.bifurcation.env import BACK, LEAVE, ON
from agent_envs.bifurcation.tasks import DOORS, EACH, KINDS, task_of
from agent_envs.testing import check_agent_env


def begun(kind, number=0):
    """The environment at the start of a task, the task, and the doors of a success."""
    env, name = gym.make("Bifurcation-v0", split="all"), f"{kind}-{number:02}"
    env.reset(options={"task_id": name})
    task = task_of(name)
    way = [task.right if room == task.bell else doors[0] for room, doors in enumerate(task.doors)]
    return env, task, way


def wrong(task):
    return next(door for door in task.doors[task.bell] if door != task.right)


def walked(env, actions):
    """Observation, reward, ended, success and progress of each step."""
    steps = [env.step(action) for action in actions]
    return [(o, r, ended, i["success"], i["progress"]) for o, r, ended, _, i in steps]


def going_on(env):
    """Doors to the end: reward and number of turns."""
    reward, turns, ended = 0.0, 0, False
    while not ended:
        _, reward, ended, _, _ = env.step(env.unwrapped.ways()[0])
        turns += 1
    return reward, turns


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"split": "test", "kind": "reversible"}, {"max_turns": 4}])
def test_the_contract_with_other_options(options):
    check_agent_env(gym.make("Bifurcation-v0", **options))


def test_documented_keys():
    env = gym.make("Bifurcation-v0")
    assert env is env.unwrapped
    assert set(env.reset(seed=1)[1]) == {*INFO_KEYS, "kind"}


def test_splits_share_no_task_and_have_every_kind_as_often():
    tasks = {split: gym.make("Bifurcation-v0", split=split).panel.task_ids for split in SPLITS}
    assert not set(tasks["train"]) & set(tasks["test"])
    assert set(tasks["train"]) | set(tasks["test"]) == set(tasks["all"])
    for ids in tasks.values():
        assert len({ids.count(name) for name in ids}) == 1
        assert all(sum(i.startswith(f"{k}-") for i in ids) == len(ids) // 6 for k in KINDS)
    assert gym.make("Bifurcation-v0", kind="early").panel.task_ids[0] == "early-00"


SPLITS = ("train", "test", "all")


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="unknown kind 'late', did you mean 'delayed'"):
        gym.make("Bifurcation-v0", kind="late")


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_are_as_described(kind):
    for number in range(EACH):
        task = task_of(f"{kind}-{number:02}")
        assert 3 <= len(task.doors) <= 6
        assert all(len(set(doors)) == DOORS for doors in task.doors)
        assert task.right in task.doors[task.bell]
        assert bool(task.news) == (kind == "distractors")
    bells = {task_of(f"{kind}-{number:02}").bell for number in range(EACH)}
    assert bells == {0} if kind == "delayed" else len(bells) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_door_succeeds_at_the_end(kind):
    env, _, way = begun(kind)
    *before, last = walked(env, way)
    assert all(step[1:4] == (0.0, False, False) for step in before)
    assert last == ("You are out, and the gate is open.", 1.0, True, True, 1.0)


@pytest.mark.parametrize("kind", ["decisive", "distractors"])
def test_a_wrong_door_ends_the_walk(kind):
    env, task, way = begun(kind)
    *_, last = walked(env, [*way[: task.bell], wrong(task)])
    assert last == ("The gate stays shut.", 0.0, True, False, 0.0)


def test_a_delayed_effect_shows_only_at_the_end():
    (env, task, way), (other, *_) = begun("delayed"), begun("delayed")
    good, bad = walked(env, way), walked(other, [wrong(task), *way[1:]])
    assert [step[:4] for step in bad[:-1]] == [step[:4] for step in good[:-1]]
    assert bad[-1][:2] == ("The gate stays shut.", 0.0)
    assert {step[4] for step in bad} == {0.0}  # what the agent does not see


def test_news_change_nothing():
    env, task, _ = begun("distractors", 1)
    assert task.bell
    seen = []
    for door in task.doors[0]:
        env.reset(options={"task_id": "distractors-01"})
        observation, *_, info = env.step(door)
        seen.append(observation.splitlines()[0])
        assert info["anchor"] == "1 False False"
    assert seen == list(task.news[0])
    assert len(set(seen)) == DOORS


def test_leaving_succeeds_after_the_right_door_only():
    env, task, way = begun("early")
    assert walked(env, [LEAVE])[0][1:4] == (0.0, True, False)
    for door, success in ((task.right, True), (wrong(task), False)):
        env, *_ = begun("early")
        *_, last = walked(env, [*way[: task.bell], door, LEAVE])
        assert last[1:4] == (float(success), True, success)


def test_a_reversible_mistake_can_be_taken_back():
    env, task, way = begun("reversible")
    steps = walked(env, [*way[: task.bell], wrong(task), BACK, *way[task.bell :]])
    assert steps[task.bell][0].startswith("A side room behind room")
    assert steps[-1][1:4] == (1.0, True, True)
    env, task, way = begun("reversible")
    *_, last = walked(env, [*way[: task.bell], wrong(task), ON])
    assert last[4] == 0.0  # progress
    assert task.bell == len(way) - 1 or going_on(env)[0] == 0.0


def test_an_irreversible_mistake_goes_on_in_vain():
    env, task, way = begun("irreversible")
    *_, last = walked(env, [*way[: task.bell], wrong(task)])
    assert (last[0].splitlines()[0], last[2]) == ("The bell falls silent.", False)
    assert going_on(env) == (0.0, len(way) - task.bell - 1)


@pytest.mark.parametrize(
    ("action", "reason"), [("door", "format"), ("", "format"), ("leave", "refused")]
)
def test_what_is_no_way_changes_nothing(action, reason):
    env, *_ = begun("decisive")
    before = env.unwrapped.transcript[-1][1]
    observation, reward, terminated, _, info = env.step(action)
    assert observation.splitlines()[-1] == before
    assert (reward, terminated, info["valid"], info["invalid_reason"]) == (0, False, False, reason)


def test_case_and_spaces_do_not_matter():
    env, _, way = begun("decisive")
    assert env.step(f"  {way[0].upper()} ")[4]["valid"]


def test_progress_is_the_share_of_the_shortest_way():
    env, task, way = begun("early")
    shortest = task.bell + 2  # the rooms to the bell, its door, and leaving
    steps = walked(env, [*way[: task.bell + 1], LEAVE])
    assert [step[4] for step in steps] == pytest.approx(
        [turn / shortest for turn in range(1, shortest + 1)]
    )


def test_the_explorer_says_why():
    env, task, way = begun("reversible")
    explorer = expert(env)
    for door in way[: task.bell]:
        assert explorer.think() == "any door will do"
        env.step(door)
    assert explorer.think() == "the bell is here, so I take the door that the goal names"
    env.step(wrong(task))
    assert (explorer.act(), explorer.think()) == (BACK, "this was the wrong door")
