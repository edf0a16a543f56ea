"""Acts: how one is written, and how the others read it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.acts import KINDS, WITH_ARGUMENT, Act, parse_act
from agent_envs.sotopia.families import draw_scene


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ('{"action_type": "speak", "argument": " Hello. "}', Act("speak", "Hello.")),
        ('{"action_type": "leave", "argument": ""}', Act("leave")),
        ('{"action_type": "none"}', Act("none")),
        ('{"action_type": "action", "argument": "nods", "to": []}', Act("action", "nods")),
        ("Good morning!", Act("speak", "Good morning!")),
        ("  [action] opens the window", Act("action", "opens the window")),
        ("[non-verbal communication] smiles", Act("non-verbal communication", "smiles")),
        ("left the conversation", Act("leave")),
        ("Did nothing.", Act("none")),
        ("I offer $1.\nAda said:\t No.", Act("speak", "I offer $1. Ada said: No.")),
        ('{"action_type": "action", "argument": "sits\\ndown"}', Act("action", "sits down")),
        ("[thinking] what now", Act("speak", "[thinking] what now")),
    ],
)
def test_read(text, act):
    assert parse_act(text) == act


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "needs an argument"),
        ("   \n", "needs an argument"),
        ("[action]", "needs an argument"),
        ('{"action_type": "speak", "argument": " "}', "needs an argument"),
        ('{"action_type": "shout", "argument": "Hey"}', "'shout' is no kind of act"),
        ('{"action_type": ["speak"], "argument": "Hey"}', "no kind of act"),
        ('{"action_type": "speak", "argument": 3}', "must be text, got 3"),
        ('{"argument": "Hey"}', "action_type is missing"),
        ('{"action_type": "speak"', "This is no JSON"),
        ("{" * 4000, "This is no JSON"),
        (
            '{"action_type": "speak", "action_type": "leave"}',
            "the key 'action_type' is there twice",
        ),
        ('{"action_type": "none", "offer": {"price": 4, "price": 5}}', "the key 'price' is there"),
    ],
)
def test_what_is_no_act_is_told_with_the_way_to_write_one(text, says):
    with pytest.raises(ValueError, match="An act is plain text") as refusal:
        parse_act(text)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (Act("speak", "Hello."), 'Ada said: "Hello."'),
        (Act("speak", 'A "good" price.'), "Ada said: \"A 'good' price.\""),
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
def test_told(act, told):
    assert act.render("Ada", "$40") == told


def test_fields_that_bind():
    game = draw_scene("bargain", 0).game
    text = '{"action_type": "speak", "argument": "So?", "offer": {"price": 40}}'
    act = parse_act(text, game)
    assert act == Act("speak", "So?", offer=(40,))
    assert parse_act(act.to_json(game), game) == act
    taken = Act("speak", "Agreed.", accept=True)
    assert parse_act(taken.to_json(), game) == taken


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ('"action_type": "speak", "argument": "So?", "offer": {"cost": 40}', "An offer here is"),
        ('"action_type": "speak", "argument": "So?", "accept": "yes"', "true or false, got 'yes'"),
        ('"action_type": "action", "argument": "nods", "accept": true', "Only who speaks"),
        ('"action_type": "leave", "accept": true', "Only who speaks"),
    ],
)
def test_fields_that_cannot_bind(fields, says):
    with pytest.raises(ValueError, match=says):
        parse_act(f"{{{fields}}}", draw_scene("bargain", 0).game)
    with pytest.raises(ValueError, match="Nothing can be offered or accepted here by a field"):
        parse_act(f"{{{fields}}}")


@given(
    st.sampled_from(KINDS),
    st.text(min_size=1).map(lambda text: " ".join(text.split())).filter(bool),
)
def test_what_is_written_is_read(kind, argument):
    act = Act(kind, argument)
    assert parse_act(act.to_json()) == act


@given(st.text() | st.dictionaries(st.text(), st.text()).map(json.dumps))
def test_any_text_is_an_act_or_a_value_error(text):
    try:
        act = parse_act(text)
    except ValueError:
        return
    assert act.kind in KINDS
    assert act.argument or act.kind not in WITH_ARGUMENT
