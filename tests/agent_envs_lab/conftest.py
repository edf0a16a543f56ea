"""The fixtures of the trainer's tests."""

from tests.trainer.conftest import *  # noqa: F403
from tests.trainer.conftest import _one_thread, _unreported  # noqa: F401
