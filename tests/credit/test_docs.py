"""The pages on credit: every Python block runs and prints the text block below it."""

import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest

import credit

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
BLOCKS = [
    pytest.param(found[1], found[2], id=f"{page}:{text[: found.start()].count(chr(10)) + 1}")
    for page in ("credit.md", "credit_examples.md")
    for text in [(DOCS / page).read_text()]
    for found in BLOCK.finditer(text)
]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_block_prints_what_the_page_shows(code, printed, tmp_path, capsys):
    (tmp_path / "block.py").write_text(code)
    runpy.run_path(str(tmp_path / "block.py"))
    assert printed is not None, "a text block with the output must follow"
    assert capsys.readouterr().out == printed


def test_every_method_has_a_section():
    headings = "\n".join(re.findall(r"^## .*`.*$", (DOCS / "credit.md").read_text(), re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", headings)) == set(credit.names())


SECTIONS = {
    name: body
    for title, body in re.findall(
        r"^## (.*`.*)\n((?:(?!## ).*\n)*)", (DOCS / "credit.md").read_text(), re.MULTILINE
    )
    for name in re.findall(r"`(\w+)`", title)
}


@pytest.mark.parametrize("name", credit.names())
def test_a_section_names_every_option_and_the_default_of_a_number(name):
    for option in fields(credit.make(name)):
        shown = {f"`{option.name}`", f"`{option.name}="}
        if isinstance(option.default, float | int):
            shown = {f"`{option.name}` ({option.default:g}".replace("e-0", "e-")}
        assert any(one in SECTIONS[name] for one in shown), shown
