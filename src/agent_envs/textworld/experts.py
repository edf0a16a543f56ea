"""The experts of TextWorld: an Explorer that reads the game's texts, an Oracle with its solution.

The Explorer takes the sentences of the goal, and the lines of a recipe that it has read, for steps,
and does the first one that a possible command fits. Where none fits, it opens what is closed and
walks on. It was written for the generated kinds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent_envs.experts import Expert, Planner, Step, playing
from agent_envs.textworld.env import TextWorld

if TYPE_CHECKING:
    import gymnasium as gym

_SAID = {
    "go": "go head venture travel move trip",
    "take": "take retrieve recover pick pick-up lift",
    "open": "open opened ajar",
    "close": "close closed shut",
    "unlock": "unlock unlocked",
    "lock": "lock locked",
    "insert": "insert put place deposit",
    "put": "put place sit rest",
    "drop": "drop ditch throw toss deposit place",
    "eat": "eat",
    "cook": "cook",
    "chop": "chop",
    "slice": "slice",
    "dice": "dice",
    "prepare": "prepare",
}
"""Verbs of commands, and the words that a goal has for each."""
_TOOLS = {"fry": "stove", "roast": "oven", "grill": "BBQ"}
_PAST = {"fry": "fried", "chop": "chopped", "slice": "sliced", "dice": "diced"}
_BREAK = re.compile(r"\b(?:from|with|on|into)\b")
_RECIPE = re.compile(
    r"Ingredients:\s*\n(?P<things>.*?)\n\s*\nDirections:\s*\n(?P<steps>.*)", re.DOTALL
)
_ROOM = re.compile(r"-= (.+?) =-")


class Explorer(Planner):
    """Knows the goal, the transcript and the list of possible commands."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, TextWorld)

    def plan(self) -> Step:
        """A command, and the sentence or line that it follows, or that it looks around."""
        env = self._env
        listed, steps = env.play.commands, self._list_steps()
        for action, _ in env.transcript[1:]:
            done = next((step for step in steps if fits(action, step)), None)
            if done is not None:
                steps.remove(done)
        for step in steps:
            if found := [command for command in listed if fits(command, step)]:
                best = max(found, key=lambda one: (find_place(one, step), len(one)))
                return Step(best, step)
        return Step(self._look_around(listed), "I look for what I need")

    def _list_steps(self) -> list[str]:
        """The steps that were read so far, in order."""
        texts = [observation for _, observation in self._env.transcript]
        recipe = next(filter(None, map(_RECIPE.search, reversed(texts))), None)
        steps = [one.strip() for one in re.split(r"[.!?]", self._env.goal)]
        if recipe is None:
            return steps
        things, lines = recipe["things"].splitlines(), recipe["steps"].splitlines()
        return list(_read_recipe(things, lines, " ".join(texts)))

    def _look_around(self, listed: list[str]) -> str:
        """The command that promises most news: a book, a door or container, an exit."""
        done, walked, room = set[str](), Counter[tuple[str, str]](), ""
        for action, observation in self._env.transcript:
            done.add(action)
            walked[room, action] += 1
            room = (_ROOM.findall(observation) or [room])[-1]
        for form in (r"examine .*cookbook", r"unlock .*", r"open .*", r"take .*\bkey\b.*"):
            for command in listed:
                if re.fullmatch(form, command) and command not in done:
                    return command
        ways = [command for command in listed if command.startswith("go ")]
        return min(ways, key=lambda way: walked[room, way], default="look")


def _read_recipe(things: list[str], lines: list[str], seen: str) -> Iterator[str]:
    """The steps of a recipe, without those that were done to a thing when it was seen."""
    yield from (f"take the {thing.strip()}" for thing in things)
    for line in map(str.strip, lines):
        verb, _, thing = line.partition(" the ")
        if f"{_PAST.get(verb, f'{verb}ed')} {thing}" in seen:
            continue
        if verb in _TOOLS:
            yield f"cook the {thing} with the {_TOOLS[verb]}"
        elif thing:
            yield from ("take the knife", f"{verb} the {thing} with the knife")
        else:
            yield line
    yield "eat the meal"


def fits(command: str, step: str) -> bool:
    """Whether a step in words may mean a command."""
    verb, _, rest = command.partition(" ")
    words = set(re.findall(r"[\w-]+", step.lower()))
    if not words.intersection(_SAID.get(verb, "").split()):
        return False
    first, *others = (part.strip() for part in _BREAK.split(rest))
    others = [] if verb in {"take", "lock", "unlock"} else others  # a goal may leave these out
    return all(
        re.search(rf"\b{re.escape(name)}\b", step, re.IGNORECASE) for name in (first, *others)
    )


def find_place(command: str, step: str) -> int:
    """The place at which a step names the thing of a command last."""
    first = _BREAK.split(command.partition(" ")[2])[0].strip()
    return step.lower().rfind(first.lower())


class Oracle(Expert):
    """Plays TextWorld's own solution from the present state."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env = playing(env, TextWorld)

    def act(self) -> str:
        """The next command; it is not executed.

        Raises:
            ValueError: the game is over, or no solution is known from here.
        """
        play = self._env.play
        if play.won or play.lost or not play.policy:
            raise ValueError(
                f"TextWorld knows no solution of {self._env.task_id} from here; call reset()"
            )
        return str(play.policy[0])
