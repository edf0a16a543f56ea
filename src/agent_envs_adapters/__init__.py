"""Adapters for trainers of other projects; each module is imported only when it is used."""

from importlib.metadata import PackageNotFoundError, version


def check_version(peer: str, *tested: str) -> None:
    """Check that a package is installed in a version that its adapter was tested with.

    Args:
        peer: Name of the distribution.
        tested: Versions without the last number, e.g. "1.16" for every 1.16.x.

    Raises:
        ImportError: It is not installed, or in another version.
    """
    try:
        installed = version(peer)
    except PackageNotFoundError:
        installed = "none"
    if not any(f"{installed}.".startswith(f"{one}.") for one in tested):
        raise ImportError(
            f"this adapter was tested with {peer} {' and '.join(tested)}, and {installed} is "
            f'installed: pip install "{peer}~={tested[-1]}.0"'
        )
