"""TextArena's games on the installed package: signals, opponents, errors, and which ids work."""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from agent_envs import ContractError, Signals
from agent_envs.assets import MissingAsset
from agent_envs.foreign import seats
from agent_envs.foreign.textarena import make
from agent_envs.imports import find_creator
from agent_envs_lab.audits import audit_anchors

from .trial import actions

THERE = importlib.util.find_spec("textarena") is not None
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not THERE, reason="needs textarena; see .ci/foreign"),
]
HERE = Path(__file__)


def first_free(text):
    """The first cell of the newest list of a game of tic-tac-toe."""
    return re.findall(r"\[\d\]", text.rpartition("Available Moves")[2])[0]


def steps(env, *moves, **reset):
    env.reset(seed=0, **reset)
    return [env.step(move) for move in moves]


def test_a_game_is_made_by_its_id_and_each_turn_shows_what_is_new():
    env = find_creator("textarena:TicTacToe-v0", option="env.id")(opponent=first_free)
    assert isinstance(env, Signals)
    observation, info = env.reset(seed=0)
    assert observation.startswith("You are Player 0 in Tic Tac Toe.\nYour goal")
    assert info["goal"].startswith(
        "You are Player 0 in Tic Tac Toe. Your goal is to win three in a"
    )
    text, reward, terminated, truncated, info = env.step("4")  # the game's wrapper adds brackets
    assert text.startswith("Player 0 placed their symbol (O) in cell 4.")
    assert "[Player 1] [0]\nPlayer 1 placed their symbol (X) in cell 0." in text
    assert (reward, terminated, truncated, info["valid"]) == (0, False, False, True)
    assert "Your goal" not in text


def test_the_highest_reward_is_the_success_and_other_ends_are_failures():
    won = steps(make("TicTacToe-v0", opponent=first_free), "[4]", "[5]", "[3]")
    assert [turn[1] for turn in won] == [0, 0, 1]
    assert (won[-1][2], won[-1][-1]["success"]) == (True, True)
    assert won[-1][0].endswith("Player 0 has won!")
    lost = steps(make("TicTacToe-v0", opponent=first_free), "[4]", "[3]", "[8]")
    assert (lost[-1][1:3], lost[-1][-1]["success"]) == ((-1, True), False)
    paid = steps(make("TicTacToe-v0", opponent=first_free, reward="success"), "[4]", "[3]", "[8]")
    assert paid[-1][1] == 0


def test_what_the_game_refuses_is_invalid_and_its_allowance_counts():
    turns = steps(make("TicTacToe-v0"), "[4]", "[4]", "nothing")
    assert [turn[-1]["invalid_reason"] for turn in turns] == ["", "refused", "refused"]
    assert [turn[2] for turn in turns] == [False, False, True]
    assert turns[-1][1] == -1
    alone = steps(make("TowerOfHanoi-v0"), "[A C]", "jump", "[A B]", "jump", "jump")
    assert [turn[-1]["valid"] for turn in alone] == [True, False, True, False, False]
    assert [turn[2] for turn in alone] == [False] * 4 + [True]


def test_progress_is_the_games_own_share():
    env = make("TowerOfHanoi-v0")
    moves = ["AC", "AB", "CB", "AC", "BA", "BC", "AC"]
    turns = steps(env, *[f"[{a} {b}]" for a, b in moves])
    shares = [turn[-1]["progress"] for turn in turns]
    assert shares == sorted(shares)
    assert shares[3] == pytest.approx(1 / 3)  # the largest of three disks
    assert turns[-1][-1]["success"]


def test_the_agent_can_have_another_seat():
    env = make("TicTacToe-v0", opponent=first_free, player=1)
    observation, _ = env.reset(seed=0)
    assert "[Player 0] [0]" in observation
    assert "You are Player 1" in observation
    assert [turn[1] for turn in steps(env, "[4]", "[8]")] == [0, -1]  # 0, 1, 2
    table = make("Poker-v0-small", players=4, player=3)
    assert "4-player Texas Hold'em" in table.reset(seed=0)[0]


def test_a_function_reads_all_that_its_player_was_told():
    heard = []

    def listen(text):
        heard.append(text)
        return first_free(text)

    env = make("TicTacToe-v0", opponent=listen)
    heard.clear()
    steps(env, "[4]", "[5]")
    assert heard[0].startswith("You are Player 1 in Tic Tac Toe.")
    assert heard[1].startswith(heard[0])
    assert "[Player 0] [5]" in heard[1].removeprefix(heard[0])


def test_a_function_that_fails_is_not_the_agents_fault():
    for opponent, said in [(lambda text: 1 / 0, "ZeroDivisionError"), (len, "must return a text")]:
        env = make("TicTacToe-v0", opponent=opponent)
        env.reset(seed=0)
        with pytest.raises(ContractError, match=said):
            env.step("[4]")


def test_a_random_opponent_draws_from_the_environments_generator():
    env = make("TicTacToe-v0")

    def answer(seed):
        env.reset(seed=0)
        env.np_random = np.random.default_rng(seed)
        return env.step("[4]")[0]

    drawn = [answer(seed) for seed in range(20)]
    assert drawn == [answer(seed) for seed in range(20)]
    assert len(set(drawn)) > 4


def test_anchors_are_those_of_positions_not_of_their_histories(monkeypatch):
    def anchor(*moves):
        env = make("TicTacToe-v0")
        env.reset(seed=0)
        for mine, other in moves:
            with monkeypatch.context() as patch:
                patch.setattr(seats, "find_move", lambda *_, move=other: move)
                info = env.step(mine)[-1]
        return info["anchor"]

    one, other = ("[0]", "[8]"), ("[1]", "[7]")
    assert anchor(one, other) == anchor(other, one) != anchor(one, ("[1]", "[6]"))


@pytest.mark.parametrize(
    ("name", "options", "kind", "said"),
    [
        ("TicTacTo-v0", {}, ValueError, r"games lack 'TicTacTo-v0', did you mean 'TicTacToe-v0'"),
        ("TicTacToe-v0", {"player": 2}, ValueError, "player must be at least 0 and below 2, got 2"),
        ("TicTacToe-v0", {"players": 3}, MissingAsset, "number of players has to be 2, received 3"),
        ("TicTacToe-v0", {"opponent": "nowhere:at_all"}, ValueError, "opponent names 'nowhere:at_"),
        ("Tak-v0", {}, ValueError, "no valid move was found; .*; give opponent=, a function"),
        ("GuessWho-v0", {}, MissingAsset, "set the OPENROUTER_API_KEY environment variable"),
        ("UsedCarNegotiation-v0", {}, MissingAsset, "No such file or directory: .*blue_book.txt"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_an_error_of_one_line(name, options, kind, said, monkeypatch):
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(kind, match=said) as caught:
        make(name, **options)
    assert "\n" not in str(caught.value)


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "textarena", None)
    with pytest.raises(ImportError, match=r"pip install 'agent-envs\[textarena\]'"):
        make("TicTacToe-v0")


SAMPLE = (
    "TicTacToe-v0", "ConnectFour-v0", "FrozenLake-v0", "TowerOfHanoi-v0", "Nim-v0", "KuhnPoker-v0",
    "GuessTheNumber-v0", "Othello-v0-tiny", "IteratedPrisonersDilemma-v0", "LiarsDice-v0",
)  # fmt: skip


def test_no_revisited_anchor_diverges():
    revisited = 0
    for name in SAMPLE:
        env = make(name, max_turns=12)
        found = audit_anchors(env, actions=actions, tasks=2, episodes=16)
        assert (found.anchor.diverging, found.unrepeatable, found.violation) == (0, 0, ""), found
        revisited += found.anchor.revisited
    assert revisited > 50
