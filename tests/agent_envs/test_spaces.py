import copy

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import (
    batch_space,
    create_shared_memory,
    iterate,
    read_from_shared_memory,
    write_to_shared_memory,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs import FreeText

ANY_TEXT = st.text(st.characters(codec=None), max_size=50)


@pytest.mark.parametrize("text", ["", "a", "x" * 10, "漢字", "🎉" * 10, "\x00\x1b", "\ud800", "\n"])
def test_any_string_up_to_the_length_is_in(text):
    assert text in FreeText(10)


@pytest.mark.parametrize("value", ["x" * 11, 3, None, b"abc", ["a"], np.array(["a"])])
def test_longer_ones_and_other_things_are_not(value):
    assert value not in FreeText(10)


def test_samples_are_short_printable_and_seeded():
    space, again = FreeText(4096, seed=3), FreeText(4096, seed=3)
    texts = [space.sample() for _ in range(200)]
    assert texts == [again.sample() for _ in range(200)]
    assert {len(t) for t in texts} >= {0, 80}
    assert max(map(len, texts)) == 80
    assert all(t.isascii() and t.isprintable() for t in texts)
    assert all(len(FreeText(3, seed=i).sample()) <= 3 for i in range(50))
    assert FreeText(10) == FreeText(10) != FreeText(11) != spaces.Text(10, min_length=0)
    assert copy.deepcopy(space) == space


def test_batches_are_tuples_with_a_generator_each():
    batch = batch_space(FreeText(50, seed=1), 3)
    assert ("", "é", "x" * 50) in batch
    assert len(set(batch.sample())) == 3
    assert list(iterate(batch, ("a", "b", "c"))) == ["a", "b", "c"]


@settings(max_examples=50, deadline=None)
@given(st.lists(ANY_TEXT, min_size=1, max_size=4))
def test_shared_memory_gives_back_what_was_written_last(texts):
    space = FreeText(50)
    memory = create_shared_memory(space, n=len(texts))
    seen = read_from_shared_memory(space, memory, n=len(texts))
    assert tuple(seen) == ("",) * len(texts)
    for index, text in enumerate(texts):
        write_to_shared_memory(space, index, "x" * 50, memory)
        write_to_shared_memory(space, index, text, memory)
    assert tuple(seen) == tuple(texts)
    assert seen[-1] == texts[-1]
    assert seen[:1] == (texts[0],)


def test_a_deep_copy_of_shared_texts_stays_as_it_was():
    space = FreeText(5)
    memory = create_shared_memory(space, n=2)
    seen = read_from_shared_memory(space, memory, n=2)
    write_to_shared_memory(space, 0, "one", memory)
    kept = copy.deepcopy(seen)
    write_to_shared_memory(space, 0, "two", memory)
    assert kept == ("one", "")
    assert repr(seen) == "SharedTexts('two', '')"
    assert kept in batch_space(space, 2)


def test_a_text_too_long_for_the_memory_is_refused():
    space = FreeText(5)
    with pytest.raises(ValueError, match=r"at most 5 characters, got 6.*shared_memory=False"):
        write_to_shared_memory(space, 0, "x" * 6, create_shared_memory(space))
