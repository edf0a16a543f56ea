"""Adapters for trainers of other projects; each module is imported only when it is used."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def check_version(peer: str, *tested: str) -> None:
    """Check that a package is installed in a version that its adapter was tested with.

    Args:
        peer: Name of the distribution.
        tested: Versions without the last number, e.g. "1.16" for every 1.16.x.

    Raises:
        ImportError: It is not installed, or in another version.
    """
    remedy = f'pip install "{peer}~={tested[-1]}.0"'
    try:
        installed = version(peer)
    except PackageNotFoundError as error:
        raise ImportError(f"this adapter needs {peer} {' or '.join(tested)}: {remedy}") from error
    if not any(installed == one or installed.startswith(f"{one}.") for one in tested):
        raise ImportError(
            f"{peer} {installed} is installed, but this adapter was tested with "
            f"{' and '.join(f'{one}.x' for one in tested)}: {remedy}"
        )


def checked_messages(prompt: Any) -> list[dict[str, Any]]:
    """The messages of a data set's prompt.

    Raises:
        ValueError: It is no list of messages with the texts `role` and `content`; a table may have
            put NaN in the place of a text.
    """
    listed = (
        None if isinstance(prompt, str | Mapping) or not hasattr(prompt, "__iter__") else prompt
    )
    messages = [] if listed is None else list(listed)
    odd = [
        one
        for one in messages
        if not isinstance(one, Mapping)
        or not all(isinstance(one.get(name), str) for name in ("role", "content"))
    ]
    if listed is None or odd:
        raise ValueError(
            "a prompt is a list of messages with the texts role and content, got "
            f"{(odd or [prompt])[0]!r:.100}; make the data set with this adapter"
        )
    return [dict(one) for one in messages]
