"""Games of GEM, named as `gem:game:Sudoku-v0-easy`.

Left out: GEM's other families. `rg:` is `reasoning_gym:` here; the rest download their questions.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, Literal

from agent_envs.assets import MissingAsset, require
from agent_envs.panels import nearest
from agent_envs.signals import Signals
from agent_envs.signals.state import keep_chance

MISTAKES = {"format_error_reward": "format", "invalid_action_reward": "refused"}
"""Constants of GEM that a game reads when the action is invalid, and the reason."""
TABLES = ("all_words", "available_words", "word_data", "word_list")
"""Attributes with words, which no step changes; copies of a game share them."""
NEEDED: dict[str, dict[str, Any]] = {
    "game:Crosswords-v0-random": {"hardcore": False},
    "game:FifteenPuzzle-v0-random": {"num_rows": 2},
}
"""What two games cannot be made without, although each reset draws it anew."""


class Game(Signals):
    r"""A game of GEM.

    Description:
        Puzzles and guessing games in several turns, most of them easy, hard or of random size. The
        goal is the rules.

    Observation:
        The game's answer, then its board if it has one; at the reset the rules come first.

    Action:
        The content of `\boxed{}`, such as "left" or "1 2 4".

    Validity:
        "format" if the game cannot read the action, which ends it; "refused" if the rules do not
        allow the action. Either takes effect: it is a turn of the game.

    Progress:
        Sum of the positive rewards, at most 1; it can be 1 without success. Some games pay only at
        the end.

    Anchor:
        Digest of the game without its count of turns.

    Reward:
        The game's own: 1 in sum for success, less for a part of it, -0.1 for a format error. With
        `reward="success"` 1 for success, else 0.

    Ends:
        Success, a lost game, a format error; truncated after a limit of its own, which the rules
        state, or `max_turns`.

    Tasks and splits:
        As in `Signals`. Small games have fewer tasks than seeds.

    Data:
        None; Wordle, Hangman and WordSearch need NLTK's word list.

    Source:
        Liu et al., GEM: A Gym for Agentic LLMs, arXiv 2510.01051.

    Args:
        name: id in GEM's registry.
        split: "train", "val" or "test".
        max_turns: turn limit.
        reward: "own" or "success".
        admissible: actions that are listed at every turn, to choose from.
        config: arguments of the game that replace those of its id, such as {"num_disks": 4}.
        render_mode: None or "ansi".

    Raises:
        ImportError: gem-llm is not installed.
        MissingAsset: the word list is not installed.
        ValueError: there is no such game.
    """

    def __init__(
        self,
        name: str,
        *,
        split: str = "train",
        max_turns: int = 100,
        reward: Literal["own", "success"] = "own",
        admissible: Sequence[str] = (),
        config: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            _World(name, dict(config or {})),
            goal="rules",
            action=_box,
            valid="mistake",
            progress="gained",
            success="won",
            admissible=admissible,
            ignore=("turn_count", "gained", *TABLES),
            split=split,
            reward=reward,
            max_turns=max_turns,
            render_mode=render_mode,
        )


make = Game


class _World:
    """A game that shows its board in the observation, and reports mistakes and gains in `info`."""

    def __init__(self, name: str, config: dict[str, Any]) -> None:
        self.game = _make_game(name, config)
        self.constants = require("gem.utils.constants", "gem").LanguageGameReward
        options = json.dumps(config, sort_keys=True, default=repr) if config else ""
        self.spec = SimpleNamespace(id=f"gem:{name}{options}")
        self.gained = 0.0

    def __deepcopy__(self, memo: dict[int, Any]) -> _World:
        tables = [getattr(self.game, name, None) for name in TABLES]
        memo.update({id(table): table for table in tables})
        made = object.__new__(type(self))
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    def reset(self, *, seed: int) -> tuple[str, dict[str, Any]]:
        text, info = self.game.reset(seed)
        self.gained = 0.0
        return _show(text, info), {"rules": text, "gained": 0.0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        with _note_mistakes(self.constants) as mistakes:
            text, reward, terminated, truncated, info = self.game.step(action)
        self.gained = min(1.0, round(self.gained + max(0.0, reward), 9))
        report = {
            "mistake": mistakes[0] if mistakes else "",
            "gained": self.gained,
            "won": terminated and text.startswith("Congratulations"),
        }
        ended = terminated and not truncated  # a game at its turn limit says both
        return _show(text, info), float(reward), ended, truncated, report


def _box(action: str) -> str:
    return action if "\\boxed" in action else f"\\boxed{{{action}}}"


def _show(text: str, info: dict[str, Any]) -> str:
    return "\n".join(filter(None, [text.rstrip("\n"), info.get("suffix")]))


class _Watched:
    """A constant of a class that notes when it is read."""

    def __init__(self, value: float, note: partial[None]) -> None:
        self.value, self.note = value, note

    def __get__(self, *_: Any) -> float:
        self.note()
        return self.value


@contextmanager
def _note_mistakes(constants: type) -> Iterator[list[str]]:
    """Reasons of the mistakes whose constants are read meanwhile; then they are as before."""
    kept = {name: vars(constants)[name] for name in MISTAKES}
    read: list[str] = []
    try:
        for name, value in kept.items():
            setattr(constants, name, _Watched(value, partial(read.append, MISTAKES[name])))
        yield read
    finally:
        for name, value in kept.items():
            setattr(constants, name, value)


def _make_game(name: str, config: dict[str, Any]) -> Any:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with keep_chance(0, None):
        gem = require("gem", "gem")  # it configures the root logger
        root.handlers[:] = handlers
        root.setLevel(level)
        ids = gem.envs.registration.ENV_REGISTRY
        if name in ids and not name.startswith("game:"):
            raise ValueError(
                f"gem:{name} is no game, and only games are lifted: rg:NAME is reasoning_gym:NAME "
                "here, and the other families download their questions"
            )
        if name not in ids:
            raise ValueError(f"GEM has no game {name!r}{nearest(name, ids)}")
        try:
            return gem.make(name, **{**NEEDED.get(name, {}), **config})
        except LookupError:
            raise MissingAsset(
                f"gem:{name} needs NLTK's word list; run `python -m nltk.downloader words`"
            ) from None
