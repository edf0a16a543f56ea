"""Does more faithful credit learn faster? A log-linear policy, in seconds a run.

`python -m agent_envs_lab.learning household signal rtmc "has, by anchor" --seeds 12 --out FOLDER`
trains a log-linear policy on the household, WebShop-v1 ("shop") or EZPoints ("points") with GRPO
and with each method named: a row of `agent_envs_lab.benchmark`, a name of `credit.names()`, or
"package.module:Name" of your own. One that needs other columns, such as `istar`, is left out.
A run is one CPU core for some seconds. Methods are compared by seed: all runs of a seed draw the
same tasks and begin with the same policy, which imitates the Explorer in a few of them. Compared
are the mean outcome of the rollouts in training, and that of the policy at its end on tasks held
out. Finished runs are files in FOLDER and are not made again.

Left out: language. A difference here shows that a method learns faster where the policy is a
log-linear one with the features below, and says nothing of a transformer. Credit is scaled to a
root mean square of 1 in each batch, so that methods differ in direction and not in step size.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import agent_envs  # noqa: F401 - registers
import credit
from agent_envs.alfworld.experts import TaskLine, kind_of, read_task
from agent_envs.experts import expert
from agent_envs.webshop.experts import Reading, read_request, read_sentence
from agent_envs_lab.benchmark import BASELINE, find_estimator, make_methods
from agent_envs_lab.intervals import interval, resample_groups
from credit.validation import check_known

if TYPE_CHECKING:
    from credit.stats import Array

SIZE = 1 << 18
"""Number of weights; the name of a feature is hashed to one of them."""
HELD_OUT = 100
"""Tasks held out on which a policy is evaluated, each with two episodes."""
DECAY = 0.9, 0.999  # of Adam's means


@lru_cache(maxsize=1 << 20)
def hash_names(*names: str) -> NDArray[np.intp]:
    """Numbers of features by their names, the same in every process: [F]."""
    return np.array([zlib.crc32(name.encode()) % SIZE for name in names], dtype=np.intp)


class View:
    """What a policy remembers of an episode, as features of the actions that it may take.

    Args:
        observation: Of the reset.
        info: Of the reset.
    """

    def __init__(self, observation: str, info: dict[str, Any]) -> None:
        self.observation, self.info = observation, info
        self.before, self.repeats = "", Counter[str]()

    def list_choices(self) -> list[str]:
        """The actions between which the policy chooses."""
        return list(self.info["admissible_actions"])

    def number_features(self, action: str) -> NDArray[np.intp]:
        """Numbers of the features of an action: [F]."""
        raise NotImplementedError

    def observe(self, action: str, observation: str, info: dict[str, Any]) -> None:
        """Remember an action and what came of it."""
        self.observation, self.info = observation, info
        self.before = action.partition(" ")[0]
        self.repeats[action] += 1


class Household(View):
    """The task, what is held, whether it was treated, and how often an action was repeated."""

    def __init__(self, observation: str, info: dict[str, Any]) -> None:
        super().__init__(observation, info)
        self.task = read_task(info["goal"])
        self.holds = self.treated = False

    def number_features(self, action: str) -> NDArray[np.intp]:
        """Numbers of the features of an action: [11]."""
        repeats = min(self.repeats[action], 2)
        return _number_household(
            self.task, action, (self.holds, self.treated), repeats, self.before
        )

    def observe(self, action: str, observation: str, info: dict[str, Any]) -> None:
        """Remember an action and what came of it."""
        super().observe(action, observation, info)
        verb, _, thing = action.partition(" ")
        if observation.startswith("You pick up"):
            self.holds, self.treated = kind_of(thing) == self.task.thing, False
        elif observation.startswith(("You move", "You put")):
            self.holds = False
        elif verb in {"clean", "heat", "cool", "use"} and info["valid"]:
            self.treated = True


_NAMES = re.compile(r"([a-z]+) \d+")


@lru_cache(maxsize=1 << 20)
def _number_household(
    task: TaskLine, action: str, state: tuple[bool, bool], repeats: int, before: str
) -> NDArray[np.intp]:
    verb, names = action.partition(" ")[0], _NAMES.findall(action)
    thing = names[0] if names and verb not in {"go", "open", "close", "examine", "look"} else ""
    place = names[-1] if names else ""
    kind = f"{task.verb}{task.count}{task.light}"
    known = f"{verb} {thing == task.thing} {place == task.place}"
    return hash_names(
        *(verb, known, f"{verb} {state[0]}", f"{known} {state}", f"{kind} {known} {state}"),
        *(f"{verb} repeats {repeats}", f"{verb} after {before}", f"{verb} {place}"),
        *(f"{kind} {verb} {place} {state}", f"{verb} {place} for {task.thing}"),
        f"{known} {state} after {before} repeats {repeats}",
    )


class Points(View):
    """The formula so far, with and without the numbers of the cards."""

    def number_features(self, action: str) -> NDArray[np.intp]:
        """Numbers of the features of an action: [3]."""
        formula, numbers = self.info["formula"], sorted(self.info["numbers"])
        form, kind = (re.sub(r"\d+", "n", text) for text in (formula, action))
        return hash_names(f"{form} {kind}", f"{form} {kind} of {numbers}", f"{formula} {action}")


class Shop(View):
    """The kind of page, and what the pages that were seen say of a product and the request."""

    def __init__(self, observation: str, info: dict[str, Any]) -> None:
        super().__init__(observation, info)
        self.request = read_request(info["goal"])
        self.wanted = {value for _, value in self.request.options}
        self.known: dict[str, dict[str, Reading]] = {}
        self.product = ""
        self._read_page()

    def list_choices(self) -> list[str]:
        """The actions of the page; the only search is for the product of the request."""
        search = self.request.product
        return [one.replace("<keywords>", search) for one in self.info["admissible_actions"]]

    def number_features(self, action: str) -> NDArray[np.intp]:
        """Numbers of the features of an action: [5]."""
        name = action[6:-1]
        kind, about = name, self._judge(self.product)
        if action.startswith("search"):
            kind = "search"
        elif name in self.prices:
            kind = "product"
            about = f"{self._judge(name)} {self.prices[name] < self.request.limit}"
        elif name not in {"back to search", "next >", "< prev", "features", "buy now"}:
            kind = "option"
            about = f"{name in self.wanted} {name in self.chosen}"
        left = len(self.wanted - self.chosen)
        return hash_names(
            *(f"{self.page} {kind}", f"{self.page} {kind} {about}", f"{kind} {about} {left}"),
            *(f"{kind} after {self.before}", f"{kind} repeats {min(self.repeats[action], 2)}"),
        )

    def observe(self, action: str, observation: str, info: dict[str, Any]) -> None:
        """Remember an action and what came of it."""
        page = self.page
        if action[6:-1] in self.prices:
            self.product = action[6:-1]
        super().observe(action, observation, info)
        self.before = page
        self._read_page()

    def _read_page(self) -> None:
        listed, parts = self.info["admissible_actions"], self.observation.split(" [SEP] ")
        small = [part.lower() for part in parts]
        self.prices = {
            name: int(price[1:])
            for name, price in zip(small, small[2:], strict=False)
            if re.fullmatch(r"b\d+", name) and re.fullmatch(r"\$\d+", price)
        }
        self.chosen = {part.removesuffix(" (chosen)") for part in small if "(chosen)" in part}
        self.page = "index"
        if self.prices or any("total results" in one for one in small):
            self.page = "results"
        elif "click[buy now]" in listed:
            self.page = "item"
        elif "click[< prev]" in listed:
            self.page = "sub"
        if self.page in {"item", "sub"}:
            said = self.known.setdefault(self.product, {})
            said |= {one.name: one for part in parts for one in read_sentence(part.strip())}

    def _judge(self, product: str) -> str:
        """What is known of the requested properties of a product."""
        said, wishes = self.known.get(product), self.request.wishes
        if said is None:
            return "new"
        met = [said[wish.name].meets(wish) for wish in wishes if wish.name in said]
        return "wrong" if not all(met) else "right" if len(met) == len(wishes) else "open"


@dataclass(frozen=True)
class World:
    """An environment, the split held out, and how long the first policy imitates.

    Attributes:
        id: Id of the environment; its outcome is the sum of rewards.
        options: Its options, the same in training and held out.
        held_out: Split of the tasks held out; "train" trains.
        view: What the policy sees.
        imitated: Episodes of the Explorer that the first policy imitates.
        rate: Step size: of 0.04, 0.08, 0.16 and 0.32 the one with which GRPO had the best mean
            outcome in training, over the seeds 1000, 1001 and 1002.
    """

    id: str
    options: dict[str, Any]
    held_out: str
    view: type[View]
    imitated: int
    rate: float

    def make(self, split: str) -> Any:
        """The environment of a split."""
        return gym.make(self.id, split=split, **self.options).unwrapped


WORLDS = {
    "household": World(
        "AlfWorld-v0",
        {"data": "embedded", "max_turns": 15, "success_reward": 1.0},
        "valid_unseen", Household, imitated=8, rate=0.16,
    ),
    "shop": World(
        "WebShop-v1",
        {"requirements": 2, "max_turns": 15, "reward": "score"},
        "val", Shop, imitated=1, rate=0.32,
    ),
    "points": World("EZPoints-v0", {"reward": "success"}, "val", Points, imitated=1, rate=0.32),
}  # fmt: skip


class Turn(NamedTuple):
    """A turn: features [A, F] of the actions, which was taken, and their probabilities [A]."""

    features: NDArray[np.intp]
    taken: int
    chances: Array
    anchor: str
    action: str
    progress: float
    valid: bool


class Episode(NamedTuple):
    """The turns of an episode and its outcome."""

    turns: list[Turn]
    outcome: float
    goal: str


def play(
    world: World, env: Any, task: str, weights: Array, rng: np.random.Generator, *, imitate: bool
) -> Episode:
    """An episode of the policy with these weights, or of the Explorer."""
    observation, info = env.reset(seed=0, options={"task_id": task})
    view = world.view(observation, info)
    guide = expert(env) if imitate else None
    turns, outcome, ended, goal = [], 0.0, False, info["goal"]
    while not ended:
        listed = view.list_choices()
        features = np.stack([view.number_features(action) for action in listed])
        score = weights[features].sum(1)
        chances = np.exp(score - score.max())
        chances /= chances.sum()
        if guide is not None:
            taken = [action.lower() for action in listed].index(guide.act().lower())
        else:
            taken = min(int(chances.cumsum().searchsorted(rng.random())), len(listed) - 1)
        anchor, action = info["anchor"], listed[taken]
        observation, reward, terminated, truncated, info = env.step(action)
        view.observe(action, observation, info)
        told = info["progress"], info["valid"]
        turns.append(Turn(features, taken, chances, anchor, action, *told))
        outcome, ended = outcome + float(reward), terminated or truncated
    return Episode(turns, outcome, goal)


def imitate(world: World, env: Any) -> Array:
    """Weights after five passes over some episodes of the Explorer, one turn after the other."""
    rng, weights = np.random.default_rng(0), np.zeros(SIZE)
    turns = [
        turn
        for task in rng.choice(env.panel.task_ids, world.imitated, replace=False)
        for turn in play(world, env, task, weights, rng, imitate=True).turns
    ]
    for _ in range(5):
        for at in rng.permutation(len(turns)):
            features, taken = turns[at][:2]
            score = weights[features].sum(1)
            chances = np.exp(score - score.max())
            slope = -chances / chances.sum()
            slope[taken] += 1
            np.add.at(weights, features, 0.1 * slope[:, None])
    return weights


def tabulate(episodes: Sequence[Episode], rollouts: int) -> credit.Turns:
    """The columns of a batch in which every `rollouts` episodes are of one task."""
    turns = [turn for episode in episodes for turn in episode.turns]
    columns: dict[str, Any] = {
        "group": np.arange(len(episodes)) // rollouts,
        "outcome": [one.outcome for one in episodes],
        "goal": [one.goal for one in episodes],
        "trajectory": np.repeat(np.arange(len(episodes)), [len(one.turns) for one in episodes]),
        "reward": np.zeros(len(turns)),
        "entropy": [-float(one.chances @ np.log(one.chances.clip(1e-300))) for one in turns],
    }
    for name in ("valid", "progress", "anchor", "action"):
        columns[name] = [getattr(one, name) for one in turns]
    return credit.Turns(**columns)


@dataclass(frozen=True)
class Settings:
    """What all runs of a comparison share."""

    world: str
    steps: int = 20
    tasks: int = 8
    rollouts: int = 8
    rate: float = 0.0


class Run(NamedTuple):
    """Mean outcome of the rollouts of each step, and of the last policy on tasks held out."""

    curve: list[float]
    held_out: float
    seconds: float


def train(settings: Settings, first: Array, estimator: credit.Estimator, seed: int) -> Run:
    """Train a copy of a first policy with the advantages of an estimator, by Adam."""
    began, world = time.process_time(), WORLDS[settings.world]
    env, weights = world.make("train"), first.copy()
    mean, square = np.zeros(SIZE), np.zeros(SIZE)
    curve = []
    for step in range(settings.steps):
        rng = np.random.default_rng([seed, step])
        tasks = rng.choice(env.panel.task_ids, settings.tasks, replace=False)
        episodes = [
            play(world, env, task, weights, rng, imitate=False)
            for task in tasks
            for _ in range(settings.rollouts)
        ]
        curve.append(float(np.mean([one.outcome for one in episodes])))
        advantage = credit.estimate(estimator, tabulate(episodes, settings.rollouts), rng)
        advantage = advantage / (np.sqrt(np.mean(advantage**2)) or 1.0)
        slope = _sum_slopes([turn for one in episodes for turn in one.turns], advantage)
        mean = DECAY[0] * mean + (1 - DECAY[0]) * slope
        square = DECAY[1] * square + (1 - DECAY[1]) * slope**2
        size = np.sqrt(square / (1 - DECAY[1] ** (step + 1))) + 1e-8
        weights += settings.rate * mean / (1 - DECAY[0] ** (step + 1)) / size
    held, rng = world.make(world.held_out), np.random.default_rng([seed, 1 << 20])
    ids = held.panel.task_ids
    picked = [*ids[:: max(len(ids) // HELD_OUT, 1)][:HELD_OUT]] * 2
    ends = [play(world, held, task, weights, rng, imitate=False).outcome for task in picked]
    return Run(curve, float(np.mean(ends)), time.process_time() - began)


def _sum_slopes(turns: Sequence[Turn], advantage: Array) -> Array:
    """Mean over turns of the advantage times the gradient of the log-probability: [SIZE]."""
    which, slopes = [], []
    for turn, gain in zip(turns, advantage, strict=True):
        slope = -gain * turn.chances
        slope[turn.taken] += gain
        which.append(turn.features.ravel())
        slopes.append(slope.repeat(turn.features.shape[1]))
    return np.asarray(np.bincount(np.concatenate(which), np.concatenate(slopes), SIZE) / len(turns))


class Gain(NamedTuple):
    """A mean difference with its interval, in points of the outcome."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        star = "*" if self.low > 0 or self.high < 0 else ""
        if math.isnan(self.low):
            return f"{100 * self.value:+.1f} [–]"
        return f"{100 * self.value:+.1f}{star} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Gain:
    """Mean of paired differences, with a bootstrap over the pairs."""
    apart = np.subtract(ours, theirs)
    return Gain(*astuple(interval(resample_groups(len(apart), 0) @ apart / len(apart), len(apart))))


def count_wins(ours: Sequence[float], theirs: Sequence[float]) -> tuple[int, int, float]:
    """Pairs in which the first is larger, pairs that differ, and two-sided p of a fair coin."""
    apart = np.subtract(ours, theirs)
    wins, count = int((apart > 0).sum()), int((apart != 0).sum())
    tail = sum(math.comb(count, k) for k in range(max(wins, count - wins), count + 1))
    return wins, count, min(2 * tail / 2**count, 1.0)


def find_runs(settings: Settings, names: Sequence[str], folder: Path) -> dict[str, dict[int, Run]]:
    """The finished runs of methods by seed.

    Raises:
        ValueError: A run has other settings, or its file is damaged.
    """
    found: dict[str, dict[int, Run]] = {name: {} for name in names}
    for path in folder.glob("*.json"):
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error}); delete it") from error
        if told["settings"] != asdict(settings):
            shown = f"{told['settings']}, not {asdict(settings)}"
            raise ValueError(f"{path} has the settings {shown}; give another --out")
        if told["method"] in found:
            found[told["method"]][told["seed"]] = Run(**told["run"])
    return found


def save_run(settings: Settings, name: str, seed: int, run: Run, folder: Path) -> None:
    """Write a finished run to a file of its own, which is whole or missing."""
    told = {"settings": asdict(settings), "method": name, "seed": seed, "run": run._asdict()}
    path = folder / f"{re.sub(r'[^0-9A-Za-z]+', '_', name)}-{seed}.json"
    path.with_suffix(".part").write_text(json.dumps(told), encoding="utf-8")
    path.with_suffix(".part").replace(path)


def render_runs(found: dict[str, dict[int, Run]]) -> str:
    """A Markdown table of methods over the seeds that all of them have."""
    seeds = sorted(set.intersection(*map(set, found.values())))
    head = "method | in training, % | to GRPO, points | higher | p | held out, %"
    lines = [
        "1 seed" if len(seeds) == 1 else f"{len(seeds)} seeds",
        f"| {head} | to GRPO, points | higher | p |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    if not seeds:
        return lines[0]
    scores = {
        name: (
            [float(np.mean(runs[seed].curve)) for seed in seeds],
            [runs[seed].held_out for seed in seeds],
        )
        for name, runs in found.items()
    }
    for name in sorted(scores, key=lambda name: -np.mean(scores[name][0])):
        cells = [name]
        for own, base in zip(scores[name], scores[BASELINE], strict=True):
            cells.append(f"{100 * np.mean(own):.1f}")
            if name == BASELINE:
                cells += [""] * 3
            else:
                wins, count, p = count_wins(own, base)
                cells += [str(difference(own, base)), f"{wins} of {count}", f"{p:.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _read_count(text: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


def _read_rate(text: str) -> float:
    if not 0 < float(text) < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above 0")
    return float(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train with GRPO and other methods, and print their differences with 95% intervals."""
    parser = argparse.ArgumentParser(
        prog="python -m agent_envs_lab.learning", description=main.__doc__
    )
    parser.add_argument("world", help=", ".join(WORLDS))
    parser.add_argument("method", nargs="*", help="row of the benchmark, or package.module:Name")
    parser.add_argument("--seeds", type=_read_count, default=8, help="paired seeds, from 0")
    parser.add_argument(
        "--first", type=partial(_read_count, least=0), default=0, help="the first seed"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of finished runs")
    for name, default in (("steps", 20), ("tasks", 8), ("rollouts", 8)):
        parser.add_argument(f"--{name}", type=_read_count, default=default)
    parser.add_argument("--rate", type=_read_rate, help="step size; by default the world's")
    given = parser.parse_args(arguments)
    try:
        check_known("unknown world", [given.world], WORLDS)
        known = make_methods()
        names = dict.fromkeys([BASELINE, *given.method])
        methods = {name: known.get(name) or find_estimator(name) for name in names}
        rate = WORLDS[given.world].rate if given.rate is None else given.rate
        settings = Settings(given.world, given.steps, given.tasks, given.rollouts, rate)
        given.out.mkdir(parents=True, exist_ok=True)
        found = find_runs(settings, list(methods), given.out)
    except (ValueError, TypeError, OSError, ImportError) as error:
        parser.error(str(error))
    world = WORLDS[given.world]
    first = imitate(world, world.make("train"))
    for seed in range(given.first, given.first + given.seeds):
        for name in list(found):
            if seed in found[name]:
                continue
            try:
                run = train(settings, first, methods[name], seed)
            except (ValueError, TypeError) as error:
                del found[name]
                sys.stderr.write(f"{name} is left out: {error}\n")
                continue
            found[name][seed] = run
            save_run(settings, name, seed, run, given.out)
            sys.stdout.write(
                f"seed {seed}, {name}: {np.mean(run.curve):.3f} in training, "
                f"{run.held_out:.3f} held out, {run.seconds:.0f} s\n"
            )
            sys.stdout.flush()
    sys.stdout.write(render_runs(found) + "\n")


if __name__ == "__main__":
    main()
