"""`open_retriever`: retrievers by name, made once per process, corpus and options."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.options import require_methods
from agent_envs.panels import one_of
from agent_envs.retrieval.bm25 import BM25
from agent_envs.retrieval.client import Http
from agent_envs.retrieval.combine import Cached, Hybrid
from agent_envs.retrieval.dense import E5, Dense, Encoder

if TYPE_CHECKING:
    from agent_envs.retrieval.corpus import Corpus
    from agent_envs.retrieval.passages import Retriever

NAMES = ("bm25", "dense", "hybrid")
MODEL = "AGENT_ENVS_DENSE_MODEL"
"""The environment variable with the default encoder."""
_REMEMBERED = 10_000  # queries


def open_retriever(
    named: str | Retriever, corpus: Corpus | None, *, model: str = "", index: str = "flat"
) -> Retriever:
    """A retriever by name ("bm25", "dense", "hybrid") or by the URL of a server.

    It caches the results of 10,000 queries. A retriever object is returned unchanged.

    Args:
        named: The name, URL or retriever.
        corpus: The corpus that "bm25", "dense" and "hybrid" search.
        model: The encoder of "dense" and "hybrid", a sentence-transformers path or name; "" for
            `$AGENT_ENVS_DENSE_MODEL`. Models with "e5" in their name get E5's prefixes.
        index: The kind of dense index, or a folder that `agent-envs retrieval index` wrote.

    Raises:
        ValueError: An unknown name, no corpus to search, or no model.
        TypeError: Neither a name nor a retriever.
    """
    if not isinstance(named, str):
        require_methods("retriever", named, "search")
        return named
    if named.startswith(("http://", "https://")):
        return Cached(Http(named), size=_REMEMBERED)
    one_of("retriever", named, NAMES)
    if corpus is None:
        raise ValueError(
            f"retriever {named!r} needs a corpus, and the data folder has no corpus.jsonl; put one "
            "there or give the URL of a retrieval server"
        )
    return _shared(named, corpus, model or default_model(), index)


def default_model() -> str:
    """The value of `$AGENT_ENVS_DENSE_MODEL`, or ""."""
    return os.environ.get(MODEL, "")


def encoder_of(model: str) -> Encoder:
    """The encoder with that path or name, with E5's prefixes if its name contains "e5".

    Raises:
        ValueError: An empty name.
    """
    if not model:
        raise ValueError(f"dense retrieval needs an encoder: give model=, or set ${MODEL}")
    prefixes = E5 if "e5" in Path(model).name.lower() else ("", "")
    return Encoder(model, prefixes=prefixes)


class SharedRetriever(Cached):
    """A retriever made by name; a copy of it in the same process is the same object."""

    def __init__(self, named: str, corpus: Corpus, model: str, index: str) -> None:
        self._how = named, corpus, model, index
        super().__init__(_made(named, corpus, model, index), size=_REMEMBERED)

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared, self._how


@lru_cache(maxsize=8)
def _shared(named: str, corpus: Corpus, model: str, index: str) -> SharedRetriever:
    return SharedRetriever(named, corpus, model, index)


def _made(named: str, corpus: Corpus, model: str, index: str) -> Retriever:
    if named == "bm25":
        return BM25(corpus)
    encoder, folder = encoder_of(model), Path(index)
    kept = folder.is_dir()
    dense = Dense.load(folder, corpus, encoder) if kept else Dense(corpus, encoder, index=index)
    return dense if named == "dense" else Hybrid(BM25(corpus), dense)
