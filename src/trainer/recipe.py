"""Recipe: all options of a run; `key=value` changes one of them.

A recipe is a tree of frozen dataclasses, one for each section, each declared beside the code that
it sets up. Keys are dotted (`update.learning_rate`); a name that occurs in only one section needs
no section (`data=/folder`). `trainer.recipes` has the shipped recipes. Left out: interpolation and
sweeps; use a shell loop.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import asdict, field, fields, is_dataclass
from difflib import SequenceMatcher
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from agent_envs.cli.options import parse_assignment
from agent_envs.endpoint import Endpoint
from trainer import recipes
from trainer.engine import EngineOptions, Sampling
from trainer.errors import RecipeError
from trainer.learn.sft import Sft
from trainer.learn.update import Update
from trainer.methods.critic import CriticOptions
from trainer.methods.implicit import ImplicitOptions
from trainer.methods.turnrd import TurnRDOptions
from trainer.model.policy import Model
from trainer.options import STRICT, Count, Positive, Threads, explain_error
from trainer.play.environments import Env, PromptOptions
from trainer.play.partner import PartnerOptions
from trainer.run.checkpoint import write_text
from trainer.run.evaluate import Eval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


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
    """The estimator and its options.

    Attributes:
        name: A name of `credit.names()`, "dpo", or "package.module:Name" of your own estimator or
            `trainer.methods.Method`.
        options: Keyword arguments of the estimator.
    """

    name: str = "mgr"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """All options of a run, by section.

    `judge` is the endpoint of the language model for credit.name "has" with decomposer "judge". Its
    labels are cached in the run folder, or in judge.cache.
    """

    name: str = "recipe"
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
    critic: CriticOptions = field(default_factory=CriticOptions)
    prm: ImplicitOptions = field(default_factory=ImplicitOptions)
    turnrd: TurnRDOptions = field(default_factory=TurnRDOptions)
    judge: Endpoint = field(default_factory=Endpoint)
    update: Update = field(default_factory=Update)
    eval: Eval = field(default_factory=Eval)


def load(recipe: str | Path | recipes.Composition, overrides: Iterable[str] = ()) -> Recipe:
    """Load a recipe from words ("alfworld mgr pocket"), a TOML file or a run folder.

    `overrides` are `key=value`. Values are parsed as TOML; anything that is not valid TOML is
    treated as a string.

    Raises:
        RecipeError: A word or key is unknown (the message has the nearest), or a value is invalid.
    """
    if isinstance(recipe, recipes.Composition):
        tree = recipe.tree()
    elif os.path.isfile(config := Path(recipe) / "config.toml"):
        tree = _read_run(config)
    else:
        words = [recipe] if os.path.isfile(recipe) else str(recipe).split()
        tree = recipes.compose(words).tree()
    pairs = [_assignment(override) for override in overrides]
    before = tree.get("credit", {}).get("name")
    if any(key == ("credit", "name") and value != before for key, value in pairs):
        tree.get("credit", {}).pop("options", None)  # they belong to another estimator
    for key, value in pairs:
        _override(tree, key, value)
    return parse(tree)


def parse(tree: Mapping[str, Any]) -> Recipe:
    """Make a recipe from nested tables.

    Raises:
        RecipeError: A key is unknown, or a value is invalid.
    """
    known = dict(_options(Recipe))
    for key in _leaves(tree, known):
        if key not in known:
            raise RecipeError(_unknown(key))
    try:
        made = _ADAPTER.validate_json(json.dumps(tree, default=str))  # strict mode refuses dicts
    except ValidationError as error:
        raise RecipeError(explain_error(error)) from error
    if not made.name or made.name in {".", ".."} or {"/", "\\"} & set(made.name):
        raise RecipeError(
            f"name = {made.name!r}: a recipe's name is one plain name, that of its folder in runs; "
            "--out DIR sets another folder"
        )
    return made


def save(recipe: Recipe, path: Path) -> None:
    """Write all options as TOML; `load(path)` returns an equal recipe."""
    import tomlkit

    write_text(path, tomlkit.dumps(asdict(recipe)))


def changes(before: Recipe, after: Recipe) -> list[str]:
    """Dotted keys in which two recipes differ."""
    one, other = (dict(_values(asdict(recipe))) for recipe in (before, after))
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


_ADAPTER: TypeAdapter[Recipe] = TypeAdapter(Recipe)
_NEAR = 0.7  # likeness of a slip of the pen


def _read_run(config: Path) -> dict[str, Any]:
    """The options of a run folder.

    Raises:
        RecipeError: The file is not TOML, or does not have exactly the options of this version.
    """
    try:
        tree = tomllib.loads(config.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{config} is not TOML: {error}") from error
    known = dict(_options(Recipe))
    there = set(_leaves(tree, known))
    if unknown := sorted(there - known.keys()):
        raise RecipeError(
            f"{config.parent} is a run of another version: it sets {', '.join(unknown[:3])}, which "
            "this version does not have; install the version that made it, or start a new run with "
            "--out DIR"
        )
    if missing := [key for key in known if key not in there]:
        raise RecipeError(
            f"{config} is incomplete or of another version: it lacks {', '.join(missing[:3])}"
            f"{', ...' if missing[3:] else ''}; restore it, install the version that made it, or "
            "start a new run with --out DIR"
        )
    return tree


def _override(tree: dict[str, Any], path: recipes.Key, value: Any) -> None:
    *sections, last = path
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise RecipeError(
                f"{recipes.join_key(path)!r} cannot be set: {section!r} is an option, not a section"
            )
    tree[last] = value


def key_of(override: str) -> str:
    """The whole dotted key that `key=value` changes.

    Raises:
        RecipeError: It is not `key=value`, or no option or several have this name.
    """
    return recipes.join_key(_assignment(override)[0])


def _assignment(text: str) -> tuple[recipes.Key, Any]:
    """The whole path of `key=value`, and the value."""
    try:
        key, value = parse_assignment(text)
    except ValueError as error:
        raise RecipeError(str(error)) from error
    if not key:
        raise RecipeError(f"an option is key=value, e.g. run.seed=1, got {text!r}")
    return _full(_path(key)), value


def _path(key: str) -> recipes.Key:
    """The parts of a dotted key; parts may be quoted, as in TOML: `env.wrappers."a.b:C".scale`."""
    try:
        tree: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return tuple(key.split("."))
    path = []
    while isinstance(tree, dict):
        if len(tree) != 1:  # a comment, or more than one line
            return tuple(key.split("."))
        ((part, tree),) = tree.items()
        path.append(part)
    return tuple(path)


def _full(path: recipes.Key) -> recipes.Key:
    """The path with its section, if the option occurs in only one."""
    known = dict(_options(Recipe))
    if len(path) > 1 or path[0] in known:
        return path
    found = [option for option in known if option.split(".")[-1] == path[0]]
    if len(found) == 1:
        return tuple(found[0].split("."))
    if not found:
        raise RecipeError(_unknown(path[0]))
    raise RecipeError(f"{path[0]!r} is ambiguous; use one of {', '.join(found)}")


def _options(section: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for option in fields(section):
        kind: Any = option.default_factory
        if is_dataclass(option.default):
            kind = type(option.default)
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


def _unknown(key: str) -> str:
    """What is wrong with a key that is no option: a section, a slip of the pen, or far off."""
    sections: dict[str, list[str]] = {}
    for option in dict(_options(Recipe)):
        parts = option.split(".")
        for end in range(1, len(parts)):
            sections.setdefault(".".join(parts[:end]), []).append(option)

    section, _, last = key.rpartition(".")

    def likeness(option: str) -> float:
        place, _, name = option.rpartition(".")
        if section in sections:
            return SequenceMatcher(None, last, name).ratio() - 0.1 * (place != section)
        return max(SequenceMatcher(None, key, one).ratio() for one in (option, name))

    if whole := [name for name in sections if f".{name}".endswith(f".{key}")]:
        has = sections[whole[0]]
        return f"{key!r} is a section, not an option; it has {_some(has)}"
    best, *near = nlargest(3, dict(_options(Recipe)), key=likeness)
    near_too = f"near are also {' and '.join(near)}"
    if likeness(best) >= _NEAR:
        return f"no option {key!r}; did you mean {best!r}? ({near_too})"
    if section in sections:
        ordered = sorted(sections[section], key=likeness, reverse=True)
        return f"no option {key!r}; {section} has {_some(ordered)}"
    return (
        f"no option {key!r}; the sections are {', '.join(s for s in sections if '.' not in s)}; "
        f"nearest are {best}, {', '.join(near)}"
    )


def _some(options: Sequence[str]) -> str:
    """The first three, and how many more there are."""
    rest = len(options) - 3
    more = f" and {rest} more, see `agent-envs recipes`" if rest > 0 else ""
    return ", ".join(options[:3]) + more
