"""The command audit."""

import json
import sys

import pytest

AUDIT = ["--tasks", "3", "--episodes", "12", "--players", "20"]


def test_audit_prints_its_tables_and_passes(call):
    code, out, _ = call("audit", "EZPoints-v0", "split=test", *AUDIT)
    assert code == 0
    assert "contract of EZPoints-v0\nkept" in out
    assert "anchors of EZPoints-v0, seed 0\n3 tasks, 36 episodes" in out
    assert "says 2+10=" in out


def test_audit_as_json(call):
    code, out, _ = call("audit", "agent_envs:Sokoban-v0", "--json", "--seed", "3", *AUDIT)
    found = json.loads(out)
    assert (code, found["passed"], found["violation"], found["missing"]) == (0, True, "", [])
    assert found["anchors"]["seed"] == 3
    assert found["anchors"]["anchor"]["diverging"] == 0
    assert found["rewards"]["players"]["circles"]["success"]["total"] == 20


def test_the_limit_of_scripts_is_an_option(call):
    code, out, _ = call("audit", "EZPoints-v0", "split=test", "--limit", "0.05", *AUDIT)
    assert code == 1
    assert "above 5%" in out
    assert "rewards: refuted" in out


def test_too_little_evidence_is_not_shown(call):
    code, out, _ = call("audit", "EZPoints-v0", "split=test", "max_turns=1", *AUDIT)
    assert (code, "anchors: not shown (0 revisited pairs" in out) == (2, True)
    assert "refuted" not in out


def test_the_ladder_is_climbed_on_the_split_that_is_given(call):
    code, out, _ = call("audit", "EZPoints-v0", "split=val", "--ladder", "--players", "20")
    assert code == 1
    assert "ladder of EZPoints-v0, val, after 152 solved episodes of train" in out
    assert "ladder: refuted (20 tasks of each rung)" in out
    code, out, _ = call("audit", "EZPoints-v0", "--ladder", "--json", "--players", "5")
    found = json.loads(out)
    assert (code, found["split"], found["tasks"]) == (1, "test", 5)
    assert found["success"]["expert: explorer"][0] == 1
    code, _, err = call("audit", "AlfWorld-v0", "--ladder")
    assert code == 1
    assert "unknown split 'test'; known are train, valid_seen, valid_unseen" in err


@pytest.mark.parametrize("option", ["max_turns=abc", "max_tuns=3", "max_turns=0"])
def test_audit_answers_a_wrong_option_in_a_line(call, option):
    code, _, err = call("audit", "Sokoban-v0", option, *AUDIT)
    assert code == 1
    assert option.partition("=")[0] in err
    assert ("did you mean 'max_turns'?" in err) == (option == "max_tuns=3")
    assert "Traceback" not in err


OTHERS = """
import gymnasium as gym
from agent_envs import FreeText

class Door(gym.Env):
    action_space, observation_space = FreeText(), FreeText()

    def __init__(self, code="12", render_mode=None):
        self.code = code

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.typed = ""
        return "A door with two keys.", {"success": False}

    def step(self, action):
        self.typed += action if action in ("1", "2") else ""
        opened = self.typed.endswith(self.code)
        return "Open." if opened else "Click.", float(opened), opened, False, {"success": opened}

gym.register("Door-v0", entry_point=Door, max_episode_steps=8)
"""


@pytest.fixture
def doors(tmp_path, monkeypatch):
    """The current folder has the module `doors`."""
    (tmp_path / "doors.py").write_text(OTHERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.mark.usefixtures("doors")
def test_audit_of_someone_elses_environment(call):
    words = ["--word", "1", "--word", "2", "--tasks", "3", "--episodes", "30", "--players", "5"]
    code, out, _ = call("audit", "doors:Door-v0", "code='21'", *words)
    assert code == 1
    assert "info lacks goal, valid, invalid_reason, progress, anchor, admissible_actions" in out
    assert "first violation:" in out
    assert "anchor        info has no 'anchor'" in out
    assert "lead to the anchor 'Click.', where '1' gives" in out
    assert "random" in out


@pytest.mark.usefixtures("doors")
def test_audit_of_a_class_that_is_not_registered(call):
    code, out, _ = call("audit", "doors:Door", "--word", "1", *AUDIT)
    assert code == 1
    assert "contract of Door\n" in out
    code, _, err = call("audit", "doors:Door", "cod=3", *AUDIT)
    assert (code, "doors:Door has no option 'cod', did you mean 'code'?" in err) == (1, True)
    code, _, err = call("audit", "doors:Window", *AUDIT)
    assert (code, "the environment names 'doors:Window', but doors has no" in err) == (1, True)
