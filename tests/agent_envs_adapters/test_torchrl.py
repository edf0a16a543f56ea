"""TorchRL needs no adapter: the block of its page runs."""

from .solving import needs, run_page

pytestmark = needs("torchrl", "torchrl")


def test_the_block_of_the_page_runs(tmp_path):
    assert "[1.0, 1.0, 1.0]" in run_page("torchrl", tmp_path)
