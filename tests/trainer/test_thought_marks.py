"""Thoughts in the marks of a family: what a prompt has begun of one, and what a reply writes."""

import pytest

from agent_envs.replies import read_action, split_thoughts
from trainer.model.chat import Chat

from .conftest import tiny_tokenizer

MARKS = ["<|in|>", "<|out|>", "<|fin|>", "<|return|>"]
FIELD = "{% if m['reasoning_content'] %}<|in|>{{ m['reasoning_content'] }}<|out|>{% endif %}"
TAGS = FIELD.replace("<|in|>", "<think>\n").replace("<|out|>", "\n</think>\n\n")
LAST = "{{ m['content'].split('</think>')[-1] }}"
HEAD, TAIL = "{% for m in messages %}<|im_start|>", "{% if add_generation_prompt %}<|im_start|>"


def write_template(prompt="", thought="", content="{{ m['content'] }}", before=""):
    """ChatML with a part before the messages, one in replies, and one after the prompt's header."""
    reply = "{% if m['role'] == 'assistant' %}" + thought + content
    said = reply + "{% else %}{{ m['content'] }}{% endif %}<|im_end|>\n{% endfor %}"
    messages = before + HEAD + "{{ m['role'] }}\n" + said
    return messages + TAIL + "assistant\n" + prompt + "{% endif %}"


OPENED, CLOSED, NONE = "<think>", "<think></think>", ""
OFF = "{% if enable_thinking is defined and not enable_thinking %}"
SWITCHED = write_template(OFF + "<|in|><|out|>{% else %}<|in|>\n{% endif %}", FIELD)
ELSE, END = "{% else %}", "{% endif %}"
ON_ONLY = write_template(f"{OFF}<|in|><|out|>{END}", f"{OFF}{ELSE}{FIELD}{END}")
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
SHY = "{% if m['reasoning_content'] %}{{ raise_exception('no thoughts') }}{% endif %}"
LED = FIELD + "<|fin|>"
IN_USER = (  # the header of the reply ends the message before it; the prompt repeats it
    HEAD + "{% if m['role'] == 'user' %}{{ m['content'] }}<|fin|><think>{% else %}"
    "{{ m['reasoning_content'] }}</think>{{ m['content'] }}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|fin|><think>{% endif %}"
)
RENAMED = (  # other roles, trimmed contents
    HEAD + "{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] | trim }}"
    "<|im_end|>\n{% endfor %}" + TAIL + "model\n{% endif %}"
)
PARTS = HEAD + (  # contents are lists of parts
    "{{ m['role'] }}:{% for part in m['content'] %}{{ part['text'] }}{% endfor %}<|im_end|>\n"
    "{% endfor %}" + TAIL + "assistant:{% endif %}"
)
PAST = (  # replies of the past have no header
    "{% for m in messages %}{{ m['content'] }}<|im_end|>{% endfor %}" + TAIL + "{% endif %}"
)
CHANNELS = HEAD + (  # the end of a message ends a thought, too; the last reply ends otherwise
    "{{ m['role'] }}{% if m['role'] == 'assistant' %}{% if m['thinking'] %}<|in|>"
    "{{ m['thinking'] }}<|out|><|im_start|>assistant{% endif %}<|fin|>{% endif %}{{ m['content'] }}"
    "{{ '<|return|>' if loop.last and m['role'] == 'assistant' else '<|out|>' }}{% endfor %}"
    + TAIL + "assistant{% endif %}"
)  # fmt: skip
LINES = write_template("<|in|>\n", FIELD.replace("<|in|>", "<|in|>\n"))
ENDED = write_template("<think>", TAGS + "{% if not m['reasoning_content'] %}</think>{% endif %}")
ONE = write_template("", FIELD.replace("<|out|>", "<|in|><|fin|>"))
CALLED = write_template("", FIELD, before=NO_SYSTEM)
PLAIN, SECOND = "<think>a</think>", "a<|out|>"  # how a thought is written; after a prompt's opening
KNOWN = write_template("[THINK][/THINK]", "<|fin|>", LAST)
FAMILIES = {  # template, what the prompt does, a thought in a reply
    "opened, own marks": (write_template("<|in|>", FIELD), OPENED, SECOND),
    "opened, own marks, lines": (LINES, OPENED, SECOND),
    "opened, tags": (write_template("<think>\n", TAGS), OPENED, "a</think>"),
    "opened, past with an end": (ENDED, OPENED, "a</think>"),
    "opened, past stripped": (write_template("<think>\n", content=LAST), OPENED, "a</think>"),
    "opened, begun": (write_template("<think>\nOkay, ", TAGS), OPENED, "a</think>"),
    "opened, an attribute": (write_template("<think budget=9>\n", TAGS), OPENED, "a</think>"),
    "opened, in a message": (IN_USER, OPENED, "a</think>"),
    "opened, then said": (write_template("<|in|>", LED), OPENED, "a<|out|><|fin|>"),
    "closed, own marks": (write_template("<|in|><|out|>", FIELD), CLOSED, PLAIN),
    "closed, tags": (write_template("<think>\n\n</think>\n\n", TAGS), CLOSED, PLAIN),
    "closed, the end alone": (write_template("</think>", "</think>", LAST), CLOSED, PLAIN),
    "closed, then said": (write_template("<|in|><|out|>", LED), CLOSED, f"<|fin|>{PLAIN}"),
    "closed, a known family": (KNOWN, CLOSED, f"<|fin|>{PLAIN}"),
    "closed, known, a space": (KNOWN.replace("<|fin|>", " "), CLOSED, PLAIN),
    "none, own marks": (write_template("", FIELD), NONE, "<|in|>a<|out|>"),
    "none, one mark": (ONE, NONE, "<|in|>a<|in|><|fin|>"),
    "none, tags": (write_template("", TAGS), NONE, PLAIN),
    "none, no thoughts": (write_template(), NONE, PLAIN),
    "none, refused field": (write_template("", SHY), NONE, PLAIN),
    "none, no system": (CALLED, NONE, "<|in|>a<|out|>"),
    "none, lists": (PARTS, NONE, PLAIN),
    "none, another past": (PAST, NONE, PLAIN),
    "none, channels": (CHANNELS, NONE, "<|in|>a<|out|><|im_start|>assistant<|fin|>"),
    "none, other roles": (RENAMED, NONE, PLAIN),
    "none, a lead": (write_template("", "<|fin|>"), NONE, f"<|fin|>{PLAIN}"),
    "switched on": (SWITCHED, OPENED, SECOND),
    "switched off": (SWITCHED, CLOSED, PLAIN),
    "switched off, without its field": (ON_ONLY, CLOSED, PLAIN),
    "a switch left alone": (SWITCHED, OPENED, SECOND),
}


def make_chat(template, options):
    """Token pieces of a template."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS})
    tokenizer.chat_template = template
    return Chat(tokenizer, options=options)


@pytest.fixture(params=FAMILIES)
def family(request):
    (template, prefill, thought), name = FAMILIES[request.param], request.param
    options = {"enable_thinking": "on" in name.split()} if name.startswith("switched") else {}
    return make_chat(template, options), prefill, thought


def sample(chat, text):
    return [*chat.tokenizer.encode(text, add_special_tokens=False), chat.end]


def test_a_demonstration_has_one_thought_in_the_familys_marks(family):
    chat, prefill, thought = family
    assert chat.form.prefill == prefill
    end = chat.tokenizer.decode([chat.end])
    reply = chat.reply("<think>a</think><action>go</action>")
    assert chat.tokenizer.decode(reply) == f"{thought}<action>go</action>{end}"
    assert split_thoughts(chat.text(reply)).thoughts == [""] * (prefill == CLOSED) + ["a"]
    empty = chat.tokenizer.decode(chat.reply("<think></think><action>go</action>"))
    left = thought.replace(*((PLAIN, "") if prefill == CLOSED else ("a", "", 1)))
    assert empty == f"{left}<action>go</action>{end}"


def test_a_sampled_reply_is_read_with_what_its_prompt_wrote(family):
    """What the model drafts in a thought is not its action; without marks, only `closed` is one."""
    chat, prefill, thought = family
    drafted = thought.replace("a", "No <action>stop</action>. ", 1)
    ids = sample(chat, f"{drafted}\n<action>go</action>")
    assert read_action(chat.text(ids)) == "go"
    assert not chat.ends & {*ids[:-1]}
    assert chat.after(ids, "ok") == list(chat.message("ok"))[1:]
    bare = chat.text(sample(chat, "<action>go</action>"))
    assert read_action(bare) == ("go" if prefill == CLOSED else None)
    cut = chat.text(sample(chat, drafted.partition("stop")[0])[:-1])
    assert read_action(cut) is None


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (write_template(before="{{ tools | length }}"), "cannot write a conversation (object of"),
        (write_template(before="{% for t in tools %}{% endfor %}"), "not iterable"),
        (write_template(before="{{ 1 / 0 }}"), "cannot write a conversation (division by zero)"),
        (write_template(before="{{ raise_exception('call a tool') }}"), "(call a tool)"),
        (write_template(before="{{ {'user': 1}[messages[1]['role']] + 'x' }}"), "conversation ("),
        ({"tool_use": write_template()}, "cannot write a conversation ("),
        (write_template("", FIELD.replace("<|out|>", "<|im_end|>")), "ends a thought with '<|im_e"),
        (write_template("{% if messages | length == 1 %}<think>{% endif %}"), "begins the first r"),
        (write_template("", FIELD.replace("<|out|>", "\n")), "cannot be read back (('<|in|>', '"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_or_read_is_refused_in_a_sentence(template, words):
    with pytest.raises(ValueError, match="the chat template of") as caught:
        make_chat(template, {})
    assert words in str(caught.value)
    assert "; use an instruct model of another family, or set tokenizer" in str(caught.value)


def test_an_option_that_the_template_does_not_read_is_refused():
    with pytest.raises(ValueError, match="not read 'thinkng'; leave it out of policy"):
        make_chat(SWITCHED, {"thinkng": False})
