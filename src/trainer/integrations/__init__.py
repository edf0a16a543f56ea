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
