"""All task families: solved by their solutions, and by nothing less or more."""

import re
from datetime import date, timedelta
from pathlib import Path
from random import Random

import pytest

from agent_envs.appworld import tasks
from agent_envs.appworld.apps import APPS
from agent_envs.appworld.env import classify_feedback
from agent_envs.appworld.families import FAMILIES
from agent_envs.appworld.families.plan import (
    DEFAULTS,
    Added,
    Plan,
    judge,
    list_effects,
    want_payment,
)
from agent_envs.appworld.mini import MiniWorld
from agent_envs.appworld.session import Session

pytestmark = pytest.mark.slow

SEEDS = (0, 3, 6, 9, 12, 15, 16, 19, 31)  # of each family: 252 tasks
TASKS = [f"{family}-{seed}" for family in FAMILIES for seed in SEEDS]
SPOIL = (
    'apis.music.login(username=me["email"], password=passwords["music"])',
    'spoil = apis.music.login(username=me["email"], password=passwords["music"])["access_token"]',
    'apis.music.create_playlist(access_token=spoil, title="Not asked for")',
)


@pytest.fixture(scope="module")
def world():
    made = MiniWorld()
    yield made
    made.close()


def played(world, task_id, steps):
    """The verdict after running code."""
    world.open(task_id)
    for code in steps:
        output = world.execute(code)
        assert (classify_feedback(output), world.harm) == ("", ()), output
    return world.evaluate()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_solution_succeeds_and_less_or_more_does_not(world, family):
    for seed in SEEDS:
        task_id = f"{family}-{seed}"
        world.open(task_id)
        steps = world.solution
        *before, last = steps
        assert not played(world, task_id, steps).failures
        ledger = world._session.ledger
        assert (ledger.missing, ledger.unasked) == ((), [])
        assert world.is_completed()
        # Nothing done: what is to change has not, and it is not completed.
        idle = played(world, task_id, [])
        assert not world.is_completed()
        plan = tasks.make_task(task_id).plan
        changes = len(plan.changes)
        asked = {"the answer is right"} if plan.answer is not None else set()
        expected = {"the task is completed"} | asked
        assert {f for f in idle.failures if not f.startswith("change ")} == expected
        assert len(idle.failures) == changes + len(expected)
        # Ended at once, without doing anything or with no answer.
        assert played(world, task_id, ["apis.supervisor.complete_task()"]).failures
        # All that was asked for and one thing more.
        spoiled = [*before, "\n".join([*SPOIL, last])]
        assert played(world, task_id, spoiled).failures == ("nothing else is changed",)
        # All done, but said to have failed.
        failed = last.replace("complete_task(", 'complete_task(status="fail", ')
        assert played(world, task_id, [*before, failed]).failures == ("the task is completed",)


@pytest.mark.parametrize("seeds", [20, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("family", FAMILIES)
def test_who_does_nothing_and_answers_nothing_fails(family, seeds):
    """No task is done as it is opened, and no answer is 0 or empty."""
    for seed in range(seeds):
        task = tasks.make_task(f"{family}-{seed}")
        for answer in (None, 0, False, "", " ", "0.00", "zero", "none", "nothing", "$0"):
            session = Session(task.household, task.instruction, APPS, list_effects(task.plan))
            assert "value" in session.call("supervisor", "complete_task", {"answer": answer})
            failures = judge(task.plan, session).failures
            assert [name for name in failures if name.startswith(("change ", "the answer "))], seed


def test_the_agents_chance_is_not_the_worlds(world):
    """What the world was drawn with would tell the agent all that is in it."""
    told = set()
    for task_id in ("time_in_meetings-0", "tick_off-3"):
        world.open(task_id)
        told.add(world.execute("import random\nprint(random.random())"))
    assert len(told) == 1  # nor does it tell tasks apart


def test_the_clock_does_not_tell_the_task():
    """It is not what `Random(task_id)` gives, which an agent could try for every id."""
    found = 0
    for task_id in TASKS:
        day = date(2024, 3, 4) + timedelta(days=Random(task_id).randrange(180))
        found += tasks.make_task(task_id).household.now.startswith(day.isoformat())
    assert found < 6  # of 252, at a chance of 1 in 180


def test_two_equal_changes_need_two_rows():
    opened = tasks.make_task("tick_off-0").household
    plan = Plan({}, (want_payment("a@b.example", 1, "x"),) * 2)
    session = Session(opened, "", APPS, list_effects(plan))
    login = {"username": session.email, "password": session.passwords["payments"]}
    token = session.call("payments", "login", login)["value"]
    for failing in (["change 2 of 2 in transactions is made"], []):
        given = {**token, "receiver": "a@b.example", "amount": 1, "note": "x"}
        assert "value" in session.call("payments", "send_money", given)
        assert [f for f in judge(plan, session).failures if "change " in f] == failing


@pytest.mark.parametrize("family", FAMILIES)
def test_a_part_of_the_change_is_not_enough(world, family):
    """All is solved, then one of the changes is undone in the state itself."""
    world.open(f"{family}-1")
    plan = tasks.make_task(f"{family}-1").plan
    played(world, f"{family}-1", world.solution)
    session = world._session
    if not plan.changes:
        session.ended = ("something else", "success")
        assert world.evaluate().failures == ("the answer is right",)
        return
    table = plan.changes[0].table
    changes = session.state.find_changes(session.before)[table]
    row_id = next(iter({**changes.added, **changes.changed, **changes.removed}))
    if row_id in changes.added:
        del session.state.tables[table][row_id]
    else:
        session.state.tables[table][row_id] = session.before.get(table, row_id)
    assert any(failure.startswith("change ") for failure in world.evaluate().failures)


@pytest.mark.parametrize("task_id", TASKS)
def test_a_request_reads_like_a_persons(task_id):
    task = tasks.make_task(task_id)
    text = task.instruction
    assert 50 < len(text) < 400
    assert text[0].isupper()
    assert text[-1] in ".?" or text.endswith('."')
    assert not re.search(r"[{}$_]|apis|access_token|\bid\b|None|  |\.\.$", text), text
    assert {"i", "my", "me", "mine", "our", "please"} & set(text.lower().split()), text


def test_no_two_splits_share_a_task_and_unseen_families_are_unseen():
    splits = {name: set(tasks.list_tasks(name)) for name in tasks.SEEDS}
    assert sum(map(len, splits.values())) == len(set().union(*splits.values()))
    assert set().union(*splits.values()) == set(tasks.list_tasks("all"))
    seen = {tasks.family_of(t) for name in ("train", "val", "test") for t in splits[name]}
    unseen = {tasks.family_of(t) for t in splits["test_unseen"]}
    assert unseen == set(tasks.UNSEEN)
    assert not seen & unseen
    assert {FAMILIES[name].difficulty for name in unseen} == {1, 2, 3}
    easy = tasks.list_tasks("train_easy")
    assert set(easy) < splits["train"]
    assert {FAMILIES[tasks.family_of(t)].difficulty for t in easy} == {1, 2}


def test_what_a_held_out_task_asks_for_is_asked_for_nowhere_else():
    """Requests and solutions: of 40 seeds of each family none repeats one of 12-19."""
    for name, family in FAMILIES.items():
        if name in tasks.UNSEEN:
            continue
        made = [tasks.make_task(f"{name}-{seed}") for seed in range(40)]
        for told in (
            [task.instruction for task in made],
            [family.write_solution(task.plan) for task in made],
            [tuple(sorted(task.plan.given.items())) for task in made],
        ):
            held_out = told[12:20]
            assert len(set(held_out)) == 8, name
            assert not set(held_out) & set(told[:12] + told[20:]), name


def test_every_field_of_a_new_row_is_asked_for_or_has_its_default():
    times = ("created_at", "sent_at", "asked_at", "paid_at")
    filled = ("id", "sender", "requester", "read", *times)  # by the apps
    for name in FAMILIES:
        task = tasks.make_task(f"{name}-1")
        for change in task.plan.changes:
            if isinstance(change, Added):
                row = next(iter(task.household.state.tables[change.table].values()), None)
                known = {*change.fields, *DEFAULTS.get(change.table, {}), *filled}
                assert row is None or set(row) <= known, (name, change.table, set(row) - known)


def test_there_are_as_many_tasks_to_train_on_as_one_wants():
    more = tasks.list_tasks("train", 300)
    held_out = {t for name in ("val", "test", "test_unseen") for t in tasks.list_tasks(name)}
    assert len(set(more)) == 300 * (len(FAMILIES) - len(tasks.UNSEEN))
    assert not held_out & set(more)
    assert set(tasks.list_tasks("train")) < set(more)
    assert tasks.list_tasks("val", 300) == tasks.list_tasks("val")
    assert len(tasks.list_tasks("train_easy", 1)) == len(tasks.list_tasks("train_easy")) / 12


def test_unknown_tasks():
    with pytest.raises(ValueError, match="did you mean 'split_the_dinner-4'"):
        tasks.make_task("split_dinner-4")
    for seed in ("04", "-4", "4.0", "four", "٤", "", "1234567890"):
        with pytest.raises(ValueError, match="unknown task"):
            tasks.make_task(f"split_the_dinner-{seed}")


def test_the_page_lists_every_family_and_its_difficulty():
    page = (Path(__file__).parents[3] / "docs" / "appworld.md").read_text()
    for level in (1, 2, 3):
        names = [
            f"`{name}`{'*' if name in tasks.UNSEEN else ''}"
            for name, family in sorted(FAMILIES.items())
            if family.difficulty == level
        ]
        assert f"| {level} | {', '.join(names)} |" in page
    assert f"Ten apps with {sum(len(app.apis) for app in APPS.values())} documented APIs" in page
