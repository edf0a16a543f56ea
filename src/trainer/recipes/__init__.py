"""The recipes of the package: one TOML file for each environment, method and model.

A recipe is an environment, a method and perhaps a model: `compose(["alfworld", "mgr", "pocket"])`.
The files are layered in this order. A table `[when.NAME...]` applies only together with NAME, on
top of everything unconditional. The comment after a value is its source. The options are described
in `trainer.recipe`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agent_envs.panels import nearest
from trainer.errors import RecipeError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

AXES = ("environment", "method", "model")
"""The kinds of parts of a recipe; their files are in the folders `environments` and so on."""
WHEN = "when"
_FOLDERS = {axis: Path(__file__).parent / f"{axis}s" for axis in AXES}
_SECTIONS = 2  # depth of sections, e.g. [policy.lora]; a deeper empty table is a value
Key: TypeAlias = tuple[str, ...]


NEEDED: dict[str, Key] = {"environment": ("env", "id"), "method": ("credit", "name")}
"""The axes that no recipe lacks, and the option that a file may set instead."""


class Setting(NamedTuple):
    """The value of one option, the file that sets it, and the comment after it."""

    value: Any
    file: str
    source: str


class Composition(NamedTuple):
    """A composed recipe: name, description, and settings by key, e.g. ("run", "seed")."""

    name: str
    about: str
    settings: dict[Key, Setting]

    def tree(self) -> dict[str, Any]:
        """The settings as nested tables, with `name` and `about`."""
        made: dict[str, Any] = {"name": self.name, "about": self.about}
        for key, setting in self.settings.items():
            set_option(made, key, setting.value)
        return made


class Part(NamedTuple):
    """One file: name, description, settings, and those that apply only with another part."""

    name: str
    about: str
    settings: dict[Key, Setting]
    when: dict[str, dict[Key, Setting]]


def set_option(tree: dict[str, Any], key: Key, value: Any) -> None:
    """Set an option in nested tables; a value in the place of a table is replaced."""
    *sections, last = key
    for section in sections:
        if not isinstance(tree.get(section), dict):
            tree[section] = {}
        tree = tree[section]
    tree[last] = value


@cache
def names(axis: str) -> tuple[str, ...]:
    """Sorted names of the shipped files of an axis."""
    return tuple(sorted(path.stem for path in _FOLDERS[axis].glob("*.toml")))


@cache
def part(axis: str, name: str) -> Part:
    """Read a shipped part."""
    return make_part(name, parse_file(_FOLDERS[axis] / f"{name}.toml"))


def compose(words: Sequence[str | Path]) -> Composition:
    """The recipe of some words, each a shipped name or a TOML file of one's own.

    A file may name its `environment`, `method` and `model`, too, and is layered last. Without a
    named environment it sets `env.id`, and without a named method `credit.name`.

    Raises:
        RecipeError: An unknown word, two of one axis, or no environment or no method.
    """
    parts: dict[str, str] = {}
    own: list[Part] = []
    for word in map(str, words):
        if axis := _axes().get(word):
            _name_part(parts, axis, word)
        elif os.path.isfile(word):
            table = parse_file(Path(word))
            for axis in AXES:
                if axis in table:
                    _name_part(parts, axis, str(table.pop(axis)))
            own.append(make_part(word, table))
        else:
            raise RecipeError(_explain_word(word))
    made = layer_parts(parts, own)
    for axis, key in NEEDED.items():
        if axis not in parts and key not in made.settings:
            raise RecipeError(
                f"a recipe is ENVIRONMENT METHOD [MODEL] or a TOML file, and "
                f"{' '.join(map(str, words))!r} has no {axis}: name one of "
                f"{', '.join(names(axis))}, or set {join_key(key)} in the file"
            )
    stems = [Path(one.name).stem for one in own]
    return made._replace(name="-".join(filter(None, [made.name, *stems])))


def _explain_word(word: str) -> str:
    """What a word that is no part of a recipe was probably meant to be."""
    if "/" in word or word.endswith(".toml"):
        return f"no file or run folder {word!r} in {Path.cwd()}; {_LISTED}"
    if "." in word:
        return f"the option {word!r} needs its value behind '=', without a space: {word}=VALUE"
    return (
        f"no recipe part, TOML file or run folder {word!r}{nearest(word, _axes())}; {_LISTED}; "
        "options are KEY=VALUE, also for your own, env.id=module:Class and credit.name=module:Name"
    )


def layer_parts(parts: Mapping[str, str], above: Sequence[Part]) -> Composition:
    """The layers of some parts, and others above them."""
    shipped = {parts[axis]: part(axis, parts[axis]) for axis in AXES if axis in parts}
    layers = [one.settings for one in shipped.values()]
    layers += [shipped[one].when.get(other, {}) for one, other in permutations(shipped, 2)]
    layers += [one.settings for one in above]
    layers += [one.when.get(other, {}) for one in above for other in shipped]
    settings: dict[Key, Setting] = {}
    for layer in layers:
        before, name = (one.get(("credit", "name")) for one in (settings, layer))
        if before and name and name.value != before.value:
            # another estimator removes the options of the previous one
            settings = {
                key: value for key, value in settings.items() if key[:2] != ("credit", "options")
            }
        settings |= layer
    abouts = [one.about for one in [*shipped.values(), *above] if one.about]
    return Composition("-".join(shipped), " ".join(abouts), settings)


def _name_part(parts: dict[str, str], axis: str, name: str) -> None:
    if name not in names(axis):
        near = nearest(name, names(axis))
        raise RecipeError(f"no {axis} {name!r}{near}; there are {', '.join(names(axis))}")
    if parts.setdefault(axis, name) != name:
        raise RecipeError(f"a recipe has one {axis}, got {parts[axis]!r} and {name!r}")


_LISTED = "`agent-envs recipes` lists all"


def _axes() -> dict[str, str]:
    """The axis of each shipped name."""
    return {name: axis for axis in AXES for name in names(axis)}


def make_part(name: str, table: dict[str, Any]) -> Part:
    """The part of a file's tables; `name` is the file's in errors.

    Raises:
        RecipeError: A condition names no other part.
    """
    about, tables = str(table.pop("about", "")), table.pop(WHEN, {})
    when = {}
    for other, own in tables.items():
        if other not in _axes() or not isinstance(own, dict):
            near = nearest(other, _axes())
            raise RecipeError(
                f"{name}: {WHEN}.{other} is no table [{WHEN}.NAME.SECTION] of a part{near}; "
                f"{_LISTED}"
            )
        when[other] = dict(_flatten(own, f"{name} when {other}"))
    return Part(name, about, dict(_flatten(table, name)), when)


def _flatten(table: Any, file: str, above: Key = ()) -> Iterator[tuple[Key, Setting]]:
    import tomlkit

    for key in table:  # a table whose parts lie apart in the file has no `item`
        item = table.item(key) if hasattr(table, "item") else tomlkit.item(table[key])
        if isinstance(item, dict) and (item or len(above) < _SECTIONS):
            yield from _flatten(item, file, (*above, key))
        else:
            yield (*above, key), Setting(item.unwrap(), file, item.trivia.comment.lstrip("# "))


def join_key(key: Key) -> str:
    """The key as one writes it in `key=value`: with dots, and parts quoted where TOML needs it."""
    import tomlkit

    return tomlkit.key(key).as_string()


def parse_file(source: Path) -> TOMLDocument:
    """A TOML file as tables that keep their comments.

    Raises:
        RecipeError: It is not TOML.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(source.read_text(encoding="utf-8"))
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise RecipeError(f"{source} is not TOML: {error}") from error
