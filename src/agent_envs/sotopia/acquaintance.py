"""A scripted character looking for a friend in common; it answers questions about its friends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.conduct import harm
from agent_envs.sotopia.friends import Friends
from agent_envs.sotopia.speech import heard

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.sotopia.scene import Scene
    from agent_envs.sotopia.talk import Talk


class Manner(NamedTuple):
    """How a character talks to strangers.

    patience: idle turns that it tolerates. names: wrong names that it tolerates. hurry: turn from
    which on each turn costs patience. counts: whether it says how many friends fit. hints: whether
    it adds a hint.
    """

    patience: int
    names: int
    hurry: int
    counts: bool
    hints: bool


_NEVER = 99
MANNERS = {
    "stubborn": Manner(4, 1, _NEVER, False, False),
    "generous": Manner(6, 3, _NEVER, True, True),
    "impatient": Manner(3, 2, 5, False, False),
    "fair": Manner(5, 2, _NEVER, True, False),
}
_TRAITS = 2  # most traits in one question that it tolerates


class Mood(NamedTuple):
    """The state that its next answer depends on, besides the talk."""

    patience: int
    names: int
    turn: int = 0
    told: int = 0
    asked: frozenset[str] = frozenset()
    settled: bool = False


class Acquaintance:
    """Side `side` of a scene about a friend in common."""

    def __init__(self, scene: Scene, side: int, temper: str, rng: np.random.Generator) -> None:
        assert isinstance(scene.game, Friends)  # noqa: S101  the scripted partner has checked it
        self.scene, self.game, self.side = scene, scene.game, side
        self.manner = MANNERS[temper]
        self.mood = Mood(self.manner.patience, self.manner.names)
        self.wording = int(rng.integers(1000))

    @property
    def state(self) -> str:
        """The state that its next answers depend on, as text; turns as in `Negotiator.state`."""
        matters = min(self.mood.turn, self.manner.hurry if self.manner.hurry < _NEVER else 1)
        mood = self.mood._replace(turn=matters, asked=frozenset())
        return repr(mood) + repr(sorted(self.mood.asked))

    def reply(self, talk: Talk) -> Act:
        """Its next act; updates its mood."""
        self.mood = mood = self.mood._replace(turn=self.mood.turn + 1)
        if talk.taken is not None:
            done, self.mood = mood.settled, mood._replace(settled=True)
            return Act("leave") if done else speak("What a small world! It was nice to meet you.")
        self.mood = mood = mood._replace(settled=False)
        act = talk.said[-1].act if talk.said else Act("none")
        line = self._line(talk, act)
        if mood.turn >= self.manner.hurry:
            self._lose(1)
        if self.mood.patience <= 0 and not self.mood.settled:
            return Act("leave")
        greeting = self.scene.openings[self.side] if mood.turn == 1 else ""
        idle = 1 + (mood.turn + 1 >= self.manner.hurry)  # cost of the next idle turn
        warning = "I have to go soon." if self.mood.patience <= idle else ""
        said = speak(" ".join(filter(None, (greeting, line, warning))))
        known = (self.game.shared,) if self.mood.settled else None
        return said._replace(offer=known, worded=True)

    def _line(self, talk: Talk, act: Act) -> str:
        """The answer to an act."""
        text = act.argument if act.kind == "speak" else ""
        words = heard(text)
        self._lose(2 * harm(act.argument, deed=act.kind != "speak").rude)
        if talk.said and talk.said[-1] in talk.said[:-1]:
            self._lose(1)
            return "You said that before."
        names = list(dict.fromkeys([*(act.offer or ()), *self.game.named(text)]))
        traits = self.game.described(text)
        if len(names) > 1:
            self._lose(2)
            return "Please, do not just read out names."
        if names and (act.offer or self.game.read(text)):
            return self._about_name(names[0])
        if traits and words.asks and " ".join(traits) not in self.mood.asked:
            return self._about_traits(traits)
        return self._small_talk(asked=words.inquires)

    def _about_name(self, place: int) -> str:
        name = self.game.friends[place].name
        if place == self.game.shared:
            self.mood = self.mood._replace(settled=True)
            return f"Yes, I know {name} too!"
        self.mood = self.mood._replace(names=self.mood.names - 1)
        self._lose(99 if self.mood.names < 0 else 0)
        return _UNKNOWN[self.wording % len(_UNKNOWN)].format(name=name)

    def _about_traits(self, traits: list[str]) -> str:
        """Whether a friend has all of the traits; more than two at once cost patience."""
        self._lose(max(0, len(traits) - _TRAITS))
        self.mood = self.mood._replace(asked=self.mood.asked | {" ".join(traits)})
        known = [self.game.friends[place] for place in sorted(self.game.known[self.side])]
        fitting = [one for one in known if set(traits) <= one.traits]
        if not fitting:
            return "No, that fits none of my friends."
        counted = len(fitting) > 1 and self.manner.counts
        count = f"{len(fitting)} of my friends" if counted else "a friend of mine"
        hint = f" One works at the {fitting[0].works} and lives in {fitting[0].town}."
        return f"Yes, that fits {count}.{hint if self.manner.hints else ''}"

    def _small_talk(self, *, asked: bool) -> str:
        facts, told = self.scene.facts[self.side], self.mood.told
        if asked and told < len(facts):
            self.mood = self.mood._replace(told=told + 1)
            return facts[told]
        if self.mood.turn > 1:
            self._lose(1)
        return _IDLE[(self.wording + self.mood.turn) % len(_IDLE)]

    def _lose(self, patience: int) -> None:
        self.mood = self.mood._replace(patience=self.mood.patience - patience)


_UNKNOWN = ("I do not know {name}.", "I have never met {name}.")
_IDLE = (
    "I wonder whom we both know.",
    "Where do your friends work?",
    "Tell me something about your friends.",
)
