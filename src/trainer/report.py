"""The report of a run: one self-contained HTML page, made from the run folder.

It also works on a run that is still going or was killed. Left out: scripts and anything loaded from
elsewhere, so that the page can be mailed and archived.
"""

from __future__ import annotations

import io
import json
import tomllib
import warnings
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from trainer import episodes as recorded
from trainer import evaluate, metrics
from trainer.checkpoint import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from trainer.episodes import Episode, Step
    from trainer.evaluate import Evaluation

_Read = TypeVar("_Read")

POSITIVE, NEGATIVE = (27, 120, 55), (118, 42, 131)  # ColorBrewer PRGn, colour-blind safe
_INK, _EVAL, _START = "#33415c", "#c2410c", "#8a94a6"
_STYLE: Any = {  # text stays text, and the same run gives the same bytes
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "font.size": 10,
    "text.parse_math": False,
}
_LONG = 280  # longest observation in characters that is shown unfolded
_HEAD = (
    *("name", "about", "env.id", "policy.model", "credit.name", "run.seed", "run.steps"),
    *("sft.steps", "sampling.decode"),
)
"""Options that the page shows."""
_WINDOW = 5  # steps of the running mean of a long curve
_TURNS = 60  # most turns shown of a sample episode
_CURVES = {
    "valid": "Valid turns",
    "return": "Return",
    "entropy": "Entropy of a token, nats",
    "dead_groups": "Groups with equal outcomes",
    "concentration": "Share of a trajectory's |credit| at its decisive turn",
    "explained_variance": "Critic: explained variance",
    "prm_accuracy": "Implicit rewards: pair accuracy",
    "dpo_accuracy": "DPO: pair accuracy",
    "outliers": "STAPO: share of outlier turns",
    "alpha": "HAS: α",
    "turnrd_error": "TurnRD: squared error of the return, before training on the round",
    "turnrd_film_effect": "FiLM: change of the values if it is removed",
    "turnrd_shuffle_effect": "FiLM: increase of the error with shuffled goals",
    "turnrd_film_scale": "FiLM: norm of Δγ",
}


@dataclass(frozen=True)
class Shade:
    """Credit of one turn and the colour of its cell."""

    credit: float | None
    style: str
    decisive: bool


@dataclass(frozen=True)
class TurnView:
    """One turn on the page; `state` numbers the anchors of the episode from 1."""

    number: int
    step: Step
    state: int
    again: bool
    shade: Shade


@dataclass(frozen=True)
class Sample:
    """One episode on the page."""

    title: str
    episode: Episode
    turns: list[TurnView]


def write(folder: Path) -> Path:
    """Write `report.html` into the run folder and return its path.

    Raises:
        FileNotFoundError: The folder holds no run.
    """
    if not (folder / "config.toml").is_file():
        raise FileNotFoundError(
            f"{folder} holds no run: config.toml is missing; train with --out {folder}"
        )
    path = folder / "report.html"
    page, damaged = _rendered(folder)
    write_text(path, page)
    for one in damaged:
        warnings.warn(f"left out of {path}: {one}", stacklevel=2)
    return path


def render(folder: Path) -> str:
    """HTML of the report of a run folder.

    Raises:
        ValueError: config.toml or metrics.jsonl is damaged; other damaged files are left out.
    """
    return _rendered(folder)[0]


def _rendered(folder: Path) -> tuple[str, list[str]]:
    """HTML of the report of a run folder, and what is wrong with the files that it leaves out."""
    import matplotlib as mpl
    from jinja2 import Environment, StrictUndefined

    config = folder / "config.toml"
    try:
        options = config.read_text(encoding="utf-8")
        recipe = tomllib.loads(options)
    except ValueError as error:  # not UTF-8, or not TOML
        raise ValueError(f"{config} is damaged: {error}; restore it") from error
    lacks = [key for key in _HEAD if not _has_key(recipe, key)]
    if lacks:
        raise ValueError(f"{config} is incomplete: it lacks {', '.join(lacks[:3])}; restore it")
    lines = metrics.read(folder / "metrics.jsonl")
    evaluations, damaged = read_evaluations(folder)
    shown, more = samples(folder / "episodes")
    truth, worse = _truth(folder / "truth")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(
        (files("trainer") / "report.html.j2").read_text(encoding="utf-8")
    )
    start, end = (evaluations[0], evaluations[-1]) if len(evaluations) > 1 else (None, None)
    with mpl.rc_context(_STYLE):
        curves, types = _curves(lines, evaluations), _types(evaluations)
    damaged += [*more, *worse]
    made = page.render(
        recipe=recipe,
        damaged=damaged,
        options=options,
        evaluations=evaluations,
        test=evaluate.paired(start[1], end[1]) if start and end else None,
        curves=curves,
        types=types,
        samples=shown,
        truth=truth,
        long=_LONG,
        last=lines[-1] if lines else None,
    )
    return made, damaged


def _has_key(tree: Any, dotted: str) -> bool:
    """Whether nested tables have a dotted key."""
    for part in dotted.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return False
        tree = tree[part]
    return True


def _readable(
    paths: Iterable[Path], read: Callable[[Path], _Read]
) -> tuple[list[tuple[Path, _Read]], list[str]]:
    """The files that can be read with their content, and what is wrong with the others."""
    found, damaged = [], []
    for path in paths:
        try:
            found.append((path, read(path)))
        except (OSError, ValueError, TypeError, KeyError, EOFError) as error:
            said = " ".join(str(error).split())
            damaged.append(said if str(path) in said else f"{path} cannot be read ({said})")
    return found, damaged


def _numbered(folder: Path, ending: str) -> list[Path]:
    """The files `step_N` of a folder, by increasing step."""
    found = [path for path in folder.glob(f"step_*{ending}") if path.stem[5:].isdecimal()]
    return sorted(found, key=lambda path: int(path.stem[5:]))


def _truth(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """What `agent-envs truth` found of the run's policy, None before; what is damaged."""
    ranking = folder / "ranking.txt"
    found, damaged = _readable([ranking] if ranking.is_file() else [], _read_truth)
    return (found[0][1] if found else None), damaged


def _read_truth(ranking: Path) -> dict[str, Any]:
    from markupsafe import Markup

    drawn = {
        name: ranking.with_name(f"{name}.svg").read_text(encoding="utf-8")
        for name in ("ranking", "episode")
    }
    return {
        "about": json.loads(ranking.with_name("truth.json").read_text(encoding="utf-8")),
        "table": ranking.read_text(encoding="utf-8"),
        **{name: Markup(text[text.index("<svg") :]) for name, text in drawn.items()},  # noqa: S704
    }


def read_evaluations(folder: Path) -> tuple[list[tuple[int, Evaluation]], list[str]]:
    """(step, evaluation) of a run folder by increasing step, and which files are damaged."""
    found, damaged = _readable(_numbered(folder / "eval", ".json"), evaluate.load)
    return [(int(path.stem[5:]), one) for path, one in found], damaged


def evaluations_of(folder: Path) -> list[tuple[int, Evaluation]]:
    """(step, evaluation) of a run folder by increasing step; damaged files are left out."""
    return read_evaluations(folder)[0]


def shades(credit: NDArray[np.float64]) -> list[Shade]:
    """Cell colours of one trajectory, strongest at its largest |credit|: [T] -> [T].

    The turn of largest |credit| is the decisive one (HAS, appendix A), unless all are equal.
    """
    top = float(np.abs(credit).max(initial=0.0))
    decisive = int(np.abs(credit).argmax()) if np.ptp(credit) > 0 else -1
    cells = []
    for turn, value in enumerate(credit.tolist()):
        red, green, blue = POSITIVE if value > 0 else NEGATIVE
        strength = 0.55 * abs(value) / top if top else 0.0
        style = f"background:rgba({red},{green},{blue},{strength:.3f})"
        cells.append(Shade(value, style, turn == decisive))
    return cells


def samples(folder: Path) -> tuple[list[Sample], list[str]]:
    """A success and a failure of one group of the last step, and an episode of the first step.

    Files that cannot be read are left out and named.
    """
    damaged: list[str] = []
    chosen: list[Sample] = []
    paths = _numbered(folder, ".parquet")
    shown: list[Path] = []
    for order, wanted in ((paths[::-1], (True, False)), (paths, (False,))):
        path, played, wrong = _first_readable(order)
        damaged += [one for one in wrong if one not in damaged]
        if path is None or path in shown:
            break
        shown.append(path)
        credit, wrong = _credit(path, sum(len(episode.steps) for episode in played))
        damaged += wrong
        chosen += _chosen(path, played, credit, wanted)
    return chosen, damaged


def _first_readable(paths: Sequence[Path]) -> tuple[Path | None, list[Episode], list[str]]:
    """The first file of episodes that can be read, and what is wrong with those before it."""
    damaged: list[str] = []
    for path in paths:
        found, wrong = _readable([path], recorded.read)
        damaged += wrong
        if found and found[0][1]:
            return path, found[0][1], damaged
    return None, [], damaged


def _chosen(
    path: Path,
    played: Sequence[Episode],
    credit: NDArray[np.float64] | None,
    wanted: Sequence[bool],
) -> list[Sample]:
    """Samples with the wanted successes of one group of a file."""
    ends = np.cumsum([len(episode.steps) for episode in played]).tolist()
    made = []
    for index in _pick(played, wanted):
        own = None if credit is None else credit[ends[index] - len(played[index].steps) :]
        made.append(_sample(path.stem.replace("_", " "), played[index], own))
    return made


def _credit(path: Path, turns: int) -> tuple[NDArray[np.float64] | None, list[str]]:
    """The credit of each turn of a file of episodes, None without; what is wrong with it."""
    saved = path.with_suffix(".npy")

    def read(file: Path) -> NDArray[np.float64]:
        credit: NDArray[np.float64] = np.load(file, allow_pickle=False)
        if credit.shape != (turns,) or credit.dtype.kind != "f" or not np.isfinite(credit).all():
            raise ValueError(f"it needs {turns} finite numbers, one for each turn of {path.name}")
        return credit

    found, damaged = _readable([saved] if saved.is_file() else [], read)
    return (found[0][1] if found else None), damaged


def _pick(played: Sequence[Episode], wanted: Sequence[bool]) -> list[int]:
    groups: dict[int, dict[bool, int]] = {}
    for index, episode in enumerate(played):
        groups.setdefault(episode.group, {}).setdefault(episode.success, index)
    best = max(groups.values(), key=lambda found: sum(outcome in found for outcome in wanted))
    return [best[outcome] for outcome in wanted if outcome in best] or [next(iter(best.values()))]


def _sample(step: str, episode: Episode, credit: NDArray[np.float64] | None) -> Sample:
    count = len(episode.steps)
    cells = [Shade(None, "", decisive=False)] * count if credit is None else shades(credit[:count])
    states: dict[str, int] = {}
    turns = []
    for number, (turn, cell) in enumerate(zip(episode.steps, cells, strict=True), start=1):
        again = turn.anchor in states
        state = states.setdefault(turn.anchor, len(states) + 1)
        turns.append(TurnView(number, turn, state, again, cell))
    ending = "success" if episode.success else "turn limit" if episode.truncated else "failure"
    return Sample(f"{step}: {ending} after {count} turns", episode, turns[:_TURNS])


def _curves(
    lines: Sequence[dict[str, Any]], evaluations: Sequence[tuple[int, Evaluation]]
) -> list[tuple[str, str]]:
    stages = {s: [x for x in lines if x.get("stage") == s] for s in ("sft", "rl")}
    learning = stages["rl"]
    drawn = []
    if learning or evaluations:
        drawn.append(("Success", _svg(_success(learning, evaluations))))
    drawn += [(t, _svg(_curve(learning, k))) for k, t in _CURVES.items() if _has(learning, k)]
    if _has(stages["sft"], "loss"):
        drawn.append(("Warm start: loss", _svg(_curve(stages["sft"], "loss"))))
    return drawn


def _has(lines: Sequence[dict[str, Any]], key: str) -> bool:
    return sum(line.get(key) is not None for line in lines) > 1


def _figure(height: float = 2.5) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(4.6, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e4e7ec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _success(
    lines: Sequence[dict[str, Any]], evaluations: Sequence[tuple[int, Evaluation]]
) -> Figure:
    figure, axes = _figure()
    lines = [line for line in lines if line.get("success") is not None and line.get("episodes")]
    if lines:
        steps = [line["step"] for line in lines]
        found = [evaluate.wilson(round(x["success"] * x["episodes"]), x["episodes"]) for x in lines]
        low, high = [x.low for x in found], [x.high for x in found]
        axes.fill_between(steps, low, high, color=_INK, alpha=0.13, linewidth=0)
        axes.plot(steps, _smooth([x.rate for x in found]), color=_INK, label="training rollouts")
    if evaluations:
        held = [evaluation.overall for _, evaluation in evaluations]
        axes.errorbar(
            [step for step, _ in evaluations],
            [x.rate for x in held],
            yerr=[[x.rate - x.low for x in held], [x.high - x.rate for x in held]],
            color=_EVAL, marker="o", markersize=4, capsize=3, linewidth=1.2,
            label=f"evaluation: {evaluations[0][1].split}",
        )  # fmt: skip
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_xlabel("step")
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=9)
    return figure


def _curve(lines: Sequence[dict[str, Any]], key: str) -> Figure:
    kept = [line for line in lines if line.get(key) is not None]
    steps, values = [line["step"] for line in kept], [line[key] for line in kept]
    figure, axes = _figure(1.9)
    axes.plot(steps, values, color=_INK, alpha=0.3, linewidth=0.9)
    axes.plot(steps, _smooth(values), color=_INK)
    axes.set_xlabel("step")
    if key in {"valid", "dead_groups", "concentration", "prm_accuracy", "dpo_accuracy"}:
        axes.set_ylim(-0.02, 1.02)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return figure


def _types(evaluations: Sequence[tuple[int, Evaluation]]) -> str:
    if not evaluations:
        return ""
    shown = [evaluations[0], evaluations[-1]][: len(evaluations)]
    kinds = list(shown[-1][1].by_type)[::-1]
    figure, axes = _figure(0.9 + 0.42 * len(kinds))
    for offset, colour, (step, evaluation) in zip(
        (0.14, -0.14), (_START, _EVAL)[-len(shown) :], shown, strict=False
    ):
        found = [evaluation.by_type.get(kind) for kind in kinds]
        for row, interval in enumerate(found):
            if interval:
                axes.plot([interval.low, interval.high], [row + offset] * 2, color=colour)
        rates = [x.rate if x else np.nan for x in found]
        axes.plot(rates, np.arange(len(kinds)) + offset, "o", color=colour, label=f"step {step}")
    counts = [shown[-1][1].by_type[kind].count for kind in kinds]
    labels = [f"{kind or 'all'} ({n})" for kind, n in zip(kinds, counts, strict=True)]
    axes.set_yticks(range(len(kinds)), labels)
    axes.set_ylim(-0.6, len(kinds) - 0.4)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=9)
    return _svg(figure)


def _smooth(values: Sequence[float]) -> list[float]:
    """Running mean over the last few steps; short curves stay as they are: [S] -> [S]."""
    window = max(1, min(_WINDOW, len(values) // 4))
    total = np.concatenate([[0.0], np.cumsum(values)])
    starts = [max(0, end - window) for end in range(1, len(total))]
    return [float(total[i + 1] - total[s]) / (i + 1 - s) for i, s in enumerate(starts)]


def _svg(figure: Figure) -> str:
    """The figure as an SVG element without the XML prologue, marked as safe HTML."""
    from markupsafe import Markup

    stream = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(stream, format="svg", metadata=nothing, transparent=True)
    text = stream.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704 - matplotlib escapes the text it draws
