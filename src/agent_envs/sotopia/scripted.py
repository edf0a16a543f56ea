"""Partners: who plays the other side of a talk. The scripted one and an echo; models are elsewhere.

The scripted partner follows its facts and the typed fields of acts. It tells a fact when it is
asked about the topic, when the other talks, and when it refuses an offer. It has patience for few
mistakes.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agent_envs.sotopia.scene import WORDS, WORLD
from agent_envs.sotopia.talk import Act, speak
from agent_envs.spaces import ACTION_LENGTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from agent_envs.sotopia.scene import Deal, Game, Scene
    from agent_envs.sotopia.talk import Talk

PATIENCE = {"train": 2, "val": 2, "test": 2, "hard": 1}
"""How much patience a scripted partner has in a split; without any it leaves."""
IGNORED = 2  # cost of an offer against what was all said; other refused offers and idle acts cost 1
_WARNING = "My patience is at its end."


class Speaker(Protocol):
    """One side of one episode."""

    @property
    def state(self) -> str:
        """Its state besides the talk, as text for anchors; equal for equal states."""

    def reply(self, talk: Talk) -> Act:
        """Its next act in a talk at its turn."""


class Partner(Protocol):
    """The other side of all episodes.

    A partner with an attribute `needs_game` is refused where scenes consist only of text.
    """

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:
        """A speaker for one side of a scene; its randomness comes from `rng`."""


class ScriptedPartner:
    """Plays the side with the facts in generated scenes."""

    needs_game = True

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:  # noqa: ARG002
        """The speaker."""
        assert scene.game is not None  # noqa: S101  the environment has checked it
        return Holder(scene.game, int(rng.integers(2**31)))


class Echo:
    """Repeats the other's lines, to try scenes that nothing else can play."""

    state = ""

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:  # noqa: ARG002
        """The speaker."""
        return self

    def reply(self, talk: Talk) -> Act:
        """The other's line again."""
        heard = talk.said[-1].act.argument if talk.said else ""
        return Act("action", f"repeats: {heard}"[:ACTION_LENGTH]) if heard else speak("Hello.")


class Mood(NamedTuple):
    """The state of a scripted partner.

    told: the facts that it has told. refused: the offers. spoke: whether it has said anything.
    """

    patience: int
    told: frozenset[int] = frozenset()
    refused: frozenset[Deal] = frozenset()
    spoke: bool = False


class Holder:
    """The side with the facts in one episode; `wording` chooses its words."""

    def __init__(self, game: Game, wording: int) -> None:
        self.game, self.wording = game, wording
        self.mood = Mood(PATIENCE[game.split])

    @property
    def state(self) -> str:
        """Its mood as text."""
        patience, told, refused, spoke = self.mood
        return repr((patience, sorted(told), sorted(refused), spoke))

    @property
    def told(self) -> float:
        """The share of its facts that it has told."""
        return len(self.mood.told) / len(self.game.facts)

    def is_idle(self, act: Act) -> bool:
        """Whether it has answered this question or refused this offer before."""
        known = [self.game.facts[place].topic for place in self.mood.told]
        return act.ask in known or act.offer in self.mood.refused

    def reply(self, talk: Talk) -> Act:
        """Its next act; updates its mood."""
        answer = self._answer(talk.said[-1].act) if talk.said else speak(self._choose("greet"))
        if answer.kind == "speak" and not self.mood.spoke and answer.accept is None:
            answer = answer._replace(offer=self.game.demand)
        self.mood = self.mood._replace(spoke=True)
        return answer

    def _answer(self, act: Act) -> Act:
        """The answer to an act."""
        facts, told = self.game.facts, self.mood.told
        if act.offer is not None:
            return self._judge(act.offer)
        if act.ask:
            place = self.game.topics.index(act.ask)
            return self._tell(place, lead="again" if place in told else "")
        new = [place for place in range(len(facts)) if place not in told]
        return self._tell(new[0]) if new and act.kind == "speak" else self._lose(1, "done")

    def _judge(self, deal: Deal) -> Act:
        """Accept an offer, or refuse it and say a fact, a new one if there is one.

        It need not be against the offer, so that a refusal does not tell which guess was wrong.
        """
        broken = self.game.find_broken(deal)
        if not broken:
            return speak(self._choose("agree"))._replace(accept=True)
        self.mood = self.mood._replace(refused=self.mood.refused | {deal})
        told = self.mood.told
        new = [place for place in range(len(self.game.facts)) if place not in told]
        answer = self._lose(IGNORED if told.issuperset(broken) else 1, "refuse")
        if answer.kind != "leave":
            place = self._pick(new or broken, deal)
            self.mood = self.mood._replace(told=self.mood.told | {place})
            answer = speak(f"{answer.argument} {self._say(place)}")
        return answer._replace(accept=False) if answer.kind == "speak" else answer

    def _tell(self, place: int, lead: str = "") -> Act:
        """Say a fact; saying it again costs patience."""
        first = self._lose(1, lead) if lead else speak("")
        self.mood = self.mood._replace(told=self.mood.told | {place})
        if first.kind == "leave":
            return first
        return speak(f"{first.argument} {self._say(place)}".strip())

    def _lose(self, cost: int, line: str) -> Act:
        """Lose patience: a line, or leave without any patience left."""
        patience = max(0, self.mood.patience - cost)
        self.mood = self.mood._replace(patience=patience)
        if patience == 0:
            return Act("leave")
        warning = f" {_WARNING}" if patience == 1 else ""
        return speak(self._choose(line) + warning)

    def _say(self, place: int) -> str:
        return self.game.facts[place].say(self.game.split, self._pick(range(60), place))

    def _pick(self, among: Sequence[int], *what: object) -> int:
        """One of several, by chance, and always the same in an episode."""
        return Random(repr((self.wording, self.game.facts, what))).choice(among)

    def _choose(self, line: str) -> str:
        lines = WORLD["lines"][line][WORDS[self.game.split]]
        chosen: str = lines[self.wording % len(lines)]
        return chosen
