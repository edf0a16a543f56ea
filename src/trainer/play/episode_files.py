"""Parquet files of episodes: one row for each turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.contract import encodable
from agent_envs.imports import message_of
from agent_envs.spaces import Picture
from trainer.play.records import Episode, Step

if TYPE_CHECKING:
    import pyarrow as pa

_LEFT_OUT = ("steps", "after")  # what only training reads
_EPISODE = tuple(f.name for f in fields(Episode) if f.name not in _LEFT_OUT)
_STEP = tuple(f.name for f in fields(Step))
_TABLES = ("strata", "measures", "blind_ids", "turn_reward")
_NULLABLE = ("partner_outcome", "allowed", "admissible", "images", *_TABLES)


def write_episodes(path: Path, episodes: Sequence[Episode]) -> None:
    """Write episodes to Parquet, one row for each turn, atomically.

    Columns are the fields of `Episode` and `Step`, plus `episode` (index) and `turn`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(list(_rows(episodes)), schema=_schema())
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    pq.write_table(table, part, compression="zstd")
    part.replace(path)


def read_episodes(path: Path) -> list[Episode]:
    """Episodes of a file that `write_episodes` made, equal to what was written.

    Raises:
        FileNotFoundError: No such file.
        PermissionError: The file may not be read.
        ValueError: The file is truncated, or holds no episodes of this version.
    """
    import pyarrow as pa

    data = path.read_bytes()
    try:
        rows = _read_rows(data)
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise ValueError(
            f"{path} holds no readable episodes of this version ({message_of(error)}); delete it"
        ) from error
    episodes = []
    for _, turns in groupby(rows, key=lambda row: row["episode"]):
        steps = list(turns)
        for step in steps:
            step |= {name: dict(step[name] or ()) for name in _TABLES}
            step["images"] = [Picture(**image) for image in step["images"] or ()]
        head = {name: steps[0][name] for name in _EPISODE}
        episodes.append(Episode(**head, steps=[Step(**{k: s[k] for k in _STEP}) for s in steps]))
    return episodes


def _read_rows(data: bytes) -> list[dict[str, Any]]:
    """The rows of a file, one for each turn; a file of other columns or numbers raises an error."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([one.with_nullable(one.name in _NULLABLE) for one in _schema()])
    table = pq.read_table(pa.BufferReader(data)).select(schema.names)
    rows: list[dict[str, Any]] = table.cast(schema).to_pylist()
    for row in rows:
        if not isfinite(row["outcome"] + row["reward"]) or not 0 <= row["progress"] <= 1:
            raise ValueError(
                f"outcome, reward or progress of turn {row['turn']} in episode {row['episode']} "
                "is out of range"
            )
    return rows


def _rows(episodes: Sequence[Episode]) -> Iterable[dict[str, Any]]:
    for index, episode in enumerate(episodes):
        head = {name: getattr(episode, name) for name in _EPISODE}
        for turn, step in enumerate(episode.steps):
            cells = {name: getattr(step, name) for name in _STEP}
            cells["images"] = [image._asdict() for image in step.images]
            row = {**head, **cells, "episode": index, "turn": turn}
            # Worlds of others may report text that has no UTF-8.
            yield {k: encodable(v) if isinstance(v, str) else v for k, v in row.items()}


def _schema() -> pa.Schema:
    import pyarrow as pa

    picture = {"height": pa.int32(), "width": pa.int32(), "pixels": pa.binary()}
    kinds = {
        pa.list_(pa.struct(picture)): "images",
        pa.string(): (
            "task_id goal context observation reply action invalid_reason anchor "
            "answer answer_opening"
        ),
        pa.int64(): "episode turn group seed version",
        pa.float64(): "outcome partner_outcome reward progress progress_before",
        pa.bool_(): "success truncated stopped valid",
        pa.list_(pa.int32()): "prompt_ids reply_ids",
        pa.list_(pa.float64()): "logprobs entropies",
        pa.list_(pa.list_(pa.int32())): "allowed",
        pa.list_(pa.string()): "admissible",
        pa.map_(pa.string(), pa.list_(pa.int32())): "blind_ids",
        pa.map_(pa.string(), pa.float64()): "turn_reward measures",
        pa.map_(pa.string(), pa.string()): "strata",
    }
    return pa.schema([(name, kind) for kind, names in kinds.items() for name in names.split()])
