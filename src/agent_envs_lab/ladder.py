"""The ladder: what scripts that do not do the task earn on tasks that they have not seen.

Each rung learns from episodes of an expert on training tasks, and none of them plans, combines
facts or asks for what it does not see. The distance from the best of them to the Oracle is the
headroom of a split: what a learned policy can show there. The overlap says how much of the test
tasks occurs in training: forms of goals, programmes of solutions, and entities.

A token is a slot if fewer than `RARE` of the training texts have it, or if it is a number.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent_envs.contract import AgentEnv
from agent_envs.experts import experts_of
from agent_envs.panels import measure_share
from agent_envs.testing.episodes import (
    Budget,
    CutShort,
    list_inputs,
    play_episode,
    write_input,
)
from agent_envs_lab.audits.episodes import draw_starts, group_tasks, name_of
from agent_envs_lab.audits.evidence import Evidence
from agent_envs_lab.audits.rewards import EPISODES, RANDOM

if TYPE_CHECKING:
    from agent_envs.panels import Share
    from agent_envs.testing.episodes import Actor, Env, Record

LIMIT = 0.2
"""The success up to which a rung is no solution."""
RARE = 0.02
"""Share of training texts below which a token of a text is a slot."""
LEAST = 20
"""Solved training episodes that show anything."""
_LEARNING = 0.3  # share of the time for training episodes
_CLOSE = 4  # neighbours that are compared token by token
_LONGEST = 150  # last tokens of a text that are
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+|[^\w\s]")
_TYPES = {
    "number": re.compile(r"\d+(?:[.,]\d+)*"),
    "name": re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][\w'-]*(?:\s[A-Z][\w'-]*)*", re.MULTILINE),
    "quoted": re.compile(r"(?<=[\"'“‘`])[^\"'“”‘’`\n]{1,60}(?=[\"'”’`])"),
}
_RATES = 0.3, 0.1, 0.03  # of the passes over the turns
_PICKS = ("first", "last", "commonest")


class Step(NamedTuple):
    """A turn of a training episode: what was seen before it, what was done, what was listed."""

    goal: str
    observation: str
    action: str
    listed: list[str]


class Seen(NamedTuple):
    """What a rung sees in a turn: the goal, the last observation, listed actions, and the past.

    `past` has each earlier turn's observation and action.
    """

    goal: str
    observation: str
    listed: list[str]
    past: list[tuple[str, str]]

    @property
    def turn(self) -> int:
        """Number of actions so far."""
        return len(self.past)

    def count(self, action: str) -> int:
        """How often the action was done."""
        return sum(action == done for _, done in self.past)


Rung = Callable[[Seen, np.random.Generator], str]


@dataclass(frozen=True)
class Ladder:
    """The result of `climb_ladder`; it prints as a table.

    Attributes:
        env: The environment. split, trained: The split played and the one learned from.
        rungs: Successes of each rung by name, with intervals clustered by what tasks share.
        experts: Successes of the experts on the same tasks.
        overlap: Share of the test tasks whose goal form, programme and entities occur in training.
        solved: Solved training episodes.
        cut: Whether the time was over before every rung had played every task.
    """

    env: str
    split: str
    trained: str
    rungs: dict[str, Share]
    experts: dict[str, Share]
    overlap: dict[str, float]
    solved: int
    cut: bool = False

    @property
    def best(self) -> str:
        """The rung with most success; "" if none has played."""
        return max(self.rungs, key=lambda name: self.rungs[name].share, default="")

    @property
    def headroom(self) -> float:
        """Success of the best expert less that of the best rung; NaN without an expert."""
        tops = [share.share for share in self.experts.values()]
        return max(tops) - self.rungs[self.best].share if tops else math.nan

    @property
    def evidence(self) -> Evidence:
        """The tasks that each rung has played; none if it had nothing to learn from."""
        played = min((share.total for share in self.rungs.values()), default=0)
        played *= self.solved >= LEAST
        return Evidence(played, "tasks of each rung", EPISODES, self.cut)

    @property
    def verdict(self) -> str:
        """Refuted if a rung is above the limit with 95% certainty, not shown if without."""
        rungs = self.rungs.values()
        refuted, above = (
            any(one.low > LIMIT for one in rungs),
            any(one.share > LIMIT for one in rungs),
        )
        return self.evidence.judge(refuted=refuted, doubted=above)

    def __str__(self) -> str:
        width = max(map(len, ["expert: explorer", *self.rungs]))
        after = f"after {self.solved} solved episodes of {self.trained}"
        lines = [
            f"ladder of {self.env}, {self.split}, {after}",
            f"{'rung':<{width}}  success [95%, clustered]",
        ]
        lines += (f"{name:<{width}}  {share}" for name, share in self.rungs.items())
        lines += (f"expert: {name:<{width - 8}}  {share}" for name, share in self.experts.items())
        if self.experts:
            lines.append(f"headroom {self.headroom:.1%} above {self.best}")
        if self.overlap:
            told = ", ".join(f"{name} {share:.0%}" for name, share in self.overlap.items())
            lines.append(f"of {self.split} in {self.trained}: {told}")
        return "\n".join([*lines, f"ladder: {self.verdict} ({self.evidence})"])

    def json(self) -> dict[str, Any]:
        """All results as plain values."""
        played = {**self.rungs, **{f"expert: {name}": one for name, one in self.experts.items()}}
        shares = {name: [one.share, one.low, one.high] for name, one in played.items()}
        told = {"env": self.env, "split": self.split, "tasks": self.evidence.count}
        return told | {"success": shares, "overlap": self.overlap, "verdict": self.verdict}


def climb_ladder(
    make: Callable[[str], Env],
    *,
    train: str = "train",
    test: str = "test",
    episodes: int = 200,
    tasks: int = 100,
    seed: int = 0,
    seconds: float = 300,
) -> Ladder:
    """Let each rung learn from training tasks, then play test tasks.

    Training episodes are those that the Explorer solves, else the Oracle, else a random player.

    Args:
        make: Makes the environment of a split.
        train: The split that rungs learn from.
        test: The split that they play.
        episodes: Training episodes.
        tasks: Test tasks.
        seed: Seed of all random draws.
        seconds: Time of all; rungs play task by task, so that all have played if it is over.

    Raises:
        ValueError: Fewer than one task or episode.
    """
    learned, played = make(train), make(test)
    memory = Memory(_collect(learned, episodes, seed, seconds * _LEARNING))
    starts = draw_starts(played, tasks, seed)
    rungs, players = make_rungs(memory), _experts_of(played)
    solved: dict[str, list[bool]] = {name: [] for name in [*rungs, *players]}
    solutions = list[list[Step]]()
    try:
        with Budget(seconds * (1 - _LEARNING)):
            for start in starts:
                for name, make_expert in players.items():
                    turns = list(play_episode(played, start, _take_advice(played, make_expert)))
                    solved[name].append(_is_solved(turns))
                solutions.append(_list_steps(played, turns) if players else [])
                for name, rung in rungs.items():
                    rng = np.random.default_rng([seed, start.seed])
                    turns = list(play_episode(played, start, partial(_follow, played, rung, rng)))
                    solved[name].append(_is_solved(turns))
    except CutShort:
        pass
    count = min(map(len, solved.values()))
    groups = group_tasks(played, starts[:count])
    shares = {name: measure_share(found[:count], groups) for name, found in solved.items() if count}
    return Ladder(
        name_of(played),
        test,
        train,
        {name: shares[name] for name in rungs if count},
        {name: shares[name] for name in players if count},
        memory.measure_overlap([one for one in solutions if one]),
        len(memory.episodes),
        cut=count < len(starts),
    )


class Memory:
    """Solved training episodes, with search for the most similar turn."""

    def __init__(self, episodes: Iterable[list[Step]]) -> None:
        self.episodes = [episode for episode in episodes if episode]
        self.steps = [step for episode in self.episodes for step in episode]
        self._goal_words = _Rarity([episode[0].goal for episode in self.episodes])
        self._action_words = _Rarity([step.action for step in self.steps])
        self.goals = _Index([episode[0].goal for episode in self.episodes])
        self.observations = _Index([step.observation for step in self.steps])
        self.both = _Index([f"{step.goal}\n{step.observation}" for step in self.steps])

    def measure_overlap(self, solutions: Sequence[list[Step]]) -> dict[str, float]:
        """Share of tasks whose goal form and programme, and of entities that, occur in training.

        Entities are the slots of goals.

        Args:
            solutions: An episode of an expert for each task.
        """
        if not solutions or not self.episodes:
            return {}
        known, new = (
            {
                "goal forms": [self._goal_words.mask(one[0].goal) for one in episodes],
                "programmes": [self._mask_programme(one) for one in episodes],
                "entities": [
                    slot for one in episodes for slot in self._goal_words.slots(one[0].goal)
                ],
            }
            for episodes in (self.episodes, solutions)
        )
        new["entities"] = list(set(new["entities"]))
        seen = {name: set(values) for name, values in known.items()}
        return {
            name: sum(value in seen[name] for value in values) / len(values)
            for name, values in new.items()
            if values
        }

    def _mask_programme(self, episode: Sequence[Step]) -> str:
        return "\n".join(self._action_words.mask(step.action) for step in episode)


class _Rarity:
    """Which tokens of a text are slots, by how many texts have them."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = Counter(token for text in texts for token in set(_TOKEN.findall(text)))
        least = max(2.0, RARE * len(texts))
        self._common = {token for token, count in counts.items() if count >= least}

    def slots(self, text: str) -> list[str]:
        """The slots of a text."""
        return [t for t in _TOKEN.findall(text) if t[0].isdigit() or t not in self._common]

    def mask(self, text: str) -> str:
        """The text with "_" for each row of slots."""
        slots = set(self.slots(text))
        masked = ("_" if token in slots else token for token in _TOKEN.findall(text))
        return re.sub(r"_(?: _)+", "_", " ".join(masked))


class _Index:
    """Texts by similarity: shared tokens weighted by rarity, then tokens in order."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        rows: dict[str, list[int]] = defaultdict(list)
        for row, text in enumerate(texts):
            for token in dict.fromkeys(_TOKEN.findall(text)):  # in order, as sums are rounded
                rows[token].append(row)
        self._rows = {token: np.asarray(found) for token, found in rows.items()}
        self._sizes = np.ones(len(texts))
        for token, found in self._rows.items():
            self._sizes[found] += self.weigh(token)

    def weigh(self, token: str) -> float:
        """Weight of a token by its rarity."""
        return math.log(1 + len(self._texts) / len(self._rows.get(token, (0,))))

    def find(self, text: str) -> int:
        """Row of the most similar text."""
        scores = np.zeros(len(self._texts))
        for token in dict.fromkeys(_TOKEN.findall(text)):
            if (found := self._rows.get(token)) is not None:
                scores[found] += self.weigh(token)
        scores /= self._sizes
        rows = (int(row) for row in np.argsort(-scores, kind="stable")[:_CLOSE])
        return max(rows, key=lambda row: _compare(text, self._texts[row]).ratio())


def _cut(text: str) -> list[str]:
    return _TOKEN.findall(text)[-_LONGEST:]


def _compare(old: str, new: str) -> SequenceMatcher[str]:
    return SequenceMatcher(None, _cut(old), _cut(new), autojunk=False)


def align_slots(old: str, new: str) -> dict[str, str]:
    """What stands in `new` where `old` has something else: by token and by row of tokens."""
    before, after, found = _cut(old), _cut(new), dict[str, str]()
    for kind, a, b, c, d in _compare(old, new).get_opcodes():
        if kind != "replace":
            continue
        found[" ".join(before[a:b])] = " ".join(after[c:d])
        if b - a == d - c:
            found |= dict(zip(before[a:b], after[c:d], strict=True))
    return found


def fill_slots(action: str, slots: dict[str, str]) -> str:
    """The action with the slots substituted, the longest first."""
    if not slots:
        return action
    ordered = sorted(filter(None, slots), key=len, reverse=True)
    pattern = "|".join(re.escape(one).replace(r"\ ", r"\s+") for one in ordered)
    by_words = {" ".join(one.split()): new for one, new in slots.items()}
    return re.sub(
        rf"(?<!\w)(?:{pattern})(?!\w)",
        lambda match: by_words.get(" ".join(match[0].split()), match[0]),
        action,
    )


def make_rungs(memory: Memory) -> dict[str, Rung]:
    """The rungs by name, those that need training episodes only if there are any."""
    rungs: dict[str, Rung] = {RANDOM: _play_random(memory)}
    rungs["goal words, first"] = _share_words(memory, Counter())
    if not memory.episodes:
        return rungs
    counts = Counter(step.action for step in memory.steps)
    rungs["goal words, commonest"] = _share_words(memory, counts)
    if any(step.listed for step in memory.steps):
        rungs["linear ranker"] = _Ranker(memory)
    scripts = Counter(tuple(step.action for step in episode) for episode in memory.episodes)
    rungs["fixed script"] = _replay(scripts.most_common(1)[0][0])
    rungs["nearest goal"] = _recall_episode(memory)
    rungs["last observation"] = _recall_turn(memory, memory.observations, with_goal=False)
    rungs["nearest turn"] = _recall_turn(memory, memory.both, with_goal=True)
    for pick in _PICKS:
        rungs[f"typed, {pick}"] = _extract(memory, pick)
    return rungs


def _play_random(memory: Memory) -> Rung:
    def act(seen: Seen, rng: np.random.Generator) -> str:
        choices = seen.listed or [step.action for step in memory.steps] or [""]
        return choices[int(rng.integers(len(choices)))]

    return act


def _share_words(memory: Memory, counts: Counter[str]) -> Rung:
    """Of the actions that were not done after this observation, that with most rare goal words."""

    def act(seen: Seen, _: np.random.Generator) -> str:
        goal = set(_TOKEN.findall(seen.goal.lower()))

        def rate(action: str) -> tuple[bool, float, int]:
            shared = goal & set(_TOKEN.findall(action.lower()))
            fresh = (seen.observation, action) not in seen.past
            return fresh, math.fsum(map(memory.goals.weigh, shared)), counts[action]

        return max(seen.listed or list(counts) or [""], key=rate)

    return act


class _Ranker:
    """Ranks listed actions by a linear score of what words they share, fitted on training turns.

    An action's features are its first word alone, with the goal, the last observation, the first
    word of the last action, and how often it was done. The score is fitted as a choice among the
    listed actions (multinomial logit).
    """

    def __init__(self, memory: Memory) -> None:
        self._weights: dict[str, float] = defaultdict(float)
        choices = []
        for episode in memory.episodes:
            for turn, step in enumerate(episode):
                if step.action in step.listed:
                    past = [(one.observation, one.action) for one in episode[:turn]]
                    seen = Seen(step.goal, step.observation, step.listed, past)
                    choices.append((_list_features(seen), step.listed.index(step.action)))
        for rate in _RATES:
            for features, chosen in choices:
                scores = self._rate(features)
                shares = np.exp(scores - scores.max())
                for row, share in enumerate(shares / shares.sum()):
                    for name in features[row]:
                        self._weights[name] += rate * ((row == chosen) - share)

    def __call__(self, seen: Seen, _: np.random.Generator) -> str:
        """The listed action with the highest score, if one was not done after this observation."""
        if not seen.listed:
            return ""
        scores = self._rate(_list_features(seen))
        fresh = [(seen.observation, action) not in seen.past for action in seen.listed]
        return seen.listed[max(range(len(scores)), key=lambda row: (fresh[row], scores[row]))]

    def _rate(self, features: list[list[str]]) -> NDArray[np.float64]:
        return np.array([sum(self._weights.get(name, 0.0) for name in one) for one in features])


def _list_features(seen: Seen) -> list[list[str]]:
    """The features of each listed action."""
    goal, text = (set(_TOKEN.findall(one.lower())) for one in (seen.goal, seen.observation))
    before = seen.past[-1][1].split()[:1] if seen.past else []
    features = []
    for action in seen.listed:
        words = _TOKEN.findall(action.lower())
        verb, rest = words[:1], [word for word in words[1:] if word.isalpha() and word[2:]]
        shared, times = [word in goal for word in rest], min(seen.count(action), 2)
        features.append(
            [
                f"{verb}",
                f"{verb} goal {shared}",
                f"{verb} text {[word in text for word in rest]}",
                f"{verb} done {times} goal {shared}",
                f"{before} {verb} goal {shared}",
            ]
        )
    return features


def _replay(script: Sequence[str]) -> Rung:
    def act(seen: Seen, _: np.random.Generator) -> str:
        return _choose(script[min(seen.turn, len(script) - 1)], seen)

    return act


def _recall_episode(memory: Memory) -> Rung:
    """The episode of the most similar goal, with what differs between the goals substituted."""

    def act(seen: Seen, _: np.random.Generator) -> str:
        episode = memory.episodes[memory.goals.find(seen.goal)]
        step = episode[min(seen.turn, len(episode) - 1)]
        return _choose(fill_slots(step.action, align_slots(step.goal, seen.goal)), seen)

    return act


def _recall_turn(memory: Memory, index: _Index, *, with_goal: bool) -> Rung:
    """The action of the most similar turn, with what differs substituted."""

    def act(seen: Seen, _: np.random.Generator) -> str:
        text = f"{seen.goal}\n{seen.observation}" if with_goal else seen.observation
        step = memory.steps[index.find(text)]
        slots = align_slots(step.observation, seen.observation)
        if with_goal:
            slots |= align_slots(step.goal, seen.goal)
        return _choose(fill_slots(step.action, slots), seen)

    return act


def _extract(memory: Memory, pick: str) -> Rung:
    """The nearest turn's action, its numbers, names and quotes replaced by those that are seen."""

    def act(seen: Seen, _: np.random.Generator) -> str:
        step = memory.steps[memory.both.find(f"{seen.goal}\n{seen.observation}")]
        action = fill_slots(step.action, align_slots(step.goal, seen.goal))
        for pattern in _TYPES.values():
            found = [value for value in pattern.findall(seen.observation) if value]
            old = [v for v in pattern.findall(step.observation) if v and v in action]
            if found and old:
                value = {
                    "first": found[0],
                    "last": found[-1],
                    "commonest": Counter(found).most_common(1)[0][0],
                }[pick]
                action = action.replace(old[0], value)
        return _choose(action, seen)

    return act


def _choose(action: str, seen: Seen) -> str:
    """The action, or the most similar of the listed ones."""
    if not seen.listed or action in seen.listed:
        return action
    return max(seen.listed, key=lambda one: _compare(action, one).ratio())


def _follow(env: Env, rung: Rung, rng: np.random.Generator) -> Actor:
    past: list[tuple[str, str]] = []

    def act(observation: Any, info: dict[str, Any]) -> str:
        seen = Seen(str(info.get("goal", "")), _show(observation), list_inputs(env, info), past)
        action = rung(seen, rng)
        past.append((seen.observation, action))
        return action

    return act


def _collect(env: Env, episodes: int, seed: int, seconds: float) -> Iterable[list[Step]]:
    """The solved episodes of the Explorer on training tasks, else of the next best player."""
    players = [*_experts_of(env).values()]
    found: list[list[Step]] = []
    try:
        with Budget(seconds):
            for start in draw_starts(env, episodes, seed):
                rng = np.random.default_rng([seed, start.seed])
                make_actor = (
                    _take_advice(env, players[0])
                    if players
                    else partial(_follow, env, _play_random(Memory([])), rng)
                )
                turns = list(play_episode(env, start, make_actor))
                if _is_solved(turns):
                    found.append(_list_steps(env, turns))
    except CutShort:
        pass
    return found


def _experts_of(env: Env) -> dict[str, Callable[[Env], Any]]:
    kind = type(env.unwrapped)
    return experts_of(kind) if issubclass(kind, AgentEnv) else {}


def _take_advice(env: Env, make_expert: Callable[[Env], Any]) -> Callable[[], Actor]:
    def make_actor() -> Actor:
        player = make_expert(env)
        return lambda _observation, _info: write_input(env, player.act())

    return make_actor


def _list_steps(env: Env, turns: Sequence[Record]) -> list[Step]:
    goal = str(turns[0].info.get("goal", ""))
    return [
        Step(goal, _show(one.observation), str(after.action), list_inputs(env, one.info))
        for one, after in pairwise(turns)
    ]


def _is_solved(turns: Sequence[Record]) -> bool:
    return bool(turns[-1].info.get("success"))


def _show(observation: Any) -> str:
    return observation if isinstance(observation, str) else ""
