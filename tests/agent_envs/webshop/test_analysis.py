"""Words as the index keeps them."""

from __future__ import annotations

import time

import pytest
from agent_envs.webshop.analysis import LONGEST, STOP_WORDS, stem, words
from hypothesis import given, settings
from hypothesis import strategies as st

# the examples of Porter's paper (1980), each through all five steps
PORTER = """
caresses caress  ponies poni  ties ti  caress caress  cats cat  feed feed  agreed agre
plastered plaster  bled bled  motoring motor  sing sing  conflated conflat  troubled troubl
sized size  hopping hop  tanned tan  falling fall  hissing hiss  fizzed fizz  failing fail
filing file  happy happi  sky sky  relational relat  conditional condit  rational ration
valenci valenc  hesitanci hesit  digitizer digit  conformabli conform  radicalli radic
differentli differ  vileli vile  analogousli analog  vietnamization vietnam  predication predic
operator oper  feudalism feudal  decisiveness decis  hopefulness hope  callousness callous
formaliti formal  sensitiviti sensit  sensibiliti sensibl  triplicate triplic  formative form
formalize formal  electriciti electr  electrical electr  hopeful hope  goodness good
revival reviv  allowance allow  inference infer  airliner airlin  gyroscopic gyroscop
adjustable adjust  defensible defens  irritant irrit  replacement replac  adjustment adjust
dependent depend  adoption adopt  homologou homolog  communism commun  activate activ
angulariti angular  homologous homolog  effective effect  bowdlerize bowdler  probate probat
rate rate  cease ceas  controll control  roll roll
"""


@pytest.mark.parametrize("pair", PORTER.strip().replace("\n", "  ").split("  "))
def test_porters_examples(pair):
    word, expected = pair.split()
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("possibly", "possibl"),  # possibli -> possible; the paper's abli -> able leaves possibli
        ("terribly", "terribl"),
        ("apology", "apolog"),  # apologi -> apolog; the paper leaves apologi
        ("archaeology", "archaeolog"),
        ("biology", "biologi"),  # no consonant after a vowel in bio: the ending stays
        ("is", "is"),  # two letters stay
        ("as", "as"),
        ("ed", "ed"),
        ("gas", "ga"),
        ("bus", "bu"),
        ("yes", "ye"),  # the first y is a consonant
        ("dyed", "dy"),  # the second letter is a vowel: dy + ed
        ("toy", "toi"),
        ("playing", "plai"),  # ends in y: no e is put back, and y is i after a vowel
        ("fly", "fly"),  # no vowel before the y
        ("bring", "bring"),
        ("ring", "ring"),
        ("mixing", "mix"),  # ends in x: no e is put back
        ("bowing", "bow"),
        ("egging", "eg"),  # gg -> g
        ("adding", "ad"),
        ("billing", "bill"),  # ll, ss and zz stay
        ("connection", "connect"),
        ("union", "union"),  # -ion after neither s nor t
        ("cement", "cement"),  # -ement before -ment before -ent, too little left: all stay
        ("7.5s", "7.5"),
    ],
)
def test_stems(word, expected):
    assert stem(word) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Red shoe", ["red", "shoe"]),
        ("size 7.5", ["size", "7.5"]),
        ("1,000.5 1;2", ["1,000.5", "1;2"]),
        ("7.5.", ["7.5"]),
        ("7. 5", ["7", "5"]),
        ("x,y x;y", ["x", "y", "x", "y"]),  # commas join digits only
        ("a:b x:y 1:2", ["a:b", "x:y", "1", "2"]),  # colons join letters only
        ("u.s.a. 3.x", ["u.s.a", "3", "x"]),  # a dot joins letters or digits, not one with another
        ("x.3", ["x", "3"]),
        ("mp3 4k", ["mp3", "4k"]),
        ("can't can’t ’90s'", ["can't", "can’t", "90"]),
        ("x''y", ["x", "y"]),  # one apostrophe joins, two do not
        ("snake_case __init__ _ __7_5", ["snake_cas", "__init__", "__7_5"]),
        (
            "red-blue/green (new) #1 $5 50% x+y",
            ["red", "blue", "green", "new", "1", "5", "50", "x", "y"],
        ),
        ("漢字", ["漢", "字"]),
        ("ひらがな", ["ひ", "ら", "が", "な"]),
        ("カタカナ", ["カタカナ"]),
        ("ラーメン ｶﾀｶﾅ", ["ラーメン", "ｶﾀｶﾅ"]),
        ("カタカナabc漢", ["カタカナ", "abc", "漢"]),
        ("カ_a", ["カ_a"]),  # an underscore joins what would part
        ("한국어 옷", ["한국어", "옷"]),  # Hangul are letters
        ("ภาษาไทย abc", ["ภาษาไทย", "abc"]),
        ("Красный ПЛАТЬЕ", ["красный", "платье"]),
        ("Café CAFÉ cafe\u0301", ["café", "café", "cafe\u0301"]),
        ('צה"ל', ['צה"ל']),  # a double quote joins Hebrew letters
        ("ג' ג'ל x'", ["ג'", "ג'ל", "x"]),  # and a single one stays at the end
        ('x"y צ"y', ["x", "y", "צ", "y"]),
        ("soft\u00adhyphen", ["soft\u00adhyphen"]),  # format characters are part of the word
        ("", []),
        ("?! … — \n\t", []),
    ],
)
def test_word_boundaries(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    "emoji",
    [
        "👍",
        "👍🏽",  # a skin tone
        "❤\ufe0f",  # a variation selector
        "👩\u200d💻",  # joined by U+200D
        "👨\u200d👩\u200d👧\u200d👦",
        "🧑🏿\u200d🚀",
        "🇩🇪",  # two halves of a flag
    ],
)
def test_an_emoji_is_one_word(emoji):
    assert words(emoji) == [emoji]
    assert words(f"red{emoji}{emoji}7") == ["red", emoji, emoji, "7"]


@pytest.mark.parametrize(
    "sign",
    ["★", "☞", "™", "®", "©", "♚", "♫", "✔", "〰", "〽"],
)
def test_a_pictograph_is_a_word(sign):
    assert words(f"red {sign} shoe{sign}") == ["red", sign, "shoe", sign]


@pytest.mark.parametrize("sign", ["•", "→", "€", "●", "✓", "【", "※", "°"])
def test_other_signs_are_none(sign):
    assert words(f"red {sign} shoe{sign}") == ["red", "shoe"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "1\ufe0f\u20e3 #\ufe0f\u20e3 *\u20e3 # *",
            ["1\ufe0f\u20e3", "#\ufe0f\u20e3", "*\u20e3"],
        ),  # key caps
        ("shoe\U0001f3fd", ["shoe\U0001f3fd"]),  # a skin tone extends what is before it
        ("\u2139 \u2139nfo", ["\u2139", "\u2139nfo"]),  # a letter that is an emoji
        ("\u2139\ufe0f\u200d\u2605", ["\u2139\ufe0f\u200d\u2605"]),
        ("\u2139\u200dnfo", ["\u2139\u200dnfo"]),
        ("\u2605\ufe0e\ufe0f", ["\u2605"]),  # a text presentation ends an emoji
        ("\U0001f3f4\U000e0067\U000e007f", ["\U0001f3f4\U000e0067\U000e007f"]),  # tags
        (
            "\u05d0'\u05d1.\u05d2'",
            ["\u05d0'\u05d1.\u05d2"],
        ),  # what a dot joined ends without its quote
        (
            '\u05d0"\u05d1"\u05d2',
            ['\u05d0"\u05d1', "\u05d2"],
        ),  # a Hebrew letter has one double quote
        ("\u0130s \u0130T \u212aing", ["king"]),  # in lower case these are stop words and a k
        ("\U00010428s x", ["\U00010428", "x"]),  # the stemmer counts units, here three
    ],
)
def test_boundaries_that_a_table_of_unicode_knows(text, expected):
    assert words(text) == expected


def test_half_flags_pair_from_the_left():
    assert words("🇩🇪🇫🇷🇮") == ["🇩🇪", "🇫🇷"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("men's", ["men"]),
        ("men’s", ["men"]),
        ("men＇s", ["men"]),
        ("MEN'S", ["men"]),
        ("Women’S shoes'", ["women", "shoe"]),
        ("it's that's", []),  # what is left is a stop word
        ("o's", ["o"]),
        ("men'sx", ["men'sx"]),
        ("'s", ["s"]),
        ("mens", ["men"]),
    ],
)
def test_possessives(text, expected):
    assert words(text) == expected


def test_stop_words():
    assert len(STOP_WORDS.split()) == 33
    assert words(STOP_WORDS + STOP_WORDS.upper()) == []
    # no stop words: they only look like it, or become one by stemming
    assert words("you from all thes i a.b") == ["you", "from", "all", "the", "i", "a.b"]


def test_long_tokens_are_cut():
    # 600 = 255 + 255 + 90
    assert words("x" * 600) == ["x" * 255, "x" * 255, "x" * 90]
    assert words("x" * LONGEST) == ["x" * 255]
    # the cut comes before the stemmer and the stop words: "...xing" loses its end, "a" is dropped
    assert words("y" + "x" * 253 + "ing") == ["y" + "x" * 253 + "i", "ng"]
    assert words("x" * 255 + "a") == ["x" * 255]


def test_no_more_of_a_long_token_is_seen_than_its_units():
    # a window of 255 units: the dot is its last, and joins nothing that is seen
    assert words("x" * 254 + ".y") == ["x" * 254, "y"]
    assert words("x" * 253 + ".y") == ["x" * 253 + ".y"]
    # joiners alone are none, so a run of them is left one by one until the letter is seen
    assert words("_" * 300 + "x") == ["_" * 254 + "x"]
    # a letter outside the basic plane is two units: 127 of them fit, and half of one does not
    wide = "\U00010428"
    assert words(wide * 200) == [wide * 127, wide * 73]


@pytest.mark.parametrize(
    "text", ["_", "\u200d", "\u2605\u200d", "\u05d0\u2019", "#\ufe0f", "\u2139_", "__x"]
)
def test_long_runs_take_no_long_time(text):
    start = time.process_time()
    words(text * 30_000)
    assert time.process_time() - start < 10  # of which most on a busy machine is waiting


SCRIPTS = st.text(
    st.sampled_from("aAeEsSyzing '’_.,:;\"-7 5漢ひカｶไก한א\u0301\u200d\ufe0f👍🏽🇩🇪❤\u00ad\u202fİΣß")
)


@pytest.mark.slow
@settings(max_examples=1000)
@given(st.text(st.characters(codec=None)) | SCRIPTS)
def test_any_text_has_words(text):
    found = words(text)
    assert all(found)
    assert all(len(word) <= LONGEST for word in found)
    assert words(text) == found


@settings(max_examples=500)
@given(SCRIPTS, SCRIPTS)
def test_texts_with_a_blank_between_them_have_the_words_of_both(one, other):
    assert words(f"{one} {other}") == words(one) + words(other)


@settings(max_examples=300)
@given(st.text(st.characters(max_codepoint=127)))
def test_case_does_not_matter(text):
    assert words(text.upper()) == words(text.lower()) == words(text)


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,3})?|[bcdxz]{1,2}|漢|カタ", fullmatch=True)))
def test_words_that_no_rule_changes_come_back(found):
    assert words(" ".join(found)) == found
