"""The generated world: programmes, splits, truth, and the tests of a task."""

import re
from itertools import pairwise

import pytest

from agent_envs.appworld import world
from agent_envs.appworld.apps import APPS
from agent_envs.appworld.env import AppWorld
from agent_envs.appworld.experts import read_request
from agent_envs.appworld.session import Session
from agent_envs.appworld.world import (
    FAMILIES,
    PARTS,
    SPLITS,
    list_programmes,
    list_tasks,
    make_task,
)
from agent_envs_lab.ladder import climb_ladder


@pytest.mark.parametrize("parts", PARTS)
def test_splits_share_no_programme_and_test_has_only_known_families(parts):
    found = list_programmes(parts)
    every = [one for split in SPLITS for one in found[split]]
    assert len(set(every)) == len(every)
    acts = {name for name, family in FAMILIES.items() if family.is_act}
    for one in every:  # acts on one thing commute: none follows another
        assert not any(a in acts and b in acts for a, b in pairwise(one))
    assert all(len(one) == parts for one in every)
    used = {split: {name for one in found[split] for name in one} for split in SPLITS}
    assert used["val"] | used["test"] <= used["train"]
    held = {name for name, family in FAMILIES.items() if family.held}
    assert not held & (used["train"] | used["val"] | used["test"])
    assert all(held & set(one) for one in found["test_unseen"])
    assert len(found["test"]) >= (5 if parts == 2 else 25)


def test_splits_share_no_word():
    for name in ("first_names", "last_names", "cities", "titles", "subjects", "labels", "texts"):
        train, val, test = (set(world.list_words(name, one)) for one in ("train", "val", "test"))
        assert not train & val
        assert not (train | val) & test
        assert min(map(len, (train, val, test))) >= 4


def test_the_tests_have_wordings_that_training_never_has():
    for name, family in FAMILIES.items():
        assert len(set(family.said)) == 3, name
    for split, own in {"train": (0, 1), "test": (2,)}.items():
        for task in map(make_task, list(list_tasks(split))[::4]):
            for family in (FAMILIES[name] for name in task.programme):
                parts = [re.split(r"{\w+}", family.said[number]) for number in own]
                assert any(all(one in task.instruction for one in said) for said in parts)


@pytest.mark.parametrize("split", SPLITS)
def test_the_explorer_reads_what_the_task_was_made_with(split):
    for task_id in list(list_tasks(split))[::3]:
        task = make_task(task_id)
        read = [(family.name, values) for family, values in read_request(task.instruction)]
        assert read == list(zip(task.programme, task.given, strict=True))


def test_some_tasks_need_what_is_not_there():
    tasks = [
        make_task(one) for split in ("test", "test_unseen") for one in list(list_tasks(split))[::2]
    ]
    share = sum(task.missing for task in tasks) / len(tasks)
    assert 0.03 < share < 0.12
    assert all(task.changes == () and task.answer is None for task in tasks if task.missing)
    assert all(task.changes or task.answer for task in tasks if not task.missing)


def play(task, *calls, end=True):
    """A session after some calls by tests, and the failures of the task's tests."""
    session = Session(task.household, APPS, task.instruction, task.answer_type)
    session.logged_in.update(APPS)
    for app, api, given in calls:
        token = {} if APPS[app].open else {"access_token": session.make_token(app)}
        reply = session.call(app, api, {**token, **given})
        assert "value" in reply, reply
    return task.judge(session).failures


def draw(name, missing=False):
    """A task of training with this programme."""
    tasks = (make_task(f"train-{name}-{seed}") for seed in range(300))
    return next(task for task in tasks if task.missing is missing)


DONE = ("supervisor", "complete_task", {})
FAIL = ("supervisor", "complete_task", {"status": "fail"})


def test_a_request_is_done_by_its_change_and_nothing_else():
    task = draw("creditor+hosts+move")
    (fact,) = task.changes
    move = ("calendar", "update_event", {"event_id": fact.row_id, "day": task.given[2]["day"]})
    mail = ("mail", "send_mail", {"recipient": "a@b.c", "subject": "x"})
    star = ("mail", "mark_mail", {"mail_id": 101, "starred": True})
    unstar = ("mail", "mark_mail", {"mail_id": 101, "starred": False})
    assert play(task, move, DONE) == ()
    assert play(task, star, move, unstar, DONE) == ()  # nothing is left of it
    assert play(task, move, mail, DONE) == ("nothing else is changed",)
    assert play(task, move, star, DONE) == ("nothing else is changed",)
    assert play(task, move, FAIL) == ("the task is completed with status 'success'",)
    assert "change 1 of 1 in events is made" in play(task, DONE)
    other = {"event_id": 101 + (fact.row_id == 101), "day": task.given[2]["day"]}
    failed = play(task, ("calendar", "update_event", other), DONE)
    assert failed == ("change 1 of 1 in events is made", "nothing else is changed")


def test_an_act_twice_is_once_too_often():
    task = draw("creditor+label+named")
    person = next(
        row
        for row in task.household.state.find_rows("contacts")
        if row["name"].lower() == task.answer
    )
    label = {"contact_id": person["id"], "label": task.given[1]["label"]}
    named = ("supervisor", "complete_task", {"answer": person["name"].upper()})
    assert play(task, ("contacts", "update_contact", label), named) == ()
    wrong = ("supervisor", "complete_task", {"answer": "Somebody Else"})
    assert play(task, ("contacts", "update_contact", label), wrong) == ("the answer is right",)
    task = draw("youngest+partner+write")
    mail = {"subject": task.given[2]["subject"], "body": task.given[2]["text"]}
    fields = dict(re.findall(r"'(\w+)': '([^']*)'", task.changes[0].fields))
    send = ("mail", "send_mail", {"recipient": fields["recipient"], **mail})
    assert play(task, send, DONE) == ()
    assert play(task, send, send, DONE) == ("nothing else is changed",)


def test_what_is_not_there_is_said_and_nothing_is_done():
    task = draw("creditor+hosts+move", missing=True)
    assert play(task, FAIL) == ()
    assert "the task is completed with status 'fail'" in play(task, DONE)
    mail = ("mail", "send_mail", {"recipient": "a@b.c", "subject": "x"})
    assert play(task, mail, FAIL) == ("nothing else is changed",)


def test_a_request_that_is_not_clear_is_no_task():
    """A thing that leads back to an earlier one; something that is missing after an act."""
    unpaid = ("creditor", "last_paid")
    homes = (make_task(f"train-creditor+label+named-{n}").household for n in range(99))
    home = next(one for one in homes if world.find_truth(unpaid, ({}, {}), one).missing)
    for *names, last in (["creditor", "partner", "partner"], ["creditor", "label", "last_paid"]):
        given = tuple({"label": "x"} if name == "label" else {} for name in (*names, last))
        with pytest.raises(ValueError, match=f"not clear at '{last}'"):
            world.find_truth((*names, last), given, home)
    with pytest.raises(ValueError, match="too many values"):
        world.one([1, 2])


def test_a_household_has_rows_that_a_part_alone_would_find():
    """For each request, something that only a part of it fits."""
    for task_id in list(list_tasks("test"))[::5]:
        state = make_task(task_id).household.state
        events, mails = state.find_rows("events"), state.find_rows("mails")
        assert len({event["title"] for event in events}) < len(events)
        assert {mail["folder"] for mail in mails} == {"inbox", "archive"}
        assert {row["status"] for row in state.find_rows("requests")} > {"pending"}


@pytest.mark.parametrize(
    "task_id", ["x", "train-event-0", "test-creditor+hosts+move-0", "train-creditor+hosts+move-x"]
)
def test_unknown_tasks(task_id):
    with pytest.raises(ValueError, match=f"no task '{re.escape(task_id)}'; a task is <split>"):
        make_task(task_id)


def test_families_and_seeds_choose_tasks():
    env = AppWorld(families=["past", "cancel", "when", "where"], parts=2, train_seeds=9)
    found = {env.panel.origins[one] for one in env.panel.task_ids}
    assert found == {"past+cancel", "past+when", "past+where"}
    assert len(env.panel) == 27
    assert len(AppWorld(split="test", train_seeds=9).panel) == len(list_tasks("test"))


@pytest.mark.long
def test_a_memory_of_training_solves_little():
    """No rung of the ladder does what the experts do."""
    ladder = climb_ladder(lambda split: AppWorld(split=split), episodes=120, tasks=40, seconds=600)
    assert ladder.rungs[ladder.best].share <= 0.2
    assert all(share.share == 1.0 for share in ladder.experts.values())
