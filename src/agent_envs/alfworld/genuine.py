"""GenuineWorld: the interface of `world.World` over the genuine TextWorld engine, for comparison.

Its packages are imported on first use. The engine takes a second or two to start a game, keeps
about a megabyte per game, is not thread-safe, and overwrites `sys.argv` and `$ALFWORLD_DATA`, which
are restored.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agent_envs.alfworld.data import fill_task_sentence, read_data
from agent_envs.alfworld.game import PROPERTIES
from agent_envs.alfworld.world import NOTHING, World

if TYPE_CHECKING:
    from agent_envs.alfworld.data import Library
    from agent_envs.alfworld.game import Game

SENTENCE = "UNKNOWN GOAL"
"""Placeholder for the task sentence in ALFWorld's own grammar."""

_LISTED = re.compile(r"\ba (\S+ \d+)")


def load_genuine_engine() -> Callable[[Library, str, str], GenuineWorld]:
    """A function that starts a task of a library on the genuine engine.

    Raises:
        ImportError: its packages are not installed.
    """
    _import_packages()
    return _start_game


def _start_game(library: Library, task_id: str, _dialect: str) -> GenuineWorld:
    game = library.load(task_id)
    data, _ = read_data(library.folder, task_id)
    if library.folder is None:  # the embedded games have our own grammar of the same rules
        data = {**data, **fill_task_sentence(_read_own_logic(), data["task"], place=SENTENCE)}
    return GenuineWorld(game, data)


class GenuineWorld(World):
    """A game on the genuine engine, which provides the texts and the admissible commands.

    The state attributes are read from the engine's facts after each command, so that anchors,
    progress and searches work as on the native engine. It cannot be copied or pickled.
    """

    def __init__(self, game: Game, data: dict[str, Any]) -> None:
        super().__init__(game)
        pddl, alfworld = _import_packages()
        infos = import_module("textworld").EnvInfos(facts=True, admissible_commands=True, won=True)
        with _restore_process():
            self._engine = alfworld.AlfredDemangler(pddl.PddlEnv(infos))
            self._engine.load(data)
            self._now = self._engine.reset()
        self._opening = str(self._now.feedback)
        self._read_state()

    def __deepcopy__(self, _: Any) -> NoReturn:
        raise TypeError("the genuine engine cannot be copied or pickled; use engine='native'")

    __reduce_ex__ = __deepcopy__

    @property
    def intro(self) -> str:
        """The engine's opening text."""
        return self._opening

    def admissible(self) -> list[str]:
        """The engine's admissible commands, in its order; a new list."""
        return list(self._now["admissible_commands"])

    def execute(self, command: str) -> str:
        """The engine's feedback on a command."""
        with _restore_process():
            self._now, _, _ = self._engine.step(command)
        feedback = str(self._now.feedback)
        self.accepted = feedback != NOTHING
        self._read_state()
        if self.accepted:
            listed = _LISTED.findall(feedback)
            self.seen.update(i for i, name in enumerate(self.game.objects) if name in listed)
        return feedback

    def _read_state(self) -> None:
        """Set the state attributes from the engine's facts."""
        game = self.game
        said: dict[str, list[list[str]]] = {}
        for fact in self._now["facts"]:
            said.setdefault(fact.name, []).append([var.name.strip() for var in fact.arguments])
        objects = {name: number for number, name in enumerate(game.objects)}
        receptacles = {name: number for number, name in enumerate(game.receptacles)}
        locations = {name: number for number, name in enumerate(game.locations)}
        self.location = locations[said["atlocation"][0][1]]
        self.held = next((objects[thing] for _, thing in said.get("holds", ())), -1)
        self.contents = [[] for _ in receptacles]
        for thing, receptacle in said.get("inreceptacle", ()):
            self.contents[receptacles[receptacle]].append(objects[thing])
        for things in self.contents:
            things.sort()
        self.opened = {receptacles[name] for (name,) in said.get("opened", ())}
        self.props = {p: {objects[name] for (name,) in said.get(p, ())} for p in PROPERTIES}
        self._object_at = {
            (objects[thing], locations[place]) for thing, place in said.get("objectatlocation", ())
        }
        self.seen |= {self.held} - {-1}
        self.won = bool(self._now["won"])
        self._code, self._anchor = self._encode_state(), ""


def _import_packages() -> tuple[Any, Any]:
    """The modules `textworld.envs.pddl` and `alfworld.agents.environment.alfred_tw_env`.

    Raises:
        ImportError: one of the packages is not installed.
    """
    try:
        with _restore_process():
            return (
                import_module("textworld.envs.pddl"),
                import_module("alfworld.agents.environment.alfred_tw_env"),
            )
    except ImportError as error:
        raise ImportError(
            f"engine='textworld' needs the packages textworld and alfworld ({error}); run "
            "`pip install 'agent-envs[alfworld]'`, or use engine='native'"
        ) from error


def _read_own_logic() -> dict[str, str]:
    """Domain and grammar that come with ALFWorld."""
    with _restore_process():
        info = import_module("alfworld.info")
    files = {"pddl_domain": info.ALFRED_PDDL_PATH, "grammar": info.ALFRED_TWL2_PATH}
    return {key: Path(path).read_text(encoding="utf-8") for key, path in files.items()}


@contextmanager
def _restore_process() -> Iterator[None]:
    """Restore what the engine overwrites: `sys.argv` and `$ALFWORLD_DATA`."""
    argv, data = sys.argv, os.environ.get("ALFWORLD_DATA")
    sys.argv = list(argv)
    try:
        yield
    finally:
        sys.argv = argv
        if data is None:
            os.environ.pop("ALFWORLD_DATA", None)
        else:
            os.environ["ALFWORLD_DATA"] = data
