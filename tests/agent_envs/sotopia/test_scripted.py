"""Scripted partners: they concede, refuse, counter and leave, each temper in its own way."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.experts import Explorer
from agent_envs.sotopia.families import FAMILIES, TEMPERS, draw_scene
from agent_envs.sotopia.reading import read_line
from agent_envs.sotopia.scripted import ScriptedPartner
from agent_envs.sotopia.talk import Talk

pytestmark = pytest.mark.slow

HAGGLE = [family for family in FAMILIES if family != "friend"]


class Table:
    """A talk of side 0 with a scripted side 1."""

    def __init__(self, family, number, temper, seed=0):
        self.talk = Talk(draw_scene(family, number))
        self.game = self.talk.scene.game
        self.partner = ScriptedPartner(temper).begin(
            self.talk.scene, 1, np.random.default_rng(seed)
        )

    def hear(self, act) -> Act:
        """What the partner does after an act of ours."""
        self.talk = self.talk.after(0, speak(act) if isinstance(act, str) else act)
        reply = self.partner.reply(self.talk)
        self.talk = self.talk.after(1, reply)
        return reply

    def offer(self, worth, before="I propose:") -> Act:
        """The reply to the offer that is nearest to `worth` for the partner."""
        deal = min(self.game.deals, key=lambda d: abs(self.game.value(d, 1) - worth))
        return self.hear(
            Act("speak", f"{before} {self.game.wordings[0].propose(deal)}.", offer=deal)
        )

    def open_offer(self) -> float:
        """What the partner's own proposal is worth to it."""
        return self.game.value(self.talk.standing[1], 1)


@pytest.mark.parametrize("temper", TEMPERS)
@pytest.mark.parametrize("family", HAGGLE)
def test_it_accepts_what_is_worth_enough(family, temper):
    table = Table(family, 0, temper)
    assert (
        "greed" in table.write_offer(1.0).argument or "accept" in table.talk.said[-1].act.argument
    )
    assert table.talk.agreed is not None
    assert table.hear("Thank you!").kind == "leave"


def test_it_asks_back_what_is_unclear_and_waits_for_who_can_take_back():
    table = Table("bargain", 0, "stubborn")
    table.write_offer(0.1)
    reply = table.hear("I won't pay that, ok.")
    assert "?" in reply.argument
    assert table.talk.pending is None
    table.hear("Agreed.")
    assert table.talk.pending.free == (True, False)
    table.hear("Can you carry it?")
    assert table.talk.agreed is None
    assert not table.talk.ended
    table.hear("No, I take that back.")
    assert (table.talk.agreed, table.talk.pending) == (None, None)
    assert table.talk.standing[1] is not None  # it goes on


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temper", TEMPERS)
def test_its_words_say_what_its_fields_do(family, temper):
    table = Table(family, 5, temper)
    game = table.game
    for act in ["Hello.", "What matters to you?", *game.deals[:: len(game.deals) // 6 + 1]]:
        offered = table.talk.standing[0]
        reply = table.hear(act if isinstance(act, str) else Act("speak", "So?", offer=act))
        offered = table.talk.standing[0] or offered
        confirms = reply.accept and table.talk.taken_by == 0  # in words such as "we have a deal"
        if not reply.structured or confirms or family == "friend":
            continue
        heard = read_line(reply.argument, game.wordings[1].read_deal, offered)
        assert heard.kind == ("offer" if reply.offer else "acceptance")
        assert heard.terms == (reply.offer or table.talk.taken)


@pytest.mark.parametrize("temper", TEMPERS)
def test_it_concedes_for_concessions_and_not_for_nothing(temper):
    table = Table("bargain", 0, temper)
    table.write_offer(0.0)
    first = table.open_offer()
    table.write_offer(0.1)
    second = table.open_offer()
    assert second < first
    table.write_offer(0.05)  # worse than before
    assert table.open_offer() == second


def test_it_counters_with_terms_of_its_own_and_refuses_what_is_too_little():
    table = Table("bargain", 0, "stubborn")
    table.write_offer(0.1)
    assert table.talk.agreed is None
    assert table.talk.standing[1] is not None
    again = table.write_offer(0.05)
    assert again.kind == "speak"
    assert table.talk.agreed is None


@pytest.mark.parametrize("temper", TEMPERS)
def test_reasons_courtesy_and_insults_change_what_it_wants(temper):
    plain, reasoned, insulted = (Table("divide", 4, temper) for _ in range(3))
    plain.hear("Hello there.")
    reasoned.hear("Thank you, I ask for it because my old home burnt down last year.")
    insulted.hear("You are an idiot.")
    assert reasoned.partner.mood.demand < plain.partner.mood.demand < insulted.partner.mood.demand


def test_it_answers_questions_with_its_facts():
    table = Table("favour", 2, "fair")
    told = [table.hear(line).argument for line in ("Why?", "What else?", "How is that?")]
    facts = table.talk.scene.facts[1]
    assert all(fact in line for fact, line in zip(facts, told, strict=True))


def test_what_was_said_before_moves_it_no_more_and_please_asks_nothing():
    table = Table("divide", 4, "fair")
    first = table.hear("Thank you, I ask for it because my home burnt down 2 years ago, please?")
    moved = table.partner.mood.demand
    assert not any(fact in first.argument for fact in table.talk.scene.facts[1])
    table.hear("Thank you, I ask for it because my home burnt down 3 years ago, please?")
    assert table.partner.mood.demand == moved


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temper", TEMPERS)
def test_it_leaves_when_nothing_moves(family, temper):
    table = Table(family, 7, temper)
    kinds = [table.hear("Hm.").kind for _ in range(12) if not table.talk.ended]
    assert kinds[-1] == "leave"
    assert "leave" not in kinds[:-1]
    warned = [said.act.argument for said in table.talk.said if said.side == 1][-2]
    assert "I have to go soon." in warned


def test_the_impatient_leave_first_and_the_generous_last():
    turns = {}
    for temper in TEMPERS:
        table = Table("bargain", 3, temper)
        turns[temper] = len([table.hear("Hm.") for _ in range(12) if not table.talk.ended])
    assert turns["impatient"] < turns["stubborn"] < turns["fair"] < turns["generous"]


def test_tempers_differ_in_what_the_same_player_gets_of_them(play):
    got = {}
    for temper in ("stubborn", "generous", "impatient"):
        infos = play(
            lambda env: Explorer(env).act(), family="bargain", partner=f"scripted:{temper}"
        )
        got[temper] = (
            np.mean([info["scores"]["goal"] for info in infos]),
            np.mean([not info["agreed"] for info in infos]),
            np.mean([info["turn"] for info in infos]),
        )
    assert got["generous"][0] > got["stubborn"][0] + 1  # better terms
    assert got["impatient"][1] > got["generous"][1] + 0.2  # more talks without a deal
    assert got["stubborn"][2] > got["generous"][2] + 1  # longer talks


@pytest.mark.parametrize("family", FAMILIES)
def test_seeded_and_deterministic(family):
    lines = ["Hello, nice to see you.", "What matters to you?", "No.", "Because I like it so much."]
    one, same = (Table(family, 11, "fair", seed=3) for _ in range(2))
    assert [one.hear(line) for line in lines] == [same.hear(line) for line in lines]
    assert one.partner.state == same.partner.state
    others = [Table(family, 11, "fair", seed=seed) for seed in range(5)]
    assert len({tuple(other.hear(line) for line in lines) for other in others}) > 1


def test_a_copy_goes_on_by_itself():
    table = Table("schedule", 4, "fair")
    table.hear("Hello.")
    before = table.partner.state
    copy.deepcopy(table).hear("Hm.")
    assert table.partner.state == before


def test_a_stranger_answers_about_its_friends():
    table = Table("friend", 0, "generous")
    game = table.game
    shared = game.friends[game.shared]
    trait = sorted(shared.traits)
    reply = table.hear(f"Does one of your friends like {trait[0]} and {trait[1]}?").argument
    assert "Yes, that fits " in reply
    theirs = frozenset().union(*(game.friends[place].traits for place in game.known[1]))
    foreign = [t for t in game.find_traits(" ".join(sum(game.friends, ()))) if t not in theirs]
    if foreign:
        assert "none of my friends" in table.hear(f"Somebody with {foreign[0]}?").argument
    wrong = next(one.name for place, one in enumerate(game.friends) if place in game.known[0]
                 and place != game.shared)  # fmt: skip
    assert table.talk.agreed is None
    table.hear(f"Do you know {wrong}?")
    assert table.talk.agreed is None
    assert shared.name in table.hear(f"Do you know {shared.name}?").argument
    assert table.talk.pending.deal == (game.shared,)
    assert table.hear("What a nice day.").kind == "leave"


@pytest.mark.parametrize("temper", TEMPERS)
def test_a_stranger_does_not_stand_lists_of_names(temper):
    table = Table("friend", 0, temper)
    wrong = [one.name for place, one in enumerate(table.game.friends) if place != table.game.shared]
    for name in wrong:
        if not table.talk.ended:
            table.hear(f"Do you know {name}?")
    assert table.talk.ended
    crowd = Table("friend", 0, temper)
    names = ", ".join(one.name for one in crowd.game.friends)
    assert "do not just read out names" in crowd.hear(f"Do you know {names}?").argument
    assert crowd.talk.agreed is None


@pytest.mark.parametrize("family", FAMILIES)
def test_no_fixed_sequence_of_a_random_search_wins_a_family(family, play):
    rng = np.random.default_rng(0)
    general = [
        *("Hello, nice to meet you.", "Agreed.", "Can you do better?", "That is too much."),
        *("Please, I need this because my family depends on it.", "What matters to you?"),
    ]

    def line():
        game = draw_scene(family, int(rng.integers(320))).game
        deal = game.deals[rng.integers(len(game.deals))]
        told = f"I propose: {game.wordings[int(rng.integers(2))].propose(deal)}."
        return told if rng.random() < 0.6 else general[rng.integers(len(general))]

    def share(lines):
        goodbye = Act("leave").to_json()
        act = lambda env: [*lines, *[goodbye] * 10][env.unwrapped.turn]  # noqa: E731
        return np.mean([info["success"] for info in play(act, family=family, tasks=24)])

    assert max(share([line() for _ in range(8)]) for _ in range(12)) < 0.8


def test_an_unknown_temper_is_refused():
    with pytest.raises(ValueError, match="did you mean 'stubborn'"):
        ScriptedPartner("stuborn")
