import copy
import gzip
import json
import lzma
import pickle

import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.factory import Cached, Hybrid, Scripted, fuse_lists, open_retriever
from agent_envs.retrieval.passages import Corpus, Passage, Retriever

pytestmark = pytest.mark.slow

CITIES = [
    Passage("a", "N'Djamena", "N'Djamena is the capital of Chad."),
    Passage("b", "Chad", "Chad lies in Africa. Its currency is the franc."),
    Passage("c", "Café", "A café serves coffee."),
    Passage("d", "Quebec", "Québec is a city and a province of Canada, with cafés."),
    Passage("e", "Zürich", "Zürich lies on the Limmat."),
    Passage("f", "Łódź", "Smørrebrød in der Straße, ein Œuvre."),
]


def find(retriever, query, k=3):
    return [passage.id for passage in retriever.search([query], k)[0]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("CAPITALS of chad", ["a", "b"]),
        ("cafe", ["c", "d"]),
        ("québec", ["d"]),
        ("Quebec", ["d"]),
        ("Zurich", ["e"]),
        ("Zu", []),  # diacritics are within words
        ("smorrebrod", ["f"]),
        ("SMØRREBRØD", ["f"]),
        ("strasse", ["f"]),
        ("Lodz", ["f"]),
        ("oeuvre", ["f"]),
        ("œuvre", ["f"]),
        ("zebra", []),
        ("!?", []),
    ],
)
def test_bm25_finds_by_words_in_any_case_form_and_accent(query, found):
    bm25 = BM25(CITIES)
    assert find(bm25, query)[: len(found) or 3] == found
    assert isinstance(bm25, Retriever)
    assert copy.deepcopy(bm25) is bm25
    again = pickle.loads(pickle.dumps(bm25))
    assert again.search([query], 2) == bm25.search([query], 2)


def test_bm25_scores():
    same = [Passage(str(i), "", "one two") for i in range(50)]
    assert find(BM25(same), "two", 7) == list("0123456")  # equal ones in the corpus's order
    (scored,) = BM25(CITIES).search(["chad capital franc"], 4)
    scores = [passage.score for passage in scored]
    assert scores == sorted(scores, reverse=True)
    assert [type(score) for score in scores] == [float, float]
    # two passages of one and two words; idf(red) = ln(1 + (2 - 1 + .5) / (1 + .5)) = ln 2
    pair = [Passage("x", "red", ""), Passage("y", "blue", "green")]
    ((hit,),) = BM25(pair, k1=1.0, b=1.0).search(["red"], 1)
    # length 1 of mean 1.5: tf / (tf + k1 * 1 / 1.5) = 1 / (1 + 2 / 3)
    assert hit.score == pytest.approx(0.6931472 * 0.6, rel=1e-6)
    assert BM25([Passage("x", "", "...")]).search(["x"], 1) == [[]]


def test_wrong_queries_are_refused():
    for retriever in (BM25(CITIES), Scripted({}), Hybrid(BM25(CITIES)), Cached(BM25(CITIES))):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            retriever.search(["x"], 0)
        with pytest.raises(TypeError, match=r"give \[query\]"):
            retriever.search("chad", 3)


@pytest.mark.long
def test_bm25_recalls_real_gold_passages(real, recall):
    corpus, questions, _ = real
    bm25 = open_retriever("bm25", corpus)
    assert recall(bm25, questions, "nq") >= 0.84
    assert recall(bm25, questions, "hotpotqa") >= 0.66
    assert recall(bm25, questions, "musique") >= 0.43


def test_fusion_by_hand():
    one, two, three = CITIES[:3]
    fused = fuse_lists([[one, two], [two, three]])
    assert [passage.id for passage in fused] == ["b", "a", "c"]
    scores = [passage.score for passage in fused]
    assert scores == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])
    hybrid = Hybrid(Scripted({"q": CITIES[:3]}), Scripted({"q": [CITIES[3], CITIES[2]]}))
    assert find(hybrid, "q", 2) == ["c", "a"]  # found by asking for more than 2


class Counting:
    def __init__(self):
        self.calls = []

    def search(self, queries, k):
        self.calls.append((list(queries), k))
        return [[Passage(query, "t", "é", 0.1)] for query in queries]


def test_the_cache_asks_once_for_each_query_and_number():
    inner = Counting()
    cached = Cached(inner, size=2)
    first = cached.search(["a", "b", "a"], 3)
    assert first == cached.search(["a", "b", "a"], 3)
    first[0].clear()  # does not reach the cache
    assert len(cached.search(["a"], 3)[0]) == len(first[2]) == 1
    cached.search(["a"], 2)  # pushes out "b" of 3
    cached.search(["b", "a"], 3)
    assert inner.calls == [(["a", "b"], 3), (["a"], 2), (["b"], 3)]


def test_the_cache_file_outlives_the_process(tmp_path):
    file, inner = tmp_path / "found.sqlite", Counting()
    found = Cached(inner, file=file).search(["a", 'b"; é'], 3)
    later = Cached(Scripted({}), file=file)
    assert later.search(["a", 'b"; é'], 3) == found
    assert later.search(["c"], 3) == [[]]
    assert later.search(["a"], 2) == [[]]  # another number is another search
    file.write_text("something else entirely, and long enough to be looked at" * 30)
    with pytest.raises(BadAsset, match=r"found\.sqlite"):
        Cached(Counting(), file=file)
    with pytest.raises(OSError, match="nowhere"):
        Cached(Counting(), file=tmp_path / "nowhere" / "found.sqlite")


def test_scripted_findings():
    scripted = Scripted({"q": CITIES}, default=CITIES[:1])
    assert find(scripted, "q", 2) == ["a", "b"]
    assert find(scripted, "other") == ["a"]
    assert scripted.asked == ["q", "other"]


LINES = [
    {"id": "1", "title": "One", "text": "first"},
    {"id": 2, "contents": '"Two"\nsecond\nlines'},
    {"id": "3", "contents": "no title"},
]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_corpora_plain_and_packed(tmp_path, ending):
    data = "\n".join(json.dumps(line) for line in LINES).encode() + b"\n\n"
    packed = {"": data, ".gz": gzip.compress(data), ".xz": lzma.compress(data)}[ending]
    path = tmp_path / f"corpus.jsonl{ending}"
    path.write_bytes(packed)
    corpus = Corpus(path)
    assert list(corpus) == [
        Passage("1", "One", "first"),
        Passage("2", "Two", "second\nlines"),
        Passage("3", "no title", "", quoted=False),
    ]
    assert corpus[-1].id == "3"
    assert [passage.id for passage in corpus[1:]] == ["2", "3"]
    assert corpus.place == {"1": 0, "2": 1, "3": 2}
    assert copy.deepcopy(corpus) is corpus
    assert (corpus.reading.bad, corpus.reading.good) == ([], {str(path): 3})
    assert list(pickle.loads(pickle.dumps(corpus))) == list(corpus)


GOOD = '{"id": 1, "text": "x"}\n'


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("nothing.jsonl", None, MissingAsset, r"nothing\.jsonl"),
        ("empty.jsonl", "\n\n", BadAsset, r"empty\.jsonl has no passages"),
        ("none.jsonl", "", BadAsset, "has no passages"),
        ("cut.jsonl.gz", gzip.compress(b"{}" * 99, mtime=0)[:-9], BadAsset, "is damaged"),
        ("bad.jsonl", GOOD + '{"id": 2}', BadAsset, r"bad\.jsonl, line 2: a passage needs"),
        ("bad.jsonl", GOOD + "no json", BadAsset, "line 2: Expecting value"),
        ("bad.jsonl", GOOD + "[1]", BadAsset, "line 2: a passage must be an object or a text"),
        ("bad.jsonl", GOOD + '{"contents": 3}', BadAsset, "line 2: a passage needs"),
        ("bad.jsonl", GOOD + '{"text": "x", "title": 3}', BadAsset, "2: title and text must be"),
        ("twice.jsonl", GOOD * 2, BadAsset, "an id of its own"),
    ],
)
def test_broken_corpora_are_named(tmp_path, name, content, error, message):
    if content is not None:
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
    with pytest.raises(error, match=message):
        Corpus(tmp_path / name).reading.report(strict=True)
    if GOOD in str(content):
        corpus = Corpus(tmp_path / name)
        assert ([passage.id for passage in corpus], corpus.place) == (["1"], {"1": 0})


def test_retrievers_by_name_are_made_once(tmp_path, monkeypatch):
    (tmp_path / "corpus.jsonl").write_text("\n".join(json.dumps(line) for line in LINES))
    corpus = Corpus(tmp_path / "corpus.jsonl")
    opened = open_retriever("bm25", corpus)
    assert open_retriever("bm25", corpus) is opened
    assert copy.deepcopy(opened) is opened
    assert pickle.loads(pickle.dumps(opened)).search(["second"], 1) == opened.search(["second"], 1)
    assert find(opened, "second") == ["2"]
    mine = Scripted({})
    assert open_retriever(mine, corpus) is mine
    monkeypatch.delenv("AGENT_ENVS_DENSE_MODEL", raising=False)
    for name, of, message in (
        ("bm26", corpus, "did you mean 'bm25'"),
        ("bm25", None, r"'bm25' needs a corpus\.jsonl in the data folder, or a"),
        ("dense", corpus, "AGENT_ENVS_DENSE_MODEL"),
    ):
        with pytest.raises(ValueError, match=message):
            open_retriever(name, of)
