"""TextWorld-v0: games of TextWorld, with validity, progress, anchors and goals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent_envs.assets import Reading, find_data, require
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import Panel, one_of
from agent_envs.textworld.engine import LONGEST, Play
from agent_envs.textworld.games import find_files, open_game, open_panel, read_task
from agent_envs.textworld.prompt import TEMPLATE

if TYPE_CHECKING:
    import os

REWARDS = ("score", "success")

META = frozenset(
    "again brief disable enable g long normal notification notify nouns o oops print_state "  # noqa: SIM905
    "pronouns q quit recording replay restart restore restrict save score script short superbrief "
    "transcript undo unscript verbose verify version".split()
)
"""First words of commands to the interpreter: they would leave the game, wait or change texts."""

_MANY = re.compile(r"[.,;]|\bthen\b", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:it|its|them|their|him|his|her)\b", re.IGNORECASE)
_DEADLY = re.compile(r"[\\\x00-\x1f\x7f]")
"""A backslash and control characters: the interpreter hangs or crashes on them."""


class TextWorld(AgentEnv):
    """Text adventures of Microsoft's TextWorld: generated games by kind, level and seed, or files.

    Description:
        The agent walks through rooms, opens doors and containers, takes, puts, cooks and eats
        things, until the quest of the game is done or lost (Côté et al., 2018). The game runs on
        TextWorld's interpreter, and its texts are TextWorld's.

    Observation:
        The game's text, without the banner of the opening and the status line of the prompt. What
        is refused before it reaches the game has a line of ours.

    Action:
        One command of the game, such as `go east`, `open chest drawer`, `take coin`, `put apple on
        stove`, `inventory`. `info["admissible_actions"]` has all commands that are possible now,
        sorted. Other words for the same are accepted, too, such as `n`, `get coin`, `x coin`.

    Validity:
        A command is valid if it is one of the possible ones, or if TextWorld's count of moves
        rises: an action of the game succeeded. Any other command leaves the state as it was:
        "refused" if the game read it but the action is not possible now; "unknown" if the game did
        not understand it, or sees no such thing. Not passed on to the game are
        texts that are empty, not plain ASCII or too long, and several commands at once, "format";
        commands to the interpreter (restart, quit, save, undo, ...) and pronouns, whose meaning
        depends on earlier turns, "refused".

    Progress:
        1 - number of commands left in TextWorld's own solution / number at the start, at least 0.
        TextWorld keeps the solution up to date: a step astray adds the commands that undo it, so
        that progress falls, down to 0; a shortcut that it finds lets progress rise. It is 0 after
        a loss, and if TextWorld knows no solution any more. `info["remaining"]` is the number of
        commands left, -1 if no solution is known. It need not be a shortest solution, and states
        with one anchor may have different progress, since it depends on the way there. For a game
        that has no solution at the start: points / (maximum + 1), 1 for a win.

    Anchor:
        Digest of the facts that differ from the start, and of the quests whose points have been
        given. What was seen or examined is not part of it.

    Reward:
        "score": the points of this turn / the maximum, so that they add up to 1. "success": 1 for
        a win, else 0.

    Ends:
        A win is a success; losing the game (eating or taking the wrong thing, burning food)
        terminates, too. `max_turns` truncates.

    Tasks and splits:
        `train` (up to 100 games of each kind), `val` and `test` (up to 20 each). A task id is
        `<kind>-<level>-<seed>`. The split of a seed is decided by the map of its game (rooms,
        exits, doors, places of things, all without names), so that no map of one split is in
        another. Only `simple` has one map for all games: its splits differ in the places of named
        things. `games` plays any other levels and seeds. Files: "all", by their names without
        ending.

    Data:
        None is needed: generated games are made on demand by TextWorld's `tw-make`, the same on
        every machine, in some 8 s each, and kept in the user's cache folder. `data`: games made by
        `tw-make`. `info` also has `score`, `max_score`, `strata` (kind and level) and `measures`
        (the share of the points).

    Source:
        Côté et al., TextWorld: A Learning Environment for Text-based Games, 2018; the generators
        are those of the package `textworld`. Levels of `cooking`: Adhikari et al., Learning Dynamic
        Belief Graphs to Generalize on Text-Based Games, 2020, Table 1.

    Args:
        split: see Tasks and splits; None for "train", or of files for "all".
        kind: "simple", "treasure_hunter", "coin_collector", "cooking" or "custom"; None for all.
        level: of the kind, see `docs/textworld.md`; None for its default.
        games: task ids of generated games to play instead of a split.
        data: "embedded" for generated games; a .z8 file, or a folder of them, each with its .json;
            "auto" for the folder `$TEXTWORLD_DATA` if it is set and nothing else is asked for, else
            generated games.
        reward: see Reward.
        max_turns: turn limit.
        strict: refuse a folder with bad files, for benchmarks; False leaves them out with a
            warning.
        render_mode: None or "ansi".

    Raises:
        ImportError: the package `textworld` is not installed.
        ValueError: an unknown option, or options that exclude each other.
        MissingAsset: no game there.
        BadAsset: with `strict`, a bad file.
    """

    template = TEMPLATE
    experts = "agent_envs.textworld.experts"

    def __init__(
        self,
        *,
        split: str | None = None,
        kind: str | None = None,
        level: int | None = None,
        games: Iterable[str] | str = (),
        data: str | os.PathLike[str] = "auto",
        reward: str = "score",
        max_turns: int = 50,
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        require("textworld", "textworld")
        one_of("reward", reward, REWARDS)
        chosen = (games,) if isinstance(games, str) else tuple(games)
        generated = bool(chosen or kind or level is not None)
        if chosen and (split or kind or level is not None):
            raise ValueError("games names the tasks; leave out split, kind and level")
        path = None if generated and data == "auto" else find_data(data, "TEXTWORLD_DATA")
        if path is not None and (generated or split not in (None, "all")):
            raise ValueError("games, split, kind and level are of generated games, not of data")
        self.reading, self._paths = Reading(), dict[str, str]()
        if path is not None:
            panel, self._paths = find_files(path, self.reading, strict=strict)
        elif chosen:
            panel = Panel("games", tuple("-".join(map(str, read_task(one))) for one in chosen))
        else:
            panel = open_panel(split or "train", kind, level)
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)
        self.reward, self.graded = reward, reward != "success"

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The opening of a game.

        Raises:
            RuntimeError: it could not be made.
            MissingAsset, BadAsset: its file is gone or damaged.
        """
        game = open_game(self._paths.get(task_id, task_id))
        self.play = Play(game)
        self._strata = {"kind": "file"}
        if not self._paths:
            kind, number, _ = read_task(task_id)
            self._strata = {"kind": kind, "level": str(number)}
        self._at_start = len(self.play.policy)
        points = f"Win the game of {game.max_score} points."
        return game.world.objective.strip() or points, self._turn(game.opening)

    def act(self, action: str) -> Turn:
        """One command."""
        command = action.strip()
        listed = command in self.play.commands
        refusal = find_refusal(command)
        if refusal and (not listed or _DEADLY.search(command)):
            return self.reject(*refusal)
        before = self.play.score
        reply = self.play.send(command)
        ended = self.play.won or self.play.lost
        if listed or reply.moves or ended:
            return self._turn(reply.text, self.play.score - before)
        return self.reject("refused" if reply.took_turn else "unknown", reply.text)

    def _turn(self, observation: str, points: int = 0) -> Turn:
        play, most, ended = self.play, self.play.game.max_score, self.play.won or self.play.lost
        left = 0 if ended else len(play.policy)
        share = play.score / most if 0 < most < float("inf") else 0.0
        progress = share * most / (most + 1) if share else 0.0
        if self._at_start:
            progress = max(0.0, 1 - left / self._at_start) if left else 0.0
        reward = float(play.won)
        if self.reward == "score":
            reward = points / most if 0 < most < float("inf") else float(points)
        return Turn(
            observation,
            progress=1.0 if play.won else 0.0 if play.lost else progress,
            anchor=play.anchor,
            reward=reward,
            success=play.won,
            failure=play.lost,
            admissible_actions=() if ended else play.commands,
            extra={
                "score": play.score,
                "max_score": most,
                "remaining": 0 if play.won else left or -1,
                "strata": self._strata,
                "measures": {"score": share},
            },
        )


def find_refusal(command: str) -> tuple[str, str] | None:
    """Reason and notice for a command that must not reach the game; None for any other."""
    word, *_ = command.lower().split(maxsplit=1) or [""]
    pronoun = _PRONOUN.search(command)
    notices = {
        "There is no command.": not command,
        "A command is one line of plain letters, digits and signs.": (
            not command.isascii() or _DEADLY.search(command)
        ),
        f"The command has {len(command)} characters, more than {LONGEST}.": len(command) > LONGEST,
        "One command at a time, without full stops, commas and `then`.": _MANY.search(command),
    }
    for notice, is_broken in notices.items():
        if is_broken:
            return "format", notice
    if word in META or word.startswith("tw-"):
        return "refused", f"`{word}` is no command to the game; it goes on."
    return ("refused", f"Name the thing instead of `{pronoun[0]}`.") if pronoun else None
