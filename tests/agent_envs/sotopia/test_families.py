"""Generated scenes: terms that are read as they are told, values, splits."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.amounts import Amount
from agent_envs.sotopia.division import Division, Thing
from agent_envs.sotopia.families import FAMILIES, SPLITS, SUBJECTS, VARIANTS, draw_scene, open_panel
from agent_envs.sotopia.favour import Favour
from agent_envs.sotopia.friends import Friend, Friends
from agent_envs.sotopia.reading import read_line
from agent_envs.sotopia.scene import find_best_value
from agent_envs.sotopia.schedule import Week
from agent_envs.sotopia.speech import hear_line, measure_leak

ALL = [(family, number) for family in FAMILIES for number in range(0, SUBJECTS * VARIANTS, 7)]

THINGS = Division(
    (Thing("lamp", "lamps", 2), Thing("rug", "rugs", 1)), ((3, 4), (1, 8)), (2, 2), (8, 8)
)
WEEK = Week(
    ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0)),
    ((0, 1, 2, 3, 4), (0, 1, 2, 3, 4)),
    (frozenset({(0, 0)}), frozenset()),
)
HELP = Favour((0, 1, 2, 3, 4, 5), (0, 5, 4, 3, 2, 1))
PEOPLE = Friends(
    (Friend("Ann", "bank", "Ulm", "judo"), Friend("Bob", "bank", "Ulm", "chess")),
    (frozenset({0, 1}), frozenset({1})),
    1,
)
PRICE = Amount((100, 60))  # a buyer with 100, a seller who will not go below 60


@pytest.mark.parametrize(
    ("game", "deal", "values"),
    [
        (PRICE, (100,), (0, 40 / 38)),
        (PRICE, (62,), (1, 2 / 38)),  # 38 of the 38 that 95% of the range are
        (PRICE, (110,), (-10 / 38, 50 / 38)),
        (THINGS, (2, 0), (4 / 6, 1)),  # 6 - 2 of 8 - 2; the rug alone is 8
        (HELP, (3, 1), (3 / 8, 1)),  # 3 hours of 2 less 1: 5 - 2 of 10 - 2; 3 - 3 + 5 of 5
        (WEEK, (0, 1), (0.9, 0.4)),  # best day 5, second hour 4, of 10; worst day
        (WEEK, (4, 4), (0, 0.5)),
        (WEEK, (0, 0), (-1, 0.5)),  # busy; worst day, best hour
        (PEOPLE, (1,), (1, 1)),
        (PEOPLE, (0,), (-1, -1)),
    ],
)
def test_the_value_of_a_deal_to_each_side(game, deal, values):
    assert (game.value(deal, 0), game.value(deal, 1)) == pytest.approx(values)


@pytest.mark.parametrize("family", FAMILIES)
def test_terms_are_read_as_they_are_proposed_in_words_and_as_a_field(family):
    for number in range(0, SUBJECTS * VARIANTS, 11):
        game = draw_scene(family, number).game
        for deal in game.deals:
            assert all(one.read_deal(one.propose(deal)) == deal for one in game.wordings)
        for deal in game.deals[:: len(game.deals) // 7 + 1]:
            for wording in game.wordings:
                line = f"Please. I suggest: {wording.propose(deal)}"
                heard = read_line(line, wording.read_deal, by_asking=game.asks)
                assert (heard.kind, heard.terms) == ("offer", deal)
                assert wording.read_offer(wording.write_offer(deal)) == deal


@pytest.mark.parametrize(
    "game", [PRICE, THINGS, HELP, WEEK, PEOPLE], ids=lambda g: type(g).__name__
)
@pytest.mark.parametrize(
    "offer",
    [
        *({}, [], "40", 40, None, {"price": -1}, {"price": "40"}, {"price": 1e30}, {"price": True}),
        *({"price": 4, "monthly": 4}, {"keep": {"rug": -1}}, {"keep": []}, {"hours": 7}),
        *({"keep": {"lamp": lamps, "rug": 0}} for lamps in (3, 1.0, True)),
        *({"hours": 2, "return": ["dinner"]}, {"day": "Sunday", "hour": 9}, {"day": "Monday"}),
        *({"day": ["Monday"], "hour": 9}, {"friend": "Nobody"}, {"friend": ["Anouk"]}),
    ],
)
def test_what_is_no_possible_offer_is_refused_and_told_how_one_is_written(game, offer):
    with pytest.raises(ValueError, match="An offer here is written"):
        game.wordings[0].read_offer(offer)


@pytest.mark.parametrize("family", FAMILIES)
def test_both_sides_can_do_well_at_once_but_not_both_perfectly(family):
    for number in range(SUBJECTS * VARIANTS):
        game = draw_scene(family, number).game
        values = [game.values(side) for side in (0, 1)]
        if number % 37 == 0:
            assert values == [[game.value(deal, side) for deal in game.deals] for side in (0, 1)]
        for side in (0, 1):
            assert find_best_value(game, side, 0.35) > 0.6  # 0.35: floor of the most stubborn
        if number // SUBJECTS // 4 % 2 and family != "friend":  # the tight ones
            assert max(map(min, *values)) < 1


def test_a_gift_costs_its_giver():
    gift = Amount((10, 40), gains=(False, True))
    assert (gift.material((20,), 0), gift.material((20,), 1)) == (0, -0.5)
    # and the other side reads a division the other way round
    assert THINGS.wordings[1].read_deal("I keep 2 lamps, you get 1 rug") == (0, 1)


@pytest.mark.parametrize(
    ("game", "text", "deal"),
    [
        *((Amount((100, 50)), text, amount and (amount,)) for text, amount in (
            ("I would pay $80", 80), ("You ask $120, I offer $90.", 90), ("80 dollars", 80),
            ("In 2 days I could pay 75", 75), ("$1,200 it is", 1200), ("$80.50", 80),
            ("$2k, not more", 2000), ("$1.2k", 1200), ("down from $60 to $45", 45),
            ("I give 20% less", None), ("it is 30 years old", None), ("hello", None),
            ("$" + "9" * 30, None), ("$12,50", None), ("$1.000", None), ("$1 000", None),
            ("my 2nd offer", None), ("I offer -$80.", None), ("I offer $-80.", None),
            ("I pay $80-90.", None), ("between $80 and $90", None), ("I pay $80 to $90.", None),
            ("$1,200 a year", None),
        )),
        *((THINGS, text, deal) for text, deal in (
            ("I keep 2 lamps, you get 1 rug", (2, 0)), ("You can have the rug", (2, 0)),
            ("I take both lamps", (2, 0)), ("I'd like the rug and one lamp", (1, 1)),
            ("you get everything", None), ("I take 3 lamps", None), ("Nice weather", None),
            ("I take 2 lamps and you take 1 lamp", None),
        )),
        *((WEEK, text, slot) for text, slot in (
            ("Tuesday at 3 pm", (1, 3)), ("on Friday at 9", (4, 0)), ("Tuesday at 3", (1, 3)),
            ("tuesday around 15:00", (1, 3)), ("Monday 11am", (0, 1)), ("Monday at 10", None),
            ("Monday at 15:30", None), ("Monday at 3.30 pm", None), ("Monday", None),
            ("Monday from 13:00 to 15:00", (0, 2)), ("Monday 1 pm to 3 pm", (0, 2)),
            ("Monday, move it to 15:00", (0, 3)), ("at 9", None), ("Sunday at 9", None),
        )),
        *((HELP, text, deal) for text, deal in (
            ("3 hours and dinner", (3, 1)), ("two hours, and I walk your dog", (2, 3)),
            ("one hour", (1, 0)), ("3 hours, but no dinner", (3, 0)), ("9 hours", None),
            ("2.5 hours", None), ("half an hour", None), ("dinner", None),
        )),
        *((PEOPLE, text, deal) for text, deal in (
            ("Do you know Bob?", (1,)), ("Ann, Bob?", None), ("Nobody", None),
        )),
    ],
)  # fmt: skip
def test_terms_in_words(game, text, deal):
    assert game.wordings[0].read_deal(text) == deal


@pytest.mark.parametrize("family", FAMILIES)
def test_scenes_differ_and_none_tells_a_secret(family):
    scenes = [draw_scene(family, number) for number in range(SUBJECTS * VARIANTS)]
    assert len({(s.render_background(0), s.render_background(1)) for s in scenes}) == len(scenes)
    for one in scenes:
        for side in (0, 1):
            lines = (*one.facts[side], one.openings[side])
            assert measure_leak(one.characters[side].secret, lines) == 0
            assert len(one.facts[side]) == 3
            assert all(hear_line(fact).reasons for fact in one.facts[side][:2])


def test_splits():
    panels = {split: open_panel(split, "all") for split in SPLITS}
    subjects = {
        split: {(t[:3], int(t.split("-")[1]) % SUBJECTS) for t in panels[split].task_ids}
        for split in ("train", "val", "test")
    }
    assert not subjects["train"] & subjects["val"]
    assert not subjects["train"] & subjects["test"]
    assert not subjects["val"] & subjects["test"]
    assert set(panels["hard"].task_ids) < set(panels["test"].task_ids)
    parts = sum((panels[s].task_ids for s in ("train", "val", "test")), ())
    assert sorted(parts) == sorted(panels["all"].task_ids)
    # 6 families of 20 subjects and 16 variants, two sides each.
    assert [len(panels[s]) for s in SPLITS] == [2688, 576, 576, 144, 3840]
    for task in panels["hard"].task_ids:
        family, number, side = task.split("-")
        assert draw_scene(family, int(number)).temper[1 - int(side)] in ("stubborn", "impatient")


def test_panels_and_scenes_stay_the_same():
    # Other scenes under the same ids would make results of before and after incomparable.
    scenes = repr([draw_scene("divide", 77), draw_scene("friend", 3)])
    assert sha256(scenes.encode()).hexdigest()[:16] == "04c121bf3f7a2582"
    assert open_panel("hard", "all").hash.startswith("428a1aab3546bf5d")


@given(st.sampled_from(ALL), st.integers(0, 1), st.text(max_size=120))
def test_any_line_is_a_possible_deal_or_none(which, side, line):
    game = draw_scene(*which).game
    deal = game.wordings[side].read_deal(line)
    assert deal is None or isinstance(game.value(deal, side), float)
    if deal is not None:
        assert -1 <= game.material(deal, side) <= 1
