"""Makes the tokenizer and the weights of a pocket policy in a folder.

    python -m tools.pocket pocket-wiki --out FOLDER

The same command continues a run that was stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tools.pocket.pretraining import POLICIES, pretrain

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: pre-train one policy."""
    parser = argparse.ArgumentParser(prog="python -m tools.pocket", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("policy", nargs="?", default="pocket", choices=POLICIES)
    parser.add_argument("--out", type=Path, required=True, help="folder for tokenizer and weights")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    pretrain(POLICIES[given.policy], given.out, threads=given.threads)


if __name__ == "__main__":
    main()
