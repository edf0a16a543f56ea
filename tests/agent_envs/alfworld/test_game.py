"""Game: tables worked out by hand for the kitchen of conftest, goals in other words, bad files."""

from __future__ import annotations

import copy
import json

import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.alfworld.game import LEVELS, SHORT_NAMES, Goal, load_game, parse_game
from agent_envs.alfworld.world import World


def test_numbers_count_down_through_the_sorted_ids(game):
    assert game.objects[:5] == ("apple 1", "box 1", "desklamp 1", "fork 1", "knife 1")
    assert game.objects[5:] == ("mug 3", "mug 2", "mug 1", "pan 1")
    assert game.receptacles == (
        "countertop 2",
        "countertop 1",
        "drawer 1",
        "fridge 1",
        "microwave 1",
        "sidetable 1",
        "sinkbasin 1",
    )


def test_a_symbol_that_no_fact_names_is_not_there(game):
    assert not any(name.startswith("unused") for name in game.objects)


def test_places_and_contents(game):
    here = game.at[game.place[game.receptacles.index("drawer 1")]]
    assert [game.receptacles[r] for r in here] == ["countertop 2", "countertop 1", "drawer 1"]
    counter = game.contents[game.receptacles.index("countertop 1")]
    assert [game.objects[o] for o in counter] == ["apple 1", "knife 1", "mug 2", "pan 1"]
    assert game.inner[game.objects.index("pan 1")] == (game.objects.index("fork 1"),)
    assert game.at[game.start] == ()


def test_what_fits_where(game):
    fits = [game.receptacles[r] for r in game.fits[game.objects.index("apple 1")]]
    assert fits == ["countertop 2", "countertop 1", "fridge 1", "sinkbasin 1"]
    assert game.fits[game.objects.index("box 1")] == ()


@pytest.mark.parametrize(
    ("task", "goal", "level"),
    [
        ("pick", Goal("mugtype", "fridgetype"), "L0"),
        ("look", Goal("mugtype", lamp="desklamptype"), "L0"),
        ("clean", Goal("mugtype", "countertoptype", "clean"), "L1"),
        ("heat", Goal("mugtype", "countertoptype", "heat"), "L1"),
        ("cool", Goal("mugtype", "drawertype", "cool"), "L2"),
        ("pick2", Goal("mugtype", "fridgetype", count=2), "L2"),
    ],
)
def test_the_six_goals(data, task, goal, level):
    game = parse_game(data(task), "a/b/c/d", "toy")
    assert game.goal == goal
    assert game.task_type == SHORT_NAMES[task]
    assert game.level == level
    assert task in LEVELS[level]
    assert game.task == f"{task} the mug."


@pytest.mark.parametrize("able", [True, False])
def test_the_treated_object_of_a_goal_must_be_one_that_can_be_treated(data, able):
    told = data("clean", "(isClean Mug_bar_1)")  # a mug on a countertop, which is the goal's place
    if not able:
        told["pddl_problem"] = told["pddl_problem"].replace("(cleanable Mug_bar_1) ", "")
    assert World(parse_game(told, "a/b/c/d", "toy")).won == able


def test_a_goal_in_another_order_with_other_variables_is_the_same(data):
    changed = data("clean")
    goal = """(exists (?place - receptacle ?x - object) (and (isClean ?x) (inReceptacle ?x ?place)
        (and (receptacleType ?place CounterTopType)) (cleanable ?x) (objectType ?x MugType)))"""
    head, _, _ = changed["pddl_problem"].partition("(:goal")
    changed["pddl_problem"] = f"{head} (:goal {goal}))"
    assert parse_game(changed, "t", "toy").goal == Goal("mugtype", "countertoptype", "clean")


@pytest.mark.parametrize(
    ("task", "old", "new"),
    [
        ("clean", "(isClean ?o)", "(isHot ?o)"),
        ("clean", "(isClean ?o)", ""),
        ("pick", "(inReceptacle ?o ?r)", ""),
        ("pick", "(objectType ?o MugType)", "(objectType ?r MugType)"),
        ("pick2", "(not (= ?o1 ?o2))", ""),
        ("pick2", "(inReceptacle ?o2 ?r)", "(inReceptacle ?o1 ?r)"),
        ("look", "(holds ?a ?o)", ""),
        ("look", "(holds ?a ?o)", "(holds ?a ?ot)"),
        ("look", "(toggleable ?ot)", "(isOn ?ot)"),
    ],
)
def test_a_goal_that_only_looks_like_one_of_the_six_is_refused(data, task, old, new):
    changed = data(task)
    head, mark, goal = changed["pddl_problem"].partition("(:goal")
    assert old in goal
    changed["pddl_problem"] = head + mark + goal.replace(old, new)
    with pytest.raises(BadAsset, match=r"^toy: key 'pddl_problem', line \d+.*none of the six"):
        parse_game(changed, "t", "toy")


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ("(atLocation agent1 loc_bar_1)", "starts at one location, got 2"),
        ("(receptacleAtLocation Fridge_bar_1 loc_bar_1)", "two locations"),
        ("(holds agent1 Mug_bar_1)", "`holdsany` goes with it"),
        ("(holdsAny agent1)", "`holdsany` goes with it"),
    ],
)
def test_facts_that_do_not_go_together_are_refused(data, facts, what):
    with pytest.raises(BadAsset, match=rf"^toy: key 'pddl_problem', line \d+.*{what}"):
        parse_game(data(also=facts), "t", "toy")


@pytest.mark.parametrize("key", ["pddl_domain", "grammar", "pddl_problem", "walkthrough"])
def test_a_missing_key_is_named(data, key):
    kept = data()
    del kept[key]
    with pytest.raises(BadAsset, match=f"^toy: key '{key}' is missing"):
        parse_game(kept, "t", "toy")
    with pytest.raises(BadAsset, match=rf"^toy: key '{key}' must be a (str|list), got int"):
        parse_game(data() | {key: 3}, "t", "toy")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"walkthrough": ["look", 3]}, "key 'walkthrough' lists commands"),
        ({"grammar": "action look {}"}, 'key \'grammar\' has no """'),
        ({"grammar": 'grammar :: """\n{"task" [] }\n"""'}, "key 'grammar', line 2, column 9"),
        ({"grammar": 'grammar :: """{"task": []}"""'}, "no rule 'task'"),
        ({"grammar": 'grammar :: """{"task": [{"rhs": "Do it."}]}"""'}, "'Do it.' is not"),
    ],
)
def test_a_broken_grammar_or_walkthrough_is_refused(data, change, what):
    with pytest.raises(BadAsset, match=f"^toy: .*{what}"):
        parse_game(data() | change, "t", "toy")


@pytest.mark.parametrize("value", [[], "text", None, 3])
def test_a_game_is_a_json_object(value):
    with pytest.raises(BadAsset, match=r"^toy: a game is a JSON object, got"):
        parse_game(value, "t", "toy")


def test_a_file_is_named_in_its_errors(tmp_path, data):
    file = tmp_path / "task" / "trial" / "game.tw-pddl"
    with pytest.raises(MissingAsset, match=r"game\.tw-pddl does not exist; .*alfworld-download"):
        load_game(file)
    file.parent.mkdir(parents=True)
    text = json.dumps(data())
    file.write_text(text[:1000], encoding="utf-8")
    with pytest.raises(BadAsset, match=rf"^{file}: not JSON at line 1, column \d+ .*truncated"):
        load_game(file)
    file.write_bytes(b'{"grammar": "\xff"}')
    with pytest.raises(BadAsset, match=rf"^{file}: not UTF-8"):
        load_game(file)
    file.write_text(text.replace("(:init", "(:unit"), encoding="utf-8")
    with pytest.raises(
        BadAsset, match=rf"^{file}: key 'pddl_problem', line 1, .*no section 'init'"
    ):
        load_game(file)
    file.write_text(text, encoding="utf-8")
    assert load_game(file).task_id.endswith("task/trial")


def test_copies_of_a_game_are_the_game(game):
    assert copy.deepcopy(game) is copy.copy(game) is game


@pytest.mark.slow
def test_every_public_game_is_read_with_the_goal_its_folder_names(alfworld_data):
    files = sorted(alfworld_data.glob("json_2.1.1/*/*/*/game.tw-pddl"))
    assert len(files) == 3553 + 140
    for file in files[::13]:
        game = load_game(file)
        kind, thing, _, place, _ = file.parts[-3].split("-")
        assert game.task_type == kind
        assert game.goal.object_type == f"{thing}Type".lower()
        assert (game.goal.lamp or game.goal.receptacle_type) == f"{place}Type".lower()


@pytest.mark.parametrize(
    ("kind", "other", "field"),
    [
        ("SinkBasinType", "SinkType", "sinks"),
        ("SinkBasinType", "SinkBasinType", "sinks"),
        ("KnifeType", "ButterKnifeType", "knives"),
        ("KnifeType", "KnifeType", "knives"),
    ],
)
def test_sinks_and_knives_of_either_type_are_tools(data, kind, other, field):
    told = data()
    problem = told["pddl_problem"].replace(f" {kind}", f" {other}")
    game = parse_game(told | {"pddl_problem": problem}, "toy/train/pick/1", "toy")
    names = {"sinks": game.receptacles, "knives": game.objects}[field]
    assert [names[place] for place in getattr(game, field)] in (["sinkbasin 1"], ["knife 1"])
