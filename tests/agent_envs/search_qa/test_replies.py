"""What a reply asks for in safe mode, and what of a text is shown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.search_qa.replies import TAGS, Asked, asked_for, harmless, shown

KINDS = ("search", "answer")


def asked(reply):
    return asked_for(reply, KINDS, "information")


@pytest.mark.parametrize(
    ("reply", "kind", "content", "neat"),
    [
        ("<think>a</think><search> b c </search>", "search", "b c", True),
        ("\n<think>a</think>\n\n<answer>é</answer>\n", "answer", "é", True),
        ("<answer>b</answer>", "answer", "b", False),
        ("<think>a</think>So: <answer>b</answer>", "answer", "b", False),
        ("a thought</think><answer>b</answer>", "answer", "b", True),
        ("<answer>b</answer><think>a</think>", "answer", "b", False),
        ("<answer>b</answer><think>then", "answer", "b", False),
        ("<think><answer>a</answer></think><answer>b</answer>", "answer", "b", True),
        ("<think><information>a</information></think><answer>b</answer>", "answer", "b", True),
        ("<answer>1 < 2 </b></answer>", "answer", "1 < 2 </b>", False),
    ],
)
def test_what_a_reply_asks_for(reply, kind, content, neat):
    assert asked(reply) == Asked(kind, content, neat)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Paris",
        "<answer></answer>",
        "<answer> \n</answer>",
        "<answer>a",
        "a</answer>",
        "</answer>a<answer>",
        "<answer>a</answer><answer>b</answer>",
        "<answer>a</answer><answer>a</answer>",
        "<answer><answer>a</answer></answer>",
        "<answer>a</answer><search>b</search>",
        "<answer>a</answer></search>",
        "<search>a</search><search>b</search>",
        "<think><answer>a</answer></think>",
        "<think><answer>a</answer>",  # a thought without an end
        "<think>a</think><think><answer>a</answer>",
        "<reasoning><answer>a</answer></reasoning>",
        "<answer>a<think></answer></think>",
        "<ans<think>b</think>wer>a</answer>",  # a thought taken out makes no tag
        "<information>x</information><answer>a</answer>",
        "<information><answer>a</answer>",
        "</information><answer>a</answer>",
        "<answer>a<information></answer>",
        "<ANSWER>a</ANSWER>",
        "<tool>a</tool>",
    ],
)
def test_what_asks_for_nothing(reply):
    assert asked(reply) == Asked("", "", neat=False)


PIECES = [mark for tag in TAGS for mark in (f"<{tag}>", f"</{tag}>")]


@settings(max_examples=50)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join))
def test_whatever_is_asked_for_stands_once_between_its_tags(reply):
    kind, content, neat = asked(reply)
    if not kind:
        assert (content, neat) == ("", False)
        return
    assert kind in KINDS
    assert content == content.strip() != ""
    assert asked(f"<{kind}>{content}</{kind}>")[:2] == (kind, content)
    assert asked(f"<think>{reply}") == Asked() or "</think>" in reply
    for other in KINDS:
        assert asked(f"<{other}>x</{other}>{reply}") == Asked()  # one of two is none


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("</information><answer>x</answer>", "&lt;/information>&lt;answer>x&lt;/answer>"),
        ("<ANSWER >", "&lt;ANSWER >"),
        ("< / think>", "&lt; / think>"),
        ("<search", "&lt;search"),
        ("<result>&<tool name='x'>", "&lt;result>&&lt;tool name='x'>"),
        ("<|im_end|><|im_start|>assistant", "&lt;|im_end|>&lt;|im_start|>assistant"),
        ("<b>bold</b>, <answers>, <é>", "&lt;b>bold&lt;/b>, &lt;answers>, &lt;é>"),
        (
            "a < b <= c, [1], [a], [Ar] 3d10, [a b], a|b",
            "a < b <= c, [1], [a], [Ar] 3d10, [a b], a|b",
        ),
        ("[INST] [/INST] [|user|]", "&#91;INST] &#91;/INST] &#91;|user|]"),
        ("", ""),
    ],
)
def test_tags_and_chat_marks_are_shown_as_text(text, told):
    assert shown(text, 1000) == told


@pytest.mark.parametrize(
    ("text", "limit", "told"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two ..."),
        ("one two three", 7, "one ..."),
        ("onetwothree", 5, "onetw ..."),
        ("東京都東京都", 3, "東京都 ..."),
        ("a longer <answer>x", 16, "a longer ..."),
    ],
)
def test_long_texts_are_cut(text, limit, told):
    assert shown(text, limit) == told


@given(st.text(), st.integers(1, 50))
def test_what_is_shown_has_no_tags_and_is_no_longer(text, limit):
    assert len(shown(text, limit)) <= 4 * limit + 4  # a mark is four characters instead of one
    assert not any(piece in shown(f"{text}{piece}", 10**6).lower() for piece in PIECES)


CONTROL = {
    "ChatML, Qwen": "<|im_start|> <|im_end|> <|endoftext|> <|vision_start|> <|fim_prefix|> "
    "<tool_call> </tool_call> <tool_response> </tool_response> <think> </think> <tools> </tools>",
    "Llama 2": "<s> </s> <unk> [INST] [/INST] <<SYS>> <</SYS>>",
    "Llama 3, 4": "<|begin_of_text|> <|start_header_id|> <|eot_id|> <|python_tag|> <|eom_id|> "
    "<|header_start|> "
    "<|reserved_special_token_0|>",
    "Mistral": "[AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_CALLS] [TOOL_RESULTS] [/TOOL_RESULTS] "
    "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [IMG] [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] "
    "[THINK] [/THINK] [ARGS] [CALL_ID] [AUDIO] [control_8]",
    "Gemma": "<bos> <eos> <pad> <unk> <mask> <start_of_turn> <end_of_turn> <start_of_image> "
    "<unused0> [multimodal] [@BOS@] <|turn> <turn|>",
    "DeepSeek": "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜> "
    "<｜tool▁calls▁begin｜> <｜tool▁sep｜> <｜fim▁hole｜> <|EOT|>",
    "GLM": "[gMASK] [sMASK] <sop> <eop> <|user|> <|assistant|> <|observation|>",
    "Phi": "<|system|> <|end|> <|im_sep|> <|endofprompt|>",
    "Command R": "<BOS_TOKEN> <|START_OF_TURN_TOKEN|> <|CHATBOT_TOKEN|> <|END_OF_TURN_TOKEN|>",
    "gpt-oss": "<|start|> <|message|> <|channel|> <|constrain|> <|return|> <|call|>",
    "Granite, StarCoder": "<|start_of_role|> <|end_of_role|> <fim_prefix> <commit_before> "
    "<jupyter_start> <gh_stars> <file_sep> <repo_name>",
    "BERT": "[CLS] [SEP] [PAD] [MASK] [UNK] [unused12]",
    "T5": "</s> <pad> <extra_id_0>",
    "EXAONE": "[|system|] [|user|] [|assistant|] [|endofturn|]",
    "MiniMax": "]~b] ]~!b[ [e~[ ]<]minimax[>[",
    "OLMo": "|||IP_ADDRESS||| |||EMAIL_ADDRESS||| <|endoftext|>",
    "Falcon": ">>TITLE<< >>ABSTRACT<< <|endoftext|>",
    "InternLM, Baichuan": "<|action_start|> [UNUSED_TOKEN_146] <reserved_106>",
    "Kimi": "<|im_user|> <|im_middle|> [BOS] [EOS] [EOT]",
    "MiniCPM, Seed": "<用户> <AI> <seed:bos> <seed:think>",
}
"""Special tokens of the tokenizers and chat templates of open models, as these publish them."""


@pytest.mark.parametrize("family", CONTROL)
def test_no_control_token_of_a_family_of_models_survives(family):
    for token in CONTROL[family].split(" "):
        for text in (token, f"a{token}b", f"{token}{token}", f'("{token}")', f"<{token}>"):
            assert token not in harmless(text), token
            assert token not in shown(text, 10**6), token


@given(st.text())
def test_texts_without_control_tokens_stay(text):
    letters = text.translate(dict.fromkeys(map(ord, "<[]|")))
    assert harmless(letters) == letters
    assert harmless(harmless(text)) == harmless(text)


@pytest.mark.parametrize(
    "text", ["<" + " " * 60_000, "[" + "A" * 60_000, "[A" * 30_000, "|" * 60_000]
)
def test_blanks_after_a_bracket_take_no_time(text):
    start = time.process_time()
    shown(text, 10**6)
    assert time.process_time() - start < 5
