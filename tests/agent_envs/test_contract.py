from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import hallway
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hallway import PANEL, Hallway
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs import INFO_KEYS, AgentEnv, ContractError, Malformed, Panel, Turn

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence


def walk_to_the_end(env: gym.Env[str, str], action: str = "") -> list[tuple]:
    steps = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(action or hallway.Walker(env).act()))
    return steps


def test_an_episode_told_from_outside():
    env = Hallway()
    observation, info = env.reset(seed=1, options={"task": 2})
    # length 4; the seed's second draw put the agent into a cell 0..3
    assert observation == "You are in a hallway."
    assert info == {
        "goal": "open the door 4 steps away",
        "valid": True,
        "invalid_reason": "",
        "progress": env.cell / 5,
        "anchor": f"4/{env.cell}",
        "success": False,
        "admissible_actions": ["left", "right"],
        "task_id": "toy/train/4",
        "turn": 0,
        "cells": [0, 1, 2, 3],
    }
    assert list(info)[:-1] == list(INFO_KEYS)


def test_success_terminates():
    env = Hallway()
    env.reset(seed=1)
    *before, last = walk_to_the_end(env)
    assert last[:4] == ("It opens.", 1.0, True, False)
    assert last[4]["success"]
    assert last[4]["progress"] == 1.0
    assert all(step[1:4] == (0.0, False, False) for step in before)
    assert [step[4]["turn"] for step in (*before, last)] == list(range(1, len(before) + 2))


@pytest.mark.parametrize("progress", [0.0, 0.99, float("nan")])
def test_a_success_without_full_progress_is_the_environments_fault(progress):
    class Doubtful(Hallway):
        def told(self, text, **rest):
            return super().told(text, **rest)._replace(progress=progress)

    env = Doubtful()
    env.reset(seed=1, options={"task": 2})
    with pytest.raises(
        ContractError, match=rf"Doubtful reports success with progress {progress} in turn \d of"
    ):
        walk_to_the_end(env)
    with pytest.raises(ResetNeeded):
        env.step("open")


def test_a_start_with_a_success_is_the_environments_fault():
    class Done(Hallway):
        def begin(self, task_id):
            goal, turn = super().begin(task_id)
            return goal, turn._replace(success=True, progress=1.0)

    env = Done()
    with pytest.raises(ContractError, match="Done starts task 'toy/train/4' with a success"):
        env.reset(seed=1, options={"task": 2})
    with pytest.raises(ResetNeeded):
        env.step("open")


def test_rewards_and_signals_have_exact_types():
    class Loose(Hallway):
        def told(self, text, **rest):
            turn = super().told(text, **rest)
            return turn._replace(
                reward=int(turn.reward),
                progress=np.float32(turn.progress),
                valid=np.bool_(turn.valid),
                success=int(turn.success),
                failure=None,
            )

    env = Loose()
    _, info = env.reset(seed=1)
    told = [(0.0, False, False, info), *(step[1:] for step in walk_to_the_end(env))]
    assert told[-1][0] == 1
    for reward, terminated, truncated, one in told:
        assert {type(terminated), type(truncated), type(one["valid"]), type(one["success"])} == {
            bool
        }
        assert type(reward) is type(one["progress"]) is float


class Checked(Hallway):
    def __init__(
        self,
        size: int = 2,
        *,
        names: Sequence[str] = (),
        limit: float | None = None,
        own: Panel | None = None,
        folder: str | os.PathLike[str] = "",
        **rest: Any,
    ) -> None:
        super().__init__(PANEL, **rest)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (("2",), {}, "size must be an int, got '2' (str)"),
        ((np.int64(2),), {}, "size must be an int, got np.int64(2) (int64)"),
        ((), {"names": "ab"}, "names must be a sequence of str, got 'ab' (str)"),
        ((), {"names": ["a", 1]}, "names must be a sequence of str, got ['a', 1] (list)"),
        ((), {"limit": False}, "limit must be a number or None, got False (bool)"),
        ((), {"limit": float("nan")}, "limit must be a number or None, got nan (float)"),
        ((), {"folder": b"/"}, "folder must be a str or a path, got b'/' (bytes)"),
        ((), {"max_turns": 2.5}, "max_turns must be an int, got 2.5 (float)"),
        ((), {"max_turns": True}, "max_turns must be an int, got True (bool)"),
        ((), {"render_mode": 1}, "render_mode must be a str or None, got 1 (int)"),
    ],
)
def test_options_of_a_wrong_type_are_refused_before_the_constructor(args, options, message):
    with pytest.raises(TypeError, match=re.escape(f"Checked: {message}")):
        Checked(*args, **options)


def test_options_of_the_right_type_pass_and_own_types_are_left_to_the_constructor():
    Checked(3, names=iter("ab"), limit=2, own="anything", folder=Path("/"), max_turns=3)
    Checked(3, names={"a"}, limit=2.5, own=None, folder="/", render_mode="ansi")
    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        Checked(sise=3)


def test_failure_terminates_without_success():
    env = Hallway()
    env.reset(seed=1)
    observation, reward, terminated, truncated, info = walk_to_the_end(env, "left")[-1]
    assert (observation, reward, terminated, truncated) == ("You fell.", 0.0, True, False)
    assert not info["success"]


def test_the_turn_limit_truncates():
    env = Hallway(max_turns=3)
    env.reset(seed=1)
    steps = walk_to_the_end(env, "look")
    assert [step[3] for step in steps] == [False, False, True]
    assert not any(step[2] for step in steps)


def test_an_end_on_the_last_turn_is_no_truncation():
    env = Hallway(max_turns=1)
    env.reset(seed=1, options={"task": 0})
    env.cell = 2
    assert env.step("open")[2:4] == (True, False)


@pytest.mark.parametrize("moment", ["before", "after success", "after the limit"])
def test_steps_outside_an_episode_are_refused(moment):
    env = Hallway(max_turns=10)
    if moment != "before":
        env.reset(seed=1)
        walk_to_the_end(env, "" if moment == "after success" else "look")
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        env.step("right")
    env.reset(seed=1)
    env.step("right")


def test_after_an_environment_broke_it_needs_a_reset():
    class Breaks(Hallway):
        def act(self, action: str) -> Turn:
            raise OSError("the machine's fault")

    env = Breaks()
    env.reset(seed=1)
    for action in ("right", "é"):
        with pytest.raises(OSError, match="machine"):
            env.step(action)
        with pytest.raises(ResetNeeded):
            env.step("right")
        env.reset()


def test_after_a_reset_that_broke_it_needs_a_reset():
    env = Hallway()
    env.reset(seed=1)
    env.begin = lambda task_id: 1 / 0
    with pytest.raises(ZeroDivisionError):
        env.reset()
    with pytest.raises(ResetNeeded):
        env.step("right")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tasks": 1}, ValueError, "unknown reset option 'tasks', did you mean 'task'"),
        ({"task-id": "x"}, ValueError, "unknown reset option 'task-id', did you mean 'task_id'"),
        ({"zzz": 1}, ValueError, r"unknown reset option 'zzz'; known are \('task', 'task_id'\)"),
        ({3: 1}, ValueError, "unknown reset option 3"),
        ({"task": 6}, ValueError, r"task must lie in 0\.\.5 for split 'train', got 6"),
        ({"task": -1}, ValueError, r"task must lie in 0\.\.5"),
        ({"task": "1"}, TypeError, "task must be an integer, got '1' of type str"),
        ({"task_id": "toy/train/9"}, ValueError, "no task 'toy/train/9'.*mean 'toy/train/7'"),
        ({"task_id": None}, ValueError, "no task None"),
        ({"task": 1, "task_id": "toy/train/3"}, ValueError, "task or task_id, not both"),
    ],
)
def test_bad_options_are_refused_and_the_episode_goes_on(options, error, message):
    env = Hallway()
    env.reset(seed=1)
    with pytest.raises(error, match=message):
        env.reset(options=options)
    env.step("right")


@pytest.mark.parametrize(
    "options", [{"task": 3}, {"task": np.int64(3)}, {"task_id": "toy/train/5"}]
)
def test_a_task_can_be_named(options):
    assert Hallway().reset(options=options)[1]["task_id"] == "toy/train/5"


def test_seeds_draw_every_task_and_naming_the_drawn_one_changes_nothing():
    env = Hallway()
    drawn = set()
    for seed in range(60):
        shown = env.reset(seed=seed)
        task_id = shown[1]["task_id"]
        assert env.reset(seed=seed, options={"task_id": task_id}) == shown
        drawn.add(task_id)
    assert drawn == set(PANEL.task_ids)


def test_without_a_seed_the_next_episode_follows_from_the_last_seed():
    one, other = Hallway(), Hallway()
    one.reset(seed=5)
    other.reset(seed=5)
    episodes = [one.reset()[1] for _ in range(10)]
    assert episodes == [other.reset()[1] for _ in range(10)]
    assert len({info["task_id"] for info in episodes}) > 1


@pytest.mark.parametrize("action", [None, 3, 2.5, b"right", ["right"], ("right",), object()])
def test_an_action_that_is_no_string_is_refused_and_costs_nothing(action):
    env = Hallway()
    env.reset(seed=1)
    with pytest.raises(TypeError, match=f"an action is a string, got .*{type(action).__name__}"):
        env.step(action)
    assert env.step("right")[4]["turn"] == 1


def test_a_subclass_of_str_is_a_string():
    env = Hallway()
    env.reset(seed=1)
    assert env.step(np.str_("right"))[4]["valid"]
    assert type(env.transcript[-1][0]) is str


@pytest.mark.parametrize(
    ("action", "kept", "notice"),
    [
        ("x" * 1_000_000, "x" * 4096, "has 1000000 characters, more than 4096"),
        ("漢" * 5000, "漢" * 4096, "has 5000 characters, more than 4096"),
        ("right \ud800", "right \ufffd", "characters that are no text"),
        (Malformed("Say it again."), "", "Say it again."),
    ],
)
def test_what_is_no_action_costs_a_turn_and_nothing_else(action, kept, notice):
    env = Hallway(max_turns=2)
    _, start = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(action)
    assert notice in observation
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == start | {"valid": False, "invalid_reason": "format", "turn": 1}
    assert info["cells"] is not start["cells"]
    assert env.transcript[-1] == (kept, observation)
    assert env.step(action)[3], "the second of two turns is the last"


def test_what_is_no_action_is_not_paid_what_the_turn_before_was():
    class Paying(Hallway):
        def told(self, text, **rest):
            return super().told(text, **{"reward": 0.5} | rest)

    env = Paying()
    env.reset(seed=1, options={"task": 5})
    assert env.step("right")[1] == 0.5
    assert env.step("x" * 5000)[1] == 0.0


def test_after_what_is_no_action_the_world_goes_on():
    env = Hallway()
    env.reset(seed=1, options={"task": 3})
    cell = env.cell
    env.step("x" * 5000)
    assert env.step("right")[4]["anchor"] == f"5/{cell + 1}"


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec=None)))
def test_any_text_is_an_action_and_every_observation_can_be_written(action):
    env = Hallway()
    env.reset(seed=1)
    observation, _, _, _, info = env.step(action)
    observation.encode()
    assert info["valid"] == (action.strip() in {"left", "right"})
    assert observation in env.observation_space
    "".join(part for pair in env.transcript for part in pair).encode()


def test_control_characters_reach_the_environment_as_they_are():
    env = Hallway()
    env.reset(seed=1)
    assert env.step("\x1b[2J\x00")[0] == r"What is '\x1b[2J\x00'?"


def test_unpaired_surrogates_in_an_observation_are_replaced():
    class Torn(Hallway):
        def told(self, text, **rest):
            return super().told(text, **rest)._replace(observation="a\ud83dé\udc00🎉")

    assert Torn().reset(seed=1)[0] == "a\ufffdé\ufffd🎉"


def test_the_transcript_has_every_action_and_observation():
    env = Hallway()
    first, _ = env.reset(seed=1, options={"task": 5})
    shown = [env.step(a)[0] for a in ("open", "right")]
    assert env.transcript == [("", first), ("open", shown[0]), ("right", shown[1])]
    env.reset()
    assert len(env.transcript) == 1


def test_what_was_returned_belongs_to_the_caller():
    env = Hallway()
    _, info = env.reset(seed=1)
    info["admissible_actions"].append("fly")
    info.clear()
    assert env.step("open")[4]["admissible_actions"] == ["left", "right"]


def test_what_the_environment_keeps_stays_its_own():
    class Keeping(Hallway):
        def told(self, text, **rest):
            return super().told(text, **rest)._replace(admissible_actions=kept, extra={"own": kept})

    kept = ["left", "right"]
    _, info = Keeping().reset(seed=1)
    info["admissible_actions"].append("fly")
    info["own"].append("fly")
    assert kept == ["left", "right"]


def test_render():
    env = Hallway(render_mode="ansi")
    assert env.render() is None
    env.reset(seed=1)
    assert env.render() == "You are in a hallway."
    env.step("dance")
    assert env.render() == "> dance\nWhat is 'dance'?"
    plain = Hallway()
    plain.reset(seed=1)
    assert plain.render() is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_turns": 0}, "max_turns must be at least 1, got 0"),
        ({"render_mode": "human"}, r"render_mode is None or in \['ansi'\], got 'human'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Hallway(**arguments)


def test_the_base_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        AgentEnv(Panel("x", ("a",)), max_turns=1)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
EXTRAS = st.recursive(
    SCALARS | st.tuples(SCALARS) | st.frozensets(st.integers()) | st.sets(st.integers()),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts) | st.tuples(parts),
    max_leaves=20,
)


def containers(value: Any) -> set[int]:
    """Ids of the lists, dicts and sets in a value."""
    parts = value.values() if isinstance(value, dict) else value
    inner = isinstance(value, list | dict | tuple) and set().union(*map(containers, parts))
    return (inner or set()) | ({id(value)} if isinstance(value, list | dict | set) else set())


@given(st.dictionaries(st.text(min_size=1).map("x_{}".format), EXTRAS, max_size=4))
def test_info_has_deep_copies_of_the_extra_keys(extra):
    class Extra(Hallway):
        def begin(self, task_id):
            goal, turn = super().begin(task_id)
            return goal, turn._replace(extra=extra)

    info = Extra().reset(seed=1)[1]
    told = {key: value for key, value in info.items() if key not in INFO_KEYS}
    assert repr(told) == repr(copy.deepcopy(extra))
    assert containers(told).isdisjoint(containers(extra))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("env", [Hallway(), gym.make("Hallway-v0")])
def test_copies_branch_from_the_state(copied, env):
    env.reset(seed=4, options={"task": 5})
    env.step("right")
    other = copied(env)
    assert walk_to_the_end(env) == walk_to_the_end(other)
    assert env.reset() == other.reset()


def test_making_adds_no_wrapper_and_the_spec_rebuilds():
    env = gym.make("Hallway-v0", max_turns=5)
    assert env is env.unwrapped
    again = gym.make(env.spec)
    assert again.max_turns == 5
    assert again.reset(seed=3) == env.reset(seed=3)


@pytest.mark.slow
def test_the_same_episode_in_processes_with_other_hash_seeds():
    program = "import hallway as c, agent_envs.testing as t; print(t.digest(c.Hallway(), 5))"
    shown = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(hallway.__file__).parent)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("0", "1", "2")
    }
    assert len(shown) == 1
