"""Acts, how one is written and displayed, and what binds in a talk."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.sotopia.scene import Character, Scene, Unknown
from agent_envs.sotopia.talk import KINDS, WITH_ARGUMENT, Act, Talk, parse_act, speak
from tests.agent_envs.sotopia.test_games import BARGAIN

TEXT = Scene("rain", "Rain.", ("Stay dry", "Get wet"), 1, (Character("Ada"), Character("Bo")))
GAME = Scene("lamp", "A lamp.", ("Buy", "Sell"), 1, (Character("Ada"), Character("Bo")), BARGAIN)


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
        ("[thinking] what now", speak("[thinking] what now")),
        ('```json\n{"action_type": "leave"}\n```', Act("leave")),
        ('<think>Or "No"?</think>\n{"action_type": "none"}', Act("none")),
    ],
)
def test_acts_of_published_scenes(text, act):
    assert parse_act(text) == act


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("I accept $70.", speak("I accept $70.")),  # plain text is talk and nothing else
        ("left the conversation", speak("left the conversation")),
        ('{"say": " Well\\n then"}', speak("Well then")),
        ('{"ask": "cover"}', Act("speak", ask="cover")),
        ('{"say": "So?", "offer": {"price": 40, "with": ["polish"]}}',
         Act("speak", "So?", offer=(40, 0, 1))),
        ('{"accept": true}', Act("speak", accept=True)),
        ('{"accept": false, "say": "No."}', Act("speak", "No.", accept=False)),
        ('{"leave": true, "say": "Bye."}', Act("leave", "Bye.")),
        ('{"say": "Hm.", "offer": null, "accept": null}', speak("Hm.")),
        ('```json\n{"leave": true}\n```', Act("leave")),
    ],
)  # fmt: skip
def test_acts_of_generated_scenes(text, act):
    assert parse_act(text, BARGAIN) == act


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "Nothing was said or done"),
        ("[action]", "needs an argument"),
        ('{"action_type": "speak", "argument": " "}', "needs an argument"),
        ('{"action_type": "shout", "argument": "Hey"}', "'shout' is no kind of act"),
        ('{"action_type": ["speak"], "argument": "Hey"}', "no kind of act"),
        ('{"action_type": "speak", "argument": 3}', "must be text, got 3"),
        ('{"argument": "Hey"}', "action_type is missing"),
        ('{"action_type": "speak"', "This is no JSON"),
        ("{" * 4000, "This is no JSON"),
        ('I do {"action_type": "none"}', "Nobody says '\"action_type\"' aloud"),
        ("<action>Hello</action>", "Nobody says '<action>' aloud"),
        ("<think>Hello", "A thought has no end"),
        ('{"action_type": "speak", "action_type": "leave"}', "'action_type' is there twice"),
    ],
)
def test_what_is_no_act_is_refused_with_the_form_of_one(text, says):
    with pytest.raises(ValueError, match=says) as refused:
        parse_act(text)
    assert "An act is plain text" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("  ", "Nothing was said or done"),
        ("{}", "An act has fields"),
        ("[]", r"An act has fields, got \[\]"),
        ('[{"accept": true}]', "An act has fields"),
        ("null", "An act has fields, got None"),
        ("120", "An act has fields, got 120"),
        ('{"say": ""}', "Nothing was said or done"),
        ('{"say": 3}', "must be text, got 3"),
        ("[smiles] Well.", "This is no JSON"),
        ("[" * 900 + "]" * 900, "An act has fields|This is no JSON"),
        ("[" * 190_000 + "]" * 190_000, "This is no JSON"),  # too deep to be read
        ('{"offer": 40}', r"An offer has the fields price, with, got 40; an offer here is written"),
        ('{"offers": {}}', "no field 'offers', did you mean 'offer'"),
        ('{"action_type": "speak", "argument": "Hi"}', "no field 'action_type'"),
        ('{"accept": "yes"}', "accept is true or false, got 'yes'"),
        ('{"accept": 1}', "accept is true or false, got 1"),
        ('{"leave": false}', "leave is true, got False"),
        ('{"accept": true, "leave": true}', "An act has one of accept, leave"),
        ('{"offer": {"price": 4, "price": 5}}', "'price' is there twice"),
        ('So {"offer": {"price": 4}}', "Nobody says '\"offer\"' aloud"),
    ],
)
def test_bad_fields_are_refused_in_one_line(text, says):
    with pytest.raises(ValueError, match=says) as refused:
        parse_act(text, BARGAIN)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("topic", ['"colour"', "3", '["cover"]', "{}"])
def test_a_question_about_no_topic_names_those_that_there_are(topic):
    with pytest.raises(Unknown, match="is no topic; ask about price, cover, polish"):
        parse_act(f'{{"ask": {topic}}}', BARGAIN)


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (speak("Hello."), 'Ada said: "Hello."'),
        (speak('A "good" price.'), "Ada said: \"A 'good' price.\""),
        (Act("action", "sits down"), "Ada [action] sits down"),
        (Act("leave", "angrily"), "Ada left the conversation"),
        (Act("none"), "Ada did nothing"),
        (Act("speak", "So?", offer=(40,)), 'Ada said: "So?" [offers: $40]'),
        (Act("speak", offer=(40,)), "Ada [offers: $40]"),
        (Act("speak", "Fine.", accept=True), 'Ada said: "Fine." [accepts the offer]'),
        (Act("speak", accept=False), "Ada [does not accept]"),
        (Act("speak", ask="cover"), "Ada [asks about: cover]"),
    ],
)
def test_acts_are_displayed(act, text):
    assert act.render("Ada", "$40") == text


@given(
    st.sampled_from(KINDS),
    st.text(min_size=1).map(lambda text: " ".join(text.split())).filter(bool),
)
def test_what_is_written_is_parsed(kind, argument):
    act = Act(kind, argument)
    assert parse_act(act.to_json()) == act


@given(
    st.text().map(lambda text: " ".join(text.split())).filter(bool),
    st.sampled_from(
        [{}, {"accept": True}, {"accept": False}, {"offer": (40, 1, 0)}, {"ask": "price"}]
    ),
)
def test_typed_acts_are_parsed_as_they_are_written(said, fields):
    act = Act("speak", said, **fields)
    assert parse_act(act.to_json(BARGAIN), BARGAIN) == act


@given(st.text() | st.dictionaries(st.text(), st.text()).map(json.dumps), st.booleans())
def test_any_text_is_an_act_or_a_value_error(text, typed):
    try:
        act = parse_act(text, BARGAIN if typed else None)
    except ValueError:
        return
    assert act.kind in KINDS
    assert act.argument or act.kind not in WITH_ARGUMENT or typed


def after(*acts):
    talk = Talk(GAME)
    for place, act in enumerate(acts):
        talk = talk.after(place % 2, act)
    return talk


OFFER, OTHER = Act("speak", offer=(70, 0, 0)), Act("speak", offer=(80, 1, 0))
YES, NO = Act("speak", accept=True), Act("speak", accept=False)


@pytest.mark.parametrize(
    ("acts", "agreed", "standing"),
    [
        ((OFFER,), None, ((70, 0, 0), None)),
        ((OFFER, YES), (70, 0, 0), ((70, 0, 0), None)),
        ((OFFER, OFFER), (70, 0, 0), ((70, 0, 0), None)),  # offering the same accepts
        ((OFFER, OTHER), None, ((70, 0, 0), (80, 1, 0))),
        ((OFFER, OTHER, YES), (80, 1, 0), ((70, 0, 0), (80, 1, 0))),
        ((OFFER, NO), None, (None, None)),
        ((OFFER, speak("I accept, agreed, deal.")), None, ((70, 0, 0), None)),
        ((speak("I offer $70."), speak("Yes!")), None, (None, None)),
        ((OFFER, speak("Hm."), OTHER), None, ((80, 1, 0), None)),  # the newer offer stands
    ],
)
def test_only_fields_bind(acts, agreed, standing):
    talk = after(*acts)
    assert (talk.agreed, talk.standing) == (agreed, standing)
    assert talk.is_over == (agreed is not None)


def test_accepting_needs_an_open_offer():
    for talk, side in ((Talk(GAME), 0), (after(OFFER, NO), 1), (after(OFFER), 0)):
        assert talk.find_obstacle(side, YES) == "There is no open offer that you could accept."
    assert not after(OFFER).find_obstacle(1, YES)
    assert "at most 4,096 characters" in Talk(GAME).find_obstacle(0, speak("z" * 4097))


def test_a_talk_ends_when_one_leaves_or_both_do_nothing():
    talk = Talk(TEXT).after(0, Act("none"))
    assert not talk.is_over
    assert talk.after(1, Act("none")).is_over
    assert not talk.after(1, speak("Well.")).is_over
    assert talk.after(1, Act("leave")).is_over
