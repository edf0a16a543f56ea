"""Run folders as `train` leaves them, written without training."""

from __future__ import annotations

import json

import numpy as np

from agent_envs.evaluation import Evaluation
from trainer import recipe
from trainer.play import episode_files as episodes
from trainer.play.records import Episode, Step

KINDS = ["pick_and_place_simple", "pick_clean_then_place_in_recep", "look_at_obj_in_light"]
PLAY = [
    ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 2, and a pen 1.", 0.25),
    ("take mug 1 from shelf 1", "Nothing happens.", 0.25),
    ("take mug 2 from shelf 1", "You pick up the mug 2 from the shelf 1.", 0.5),
    ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a desklamp 1.", 0.5),
    ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a pen 1.", 0.5),
    ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a desklamp 1.", 0.5),
    ("put mug 2 in/on desk 1", "You put the mug 2 in/on the desk 1.", 1.0),
]


def episode(*, success: bool, group: int = 0, text: str = "") -> Episode:
    room = "You are in the middle of a room. Looking quickly around you, you see a bed 1, " + (
        ", ".join(f"a drawer {n}" for n in range(1, 18)) + ", and a shelf 1.\n\n"
    )
    seen = f"{room * 2}Your task is to: put some mug on desk.{text}"
    steps = []
    for action, answer, progress in PLAY if success else PLAY[:5]:
        step = Step(seen, f"<think>{text}</think><action>{action}</action>", action, [1], [2])
        step.valid = answer != "Nothing happens."
        step.invalid_reason = "" if step.valid else "unknown"
        step.reward = 0.0 if step.valid else -0.1
        step.progress, step.anchor = progress, f"{action.split()[-2]}{progress}"
        steps.append(step)
        seen = answer
    return Episode(
        f"embedded/train/pick/{group}",
        "put some mug on desk." + text,
        group,
        7,
        "history",
        steps,
        success=success,
        outcome=float(success),
        strata={"kind": KINDS[0]},
        truncated=not success,
    )


def evaluation(solved: int) -> Evaluation:
    ids = [f"task/{n}" for n in range(60)]
    return Evaluation(
        split="valid_unseen",
        source="embedded",
        panel_hash="f00dcafe" * 4,
        decoding="greedy",
        task_ids=ids,
        success=[n < solved for n in range(60)],
        returns=[float(n < solved) for n in range(60)],
        turns=[9] * 60,
        valid=0.6 + solved / 200,
        repeated=0.2,
        strata={"kind": [KINDS[n % 3] for n in range(60)]},
    )


def run_folder(folder, *, text: str = ""):
    """A run of 5 + 40 steps as `train` leaves it."""
    recipe.save(
        recipe.parse({"name": "alfworld-mgr-pocket", "about": f"A short run.{text}"}),
        folder / "config.toml",
    )
    lines = [{"step": s, "stage": "sft", "loss": 2.0 / s} for s in range(1, 6)]
    for step in range(6, 46):
        share = 0.3 + 0.012 * (step - 6) + 0.05 * np.sin(step)
        line = {"success": share, "episodes": 128, "valid": 0.6 + share / 3, "return": share - 0.1}
        line |= {"entropy": 0.9 - share / 2, "dead_groups": share / 2}
        lines.append({"step": step, "stage": "rl", **line})
    text_lines = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text_lines)
    for step, solved in ((5, 20), (25, 30), (45, 44)):
        evaluation(solved).save(folder / "eval" / f"step_{step}.json")
    for step in (6, 45):
        played = [episode(success=True, text=text), episode(success=False, text=text)]
        episodes.write_episodes(folder / "episodes" / f"step_{step}.parquet", played)
        credit = np.linspace(-0.5, 1.0, sum(len(e.steps) for e in played))
        np.save(folder / "episodes" / f"step_{step}.npy", credit)
    return folder
