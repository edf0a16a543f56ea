"""Who sees what of whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_envs.sotopia.families import draw_scene
from agent_envs.sotopia.scene import RELATIONSHIPS, STRANGER, strip_markup

SCENE = draw_scene("favour", 5)


def visible(level: int, side: int) -> dict[str, bool]:
    """Which parts of the other are in the background of `side`."""
    text = replace(SCENE, relationship=level).background(side)
    other = SCENE.characters[1 - side]
    parts = {
        "name": other.name,
        "first_name": other.first_name,
        "public": other.public_info,
        "personality": f"Personality: {other.big_five}. Values: {', '.join(other.moral_values)}.",
        "secret": other.secret,
        "goal": SCENE.goal(1 - side),
    }
    return {name: part in text for name, part in parts.items()}


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("level", "seen"),
    [
        (0, set()),
        (1, {"name", "first_name"}),
        (2, {"name", "first_name", "public"}),
        (3, {"name", "first_name", "public", "personality"}),
        (4, {"name", "first_name", "public", "personality"}),
        (5, {"name", "first_name", "public", "personality"}),
    ],
)
def test_what_a_relationship_lets_see(level, seen, side):
    assert {name for name, is_seen in visible(level, side).items() if is_seen} == seen


@pytest.mark.parametrize("side", [0, 1])
def test_a_character_knows_itself(side):
    text = replace(SCENE, relationship=0).background(side)
    own = SCENE.characters[side]
    for part in (own.name, own.public_info, own.big_five, own.secret, SCENE.goal(side)):
        assert part in text


def test_strangers_have_no_names_for_each_other():
    assert replace(SCENE, relationship=0).label(0) == STRANGER
    assert replace(SCENE, relationship=1).label(0) == SCENE.characters[0].first_name
    assert len(RELATIONSHIPS) == 6


def test_hints_are_shown_without_marks():
    goal = "Win (<extra_info>Info: x. <strategy_hint>Hint: y</strategy_hint></extra_info>)"
    assert strip_markup(goal, 0) == "Win (Info: x. Hint: y)"
    assert strip_markup("<clarification_hint>Hint: z</clarification_hint>", 1) == "Hint: z"


def test_what_is_for_other_viewers_is_left_out():
    text = 'They meet. <p viewer="environment">One lies.</p><p viewer="agent_1, agent_9">Rain.</p>'
    assert strip_markup(text, 0) == "They meet."
    assert strip_markup(text, 1) == "They meet. Rain."
