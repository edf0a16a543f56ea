"""Parsing of replies and feedback: the code, and the validity of a turn (MGR A.5)."""

from __future__ import annotations

import re
from typing import NamedTuple

MARKS = (
    "Execution failed",
    "Traceback:",
    "SyntaxError",
    "Exception",
    "Error:",
    "Maximum number of executions",
    "timed out after",
    "No code available to execute",
)
"""Feedback that contains one of these makes a turn invalid."""
_BLOCK = re.compile(r"```python[ \t]*\r?\n(.*?)```", re.DOTALL)
_REASONS = (
    ("format", re.compile("No code available to execute")),
    ("timeout", re.compile("timed out after|Maximum number of executions")),
    ("unknown", re.compile("No app named|No API named")),
    ("refused", re.compile(r"Response status code is 4\d\d")),
)


class Read(NamedTuple):
    """The code of a reply ("" if there is none), and whether the reply has the right form."""

    code: str
    neat: bool


def read(reply: str, max_thinking: int) -> Read:
    """The first ```python block outside of closed thoughts.

    The form is right with a block that calls `apis.`, and without an unclosed `<think>` of more
    than `max_thinking` characters.
    """
    said = _said(reply)
    block = _BLOCK.search(said)
    code = block[1].strip("\n") if block else ""
    _, opened, endless = said.partition("<think>")
    rambling = bool(opened) and len(endless) > max_thinking
    return Read(code, "apis." in code and not rambling)


def _said(reply: str) -> str:
    """A reply without its closed thoughts, in linear time for any number of openings."""
    *before, rest = reply.split("</think>")
    told = (part.partition("<think>") for part in before)
    return "".join(text + ("" if opened else "</think>") for text, opened, _ in told) + rest


def invalid_reason(feedback: str) -> str:
    """The `info["invalid_reason"]` of feedback; "" if the turn is valid."""
    if not any(mark in feedback for mark in MARKS):
        return ""
    failure = (
        feedback[feedback.rfind("Execution failed") :]
        if "Execution failed" in feedback
        else feedback
    )
    return next((reason for reason, sign in _REASONS if sign.search(failure)), "error")
