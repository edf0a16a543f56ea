"""The examples run; agents against a stand-in for a model, which plays some ids and not others."""

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import credit
from agent_envs import expert
from agent_envs.experts import experts_of
from tests.agent_envs.chat_server import ChatServer, completion

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "examples"
FILES = sorted(FOLDER.glob("*.py"))
PEERS = ("openai", "agents", "langchain", "mcp", "pydantic_ai", "smolagents")
WITH_PEERS = [
    pytest.mark.agents,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, PEERS)),
        reason=f"needs {', '.join(PEERS)} in an environment of its own; see .ci/agents",
    ),
]


def loaded(name, monkeypatch):
    """The module of an example, with its folder on the path as when it is started."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def command(tmp_path, monkeypatch):
    """The command `agent-envs` of this Python on the path."""
    run = "import agent_envs_command; agent_envs_command.main()"
    path = shlex.quote(os.pathsep.join(filter(None, sys.path)))
    script = tmp_path / "agent-envs"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -c "{run}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


def printed(call, *given):
    """What a call prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        call(*given)
    return said.getvalue()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_short_enough_to_paste_and_in_the_list(path):
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len([line for line in lines if line.strip()]) <= (40 if "play_" in path.name else 60)
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
    assert "'', valid=False, -0.10 (own +0.00, invalid_penalty -0.10" in third
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


GOOD = ("AppWorld-v1", "EZPoints-v0", "SearchQA-v1", "Sokoban-v0", "VisualSokoban-v0")
BAD = ("AlfWorld-v0", "Bifurcation-v1", "Sotopia-v1", "WebShop-v1", "WikiSearch-v1")


@pytest.mark.parametrize("name", [pytest.param("react_agent", marks=WITH_PEERS)])
def test_the_react_agent_is_scored(name, monkeypatch):
    react = loaded(name, monkeypatch)
    assert set(react.OURS.values()) == {*GOOD, *BAD, "Points-v0", "TextWorld-v0", "WebShopSite-v1"}
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


@pytest.mark.parametrize("name", [pytest.param("agents_sdk", marks=WITH_PEERS)])
def test_the_sdk_agent_is_scored(name, monkeypatch):
    sdk = loaded(name, monkeypatch)
    good = ("AppWorld-v1", "EZPoints-v0", "Sokoban-v0")
    with ChatServer(Player(monkeypatch, good, as_tool_call)) as server:
        found = scores(printed(sdk.main, "stub", server.url, "3", *good, "AlfWorld-v0"))
    assert {found[name] for name in good} == {(100, 44, 100, 100, 1.0)}
    assert found["AlfWorld-v0"][:4] == (0, 0, 56, 0)


PLAYERS = ("langgraph", "mcp", "openai_agents", "pydantic_ai", "smolagents")


def step_one_by_one(name, replies, task, seed):
    """What plain steps report of the same actions: a tuple for each turn, success, outcome."""
    env = gym.make(name)
    _, before = env.reset(seed=seed, options={"task": task})
    form, turns = env.unwrapped.reply_form or "{action}", []
    for action in (action for reply in replies for action in reply):
        *_, reward, terminated, truncated, info = env.step(form.format(thought="", action=action))
        signals = [info[key] for key in ("valid", "invalid_reason", "progress")]
        turns.append((action, *signals, before["progress"], before["anchor"]))
        before = info
    assert terminated or truncated
    return turns, info["success"], reward


@pytest.mark.parametrize("name", ["AlfWorld-v0", "WebShop-v1", "AppWorld-v1"])
@pytest.mark.parametrize("player", [pytest.param(one, marks=WITH_PEERS) for one in PLAYERS])
@pytest.mark.usefixtures("command")
def test_two_calls_in_a_reply_are_the_turns_of_one_call_after_the_other(player, name, monkeypatch):
    play = loaded(f"play_{player}", monkeypatch).play
    stub = sys.modules["stub_replies"]
    replies = stub.list_replies(name)
    assert len(replies[0]) == 2
    episode = play(name)
    turns = [
        (one.action, one.valid, one.invalid_reason, one.progress, one.progress_before, one.anchor)
        for one in episode.turns
    ]
    expected = step_one_by_one(name, replies, **stub.TASK)
    assert (turns, episode.success, episode.outcome) == expected
    assert episode.success
    assert episode.done
    assert len(credit.Turns.from_episodes([episode]).reward) == len(turns)


@pytest.mark.parametrize("player", [pytest.param(one, marks=WITH_PEERS) for one in PLAYERS])
@pytest.mark.usefixtures("command")
def test_the_page_has_the_lines_of_the_examples_and_what_they_print(player, monkeypatch):
    page = (FOLDER.parent / "docs" / "integrations" / "agents.md").read_text(encoding="utf-8")
    example = loaded(f"play_{player}", monkeypatch)
    (section,) = [one for one in page.split("\n## ") if f"play_{player}.py" in one]
    shown, said = re.findall(r"```(?:python|text)\n(.*?)```", section, re.DOTALL)
    source = [line.strip() for line in Path(example.__file__).read_text().splitlines()]
    assert {line.strip() for line in shown.splitlines()} <= {*source, ""}
    episode = example.play("AlfWorld-v0")
    assert printed(sys.modules["stub_replies"].report, "AlfWorld-v0", episode) == said
