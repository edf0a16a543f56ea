"""The two-turn protocol of MT-GRPO (Zeng et al., 2025): a tool call, then an answer.

Parser, tool replies and the six rewards follow the code at 7dbdd08b, which differs from the paper
in some points (docs/search_qa.md has the table). A conversation is a list of `(role, text)` with
the roles "assistant" and "user", after the first prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import fsum
from typing import TypeAlias

from agent_envs.contract import encodable
from agent_envs.replies import split_block

Conversation: TypeAlias = Sequence[tuple[str, str]]

TAGS = ("reasoning", "tool", "answer")
WEIGHTS = {
    "tool_execution": 0.2,
    "result_has_answer": 0.5,
    "answer_contains": 0.5,
    "exact": 1.0,
    "xml_format": 0.2,
    "xml_usage": 0.2,
}
STOPS = ("</tool>", "</answer>")
TURN, OUTCOME = tuple(WEIGHTS)[:2], tuple(WEIGHTS)[2:]
"""The rewards of the turn, R^T at most 0.7, and of the outcome, R^O at most 1.9."""

NO_COMMAND = (
    "Error: Tool command not found or invalid XML format. Please ensure correct formatting."
)
EMPTY = "Error: Tool execution returned empty output."
MISS = "No relevant Wikipedia content found."

# Appendix A of the paper.
SYSTEM = """You have access to the following tools to help solve problems:

{tools}

Follow these steps exactly once:
1. Think through your reasoning inside <reasoning> tags
2. Use a tool by writing a JSON command inside <tool> tags with:
   - "name": the tool to use
   - "args": the arguments for the tool
3. You will see the tool's output inside <result> tags
4. Think through the tool's output inside <reasoning> tags
5. Based on your reasoning, provide your final answer inside <answer> tags

Important:
- Use the tool exactly once - DO NOT attempt to call the tool again even if the first search isn't \
helpful
- Work with both your prior knowledge and the single tool call
- If the tool result is unhelpful, rely on your prior knowledge
- Tools expect valid JSON - follow the examples carefully
- Do not invent tools or arguments that aren't listed
- Analyze the result in a reasoning step before giving your answer
- Your answer should match the expected ground-truth"""

# Appendix A's description of the tool.
WIKI_SEARCH = """wiki_search: Searches Wikipedia and returns the top matching article content.

Arguments:
- query"""


def read_field(tag: str, text: str) -> str | None:
    """The content of the first <tag>…</tag> of a message, stripped."""
    content = split_block(text, tag)[1]
    return None if content is None else content.strip()


class CallError(Exception):
    """The agent made an invalid call; the message is the observation.

    reason: the `invalid_reason`, "format" or "unknown".
    """

    def __init__(self, message: str, reason: str = "unknown") -> None:
        super().__init__(message)
        self.reason = reason


def read_call(command: str) -> str:
    """The query in the JSON of a call of `wiki_search`.

    Raises:
        CallError: It is not a valid call.
    """
    try:
        call = json.loads(command)
    except (ValueError, RecursionError):
        raise CallError("Invalid JSON format", "format") from None
    if not isinstance(call, dict):
        raise CallError("Tool command must be a JSON object", "format")
    if not (name := call.get("name")):
        raise CallError("Tool command must specify 'name'", "format")
    if name != "wiki_search":
        raise CallError(f"Unknown tool '{name}'")
    given = call.get("args", {})
    if not isinstance(given, dict):
        raise CallError("'args' must be a JSON object", "format")
    if others := [other for other in given if other != "query"]:
        raise CallError(f"wiki_search() got an unexpected keyword argument '{others[0]}'")
    if "query" not in given:
        raise CallError("wiki_search() missing 1 required positional argument: 'query'")
    if not isinstance(query := given["query"], str):
        raise CallError("query must be a string", "format")
    return encodable(query)


def render_result(result: str) -> str:
    """The environment's message with a result, or with an error, which begins with "Error:"."""
    return f"<result>\n{result}\n</result>" if result.strip() else EMPTY


def cut_reply(reply: str) -> str:
    """A reply up to its first `</tool>` or `</answer>`, where sampling stops."""
    ends = [reply.find(mark) + len(mark) for mark in STOPS if mark in reply]
    return reply[: min(ends)] if ends else reply


def compute_rewards(
    conversation: Conversation, golds: Sequence[str], answer: str | None
) -> dict[str, float]:
    """The six weighted rewards of a whole conversation by name; `answer` is the agent's answer.

    tool_execution: 0.2 times the share of calls that ran, of those that got a reply.
    result_has_answer: 0.5 if the first result contains an accepted answer, ignoring case.
    answer_contains: 0.5 if the last answer contains one. exact: 1 if the last answer is one.
    xml_format: 0.2 times the mean over messages of: 0.4 for the share of fields used (reasoning,
        and tool or answer), 0.2 always, 0.2 for beginning with <reasoning>, 0.2 for ending with
        </tool> or </answer>.
    xml_usage: 0.2 times the mean share of tags that open and close once.
    """
    results = [
        read_field("result", reply)
        for (role, text), (next_role, reply) in pairwise(conversation)
        if role == "assistant" and next_role == "user" and read_field("tool", text) is not None
    ]
    ran = [result is not None and not result.startswith("Error:") for result in results]
    first = next((result for result in results if result is not None), None)
    lowered = [gold.lower() for gold in golds]
    shares = {
        "tool_execution": _average(ran),
        "result_has_answer": _contains(first, lowered),
        "answer_contains": _contains(answer, lowered),
        "exact": float(answer is not None and answer.lower() in [gold.strip() for gold in lowered]),
        **compute_form(conversation),
    }
    return {name: WEIGHTS[name] * share for name, share in shares.items()}


def sum_rewards(six: Mapping[str, float], name: str) -> float:
    """The reward "outcome", of four of the six rewards, or "merged", of all."""
    return sum(six[part] for part in (OUTCOME if name == "outcome" else WEIGHTS))


def compute_form(conversation: Conversation) -> dict[str, float]:
    """The shares of xml_format and xml_usage, see `compute_rewards`."""
    forms = list_forms(conversation)
    return {
        "xml_format": _average([form for form, _ in forms]),
        "xml_usage": max(0.0, _average([usage for _, usage in forms])),
    }


def list_forms(conversation: Conversation) -> list[tuple[float, float]]:
    """The form of each of the agent's messages and its use of tags, sorted."""
    said = [text for role, text in conversation if role == "assistant"]
    return sorted((score_form(text.strip()), score_usage(text)) for text in said)


def score_form(text: str) -> float:
    """The form of one message: at most 1, at least 0.2 since the spacing term is always given."""
    sets = (("reasoning",), ("tool", "answer"))
    fields = [any(f"<{tag}>" in text or f"</{tag}>" in text for tag in names) for names in sets]
    parsed = any(read_field(tag, text) is not None for tag in TAGS)
    share = sum(fields) / len(sets) if parsed else 0.0
    begins, ends = text.startswith("<reasoning>"), text.endswith(("</tool>", "</answer>"))
    return 0.4 * share + 0.2 + 0.2 * begins + 0.2 * ends


def score_usage(text: str) -> float:
    """1 minus the deviation of a message's tags from one opening and one closing each."""
    counts = [(text.count(f"<{tag}>"), text.count(f"</{tag}>")) for tag in TAGS]
    return _average([1 - abs(number - 1) for pair in counts if any(pair) for number in pair])


def _contains(text: str | None, lowered: Sequence[str]) -> float:
    return float(text is not None and any(gold in text.lower() for gold in lowered))


def _average(values: Sequence[float]) -> float:
    return fsum(values) / len(values) if values else 0.0  # bit-identical in any order
