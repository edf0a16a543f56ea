"""Figures as SVG: colours are variables, text stays escaped text, the same bytes again."""

import re
from xml.etree import ElementTree as ET

from agent_envs.cli import figures


def draw():
    import matplotlib.figure

    with matplotlib.rc_context(figures.STYLE):
        made = matplotlib.figure.Figure(figsize=(2, 1))
        axes = made.add_subplot(title="<script>1</script> & more")
        figures.strip_axes(axes)
        axes.plot([0, 1], [0, 1], color=figures.MAIN)
    return figures.render(made, 'a "label" <b>')


def test_a_figure_carries_its_colours_for_light_and_dark():
    text = draw()
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    used = set(re.findall(r"var\(--(\w+)\)", body))
    assert {"main", "line", "soft", "paper"} <= used <= figures.PALETTE.keys()
    assert not re.findall(r"#[0-9a-f]{6}", body)
    style = ET.fromstring(text).find("{http://www.w3.org/2000/svg}style").text  # noqa: S314 - ours
    assert "prefers-color-scheme:dark" in style
    assert all(f"--{name}:{light}" in style and f"--{name}:{dark}" in style
               for name, (light, dark) in figures.PALETTE.items())  # fmt: skip
    assert draw() == text


def test_text_is_escaped():
    text = draw()
    assert "<script" not in text
    assert "&lt;script&gt;1&lt;/script&gt; &amp; more" in text
    assert ET.fromstring(text).attrib["aria-label"] == 'a "label" <b>'  # noqa: S314 - ours
