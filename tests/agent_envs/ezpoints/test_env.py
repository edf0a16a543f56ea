"""EZPoints-v0 and Points-v0: the contract, games by hand, signals, the expert, hands as dealt."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import INFO_KEYS, Malformed
from agent_envs.ezpoints.experts import Explorer
from agent_envs.ezpoints.rules import EZPOINTS, open_panel, open_points
from agent_envs.testing import check_agent_env

TENTH = "KS", "2H"
EVEN = "6S", "6H"
SYMBOLS = EZPOINTS.symbols


def make(**options):
    return gym.make("EZPoints-v0", **({"split": "all"} | options))


def find_task(*codes):
    """The id of a deal of these cards."""
    return next(i for i in open_panel("all").task_ids if i.split("-")[1:] == list(codes))


def play(env, codes, actions):
    """All that an episode returned; the reset as a step without action."""
    observation, info = env.reset(options={"task_id": find_task(*codes)})
    return [(observation, 0.0, False, False, info), *map(env.step, actions)]


def select(steps, *keys):
    """Reward and these keys of info, of the steps."""
    return [(step[1], *(step[4][key] for key in keys)) for step in steps[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"reward": "rl4vlm", "observation": "image"},
        {"reward": "verl-agent", "action_space": "discrete13", "observation": "image"},
        {"max_turns": 4, "render_mode": "ansi", "split": "val"},
    ],
    ids=str,
)
def test_the_contract(options):
    env = make(**options)
    extra = {"formula", "cards", "numbers", *["text"] * ("observation" in options)}
    assert set(env.reset(seed=1)[1]) == {*INFO_KEYS, *extra}
    check_agent_env(env, oracle=Explorer)


SIGNALS = ("valid", "invalid_reason", "formula", "progress")


@pytest.mark.parametrize(
    ("reward", "actions", "expected"),
    [
        ("rl4vlm", ["7", "10", "10", "+", "2", "="], [
            (-1.0, False, "unknown", " ", 0.0),
            (0.0, True, "", " 10", 0.25),
            (-1.0, False, "refused", " 10 ", 0.25),
            (0.0, True, "", " 10 +", 0.5),
            (0.0, True, "", " 10 +2", 0.75),
            (10.0, True, "", " 10 +2=", 1.0)]),
        # A solution from nothing takes 4 symbols, the last of which must be the 6th at most.
        ("rl4vlm", ["7", "10", "7", "7", "7"], [
            (-1.0, False, "unknown", " ", 0.0),
            (0.0, True, "", " 10", 0.25),
            (-1.0, False, "unknown", " 10 ", 0.25),
            (-1.0, False, "unknown", " 10  ", 0.0),
            (-1.0, False, "unknown", " 10   ", 0.0)]),
        ("verl-agent", ["7", "2", "2", "+", "10", "="], [
            (0.0, False, "unknown", "", 0.0),
            (0.0, True, "", "2", 0.25),
            (0.0, False, "refused", "2", 0.25),
            (0.0, True, "", "2+", 0.5),
            (0.0, True, "", "2+10", 0.75),
            (10.0, True, "", "2+10=", 1.0)]),
        ("success", [" 2\n", "+", "10", "="], [
            (0.0, True, "", "2", 0.25),
            (0.0, True, "", "2+", 0.5),
            (0.0, True, "", "2+10", 0.75),
            (1.0, True, "", "2+10=", 1.0)]),
    ],
)  # fmt: skip
def test_games_by_hand(reward, actions, expected):
    steps = play(make(reward=reward), TENTH, actions)
    assert select(steps, *SIGNALS) == expected
    assert steps[-1][2:4] == (actions[-1] == "=", False)
    assert steps[-1][4]["success"] == (expected[-1][0] > 0)


@pytest.mark.parametrize(
    ("actions", "reward"),
    [
        *((wrong, -1.0) for wrong in
          ("=", "6 =", "+ 6 =", "6 + =", "6 6 =", "6 * 6 =", "6 * * 6 =")),
        *((right, 10.0) for right in ("6 + 6 =", "+ 6 + 6 =", "6 + + 6 =")),
    ],
)  # fmt: skip
def test_answers_by_hand(actions, reward):
    *before, last = play(make(reward="rl4vlm"), EVEN, actions.split())
    assert {step[1] for step in before} == {0.0}
    right = reward > 0
    assert (*last[1:4], last[4]["progress"]) == (reward, True, False, float(right))
    notice = "That makes 12." if right else "That does not make 12 of both cards."
    assert last[0].startswith(notice)


@pytest.mark.parametrize(
    ("reward", "actions", "last"),
    [("verl-agent", ["7"] * 8, 0.0), ("rl4vlm", [*"++++++", "="], -1.0)],
)
def test_games_end_without_an_answer(reward, actions, last):
    steps = play(make(reward=reward), EVEN, actions)
    assert select(steps, "progress") == [(0.0, 0.0)] * (len(actions) - 1) + [(last, 0.0)]
    assert [step[2:4] for step in steps[-2:]] == [(False, False), (False, True)]
    if reward == "rl4vlm":  # six symbols are the most there is room for
        assert steps[-2][4]["admissible_actions"] == []
        assert steps[-1][4]["invalid_reason"] == "refused"
        assert steps[-1][4]["formula"] == "++++++"


def test_the_text_by_hand():
    steps = play(make(), TENTH, ["10", "3", "10", "ten", "+", "2", "="])
    table = "cards: K of spades, 2 of hearts\ncurrent formula: "
    asked = "An action is one of 1 2 3 4 5 6 7 8 9 10 + * =."
    notices = ("", "", "3 is not on the cards.", "10 is used up.", asked, "", "", "That makes 12.")
    formulas = ("", "10", "10", "10", "10", "10+", "10+2", "10+2=")
    assert [step[0] for step in steps] == [
        f"{notice}\n{table}'{formula}'".lstrip()
        for notice, formula in zip(notices, formulas, strict=True)
    ]
    info = steps[0][4]
    assert (info["cards"], info["numbers"]) == (["K of spades", "2 of hearts"], [10, 2])
    assert "12" in info["goal"]


@pytest.mark.parametrize(
    "odd", ["", "11", "-", "6+6", "plus", "²", "６", Malformed("Say it again.")]
)
def test_other_texts_cost_only_the_turn(odd):
    for reward in ("success", "rl4vlm"):
        before, after = play(make(reward=reward), EVEN, [odd])
        assert (after[1], after[4]["invalid_reason"]) == (0.0, "format")
        assert after[4]["anchor"] == before[4]["anchor"]
        assert after[0].endswith(before[0])


def test_admissible_actions_are_the_valid_ones():
    steps = play(make(), EVEN, ["6", "+", "6"])
    assert [step[4]["admissible_actions"] for step in steps] == [
        *[["6", "+", "*", "="]] * 3,
        ["+", "*", "="],
    ]


def test_anchors_are_of_numbers_and_formula_only():
    env = make()

    def anchor(codes, *actions):
        return play(env, codes, actions)[-1][4]["anchor"]

    (same,) = {anchor(codes, "2") for codes in [TENTH, ("2D", "QC"), ("10C", "2C")]}
    assert anchor(TENTH, "2", "2", "7") == same
    others = [anchor(TENTH, *actions) for actions in ("", ["10"], "2+", "2=")]
    assert len({same, anchor(("6S", "2H"), "2"), *others}) == 6


@given(st.lists(st.sampled_from(SYMBOLS), max_size=8), st.sampled_from(["success", "rl4vlm"]))
def test_the_solution_wins_and_is_what_progress_counts(actions, reward):
    env = make(reward=reward)
    info = play(env, TENTH, [])[0][4]
    for action in actions:
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return
    way = env.unwrapped.find_solution()
    assert Explorer(env).plan() == (list(way) or ["="])
    assert info["progress"] == (1 - len(way) / 4 if way else 0)
    if way and info["turn"] + len(way) <= env.unwrapped.max_turns:
        *_, last = map(env.step, way)
        assert last[4]["success"]


@pytest.mark.parametrize("reward", ["success", "rl4vlm"])
def test_discrete_actions_are_the_symbols_in_order(reward):
    numbered, spelled = make(action_space="discrete13", reward=reward), make(reward=reward)
    assert numbered.action_space == gym.spaces.Discrete(13)
    for number, symbol in enumerate(SYMBOLS):
        for action in (number, np.int64(number), symbol):
            found = play(numbered, TENTH, [action])[-1]
            assert found == play(spelled, TENTH, [symbol])[-1]


@pytest.mark.parametrize("wrong", [13, -1, 2.5, None])
def test_no_number_of_an_action(wrong):
    env = make(action_space="discrete13")
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"an action must be one of .* from 0 to 12"):
        env.step(wrong)
    assert env.step(10)[4]["turn"] == 1


def test_images_have_the_text_in_info():
    actions, env = ["10", "3", "+", "2", "="], make(observation="image", render_mode="rgb_array")
    assert env.render() is None
    seen, read = play(env, TENTH, actions), play(make(), TENTH, actions)
    for picture, text in zip(seen, read, strict=True):
        assert picture[0].shape == (300, 300, 3)
        assert picture[4].pop("text") == text[0]
        assert picture[1:] == text[1:]
    shown = [picture[0].tobytes() for picture in seen]
    assert shown[1] == shown[2]  # 3 is not on the cards
    assert len(set(shown)) == 5
    assert np.array_equal(env.render(), seen[-1][0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "tain"}, "unknown split 'tain', did you mean 'train'"),
        ({"reward": "rl4vml"}, "unknown reward 'rl4vml', did you mean 'rl4vlm'"),
        ({"action_space": "discrete"}, "did you mean 'discrete13'"),
        ({"observation": "rgb"}, "known are text, image"),
        ({"reward": "rl4vlm", "max_turns": 8}, "max_turns is at most that, got 8"),
    ],
)
def test_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_the_explorer_gives_its_formula():
    env, thoughts, success = make(), [], False
    play(env, TENTH, [])
    while not success:
        explorer = Explorer(env)
        thoughts.append(explorer.think())
        success = env.step(explorer.act())[4]["success"]
    assert thoughts == ["10+2 would make 12"] * 3 + ["10+2 makes 12"]
    play(env, TENTH, ["10", "*"])
    assert Explorer(env).think() == "this cannot make 12 any more, so end it"


def open_task(numbers, **options):
    """A hand of Points of these numbers, after its reset; and the info."""
    env = gym.make("Points-v0", split="all", **options)
    return env, env.reset(options={"task_id": f"{numbers}/0"})[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"reward": "rl4vlm", "observation": "image", "action_space": "discrete17"}],
    ids=str,
)
def test_the_contract_of_points(options):
    check_agent_env(gym.make("Points-v0", **options), oracle=Explorer)


def test_points_by_hand():
    env, info = open_task("3-3-8-8")
    assert sorted(info["numbers"]) == [3, 3, 8, 8]
    progress, rewards = [], []
    for symbol in ["8", "/", "(", "3", "-", "8", "/", "3", ")", "="]:
        assert symbol in info["admissible_actions"]
        text, reward, terminated, _, info = env.step(symbol)
        progress.append(info["progress"])
        rewards.append(reward)
    assert progress == [pytest.approx(turn / 10) for turn in range(1, 11)]
    assert (rewards, terminated, info["success"]) == ([0.0] * 9 + [1.0], True, True)
    assert text.startswith("That makes 24.\ncards: ")


@pytest.mark.parametrize(
    ("symbols", "reason", "rl4vlm"),
    [
        (["7"], "unknown", -1.0),
        (["3", "*", "3", "*", "3"], "refused", -1.0),
        (["**"], "format", 0.0),
        (["(", ")"], "", 0.0),
        (["3", "3"], "", 0.0),
    ],
)
def test_points_knows_what_is_valid(symbols, reason, rl4vlm):
    for scheme, paid in (("success", 0.0), ("rl4vlm", rl4vlm)):
        env, _ = open_task("3-3-8-8", reward=scheme)
        for symbol in symbols:
            _, reward, _, _, info = env.step(symbol)
        assert (reward, info["invalid_reason"]) == (paid, reason)
        if not reason:  # a sign is valid where no formula goes on like this
            assert info["progress"] == 0


def test_a_longer_solution_is_no_progress():
    env, _ = open_task("1-2-3-4")  # 1*2*3*4= has 8 symbols
    steps = [env.step(symbol)[-1]["progress"] for symbol in ["(", "1"]]
    assert steps == [0.0, pytest.approx(1 - 8 / 8)]  # (1)*2*3*4= is left, then )*2*3*4=


def test_points_by_rl4vlm_ends_when_the_formula_is_full():
    env, info = open_task("3-3-8-8", reward="rl4vlm")
    for _ in range(21):
        *_, info = env.step("-")
    assert info["admissible_actions"] == []
    _, reward, terminated, truncated, info = env.step("=")
    assert (reward, terminated, truncated, info["invalid_reason"]) == (-1.0, False, True, "refused")


def test_points_anchors_are_of_numbers_and_formula_only():
    ids = open_points("all").task_ids
    assert len(ids) == 566 * 4
    env = gym.make("Points-v0", split="all")
    tasks = ("1-2-3-4/0", "1-2-3-4/1", "1-2-3-5/0")
    anchors = []
    for task in tasks:
        env.reset(options={"task_id": task})
        anchors.append(env.step("3")[-1]["anchor"])
    assert anchors[0] == anchors[1] != anchors[2]
