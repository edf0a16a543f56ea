"""Every relative link of the Markdown files leads to a file and a heading of the repository."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "examples", "benchmarks", "src", "tests", "tools", "env_assets", ".github")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
)
CODE = r"^( *)(```|~~~).*?^\1\2$|(?<!`)(`+)(?!`).*?(?<!`)\3(?!`)"
LINK = r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)"


def prose(page):
    """The text of a page without code."""
    return re.sub(CODE, "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def slug(heading):
    """The fragment that GitHub and MyST give a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@cache
def fragments(page):
    text = re.sub(
        r"^( *)```.*?^\1```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    found, seen = set(re.findall(r'<a (?:id|name)="([^"]+)"', text)), {}
    for heading in re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE):
        name = slug(heading)
        count = seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def broken(page):
    """The relative links of a page that lead nowhere."""
    found = []
    for link in re.findall(LINK, prose(page)):
        path, _, fragment = link.partition("#")
        if re.match(r"[a-z][a-z+.-]*:|/", path):
            continue
        target = (page.parent / unquote(path)).resolve() if path else page
        inside = target.is_relative_to(ROOT) and target.exists()
        named = not fragment or target.suffix != ".md" or unquote(fragment) in fragments(target)
        if not (inside and named):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_work_in_the_repository(page):
    assert not broken(page)


@pytest.mark.parametrize("folder", ["src", "tools"])
def test_code_names_headings_that_are_there(folder):
    """Pages that the site writes link to these; settings and published numbers are written, too."""
    lost = []
    for file in (ROOT / folder).rglob("*.py"):
        for path, fragment in re.findall(r"([\w/]+\.md)#([\w-]+)", file.read_text("utf-8")):
            page = next((one for one in (ROOT / "docs" / path, ROOT / path) if one.is_file()), None)
            if page and fragment not in fragments(page):
                lost.append(f"{file.relative_to(ROOT)}: {path}#{fragment}")
    assert not lost
