"""The genuine benchmark, played by HTTP on a task of our own making; see .ci/appworld."""

import os
import signal
import subprocess
from pathlib import Path

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401  registers
from agent_envs.appworld.remote import COMMAND

VENV = os.environ.get("APPWORLD_VENV", "")
WORLD = Path(__file__).with_name("genuine_world.py")
pytestmark = [
    pytest.mark.genuine,
    pytest.mark.skipif(not VENV, reason="needs the benchmark's own environment; see .ci/appworld"),
]
LOGIN = """
(account,) = apis.supervisor.show_account_passwords()
me = apis.supervisor.show_profile()
token = apis.simple_note.login(username=me["email"], password=account["password"])["access_token"]
notes = apis.simple_note.search_notes(access_token=token, query="lease")  # best first
note = next(note for note in notes if note["title"] == "Lease")
print(note["title"])
"""
PIN = 'apis.simple_note.update_note(note_id=note["note_id"], pinned=True, access_token=token)'
DONE = "apis.supervisor.complete_task()"


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    """The environment with a server of its own, which may take its time on a busy machine."""
    root = tmp_path_factory.mktemp("appworld")
    given = {**os.environ, "APPWORLD_ROOT": str(root)}
    subprocess.run([f"{VENV}/bin/python", WORLD], env=given, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent_envs.appworld.remote.STARTING", 1200)
        patch.setattr("agent_envs.appworld.remote.GRACE", 1200)
        server = COMMAND.format(venv=VENV) + " {port}"
        made = gym.make("AppWorld-v0", server=server, data=root)
        yield made
        made.close()


def step(env, code):
    return env.step(f"<think>so</think>\n```python\n{code}\n```")


def test_an_episode_to_success(env):
    observation, info = env.reset(seed=0)
    assert "Ada Moss ada.moss@postbox.example" in observation
    assert "It is 2024-05-03" in observation
    assert info["goal"] == "Pin my note about the lease."
    assert (info["tests"], info["tests_passed"], info["progress"]) == (3, 1, 0.0)
    observation, _, _, _, info = step(env, LOGIN)
    assert (observation.strip(), info["valid"], info["progress"]) == ("Lease", True, 0.0)
    observation, _, _, _, info = step(env, PIN)
    assert (observation.strip(), info["progress"]) == ("Execution successful.", 1.0)
    observation, reward, terminated, _, info = step(env, DONE)
    assert (reward, terminated, info["success"], info["failures"]) == (1.0, True, True, [])


def test_what_is_wrong_is_invalid_and_ending_at_once_fails(env):
    env.reset(seed=0)
    wrong = {
        "print(apis.garage.open())": "unknown",
        "print(apis.simple_note.burn())": "unknown",
        "print(apis.simple_note.search_notes())": "refused",
        "print(apis.simple_note.login(username=3))": "refused",
        "apis.x = (": "error",
        "print(1 / 0)  # apis.": "error",
        "open('/etc/passwd')  # apis.": "error",
    }
    for code, reason in wrong.items():
        observation, _, _, _, info = step(env, code)
        assert (info["valid"], info["invalid_reason"]) == (False, reason), observation
    _, reward, terminated, _, info = step(env, DONE)
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    assert len(info["failures"]) == 2


def test_a_server_that_is_killed_is_replaced_and_told_all(env):
    env.reset(seed=0)
    step(env, LOGIN)
    os.killpg(env.unwrapped.world.server.process.pid, signal.SIGKILL)
    step(env, PIN)
    assert step(env, DONE)[4]["success"]
