"""Pieces of HTML inside Markdown pages: text that is shown as it is, and tables."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def plain(text: str) -> str:
    """Text as HTML that shows it unchanged, without the empty lines that end HTML in Markdown."""
    return html.escape(text).replace("\n", "&#10;")


def code(text: str) -> str:
    """Text as inline code."""
    return f"<code>{plain(text)}</code>"


def clipped(text: str, length: int) -> str:
    """Text of at most `length` characters, and how many more there were."""
    rest = len(text) - length
    return text if rest <= 0 else f"{text[:length]} … ({rest:,} more characters)"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML; the first cell of a row is its heading."""
    region = f'role="region" tabindex="0" aria-label="{plain(caption)}"'
    lines = [f'<div class="signals" {region}><table><caption>{plain(caption)}</caption><thead><tr>']
    lines += [f'<th scope="col">{plain(name)}</th>' for name in head]
    lines.append("</tr></thead><tbody>")
    for first, *rest in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in rest)
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def bar(value: float, largest: float) -> str:
    """A number with a bar to the right of the middle if positive, to the left if negative."""
    share = min(abs(value) / largest, 1.0) if largest else 0.0
    side = "gain" if value > 0 else "loss"
    shown = f"{value:+.2f}" if round(value, 2) else "0"
    return (
        f'<span class="credit {side}" style="--share:{share:.3f}">'
        f'<span class="track" aria-hidden="true"></span>{shown}</span>'
    )


def markdown(text: str) -> str:
    """Prose of a docstring as Markdown: `<` outside of code is no HTML."""
    code_or_less = r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)|<"
    return re.sub(
        code_or_less, lambda found: found[0] if found[1] else r"\<", text, flags=re.DOTALL
    )
