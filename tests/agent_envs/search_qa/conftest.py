"""A small encyclopaedia of four passages with two questions, and environments on it."""

import json
import os

import pytest

from agent_envs.retrieval.factory import Scripted
from agent_envs.retrieval.passages import Passage

CHAD = Passage("p1", "Chad", "Chad is a country in Africa. Its capital is N'Djamena.", 2.0)
CAPITAL = Passage("p2", "N'Djamena", "N'Djamena is a city on the Chari.", 1.0)
LAKE = Passage("p3", "Lake Chad", "Lake Chad is shallow.", 0.5)
PARIS = Passage("p4", "Paris", "Paris is the capital of France.", 0.25)
FOUND = {
    "chad": [CHAD, LAKE],
    "capital": [CAPITAL],
    "chad again": [LAKE, CHAD],
    "paris": [PARIS],
    "nothing": [],
}
PASSAGES = [{"id": p.id, "title": p.title, "text": p.text} for p in (CHAD, CAPITAL, LAKE, PARIS)]
QUESTIONS = [
    {
        "id": "chad",
        "question": "What is the capital of Chad",
        "answers": ["N'Djamena", "Fort-Lamy"],
        "gold": ["p1", "p2"],
    },
    {"id": "france", "question": "Which city is France's capital?", "answers": ["Paris"]},
]


@pytest.fixture
def folder_of(tmp_path):
    """Makes a data folder of questions and passages."""

    def make(questions=QUESTIONS, passages=PASSAGES):
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        for name, records in (("qa", questions), ("corpus", passages)):
            if records:
                lines = "".join(json.dumps(record) + "\n" for record in records)
                (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        return folder

    return make


@pytest.fixture
def folder(folder_of):
    """The small encyclopaedia."""
    return folder_of()


@pytest.fixture
def make_env(folder):
    """Makes an environment on the small encyclopaedia with scripted findings."""

    def make(kind, **options):
        return kind(**{"data": folder, "split": "all", "retriever": Scripted(FOUND)} | options)

    return make


@pytest.fixture
def ask_env(folder_of):
    """Makes an environment for one question with given answers and findings."""

    def make(kind, answers, found=(), question="Who?", passages=PASSAGES, **options):
        folder = folder_of([{"id": "q", "question": question, "answers": answers}], passages)
        return kind(data=folder, split="all", retriever=Scripted({}, found), **options)

    return make


@pytest.fixture
def play():
    """Plays an episode; the records of its steps, the reset as one without a reply."""

    def run(env, *replies, task=None):
        options = {"task_id": task or env.panel.task_ids[0]}
        observation, info = env.reset(options=options)
        return [(observation, 0.0, False, False, info), *map(env.step, replies)]

    return run


@pytest.fixture(scope="session")
def golden(shared_data):
    """What the reference functions gave."""
    return json.loads((shared_data / "search_qa" / "golden_searchr1.json").read_text())
