"""Sokoban-v0 and VisualSokoban-v0: boxes pushed onto targets, as text and as images."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import one_of
from agent_envs.sokoban.board import DIRECTIONS, LAYOUTS, SYMBOLS, hash_board, write_board
from agent_envs.sokoban.levels import Levels, open_levels
from agent_envs.sokoban.prompt import IMAGE_TEMPLATE, TEXT_TEMPLATE
from agent_envs.sokoban.rooms import GeneratedRooms, Settings
from agent_envs.sokoban.solver import BUDGET, choose_solver

if TYPE_CHECKING:
    import os

    Image = NDArray[np.uint8]

REWARDS = ("sokoban", "success")
WALLS = ("valid", "invalid")

_FOUR = {word: (direction, True) for direction, word in enumerate(DIRECTIONS)}
_NINE = {
    "noop": (-1, False),
    **{f"push {word}": (direction, True) for direction, word in enumerate(DIRECTIONS)},
    **{f"move {word}": (direction, False) for direction, word in enumerate(DIRECTIONS)},
}
ACTIONS = {"text": _FOUR, "discrete4": _FOUR, "discrete9": _NINE}
"""The words of each action space -> direction (-1 for none), and whether it pushes."""

GOAL = (
    "Push every box onto a target. The board: {} wall, {} floor, {} target, {} box on target, "
    "{} box, {} you, {} you on a target."
).format(*SYMBOLS)

SIDE = 16  # pixels of a cell's side in our own drawings

_MORTAR, _BRICK = (66, 52, 48), (150, 82, 64)
_GROUND, _SPECK = (226, 218, 196), (206, 196, 170)
_RING = (206, 52, 70)
_WOOD, _BEAM = (190, 134, 66), (116, 74, 30)
_DONE, _DONE_BEAM = (96, 168, 84), (40, 96, 44)
_SKIN, _INK = (58, 104, 190), (16, 26, 52)


class Sokoban(AgentEnv):
    """Sokoban in text: push every box onto a target; boxes cannot be pulled.

    Description:
        The agent walks up, down, left and right in a room, and pushes the box in front of it if
        the cell behind the box is free. A box in a wrong corner can never be moved again.

    Observation:
        The board, one line per row: `#` wall, `_` floor, `O` target, `√` box on a target, `X` box,
        `P` player, `S` player on a target. `layout`: "compact" (as RAGEN); "spaced", with a space
        on both sides of a symbol (as VAGEN); "tabbed", also with a tab after it (as verl-agent).
        After a refused action, a line before the board gives the reason.

    Action:
        "text" and "discrete4": up, down, left, right; a box ahead is pushed. "discrete9": noop,
        push up to push right (which walk if there is nothing to push), move up to move right
        (which do not push). In the discrete spaces these are numbered from 0, and the words are
        accepted, too. Case and surrounding whitespace do not matter.

    Validity:
        "format" for text other than letters and spaces, "unknown" for other words. A step against
        a wall or a blocked box is valid but has no effect; with `wall="invalid"` it is "refused".
        `info["effective"]`: whether the board changed.

    Progress:
        1 - remaining actions of a shortest solution / those at the start, at least 0. At a dead
        end it is 0, and `info["dead_end"]` is True. `info["remaining"]` is the number of remaining
        actions, -1 at a dead end. It is exact in rooms of up to 2 million states. In larger rooms
        the search stops after `solver_budget` positions: then the number is a lower bound,
        `info["exact"]` is False, and progress may be too high. If the search at the start stopped,
        progress may be too low later on.

    Anchor:
        Digest of walls, targets, boxes and player.

    Reward:
        "sokoban": -0.1 per turn, 1 for a box pushed onto a target, -1 for one pushed off it, 10
        for the end (gym-sokoban). "success": 1 for the end, else 0.

    Ends:
        All boxes on targets: success. `max_turns` truncates. Dead ends do not end an episode.

    Tasks and splits:
        `train` (1,000 rooms), `val` and `test` (100 each), or as many as `rooms`. A room's split
        is determined by its walls and targets, up to symmetry, so two splits never share even
        these. Within a split no room is a rotated, mirrored or shifted copy of another. With
        `levels`, all levels of the files, or their `train`, `val` and `test` by the same digest.

    Data:
        None is needed: rooms are generated on demand, the same on every machine. `levels`: a file
        of Boxoban or XSB levels, plain, gzip or xz, or a folder of such files.
        `info` also has `boxes_on_target`.

    Source:
        Rewards and the way rooms are made: Schrader, gym-sokoban 0.0.6 (after Racanière et al.,
        2017); symbols: RAGEN. Code, rooms and drawings are ours.

    Args:
        split: None for train, or with `levels` for all.
        levels: see Data.
        height: rows of a generated room, walls included.
        width: columns likewise.
        boxes: boxes in a generated room, 1 to 8.
        min_solution: fewest actions of its shortest solution.
        max_solution: most actions. Large rooms with many boxes need 30 to 100, and more turns.
        rooms: how many to generate; None for the numbers above.
        layout: see Observation.
        reward: see Reward.
        action_space: see Action.
        wall: see Validity.
        solver_budget: see Progress; 0 uses only the lower bound of each box's pushes.
        strict: refuse bad levels, for benchmarks; False leaves them out with a warning.
        max_turns: turn limit.
        render_mode: None, "ansi" or "rgb_array".

    Raises:
        ValueError: an unknown option, or settings that no room satisfies; the message says which.
        MissingAsset: no levels.
        BadAsset: no level is good, or with `strict`, one is bad.
    """

    metadata = AgentEnv.metadata | {"render_modes": ["ansi", "rgb_array"]}
    template = TEXT_TEMPLATE
    experts = "agent_envs.sokoban.experts"
    verbs = (("move", "{direction}"),)

    def __init__(
        self,
        *,
        split: str | None = None,
        levels: str | os.PathLike[str] | None = None,
        height: int = 6,
        width: int = 6,
        boxes: int = 1,
        min_solution: int = 3,
        max_solution: int = 15,
        rooms: int | None = None,
        layout: str = "compact",
        reward: str = "sokoban",
        action_space: str = "text",
        wall: str = "valid",
        solver_budget: int = BUDGET,
        strict: bool = False,
        max_turns: int = 15,
        render_mode: str | None = None,
    ) -> None:
        one_of("layout", layout, tuple(LAYOUTS))
        one_of("reward", reward, REWARDS)
        one_of("action_space", action_space, tuple(ACTIONS))
        one_of("wall", wall, WALLS)
        if solver_budget < 0:
            raise ValueError(
                f"solver_budget, a number of positions, must be at least 0, got {solver_budget}"
            )
        self.source: Levels | GeneratedRooms
        if levels is not None:
            self.source = open_levels(levels, split or "all", strict=strict)
            self.reading = self.source.reading
        else:
            settings = Settings(height, width, boxes, min_solution, max_solution)
            self.source = GeneratedRooms(settings, split or "train", rooms)
        super().__init__(self.source.panel, max_turns=max_turns, render_mode=render_mode)
        self.layout, self.reward, self.wall, self.budget = layout, reward, wall, solver_budget
        self.graded = reward != "success"
        self.actions = ACTIONS[action_space]
        self.numbered = action_space != "text"
        if self.numbered:
            self.action_space = cast("Any", Discrete(len(self.actions)))

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The room of a task."""
        self.room = self.source.load(task_id)
        self.state = self.room.start
        self.solver = choose_solver(self.room, self.budget)
        self._at_start = self.solver.find_remaining(self.state).actions
        return GOAL, self._turn()._replace(reward=0.0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action, a word or, in a discrete space, its number.

        Raises:
            ResetNeeded, TypeError: as in `AgentEnv.step`.
            ValueError: in a discrete space, neither one of its words nor one of its numbers.
        """
        if self.numbered and not isinstance(action, str):
            action = self._read_number(action)
        return super().step(action)

    def act(self, action: str) -> Turn:
        """One step."""
        word = action.strip().lower()
        if word not in self.actions:
            reason = "unknown" if word.replace(" ", "").isalpha() else "format"
            return self.reject(reason, f"Not an action; use {', '.join(self.actions)}.")
        direction, push = self.actions[word]
        if direction < 0:
            return self._turn()
        before = self.state
        self.state = self.room.move(before, direction, push=push)
        if self.state is before and self.wall == "invalid":
            return self.reject("refused", "There is no way there.")
        return self._turn(before[1], effective=self.state is not before)

    def reject(self, reason: str, notice: str) -> Turn:
        """A turn without effect; it has the usual reward of a turn."""
        turn = self._turn()
        told = f"{notice}\n{turn.observation}"
        return turn._replace(observation=told, valid=False, invalid_reason=reason)

    def render(self) -> Any:
        """The latest turn as text, or the board as an image; None without a render mode."""
        if self.render_mode == "rgb_array" and self.transcript:
            return self.draw()
        return super().render()

    def draw(self) -> Image:
        """The current board, in the size of the largest room: uint8 [16 H, 16 W, 3]."""
        shape = self.room.height, self.room.width
        return draw_image(self.room.encode_state(self.state), shape, self.source.shape)

    def _read_number(self, number: Any) -> str:
        """The word for a number of a discrete space."""
        if number in self.action_space:
            return [*self.actions][int(number)]
        raise ValueError(
            f"an action must be one of {', '.join(self.actions)}, or its number from 0 to "
            f"{len(self.actions) - 1}; got {number!r:.60}"
        )

    def _turn(self, boxes_before: int | None = None, *, effective: bool = False) -> Turn:
        """The turn of the current board, after a step from `boxes_before` or without a step."""
        room, (_, boxes) = self.room, self.state
        kinds, left = room.encode_state(self.state), self.solver.find_remaining(self.state)
        on_target = (boxes & room.targets).bit_count()
        before = boxes if boxes_before is None else boxes_before
        solved = boxes == room.targets
        reward = float(solved)
        if self.reward == "sokoban":
            reward = -0.1 + (on_target - (before & room.targets).bit_count()) + 10 * solved
        return Turn(
            write_board(kinds, room.width, self.layout),
            progress=max(0.0, 1 - left.actions / self._at_start) if left.solvable else 0.0,
            anchor=hash_board(kinds, room.width),
            reward=reward,
            success=solved,
            admissible_actions=self._list_actions(),
            extra={
                "effective": effective,
                "dead_end": not left.solvable,
                "boxes_on_target": on_target,
                "remaining": left.actions if left.solvable else -1,
                "exact": left.exact,
            },
        )

    def _list_actions(self) -> list[str]:
        """All words; with `wall="invalid"` only noop and those that change the board."""
        if self.wall == "valid":
            return list(self.actions)
        state, move = self.state, self.room.move
        return [
            word
            for word, (direction, push) in self.actions.items()
            if direction < 0 or move(state, direction, push=push) is not state
        ]


class VisualSokoban(Sokoban):
    """Sokoban-v0 as an image: the same episodes, turn by turn, with the text in `info["text"]`.

    Description:
        As `Sokoban`'s.

    Observation:
        The board as an image with 16 by 16 pixels per cell: uint8 [16 height, 16 width, 3]. If
        `levels` have several sizes, smaller ones are padded with wall below and on the right.
        `info["text"]` is the observation of `Sokoban`.

    Action:
        As `Sokoban`'s.

    Validity:
        As `Sokoban`'s.

    Progress:
        As `Sokoban`'s.

    Anchor:
        As `Sokoban`'s.

    Reward:
        As `Sokoban`'s.

    Ends:
        As `Sokoban`'s.

    Tasks and splits:
        As `Sokoban`'s.

    Data:
        As `Sokoban`'s; the package draws the images.

    Source:
        As `Sokoban`'s.
    """

    template = IMAGE_TEMPLATE

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        height, width = self.source.shape
        shape = SIDE * height, SIDE * width, 3
        self.observation_space = cast("Any", Box(0, 255, shape, np.uint8))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode: image and info."""
        board, info = super().reset(seed=seed, options=options)
        return self.draw(), info | {"text": board}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action: image, reward, terminated, truncated, info."""
        board, reward, terminated, truncated, info = super().step(action)
        return self.draw(), reward, terminated, truncated, info | {"text": board}


def draw_image(kinds: bytes, shape: tuple[int, int], canvas: tuple[int, int]) -> Image:
    """An image of `canvas` cells with a board of `shape` = (height, width); the rest is wall.

    Returns:
        uint8 [16 * canvas height, 16 * canvas width, 3].
    """
    board = np.frombuffer(kinds, np.uint8).reshape(shape)
    if shape != canvas:
        below, beside = canvas[0] - shape[0], canvas[1] - shape[1]
        board = np.pad(board, ((0, below), (0, beside)))
    rows, columns = SIDE * canvas[0], SIDE * canvas[1]
    return draw_sprites()[board].transpose(0, 2, 1, 3, 4).reshape(rows, columns, 3)


@cache
def draw_sprites() -> Image:
    """The drawing of each kind of cell, in their order: uint8 [7, 16, 16, 3]."""
    y, x = np.mgrid[:SIDE, :SIDE]
    radius, reach = np.hypot(y - 7.5, x - 7.5), np.maximum(abs(y - 7.5), abs(x - 7.5))
    courses = (x + y // 8 * 8) % SIDE  # two rows of bricks, the lower one shifted by half a brick
    joint = np.isin(y % 8, 7) | np.isin(courses, 7)
    speck = np.isin((7 * x + 11 * y) % 23, 0)
    ring = abs(radius - 6.6) < 1
    crate = np.ceil(reach) <= SIDE // 2 - 2
    beam = crate & (np.isin(np.ceil(reach), (5, 6)) | (abs(y - x) <= 1))
    head = np.floor(radius) < SIDE // 3
    eyes = np.isin(y, 6) & np.isin(x, (5, 10))
    mouth = np.isin(y, 10) & np.isin(x, (6, 7, 8, 9))

    def paint(*parts: tuple[NDArray[np.bool_], tuple[int, int, int]]) -> Image:
        picture = np.full((SIDE, SIDE, 3), _GROUND, np.uint8)
        for where, colour in parts:
            picture[where] = colour
        return picture

    floor, target = (speck, _SPECK), (ring, _RING)
    player = (head, _SKIN), (eyes | mouth, _INK)
    return np.stack(
        [
            paint((y >= 0, _BRICK), (joint, _MORTAR)),
            paint(floor),
            paint(floor, target),
            paint(floor, (crate, _DONE), (beam, _DONE_BEAM)),
            paint(floor, (crate, _WOOD), (beam, _BEAM)),
            paint(floor, *player),
            paint(floor, target, *player),
        ]
    )
