"""Dense retrieval: a sentence-transformers encoder and a FAISS index.

Not supported: late interaction, re-ranking, indexes on a GPU.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.assets import BadAsset, MissingAsset, require
from agent_envs.panels import one_of
from agent_envs.retrieval.passages import Passage, check

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

INDEXES = {"flat": "Flat", "hnsw": "HNSW32", "ivf_sq8": "IVF{lists},SQ8"}
"""Kinds of index and their FAISS factory strings."""
E5 = ("query: ", "passage: ")
"""Prefixes of E5's queries and passages (Wang et al., 2022)."""
_CHUNK = 8192  # passages encoded at a time
_SAMPLE = 64  # training vectors per list
_EF = 128  # width of the search in an HNSW graph


class Encoder:
    """Unit vectors of texts by a sentence-transformers model.

    Args:
        model: Path or name of a sentence-transformers model.
        prefixes: Prefix of each query and of each passage; `E5` for models of that family.
        max_tokens: Texts are truncated to this length; 0 uses the model's own limit.
        threads: Torch threads while encoding, restored afterwards. More than one slows single
            queries down if several processes share a machine.
        device: A torch device; "" for the CPU.

    Raises:
        ImportError: The packages of the extra [dense] are not installed.
        OSError: There is no such model.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        prefixes: tuple[str, str] = ("", ""),
        max_tokens: int = 0,
        threads: int = 1,
        device: str = "",
    ) -> None:
        transformers = require("sentence_transformers", "dense")
        self.name = str(model)
        self.prefixes = prefixes
        self.threads = threads
        self._model = transformers.SentenceTransformer(self.name, device=device or "cpu")
        if max_tokens:
            self._model.max_seq_length = max_tokens

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """[N, D] unit vectors of queries."""
        return self._encode([self.prefixes[0] + text for text in texts])

    def passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        """[N, D] unit vectors of passages, each as its title, a line break and its text."""
        return self._encode([f"{self.prefixes[1]}{p.title}\n{p.text}" for p in passages])

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        with _torch_threads(self.threads):
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
        threads: FAISS threads of a search.

    Raises:
        ImportError: The packages of the extra [dense] are not installed.
        ValueError: An unknown kind of index, no passage, or a wrong number of vectors.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        encoder: Encoder,
        *,
        index: Any = "flat",
        vectors: NDArray[np.float32] | None = None,
        threads: int = 1,
    ) -> None:
        if not passages:
            raise ValueError("a dense index needs at least one passage, got none")
        if vectors is not None and len(vectors) != len(passages):
            raise ValueError(f"got {len(vectors)} vectors for {len(passages)} passages; one each")
        self.passages, self.encoder, self.threads = passages, encoder, threads
        if not isinstance(index, str):
            self.index = index
            return
        one_of("index", index, tuple(INDEXES))
        faiss = require("faiss", "dense")
        if vectors is None:
            chunks = range(0, len(passages), _CHUNK)
            parts = [encoder.passages(passages[at : at + _CHUNK]) for at in chunks]
            vectors = np.concatenate(parts)
        self.index = built(faiss, index, vectors)

    @classmethod
    def load(
        cls, folder: Path, passages: Sequence[Passage], encoder: Encoder, *, threads: int = 1
    ) -> Dense:
        """The index that `save` wrote to `folder`, mapped into memory.

        Raises:
            MissingAsset: There is no index in the folder.
            BadAsset: It was made with another encoder or another number of passages.
        """
        faiss = require("faiss", "dense")
        try:
            told = json.loads((folder / "index.json").read_text())
        except FileNotFoundError:
            raise MissingAsset(
                f"no dense index in {folder}; make one with `agent-envs retrieval index`"
            ) from None
        own = {"encoder": encoder.name, "prefixes": list(encoder.prefixes), "size": len(passages)}
        for key, value in own.items():
            if told.get(key) != value:
                raise BadAsset(
                    f"the index in {folder} has {key} {told.get(key)!r}, but {value!r} is needed; "
                    "make it again with `agent-envs retrieval index`"
                )
        index = faiss.read_index(str(folder / "index.faiss"), faiss.IO_FLAG_MMAP)
        return cls(passages, encoder, index=index, threads=threads)

    def save(self, folder: Path) -> None:
        """Write the index and its settings to `folder`."""
        faiss = require("faiss", "dense")
        folder.mkdir(parents=True, exist_ok=True)
        faiss.write_index(self.index, str(folder / "index.faiss"))
        told = {
            "encoder": self.encoder.name,
            "prefixes": list(self.encoder.prefixes),
            "size": len(self.passages),
        }
        (folder / "index.json").write_text(json.dumps(told) + "\n")

    def search(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """The `k` nearest passages of each query, all queries encoded in one batch.

        Raises:
            ValueError: `k` below 1.
        """
        check(queries, k)
        return self.nearest(self.encoder.queries(queries), k) if queries else []

    def nearest(self, vectors: NDArray[np.float32], k: int) -> list[list[Passage]]:
        """The `k` passages nearest to each of [N, D] vectors."""
        with _faiss_threads(self.threads):
            scores, places = self.index.search(vectors, min(k, len(self.passages)))
        return [
            [self.passages[at]._replace(score=score) for score, at in sorted_row(row, found)]
            for row, found in zip(scores.tolist(), places.tolist(), strict=True)
        ]

    def __deepcopy__(self, memo: dict[int, Any]) -> Dense:
        return self


def built(faiss: Any, kind: str, vectors: NDArray[np.float32]) -> Any:
    """A FAISS index of [N, D] vectors by inner product, with fixed random seeds."""
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


def sorted_row(scores: list[float], places: list[int]) -> list[tuple[float, int]]:
    """Scores and places of one query's passages, best first, ties by place; place -1 is dropped."""
    found = [(score, at) for score, at in zip(scores, places, strict=True) if at >= 0]
    return sorted(found, key=lambda pair: (-pair[0], pair[1]))


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _faiss_threads(threads: int) -> Iterator[None]:
    faiss = require("faiss", "dense")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
