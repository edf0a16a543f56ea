"""Dense retrieval: a sentence-transformers encoder and a FAISS index, each on one thread.

Not supported: late interaction, re-ranking, GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.assets import BadAsset, MissingAsset, require
from agent_envs.panels import one_of
from agent_envs.retrieval.passages import Corpus, Passage, check_search, digest_documents

if TYPE_CHECKING:
    import os


INDEXES = {"flat": "Flat", "hnsw": "HNSW32", "ivf_sq8": "IVF{lists},SQ8"}
"""Kinds of index and their FAISS factory strings."""
E5 = ("query: ", "passage: ")
"""Prefixes of E5's queries and passages (Wang et al., 2022)."""
_CHUNK = 8192  # passages encoded at a time
_SAMPLE = 64  # training vectors per list
_EF = 128  # width of the search in an HNSW graph


class Encoder:
    """Unit vectors of texts by a sentence-transformers model on the CPU.

    It encodes with one torch thread and restores the number afterwards: more of them slow single
    queries down if several processes share a machine.

    Args:
        model: Path or name of a sentence-transformers model.
        prefixes: Prefix of each query and of each passage; `E5` for models of that family.

    Raises:
        ImportError: The packages of the extra [dense] are not installed.
        OSError: There is no such model.
    """

    def __init__(
        self, model: str | os.PathLike[str], *, prefixes: tuple[str, str] = ("", "")
    ) -> None:
        transformers = require("sentence_transformers", "dense")
        self.name, self.prefixes = str(model), prefixes
        self._model = transformers.SentenceTransformer(self.name, device="cpu")

    @cached_property
    def digest(self) -> str:
        """A digest of the weights."""
        import torch

        digest = sha256()
        for name, weight in sorted(self._model.state_dict().items()):
            digest.update(name.encode())
            digest.update(weight.contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[N, D] unit vectors of queries."""
        return self._encode([self.prefixes[0] + text for text in texts])

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        """[N, D] unit vectors of passages, each as its title, a line break and its text."""
        return self._encode([f"{self.prefixes[1]}{p.document}" for p in passages])

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        import torch

        with _use_one_thread(torch.get_num_threads, torch.set_num_threads):
            vectors = self._model.encode(
                texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
        return np.asarray(vectors, dtype=np.float32)


class Dense:
    """Retrieves the passages whose vectors have the largest inner product with the query's.

    `save` writes the index to a folder and `Dense.load` maps it into memory from there, so that
    processes share one copy.

    Args:
        passages: The corpus.
        encoder: Computes the vectors.
        index: "flat": exact; "hnsw": a graph, fastest, most memory; "ivf_sq8": inverted lists of
            8-bit vectors, least memory; or your own FAISS index.
        vectors: [N, D] vectors of the passages, if they are already computed.

    Raises:
        ImportError: The packages of the extra [dense] are not installed.
        ValueError: An unknown kind of index.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: Encoder,
        index: Any = "flat",
        *,
        vectors: NDArray[np.float32] | None = None,
    ) -> None:
        self.passages, self.encoder, self.index = passages, encoder, index
        if not isinstance(index, str):
            return
        one_of("index", index, tuple(INDEXES))
        if vectors is None:
            chunks = range(0, len(passages), _CHUNK)
            parts = [encoder.encode_passages(passages[at : at + _CHUNK]) for at in chunks]
            vectors = np.concatenate(parts)
        self.index = build_index(index, vectors)

    @classmethod
    def load(cls, folder: Path, passages: Sequence[Passage], encoder: Encoder) -> Dense:
        """The index that `save` wrote to `folder`, mapped into memory.

        Raises:
            MissingAsset: There is no index in the folder.
            BadAsset: It was made of other passages, or with other weights of the encoder.
        """
        faiss = require("faiss", "dense")
        try:
            saved = json.loads((folder / "index.json").read_text())
        except (FileNotFoundError, ValueError):  # or it was not written to its end
            raise MissingAsset(
                f"no dense index in {folder}; make one with `agent-envs retrieval index`"
            ) from None
        for key, value in _describe_index(encoder, passages).items():
            if saved.get(key) != value:
                raise BadAsset(
                    f"the index in {folder} was made with another {key} than that of "
                    f"{encoder.name!r} and these {len(passages)} passages: {saved.get(key)!r}, "
                    f"not {value!r}; make it again with `agent-envs retrieval index`"
                )
        index = faiss.read_index(str(folder / "index.faiss"), faiss.IO_FLAG_MMAP_IFC)
        return cls(passages, encoder, index)

    def save(self, folder: Path) -> None:
        """Write the index and its settings to `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.json").unlink(missing_ok=True)  # until all of the index is written
        require("faiss", "dense").write_index(self.index, str(folder / "index.faiss"))
        settings = _describe_index(self.encoder, self.passages)
        (folder / "index.json").write_text(json.dumps(settings) + "\n")

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The `k` nearest passages of each query, all queries encoded in one batch.

        Raises:
            ValueError: `k` below 1.
        """
        check_search(queries, k)
        return self.search_vectors(self.encoder.encode_queries(queries), k) if queries else []

    def search_vectors(self, vectors: NDArray[np.float32], k: int) -> list[list[Passage]]:
        """The `k` passages nearest to each of [N, D] vectors."""
        faiss = require("faiss", "dense")
        with _use_one_thread(faiss.omp_get_max_threads, faiss.omp_set_num_threads):
            scores, places = self.index.search(vectors, min(k, len(self.passages)))
        return [
            [self.passages[at]._replace(score=score) for score, at in sort_row(row, found)]
            for row, found in zip(scores.tolist(), places.tolist(), strict=True)
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> Dense:
        return self


def build_index(kind: str, vectors: NDArray[np.float32]) -> Any:
    """A FAISS index of [N, D] vectors by inner product, with fixed random seeds."""
    faiss = require("faiss", "dense")
    count, width = vectors.shape
    lists = max(1, min(int(4 * count**0.5), count // 39))  # FAISS wants 39 vectors a list
    index = faiss.index_factory(
        width, INDEXES[kind].format(lists=lists), faiss.METRIC_INNER_PRODUCT
    )
    if kind == "ivf_sq8":
        rows = np.random.default_rng(0).permutation(count)[: _SAMPLE * lists]
        index.train(vectors[np.sort(rows)])
        index.nprobe = -(-lists // 8)
    if kind == "hnsw":
        index.hnsw.efSearch = _EF
    index.add(vectors)
    return index


def sort_row(scores: list[float], places: list[int]) -> list[tuple[float, int]]:
    """Scores and places of one query's passages, best first, ties by place; place -1 is dropped."""
    found = [(score, at) for score, at in zip(scores, places, strict=True) if at >= 0]
    return sorted(found, key=lambda pair: (-pair[0], pair[1]))


def _describe_index(encoder: Encoder, passages: Sequence[Passage]) -> dict[str, Any]:
    """What an index is saved with, and what loading it requires: digests of what it was made of."""
    known = passages.digest if isinstance(passages, Corpus) else digest_documents(passages)
    return {"weights": encoder.digest, "prefixes": list(encoder.prefixes), "passages": known}


@contextmanager
def _use_one_thread(read: Callable[[], int], write: Callable[[int], None]) -> Iterator[None]:
    before = read()
    write(1)
    try:
        yield
    finally:
        write(before)
