"""Write the pages of the documentation site, run Sphinx strictly, and check the site.

The sources are put together in FOLDER (build/site) / source: a copy of docs/, what is written from
the code, and the pages that lie elsewhere in the repository. The site is in FOLDER / html.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site import environments, extras, methods, papers, picture, settings
from tools.site.check import problems

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "examples/README.md": "examples.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages outside of docs/ by their name in the site."""
WRITTEN = {"README.md#environments": "environments/index.md"}
"""Parts of such pages whose place a page of the site takes, which is written from the code."""
WRITTEN_HERE = {"credit.md#the-methods": "methods/index.md"}
"""Parts of pages of docs/ whose place such a page takes."""
NESTED = ("integrations", "papers")
"""Pages that have the pages of the folder of their name below them in the menu."""


def stage(source: Path) -> None:
    """Put the sources of the site together."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source)
    for path, name in ELSEWHERE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](").replace("](../docs/", "](")
        text = re.sub(r"\]\((\w+\.py)\)", r"](examples/\1)", text)
        (source / name).write_text(text, encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = readme.partition("## Measurements\n")[2].partition("\n## ")[0]
    (source / "measurements.md").write_text(told.replace("](docs/", "]("), encoding="utf-8")
    shutil.copytree(ROOT / "examples", source / "examples", ignore=shutil.ignore_patterns("*.md"))
    for page in source.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        up = "../" * (len(page.relative_to(source).parts) - 1)
        for path, name in (ELSEWHERE | WRITTEN).items():
            text = text.replace(f"]({up}../{path}", f"]({up}{name}")
        for path, name in WRITTEN_HERE.items():
            text = text.replace(f"]({up}{path}", f"]({up}{name}")
        text = text.replace(f"]({up}../examples/", f"]({up}examples/")
        page.write_text(text, encoding="utf-8")
    for name in NESTED:
        with (source / f"{name}.md").open("a", encoding="utf-8") as above:
            above.write(f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{name}/*\n```\n")
    source.joinpath("settings.md").write_text(settings.page(), encoding="utf-8")
    source.joinpath("published.md").write_text(papers.page(), encoding="utf-8")
    source.joinpath("extras.md").write_text(extras.table(), encoding="utf-8")
    source.joinpath("episode.md").write_text(picture.page(), encoding="utf-8")
    environments.write(source / "environments")
    methods.write(source / "methods")


def main() -> None:
    """Build the site, or exit with what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    built = ROOT / "build" / "site"
    parser.add_argument("folder", nargs="?", type=Path, default=built, help="build/site by default")
    folder = parser.parse_args().folder.resolve()
    stage(folder / "source")
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", "-n"]
    doctrees = ["-d", str(folder / "doctrees"), "-E"]
    done = subprocess.run([*sphinx, *doctrees, folder / "source", folder / "html"], check=False)
    if done.returncode:
        sys.exit(done.returncode)
    if found := problems(folder / "html"):
        sys.exit("\n".join(re.sub(r"\s+", " ", line) for line in found))
    pages = list((folder / "html").rglob("*.html"))
    heaviest = max(pages, key=lambda page: page.stat().st_size)
    print(f"{len(pages)} pages in {folder / 'html'}; no broken link, nothing from another host")
    print(f"heaviest page: {heaviest.name}, {heaviest.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
