"""The embedded encyclopaedia, as committed: its form, its splits, its truth, and how it is made."""

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
    for field in ("title", "text"):
        assert len({line[field] for line in corpus.values()}) == len(corpus)
    texts = {line["title"]: line["text"] for line in corpus.values()}
    disputed = {"Jerusalem", "Kosovo", "Sevastopol", "Taiwan", "Western Sahara"}
    assert texts.keys().isdisjoint(disputed)
    for name, line in corpus.items():
        assert re.fullmatch(r"e[0-9]{6}", name, re.ASCII)
        assert 40 <= len(line["text"].split()) <= 110, line
        assert not re.search(r"[<>{}\n]|  | \.(?!\w)|\.\.|None", line["title"] + line["text"]), line
    for title, fact in {
        "Japan": "Tokyo",
        "Codes for Germany": "+49",
        "Physical properties of iron": "1,538 degrees Celsius",
        "Discovery of fluorine": "Henri Moissan",
        "Uranium-238": "4.46 billion years",
        "Domodedovo International Airport": "DME",
    }.items():
        assert fact in texts[title]


def test_every_question_is_answered_by_its_passages_and_asked_once(corpus, questions):
    verdicts = Counter()
    for q in questions:
        steps, kind = q["decomposition"], q["type"]
        assert q["question"].endswith("?")
        assert not re.search(r"[<>{}\n]|  |None", q["question"]), q
        assert all(isinstance(answer, str) and answer.strip() for answer in q["answers"])
        assert len(set(q["answers"])) == len(q["answers"]) > 0
        assert [step["gold"] for step in steps] == q["gold"]
        assert len(set(q["gold"])) == TYPES[kind]
        for step in steps:
            assert step["question"].endswith("?")
            assert step["answer"].casefold() in corpus[step["gold"]]["text"].casefold(), q
            name = re.escape(step["answer"].casefold())
            if "hop" in kind and len(name) > 1:  # it names no bridge and no answer
                assert not re.search(rf"(?<!\w){name}(?!\w)", q["question"].casefold()), q
        answers = {step["answer"] for step in steps}
        if kind != "comparison":
            assert steps[-1]["answer"] == q["answers"][0]
        elif q["answers"][0] in {"yes", "no"}:
            verdicts[q["answers"][0]] += 1
            assert (len(answers) == 1) == (q["answers"][0] == "yes"), q
        else:
            texts = " ".join(corpus[gold]["text"] for gold in q["gold"])
            assert len(answers) == 2
            assert q["answers"][0].casefold() in texts.casefold()
    assert 0.4 < verdicts["yes"] / verdicts.total() < 0.6
    counts = Counter((q["type"], q["split"]) for q in questions)
    assert set(counts) == {(kind, split) for kind in TYPES for split in ("train", "val", "test")}
    assert min(counts.values()) >= 50
    train = sum(number for (_, split), number in counts.items() if split == "train")
    assert 0.75 <= train / len(questions) <= 0.85
    for asked in (
        lambda q: q["id"],
        lambda q: (frozenset(q["gold"]), tuple(q["answers"])),
        lambda q: tuple(sorted(re.findall(r"\w+", q["question"].casefold()))),
    ):
        assert len(set(map(asked, questions))) == len(questions) >= 2000


def test_no_entity_serves_two_splits(corpus, questions):
    splits = {}
    for q in questions:
        for gold in q["gold"]:
            title = corpus[gold]["title"]
            isotope = re.fullmatch(r"([A-Z][a-z]+)-[0-9]+", title)
            entity = isotope[1] if isotope else TOPICS.sub("", title)
            splits.setdefault(entity.casefold(), set()).add(q["split"])
    assert [entity for entity, found in splits.items() if len(found) > 1] == []


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
