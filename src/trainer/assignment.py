"""Options on the command line: `key=value`, where the value is TOML."""

from __future__ import annotations

import tomllib
from typing import Any


def assignment(text: str) -> tuple[str, Any]:
    """Key and value of `key=value`; a value that is not valid TOML is a string.

    Raises:
        ValueError: There is no equals sign.
    """
    key, equals, literal = map(str.strip, text.partition("="))
    if not equals:
        raise ValueError(f"an option is key=value, e.g. run.seed=1, got {text!r}")
    try:
        values = tomllib.loads(f"value = {literal}")
    except tomllib.TOMLDecodeError:
        return key, literal
    return key, values["value"] if len(values) == 1 else literal
