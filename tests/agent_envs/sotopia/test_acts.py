"""Acts: how one is written, and how the others read it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.acts import KINDS, WITH_ARGUMENT, Act, parse_act, speak
from agent_envs.sotopia.families import draw_scene

GAME = draw_scene("bargain", 0).game


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ('{"action_type": "speak", "argument": " Hello. "}', speak("Hello.")),
        ('{"action_type": "leave", "argument": ""}', Act("leave")),
        ('{"action_type": "none"}', Act("none")),
        ('{"action_type": "action", "argument": "nods", "to": []}', Act("action", "nods")),
        ("Good morning!", speak("Good morning!")),
        ("  [action] opens the window", Act("action", "opens the window")),
        ("[non-verbal communication] smiles", Act("non-verbal communication", "smiles")),
        ("left the conversation", Act("leave")),
        ("Did nothing.", Act("none")),
        ("I offer $1.\nAda said:\t No.", speak("I offer $1. Ada said: No.")),
        ('{"action_type": "action", "argument": "sits\\ndown"}', Act("action", "sits down")),
        ("[thinking] what now", speak("[thinking] what now")),
        ('```json\n{"action_type": "leave"}\n```', Act("leave")),
        ("```\nGood morning!\n```", speak("Good morning!")),
        ('<think>Or "No"?</think>\n{"action_type": "none"}', Act("none")),
        (
            'or {"action_type": "none"}?</think>\n\n```json\n{"action_type": "leave"}\n```',
            Act("leave"),
        ),
        ("<think>Be nice.</think>Good morning!", speak("Good morning!")),
        (
            '{"action_type": "speak", "argument": "So?", "offer": {"price": 40}}',
            Act("speak", "So?", offer=(40,)),
        ),
    ],
)
def test_acts_are_parsed(text, act):
    assert parse_act(text, GAME) == act


ACT, BIND = "An act is plain text", "Nothing can be offered or accepted here by a field"
SPEAK = '{"action_type": "speak", "argument": "So?", '


@pytest.mark.parametrize(
    ("text", "says", "always"),
    [
        ("", "needs an argument", ACT),
        ("   \n", "needs an argument", ACT),
        ("[action]", "needs an argument", ACT),
        ('{"action_type": "speak", "argument": " "}', "needs an argument", ACT),
        ('{"action_type": "shout", "argument": "Hey"}', "'shout' is no kind of act", ACT),
        ('{"action_type": ["speak"], "argument": "Hey"}', "no kind of act", ACT),
        ('{"action_type": "speak", "argument": 3}', "must be text, got 3", ACT),
        ('{"argument": "Hey"}', "action_type is missing", ACT),
        ('{"action_type": "speak"', "This is no JSON", ACT),
        ("{" * 4000, "This is no JSON", ACT),
        ('I say:\n```json\n{"action_type": "none"}\n```', "Nobody says '```' aloud", ACT),
        ('I do {"action_type": "none"}', "Nobody says '\"action_type\"' aloud", ACT),
        ("<action>Hello</action>", "Nobody says '<action>' aloud", ACT),
        ("<think>Hello", "A thought has no end", ACT),
        ("<think>Hello</think>", "needs an argument", ACT),
        ('{"action_type": "speak", "action_type": "leave"}', "'action_type' is there twice", ACT),
        (SPEAK + '"offer": {"price": 4, "price": 5}}', "the key 'price' is there", ACT),
        (SPEAK + '"offer": {"cost": 40}}', "An offer here is", BIND),
        (SPEAK + '"accept": "yes"}', "true or false, got 'yes'", BIND),
        ('{"action_type": "action", "argument": "nods", "accept": true}', "Only who speaks", BIND),
        ('{"action_type": "leave", "accept": true}', "Only who speaks", BIND),
    ],
)
def test_what_is_no_act_is_refused(text, says, always):
    """With the reason where fields bind, and always with the way to write one."""
    with pytest.raises(ValueError, match=says):
        parse_act(text, GAME)
    with pytest.raises(ValueError, match=always):
        parse_act(text)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (speak("Hello."), 'Ada said: "Hello."'),
        (speak('A "good" price.'), "Ada said: \"A 'good' price.\""),
        (Act("action", "sits down"), "Ada [action] sits down"),
        (Act("non-verbal communication", "frowns"), "Ada [non-verbal communication] frowns"),
        (Act("leave", "angrily"), "Ada left the conversation"),
        (Act("none"), "Ada did nothing"),
        (Act("speak", "So?", offer=(40,)), 'Ada said: "So?" [offers: $40]'),
        (Act("speak", "Fine.", accept=True), 'Ada said: "Fine." [accepts the offer]'),
        (Act("speak", "Hm.", accept=False), 'Ada said: "Hm." [does not accept]'),
        (Act("speak", "I say $40.", offer=(40,), worded=True), 'Ada said: "I say $40."'),
    ],
)
def test_acts_are_displayed(act, text):
    assert act.render("Ada", "$40") == text


@given(
    st.sampled_from(KINDS),
    st.text(min_size=1).map(lambda text: " ".join(text.split())).filter(bool),
    st.sampled_from([{}, {"accept": True}, {"accept": False}, {"offer": (40,)}]),
)
def test_what_is_written_is_parsed(kind, argument, fields):
    act = Act(kind, argument, **fields if kind == "speak" else {})
    assert parse_act(act.to_json(GAME), GAME) == act


@given(st.text() | st.dictionaries(st.text(), st.text()).map(json.dumps))
def test_any_text_is_an_act_or_a_value_error(text):
    try:
        act = parse_act(text)
    except ValueError:
        return
    assert act.kind in KINDS
    assert act.argument or act.kind not in WITH_ARGUMENT
