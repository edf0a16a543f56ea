"""Names of files without the machine's folders: agent code reads the same on every machine.

This is no protection: code of the interpreter's own process can find its paths in memory. Imports
from files come after `shorten`, so this module has none.
"""

from __future__ import annotations

import _frozen_importlib_external as external
import _imp
import sys
from types import CodeType

TYPE_CHECKING = False  # `typing` has a file

_PREFIXES = ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix")
_PATHS = (*_PREFIXES, "executable", "_base_executable", "_stdlib_dir")
_ORIGINS = ("__file__", "__cached__", "__path__", "__spec__", "__loader__")


class _Loader(external.SourceFileLoader):
    """Loads modules whose tracebacks show `json/decoder.py`."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        _imp._fix_co_filename(code, fullname.replace(".", "/") + ".py")  # type: ignore[attr-defined]  # noqa: SLF001
        return code


def shorten() -> None:
    """Import modules under short names from now on."""
    loaders = (
        (_Loader, external.SOURCE_SUFFIXES),
        (external.ExtensionFileLoader, external.EXTENSION_SUFFIXES),
    )
    sys.path_hooks.insert(0, external.FileFinder.path_hook(*loaders))
    sys.path_importer_cache.clear()


def forget() -> None:
    """Remove the folders from all modules; nothing can be imported from files afterwards."""
    for module in list(sys.modules.values()):
        for name in _ORIGINS:
            if name in vars(module):
                setattr(module, name, None)
    for name in _PATHS:
        setattr(sys, name, "")
    sys.argv[:] = sys.orig_argv[:] = [""]
    for found in (sys.path, sys.path_hooks, sys.meta_path, sys.path_importer_cache):
        found.clear()
