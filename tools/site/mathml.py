"""Formulas as MathML, made when the site is built: browsers show it without a script or a font."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from latex2mathml.converter import convert

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


def mathml(formula: str, display: str) -> str:
    """A formula in LaTeX as MathML.

    Raises:
        ValueError: A command is unknown; the converter would show its name.
    """
    made = convert(formula, display=display)
    if unknown := re.findall(r"\\\w+", made):
        raise ValueError(f"{', '.join(unknown)} in {formula!r} cannot be shown as MathML")
    return made


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _display(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
