"""Answers: normalisation and comparison as in SQuAD and Search-R1.

Not supported: numbers in words, folding of diacritics.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
CLOSED = {"yes", "no", "noanswer"}


@lru_cache(maxsize=4096)  # the same passages are found repeatedly
def normalise(text: str) -> str:
    """Lower-case `text` and remove ASCII punctuation, articles and extra spaces, in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def normalise_golds(golds: Sequence[str] | str) -> list[str]:
    """The normalised accepted answers, without those that become empty, such as "the"."""
    golds = [golds] if isinstance(golds, str) else golds
    return [gold for gold in map(normalise, golds) if gold]


def exact_match(answer: str, golds: Sequence[str] | str) -> float:
    """1 if the normalised answer is an accepted one, else 0."""
    return float(normalise(answer) in normalise_golds(golds))


def sub_exact_match(answer: str, golds: Sequence[str] | str) -> float:
    """1 if the normalised answer contains an accepted answer, in whole words; else 0."""
    return float(any(stands_in(gold, normalise(answer)) for gold in normalise_golds(golds)))


def stands_in(gold: str, text: str) -> bool:
    """Whether `text` contains the words of `gold` in sequence, both normalised."""
    return f" {gold} " in f" {text} "


def f1(answer: str, golds: Sequence[str] | str) -> float:
    """The best F1 of the answer's words with those of an accepted answer (Rajpurkar et al., 2016).

    0 if one of them is "yes", "no" or "noanswer" and the other differs (Yang et al., HotpotQA).
    """
    given = normalise(answer)
    open_golds = [g for g in normalise_golds(golds) if g == given or CLOSED.isdisjoint((g, given))]
    return max((measure_overlap(given, gold) for gold in open_golds), default=0.0)


def measure_overlap(given: str, gold: str) -> float:
    """The F1 of the words of two texts."""
    ours, theirs = given.split(), gold.split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def in_any(golds: Sequence[str] | str, texts: Iterable[str]) -> bool:
    """Whether one of the texts contains an accepted answer, in whole words."""
    accepted = normalise_golds(golds)
    return any(stands_in(gold, normalise(text)) for text in texts for gold in accepted)


METRICS: dict[str, Callable[[str, Sequence[str] | str], float]] = {
    "em": exact_match,
    "f1": f1,
    "sub_em": sub_exact_match,
}
