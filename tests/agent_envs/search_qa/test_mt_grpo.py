"""MT-GRPO's parser, tool calls and six rewards, worked by hand."""

import pytest

from agent_envs.search_qa import mt_grpo
from agent_envs.search_qa.mt_grpo import CallError

CALL = '<reasoning>r</reasoning><tool>{"name": "wiki_search", "args": {"query": "q"}}</tool>'
FOUND = "<result>\nParis is the capital.\n</result>"
FAILED = "<result>\nError: Invalid JSON format\n</result>"
ANSWER = "<reasoning>r</reasoning><answer>Paris</answer>"


def score(texts, golds=("Paris",), answer=None):
    """The six rewards of the agent and the user in turn."""
    said = [("user" if i % 2 else "assistant", text) for i, text in enumerate(texts)]
    return mt_grpo.compute_rewards(said, golds, answer)


@pytest.mark.parametrize(
    ("texts", "paid"),
    [
        ([CALL, FOUND], 0.2),
        ([CALL, FAILED], 0),
        ([CALL, mt_grpo.EMPTY], 0),  # tried, without a result
        ([CALL, FOUND, CALL, FAILED], 0.1),
        ([CALL, FOUND, CALL], 0.2),  # the second was not answered, so not tried
        (["<tool>", FOUND], 0),  # no call
        (["hm", "Error: ...", CALL, FOUND], 0.2),
        ([CALL, "<result>\nError during search: x\n</result>"], 0.2),
    ],
)
def test_tool_execution(texts, paid):
    assert score(texts)["tool_execution"] == pytest.approx(paid)


@pytest.mark.parametrize(
    ("texts", "golds", "paid"),
    [
        ([CALL, FOUND], ["rome", "PARI"], 0.5),  # of characters
        ([CALL, FOUND], ["Rome"], 0),
        ([CALL, FAILED, CALL, FOUND], ["Paris"], 0),  # the first result alone
        ([CALL, mt_grpo.EMPTY, CALL, FOUND], ["Paris"], 0.5),  # that there is
        (["hm", FOUND], ["Paris"], 0),
        ([CALL, "<result>\nError: Unknown tool 'Paris'\n</result>"], ["Paris"], 0.5),
    ],
)
def test_result_has_answer(texts, golds, paid):
    assert score(texts, golds)["result_has_answer"] == paid


@pytest.mark.parametrize(
    ("answer", "golds", "contains", "exact"),
    [
        ("PARIS", ["rome", "paris"], 0.5, 1),
        ("the city of paris", ["Paris"], 0.5, 0),
        ("Paris.", ["Paris"], 0.5, 0),  # punctuation stays
        ("beatles", ["The Beatles"], 0, 0),  # and articles
        ("Paris", [" Paris "], 0, 1),  # stripped for the one only
        ("Rome", [""], 0.5, 0),
        ("", ["Paris"], 0, 0),
        (None, ["Paris", ""], 0, 0),
    ],
)
def test_the_answer(answer, golds, contains, exact):
    six = score([CALL, FOUND], golds, answer)
    assert (six["answer_contains"], six["exact"]) == (contains, exact)


@pytest.mark.parametrize(
    ("name", "messages", "paid"),
    [
        ("xml_format", ["plain text"], 0.04),  # spacing is never wrong
        ("xml_format", ["\n " + ANSWER + " \n"], 0.2),  # 0.4 + 0.2 + 0.2 + 0.2
        ("xml_format", ["<answer>x</answer>"], 0.12),  # 0.2 + 0.2 + 0 + 0.2
        ("xml_format", ["<reasoning>r</reasoning>"], 0.12),
        ("xml_format", ["<tool>x</tool><answer>y</answer>"], 0.12),  # one of the two sets
        ("xml_format", ["<reasoning>r</reasoning><answer>x</answer> bye"], 0.16),
        ("xml_format", ["so <reasoning>r</reasoning><answer>x</answer>"], 0.16),
        ("xml_format", ["<reasoning>r<answer>x</answer>"], 0.2),  # an opening tag is enough
        ("xml_format", ["r</reasoning><answer>x</answer>"], 0.16),
        ("xml_format", ["<reasoning>r</answer>"], 0.12),  # nothing parsed: 0 + 0.2 + 0.2 + 0.2
        ("xml_format", ["plain", ANSWER], 0.12),  # (0.2 + 1) / 2
        ("xml_usage", ["plain text"], 0),
        ("xml_usage", ["<answer>x</answer>"], 0.2),  # tags that do not occur do not count
        ("xml_usage", ["<answer>x"], 0.1),  # (1 + 0) / 2
        ("xml_usage", ["<reasoning>r</reasoning><answer>x"], 0.15),  # (1 + 1 + 1 + 0) / 4
        ("xml_usage", ["<answer>x</answer><answer>y</answer>"], 0),  # (0 + 0) / 2
        ("xml_usage", ["<answer><answer><answer>"], 0),  # (-1 + 0) / 2, and no less than 0
        ("xml_usage", ["<answer><answer><answer>", ANSWER], 0.05),  # (-1/2 + 1) / 2
        ("xml_usage", ["plain text", ANSWER], 0.1),
    ],
)
def test_form(name, messages, paid):
    texts = [text for message in messages for text in (message, "Error: ...")]
    assert score(texts)[name] == pytest.approx(paid)


@pytest.mark.parametrize("piece", [" ", "<tool>"])
def test_an_unclosed_field_takes_no_time(piece, check_linear_time):
    def read(text):
        assert mt_grpo.read_field("tool", text) is None

    check_linear_time(read, lambda size: "<tool>" + piece * (size // len(piece)), 7_500)


def test_a_field_is_the_first_that_is_closed():
    assert mt_grpo.read_field("answer", "</answer><answer>\n1 </answer><answer>2</answer>") == "1"


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("a</answer>b</tool>c", "a</answer>"),
        ("a</tool>b</answer>c", "a</tool>"),
        ("a</result>", "a</result>"),
    ],
)
def test_sampling_stops_at_the_first_closing_tag(reply, kept):
    assert mt_grpo.cut_reply(reply) == kept


WIKI = '{"name": "wiki_search"'


def test_a_call():
    assert mt_grpo.read_call('{"name": "wiki_search", "args": {"query": "é"}}') == "é"
    odd = r'{"name": "wiki_search", "args": {"query": "\ud800"}}'
    assert mt_grpo.read_call(odd) == "\ufffd"  # only text is sent


@pytest.mark.parametrize(
    ("command", "message", "reason"),
    [
        ("{'name': 1}", "Invalid JSON format", "format"),
        ("[" * 100_000, "Invalid JSON format", "format"),
        ("[1]", "Tool command must be a JSON object", "format"),
        ("{}", "Tool command must specify 'name'", "format"),
        ('{"name": ["a"]}', "Unknown tool '['a']'", "unknown"),
        (WIKI + "}", "wiki_search() missing 1 required positional argument: 'query'", "unknown"),
        (WIKI + ', "args": {"query": "q", "z": 1}}',
         "wiki_search() got an unexpected keyword argument 'z'", "unknown"),
        (WIKI + ', "args": ["q"]}', "'args' must be a JSON object", "format"),
        (WIKI + ', "args": {"query": 5}}', "query must be a string", "format"),
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_made(command, message, reason):
    with pytest.raises(CallError) as caught:
        mt_grpo.read_call(command)
    assert (str(caught.value), caught.value.reason) == (message, reason)


def test_results():
    assert mt_grpo.render_result("a\nb ") == "<result>\na\nb \n</result>"
    assert mt_grpo.render_result(" \n") == "Error: Tool execution returned empty output."
