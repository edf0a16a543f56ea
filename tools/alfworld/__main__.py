"""Makes AlfWorld games and writes them as the embedded set or as a tree like the public one.

python -m tools.alfworld --pack env_assets/alfworld
python -m tools.alfworld --seed 1 --out games
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agent_envs.alfworld.data import FOLDER
from tools.alfworld.generate import generate_pairs, generate_splits, pack, read_rules, write_tree

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line: make games and write them as a tree or packed."""
    parser = argparse.ArgumentParser(prog="python -m tools.alfworld", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seed", type=int, default=0, help="draws everything (default: 0)")
    parser.add_argument("--train", type=int, default=600, help="games in train (default: 600)")
    parser.add_argument("--valid", type=int, default=120, help="games in each valid split")
    parser.add_argument("--logic", type=Path, help="folder with alfred.pddl and alfred.twl2")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, help="write a tree of game files into this folder")
    where.add_argument("--pack", type=Path, help="write the embedded set into this folder")
    options = parser.parse_args(arguments)
    rules = read_rules(options.logic)
    splits = generate_splits(options.seed, train=options.train, valid=options.valid)
    if options.out:
        number = write_tree(options.out, splits, rules)
        print(f"{number} games in {options.out / FOLDER}")
        return
    options.pack.mkdir(parents=True, exist_ok=True)
    (options.pack / "logic.json.xz").write_bytes(pack([rules]))
    pairs = generate_pairs(options.seed, train=options.train * 2 // 5, valid=options.valid // 2)
    for split, lines in (splits | pairs).items():
        blob = pack(lines)
        (options.pack / f"{split}.jsonl.xz").write_bytes(blob)
        print(f"{split}: {len(lines)} games, {len(blob)} bytes")


if __name__ == "__main__":
    main()
