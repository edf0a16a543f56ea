"""What every part of the project may weigh, by `budget.toml`: code lines, test lines, words.

python -m tools.budget

A code line holds code: comments, docstrings and blank lines do not count. The exit status is 1 if a
part is over its budget.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
_QUIET = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip


def count_code(text: str) -> int:
    """The lines of a module that hold code."""
    docs: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docs.update(range(body[0].lineno, (body[0].end_lineno or 0) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _QUIET:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docs)


def weigh(part: str, unit: str) -> int:
    """Code lines, lines or words of a folder or file."""
    ending = "*.md" if unit == "words" else "*.py"
    path = ROOT / part
    files = [path] if path.is_file() else sorted(path.rglob(ending))
    texts = [file.read_text(encoding="utf-8") for file in files]
    if unit == "code":
        return sum(map(count_code, texts))
    return sum(len(text.split() if unit == "words" else text.splitlines()) for text in texts)


def main() -> None:
    """Print the weight and the budget of every part."""
    over = False
    budget = tomllib.loads((ROOT / "budget.toml").read_text(encoding="utf-8"))
    for unit, parts in budget.items():
        for part, allowed in parts.items():
            found = weigh(part, unit)
            over |= found > allowed
            print(f"{found:7,} of {allowed:7,} {unit:5}  {part}{'  OVER' * (found > allowed)}")
    sys.exit(over)


if __name__ == "__main__":
    main()
