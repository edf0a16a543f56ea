"""Answers: normalisation and comparison as in SQuAD and Search-R1.

Not supported: numbers in words, folding of diacritics.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_CLOSED = {"yes", "no", "noanswer"}


@lru_cache(maxsize=4096)  # the same passages are found repeatedly
def normalised(text: str) -> str:
    """Lower-case `text` and remove ASCII punctuation, articles and extra spaces, in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def told(golds: Sequence[str] | str) -> list[str]:
    """The normalised accepted answers, without those that become empty, such as "the"."""
    golds = [golds] if isinstance(golds, str) else golds
    return [kept for kept in map(normalised, golds) if kept]


def exact_match(answer: str, golds: Sequence[str] | str) -> float:
    """1 if the normalised answer is an accepted one, else 0."""
    return float(normalised(answer) in told(golds))


def sub_exact_match(answer: str, golds: Sequence[str] | str) -> float:
    """1 if the normalised answer contains an accepted answer, in whole words; else 0."""
    return float(any(stands_in(gold, normalised(answer)) for gold in told(golds)))


def stands_in(gold: str, text: str) -> bool:
    """Whether `text` contains the words of `gold` in sequence, both normalised."""
    return f" {gold} " in f" {text} "


def f1(answer: str, golds: Sequence[str] | str) -> float:
    """The best F1 of the answer's words with those of an accepted answer (Rajpurkar et al., 2016).

    0 if one of them is "yes", "no" or "noanswer" and the other differs (Yang et al., HotpotQA).
    """
    given = normalised(answer)
    return max((_overlap(given, gold) for gold in told(golds)), default=0.0)


def _overlap(given: str, gold: str) -> float:
    if given != gold and not _CLOSED.isdisjoint((given, gold)):
        return 0.0
    ours, theirs = given.split(), gold.split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def in_any(golds: Sequence[str] | str, texts: Iterable[str]) -> bool:
    """Whether one of the texts contains an accepted answer, in whole words."""
    accepted = told(golds)
    return any(stands_in(gold, normalised(text)) for text in texts for gold in accepted)


METRICS: dict[str, Callable[[str, Sequence[str] | str], float]] = {
    "em": exact_match,
    "f1": f1,
    "sub_em": sub_exact_match,
}
