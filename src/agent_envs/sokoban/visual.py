"""VisualSokoban-v0: the episodes of Sokoban-v0 as images."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from gymnasium.spaces import Box

from agent_envs.sokoban.env import Sokoban
from agent_envs.sokoban.prompt import DRAWN
from agent_envs.sokoban.sprites import SIDE


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

    template = DRAWN

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
        return self.image(), info | {"text": board}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action: image, reward, terminated, truncated, info."""
        board, reward, terminated, truncated, info = super().step(action)
        return self.image(), reward, terminated, truncated, info | {"text": board}
