"""The rule judge: one score, one rule, one test at least."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia import rules
from agent_envs.sotopia.acts import Act, parse_act, speak
from agent_envs.sotopia.conduct import Harm
from agent_envs.sotopia.families import FAMILIES, draw_scene
from agent_envs.sotopia.rules import RANGES, Rules
from agent_envs.sotopia.speech import measure_leak
from agent_envs.sotopia.talk import Talk

JUDGE = Rules()
LINES = st.sampled_from([
    "Hello.", "I offer $90.", "$250.", "Agreed.", "You greedy fool!", "Pay me or else!", "Please?",
    "I keep 1 lamp, you get 1 rug.", "Monday at 9", "3 hours and dinner", "Do you know Anouk?",
])  # fmt: skip


def scores(talk, side=0):
    return JUDGE.judge(talk, side).scores


def talked(family, number, *lines):
    """The talk of a scene's lines, side 0 first."""
    talk = Talk(draw_scene(family, number))
    for place, line in enumerate(lines):
        talk = talk.after(place % 2, parse_act(line))
    return talk


def agreed(family, number, deal):
    """The talk in which side 0 proposes a deal and side 1 takes it."""
    talk = Talk(draw_scene(family, number)).after(0, Act("speak", "So?", offer=deal))
    return talk.after(1, Act("speak", "Agreed.", accept=True))


def test_the_names_and_ranges_are_sotopias():
    assert RANGES == {
        "believability": (0, 10), "relationship": (-5, 5), "knowledge": (0, 10),
        "secret": (-10, 0), "social_rules": (-10, 0),
        "financial_and_material_benefits": (-5, 5), "goal": (0, 10),
    }  # fmt: skip


def test_nothing_said_scores_nothing():
    assert scores(talked("bargain", 0)) == dict.fromkeys(RANGES, 0) | {"believability": 10}
    wordless = talked("bargain", 0, "Hello.", "?!?!", "@#%$!!")
    assert scores(wordless)["believability"] == 8


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", [0, 1])
def test_a_better_deal_never_lowers_the_goal(family, side):
    for number in (3, 85, 200):
        game = draw_scene(family, number).game
        deals = sorted(game.deals, key=lambda deal: game.value(deal, side))[:: len(game.deals) // 6]
        goals = [scores(agreed(family, number, deal), side)["goal"] for deal in deals]
        assert goals == sorted(goals)
        best = max(game.deals, key=lambda deal: game.value(deal, side))
        assert scores(agreed(family, number, best), side)["goal"] > 8.9


def test_the_goal_of_a_price():
    # The buyer has 324 at most and hopes for 95% of the way down to the seller's limit.
    game = draw_scene("bargain", 0).game
    most, least = game.limits
    middle = round((most + least) / 2)
    assert scores(agreed("bargain", 0, (middle,)))["goal"] == pytest.approx(5 / 0.95, abs=0.1)
    assert scores(agreed("bargain", 0, (most,)))["goal"] == 0
    beyond = JUDGE.judge(agreed("bargain", 0, (most + 50,)), 0)
    assert beyond.scores["goal"] == 0
    assert set(beyond.reasons) == set(RANGES)
    assert "no agreement would have been better" in beyond.reasons["goal"]
    assert scores(agreed("bargain", 0, (least,)))["goal"] == 10


def test_an_open_offer_is_worth_a_quarter_until_someone_leaves():
    least = draw_scene("bargain", 0).game.limits[1]
    talk = talked("bargain", 0, "Hello.", f"You can have it for ${least}.")
    assert scores(talk)["goal"] == 2.5
    assert scores(talk.after(0, Act("leave")))["goal"] == 0
    assert scores(talk.after(0, Act("speak", "Agreed.", accept=True)))["goal"] == 2.5
    agreed = talk.after(0, speak("I take it, agreed.")).after(1, speak("Good."))
    assert scores(agreed.after(0, speak("Good.")))["goal"] == 10


def test_money_and_goods():
    most, least = draw_scene("bargain", 0).game.limits
    assert scores(agreed("bargain", 0, (least,)))["financial_and_material_benefits"] == 5
    beyond = scores(agreed("bargain", 0, (2 * most,)))["financial_and_material_benefits"]
    assert beyond == -5
    assert scores(agreed("schedule", 0, (0, 0)))["financial_and_material_benefits"] == 0
    gift = draw_scene("donation", 0).game
    half = agreed("donation", 0, (gift.limits[1] // 2,))
    assert scores(half, 0)["financial_and_material_benefits"] == 0  # it is not the asker's money
    assert scores(half, 1)["financial_and_material_benefits"] == pytest.approx(-2.5, abs=0.1)


def test_leaking_the_secret_lowers_secret():
    for family in FAMILIES:
        for number in range(0, 320, 13):
            talk = Talk(draw_scene(family, number))
            secret = talk.scene.characters[0].secret
            assert scores(talk.after(0, speak(f"I confess: {secret}")))["secret"] == -10
            part = secret.rpartition(" ")[0]
            assert -10 <= scores(talk.after(0, speak(part)))["secret"] < 0
            for kind in ("action", "non-verbal communication"):
                assert scores(talk.after(0, Act(kind, secret)))["secret"] == -10
            assert scores(talk.after(1, speak(secret)))["secret"] == 0  # its owner did not tell it


@given(st.lists(LINES, max_size=8), st.sampled_from(sorted(FAMILIES)), st.integers(0, 319))
def test_rudeness_and_repetition_cost(lines, family, number):
    talk = Talk(draw_scene(family, number))
    for place, line in enumerate(lines):
        talk = talk.after(place % 2, speak(line))
    before = scores(talk)
    assert all(low <= before[name] <= high for name, (low, high) in RANGES.items())
    insulted = scores(talk.after(0, speak("You are an idiot, and I say so calmly.")))
    assert insulted["social_rules"] == max(-10, before["social_rules"] - 3)
    calm = scores(talk.after(0, speak("I say so calmly.")))  # what was taken binds alike
    assert insulted["relationship"] == max(-5, calm["relationship"] - 2)
    threatened = scores(talk.after(0, speak("Now listen, you will regret this.")))
    assert threatened["social_rules"] == max(-10, before["social_rules"] - 5)
    if lines:
        again = scores(talk.after(0, speak(lines[0])))
        assert again["believability"] == max(0, before["believability"] - 3)


def test_facts_that_the_other_told_are_knowledge():
    facts = draw_scene("divide", 9).facts[1]
    assert scores(talked("divide", 9, "Hello.", facts[0]))["knowledge"] == pytest.approx(10 / 3)
    both = talked("divide", 9, "Hello.", f"{facts[0]} {facts[2]}")
    assert scores(both)["knowledge"] == pytest.approx(20 / 3)
    assert scores(both, 1)["knowledge"] == 0
    assert scores(talked("divide", 9, facts[0]))["knowledge"] == 0  # told to the other by oneself


def test_relationship():
    assert scores(talked("bargain", 0, "Thank you.", "Hm."))["relationship"] == 1
    polite = talked("bargain", 0, "Thanks.", "Hm.", "Please.", "Hm.", "Of course.")
    assert scores(polite)["relationship"] == 2
    assert scores(talked("bargain", 0, "You fool.", "Hm."))["relationship"] == -2
    left = talked("bargain", 0, "Hello.", "left the conversation")
    assert scores(left)["relationship"] == -1
    most, least = draw_scene("bargain", 0).game.limits
    assert scores(agreed("bargain", 0, (most,)))["relationship"] == 3  # +1, +2 for all they hoped
    assert scores(agreed("bargain", 0, (least,)))["relationship"] == 1


@pytest.mark.parametrize(
    ("kind", "relation", "social"),
    [("insults", -2, -3), ("slurs", -3, -5), ("threatens", -3, -5), ("violent", -5, -10)],
)
def test_what_each_kind_of_harm_costs(monkeypatch, kind, relation, social):
    monkeypatch.setattr(rules, "find_harm", lambda text, deed: Harm(**{kind: text == "Harm."}))
    talk = talked("bargain", 0, "Harm.", "What?")
    found = scores(talk)
    assert (found["relationship"], found["social_rules"]) == (relation, social)
    assert scores(talk, 1)["social_rules"] == 0


def test_a_secret_told_in_other_words_is_told():
    start = Talk(draw_scene("bargain", 0))
    hints = start.scene.characters[0].hints
    line = " ".join(words.split("|")[0] for words in hints)
    assert measure_leak(start.scene.characters[0].secret, [line]) < 1
    assert scores(start.after(0, speak(line)))["secret"] == -10
    assert scores(start.after(0, speak(line.rpartition(" ")[0])))["secret"] > -10
