"""WebShop's engine: python benchmarks/webshop.py [--data FOLDER] [--sizes 1000] [--model PATH].

With `--dial N` it prints instead, for each value of `requirements`, the success on `test` of the
experts in N episodes and, over all tasks, of scripts that do not read what holds: each picks a
product of the requested family below the limit, with the right options.

Three tables: the environment through `gym.make` with the whole info, memory, and catalogues in
growing sizes. Times are CPU time of this process on one core. The shopper searches for words of the
instruction and clicks at random, and takes another task each episode. It plays WebShop-v1, with
`--data`, a folder of the public products, WebShop-v0; with `--model`, a sentence-transformers
model, the catalogues are searched by meaning as well. The catalogues are generated products with
texts as long as those of the public 1,000 products: lengths have the same quantiles, and words
about the same frequencies.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

# This file has the name of a package beside it.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

import gymnasium as gym  # noqa: E402
import numpy as np  # noqa: E402

import agent_envs  # noqa: E402
from agent_envs.retrieval.dense import Dense  # noqa: E402
from agent_envs.retrieval.factory import open_encoder  # noqa: E402
from agent_envs.retrieval.passages import Passage  # noqa: E402
from agent_envs.webshop.catalogue import read_products  # noqa: E402
from agent_envs.webshop.experts import read_request, read_sentence  # noqa: E402
from agent_envs.webshop.search import MOST, Index, extract_terms  # noqa: E402
from agent_envs.webshop.shop import open_facts  # noqa: E402
from agent_envs.webshop.world import SEED, World  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agent_envs.webshop.catalogue import Product

QUERIES = 300
ASKED = 24  # index terms of a query, as of the mean goal of the public products

SHARES = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1)
LENGTHS = {  # quantiles at these shares, of the public 1,000 products
    "title words": (0, 8, 12, 18, 24, 29, 31, 35, 37, 41),
    "description words": (0, 0, 0, 49, 126, 216, 254, 311, 605, 2295),
    "bullets": (1, 1, 4, 5, 5, 7, 7, 8, 8, 8),
    "bullet words": (0, 3, 8, 20, 35, 51, 65, 90, 200, 449),
}
NEW = 0.55  # share of a document's words that are not taken from it again
VOCABULARY = 1_000_000
STOPPED = 0.18  # share of words that the index leaves out


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", default="", help="folder of the public products")
    options.add_argument("--steps", type=int, default=50_000)
    options.add_argument("--episodes", type=int, default=10_000, help="played to see growth")
    options.add_argument("--sizes", type=int, nargs="*", default=[1000, 100_000])
    options.add_argument("--model", default="", help="encoder of the dense search")
    options.add_argument("--dial", type=int, default=0, metavar="N", help="episodes of the experts")
    options.add_argument("--only", default="", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.dial:
        print("requirements, oracle, explorer,", ", ".join(SCRIPTS))
        for requirements in (1, 2, 3, 4):
            shares = [*play_experts(requirements, given.dial), *play_scripts(requirements)]
            print(requirements, *(f"{share:.1%}" for share in shares), flush=True)
        return
    if given.only:
        print(*alone(given), sep="\n")
        return
    print(f"{given.data or 'WebShop-v1'}; Python {sys.version.split()[0]}; CPU time of one core\n")
    for head in ("speed", "memory"):
        show(head, child(given, head))
    for size in given.sizes:
        show(f"{size:,} products as long as the public ones", child(given, str(size)))


def play_experts(requirements: int, count: int) -> Iterator[float]:
    env = gym.make("WebShop-v1", split="test", requirements=requirements)
    for name in ("oracle", "explorer"):
        solved = 0
        for task in range(0, 512, -(-512 // count)):
            env.reset(seed=task, options={"task": task})
            player, done = agent_envs.expert(env, name), False
            while not done:
                *_, terminated, truncated, info = env.step(player.act())
                done = terminated or truncated
            solved += info["success"]
        yield solved / len(range(0, 512, -(-512 // count)))


def play_scripts(requirements: int) -> Iterator[float]:
    shop = open_facts("test", requirements, SEED)
    families, products = shop.world.families, shop.products
    texts = [[*one.description.splitlines(), *one.bullets] for one in products]
    places = defaultdict(list)
    for place, family in enumerate(families):
        if products[place].prices[0] < family.limit:
            places[family.kind, family.brand].append(place)
    for script in SCRIPTS.values():
        solved = 0
        for goal in shop.goals.values():
            family = families[goal.product]
            rate = script(goal.text)
            chosen = max(places[family.kind, family.brand], key=lambda n: rate(texts[n]))
            facts = shop.world.facts[chosen]
            solved += all(facts[wish.name] == wish.holds for wish in goal.wishes)
        yield solved / len(shop.goals)


def rate_nothing(_: str) -> Callable[[list[str]], float]:
    return lambda _: 0.0


def rate_words(request: str) -> Callable[[list[str]], float]:
    """By the words that the request and the pages share."""
    asked = set(extract_terms(request.partition(". ")[2]))
    return lambda texts: len(asked & set(extract_terms(" ".join(texts))))


def rate_beginnings(request: str) -> Callable[[list[str]], float]:
    """As `rate_words`, of the first half of each sentence."""
    rate = rate_words(request)
    return lambda texts: rate([text[: len(text) // 2] for text in texts])


def rate_numbers(request: str) -> Callable[[list[str]], float]:
    """By the requirements on numbers, read without a mistake; nothing else is read."""
    wishes = [wish for wish in read_request(request).wishes if wish.number >= 0]

    def rate(texts: list[str]) -> float:
        told = {said.name: said for text in texts for said in read_sentence(text)}
        return sum(told[wish.name].meets(wish) for wish in wishes)

    return rate


SCRIPTS = {
    "the first": rate_nothing,
    "shared words": rate_words,
    "shared words of beginnings": rate_beginnings,
    "numbers alone, read rightly": rate_numbers,
}


def child(given: argparse.Namespace, what: str) -> list[str]:
    """The rows of one table, from a process of its own."""
    command = [sys.executable, __file__, "--only", what, "--data", given.data]
    command += ["--steps", str(given.steps), "--episodes", str(given.episodes)]
    command += ["--model", given.model]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def show(head: str, rows: list[str]) -> None:
    print(head, *(f"  {row}" for row in rows), "", sep="\n", flush=True)


def alone(given: argparse.Namespace) -> Iterator[str]:
    if given.only == "speed":
        yield from speed(given)
    elif given.only == "memory":
        yield from memory(given)
    else:
        yield from catalogue(int(given.only), given.model)


def make(data: str, **options: str) -> gym.Env[str, str]:
    if not data:
        return gym.make("WebShop-v1", **options)
    return gym.make("WebShop-v0", data=data, split="all", **options)


def speed(given: argparse.Namespace) -> Iterator[str]:
    env, seconds = timed(lambda: make(given.data))
    yield f"first gym.make: products, index and goals    {seconds:10.3f} s"
    _, seconds = timed(lambda: make(given.data))
    yield f"gym.make after it                            {1e3 * seconds:10.3f} ms"
    count = min(1000, given.steps)
    resets = [timed(lambda s=seed: env.reset(seed=s))[1] for seed in range(count)]
    mean = 1e3 * statistics.mean(resets)
    yield f"reset, mean of {count:<5,}                         {mean:10.3f} ms"
    for observation in ("text", "text_rich"):
        env = make(given.data, observation=observation)
        seconds = walk(env, given.steps)
        yield f"steps a second, {observation:10}                   {given.steps / seconds:10,.0f}"


def memory(given: argparse.Namespace) -> Iterator[str]:
    envs = [make(given.data) for _ in range(64)]
    for seed, env in enumerate(envs):
        walk(env, min(100, given.steps), seed=seed)
    yield f"peak memory of a process with 64 environments {peak():9.0f} MiB"
    before = after = 0
    rng = np.random.default_rng(0)
    for episode in range(given.episodes):
        play(envs[episode % 64], rng)
        if episode == given.episodes // 2:
            before = resident()
    after = resident()
    yield (
        f"growth over the last {given.episodes // 2:,} of {given.episodes:,} episodes "
        f"{after - before:9.1f} MiB"
    )


def catalogue(size: int, model: str) -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder, "products.json")
        writer = get_context("spawn").Process(target=write, args=(size, path))
        writer.start()  # in a process of its own, which leaves no freed memory here
        writer.join()
        start = resident()
        products, read = timed(lambda: read_products(*json.loads(path.read_text())))
    ids = [product.asin for product in products]
    index, built = timed(lambda: Index((product.document for product in products), ids))
    requests = list(queries(products))
    asked = [timed(lambda q=query: index.scores(q))[1] for query in requests]
    again = [timed(lambda q=query: index.search(q))[1] for query in requests * 2][len(requests) :]
    yield f"read                                         {read:10.3f} s"
    yield f"indexed                                      {built:10.3f} s"
    yield f"memory of products and index                 {resident() - start:10.1f} MiB"
    length = statistics.mean(len(extract_terms(query)) for query in requests)
    terms = statistics.mean(len(extract_terms(product.document)) for product in products[:1000])
    yield f"index terms of a product, mean of 1,000      {terms:10.1f}"
    median = 1e3 * statistics.median(asked)
    yield f"median of new queries, {length:.1f} words on average   {median:7.3f} ms"
    yield f"the slowest of {QUERIES}                           {1e3 * max(asked):10.3f} ms"
    yield f"a query asked before                         {1e6 * statistics.median(again):10.3f} µs"
    if model:
        yield from dense([product.document for product in products], requests, model)


def write(size: int, path: Path) -> None:
    """So many products and their attributes as a file."""
    records, known = [], {}
    made = World("train", 1).products
    for number in range(size):
        one, asin = made[number % len(made)], f"B{number:09}"
        options = {name: [{"value": v} for v in values] for name, values in one.options.items()}
        texts = {"name": one.title, "full_description": one.description, "pricing": one.price_tag}
        texts |= dict.fromkeys(("product_category", "category", "query"), one.title)
        texts |= {"small_description": list(one.bullets), "customization_options": options}
        records.append({"asin": asin, **texts})
        known[asin] = {"attributes": ["new"], "instruction_attributes": ["new"]}
        known[asin] |= {"instruction": one.title}
    path.write_text(json.dumps([lengthened(records), known]))


def lengthened(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records with more words in their texts, drawn from a vocabulary with a long tail."""
    rng = np.random.default_rng(0)
    rank = np.arange(VOCABULARY)
    weight = (rank + 10.0) ** -0.85 / (1 + rank / 2500)
    ends = np.cumsum(weight / weight.sum())

    def length(kind: str) -> int:
        return round(float(np.interp(rng.random(), SHARES, LENGTHS[kind])))

    for record in records:
        wanted = [length("title words"), length("description words")]
        wanted += [length("bullet words") for _ in range(length("bullets"))]
        count = sum(wanted)
        fresh = np.searchsorted(ends, rng.random(round(NEW * count) + 1))
        drawn = np.concatenate([fresh, rng.choice(fresh, size=count)])[:count]
        text = np.array(
            [spelled(number) for number in rng.permutation(drawn).tolist()], dtype=object
        )
        text[rng.random(count) < STOPPED] = "the"
        parts = iter(np.split(text, np.cumsum(wanted)))
        record["name"] += f" {' '.join(next(parts))}"
        record["full_description"] += f" {' '.join(next(parts))}"
        told = [" ".join(part) for _, part in zip(wanted[2:], parts, strict=False)]
        record["small_description"] = [*record["small_description"][:1], *told[1:]]
        record["small_description"][0] += f" {told[0]}"
    return records


@cache
def spelled(number: int) -> str:
    """A word of its own for each number, longer for rarer ones."""
    syllables = ("ba", "co", "di", "fu", "ga", "ke", "lo", "mi", "nu", "pa", "re", "so", "ti", "vu")
    word = syllables[number % len(syllables)]
    while number >= len(syllables):
        number //= len(syllables)
        word += syllables[number % len(syllables)]
    return word


def queries(products: list[Product]) -> Iterator[str]:
    """A request, with words of its product up to the length of the public goals."""
    rng = np.random.default_rng(1)
    asked = [product for product in products if product.instruction[0]][:QUERIES]
    for product in asked:
        text = product.instruction[0]
        more = rng.permutation(product.document.split()).tolist()
        yield " ".join([text, *more[: max(0, ASKED - len(extract_terms(text)))]])


def dense(documents: list[str], queries: list[str], model: str) -> Iterator[str]:
    encoder = open_encoder(model)
    encoder.encode_queries(queries[:1])
    start = resident()
    passages = [Passage(str(i), "", document) for i, document in enumerate(documents)]
    searched, built = timed(lambda: Dense(passages, encoder))
    asked = [timed(lambda q=query: searched.search([q], MOST))[1] for query in queries]
    yield f"dense: encoded and indexed                   {built:10.3f} s"
    yield f"dense: memory of the index                   {resident() - start:10.1f} MiB"
    yield f"dense: median of new queries                 {1e3 * statistics.median(asked):10.3f} ms"
    yield f"dense: the slowest of {QUERIES}                    {1e3 * max(asked):10.3f} ms"


def walk(env: gym.Env[str, str], steps: int, seed: int = 0) -> float:
    """CPU seconds of so many steps of a random shopper, resets included."""
    rng = np.random.default_rng(seed)
    start, done = time.process_time(), 0
    while done < steps:
        done += play(env, rng)
    return time.process_time() - start


def play(env: gym.Env[str, str], rng: np.random.Generator) -> int:
    """One episode of the random shopper: its number of steps."""
    _, info = env.reset(seed=int(rng.integers(2**31)))
    asked = info["goal"].split()
    while True:
        actions = info["admissible_actions"]
        action = actions[rng.integers(len(actions))]
        if action.startswith("search"):
            first = rng.integers(len(asked))
            action = f"search[{' '.join(asked[first : first + 4])}]"
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return int(info["turn"])


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
