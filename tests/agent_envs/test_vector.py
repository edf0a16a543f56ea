from __future__ import annotations

import errno
import os
import signal
import threading
import time

import gymnasium as gym
import numpy as np
import pytest

from agent_envs import FreeText, ParseReply, make_vec
from agent_envs.vector import call_concurrently

SEED = 11
ACTIONS = [
    ("", "right", "漢字 é 🎉"),
    ("left", "x" * 3000, "\x00\x1b["),
    ("right", "x" * 5000, "right \ud800"),
    ("open", "right", "left"),
    ("right", "right", "right"),
]


def one_by_one(seed: int, actions) -> list[tuple]:
    """What a single environment shows, restarted as "next_step" does."""
    env = gym.make("Hallway-v0")
    shown = [(env.reset(seed=seed)[0], 0.0, False, False, None)]
    ended = False
    for action in actions:
        if ended:
            observation, info = env.reset()
            shown.append((observation, 0.0, False, False, info["anchor"]))
            ended = False
            continue
        *step, info = env.step(action)
        shown.append((*step, info["anchor"]))
        ended = step[2] or step[3]
    return shown


def vectors():
    gym_async = {"vectorization_mode": "async"}
    return {
        "make_vec": lambda: make_vec("Hallway-v0", 3),
        "make_vec async": lambda: make_vec("Hallway-v0", 3, vectorization_mode="async"),
        "gym async, shared memory": lambda: gym.make_vec("Hallway-v0", 3, **gym_async),
        "gym async, spawned": lambda: gym.make_vec(
            "Hallway-v0", 3, **gym_async, vector_kwargs={"context": "spawn"}
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", vectors())
def test_every_copy_shows_what_a_single_environment_shows(name):
    env = vectors()[name]()
    try:
        observations, _ = env.reset(seed=SEED)
        opening, shown = tuple(observations), []
        for actions in ACTIONS * 3:
            observations, *rest, info = env.step(actions)
            assert env.observation_space.contains(tuple(observations))
            shown.append((tuple(observations), *rest, info["anchor"]))
    finally:
        env.close()
    for i in range(3):
        expected = one_by_one(SEED + i, [actions[i] for actions in ACTIONS * 3])
        found = [tuple(column[i] for column in step) for step in shown]
        assert opening[i] == expected[0][0]
        assert found == expected[1:]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_same_step_keeps_the_last_observation_and_info(mode):
    env = make_vec("Hallway-v0", 2, vectorization_mode=mode, autoreset="same_step")
    try:
        env.reset(seed=[1, 2])
        ended = np.zeros(2, bool)
        while not ended[0]:
            observations, _, terminated, truncated, info = env.step(("left", "look"))
            ended = terminated | truncated
        assert observations[0] == "You are in a hallway."
        assert info["final_obs"][0] == "You fell."
        assert info["final_info"]["goal"][0].startswith("open the door")
        assert info["turn"][0] == 0
    finally:
        env.close()


@pytest.mark.slow
@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_reset_right_after_an_end_begins_the_episode_that_is_played(mode, autoreset):
    options = {"vectorization_mode": mode, "autoreset": autoreset, "max_turns": 2}
    env = make_vec("Hallway-v0", 2, **options)
    try:
        for task in (4, 2):
            assert env.reset(seed=1, options={"task": task})[1]["turn"].tolist() == [0, 0]
            first, second = (env.step(("look", "look")) for _ in range(2))
            assert first[4]["task_id"].tolist() == [f"toy/train/{task + 2}"] * 2
            assert first[4]["turn"].tolist() == [1, 1]
            assert second[3].tolist() == [True, True]
    finally:
        env.close()


def test_tasks_wrappers_and_arguments_reach_every_copy():
    env = make_vec("Hallway-v0", 2, max_turns=1, wrappers=[ParseReply])
    _, info = env.reset(seed=1, options={"task": 4})
    assert info["task_id"].tolist() == ["toy/train/6"] * 2
    assert env.single_action_space == FreeText(65_536)
    *_, truncated, info = env.step(("<think>.</think><action>right</action>", "right"))
    assert truncated.tolist() == [True, True]
    assert info["valid"].tolist() == [True, False]
    assert info["action"].tolist() == ["right", ""]
    env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n, the number of copies, must be at least 1, got 0"),
        ({"vectorization_mode": "thread"}, "mode 'thread'; known are sync, async"),
        ({"autoreset": "never"}, "autoreset 'never'.*; known are next_step, same_step, disabled"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_vec("Hallway-v0", **arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode"), [("Hallway-v0", "sync"), ("Hallway-v0", "async"), ("Slow-v0", "sync")]
)
def test_every_copy_needs_its_action(name, mode):
    """Gymnasium takes a string for a sequence of letters."""
    env = make_vec(name, 3, vectorization_mode=mode)
    env.reset(seed=0)
    for given in ("right", "abc", ("right",) * 2, 3, None):
        with pytest.raises(ValueError, match="takes a list of 3 actions, one for each copy, got"):
            env.step(given)
    assert len(env.step(["right"] * 3)[0]) == 3
    env.close()


def played(env, mode):
    """All that copies show in 60 steps, resets included."""
    try:
        seen = [env.reset(seed=5), env.reset(seed=[9, 8, 7, None], options={"task": 2})]
        seen.append(env.reset(seed=5))
        rng = np.random.default_rng(0)
        for _ in range(60):
            actions = tuple(rng.choice(["left", "right", "right", "open", "?"], 4).tolist())
            *step, info = env.step(actions)
            seen.append((*step, info))
            if mode == "disabled" and (ended := step[2] | step[3]).any():
                seen.append(env.reset(options={"reset_mask": ended}))
        return seen
    finally:
        env.close()


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_copies_that_wait_show_what_they_show_one_by_one(mode, monkeypatch):
    together = played(make_vec("Slow-v0", 4, autoreset=mode), mode)
    monkeypatch.setattr("hallway.Slow.waits", False)
    alone = played(make_vec("Slow-v0", 4, autoreset=mode), mode)
    assert repr(together) == repr(alone)
    assert any("terminated" in repr(one) or np.any(one[2]) for one in together[3:])


def test_copies_that_wait_do_so_at_the_same_time(monkeypatch):
    env = make_vec("Slow-v0", 8, autoreset="same_step", max_turns=1)
    together = threading.Barrier(8, timeout=60)  # broken unless all eight are inside at once
    monkeypatch.setattr("hallway.Slow.answer", staticmethod(together.wait))
    env.reset(seed=1)
    env.step(("right",) * 8)  # a step and a reset
    env.close()


def test_a_reset_after_the_end_of_copies_that_wait_starts_them_anew():
    env = make_vec("Slow-v0", 2, max_turns=1)
    for _ in range(2):
        env.reset(seed=1)
        *_, truncated, info = env.step(("right", "right"))
        assert info["turn"].tolist() == [1, 1]
        assert truncated.any()
    env.close()


def test_an_error_of_a_copy_that_waits_is_raised_and_nothing_is_shown_twice():
    env = make_vec("Slow-v0", 3)
    env.reset(seed=1)
    with pytest.raises(OSError, match="no answer at cell"):
        env.step(("right", "break", "break"))
    fresh, info = env.reset(seed=1)
    assert fresh == ("You are in a hallway.",) * 3
    assert info["turn"].tolist() == [0, 0, 0]
    *_, info = env.step(("right",) * 3)
    assert info["turn"].tolist() == [1, 1, 1]
    env.close()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"seed": [1, 2]}, ValueError),
        ({"options": {"reset_mask": [True, False, False]}}, TypeError),
        ({"options": {"reset_mask": np.array([True])}}, ValueError),
        ({"options": {"reset_mask": np.array([1, 0, 0])}}, TypeError),
        ({"options": {"reset_mask": np.zeros(3, bool)}}, ValueError),
        ({"options": {"taks": 3}}, ValueError),
    ],
)
def test_what_gymnasium_refuses_is_refused_of_copies_that_wait(given, error):
    env = make_vec("Slow-v0", 3, autoreset="disabled")
    env.reset(seed=1)
    with pytest.raises(error):
        env.reset(**given)
    env.close()


def test_calls_at_once_keep_their_order_and_the_first_error():
    assert call_concurrently([]) == []
    assert call_concurrently([lambda i=i: time.sleep((9 - i) / 100) or i for i in range(9)]) == [
        *range(9)
    ]
    assert call_concurrently([lambda i=i: i for i in range(1000)]) == [*range(1000)]
    done = []

    def fail(i):
        time.sleep((3 - i) / 10)
        done.append(i)
        raise KeyError(i)

    with pytest.raises(KeyError, match="0"):
        call_concurrently([lambda i=i: fail(i) for i in range(3)])
    assert sorted(done) == [0, 1, 2]


def test_an_interrupt_does_not_wait_for_calls():
    inside, over, ended = threading.Barrier(3, timeout=60), threading.Event(), []

    def call():
        if inside.wait() == 0:
            os.kill(os.getpid(), signal.SIGINT)
        over.wait(60)
        ended.append(1)

    with pytest.raises(KeyboardInterrupt):
        call_concurrently([call] * 3)
    assert not ended
    over.set()


def test_a_machine_without_semaphores_is_named(monkeypatch):
    def refuse():
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("multiprocessing.Lock", refuse)
    with pytest.raises(OSError, match=r"'async' needs semaphores.*/dev/shm.*or use 'sync'"):
        make_vec("Hallway-v0", 2, vectorization_mode="async")
