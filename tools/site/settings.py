"""The page of settings: every sourced setting of the recipes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer import recipes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEAD = """# Settings and their sources

From the comments in `src/trainer/recipes/`. Settings without
a source are left out. "ours" marks what no paper prints. A recipe is an environment, a method and
perhaps a model, in the setting of a paper. They override one another in the order of this page. A
setting "with NAME" applies only together with that part, above everything of both.
"""


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for axis in recipes.AXES:
        lines.append(f"## {axis.capitalize()}s\n")
        for name in recipes.names(axis):
            rows = list(_rows(axis, name))
            if rows:
                lines += [f"### {name}\n", "| option | value | source |\n|---|---|---|"]
                lines += [*rows, ""]
    return "\n".join(lines).rstrip() + "\n"


def _rows(axis: str, name: str) -> Iterator[str]:
    part = recipes.part(axis, name)
    yield from _table(part.settings, "")
    for others, settings in part.when.items():
        yield from _table(settings, f" with {' and '.join(others)}")


def _table(settings: Mapping[recipes.Key, recipes.Setting], beside: str) -> Iterator[str]:
    for key, setting in settings.items():
        if setting.source:
            value = str(setting.value).replace("|", "\\|")
            yield f"| `{'.'.join(key)}`{beside} | {value} | {setting.source} |"
