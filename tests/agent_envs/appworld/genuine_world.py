"""Makes a world for the genuine benchmark from rows of our own, in the folder of $APPWORLD_ROOT.

Runs where package `appworld` is installed, whose apps and database models it fills: a person with
an account of the app for notes and two notes, and a request about them. Nothing of the benchmark's
own data is in it. The evaluation is written as the benchmark's own are: a module with `evaluate`.
"""

from __future__ import annotations

import json
from pathlib import Path

from appworld.apps import get_all_apps
from appworld.collections.api_docs import ApiDocCollection
from appworld.collections.models import ModelCollection
from appworld.common.constants import DB_VERSION
from appworld.common.path_store import path_store

TASK = "0aaaaaa_1"
ME = {
    "first_name": "Ada",
    "last_name": "Moss",
    "email": "ada.moss@postbox.example",
    "phone_number": "5550000001",
}
INSTRUCTION = "Pin my note about the lease."
EVALUATION = """
def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):
    with test("nothing changed but notes and log-ins"):
        changed = models.changed_model_names(ignore=["simple_note.User"])  # says when it logged in
        test.case(changed, "==", {"simple_note.Note"})
    with test("the note about the lease is pinned"):
        pinned = [note.title for note in models.end.simple_note.Note.all() if note.pinned]
        test.case(pinned, "==", ["Lease"])
    with test("no answer was given"):
        (task,) = models.end.supervisor.Task.all()
        test.case(task.answer in {'"<<NOT_GIVEN>>"', "null"}, "==", True)
"""
METADATA = ("difficulty", "num_apps", "num_apis", "num_api_calls", "num_solution_code_lines")
TESTS = {
    "nothing changed but notes and log-ins": "no_op_fail",
    "the note about the lease is pinned": "no_op_fail",
    "no answer was given": "no_op_pass",
}


def main() -> None:
    """Write lists, API documentation, databases and the ground truth."""
    data = Path(path_store.data)
    write(data / "datasets" / "train.txt", TASK)
    docs = ApiDocCollection.build(load_apps=tuple(get_all_apps(skip_admin=True)))
    for app, apis in docs.items():
        told = {name: {**doc, "canary_string": ""} for name, doc in apis.items()}
        write(data / "api_docs" / "standard" / f"{app}.json", json.dumps(told))
    task = data / "tasks" / TASK
    fill(data / "empty", task / "dbs")
    specs = {"instruction": INSTRUCTION, "supervisor": ME, "db_version": DB_VERSION}
    write(task / "specs.json", json.dumps({**specs, "datetime": "2024-05-03T10:30:00"}))
    labels = [{"requirement": name, "label": label} for name, label in TESTS.items()]
    for name, content in {
        "answer": None,
        "metadata": dict.fromkeys(METADATA, 1),
        "private_data": {},
        "public_data": {},
        "test_data": labels,
    }.items():
        write(task / "ground_truth" / f"{name}.json", json.dumps(content))
    write(task / "ground_truth" / "evaluation.py", EVALUATION)


def fill(empty: Path, home: Path) -> None:
    """Save databases with our rows, made from empty ones."""
    empty.mkdir(parents=True)
    models = ModelCollection.load(
        from_db_home_path=str(empty), load_apps=get_all_apps(), create_db=True
    )
    models.admin.MainUser(**ME, birthday="1980-05-01").save()
    models.supervisor.Supervisor(**ME, birthday="1980-05-01").save()
    models.supervisor.Task(supervisor_id=1, instruction=INSTRUCTION).save()
    login = {"password": "moss-on-stone"}
    models.supervisor.AccountPassword(supervisor_id=1, account_name="simple_note", **login).save()
    person = {key: ME[key] for key in ("first_name", "last_name", "email")}
    models.simple_note.User(**person, **login, verified=True).save()
    for title, content in (("Lease", "Two rooms, kitchen, bath."), ("Bulbs", "Tulips, crocuses.")):
        models.simple_note.Note(user_id=1, title=title, content=content).save()
    models.save(str(home))


def write(path: Path, text: str) -> None:
    """Write a file, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main()
