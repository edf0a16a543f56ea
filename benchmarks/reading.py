"""How lines of ordinary English are read: python benchmarks/reading.py [FOLDER] [--wrong].

FOLDER holds `*.jsonl` files; left out, the two halves of `tests/agent_envs/sotopia/lines` are read
one after the other. A line of a negotiation is
`{"act": "acceptance", "family": "bargain", "text": "Fine by me."}`, with the acts of `ACTS`; its
"context" may be the other's open offer in words, as `open offer by the other: 45 dollars`. A line
for the rule judge is `{"harm": true, "text": "..."}`.

The table shows what each kind of line is read as, and the errors by effect: a refusal, a question
or a hedge that makes or takes an offer is an error, and so is an offer or an acceptance that does
not.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

# This folder has a file with the name of a package beside it.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

from agent_envs.sotopia.amounts import Amount  # noqa: E402
from agent_envs.sotopia.conduct import find_harm  # noqa: E402
from agent_envs.sotopia.english import write_out  # noqa: E402
from agent_envs.sotopia.reading import read_line  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES = Path(__file__).parents[1] / "tests" / "agent_envs" / "sotopia" / "lines"
ACTS = ("offer", "acceptance", "refusal", "question", "hedge")
READ = (*ACTS, "unclear", "talk")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
OPEN = re.compile(
    r"open offer by the other: (.*)|.*just made a proposal.*|the other (?:asks|proposed)(.*)"
)
PURSES = {"donation": Amount((0, 10_000_000), unit=" a month")}
PURSE = Amount((0, 10_000_000))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path, nargs="?", help="instead of the two halves")
    options.add_argument("--wrong", action="store_true", help="print what is read wrongly")
    given = options.parse_args()
    for folder in [given.folder] if given.folder else [LINES / "dev", LINES / "held"]:
        print(folder.name)
        rows = [json.loads(line) for path in sorted(folder.glob("*.jsonl"))
                for line in path.read_text(encoding="utf-8").splitlines()]  # fmt: skip
        print(*report([row for row in rows if "act" in row], wrong=given.wrong), sep="\n")
        judged = [row for row in rows if "harm" in row]
        if judged:
            print(*conduct(judged, wrong=given.wrong), sep="\n")


def report(rows: list[dict[str, Any]], *, wrong: bool) -> Iterator[str]:
    """What each kind of line is read as, and the errors by effect."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        kind = read(row)
        counts[row["act"], kind] += 1
        if wrong and error(row["act"], kind):
            yield f"{row['act']} as {kind}: {row['text']}"
    yield "  ".join([f"{'lines':11}", *(f"{name[:10]:>10}" for name in READ), "errors"])
    for act in ACTS:
        total = sum(counts[act, kind] for kind in READ)
        errors = sum(counts[act, kind] for kind in READ if error(act, kind))
        cells = [f"{counts[act, kind]:10}" for kind in READ]
        yield "  ".join([f"{act:11}", *cells, f"{errors / max(1, total):6.1%} of {total}"])


def error(act: str, kind: str) -> bool:
    """Whether a line does what it should not, or does not what it should."""
    effect = kind if kind in ("offer", "acceptance") else "none"
    return effect != (act if act in ("offer", "acceptance") else "none")


def conduct(rows: list[dict[str, Any]], *, wrong: bool) -> Iterator[str]:
    """Precision and recall of what counts as harm."""
    found: Counter[tuple[bool, bool]] = Counter()
    for row in rows:
        deed = row["text"].startswith("[")
        hit = any(find_harm(row["text"].partition("] ")[2] if deed else row["text"], deed=deed))
        found[row["harm"], hit] += 1
        if wrong and hit != row["harm"]:
            yield f"harm {row['harm']} as {hit}: {row['text']}"
    hits, missed, false = found[True, True], found[True, False], found[False, True]
    yield f"harm: recall {hits}/{hits + missed}, precision {hits}/{hits + false}"


def read(row: dict[str, Any]) -> str:
    """What the reader makes of a line in its context."""
    offered, family = open_offer(row)

    def terms(text: str) -> tuple[int, ...] | None:
        found = figures(write_out(text), family)
        return offered if found and offered and set(found) <= set(offered) else found

    known = None if offered is None else offered or (-1,)
    words = (row.get("context") or "") if offered else ""
    return read_line(row["text"], terms, known, words=words, fresh=known is not None).kind


def open_offer(row: dict[str, Any]) -> tuple[tuple[int, ...] | None, str]:
    """The other's open offer, () for one without figures, None for none; and the family."""
    family = row.get("family", "any")
    stated = OPEN.fullmatch(row.get("context") or "")
    if stated is None:
        return None, family
    words = stated[1] or stated[2] or ""
    return figures(write_out(words), family) or (), family


def figures(text: str, family: str) -> tuple[int, ...] | None:
    """The terms in a text as numbers, by its family; weekdays from 100 on."""
    text = text.lower()
    if family in ("bargain", "donation"):
        return PURSES.get(family, PURSE).read_deal(text)
    if family == "schedule":
        days = [100 + place for place, day in enumerate(DAYS) if re.search(rf"\b{day}", text)]
        hours = [int(n) % 12 for n in re.findall(r"\b(\d{1,2})(?:[:.]\d\d)?\b(?!\s*hours)", text)]
        return tuple(days + hours) or None
    if family == "favour":
        return tuple(int(n) for n in re.findall(r"\b(\d{1,3})\s+hours?", text)) or None
    return PURSE.read_deal(text) if family == "any" else None


if __name__ == "__main__":
    main()
