"""The Python blocks of README and of the environments' pages run, each in an empty folder.

A block of text directly below one is what it prints.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md", "docs/appworld.md", "docs/audit.md", "docs/environments.md",
    "docs/integrations.md", "docs/integrations/gymnasium.md", "docs/puzzles.md",
    "docs/search_qa.md", "docs/sotopia.md", "docs/webshop.md",
)  # fmt: skip
GATE = ("README.md", "docs/environments.md", "docs/integrations.md")  # the others are `long`
BROWSER = pytest.mark.skipif(not shutil.which("chromedriver"), reason="no Chromium")
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
BLOCKS = [
    pytest.param(
        found[1],
        found[2],
        id=f"{page}:{text[: found.start(1)].count(chr(10)) + 1}",
        marks=[BROWSER] * ("WebShopSite" in found[1]) + [pytest.mark.long] * (page not in GATE),
    )
    for page in PAGES
    for text in [(ROOT / page).read_text()]
    for found in BLOCK.finditer(text)
]


@pytest.mark.parametrize(("block", "printed"), BLOCKS)
def test_block_runs(block, printed, tmp_path):
    (tmp_path / "block.py").write_text(block)
    (tmp_path / "home").mkdir()
    child = subprocess.run(
        [sys.executable, "-W", "error", "block.py"],
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert printed is None or child.stdout == printed


def test_every_page_shows_something_that_runs():
    assert {param.id.partition(":")[0] for param in BLOCKS} == set(PAGES)


WRITTEN = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", WRITTEN)
def test_no_page_has_a_place_that_was_never_filled(page):
    text = re.sub(r"```.*?```|`[^`]*`|\([^)]*\)", "", (ROOT / page).read_text(), flags=re.DOTALL)
    known = {"CHANGELOG", "CITATION", "CONTRIBUTING", "REINFORCE"}
    assert not re.findall(r"@@|TODO|FIXME", text)
    assert not set(re.findall(r"\b[A-Z]{8,}\b", text)) - known
