"""Generated scenes: facts, the words that say them, splits, the dial, offers."""

import re
from collections import Counter
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs.sotopia.experts import read_line
from agent_envs.sotopia.games import (
    FAMILIES,
    NUMBERS,
    Bargain,
    Divide,
    Friend,
    Meet,
    draw_scene,
    open_panel,
)
from agent_envs.sotopia.scene import WORLD, Fact, Unknown

BARGAIN = Bargain(
    0, ("Ada", "Bo"), "train",
    (Fact("least", "price", "70", "60"), Fact("cost", "cover", "4", "19"),
     Fact("cost", "polish", "20", "5")),
    '{"price": <dollars>}', "", "", (97, 0, 0), 100, (("cover", 10), ("polish", 12)),
)  # fmt: skip
DIVIDE = Divide(
    0, ("Ada", "Bo"), "train",
    (Fact("need", "rug", "1", "4"), Fact("need", "vase", "5", "2")),
    '{"keep": {}}', "", "", (1, 0), (("rug", 7, 6), ("vase", 6, 9)), (),
)  # fmt: skip
MEET = Meet(
    0, ("Ada", "Bo"), "train",
    (Fact("never", "food", "soup", "curry"), Fact("if", "day", "Monday", "pasta")),
    '{"day": ""}', "", "", None,
    (("day", ("Monday", "Friday"), (9, 5)), ("food", ("soup", "pasta", "curry"), (6, 1, 8))),
)  # fmt: skip
FRIEND = Friend(
    0, ("Ada", "Bo"), "train", (Fact("trait", "pet", "cat", "goat"),),
    '{"friend": "<name>"}', "", "", None,
    (("Edda", ("cat", "nurse")), ("Igor", ("goat", "nurse"))), ("pet", "work"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("game", "deal", "worth", "broken"),
    [
        (BARGAIN, (70, 0, 0), 30, ()),  # 100 - 70
        (BARGAIN, (74, 1, 0), 36, ()),  # 110 - (70 + 4): the best
        (BARGAIN, (73, 1, 0), 37, (0, 1)),  # a dollar too little, for the price and the cover
        (BARGAIN, (94, 1, 1), 28, ()),  # the polish costs 20 and is worth 12
        (DIVIDE, (6, 1), 45, ()),  # a rug and five vases are left: the best
        (DIVIDE, (6, 2), 54, (1,)),  # four vases are left
        (DIVIDE, (7, 2), 60, (0, 1)),
        (replace(DIVIDE, facts=DIVIDE.facts[:1], known=(5,)), (6, 2), 54, (0,)),
        (DIVIDE, (0, 1), 9, ()),
        (MEET, (0, 0), 15, (1,)),  # Monday needs pasta
        (MEET, (0, 1), 10, ()),
        (MEET, (1, 0), 11, ()),  # the best
        (MEET, (1, 2), 13, (0,)),
        (FRIEND, (0,), 1, ()),
        (FRIEND, (1,), 0, (0,)),
    ],
)
def test_what_a_deal_is_worth_and_what_speaks_against_it(game, deal, worth, broken):
    assert game.measure(deal) == worth
    assert game.find_broken(deal) == broken


@pytest.mark.parametrize(
    ("game", "best"), [(BARGAIN, (74, 1, 0)), (DIVIDE, (6, 1)), (MEET, (1, 0)), (FRIEND, (0,))]
)
def test_the_best_deal_is_the_one_worth_most_that_the_other_accepts(game, best):
    assert game.best == best
    assert game.share(best, 0) == 1
    assert game.share(best, 1) == 1  # what the other side wants is that its facts hold


def test_a_goal_is_reached_by_the_share_of_the_best_deal():
    assert BARGAIN.share((88, 1, 0), 0) == pytest.approx(22 / 36)
    assert BARGAIN.share((130, 0, 0), 0) == 0  # a loss
    assert BARGAIN.share((20, 1, 0), 0) == 1
    assert BARGAIN.share((20, 1, 0), 1) == 0


@pytest.mark.parametrize(
    "game", [BARGAIN, DIVIDE, MEET, FRIEND], ids=lambda game: type(game).__name__
)
def test_offers_are_read_as_they_are_written(game):
    for deal in game.list_deals():
        assert game.read_offer(game.write_offer(deal)) == deal
    assert len({game.describe(deal) for deal in game.list_deals()}) == len([*game.list_deals()])


@pytest.mark.parametrize(
    ("game", "offer", "says"),
    [
        (BARGAIN, {"price": "70", "with": []}, "Price is a whole number from 0 to 999, got '70'"),
        (BARGAIN, {"price": 70.0, "with": []}, "Price is a whole number from 0 to 999, got 70.0"),
        (BARGAIN, {"price": True, "with": []}, "Price is a whole number from 0 to 999, got True"),
        (BARGAIN, {"price": -1, "with": []}, "Price is a whole number from 0 to 999, got -1"),
        (BARGAIN, {"price": 1000, "with": []}, "Price is a whole number from 0 to 999, got 1000"),
        (BARGAIN, {"price": 70}, "An offer lacks the field with"),
        (BARGAIN, {"price": 70, "with": "cover"}, "With is a list of extras, got 'cover'"),
        (BARGAIN, {"price": 70, "with": ["cover", "cover"]}, "With has an extra twice"),
        (BARGAIN, {"price": 70, "with": [[]]}, "An extra is one of cover, polish, got []"),
        (BARGAIN, [70], "An offer has the fields price, with, got [70]"),
        (BARGAIN, None, "An offer has the fields price, with, got None"),
        (DIVIDE, {"keep": {"rug": 8, "vase": 0}}, "Rug is a whole number from 0 to 7, got 8"),
        (DIVIDE, {"keep": {"rug": 1}}, "Keep lacks the field vase"),
        (DIVIDE, {"keep": {"rug": 1, "vase": 1.0}}, "Vase is a whole number from 0 to 6, got 1.0"),
        (DIVIDE, {"keep": [1, 1]}, "Keep has the fields rug, vase, got [1, 1]"),
        (MEET, {"day": ["Monday"], "food": "soup"}, "Day is one of Monday, Friday, got ['Monday']"),
        (MEET, {"day": "Monday"}, "An offer lacks the field food"),
        (MEET, {"day": 0, "food": 0}, "Day is one of Monday, Friday, got 0"),
        (FRIEND, {"friend": None}, "Friend is one of Edda, Igor, got None"),
    ],
)  # fmt: skip
def test_an_impossible_offer_is_refused_with_what_is_wrong_and_the_form(game, offer, says):
    with pytest.raises(
        ValueError, match=f"^{re.escape(says)}.*; an offer here is written {{"
    ) as no:
        game.read_offer(offer)
    assert "\n" not in str(no.value)
    assert not isinstance(no.value, Unknown)


@pytest.mark.parametrize(
    ("game", "offer", "says"),
    [
        (BARGAIN, {"price": 70, "with": ["lining"]}, "An extra is one of cover, polish, got"),
        (BARGAIN, {"price": 70, "with": [], "day": 1}, "An offer has no field 'day'"),
        (DIVIDE, {"keep": {"rugs": 1, "vase": 1}}, "no field 'rugs', did you mean 'rug'?"),
        (MEET, {"day": "Sunday", "food": "soup"}, "Day is one of Monday, Friday, got 'Sunday'"),
        (FRIEND, {"friend": "Bo"}, "Friend is one of Edda, Igor, got 'Bo'"),
        (FRIEND, {"name": "Edda"}, "An offer has no field 'name'"),
    ],
)
def test_what_the_scene_does_not_have_is_unknown(game, offer, says):
    with pytest.raises(Unknown, match=re.escape(says)):
        game.read_offer(offer)


@pytest.mark.parametrize("constraints", range(1, 6))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_scene_has_so_many_facts_and_each_is_needed(family, constraints):
    """Who misunderstands a fact that binds the best deal does not get it."""
    needed = 0
    for number in range(30):
        game = draw_scene(f"{family}-{number:03}", constraints).game
        assert len(game.facts) == len(set(game.topics)) == constraints
        assert game.asker == number % 2
        for place, fact in enumerate(game.facts):
            if fact.kind == "if":
                continue
            wrong = fact._replace(yes=fact.no, no=fact.yes)
            facts = (*game.facts[:place], wrong, *game.facts[place + 1 :])
            misled = replace(game, facts=facts)
            if all(map(misled.find_broken, misled.list_deals())):
                needed += 1  # it thinks that nothing is possible
                continue
            chosen = misled.best
            needed += bool(game.find_broken(chosen)) or game.share(chosen, game.asker) < 0.95
    total = 30 * (constraints - (family == "meet" and constraints > 2))
    assert needed >= (0.9 if family == "meet" else 1) * total


@pytest.mark.parametrize("constraints", range(1, 6))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_reading_of_a_scene_is_likelier_than_another(family, constraints):
    """Of two numbers the lower holds as often, and the rank of what a meeting keeps is any."""
    found = Counter()
    for number in range(200):
        game = draw_scene(f"{family}-{number:03}", constraints).game
        for fact in game.facts:
            if family == "meet" and fact.kind != "if":
                worths = {name: dict(zip(*rest, strict=True)) for name, *rest in game.issues}
                points = worths[fact.topic]
                others = [one for one in points if one != fact.no]
                left = [fact.yes] if fact.kind == "only" else others
                best = max(left, key=points.__getitem__)
                found[min(2, sorted(points.values(), reverse=True).index(points[best]))] += 1
            elif family in {"bargain", "divide"}:
                found[int(fact.yes) < int(fact.no)] += 1
    total = sum(found.values())
    for count in found.values():
        assert count / total == pytest.approx(1 / len(found), abs=0.12)


@pytest.mark.parametrize("split", NUMBERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_fact_can_be_read_off_every_sentence_that_says_it(family, split):
    number = NUMBERS[split][3]
    game = draw_scene(f"{family}-{number:03}", 5).game
    for fact in game.facts:
        for wording in range(12):
            said = fact.say(split, wording)
            assert read_line(f"No, that is nothing. {said}", game.topics) == [fact], said
    assert read_line("I have no more to add.", game.topics) == []


def test_a_sentence_does_not_tell_by_the_order_of_its_words_what_holds():
    for kind, splits in WORLD["wordings"].items():
        for split, sentences in splits.items():
            first = [text.index("{yes}") < text.index("{no}") for text in sentences]
            assert sum(first) * 2 == len(first), (kind, split)


def test_splits_share_no_scene_sentence_name_or_thing():
    for first, second in (("train", "val"), ("train", "test"), ("val", "test"), ("test", "hard")):
        one, other = (set(open_panel(split, "all").task_ids) for split in (first, second))
        assert not one & other
    words = {
        split: [words for words in walk(WORLD) if f".{words[0]}".endswith(f".{split}")]
        for split in ("train", "val", "test")
    }
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        one, other = (
            {word for _, some in words[split] for word in some} for split in (first, second)
        )
        assert one
        assert not one & other


def walk(tree, path=""):
    """The lists of words of a table, with their paths."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from walk(value, f"{path}.{name}")
        else:
            yield f"{path}.{name}", value.split() if isinstance(value, str) else value


@pytest.mark.parametrize("family", FAMILIES)
def test_goals_and_situations_do_not_say_the_facts(family):
    for number in range(500, 540):
        scene = draw_scene(f"{family}-{number}", 4)
        text, game = scene.render_background(scene.game.asker), scene.game
        other = scene.render_background(1 - game.asker)
        for place, fact in enumerate(game.facts):
            assert fact.say("test", place) not in text
            assert fact.say("test", place) in other
        if family in ("bargain", "divide"):
            facts = [fact._replace(yes="7") for fact in game.facts]
            alike = replace(game, facts=tuple(facts))
            assert (alike.goal, alike.situation, alike.form) == (
                game.goal,
                game.situation,
                game.form,
            )


def test_panels_are_large_and_equal_everywhere():
    assert {split: len(open_panel(split, "all")) for split in NUMBERS} == {
        "train": 1600, "val": 320, "test": 320, "hard": 320,
    }  # fmt: skip
    assert open_panel("test", "meet").task_ids[0] == "meet-500"
    again = draw_scene.__wrapped__("divide-123", 4)
    assert again == draw_scene("divide-123", 4)


def test_names_in_a_scene_differ():
    for number in range(40):
        scene = draw_scene(f"friend-{number:03}", 5)
        names = [name for name, _ in scene.game.friends]
        assert len(set(names)) == len(names) == 40
        assert not {person.name for person in scene.characters} & set(names)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"split": "tests"}, "did you mean 'test'"),
        ({"family": "bargains"}, "did you mean 'bargain'"),
        ({"constraints": 0}, "must be 1 to 5, got 0"),
        ({"constraints": 6}, "must be 1 to 5, got 6"),
    ],
)
def test_options_that_no_scene_has(options, says):
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        gym.make("agent_envs:Sotopia-v1", **options)
    assert "\n" not in str(refused.value)
