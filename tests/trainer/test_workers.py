"""Environments in worker processes: the same episodes, time limits, deaths, and no process left."""

from __future__ import annotations

import gc
import importlib
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from trainer.errors import RecipeError
from trainer.learn.sft import attempt_demonstrations, require_expert
from trainer.play.environments import Env, PromptOptions
from trainer.play.records import Task
from trainer.play.rollout import Rollouts
from trainer.play.source import draw_tasks
from trainer.scale.workers import apply_to

from .conftest import Letters, Script

SOURCE = Path(__file__).parents[2] / "src"
OWN = """
import os, subprocess, sys, time

import gymnasium

from agent_envs import AgentEnv, Panel, Template, Turn


class Strange(Exception):
    def __init__(self, one, other):
        super().__init__(one)


class Odd(AgentEnv):
    template = Template("{current_observation} Go on.", "{current_observation} Where?")

    def __init__(self, max_turns=9, refuse=False):
        if refuse:
            raise ValueError("there is no room")
        super().__init__(Panel("train", ("odd/0", "odd/1")), max_turns=max_turns)

    def begin(self, task_id):
        return "Do something.", Turn(f"process {os.getpid()}")

    def act(self, action):
        if action == "sleep":
            self.child = subprocess.Popen(["sleep", "600"])
            open("children", "a").write(f"{self.child.pid} ")
            time.sleep(600)
        if action == "die":
            os._exit(3)
        if action == "exit":
            sys.exit(4)
        if action == "strange":
            raise Strange("odd", "one")
        if action == "plain":
            raise gymnasium.error.ResetNeeded("plain")
        won = action == "win" or (action == "win later" and self.turn > 0)
        return Turn(f"process {os.getpid()}", success=won, progress=float(won))

    def close(self):
        open("closed", "a").write(f"{os.getpid()} ")


def pid(env):
    return os.getpid()


class Winner:
    def __init__(self, env):
        pass

    def act(self):
        return "win"

    def think(self):
        return "!"
"""


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """Options of the environment above, in a module of the current folder."""
    (tmp_path / "odd.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield lambda **options: Env("odd:Odd", max_turns=9, **{"processes": 1} | options)
    sys.modules.pop("odd", None)


def says(action):
    return f"<think></think><action>{action}</action>"


def play(env, *actions, tasks=2, rollouts=1, context="turn", blind=()):
    """Rollouts whose every reply is by the turn: episodes and prompts."""
    player = Rollouts(env, PromptOptions(context), "train", blind=blind, max_tokens=10**6)
    drawn = draw_tasks(player.panel, tasks=tasks, rollouts=rollouts, seed=1, step=1)
    turns = [0] * len(drawn)

    def answer(text, row):
        turns[row] += 1
        return says(actions[turns[row] % len(actions)])

    script = Script(answer, limit=10**6)
    return player.play(drawn, script, seed=3), script.prompts


def ended(pid, seconds=20.0):
    """Whether a process ends within some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_corridor_in_two_processes(corridor, monkeypatch):
    """Episodes, demonstrations, turn rewards and the check of experts, as in this process."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    here = Env("corridor:Corridor", max_turns=4, wrappers={"credit.rewards:ProgressReward": {}})
    there = Env(**{**vars(here), "processes": 2, "step_seconds": 30.0})
    found = [
        play(env, "east", "north", tasks=3, blind=("goal", "both", "observation"))
        for env in (here, there)
    ]
    assert repr(found[0]) == repr(found[1])
    assert len(corridor.MADE) > 0
    shown = []
    for env in (here, there):
        player = Rollouts(env, PromptOptions(), "train")
        drawn = draw_tasks(player.panel, tasks=3, rollouts=1, seed=1, step=1)
        shown.append(attempt_demonstrations(player, drawn, Letters()))
        assert not any(info.get("turn_reward") for info in player.probe())
        require_expert(player, "corridor:Explorer")
    assert repr(shown[0]) == repr(shown[1])


SHOPPING = ["search[red shirt]", "click[back to search]", "search[lamp]", "click[buy now]"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("AlfWorld-v0", ["look", "inventory", "go to desk 1"]),
        ("WebShop-v0", SHOPPING),
        ("Sokoban-v0", ["up", "left", "down", "right", "right"]),
    ],
)
def test_environments_of_ours_play_the_same(name, actions):
    data = {} if name == "Sokoban-v0" else {"data": "embedded"}
    found = [
        play(Env(name, max_turns=6, processes=count, **data), *actions, rollouts=2, context=context)
        for count in (0, 2)
        for context in ("turn", "history")
    ]
    assert repr(found[:2]) == repr(found[2:])
    assert len(found[0][0][0].steps) > 1


def test_environments_are_divided_among_processes_which_end_with_them(odd):
    episodes, _ = play(odd(processes=2), "win", tasks=4)
    seen = [step.observation for episode in episodes for step in episode.steps]
    assert len(set(seen)) == 2
    assert f"process {os.getpid()}" not in seen[0]
    assert len(seen) == 4
    gc.collect()
    closed = []
    for _ in range(500):  # a thread may hold the last result a little longer
        closed = Path("closed").read_text().split() if Path("closed").is_file() else []
        if len(closed) == 4:
            break
        time.sleep(0.02)
    assert sorted(f"process {pid} Go on." for pid in closed) == sorted(seen)


@pytest.mark.parametrize(
    ("action", "options", "message"),
    [
        ("plain", {}, r"ResetNeeded: plain.*In the worker process:\nTraceback"),
        ("strange", {}, r"RuntimeError: Strange: odd \(.*odd\.py:\d+\)"),  # no pickle
        ("sleep", {"step_seconds": 0.5},
         r"WorkerError: odd:Odd, task 'odd/0': step did not end within 0\.5 s, .* raise env\."),
        ("die", {},
         "WorkerError: odd:Odd, .*: step did not end: its worker process exited with 3 after"),
        ("die", {"processes": 2}, "exited with 3"),
        ("exit", {}, "exited with 4"),
    ],
)  # fmt: skip
def test_an_error_or_a_lost_process_costs_one_episode(odd, action, options, message):
    """The other environment of the process is made again and plays its turns again."""
    player, began = Rollouts(odd(**options), PromptOptions("turn"), "train"), time.monotonic()
    tasks = [Task(f"odd/{n}", n, 0) for n in range(2)]
    turns = Counter()

    def answer(text, row):
        turns[row] += 1
        return says("wait" if turns[row] == 1 else ("win later" if row else action))

    failure, other = player.attempt(tasks, Script(answer), seed=0)
    assert (failure.task_id, failure.turn) == ("odd/0", 1)
    assert re.search(message, f"{failure.error}\n{failure.traceback}", re.DOTALL)
    assert (other.success, len(other.steps)) == (True, 2)
    assert time.monotonic() - began < 30
    assert all(map(ended, Path("children").read_text().split() if action == "sleep" else ()))
    assert all(e.success for e in player.play(tasks, Script(lambda *_: says("win")), seed=0))


def test_an_environment_that_cannot_be_made_ends_the_run(odd):
    with pytest.raises(RecipeError, match=r"env\.id='odd:Odd': there is no room"):
        play(odd(options={"refuse": True}), "win")


@pytest.mark.long
def test_an_expert_of_ones_own_plays_in_the_worker(odd):
    player = Rollouts(odd(), PromptOptions("turn"), "train")
    require_expert(player, "odd:Winner")
    drawn = draw_tasks(player.panel, tasks=2, rollouts=1, seed=1, step=1)
    shown = attempt_demonstrations(player, drawn, Letters(), "odd:Winner")
    assert [step.reply for step in shown[0].steps] == [says("win").replace("><", ">!<", 1)]
    (env,) = player.envs(1)
    assert apply_to(env, importlib.import_module("odd").pid) != os.getpid()


OWNER = """
import sys
from trainer.play.environments import Env, PromptOptions
from trainer.play.rollout import Rollouts
from trainer.scale.workers import apply_to

player = Rollouts(Env("odd:Odd", processes=2), PromptOptions(), "train")
envs = player.envs(2)
for env in envs:
    env.reset(options={"task_id": "odd/0"})
    print(env.reset(options={"task_id": "odd/0"})[0].split()[1], flush=True)
envs[0].step("<think></think><action>sleep</action>")
"""


@pytest.mark.long
def test_a_killed_owner_leaves_no_worker(odd, tmp_path):
    """One worker waits for a call, the other is in the middle of one that does not end."""
    command = [sys.executable, "-c", OWNER]
    path = os.pathsep.join([str(SOURCE), str(tmp_path)])
    with subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
    ) as owner:
        pids = [owner.stdout.readline().strip() for _ in range(2)]
        while not Path("children").is_file():
            time.sleep(0.05)
        time.sleep(0.1)
        owner.kill()
    assert all(map(ended, [*pids, *Path("children").read_text().split()]))
