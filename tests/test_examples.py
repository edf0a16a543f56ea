"""The examples run; agents against a stand-in for a model, which plays some ids and not others."""

import contextlib
import importlib.util
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from agent_envs import expert
from agent_envs.experts import experts_of
from tests.agent_envs.chat_server import ChatServer, completion

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "examples"
FILES = sorted(FOLDER.glob("*.py"))
WITH_OPENAI, WITH_AGENTS = (
    [
        pytest.mark.agents,
        pytest.mark.skipif(
            importlib.util.find_spec(module) is None,
            reason=f"needs {peer} in an environment of its own; see .ci/examples",
        ),
    ]
    for module, peer in (("openai", "openai"), ("agents", "openai-agents"))
)


def loaded(name, monkeypatch):
    """The module of an example, with its folder on the path as when it is started."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def printed(call, *given):
    """What a call prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        call(*given)
    return said.getvalue()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_short_enough_to_paste_and_in_the_list(path):
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len([line for line in lines if line.strip()]) <= 60
    assert max(map(len, lines)) <= 100
    assert f"[{path.name}]({path.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"python examples/{path.name}" in text


def test_the_wrappers_add_their_terms(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / "wrappers.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()[:3]
    assert "valid=True, +0.00" in first
    assert "repetition_penalty -0.20" in second  # the second time, where one is free
    assert "'', valid=False, -0.10 (invalid_penalty -0.10" in third
    full, blind = done.stdout.split("--- the same without goal and history ---")
    assert "pencil" in full
    assert "pencil" not in blind


def successes(said):
    return [int(share) for share in re.findall(r": (\d+)% of the episodes succeed", said)]


def test_reinforce_runs(monkeypatch):
    pytest.importorskip("torch")
    reinforce = loaded("reinforce", monkeypatch)
    for method in ("grpo", "gigpo", "mgr"):
        assert len(successes(printed(reinforce.main, method, 2, 0))) == 2


@pytest.mark.long
def test_reinforce_learns(monkeypatch):
    """From 1% of the episodes to most of them, with 30 steps of 128 episodes."""
    pytest.importorskip("torch")
    shares = successes(printed(loaded("reinforce", monkeypatch).main, "has", 30, 0))
    assert shares[0] < 6
    assert sum(shares[-5:]) / 5 > 40


class Player:
    """Answers as the expert of the environment that was made last; nonsense for other ids."""

    def __init__(self, monkeypatch, good, reply):
        self.made, self.players, self.good, self.reply = [], {}, good, reply
        make = gym.make

        def kept(name, **options):
            self.made.append((name, make(name, **options)))
            return self.made[-1][1]

        monkeypatch.setattr(gym, "make", kept)
        monkeypatch.setenv("OPENAI_API_KEY", "none")

    def __call__(self, handler):
        name, env = self.made[-1]
        turn = env.unwrapped.transcript  # of the running episode, from its reset on
        if id(turn) not in self.players and name in self.good:
            kind = "explorer" if "explorer" in experts_of(type(env.unwrapped)) else "oracle"
            self.players = {id(turn): expert(env, kind)}
        player = self.players[id(turn)] if name in self.good else None
        handler.say(self.reply(handler.body, env, player))


def as_text(body, env, player):
    """A ReAct reply in the form that the environment reads."""
    if player is None:
        return completion("I would rather talk about the weather.")
    form = env.unwrapped.reply_form or "<think>{thought}</think><action>{action}</action>"
    assert form.format(thought="why", action="one action") in body["messages"][0]["content"]
    return completion(form.format(thought=player.think(), action=player.act()))


def as_tool_call(body, env, player):
    """A call of the tool `act`."""
    assert [tool["function"]["name"] for tool in body["tools"]] == ["act"]
    act = {"action": "dance" if player is None else player.act()}
    call = {"name": "act", "arguments": json.dumps(act)}
    calls = [{"id": f"call_{len(body['messages'])}", "type": "function", "function": call}]
    return completion(None, tool_calls=calls)


def scores(said):
    """The printed figures by id: success, low, high, valid, progress."""
    line = r"^(\S+): success (\d+)% \[(\d+)%, (\d+)%\], valid (\d+)%, progress ([\d.]+)$"
    found = re.findall(line, said, re.MULTILINE)
    return {name: tuple(map(float, figures)) for name, *figures in found}


GOOD = ("AppWorld-v0", "EZPoints-v0", "SearchQA-v0", "Sokoban-v0", "VisualSokoban-v0")
BAD = ("AlfWorld-v0", "Bifurcation-v0", "Sotopia-v0", "WebShop-v0", "WikiSearch-v0")


@pytest.mark.parametrize("name", [pytest.param("react_agent", marks=WITH_OPENAI)])
def test_the_react_agent_is_scored(name, monkeypatch):
    react = loaded(name, monkeypatch)
    assert set(react.IDS) == {*GOOD, *BAD, "WebShopSite-v0"}
    with ChatServer(Player(monkeypatch, GOOD, as_text)) as server:
        found = scores(printed(react.main, "stub", server.url, "3", *GOOD, *BAD))
        shown = [body["messages"][-1]["content"] for body in server.asked]
    for one in GOOD:
        # 3 of 3: Wilson's interval is [3 / (3 + 1.96^2), 1] = [43.9%, 100%]
        assert found[one] == (100, 44, 100, 100, 1.0), one
    for one in BAD:
        success, low, high, valid, progress = found[one]
        # 0 of 3: [0, 1.96^2 / (3 + 1.96^2)] = [0, 56.1%]
        assert (success, low, high) == (0, 0, 56), one
        assert valid == 0
        assert progress < 1
    images = [seen for seen in shown if not isinstance(seen, str)]
    assert images
    assert images[0][0]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")


@pytest.mark.parametrize("name", [pytest.param("agents_sdk", marks=WITH_AGENTS)])
def test_the_sdk_agent_is_scored(name, monkeypatch):
    sdk = loaded(name, monkeypatch)
    good = ("AppWorld-v0", "EZPoints-v0", "Sokoban-v0")
    with ChatServer(Player(monkeypatch, good, as_tool_call)) as server:
        found = scores(printed(sdk.main, "stub", server.url, "3", *good, "AlfWorld-v0"))
    assert {found[name] for name in good} == {(100, 44, 100, 100, 1.0)}
    assert found["AlfWorld-v0"][:4] == (0, 0, 56, 0)
