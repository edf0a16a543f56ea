"""Episodes as recorded by a rollout: steps with their tokens, and their Parquet file.

Everything here is plain Python values, so that a report or another trainer can read episodes
without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_envs.contract import encodable
from agent_envs.imports import message_of
from trainer.model.vision import Picture

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

Conversation: TypeAlias = "Sequence[tuple[str, str]]"
"""One episode as text: (observation, reply) of every turn."""

CONTEXTS = ("history", "turn")
"""What a reply is conditioned on: the whole conversation so far, or the turn's own prompt."""


@dataclass(slots=True)
class Step:
    """One turn: the observation, the sampled reply, and the result of the environment's step.

    Attributes:
        observation: Observation before the action.
        reply: The whole reply as text.
        action: The action parsed from the reply, "" if there was none.
        prompt_ids: context "history": the environment's tokens since the previous reply (first
            step: the whole opening); context "turn": the turn's whole prompt.
        reply_ids: The sampled tokens, never re-tokenised.
        logprobs: Log-probability of each reply token in the distribution it was drawn from, nats.
        entropies: Entropy of that distribution at each reply token, nats.
        allowed: With constrained decoding, the tokens allowed at each reply token.
        admissible: With constrained decoding, the actions to choose from.
        version: Version of the weights that sampled the reply: the step of the run after which
            they were copied.
        blind_ids: Blind prompts of the turn, by the part that they leave out.
        reward: Reward of the turn, without the outcome.
        valid: Whether the reply was well-formed and the environment accepted the action.
        invalid_reason: Why it was invalid, "" if valid.
        progress: Progress after the turn, in [0, 1].
        anchor: Key of the state the action was taken in.
        turn_reward: Rewards of the environment's verifiers by name.
        images: Images in `prompt_ids`, in order.
    """

    observation: str
    reply: str
    action: str
    prompt_ids: list[int]
    reply_ids: list[int]
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    allowed: list[list[int]] | None = None
    admissible: list[str] | None = None
    version: int = 0
    blind_ids: dict[str, list[int]] = field(default_factory=dict)
    reward: float = 0.0
    valid: bool = True
    invalid_reason: str = ""
    progress: float = 0.0
    anchor: str = ""
    turn_reward: dict[str, float] = field(default_factory=dict)
    images: list[Picture] = field(default_factory=list)

    @property
    def entropy(self) -> float:
        """Mean token entropy of the reply in nats, 0 if none was recorded."""
        return sum(self.entropies) / len(self.entropies) if self.entropies else 0.0


@dataclass(slots=True)
class Episode:
    """One trajectory.

    Attributes:
        task_id: The environment's task.
        goal: Goal text.
        group: Task group: the rollouts of one task from one initial state share it.
        seed: The environment's seed.
        context: "history" or "turn", see `Step.prompt_ids`.
        steps: The turns in order, at least one.
        success: Whether the task was solved.
        outcome: Terminal reward of the environment, without reward wrappers.
        task_type: The environment's name of the kind of task, "" if it has none.
        truncated: Whether it was cut off by the limit on turns or tokens.
        partner_outcome: Outcome of the other side of a conversation; None without one.
        answer: The first answer that the environment accepts, "" if it reports none.
        answer_opening: What a reply says before an answer.
    """

    task_id: str
    goal: str
    group: int
    seed: int
    context: str
    steps: list[Step]
    success: bool = False
    outcome: float = 0.0
    task_type: str = ""
    truncated: bool = False
    partner_outcome: float | None = None
    answer: str = ""
    answer_opening: str = ""

    @property
    def turns(self) -> list[Step]:
        """The steps under the name `credit.Turns.from_episodes` reads."""
        return self.steps

    @property
    def tokens(self) -> int:
        """Number of tokens in prompts and replies."""
        return sum(len(s.prompt_ids) + len(s.reply_ids) for s in self.steps)


_EPISODE = tuple(f.name for f in fields(Episode) if f.name != "steps")
_STEP = tuple(f.name for f in fields(Step))
_NULLABLE = {
    "partner_outcome",
    "task_type",
    "allowed",
    "admissible",
    "images",
    "blind_ids",
    "turn_reward",
}


def write_episodes(path: Path, episodes: Sequence[Episode]) -> None:
    """Write episodes to Parquet, one row for each turn, atomically.

    Columns are the fields of `Episode` and `Step`, plus `episode` (index) and `turn`.

    Raises:
        ValueError: An episode has no step.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(list(_rows(episodes)), schema=_schema())
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    pq.write_table(table, part, compression="zstd")
    part.replace(path)


def read_episodes(path: Path) -> list[Episode]:
    """Episodes of a file that `write` made, equal to what was written.

    Raises:
        FileNotFoundError: No such file.
        PermissionError: The file may not be read.
        ValueError: The file is truncated, or holds no episodes of this version.
    """
    import pyarrow as pa

    if not path.is_file():
        raise FileNotFoundError(f"no episodes at {path}; a run writes them to episodes/*.parquet")
    try:
        rows = _whole(path)
    except PermissionError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        said = message_of(error)
        raise ValueError(
            f"{path} holds no readable episodes of this version ({said}); delete it"
        ) from error
    episodes = []
    for _, turns in groupby(rows, key=lambda row: row["episode"]):
        steps = list(turns)
        head = {name: steps[0][name] for name in _EPISODE}
        for step in steps:
            for name in ("blind_ids", "turn_reward"):
                step[name] = dict(step[name] or ())
            step["images"] = [Picture(**image) for image in step["images"] or ()]
        episodes.append(Episode(**head, steps=[Step(**{k: s[k] for k in _STEP}) for s in steps]))
    return episodes


def _whole(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of episodes, one for each turn.

    Raises:
        ValueError: Columns are missing, or values that every turn has.
        pyarrow.ArrowException: It is no Parquet file, or has columns of other types.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    wanted = _schema()
    if lacks := [name for name in wanted.names if name not in pq.read_schema(path).names]:
        raise ValueError(f"it has no column {', '.join(lacks[:3])}")
    table = pq.read_table(path, schema=wanted)
    for name in wanted.names:
        if name in _NULLABLE:
            continue
        if table.column(name).null_count:
            raise ValueError(f"column {name} has turns without a value")
        finite = wanted.field(name).type != pa.float64() or pc.all(pc.is_finite(table[name]))
        if finite == pa.scalar(False):
            raise ValueError(f"column {name} has numbers that are not finite")
    low, high = pc.min_max(table["progress"]).as_py().values()
    if low is not None and not 0 <= low <= high <= 1:
        raise ValueError("column progress has numbers outside [0, 1]")
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _rows(episodes: Sequence[Episode]) -> Iterable[dict[str, Any]]:
    for index, episode in enumerate(episodes):
        if not episode.steps:
            raise ValueError(f"episode {index} ({episode.task_id}) has no step; leave it out")
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
            "task_id goal context task_type observation reply action invalid_reason anchor "
            "answer answer_opening"
        ),
        pa.int64(): "episode turn group seed version",
        pa.float64(): "outcome partner_outcome reward progress",
        pa.bool_(): "success truncated valid",
        pa.list_(pa.int32()): "prompt_ids reply_ids",
        pa.list_(pa.float64()): "logprobs entropies",
        pa.list_(pa.list_(pa.int32())): "allowed",
        pa.list_(pa.string()): "admissible",
        pa.map_(pa.string(), pa.list_(pa.int32())): "blind_ids",
        pa.map_(pa.string(), pa.float64()): "turn_reward",
    }
    return pa.schema([(name, kind) for kind, names in kinds.items() for name in names.split()])
