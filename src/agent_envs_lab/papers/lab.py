"""Measures of the credit lab that `agent-envs attribute --out` saved in a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent_envs.machine import read_json
from agent_envs.panels import nearest

FILE = "lab.json"


def read_lab(folder: Path, name: str) -> NDArray[np.float64]:
    """The mean of a measure of the run in a folder, [1].

    Raises:
        FileNotFoundError: Nothing was measured.
        KeyError: There is no such measure; the message has those that there are.
    """
    found = read_json(folder / FILE, dict[str, float])
    if name not in found:
        raise KeyError(f"no measure {name!r}{nearest(name, found)}; there are {', '.join(found)}")
    return np.array([found[name]])
