"""Splits of TextWorld's seeds: PYTHONHASHSEED=0 python -m tools.textworld_seeds [KIND LEVEL ...].

Prints lines of src/agent_envs/textworld/seeds.toml: the split of the game of each seed from 0 on,
by its map, until every split has enough games. Minutes for a level.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections import defaultdict
from functools import cache
from hashlib import blake2b
from typing import Any

from agent_envs.assets import table
from agent_envs.textworld.games import SPLITS, Task, find_tw_make, list_arguments

TRIED = 400
"""Seeds that are looked through."""


def split_by_map(description: dict[str, Any]) -> int:
    """The number of the split of a game: 0 train, 1 val, 2 test, by its map.

    Games of the kind `simple` have one map; theirs is by the names and places of all things.
    """
    named = description["metadata"]["uuid"].startswith("tw-simple-")
    part = int(hash_map(description, named=named)[:8], 16) % 8
    return {0: 1, 1: 2}.get(part, 0)


def hash_map(description: dict[str, Any], *, named: bool = False) -> str:
    """Digest of the rooms, exits, doors and places of things of a game's .json.

    Without `named`, things are alike if they have one type, and rooms have no names: maps that
    differ only in names, in what is open or locked, or in the player's room have equal digests.
    """
    infos = {key: info.get("name") for key, info in description["infos"]} if named else {}
    inside, exits = defaultdict[str, list[str]](list), defaultdict[str, dict[str, str]](dict)
    kinds, doors = dict[str, str](), dict[tuple[str, str], str]()
    for fact in description["world"]:
        names = [one["name"] for one in fact["arguments"]]
        kinds |= {one["name"]: one["type"] for one in fact["arguments"]}
        if fact["name"] in {"at", "in", "on"} and names[0] != "P":
            inside[names[1]].append(names[0])
        elif fact["name"].endswith("_of"):
            exits[names[1]][fact["name"][:-3]] = names[0]
        elif fact["name"] == "link":
            doors[names[0], names[2]] = names[1]

    def write_thing(thing: str) -> str:
        things = ",".join(sorted(map(write_thing, inside[thing])))
        return f"{kinds.get(thing)}:{infos.get(thing)}({things})"

    def write_from(start: str) -> str:
        """The map as it is walked from a room, nearest rooms and first directions first."""
        order = {start: 0}
        lines = []
        for room in (queue := [start]):
            line = sorted(map(write_thing, inside[room]))
            for direction, there in sorted(exits[room].items()):
                if there not in order:
                    order[there] = len(order)
                    queue.append(there)
                line.append(f"{direction}{'+' * ((room, there) in doors)}{order[there]}")
            lines.append(" ".join(line))
        return "\n".join(lines)

    rooms = [name for name, kind in kinds.items() if kind == "r"]
    views = sorted(map(write_from, rooms))
    return blake2b("\n\n".join([*views, write_thing("I")]).encode(), digest_size=16).hexdigest()


def describe_game(task: Task) -> dict[str, Any] | None:
    """The .json that `tw-make` would write; None if it finds no game for the seed."""
    import textworld.generator
    import textworld.helpers

    made = list[Any]()

    def keep(game: Any, _: Any) -> str:
        made.append(game)
        return "game.z8"

    textworld.generator.compile_game = textworld.helpers.compile_game = keep
    # A kind's rules are the same for all games; these only add a solution and texts.
    textworld.GameMaker.set_walkthrough = lambda *_: None
    textworld.Game.change_grammar = lambda game, _: setattr(game, "grammar", None)
    sys.argv = ["tw-make", *list_arguments(task, "game.z8")]
    try:
        runpy.run_path(find_tw_make(), run_name="__main__")
    except (textworld.generator.QuestGenerationError, ValueError, SystemExit):
        return None
    description: dict[str, Any] = made[0].serialize()
    return description


def main() -> None:
    """Print the splits of the levels that are named, of all listed ones without any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("levels", nargs="*", metavar="KIND LEVEL")
    given = parser.parse_args().levels
    if sys.flags.hash_randomization:
        sys.exit("set PYTHONHASHSEED=0, as for tw-make: the generators follow the order of sets")
    from textworld.generator import KnowledgeBase

    KnowledgeBase.load = cache(KnowledgeBase.load)
    known = table("textworld/seeds.toml")
    listed = [(kind, level) for kind, levels in known.items() for level in levels]
    for kind, level in zip(given[::2], given[1::2], strict=True) if given else listed:
        found = ""
        while len(found) < TRIED and any(
            found.count(str(part)) < count for part, count in enumerate(SPLITS.values())
        ):
            description = describe_game(Task(kind, int(level), len(found)))
            found += "x" if description is None else str(split_by_map(description))
        print(f'{kind} {level} = "{found}"', flush=True)


if __name__ == "__main__":
    main()
