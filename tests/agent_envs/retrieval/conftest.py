"""The public questions with their passages, and the recall of a retriever on them."""

import gzip
import json

import numpy as np
import pytest

from agent_envs.retrieval.passages import Corpus


@pytest.fixture(scope="session")
def real(shared_data):
    """The passages, the questions and their folder."""
    folder = shared_data / "search_qa"
    lines = gzip.decompress((folder / "qa.jsonl.gz").read_bytes()).decode().splitlines()
    return Corpus(folder / "corpus.jsonl.gz"), [json.loads(line) for line in lines], folder


@pytest.fixture(scope="session")
def recall():
    """Measures the recall of gold passages at 3 with the question as the query."""

    def measure(retriever, questions, dataset, most=None):
        chosen = [q for q in questions if q["dataset"] == dataset and q["gold"]][:most]
        results = retriever.search([q["question"] for q in chosen], 3)
        hits = [
            len(set(q["gold"]) & {passage.id for passage in found}) / len(q["gold"])
            for q, found in zip(chosen, results, strict=True)
        ]
        return float(np.mean(hits))

    return measure
