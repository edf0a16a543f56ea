"""Scripted partners: the characters of generated scenes, and an echo.

The position of a negotiator is one number, the minimum value of a deal that it accepts now
(`demand`). The demand falls with better offers, reasons and courtesy; it rises with insults. Turns
without progress cost patience, and without patience it leaves. Strangers in search of a friend in
common are in `friends`.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from operator import itemgetter, ne
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agent_envs.panels import one_of
from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.conduct import find_harm
from agent_envs.sotopia.friends import Acquaintance, Friends
from agent_envs.sotopia.speech import hear_line
from agent_envs.spaces import ACTION_LENGTH

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.sotopia.scene import Deal, Scene
    from agent_envs.sotopia.speech import Heard
    from agent_envs.sotopia.talk import Talk


class Speaker(Protocol):
    """One side of one episode."""

    @property
    def state(self) -> str:
        """Its state besides the talk, as text for anchors; equal for equal states."""

    def reply(self, talk: Talk) -> Act:
        """Its next act in a talk at its turn."""


class Partner(Protocol):
    """The other side of all episodes.

    A partner with a true `needs_game` is refused where scenes consist only of text.
    """

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:
        """A speaker for one side of a scene; its randomness comes from `rng`."""


class ScriptedPartner:
    """Plays generated scenes by the scene's temper, or all by one temper.

    Raises:
        ValueError: an unknown temper.
    """

    needs_game = True

    def __init__(self, temper: str = "") -> None:
        if temper:
            one_of("temper", temper, tuple(TEMPERS))
        self.temper = temper

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:
        """The speaker."""
        temper = self.temper or scene.temper[side]
        kind = Acquaintance if isinstance(scene.game, Friends) else Negotiator
        return kind(scene, side, temper, rng)


class Echo:
    """Repeats the other's lines, to try scenes that nothing else can play.

    Its acts are not spoken, so that it never agrees to anything.
    """

    def begin(self, scene: Scene, side: int, rng: np.random.Generator) -> Speaker:  # noqa: ARG002
        """The speaker."""
        return _EchoSpeaker()


class _EchoSpeaker:
    state = ""

    def reply(self, talk: Talk) -> Act:
        heard = talk.said[-1].act.argument if talk.said else ""
        return Act("action", f"repeats: {heard}"[:ACTION_LENGTH]) if heard else speak("Hello.")


class Temper(NamedTuple):
    """How a character negotiates.

    demand: initial demand. floor: lowest demand. returns: share of the other's concession that it
    returns. drift: additional concession per turn. moved: effect of a reason. patience: turns
    without progress that it tolerates. hurry: turn from which on each turn costs patience.
    """

    demand: float
    floor: float
    returns: float
    drift: float
    moved: float
    patience: int
    hurry: int


_NEVER = 99
TEMPERS = {
    "stubborn": Temper(0.90, 0.35, 0.8, 0.03, 0.05, 4, _NEVER),
    "generous": Temper(0.70, 0.05, 1.4, 0.08, 0.06, 7, _NEVER),
    "impatient": Temper(0.85, 0.20, 1.2, 0.05, 0.02, 3, 3),
    "fair": Temper(0.80, 0.20, 1.0, 0.05, 0.05, 5, _NEVER),
}
_ASKER_MOVED = 2.0  # reasons affect donors more than others
_BETTER = 0.02  # smallest improvement of an offer that counts as a concession
_AT_MOST = 0.25  # most of a single concession that counts
_INSULTING = -0.3  # value of an offer that costs patience by itself
_REASONS, _QUESTIONS = 3, 3  # most reasons and questions that have an effect
_JITTER = 0.02


class Mood(NamedTuple):
    """The state that its next answer depends on, besides the talk."""

    demand: float
    patience: int
    turn: int = 0
    best: float = 0.0
    reasons: int = 0
    questions: int = 0
    told: int = 0
    thanked: bool = False
    settled: bool = False


class Move(NamedTuple):
    """Its decision: a kind of `_WORDINGS` or "leave", and its offer."""

    kind: str
    deal: Deal | None = None
    fact: str = ""


class Negotiator:
    """Side `side` of a scene with a temper; `rng` varies the episodes slightly."""

    def __init__(self, scene: Scene, side: int, temper: str, rng: np.random.Generator) -> None:
        assert scene.game is not None  # noqa: S101  the scripted partner has checked it
        self.scene, self.game, self.side = scene, scene.game, side
        self.temper = TEMPERS[temper]
        demand = self.temper.demand + _JITTER * (2 * rng.random() - 1)
        self.mood = Mood(round(demand, 4), self.temper.patience)
        self.wording = int(rng.integers(1000))

    def reply(self, talk: Talk) -> Act:
        """Its next act; updates its mood."""
        self.mood, move = self.decide(talk)
        return self._word_move(move)

    @property
    def state(self) -> str:
        """The state that its next decisions depend on, as text.

        Of the turn count it only has whether it spoke and the turns until it hurries; nothing if
        it never hurries.
        """
        matters = min(self.mood.turn, self.temper.hurry if self.temper.hurry < _NEVER else 1)
        return repr(self.mood._replace(turn=matters))

    def decide(self, talk: Talk) -> tuple[Mood, Move]:
        """Mood and move after the talk's latest act, the other's; without side effects."""
        mood, kind, fact = self.weigh(talk)
        if kind in ("counter", "answer", "ask"):
            deal = self._choose_counter(mood, talk)
            if deal == talk.standing[self.side] and kind != "ask":
                kind = "stand" if talk.standing[1 - self.side] is None else "stay"
            return mood, Move(kind, deal, fact)
        return mood, Move(kind, talk.accepted_terms or talk.standing[1 - self.side])

    def weigh(self, talk: Talk) -> tuple[Mood, str, str]:
        """Mood, kind of the move, and the fact to tell."""
        mood = self.mood._replace(turn=self.mood.turn + 1)
        if talk.accepted_terms is not None:
            return self._wait_or_leave(mood, talk)
        mood = mood._replace(settled=False)  # if it was settled, the other has withdrawn
        if not talk.said:
            return mood, "counter", ""
        mood, fact = self._hear(mood, talk, talk.said[-1].act)
        if mood.patience <= 0:
            return mood, "leave", ""
        offered = talk.standing[1 - self.side]
        if offered is not None and self.game.value(offered, self.side) >= mood.demand:
            return mood._replace(settled=True), "accept", ""
        if talk.did == "unclear":
            return mood, "ask", fact
        return mood, "answer" if fact else "counter", fact

    def _wait_or_leave(self, mood: Mood, talk: Talk) -> tuple[Mood, str, str]:
        """Its move when both accepted the same terms: it says so once, then it leaves.

        While the other can still withdraw it waits, at the cost of patience.
        """
        if not mood.settled and talk.accepting_side != self.side:
            return mood._replace(settled=True), "settle", ""
        if talk.agreed is None and mood.patience > 0:
            return mood._replace(settled=True, patience=mood.patience - 1), "wait", ""
        return mood, "leave", ""

    def _hear(self, mood: Mood, talk: Talk, act: Act) -> tuple[Mood, str]:
        """Mood after an act, and the fact that answers a question."""
        line = hear_line(act.argument) if act.kind == "speak" else None
        fact = ""
        useful = mood.turn == 1
        mood = self._take_offence(mood, act)
        if line is not None:
            meanings = talk.list_meanings(1 - self.side)
            repeated = meanings[-1] in meanings[:-1]
            mood, fact, listened = self._weigh_words(mood, line, repeated=repeated)
            mood, better = self._weigh_offer(mood, talk.standing[1 - self.side])
            useful = useful or listened or better
        lost = (not useful) + (mood.turn >= self.temper.hurry)
        return mood._replace(patience=mood.patience - lost), fact

    def _take_offence(self, mood: Mood, act: Act) -> Mood:
        rude = find_harm(act.argument, deed=act.kind != "speak").rude
        demand = min(1.0, mood.demand + 0.1 * rude)
        return mood._replace(demand=round(demand, 4), patience=mood.patience - 2 * rude)

    def _weigh_words(self, mood: Mood, line: Heard, *, repeated: bool) -> tuple[Mood, str, bool]:
        """Mood after reasons, courtesy and questions, each with a limited number of effects."""
        if repeated:
            return mood, "", False
        demand, fact, listened = mood.demand, "", False
        if line.reasons and mood.reasons < _REASONS:
            asked = self.scene.family == "donation" and self.side == 1
            demand -= self.temper.moved * (_ASKER_MOVED if asked else 1.0)
            mood, listened = mood._replace(reasons=mood.reasons + 1), True
        if line.courteous and not mood.thanked:
            demand -= self.temper.moved / 2
            mood = mood._replace(thanked=True)
        facts = self.scene.facts[self.side]
        if line.inquires and mood.questions < _QUESTIONS:
            mood, listened = mood._replace(questions=mood.questions + 1), True
            if mood.told < len(facts):
                fact = facts[mood.told]
                mood = mood._replace(told=mood.told + 1)
        return mood._replace(demand=self._floor(demand)), fact, listened

    def _weigh_offer(self, mood: Mood, offered: Deal | None) -> tuple[Mood, bool]:
        """Mood after an offer, and whether it is better than the earlier offers."""
        if offered is None:
            return mood, False
        value = self.game.value(offered, self.side)
        if value < mood.best + _BETTER:
            harsh = value < _INSULTING
            return mood._replace(patience=mood.patience - harsh), False
        gain = min(value - mood.best, _AT_MOST)
        demand = mood.demand - self.temper.returns * gain - self.temper.drift
        return mood._replace(best=value, demand=self._floor(demand)), True

    def _floor(self, demand: float) -> float:
        return round(max(self.temper.floor, demand), 4)

    @cached_property
    def _ranked_deals(self) -> list[tuple[float, int, Deal]]:
        """Value and place of all deals, those worth least first."""
        deals = self.game.deals
        return sorted(zip(self.game.values(self.side), range(len(deals)), deals, strict=True))

    def _choose_counter(self, mood: Mood, talk: Talk) -> Deal:
        """A deal that just meets its demand, close to the other's proposal."""
        near, best = talk.standing[1 - self.side], None
        for value, place, deal in self._ranked_deals[
            bisect_left(self._ranked_deals, (mood.demand,)) :
        ]:
            if best is not None and value > best[0]:
                break
            away = 0 if near is None else sum(map(ne, deal, near))
            cost = value + 0.05 * away, place, deal
            best = cost if best is None else min(best, cost)
        return best[2] if best else max(self._ranked_deals, key=itemgetter(0))[2]

    def _word_move(self, move: Move) -> Act:
        if move.kind == "leave":
            return Act("leave")
        assert move.deal is not None  # noqa: S101  all moves but leaving have one
        terms = self.game.wordings[self.side].propose(move.deal)
        wordings = _WORDINGS[move.kind]
        line = wordings[(self.wording + self.mood.turn) % len(wordings)].format(terms=terms)
        greeting = self.scene.openings[self.side] if self.mood.turn == 1 else ""
        idle = 1 + (self.mood.turn + 1 >= self.temper.hurry)  # cost of the next idle turn
        warning = _WARNING if self.mood.patience <= idle and not self.mood.settled else ""
        said = speak(" ".join(filter(None, (greeting, move.fact, warning, line))))
        if move.kind in ("accept", "settle", "wait"):
            return said._replace(accept=True, worded=True)
        return said._replace(offer=move.deal, worded=True)


_WARNING = "I have to go soon."
_WORDINGS = {
    "counter": (
        "What about this: {terms}?",
        "My proposal is: {terms}.",
        "I would say: {terms}.",
        "Let me suggest this: {terms}.",
    ),
    "stand": ("My proposal stands: {terms}.", "I still propose this: {terms}."),
    "stay": (
        "That is not enough for me. I stay with this: {terms}.",
        "I cannot do better yet. Again, my proposal: {terms}.",
        "Not on these terms. I still say: {terms}.",
    ),
    "answer": ("As for the terms, I suggest: {terms}.", "And my proposal is: {terms}."),
    "ask": (
        "I am not sure how you mean that. My proposal is: {terms}. Yes or no?",
        "Is that a yes or a no? I propose: {terms}.",
    ),
    "wait": ("So, is it settled?", "Then we have a deal?"),
    "accept": ("Agreed: {terms}.", "Very well, I accept: {terms}."),
    "settle": ("Good, then it is settled. See you!", "Fine, so we have a deal. Goodbye!"),
}
