"""Environments as tools: their verbs, calls at the same time, turns for credit."""

import asyncio
import gc
import json
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import numpy as np
import pytest

import agent_envs
import credit
import credit.rewards
from agent_envs.toolset import Toolset, tools

IDS = {
    "AlfWorld-v0": {"data": "embedded"},
    "AppWorld-v1": {},
    "Bifurcation-v1": {},
    "EZPoints-v0": {},
    "SearchQA-v1": {},
    "Sokoban-v0": {},
    "Sotopia-v1": {},
    "WebShop-v1": {},
    "WikiSearch-v1": {},
}


def make(name, **more):
    return gym.make(name, disable_env_checker=True, **IDS[name], **more)


def match_call(toolset, action):
    """The call of a typed tool that makes an action: the first form that fits."""
    for tool in toolset.tools.values():
        form = re.escape(tool.form.replace("{{", "{").replace("}}", "}"))
        for name in tool.parameters:
            form = form.replace(re.escape(f"{{{name}!j}}"), f'(?P<{name}>".*")')
            form = form.replace(re.escape(f"{{{name}}}"), f"(?P<{name}>.+)")
        found = re.fullmatch(form, action, re.DOTALL)
        if found:
            quoted = "!j" in tool.form
            return tool.name, {
                k: json.loads(v) if quoted else v for k, v in found.groupdict().items()
            }
    return None


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * (one == "AppWorld-v1")) for one in IDS]
)
def test_an_expert_solves_its_task_by_tools_with_the_turns_of_the_environment(name, typed):
    """What the expert does without tools is done by them, turn by turn, and is credited alike."""
    env, plain = make(name), make(name)
    toolset = tools(env, typed=typed)
    said = toolset.start(task=3, seed=5)
    observation, info = plain.reset(seed=5, options={"task": 3})
    assert info["goal"] in said
    made = [one for one in ("explorer", "oracle") if one in experts_of(plain)][-1]
    expert = agent_envs.expert(plain, made)
    while not toolset.episode.done:
        action = expert.act()
        name_and_given = match_call(toolset, action) if typed else ("act", {"action": action})
        assert name_and_given is not None, f"no verb makes {action!r}"
        said = toolset.call(*name_and_given)
        form = plain.unwrapped.reply_form
        reply = form.format(thought="", action=action) if form else action
        observation, reward, *_, after = plain.step(reply)
        assert said.startswith(str(observation))
        turn = toolset.episode.turns[-1]
        found = turn.valid, turn.progress, turn.progress_before, turn.anchor
        assert found == (after["valid"], after["progress"], info["progress"], info["anchor"])
        info = after
    assert toolset.episode.success is info["success"] is True
    assert toolset.episode.outcome == reward
    assert said.endswith("The episode has ended, and the task is solved.")
    turns = credit.Turns.from_episodes([toolset.episode])
    assert len(turns.reward) == len(toolset.episode.turns)
    toolset.close()


class Stuck(agent_envs.AgentEnv):
    """A step that waits until it may go on."""

    def __init__(self):
        super().__init__(agent_envs.Panel("train", ("a",)), max_turns=3)
        self.inside, self.go = threading.Event(), threading.Event()

    def begin(self, task_id):
        return "wait", agent_envs.Turn("now")

    def act(self, action):
        self.inside.set()
        self.go.wait(10)
        return agent_envs.Turn(action)


def experts_of(env):
    from agent_envs.experts import experts_of as find

    return find(type(env.unwrapped))


def walk(toolset, doors):
    toolset.start(task=0, seed=1)
    return [toolset.call("act", {"action": door}) for door in doors]


def list_doors():
    env = make("Bifurcation-v1", kind="irreversible")
    env.reset(seed=1, options={"task": 0})
    expert, doors = agent_envs.expert(env, "explorer"), []
    done = False
    while not done:
        doors.append(expert.act())
        *_, terminated, truncated, _ = env.step(doors[-1])
        done = terminated or truncated
    return doors


def test_calls_of_one_reply_are_made_in_their_order():
    doors = list_doors()
    once = walk(tools(make("Bifurcation-v1", kind="irreversible")), doors)

    async def call_all(toolset):
        return await asyncio.gather(*(toolset.acall("act", {"action": door}) for door in doors))

    by_tasks = tools(make("Bifurcation-v1", kind="irreversible"))
    by_tasks.start(task=0, seed=1)
    assert asyncio.run(call_all(by_tasks)) == once
    by_threads = tools(make("Bifurcation-v1", kind="irreversible"))
    by_threads.start(task=0, seed=1)
    begun = [by_threads.begin_call("act", {"action": door}) for door in doors]
    assert [one.result() for one in begun] == once
    with ThreadPoolExecutor(8) as pool:  # any order, but one at a time
        by_threads.start(task=0, seed=1)
        list(pool.map(lambda _: by_threads.call("act", {"action": "nonsense"}), range(8)))
    assert [turn.valid for turn in by_threads.episode.turns] == [False] * 8


def test_two_steps_at_once_without_tools_are_told_apart_from_an_end():
    env = Stuck()
    env.reset(seed=0)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(env.step, "a")
        env.inside.wait(10)
        with pytest.raises(RuntimeError, match="another step of this environment is running"):
            env.step("b")
        env.go.set()
        assert first.result()[0] == "a"
    assert env.step("c")[0] == "c"


def test_what_a_model_does_wrong_is_an_invalid_turn_and_never_raises():
    toolset = tools(make("WebShop-v1"), typed=True)
    assert toolset.call("search", {"words": "lamp"}) == (
        "No episode has been started; nothing was done."
    )
    toolset.start(task=0, seed=0)
    wrong = [
        ("serach", {"words": "lamp"}, "no tool 'serach', did you mean 'search'"),
        ("search", {}, "the arguments are words, and none were given"),
        ("search", {"words": "a", "page": "2"}, "and words, page were given"),
        ("search", {"words": ["a"]}, r"words must be a text, got \['a'\]"),
        ("search", ["a", "b"], r"must be an object with words, got \['a', 'b'\]"),
        ("search", "a", "must be an object with words, got 'a'"),
        ("search", None, "must be an object with words, got None"),
    ]
    for name, given, said in wrong:
        assert re.search(said, toolset.call(name, given))
    assert {turn.invalid_reason for turn in toolset.episode.turns} == {"format"}
    for name, given in (("x" * 10**6, {}), ("search", {"y" * 10**6: 1}), ("search", "z" * 10**6)):
        assert len(toolset.call(name, given)) < 400
    toolset.call("search", {"words": "lamp {0} {words}"})
    assert toolset.episode.turns[-1].valid
    while not toolset.episode.done:
        toolset.call("click", {"text": "nowhere"})
    turns = len(toolset.episode.turns)
    assert "has ended, and the task is not solved; nothing was done" in toolset.call(
        "search", {"words": "lamp"}
    )
    assert len(toolset.episode.turns) == turns


@pytest.mark.parametrize("name", IDS)
def test_schemas_are_what_frameworks_take(name):
    for toolset in (tools(make(name)), tools(make(name), typed=True)):
        for function in toolset.functions:
            told = function["function"]
            assert re.fullmatch(r"[a-z_]{1,64}", told["name"])
            assert told["description"]
            assert told["parameters"]["required"] == [*told["parameters"]["properties"]]
            json.dumps(function)


def test_what_wrappers_add_is_no_outcome():
    toolset = tools(credit.rewards.InvalidPenalty(make("Bifurcation-v1", kind="decisive"), -0.5))
    toolset.start(task=0, seed=1)
    while not toolset.episode.done:
        toolset.call("act", {"action": "nonsense"})
    assert toolset.episode.outcome == 0.0
    assert {turn.reward for turn in toolset.episode.turns} == {-0.5}


def test_wrong_environments_are_refused():
    with pytest.raises(ValueError, match="leave ParseReply out"):
        Toolset(agent_envs.ParseReply(make("Bifurcation-v1")))
    with pytest.raises(TypeError, match=r"tools needs an agent_envs\.AgentEnv"):
        Toolset(gym.make("CartPole-v1"))
    lifted = agent_envs.Signals(gym.make("CartPole-v1"), success_reward=1.0)
    with pytest.raises(ValueError, match=r"declares no verbs; use the tool 'act'"):
        Toolset(lifted, typed=True)
    with pytest.raises(TypeError, match=r"tools return texts, and .* are Box"):
        Toolset(gym.make("VisualSokoban-v0", disable_env_checker=True))


def test_calls_that_a_peer_gave_up_are_left_out_unless_they_run():
    env = Stuck()
    toolset = tools(env)
    toolset.start()

    async def give_up():
        begun = [asyncio.create_task(toolset.acall("act", {"action": one})) for one in "ab"]
        await asyncio.to_thread(env.inside.wait, 10)
        for one in begun:
            one.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        env.go.set()
        return await toolset.acall("act", {"action": "c"})

    assert asyncio.run(give_up()) == "c"
    assert [turn.action for turn in toolset.episode.turns] == ["a", "c"]


def test_a_toolset_that_nothing_uses_ends_its_thread_and_a_closed_one_refuses_calls():
    before = set(threading.enumerate())
    toolset = tools(make("EZPoints-v0"))
    toolset.start(task=0)
    unused = tools(make("EZPoints-v0"))
    unused.start(task=0)
    first, second = set(threading.enumerate()) - before
    toolset.close()
    toolset.close()
    with pytest.raises(RuntimeError, match="was closed; make another one"):
        toolset.call("act", {"action": "1"})
    del unused
    gc.collect()
    wait_for(lambda: not (first.is_alive() or second.is_alive()))


def wait_for(holds, seconds=10.0):
    over = time.monotonic() + seconds
    while not holds() and time.monotonic() < over:
        time.sleep(0.01)
    assert holds()


@pytest.mark.slow
def test_a_step_that_never_ends_does_not_hold_up_the_exit():
    program = """
import agent_envs, threading
from tests.agent_envs.test_toolset import Stuck
env = Stuck()
env.go.wait = lambda _: threading.Event().wait()
toolset = agent_envs.tools(env)
toolset.start()
toolset.begin_call("act", {"action": "a"})
env.inside.wait(10)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_credit_of_a_group_played_by_tools():
    """Two rollouts of one task, one solved: GRPO pays the solved one alone."""
    solved = tools(make("Bifurcation-v1", kind="decisive"))
    episodes = []
    for doors in (["nonsense"] * 12, None):
        solved.start(task=0, seed=1)
        expert = agent_envs.expert(solved.env, "explorer")
        while not solved.episode.done:
            solved.call("act", {"action": expert.act() if doors is None else doors.pop()})
        episodes.append(solved.episode)
    turns = credit.Turns.from_episodes(episodes)
    advantage = credit.make("grpo")(turns, np.random.default_rng(0))
    assert (advantage[turns.trajectory == 1] > 0).all()
    assert (advantage[turns.trajectory == 0] < 0).all()
