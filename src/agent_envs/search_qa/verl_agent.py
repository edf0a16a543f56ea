"""The search protocol of verl-agent, on which GiGPO and STAPO build, including its faults.

`SearchQA` always uses its texts, and the rest only with `strict_compat=True`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_envs.search_qa.search_r1 import cut_reply, find_answer

if TYPE_CHECKING:
    from agent_envs.retrieval.passages import Passage

NOTHING = "No search results found."
_BLOCKS = {
    kind: re.compile(f"<{kind}>(.*?)</{kind}>", re.DOTALL | re.IGNORECASE)
    for kind in ("search", "answer")
}


def project_reply(reply: str) -> tuple[str, bool]:
    """The action of a reply ("" if there is none), and whether the reply is valid."""
    opened = [len(re.findall(f"<{kind}>", reply, re.IGNORECASE)) for kind in _BLOCKS]
    for kind, block in _BLOCKS.items():
        found = block.search(cut_reply(reply))
        if found:
            return f"<{kind}>{found[1].strip()}</{kind}>", sum(opened) == 1
    return "", False


def read_action(action: str) -> tuple[str, str]:
    """("search" or "answer", its content) of a projected action, or ("", "").

    An answer within a search ends the episode, too.
    """
    if "<answer>" in action and "</answer>" in action:
        return "answer", find_answer(action, given=0) or ""
    return ("search" if action else "", action.removeprefix("<search>").removesuffix("</search>"))


def render_passages(passages: Sequence[Passage], *, ascii_only: bool, nothing: str = "") -> str:
    """The block with the results of a search: one JSON string of all passages, or of `nothing`."""
    docs = [f"Doc {i}: {p.heading}\n{p.text}".strip() + "\n" for i, p in enumerate(passages, 1)]
    result = json.dumps({"result": "".join(docs) or nothing}, ensure_ascii=ascii_only)
    return f"<information>{result}</information>"
