"""The public scenes of SOTOPIA and SOTOPIA-pi: characters and pairings from a folder.

Of SOTOPIA it reads `environment_profiles.jsonl`, `agent_profiles.jsonl`,
`env_agent_combo_storages.jsonl` and, for the split `hard`, `used_env.json`, from the folder or from
a folder inside it. A folder with `sotopia_pi_episodes.jsonl` is of SOTOPIA-pi, whose situations are
only published as recorded conversations; they are all for training. Left out: its Redis dump.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from agent_envs.assets import BadAsset, MissingAsset, Reading, expand_path, read_json
from agent_envs.panels import Panel, one_of, source_of
from agent_envs.sotopia.scene import RELATIONSHIPS, Character, Scene, strip_markup

SCENES, CHARACTERS, PAIRINGS, USED, EPISODES, PAIRS = (
    "environment_profiles.jsonl",
    "agent_profiles.jsonl",
    "env_agent_combo_storages.jsonl",
    "used_env.json",
    "sotopia_pi_episodes.jsonl",
    "relationship_profiles.jsonl",
)
SPLITS = ("train", "val", "test", "hard", "all")
_TENTHS = {"test": range(1), "val": range(1, 2), "train": range(2, 10)}
_TEXTS = ("last_name", "occupation", "public_info", "big_five", "decision_making_style", "secret")
_NOTHING = ("", "none", "nan", "null")
_HINT = "put the files of the public data there (sotopia-lab/sotopia-space, folder profiles)"


class Published(NamedTuple):
    """The scenes of a folder by pairing id, with their situations' ids; the hard situations.

    trains: whether all of them are for training.
    reading: the records that were read, and those left out.
    """

    folder: Path
    scenes: dict[str, Scene]
    situations: dict[str, str]
    hard: frozenset[str] | None
    trains: bool = False
    reading: Reading = Reading()

    def panel(self, split: str) -> Panel:
        """Tasks `pairing-side` of a split; `train`, `val` and `test` share no situation.

        Raises:
            ValueError: an unknown or empty split.
            MissingAsset: no list of hard situations.
        """
        one_of("split", split, SPLITS)
        if self.trains and split not in ("train", "all"):
            raise ValueError(
                f"the situations of SOTOPIA-pi in {self.folder} are for training, got "
                f"split={split!r}; evaluate on SOTOPIA's, of another folder (eval.data)"
            )
        if split == "hard" and self.hard is None:
            raise MissingAsset(f"split 'hard' needs {USED} in {self.folder}; use split='all'")
        kept = [pairing for pairing, of in self.situations.items() if self._is_in_split(split, of)]
        tasks = tuple(f"{pairing}-{side}" for pairing in kept for side in (0, 1))
        # the text of a situation is the same in all folders, also under another id
        scenes = {task: self.scenes[task.rpartition("-")[0]] for task in tasks}
        origins = {task: " ".join(scene.scenario.split()) for task, scene in scenes.items()}
        return Panel(split, tasks, source_of("sotopia", self.folder), origins)

    def _is_in_split(self, split: str, situation: str) -> bool:
        if split == "hard":
            return situation in (self.hard or ())
        tenth = blake2b(situation.encode(), digest_size=4).digest()[0] % 10
        return self.trains or split == "all" or tenth in _TENTHS[split]


def open_published(folder: str | os.PathLike[str], *, strict: bool = False) -> Published:
    """Read a folder of public profiles, or of the conversations of SOTOPIA-pi.

    Bad records are left out with a warning.

    Raises:
        MissingAsset: a file is missing.
        BadAsset: no scene is good, or with `strict`, a record is bad.
    """
    folder, reading = expand_path(folder), Reading()
    characters = dict[str, Character]()

    def add_character(row: dict[str, Any]) -> None:
        characters[_read_new(row, "agent_id", characters)] = _read_character(row)

    _read_rows(folder, CHARACTERS, reading, add_character)
    read = _read_episodes if os.path.lexists(folder / EPISODES) else _read_profiles
    found = read(folder, characters, reading)
    if not found.scenes:
        reading.report(strict=True)
        raise BadAsset(f"{folder}: no scene; {_HINT}")
    reading.report(strict=strict)
    return found


def _read_profiles(folder: Path, characters: dict[str, Character], reading: Reading) -> Published:
    """The pairings of SOTOPIA."""
    known, scenes, situations = dict[str, Scene](), dict[str, Scene](), dict[str, str]()

    def add_situation(row: dict[str, Any]) -> None:
        known[_read_new(row, "env_id", known)] = _read_scene(row)

    def add_pairing(row: dict[str, Any]) -> None:
        pairing, situation = _read_new(row, "combo_id", scenes), _read_text(row, "env_id")
        if situation not in known:
            raise BadAsset(f"no situation {situation!r} in {SCENES}")
        if len({*_read_two(row, "agent_ids")}) == 1:
            raise BadAsset(f"agent_ids must differ, got {row['agent_ids']!r:.60}")
        scenes[pairing] = replace(known[situation], characters=_read_pair(row, characters))
        situations[pairing] = situation

    _read_rows(folder, SCENES, reading, add_situation)
    _read_rows(folder, PAIRINGS, reading, add_pairing)
    hard = _read_used(folder, "sotopia_hard_env")
    absent = sorted((hard or frozenset()).difference(known))
    reading.note(folder / USED, absent, len(hard or ()), f"hard situations are not in {SCENES}")
    return Published(folder, scenes, situations, hard, reading=reading)


def _read_episodes(folder: Path, characters: dict[str, Character], reading: Reading) -> Published:
    """The situations of recorded conversations, without those that SOTOPIA evaluates on."""
    tested = _read_used(folder, "sotopia_env")
    if tested is None:
        raise MissingAsset(f"no {USED} in {folder}, which lists the situations of tests; {_HINT}")
    levels, scenes, situations = dict[frozenset[str], int](), dict[str, Scene](), dict[str, str]()

    def add_pair(row: dict[str, Any]) -> None:  # some pairs have two; then less is shown
        pair = frozenset(_read_text(row, key) for key in ("agent1_id", "agent2_id"))
        levels[pair] = min(levels.get(pair, len(RELATIONSHIPS)), _read_level(row))

    def add_episode(row: dict[str, Any]) -> None:
        situation = _read_text(row, "environment_id")
        if situation in tested:
            return
        ids, both = _read_two(row, "agent_ids"), _read_pair(row, characters)
        goals, level = row.get("social_goals"), levels.get(frozenset(ids))
        if not isinstance(goals, dict) or any(who.name not in goals for who in both):
            raise BadAsset(f"social_goals must have one of each character, got {goals!r:.60}")
        if level is None:
            raise BadAsset(f"{PAIRS} does not have this pair, got {' and '.join(ids)}")
        wanted = [goals[who.name] for who in both]
        own = {"env_id": situation, "agent_goals": wanted, "relationship": level}
        pairing = "-".join((situation, *ids))
        scenes[pairing] = replace(_read_scene(row | own), characters=both)
        situations[pairing] = situation

    _read_rows(folder, PAIRS, reading, add_pair)
    _read_rows(folder, EPISODES, reading, add_episode)
    return Published(folder, scenes, situations, None, trains=True, reading=reading)


def _find_file(folder: Path, name: str) -> Path | None:
    """The file of a name in a folder or in a folder inside it, be it a link to nothing."""
    places = folder.glob(f"[{name[0]}]{name[1:]}"), sorted(folder.glob(f"*/[{name[0]}]{name[1:]}"))
    return next(chain(*places), None)


def _read_rows(
    folder: Path, name: str, reading: Reading, add: Callable[[dict[str, Any]], None]
) -> None:
    """Add the fields of each record; those that `add` refuses are left out."""
    path = _find_file(folder, name)
    if path is None:
        raise MissingAsset(f"no {name} in {folder}; {_HINT}")
    for place, row in reading.read_rows(path):
        with reading.record(path, place):
            if not isinstance(row, dict):
                raise BadAsset(f"an object is needed, got {row!r:.60}")
            add(row)


def _read_new(row: dict[str, Any], key: str, known: Mapping[str, Any]) -> str:
    """A field that no other record has."""
    name = _read_text(row, key)
    if name in known:
        raise BadAsset(f"the field {key!r} must differ between records, got {name!r:.60} again")
    return name


def _read_text(row: dict[str, Any], key: str, default: str | None = None) -> str:
    """A field as stripped text; "none" and "nan" become "", which only a default allows."""
    value = row.get(key, default)
    text = str(value).strip() if type(value) in {str, int} else None
    if text is None or (default is None and text.lower() in _NOTHING):
        raise BadAsset(f"the field {key!r} must be text, got {value!r:.60}")
    return "" if text.lower() in _NOTHING else text


def _read_character(row: dict[str, Any]) -> Character:
    age, values = row.get("age", 0), row.get("moral_values", [])
    is_listed = isinstance(values, list) and all(isinstance(value, str) for value in values)
    if not str(age).isdigit() or not is_listed:
        raise BadAsset(f"age must be a number, moral_values texts, got {age!r:.60}, {values!r:.60}")
    texts: dict[str, Any] = {name: _read_text(row, name, "") for name in _TEXTS}
    morals = tuple(value.strip() for value in values)
    named = Character(_read_text(row, "first_name"), age=int(age), moral_values=morals)
    return named._replace(pronoun=_read_text(row, "gender_pronoun", "").lower(), **texts)


def _read_pair(
    row: dict[str, Any], characters: dict[str, Character]
) -> tuple[Character, Character]:
    one, other = _read_two(row, "agent_ids")
    if missing := [name for name in (one, other) if name not in characters]:
        raise BadAsset(f"no character {missing[0]!r} in {CHARACTERS}")
    return characters[one], characters[other]


def _read_two(row: dict[str, Any], key: str) -> tuple[str, str]:
    """A field with a text for each side."""
    given = row.get(key)
    if not isinstance(given, list) or [type(one) for one in given] != [str, str]:
        raise BadAsset(f"{key} must be two texts, got {given!r:.60}")
    return given[0], given[1]


def _read_scene(row: dict[str, Any]) -> Scene:
    """A scene without its characters."""
    scene = Scene(
        codename=_read_text(row, "codename", "") or _read_text(row, "env_id"),
        scenario=_read_text(row, "scenario"),
        goals=_read_two(row, "agent_goals"),
        relationship=_read_level(row),
        characters=(Character(""), Character("")),
    )
    if scene.scenario.isascii() and not scene.scenario.split()[1:]:
        raise BadAsset(f"the field 'scenario' must be a sentence, got {scene.scenario!r:.60}")
    for text in (scene.scenario, *scene.goals):
        if "<p " in strip_markup(text, 0) or not strip_markup(text, 0):
            raise BadAsset(f"empty, or what only some may see is not closed: {text[:60]!r}")
    return scene


def _read_level(row: dict[str, Any]) -> int:
    level = _read_text(row, "relationship")
    if not level.isdigit() or int(level) >= len(RELATIONSHIPS):
        raise BadAsset(f"relationship must be 0 to {len(RELATIONSHIPS) - 1}, got {level!r}")
    return int(level)


def _read_used(folder: Path, name: str) -> frozenset[str] | None:
    path = _find_file(folder, USED)
    if path is None:
        return None
    try:
        listed = read_json(path)[name]
    except (KeyError, TypeError) as error:
        raise BadAsset(f"{path}: a list {name!r} is needed: {error!r}") from error
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise BadAsset(f"{path}: {name!r} must be a list of texts, got {listed!r:.60}")
    return frozenset(listed)
