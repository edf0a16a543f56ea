"""Every registered environment against the whole contract, on its embedded default."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import load_env_creator

import agent_envs
from agent_envs.experts import experts_of
from agent_envs.options import annotations_of
from agent_envs.search_qa.world import open_world
from agent_envs_lab.audits import check_contract

pytestmark = pytest.mark.slow

OURS = sorted(
    name
    for name, spec in gym.registry.items()
    if isinstance(spec.entry_point, str) and spec.entry_point.startswith("agent_envs.")
)
# data or a package
NEEDING = (
    "AppWorld-v0",
    "SearchQA-v0",
    "Sotopia-v0",
    "TextWorld-v0",
    "WebShop-v0",
    "WikiSearch-v0",
)
IDS = [name for name in OURS if name not in NEEDING]
WITHOUT_BROWSER = [env_id for env_id in IDS if env_id != "WebShopSite-v1"]
PLAIN = agent_envs.Template("{task_description}: {current_observation}", "{current_observation}")
LONG = [pytest.mark.browser, pytest.mark.long]
EACH = [*WITHOUT_BROWSER, pytest.param("WebShopSite-v1", marks=LONG)]


def best(env: gym.Env):
    """The expert of an environment that knows most."""
    return list(experts_of(type(env.unwrapped)).values())[-1]


@pytest.mark.parametrize("env_id", OURS)
def test_every_option_has_a_type_that_is_checked(env_id, tmp_path, monkeypatch):
    if env_id in {"SearchQA-v0", "WikiSearch-v0"}:
        monkeypatch.setenv("SEARCH_QA_DATA", str(open_world("train").export(tmp_path)))
    made = load_env_creator(gym.spec(env_id).entry_point)
    kinds = annotations_of(made)
    assert {"split", "max_turns", "render_mode"} <= kinds.keys()
    objects = {name for name, allowed in kinds.items() if not allowed}
    assert objects <= {"retriever", "partner", "judge"}  # which name what they need themselves
    for name in kinds:
        with pytest.raises(TypeError, match=rf"\b{name} must be .*, got <object"):
            made(**{name: object()})


def test_a_home_folder_decides_nothing(monkeypatch, tmp_path):
    """Which file an environment opens by default: none below the home folder but caches."""
    program = (
        "import sys, os, gymnasium as gym, agent_envs\n"
        "home, opened = os.environ['HOME'], []\n"
        "sys.addaudithook(lambda event, args: opened.append(args[0]) if event == 'open' and "
        "isinstance(args[0], str) and args[0].startswith(home) else None)\n"
        f"for env_id in {WITHOUT_BROWSER!r}:\n"
        "    gym.make(env_id).reset(seed=1)\n"
        "print(opened)"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert child.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("env_id", "option"),
    [
        *((f"{name}-v0", "data") for name in ("AlfWorld", "SearchQA", "Sotopia", "WebShop")),
        ("Sokoban-v0", "levels"),
    ],
)
def test_a_home_that_does_not_exist_is_named(env_id, option, monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    for path in ("~/games", "~no-such-user/games"):
        with pytest.raises(agent_envs.MissingAsset, match=f"^{path}: there is no home folder"):
            gym.make(env_id, **{option: path})


@pytest.mark.parametrize(
    ("env_id", "turns"),
    [
        *((env_id, 6) for env_id in WITHOUT_BROWSER),
        *(pytest.param(env_id, 120, marks=pytest.mark.long) for env_id in WITHOUT_BROWSER),
        pytest.param("WebShopSite-v1", 10, marks=LONG),
    ],
)
def test_bare(env_id, turns):
    env = gym.make(env_id, **({"max_turns": 6} if env_id == "WebShopSite-v1" else {}))
    check_contract(env, oracle=best(env), turns=turns)


# Text, thinking in the reply itself, pictures; the wrappers of the others see what these see.
WRAPPED = ("AlfWorld-v0", "SearchQA-v1", "VisualSokoban-v0")


@pytest.mark.parametrize("env_id", WRAPPED)
@pytest.mark.parametrize("turns", [8, pytest.param(60, marks=pytest.mark.long)])
def test_wrapped(env_id, turns):
    env = gym.make(env_id)
    if not env.unwrapped.reply_form:
        env = agent_envs.ParseReply(env)
    if isinstance(env.observation_space, agent_envs.FreeText):
        env = agent_envs.Prompt(env, None if env.unwrapped.template else PLAIN)
    check_contract(env, turns=turns)


@pytest.mark.parametrize("env_id", EACH)
def test_making_adds_no_wrapper_and_uses_embedded_tasks(env_id):
    env = gym.make(env_id)
    assert env is env.unwrapped
    assert isinstance(env, agent_envs.AgentEnv)
    assert env.panel.source == "embedded"


ALONE = """
import os, sys
import gymnasium as gym

for env_id in sys.argv[1:]:  # each in a process that has imported nothing of ours
    if not os.fork():
        env = gym.make(f"agent_envs:{env_id}")
        opening = env.reset(seed=1)
        from agent_envs.experts import experts_of
        expert = [*experts_of(type(env.unwrapped)).values()][-1](env)
        print([opening, env.step(expert.act())], flush=True)
        sys.exit()
    os.wait()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "ids", [pytest.param(WITHOUT_BROWSER, id="light"), pytest.param(["WebShopSite-v1"], marks=LONG)]
)
def test_making_needs_no_import_and_an_episode_is_the_same_in_every_process(ids):
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, *ids],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )
    assert child.stderr == ""
    for env_id in ids:
        env = gym.make(env_id)
        opening = env.reset(seed=1)
        assert f"{[opening, env.step(best(env)(env).act())]}\n" in child.stdout, env_id
        env.close()


ASYNC = [(make, "async") for make in (gym.make_vec, agent_envs.make_vec)]


@pytest.mark.parametrize(
    ("make", "mode", "env_id"),
    [
        *((agent_envs.make_vec, "sync", env_id) for env_id in WITHOUT_BROWSER),
        *((*way, env_id) for env_id in WRAPPED for way in ASYNC),
        *(pytest.param(*way, "WebShopSite-v1", marks=LONG) for way in ASYNC),
    ],
)
def test_vectors_show_what_single_environments_show(env_id, make, mode):
    single = [gym.make(env_id) for _ in range(2)]
    opening = [env.reset(seed=5 + i) for i, env in enumerate(single)]
    actions = tuple(
        next(iter(info["admissible_actions"]), "") or best(env)(env).act()
        for env, (_, info) in zip(single, opening, strict=True)
    )
    stepped = [env.step(action) for env, action in zip(single, actions, strict=True)]
    vector = make(env_id, 2, vectorization_mode=mode)
    try:
        observations, info = vector.reset(seed=5)
        assert np.array_equal(observations, [observation for observation, _ in opening])
        assert info["goal"].tolist() == [one["goal"] for _, one in opening]
        observations, rewards, *_, info = vector.step(actions)
        assert np.array_equal(observations, [step[0] for step in stepped])
        assert rewards.tolist() == [step[1] for step in stepped]
        for key in ("anchor", "valid", "progress", "admissible_actions", "turn"):
            assert info[key].tolist() == [step[4][key] for step in stepped]
    finally:
        vector.close()
    assert np.array_equal(single[0].reset(seed=5)[0], opening[0][0])  # not the worse for the others


# what methods that read success rely on


def outcomes(env_id: str, options: dict) -> set[float]:
    """Rewards that end the episodes of an expert, of nonsense, and of what earns a part."""
    env = gym.make(env_id, disable_env_checker=True, **options)
    inner, found = env.unwrapped, set()
    form = inner.reply_form or "{action}"
    for seed, kind in itertools.product(range(3), ("expert", "nonsense", "partly")):
        _, info = env.reset(seed=seed)
        guide, done = best(env)(env), False
        partly = iter(parts(inner, info["goal"]) if kind == "partly" else ())
        while not done:
            action = guide.act() if kind == "expert" else next(partly, "x")
            action = action(info) if callable(action) else action
            reply = action if kind == "partly" else form.format(thought="so", action=action)
            _, reward, terminated, truncated, info = env.step(reply)
            done = terminated or truncated
        found.add(reward)
    env.close()
    return found


def parts(inner, goal):
    """Actions that earn a part of a score."""
    if hasattr(inner, "shop"):
        yield f"search[{' '.join(goal.split()[:12])}]"
        yield lambda info: next(
            one for one in info["admissible_actions"] if re.match(r"click\[b\d", one)
        )
        yield "click[buy now]"
    elif hasattr(inner, "game"):
        yield "Good morning."
        yield '{"accept": true}'
    elif hasattr(inner, "question"):
        yield f"<answer>{inner.question.answer}</answer>"


PAID = [
    ("AlfWorld-v0", {"max_turns": 15}, False),
    ("AlfWorld-v0", {"success_reward": 10.0}, True),
    ("Sokoban-v0", {"reward": "success", "max_turns": 15}, False),
    ("Sokoban-v0", {"max_turns": 15}, True),
    ("Bifurcation-v1", {}, False),
    ("EZPoints-v0", {}, False),
    ("EZPoints-v0", {"reward": "verl-agent"}, True),
    ("EZPoints-v0", {"reward": "rl4vlm"}, True),
    ("Points-v0", {}, False),
    ("WebShop-v1", {}, False),
    ("WebShop-v1", {"reward": "score"}, True),
    ("Sotopia-v1", {"reward": "success"}, False),
    ("Sotopia-v1", {}, True),
    ("AppWorld-v1", {"max_turns": 12}, False),
    ("AppWorld-v1", {"reward": "fraction", "max_turns": 12}, True),
    ("AppWorld-v1", {"reward": "penalty", "max_turns": 12}, True),
    ("SearchQA-v1", {}, False),
    ("WikiSearch-v1", {}, False),
    ("WikiSearch-v1", {"reward": "outcome"}, True),
    ("WikiSearch-v1", {"reward": "merged"}, True),
]


@pytest.mark.parametrize(("env_id", "options", "graded"), PAID)
def test_an_environment_declares_outcomes_that_are_not_success(env_id, options, graded):
    assert gym.make(env_id, **options).unwrapped.graded is graded
    assert (outcomes(env_id, options) <= {0.0, 1.0}) is not graded
