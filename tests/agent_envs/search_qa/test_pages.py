"""Pages: passages by title, their sections, and the search of titles."""

from __future__ import annotations

import copy

import pytest
from agent_envs.search_qa.pages import Pages, Section, slug, split

from agent_envs.retrieval.passages import Passage

CORPUS = [
    Passage("1", "Chad", "# History\nOld.\n## Since 1960\nNew."),
    Passage("2", "Lake Chad", "Shallow."),
    Passage("3", "Chad", "More.\n# History\nAgain."),
    Passage("4", "", "Untitled."),
    Passage("5", "", "Untitled too."),
    Passage("6", "N’Djaména", "Before.\n#Sights\n"),
]


def test_passages_of_one_title_are_one_page_under_the_first_ones_id():
    pages = Pages(CORPUS)
    assert [p.id for p in pages.passages("1")] == [p.id for p in pages.titled("Chad")] == ["1", "3"]
    assert pages.passages("3") is None  # inside a page
    assert pages.passages("nowhere") is None
    assert pages.titled("chad") == []


def test_passages_without_a_title_are_pages_by_themselves():
    pages = Pages(CORPUS)
    assert [p.id for p in pages.passages("4")] == ["4"]
    assert [p.id for p in pages.passages("5")] == ["5"]
    assert pages.titled("") == []


def test_sections_go_from_heading_to_heading():
    assert Pages(CORPUS).sections("1") == [
        Section("1:history", "History", "# History\nOld."),
        Section("1:since_1960", "Since 1960", "## Since 1960\nNew.\nMore."),
        Section("1:history", "History", "# History\nAgain."),
    ]
    assert Pages(CORPUS).sections("6") == [
        Section("6:introduction", "Introduction", "Before."),
        Section("6:sights", "Sights", "#Sights\n"),
    ]


def test_a_page_without_headings_is_one_section():
    assert Pages(CORPUS).sections("2") == [Section("2:full", "Full Page", "Shallow.")]
    assert Pages(CORPUS).sections("nowhere") is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("\n \n# A\n", ["A"]),  # blanks before a heading are no introduction
        ("#\ntext", ["Introduction"]),
        (" # A", ["Full Page"]),  # a heading begins its line
        ("", ["Full Page"]),
    ],
)
def test_what_is_a_section(text, names):
    assert [section.name for section in split("p", text)] == names


def test_slugs():
    assert slug("Early Life É") == "early_life_é"


def test_titles_are_searched_and_texts_are_not():
    pages = Pages(CORPUS)
    assert [(p.id, p.title, p.text) for p in pages.search("chad")] == [
        ("1", "Chad", ""),
        ("2", "Lake Chad", ""),
    ]
    assert [p.id for p in pages.search("NDJAMENA n")] == ["6"]
    assert pages.search("shallow") == []
    assert pages.search("") == []


def test_ten_pages_at_most_are_found():
    pages = Pages([Passage(str(i), f"Lake {i}", "") for i in range(30)])
    assert [p.id for p in pages.search("lake")] == [str(i) for i in range(10)]


def test_copies_of_pages_are_the_pages():
    pages = Pages(CORPUS)
    assert copy.deepcopy(pages) is pages
