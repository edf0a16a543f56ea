"""What binds: fields at once, words when they are let stand, and nothing else."""

from __future__ import annotations

import pytest

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.families import scene
from agent_envs.sotopia.talk import Talk

OFFER, TAKE = Act("speak", "So?", offer=(300,)), Act("speak", "Agreed.", accept=True)
SCENE = scene("bargain", 0)


def after(*acts, first=0):
    """The talk of these acts, texts being said, in turn."""
    talk = Talk(SCENE)
    for place, act in enumerate(acts):
        talk = talk.after((first + place) % 2, speak(act) if isinstance(act, str) else act)
    return talk


@pytest.mark.parametrize("side", [0, 1])
def test_fields_bind_at_once(side):
    talk = after(OFFER, TAKE, first=side)
    assert (talk.agreed, talk.accepted_by, talk.pending) == ((300,), 1 - side, None)
    assert after(OFFER, OFFER._replace(argument="Yes?"), first=side).agreed == (300,)
    assert talk.after(side, speak("No, I take that back!")).agreed == (300,)


def test_an_acceptance_in_words_is_repeated_back_and_can_be_withdrawn():
    talk = after(OFFER, "Agreed.")
    assert talk.agreed is None
    assert talk.pending.free == (False, True)
    assert talk.notice(1).startswith("You agreed to this: $300.")
    assert talk.notice(0) == ""
    assert talk.after(0, speak("Good.")).after(1, speak("See you.")).agreed == (300,)
    for otherwise in ("No, wait, I did not mean that.", "Let me think about it.", "$250, no more."):
        taken_back = talk.after(0, speak("Good.")).after(1, speak(otherwise))
        assert (taken_back.agreed, taken_back.pending) == (None, None)
        assert taken_back.standing[0] == (300,)  # the offer is still open


def test_an_offer_in_words_that_was_taken_can_be_withdrawn():
    talk = after("I pay $300.", TAKE)
    assert talk.agreed is None
    assert talk.notice(0).startswith("Your proposal was accepted: $300.")
    assert talk.after(0, Act("leave")).agreed == (300,)
    taken_back = talk.after(0, speak("I did not mean that."))
    assert (taken_back.agreed, taken_back.pending, taken_back.standing[0]) == (None, None, None)
    other = talk.after(0, speak("I pay $200."))
    assert (other.agreed, other.pending, other.standing[0]) == (None, None, (200,))


@pytest.mark.parametrize("first", [0, 1])
def test_words_on_both_sides_bind_when_both_let_them_stand(first):
    talk = after("I propose $300.", "Deal.", first=first)
    assert talk.pending.free == (True, True)
    half = talk.after(first, speak("Wonderful."))
    assert half.agreed is None
    assert half.after(1 - first, speak("See you!")).agreed == (300,)
    assert half.after(1 - first, speak("No, no deal.")).agreed is None


def test_who_leaves_before_the_other_can_take_back_ends_it_without_a_deal():
    assert after("I propose $300.", "Deal.", Act("leave")).agreed is None
    assert after(OFFER, TAKE, Act("leave")).agreed == (300,)


def test_a_question_neither_binds_nor_withdraws():
    talk = after(OFFER, "Agreed.", "Fine.", "Can you carry it to my car?")
    assert talk.agreed is None
    assert talk.pending is not None
    assert talk.after(0, speak("Sure.")).after(1, speak("Thanks.")).agreed == (300,)


@pytest.mark.parametrize(
    "line",
    [
        "I agree the cause is great, it is simply far above my means.",
        "Maybe.",
        "Is that your last price?",
        "No.",
        "$300 is too much.",
        "Deal?",
        "I would have to ask my wife.",
        "If you throw in the case, I accept.",
        "[action] nods",
        "Good morning.",
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_hedges_questions_refusals_and_talk_bind_nobody(line, side):
    act = Act("action", "nods") if line.startswith("[") else speak(line)
    talk = after(OFFER, act, "So?", "Well.", first=side)
    assert (talk.agreed, talk.pending) == (None, None)


def test_yes_takes_what_was_just_proposed_and_nothing_else():
    assert after("Hello.", OFFER, "Yes.").pending.deal == (300,)
    assert after(OFFER, "Can you carry it?", "Yes, I can.").pending is None
    stale = after("I pay $200.", "$300!", "Is it clean?", "Yes, it is.")
    assert stale.pending is None
    assert stale.after(0, speak("Agreed.")).pending.deal == (300,)


def test_there_is_something_to_accept_or_not():
    assert not after("Hello.").can_accept(0)
    assert after(OFFER).can_accept(1)
    assert not after(OFFER).can_accept(0)
    assert after(OFFER, TAKE).can_accept(0)


def test_an_exchange_is_three_answered_lines_or_a_deal():
    assert after(Act("leave")).exchanged(0) == 0
    assert after("Hello.", "Hello.", Act("leave")).exchanged(0) == pytest.approx(1 / 3)
    assert after("Hello.", "Hm.", "Hello.", "Hm.").exchanged(0) == pytest.approx(1 / 3)
    assert after("Hello.", Act("leave")).exchanged(0) == 0
    assert after(OFFER, TAKE).exchanged(0) == 1
