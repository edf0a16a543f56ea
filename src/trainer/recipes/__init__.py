"""The recipes of the package: one TOML file for each environment, paper, method and model.

A recipe is an environment, a method and perhaps a model, in the setting of a paper:
`compose(["alfworld", "mgr", "pocket"])`, `compose(["webshop", "gigpo", "paper=istar"])`. Without a
word for it the paper is the one that the method names, if it has this environment, or else the one
that the environment names.

The files are layered in the order of `AXES`, but a model, which is a scale, leaves what the method
sets: it changes that only in a table for the method. A table `[when.NAME...]`, or
`[when."NAME NAME"...]`, applies only together with these parts, above everything of the last of
them; "NAME|NAME" is one of several, and the name "own" stands for an environment of one's own. The
comment after a value is its source. The options are described in `trainer.recipe`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from agent_envs.panels import nearest
from trainer.errors import RecipeError

AXES = ("environment", "paper", "method", "model")
"""The kinds of parts of a recipe; their files are in the folders `environments` and so on."""
WHEN = "when"
OWN = "own"
"""The name in a condition that stands for an environment that is no shipped part."""
PAPER = "paper="
"""What a word begins with that names a paper; papers and methods share names."""
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
    """One file: name, description, paper that it names, settings, and those under a condition.

    `when` has the settings that apply only together with other parts, by the names of these.
    """

    name: str
    about: str
    paper: str
    settings: dict[Key, Setting]
    when: dict[tuple[str, ...], dict[Key, Setting]]

    def list_tables(self) -> list[tuple[tuple[str, ...], dict[Key, Setting]]]:
        """The parts that each table needs, and its settings."""
        return [((), self.settings), *self.when.items()]


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
    """Read a shipped part; the tables of a paper's results are left out.

    Raises:
        RecipeError: There is none of this name.
    """
    if name not in (known := names(axis)):
        near = nearest(name, known)
        raise RecipeError(f"no {axis} {name!r}{near}; there are {', '.join(known)}")
    table = parse_file(_FOLDERS[axis] / f"{name}.toml")
    table.pop("tables", None)
    return make_part(f"paper {name}" if axis == "paper" else name, table)


def compose(words: Sequence[str | Path], options: Iterable[str] = ()) -> Composition:
    """The recipe of some words: shipped names, `paper=NAME`, a TOML file, one's own `module:World`.

    A file may name its `environment`, `paper`, `method` and `model`, too, and is layered last.
    Without a named environment it sets `env.id`, and without a named method `credit.name`, if none
    of the `options`, KEY=VALUE, does.

    Raises:
        RecipeError: An unknown word, two of one axis, no environment or no method, or a paper
            without this environment.
    """
    parts: dict[str, str] = {}
    own, worlds = list[Part](), list[str]()
    for word in map(str, words):
        if axis := _axes().get(word):
            _name_part(parts, axis, word)
        elif word.startswith(PAPER):
            _name_part(parts, "paper", word.removeprefix(PAPER))
        elif os.path.isfile(word):
            own.append(_read_own(word, parts))
        elif ":" in word:
            worlds.append(word)
            own.append(make_part(word.rpartition(":")[2], {"env": {"id": word}}))
        else:
            raise RecipeError(_explain_word(word))
    if len(both := [*filter(None, [parts.get("environment")]), *worlds]) > 1:
        raise RecipeError(f"a recipe has one environment, got {' and '.join(map(repr, both))}")
    made = layer_parts(parts, own)
    for axis, key in NEEDED.items():
        given = any(option.startswith(f"{join_key(key)}=") for option in options)
        if axis not in parts and key not in made.settings and not given:
            raise RecipeError(
                f"a recipe is ENVIRONMENT METHOD [MODEL] or a TOML file, and "
                f"{' '.join(map(str, words))!r} has no {axis}: name one of "
                f"{', '.join(names(axis))}, or give {join_key(key)}=module:Name of your own"
            )
    stems = [Path(one.name).stem for one in own]
    return made._replace(name="-".join(filter(None, [made.name, *stems])))


def _read_own(path: str, parts: dict[str, str]) -> Part:
    """A file of one's own; the parts that it names come to `parts`."""
    table = parse_file(Path(path))
    for axis in AXES:
        if axis in table:
            _name_part(parts, axis, str(table.pop(axis)))
    return make_part(path, table)


def _explain_word(word: str) -> str:
    """What a word that is no part of a recipe was probably meant to be."""
    if "/" in word or word.endswith(".toml"):
        return f"no file or run folder {word!r} in {Path.cwd()}; {_LISTED}"
    if "." in word:
        return f"the option {word!r} needs its value behind '=', without a space: {word}=VALUE"
    return (
        f"no recipe part, TOML file or run folder {word!r}{nearest(word, _axes())}; {_LISTED}; "
        "in the place of a word you may give your own, module:World, or credit.name=module:Name"
    )


def layer_parts(parts: Mapping[str, str], above: Sequence[Part]) -> Composition:
    """The layers of some parts, and others above them.

    Raises:
        RecipeError: The named paper has no setting for the environment.
    """
    home = _find_paper(parts)
    named = {**parts, "paper": parts.get("paper", home)}
    axes = [axis for axis in AXES if named.get(axis)]
    shipped = [part(axis, named[axis]) for axis in axes]
    ranks = {named[axis]: rank for rank, axis in enumerate(axes) if axis != "paper"}
    if "environment" not in parts:
        ranks[OWN] = -1
    layers = _order_tables(axes, shipped, ranks)
    for one in above:
        layers += [own for others, own in one.list_tables() if _meet(others, ranks) is not None]
    settings: dict[Key, Setting] = {}
    for layer in layers:
        for section, chooser in (("credit", "name"), ("env", "id")):
            before, name = (one.get((section, chooser)) for one in (settings, layer))
            if before and name and name.value != before.value:
                # another estimator or environment removes the options of the previous one
                left = (section, "options")
                settings = {key: value for key, value in settings.items() if key[:2] != left}
        settings |= layer
    abouts = [one.about for one in [*shipped, *above] if one.about]
    title = [named[axis] for axis in axes if axis != "paper"]
    title += [named["paper"]] if named["paper"] != home else []
    return Composition("-".join(title), " ".join(abouts), settings)


def _order_tables(
    axes: Sequence[str], shipped: Sequence[Part], ranks: Mapping[str, int]
) -> list[dict[Key, Setting]]:
    """The settings of the tables that apply, the lowest first."""
    tables = []
    of_method: set[Key] = set()
    for rank, (axis, one) in enumerate(zip(axes, shipped, strict=True)):
        # in the order of the last part that a table needs; a paper's own goes above a method's
        order = AXES.index("method") + 0.5 if axis == "paper" else AXES.index(axis)
        for others, own in one.list_tables():
            if (met := _meet(others, ranks)) is None:
                continue
            last = max([rank, *map(ranks.__getitem__, met)])
            if axis == "method" and last == rank:
                of_method |= own.keys()
            kept = own
            if axis == "model" and not {*met} & {*names("method")}:
                kept = {key: value for key, value in own.items() if key not in of_method}
            tables.append((last, len(others), order, kept))
    return [own for *_, own in sorted(tables, key=lambda table: table[:3])]


def _meet(others: tuple[str, ...], ranks: Mapping[str, int]) -> list[str] | None:
    """The parts that meet each name of a condition; None if one is not met."""
    met = [[name for name in other.split("|") if name in ranks] for other in others]
    return [name for names_ in met for name in names_] if all(met) else None


def _find_paper(parts: Mapping[str, str]) -> str:
    """The paper in whose setting these parts are without a word for it, "" for none.

    Raises:
        RecipeError: The named paper has no setting for the environment.
    """
    environment = parts.get("environment")
    if environment and "paper" in parts:
        known = list_environments(parts["paper"])
        if environment not in known:
            raise RecipeError(
                f"paper {parts['paper']} has no setting for {environment}; it has "
                f"{', '.join(known)}"
            )
    own = part("method", parts["method"]).paper if "method" in parts else ""
    if own and (environment is None or environment in list_environments(own)):
        return own
    return part("environment", environment).paper if environment else ""


def list_environments(paper: str) -> list[str]:
    """The environments that a paper has a setting for."""
    conditions = " ".join(map(" ".join, part("paper", paper).when)).replace("|", " ").split()
    return [name for name in names("environment") if name in conditions]


def _name_part(parts: dict[str, str], axis: str, name: str) -> None:
    part(axis, name)
    if parts.setdefault(axis, name) != name:
        raise RecipeError(f"a recipe has one {axis}, got {parts[axis]!r} and {name!r}")


_LISTED = "`agent-envs recipes` lists all"


def _axes() -> dict[str, str]:
    """The axis of each shipped name; a paper is named as `paper=NAME`."""
    return {name: axis for axis in AXES if axis != "paper" for name in names(axis)}


def make_part(name: str, table: dict[str, Any]) -> Part:
    """The part of a file's tables; `name` is the file's in errors.

    Raises:
        RecipeError: A condition names no other part.
    """
    about, paper = (str(table.pop(key, "")) for key in ("about", "paper"))
    when, known = {}, {*_axes(), OWN}
    for condition, own in table.pop(WHEN, {}).items():
        others = tuple(condition.split())
        unknown = [other for other in condition.replace("|", " ").split() if other not in known]
        if unknown or not isinstance(own, dict):
            near = nearest(unknown[0], _axes()) if unknown else ""
            raise RecipeError(
                f"{name}: {WHEN}.{condition} is no table [{WHEN}.NAME.SECTION] of a part{near}; "
                f"{_LISTED}"
            )
        when[others] = dict(_flatten(own, f"{name} when {condition}"))
    return Part(name, about, paper, dict(_flatten(table, name)), when)


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


def parse_file(source: Path) -> dict[str, Any]:
    """A TOML file as tables that keep their comments, which takes long.

    Raises:
        RecipeError: It is not TOML.
    """
    import tomlkit

    read_file(source)
    return tomlkit.parse(source.read_text(encoding="utf-8"))


def read_file(source: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        RecipeError: It is not TOML.
    """
    try:
        return tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{source} is not TOML: {error}") from error
