"""A request names two files by what is in them. Find them, and move, rename or delete each as it was asked."""

import random
import re
from functools import cache
from zlib import crc32

from agent_envs import AgentEnv, Panel, Turn
from agent_envs.experts import playing

FOLDERS = ["attic", "harbour", "museum", "garden", "school", "theatre", "bakery", "station"]
KINDS = ["letter", "bill", "list", "map", "poem"]
ABOUT = ["whales", "tents", "bridges", "apples", "violins", "clouds", "horses", "stamps", "clocks"]
LABELS = [
    "first",
    "last",
    "secret",
    "public",
    "old",
    "new",
]  # what a file may be called from now on
ORDERS = {
    "move": ["move the {} to {}", "the {} belongs in {}", "put the {} into {}"],
    "rename": ["rename the {} to {}", "call the {} {} from now on", "the {} should be called {}"],
    "delete": ["delete the {}", "throw the {} away", "nobody needs the {} any more"],
}
JOINS = ["please {}, and {}", "{}; then {}", "{}, and also {}"]
INSIDE = ["In {}: {}.", "The folder {} has {}.", "You look into {} and see {}."]


@cache
def tasks(split: str, count: int) -> list[dict]:
    found, seed = {}, 0
    while len(found) < count:
        rng = random.Random(f"files {(seed := seed + 1)}")
        folders, kinds, about = rng.sample(FOLDERS, 4), rng.sample(KINDS, 3), rng.sample(ABOUT, 3)
        texts = rng.sample([f"{kind} about {topic}" for kind in kinds for topic in about], 8)
        names = [f"scan{number}" for number in rng.sample(range(10, 40), 8)]
        place = {name: folders[i // 2] for i, name in enumerate(names)}
        labels, jobs = rng.sample(LABELS, 2), []
        for i, name in zip(rng.sample(range(2), 2), rng.sample(names, 2)):
            order = rng.choice(sorted(ORDERS))
            target = (
                rng.choice([f for f in folders if f != place[name]])
                if order == "move"
                else labels[i]
            )
            said = rng.choice(ORDERS[order]).format(texts[names.index(name)], target)
            jobs.append(
                (said, f"delete {name}" if order == "delete" else f"{order} {name} to {target}")
            )
        if (crc32(repr(jobs).encode()) % 5 == 0) == (split == "test"):
            text = dict(zip(names, texts))
            found[repr(jobs)] = dict(
                folders=folders, place=place, text=text, labels=labels, jobs=jobs
            )
    return list(found.values())


class Files(AgentEnv):
    """Find two files by what is in them, and do with each what the request says.

    Description: four folders with two files each; the third is inside the first, the fourth inside the second.
    Observation: the request and the outer folders, then what is in the open folder, or what was done.
    Action: `open attic`, `move scan12 to attic`, `rename scan12 to old`, `delete scan12`, of files in sight.
    Validity: "unknown" for other words, "refused" for what is not in sight or already so.
    Progress: half for each of the two jobs.
    Anchor: the task, the open folder, and the jobs that are left.
    Reward: 1 if both jobs are done.
    Ends: success; any change that was not asked for; the turn limit.
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
        panel = Panel(split, tuple(f"files/{split}/{i}" for i in range(len(self.drawn))))
        super().__init__(panel, max_turns=max_turns, render_mode=render_mode)

    def begin(self, task_id: str) -> tuple[str, Turn]:
        task = self.drawn[int(task_id.rpartition("/")[2])]
        self.folders, self.labels = task["folders"], task["labels"]
        self.inner = {outer: [inner] for outer, inner in zip(self.folders[:2], self.folders[2:])}
        self.place, self.text = dict(task["place"]), dict(task["text"])
        self.folder, self.left = "", [action for _, action in task["jobs"]]
        request = str(self.np_random.choice(JOINS)).format(*(said for said, _ in task["jobs"]))
        return request, self.show(
            f"Request: {request}. There are two folders, {' and '.join(self.folders[:2])}."
        )

    def act(self, action: str) -> Turn:
        action = action.strip()
        if action not in self.choices():
            reason = "refused" if {*self.folders, *self.place} & {*action.split()} else "unknown"
            return self.show("That is not possible here.", valid=False, invalid_reason=reason)
        if action.startswith("open"):
            self.folder = action.removeprefix("open ")
            sights = [f"{name} ({self.text[name]})" for name in self.files()]
            sights += [f"the folder {folder}" for folder in self.inner.get(self.folder, [])]
            return self.show(
                str(self.np_random.choice(INSIDE)).format(
                    self.folder, ", ".join(sights) or "nothing"
                )
            )
        if action not in self.left:
            return self.show("Nobody asked for that, and it cannot be undone.", failure=True)
        self.left.remove(action)
        order, name, *_, target = action.split(" ") + [""] * action.startswith("delete")
        folder, text = self.place.pop(name), self.text.pop(name)
        name, folder = (target, folder) if order == "rename" else (name, target)
        self.place[name], self.text[name] = folder, text  # a deleted file is in no folder
        return self.show("Done.", success=not self.left, reward=float(not self.left))

    def files(self) -> list[str]:
        return [name for name, folder in self.place.items() if folder == self.folder != ""]

    def choices(self) -> list[str]:
        near = [*self.inner.get(self.folder, []), *self.folders[:2]]
        opens = [f"open {folder}" for folder in near if folder != self.folder]
        ends = [
            f"move {{}} to {folder}" for folder in sorted(self.folders) if folder != self.folder
        ]
        ends += [f"rename {{}} to {label}" for label in sorted(self.labels)] + ["delete {}"]
        return opens + [end.format(name) for name in self.files() for end in ends]

    def show(self, text: str, **rest) -> Turn:
        anchor = f"{self.task_id}, in {self.folder}, left {self.left}" + ", spoilt" * rest.get(
            "failure", False
        )
        return Turn(
            text,
            progress=1 - len(self.left) / 2,
            anchor=anchor,
            admissible_actions=self.choices(),
            **rest,
        )


class Explorer:
    """Does a job as soon as it sees the file, else opens the folder that it has not opened for longest."""

    def __init__(self, env) -> None:
        self.env = playing(env, Files)

    def act(self) -> str:
        turns, choices = self.env.transcript, self.env.choices()
        seen = {
            text: name
            for _, shown in turns
            for name, text in re.findall(r"(scan\d+) \((\w+ about \w+)\)", shown)
        }
        for order, way in [(order, way) for order, ways in ORDERS.items() for way in ways]:
            form = way.replace("{}", r"(\w+ about \w+)", 1).replace("{}", r"(\w+)")
            for job in re.finditer(form, self.env.goal):
                action = f"{order} {seen.get(job[1])}" + (
                    f" to {job[2]}" if order != "delete" else ""
                )
                if action in choices:
                    return action
        last = {action: i for i, (action, _) in enumerate(turns)}
        return min(
            (a for a in choices if a.startswith("open")), key=lambda action: last.get(action, -1)
        )

    def think(self) -> str:
        return "I look for the files of the request."
