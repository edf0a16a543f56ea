"""Lets tests, and the processes they start, import the toy environments."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "agent_envs")]
for name in ("hallway", "lamp"):
    importlib.import_module(name)
