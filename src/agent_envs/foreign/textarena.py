"""TextArena games: one player is the agent, and the world plays the others.

Left out: TextArena's observation wrappers, since each turn shows what is new, and online play.
"""

from __future__ import annotations

import copy
import platform
import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from textwrap import shorten
from types import SimpleNamespace
from typing import Any, Literal

from agent_envs.assets import MissingAsset, require
from agent_envs.foreign import seats
from agent_envs.imports import describe_error, load_object
from agent_envs.panels import nearest
from agent_envs.signals import Signals
from agent_envs.signals.state import keep_chance

MOVES, GOAL = 1000, 400  # most moves of others between two turns; characters of a goal


def make(
    name: str,
    *,
    split: str = "train",
    max_turns: int = 100,
    reward: Literal["own", "success"] = "own",
    admissible: Sequence[str] = (),
    opponent: str | Callable[[str], str] = "random",
    players: int = 0,
    player: int = 0,
    render_mode: str | None = None,
) -> Signals:
    """A registered game of TextArena; docs/environments.md says what is lifted.

    `name` is the game's id; "-train" and "-raw" only change how an action is read. `opponent` is
    "random", or a function from all that a player has read to its move, or its import string.
    `players` is their number, 0 for the smallest that the game accepts, and `player` the agent's
    number among them. `admissible` has actions that are listed at every turn, to choose from. The
    other options are those of `Signals`.

    Raises:
        ImportError: the package is not installed.
        MissingAsset: the game does not start here; the message has its error.
        ValueError: unknown game or player, or a game in which a random player finds no move.
    """
    if isinstance(opponent, str) and opponent != "random":
        opponent = load_object(opponent, option="opponent")
    with keep_chance(0, None):
        world = Game(name, players, player, opponent)
    return Signals(
        world, goal="goal", valid="valid", progress="progress", success="success",
        admissible=admissible, ignore=world.unread, reward=reward, split=split, max_turns=max_turns,
        render_mode=render_mode,
    )  # fmt: skip


class Game:
    """A game with Gymnasium's `reset` and `step`, which also play the other players' moves."""

    def __init__(self, name: str, players: int, player: int, opponent: Any) -> None:
        arena = require("textarena", "textarena")
        known = arena.envs.registration.ENV_REGISTRY
        if name not in known:
            raise ValueError(f"textarena's {len(known)} games lack {name!r}{nearest(name, known)}")
        self.spec = SimpleNamespace(id=f"textarena:{name}")
        self.forms: list[Callable[[str], str]] = []
        try:
            self.game = arena.make(name)
            while isinstance(self.game, arena.Wrapper):
                if isinstance(self.game, arena.ActionWrapper):
                    own = {key: value for key, value in vars(self.game).items() if key != "env"}
                    self.forms.append(partial(type(self.game).action, SimpleNamespace(**own)))
                self.game = self.game.env
            count, begun = seats.begin_game(self.game, players, arena.SinglePlayerState)
        except Exception as error:
            data = re.search(r"nltk\.download\('(\w+)'\)", str(error))
            why = f"run `python -m nltk.downloader {data[1]}`" if data else describe_error(error)
            here = f"{self.spec.id} does not start with Python {platform.python_version()}"
            raise MissingAsset(f"{here}: {why}") from error
        if not 0 <= player < count:
            raise ValueError(f"player must be at least 0 and below {count}, got {player}")
        self.players, self.player, self.opponent = count, player, opponent
        limited = getattr(begun.state, "max_turns", None) is not None
        self.unread = ["logs", "game_info", *["turn"] * (not limited)]  # by the games
        probe = copy.copy(self)
        probe.game, probe.player, probe.done = begun, -1, False
        if opponent == "random" and count > 1 and (why := probe.play_others(2 * count)):
            raise ValueError(f"{self.spec.id}: {why}; give opponent=, a function from text to text")

    def reset(self, *, seed: int) -> tuple[str, dict[str, Any]]:
        """The rules, and what happened before the agent's first turn."""
        self.game.reset(num_players=self.players, seed=seed)
        self.done, self.heard = False, dict[int, str]()
        self.play_others()
        text, messages = seats.read_messages(self.game, self.player)
        rules = [message for _, message, kind in messages if kind.name == "PROMPT"]
        goal = shorten(rules[0] if rules else text, GOAL, placeholder=" ...")
        return text, {"goal": goal, "progress": self.find_progress()}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """The agent's move, and those of the others until it is the agent's turn again."""
        mine = not self.done and self.game.state.current_player_id == self.player
        refused = mine and self.move(action)  # a game can end before the agent's first turn
        stuck = self.play_others()
        text, _ = seats.read_messages(self.game, self.player)
        rewards = (self.done and self.game.close()[0]) or {}
        own = float(rewards.get(self.player, 0))
        success = self.done and own >= (max([1e-9, *rewards.values()]) if self.players > 1 else 1)
        why = stuck or self.game.state.game_info.get(self.player, {}).get("reason")
        info = {"valid": not refused, "success": success, "progress": self.find_progress()}
        cut = not self.done and self.game.state.current_player_id != self.player
        return "\n".join(filter(None, [text, why])), own, self.done, cut, info

    def find_progress(self) -> float:
        """The game's own share, which it would pay at its turn limit; 0 if it has none."""
        share = getattr(self.game, "_get_percentage_completion", float)
        return min(max(float(share()), 0.0), 1.0)

    def form(self, action: str) -> str:
        """The action as the game reads it."""
        return reduce(lambda text, form: form(text), self.forms, action)

    def move(self, action: str) -> bool:
        """Whether the game refuses the current player's move."""
        with seats.watch_refusals(self.game) as reasons:
            self.done = bool(self.game.step(self.form(action))[0])
        return bool(reasons)

    def play_others(self, most: int = MOVES) -> str:
        """Play until the game is over or it is the agent's turn; why it cannot go on, if so."""
        state = self.game.state
        for _ in range(most):
            other = state.current_player_id
            if self.done or other == self.player:
                break
            if self.opponent != "random":
                news, _ = seats.read_messages(self.game, other)
                self.heard[other] = f"{self.heard.get(other, '')}\n{news}".strip()
                self.move(seats.ask_opponent(self.opponent, self.heard[other]))
                continue
            try:
                self.move(seats.find_move(self.game, state.observations[other], self.form))
            except LookupError as error:
                return f"player {other}: {error}"
        for other in set(state.observations) - {self.player} if self.opponent == "random" else ():
            state.observations[other] = seats.keep_newest(state.observations[other])
        return ""
