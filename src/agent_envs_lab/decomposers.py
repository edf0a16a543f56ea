"""TurnRD beside other decomposers on the same held-out trajectories (HAS Sec. 5.3 and App. A).

The trajectories are those of a run's last checkpoint on its evaluation panel. The TurnRD of another
run reads the hidden states that the policy of that run has of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import credit
from agent_envs_lab import benchmark
from agent_envs_lab.attribution import play_panel
from agent_envs_lab.truth import Truth
from credit.methods.has import measure_drift
from trainer import recipe as recipes
from trainer.build import load_policy
from trainer.errors import RecipeError
from trainer.learn.rows import make_rows
from trainer.methods import make_method, replay
from trainer.methods.turnrd import WithTurnRD
from trainer.play.episode_files import read_episodes
from trainer.run.checkpoint import CheckpointError, Checkpoints

if TYPE_CHECKING:
    from trainer.model.policy import Policy
    from trainer.play.records import Episode
    from trainer.recipe import Recipe

Array = NDArray[np.float64]


def find_decisive(shares: Array, turns: credit.Turns, success: NDArray[np.bool_]) -> Array:
    """Position of the decisive turn of each trajectory: [N], [M] -> [M].

    That of the highest credit in a success, and of the lowest in a failure, as in HAS App. A; the
    first of equal ones.
    """
    signed = np.where(success[turns.trajectory], shares, -shares)
    parts = np.split(signed, np.flatnonzero(turns.position == 0)[1:])
    return np.array([part.argmax() for part in parts], np.float64)


def compare_credits(
    one: Array, other: Array, turns: credit.Turns, success: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """How two credits of the same turns agree: [N], [N] -> [1], [M].

    Returns:
        Pearson's correlation over all turns, 0 if one is constant, and 1 for each trajectory whose
        decisive turn is the same, else 0.
    """
    constant = not one.std() or not other.std()
    related = 0.0 if constant else float(np.corrcoef(one, other)[0, 1])
    places = [find_decisive(shares, turns, success) for shares in (one, other)]
    return np.array([related]), (places[0] == places[1]) * 1.0


def compare_decomposers(run: Path, recipe: Recipe, other: Path | None = None) -> dict[str, Array]:
    """Measures of the credit that a run's TurnRD gives on the panel of a recipe, by name.

    `turnrd_drift` is `credit.methods.has.measure_drift`; `correlation_progress` and
    `decisive_progress` compare with `credit.Progressive`, `correlation_other` and `decisive_other`
    with the TurnRD of another run, see `compare_credits`.

    Raises:
        RecipeError: A run has no TurnRD, or none that was trained, or another vocabulary.
        CheckpointError: A run has no checkpoint.
    """
    made = {run: recipe} | ({} if other is None else {other: recipes.load(other)})
    for folder, settings in made.items():
        if not is_trained(folder, settings):
            raise RecipeError(
                f"{folder} has no trained TurnRD; name a run of `has` with credit.model=turnrd "
                "that is in its second round or later"
            )
    policy, episodes = play_panel(recipe, find_checkpoint(run))
    turns = credit.Turns.from_episodes(episodes)
    success = np.array([one.success for one in episodes])
    shares = credit_turns(run, recipe, policy, episodes)
    found = {"turnrd_drift": np.array([measure_drift(shares, turns)])}
    beside = {"progress": np.asarray(credit.Progressive()(turns))}
    if other is not None:
        second = load_policy(made[other].policy, find_checkpoint(other))
        if second.vocabulary != policy.vocabulary:
            raise RecipeError(
                f"the model of {other} reads {second.vocabulary:,} tokens and that of {run} "
                f"{policy.vocabulary:,}; compare runs of the same model"
            )
        beside["other"] = credit_turns(other, made[other], second, episodes)
    for name, values in beside.items():
        related, same = compare_credits(shares, values, turns, success)
        found |= {f"correlation_{name}": related, f"decisive_{name}": same}
    return found


def rank_decomposer(run: Path, recipe: Recipe) -> str:
    """How close a run's TurnRD comes to the measured truth of the run, as a table.

    Beside GRPO and HAS by progress: HAS by TurnRD, and its turn-level part alone (alpha = 0). The
    turns are those of the truth, on tasks of training, by the policy of the newest checkpoint.

    Raises:
        FileNotFoundError: The truth or its episodes are missing.
        ValueError: They are damaged.
    """
    folder = run / "truth"
    truth = Truth.load(folder / "truth.parquet")
    policy = load_policy(recipe.policy, find_checkpoint(run))
    shares = credit_turns(run, recipe, policy, read_episodes(folder / "episodes.parquet"))
    methods: dict[str, credit.Estimator] = {benchmark.BASELINE: credit.GRPO(), "has": credit.HAS()}
    for name, alpha in (("has, by TurnRD", 0.5), ("TurnRD alone", 0.0)):
        methods[name] = credit.HAS(alpha=alpha, decomposer=lambda _: shares)
    return benchmark.render_table(truth, benchmark.score_estimators(truth, methods))


def is_trained(run: Path, recipe: Recipe) -> bool:
    """Whether a run has a TurnRD that was trained."""
    return recipe.credit.model == "turnrd" and replay.find_last(run) >= 0


def find_checkpoint(run: Path) -> Path:
    """The newest checkpoint of a run."""
    if (found := Checkpoints(run / "checkpoints").latest()) is None:
        raise CheckpointError(f"{run} has no checkpoint yet; train on with --resume")
    return found


def credit_turns(run: Path, recipe: Recipe, policy: Policy, episodes: Sequence[Episode]) -> Array:
    """Credit of the turns by the newest TurnRD of a run, whose policy is given: -> [N]."""
    method = make_method(recipe)
    assert isinstance(method, WithTurnRD)  # noqa: S101  of a recipe with TurnRD
    method.begin(policy, run)
    turns = credit.Turns.from_episodes(episodes)
    read = method.read_states(turns, make_rows(episodes))
    shares: Array = method.load_decomposer(replay.find_last(run), *read)(turns)
    return shares
