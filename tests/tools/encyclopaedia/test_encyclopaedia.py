"""The embedded encyclopaedia, as committed: its form, its splits, its truth, and how it is made."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter

import pytest

from agent_envs.assets import MissingAsset, asset
from tools.encyclopaedia.generate import encyclopaedia, pack
from tools.encyclopaedia.tables import versions

TYPES = {"single": 1, "comparison": 2, "2hop": 2, "3hop": 3}
TOPICS = re.compile(
    r"(Geography of|Money in|Language in|Codes for|Physical properties of|Discovery of|Isotopes of)"
    r" (the )?"
)


@pytest.fixture(scope="module")
def packed():
    return {name: asset(f"search_qa/{name}.jsonl.xz").read_bytes() for name in ("corpus", "qa")}


@pytest.fixture(scope="module")
def corpus(packed):
    lines = [json.loads(line) for line in lzma.decompress(packed["corpus"]).decode().splitlines()]
    return {line["id"]: line for line in lines}


@pytest.fixture(scope="module")
def questions(packed):
    return [json.loads(line) for line in lzma.decompress(packed["qa"]).decode().splitlines()]


def test_passages(packed, corpus):
    assert sum(map(len, packed.values())) <= 2**20
    assert len(corpus) >= 3000
    assert lzma.decompress(packed["corpus"]).count(b"\n") == len(corpus)  # no id twice
    assert len({line["title"] for line in corpus.values()}) == len(corpus)
    assert len({line["text"] for line in corpus.values()}) == len(corpus)
    titles = {line["title"] for line in corpus.values()}  # none of disputed status
    assert not titles & {"Jerusalem", "Kosovo", "Sevastopol", "Taiwan", "Western Sahara"}
    for name, line in corpus.items():
        assert set(line) == {"id", "title", "text"}
        assert re.fullmatch(r"e[0-9]{6}", name, re.ASCII)
        assert 40 <= len(line["text"].split()) <= 110, line
        assert not re.search(r"[<>{}\n]|  | \.(?!\w)|\.\.|None", line["title"] + line["text"]), line


def test_questions_have_the_promised_form(corpus, questions):
    assert len({q["id"] for q in questions}) == len(questions)
    assert len({q["question"] for q in questions}) == len(questions)
    for q in questions:
        assert q["question"].endswith("?")
        assert not re.search(r"[<>{}\n]|  |None", q["question"]), q
        assert all(isinstance(answer, str) and answer.strip() for answer in q["answers"])
        assert len(set(q["answers"])) == len(q["answers"]) > 0
        assert len(set(q["gold"])) == len(q["gold"]) == TYPES[q["type"]]
        assert set(q["gold"]) <= set(corpus)


def test_every_type_is_in_every_split(questions):
    counts = Counter((q["type"], q["split"]) for q in questions)
    assert set(counts) == {(kind, split) for kind in TYPES for split in ("train", "val", "test")}
    assert sum(counts.values()) >= 2000
    assert min(counts.values()) >= 50
    train = sum(number for (_, split), number in counts.items() if split == "train")
    assert 0.75 <= train / len(questions) <= 0.85


def test_each_step_is_answered_by_its_passage(corpus, questions):
    for q in questions:
        steps = q["decomposition"]
        assert [step["gold"] for step in steps] == q["gold"]
        for step in steps:
            assert set(step) == {"question", "answer", "gold"}
            assert step["question"].endswith("?")
            assert step["answer"].casefold() in corpus[step["gold"]]["text"].casefold(), q
        assert q["type"] == "comparison" or steps[-1]["answer"] == q["answers"][0]


def test_a_comparison_is_answered_by_a_name_in_its_passages_or_by_yes_or_no(corpus, questions):
    comparisons = [q for q in questions if q["type"] == "comparison"]
    verdicts = Counter(q["answers"][0] for q in comparisons if q["answers"][0] in {"yes", "no"})
    for q in comparisons:
        texts = " ".join(corpus[gold]["text"] for gold in q["gold"]).casefold()
        answers = {step["answer"] for step in q["decomposition"]}
        if q["answers"][0] in {"yes", "no"}:
            assert (len(answers) == 1) == (q["answers"][0] == "yes"), q
        else:
            assert len(answers) == 2
            assert q["answers"][0].casefold() in texts
    assert 0.4 < verdicts["yes"] / verdicts.total() < 0.6
    assert verdicts.total() < len(comparisons) / 3


def test_a_question_of_hops_names_no_bridge_and_no_answer(questions):
    for q in questions:
        if q["type"] in {"2hop", "3hop"}:
            for step in q["decomposition"]:
                name = re.escape(step["answer"].casefold())
                if len(step["answer"]) > 1:
                    assert not re.search(rf"(?<!\w){name}(?!\w)", q["question"].casefold()), q


def test_no_question_asks_what_another_asks(questions):
    asked = Counter((frozenset(q["gold"]), tuple(q["answers"])) for q in questions)
    assert [what for what, times in asked.items() if times > 1] == []
    compared = [frozenset(q["gold"]) for q in questions if q["type"] == "comparison"]
    assert len(set(compared)) == len(compared)
    words = [tuple(sorted(re.findall(r"\w+", q["question"].casefold()))) for q in questions]
    assert len(set(words)) == len(words)


def test_no_entity_serves_two_splits(corpus, questions):
    splits = {}
    for q in questions:
        for gold in q["gold"]:
            title = corpus[gold]["title"]
            isotope = re.fullmatch(r"([A-Z][a-z]+)-[0-9]+", title)
            entity = isotope[1] if isotope else TOPICS.sub("", title)
            splits.setdefault(entity.casefold(), set()).add(q["split"])
    assert [entity for entity, found in splits.items() if len(found) > 1] == []


def test_facts_that_everybody_can_look_up(corpus):
    texts = {line["title"]: line["text"] for line in corpus.values()}
    for title, fact in {
        "Japan": "Tokyo",
        "Codes for Germany": "+49",
        "Gold": "symbol Au",
        "Physical properties of iron": "1,538 degrees Celsius",
        "Discovery of fluorine": "Henri Moissan",
        "Uranium-238": "4.46 billion years",
        "Domodedovo International Airport": "DME",
    }.items():
        assert fact in texts[title]


def test_the_generator_makes_these_bytes(packed):
    try:
        installed = versions()
    except MissingAsset as missing:
        pytest.skip(str(missing))
    readme = asset("search_qa/README.md").read_text(encoding="utf-8")
    if any(f"{name} {number}" not in readme for name, number in installed.items()):
        pytest.skip(f"made with other versions of the sources than the installed ones: {installed}")
    made = encyclopaedia()
    assert [pack(lines) for lines in made] == [packed["corpus"], packed["qa"]]
