"""How lines of ordinary English are read: python benchmarks/reading.py FOLDER [--before COMMIT].

FOLDER holds `*.jsonl` files. A line of a negotiation is
`{"act": "acceptance", "family": "bargain", "text": "Fine by me."}`, with the acts of `ACTS`; its
"context" may be the other's open offer in words, as `open offer by the other: $45`. A line for the
rule judge is `{"harm": true, "text": "..."}`.

A table for each reader: what each kind of line is read as, and the errors by effect. A refusal, a
question or a hedge that makes or takes an offer is an error, and so is an offer or an acceptance
that does not. `--before` also runs the reader of another commit of this repository.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

# This folder has a file with the name of a package beside it.
sys.path = [p for p in sys.path if Path(p).resolve() != Path(__file__).parent.resolve()]

from agent_envs.sotopia.amounts import Amount  # noqa: E402

try:
    from agent_envs.sotopia.conduct import harm
    from agent_envs.sotopia.english import written_out
    from agent_envs.sotopia.reading import reading

    CLAUSES = True
except ImportError:  # a commit before this reader
    CLAUSES = False

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTS = ("offer", "acceptance", "refusal", "question", "hedge")
READ = (*ACTS, "unclear", "talk")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
OPEN = re.compile(
    r"open offer by the other: (.*)|.*just made a proposal.*|the other (?:asks|proposed)(.*)"
)
PURSE = Amount((0, 10_000_000))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--before", default="", help="a commit whose reader is run, too")
    options.add_argument("--wrong", action="store_true", help="print what is read wrongly")
    given = options.parse_args()
    if given.before:
        print(f"the reader of {given.before}\n{earlier(given.before, given.folder)}\nthis reader")
    rows = [json.loads(line) for path in sorted(given.folder.glob("*.jsonl"))
            for line in path.read_text(encoding="utf-8").splitlines()]  # fmt: skip
    print(*report([row for row in rows if "act" in row], wrong=given.wrong), sep="\n")
    judged = [row for row in rows if "harm" in row]
    if judged:
        print(*conduct(judged, wrong=given.wrong), sep="\n")


def earlier(commit: str, folder: Path) -> str:
    """The report of another commit's reader."""
    top = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as place:
        packed = subprocess.run(
            ["git", "archive", commit, "src/agent_envs"], cwd=top, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", place], input=packed.stdout, check=True)
        command = [sys.executable, __file__, str(folder.resolve())]
        return subprocess.run(
            command, env={"PYTHONPATH": f"{place}/src"}, capture_output=True, text=True, check=True
        ).stdout


def report(rows: list[dict[str, Any]], *, wrong: bool) -> Iterator[str]:
    """What each kind of line is read as, and the errors by effect."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        kind = read(row) if CLAUSES else read_before(row)
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
        if CLAUSES:
            deed = row["text"].startswith("[")
            hit = any(harm(row["text"].partition("] ")[2] if deed else row["text"], deed=deed))
        else:
            from agent_envs.sotopia.speech import heard

            line: Any = heard(row["text"])
            hit = line.insults or line.threatens
        found[row["harm"], hit] += 1
        if wrong and hit != row["harm"]:
            yield f"harm {row['harm']} as {hit}: {row['text']}"
    hits, missed, false = found[True, True], found[True, False], found[False, True]
    yield f"harm: recall {hits}/{hits + missed}, precision {hits}/{hits + false}"


def read(row: dict[str, Any]) -> str:
    """What the reader makes of a line in its context."""
    offered, family = open_offer(row)

    def terms(text: str) -> tuple[int, ...] | None:
        found = figures(written_out(text), family)
        return offered if found and offered and set(found) <= set(offered) else found

    known = None if offered is None else offered or (-1,)
    words = (row.get("context") or "") if offered else ""
    return reading(row["text"], terms, known, words=words, fresh=known is not None).kind


def read_before(row: dict[str, Any]) -> str:
    """The same for readers that sealed deals by words: accepts, proposes, asks, refuses."""
    from agent_envs.sotopia import speech

    before: Any = speech
    offered, family = open_offer(row)
    line = before.heard(row["text"])
    found = figures(before.proposing(row["text"]), family)
    if found and offered and set(found) <= set(offered):
        return "acceptance"
    if found:
        return "offer"
    if offered is not None and (line.accepts or line.affirms):
        return "acceptance"
    if line.asks:
        return "question"
    return (
        "refusal"
        if before.proposing(row["text"]) != " ".join(before.clauses(row["text"]))
        else "talk"
    )


def open_offer(row: dict[str, Any]) -> tuple[tuple[int, ...] | None, str]:
    """The other's open offer, () for one without figures, None for none; and the family."""
    family = row.get("family", "any")
    stated = OPEN.fullmatch(row.get("context") or "")
    if stated is None:
        return None, family
    words = stated[1] or stated[2] or ""
    return figures(written_out(words) if CLAUSES else words, family) or (), family


def figures(text: str, family: str) -> tuple[int, ...] | None:
    """The terms in a text as numbers, by its family; weekdays from 100 on."""
    text = text.lower()
    if family in ("bargain", "donation"):
        return PURSE.read(text, 0)
    if family == "schedule":
        days = [100 + place for place, day in enumerate(DAYS) if re.search(rf"\b{day}", text)]
        hours = [int(n) % 12 for n in re.findall(r"\b(\d{1,2})(?:[:.]\d\d)?\b(?!\s*hours)", text)]
        return tuple(days + hours) or None
    if family == "favour":
        return tuple(int(n) for n in re.findall(r"\b(\d{1,3})\s+hours?", text)) or None
    return PURSE.read(text, 0) if family == "any" else None


if __name__ == "__main__":
    main()
