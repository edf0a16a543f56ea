"""Sokoban-v0 and VisualSokoban-v0: the contract, episodes by hand, signals, the expert."""

import itertools

import gymnasium as gym
import numpy as np
import pytest

from agent_envs import INFO_KEYS, Malformed, MissingAsset
from agent_envs.sokoban.env import draw_sprites
from agent_envs.sokoban.experts import Explorer
from agent_envs.testing import check_agent_env

WORDS = ("up", "down", "left", "right")
NINE = ("noop", *(f"push {word}" for word in WORDS), *(f"move {word}" for word in WORDS))
EXTRA = {"effective", "dead_end", "boxes_on_target", "remaining", "exact"}
CORRIDOR = ("#######", "#@$ .*#", "#######")
NICHE = ("######", "#@   #", "# $ .#", "#    #", "######")


def make(env_id="Sokoban-v0", **options):
    return gym.make(env_id, **options)


def play(env, *actions, **options):
    """All that an episode returned; the reset as a step without action."""
    observation, info = env.reset(options=options or {"task": 0})
    return [(observation, 0.0, False, False, info), *map(env.step, actions)]


def select(steps, *keys):
    """Reward and these keys of info, of the steps."""
    return [(step[1], *(step[4][key] for key in keys)) for step in steps[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("Sokoban", {"split": "val", "wall": "invalid", "action_space": "discrete9"}),
        ("VisualSokoban", {"split": "val", "reward": "success", "action_space": "discrete4"}),
        pytest.param("VisualSokoban", {"boxes": 2, "layout": "tabbed", "render_mode": "rgb_array"},
                     marks=pytest.mark.long),
        ("Sokoban",
         {"height": 5, "width": 9, "max_turns": 4, "max_solution": 4, "min_solution": 1}),
        pytest.param("Sokoban", {"boxes": 2, "solver_budget": 0}, marks=pytest.mark.long),
    ],
    ids=str,
)  # fmt: skip
def test_the_contract(env_id, options):
    env = make(f"{env_id}-v0", **options)
    extra = EXTRA | ({"text"} if env_id == "VisualSokoban" else set())
    assert set(env.reset(seed=1)[1]) == {*INFO_KEYS, *extra}
    check_agent_env(env, oracle=Explorer)


def test_an_episode_by_hand(level):
    env = level("#######", "#@ $ .#", "#     #", "#######", max_turns=9)
    steps = play(env, "up", "Right", " right\n", "left", "right", "right")
    boards = ["P_X_O", "P_X_O", "_PX_O", "__PXO", "_P_XO", "__PXO", "___P√"]
    assert [step[0] for step in steps] == [f"#######\n#{row}#\n#_____#\n#######" for row in boards]
    assert select(steps, "progress", "effective", "remaining", "boxes_on_target") == [
        (-0.1, 0.0, False, 3, 0),
        (-0.1, 1 - 2 / 3, True, 2, 0),
        (-0.1, 1 - 1 / 3, True, 1, 0),
        (-0.1, 1 - 2 / 3, True, 2, 0),
        (-0.1, 1 - 1 / 3, True, 1, 0),
        (-0.1 + 1 + 10, 1.0, True, 0, 1),
    ]
    assert [(step[2], step[4]["success"]) for step in steps] == [(False, False)] * 6 + [
        (True, True)
    ]
    assert steps[3][4]["anchor"] == steps[5][4]["anchor"] != steps[4][4]["anchor"]


@pytest.mark.parametrize(
    ("rows", "options", "actions", "expected"),
    [
        # The box at the right stands on a target and is pushed to the next one: off costs 1.
        (["#########", "#@*  .$ #", "#       #", "#########"], {}, ["right"] * 3,
         {"reward": [-0.1 - 1, -0.1, -0.1 + 1], "boxes_on_target": [0, 0, 1]}),
        (["#######", "#@*.$ #", "#     #", "#######"], {}, ["right"], {"reward": [-0.1]}),
        # One push remains at the start, and two actions after a step away from the box.
        (["######", "# @$.#", "######"], {}, ["left", "right"],
         {"progress": [0.0, 0.0], "remaining": [2, 1]}),
        (["######", "#@ $.#", "######"], {"reward": "success"}, ["right"] * 2, {"reward": [0, 1]}),
        (CORRIDOR, {"action_space": "discrete9"}, ["noop"],
         {"reward": [-0.1], "valid": [True], "effective": [False]}),
        # a wall, two boxes in a row
        *((["######", "#@$*.#", "######"], {"wall": wall}, ["up", "right"],
           {"reward": [-0.1] * 2, "invalid_reason": [reason] * 2, "effective": [False] * 2})
          for wall, reason in (("valid", ""), ("invalid", "refused"))),
        # against the lower wall: a dead end, which does not end the episode
        (NICHE, {}, ["right", "down", "left"],
         {"dead_end": [False, True, True], "progress": [0.0] * 3, "remaining": [4, -1, -1]}),
        # a box in a corner from the start
        (["######", "#@  .#", "#$   #", "######"], {}, WORDS,
         {"dead_end": [True] * 4, "progress": [0.0] * 4}),
        # six pushes at least at the start, five after one
        (["#########", "#@      #", "# $ $ $ #", "#       #", "# . . . #", "#########"],
         {"solver_budget": 0}, ["right", "down"],
         {"remaining": [6, 5], "exact": [False, False], "progress": [0.0, 1 - 5 / 6]}),
    ],
)  # fmt: skip
def test_rewards_and_signals_by_hand(level, rows, options, actions, expected):
    _, *steps = play(level(*rows, **options), *actions)
    for key, values in expected.items():
        assert [{"reward": step[1], **step[4]}[key] for step in steps] == values


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("jump", "unknown"),
        ("up up", "unknown"),
        ("", "format"),
        ("1", "format"),
        ("up!", "format"),
        (Malformed("Say it again."), "format"),
    ],
)
def test_other_words_are_invalid_and_change_nothing(level, action, reason):
    before, after = play(level(*CORRIDOR), action)
    assert (after[1], after[4]["invalid_reason"], after[4]["effective"]) == (-0.1, reason, False)
    assert after[0].endswith(f"\n{before[0]}")
    assert after[4]["anchor"] == before[4]["anchor"]


@pytest.mark.parametrize(
    ("rows", "options", "listed"),
    [
        (NICHE, {}, list(WORDS)),
        (NICHE, {"wall": "invalid"}, ["down", "right"]),
        (("######", "#@$ .#", "######"), {"wall": "invalid", "action_space": "discrete9"},
         ["noop", "push right"]),
    ],
)  # fmt: skip
def test_admissible_actions(level, rows, options, listed):
    assert play(level(*rows, **options))[0][4]["admissible_actions"] == listed


@pytest.mark.parametrize(("space", "words"), [("discrete4", WORDS), ("discrete9", NINE)])
def test_numbers_are_the_words_in_order(space, words):
    env = make(action_space=space, split="test")
    assert env.action_space == gym.spaces.Discrete(len(words))
    for number, word in enumerate(words):
        steps = [play(env, action)[1] for action in (number, np.int64(number), word.upper())]
        assert steps[0] == steps[1] == steps[2]
        assert steps[0][4]["valid"]
        assert env.unwrapped.transcript[-1][0].lower() == word


@pytest.mark.parametrize("wrong", [9, -1, 10**30, 2.5, None])
def test_no_number_of_an_action(wrong):
    env = make(action_space="discrete9")
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"an action must be one of noop, .* from 0 to 8"):
        env.step(wrong)
    assert env.step(8)[4]["turn"] == 1


def test_kinds_of_cells_look_different():
    for one, other in itertools.combinations(draw_sprites().astype(int), 2):
        assert (abs(one - other).max(axis=-1) > 40).mean() > 0.1  # of the pixels


def test_images_show_what_the_text_shows():
    actions = ["up", "left", "jump", "down", "right"]
    env = make("VisualSokoban-v0", split="test", render_mode="rgb_array")
    assert env.render() is None
    seen, read = play(env, *actions), play(make(split="test", render_mode="ansi"), *actions)
    assert np.array_equal(env.render(), seen[-1][0])
    kinds = dict(zip("#_O√XPS", draw_sprites(), strict=True))
    for picture, written in zip(seen, read, strict=True):
        assert picture[4].pop("text") == written[0]
        assert picture[1:] == written[1:]
        rows = [[kinds[symbol] for symbol in row] for row in written[0].split("\n")[-6:]]
        assert np.array_equal(picture[0], np.vstack([np.hstack(row) for row in rows]))
        assert (picture[0].shape, picture[0].dtype) == ((96, 96, 3), np.uint8)


def test_images_of_several_levels_have_one_size(tmp_path):
    small, large = ["#####", "#@$.#", "#####"], list(NICHE)
    (tmp_path / "two.txt").write_text("\n".join([*small, "", *large]))
    env = make("VisualSokoban-v0", levels=tmp_path / "two.txt")
    assert env.observation_space.shape == (80, 96, 3)
    for task in range(2):
        picture, _ = env.reset(options={"task": task})
        assert picture in env.observation_space
        assert np.array_equal(picture[:16, :16], picture[64:, 80:])  # wall
        assert np.array_equal(picture[16:32, 16:32], draw_sprites()[5])  # the player


def test_the_turn_limit_is_15_and_changes_no_room():
    assert make().unwrapped.max_turns == 15
    short, long = make(max_turns=5), make(max_turns=2000)
    assert short.unwrapped.panel.hash == long.unwrapped.panel.hash
    assert short.reset(seed=3) == long.reset(seed=3)


def test_the_plan_of_the_explorer_is_what_progress_counts():
    env = make(boxes=2, split="test", action_space="discrete9")
    for task in range(10):
        env.reset(options={"task": task})
        plan, left = Explorer(env).plan(), []
        for place, action in enumerate(plan):
            explorer = Explorer(env)
            assert (explorer.act(), explorer.think()) == (action, " ".join(plan[place:]))
            left.append(env.step(action)[4]["remaining"])
        assert left == list(range(len(plan) - 1, -1, -1))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"split": "dev"}, ValueError, "unknown split 'dev'"),
        ({"reward": "sucess"}, ValueError, "unknown reward 'sucess', did you mean 'success'"),
        ({"layout": "tab"}, ValueError, "did you mean 'tabbed'"),
        ({"action_space": "discrete"}, ValueError, "unknown action_space 'discrete', did you"),
        ({"wall": "refused"}, ValueError, "known are valid, invalid"),
        ({"solver_budget": -1}, ValueError, "a number of positions, must be at least 0"),
        ({"height": 1000, "width": 1000}, ValueError, r"an integer in 4\.\.64, got 1000"),
        ({"boxes": 0}, ValueError, r"boxes must be an integer in 1\.\.8, got 0"),
        ({"rooms": 0}, ValueError, "rooms, the number of tasks, must be at least 1, got 0"),
        ({"levels": "/no/where"}, MissingAsset, "no levels at /no/where"),
    ],
)
def test_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        make(**options)
