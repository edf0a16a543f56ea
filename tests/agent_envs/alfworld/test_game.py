"""Game and Problem: tables by hand for the kitchen, goals in other words, refused files."""

import copy
import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_kitchen import PLACES, kitchen_data

from agent_envs import BadAsset
from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.env import find_invalid_reason
from agent_envs.alfworld.game import LEVELS, SHORT_NAMES, Goal, parse_game
from agent_envs.alfworld.pddl import Problem
from agent_envs.alfworld.world import World


@pytest.fixture
def game():
    return parse_game(kitchen_data(), "toy/train/pick/1", "toy")


def change_problem(task, old, new, also=""):
    data = kitchen_data(task, also)
    assert old in data["pddl_problem"]
    return data | {"pddl_problem": data["pddl_problem"].replace(old, new)}


def change_goal(task, old, new):
    data = kitchen_data(task)
    head, mark, goal = data["pddl_problem"].partition("(:goal")
    assert old in goal
    return data | {"pddl_problem": head + mark + goal.replace(old, new)}


def test_the_tables_by_hand(game):
    # numbers count down through the sorted ids; a symbol that no fact names is not there
    objects = "apple 1,box 1,desklamp 1,fork 1,knife 1,mug 3,mug 2,mug 1,pan 1"
    assert game.objects == tuple(objects.split(","))
    receptacles = "countertop 2,countertop 1,drawer 1,fridge 1,microwave 1,sidetable 1,sinkbasin 1"
    assert game.receptacles == tuple(receptacles.split(","))
    assert game.at[game.place[2]] == (0, 1, 2)
    assert [game.objects[o] for o in game.contents[1]] == ["apple 1", "knife 1", "mug 2", "pan 1"]
    assert game.inner[8] == (3,)  # the fork in the pan
    assert game.at[game.start] == ()
    fits = [game.receptacles[r] for r in game.fits[0]]
    assert fits == ["countertop 2", "countertop 1", "fridge 1", "sinkbasin 1"]
    assert game.fits[1] == ()
    assert copy.deepcopy(game) is game


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
def test_the_six_goals(task, goal, level):
    game = parse_game(kitchen_data(task), "a/b/c/d", "toy")
    assert (game.goal, game.level, game.task) == (goal, level, f"{task} the mug, {PLACES[task]}.")
    assert game.task_type == SHORT_NAMES[task]
    assert task in LEVELS[level]


@pytest.mark.parametrize("able", [True, False])
def test_a_goal_requires_an_object_that_can_be_treated(able):
    # a clean mug is on a countertop, which is the goal's place
    new = "(cleanable Mug_bar_1) " if able else ""
    data = change_problem("clean", "(cleanable Mug_bar_1) ", new, also="(isClean Mug_bar_1)")
    assert World(parse_game(data, "a/b/c/d", "toy")).won == able


TEXT = """(define (problem p) ; two words (and a comment)
(:domain alfred)
(:objects agent1 - agent
  Mug_1 Mug_2 - object Shelf_1 - receptacle MugType - otype ShelfType - rtype l1 - location)
(:init (atLocation agent1 l1)
  (inReceptacle Mug_1 Shelf_1) (inReceptacle  mug_1
  shelf_1)
  (= (total-cost) 0)
  (objectType Mug_1 MugType))
(:goal (and (exists (?r - receptacle) (and (receptacleType ?r ShelfType)
  (exists (?a - object ?b - object) (and (not (= ?b ?a)) (inReceptacle ?a ?r))))))))"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((change_goal(*given), r"key 'pddl_problem', line \d+.*none of the six") for given in [
            ("clean", "(isClean ?o)", "(isHot ?o)"),
            ("pick", "(inReceptacle ?o ?r)", ""),
            ("pick", "(objectType ?o MugType)", "(objectType ?r MugType)"),
            ("pick2", "(not (= ?o1 ?o2))", ""),
            ("pick2", "(inReceptacle ?o2 ?r)", "(inReceptacle ?o1 ?r)"),
            ("look", "(holds ?a ?o)", "(holds ?a ?ot)"),
            ("look", "(toggleable ?ot)", "(isOn ?ot)")]),
        *((kitchen_data() | {"pddl_problem": TEXT.replace(old, new)},
           f"key 'pddl_problem', ({where}).*{what}") for old, new, where, what in [
            ("(define", "define", r"line 11, column \d+", "closes nothing"),
            ("(define", "(design", "line 1, column 1", r"expected one '\(define"),
            ("(:domain alfred)", "(:domain alfred", "line [12], column 1", "never closed"),
            ("(:domain alfred)", "domain", "line 1, column 1", "expected a list"),
            ("(:goal", "(:gaol", "line 1, column 1", "no section 'goal'"),
            ("Shelf_1 - receptacle", "Shelf_1 - shelf", "line 3, column 1", "of type 'shelf'"),
            ("l1 - location)", "l1)", "line 3, column 1", r"\['l1'\] have no type"),
            ("l1 - location)", "l1 - location (x))", "line 4", "a list among the objects"),
            ("(objectType Mug_1", "(objectTyp Mug_1", "line 9, column 3", "predicate 'objecttyp'"),
            ("(objectType Mug_1 M", "(objectType Mug_3 M", "line 9, column 3", "mug_3"),
            ("(objectType Mug_1 MugType)", "(objectType Mug_1)", "line 9", "object, otype"),
            ("(objectType Mug_1 MugType)", "(objectType MugType Mug_1)", "line 9", "object, otype"),
            ("(objectType Mug_1 MugType)", "objectType", "line 5, column 1", "expected facts"),
            ("(:goal (and", "(:goal and (and", "line 10, column 1", "a goal is one formula"),
            ("(not (= ?b ?a))", "(not (isOn ?a))", "line 11", "not a formula"),
            ("(not (= ?b ?a))", "(isUn ?a)", "line 11", "unknown predicate 'isun'"),
            ("(not (= ?b ?a))", "(isOn ?a ?b)", "line 11", "ison takes declared names of"),
        ]),
        *((kitchen_data(also=facts), f"key 'pddl_problem', line \\d+.*{what}") for facts, what in [
            ("(atLocation agent1 loc_bar_1)", "starts at one location, got 2"),
            ("(receptacleAtLocation Fridge_bar_1 loc_bar_1)", "two locations"),
            ("(holds agent1 Mug_bar_1)", "`holdsany` goes with it"),
            ("(holdsAny agent1)", "`holdsany` goes with it")]),
        *(({k: v for k, v in kitchen_data().items() if k != key}, f"key '{key}' is missing")
          for key in ("pddl_domain", "grammar", "pddl_problem", "walkthrough")),
        *((kitchen_data() | change, what) for change, what in [
            ({"grammar": 3}, "key 'grammar' must be a str, got int"),
            ({"walkthrough": "look"}, "key 'walkthrough' must be a list, got str"),
            ({"walkthrough": ["look", 3]}, "key 'walkthrough' lists commands"),
            ({"grammar": "action look {}"}, "key 'grammar' has no \"\"\""),
            ({"grammar": 'g :: """\n{"task" [] }\n"""'}, "key 'grammar', line 2, column 9"),
            ({"grammar": 'g :: """{"task": []}"""'}, "no rule 'task'"),
            ({"grammar": 'g :: """{"task": [{"rhs": "Do it."}]}"""'}, "'Do it.' is not")]),
        ([], "a game is a JSON object, got list"),
        (None, "a game is a JSON object, got NoneType"),
    ],
)  # fmt: skip
def test_broken_games_are_refused(change, message):
    with pytest.raises(BadAsset, match=f"^toy: .*{message}"):
        parse_game(change, "t", "toy")


@pytest.mark.parametrize(
    ("kind", "other", "field"),
    [
        ("SinkBasinType", "SinkType", "sinks"),
        ("SinkBasinType", "SinkBasinType", "sinks"),
        ("KnifeType", "ButterKnifeType", "knives"),
        ("KnifeType", "KnifeType", "knives"),
    ],
)
def test_sinks_and_knives_of_either_type_are_tools(kind, other, field):
    game = parse_game(change_problem("pick", f" {kind}", f" {other}"), "toy/train/pick/1", "toy")
    names = {"sinks": game.receptacles, "knives": game.objects}[field]
    assert [names[place] for place in getattr(game, field)] in (["sinkbasin 1"], ["knife 1"])


@given(st.text(alphabet="()-?= ab\n;", max_size=60))
@example("(=))")
@example("(a b))")
def test_no_text_breaks_the_parser_in_another_way(text):
    with pytest.raises(BadAsset):
        Problem(f"(define (problem p) (:objects) (:init) (:goal {text})", "p")


def older(data, command="put {o} in/on {r}"):
    """A game as ALFWorld wrote them before December 2024."""
    rules, _, rest = data["grammar"].rpartition('"""')
    told = {"PutObject.feedback": [{"rhs": "You put the {o.name} in/on the {r.name}."}]}
    action = f'action PutObject {{ template :: "{command}"; feedback :: "#PutObject.feedback#"; }}'
    grammar = rules.rstrip()[:-1] + ", " + json.dumps(told)[1:] + f' """{rest}\n{action}'
    return data | {"grammar": grammar}


def test_a_game_is_played_in_the_words_of_its_own_grammar():
    world = World(parse_game(older(kitchen_data()), "t", "toy"))
    for command in ["go to countertop 2", "take mug 3 from countertop 2"]:
        world.execute(command)
    world.execute("go to countertop 1")
    assert "put mug 3 in/on countertop 1" in world.admissible()
    told = world.execute("put mug 3 in/on countertop 1")
    assert told == "You put the mug 3 in/on the countertop 1."
    assert find_invalid_reason("put mug 1 in/on fridge 1", world) == "refused"
    assert find_invalid_reason("move mug 1 to fridge 1", world) == "unknown"
    with pytest.raises(BadAsset, match="action PutObject: the command 'drop it' is not one"):
        parse_game(older(kitchen_data(), "drop it"), "t", "toy")


def test_public_games_win_in_older_words_too(alfworld_data):
    """Their walkthroughs and the oracle, in the words of the file and in the older ones."""
    for file in sorted(alfworld_data.glob("json_2.1.1/*/*/*/game.tw-pddl"))[::400]:
        data = json.loads(file.read_text())
        old = data | {
            "grammar": data["grammar"]
            .replace("move {o} to {r}", "put {o} in/on {r}")
            .replace("You move the {o.name} to the", "You put the {o.name} in/on the"),
            "walkthrough": [
                re.sub(r"^move (.*) to (.*)$", r"put \1 in/on \2", one)
                for one in data["walkthrough"]
            ],
        }
        for one in (data, old):
            world = World(parse_game(one, "t", "public"))
            for command in one["walkthrough"]:
                world.execute(command)
                assert world.accepted, command
            assert world.won
            world = World(parse_game(one, "t", "public"))
            for command in plan(world):
                world.execute(command)
            assert world.won
