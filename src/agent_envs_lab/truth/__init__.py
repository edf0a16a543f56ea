"""Measured truth: a batch of turns with the true value before and after each of them.

`agent-envs truth` measures it. A file is Parquet, one row for each turn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.assets import require
from agent_envs_lab.fidelity import as_sketch
from agent_envs_lab.intervals import Bootstrap, Score, interval
from credit.turns import Turns
from credit.validation import as_vector, check_length, check_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from credit.stats import Array

VERSION = 1
"""Version of the files; others are refused."""
_KEY = b"agent-envs truth"
_ROUNDING = 1e-6
_GRADIENT = "gradient"
_COLUMNS = ("value_before", "value_after", "first", "second", "error")


@dataclass(frozen=True, eq=False, kw_only=True)
class Truth:
    """Turns and what is known of the true advantage of each under the policy that played them.

    Attributes:
        turns: The N turns of M trajectories.
        value_before: [N] expected outcome before the turn, V(s_t).
        value_after: [N] expected outcome after the turn and its result; the outcome itself after
            the last turn.
        first: [N] advantage by one half of the rollouts.
        second: [N] advantage by the other half, whose error is independent.
        error: [N] standard error of the advantage.
        gradient: [N, D] sketch of ∇ log π of each turn's reply, whose inner products are those of
            the gradients but for an error, in any unit; None if it was not measured.
        about: Environment, policy, reliability, costs and what else was noted.

    Raises:
        ValueError: No turns, columns of unequal length, a number that is not finite, a negative
            error, or values that do not add up to the outcomes.
        TypeError: A column of another type.
    """

    turns: Turns
    value_before: Array
    value_after: Array
    first: Array
    second: Array
    error: Array
    gradient: Array | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.turns):
            raise ValueError("a truth needs turns, and there are none")
        for name in _COLUMNS:
            column = as_vector(name, getattr(self, name))
            check_length(name, column, "turns", len(self.turns))
            object.__setattr__(self, name, column)
        if self.gradient is not None:
            object.__setattr__(self, "gradient", as_sketch(self.gradient, len(self.turns)))
        check_rows("error", self.error, self.error >= 0, "standard errors are at least 0")
        first, outcome = self.turns.position == 0, self.turns.outcome
        total = np.bincount(self.turns.trajectory, self.advantage, len(outcome))
        apart = np.abs(total - (outcome - self.value_before[first]))
        if apart.max() > _ROUNDING:
            row = int(apart.argmax())
            raise ValueError(
                f"the advantages of trajectory {row} sum to {total[row]:.6g}, not to its outcome "
                f"{outcome[row]:.6g} minus the value at its start "
                f"{self.value_before[first][row]:.6g}"
            )

    @property
    def advantage(self) -> Array:
        """True advantage A_t = V(after turn t) − V(before it): [N]."""
        found: Array = self.value_after - self.value_before
        return found

    @property
    def reliability(self) -> float:
        """Reliability of the advantages by their two halves (Spearman-Brown)."""
        return self.reliability_score.value

    @cached_property
    def reliability_score(self) -> Score:
        """`reliability`, at least 0, with an interval over task groups."""
        sample = Bootstrap(self.turns.group_of_turn, 0)
        x, y = self.first - self.first.mean(), self.second - self.second.mean()
        count, of_x, of_y, product, square_x, square_y = map(
            sample.sums, (np.ones(len(x)), x, y, x * y, x * x, y * y)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            variance_x, variance_y = square_x - of_x**2 / count, square_y - of_y**2 / count
            agreement = (product - of_x * of_y / count) / np.sqrt(variance_x * variance_y)
            found = np.maximum(2 * agreement / (1 + agreement), 0.0)
        if min(self.first.std(), self.second.std()) <= 0:
            return Score(0.0, math.nan, math.nan)
        return interval(found, sample.groups)

    def save(self, path: str | Path) -> None:
        """Write a file; needs pyarrow."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = self.turns.to_table()
        for name in _COLUMNS:
            table = table.append_column(name, pa.array(getattr(self, name)))
        if self.gradient is not None:
            size = self.gradient.shape[1]
            unit = np.abs(self.gradient).max(initial=0.0) or 1.0
            rounded = pa.array((self.gradient / unit).astype(np.float16).ravel())
            table = table.append_column(_GRADIENT, pa.FixedSizeListArray.from_arrays(rounded, size))
        note = json.dumps({"version": VERSION, **self.about})
        table = table.replace_schema_metadata({_KEY: note.encode()})
        part = Path(path).with_name(Path(path).name + ".part")
        pq.write_table(table, part, compression="zstd")
        part.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> Truth:
        """Read a file; needs pyarrow.

        Raises:
            FileNotFoundError: There is no such file.
            ValueError: The file holds no truth, is damaged, or is of another version.
            ImportError: pyarrow is not installed.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"no truth at {path}; `agent-envs truth` measures one")
        parquet: Any = require("pyarrow.parquet", "report")
        try:
            return cls(**_read_columns(parquet.read_table(path)))
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            raise ValueError(
                f"{path} is damaged or of another version: {error}; measure it again, or install "
                "the agent-envs that made it"
            ) from error


def _read_columns(table: pa.Table) -> dict[str, Any]:
    """The columns of `Truth`, and its note without the version."""
    about = dict(json.loads((table.schema.metadata or {}).get(_KEY, "{}")))
    if (version := about.pop("version", None)) != VERSION:
        raise ValueError(f"a truth of version {version!r}, this is version {VERSION}")
    columns: dict[str, Any] = {name: table[name].to_numpy() for name in _COLUMNS}
    if _GRADIENT in table.column_names:
        rows = table[_GRADIENT].combine_chunks()
        flat = rows.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
        columns[_GRADIENT] = flat.reshape(len(rows), -1)
        table = table.drop([_GRADIENT])
    return {**columns, "turns": Turns.from_table(table.drop(list(_COLUMNS))), "about": about}
