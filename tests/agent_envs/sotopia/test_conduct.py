"""Insults, slurs, threats and violence in lines of ordinary English, and what is none of them."""

import time
from itertools import groupby

import pytest

from agent_envs.sotopia.conduct import Harm, find_harm
from tests.agent_envs.sotopia.samples import read_lines

ROWS = groupby(read_lines("conduct"), key=lambda row: row["harm"])
LINES = {harm: [row["text"] for row in rows] for harm, rows in ROWS}


@pytest.mark.parametrize("kind", LINES)
def test_lines(kind):
    """Each line with a kind of harm has it, and those with none ("") have no other."""
    for line in LINES[kind]:
        deed = line.startswith("[")
        found = find_harm(line.partition("] ")[2] if deed else line, deed=deed)
        assert getattr(found, kind) if kind else not any(found), line


def test_severity():
    rude = [Harm(*(kind == one for kind in range(4))).rude for one in range(5)]
    assert rude == [1, 2, 2, 4, 0]  # an insult, a slur, a threat, violence, nothing
    assert Harm(insults=True, slurs=True).rude == 3


@pytest.mark.parametrize("word", ["fool", "i will", "that", "you", "something", "or"])
def test_long_lines_are_read_in_bounded_time(word):
    start = time.process_time()
    for deed in (False, True):
        find_harm(f"{word} " * 800, deed=deed)
    assert time.process_time() - start < 3


def test_a_note_with_a_name_insults():
    assert find_harm("holds up a note: you are an idiot", deed=True).insults
    assert not find_harm("holds up a note: see you at nine", deed=True).insults
    assert not find_harm("looks at the idiot in the street", deed=True).insults
