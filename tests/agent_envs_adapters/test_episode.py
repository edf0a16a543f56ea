"""The episode core of the adapters: what is read, what is recorded, and whose environment it is."""

import asyncio
import copy
import importlib
import json
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace

import gymnasium as gym
import pytest
from gymnasium.error import ResetNeeded

import agent_envs_adapters as integrations
import credit
from agent_envs import AgentEnv, Panel, Turn, expert
from agent_envs.experts import experts_of
from agent_envs.replies import FORM
from agent_envs_adapters.episodes import Episodes, text_episodes
from credit.rows import TurnRecord
from tests.trainer.conftest import Script
from trainer.play.environments import Env, PromptOptions
from trainer.play.records import Task
from trainer.play.rollout import Rollouts

EAST = "<think></think><action>east</action>"
NORTH = "<think></think><action>north</action>"


@pytest.fixture(autouse=True)
def _corridor(corridor):
    corridor.MADE.clear()


def played(episodes, *replies, task="corridor/3"):
    """An episode after some replies, not yet released."""
    episode = episodes.start(task=task)
    for reply in replies:
        episode.step(reply)
    return episode


def test_a_conversation():
    episode = Episodes("Corridor-v0").start(task="corridor/2", seed=0)
    assert (episode.task_id, episode.goal) == ("corridor/2", "Walk 2 steps.")
    assert episode.message == f"{FORM.instruction}\n\nWalk 2 steps.\n\nYou stand at 0."
    assert episode.images == []
    assert episode.step(EAST) == ("You stand at 1.", False)
    assert episode.step(EAST) == ("You stand at 2.", True)
    assert episode.message == "You stand at 2."


def test_a_prompt_for_each_turn():
    episode = Episodes("Corridor-v0", context="turn", history=1).start(task="corridor/3")
    assert episode.message.startswith("You are an expert agent")
    episode.step(NORTH)
    message, done = episode.step(EAST)
    assert not done
    assert message.startswith("You are an expert agent")
    # as past action and as admissible one; only one past turn is shown
    assert (message.count("'east'"), message.count("'north'")) == (2, 1)


def test_the_records_of_an_episode():
    episodes = Episodes("Corridor-v0", invalid_penalty=-0.1)
    episode = played(episodes, NORTH, "I go east.", EAST, EAST, task="corridor/2")
    assert (episode.done, episode.success, episode.truncated) == (True, True, False)
    assert episode.outcome == 1.0
    common = {"task_id": "corridor/2", "goal": "Walk 2 steps."}
    assert episode.records == [
        TurnRecord(**common, step=0, action="north", anchor="at 0", valid=False,
                   invalid_reason="refused", reward=-0.1),
        TurnRecord(**common, step=1, action="", anchor="at 0", valid=False,
                   invalid_reason="format", reward=-0.1),
        TurnRecord(**common, step=2, action="east", anchor="at 0", valid=True, progress=0.5),
        TurnRecord(**common, step=3, action="east", anchor="at 1", valid=True, progress=1.0,
                   progress_before=0.5, outcome=1.0, success=True),
    ]  # fmt: skip


def test_the_limit_on_turns_truncates():
    episode = played(Episodes("Corridor-v0", max_turns=2), EAST, EAST)
    assert (episode.done, episode.success, episode.truncated) == (True, False, True)
    assert [record.outcome for record in episode.records] == [None, 0.0]
    assert episode.records[-1].success is False


def test_turns_of_verifiers_are_recorded():
    wrappers = {"credit.rewards:TurnVerifier": {"weights": {"xml_format": 0.5}}}
    episode = played(Episodes("Corridor-v0", wrappers=wrappers), EAST, "east")
    assert all(set(record.turn_reward) == {"xml_format"} for record in episode.records)


def test_an_ended_episode_takes_no_reply():
    episode = played(Episodes("Corridor-v0"), EAST, task="corridor/1")
    with pytest.raises(ResetNeeded, match="'corridor/1' has ended"):
        episode.step(EAST)
    with pytest.raises(ResetNeeded, match="'corridor/1' has ended"):
        asyncio.run(episode.astep(EAST))
    assert len(episode.records) == 1


def test_stop_cuts_an_episode_off():
    episodes = Episodes("Corridor-v0")
    episode = played(episodes, EAST, EAST)
    with pytest.raises(ValueError, match="episode 0 has no outcome"):
        credit.rows_of([episode.records], ["a"])
    episode.stop()
    assert (episode.done, episode.truncated, episode.success) == (True, True, False)
    assert [record.outcome for record in episode.records] == [None, 0.0]
    assert episode.records[-1].success is False
    assert credit.rows_of([episode.records], ["a"]).turns.outcome.tolist() == [0.0]
    kept = list(episode.records)
    episode.stop()
    assert episode.records == kept
    with pytest.raises(ResetNeeded):
        episode.step(EAST)


def test_an_episode_stopped_before_its_first_turn_has_no_records():
    episode = Episodes("Corridor-v0").start()
    episode.stop()
    assert (episode.done, episode.records) == (True, [])
    rows = credit.rows_of([episode.records, []], ["a", "a"])
    assert (len(rows.turns), len(rows.turn)) == (0, 0)


def test_a_cut_episode_ends_as_one_at_the_limit_of_turns():
    ends = []
    for limit in (3, 10):
        episodes = Episodes("Sokoban-v0", max_turns=limit)
        (task,) = episodes.tasks(1, seed=2)
        episode = episodes.start(**task)
        for _ in range(3):
            episode.step("<think>x</think><action>up</action>")
        going = [*episode.records]
        as_ended = episode.stopped_records
        assert episode.records == going  # it does not end
        episode.stop()
        assert episode.records == as_ended
        assert episode.truncated
        ends.append((episode.outcome, episode.records))
    assert ends[0] == ends[1]
    assert ends[0][0] == pytest.approx(-0.3)  # three steps


def test_released_environments_are_used_again(corridor):
    episodes = Episodes("Corridor-v0")
    for _ in range(3):
        episodes.release(episode := played(episodes, EAST))
        assert (episode.truncated, episode.records[-1].outcome) == (True, 0.0)  # stopped
    assert len(corridor.MADE) == 1
    both = [episodes.start(), episodes.start()]
    assert len(corridor.MADE) == 2
    assert both[0].env.unwrapped is not both[1].env.unwrapped


@pytest.mark.parametrize(
    ("make", "name", "options", "says"),
    [
        (Episodes, "Corridr-v0", {}, "no environment 'Corridr-v0'"),
        (Episodes, "Corridor-v0", {"spilt": "train"}, "no option 'spilt'"),
        (Episodes, "AlfWorld-v0", {"split": "night"}, "night"),
        (Episodes, "Corridor-v0", {"max_turns": "abc"}, "max_turns must be at least 1, got 'abc'"),
        (
            Episodes,
            "Corridor-v0",
            {"max_turns": -1},
            "the options of 'Corridor-v0': max_turns: a number of turns, at least 0",
        ),
        (Episodes, "Corridor-v0", {"wrappers": {"a:B": 1}}, "wrappers.a:B = 1: Input should be"),
        (Episodes, "Corridor-v0", {"context": "x"}, "Input should be 'history' or 'turn'"),
        (Episodes, "Corridor-v0", {"template": "a:B"}, "is not read with context=history"),
        (text_episodes, "VisualSokoban-v0", {}, "shows images, and this adapter plays text"),
    ],
)
def test_what_does_not_exist_or_fit_is_refused_in_one_line(make, name, options, says):
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        make(name, **options)
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_an_unknown_task_keeps_the_environment(corridor):
    episodes = Episodes("Corridor-v0")
    for task in ("corridor/9", 99):
        with pytest.raises(ValueError, match=str(task)):
            episodes.start(task=task)
    assert episodes.start(task=4).task_id == "corridor/5"
    assert len(corridor.MADE) == 1


def test_close_closes_what_is_not_in_use(monkeypatch, corridor):
    closed = []

    def close(self):
        closed.append(self)

    monkeypatch.setattr(corridor.Corridor, "close", close)
    episodes = Episodes("Corridor-v0")
    running, ended = episodes.start(), episodes.start()
    used, free = running.env.unwrapped, ended.env.unwrapped
    episodes.release(ended)
    episodes.close()
    assert closed == [free]
    assert running.step(EAST)[0]
    episodes.release(running)
    episodes.close()
    assert closed == [free, used]


def test_drawn_tasks_do_not_repeat_before_all_have_occurred():
    episodes = Episodes("Corridor-v0")
    tasks = episodes.tasks(12, seed=3)
    names = [task["task"] for task in tasks]
    assert set(names[:5]) == set(names[5:10]) == set(episodes.panel.task_ids)
    assert len(set(names[10:])) == 2
    assert len({task["seed"] for task in tasks}) == 12
    assert tasks == Episodes("Corridor-v0").tasks(12, seed=3)
    assert tasks != episodes.tasks(12, seed=4)


def test_many_threads_play_as_one(corridor):
    def play(number):
        episode = episodes.start(task=number % 5, seed=number)
        for turn in range(50):
            if episode.step(NORTH if turn == number % 3 else EAST)[1]:
                break
        episodes.release(episode)
        return episode.records

    episodes = Episodes("Corridor-v0")
    alone = [play(number) for number in range(200)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(play, range(200))) == alone
    assert len(corridor.MADE) <= 9


class Meeting(AgentEnv):
    """Each step waits until the other environment is in a step, too."""

    waits = True
    barrier = threading.Barrier(2)

    def __init__(self, max_turns=5, render_mode=None):
        super().__init__(Panel("train", ("one",)), max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id):
        return "A goal.", Turn("", anchor="0")

    def act(self, action):
        self.barrier.wait(timeout=20)
        return Turn("", anchor="0")


def test_astep_lets_others_run_while_an_environment_waits():
    episodes = Episodes(f"{__name__}:Meeting")

    async def both():
        return await asyncio.gather(*(episodes.start().astep(EAST) for _ in range(2)))

    assert asyncio.run(both()) == [("", False)] * 2


IDS = [
    pytest.param(
        name, marks=[pytest.mark.browser, pytest.mark.long] if name == "WebShopSite-v1" else ()
    )
    for name in sorted(gym.registry)
    if str(gym.registry[name].entry_point).startswith("agent_envs.")
    and name not in {"AppWorld-v0", "SearchQA-v0", "Sotopia-v0", "TextWorld-v0"}
    and name not in {"WebShop-v0", "WikiSearch-v0"}
]


def replies_of(env):
    """An expert's replies in the environment's form; the second is nonsense."""
    name = "explorer" if "explorer" in experts_of(type(env.unwrapped)) else "oracle"
    player = expert(env, name)
    form = env.unwrapped.reply_form or "<think>{thought}</think><action>{action}</action>"
    yield form.format(thought=player.think(), action=player.act())
    yield "I am lost."
    while True:
        yield form.format(thought=player.think(), action=player.act())


@pytest.mark.slow
@pytest.mark.parametrize("context", ["history", "turn"])
@pytest.mark.parametrize("name", IDS)
def test_the_same_records_as_the_trainers_own_rollouts(name, context):
    if (name, context) == ("WikiSearch-v1", "turn"):
        pytest.skip("WikiSearch-v1 has no template of its own")
    limit = {"max_turns": 8, "data": "embedded", "invalid_penalty": -0.1}
    episodes = Episodes(name, context=context, **limit)
    (task,) = episodes.tasks(1, seed=5)
    episode = episodes.start(**task)
    replies = replies_of(episode.env)
    while not episode.done:
        episode.step(next(replies))

    own = Rollouts(Env(id=name, **limit), PromptOptions(context=context), "train", max_tokens=10**9)
    (env,) = own.envs(1)
    said = replies_of(env)  # begins when the first reply is needed, after the reset
    script = Script(lambda text, row: next(said), limit=10**9)
    script.vision = SimpleNamespace(expand_marks=lambda ids, images: list(ids))
    (other,) = own.play([Task(task["task"], 0, task["seed"])], script, seed=0)

    shared = ("action", "valid", "invalid_reason", "progress", "anchor", "reward", "turn_reward")
    assert len(episode.records) == len(other.steps) >= 2
    for record, step in zip(episode.records, other.steps, strict=True):
        assert {key: getattr(record, key) for key in shared} == {
            key: getattr(step, key) for key in shared
        }
    assert (episode.outcome, episode.success, episode.truncated) == (
        other.outcome,
        other.success,
        other.truncated,
    )
    assert (episode.task_id, episode.goal) == (other.task_id, other.goal)
    assert episode.records[1].invalid_reason == "format"
    sent = json.loads(json.dumps([record.to_dict() for record in episode.records]))
    turns = credit.rows_of([sent], ["task"]).turns
    assert turns.anchor.tolist() == [step.anchor for step in other.steps]
    assert turns.outcome.tolist() == [other.outcome]
    episodes.release(episode)
    episodes.close()
    env.close()


@pytest.mark.parametrize(
    ("installed", "tested", "warns"),
    [
        ("1.16.0", ("1.16",), False),
        ("1.16.3.dev0", ("1.16",), False),
        ("1.17.2", ("1.16", "1.17"), False),
        ("1.160.0", ("1.16",), True),
        ("2.16.0", ("1.16",), True),
        ("1.18.0", ("1.16", "1.17"), True),
    ],
)
def test_an_untested_version_of_a_peer_is_told_after_its_check(
    monkeypatch, installed, tested, warns
):
    monkeypatch.setattr(integrations, "version", lambda peer: installed)
    said = f"no-such-peer {installed} was not tested with agent-envs, {' and '.join(tested)} was"
    told = pytest.warns(UserWarning, match=said) if warns else nullcontext()
    with told, integrations.use_peer("no-such-peer", *tested):
        integrations.check_call(json.dumps, {}, indent=1)
        integrations.check_attributes(TurnRecord, "anchor", "to_dict")
    for check, words in (
        (lambda: integrations.check_call(json.dumps), "TypeError: dumps: missing a required arg"),
        (lambda: integrations.check_call(copy.copy, {}, width=1), "copy: got an unexpected key"),
        (lambda: integrations.check_attributes(TurnRecord, "reply"), "TurnRecord has no reply"),
        (lambda: importlib.import_module("no_such_peer"), "No module named 'no_such_peer'"),
    ):
        told = rf"^no-such-peer {installed} lacks what .*{words}.*tested with {tested[0]}"
        with pytest.raises(ImportError, match=told), integrations.use_peer("no-such-peer", *tested):
            check()


@pytest.mark.parametrize("name", ["trl", "verl", "verifiers", "skyrl", "nemo_gym", "openenv"])
def test_an_adapter_without_its_peer_says_how_to_install_it(monkeypatch, caplog, name):
    def find_nothing(peer):
        raise PackageNotFoundError(peer)

    monkeypatch.setattr(integrations, "version", find_nothing)
    monkeypatch.delitem(sys.modules, f"agent_envs_adapters.{name}", raising=False)
    with pytest.raises(ImportError, match=r"is not installed: pip install .*~="):
        importlib.import_module(f"agent_envs_adapters.{name}")
    assert ("the verl plug-in of agent-envs is off" in caplog.text) == (name == "verl")
