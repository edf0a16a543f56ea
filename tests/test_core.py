"""docs/core.md names the files, functions and sizes that are there."""

import re

import pytest

from tools.budget import ROOT, count_code

PAGE = (ROOT / "docs/core.md").read_text(encoding="utf-8")
FILES = re.findall(r"\| `(src/\S+)` \| ([\d,]+) \|", PAGE)


@pytest.mark.parametrize(("file", "said"), FILES)
def test_the_size_of_a_file_is_as_the_page_says(file, said):
    lines = count_code((ROOT / file).read_text(encoding="utf-8"))
    assert lines == pytest.approx(int(said.replace(",", "")), rel=0.1)


def test_the_core_can_be_read_in_one_sitting():
    texts = [(ROOT / file).read_text(encoding="utf-8") for file, _ in FILES]
    assert sum(map(count_code, texts)) <= 2000


def test_every_name_on_the_page_is_in_the_source():
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))
    )
    names = set(re.findall(r"`(?:\w+\.)*(\w+)`", PAGE)) - {"dpo", "src"}
    missing = {name for name in names if not re.search(rf"\b{name}\b", source)}
    assert not missing
    assert len(FILES) > 10
