"""A measurement in a folder: it can be stopped at any time, and goes on where it was.

config.toml       the recipe
plan.json         what is measured
episodes.parquet  the rollouts whose turns are measured
draws.jsonl       outcomes of the rollouts from their states and how many were expected, a line for
                  each group and round
gradients.npy     sketches of the turns' policy gradients, if wanted
truth.parquet     the result, see `agent_envs_lab.truth`
truth.json        costs and checks of the result
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, FiniteFloat
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from agent_envs import evaluation
from agent_envs.machine import append_line, write_text
from agent_envs_lab.truth import Truth, draws
from agent_envs_lab.truth.draws import HALVES, Group, Round
from agent_envs_lab.truth.player import WAVES, Asked, Players, parts, rows_of
from agent_envs_lab.truth.states import check_continued
from agent_envs_lab.truth.tree import Tree
from credit.turns import Turns
from trainer import recipe as recipes
from trainer.build import cores, derive, make_rollouts
from trainer.play import episode_files as recorded
from trainer.play.source import draw_tasks
from trainer.run import metrics
from trainer.run.checkpoint import find_latest
from trainer.run.run_folder import RunFolder

if TYPE_CHECKING:
    from rich.console import Console

    from credit.stats import Array
    from trainer.play.records import Episode
    from trainer.recipe import Recipe

_Found = TypeVar("_Found")


class _Drawn(BaseModel):
    """A line of the draws of a group: half, node, outcome and turns of each."""

    of: str
    group: int
    draws: list[tuple[int, int, FiniteFloat, int]]
    expected: tuple[list[FiniteFloat], list[FiniteFloat]]


class _Fresh(BaseModel):
    """A line of the outcomes of fresh rollouts of a task."""

    of: Literal["fresh"]
    group: int
    draws: list[FiniteFloat]


PILOT = 2.0
"""Turns that the first round plays for each turn of the batch."""


class TruthError(ValueError):
    """A truth cannot be measured; the message says what to do."""


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        groups: Tasks, at least 2, each with the recipe's `sampling.rollouts` rollouts.
        reliability: Rollouts from states are added until the advantages have this reliability.
        most: Turns of such rollouts at most, for each turn of the batch.
        fresh: Fresh rollouts of each task, which check the value of its start.
        plain: Whether every state is valued by rollouts alone, with fresh noise: for worlds that
            draw at random.
        gradients: Whether each turn's policy gradient is sketched, for the noise of estimators.

    Raises:
        ValueError: A value is out of range.
    """

    groups: int = 24
    reliability: float = 0.8
    most: float = 60.0
    fresh: int = 8
    plain: bool = False
    gradients: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.reliability < 1:
            raise ValueError(f"--reliability must lie between 0 and 1, got {self.reliability}")
        if not self.most >= 2 * PILOT:
            raise ValueError(f"--most must be at least {2 * PILOT:g}, got {self.most}")


def source_of(given: Path) -> Path:
    """Folder of the weights of a run's newest checkpoint, or of a checkpoint.

    Raises:
        TruthError: There is neither.
        CheckpointError: The run has no valid one.
    """
    if (given / "config.toml").is_file():
        return find_latest(given)
    if not (given / "config.json").is_file() and not (given / "adapter_config.json").is_file():
        raise TruthError(f"{given} is neither a run nor a checkpoint; give a run folder")
    return given


@dataclass(frozen=True)
class Result:
    """A measured truth.

    Attributes:
        truth: The turns with their values; `about` has costs and checks.
        episodes: The rollouts, with their texts.
    """

    truth: Truth
    episodes: list[Episode]


def measure(
    recipe: Recipe,
    out: Path,
    plan: Plan,
    *,
    source: Path | None = None,
    jobs: int = 0,
    console: Console | None = None,
) -> Result:
    """Measure the truth of a recipe's policy on its training tasks, or go on with it.

    Args:
        recipe: Environment, prompt, policy, sampling and seed.
        out: Folder, see the module.
        plan: What is measured.
        source: Folder of the policy's weights; None for the recipe's model.
        jobs: Processes; 0 for one on each core. The result does not depend on it.
        console: Shows the progress.

    Raises:
        RecipeError: Copies of the recipe's environment cannot be continued.
        TruthError: The folder holds another measurement.
        MetricsError: A line of its draws is damaged.
        KilledError: A process that played was killed.
        NotReproducible: The environment or its copies do not do the same again.
    """
    check_continued(recipe, "a truth")
    torch.set_num_threads(recipe.run.threads or 1)
    _check_folder(recipe, out, plan, source)
    with (
        Players(recipe, source, jobs or cores(), plain=plan.plain) as players,
        _make_bar(console) as bar,
    ):
        return _Measurement(out, plan, players, bar).run()


def _check_folder(recipe: Recipe, out: Path, plan: Plan, source: Path | None) -> None:
    """Write what is measured into an empty folder, or check that it is the same."""
    config, noted = out / "config.toml", out / "plan.json"
    now = {**asdict(plan), "policy": None if source is None else str(source.resolve())}
    del now["gradients"]  # they can be added later
    if not config.is_file():
        recipes.save(recipe, config)
        write_text(noted, json.dumps(now))
        return
    if not noted.is_file():
        raise TruthError(f"{out} holds a run, not a truth; give another folder with --out")
    before = _read_file(noted, _read_plan)
    changed = [*recipes.changes(recipes.load(out), recipe)]
    changed += [name for name in now if now[name] != before.get(name)]
    if changed:
        raise TruthError(
            f"{out} holds a truth with another {', '.join(changed)}; give another folder with --out"
        )


def _read_file(path: Path, read: Callable[[Path], _Found]) -> _Found:
    """What a file of the measurement holds.

    Raises:
        TruthError: It cannot be read.
    """
    folder = RunFolder(path.parent)
    for found in folder.read(path, read):
        return found
    raise TruthError(f"{folder.damaged[0]}; restore it, or give another folder with --out")


def _read_plan(path: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(tree, dict):
        raise ValueError("an object is needed")  # noqa: TRY004 - of a file
    return tree


class _Measurement:
    def __init__(self, out: Path, plan: Plan, players: Players, bar: Progress) -> None:
        self.out, self.plan, self.players, self.bar = out, plan, players, bar
        self.recipe = recipe = players.recipe
        self.size = recipe.sampling.rollouts
        panel = evaluation.draw_panel(
            make_rollouts(recipe, recipe.env.split).panel, recipe.env.games, "env.games"
        )
        seed = derive(recipe.run.seed, 0, "truth")
        self.tasks = draw_tasks(panel, tasks=plan.groups, rollouts=self.size, seed=seed, step=0)[
            :: self.size
        ]  # one of each group
        self.kept: dict[tuple[str, int], Any] = {}
        records = metrics.read_log(
            out / "draws.jsonl", _Drawn | _Fresh
        )  # without a line that was cut
        write_text(out / "draws.jsonl", "".join(f"{json.dumps(one)}\n" for one in records))
        for record in records:
            self.kept[record["of"], record["group"]] = record

    def run(self) -> Result:
        """Play what is missing, and put the result together."""
        played = self._load_episodes()
        groups = [Group(Tree(episodes, plain=self.plan.plain)) for episodes in played]
        turns = sum(len(episode.steps) for episodes in played for episode in episodes)
        spent = self._play_round(
            0, played, groups, [draws.plan_pilot(groups, PILOT * turns / 2)] * 2
        )
        reliability = draws.reliability(groups)
        number = 0
        while reliability < self.plan.reliability and spent < self.plan.most * turns:
            number += 1
            plans = draws.plan_next_round(
                groups, self.plan.reliability, spent / 2, self.plan.most * turns / 2
            )
            spent += self._play_round(number, played, groups, plans)
            reliability = draws.reliability(groups)
        fresh = self._collect_records(
            "fresh",
            "fresh",
            self._split_tasks(self.plan.fresh),
            lambda part: ([self.tasks[at] for at in part], self.plan.fresh),
        )
        self._check_again(played)
        result = self._make_result(played, groups, [one["draws"] for one in fresh], spent / turns)
        if self.plan.gradients:
            truth = replace(result.truth, gradient=self._load_gradients(played))
            result = replace(result, truth=truth)
        result.truth.save(self.out / "truth.parquet")
        write_text(self.out / "truth.json", json.dumps(dict(result.truth.about), indent=1))
        return result

    def _load_episodes(self) -> list[list[Episode]]:
        path = self.out / "episodes.parquet"
        if not path.is_file():
            made = self._play_parts(
                "rollouts",
                "groups",
                self._split_tasks(self.size),
                lambda part: ([self.tasks[at] for at in part], self.size, "batch"),
            )
            recorded.write_episodes(path, [episode for _, part in made for episode in part])
        episodes = recorded.read_episodes(path)
        groups = [task.task_id for task in self.tasks for _ in range(self.size)]
        if [episode.task_id for episode in episodes] != groups:
            raise TruthError(
                f"{path} has the rollouts of another measurement; restore it, or give another "
                "folder with --out"
            )
        return [episodes[at : at + self.size] for at in range(0, len(episodes), self.size)]

    def _check_again(self, played: Sequence[Sequence[Episode]]) -> None:
        """Compare the environment with the rollouts after all draws: state outside it may drift."""
        calls = [] if self.plan.plain else [*zip(self.tasks, played, strict=True)]
        for _ in self._show_progress("checks", self.players.each("check", calls), calls):
            pass

    def _load_gradients(self, played: Sequence[Sequence[Episode]]) -> Array:
        path = self.out / "gradients.npy"
        if not path.is_file():
            calls = [(part,) for part in played]
            made = self.players.each("gradients", calls)
            np.save(path, np.concatenate([*self._show_progress("gradients", made, calls)]))
        found: Array = _read_file(path, partial(np.load, allow_pickle=False))
        turns = sum(len(episode.steps) for part in played for episode in part)
        if len(found) != turns or found.dtype.kind != "f":
            raise TruthError(f"{path} does not fit the {turns} turns; delete it")
        return found

    def _play_round(
        self,
        number: int,
        played: Sequence[Sequence[Episode]],
        groups: Sequence[Group],
        plans: Sequence[Sequence[Array]],
    ) -> int:
        """Play one round of both halves; the turns that it took."""
        asked = [
            Asked(task, played[at], [plan[at] for plan in plans])
            for at, task in enumerate(self.tasks)
        ]
        records = self._collect_records(
            f"round {number}",
            "draw",
            _split_asked(asked, groups, WAVES * rows_of(self.recipe)),
            lambda part: ([asked[at] for at in part], number),
            # what the draws were planned as, whatever later plans would be
            lambda at: {"expected": [one.tolist() for one in asked[at].expected]},
        )
        spent = 0
        for at, record in enumerate(records):
            group = groups[at]
            for half in HALVES:
                outcomes: dict[int, list[float]] = defaultdict(list)
                for of, node, outcome, turns in record["draws"]:
                    if of == half:
                        outcomes[node].append(outcome)
                        spent += turns
                lists = [outcomes[node] for node in range(len(group.tree.nodes))]
                group.rounds[half].append(Round(np.array(record["expected"][half]), lists))
        return spent

    def _split_tasks(self, count: int) -> list[list[int]]:
        """Parts for so many whole rollouts of each task."""
        sizes = [count] * len(self.tasks)
        return parts(sizes, sum(sizes), rows_of(self.recipe))

    def _collect_records(
        self,
        of: str,
        method: str,
        wanted: list[list[int]],
        call: Callable[[list[int]], tuple[Any, ...]],
        more: Callable[[int], dict[str, Any]] = lambda _: {},
    ) -> list[Any]:
        """The record of each group; parts whose records are all there are not played again."""
        before = set(self.kept)
        missing = [part for part in wanted if any((of, at) not in before for at in part)]
        for at, found in self._play_parts(of, method, missing, call):
            if (of, at) not in before:
                self.kept[of, at] = {"of": of, "group": at, "draws": found, **more(at)}
                append_line(self.out / "draws.jsonl", json.dumps(self.kept[of, at]))
        return [self.kept[of, at] for at in range(len(self.tasks))]

    def _play_parts(
        self,
        of: str,
        method: str,
        wanted: list[list[int]],
        call: Callable[[list[int]], tuple[Any, ...]],
    ) -> Iterator[tuple[int, Any]]:
        """Each group with its result.

        Args:
            of: What is played.
            method: The player's method, which returns a result for each group of a part.
            wanted: Groups that are played together.
            call: Arguments of the method for a part.
        """
        made = self.players.each(method, [call(part) for part in wanted])
        task = self.bar.add_task(of, total=sum(map(len, wanted)))
        for part, results in zip(wanted, made, strict=True):
            yield from zip(part, results, strict=True)
            self.bar.advance(task, len(part))

    def _show_progress(self, of: str, made: Iterator[Any], calls: Sequence[Any]) -> Iterator[Any]:
        task = self.bar.add_task(of, total=len(calls))
        for one in made:
            yield one
            self.bar.advance(task)

    def _make_result(
        self,
        played: Sequence[Sequence[Episode]],
        groups: Sequence[Group],
        fresh: Sequence[Sequence[float]],
        spent: float,
    ) -> Result:
        before, after, error = [], [], []
        typical = draws.typical_variance(group.played for group in groups)
        excess = draws.errors(groups)[1]
        for group in groups:
            value = (group.value(0) + group.value(1)) / 2
            of_turns = group.tree.turns()
            before.append(value[of_turns[0]])
            after.append(value[of_turns[1]])
            variance = (group.error(0, typical) + group.error(1, typical)) / 4
            error.append(np.sqrt(excess * variance))
        episodes = [episode for part in played for episode in part]
        starts = np.array([[group.value(half)[0] for half in HALVES] for group in groups])
        turns = Turns.from_episodes(episodes)
        first, second = (np.concatenate([g.advantage(half) for g in groups]) for half in HALVES)
        about = {
            "name": self.recipe.name,
            "env": self.recipe.env.id,
            "policy": str(self.players.source or self.recipe.policy.model),
            "groups": len(groups),
            "rollouts": self.size,
            "turns": len(turns),
            "states": sum(len(group.tree.nodes) for group in groups),
            "success": float(np.mean([episode.success for episode in episodes])),
            "reliability": draws.reliability(groups),
            "wanted reliability": self.plan.reliability,
            "turns played for each turn": spent,
            "errors to what the spread of outcomes predicts": excess,
            **_check_starts(starts, fresh),
        }
        truth = Truth(
            turns=turns,
            value_before=np.concatenate(before),
            value_after=np.concatenate(after),
            first=first,
            second=second,
            error=np.concatenate(error),
            about=about,
        )
        return Result(truth, episodes)


def _split_asked(asked: Sequence[Asked], groups: Sequence[Group], most: int) -> list[list[int]]:
    """Parts for rollouts from states, with so many at most where groups are small."""
    expected = [np.sum(one.expected, 0) for one in asked]
    turns = [
        float(number @ group.tree.remaining) for number, group in zip(expected, groups, strict=True)
    ]
    return parts(turns, float(sum(number.sum() for number in expected)), most)


def _check_starts(starts: Array, fresh: Sequence[Sequence[float]]) -> dict[str, float]:
    """Mean difference of V(s0) to fresh rollouts, and its standard error.

    The error is that between tasks, or that of the fresh rollouts of a task and of its V where this
    is larger: between few tasks it can be small by chance.

    Args:
        starts: [G, 2] V(s0) of each task by each half.
        fresh: Outcomes of the fresh rollouts of each task.
    """
    if not any(map(len, fresh)):
        return {}
    count = np.array([len(one) for one in fresh])
    apart = starts.mean(1) - np.array([np.mean(one) for one in fresh])
    between = apart.var(ddof=1) / len(apart)
    square = sum(float(np.var(one)) * len(one) for one in fresh)
    of_rollouts = square / max(count.sum() - len(count), 1) / count
    of_values = (starts[:, 0] - starts[:, 1]) ** 2 / 4
    within = float(np.sum(of_rollouts + of_values)) / len(apart) ** 2
    return {
        "V(s0) minus fresh rollouts": float(apart.mean()),
        "standard error of it": float(np.sqrt(max(between, within))),
        "fresh rollouts": int(count.sum()),
    }


def _make_bar(console: Console | None) -> Progress:
    shown = console is not None and console.is_terminal
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.completed}/{task.total} groups, eta"),
        TimeRemainingColumn(),
        console=console,
        disable=not shown,
    )
