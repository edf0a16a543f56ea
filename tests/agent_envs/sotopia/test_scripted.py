"""Scripted partners: what each act does to their mood, in numbers, and how they talk."""

from __future__ import annotations

import numpy as np
import pytest

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.families import FAMILIES, TEMPERS, draw_scene
from agent_envs.sotopia.friends import MANNERS, Acquaintance
from agent_envs.sotopia.reading import read_line
from agent_envs.sotopia.scripted import TEMPERS as NUMBERS
from agent_envs.sotopia.scripted import Negotiator, ScriptedPartner
from agent_envs.sotopia.talk import Talk

REASONS = [f"I ask for it because my {what} burnt down." for what in ("old home", "barn", "shop")]
QUESTIONS = ["Why do you sell it?", "What else matters to you?"]


def heard(character, *acts):
    """The character's mood after each act of side 0, which it answers."""
    talk, moods = Talk(character.scene), []
    for act in acts:
        talk = talk.after(0, speak(act) if isinstance(act, str) else act)
        answer = character.reply(talk)
        talk = talk.after(1, answer)
        moods.append(character.mood)
    return moods


def negotiator(temper, family="divide", number=4, seed=0):
    return Negotiator(draw_scene(family, number), 1, temper, np.random.default_rng(seed))


def offer(game, worth):
    """The offer that is worth as near as can be to that for side 1, and its worth."""
    deal = min(game.deals, key=lambda one: abs(game.value(one, 1) - worth))
    return Act("speak", f"I propose: {game.wordings[0].propose(deal)}.", offer=deal), game.value(
        deal, 1
    )


@pytest.mark.parametrize(
    ("act", "rude"),
    [
        (speak("You are an idiot."), 1),
        (Act("non-verbal communication", "shows the middle finger"), 1),
        (speak("I will break your legs."), 2),
        (Act("action", "hits you in the face"), 4),
    ],
)
@pytest.mark.parametrize("kind", [Negotiator, Acquaintance])
def test_rudeness_costs_two_turns_of_patience_a_step(kind, act, rude):
    family = "divide" if kind is Negotiator else "friend"
    plain, insulted = (
        heard(kind(draw_scene(family, 4), 1, "generous", np.random.default_rng(0)), "Hello.", last)[
            -1
        ]
        for last in ("Hm.", act)
    )
    assert insulted.patience == plain.patience - 2 * rude
    if kind is Negotiator:  # and a tenth of what it asks for, which is 1 at most
        assert insulted.demand == pytest.approx(min(1.0, plain.demand + 0.1 * rude))


@pytest.mark.parametrize("temper", TEMPERS)
def test_a_turn_that_leads_nowhere_costs_one(temper):
    patience, hurry = NUMBERS[temper].patience, NUMBERS[temper].hurry
    moods = heard(negotiator(temper), *["Hm."] * 3)
    left = [patience, patience - 1, patience - 2 - (hurry <= 3)]  # the first costs nothing
    assert [mood.patience for mood in moods] == left


def test_the_impatient_lose_patience_from_the_third_turn_on_whatever_is_said():
    moods = heard(negotiator("impatient"), "Hello.", *QUESTIONS)
    assert [mood.patience for mood in moods] == [3, 3, 2]
    moods = heard(negotiator("stubborn"), "Hello.", *QUESTIONS)
    assert [mood.patience for mood in moods] == [4, 4, 4]


@pytest.mark.parametrize("temper", TEMPERS)
def test_it_asks_for_what_its_temper_says_give_or_take_a_little(temper):
    asked = [negotiator(temper, seed=seed).mood.demand for seed in range(20)]
    assert all(abs(one - NUMBERS[temper].demand) <= 0.02 for one in asked)
    assert len(set(asked)) > 10


@pytest.mark.parametrize("temper", TEMPERS)
@pytest.mark.parametrize("family", ["bargain", "divide", "favour", "schedule"])
def test_it_takes_what_is_worth_what_it_asks_for_and_nothing_less(temper, family):
    character = negotiator(temper, family)
    game, taken = character.game, set()
    for deal in game.deals:
        talk = Talk(character.scene).after(0, Act("speak", "My offer.", offer=deal))
        mood, kind, _ = character.weigh(talk)
        assert (kind == "accept") == (game.value(deal, 1) >= mood.demand)
        taken.add(kind)
    assert taken == {"accept", "counter"}


@pytest.mark.parametrize("temper", TEMPERS)
def test_its_own_terms_are_worth_what_it_asks_for(temper):
    character = negotiator(temper, "bargain")
    talk = Talk(character.scene)
    for worth in (0.0, 0.1, 0.2):
        talk = talk.after(0, offer(character.game, worth)[0])
        act = character.reply(talk)
        talk = talk.after(1, act)
        if act.offer is not None:
            assert character.game.value(act.offer, 1) >= character.mood.demand


@pytest.mark.parametrize("temper", TEMPERS)
def test_it_gives_back_its_share_of_a_concession(temper):
    numbers = NUMBERS[temper]
    for aim in (0.1, 0.5):  # of a single concession a quarter counts at most
        character = negotiator(temper, "bargain")
        before = character.mood.demand
        act, worth = offer(character.game, aim)
        worse, _ = offer(character.game, worth / 2)  # which gains nothing
        mood, same = heard(character, act, worse)
        lower = before - numbers.returns * min(worth, 0.25) - numbers.drift
        assert mood.demand == pytest.approx(max(lower, numbers.floor), abs=1e-4)
        assert same.demand == mood.demand


@pytest.mark.parametrize("temper", TEMPERS)
def test_it_never_asks_for_less_than_its_floor(temper):
    character = negotiator(temper, "bargain")
    worths = [worth for worth in (0.15, 0.3, 0.45, 0.6, 0.75) if worth < NUMBERS[temper].floor]
    acts = [*REASONS, *(offer(character.game, worth)[0] for worth in worths)]
    moods = heard(character, *acts)
    assert all(mood.demand >= NUMBERS[temper].floor for mood in moods)
    character.mood = character.mood._replace(demand=NUMBERS[temper].floor + 0.01, best=0.0)
    talk = Talk(character.scene).after(0, offer(character.game, 0.2)[0])
    assert character.weigh(talk)[0].demand == NUMBERS[temper].floor


def test_reasons_count_three_times_and_thanks_once():
    character = negotiator("generous")
    before, moved = character.mood.demand, 0.06
    acts = [*REASONS, "I ask for it because my boat sank last year.", "Thank you.", "Thanks a lot!"]
    asked = [mood.demand for mood in heard(character, *acts)]
    steps = [1, 2, 3, 3, 3.5, 3.5]
    assert asked == pytest.approx([before - moved * count for count in steps])


def test_donors_are_moved_twice_as_much():
    fallen = []
    for family in ("divide", "donation"):
        character = negotiator("fair", family)
        before = character.mood.demand
        (mood,) = heard(character, REASONS[0])
        fallen.append(before - mood.demand)
    assert fallen == pytest.approx([0.05, 0.10])


def test_an_insulting_offer_costs_a_turn_more():
    character = negotiator("generous")
    everything, worth = offer(character.game, -9.0)
    assert worth < -0.3
    *_, before, mood = heard(character, "Hello.", "Hm.", everything)
    assert mood.patience == before.patience - 2


def test_its_state_is_its_mood_and_of_the_turns_only_what_matters():
    character = negotiator("stubborn")
    heard(character, "Hello.", "Hm.")
    state = character.state
    for change in ({"demand": 0.1}, {"patience": 1}, {"best": 0.5}, {"told": 1}, {"settled": True}):
        other = negotiator("stubborn")
        other.mood = character.mood._replace(**change)
        assert other.state != state
    other.mood = character.mood._replace(turn=7)
    assert other.state == state


def test_it_waits_for_the_other_to_agree_again_but_not_for_ever():
    character = negotiator("stubborn", "bargain")
    talk = Talk(character.scene)
    for act in (offer(character.game, 0.1)[0], speak("Agreed.")):
        talk = talk.after(0, act)
        talk = talk.after(1, character.reply(talk))
    assert talk.pending is not None
    kinds = []
    while "leave" not in kinds and len(kinds) < 12:
        talk = talk.after(0, speak(f"Is there a bus at {len(kinds) + 1} o'clock?"))
        assert talk.pending is not None
        act = character.reply(talk)
        kinds.append(act.kind)
        talk = talk.after(1, act)
    assert len(kinds) <= NUMBERS["stubborn"].patience + 1


def stranger(temper, number=0):
    return Acquaintance(draw_scene("friend", number), 1, temper, np.random.default_rng(0))


@pytest.mark.parametrize(("temper", "names"), [("stubborn", 1), ("impatient", 2), ("fair", 2)])
def test_strangers_bear_so_many_wrong_names(temper, names):
    character = stranger(temper)
    assert MANNERS[temper].names == names
    wrong = [
        Act("speak", "Is it this one?", offer=(place,))
        for place in sorted(character.game.known[0] - {character.game.shared})
    ]
    talk = Talk(character.scene)
    for count, act in enumerate(wrong[: names + 1], 1):
        talk = talk.after(0, act)
        answer = character.reply(talk)
        talk = talk.after(1, answer)
        assert (answer.kind == "leave") == (count > names)


def test_what_strangers_bear():
    one, other, *_ = (friend.name for friend in stranger("generous").game.friends)
    costs = {}
    for act in (f"{one} or {other}?", "Hello.", "Hm."):
        before, after = heard(stranger("generous"), "Hello.", act)
        costs[act] = before.patience - after.patience
    # a list of names, the same again, and a turn that leads nowhere
    assert costs == {f"{one} or {other}?": 2, "Hello.": 1, "Hm.": 1}


def test_strangers_ask_for_patience_with_many_traits():
    friend = stranger("generous").game.friends[0]
    asked = f"Is there one with {friend.works}, {friend.town} and {friend.sport}?"
    before, after = heard(stranger("generous"), "Hello.", asked)
    assert before.patience - after.patience == 1  # three, of which it bears two


def test_strangers_answer_for_their_own_friends_alone():
    for number in range(12):
        character = stranger("stubborn", number)
        game = character.game
        own = [game.friends[place].traits for place in game.known[1]]
        for place in game.known[0] - {game.shared}:
            traits = game.friends[place].traits
            asked = speak(f"Is there one with {' and '.join(sorted(traits)[:2])}?")
            pair = frozenset(sorted(traits)[:2])
            answer = stranger("stubborn", number).reply(Talk(character.scene).after(0, asked))
            assert ("Yes" in answer.argument) == any(pair <= one for one in own)


def test_impatient_strangers_hurry_from_the_fifth_turn_on():
    character = stranger("impatient")
    character.mood = character.mood._replace(turn=3, patience=3)
    asked = [f"Do you know one who likes {friend.sport}?" for friend in character.game.friends]
    fourth, fifth, *_ = dict.fromkeys(asked)
    assert [mood.patience for mood in heard(character, fourth, fifth)] == [3, 2]


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


def test_the_temper_is_that_of_the_scene_or_one_for_all():
    scene, rng = draw_scene("bargain", 0), np.random.default_rng(0)
    for side in (0, 1):
        assert ScriptedPartner().begin(scene, side, rng).temper == NUMBERS[scene.temper[side]]
    assert scene.temper[0] != scene.temper[1]
    assert ScriptedPartner("fair").begin(scene, 1, rng).temper == NUMBERS["fair"]


def test_it_asks_back_what_is_unclear_and_waits_for_who_can_take_back():
    table = Table("bargain", 0, "stubborn")
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
    table = Table(family, 5, temper)
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
def test_it_warns_and_leaves_when_its_patience_is_over(family, temper):
    table, answers = Table(family, 7, temper), []
    for _ in range(12):
        answers.append(table.hear("Hm."))
        assert (answers[-1].kind == "leave") == (table.partner.mood.patience <= 0)
        if answers[-1].kind == "leave":
            break
    assert (answers[-1].kind, "I have to go soon." in answers[-2].argument) == ("leave", True)


@pytest.mark.parametrize("family", FAMILIES)
def test_seeded_and_deterministic(family):
    lines = ["Hello, nice to see you.", "What matters to you?", "No.", "Because I like it so much."]
    one, same = (Table(family, 11, "fair", seed=3) for _ in range(2))
    assert [one.hear(line) for line in lines] == [same.hear(line) for line in lines]
    assert one.partner.state == same.partner.state
    others = [Table(family, 11, "fair", seed=seed) for seed in range(5)]
    assert len({tuple(other.hear(line) for line in lines) for other in others}) > 1


def test_a_stranger_answers_about_its_friends():
    table = Table("friend", 0, "generous")
    game = table.game
    shared = game.friends[game.shared]
    one, two, *_ = sorted(shared.traits)
    assert "Yes, that fits " in table.hear(f"Does a friend of yours like {one} and {two}?").argument
    places = game.known[0] - {game.shared}
    table.hear(f"Do you know {game.friends[min(places)].name}?")
    assert table.talk.agreed is None
    assert shared.name in table.hear(f"Do you know {shared.name}?").argument
    assert table.talk.pending.deal == (game.shared,)
    assert table.hear("What a nice day.").kind == "leave"
