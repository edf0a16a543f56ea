"""Settings of Sphinx; `python -m tools.site` puts the sources together and runs it."""

import re

from sphinx.ext.autodoc._dynamic._mock import _MockObject

import credit
from agent_envs import __version__

# `Tensor | None` in signatures, where torch is not installed. Sphinx's stand-in lacks it.
_MockObject.__or__ = _MockObject.__ror__ = lambda self, other: self  # noqa: ARG005

ESTIMATORS = {type(credit.make(name)) for name in credit.names()}

project = "agent-envs"
author = "the agent-envs contributors"
copyright = f"2026, {author}"  # noqa: A001
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "tools.site.mathml",
]
exclude_patterns = ["extras.md", "episode.md", "measurements.md"]  # included in other pages

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space = False  # $40 and $45 are amounts
html_math_renderer = "mathml"
myst_html_meta = {
    "description": "Gymnasium environments for language-model agents, turn-level credit "
    "assignment for any trainer, and a compact reference trainer."
}

autodoc_mock_imports = ["torch"]
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "literal"  # docstrings have code in single backquotes
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
# Types of other packages have no pages here, and the site is built offline. Links between pages,
# to headings and to files are checked.
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = f"agent-envs {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("drawers.js", {"defer": "defer"}), ("scrolling.js", {"defer": "defer"})]
html_show_sphinx = False
html_copy_source = False
highlight_language = "text"  # commands and output, where a block names no language
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_exclude = ".linenos, .gp, .go"


def _as_markup(app, what, name, obj, options, lines):  # noqa: ANN001, ANN202, PLR0917, ARG001
    """Make reStructuredText of plain text with code in backquotes and lists of `name: text`."""
    blocks = "\n".join(lines).split("\n\n")
    lines[:] = "\n\n".join(map(_block, blocks)).split("\n")


def _block(text):  # noqa: ANN001, ANN202
    parts = re.split(r"(`[^`]*`)", text)
    escaped = "".join(
        part
        if part.startswith("`")
        else re.sub(r"(?m)(?!^\* )([*|])|(?<=\w)_(?!\w)", r"\\\g<0>", part)
        for part in parts
    )
    if not re.match(r"[^:\n]{1,40}: \S", text) or "\n    " not in text:
        return escaped
    items = re.sub(r"(?m)^(?=\S)", "* ", escaped)
    return re.sub(r"(?m)^    ", "  ", items)


def _on_its_own_page(app, what, name, obj, skip, options):  # noqa: ANN001, ANN202, PLR0917, ARG001
    """Leave estimators out of the page of the package: each is on the page of its method."""
    return True if what == "module" and isinstance(obj, type) and obj in ESTIMATORS else None


def setup(app):  # noqa: ANN001, ANN201, D103
    app.connect("autodoc-skip-member", _on_its_own_page)
    app.connect("autodoc-process-docstring", _as_markup, priority=400)
