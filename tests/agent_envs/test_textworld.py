"""TextWorld-v0 on the genuine package: texts, signals, copies, experts, files; `.ci/foreign`.

The games are made once and kept in the user's cache folder.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import pytest

from agent_envs import BadAsset, MissingAsset, Prompt, expert
from agent_envs.assets import table
from agent_envs.testing import check_agent_env
from agent_envs.textworld import games
from agent_envs.textworld.experts import Oracle
from agent_envs.textworld.games import make_game, open_game, read_task
from agent_envs_lab.audits import audit_anchors, check_contract
from tools.textworld_seeds import split_by_map

installed = importlib.util.find_spec("textworld")
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not installed, reason="needs the extra [textworld]; see .ci/foreign"),
]

COIN, HUNT, HOUSE, MEAL, OWN = EACH = (
    "coin_collector-5-17",
    "treasure_hunter-5-17",
    "simple-1-17",
    "cooking-2-17",
    "custom-5-17",
)
ODD = (
    "go up", "xyzzy", "wait", "jump", "x me", "i", "l", "take key", "drop all",
    "take all from table", "go north", "n", "e", "eat coin", "put coin on bed",
    "open door", "enter bed",
)  # fmt: skip
"""Commands in other words, and some that do nothing."""


def begin(task_id, **options):
    env = gym.make("TextWorld-v0", games=task_id, **options)
    return env, *env.reset(seed=0)


def start_plain(task_id):
    """TextWorld's own environment of a game, and what it returns at the reset."""
    import textworld

    names = ("feedback", "admissible_commands", "policy_commands", "score", "moves", "won", "lost")
    infos = textworld.EnvInfos(**dict.fromkeys(names, True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = textworld.start(str(make_game(task_id).with_suffix(".z8")), infos)
    return plain, plain.reset()


def strip_frame(feedback):
    """A text of TextWorld without the banner, which has no letters, and the status line."""
    lines = feedback[: feedback.rindex("\n>")].split("\n")
    while not re.search(r"[A-Za-z]", lines[0]):
        del lines[0]
    return "\n".join(lines).strip()


@pytest.mark.parametrize("task_id", EACH)
def test_texts_and_signals_are_those_of_plain_textworld(task_id):
    plain, state = start_plain(task_id)
    env, text, info = begin(task_id, max_turns=10_000)
    rng, turns = random.Random(1), 0
    while turns < 150:
        most, moves, ended = len(state.policy_commands), 0, False
        assert text == strip_frame(state.feedback)
        while not ended:
            listed, left = state.admissible_commands, state.policy_commands
            assert info["admissible_actions"] == listed
            assert info["remaining"] == (len(left) or -1)
            assert info["progress"] == pytest.approx(max(0, 1 - len(left) / most) if left else 0)
            kind = rng.random()
            odd, solve = kind < 0.2, kind > 0.6 and left
            command = rng.choice(ODD if odd else left[:1] if solve else listed)
            state, _, ended = plain.step(command)
            text, _, terminated, _, info = env.step(command)
            turns += 1
            assert text == strip_frame(state.feedback)
            assert info["valid"] == (command in listed or state.moves > moves)
            assert (info["score"], info["success"]) == (state.score, state.won)
            assert terminated == ended == (state.won or state.lost)
            moves = state.moves
        state = plain.reset()
        text, info = env.reset()


@pytest.mark.parametrize("task_id", EACH)
def test_the_contract(task_id):
    check_agent_env(gym.make("TextWorld-v0", games=task_id), oracle=Oracle)


def test_the_contract_in_other_processes_and_beside_other_instances():
    check_contract(gym.make("TextWorld-v0", games=[COIN, MEAL]), oracle=Oracle, turns=60)


@pytest.mark.parametrize("task_id", [HOUSE, MEAL, OWN])
def test_no_revisited_anchor_diverges(task_id):
    found = audit_anchors(gym.make("TextWorld-v0", games=task_id), tasks=1, episodes=14)
    assert found.anchor.diverging == 0
    assert found.anchor.revisited > 20


@pytest.mark.parametrize("task_id", EACH)
@pytest.mark.parametrize("name", ["oracle", "explorer"])
def test_the_experts_win(task_id, name):
    env, _, info = begin(task_id)
    assert info["progress"] == 0
    earned, ended = 0.0, False
    while not ended:
        made = expert(env, name)
        before, action = copy.deepcopy(env.transcript), made.act()
        assert (made.act(), env.transcript) == (action, before)
        _, reward, ended, truncated, info = env.step(action)
        assert info["valid"]
        earned, ended = earned + reward, ended or truncated
    assert info["success"]
    assert info["score"] == info["max_score"]
    assert earned == pytest.approx(1)
    with pytest.raises(ValueError, match=f"no solution of {task_id} from here"):
        Oracle(env).act()


def test_the_experts_win_from_anywhere_else():
    """The oracle after a walk that lost nothing; the explorer follows another player's turns."""
    env, _, info = begin(HOUSE, max_turns=200)
    rng = random.Random(3)
    for _ in range(25):
        listed = [one for one in info["admissible_actions"] if not one.startswith("eat")]
        *_, info = env.step(rng.choice(listed))
    ended = False
    while not ended:
        *_, ended, _, info = env.step(Oracle(env).act())
    assert info["success"]


def play(env, commands):
    """What each command returns, to the end."""
    found = []
    for command in commands:
        found.append(env.step(command))
        if found[-1][2] or found[-1][3]:
            break
    return found


@pytest.mark.parametrize("task_id", EACH)
def test_copies_and_pickles_continue_alike_while_others_play(task_id):
    env, _, info = begin(task_id)
    rng, way = random.Random(2), []
    for _ in range(10):
        way.append(rng.choice([*info["admissible_actions"], *ODD]))
        *_, ended, _, info = env.step(way[-1])
        if ended:
            break
    rest = [*Oracle(begin(task_id)[0])._env.play.policy, "look", "inventory"]
    again, _, _ = begin(task_id)
    half = max(0, len(way) - 5)
    play(again, way[:half])
    forks = [copy.deepcopy(again), pickle.loads(pickle.dumps(again)), again]
    size = len(pickle.dumps(again))
    assert size < 100_000, "the game itself is not in the pickle"
    one_by_one = [play(copy.deepcopy(again), [*way[half:], *rest]) for _ in range(2)]
    assert one_by_one[0] == one_by_one[1]
    together = [[] for _ in forks]
    for step in range(len(one_by_one[0])):  # in turns, on one interpreter
        for fork, found in zip(forks, together, strict=True):
            found.append(fork.step([*way[half:], *rest][step]))
    assert together == [one_by_one[0]] * 3


def test_a_pickle_continues_in_another_process(tmp_path):
    env, _, _ = begin(MEAL)
    solution = list(env.play.policy)
    play(env, solution[:2])
    (tmp_path / "env").write_bytes(pickle.dumps(env))
    program = (
        "import pickle, sys\n"
        "env = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print([env.step(action) for action in sys.argv[2:]])"
    )
    child = in_other_process(program, str(tmp_path / "env"), *solution[2:], PYTHONHASHSEED="5")
    assert child.communicate()[0].strip() == str(play(env, solution[2:]))


def test_progress_falls_astray_and_is_0_after_a_loss():
    env, _, info = begin(COIN)
    first, *_ = env.play.policy
    most = info["remaining"]
    assert env.step(first)[-1]["progress"] == pytest.approx(1 / most)
    back = {"north": "south", "south": "north", "east": "west", "west": "east"}
    *_, info = env.step(f"go {back[first.removeprefix('go ')]}")
    assert (info["progress"], info["remaining"]) == (0, most)
    env, _, info = begin(MEAL)
    for command in env.play.policy:
        _, reward, ended, _, info = env.step(
            command.replace("slice", "dice").replace("chop", "dice")
        )
        if ended:
            break
    assert (info["progress"], info["success"], info["admissible_actions"]) == (0, False, [])
    assert 0 < info["measures"]["score"] < 1
    assert reward == 0


def test_success_as_reward_pays_only_the_win():
    env, _, _ = begin(HOUSE, reward="success")
    paid = [step[1] for step in play(env, env.play.policy)]
    assert paid == [0.0] * (len(paid) - 1) + [1.0]
    assert not env.unwrapped.graded


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("open trunk chest", "unknown"),
        ("open wooden door", "refused"),  # it is locked
        ("take remote", "unknown"),  # it is in another room
        ("take", "unknown"),  # the game asks what
        ("wait", "refused"),
        ("restart", "refused"),
        ("look then look", "format"),
        ("\\help", "format"),
    ],
)
def test_an_invalid_command_changes_nothing_that_follows(command, reason):
    env, _, before = begin(HOUSE)
    other, _, _ = begin(HOUSE)
    text, reward, *_, info = env.step(command)
    assert (info["valid"], info["invalid_reason"], reward) == (False, reason, 0)
    assert text
    assert {key: info[key] for key in ("anchor", "progress", "admissible_actions")} == {
        key: before[key] for key in ("anchor", "progress", "admissible_actions")
    }
    for follow in ("wooden door", "chest drawer", "open chest drawer", "take it", "take old key"):
        one, two = env.step(follow), other.step(follow)
        assert one[:2] == two[:2]
        assert one[-1]["anchor"] == two[-1]["anchor"]


def test_other_words_for_a_possible_command_are_valid():
    env, _, _ = begin(HOUSE)
    for command in ("x chest drawer", "OPEN Chest Drawer", "get old key", "i", "  look  "):
        *_, info = env.step(command)
        assert info["valid"], command
    assert info["score"] == 2  # for the open drawer and the key


def test_what_textworld_loses_track_of_is_followed_or_has_no_effect():
    """Plain TextWorld misses that the key is taken, and that the door is gone through."""
    env, _, _ = begin(HOUSE)
    play(env, ["open chest drawer", "get old key", "unlock door with key", "open door"])
    *_, info = env.step("look")
    assert info["score"] == 4
    text, _, _, _, info = env.step("enter door")
    assert (info["valid"], info["invalid_reason"]) == (False, "refused")
    assert "use one of the possible commands" in text
    assert "go east" in info["admissible_actions"]
    assert env.step("go east")[-1]["score"] == 5


def test_a_blind_prompt_has_no_goal():
    env = Prompt(gym.make("TextWorld-v0", games=HOUSE))
    prompt, info = env.reset(seed=0)
    assert info["goal"] in prompt
    assert "chest drawer" in prompt
    assert info["goal"] not in info["blind_prompt"]


def in_other_process(program, *arguments, **environment):
    """What a Python program prints in a process of its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_game_is_the_same_from_any_process_and_made_once(tmp_path, monkeypatch):
    program = "import sys; from agent_envs.textworld.games import *; print(make_game(sys.argv[1]))"
    makers = [
        in_other_process(program, COIN, XDG_CACHE_HOME=str(tmp_path), PYTHONHASHSEED=str(seed))
        for seed in (1, 2)
    ]
    one, two = (maker.communicate()[0].strip() for maker in makers)
    assert one == two
    assert "site-packages" not in Path(one).read_text()  # no folder of this machine
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    for ending in (".json", ".z8"):
        again = make_game(COIN).with_suffix(ending)
        assert (tmp_path / "agent-envs/textworld" / again.name).read_bytes() == again.read_bytes()
    assert not [one for one in (tmp_path / "agent-envs/textworld").iterdir() if one.is_dir()]


@pytest.mark.parametrize("task_id", EACH)
def test_the_split_of_a_seed_is_listed_by_the_map_of_its_game(task_id):
    kind, level, seed = read_task(task_id)
    listed = table("textworld/seeds.toml")[kind][str(level)]
    assert int(listed[seed]) == split_by_map(json.loads(make_game(task_id).read_text()))


def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        RuntimeError, match=r"^[^\n]*cannot be kept [^\n]*set XDG_CACHE_HOME[^\n]*$"
    ):
        make_game(COIN)


def test_another_version_of_the_generator_is_refused(monkeypatch):
    monkeypatch.setattr(games, "version", lambda _: "1.70")
    with pytest.raises(RuntimeError, match=r"textworld 1.7, and 1.70 is installed; run pip"):
        make_game(COIN)


def test_a_generator_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(games, "list_arguments", lambda *_: ["tw-zork"])
    with pytest.raises(RuntimeError, match=r"^tw-make tw-zork[^\n]* failed: [^\n]*invalid choice"):
        make_game("coin_collector-5-999999999")


@pytest.fixture
def folder(tmp_path):
    """A user's folder with two games."""
    open_game.cache_clear()
    for name, task in (("coin", COIN), ("meal", MEAL)):
        for ending in (".json", ".z8"):
            shutil.copy(make_game(task).with_suffix(ending), tmp_path / f"{name}{ending}")
    return tmp_path


def test_files_are_played(folder):
    env = gym.make("TextWorld-v0", data=folder)
    assert env.unwrapped.panel.task_ids == ("coin", "meal")
    for name, task in (("coin", COIN), ("meal", MEAL)):
        text, info = env.reset(options={"task_id": name})
        assert text == begin(task)[1]
        assert info["strata"] == {"kind": "file"}
        ended = False
        while not ended:
            *_, ended, _, info = env.step(Oracle(env).act())
        assert info["success"]


DAMAGES = {
    "gone": (lambda f: (f / "coin.json").unlink(), "no file .*coin.json"),
    "no story": (lambda f: (f / "coin.z8").unlink(), "no file .*coin.z8"),
    "another game": (lambda f: shutil.copy(f / "meal.json", f / "coin.json"), "two games"),
    "cut": (lambda f: (f / "coin.z8").write_bytes((f / "coin.z8").read_bytes()[:9000]),
            "coin.z8 is no whole story .* make it again"),
    "no game": (lambda f: (f / "coin.json").write_text('{"world": [], "infos": []}'),
                "coin.json is no game of TextWorld; .*tw-make"),
    "list": (lambda f: (f / "coin.json").write_text("[1]"), "coin.json is no game of TextWorld"),
    "old": (
        lambda f: (f / "coin.json").write_text('{"world":[], "infos":[], "quests":[], "KB":{}}'),
        "coin.json cannot be read by textworld .*tw-make",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_at_the_reset(folder, damage):
    env = gym.make("TextWorld-v0", data=folder)
    make, words = DAMAGES[damage]
    make(folder)
    with pytest.raises((BadAsset, MissingAsset), match=rf"^[^\n]*{words}[^\n]*$"):
        env.reset(options={"task_id": "coin"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"data": "/nowhere"}, "no file or folder /nowhere"),
        ({"games": "zork-1-1"}, "unknown kind 'zork'"),
        ({"games": COIN, "split": "test"}, "leave out split"),
        ({"data": ".", "kind": "custom"}, "not of data"),
        ({"data": ".", "split": "test"}, "not of data"),
        ({"kind": "custom", "level": 0}, "level of custom must lie in 1..20, got 0"),
        ({"reward": "points"}, "unknown reward 'points'"),
    ],
)
def test_options_that_do_not_fit_are_named(options, words):
    with pytest.raises((ValueError, MissingAsset), match=words):
        gym.make("TextWorld-v0", **options)
