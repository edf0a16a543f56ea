"""The fixtures of the trainer's tests, and the toy environments for tests and their processes."""

import importlib
import sys
from pathlib import Path

from tests.trainer.conftest import *  # noqa: F403
from tests.trainer.conftest import _one_thread, _unreported  # noqa: F401

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "agent_envs")]
for name in ("hallway", "lamp"):
    importlib.import_module(name)
