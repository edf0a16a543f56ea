"""What is checked of a recipe and its run folder before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent_envs import endpoint
from trainer import recipe as recipes
from trainer.errors import RecipeError
from trainer.options import refuse_broken
from trainer.play.source import recorded_files
from trainer.scale import parallel

if TYPE_CHECKING:
    from trainer.methods import Method
    from trainer.play.rollout import Rollouts
    from trainer.recipe import Recipe

FREE = {
    "policy.gradient_checkpointing",
    "sampling.rows",
    "update.tokens",
    "run.steps",
    "run.threads",
    "run.save_every",
    "run.keep",
    "run.episodes_every",
    "env.processes",
    "env.step_seconds",
    "sampling.actors",
    "sampling.failures",
    "engine.urls",
    "engine.options.gpu_memory_utilization",
    "engine.patience",
    "eval.every",
}
"""Options that may change when a run is resumed: they change no result beyond last bits."""
FORKS = {"sampling.max_tokens", "update.entropy"}
"""Those, and every learning rate, that may change, too; the run notes where."""
ENDPOINTS = {"credit.models.judge", "env.options.partner", "env.options.judge"}
"""Sections with the options of an endpoint; all but `endpoint.ANSWERING` may change, too."""
_OF_A_RUN = ("checkpoints/step_*", "metrics.jsonl", "eval/step_*.json", "episodes/step_*.parquet")
"""What a run writes, after its config.toml."""
_REPORTED = {"turn_reward": "turn_reward", "gold_logprob": "answers"}
"""What an environment reports in `info` for an optional column of `Turns`."""


class RunError(ValueError):
    """The run folder or the recipe cannot be used; the message says what to do."""


def check_folder(recipe: Recipe, folder: Path, *, resume: bool) -> str:
    """Check that a recipe may run in a folder; what it changes in the run there, "" for nothing.

    Raises:
        RunError: The folder holds a run and `resume` is off, or a run of another recipe, or parts
            of a run whose recipe is lost.
    """
    config = folder / "config.toml"
    if not config.is_file():
        if left := next((one for name in _OF_A_RUN for one in folder.glob(name)), None):
            raise RunError(
                f"{folder} has {left.relative_to(folder)} of a run, but no config.toml, so its "
                "recipe is not known; restore config.toml and continue with --resume, or start a "
                "new run with --out DIR"
            )
        return ""
    if not resume:
        raise RunError(f"{folder} holds a run; --resume continues it, --out DIR starts a new one")
    changed = {
        key: values
        for key, values in recipes.changes(recipes.load(folder), recipe).items()
        if not _is_free(key)
    }
    if fixed := [key for key in changed if not _is_fork(key)]:
        raise RunError(
            f"{folder} holds a run with another {', '.join(fixed)}; resume it with the same "
            f"recipe and options (see {config}), or start a new run with --out DIR"
        )
    return ", ".join(f"{key}={new} (before: {old})" for key, (old, new) in changed.items())


def check_columns(name: str, method: Method, rollouts: Rollouts) -> None:
    """Check that the environment reports what the estimator `name` of a method reads.

    Raises:
        RunError: The estimator reads turn rewards or the right answer and the environment reports
            none.
        RecipeError: The estimator reads the outcome as success, and the environment pays scores.
    """
    estimator = getattr(method, "estimator", None)  # DPO has none
    if rollouts.graded and getattr(estimator, "reads_success", False):
        raise RecipeError(
            f"credit.name={name!r} reads the outcome as success, 0 or 1, but with its options "
            f"{rollouts.env.id} pays other numbers; give it reward='success' (AlfWorld: "
            "success_reward=1, SearchQA and WikiSearch: reward='em'), or choose another method"
        )
    for key in [_REPORTED[column] for column in method.needs if column in _REPORTED]:
        if not any(info.get(key) for info in rollouts.probe()):
            raise RunError(
                f"credit.name={name!r} reads info[{key!r}], but {rollouts.env.id} reports none; "
                "take SearchQA-v0 or WikiSearch-v0, another credit.name, or, for turn rewards, add "
                "verifiers by env.wrappers={'credit.rewards:TurnVerifier'={weights={...}}}"
            )


def check_source(recipe: Recipe) -> None:
    """Check that the episodes of a step can come from where the recipe says.

    Raises:
        RecipeError: `sampling.ahead` where nothing can be sampled ahead, several processes where
            one has to sample, or no files of recorded episodes.
    """
    sampling, engine = recipe.sampling, recipe.engine
    alone = parallel.size() == 1
    if sampling.recorded:
        recorded_files(sampling.recorded)
    rules = {
        'sampling.ahead=1 needs an engine with weights of its own, e.g. engine.name="vllm", new '
        "rollouts (no sampling.recorded) and one process, without torchrun": (
            sampling.ahead and (engine.name == "own" or sampling.recorded or not alone)
        ),
        "sampling.actors and vLLM without engine.urls sample for one process, and there are "
        f"{parallel.size()}; set engine.urls and sampling.actors=0, or start without torchrun": (
            not alone and (sampling.actors or (engine.name == "vllm" and not engine.urls))
        ),
    }
    refuse_broken(rules)


def _is_fork(key: str) -> bool:
    """Whether an option may change and the run notes it."""
    return key in FORKS or key.endswith(".learning_rate")


def _is_free(key: str) -> bool:
    """Whether an option may change when a run is resumed, and nothing is noted."""
    section, _, option = key.rpartition(".")
    return key in FREE or (section in ENDPOINTS and option not in endpoint.ANSWERING)
