"""Chat templates as TRL ships them: what each family writes is read, imitated and ended."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agent_envs.replies import read_action, split_thoughts
from agent_envs_lab.doctor import examine
from trainer.learn.sft import encode_demonstration
from trainer.model.chat_template import MESSAGE, REPLY
from trainer.model.policy import Policy
from trainer.play.records import Episode, Step

from .conftest import short, tiny_model

SPEC = importlib.util.find_spec("trl")
pytestmark = [
    pytest.mark.trl,
    pytest.mark.skipif(SPEC is None, reason="needs TRL in an environment of its own; see .ci/trl"),
]
FOLDER = Path(SPEC.origin if SPEC else "").parent / "chat_templates"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
MARK = re.compile(
    r"<[|｜][^<>\s'\"{}]{1,40}[|｜]?>|<[a-z_]+\|>|</?(?:s|bos|eos|think|image|tool_call|tool_response)>"
    r"|<(?:start|end)_of_[a-z]+>|\[/?(?:INST|THINK)\]"
)
TEXTS = {f"<{end}{tag}>" for end in ("", "/") for tag in ("think", "tool_call", "tool_response")}
ENDS = {
    "cohere": "<|END_OF_TURN_TOKEN|>", "cohere2": "<|END_RESPONSE|>",
    "deepseek": "<｜end▁of▁sentence｜>", "diffusion": "<turn|>", "gemma4": "<turn|>",
    "gemma": "<end_of_turn>", "glm4moe": "<|user|>", "gptoss": "<|return|>",
    "idefics3": "<end_of_utterance>", "smolvlm": "<end_of_utterance>", "llama3": "<|eot_id|>",
    "llava": "</s>", "muse": "<|eot|>", "phi3": "<|end|>",
}  # fmt: skip
"""The token that ends a reply, by the model cards; <|im_end|> elsewhere."""


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def end(name):
    return max(
        (one for one in ENDS.items() if name.startswith(one[0])), default=("", "<|im_end|>")
    )[1]


@pytest.fixture
def policy(name, end):
    """A tiny model with a family's template and a tokenizer that has its control tokens."""
    template = (FOLDER / f"{name}.jinja").read_text()
    letters = pre_tokenizers.ByteLevel.alphabet()
    made = Tokenizer(models.BPE({letter: i for i, letter in enumerate(sorted(letters))}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    for mark in sorted({*MARK.findall(template), end, "<bos>"}):
        made.add_tokens([AddedToken(mark, special=mark not in TEXTS, normalized=False)])
    marks = {"eos_token": end, "bos_token": "<bos>", "chat_template": template}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, **marks)
    return Policy(tiny_model(len(tokenizer)), tokenizer)


def test_there_are_many():
    assert len(NAMES) >= 40


def test_a_reply_as_the_family_writes_it_is_read(policy, end):
    """The template's own rendering of a reply after a thought, and what the prompt leaves of it."""
    chat = policy.chat
    prompt = chat.template.render([("user", MESSAGE)], prompt=True)
    written = chat.template.render_thought("Not <action>stop</action>.")
    if "Not" not in written or not written.startswith(prompt):  # thoughts of the past are dropped
        thought = "<think>" * (not chat.form.prefill) + "Not <action>stop</action>.</think>\n\n"
        written = prompt + thought * ("</" not in chat.form.prefill) + REPLY
    reply = written[len(prompt) :].replace(REPLY, "<action>go</action>")
    sampled = chat.tokenizer.encode(reply + end, add_special_tokens=False)
    stop = next(place for place, token in enumerate(sampled) if token in chat.ends)
    text = chat.text(sampled[: stop + 1])
    assert chat.tokenizer.decode([sampled[stop]]) == end
    thought = "" if "</" in chat.form.prefill else "Not <action>stop</action>."
    assert split_thoughts(text).thoughts[-1].strip() == thought
    assert read_action(text) == "go"


def test_a_demonstration_is_the_templates_own_conversation(policy, end):
    """Rows of imitation: prompts and replies with one end each, as the template writes them."""
    chat = policy.chat
    form = "<think>{}</think><action>{}</action>"
    said = [form.format("Why.", "look"), form.format("", "go")]
    steps = [
        Step(text, reply, "", [], [])
        for text, reply in zip(["Hello", "A desk."], said, strict=True)
    ]
    encode_demonstration(Episode("t", "g", 0, 0, "history", steps), policy)
    ids = [token for step in steps for token in (*step.prompt_ids, *step.reply_ids)]
    for step, action in zip(steps, ("look", "go"), strict=True):
        assert chat.tokenizer.decode(step.reply_ids[-1:]) == end
        assert not chat.ends & {*step.reply_ids[:-1]}
        assert read_action(chat.text(step.reply_ids)) == action
    whole = "".join(chat.tokenizer.decode(ids).split())
    assert "<think><think>" not in whole
    if not (chat.form.prefill or chat.form.channels):
        turns = [("user", "Hello"), ("assistant", REPLY), ("user", "A desk.")]
        own = chat.template.render(turns, prompt=True)
        left_out = re.compile(rf"<think>\s*</think>\s*(?={REPLY})")
        own = left_out.sub("", own).replace(REPLY, said[0])
        assert whole == "".join(f"{own}{said[1]}{end}".split())


def test_the_doctor_says_how_a_reply_begins_and_ends(policy, end, tmp_path, corridor):
    policy.save(tmp_path)
    model = next(one for one in examine(short(tmp_path)) if one.what == "model")
    assert model.state == "ok"
    assert repr(end) in model.said
    assert ("follows" in model.said) == bool(policy.chat.form.prefill)
    assert ("channel" in model.said) == (policy.chat.form.channels is not None)
