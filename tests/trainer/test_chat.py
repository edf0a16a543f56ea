"""Token pieces: appended, they are the template's own rendering, whatever its shape."""

import pytest

from trainer.model.chat import Chat
from trainer.model.policy import Policy

from .conftest import ENDS, TEMPLATES, tiny_model, tiny_tokenizer

TURNS = [
    ("You are in the middle of a room.", "<action>look</action>"),
    ("Nothing happens.", "<action>go to desk 1</action>"),
    ("On the desk 1, you see a mug 1.", "<action>take mug 1 from bed 1</action>"),
]


@pytest.fixture(params=sorted(TEMPLATES))
def shape(request):
    return request.param


def test_pieces_append_to_the_templates_rendering(shape):
    tokenizer = tiny_tokenizer(shape)
    chat = Chat(tokenizer)
    (opening, first), *others = TURNS
    ids = [*chat.opening(opening), *chat.reply(first)]
    for observation, reply in others:
        ids += [*chat.after(ids, observation), *chat.reply(reply)]
    roles = ("user", "assistant")
    said = [{"role": r, "content": t} for turn in TURNS for r, t in zip(roles, turn, strict=True)]
    whole = tokenizer.apply_chat_template(said, tokenize=False, date_string="x")
    assert tokenizer.decode(ids) == whole.rstrip("\n")


def test_a_cut_reply_is_closed_by_the_environment(shape):
    chat = Chat(tiny_tokenizer(shape))
    cut, closed = [40, 41], [40, 41, chat.end]
    assert chat.after(cut, "ok") == [chat.end, *chat.after(closed, "ok")]
    assert [*cut, *chat.after(cut, "ok")] == [*closed, *chat.after(closed, "ok")]
    assert chat.after([], "ok")[0] == chat.end


def test_sampled_tokens_are_not_tokenised_again():
    """A text has several tokenisations; the conversation keeps the one that was sampled."""
    chat = Chat(tiny_tokenizer())
    letters = [i for c in "desk" for i in chat.reply(c)[:-1]]
    merged = chat.reply("desk")[:-1]
    assert chat.text(letters) == chat.text(merged) == "desk"
    assert len(letters) == 4 > len(merged)
    assert chat.after(letters, "ok") == chat.after(merged, "ok")


def test_end_is_the_templates_own(shape):
    tokenizer = tiny_tokenizer(shape)
    chat = Chat(tokenizer)
    assert tokenizer.decode([chat.end]) == ENDS[shape]
    tokenizer.eos_token = "<|begin|>"  # noqa: S105
    assert Chat(tokenizer).ends == {chat.end, tokenizer.eos_token_id}


def test_text_round_trips_without_its_end(shape):
    chat = Chat(tiny_tokenizer(shape))
    text = "<think>é “ok”\n</think><action>go to desk 1</action>"
    assert chat.reply(text)[-1] == chat.end
    assert chat.text(chat.reply(text)) == chat.text(chat.reply(text)[:-1]) == text
    assert chat.text([]) == ""


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if MARK %}[{{ loop.index }}] {% endif %}{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for m in messages %}{{ m['content'] }} {% endfor %}", "ends a reply with ' m', no sp"),
        ("{{ messages[-1]['content'] }}", "drops earlier replies"),
        (CHATML.replace("MARK", "loop.index > 1"), r"after 2 replies and .* after the first"),
        (CHATML.replace("MARK", "loop.index > 20"), r"after 10 replies and .* after the first"),
        (CHATML.replace("MARK", "messages|length > 150"), r"after 99 replies and .* after"),
        (CHATML.replace("MARK", "nothing.there"), r"cannot write a conversation \('nothing'"),
    ],
)
def test_unusable_templates_are_refused(template, message):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    with pytest.raises(ValueError, match=message):
        Chat(tokenizer)


TOOLS = (
    "{% for m in messages %}{% if m['content'].startswith('<tool_response>') %}"
    "{{ raise_exception('No user query found in messages.') }}{% endif %}{% endfor %}"
) + CHATML.replace("MARK", "false")


def test_stops_of_the_generation_config_end_a_reply_too():
    tokenizer = tiny_tokenizer()
    model = tiny_model(len(tokenizer))
    stop = tokenizer.convert_tokens_to_ids("<|eot|>")
    model.generation_config.eos_token_id = [stop]
    policy = Policy(model, tokenizer)
    assert policy.chat.ends == {policy.chat.end, tokenizer.eos_token_id, stop}
    assert Chat(tokenizer, **policy.chat.settings).ends == policy.chat.ends  # as in another process


def test_what_a_template_takes_for_a_tools_message_is_text():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = TOOLS
    chat = Chat(tokenizer)
    text = "<tool_response>\n{}\n</tool_response>"
    assert text in chat.tokenizer.decode(list(chat.opening(text)))
    assert text in chat.tokenizer.decode(list(chat.message(text)))


def test_a_template_with_a_clock_prints_the_same_day():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{{ strftime_now('%d.%m.%Y %H:%M:%S.%f') }}" + CHATML.replace(
        "MARK", "false"
    )
    said = tokenizer.decode(list(Chat(tokenizer).opening("hello")))
    assert said.startswith("26.07.2024 00:00:00.000000")
