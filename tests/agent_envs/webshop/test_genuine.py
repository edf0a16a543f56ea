"""Our analyzer and search against Lucene's own, as Anserini 0.22.1 has them: `.ci/lucene`.

`ANSERINI_JAR` is its fat jar, which pyserini's wheel carries; a JDK's `java` runs Lucene.java.
"""

import base64
import gzip
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_envs.webshop import search
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.search import Index, extract_terms
from agent_envs.webshop.shop import open_shop

pytestmark = pytest.mark.genuine

HERE = Path(__file__)


@pytest.fixture(scope="module")
def lucene():
    """Runs Lucene.java on texts: its lines, as bytes."""
    jar, java = os.environ.get("ANSERINI_JAR", ""), shutil.which("java")
    if not Path(jar).is_file() or java is None:
        pytest.skip("no Java, or no jar at ANSERINI_JAR; run .ci/lucene")

    def run(*command, texts=()):
        lines = b"".join(base64.b64encode(text.encode()) + b"\n" for text in texts)
        source = HERE.with_name("Lucene.java")
        done = subprocess.run(
            [java, "-cp", jar, source, *command], input=lines, capture_output=True, check=True
        )
        return done.stdout.decode().splitlines()

    return run


@pytest.fixture(scope="module")
def genuine(lucene):
    """The index terms of each text, as Lucene has them."""

    def terms(texts):
        found = lucene("words", texts=texts)
        assert len(found) == len(texts)
        return [[base64.b64decode(word).decode() for word in line.split()] for line in found]

    return terms


def agree(genuine, texts):
    differ = [
        (ascii(text), ours, theirs)
        for text, theirs in zip(texts, genuine(texts), strict=True)
        if (ours := extract_terms(text)) != theirs
    ]
    assert not differ, (len(differ), differ[:3])


def test_the_table_of_classes_is_lucenes(lucene):
    table = Path(search.__file__).with_name("word_breaks.txt").read_text(encoding="ascii")
    assert lucene("classes") == table.splitlines()


def test_every_code_point_alone_and_in_words(genuine):
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    agree(genuine, [chr(code) for code in codes])
    assigned = [code for code in codes if search._CLASSES[code] != "o" or code < 0x3000]
    agree(genuine, [f"a{c}b {c}s 1{c}2 \u05d0{c}\u05d1" for c in map(chr, assigned)])


def test_documents_goals_and_ranks(lucene, genuine, real, shared_data, tmp_path):
    """Of every product, and on real queries."""
    packed = (shared_data / "webshop" / "human_goal_texts.json.gz").read_bytes()
    people = json.loads(gzip.decompress(packed))
    shop = open_shop(open_catalogue(real), "synthetic", 0, False)
    products, goals = shop.catalogue.products, sorted({g.text for g in shop.goals.values()})
    agree(genuine, [*people, *goals, *(product.document for product in products)])
    rng = random.Random(5)
    index = Index((product.document for product in products), [p.asin for p in products])
    texts = [" ".join(product.document.split()) for product in products]
    queries = sorted({product.instruction[0] for product in products} - {""})
    queries += rng.sample(people, 600) + rng.sample(goals, 300)
    queries += [" ".join(rng.sample(rng.choice(texts).split()[:60], 3)) for _ in range(300)]
    queries = [query.lower() for query in dict.fromkeys(queries)]
    folder = tmp_path / "documents"
    folder.mkdir()
    lines = [json.dumps({"id": p.asin, "contents": p.document}) for p in products]
    (folder / "documents.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = lucene("search", folder, tmp_path / "index", texts=queries)
    for query, line in zip(queries, found, strict=True):
        theirs = [result.rpartition(":") for result in line.split()]
        places, scores = index.scores(query)
        assert [products[place].asin for place in places] == [asin for asin, _, _ in theirs], query
        # Anserini prints four decimals, and takes a millionth more off each of equal scores
        assert scores.tolist() == pytest.approx([float(s) for _, _, s in theirs], abs=1.1e-4)
