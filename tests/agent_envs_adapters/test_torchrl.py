"""TorchRL needs no adapter: the block of its page runs."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.torchrl,
    pytest.mark.skipif(
        importlib.util.find_spec("torchrl") is None,
        reason="needs TorchRL in an environment of its own; see .ci/torchrl",
    ),
]
PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "torchrl.md"


def test_the_block_of_the_page_runs(tmp_path):
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "block.py").write_text(block)
    child = subprocess.run(
        [sys.executable, "block.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    assert "[1.0, 1.0, 1.0]" in child.stdout
