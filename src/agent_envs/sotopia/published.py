"""The public scenes of SOTOPIA and SOTOPIA-pi: characters and pairings from a folder.

Of SOTOPIA it reads `environment_profiles.jsonl`, `agent_profiles.jsonl`,
`env_agent_combo_storages.jsonl` and, for the split `hard`, `used_env.json`, from the folder or from
a folder inside it. A folder with `sotopia_pi_episodes.jsonl` is of SOTOPIA-pi, whose situations are
only published as recorded conversations; they are all for training. Left out: its Redis dump.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_envs.assets import (
    BadAsset,
    MissingAsset,
    Reading,
    expand_path,
    read_json,
    refuse_damaged,
)
from agent_envs.panels import Panel, one_of, source_of
from agent_envs.sotopia.scene import RELATIONSHIPS, Character, Scene, strip_markup

if TYPE_CHECKING:
    import os

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
_NOTHING = ("", "none", "nan", "null")
_HINT = "put the files of the public data there (sotopia-lab/sotopia-space, folder profiles)"


class Published(NamedTuple):
    """The scenes of a folder by pairing id, with their situations' ids; the hard situations.

    trains: whether all of them are for training.
    reading: the records of conversations that were read, and those left out.
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
        origins = {task: self._describe_situation(task.rpartition("-")[0]) for task in tasks}
        return Panel(split, tasks, source_of("sotopia", self.folder), origins)

    def _describe_situation(self, pairing: str) -> str:
        """The text of a situation: the same in all folders, also under another id."""
        return " ".join(self.scenes[pairing].scenario.split())

    def _is_in_split(self, split: str, situation: str) -> bool:
        if split == "hard":
            return situation in (self.hard or ())
        tenth = blake2b(situation.encode(), digest_size=4).digest()[0] % 10
        return self.trains or split == "all" or tenth in _TENTHS[split]


def open_published(folder: str | os.PathLike[str], *, strict: bool = False) -> Published:
    """Read a folder of public profiles, or of the conversations of SOTOPIA-pi.

    Raises:
        MissingAsset: a file is missing.
        BadAsset: an invalid line. Of conversations: no good one, or with `strict`, one is bad.
    """
    folder = expand_path(folder)
    characters = {
        _read_text(row, "agent_id", at): _read_character(row, at)
        for row, at in _read_rows(folder, CHARACTERS)
    }
    if (folder / EPISODES).is_file():
        return _open_episodes(folder, characters, strict=strict)
    rows = {_read_text(row, "env_id", at): (row, at) for row, at in _read_rows(folder, SCENES)}
    scenes, situations = {}, {}
    for row, at in _read_rows(folder, PAIRINGS):
        pairing, situation = _read_text(row, "combo_id", at), _read_text(row, "env_id", at)
        if situation not in rows:
            raise BadAsset(f"{at}: no situation {situation!r} in {SCENES}")
        pair = _read_pair(row, characters, at)
        scenes[pairing] = _read_scene(*rows[situation], pair)
        situations[pairing] = situation
    return Published(folder, scenes, situations, _read_used(folder, "sotopia_hard_env"))


def _open_episodes(folder: Path, characters: dict[str, Character], *, strict: bool) -> Published:
    """The situations of recorded conversations, without those that SOTOPIA evaluates on."""
    tested = _read_used(folder, "sotopia_env")
    if tested is None:
        raise MissingAsset(f"no {USED} in {folder}, which lists the situations of tests; {_HINT}")
    levels: dict[frozenset[str], int] = {}
    for row, at in _read_rows(folder, PAIRS):  # some pairs have two; then less is shown
        pair = frozenset(_read_text(row, key, at) for key in ("agent1_id", "agent2_id"))
        levels[pair] = min(levels.get(pair, len(RELATIONSHIPS)), _read_level(row, at))
    scenes, situations, reading = dict[str, Scene](), dict[str, str](), Reading()
    for place, row in reading.read_rows(folder / EPISODES):
        with reading.record(folder / EPISODES, place):
            if not isinstance(row, dict):
                raise BadAsset(f"an object is needed, got {row!r:.60}")
            situation = _read_text(row, "environment_id", place)
            if situation in tested:
                continue
            ids, both = _read_two(row, "agent_ids", place), _read_pair(row, characters, place)
            goals, level = row.get("social_goals"), levels.get(frozenset(ids))
            if not isinstance(goals, dict) or any(who.name not in goals for who in both):
                raise BadAsset(f"social_goals must have one of each character, got {goals!r:.60}")
            if level is None:
                raise BadAsset(f"{PAIRS} does not have this pair, got {' and '.join(ids)}")
            wanted = [goals[who.name] for who in both]
            own = {"env_id": situation, "agent_goals": wanted, "relationship": level}
            pairing = "-".join((situation, *ids))
            scenes[pairing], situations[pairing] = _read_scene(row | own, place, both), situation
    reading.report(strict=strict)
    return Published(folder, scenes, situations, None, trains=True, reading=reading)


def _find_file(folder: Path, name: str) -> Path | None:
    places = (folder / name, *sorted(folder.glob(f"*/{name}")))
    return next((path for path in places if path.is_file()), None)


def _read_rows(folder: Path, name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Each line's fields and its place."""
    path = _find_file(folder, name)
    if path is None:
        raise MissingAsset(f"no {name} in {folder}; {_HINT}")
    reading = Reading()
    for place, row in reading.read_rows(path):
        if not isinstance(row, dict):
            raise BadAsset(f"{path}, {place}: an object is needed, got {row!r:.60}")
        reading.good[str(path)] += 1
        yield row, f"{path}, {place}"
    reading.report(strict=True)


def _read_text(row: dict[str, Any], key: str, at: str, default: str | None = None) -> str:
    """A field as stripped text; "none" and "nan" become ""."""
    value = row.get(key, default)
    if not isinstance(value, (str, int)) or (default is None and not str(value).strip()):
        raise BadAsset(f"{at}: the field {key!r} must be text, got {value!r:.60}")
    text = str(value).strip()
    return "" if default is not None and text.lower() in _NOTHING else text


def _read_character(row: dict[str, Any], at: str) -> Character:
    age, values = row.get("age", 0), row.get("moral_values", [])
    if not str(age).isdigit() or not isinstance(values, list):
        raise BadAsset(
            f"{at}: age must be a number and moral_values a list, got {age!r}, {values!r:.60}"
        )
    return Character(
        first_name=_read_text(row, "first_name", at),
        last_name=_read_text(row, "last_name", at, ""),
        age=int(age),
        occupation=_read_text(row, "occupation", at, ""),
        pronoun=_read_text(row, "gender_pronoun", at, "").lower(),
        public_info=_read_text(row, "public_info", at, ""),
        big_five=_read_text(row, "big_five", at, ""),
        moral_values=tuple(str(value).strip() for value in values),
        decision_making_style=_read_text(row, "decision_making_style", at, ""),
        secret=_read_text(row, "secret", at, ""),
    )


def _read_pair(
    row: dict[str, Any], characters: dict[str, Character], at: str
) -> tuple[Character, Character]:
    one, other = _read_two(row, "agent_ids", at)
    missing = [name for name in (one, other) if name not in characters]
    refuse_damaged(at, {f"no character {''.join(missing[:1])!r} in {CHARACTERS}": missing})
    return characters[one], characters[other]


def _read_two(row: dict[str, Any], key: str, at: str) -> tuple[str, str]:
    """A field with a text for each side."""
    given = row.get(key)
    if not isinstance(given, list) or len(given) != 2:  # noqa: PLR2004  two sides
        raise BadAsset(f"{at}: {key} must be two texts, got {given!r:.60}")
    return str(given[0]), str(given[1])


def _read_scene(row: dict[str, Any], at: str, pair: tuple[Character, Character]) -> Scene:
    scene = Scene(
        codename=_read_text(row, "codename", at, "") or _read_text(row, "env_id", at),
        scenario=_read_text(row, "scenario", at),
        goals=_read_two(row, "agent_goals", at),
        relationship=_read_level(row, at),
        characters=pair,
    )
    for text in (scene.scenario, *scene.goals):
        if "<p " in strip_markup(text, 0) or not strip_markup(text, 0):
            raise BadAsset(f"{at}: what only some viewers may see is not closed: {text[:60]!r}")
    return scene


def _read_level(row: dict[str, Any], at: str) -> int:
    level = _read_text(row, "relationship", at)
    if not level.isdigit() or int(level) >= len(RELATIONSHIPS):
        raise BadAsset(f"{at}: relationship must be 0 to {len(RELATIONSHIPS) - 1}, got {level!r}")
    return int(level)


def _read_used(folder: Path, name: str) -> frozenset[str] | None:
    path = _find_file(folder, USED)
    if path is None:
        return None
    try:
        listed = read_json(path)[name]
    except (KeyError, TypeError) as error:
        raise BadAsset(f"{path}: a list {name!r} is needed: {error!r}") from error
    return frozenset(map(str, listed))
