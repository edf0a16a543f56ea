"""Writes the encyclopaedia of SearchQA and WikiSearch, passages and questions, into a folder.

    python -m tools.encyclopaedia --out env_assets/search_qa

It needs the packages of `pip install agent-envs[encyclopaedia]`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tools.encyclopaedia.generate import encyclopaedia, pack
from tools.encyclopaedia.tables import versions

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: write both files into a folder."""
    parser = argparse.ArgumentParser(prog="python -m tools.encyclopaedia", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--out", type=Path, required=True, help="the folder to write into")
    folder = parser.parse_args(arguments).out
    corpus, questions = encyclopaedia()
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("corpus", corpus), ("qa", questions)):
        blob = pack(lines)
        (folder / f"{name}.jsonl.xz").write_bytes(blob)
        print(f"{name}: {len(lines)} lines, {len(blob):,} bytes")
    for name, number in versions().items():
        print(name, number)


if __name__ == "__main__":
    main()
