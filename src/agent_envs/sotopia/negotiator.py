"""A scripted character who negotiates: it states terms, concedes for concessions, and may leave.

What it wants is one number, the value that a deal must have for it now (`demand`). It falls when
the other one's offers get better, when it hears reasons and courtesy; it rises with insults. Turns
that lead nowhere use up patience, and with none left it goes.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from operator import itemgetter, ne
from typing import TYPE_CHECKING, NamedTuple

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.conduct import harm
from agent_envs.sotopia.speech import heard

if TYPE_CHECKING:
    import numpy as np

    from agent_envs.sotopia.scene import Deal, Scene
    from agent_envs.sotopia.speech import Heard
    from agent_envs.sotopia.talk import Talk


class Temper(NamedTuple):
    """How someone negotiates.

    demand: value asked for at first. floor: the least it ever takes. returns: how much of the
    other's concession it gives back. drift: what it concedes besides. moved: what a reason is worth
    to it. patience: turns without progress that it bears. hurry: from which turn on each one costs
    patience.
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
_ASKER_MOVED = 2.0  # donors are moved by reasons more than others
_BETTER = 0.02  # by how much an offer must be better to count as a concession
_AT_MOST = 0.25  # of a single concession counts
_INSULTING = -0.3  # value of an offer that costs patience by itself
_REASONS, _QUESTIONS = 3, 3  # that are listened to
_JITTER = 0.02


class Mood(NamedTuple):
    """All that its next answer depends on, besides the talk."""

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
    """What it decides: its kind is one of `_WORDINGS`, or "leave"; and what it offers."""

    kind: str
    deal: Deal | None = None
    fact: str = ""


class Negotiator:
    """Side `side` of a scene, of a temper; `rng` makes each episode a little different."""

    def __init__(self, scene: Scene, side: int, temper: str, rng: np.random.Generator) -> None:
        assert scene.game is not None  # noqa: S101  the scripted partner has checked it
        self.scene, self.game, self.side = scene, scene.game, side
        self.temper = TEMPERS[temper]
        demand = self.temper.demand + _JITTER * (2 * rng.random() - 1)
        self.mood = Mood(round(demand, 4), self.temper.patience)
        self.wording = int(rng.integers(1000))

    def reply(self, talk: Talk) -> Act:
        """Its next act; remembers the mood it is in."""
        self.mood, move = self.decide(talk)
        return self._act(move)

    @property
    def state(self) -> str:
        """What its next decisions depend on, as text.

        Of the turns only whether it spoke and how near it is to hurrying; nothing of them where it
        never hurries.
        """
        matters = min(self.mood.turn, self.temper.hurry if self.temper.hurry < _NEVER else 1)
        return repr(self.mood._replace(turn=matters))

    def decide(self, talk: Talk) -> tuple[Mood, Move]:
        """Mood and move after the talk's latest act, which is the other's; nothing is done."""
        mood, kind, fact = self.weigh(talk)
        if kind in ("counter", "answer", "ask"):
            deal = self._counter(mood, talk)
            if deal == talk.standing[self.side] and kind != "ask":
                kind = "stand" if talk.standing[1 - self.side] is None else "stay"
            return mood, Move(kind, deal, fact)
        return mood, Move(kind, talk.taken or talk.standing[1 - self.side])

    def weigh(self, talk: Talk) -> tuple[Mood, str, str]:
        """Mood, kind of the move, and the fact that it tells."""
        mood = self.mood._replace(turn=self.mood.turn + 1)
        if talk.taken is not None:
            return self._settled(mood, talk)
        mood = mood._replace(settled=False)  # where it was, the other took its word back
        if not talk.said:
            return mood, "counter", ""
        mood, fact = self._listen(mood, talk, talk.said[-1].act)
        if mood.patience <= 0:
            return mood, "leave", ""
        offered = talk.standing[1 - self.side]
        if offered is not None and self.game.value(offered, self.side) >= mood.demand:
            return mood._replace(settled=True), "accept", ""
        if talk.did == "unclear":
            return mood, "ask", fact
        return mood, "answer" if fact else "counter", fact

    def _settled(self, mood: Mood, talk: Talk) -> tuple[Mood, str, str]:
        """What it does when both took the same terms: it says so once, then it leaves.

        While the other can still take its word back it waits, but not for ever.
        """
        if not mood.settled and talk.taken_by != self.side:
            return mood._replace(settled=True), "settle", ""
        if talk.agreed is None and mood.patience > 0:
            return mood._replace(settled=True, patience=mood.patience - 1), "wait", ""
        return mood, "leave", ""

    def _listen(self, mood: Mood, talk: Talk, act: Act) -> tuple[Mood, str]:
        """Mood after an act, and the fact that answers it if it asks for one."""
        line = heard(act.argument) if act.kind == "speak" else None
        fact = ""
        useful = mood.turn == 1
        mood = self._offended(mood, act)
        if line is not None:
            meanings = talk.meanings(1 - self.side)
            repeated = meanings[-1] in meanings[:-1]
            mood, fact, listened = self._talked(mood, line, repeated=repeated)
            mood, better = self._offered(mood, talk.standing[1 - self.side])
            useful = useful or listened or better
        lost = (not useful) + (mood.turn >= self.temper.hurry)
        return mood._replace(patience=mood.patience - lost), fact

    def _offended(self, mood: Mood, act: Act) -> Mood:
        rude = harm(act.argument, deed=act.kind != "speak").rude
        demand = min(1.0, mood.demand + 0.1 * rude)
        return mood._replace(demand=round(demand, 4), patience=mood.patience - 2 * rude)

    def _talked(self, mood: Mood, line: Heard, *, repeated: bool) -> tuple[Mood, str, bool]:
        """Mood after reasons, courtesy and questions, each of which works a few times only."""
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
        return mood._replace(demand=self._kept(demand)), fact, listened

    def _offered(self, mood: Mood, offered: Deal | None) -> tuple[Mood, bool]:
        """Mood after an offer, and whether it is a better one than those before."""
        if offered is None:
            return mood, False
        value = self.game.value(offered, self.side)
        if value < mood.best + _BETTER:
            harsh = value < _INSULTING
            return mood._replace(patience=mood.patience - harsh), False
        gain = min(value - mood.best, _AT_MOST)
        demand = mood.demand - self.temper.returns * gain - self.temper.drift
        return mood._replace(best=value, demand=self._kept(demand)), True

    def _kept(self, demand: float) -> float:
        return round(max(self.temper.floor, demand), 4)

    @cached_property
    def _worth(self) -> list[tuple[float, int, Deal]]:
        """Value and place of all deals, those worth least first."""
        deals = enumerate(self.game.deals)
        return sorted((self.game.value(deal, self.side), place, deal) for place, deal in deals)

    def _counter(self, mood: Mood, talk: Talk) -> Deal:
        """A deal just worth its demand, near to what the other one proposed."""
        near, best = talk.standing[1 - self.side], None
        for value, place, deal in self._worth[bisect_left(self._worth, (mood.demand,)) :]:
            if best is not None and value > best[0]:
                break
            away = 0 if near is None else sum(map(ne, deal, near))
            cost = value + 0.05 * away, place, deal
            best = cost if best is None else min(best, cost)
        return best[2] if best else max(self._worth, key=itemgetter(0))[2]

    def _act(self, move: Move) -> Act:
        if move.kind == "leave":
            return Act("leave")
        assert move.deal is not None  # noqa: S101  all but leaving is about one
        terms = self.game.tell(move.deal, self.side)
        wordings = _WORDINGS[move.kind]
        line = wordings[(self.wording + self.mood.turn) % len(wordings)].format(terms=terms)
        greeting = self.scene.openings[self.side] if self.mood.turn == 1 else ""
        idle = 1 + (self.mood.turn + 1 >= self.temper.hurry)  # what an idle turn costs next
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
