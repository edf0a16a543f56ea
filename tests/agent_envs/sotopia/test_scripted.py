"""Scripted partners: what each act does to their mood, in numbers, and how they talk."""

from __future__ import annotations

import numpy as np
import pytest

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.families import FAMILIES, TEMPERS, draw_scene
from agent_envs.sotopia.friends import MANNERS
from agent_envs.sotopia.reading import read_line
from agent_envs.sotopia.scripted import TEMPERS as NUMBERS
from agent_envs.sotopia.scripted import ScriptedPartner
from agent_envs.sotopia.talk import Talk

REASONS = [f"I ask for it because my {what} burnt down." for what in ("old home", "barn", "shop")]


class Table:
    """A talk of side 0 with a scripted side 1."""

    def __init__(self, temper, family="divide", number=4, seed=0):
        self.talk = Talk(draw_scene(family, number))
        self.game = self.talk.scene.game
        rng = np.random.default_rng(seed)
        self.partner = ScriptedPartner(temper).begin(self.talk.scene, 1, rng)

    def hear(self, act) -> Act:
        """What the partner does after an act of ours."""
        self.talk = self.talk.after(0, speak(act) if isinstance(act, str) else act)
        reply = self.partner.reply(self.talk)
        self.talk = self.talk.after(1, reply)
        return reply

    def moods(self, *acts):
        """The partner's mood after its answer to each act."""
        return [self.partner.mood for act in acts if self.hear(act)]


def offer(game, worth):
    """The offer that is worth as near as can be to that for side 1, and its worth."""
    deal = min(game.deals, key=lambda one: abs(game.value(one, 1) - worth))
    words = f"I propose: {game.wordings[0].propose(deal)}."
    return Act("speak", words, offer=deal), game.value(deal, 1)


@pytest.mark.parametrize(
    ("act", "rude"),
    [
        (speak("You are an idiot."), 1),
        (Act("non-verbal communication", "shows the middle finger"), 1),
        (speak("I will break your legs."), 2),
        (Act("action", "hits you in the face"), 4),
    ],
)
@pytest.mark.parametrize("family", ["divide", "friend"])
def test_rudeness_costs_two_turns_of_patience_a_step(family, act, rude):
    plain, insulted = (Table("generous", family).moods("Hello.", last)[-1] for last in ("Hm.", act))
    assert insulted.patience == plain.patience - 2 * rude
    if family == "divide":  # and a tenth of what it asks for, which is 1 at most
        assert insulted.demand == pytest.approx(min(1.0, plain.demand + 0.1 * rude))


@pytest.mark.parametrize("temper", TEMPERS)
def test_a_turn_that_leads_nowhere_costs_one(temper):
    patience, hurry = NUMBERS[temper].patience, NUMBERS[temper].hurry
    moods = Table(temper).moods(*["Hm."] * 3)
    left = [patience, patience - 1, patience - 2 - (hurry <= 3)]  # the first costs nothing
    assert [mood.patience for mood in moods] == left


@pytest.mark.parametrize(("temper", "left"), [("impatient", [3, 3, 2]), ("stubborn", [4, 4, 4])])
def test_the_impatient_lose_patience_from_the_third_turn_on_whatever_is_said(temper, left):
    moods = Table(temper).moods("Hello.", "Why do you sell it?", "What else matters to you?")
    assert [mood.patience for mood in moods] == left


@pytest.mark.parametrize("temper", TEMPERS)
def test_it_asks_for_what_its_temper_says_give_or_take_a_little(temper):
    asked = [Table(temper, seed=seed).partner.mood.demand for seed in range(20)]
    assert all(abs(one - NUMBERS[temper].demand) <= 0.02 for one in asked)
    assert len(set(asked)) > 10


@pytest.mark.parametrize("temper", TEMPERS)
@pytest.mark.parametrize("family", ["bargain", "divide", "favour", "schedule"])
def test_it_takes_what_is_worth_what_it_asks_for_and_nothing_less(temper, family):
    table, taken = Table(temper, family), set()
    for deal in table.game.deals:
        talk = table.talk.after(0, Act("speak", "My offer.", offer=deal))
        mood, kind, _ = table.partner.weigh(talk)
        assert (kind == "accept") == (table.game.value(deal, 1) >= mood.demand)
        taken.add(kind)
    assert taken == {"accept", "counter"}


@pytest.mark.parametrize("temper", TEMPERS)
def test_its_own_terms_are_worth_what_it_asks_for(temper):
    table = Table(temper, "bargain")
    for worth in (0.0, 0.1, 0.2):
        act = table.hear(offer(table.game, worth)[0])
        if act.offer is not None:
            assert table.game.value(act.offer, 1) >= table.partner.mood.demand


@pytest.mark.parametrize("temper", TEMPERS)
def test_it_gives_back_its_share_of_a_concession(temper):
    numbers = NUMBERS[temper]
    for aim in (0.1, 0.5):  # of a single concession a quarter counts at most
        table = Table(temper, "bargain")
        before = table.partner.mood.demand
        act, worth = offer(table.game, aim)
        worse, _ = offer(table.game, worth / 2)  # which gains nothing
        mood, same = table.moods(act, worse)
        lower = before - numbers.returns * min(worth, 0.25) - numbers.drift
        assert mood.demand == pytest.approx(max(lower, numbers.floor), abs=1e-4)
        assert same.demand == mood.demand


@pytest.mark.parametrize("temper", TEMPERS)
def test_it_never_asks_for_less_than_its_floor(temper):
    table, floor = Table(temper, "bargain"), NUMBERS[temper].floor
    worths = [worth for worth in (0.15, 0.3, 0.45, 0.6, 0.75) if worth < floor]
    moods = table.moods(*REASONS, *(offer(table.game, worth)[0] for worth in worths))
    assert all(mood.demand >= floor for mood in moods)
    table = Table(temper, "bargain")
    table.partner.mood = table.partner.mood._replace(demand=floor + 0.01, best=0.0)
    talk = table.talk.after(0, offer(table.game, 0.2)[0])
    assert table.partner.weigh(talk)[0].demand == floor


def test_reasons_count_three_times_and_thanks_once():
    table = Table("generous")
    before = table.partner.mood.demand
    acts = [*REASONS, "I ask for it because my boat sank last year.", "Thank you.", "Thanks a lot!"]
    fallen = [before - mood.demand for mood in table.moods(*acts)]
    assert fallen == pytest.approx([0.06 * count for count in (1, 2, 3, 3, 3.5, 3.5)])


@pytest.mark.parametrize(("family", "moved"), [("divide", 0.05), ("donation", 0.10)])
def test_donors_are_moved_twice_as_much(family, moved):
    table = Table("fair", family)
    before = table.partner.mood.demand
    (mood,) = table.moods(REASONS[0])
    assert before - mood.demand == pytest.approx(moved)


def test_an_insulting_offer_costs_a_turn_more():
    table = Table("generous")
    everything, worth = offer(table.game, -9.0)
    assert worth < -0.3
    *_, before, mood = table.moods("Hello.", "Hm.", everything)
    assert mood.patience == before.patience - 2


def test_its_state_is_its_mood_and_of_the_turns_only_what_matters():
    table, other = Table("stubborn"), Table("stubborn").partner
    *_, mood = table.moods("Hello.", "Hm.")
    for change in ({"demand": 0.1}, {"patience": 1}, {"best": 0.5}, {"told": 1}, {"settled": True}):
        other.mood = mood._replace(**change)
        assert other.state != table.partner.state
    other.mood = mood._replace(turn=7)
    assert other.state == table.partner.state


def test_it_waits_for_the_other_to_agree_again_but_not_for_ever():
    table, kinds = Table("stubborn", "bargain"), []
    for act in (offer(table.game, 0.1)[0], "Agreed."):
        table.hear(act)
    while "leave" not in kinds and len(kinds) < 12:
        assert table.talk.pending is not None
        kinds.append(table.hear(f"Is there a bus at {len(kinds) + 1} o'clock?").kind)
    assert len(kinds) <= NUMBERS["stubborn"].patience + 1


@pytest.mark.parametrize(("temper", "names"), [("stubborn", 1), ("impatient", 2), ("fair", 2)])
def test_strangers_bear_so_many_wrong_names(temper, names):
    table = Table(temper, "friend", 0)
    assert MANNERS[temper].names == names
    wrong = sorted(table.game.known[0] - {table.game.shared})
    for count, place in enumerate(wrong[: names + 1], 1):
        answer = table.hear(Act("speak", "Is it this one?", offer=(place,)))
        assert (answer.kind == "leave") == (count > names)


def test_what_strangers_bear():
    friends = Table("generous", "friend", 0).game.friends
    one, two, *_ = (friend.name for friend in friends)
    many = f"Is there one with {friends[0].works}, {friends[0].town} and {friends[0].sport}?"
    # a list of names, the same again, a turn that leads nowhere, three traits: it bears two
    for act, cost in ((f"{one} or {two}?", 2), ("Hello.", 1), ("Hm.", 1), (many, 1)):
        before, after = Table("generous", "friend", 0).moods("Hello.", act)
        assert before.patience - after.patience == cost, act


def test_strangers_answer_for_their_own_friends_alone():
    for number in range(12):
        game = Table("stubborn", "friend", number).game
        own = [game.friends[place].traits for place in game.known[1]]
        for place in game.known[0] - {game.shared}:
            pair = sorted(game.friends[place].traits)[:2]
            answer = Table("stubborn", "friend", number).hear(f"One with {' and '.join(pair)}?")
            assert ("Yes" in answer.argument) == any(set(pair) <= one for one in own)


def test_impatient_strangers_hurry_from_the_fifth_turn_on():
    table = Table("impatient", "friend", 0)
    table.partner.mood = table.partner.mood._replace(turn=3, patience=3)
    asked = [f"Do you know one who likes {friend.sport}?" for friend in table.game.friends]
    fourth, fifth, *_ = dict.fromkeys(asked)
    assert [mood.patience for mood in table.moods(fourth, fifth)] == [3, 2]


def test_the_temper_is_that_of_the_scene_or_one_for_all():
    scene, rng = draw_scene("bargain", 0), np.random.default_rng(0)
    for side in (0, 1):
        assert ScriptedPartner().begin(scene, side, rng).temper == NUMBERS[scene.temper[side]]
    assert scene.temper[0] != scene.temper[1]
    assert ScriptedPartner("fair").begin(scene, 1, rng).temper == NUMBERS["fair"]


def test_it_asks_back_what_is_unclear_and_waits_for_who_can_take_back():
    table = Table("stubborn", "bargain", 0)
    table.hear(offer(table.game, 0.1)[0])
    assert "?" in table.hear("I won't pay that, ok.").argument
    assert table.talk.pending is None
    table.hear("Agreed.")
    assert table.talk.pending.free == (True, False)
    table.hear("Can you carry it?")
    assert (table.talk.agreed, table.talk.is_over) == (None, False)
    table.hear("No, I take that back.")
    assert (table.talk.agreed, table.talk.pending) == (None, None)
    assert table.talk.standing[1] is not None  # it goes on


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temper", TEMPERS)
def test_its_words_say_what_its_fields_do(family, temper):
    table = Table(temper, family, 5)
    game = table.game
    for act in ["Hello.", "What matters to you?", *game.deals[:: len(game.deals) // 6 + 1]]:
        offered = table.talk.standing[0]
        reply = table.hear(act if isinstance(act, str) else Act("speak", "So?", offer=act))
        offered = table.talk.standing[0] or offered
        confirms = (
            reply.accept and table.talk.accepting_side == 0
        )  # in words such as "we have a deal"
        if not reply.has_fields or confirms or family == "friend":
            continue
        found = read_line(reply.argument, game.wordings[1].read_deal, offered)
        assert found.kind == ("offer" if reply.offer else "acceptance")
        assert found.terms == (reply.offer or table.talk.accepted_terms)


def test_it_answers_questions_with_its_facts():
    table = Table("fair", "favour", 2)
    told = [table.hear(line).argument for line in ("Why?", "What else?", "How is that?")]
    facts = table.talk.scene.facts[1]
    assert all(fact in line for fact, line in zip(facts, told, strict=True))


def test_what_was_said_before_moves_it_no_more_and_please_asks_nothing():
    table = Table("fair", "divide", 4)
    first = table.hear("Thank you, I ask for it because my home burnt down 2 years ago, please?")
    moved = table.partner.mood.demand
    assert not any(fact in first.argument for fact in table.talk.scene.facts[1])
    table.hear("Thank you, I ask for it because my home burnt down 3 years ago, please?")
    assert table.partner.mood.demand == moved


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("temper", TEMPERS)
def test_it_warns_and_leaves_when_its_patience_is_over(family, temper):
    table, answers = Table(temper, family, 7), []
    for _ in range(12):
        answers.append(table.hear("Hm."))
        assert (answers[-1].kind == "leave") == (table.partner.mood.patience <= 0)
        if answers[-1].kind == "leave":
            break
    assert (answers[-1].kind, "I have to go soon." in answers[-2].argument) == ("leave", True)


@pytest.mark.parametrize("family", FAMILIES)
def test_seeded_and_deterministic(family):
    lines = ["Hello, nice to see you.", "What matters to you?", "No.", "Because I like it so much."]
    one, same = (Table("fair", family, 11, seed=3) for _ in range(2))
    assert [one.hear(line) for line in lines] == [same.hear(line) for line in lines]
    assert one.partner.state == same.partner.state
    others = [Table("fair", family, 11, seed=seed) for seed in range(5)]
    assert len({tuple(other.hear(line) for line in lines) for other in others}) > 1
