"""What binds: fields at once, words when they are let stand, and nothing else."""

import pytest

from agent_envs.sotopia.acts import Act, speak
from agent_envs.sotopia.families import draw_scene
from agent_envs.sotopia.talk import Talk
from tests.agent_envs.sotopia.samples import read_lines

OFFER, TAKE = Act("speak", "So?", offer=(300,)), Act("speak", "Agreed.", accept=True)
SCENE = draw_scene("bargain", 0)


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
    assert talk.render_notice(1).startswith("You agreed to this: $300.")
    assert talk.render_notice(0) == ""
    assert talk.after(0, speak("Good.")).after(1, speak("Yes, deal.")).agreed == (300,)
    for otherwise in (
        *("No, wait, I did not mean that.", "Let me think about it.", "$250, no more."),
        "I won't pay that, ok.",  # unclear
    ):
        taken_back = talk.after(0, speak("Good.")).after(1, speak(otherwise))
        assert (taken_back.agreed, taken_back.pending) == (None, None)
        assert taken_back.standing[0] == (300,)  # the offer is still open


def test_an_offer_in_words_that_was_taken_can_be_withdrawn():
    talk = after("I pay $300.", TAKE)
    assert talk.agreed is None
    assert talk.render_notice(0).startswith("Your proposal was accepted: $300.")
    assert talk.after(0, Act("leave")).agreed == (300,)
    taken_back = talk.after(0, speak("I did not mean that."))
    assert (taken_back.agreed, taken_back.pending, taken_back.standing[0]) == (None, None, None)
    other = talk.after(0, speak("I pay $200."))
    assert (other.agreed, other.pending, other.standing[0]) == (None, None, (200,))


@pytest.mark.parametrize("first", [0, 1])
def test_words_on_both_sides_bind_when_both_confirm_them(first):
    talk = after("I propose $300.", "Deal.", first=first)
    assert talk.pending.free == (True, True)
    half = talk.after(first, speak("Agreed."))
    assert half.agreed is None
    assert half.after(1 - first, Act("leave")).agreed == (300,)
    assert half.after(1 - first, speak("No, no deal.")).agreed is None


@pytest.mark.parametrize(
    "act", [speak("Yes."), speak("$300."), speak("Agreed!"), TAKE, OFFER, Act("none"), Act("leave")]
)
@pytest.mark.parametrize("side", [0, 1])
def test_what_confirms_words(act, side):
    assert after(OFFER, "Agreed.", "Fine.", act, first=side).agreed == (300,)
    assert after("I pay $300.", TAKE, act, first=side).agreed == (300,)


@pytest.mark.parametrize(
    "line",
    ["Have a nice day.", "It weighs 25 kilos.", "I live at 22 Harbour Street.", "Is it clean?",
     "[action] nods", "What a day!", "My bus leaves in 20."],
)  # fmt: skip
@pytest.mark.parametrize("side", [0, 1])
def test_remarks_and_questions_keep_words_open(line, side):
    act = Act("action", "nods") if line.startswith("[") else speak(line)
    talk = after(OFFER, "Agreed.", "Fine.", act, first=side)
    assert (talk.agreed, talk.pending.deal) == (None, (300,))
    assert talk.render_notice(1 - side) == (
        "You agreed to this: $300. It binds you when you agree again, do nothing or leave."
    )
    assert talk.after(side, speak("So?")).after(1 - side, TAKE).agreed == (300,)


@pytest.mark.parametrize("side", [0, 1])
def test_numbers_in_remarks_are_no_terms(side):
    for row in read_lines("remarks"):
        made, line = draw_scene(row["family"], 17), speak(row["text"])
        assert Talk(made).after(side, line).standing == (None, None), row
        deal = made.game.deals[len(made.game.deals) // 2]
        talk = Talk(made).after(1 - side, Act("speak", "So?", offer=deal)).after(side, line)
        assert (talk.pending, talk.standing[side]) == (None, None), row


def test_newer_terms_replace_what_is_pending_or_open():
    changed = Act("speak", "changed", offer=(250,))
    for newer in (changed, speak("Actually I can only pay $250.")):
        talk = after(OFFER, "Deal.", newer, "No, I will not sell for that.", "hmm?", TAKE)
        assert (talk.agreed or talk.pending.deal) == (250,)
    taker = after("I pay $300.", TAKE._replace(offer=None), "Is it clean?", changed)
    assert (taker.pending, taker.standing[1]) == (None, (250,))


def test_a_field_takes_back_the_own_offer():
    away = Act("speak", "no", accept=False)
    for offer in (OFFER, speak("I could pay $300.")):
        talk = after(offer, "hm", away)
        assert talk.standing[0] is None
        assert talk.find_obstacle(1, TAKE)
        talk = after(offer, TAKE if offer is not OFFER else speak("Deal."), away)
        assert (talk.agreed, talk.pending, talk.standing[0]) == (None, None, None)


def test_what_can_no_longer_bind_is_not_announced():
    talk = Talk(SCENE, ahead=3).after(0, speak("I pay $300.")).after(1, speak("Deal."))
    notices = talk.render_notice(0), talk.render_notice(1)
    assert (talk.open, *notices) == (None, "", "")  # two have to confirm
    talk = Talk(SCENE, ahead=3).after(0, speak("I pay $300.")).after(1, TAKE)
    assert talk.render_notice(0)
    ended = talk.after(0, speak("Nice weather."))
    assert (ended.open, ended.render_notice(0)) == (None, "")
    assert talk.after(0, speak("$300, yes.")).agreed == (300,)


def test_leaving_ends_all_proposals_and_what_the_other_can_take_back():
    assert after("I propose $300.", "Deal.", Act("leave")).agreed is None
    assert after(OFFER, TAKE, Act("leave")).agreed == (300,)
    talk = after(OFFER, OFFER._replace(offer=(250,)))
    assert talk.standing == ((300,), (250,))
    assert all(talk.after(side, Act("leave")).standing == (None, None) for side in (0, 1))


def test_what_a_side_cannot_do():
    assert after("Hello.").find_obstacle(0, TAKE)
    assert not after(OFFER).find_obstacle(1, TAKE)
    assert after(OFFER).find_obstacle(0, TAKE)
    assert not after(OFFER, TAKE).find_obstacle(0, TAKE)
    assert not after("Hello.").find_obstacle(0, TAKE._replace(offer=(300,)))
    assert not after("Hello.").find_obstacle(0, speak("z" * 4096))
    assert "4,096" in after("Hello.").find_obstacle(0, speak("z" * 4097))
    assert after("Good morning!").is_repetition(0, speak("Good morning!"))
    assert not after("Good morning!").is_repetition(1, speak("Good morning!"))


@pytest.mark.parametrize(
    "line",
    ["Maybe.", "Is that your last price?", "No.", "$300 is too much.", "Deal?", "Good morning.",
     "If you throw in the case, I accept.", "[action] nods"],
)  # fmt: skip
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


def test_two_silences_in_a_row_end_a_talk():
    assert not after(Act("none")).is_over
    assert not after(Act("none"), "Hello?", Act("none")).is_over
    assert after("Hello?", Act("none"), Act("none")).is_over


def test_an_exchange_is_three_answered_lines_or_a_deal():
    assert after(Act("leave")).measure_exchange(0) == 0
    assert after("Hello.", "Hello.", Act("leave")).measure_exchange(0) == pytest.approx(1 / 3)
    assert after("Hello.", "Hm.", "Hello.", "Hm.").measure_exchange(0) == pytest.approx(1 / 3)
    assert after("Hello.", Act("leave")).measure_exchange(0) == 0
    assert after(OFFER, TAKE).measure_exchange(0) == 1
