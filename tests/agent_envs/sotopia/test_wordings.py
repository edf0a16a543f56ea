"""The sentences of `val` and `test`: no cue of their surface shows which of two things holds.

Who has learned the sentences of `train` by single words must not read those of the other splits.
"""

import re
from collections import Counter

import numpy as np
import pytest

from agent_envs.sotopia.scene import WORLD

WORDINGS = WORLD["wordings"]
HELD_OUT = [(kind, split) for kind in WORDINGS for split in ("val", "test")]
NEAR = 3
CUES = {
    "self": {"i", "me", "my", "mine", "we", "us", "our"},
    "negation": {"not", "no", "never", "cannot", "nor", "nothing", "none", "without", "except"},
    "time": {"now", "today", "once", "last", "ago", "before", "after", "old", "new", "since"},
    "verb": {"need", "pay", "want", "is", "was", "has", "had", "have", "would", "will", "says"},
    "topic": {"{topic}"},
}


def split_words(sentence):
    return re.findall(r"\{\w+\}|[\w']+|[.,;:?]", sentence.lower())


TRAIN_WORDS = {
    word for lists in WORDINGS.values() for text in lists["train"] for word in split_words(text)
}


def list_near(sentence, slot):
    """The words near a slot, with their distance: negative to its left."""
    words = split_words(sentence)
    place = words.index(slot)
    return [(at - place, word) for at, word in enumerate(words) if at != place]


def compare(sentence):
    """What stands near {yes} less what stands near {no}, by word, side and clause; and the order.

    The order is 1 if {yes} is first. Of a list without {yes} and {no} nothing is compared.
    """
    found = Counter({"order": 1 if sentence.index("{yes}") < sentence.index("{no}") else -1})
    for slot, sign in (("{yes}", 1), ("{no}", -1)):
        clause = next(part for part in re.split(r"[.,;:?]", sentence) if slot in part)
        for word in split_words(clause):
            found["clause", word] += sign
        for distance, word in list_near(sentence, slot):
            if abs(distance) <= NEAR:
                found["near", word] += sign
                found["left" if distance < 0 else "right", word] += sign
                found[distance, word] += sign
    return {
        name: value for name, value in found.items() if "{yes}" not in name and "{no}" not in name
    }


def fit_reader(sentences, penalty):
    """Weights of a logistic regression that tells {yes} from {no}, by what `compare` returns."""
    found = [compare(text) for text in sentences]
    names = sorted({name for one in found for name in one}, key=repr)
    given = np.array([[one.get(name, 0) for name in names] for one in found], float)
    weights = np.zeros(len(names))
    for _ in range(2000):
        wrong = 1 / (1 + np.exp(given @ weights))
        weights += 0.02 * (given.T @ wrong - penalty * weights)
    return dict(zip(names, weights, strict=True))


def count_read(weights, sentences):
    """How many sentences are read; one of which nothing is known counts half."""
    sums = [sum(weights.get(n, 0) * v for n, v in compare(text).items()) for text in sentences]
    return sum((total > 1e-9) + 0.5 * (abs(total) <= 1e-9) for total in sums)


@pytest.mark.parametrize("penalty", [0.1, 1, 10])
def test_a_reader_of_words_that_learned_the_sentences_of_train_reads_no_others(penalty):
    """In each list at most one sentence above half: 6 of 10, 4 of 6."""
    pooled = [text for kind, lists in WORDINGS.items() if kind != "if" for text in lists["train"]]
    everything = fit_reader(pooled, penalty)
    assert count_read(everything, pooled) > 0.9 * len(pooled)
    for kind, split in HELD_OUT:
        own = fit_reader(WORDINGS[kind]["train"], penalty)
        for reader in (everything, own):
            texts = WORDINGS[kind][split]
            assert count_read(reader, texts) <= len(texts) / 2 + 1, (kind, split)


@pytest.mark.parametrize("split", ["val", "test"])
def test_words_of_train_do_not_tell_only_from_never(split):
    seen = {
        kind: Counter(split_words(" ".join(WORDINGS[kind]["train"]))) for kind in ("only", "never")
    }
    weights = {
        word: np.log((seen["only"][word] + 1) / (seen["never"][word] + 1)) for word in TRAIN_WORDS
    }
    right = []
    for kind, sign in (("only", 1), ("never", -1)):
        for text in WORDINGS[kind][split]:
            total = sign * sum(weights.get(word, 0) for word in split_words(text))
            right.append((total > 1e-9) + 0.5 * (abs(total) <= 1e-9))
    assert sum(right) <= len(right) / 2 + 1


@pytest.mark.parametrize(("kind", "split"), HELD_OUT)
def test_no_cue_is_nearer_to_what_holds(kind, split):
    """In each list a cue is nearer to {yes} as often as to {no}, and before both as often."""
    texts = WORDINGS[kind][split]
    assert sum(text.index("{yes}") < text.index("{no}") for text in texts) * 2 == len(texts)
    for name, words in CUES.items():
        nearer, before = 0, 0
        for text in texts:
            least, count = {}, {}
            for slot in ("{yes}", "{no}"):
                at = [distance for distance, word in list_near(text, slot) if word in words]
                least[slot] = min(map(abs, at), default=0)
                count[slot] = sum(-NEAR <= distance < 0 for distance in at)
            nearer += np.sign(least["{no}"] - least["{yes}"])
            before += count["{yes}"] - count["{no}"]
        assert abs(nearer) <= 1, (name, nearer)
        assert abs(before) <= 1, (name, before)


@pytest.mark.parametrize(("kind", "split"), HELD_OUT)
def test_a_word_of_train_is_as_often_near_what_holds(kind, split):
    """On each side of {yes} at most once more or less than of {no}."""
    found = Counter()
    for text in WORDINGS[kind][split]:
        for slot, sign in (("{yes}", 1), ("{no}", -1)):
            for distance, word in list_near(text, slot):
                if abs(distance) <= NEAR and word in TRAIN_WORDS and word[0] != "{":
                    found[distance < 0, word] += sign
    assert {one: more for one, more in found.items() if abs(more) > 1} == {}
