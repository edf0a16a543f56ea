"""World: what it says and does in a small kitchen, and byte parity with TextWorld's transcripts."""

from __future__ import annotations

import copy
import gzip
import json
import pickle

import pytest
from small_kitchen import kitchen_data

from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.env import measure_milestones
from agent_envs.alfworld.game import load_game, parse_game
from agent_envs.alfworld.world import NOTHING, World

MUG = "go to drawer 1, take mug 3 from countertop 2"
MUG_2 = "go to drawer 1, take mug 2 from countertop 1"
KNIFE = "go to drawer 1, take knife 1 from countertop 1"
ALWAYS = ["help", "inventory", "look"]


def play(world: World, commands: str) -> list[str]:
    """The feedback on commands, comma-separated, that must all be admissible."""
    feedback = []
    for command in filter(None, commands.split(", ")):
        feedback.append(world.execute(command))
        assert world.accepted, (command, world.admissible())
    return feedback


@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=pytest.mark.long if n % 3 else ()) for n in range(42)]
)
def test_every_public_transcript_byte_for_byte(shared_data, alfworld_data, number):
    file = sorted((shared_data / "alfworld" / "transcripts").glob("*.json.gz"))[number]
    with gzip.open(file) as packed:
        record = json.load(packed)
    (path,) = alfworld_data.glob(f"**/{'/'.join(record['gamefile'].split('/')[-3:])}")
    world = World(load_game(path))
    assert world.intro == record["reset"]
    assert (world.admissible(), world.won) == (record["adm0"], record["won0"])
    for step in record["steps"]:
        assert world.execute(step["c"]) == step["f"]
        assert (world.admissible(), world.won) == (step["adm"], step["w"])
        assert world.accepted == (step["f"] != NOTHING)


@pytest.mark.slow
@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.long)])
def test_public_walkthroughs_win_with_their_last_command(alfworld_data, every):
    for path in sorted(alfworld_data.glob("json_2.1.1/*/*/*/game.tw-pddl"))[::every]:
        world = World(load_game(path))
        assert len(plan(world)) == len(world.game.walkthrough), path
        shares = [measure_milestones(world)]
        for command in world.game.walkthrough:
            assert not world.won, path
            play(world, command)
            shares.append(measure_milestones(world))
        assert world.won, path
        assert shares == sorted(shares), path


def test_the_opening_and_its_commands(kitchen):
    assert kitchen().intro == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly "
        "around you, you see a countertop 2, a countertop 1, a drawer 1, a fridge 1, a microwave 1,"
        " a sidetable 1, and a sinkbasin 1.\n\nYour task is to: pick the mug, fridge."
    )
    names = "countertop 1,countertop 2,drawer 1,fridge 1,microwave 1,sidetable 1,sinkbasin 1"
    assert kitchen().admissible() == [*(f"go to {name}" for name in names.split(",")), *ALWAYS]


FACING = "You are facing the countertop 2, countertop 1, and drawer 1. Next to it, you see"
BOTH = "On the countertop 1, you see a apple 1, a knife 1, a mug 2, and a pan 1."
MUG_1 = f"{MUG}, move mug 3 to countertop 1"  # "next to it": put down where it was taken
HOT = f"{MUG}, go to fridge 1, heat mug 3 with microwave 1"  # requires no open door


@pytest.mark.parametrize(
    ("commands", "feedback"),
    [
        ("inventory", "You are not carrying anything."),
        ("go to sinkbasin 1, look", "You are facing the sinkbasin 1. Next to it, you see nothing."),
        ("go to drawer 1, look", f"{FACING} nothing."),
        (f"{MUG_1}, look", f"{FACING} a mug 3."),
        (f"{MUG_1}, take mug 3 from countertop 1, look", f"{FACING} nothing."),
        (f"{MUG_1}, take mug 3 from countertop 1, move mug 3 to countertop 2, look",
         f"{FACING} a mug 3."),  # once in countertop 1
        ("go to drawer 1, open drawer 1",
         "You open the drawer 1. The drawer 1 is open. In it, you see a mug 1."),
        ("go to drawer 1, open drawer 1, close drawer 1", "You close the drawer 1."),
        ("go to drawer 1, examine drawer 1", "The drawer 1 is closed."),
        ("go to sinkbasin 1, examine sinkbasin 1", "On the sinkbasin 1, you see nothing."),
        (f"{MUG}, inventory", "You are carrying: a mug 3."),
        (MUG_1, "You move the mug 3 to the countertop 1."),
        ("go to sidetable 1, use desklamp 1, use desklamp 1", "You turn on the desklamp 1."),
        ("go to drawer 1, take pan 1 from countertop 1, examine pan 1",
         "This is a normal pan 1. In it, you see a fork 1."),
        (f"{KNIFE}, examine knife 1", "There's nothing special about knife 1."),
        (f"{KNIFE}, slice apple 1 with knife 1", "You sliced the apple 1 with the knife 1."),
        (HOT, "You heat the mug 3 using the microwave 1."),
        (f"{HOT}, cool mug 3 with fridge 1, examine mug 3", "This is a cold mug 3."),
        ((f"{HOT}, cool mug 3 with fridge 1, heat mug 3 with microwave 1, go to sinkbasin 1, "
         "clean mug 3 with sinkbasin 1, examine mug 3"), "This is a hot and clean mug 3."),
        # an object in two receptacles stays in the other one when it is taken
        ("go to countertop 2, take mug 2 from countertop 2, examine countertop 1", BOTH),
        (("go to countertop 2, take mug 2 from countertop 2, move mug 2 to countertop 1, "
         "examine countertop 1"), BOTH),
    ],
)  # fmt: skip
def test_feedback(kitchen, commands, feedback):
    assert play(kitchen(), commands)[-1] == feedback


def test_a_thing_is_never_hot_and_cold(kitchen):
    world = kitchen()
    play(world, HOT)
    for command in ("cool mug 3 with fridge 1", "heat mug 3 with microwave 1"):
        play(world, command)
        warmth = [fact for fact in world.facts() if fact.startswith(("iscool", "ishot"))]
        assert warmth == [f"is{'cool' if command.startswith('cool') else 'hot'}(mug 3)"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("isClean isHot isSliced", "a hot and clean sliced"),
        ("isClean isCool isSliced", "a cool and clean sliced"),
        ("isClean isSliced", "a clean sliced"),
        ("isHot isSliced", "a hot sliced"),
        ("isCool isSliced", "a cool sliced"),
        ("isClean isHot", "a hot and clean"),
        ("isClean isCool", "a cool and clean"),
        ("isHot isCool", "a hot"),
        ("isClean", "a clean"),
        ("isCool", "a cold"),
        ("isSliced", "a sliced"),
    ],
)
def test_examining_the_object_in_hand(kitchen, facts, words):
    world = kitchen(also=" ".join(f"({fact} Apple_bar_1)" for fact in facts.split()))
    commands = "go to drawer 1, take apple 1 from countertop 1, examine apple 1"
    assert play(world, commands)[-1] == f"This is {words} apple 1."


@pytest.mark.parametrize(
    ("before", "command"),
    [
        ("", "examine mug 2"),
        ("", ""),
        ("go to drawer 1", "examine mug 2"),
        ("go to drawer 1", "go to countertop 1"),
        ("go to drawer 1", "take mug 1 from drawer 1"),
        ("go to drawer 1", "Take mug 2 from countertop 1"),
        ("go to sidetable 1", "take desklamp 1 from sidetable 1"),
        ("go to sidetable 1, take box 1 from sidetable 1", "move box 1 to sidetable 1"),
        (MUG_2, "take mug 3 from countertop 2"),
        (MUG_2, "move mug 2 to drawer 1"),
        (MUG_2, "put mug 2 in/on countertop 1"),
        (MUG_2, "slice apple 1 with mug 2"),
        (MUG_2, "heat mug 2 with countertop 1"),
        (MUG_2, "heat mug 2 with microwave 1"),
        (f"{KNIFE}, go to sinkbasin 1", "clean knife 1 with sinkbasin 1"),
        (f"{KNIFE}, go to sinkbasin 1", "slice apple 1 with knife 1"),
    ],
)
def test_other_commands_are_not_admissible_and_change_nothing(kitchen, before, command):
    world = kitchen()
    play(world, before)
    anchor, admissible, facts = world.anchor(), world.admissible(), world.facts()
    assert command not in admissible
    assert world.execute(command) == NOTHING
    assert not world.accepted
    assert (world.anchor(), world.admissible(), world.facts()) == (anchor, admissible, facts)


@pytest.mark.parametrize(
    ("task", "before", "last"),
    [
        ("clean", "go to drawer 1, take mug 2 from countertop 2, go to sinkbasin 1",
         "clean mug 2 with sinkbasin 1"),  # it is in countertop 1 as well
        ("cool", ("go to drawer 1, open drawer 1, take mug 1 from drawer 1, go to fridge 1, "
         "cool mug 1 with fridge 1, go to drawer 1"), "move mug 1 to drawer 1"),
        ("look", f"{MUG}, go to sidetable 1", "use desklamp 1"),
        ("look", f"go to sidetable 1, use desklamp 1, {MUG}", "go to sidetable 1"),
        # another thing in hand
        ("look", ("go to sidetable 1, use desklamp 1, go to drawer 1, take apple 1 from countertop "
         "1, go to sidetable 1"), ""),
    ],
)  # fmt: skip
def test_winning(kitchen, task, before, last):
    world = kitchen(task)
    for command in before.split(", "):
        play(world, command)
        assert not world.won
    play(world, last)
    assert world.won == bool(last)
    if task == "look":
        play(world, "go to sinkbasin 1")
        assert not world.won


def test_the_older_dialect_puts_and_has_no_help(kitchen):
    world = kitchen(dialect="0.3")
    play(world, MUG)
    assert "put mug 3 in/on countertop 2" in world.admissible()
    assert not {"move mug 3 to countertop 2", "help"} & {*world.admissible()}
    assert world.execute("move mug 3 to countertop 2") == NOTHING
    told = ["You put the mug 3 in/on the countertop 2."]
    assert play(world, "put mug 3 in/on countertop 2") == told


def test_copies_and_pickles_branch_from_the_same_state(kitchen):
    world = kitchen()
    play(world, MUG)
    anchor, facts = world.anchor(), world.facts()
    for twin in (copy.deepcopy(world), pickle.loads(pickle.dumps(world))):
        assert (twin.anchor(), twin.facts(), twin.admissible()) == (
            *(anchor, facts), world.admissible())  # fmt: skip
        play(twin, "open drawer 1, move mug 3 to drawer 1, take mug 1 from drawer 1")
        assert twin.anchor() != anchor
        assert (world.anchor(), world.facts()) == (anchor, facts)
    assert copy.deepcopy(world).game is world.game


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("look, inventory, help", ""),
        ("go to fridge 1, go to drawer 1, examine drawer 1", "go to countertop 1"),
        ("go to drawer 1, open drawer 1, close drawer 1", "go to drawer 1"),
        (f"{MUG}, move mug 3 to countertop 2", "go to sinkbasin 1, go to drawer 1"),
        ("go to sidetable 1, use desklamp 1, use desklamp 1", "go to sidetable 1, use desklamp 1"),
    ],
)
def test_anchors_do_not_depend_on_the_path(kitchen, one, other):
    left, right = kitchen(), kitchen()
    play(left, one)
    play(right, other)
    assert left.anchor() == right.anchor()


def test_anchors_differ_by_where_a_thing_to_slice_was_put_down():
    """In the public games a thing can lie in a receptacle and yet, for `slice`, somewhere else."""
    data, old = kitchen_data("pick"), "(objectAtLocation Apple_bar_1 loc_bar_1)"
    assert old in data["pddl_problem"]
    data["pddl_problem"] = data["pddl_problem"].replace(old, old.replace("loc_bar_1", "loc_bar_2"))
    as_found, moved = (World(parse_game(data, "t", "toy")) for _ in range(2))
    play(moved, "go to countertop 1, take apple 1 from countertop 1, move apple 1 to countertop 1")
    play(moved, "take knife 1 from countertop 1")
    play(as_found, KNIFE)
    assert as_found.contents == moved.contents
    cut = "slice apple 1 with knife 1"
    assert cut in moved.admissible()
    assert cut not in as_found.admissible()
    assert as_found.anchor() != moved.anchor()


def test_anchors_differ_after_every_change_of_state(kitchen):
    world = kitchen()
    commands = f"""go to drawer 1, take mug 2 from countertop 2, move mug 2 to countertop 1, \
take mug 3 from countertop 2, open drawer 1, go to sinkbasin 1, clean mug 3 with sinkbasin 1, \
go to fridge 1, heat mug 3 with microwave 1, cool mug 3 with fridge 1, open fridge 1, \
move mug 3 to fridge 1, go to sidetable 1, use desklamp 1, {KNIFE}, slice apple 1 with knife 1"""
    anchors = [play(world, command) and world.anchor() for command in commands.split(", ")]
    assert len(set(anchors)) == len(anchors)
