"""TorchRL needs no adapter: the block of its page runs."""

import importlib.util

import pytest

from .solving import run_page

pytestmark = [
    pytest.mark.torchrl,
    pytest.mark.skipif(
        importlib.util.find_spec("torchrl") is None,
        reason="needs TorchRL in an environment of its own; see .ci/torchrl",
    ),
]


def test_the_block_of_the_page_runs(tmp_path):
    assert "[1.0, 1.0, 1.0]" in run_page("torchrl", tmp_path)
