"""Scripted partners: characters of generated scenes, and an echo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from agent_envs.panels import one_of
from agent_envs.sotopia.acquaintance import Acquaintance
from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.families import TEMPERS
from agent_envs.sotopia.friends import Friends
from agent_envs.sotopia.negotiator import Negotiator
from agent_envs.spaces import ACTION_LENGTH

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.sotopia.scene import Scene
    from agent_envs.sotopia.talk import Talk

WAYS_OUT = (
    'partner="openai:<model>@<base url>" (a model), partner="echo" (repeats what it hears), '
    'partner="external" (both sides are yours) or a Partner of your own'
)


class Speaker(Protocol):
    """One side of one episode."""

    @property
    def state(self) -> str:
        """Its state besides the talk, as text for anchors; equal for equal states."""

    def reply(self, talk: Talk) -> Act:
        """Its next act in a talk at its turn."""


class Partner(Protocol):
    """The other side of all episodes."""

    def check(self, scene: Scene) -> None:
        """Refuse a scene that it cannot play.

        Raises:
            ValueError: it cannot; the message names other partners.
        """

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:
        """A speaker for one side of a scene; its randomness comes from `rng`."""


class ScriptedPartner:
    """Plays generated scenes by the scene's temper, or all by one temper.

    Raises:
        ValueError: an unknown temper.
    """

    def __init__(self, temper: str = "") -> None:
        if temper:
            one_of("temper", temper, TEMPERS)
        self.temper = temper

    def check(self, scene: Scene) -> None:
        """Refuse scenes that consist only of text."""
        if scene.game is None:
            raise ValueError(
                f"the scripted partner only plays generated scenes, got {scene.codename!r}; "
                f"use {WAYS_OUT}"
            )

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:
        """The speaker."""
        temper = self.temper or scene.temper[side]
        kind = Acquaintance if isinstance(scene.game, Friends) else Negotiator
        return kind(scene, side, temper, rng)


class Echo:
    """Repeats the other's lines, to try scenes that nothing else can play.

    Its acts are not spoken, so that it never agrees to anything.
    """

    def check(self, scene: Scene) -> None:
        """Accept every scene."""

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:  # noqa: ARG002
        """The speaker."""
        return _Echoing()


class _Echoing:
    state = ""

    def reply(self, talk: Talk) -> Act:
        heard = talk.said[-1].act.argument if talk.said else ""
        return Act("action", f"repeats: {heard}"[:ACTION_LENGTH]) if heard else speak("Hello.")
