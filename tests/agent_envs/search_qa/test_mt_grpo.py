"""MT-GRPO's parser, tool calls and six rewards, worked by hand."""

from __future__ import annotations

import time

import pytest

from agent_envs.search_qa import mt_grpo
from agent_envs.search_qa.mt_grpo import Tool, ToolError

COMMAND = '<tool>{"name": "wiki_search", "args": {"query": "q"}}</tool>'
CALL = "<reasoning>r</reasoning>" + COMMAND
FOUND = "<result>\nParis is the capital.\n</result>"
FAILED = "<result>\nError: Invalid JSON format\n</result>"
EMPTY = "Error: Tool execution returned empty output."
ANSWER = "<reasoning>r</reasoning><answer>Paris</answer>"
TOOLS = {"wiki_search": Tool("query", lambda query: f"found {query}")}


def conversation(*texts):
    """The agent and the user in turn."""
    return [("user" if i % 2 else "assistant", text) for i, text in enumerate(texts)]


def reward(name, texts, golds=("Paris",), answer=None):
    return mt_grpo.rewards(conversation(*texts), golds, answer)[name]


def test_all_six_together_are_2_6():
    six = mt_grpo.rewards(conversation(CALL, FOUND, ANSWER), ["Paris"], "Paris")
    assert six == {
        "tool_execution": 0.2,
        "result_has_answer": 0.5,
        "answer_contains": 0.5,
        "exact": 1.0,
        "xml_format": pytest.approx(0.2),
        "xml_usage": pytest.approx(0.2),
    }
    assert sum(six.values()) == pytest.approx(2.6)
    assert sum(six[name] for name in mt_grpo.TURN) == pytest.approx(0.7)
    assert sum(six[name] for name in mt_grpo.OUTCOME) == pytest.approx(1.9)
    assert set(mt_grpo.TURN) | set(mt_grpo.OUTCOME) == set(six)


def test_nothing_said_is_worth_nothing():
    assert set(mt_grpo.rewards([], ["Paris"], None).values()) == {0.0}


@pytest.mark.parametrize(
    ("texts", "paid"),
    [
        ([CALL, FOUND], 0.2),
        ([CALL, FAILED], 0),
        ([CALL, EMPTY], 0),  # tried, without a result
        ([CALL, FOUND, CALL, FAILED], 0.1),
        ([CALL, FOUND, CALL], 0.2),  # the second was not answered, so not tried
        ([CALL], 0),
        (["<tool>", FOUND], 0),  # no call
        (["hm", "Error: ...", CALL, FOUND], 0.2),
        ([CALL, "<result>\nError during search: x\n</result>"], 0.2),
        ([CALL, "<result>\nNo relevant Wikipedia content found.\n</result>"], 0.2),
    ],
)
def test_tool_execution(texts, paid):
    assert reward("tool_execution", texts) == pytest.approx(paid)


@pytest.mark.parametrize(
    ("texts", "golds", "paid"),
    [
        ([CALL, FOUND], ["rome", "PARIS"], 0.5),
        ([CALL, FOUND], ["Pari"], 0.5),  # of characters
        ([CALL, FOUND], ["Rome"], 0),
        ([CALL, FAILED, CALL, FOUND], ["Paris"], 0),  # the first result alone
        ([CALL, EMPTY, CALL, FOUND], ["Paris"], 0.5),  # that there is
        (["hm", FOUND], ["Paris"], 0),
        ([CALL], ["Paris"], 0),
        ([CALL, "<result>\nError: Unknown tool 'Paris'\n</result>"], ["Paris"], 0.5),
    ],
)
def test_result_has_answer(texts, golds, paid):
    assert reward("result_has_answer", texts, golds) == paid


@pytest.mark.parametrize(
    ("answer", "golds", "contains", "exact"),
    [
        ("Paris", ["Paris"], 0.5, 1),
        ("PARIS", ["rome", "paris"], 0.5, 1),
        ("the city of paris", ["Paris"], 0.5, 0),
        ("Paris.", ["Paris"], 0.5, 0),  # punctuation stays
        ("beatles", ["The Beatles"], 0, 0),  # and articles
        ("Paris", [" Paris "], 0, 1),  # stripped for the one only
        ("Rome", ["Paris"], 0, 0),
        ("Rome", [""], 0.5, 0),
        ("", ["Paris"], 0, 0),
        (None, ["Paris", ""], 0, 0),
    ],
)
def test_the_answer(answer, golds, contains, exact):
    assert reward("answer_contains", [CALL, FOUND], golds, answer) == contains
    assert reward("exact", [CALL, FOUND], golds, answer) == exact


@pytest.mark.parametrize(
    ("messages", "paid"),
    [
        (["plain text"], 0.04),  # spacing is never wrong
        ([""], 0.04),
        ([CALL], 0.2),  # 0.4 + 0.2 + 0.2 + 0.2
        (["\n " + ANSWER + " \n"], 0.2),
        (["<answer>x</answer>"], 0.12),  # 0.2 + 0.2 + 0 + 0.2
        (["<reasoning>r</reasoning>"], 0.12),
        (["<tool>x</tool><answer>y</answer>"], 0.12),  # one of the two sets
        (["<reasoning>r</reasoning><answer>x</answer> bye"], 0.16),
        (["so <reasoning>r</reasoning><answer>x</answer>"], 0.16),
        (["<reasoning>r<answer>x</answer>"], 0.2),  # an opening tag is enough
        (["r</reasoning><answer>x</answer>"], 0.16),
        (["<reasoning>r</answer>"], 0.12),  # nothing parsed: 0 + 0.2 + 0.2 + 0.2
        (["plain", ANSWER], 0.12),  # (0.2 + 1) / 2
    ],
)
def test_xml_format(messages, paid):
    texts = [text for message in messages for text in (message, "Error: ...")]
    assert reward("xml_format", texts) == pytest.approx(paid)


@pytest.mark.parametrize(
    ("messages", "paid"),
    [
        (["plain text"], 0),
        ([ANSWER], 0.2),
        (["<answer>x</answer>"], 0.2),  # tags that do not occur do not count
        (["<answer>x"], 0.1),  # (1 + 0) / 2
        (["<reasoning>r</reasoning><answer>x"], 0.15),  # (1 + 1 + 1 + 0) / 4
        (["<answer>x</answer><answer>y</answer>"], 0),  # (0 + 0) / 2
        (["<answer><answer><answer>"], 0),  # (-1 + 0) / 2, and no less than 0
        (["<answer><answer><answer>", ANSWER], 0.05),  # (-1/2 + 1) / 2 before the clamp
        (["<answer>" * 5, ANSWER], 0),  # (-3/2 + 1) / 2
        (["plain text", ANSWER], 0.1),
    ],
)
def test_xml_usage(messages, paid):
    texts = [text for message in messages for text in (message, "Error: ...")]
    assert reward("xml_usage", texts) == pytest.approx(paid)


@pytest.mark.parametrize(
    ("tag", "text", "content"),
    [
        ("answer", "a<answer>\n x y \n</answer>b", "x y"),
        ("answer", "<answer>1</answer><answer>2</answer>", "1"),
        ("answer", "<answer><answer>1</answer>", "<answer>1"),
        ("answer", "</answer><answer>1</answer>", "1"),
        ("answer", "<answer></answer>", ""),
        ("answer", "<answer>1", None),
        ("answer", "1</answer>", None),
        ("answer", "<Answer>1</Answer>", None),
        ("result", FOUND, "Paris is the capital."),
    ],
)
def test_fields(tag, text, content):
    assert mt_grpo.field(tag, text) == content


def test_an_unclosed_field_takes_no_time():
    start = time.process_time()
    assert mt_grpo.field("tool", "<tool>" + " " * 60_000) is None
    assert mt_grpo.field("tool", "<tool>" * 10_000) is None
    assert time.process_time() - start < 5  # once it took days


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("a</answer>b</tool>c", "a</answer>"),
        ("a</tool>b</answer>c", "a</tool>"),
        ("a</result>", "a</result>"),
        ("", ""),
    ],
)
def test_sampling_stops_at_the_first_closing_tag(reply, kept):
    assert mt_grpo.cut(reply) == kept


def test_a_call():
    assert mt_grpo.call('{"name": "wiki_search", "args": {"query": "é"}}', TOOLS) == "found é"
    assert mt_grpo.call(r'{"name": "wiki_search", "args": {"query": "\ud800"}}', TOOLS) == (
        "found \ufffd"  # what is no text is not sent
    )


@pytest.mark.parametrize(
    ("command", "message", "reason"),
    [
        ("", "Invalid JSON format", "format"),
        ("{'name': 1}", "Invalid JSON format", "format"),
        ("[" * 100_000, "Invalid JSON format", "format"),
        ("[1]", "Tool command must be a JSON object", "format"),
        ('"wiki_search"', "Tool command must be a JSON object", "format"),
        ("{}", "Tool command must specify 'name'", "format"),
        ('{"name": ""}', "Tool command must specify 'name'", "format"),
        ('{"name": "google"}', "Unknown tool 'google'", "unknown"),
        ('{"name": 3}', "Unknown tool '3'", "unknown"),
        ('{"name": ["a"]}', "Unknown tool '['a']'", "unknown"),
        (
            '{"name": "wiki_search"}',
            "wiki_search() missing 1 required positional argument: 'query'",
            "unknown",
        ),
        (
            '{"name": "wiki_search", "args": {"query": "q", "z": 1, "k": 2}}',
            "wiki_search() got an unexpected keyword argument 'z'",
            "unknown",
        ),
        ('{"name": "wiki_search", "args": ["q"]}', "'args' must be a JSON object", "format"),
        ('{"name": "wiki_search", "args": {"query": 5}}', "query must be a string", "format"),
    ],
)
def test_a_call_that_cannot_be_made(command, message, reason):
    with pytest.raises(ToolError) as caught:
        mt_grpo.call(command, TOOLS)
    assert (str(caught.value), caught.value.reason) == (message, reason)


def test_how_a_result_is_told():
    assert mt_grpo.told("a\nb ") == "<result>\na\nb \n</result>"
    assert mt_grpo.told("Error: x") == "<result>\nError: x\n</result>"
    assert mt_grpo.told(" \n") == mt_grpo.told("") == EMPTY
