"""Lets tests, and the processes they start, import the toy environment beside them."""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
importlib.import_module("hallway")
