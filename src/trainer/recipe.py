"""Recipes: one TOML file says a whole run, `key=value` changes one option of it.

A recipe is a tree of frozen dataclasses, a section each. Keys are dotted (`update.learning_rate`);
a name that only one section has may stand alone (`data=/folder`). What is not an option is refused
with the nearest one that is. `base = "NAME"` starts from another recipe; a new `credit.name` drops
the base's `credit.options`. Left out: interpolation and sweeps; a shell loop does those.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, field, fields, is_dataclass
from difflib import SequenceMatcher
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from agent_envs.endpoint import Endpoint
from trainer.checkpoint import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0)]


class RecipeError(ValueError):
    """A recipe, a key or a value that is not one; the message names the nearest that is."""


@dataclass(frozen=True, config=_STRICT)
class Run:
    """Length, seed and upkeep of the run.

    Attributes:
        seed: Everything random in the run derives from it.
        steps: Reinforcement-learning steps.
        threads: Threads of the tensor library; 0 takes the cores this process may use.
        save_every: Steps between checkpoints.
        keep: How many checkpoints stay, the newest and the start of reinforcement learning aside.
        episodes_every: Steps between files of recorded episodes, 0 for none; the last has one.
    """

    seed: Count = 0
    steps: Count = 100
    threads: Count = 0
    save_every: Positive = 10
    keep: Positive = 2
    episodes_every: Count = 1


@dataclass(frozen=True, config=_STRICT)
class Env:
    """The environment and its tasks.

    Attributes:
        id: Registered id.
        split: Split that training tasks are drawn from.
        data: Folder of the public data, "embedded", or "auto".
        games: Train on this many of the split's tasks, a fixed draw; 0 for all.
        max_turns: Turn limit.
        invalid_penalty: Added to the reward of an invalid turn, 0 for none.
        options: More keyword arguments of that environment, e.g. `task_types` of AlfWorld.
    """

    id: str = "AlfWorld-v0"
    split: str = "train"
    data: str = "auto"
    games: Count = 0
    max_turns: Positive = 50
    invalid_penalty: Annotated[float, Field(le=0)] = 0.0
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=_STRICT)
class Prompt:
    """What a reply is conditioned on.

    Attributes:
        context: "history": the whole conversation; "turn": a prompt written anew for every turn.
        template: Template of the turn's prompt, used with context "turn": the import string
            `package.module:NAME` of a `Template`; "" for the environment's own.
        history: Past turns that prompt shows.
    """

    context: Literal["history", "turn"] = "history"
    template: str = ""
    history: Count = 2


@dataclass(frozen=True, config=_STRICT)
class Model:
    """The policy.

    Attributes:
        model: "pocket" or another of `trainer.policy.POCKETS`, "smollm2-135m", a folder or a hub
            name.
        lora_rank: Rank of the adapter on attention and MLP projections, 0 trains all weights.
        lora_alpha: The adapter is scaled by lora_alpha / lora_rank.
        dtype: Of the matrix products; weights that are trained are float32 whatever it is.
        device: "auto" takes a GPU if there is one.
        gradient_checkpointing: Compute activations again in the backward pass, to save memory.
    """

    model: str = "pocket"
    lora_rank: Count = 0
    lora_alpha: Positive = 32
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "auto"
    gradient_checkpointing: bool = False


@dataclass(frozen=True, config=_STRICT)
class Partner:
    """The other side of Sotopia-v0 as a policy that does not learn; type and device as `policy`'s.

    Attributes:
        model: As `policy.model`; "" leaves the other side to env.options.partner.
        temperature: Of the softmax that its replies are drawn from; 0 takes the likeliest token.
        reply_tokens: A reply is cut there.
    """

    model: str = ""
    temperature: NonNegative = 0.7
    reply_tokens: Positive = 512


@dataclass(frozen=True, config=_STRICT)
class Sampling:
    """Rollouts of one step.

    Attributes:
        tasks: Task groups a step.
        rollouts: Rollouts of each task, K.
        rows: How many episodes are played at the same time, 0 for all.
        temperature: Of the softmax that replies are drawn from.
        max_reply_tokens: A reply is cut there.
        max_tokens: A prompt that leaves no room for a reply within this many tokens ends the
            episode as truncated.
        redraws: How often other tasks are drawn in place of groups that ended all alike (DAPO's
            dynamic sampling).
        recorded: Folder of episode files (`episodes/` of a run) to learn from instead of playing,
            for credit.name dpo; "" plays.
        decode: "free", or "admissible": only replies whose action is admissible can be drawn.
    """

    tasks: Positive = 16
    rollouts: Positive = 8
    rows: Count = 0
    temperature: Annotated[float, Field(gt=0)] = 1.0
    max_reply_tokens: Positive = 64
    max_tokens: Positive = 4096
    redraws: Count = 0
    recorded: str = ""
    decode: Literal["free", "admissible"] = "free"


@dataclass(frozen=True, config=_STRICT)
class Sft:
    """Warm start from an expert's demonstrations.

    Attributes:
        steps: Supervised steps before reinforcement learning, 0 for none.
        expert: Who demonstrates: the environment's "explorer", which knows only what it was shown,
            its "oracle", which reads the solution, or a class `package.module:Name` of your own.
        episodes: Demonstrations a step.
        learning_rate: Peak of the warm start.
        warmup: Steps of linear increase.
    """

    steps: Count = 0
    expert: str = "explorer"
    episodes: Positive = 16
    learning_rate: NonNegative = 1e-4
    warmup: Count = 0


@dataclass(frozen=True, config=_STRICT)
class Credit:
    """The estimator: a name of `credit.names()` and its options."""

    name: str = "mgr"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=_STRICT)
class Critic:
    """State values for PPO; with them credit.name gives rewards (mgr, or reinforce for plain PPO).

    Attributes:
        learning_rate: Of the critic, 0 for no critic.
        trunk: The value head reads the hidden states of the "policy" and leaves them as they are,
            or those of its "own" copy, an adapter where the policy is one.
        gamma: Discount from token to token.
        lam: λ of GAE.
        value_clip: A value may move this far from the old one before its loss is clipped.
        epochs: Passes over the rollouts of a step.
        whiten: Scale advantages to mean 0 and deviation 1 over the batch's tokens.
    """

    learning_rate: NonNegative = 0.0
    trunk: Literal["policy", "own"] = "policy"
    gamma: Share = 1.0
    lam: Share = 0.95
    value_clip: Annotated[float, Field(gt=0)] = 0.2
    epochs: Positive = 1
    whiten: bool = True


@dataclass(frozen=True, config=_STRICT)
class Prm:
    """A model of implicit rewards, which starts as the policy; for credit.name istar or prime.

    Attributes:
        learning_rate: Of the model, 0 for none.
        beta: β, scale of the rewards.
        threshold: Of two trajectories, the better has an outcome above and the worse not above it.
        level: Rewards of whole turns, or of every "token" (ablation).
    """

    learning_rate: NonNegative = 0.0
    beta: Annotated[float, Field(gt=0)] = 0.05
    threshold: float = 0.0
    level: Literal["turn", "token"] = "turn"


@dataclass(frozen=True, config=_STRICT)
class TurnRD:
    """The model that tells the credit of turns, for credit.name has with decomposer "turnrd".

    Attributes:
        round: Steps of a round; the model is frozen inside, and trained on the replay after it.
        goal: Modulate by the goal (FiLM).
        learning_rate: Of AdamW.
        epochs: Passes over the replay after a round.
        batch: Trajectories of an optimiser step.
        half_life: Rounds after which a trajectory is drawn half as often.
        hidden: Width of its encoder.
        layers: Of its encoder.
        heads: Of its encoder.
        dropout: Of its encoder.
        clip: Values are clipped to this before they are shifted to sum to the outcome.
        rank: λ_rank, weight of the ranking loss.
        progress: λ_prog, weight of the progress prior on attention.
        value: λ_V, weight of the turns' dense signal, which is what they gain in progress.
        margin: Of the ranking loss.
    """

    round: Positive = 5
    goal: bool = True
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    epochs: Positive = 5
    batch: Positive = 32
    half_life: Annotated[float, Field(gt=0)] = 4.0
    hidden: Positive = 128
    layers: Positive = 2
    heads: Positive = 4
    dropout: Share = 0.1
    clip: Annotated[float, Field(gt=0)] = 2.0
    rank: NonNegative = 0.1
    progress: NonNegative = 0.01
    value: NonNegative = 1.0
    margin: NonNegative = 0.1


@dataclass(frozen=True, config=_STRICT)
class Update:
    """The policy update.

    Attributes:
        learning_rate: Peak, constant after the warm-up.
        warmup: Optimiser steps of linear increase.
        weight_decay: Of AdamW.
        grad_norm: Gradients are clipped to this norm.
        epochs: Passes over the rollouts of a step.
        minibatch: Rows per optimiser step: trajectories, or turns with context "turn"; 0 takes all.
        tokens: At most this many tokens in one forward pass; gradients accumulate over the rest.
        clip_low: Ratios below 1 - clip_low are clipped.
        clip_high: Ratios above 1 + clip_high are clipped.
        ratio: Importance ratio of a token, or the geometric mean over a turn or a sequence.
        aggregate: Mean over all tokens, or over sequences of their means.
        kl: Estimator of the divergence from the reference, which is the start of this stage.
        kl_coefficient: Its weight; the first one if kl_target is set.
        kl_target: Adapt the weight to hold this divergence, 0 keeps it fixed.
        entropy: Weight of the entropy bonus.
        skip_dead_groups: Leave out groups whose outcomes are all equal, unless the estimator has
            turn-level credit for them.
    """

    learning_rate: NonNegative = 1e-6
    warmup: Count = 0
    weight_decay: NonNegative = 0.0
    grad_norm: Annotated[float, Field(gt=0)] = 1.0
    epochs: Positive = 1
    minibatch: Count = 0
    tokens: Positive = 8192
    clip_low: Share = 0.2
    clip_high: NonNegative = 0.2
    ratio: Literal["token", "turn", "sequence"] = "token"
    aggregate: Literal["token-mean", "sequence-mean"] = "token-mean"
    kl: Literal["none", "k1", "k2", "k3"] = "none"
    kl_coefficient: NonNegative = 0.0
    kl_target: NonNegative = 0.0
    entropy: NonNegative = 0.0
    skip_dead_groups: bool = True


@dataclass(frozen=True, config=_STRICT)
class Eval:
    """Evaluation on a fixed panel.

    Attributes:
        split: Split the panel is drawn from.
        tasks: Tasks of the panel, 0 for the whole split.
        every: Steps between evaluations; start and end are always evaluated.
        temperature: 0 is greedy.
    """

    split: str = "valid_unseen"
    tasks: Count = 100
    every: Count = 0
    temperature: NonNegative = 0.0


@dataclass(frozen=True, config=_STRICT)
class Recipe:
    """A whole run; see the sections.

    `judge` is the language model behind credit.name has with decomposer "judge", with the options
    of an endpoint; its labels are kept in the run's folder, or in judge.cache.
    """

    name: str = "recipe"
    about: str = ""
    run: Run = field(default_factory=Run)
    env: Env = field(default_factory=Env)
    prompt: Prompt = field(default_factory=Prompt)
    policy: Model = field(default_factory=Model)
    partner: Partner = field(default_factory=Partner)
    sampling: Sampling = field(default_factory=Sampling)
    sft: Sft = field(default_factory=Sft)
    credit: Credit = field(default_factory=Credit)
    critic: Critic = field(default_factory=Critic)
    prm: Prm = field(default_factory=Prm)
    turnrd: TurnRD = field(default_factory=TurnRD)
    judge: Endpoint = field(default_factory=Endpoint)
    update: Update = field(default_factory=Update)
    eval: Eval = field(default_factory=Eval)


def names() -> list[str]:
    """Names of the recipes that come with the package."""
    return sorted(_shipped(files("trainer") / "recipes"))


def load(recipe: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe of a name, a TOML file or a run folder, with `key=value` overrides applied.

    Values are TOML literals; what is none is taken as a string.

    Raises:
        RecipeError: No such recipe or key (the nearest is named), or a value that does not fit.
    """
    tree = _read(recipe)
    for override in overrides:
        _override(tree, override)
    return parse(tree)


def parse(tree: Mapping[str, Any]) -> Recipe:
    """A recipe from nested tables.

    Raises:
        RecipeError: As `load`.
    """
    known = dict(_options(Recipe))
    for key in _leaves(tree, known):
        if key not in known:
            raise RecipeError(f"no option {key!r}; did you mean {_nearest(key, known)!r}?")
    try:
        return _ADAPTER.validate_json(json.dumps(tree, default=str))  # strict, yet tables nest
    except ValidationError as error:
        raise RecipeError(_explain(error)) from error


def save(recipe: Recipe, path: Path) -> None:
    """Write every option of the recipe as TOML, so that `load(path)` gives an equal recipe."""
    import tomli_w

    write_text(path, tomli_w.dumps(asdict(recipe)))


def changes(before: Recipe, after: Recipe) -> list[str]:
    """Dotted keys in which two recipes differ."""
    one, other = (dict(_values(asdict(recipe))) for recipe in (before, after))
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def assignment(text: str) -> tuple[str, Any]:
    """Key and value of `key=value`; the value is a TOML literal, and a string where it is none.

    Raises:
        RecipeError: There is no equals sign.
    """
    key, equals, literal = map(str.strip, text.partition("="))
    if not equals:
        raise RecipeError(f"an option is key=value, e.g. run.seed=1, got {text!r}")
    try:
        values = tomllib.loads(f"value = {literal}")
    except tomllib.TOMLDecodeError:
        return key, literal
    return key, values["value"] if len(values) == 1 else literal


_ADAPTER: TypeAdapter[Recipe] = TypeAdapter(Recipe)


def _shipped(folder: Traversable, prefix: str = "") -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _shipped(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            yield prefix + entry.name.removesuffix(".toml")


def _read(recipe: str | Path, above: tuple[str, ...] = ()) -> dict[str, Any]:
    path, name = Path(recipe), str(recipe)
    source: Traversable | Path
    if name in names():
        source = files("trainer") / "recipes" / f"{name}.toml"
    elif (path / "config.toml").is_file():
        source, name = path / "config.toml", path.stem
    elif path.is_file():
        source, name = path, path.stem
    else:
        raise RecipeError(
            f"no recipe {name!r}, no such file and no run folder; did you mean "
            f"{_nearest(name, names())!r}? There are: {', '.join(names())}"
        )
    try:
        tree = {"name": name} | tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{source} is not TOML: {error}") from error
    if "base" not in tree:
        return tree
    base = str(tree.pop("base"))
    if base in above:
        raise RecipeError(f"{source} has itself as base, by way of {' and '.join(above)}")
    return _merged(_read(base, (*above, base)), tree)


def _merged(base: Mapping[str, Any], tree: Mapping[str, Any]) -> dict[str, Any]:
    """The base with what the tree says instead."""
    made = dict(base)
    credit = tree.get("credit")
    if isinstance(credit, dict) and "name" in credit:
        made["credit"] = {}
    for key, value in tree.items():
        before = made.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            made[key] = _merged(before, value)
        else:
            made[key] = value
    return made


def _override(tree: dict[str, Any], override: str) -> None:
    key, value = assignment(override)
    *sections, last = _full_key(key).split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise RecipeError(f"{key!r} goes into {section!r}, which is a value and no section")
    tree[last] = value


def _full_key(key: str) -> str:
    known = dict(_options(Recipe))
    if "." in key or key in known:
        return key
    found = [option for option in known if option.split(".")[-1] == key]
    if len(found) == 1:
        return found[0]
    if not found:
        raise RecipeError(f"no option {key!r}; did you mean {_nearest(key, known)!r}?")
    raise RecipeError(f"{key!r} could be any of {', '.join(found)}; say which")


def _options(section: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for option in fields(section):
        kind = option.default_factory
        if isinstance(kind, type) and is_dataclass(kind):
            yield from _options(kind, f"{prefix}{option.name}.")
        else:
            yield prefix + option.name, kind


def _leaves(tree: Mapping[str, Any], known: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        key = prefix + name
        if isinstance(value, dict) and key not in known:
            yield from _leaves(value, known, f"{key}.") if value else ()
        else:
            yield key


def _values(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _values(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _nearest(word: str, known: Iterable[str]) -> str:
    def likeness(option: str) -> float:
        shorter = option.rsplit(".", maxsplit=1)[-1]
        return max(SequenceMatcher(None, word, name).ratio() for name in (option, shorter))

    return max(known, key=likeness)


def _explain(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        whole = problem["type"] == "value_error"  # of a section, which may hold a password
        told = "" if whole else f" = {problem['input']!r}"
        lines.append(f"{key}{told}: {problem['msg']}")
    return "; ".join(lines)
