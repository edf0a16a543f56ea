"""Recipe: all options of a run, `key=value` changes one of them.

A recipe is a tree of frozen dataclasses, a section each, declared beside what they set up. Keys are
dotted (`update.learning_rate`); a name that only one section has needs no section
(`data=/folder`). `trainer.recipes` has the shipped ones. Left out: interpolation and sweeps; a
shell loop does those.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, field, fields, is_dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from agent_envs.endpoint import Endpoint
from trainer import recipes
from trainer.assignment import assignment
from trainer.checkpoint import write_text
from trainer.environments import Env, PromptOptions
from trainer.evaluate import Eval
from trainer.methods.critic import CriticOptions
from trainer.methods.implicit import ImplicitOptions
from trainer.methods.turnrd import TurnRDOptions
from trainer.options import STRICT, Count, Positive
from trainer.policy import Model
from trainer.recipes import RecipeError
from trainer.sampling import Partner, Sampling
from trainer.sft import Sft
from trainer.update import Update

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


@dataclass(frozen=True, config=STRICT)
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


@dataclass(frozen=True, config=STRICT)
class Credit:
    """The estimator: a name of `credit.names()` and its options."""

    name: str = "mgr"
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, config=STRICT)
class Recipe:
    """A whole run; see the sections.

    `judge` is the language model behind credit.name has with decomposer "judge", with the options
    of an endpoint; its labels are kept in the run's folder, or in judge.cache.
    """

    name: str = "recipe"
    about: str = ""
    run: Run = field(default_factory=Run)
    env: Env = field(default_factory=Env)
    prompt: PromptOptions = field(default_factory=PromptOptions)
    policy: Model = field(default_factory=Model)
    partner: Partner = field(default_factory=Partner)
    sampling: Sampling = field(default_factory=Sampling)
    sft: Sft = field(default_factory=Sft)
    credit: Credit = field(default_factory=Credit)
    critic: CriticOptions = field(default_factory=CriticOptions)
    prm: ImplicitOptions = field(default_factory=ImplicitOptions)
    turnrd: TurnRDOptions = field(default_factory=TurnRDOptions)
    judge: Endpoint = field(default_factory=Endpoint)
    update: Update = field(default_factory=Update)
    eval: Eval = field(default_factory=Eval)


def load(recipe: str | Path | recipes.Composition, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe of words ("alfworld mgr pocket"), a TOML file or a run folder, with overrides.

    Values of `key=value` are parsed as TOML; anything that is not valid TOML is a string.

    Raises:
        RecipeError: An unknown word or key (the nearest is named), or a value that does not fit.
    """
    if isinstance(recipe, recipes.Composition):
        tree = recipe.tree()
    elif (config := Path(recipe) / "config.toml").is_file():
        tree = _read_run(config)
    else:
        words = [recipe] if Path(recipe).is_file() else str(recipe).split()
        tree = recipes.compose(words).tree()
    pairs = [_assignment(override) for override in overrides]
    before = tree.get("credit", {}).get("name")
    if any(key == "credit.name" and value != before for key, value in pairs):
        tree["credit"].pop("options", None)  # they are another estimator's
    for key, value in pairs:
        _override(tree, key, value)
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
    import tomlkit

    write_text(path, tomlkit.dumps(asdict(recipe)))


def changes(before: Recipe, after: Recipe) -> list[str]:
    """Dotted keys in which two recipes differ."""
    one, other = (dict(_values(asdict(recipe))) for recipe in (before, after))
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


_ADAPTER: TypeAdapter[Recipe] = TypeAdapter(Recipe)


def _read_run(config: Path) -> dict[str, Any]:
    """The options of a run folder.

    Raises:
        RecipeError: It is not TOML, or of an earlier version.
    """
    try:
        tree = tomllib.loads(config.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{config} is not TOML: {error}") from error
    known = dict(_options(Recipe))
    if unknown := [key for key in _leaves(tree, known) if key not in known]:
        raise RecipeError(
            f"{config.parent} is a run of another version: it sets {', '.join(unknown[:3])}, which "
            "is no option here; install the version that made it, or start another with --out DIR"
        )
    return tree


def _override(tree: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = _full_key(key).split(".")
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise RecipeError(f"{key!r} is an option of {section!r}, which is a value, no section")
    tree[last] = value


def _assignment(text: str) -> tuple[str, Any]:
    try:
        return assignment(text)
    except ValueError as error:
        raise RecipeError(str(error)) from error


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
