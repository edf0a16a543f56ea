"""Retrieval and its environments: python benchmarks/search_qa.py [--data FOLDER] [--model PATH].

Tables: recall of gold passages at 3 with the question as the query; milliseconds of a search in
this process, batched, cached, through the environment and through the server; the server under 64
clients; dense indexes of 100,000 vectors, and what they come to at 21 million. Wall clock, one
thread each for torch and FAISS. `--data` is a folder with qa.jsonl and corpus.jsonl (packed or not;
`corpus_minilm_int8.npz` beside them spares encoding), `--model` a sentence-transformers model.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

# This file has the name of a package beside it.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402

import agent_envs  # noqa: E402, F401  registers the ids
from agent_envs.retrieval.bm25 import BM25  # noqa: E402
from agent_envs.retrieval.client import Http  # noqa: E402
from agent_envs.retrieval.dense import INDEXES, Dense, build_index  # noqa: E402
from agent_envs.retrieval.factory import (  # noqa: E402
    Cached,
    Hybrid,
    open_encoder,
)
from agent_envs.retrieval.server import serving  # noqa: E402
from agent_envs.search_qa.data import open_data  # noqa: E402
from agent_envs.search_qa.world import open_world  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_envs.retrieval.passages import Retriever
    from agent_envs.search_qa.data import Data

CLIENTS = 64
WIKI = 21_015_324  # passages of wiki-18
WIDTH = 768  # numbers of an E5-base vector


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--data", default="", help="folder of questions; none is a generated world"
    )
    options.add_argument("--model", default="", help="encoder; without it nothing dense")
    options.add_argument("--queries", type=int, default=300, help="of each timing")
    options.add_argument("--requests", type=int, default=20, help="of each of 64 clients")
    options.add_argument("--vectors", type=int, default=100_000, help="of the indexes compared")
    given = options.parse_args()
    given.data = given.data or str(open_world("test").export(Path(tempfile.mkdtemp())))
    data = open_data(given.data)
    if data.corpus is None:
        sys.exit(f"{given.data} has no corpus.jsonl")
    print(f"{given.data}: {len(data.questions):,} questions, {len(data.corpus):,} passages\n")
    retrievers = dict(opened(data, given))
    show("recall of gold passages at 3, %", recalls(retrievers, data))
    show("a search, ms", latencies(retrievers, data, given))
    show("a step of SearchQA-v0 that searches, ms", steps(given))
    show(f"the server with {CLIENTS} clients, {given.requests} requests each", load(data, given))
    if given.model:
        show(f"indexes of {given.vectors:,} vectors of {WIDTH} numbers", indexes(given.vectors))
        show(f"computed for {WIKI:,} passages (wiki-18)", computed())


def show(head: str, rows: Iterator[str]) -> None:
    print(head, flush=True)
    for row in rows:
        print(f"  {row}", flush=True)
    print()


def opened(data: Data, given: argparse.Namespace) -> Iterator[tuple[str, Retriever]]:
    bm25, seconds = timed(lambda: BM25(data.corpus))
    print(f"BM25 index built in {seconds:.1f} s")
    yield "bm25", bm25
    if given.model:
        encoder = open_encoder(given.model)
        stored = Path(given.data) / "corpus_minilm_int8.npz"
        vectors = None
        if stored.is_file():
            vectors = np.load(stored)["vec"].astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        dense, seconds = timed(lambda: Dense(data.corpus, encoder, vectors=vectors))
        told = "read" if stored.is_file() else "encoded"
        print(f"dense index built in {seconds:.1f} s, vectors {told}")
        yield "dense", dense
        yield "hybrid", Hybrid(bm25, dense)
    print()


def recalls(retrievers: dict[str, Retriever], data: Data) -> Iterator[str]:
    kinds: dict[str, list[Any]] = {}
    for question in data.questions.values():
        if question.gold:
            kinds.setdefault(question.kind, []).append(question)
    yield f"{'':14}{'questions':>10}" + "".join(f"{name:>8}" for name in retrievers)
    for kind, questions in kinds.items():
        row = f"{kind:14}{len(questions):10,}"
        for retriever in retrievers.values():
            found = retriever.search([question.text for question in questions], 3)
            hits = [
                len(set(question.gold) & {passage.id for passage in passages}) / len(question.gold)
                for question, passages in zip(questions, found, strict=True)
            ]
            row += f"{100 * np.mean(hits):8.1f}"
        yield row


def latencies(
    retrievers: dict[str, Retriever], data: Data, given: argparse.Namespace
) -> Iterator[str]:
    texts = [question.text for question in data.questions.values()]
    rng = np.random.default_rng(0)
    texts = [texts[i] for i in rng.permutation(len(texts))[: given.queries]]
    heads = ("single", "p99", "batch 64", "cached", "server", "added", "its batch", "its cache")
    yield f"{'':8}" + "".join(f"{head:>10}" for head in heads)
    for name, retriever in retrievers.items():
        single = each(retriever, texts)
        batches = [texts[at : at + 64] for at in range(0, len(texts), 64)]
        batched = together(retriever, batches)
        cached = Cached(retriever)
        cached.search(texts, 3)
        again = each(cached, texts)
        with serving(retriever) as url:
            http = Http(url)
            http.search(texts[:1], 3)
            served = each(http, texts)
            served_batched = together(http, batches)
        with serving(cached) as url:
            http = Http(url)
            http.search(texts[:1], 3)
            served_again = each(http, texts)
        # paired: what a request takes beyond the search it makes
        added = statistics.median(served) - statistics.median(single)
        figures = (
            statistics.median(single),
            float(np.percentile(single, 99)),
            batched,
            statistics.median(again),
            statistics.median(served),
            added,
            served_batched,
            statistics.median(served_again),
        )
        yield f"{name:8}" + "".join(f"{figure:10.3f}" for figure in figures)


def each(retriever: Retriever, texts: list[str]) -> list[float]:
    """Milliseconds of a search for each text alone."""
    return [timed(partial(retriever.search, [text], 3))[1] * 1e3 for text in texts]


def together(retriever: Retriever, batches: list[list[str]]) -> float:
    """Milliseconds of a text when searches are made in batches."""
    seconds = sum(timed(partial(retriever.search, batch, 3))[1] for batch in batches)
    return 1e3 * seconds / sum(map(len, batches))


def steps(given: argparse.Namespace) -> Iterator[str]:
    names = ["bm25", *(["dense", "hybrid"] if given.model else [])]
    for name in names:
        if name != "bm25" and (Path(given.data) / "corpus_minilm_int8.npz").is_file():
            continue  # would encode the whole corpus, which the figures above did without
        env = gym.make(
            "SearchQA-v0", data=given.data, split="all", retriever=name, model=given.model
        )
        tasks = env.unwrapped.panel.task_ids[: given.queries]
        for told in ("new", "asked before"):
            taken = []
            for task in tasks:
                _, info = env.reset(options={"task_id": task})
                action = f"<think>x</think><search>{info['goal']}</search>"
                taken.append(timed(partial(env.step, action))[1] * 1e3)
            yield f"{name:8}{told:14}{statistics.median(taken):8.3f}"


def load(data: Data, given: argparse.Namespace) -> Iterator[str]:
    bm25 = BM25(data.corpus)
    texts = [question.text for question in data.questions.values()]
    asked = [
        [texts[(i * 97 + j * 31) % len(texts)] for j in range(given.requests)]
        for i in range(CLIENTS)
    ]
    expected = [bm25.search(queries, 3) for queries in asked]
    with serving(bm25) as url, ThreadPoolExecutor(CLIENTS) as pool:
        began = time.perf_counter()
        done = list(pool.map(lambda queries: client(url, queries), asked))
        seconds = time.perf_counter() - began
    same = all(found == right for (found, _), right in zip(done, expected, strict=True))
    taken = [each_one for _, times in done for each_one in times]
    yield f"requests a second {len(taken) / seconds:,.0f}"
    yield f"median {statistics.median(taken):.1f} ms, p99 {np.percentile(taken, 99):.1f} ms"
    yield f"answers identical to those in this process: {same}"


def client(url: str, queries: list[str]) -> tuple[list[Any], list[float]]:
    http, found, taken = Http(url), [], []
    for query in queries:
        answer, seconds = timed(partial(http.search, [query], 3))
        found.append(answer[0])
        taken.append(seconds * 1e3)
    return found, taken


def indexes(count: int) -> Iterator[str]:
    import faiss

    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    # vectors in clusters, as those of texts are
    centres = rng.normal(size=(count // 50, WIDTH)).astype(np.float32)
    vectors = centres[rng.integers(len(centres), size=count)]
    vectors += 0.7 * rng.normal(size=(count, WIDTH)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[:200] + 0.02 * rng.normal(size=(200, WIDTH)).astype(np.float32)
    exact = None
    yield f"{'':10}{'built, s':>10}{'MiB':>8}{'query, ms':>11}{'of the 10 nearest':>20}"
    for kind in INDEXES:
        index, seconds = timed(partial(build_index, kind, vectors))
        with tempfile.NamedTemporaryFile() as file:
            faiss.write_index(index, file.name)
            size = Path(file.name).stat().st_size / 2**20
        (_, found), asked = timed(partial(each_query, index, queries))
        exact = found if exact is None else exact
        share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, exact, strict=True)])
        yield f"{kind:10}{seconds:10.1f}{size:8.0f}{asked / 200 * 1e3:11.2f}{share:19.0%}"


def each_query(index: Any, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pairs = [index.search(queries[i : i + 1], 10) for i in range(len(queries))]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def computed() -> Iterator[str]:
    lists = int(4 * WIKI**0.5)
    sizes = {
        "flat": ("4 d bytes a vector", 4 * WIDTH * WIKI),
        "hnsw": ("4 d + 8 M bytes, M = 32", (4 * WIDTH + 8 * 32) * WIKI),
        "ivf_sq8": (
            f"d + 8 bytes, and 4 d for each of {lists:,} lists",
            (WIDTH + 8) * WIKI + 4 * WIDTH * lists,
        ),
    }
    for kind, (formula, size) in sizes.items():
        yield f"{kind:10}{size / 2**30:8.1f} GiB  {formula}, d = {WIDTH}"
    scanned = {"flat": WIKI, "ivf_sq8": WIKI / 8}
    for kind, vectors in scanned.items():
        width = 4 if kind == "flat" else 1
        seconds = vectors * WIDTH * width / 10e9
        yield f"{kind:10}{seconds * 1e3:8,.0f} ms a query at 10 GB/s of memory, {vectors:,.0f} read"


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = call()
    return result, time.perf_counter() - began


if __name__ == "__main__":
    main()
