"""Environments in worker processes: the same turns, time limits, deaths, and no process left."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from hallway import Hallway

from agent_envs import ParseReply, Prompt
from agent_envs.alfworld.env import AlfWorld
from agent_envs.sokoban.env import VisualSokoban
from agent_envs.webshop.env import WebShop
from agent_envs.workers import Workers, apply_to

pytestmark = pytest.mark.slow

OWN = """
import os, subprocess, sys, time

from agent_envs import AgentEnv, Panel, Turn


class Strange(Exception):
    def __init__(self, one, other):
        super().__init__(one)

class Odd(AgentEnv):
    graded = True

    def __init__(self):
        super().__init__(Panel("train", ("odd/0", "odd/1")), max_turns=9)

    def begin(self, task_id):
        self.said, self.anchor = [], ""
        return "Do something.", Turn(f"process {os.getpid()}")

    def act(self, action):
        if action == "sleep":
            self.child = subprocess.Popen(["sleep", "600"])
            open("children", "a").write(f"{self.child.pid} ")
            time.sleep(600)
        if action == "exit":
            sys.exit(4)
        if action == "strange":
            raise Strange("odd", "one")
        if action == "plain":
            raise OSError("plain")
        if action == "drift":
            self.anchor = f"process {os.getpid()}"
        self.said.append(action)
        return Turn(" ".join(self.said), anchor=self.anchor, success=action == "win", progress=1.0)

    def close(self):
        open("closed", "a").write(f"{os.getpid()} ")


def pid(env):
    return os.getpid()
"""


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """The module with the environment above, in the current folder."""
    (tmp_path / "odd.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("odd")
    sys.modules.pop("odd", None)


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


@pytest.mark.parametrize(
    ("made", "actions"),
    [
        (Hallway, ["right", "open", "sing"]),
        (AlfWorld, ["look", "inventory", "go to desk 1"]),
        (WebShop, ["search[red shirt]", "click[back to search]"]),
        (VisualSokoban, ["up", "left", "down", "right"]),
    ],
)
def test_an_environment_in_a_worker_shows_what_it_shows_here(made, actions):
    here, seen = Prompt(made()), []
    (there,) = Workers(partial(Prompt, made()), processes=1, step_seconds=60).make_envs(1)
    for env in (here, there):
        shown = [env.reset(seed=3, options={"task": 1})]
        for action in actions:
            shown.append((env.blind("goal"), env.blind("observation"), env.images))
            shown.append(env.step(action))
        seen.append(shown)
    assert repr(seen[0]) == repr(seen[1])
    assert there.panel.task_ids == here.unwrapped.panel.task_ids
    assert (there.max_turns, there.reply_form) == (here.unwrapped.max_turns, "")


def test_whole_replies_are_read_in_a_worker_as_here():
    workers = Workers(partial(ParseReply, Hallway()), processes=1, step_seconds=60)
    here, (there,) = ParseReply(Hallway()), workers.make_envs(1)
    for env in (here, there):
        env.reset(seed=3, options={"task": 1})
    reply = "<think>On.</think><action>right</action>"
    assert repr(there.step(reply)) == repr(here.step(reply))


def test_environments_are_divided_among_processes_which_end_with_them(odd):
    workers = Workers(odd.Odd, processes=2)
    envs = workers.make_envs(4)
    assert envs[0].graded
    pids = [apply_to(env, odd.pid) for env in envs]
    assert pids[:2] == pids[2:]
    assert len({*pids, os.getpid(), apply_to(odd.Odd(), odd.pid)}) == 3
    del workers, envs[:]
    gc.collect()
    assert all(map(ended, pids))
    assert sorted(Path("closed").read_text().split()) == sorted(map(str, pids))


@pytest.mark.parametrize(
    ("action", "seconds", "processes", "message"),
    [
        ("plain", 0, 1, r"plain$"),
        ("strange", 0, 1, r"^Strange: odd \(.*odd\.py:\d+\)"),  # no pickle
        ("sleep", 0.5, 1,
         r"Odd, task 'odd/0': step did not end within 0\.5 s, .* raise step_seconds"),
        ("exit", 0, 1, "Odd, .*: step did not end: its worker process exited with 4 after"),
        ("exit", 0, 2, "exited with 4"),
    ],
)  # fmt: skip
def test_an_error_or_a_lost_process_costs_one_environment(odd, action, seconds, processes, message):
    """The other one of the process is made again and plays its turns again."""
    workers = Workers(odd.Odd, processes=processes, step_seconds=seconds, name="Odd")
    envs = workers.make_envs(2)
    for number, env in enumerate(envs):
        env.reset(options={"task_id": f"odd/{number}"})
        env.step("wait")
    with pytest.raises(Exception, match=message) as raised:
        envs[0].step(action)
    assert action != "plain" or "In the worker process" in raised.value.__notes__[0]
    assert envs[1].step("win")[0] == "wait win"
    assert all(map(ended, Path("children").read_text().split() if action == "sleep" else ()))
    for env in envs:  # a reset makes it again
        env.reset()
        assert env.step("win")[2]


def test_turns_that_lead_to_another_state_are_an_error(odd):
    one, other = Workers(odd.Odd, processes=1).make_envs(2)
    other.reset(options={"task_id": "odd/1"})
    other.step("drift")
    one.reset()
    with pytest.raises(RuntimeError, match="exited with 4"):
        one.step("exit")
    with pytest.raises(RuntimeError, match=r"task 'odd/1'.* its 2 calls led to another state"):
        other.step("win")


OWNER = """
import odd
from agent_envs.workers import Workers, apply_to

envs = Workers(odd.Odd, processes=2).make_envs(2)
for env in envs:
    env.reset()
    print(apply_to(env, odd.pid), flush=True)
envs[0].step("sleep")
"""


@pytest.mark.slow
def test_a_killed_owner_leaves_no_worker(odd):
    """One worker waits for a call, the other is in the middle of one that does not end."""
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, env=paths, stdout=subprocess.PIPE, text=True) as owner:
        pids = [owner.stdout.readline().strip() for _ in range(2)]
        while not Path("children").is_file():
            time.sleep(0.05)
        time.sleep(0.1)
        owner.kill()
    assert all(map(ended, [*pids, *Path("children").read_text().split()]))
