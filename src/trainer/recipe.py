"""Recipe: all options of a run; `key=value` changes one of them.

A recipe is a tree of frozen dataclasses, one for each section, each declared beside the code that
it sets up. Keys are dotted (`update.learning_rate`); a name that occurs in only one section needs
no section (`data=/folder`). `trainer.recipes` has the shipped recipes. Left out: interpolation and
sweeps; use a shell loop.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, field, fields, is_dataclass
from difflib import SequenceMatcher
from heapq import nlargest
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

import credit
from agent_envs.cli.options import parse_assignment
from agent_envs.machine import write_text
from credit.validation import find_unread
from trainer import recipes
from trainer.engine import EngineOptions, Sampling
from trainer.errors import Problems, RecipeError
from trainer.learn.sft import Sft
from trainer.learn.update import Update
from trainer.model.policy import Model
from trainer.options import (
    STRICT,
    Count,
    Positive,
    Section,
    Threads,
    flatten,
    make_options,
    refuse_broken,
)
from trainer.play.environments import Env, Eval, PromptOptions
from trainer.play.partner import PartnerOptions

BesidePolicy: TypeAlias = Literal["critic", "prm", "turnrd", "judge"]
"""Models that learn, or are asked, beside the policy."""
_LONG = {"eval.data"}
"""Options that are never meant without their section: `data=/folder` is that of training."""


@dataclass(frozen=True, config=STRICT)
class Run:
    """Length, seed, threads and checkpoints of the run.

    Attributes:
        seed: Seed of everything random in the run.
        steps: Reinforcement-learning steps.
        threads: Threads of torch in each process, at most 1024; 0 divides all available cores.
        save_every: Steps between checkpoints.
        keep: How many of the newest checkpoints are kept; the start of reinforcement learning is
            always kept.
        episodes_every: Steps between files of recorded episodes, 0 for none; the last step always
            has one.
    """

    seed: Count = 0
    steps: Count = 100
    threads: Threads = 0
    save_every: Positive = 10
    keep: Positive = 2
    episodes_every: Count = 1


@dataclass(frozen=True, config=STRICT)
class Credit:
    """The estimator, and the model that learns or is asked beside the policy.

    Attributes:
        name: A name of `credit.names()`, "dpo", or "package.module:Name" of your own estimator or
            `trainer.methods.Method`.
        options: Keyword arguments of the estimator.
        model: "critic" (PPO), "prm" (implicit rewards), "turnrd" or "judge" (decomposers of HAS),
            or "none"; "" for the one that the estimator needs, see `trainer.methods.METHODS`.
        models: Options of the model that is in the run, e.g. {critic = {trunk = "own"}}; a recipe
            may have them for others, too, which are left out.
    """

    name: str = "mgr"
    options: dict[str, Any] = field(default_factory=dict)
    model: Literal["", "none", BesidePolicy] = ""
    models: dict[BesidePolicy, dict[str, Any]] = field(default_factory=dict)

    @property
    def beside(self) -> str:
        """The model that is in the run, "" for none; that of a method of one's own is not known."""
        own = {"istar": "prm", "prime": "prm"}.get(self.name, "")
        return {"": own, "none": ""}.get(self.model, self.model)


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """All options of a run, by section. The name is also that of its folder in `runs`.

    Raises:
        ValueError: Options of several sections contradict each other.
    """

    name: Annotated[str, Field(pattern=r"^[^/\\]*[^/\\.][^/\\]*$")] = "recipe"
    about: str = ""
    run: Run = field(default_factory=Run)
    env: Env = field(default_factory=Env)
    prompt: PromptOptions = field(default_factory=PromptOptions)
    policy: Model = field(default_factory=Model)
    partner: PartnerOptions = field(default_factory=PartnerOptions)
    sampling: Sampling = field(default_factory=Sampling)
    engine: EngineOptions = field(default_factory=EngineOptions)
    sft: Sft = field(default_factory=Sft)
    credit: Credit = field(default_factory=Credit)
    update: Update = field(default_factory=Update)
    eval: Eval = field(default_factory=Eval)

    @property
    def last_step(self) -> int:
        """Number of the last step, after those of the warm start."""
        return self.sft.steps + self.run.steps

    def __post_init__(self) -> None:
        sampling, engine, partner = self.sampling, self.engine, self.partner.model
        unused = [one for one in self.credit.models if one != self.credit.beside]
        rules = {
            f"credit.models.{' and '.join(unused)} is of a model that is not in the run "
            f"(credit.name={self.credit.name!r}, credit.model={self.credit.model!r}); leave it "
            "out, or set credit.model": unused and ":" not in self.credit.name,
            f"credit.name={self.credit.name!r} has no model beside the policy; leave out "
            "credit.model, which would replace its terms": (
                self.credit.model and self.credit.name in {"stapo", "stapo_dynamic", "dpo"}
            ),
            f"partner.model={partner!r} samples in this process; set env.processes=0 and "
            "sampling.actors=0": partner and (self.env.processes or sampling.actors),
            f"sampling.actors={sampling.actors} needs servers that all machines reach; set "
            "engine.name=vllm and engine.urls, or sampling.actors=0": (
                sampling.actors and not engine.urls
            ),
            f"sampling.recorded needs credit.name=dpo, got {self.credit.name!r}: all other "
            "estimators learn from the policy's own rollouts": (
                sampling.recorded and self.credit.name != "dpo"
            ),
        }
        refuse_broken(rules)


def load(recipe: str | Path | recipes.Composition, overrides: Iterable[str] = ()) -> Recipe:
    """Load a recipe from words ("alfworld mgr pocket"), a TOML file or a run folder.

    `overrides` are `key=value`. Values are parsed as TOML; anything that is not valid TOML is
    treated as a string.

    Raises:
        RecipeError: A word or key is unknown (the message has the nearest), or a value is invalid.
    """
    overrides, settings = list(overrides), dict[recipes.Key, recipes.Setting]()
    if isinstance(recipe, recipes.Composition):
        settings, tree = recipe.settings, recipe.tree()
    elif os.path.isfile(config := Path(recipe) / "config.toml"):
        tree = _read_run(config)
        _drop_unread(tree, None)
    else:
        words = [recipe] if os.path.isfile(recipe) else str(recipe).split()
        made = recipes.compose(words, overrides)
        settings, tree = made.settings, made.tree()
    files = {key: one.file.partition(" when ")[0] for key, one in settings.items()}
    shipped = {k: one.value for k, one in settings.items() if not os.path.isfile(files[k])}
    pairs, problems = [], Problems()
    for override in overrides:
        with problems.note():
            pairs.append(_assignment(override))
    for section, name in (("credit", "name"), ("env", "id")):
        before = tree.get(section, {}).get(name)
        if any(key == (section, name) and value != before for key, value in pairs):
            tree.get(section, {}).pop("options", None)  # they belong to another one
    for key, value in pairs:
        recipes.set_option(tree, key, value)
    _drop_unused_models(tree, shipped)
    _drop_unread(tree, shipped, {key for key, _ in pairs})
    with problems.note():
        parsed = parse(tree)
    problems.refuse()
    return parsed


def _drop_unused_models(tree: dict[str, Any], shipped: Mapping[recipes.Key, Any]) -> None:
    """Leave out models that are not in the run and have only options that are shipped."""
    section = tree.get("credit", {})
    named = {key: section[key] for key in ("name", "model") if key in section}
    with suppress(RecipeError, AttributeError):  # `parse` refuses them
        beside = make_options(Credit, named).beside
        for name, options in [*section.get("models", {}).items()]:
            above = "credit", "models", name
            if name != beside and all(
                shipped.get((*above, *key.split("."))) == value for key, value in flatten(options)
            ):
                del section["models"][name]


def _drop_unread(
    tree: dict[str, Any],
    shipped: Mapping[recipes.Key, Any] | None,
    given: Container[recipes.Key] = (),
) -> None:
    """Leave out options that nothing reads and that are shipped, or were switched off later.

    Those of a run, `shipped` None, are all left out.
    """
    parts: dict[str, Any] = dict(_iter_sections(Recipe()))
    chosen = tree.get("credit", {}).get("name", Credit.name)
    if chosen in credit.names():
        parts["credit.options."] = credit.make(chosen)
    for path, part in parts.items():
        table: Any = tree
        *above, _ = path.split(".")
        with suppress(AttributeError):  # no table: `parse` refuses it
            for name in above:
                table = table.get(name, {})
            for name, why in find_unread(type(part), table).items():
                key, switch = (*above, name), (*above, why.partition("=")[0])
                old = shipped is None or table[name] == shipped.get(key)
                if old or (switch in given and key not in given):
                    table[name] = getattr(part, name)  # the default


def _iter_sections(options: Any, path: str = "") -> Iterator[tuple[str, Section]]:
    """The sections in options that have a table `unread`, each with its dotted path."""
    if isinstance(options, Section):
        yield path, options
    for one in fields(options):
        if is_dataclass(part := getattr(options, one.name)):
            yield from _iter_sections(part, f"{path}{one.name}.")


def parse(tree: Mapping[str, Any]) -> Recipe:
    """Make a recipe from nested tables.

    Raises:
        RecipeError: A key is unknown, or a value is invalid.
    """
    known = _options(Recipe)
    if unknown := [key for key, _ in flatten(tree, known) if key not in known]:
        raise RecipeError("; ".join(map(_explain_unknown, unknown)))
    return make_options(Recipe, tree)


def save(recipe: Recipe, path: Path) -> None:
    """Write all options as TOML; `load(path)` returns an equal recipe."""
    import tomlkit

    write_text(path, tomlkit.dumps(asdict(recipe)))


def changes(before: Recipe, after: Recipe) -> dict[str, tuple[Any, Any]]:
    """Dotted keys in which two recipes differ, with both values; {} for an option without one."""
    one, other = (dict(flatten(asdict(recipe))) for recipe in (before, after))
    pairs = {key: (one.get(key, {}), other.get(key, {})) for key in sorted({*one, *other})}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _read_run(config: Path) -> dict[str, Any]:
    """The options of a run folder.

    Raises:
        RecipeError: The file is not TOML, or does not have exactly the options of this version.
    """
    tree = recipes.read_file(config)
    known = _options(Recipe)
    if other := sorted(known.keys() ^ dict(flatten(tree, known)).keys()):
        raise RecipeError(
            f"{config} is incomplete or of a version with other options ({', '.join(other[:3])}); "
            "restore it, install the version that made it, or start a new run with --out DIR"
        )
    return tree


def key_of(override: str) -> str:
    """The whole dotted key that `key=value` changes.

    Raises:
        ValueError: It is not `key=value`, or no option or several have this name.
    """
    return recipes.join_key(_assignment(override)[0])


def _assignment(text: str) -> tuple[recipes.Key, Any]:
    """The whole path of `key=value`, and the value."""
    key, value = parse_assignment(text)
    return _full(_path(key)), value


def _path(key: str) -> recipes.Key:
    """The parts of a dotted key; parts may be quoted, as in TOML: `env.wrappers."a.b:C".scale`."""
    try:
        tree: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return tuple(key.split("."))
    path = []
    while isinstance(tree, dict) and tree:
        part, tree = next(iter(tree.items()))
        path.append(part)
    return tuple(path) or (key,)


def _full(path: recipes.Key) -> recipes.Key:
    """The path with its section, if the option occurs in only one."""
    known = _options(Recipe)
    if len(path) > 1 or path[0] in known:
        return path
    found = [one for one in known if one.split(".")[-1] == path[0] and one not in _LONG]
    if not found:
        raise RecipeError(_explain_unknown(path[0]))
    if found[1:]:
        raise RecipeError(f"{path[0]!r} is ambiguous; use one of {', '.join(found)}")
    return tuple(found[0].split("."))


def _options(recipe: type[Recipe]) -> dict[str, Any]:
    """All options by dotted key, with their defaults."""
    return dict(flatten(asdict(recipe())))


def _explain_unknown(key: str) -> str:
    """What a key that is no option is: a section, or unknown, with the most similar options."""
    known = _options(Recipe)
    if inside := [option for option in known if f".{key}." in f".{option}"]:
        return f"{key!r} is a section, not an option; it has {', '.join(inside)}"

    def compare(option: str) -> float:
        pairs = (key, option), (key.rpartition(".")[2], option.rpartition(".")[2])
        return sum(SequenceMatcher(None, *pair).ratio() for pair in pairs)

    near = ", ".join(nlargest(3, known, key=compare))
    return f"no option {key!r}; nearest are {near}; docs/recipes.md says where all are declared"
