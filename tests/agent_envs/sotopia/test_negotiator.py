"""What each act does to the mood of a scripted character, in numbers."""

from __future__ import annotations

import numpy as np
import pytest

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.families import TEMPERS, draw_scene
from agent_envs.sotopia.friends import MANNERS, Acquaintance
from agent_envs.sotopia.scripted import TEMPERS as NUMBERS
from agent_envs.sotopia.scripted import Negotiator
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
def test_a_turn_that_leads_nowhere_costs_one_and_the_last_one_ends_it(temper):
    character = negotiator(temper)
    patience, hurry = NUMBERS[temper].patience, NUMBERS[temper].hurry
    moods = heard(character, *["Hm."] * 3)
    left = [patience, patience - 1, patience - 2 - (hurry <= 3)]  # the first costs nothing
    assert [mood.patience for mood in moods] == left
    talk, kinds = Talk(character.scene), []
    character = negotiator(temper)
    while "leave" not in kinds:
        talk = talk.after(0, speak("Hm."))
        act = character.reply(talk)
        talk = talk.after(1, act)
        kinds.append(act.kind)
        assert (act.kind == "leave") == (character.mood.patience <= 0)


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
    character = negotiator(temper, "bargain")
    before, numbers = character.mood.demand, NUMBERS[temper]
    act, worth = offer(character.game, 0.1)
    (mood,) = heard(character, act)
    assert mood.demand == pytest.approx(before - numbers.returns * worth - numbers.drift, abs=1e-4)


def test_of_a_single_concession_a_quarter_counts_at_most():
    character = negotiator("stubborn", "bargain")
    before = character.mood.demand
    (mood,) = heard(character, offer(character.game, 0.5)[0])
    assert mood.demand == pytest.approx(before - 0.8 * 0.25 - 0.03, abs=1e-4)


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
