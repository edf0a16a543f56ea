"""The base class of environments: episodes, ends, options, odd actions, copies of what it gives."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hallway
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from hallway import PANEL, Hallway, alter, state
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs import INFO_KEYS, ContractError, Malformed, Panel

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence


def walk_to_the_end(env: Hallway, action: str = "") -> list[tuple]:
    steps = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(action or hallway.Walker(env).act()))
    return steps


def test_an_episode_from_outside():
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
        "reward_terms": {"own": 0.0},
        "cells": [0, 1, 2, 3],
    }
    assert list(info)[:-1] == list(INFO_KEYS)
    *before, last = walk_to_the_end(env)
    assert last[:4] == ("It opens.", 1.0, True, False)
    assert (last[4]["success"], last[4]["progress"]) == (True, 1.0)
    assert all(step[1:4] == (0.0, False, False) for step in before)
    assert [step[4]["turn"] for step in (*before, last)] == list(range(1, len(before) + 2))


def begin_done(self, task_id):
    goal, turn = Hallway.begin(self, task_id)
    return goal, turn._replace(success=True, progress=1.0)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        *(
            (state(lambda *_, p=p: {"progress": p}), rf"success with progress {p} in turn \d of")
            for p in (0.0, 0.99, math.nan)
        ),
        (alter(begin=begin_done), "Altered starts task 'toy/train/2' with a success"),
    ],
)
def test_a_success_at_the_start_or_without_full_progress_is_the_environments_fault(env, message):
    def play():
        env.reset(seed=1, options={"task": 0})
        walk_to_the_end(env)

    with pytest.raises(ContractError, match=message):
        play()
    with pytest.raises(ResetNeeded):
        env.step("open")


def test_rewards_and_signals_have_exact_types():
    def loosen(_, turn):
        return {
            "reward": int(turn.reward),
            "progress": np.float32(turn.progress),
            "valid": np.bool_(turn.valid),
            "success": int(turn.success),
            "failure": 0,
        }

    env = state(loosen)
    _, info = env.reset(seed=1)
    turns = [(0.0, False, False, info), *(step[1:] for step in walk_to_the_end(env))]
    assert turns[-1][0] == 1
    for reward, terminated, truncated, one in turns:
        flags = (terminated, truncated, one["valid"], one["success"])
        assert {type(flag) for flag in flags} == {bool}
        assert type(reward) is type(one["progress"]) is float


@pytest.mark.parametrize(
    "odd",
    [
        *({name: odd} for name in ("valid", "success", "failure") for odd in ("False", None, 0.5)),
        {"truncated": "no"},
        *({name: odd} for name in ("reward", "progress") for odd in ("1_0", b"1", None, [1.0])),
    ],
    ids=repr,
)
def test_what_only_looks_like_a_flag_or_a_number_is_refused(odd):
    ((name, told),) = odd.items()
    env = alter(act=lambda self, action: Hallway.act(self, action)._replace(**odd))
    env.reset(seed=1)
    with pytest.raises(ContractError, match=re.escape(f"reports {name}={told!r} in turn 1 of")):
        env.step("open")


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
        ((), {"max_turns": True}, "max_turns must be an int, got True (bool)"),
        ((), {"render_mode": 1}, "render_mode must be a str or None, got 1 (int)"),
        ((), {"max_turns": 0}, "max_turns must be at least 1, got 0"),
        ((), {"render_mode": "human"}, "render_mode is None or in ['ansi'], got 'human'"),
        ((), {"sise": 3}, "unexpected keyword argument 'sise'"),
    ],
)
def test_options_of_a_wrong_type_or_value_are_refused(args, options, message):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        Checked(*args, **options)


def test_options_of_the_right_type_pass_and_own_types_are_left_to_the_constructor():
    Checked(3, names=iter("ab"), limit=2, own="anything", folder=Path("/"), max_turns=3)
    Checked(3, names={"a"}, limit=2.5, own=None, folder="/", render_mode="ansi")


@pytest.mark.parametrize(
    ("turns", "action", "last"),
    [
        (12, "left", ("You fell.", 0.0, True, False)),
        (3, "look", ("What is 'look'?", 0.0, False, True)),
        (1, "open", ("It opens.", 1.0, True, False)),  # an end on the last turn is no truncation
    ],
)
def test_failure_terminates_and_the_turn_limit_truncates(turns, action, last):
    env = Hallway(max_turns=turns)
    env.reset(seed=1, options={"task": 0})
    env.cell = 2 if action == "open" else env.cell
    *before, end = walk_to_the_end(env, action)
    assert end[:4] == last
    assert end[4]["success"] == (action == "open")
    assert not any(step[2] or step[3] for step in before)


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


@pytest.mark.parametrize(
    ("broken", "call"),
    [
        ("act", lambda env: env.step("right")),
        ("act", lambda env: env.step("é")),
        ("begin", lambda env: env.reset()),
    ],
)
def test_after_an_error_of_the_environment_it_needs_a_reset(broken, call, monkeypatch):
    env = Hallway()
    env.reset(seed=1)
    monkeypatch.setattr(env, broken, lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call(env)
    with pytest.raises(ResetNeeded):
        env.step("right")
    monkeypatch.undo()
    env.reset()
    env.step("right")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"tasks": 1}, ValueError, "unknown reset option 'tasks', did you mean 'task'"),
        ({"zzz": 1}, ValueError, r"unknown reset option 'zzz'; known are \('task', 'task_id'\)"),
        ({"task": 6}, ValueError, r"task must lie in 0\.\.5 for split 'train', got 6"),
        ({"task": -1}, ValueError, r"task must lie in 0\.\.5"),
        ({"task": "1"}, TypeError, "task must be an integer, got '1' of type str"),
        ({"task_id": "toy/train/9"}, ValueError, "no task 'toy/train/9'.*mean 'toy/train/7'"),
        ({"task_id": None}, ValueError, "no task None"),
        ({"task": 1, "task_id": "toy/train/3"}, ValueError, "task or task_id, not both"),
        *(
            (action, TypeError, f"an action is a string, got .*{type(action).__name__}")
            for action in (None, 3, b"right", ["right"])
        ),
    ],
)
def test_bad_options_and_actions_are_refused_and_the_episode_goes_on(given, error, message):
    env = Hallway()
    env.reset(seed=1)
    with pytest.raises(error, match=message):
        env.reset(options=given) if isinstance(given, dict) else env.step(given)
    assert env.step("right")[4]["turn"] == 1


def test_seeds_draw_every_task_and_naming_the_drawn_one_changes_nothing():
    env = Hallway()
    drawn = set()
    for seed in range(60):
        opening = env.reset(seed=seed)
        task_id = opening[1]["task_id"]
        assert env.reset(seed=seed, options={"task_id": task_id}) == opening
        drawn.add(task_id)
    assert drawn == set(PANEL.task_ids)


def test_without_a_seed_the_next_episode_follows_from_the_last_seed():
    one, other = Hallway(), Hallway()
    one.reset(seed=5)
    other.reset(seed=5)
    episodes = [one.reset()[1] for _ in range(10)]
    assert episodes == [other.reset()[1] for _ in range(10)]
    assert len({info["task_id"] for info in episodes}) > 1


@pytest.mark.parametrize(
    ("action", "kept", "notice"),
    [
        ("x" * 1_000_000, "x" * 4096, "has 1000000 characters, more than 4096"),
        ("漢" * 5000, "漢" * 4096, "has 5000 characters, more than 4096"),
        ("right \ud800", "right \ufffd", "characters that are no text"),
        (Malformed("Say it again."), "", "Say it again."),
    ],
)
def test_what_cannot_be_an_action_costs_a_turn_and_nothing_else(action, kept, notice):
    env = state(lambda _, turn: {"reward": 0.5})
    env.max_turns = 3
    _, start = env.reset(seed=1, options={"task": 3})
    observation, reward, terminated, truncated, info = env.step(action)
    assert notice in observation
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == start | {"valid": False, "invalid_reason": "format", "turn": 1}
    assert info["cells"] is not start["cells"]
    assert env.transcript[-1] == (kept, observation)
    assert [(paid := env.step("right"))[1], paid[4]["anchor"]] == [0.5, f"5/{env.cell}"]
    assert env.step(action)[1:4] == (0.0, False, True), "the third of three turns is the last"


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


def test_control_characters_reach_the_environment_and_surrogates_are_replaced():
    env = Hallway()
    env.reset(seed=1)
    assert env.step("\x1b[2J\x00")[0] == r"What is '\x1b[2J\x00'?"
    torn = state(lambda *_: {"observation": "a\ud83dé\udc00🎉"})
    assert torn.reset(seed=1)[0] == "a\ufffdé\ufffd🎉"


def test_the_transcript_has_every_action_and_observation_and_render_shows_the_latest():
    env = Hallway(render_mode="ansi")
    assert env.render() is None
    first, _ = env.reset(seed=1, options={"task": 5})
    assert env.render() == "You are in a hallway."
    shown = [env.step(a)[0] for a in ("right", "dance")]
    assert env.transcript == [("", first), ("right", shown[0]), ("dance", shown[1])]
    assert env.render() == "> dance\nWhat is 'dance'?"
    env.reset()
    assert len(env.transcript) == 1
    plain = Hallway()
    plain.reset(seed=1)
    assert plain.render() is None


def test_what_was_returned_belongs_to_the_caller_and_the_rest_to_the_environment():
    kept = ["left", "right"]
    own = {"a": [1, [2]], "b": {"c": 3, "d": ([4], {5})}, "e": {"f": [6]}, "g": {"h": {7: 8}}}
    env = state(lambda *_: {"admissible_actions": kept, "extra": {"kept": kept, "own": own}})
    _, info = env.reset(seed=1)
    before, got = repr(own), info["own"]
    assert repr(got) == before
    for part in (got["a"][1], *got["b"]["d"], got["e"]["f"], got["g"]["h"], got["g"], got):
        part.clear()
    info["admissible_actions"].append("fly")
    info["kept"].append("fly")
    info.clear()
    assert env.step("open")[4]["admissible_actions"] == kept == ["left", "right"]
    assert repr(own) == before
