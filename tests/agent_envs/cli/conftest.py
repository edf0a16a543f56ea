"""Leaves out these tests where the extra [cli] is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("matplotlib") and find_spec("typer") else ["test_*"]
