"""Recipes of the small worlds."""

import importlib.util
import sys
from pathlib import Path

import pytest

from trainer import recipe


@pytest.fixture(scope="package", autouse=True)
def worlds():
    """The module beside this file, importable as truth_worlds."""
    path = Path(__file__).with_name("worlds.py")
    spec = importlib.util.spec_from_file_location("truth_worlds", path)
    sys.modules["truth_worlds"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(tiny_folder):
    """A recipe of one of the worlds with a random policy."""

    def make(world="Sums", *options):
        return recipe.load(
            "alfworld mgr pocket",
            [
                f"env.id=truth_worlds:{world}",
                "env.max_turns=3",
                "env.data=auto",
                f"policy.model={tiny_folder}",
                "sampling.rollouts=6",
                "sampling.temperature=0.4",
                "sampling.max_reply_tokens=2",
                "run.threads=1",
                *options,
            ],
        )

    return make
