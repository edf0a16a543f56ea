"""Every number of a recipe changes the weights, is refused, or is listed here with its reason."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass

import pytest
from safetensors.numpy import load_file

import credit
from trainer import recipe
from trainer.methods import make_method
from trainer.options import flatten
from trainer.train import train

from .conftest import COLD, METHODS, quiet

pytestmark = pytest.mark.long
QUICK = [
    "sft.steps=0", "run.steps=2", "run.save_every=2", "run.episodes_every=0", "eval.every=0",
    "eval.tasks=1", "sampling.tasks=3", "sampling.temperature=3.0", "update.warmup=1",
    "update.skip_dead_groups=false",
]  # fmt: skip
UNREAD = {
    "run.threads run.save_every run.keep run.episodes_every": "what is kept, and how fast it is",
    "eval.tasks eval.every eval.temperature": "evaluation leaves the weights alone",
    "sampling.rows sampling.max_reply_tokens sampling.max_tokens sampling.failures": "not reached",
    "engine.correction.cap": "of engines beside this process",
    "update.tokens": "the size of a pass, which changes last bits at most",
    "update.clip_low update.clip_high": "no ratio moves in the only step on these rollouts",
    "update.grad_norm update.kl_target": "of longer gradients, and of a policy that has moved",
    "credit.models.critic.value_clip": "no value moves in the only pass over these rollouts",
    "credit.options.p_min": "of a gate that more successes close",
    "credit.options.levels": "of longer histories than these",
    "credit.models.prm.threshold": "any between the outcomes 0 and 1 gives the same pairs",
    "credit.models.prm.minibatch": "more rows than there are",
    "credit.models.prm.play": "plays for the log",
    "credit.models.turnrd.batch": "more trajectories than there are",
    "credit.models.turnrd.half_life credit.models.turnrd.clip": "of later rounds, larger values",
}
"""The options that change no weight in two steps of a walk of four turns, and why."""
LISTED = set(" ".join(UNREAD).split())


def train_with(options, folder):
    """The weights after two steps."""
    train(recipe.load("alfworld mgr pocket", options), folder, console=quiet())
    (last,) = [one for one in (folder / "checkpoints").iterdir() if one.name == "step_2"]
    loaded = {file.name: load_file(file) for file in last.glob("*.safetensors")}
    return {
        (file, name): weight.tobytes()
        for file, weights in loaded.items()
        for name, weight in weights.items()
    }


def list_numbers(loaded):
    """The numbers of a recipe, also those of its estimator and model that it leaves as they are."""
    found = dict(flatten(asdict(loaded)))
    if loaded.credit.name in credit.names():
        made = credit.make(loaded.credit.name, **loaded.credit.options)
        found |= {f"credit.options.{one.name}": getattr(made, one.name) for one in fields(made)}
    own = getattr(make_method(loaded), "options", None)
    if is_dataclass(own) and loaded.credit.beside:
        prefix = f"credit.models.{loaded.credit.beside}."
        found |= flatten(asdict(own), prefix=prefix)
    return {key: one for key, one in found.items() if type(one) in {int, float}}


@pytest.mark.parametrize("name", [*METHODS, *sorted({*credit.names()} - {*METHODS}), "recipe"])
def test_every_number_counts(name, corridor, tiny_folder, tmp_path):
    if name in {"igpo", "trace"}:
        pytest.skip(f"{name} needs a world with answers")
    base = [*COLD, f"policy.model={tiny_folder}", *QUICK]
    base += METHODS.get(name, [f"credit.name={'grpo' if name == 'recipe' else name}"])
    if name in {"mt_grpo", "mt_rloo", "grpo_mr"}:
        base += ["env.wrappers={'credit.rewards:TurnVerifier'={weights={xml_format=1}}}"]
    if name == "rtmc":  # it divides by the deviation
        base += ["credit.options.mode=std"]
    if name == "stapo_dynamic":  # of these few turns none is an outlier by 1.5
        base += ["credit.options.lam=0.5"]
    expected, silent = train_with(base, tmp_path / "base"), []
    for key, value in list_numbers(recipe.load("alfworld mgr pocket", base)).items():
        own = key.startswith("credit") or key == "env.invalid_penalty"
        if own == (name == "recipe") or key in LISTED:
            continue
        others = [2 * value + 1] if type(value) is int else [value / 2 + 0.1, 2 * value + 0.3]
        for other in others if key != "env.invalid_penalty" else [-1.0]:
            try:
                found = train_with([*base, f"{key}={other}"], tmp_path / f"{key}={other}")
            except (ValueError, OSError):
                break  # it is refused
            if found != expected:
                break
        else:
            silent.append(f"{key}={others} in the place of {value}")
    assert not silent
