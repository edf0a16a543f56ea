"""Who sees what of whom."""

from dataclasses import replace

import pytest

from agent_envs.sotopia.scene import RELATIONSHIPS, STRANGER, Character, Scene, strip_markup

SCENE = Scene(
    "rain", "It rains.", ("Stay dry", "Get wet"), 0,
    tuple(
        Character(first, "Quill", 30, work, "she", public, five, ("Care", "Truth"), "Fast", secret)
        for first, work, public, five, secret in (
            ("Ada", "baker", "Sings.", "open", "Cannot swim"),
            ("Bea", "nurse", "Paints.", "calm", "Owes money"),
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("level", range(len(RELATIONSHIPS)))
def test_what_a_relationship_lets_see(level, side):
    scene = replace(SCENE, relationship=level)
    text, own, other = (
        scene.render_background(side),
        SCENE.characters[side],
        SCENE.characters[1 - side],
    )
    seen = {
        other.name: level >= 1,
        other.public_info: level >= 2,
        f"Personality: {other.big_five}. Values: Care, Truth.": level >= 3,
        other.secret: False,
        SCENE.show_goal(1 - side): False,
    }
    assert {part: part in text for part in seen} == seen
    assert scene.name_side(1 - side) == (other.first_name if level else STRANGER)
    for part in (own.name, own.public_info, own.big_five, own.secret, SCENE.show_goal(side)):
        assert part in text


def test_unknown_fields_leave_no_gaps():
    scene = replace(SCENE, characters=(Character("Ada"), Character("Bo")), relationship=3)
    assert scene.render_background(0) == (
        "Situation: It rains.\nYou are Ada.\nYou talk with Bo. You two are friends.\n"
        "Your goal: Stay dry"
    )


def test_hints_are_shown_without_marks_and_what_is_for_other_viewers_is_left_out():
    goal = "Win (<extra_info>Info: x. <strategy_hint>Hint: y</strategy_hint></extra_info>)"
    assert strip_markup(goal, 0) == "Win (Info: x. Hint: y)"
    assert strip_markup("<clarification_hint>Hint: z</clarification_hint>", 1) == "Hint: z"
    text = 'They meet. <p viewer="environment">One lies.</p><p viewer="agent_1, agent_9">Rain.</p>'
    assert strip_markup(text, 0) == "They meet."
    assert strip_markup(text, 1) == "They meet. Rain."
