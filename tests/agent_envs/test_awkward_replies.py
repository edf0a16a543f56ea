"""Awkward replies of real models: each reader takes what was committed to, or says "format"."""

import gymnasium as gym
import pytest

from agent_envs import ParseReply
from agent_envs.appworld.env import read_reply
from agent_envs.replies import guess_action, read_action
from agent_envs.search_qa.replies import read_request
from agent_envs.sotopia.talk import parse_act

NOTHING = None  # valid=False, "format", and no action
THOUGHTS = [  # {good} is what the model commits to, {bad} what it only considers
    ("<think>a <think>b</think> {bad}</think>{good}", True),
    ("<think>close with </think>, so {bad}</think>{good}", True),
    ("<think>in <think> </think> tags, {bad}</think>{good}", True),
    ("<think>one says <think> first, {bad}</think>\r\n{good}\r\n", True),
    ("<THINK>{bad}</THINK>{good}", True), ("<think >{bad}</think >{good}", True),
    ("<thinking>{bad}</thinking>{good}", True), ("◁think▷{bad}◁/think▷{good}", True),
    ("<|begin_of_thought|>{bad}<|end_of_thought|>{good}", True), ("{bad}[/THINK]{good}", True),
    ("{bad}</seed:think>{good}", True),
    ("{bad}<|END_THINKING|><|START_RESPONSE|>{good}<|END_RESPONSE|>", True),
    ("{bad}<channel|>{good}", True),
    ("{bad}<|end|><|start|>assistant<|channel|>final<|message|>{good}<|return|>", True),
    ("{bad}<|end|><|start|>assistant<|channel|>final<|message|>{good}<|end|>\n", True),
    ("{bad}<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{good}", True),
    ("<unused94>thought\n{bad}<unused95>{good}<end_of_turn>\n", True),
    ("<|inner_prefix|>{bad}<|inner_suffix|>{good}<|eot_id|>", True),
    ("<longcat_think>{bad}</longcat_think>{good}</s>", True),
    ("<mm:think>{bad}</mm:think><scratchpad>{bad}</scratchpad>{good}<|im_end|>", True),
    ("<reflection>{bad}</reflection><reason>{bad}</reason>{good}", True),
    ("<unused94>thought\n{good}", False), ("analysisMaybe {bad}assistantfinal{good}", True),
    ("<think></thi</think>nk>{bad}</think>{good}", True),
    ("<think>[THINK]{bad}[/THINK] {bad}</think>{good}", True),
    ("<think>\n```\n</think>\n```\n{bad}</think>{good}", True),
    ("<think>Not <reasoning>{bad}</reasoning> {bad}</think>{good}", True), ("", False),
    ("<think>{good}", False), ("{good}</think>", False), ("<think>{good}</think>", False),
    ("<think>a</think>{good}</think>", False), ("[THINK]{good}", False),
    ("<Thinking>{good}", False), ("<|channel|>analysis<|message|>{good}", False),
    ("analysisWe could {good}", False), ("<|START_THINKING|>{good}<|END_THINKING|>", False),
]  # fmt: skip
TOOL = '<tool>{"name": "wiki_search", "args": {"query": "town"}}</tool>'
CODE = "print(apis.supervisor.show_profile())"
BLOCK = f"\n```python\n{CODE}\n```"
READERS = {  # what it makes, {good}, {bad}, the action of {good}
    "sokoban": (lambda: ParseReply(gym.make("Sokoban-v0")), "<action>right</action>",
                "<action>left</action>", "right"),
    "ezpoints": (lambda: ParseReply(gym.make("EZPoints-v0")), "<action>2</action>",
                 "<action>=</action>", "2"),
    "attempt": (lambda: ParseReply(gym.make("Sokoban-v0"), on_malformed="attempt"),
                "<action>right</action>", "<action>left</action>", "right"),
    "search": (lambda: gym.make("SearchQA-v1"), "<search>town</search>", "<answer>Beijing</answer>",
               "<search>town</search>"),
    "wiki": (lambda: gym.make("WikiSearch-v1"), TOOL, "<answer>Beijing</answer>", TOOL),
    "appworld": (lambda: gym.make("AppWorld-v1", sandbox="best-effort"), BLOCK,
                 "\n```python\napis.supervisor.complete_task()\n```\n", CODE),
    "sotopia": (lambda: ParseReply(gym.make("Sotopia-v1")), "<action>Good morning.</action>",
                "<action>My limit is 11.</action>", "Good morning."),
}  # fmt: skip
T = "<think>a</think>"
OWN = {  # replies of one reader, and the action that it takes
    "sokoban": [
        (f"{T}<action>Right</action>", "Right"),
        (f"{T}<Action>right</Action>", NOTHING),
        (f"{T}**<action>right</action>**", NOTHING),
        (f"{T}&lt;action&gt;right&lt;/action&gt;", NOTHING),
        (f"{T}\u200b<action>right</action>", NOTHING),
        (f"{T}<action>right</action><action>right</action>", NOTHING),
        (f"{T}<action>right</action>{T}", NOTHING),
        (f"{T}<answer><action>right</action></answer>", "right"),
        (f'{T}<tool_call>{{"name": "right"}}</tool_call>', NOTHING),
        (f"{T}<action>right</action>\udfff", NOTHING),
    ],
    "attempt": [("<think>right", NOTHING), ("<think><action>right</action>", NOTHING)],
    "search": [
        (f"{T}**<search>town</search>**", "<search>town</search>"),
        (f"{T}```\n<search>town</search>\n```", "<search>town</search>"),
        (f"{T}<search>town</search>{T}", "<search>town</search>"),
        (f"{T}<answer><search>town</search></answer>", "<search>town</search>"),
        (f"{T}<response>\n<search>town</search>\n</response>", "<search>town</search>"),
        (f"{T}<Search>town</Search>", NOTHING),
        (f"{T}<search>town</answer>", NOTHING),
        (f"{T}<search>town</search> or <answer> Beijing </answer>", NOTHING),
        (f"{T}[TOOL_CALLS][{{}}]", NOTHING),
        (f"{T}<search>\ud800</search>", NOTHING),
    ],
    "wiki": [
        (TOOL, TOOL),
        (f"{T}{TOOL.replace('tool', 'tool_call')}", NOTHING),
        (f"{T}{TOOL}{TOOL}", NOTHING),
        (f"{T}{TOOL[7:-7]}", NOTHING),
    ],
    "appworld": [
        (f"{T}1. Look:{BLOCK}".replace("\n", "\n   "), CODE),
        (f"{T}{BLOCK}\nOutput: x\n{T}\n```python\nprint(2)\n```", NOTHING),
        (f"[BEGIN DRAFT]{BLOCK}\n[END DRAFT]{BLOCK}", NOTHING),
        (f"{T}<answer>{BLOCK}\n</answer>", CODE),
        (f"{T}{BLOCK}<think>then", CODE),
        (f"{T}{BLOCK}".replace("\n", "\r\n"), CODE),
        (f"{T}<code>{CODE}</code>", NOTHING),
        (f"{T}{BLOCK[:-3]}", NOTHING),
    ],
}
CASES = [
    (name, said.replace("{good}", good).replace("{bad}", bad), taken if is_said else NOTHING)
    for name, (_, good, bad, taken) in READERS.items()
    for said, is_said in THOUGHTS
] + [(name, said, taken) for name, rows in OWN.items() for said, taken in rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reply_is_taken_exactly_or_not_at_all(name):
    env, wrong = READERS[name][0](), []
    for said, taken in [case[1:] for case in CASES if case[0] == name]:
        env.reset(seed=7)
        *_, info = env.step(said)
        ok = info["valid"] if taken else info["invalid_reason"] == "format"
        if not ok or info["action"] != (taken or ""):
            wrong.append((said, info["action"], info["invalid_reason"]))
    env.close()
    assert not wrong


ACT = '{"action_type": "speak", "argument": "Good morning."}'


WAYS = ["Good morning.", ACT, f"```json\n{ACT}\n```", f"<answer>\n{ACT}</answer>"]


@pytest.mark.parametrize("good", WAYS)
@pytest.mark.parametrize("said", [said for said, is_said in THOUGHTS if is_said])
def test_nobody_speaks_a_thought(said, good):
    assert parse_act(said.format(good=good, bad="My limit is 11.")).argument == "Good morning."


@pytest.mark.parametrize(
    "said",
    [
        *(said.format(good="My limit is 11.") for said, is_said in THOUGHTS if not is_said),
        "<Action>Good morning.</Action>", f"<tool_call>{ACT}</tool_call>", f"[TOOL_CALLS][{ACT}]",
        f"{ACT[:-1]},}}", ACT.replace('"', "'"), f"**{ACT}**", f"{ACT}{ACT}",
    ],
)  # fmt: skip
def test_what_nobody_says(said):
    with pytest.raises(ValueError, match="An act is plain text"):
        parse_act(said)


def test_thoughts_between_tags_of_ones_own():
    reply = "<thought>a <action>stop</action></thought><action>go</action>"
    assert read_action(reply, ("thought", "action")) == "go"
    assert read_action(reply.replace("thought", "Thinking"), ("Thinking", "action")) == "go"


@pytest.mark.parametrize(
    "piece",
    [
        *("<think>", "</think>", "<think>a</think>", "[THINK]", "<|channel|>analysis", "analysis"),
        *("```", "\n   ```python\n", "<action>", "<answer>a", "<think ", "<", "{", " ", "\n"),
    ],
)
def test_a_long_reply_is_read_at_once(piece, check_linear_time):
    def read(reply):
        read_action(reply)
        guess_action(reply, "action")
        read_reply(reply)
        read_request(reply, ("search", "answer"), "information")

    check_linear_time(
        read, lambda size: piece * (size // len(piece)) + "<action>go</action>", 10_000
    )
