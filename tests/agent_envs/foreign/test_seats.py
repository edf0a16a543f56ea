"""A random player on games that only say what they refuse, without the package textarena."""

import copy
import random
import re
from enum import Enum

import pytest

from agent_envs import ContractError
from agent_envs.foreign.seats import ask_opponent, find_move, keep_newest, watch_refusals

RULES, BOARD, NEWS, MOVE = Enum("Kind", "PROMPT GAME_BOARD GAME_MESSAGE PLAYER_ACTION")


class State:
    def __init__(self):
        self.errors = 0

    def set_invalid_move(self, reason):
        self.errors += 1
        return self.errors > 1


class Only:
    """A game that accepts the moves of a pattern, and moves once."""

    def __init__(self, pattern):
        self.pattern, self.state, self.moves = pattern, State(), []

    def step(self, action):
        if not re.fullmatch(self.pattern, action):
            self.state.set_invalid_move(reason=f"not {self.pattern}")
            return False, {}
        self.moves.append(action)
        return True, {}


def messages(rules="", board="", news=""):
    return [
        (-1, rules, RULES),
        (-1, "an old board [z9]", BOARD),
        (-1, board, BOARD),
        (0, news, NEWS),
    ]


@pytest.mark.parametrize(
    ("pattern", "read"),
    [
        (r"\[fold\]", messages("'[bet]', '[check]'", news="You can [call] or [fold].")),
        (r"\[b\d c\d\]", messages("Moves such as [a1 a2].", "a b c d")),
        (r"\[col 7\]", messages("For example [col 4].")),
        (r"\[raise 150\]", messages("[raise X] with X up to your chips", "You have 150 chips.")),
        (r"\[put \[C1, F1\]\]", messages("[put [C0, F0]]")),
        (r"We say \[Offer\] \$3", messages("Make an offer:\nWe say [Offer] $X")),
        (r".*", messages("Say anything.")),
    ],
)  # fmt: skip
def test_a_random_player_finds_moves_of_the_forms_that_it_reads(pattern, read):
    game = Only(pattern)
    random.seed(0)
    move = find_move(game, read, str)
    assert re.fullmatch(pattern, move)
    assert game.moves == []  # tried on a copy
    assert game.state.errors == 0


def test_its_draws_are_pythons_and_spread_over_what_is_listed():
    game, read = Only(r"\[\w\]"), messages("Say [x].", "[a] [b] [c]")
    random.seed(0)
    drawn = [find_move(game, read, str) for _ in range(30)]
    assert set(drawn) == {"[a]", "[b]", "[c]"}
    random.seed(0)
    assert [find_move(game, read, str) for _ in range(30)] == drawn


def test_no_move_is_an_error_with_the_games_reason():
    with pytest.raises(LookupError, match=r"the last one failed with ValueError: not \[never\]"):
        find_move(Only("[never]"), messages("Say [x]."), str)


def test_the_newest_of_each_kind_is_kept():
    kept = keep_newest([*messages("rules", "board", "news"), (0, "[a1]", MOVE)])
    assert [text for _, text, _ in kept] == ["rules", "board", "news"]


def test_refusals_are_seen_and_take_effect_unless_they_stop():
    game = Only("x")
    with watch_refusals(game) as reasons:
        game.step("y")
    assert (reasons, game.state.errors) == (["not x"], 1)
    with pytest.raises(ValueError, match="not x"), watch_refusals(game, stop=True):
        game.step("y")
    assert game.state.errors == 1
    assert vars(copy.deepcopy(game).state) == {"errors": 1}  # nothing is left on the state


def test_what_a_function_returns_is_checked():
    assert ask_opponent(str.upper, "hit") == "HIT"
    with pytest.raises(ContractError, match=r"opponent= must return a text, got 3"):
        ask_opponent(len, "hit")
    with pytest.raises(ContractError, match=r"opponent= failed: ZeroDivisionError: .*test_seats"):
        ask_opponent(lambda text: 1 / 0, "hit")
