"""The experts of Sotopia: an Explorer that listens, an Oracle that knows the partner's state.

The Explorer reads its own goal and the conversation. The Oracle simulates the scripted partner to
find out what it would accept: an upper bound, not suited for imitation.
"""

from __future__ import annotations

import copy
import re
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from agent_envs.experts import playing
from agent_envs.sotopia.acts import Act
from agent_envs.sotopia.amounts import Amount
from agent_envs.sotopia.env import Sotopia
from agent_envs.sotopia.friends import Friends

if TYPE_CHECKING:
    import gymnasium as gym

    from agent_envs.sotopia.friends import Friend
    from agent_envs.sotopia.scene import Deal, Game, Scene
    from agent_envs.sotopia.scripted import Negotiator
    from agent_envs.sotopia.talk import Talk

_PACES = (0.03, 0.05, 0.08, 0.12, 0.2, 0.3)
"""Speeds of concession of the Oracle, in value for the other per offer."""
_HASTE = 0.004  # value of a saved turn to the Oracle
_START, _STEP, _LEAST = 1.0, 0.07, 0.62
"""Start, step and end of the Explorer's concessions, in value for itself."""
_GOODBYE = Act("leave")
_DOLLARS = re.compile(r"\$(\d+)")


class Explorer:
    """Concedes step by step from the best deal to the threshold of success, and gives reasons.

    It asks strangers whether they have friends with certain traits, until one candidate is left.

    Raises:
        ValueError: a public scene, which consists only of text.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, Sotopia)
        scene = self._env.talk.scene
        if scene.game is None:
            raise ValueError(
                f"the Explorer of Sotopia plays generated scenes only, not {scene.codename}"
            )

    def act(self) -> str:
        """The next act; it is not executed."""
        talk, side = self._env.talk, self._env.next
        if talk.accepted_terms is not None:
            return _GOODBYE.to_json()
        game = _infer_game(talk.scene, side)
        if isinstance(game, Friends):
            return _search(game, talk, side)
        return _concede(game, talk, side)

    def think(self) -> str:
        """Always "": its rules have no reasons that are worth imitating."""
        return ""


class Oracle:
    """Simulates several speeds of concession against the scripted partner, and uses the best.

    Raises:
        ValueError: the partner is not a scripted one.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, Sotopia)
        speaker = self._env.speaker
        if speaker is None or not speaker.state:
            raise ValueError(
                "the Oracle of Sotopia needs a scripted partner, this partner is another; use "
                "partner='scripted', or the Explorer"
            )

    def act(self) -> str:
        """The next act; it is not executed."""
        env = self._env
        return _choose_act(env).to_json(env.talk.scene.game, env.side)

    def think(self) -> str:
        """Always "": its reasons are the partner's secrets."""
        return ""


def _infer_game(scene: Scene, side: int) -> Game:
    """The game as shown to a side.

    The Explorer only reads its own half of a game, which its goal states. The value of an amount of
    money also depends on the other's limit, which is inferred from its own target.
    """
    game = cast("Game", scene.game)
    if isinstance(game, Amount):
        _, hoped = map(int, _DOLLARS.findall(scene.show_goal(side)))
        return game.infer_game(hoped, side)
    return game


def _choose_act(env: Sotopia) -> Act:
    game = env.talk.scene.game
    if env.talk.agreed is not None:
        return _GOODBYE
    if isinstance(game, Friends):
        return _propose(game, (game.shared,), env.side, "{}")
    other = cast("Negotiator", env.speaker)
    turns = env.max_turns - env.turn
    return max(_simulate(env.talk, other, turns, pace) for pace in _PACES).first


class _Plan(NamedTuple):
    """The value of a plan, and its first act."""

    value: float
    first: Act


def _simulate(talk: Talk, other: Negotiator, turns: int, pace: float) -> _Plan:
    """Concede at a speed, and settle in the turn with the highest value."""
    side, other = 1 - other.side, copy.copy(other)
    first, best = None, _Plan(-1.0, _GOODBYE)
    for passed in range(turns):
        answered = passed < turns - 1 or side == 0
        settled = _find_settlement(talk, other, answered=answered)
        if settled is not None:
            value = other.game.value(settled, side) - _HASTE * passed
            act = _propose(other.game, settled, side, "My offer: {}.")
            best = max(best, _Plan(value, first or act))
        act = _improve_offer(talk, other, pace)
        first = first or act
        talk = talk.after(side, act)
        other.mood, move = other.decide(talk)
        if move.kind == "accept":
            value = other.game.value(cast("Deal", move.deal), side) - _HASTE * passed
            best = max(best, _Plan(value, first))
        if move.kind in ("leave", "accept") or talk.agreed is not None:
            break
        answer = _propose(other.game, cast("Deal", move.deal), other.side, "{}")
        talk = talk.after(other.side, answer)
    return best


def _find_settlement(talk: Talk, other: Negotiator, *, answered: bool) -> Deal | None:
    """The best possible deal now: one that the other accepts, or its open offer."""
    side, game = 1 - other.side, other.game
    offer = talk.standing[other.side]
    if answered:
        for deal in sorted(game.deals, key=lambda deal: -game.value(deal, side)):
            line = _propose(game, deal, side, "My offer: {}.")
            if deal == offer or other.weigh(talk.after(side, line))[1] == "accept":
                return deal
    return offer


def _improve_offer(talk: Talk, other: Negotiator, pace: float) -> Act:
    """An offer that is better for the other, with a reason if one is left."""
    side, game = 1 - other.side, other.game
    better = [d for d in game.deals if game.value(d, other.side) >= other.mood.best + pace]
    offer = max(better or game.deals, key=lambda deal: game.value(deal, side))
    reason = next(iter(_list_untold_facts(talk, side)), "Please think about it.")
    return _propose(game, offer, side, f"{reason} My offer: {{}}.")


def _propose(game: Game, deal: Deal, side: int, words: str) -> Act:
    """An act that proposes a deal by its field and in words."""
    argument = words.format(game.wordings[side].propose(deal))
    return Act("speak", argument, offer=deal, worded=True)


def _list_untold_facts(talk: Talk, side: int) -> list[str]:
    """Facts of a side that it has not told yet."""
    told = " ".join(talk.list_lines(side))
    return [fact for fact in talk.scene.facts[side] if fact not in told]


def _concede(game: Game, talk: Talk, side: int) -> str:
    """Accept a good enough offer, else propose something new, close to the other's offer."""
    turns = len(talk.list_lines(side))
    aim = max(_LEAST, _START - _STEP * turns)
    offered = talk.standing[1 - side]
    if offered is not None and game.value(offered, side) >= aim:
        return Act(
            "speak", f"Agreed: {game.wordings[side].propose(offered)}.", accept=True
        ).to_json()
    made = {act.offer for who, act in talk.said if who == side}
    new = [deal for deal in game.deals if deal not in made] or list(game.deals)
    fitting = [deal for deal in new if game.value(deal, side) >= aim]
    offer = min(
        fitting or [max(new, key=lambda deal: game.value(deal, side))],
        key=lambda deal: (_measure_distance(deal, offered), game.value(deal, side)),
    )
    reason = next(iter(_list_untold_facts(talk, side)), "Please think about it.")
    ask = " What matters most to you?" if not turns else ""
    return _propose(game, offer, side, f"{reason} I offer this: {{}}.{ask}").to_json(game, side)


def _measure_distance(deal: Deal, other: Deal | None) -> int:
    return 0 if other is None else sum(abs(a - b) for a, b in zip(deal, other, strict=True))


def _search(game: Friends, talk: Talk, side: int) -> str:
    """Ask about two traits that about half of the likely friends have, or name the only one left.

    A "no" excludes friends with both traits; after a "yes" these are likely, but not certain.
    """
    asked, named = _read_answers(game, talk, side)
    known = [game.friends[place] for place in sorted(game.known[side])]
    possible = [
        one
        for one in known
        if one.name not in named
        and not any(pair <= one.traits and not asked[pair] for pair in asked)
    ]
    fits = {
        one: sum(pair <= one.traits for pair in asked if asked[pair]) for one in possible or known
    }
    likely = [one for one, count in fits.items() if count == max(fits.values())]
    splits = [pair for pair in _list_pairs(likely) if pair not in asked]
    if len(likely) == 1 or not splits:
        place = (game.friends.index(likely[0]),)
        return _propose(game, place, side, "{}").to_json(game, side)
    half = len(likely) / 2
    pair = min(splits, key=lambda pair: abs(sum(pair <= one.traits for one in likely) - half))
    first, second = sorted(pair)
    return f"Do you have a friend connected with both {first} and {second}?"


def _read_answers(
    game: Friends, talk: Talk, side: int
) -> tuple[dict[frozenset[str], bool], set[str]]:
    """The traits that a side asked about with the answers, and the names it mentioned."""
    acts = [one.act.argument for one in talk.said]
    asked: dict[frozenset[str], bool] = {}
    named: set[str] = set()
    for question, answer in zip(acts[side::2], acts[side + 1 :: 2], strict=False):
        named |= {game.friends[place].name for place in game.find_names(question)}
        traits = frozenset(game.find_traits(question))
        if traits:
            asked[traits] = "Yes" in answer
    return asked, named


def _list_pairs(friends: list[Friend]) -> list[frozenset[str]]:
    """Pairs of traits of these friends, in a fixed order."""
    pairs = (pair for one in friends for pair in combinations(sorted(one.traits), 2))
    return [frozenset(pair) for pair in dict.fromkeys(pairs)]
