"""Lines of `lines/*.jsonl`, with what they are."""

import json
from pathlib import Path


def read_lines(name):
    text = (Path(__file__).parent / "lines" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
