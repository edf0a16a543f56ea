"""Walk over a floor of five by five tiles with hidden holes, take the key that fits, and open the door."""

import random
import re
from functools import cache
from zlib import crc32

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.experts import playing

WAYS = {"north": -1j, "south": 1j, "west": -1, "east": 1}  # a tile is column + row * 1j
TILES = [complex(column, row) for row in range(5) for column in range(5)]
COLOURS = ["red", "blue", "green", "white", "black", "yellow"]
OWNERS = ["king", "queen", "cook", "smith", "miller", "hunter", "gardener"]
KEYS = ["The {} key is for all doors of the {}.", "The {} key is a gift of the {}."]
DOORS = [
    "The door is shut by the {}.",
    "Behind the door lives the {}.",
    "The door has the name of the {}.",
]
SIGHTS = ["The {} is {}.", "You see the {} {}.", "The {}: {}."]
HOLES = ["There is a hole to the {}.", "Mind the hole to the {}.", "You feel a hole to the {}."]


def path(start: complex, end: complex, holes: set[complex]) -> list[str]:
    ways = {start: []}
    for tile in (queue := [start]):
        for way, step in WAYS.items():
            if tile + step in TILES and tile + step not in ways and tile + step not in holes:
                ways[tile + step] = [*ways[tile], way]
                queue.append(tile + step)
    return ways.get(end, [])


@cache
def tasks(split: str, count: int) -> list[dict]:
    found, seed = {}, 0
    while len(found) < count:
        rng = random.Random(f"grid {(seed := seed + 1)}")
        start, door, key, other, *holes = rng.sample(TILES, 7)
        colours, owners = (
            rng.sample(COLOURS, 2),
            rng.sample(OWNERS, 2),
        )  # the first key opens the door
        task = dict(
            start=start,
            door=door,
            keys=dict(zip(colours, (key, other))),
            owners=owners,
            holes=holes,
        )
        first, second = path(start, key, {*holes}), path(key, door, {*holes})
        mine = (crc32(repr(task).encode()) % 5 == 0) == (split == "test")
        if mine and first and second and 4 <= len(first + second) <= 7:
            found[repr(task)] = task
    return list(found.values())


class Grid(AgentEnv):
    """Take the right one of two keys to the door.

    Description: five by five tiles with two keys, a door and three holes; words at the start tell which key fits.
    Observation: where the keys and the door are, seen from here, and holes next to one.
    Action: `go north`, `take red key`, `open door`.
    Validity: "unknown" for other words, "refused" at the edge, or for a key or door that is not here.
    Progress: 0.5 with the right key in hand.
    Anchor: the task, the tile, and the key in hand.
    Reward: 1 for the open door.
    Ends: the open door; taking the wrong key; a fall into a hole; the turn limit.
    Tasks and splits: "train" and "test", drawn by seed; no task is in both.
    Data: none.
    Source: this file.
    """

    experts = __name__

    def __init__(
        self, *, split: str = "train", max_turns: int = 12, render_mode: str | None = None
    ) -> None:
        if split not in ("train", "test"):
            raise ValueError(f"split must be train or test, got {split!r}")
        self.drawn = tasks(split, 600 if split == "train" else 120)
        panel = Panel(split, tuple(f"grid/{split}/{i}" for i in range(len(self.drawn))))
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        self.map = self.drawn[int(task_id.rpartition("/")[2])]
        self.tile, self.keys, self.held = self.map["start"], self.map["keys"], ""
        self.fits, owner = [*self.keys][0], self.map["owners"][0]
        words = sorted(self.say(KEYS, *pair) for pair in zip(self.keys, self.map["owners"]))
        place = f"You stand in column {self.tile.real + 1:.0f} and row {self.tile.imag + 1:.0f} of five."
        return "open the door with the key that fits", self.show(
            " ".join([*words, self.say(DOORS, owner), place])
        )

    def say(self, forms: list[str], *words: str) -> str:
        return str(self.np_random.choice(forms)).format(*words)

    def act(self, action: str) -> Turn:
        action = action.strip()
        if action not in self.choices():
            reason = "refused" if {*WAYS, *self.keys, "door"} & {*action.split()} else "unknown"
            return self.show("That is not possible here.", valid=False, invalid_reason=reason)
        word = action.split()[1]
        if action == "open door":
            return self.show("The door opens.", success=True, reward=1.0, progress=1.0)
        if action.startswith("take"):
            self.held, wrong = word, word != self.fits
            return self.show(
                "The key turns to dust." if wrong else f"You take the {word} one.", failure=wrong
            )
        self.tile += WAYS[word]
        fell = self.tile in self.map["holes"]
        return self.show("You fall into a hole." if fell else f"You go {word}.", failure=fell)

    def choices(self) -> list[str]:
        goes = [f"go {way}" for way, step in WAYS.items() if self.tile + step in TILES]
        if self.held:
            return goes + ["open door"] * (self.tile == self.map["door"])
        return goes + [
            f"take {key} key" for key in sorted(self.keys) if self.keys[key] == self.tile
        ]

    def show(self, text: str, **rest) -> Turn:
        lines = [text] + [f"You hold the {self.held} key."] * (self.held != "")
        sights = {f"{key} key": tile for key, tile in sorted(self.keys.items()) if key != self.held}
        for name, tile in (sights | {"door": self.map["door"]}).items():
            far = tile - self.tile
            steps = [
                f"{n:.0f} {way}"
                for way, n in zip(WAYS, (-far.imag, far.imag, -far.real, far.real))
                if n > 0
            ]
            lines.append(self.say(SIGHTS, name, " and ".join(steps) or "here"))
        lines += [
            self.say(HOLES, way)
            for way, step in WAYS.items()
            if self.tile + step in self.map["holes"]
        ]
        rest.setdefault("progress", 0.5 * (self.held == self.fits))
        anchor = f"{self.task_id}, at {self.tile}, holds {self.held}" + ", open" * rest.get(
            "success", False
        )
        return Turn(" ".join(lines), anchor=anchor, admissible_actions=self.choices(), **rest)


class Explorer:
    """Finds out which key fits, and walks to it and to the door, around the holes that it has felt."""

    def __init__(self, env) -> None:
        self.env = playing(env, Grid)

    def act(self) -> str:
        texts, holes = [text for _, text in self.env.transcript], set()
        owner = re.search(
            r"(?:door is shut by|door lives|door has the name of) the (\w+)", texts[0]
        )[1]
        key = re.search(rf"(\w+) key is (?:for all doors|a gift) of the {owner}", texts[0])[1]
        column, row = re.search(r"column (\d) and row (\d)", texts[0]).groups()
        door = complex(int(column) - 1, int(row) - 1) + self.offset("door", texts[0])
        for text in texts:
            me = door - self.offset("door", text)
            holes |= {me + WAYS[way] for way in re.findall(r"hole to the (\w+)", text)}
        if f"hold the {key} key" in texts[-1]:
            return f"go {path(me, door, holes)[0]}" if me != door else "open door"
        goal = me + self.offset(f"{key} key", texts[-1])
        return f"go {path(me, goal, holes)[0]}" if me != goal else f"take {key} key"

    def offset(self, name: str, text: str) -> complex:
        where = re.search(rf"{name}(?: is|:)? ((?:\d|here)[^.]*)", text)[1]
        return sum(int(n) * WAYS[way] for n, way in re.findall(r"(\d) (\w+)", where))

    def think(self) -> str:
        return "The words at the start say which key fits."
