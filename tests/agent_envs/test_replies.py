from __future__ import annotations

import gymnasium as gym
import pytest
from hallway import Hallway, alter
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import ParseReply
from agent_envs.replies import FORM, Form, read_action, unwrap_answer

TAGS = ("think", "action")
CHANNEL = "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>"
GOING = [
    "<think>a</think><action>go</action>",
    "the prompt ends with the tag</think><action>go</action>",
    "I could <action>stop</action> or\n</think>\n\n<action>go</action>",
    "<think>a</think><think>b</think><action>go</action>",
    "native\n</think>\n\n<think>asked for</think>\n<action>go</action>",
    "<think>a <action>stop</action> <think> b</think><action>go</action>",
    f"{CHANNEL}<action>go</action>", f"{CHANNEL}<think>b</think><action>go</action>",
    " to=self<|message|>a<|eom|><|start|>assistant to=user<|message|><action>go</action>",
    "<|channel>thought\na\n<channel|><action>go</action>", "[THINK]a[/THINK]<action>go</action>",
    "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|><action>go</action>",
    "<seed:think>a</seed:think><action>go</action>",
    "<think>a</think>\n<answer>\n<action>go</action>\n</answer>",
    "<think>a</think><response><action>go</action></response>",
]  # fmt: skip


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<think>a</think>\n\n<action>\n go to desk 1 \n</action>\n", "go to desk 1"),
        (" <think></think> <action>x</action> ", "x"),
        ("<think>1 < 2 and <b>bold</b></think><action>a > b</action>", "a > b"),
        ("<think>漢字</think><action>é🎉</action>", "é🎉"),
        ("<think>a\nb\r\nc</think><action>two\nlines</action>", "two\nlines"),
        *((reply, "go") for reply in GOING),
    ],
)
def test_the_required_form(reply, action):
    assert read_action(reply, TAGS) == action


@pytest.mark.parametrize(
    "reply",
    [
        "", "go", "<action>go</action>", "<think>a</think>", "<think>a</think><action></action>",
        "<think>a</think><action> \n </action>", "<think>a</think><action>go",
        "<think>a<action>go</action>", "<think>a</think>go</action>",
        "a<think>b</think><action>go</action>", "<think>a</think>b<action>go</action>",
        "<think>a</think><action>go</action>b", "<action>go</action><think>a</think>",
        "<think>a<action>go</action></think>", "<action><think>a</think>go</action>",
        "a<think></think><action>go</action>",
        "<think>a</think><action>go</action><think>b</think>",
        "<think>a</think><action>go</action><think>b",
        "<think>a</think><action>go<action>stop</action>",
        "<|channel|>final<|message|><action>go</action>",
        "<|channel|>analysis<|message|>a <action>go</action>", "a <action>go</action></think>",
        "<think>a</think><action>go</action><action>stop</action>",
        "</think>a<think></action>go<action>", "<think>a</think></action><action>go",
        "<THINK>a</THINK><ACTION>go</ACTION>", "<think>a</think><action>go</action></think>",
        "< think >a</ think >< action >go</ action >", "<answer><action>go</action></answer>",
        "<think>a</think><answer>go</answer>",
        "<think>a</think><answer><action>go</action></response>",
        "<think>a</think>so <answer><action>go</action></answer>",
        "<think>a</think><answer><action>a</action></answer><action>b</action>",
    ],
)  # fmt: skip
def test_anything_else_is_malformed(reply):
    assert read_action(reply, TAGS) is None


BODY = st.text(st.characters(exclude_characters="<>", codec=None))
BLANK = st.text(" \n\t", max_size=3)


@given(BODY, BODY, st.tuples(BLANK, BLANK, BLANK))
def test_what_was_put_in_comes_out(thought, action, blanks):
    reply = f"{blanks[0]}<think>{thought}</think>{blanks[1]}<action>{action}</action>{blanks[2]}"
    assert read_action(reply, TAGS) == (action.strip() or None)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<action>", "</action>", "a", " "])))
def test_only_the_right_sequence_of_marks_passes(parts):
    parsed = read_action("".join(parts), TAGS)
    if parsed is not None:
        marks = [part for part in parts if part.startswith("<")]
        assert marks[-3:] == ["</think>", "<action>", "</action>"]
        assert set(parsed) == {"a"} or set(parsed) == {"a", " "}


def test_other_tags():
    assert read_action("<search>q</search>", ("search",)) == "q"
    assert read_action("<a>1</a><b>2</b><c>3</c>", ("a", "b", "c")) == "3"
    assert read_action("<a>1</a><c>3</c><b>2</b>", ("a", "b", "c")) is None
    assert read_action("<act<think>a</think>ion>go</action>", ("action",)) is None
    assert read_action("why</think><a>1</a>\n<b>2</b>", ("a", "b")) == "2"
    assert read_action("<reasoning>a</reasoning><b>2</b>", ("reasoning", "b")) == "2"


def test_a_form_reads_what_it_writes_requests_and_ends():
    for tags in (TAGS, ("search",), ("a", "b", "c")):
        form = Form.of_tags(tags)
        assert form.read(form.write("go", "why")) == "go"
        assert form.write("go").endswith(f"go{form.stop}")
        assert form.stop == f"</{tags[-1]}>"
    asked = "<think>your thoughts</think><action>your action</action>"
    assert FORM.instruction == f"Solve the task, one action per reply. Reply with {asked}."
    own = Form("{thought}: {action}!")
    assert (own.write("go", "why"), own.stop, own == FORM) == ("why: go!", "!", False)


def test_a_wrapper_is_left_out_only_around_a_block():
    tags = ("search", "answer")
    assert unwrap_answer("<answer><search>q</search></answer>", tags) == "<search>q</search>"
    assert unwrap_answer("<answer>Rome</answer>", tags) == "<answer>Rome</answer>"
    assert unwrap_answer(" <response>\nHello.\n</response>\n") == "\nHello.\n"
    assert unwrap_answer("so <answer>Hello.</answer>") == "so <answer>Hello.</answer>"


def made(**options) -> ParseReply:
    return ParseReply(gym.make("Hallway-v0"), **options)


def test_a_good_reply_is_its_action():
    env = made()
    observation, info = env.reset(seed=1, options={"task": 3})
    assert info["action"] == ""
    observation, _, _, _, info = env.step("<think>.</think><action> right </action>")
    assert observation.startswith("Cell")
    assert (info["valid"], info["action"], info["turn"]) == (True, "right", 1)
    assert gym.make(env.spec).form == env.form
    with pytest.raises(TypeError, match="a reply is a string, got 3"):
        env.step(3)


def test_skip_leaves_the_world_alone_and_tells_the_form():
    env = made()
    _, start = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step("right")
    assert observation.endswith("<think>...</think><action>...</action>")
    assert info == start | {"valid": False, "invalid_reason": "format", "turn": 1}
    assert (reward, terminated, truncated) == (0.0, False, False)


def test_a_turn_limit_inside_counts_them_too():
    env = ParseReply(gym.wrappers.TimeLimit(Hallway(), 2))
    env.reset(seed=1)
    env.step("x")
    assert env.step("y")[3]


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("right", "right"),
        ("<action>right</action>", "right"),
        ("I go <action>left</action> no, <action> right </action> .", "right"),
        ("<think>a</think><action>right", "right"),
        ("<think>a</think>\nright", "right"),
        ("I may <action>left</action> ...</think>\nright", "right"),
    ],
)
def test_attempt_steps_the_world_and_still_says_malformed(reply, action):
    env = made(on_malformed="attempt")
    _, start = env.reset(seed=1, options={"task": 5})
    *_, info = env.step(reply)
    assert (info["valid"], info["invalid_reason"], info["action"]) == (False, "format", action)
    assert (info["anchor"] != start["anchor"]) == (action == "right")


@pytest.mark.parametrize("reply", ["", " ", "<action> </action>"])
def test_attempt_with_nothing_to_try_is_skipped(reply):
    env = made(on_malformed="attempt")
    _, start = env.reset(seed=1)
    *_, info = env.step(reply)
    assert (info["action"], info["anchor"]) == ("", start["anchor"])


def test_the_environments_own_verdict_stands_for_a_well_formed_reply():
    env = made()
    env.reset(seed=1)
    *_, info = env.step("<think>.</think><action>dance</action>")
    assert (info["valid"], info["invalid_reason"], info["action"]) == (False, "unknown", "dance")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"on_malformed": "ignore"}, ValueError, "on_malformed 'ignore'; known are skip, attempt"),
        ({"tags": ()}, ValueError, r"needs the action's tag at least, got tags=\(\)"),
        ({"env": gym.make("CartPole-v1")}, TypeError, "ParseReply needs an agent_envs.AgentEnv"),
        ({"env": gym.Wrapper(ParseReply(Hallway()))}, ValueError, "leave the second ParseReply"),
        ({"env": alter(reply_form="<a>{action}</a>")}, ValueError, "reads whole replies itself"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        ParseReply(**{"env": Hallway(), **arguments})
