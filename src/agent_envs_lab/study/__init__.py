"""A study: several methods with several seeds and equal budgets; tables and one figure.

Every run is an ordinary run folder, `OUT/METHOD/seed_N`, of the recipe `OUT/METHOD/recipe.toml`.
Success is that of the last evaluation.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from agent_envs_lab.study.figures import figure
from agent_envs_lab.study.tables import markdown
from trainer.run.checkpoint import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from agent_envs_lab.study.results import Result


def save(results: Sequence[Result], out: Path, *, level: float, seeds: int, curve: str) -> None:
    """Write `study.json`, `study.md` and `study.svg`.

    Raises:
        StudyError: The runs did not log `curve`.
    """
    write_text(out / "study.json", json.dumps([asdict(result) for result in results], indent=1))
    write_text(out / "study.md", markdown(results, level=level))
    write_text(out / "study.svg", figure(results, out, seeds, curve))
