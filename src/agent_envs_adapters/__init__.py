"""Adapters for trainers of other projects; each module is imported only when it is used."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any


@contextmanager
def use_peer(peer: str, *tested: str) -> Iterator[None]:
    """Import and check a package in the `with` block; warn if its version was not tested.

    The block calls what its adapter needs of the package, where that is possible at import, or else
    checks that it takes the adapter's arguments (`check_call`).

    Args:
        peer: Name of the distribution.
        tested: Versions that the adapter was tested with, without the last number, e.g. "1.16".

    Raises:
        ImportError: The package is not installed, or the block fails.
    """
    try:
        installed = version(peer)
    except PackageNotFoundError:
        installed = ""
    advice = f'pip install "{peer}~={tested[-1]}.0"'
    if not installed:
        raise ImportError(f"{peer} is not installed: {advice}")
    try:
        yield
    except Exception as error:
        raise ImportError(
            f"{peer} {installed} lacks what this adapter uses ({type(error).__name__}: {error}); "
            f"it was tested with {' and '.join(tested)}: {advice}"
        ) from error
    if not any(f"{installed}.".startswith(f"{one}.") for one in tested):
        warnings.warn(
            f"{peer} {installed} was not tested with agent-envs, {' and '.join(tested)} was; it "
            "has what the adapter calls",
            stacklevel=3,
        )


def check_call(function: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Check that a function takes these arguments, without calling it.

    Raises:
        TypeError: It does not.
    """
    try:
        inspect.signature(function).bind(*arguments, **options)
    except TypeError as error:
        raise TypeError(f"{function.__qualname__}: {error}") from error


def check_attributes(owner: Any, *names: str) -> None:
    """Check that instances of a class get these attributes when they are made.

    Raises:
        AttributeError: One is not set by the constructor or the class.
    """
    known = {*dir(owner), *getattr(owner, "model_fields", ()), *owner.__init__.__code__.co_names}
    if missing := [name for name in names if name not in known]:
        raise AttributeError(f"{owner.__qualname__} has no {missing[0]}")
