"""What is checked of a recipe and its run folder before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from agent_envs.contract import OWN
from agent_envs.experts import expert_class, experts_of
from agent_envs.net import endpoint
from agent_envs.workers import apply_to
from credit.rewards import LastReward, TurnVerifier
from trainer import recipe as recipes
from trainer.errors import RecipeError
from trainer.learn.sft import FREELY
from trainer.options import refuse_broken
from trainer.play.environments import find_form
from trainer.play.failures import lose_episode
from trainer.play.records import Task
from trainer.play.source import recorded_files
from trainer.scale import parallel

if TYPE_CHECKING:
    from trainer.engine import Decoding
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
    written = (one for name in _OF_A_RUN for one in folder.glob(name))
    left = next((one for one in written if one.is_dir() or one.stat().st_size), None)
    if left is None:  # a run that ended before it did anything is none
        return ""
    if not config.is_file():
        raise RunError(
            f"{folder} has {left.relative_to(folder)} of a run, but no config.toml, so its recipe "
            "is not known; restore config.toml and continue with --resume, or start a new run with "
            "--out DIR"
        )
    if not resume:
        raise RunError(f"{folder} holds a run; --resume continues it, --out DIR starts a new one")
    changed = {
        key: values
        for key, values in recipes.changes(recipes.load(folder), recipe).items()
        if not _is_free(key)
    }
    if fixed := [k for k in changed if k not in FORKS and not k.endswith(".learning_rate")]:
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
        RecipeError: The estimator reads the outcome as success, and the environment pays scores; or
            it reads the outcome alone, and a penalty or wrapper pays for turns.
    """
    estimator = getattr(method, "estimator", None)  # DPO has none
    signals = "set env.signals.reward=success" if rollouts.env.signals else ""
    for world, env in rollouts.list_worlds().items():
        if getattr(env.unwrapped, "graded", False) and getattr(estimator, "reads_success", False):
            remedy = signals or (
                "set env.options.reward=success (AlfWorld: env.options.success_reward=1, SearchQA "
                "and WikiSearch: env.options.reward=em)"
            )
            raise RecipeError(
                f"credit.name={name!r} reads the outcome as success, 0 or 1, but with its options "
                f"{world} pays other numbers; {remedy}, or choose another method"
            )
        for key in [_REPORTED[column] for column in method.needs if column in _REPORTED]:
            if not any(info.get(key) for info in _probe(env)):
                raise RunError(
                    f"credit.name={name!r} reads info[{key!r}], but {world} reports none; "
                    "use the environment search or wiki, another method, or, for turn rewards, add "
                    "a verifier: \"env.wrappers={'credit.rewards:TurnVerifier'="
                    '{weights={xml_format=1}}}"'
                )
    _check_payments(name, method, rollouts)


def _check_payments(name: str, method: Method, rollouts: Rollouts) -> None:
    """Check that the method reads what reward wrappers pay.

    Raises:
        RecipeError: A penalty or a wrapper pays for turns, and the method reads the outcome alone.
    """
    worlds = rollouts.env, *rollouts.env.list_worlds().values()
    if method.reads_reward or not any(one.invalid_penalty or one.wrappers for one in worlds):
        return
    silent = {OWN, LastReward.name, *([TurnVerifier.name] * ("turn_reward" in method.needs))}
    for world, made in rollouts.list_worlds().items():
        terms = [one for one in _probe(made)[1]["reward_terms"] if one not in silent]
        layer = made
        while isinstance(layer, gym.Wrapper):
            terms += [type(layer).__name__] if isinstance(layer, gym.RewardWrapper) else []
            layer = layer.env
        if terms:
            raise RecipeError(
                f"credit.name={name!r} reads the outcome of an episode and not the rewards of its "
                f"turns, so that {', '.join(terms)} of {world} would change nothing; set "
                "env.invalid_penalty=0 env.wrappers={}, there with "
                "credit.options.row_penalty=0.1 for a penalty off the outcome of invalid turns, or "
                "choose a method that reads rewards, e.g. credit.name=gigpo"
            )


def find_unmet_states(name: str, method: Method, rollouts: Rollouts) -> str:
    """Why a method that compares turns in equal states finds few; "" if it may find some."""
    estimator = getattr(method, "estimator", None)
    reads = getattr(estimator, "reads_anchors", False)
    if not reads and getattr(estimator, "normalize", "") != "anchor":
        return ""
    worlds = rollouts.list_worlds().items()
    unmet = [world for world, env in worlds if not getattr(env.unwrapped, "revisits", True)]
    if not unmet:
        return ""
    return (
        f"credit.name={name!r} compares turns in equal states, and no state of {', '.join(unmet)} "
        "is met again but by the same actions, because its anchor is the history; set "
        "env.signals.anchor, or choose a method that reads none, e.g. credit.name=grpo"
    )


def find_expert(rollouts: Rollouts, name: str, decoding: Decoding = FREELY) -> str:
    """The expert of the rollouts' environment, or of each of a mixture; "" if "auto" finds none.

    Raises:
        ValueError: There is none of this name; the message lists those there are. Or "auto" finds
            none, and the environment lists no actions to choose from either.
    """
    worlds = rollouts.list_worlds()
    if name != "auto":
        for env in worlds.values():
            apply_to(env, expert_class, name)
        return name
    if all("explorer" in apply_to(env, _list_experts) for env in worlds.values()):
        return "explorer"
    for world, env in worlds.items():
        listed = _probe(env)[0]["admissible_actions"]
        if not decoding.constrains(listed, find_form(env)):
            raise ValueError(
                f"{world} has no Explorer to imitate and lists no actions to choose from, so that "
                "a policy that has not seen it learns nothing: write a class Explorer "
                "(docs/tutorials/own_world.md), list the possible actions (admissible_actions of a "
                "Turn, env.signals.admissible of a lifted world), or take a policy.model that "
                "follows instructions, with sft.steps=0"
            )
    return ""


def _list_experts(env: gym.Env[str, str]) -> list[str]:
    """The names of the experts of an environment."""
    return list(experts_of(type(env.unwrapped)))


def _probe(env: gym.Env[str, str]) -> list[dict[str, Any]]:
    """What an environment reports at its first reset and after an empty reply.

    Raises:
        EpisodeError: It fails.
    """
    task_id = env.get_wrapper_attr("panel").task_ids[0]
    with lose_episode(Task(task_id, 0, 0)):
        return [env.reset(seed=0, options={"task_id": task_id})[1], env.step("")[-1]]


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


def _is_free(key: str) -> bool:
    """Whether an option may change when a run is resumed, and nothing is noted."""
    section, _, option = key.rpartition(".")
    return key in FREE or (section in ENDPOINTS and option not in endpoint.ANSWERING)
