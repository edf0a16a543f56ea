"""AlfWorld-v0: household tasks in text, with validity, progress, anchors and goals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agent_envs.alfworld.data import Library, open_library
from agent_envs.alfworld.distance import plan
from agent_envs.alfworld.game import DONE, Game
from agent_envs.alfworld.genuine import load_genuine_engine
from agent_envs.alfworld.prompt import TEMPLATE
from agent_envs.alfworld.world import DIALECTS, World
from agent_envs.contract import AgentEnv, Turn
from agent_envs.panels import one_of

if TYPE_CHECKING:
    import os

TURNS = 50
ENGINES = ("native", "textworld")
PROGRESS = ("facts", "distance", "none")

_FORMS = (
    r"(?P<bare>look|inventory|help)|(?:go to|open|close) (?P<place>.+)|use (?P<thing>.+)"
    r"|examine (?P<any>.+)|take (?P<taken>.+) from (?P<source>.+)"
    r"|(?:clean|heat|cool) (?P<treated>.+) with (?P<tool>.+)"
    r"|slice (?P<sliced>.+) with (?P<knife>.+)"
)
_PLACES = {"place", "source", "to", "tool", "any"}
_THINGS = {"thing", "taken", "put", "treated", "sliced", "knife", "any"}


class AlfWorld(AgentEnv):
    """Household tasks in text: ALFWorld's games on a native engine, or on the genuine one.

    Description:
        The agent is in a room, goes to its receptacles, opens, takes, moves, cleans, heats, cools,
        and switches lamps on, until the task is done (Shridhar et al., ALFWorld, 2021). The native
        engine's texts are byte-identical to TextWorld's, about ten thousand times as fast.

    Observation:
        TextWorld's text. The first names all receptacles and the task.

    Action:
        One command: `look`, `inventory`, `help`, `go to R`, `open R`, `close R`, `take O from R`,
        `move O to R`, `clean|heat|cool O with R`, `use O`, `slice O with O`, `examine R|O`, with
        names as in the text. Whitespace around it is ignored; case matters.
        `info["admissible_actions"]` has all commands that have an effect now, sorted.

    Validity:
        A command is valid iff it was admissible. MGR's feedback patterns (appendix A.5) give the
        same result, except that "You are not carrying anything." counts as valid here.
        `invalid_reason` is "refused" for a well-formed command about objects and receptacles of
        the game, "unknown" for any other.

    Progress:
        "facts" (default): share of the goal's milestones reached, see `measure_milestones`.
        "distance": 1 - remaining / remaining at the start, by a shortest solution from the current
        state (of two goals, one after the other); privileged, for analysis; adds
        `info["dead_end"]`, true if the goal can no longer be reached (progress 0). "none": 0 until
        the end. All are 1 exactly when the task is done.
        With "facts" one anchor can have different progress: what was seen counts as progress, but
        is not part of the state.

    Anchor:
        Digest of the agent's location, the held object, the contents of all receptacles, the open
        doors, and which objects are clean, hot, cold, sliced or switched on. If there is a knife,
        also the location where each sliceable object was last put down. What was looked at and the
        path to the state are not part of it.

    Reward:
        `success_reward` on success, else 0.

    Ends:
        Success terminates, `max_turns` truncates. There is no terminal failure. The dial of
        difficulty is `max_turns="oracle+5"`: each game ends as many turns after the length of its
        walkthrough, which is a shortest solution in the embedded games.

    Tasks and splits:
        `train`, `valid_seen`, `valid_unseen`, and of the embedded games also `train_two` and
        `valid_two` (unseen rooms): games with two goals, which must both hold at the end. Their
        type is that of the first. A task id is `<source>/<split>/<task>/<trial>` with
        source "embedded" or "alfworld". `task_types` narrows the panel to types, short names
        (pick, look, clean, heat, cool, pick2) or MGR's levels (L0, L1, L2).
        `info["strata"]` has both of a game.

    Data:
        `data="auto"`: the public games in the folder `$ALFWORLD_DATA` if it is set
        (`alfworld-download` fills `~/.cache/alfworld`), otherwise the embedded set of this
        package's own generator. "embedded" or a folder selects one. `panel.source` reports it.

    Source:
        Shridhar et al., ALFWorld: Aligning Text and Embodied Environments for Interactive
        Learning, ICLR 2021; MGR, appendix A.5, for validity and levels.

    Args:
        split: see Tasks and splits.
        engine: "native", or "textworld" for the genuine packages (extra `alfworld`).
        data: see Data.
        task_types: see Tasks and splits; empty for all.
        max_turns: turn limit, or "oracle+K" for the length of each game's walkthrough and K turns
            more. HAS used 40. The attribute `max_turns` is then the limit of the running game.
        progress: see Progress; "distance" requires the native engine.
        success_reward: the reward of success.
        facts: adds `info["facts"]`, the facts that hold now and can change. Of `objectatlocation`,
            only the facts about sliceable objects affect actions and are in the anchor.
        walkthrough: adds `info["walkthrough"]`, the game's own solution.
        dialect: "auto" for the words of each game's own grammar: games from before December 2024
            have `put O in/on R`, other feedback and no `help`. "0.3" plays all games in these
            older words and "0.4" all in today's, on the native engine only.
        strict: refuse data with bad records, for benchmarks; False leaves them out with a warning.
        render_mode: None or "ansi".

    Raises:
        ValueError: an unknown option value; the message suggests the most similar one. Or, from
            `reset` with "oracle+K", a game without a walkthrough.
        MissingAsset: a folder without games.
        BadAsset: no game is good, or with `strict`, one is bad.
        ImportError: `engine="textworld"` without its packages.
    """

    template = TEMPLATE
    experts = "agent_envs.alfworld.experts"
    verbs = (
        ("look", "look"),
        ("inventory", "inventory"),
        ("go_to", "go to {place}"),
        ("open", "open {place}"),
        ("close", "close {place}"),
        ("take", "take {object} from {place}"),
        ("move", "move {object} to {place}"),
        ("clean", "clean {object} with {place}"),
        ("heat", "heat {object} with {place}"),
        ("cool", "cool {object} with {place}"),
        ("use", "use {object}"),
        ("slice", "slice {object} with {tool}"),
        ("examine", "examine {what}"),
    )
    world: World

    def __init__(
        self,
        *,
        split: str = "train",
        engine: str = "native",
        data: str | os.PathLike[str] = "auto",
        task_types: Iterable[str] | str = (),
        max_turns: int | str = TURNS,
        progress: str = "facts",
        success_reward: float = 1.0,
        facts: bool = False,
        walkthrough: bool = False,
        dialect: str = "auto",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        one_of("engine", engine, ENGINES)
        one_of("progress", progress, PROGRESS)
        one_of("dialect", dialect, ("auto", *DIALECTS))
        if engine == "textworld" and dialect != "auto":
            raise ValueError(
                f"engine 'textworld' plays each game in its own words, got dialect={dialect!r}; "
                "use dialect='auto'"
            )
        self._start = load_genuine_engine() if engine == "textworld" else _start_native
        self.library = open_library(data, split, task_types, strict=strict)
        self.reading = self.library.reading
        self.spare_turns = _read_spare_turns(max_turns) if isinstance(max_turns, str) else None
        turns = max_turns if isinstance(max_turns, int) else TURNS
        super().__init__(self.library.panel, max_turns=turns, render_mode=render_mode)
        self.progress = progress
        self.success_reward, self.graded = success_reward, success_reward != 1
        self.facts = facts
        self.walkthrough = walkthrough
        self.dialect = dialect

    def begin(self, task_id: str) -> tuple[str, Turn]:
        """The opening text of the task.

        Raises:
            MissingAsset: the game's file is gone.
            BadAsset: it is broken.
            ValueError: it has no walkthrough, and `max_turns` is "oracle+K".
        """
        self.world = self._start(self.library, task_id, self.dialect)
        if self.spare_turns is not None:
            known = len(self.world.game.walkthrough)
            if not known:
                raise ValueError(
                    f"task {task_id} has no walkthrough, which max_turns='oracle+"
                    f"{self.spare_turns}' counts; give a number of turns"
                )
            self.max_turns = known + self.spare_turns
        self.words = self.world.words
        self._remaining: dict[str, int | None] = {}
        self._at_start = self._count_remaining() if self.progress == "distance" else None
        return self.world.game.task, self._turn(self.world.intro)

    def act(self, action: str) -> Turn:
        """One command."""
        observation = self.world.execute(action)
        if self.world.accepted:
            return self._turn(observation)
        why = find_invalid_reason(action, self.world)
        return self._turn(observation)._replace(valid=False, invalid_reason=why)

    def _turn(self, observation: str) -> Turn:
        world, game = self.world, self.world.game
        extra: dict[str, Any] = {"strata": {"task_type": game.task_type, "level": game.level}}
        progress = 1.0 if world.won else 0.0
        if self.progress == "facts":
            progress = measure_milestones(world)
        elif self.progress == "distance":
            left = self._count_remaining()
            extra["dead_end"] = left is None
            progress = max(0.0, 1 - left / self._at_start) if left and self._at_start else progress
        if self.facts:
            extra["facts"] = world.facts()
        if self.walkthrough:
            extra["walkthrough"] = list(game.walkthrough)
        return Turn(
            observation,
            progress=progress,
            anchor=world.anchor(),
            reward=self.success_reward if world.won else 0.0,
            success=world.won,
            admissible_actions=world.admissible(),
            extra=extra,
        )

    def _count_remaining(self) -> int | None:
        """Steps of a shortest solution from here, None if there is none; cached per state."""
        key = self.world.anchor()
        if key not in self._remaining:
            commands = plan(self.world)
            self._remaining[key] = None if commands is None else len(commands)
        return self._remaining[key]


def measure_milestones(world: World) -> float:
    """Share of the goals' milestones that are reached, in [0, 1]; 1 exactly when the game is won.

    Milestones of each required object: seen, held, treated (if the task requires it), placed. For
    looking at an object under a lamp: seen, held, lamp switched on at the agent's location with
    the object in hand. The objects with the most milestones count. "Placed" includes the others;
    "held" is lost when the object is put down elsewhere. Only facts that an observation has shown
    count, so progress reveals nothing that the policy could not know.
    """
    if world.won:
        return 1.0
    return sum(_measure_part(world, part) for part in world.game.parts) / len(world.game.parts)


def _measure_part(world: World, game: Game) -> float:
    """The milestones of one goal."""
    goal = game.goal
    done = world.props[DONE[goal.treatment]] if goal.treatment else game.goal_objects
    whole = 4 if goal.treatment else 3
    steps = {
        thing: 1 + (thing == world.held) + (thing in done and bool(goal.treatment))
        for thing in game.goal_objects & world.seen
    }
    best = sum(sorted(steps.values())[-goal.count :])
    for receptacle in game.goal_receptacles:
        placed = done & steps.keys() & set(world.contents[receptacle])
        if placed:
            counts = sorted(whole if thing in placed else steps[thing] for thing in steps)
            best = max(best, sum(counts[-goal.count :]))
    return best / (whole * goal.count)


def find_invalid_reason(command: str, world: World) -> str:
    """The `invalid_reason` of a command that was not admissible.

    "refused": well-formed, about objects and receptacles of the game; else "unknown".
    """
    put = re.escape(world.words.put).replace(r"\{o\}", "(?P<put>.+)")
    form = re.fullmatch(f"{_FORMS}|{put}".replace(r"\{r\}", "(?P<to>.+)"), command.strip())
    if form is None:
        return "unknown"
    game = world.game
    for role, name in form.groupdict().items():
        known = [
            *(game.objects if role in _THINGS else ()),
            *(game.receptacles if role in _PLACES else ()),
        ]
        if name is not None and role != "bare" and name not in known:
            return "unknown"
    return "refused"


def _read_spare_turns(given: str) -> int:
    """The K of "oracle+K"."""
    found = re.fullmatch(r"oracle\+(\d{1,4})", given)
    if found is None:
        raise ValueError(
            f'max_turns is a number of turns, or "oracle+K" such as "oracle+5", got {given!r}'
        )
    return int(found[1])


def _start_native(library: Library, task_id: str, dialect: str) -> World:
    return World(library.load(task_id), dialect=dialect)
