"""The seats of a TextArena game: what a player reads, and the moves of those who are not the agent.

A random player has no sense of a good move; it knows only the forms that the game's texts show.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from agent_envs.contract import ContractError
from agent_envs.imports import describe_error, message_of

TRIES = 2000
"""Most moves with other numbers and letters that are tried, and most lines."""
_READ = ("PROMPT", "GAME_BOARD", "GAME_MESSAGE")  # kinds of messages: the rules, and the news
_MOVE = re.compile(r"\[(?:[^\[\]\n]|\[[^\[\]\n]*\])+\]")  # in brackets, which may have others
_PART = re.compile(r"<\w+>|\d+|\b[A-Za-z]\b|[a-z](?=\d)")  # where moves of one form differ

Message = tuple[int, str, Any]
"""Sender, text and kind."""


def begin_game(game: Any, players: int, alone: type) -> tuple[int, Any]:
    """The number of players, by default the least that the game accepts, and a begun copy of it.

    Args:
        game: the game without wrappers.
        players: the number, 0 for the least.
        alone: class of the state of games of one player.

    Raises:
        Exception: the error with which the game refuses the number, or any number up to 15.
    """
    for count in [players] if players else range(1, 16):
        begun = copy.deepcopy(game)
        try:
            begun.reset(num_players=count, seed=0)
        except Exception as error:  # noqa: BLE001  games refuse a number in many ways
            refused = error
            continue
        if players or (count == 1) == isinstance(begun.state, alone):
            return count, begun
    raise refused


def read_messages(game: Any, player: int) -> tuple[str, list[Message]]:
    """What a player has not read yet, without its own moves, as text and as messages."""
    state = game.state
    if state.current_player_id == player and not state.done:
        messages = game.get_observation()[1]
    else:
        messages, state.observations[player] = state.observations[player], []
    messages = [one for one in messages if one[0] != player]
    names = {one: f"[{name}] " for one, name in state.role_mapping.items() if one >= 0}
    return "\n".join(f"{names.get(one, '')}{text}" for one, text, _ in messages), messages


def ask_opponent(opponent: Callable[[str], Any], text: str) -> str:
    """The move of a function that has read a text.

    Raises:
        ContractError: the function fails, or returns no text.
    """
    try:
        move = opponent(text)
    except Exception as error:
        raise ContractError(f"opponent= failed: {describe_error(error)}") from error
    if not isinstance(move, str):
        raise ContractError(f"opponent= must return a text, got {move!r:.60}")
    return move


def keep_newest(messages: list[Message]) -> list[Message]:
    """The messages that a random player reads: the newest of each kind, without their senders."""
    newest = {kind: text for _, text, kind in messages if kind.name in _READ}
    return [(-1, text, kind) for kind, text in newest.items()]


def find_move(game: Any, messages: list[Message], form: Callable[[str], str]) -> str:
    """A text that the game accepts from its current player.

    It is one in brackets in the news if one is accepted there; else one in brackets with other
    numbers and letters; else a line of the rules with such changes. Each is tried on a copy, and
    the draws are of `random`.

    Args:
        game: the game without wrappers.
        messages: what the player has not read yet, and the rules.
        form: what makes the game's action of a text.

    Raises:
        LookupError: none was found; the message has the error of the last one.
    """
    texts = {kind.name: text for _, text, kind in keep_newest(messages)}
    news = "\n".join(texts.get(kind, "") for kind in _READ[1:])
    listed = sorted(set(_MOVE.findall(news)))
    shown = _MOVE.findall("\n".join(texts.values())) or ["[1]"]
    lines = [line.strip() for line in texts.get("PROMPT", "").split("\n") if _MOVE.search(line)]
    letters = [*re.findall(r"\b[a-z]\b", news), *"abcdefgh"]
    numbers = [*re.findall(r"\d+", news), *"0123456789"]

    def draw(part: re.Match[str]) -> str:
        return str(random.choice(letters if re.fullmatch("[a-z]", part[0]) else numbers))

    forms = chain.from_iterable([some] * TRIES for some in (shown, lines) if some)
    varied = (_PART.sub(draw, random.choice(some)) for some in forms)
    twin, last = copy.deepcopy(game), ""
    for text in chain(random.sample(listed, len(listed)), varied):
        try:
            with watch_refusals(twin, stop=True):
                twin.step(form(text))
        except Exception as error:  # noqa: BLE001  refused, or more than the game can read
            last = f"{type(error).__name__}: {message_of(error)}"
            continue
        return str(text)
    raise LookupError(f"no valid move was found; the last one failed with {last}")


@contextmanager
def watch_refusals(game: Any, *, stop: bool = False) -> Iterator[list[Any]]:
    """The reasons for which a game refuses moves in this block.

    Args:
        game: the game without wrappers.
        stop: whether a refusal ends the block with ValueError, before it has an effect.
    """
    state, reasons = game.state, list[Any]()

    def note(*given: Any, **named: Any) -> Any:
        reasons.append(named.get("reason") or given)
        if stop:
            raise ValueError(reasons[0])
        return type(state).set_invalid_move(state, *given, **named)

    state.set_invalid_move = note
    try:
        yield reasons
    finally:
        del state.set_invalid_move
