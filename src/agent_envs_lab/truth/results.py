"""What a measurement is told as: a table of methods, figures, and a summary of the costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_envs_lab import benchmark
from agent_envs_lab.truth import figures
from trainer.run.checkpoint import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from agent_envs_lab.truth.run import Result


def publish(result: Result, folder: Path) -> str:
    """Write `ranking.txt` and the figures, and return the summary as text."""
    truth = result.truth
    lines = [*_checks(result)]
    if truth.reliability > 0:
        estimators = benchmark.make_methods()
        ranked = benchmark.score_estimators(truth, estimators)
        table = benchmark.render_table(truth, ranked)
        write_text(folder / "ranking.txt", table + "\n")
        advantages = benchmark.estimate_advantages(truth, estimators)[0]
        figures.save(truth, result.episodes, ranked[:2], advantages, folder)
        lines = [table, "", *lines]
    else:
        lines.append("No turn changes the expected outcome, so no method can be ranked.")
    return "\n".join([*lines, f"in {folder}"])


def _checks(result: Result) -> list[str]:
    about = result.truth.about
    lines = [
        f"{about['turns played for each turn']:.0f} turns were played for each turn measured",
    ]
    if "fresh rollouts" in about:
        lines.append(
            f"V at the start minus {about['fresh rollouts']} fresh rollouts: "
            f"{about['V(s0) minus fresh rollouts']:+.3f} ± {about['standard error of it']:.3f}"
        )
    if about["reliability"] < about["wanted reliability"]:
        lines.append(
            f"reliability {about['reliability']:.2f} is below {about['wanted reliability']:.2f}: "
            "raise --most"
        )
    return lines
