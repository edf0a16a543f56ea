"""Figures as SVG: colours are variables, text stays escaped text, the same bytes again."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from trainer.run import curves


def figure(title="a title"):
    with mpl.rc_context(curves.STYLE):
        made = Figure(figsize=(2, 1))
        axes = made.add_subplot(title=title)
        curves.strip_axes(axes)
        axes.plot([0, 1], [0, 1], color=curves.MAIN)
    return made


@pytest.mark.parametrize("draw", [curves.render_inline, curves.render_standalone])
def test_every_colour_is_a_variable_of_the_palette(draw):
    text = draw(figure(), "what it shows")
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    used = set(re.findall(r"var\(--(\w+)\)", body))
    assert {"main", "line", "soft"} <= used <= curves.PALETTE.keys()
    assert set(re.findall(r"#[0-9a-f]{6}", body)) == set()
    assert draw(figure(), "what it shows") == text


def test_a_file_carries_light_and_dark_and_its_background():
    root = ET.fromstring(curves.render_standalone(figure(), 'a "label" <b>'))  # noqa: S314 - our own
    assert root.attrib["aria-label"] == 'a "label" <b>'
    style = root.find("{http://www.w3.org/2000/svg}style").text
    assert "prefers-color-scheme:dark" in style
    assert all(f"--{name}:{light}" in style and f"--{name}:{dark}" in style
               for name, (light, dark) in curves.PALETTE.items())  # fmt: skip


def test_text_is_escaped():
    text = curves.render_inline(figure("<script>1</script> & more"), "<script>")
    assert "<script" not in text
    assert "&lt;script&gt;1&lt;/script&gt; &amp; more" in text
