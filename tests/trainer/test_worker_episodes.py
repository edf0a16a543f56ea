"""Rollouts and demonstrations in worker processes: the same episodes; a lost process costs one."""

import re
from collections import Counter
from pathlib import Path

import pytest

from trainer.errors import RecipeError
from trainer.learn.sft import attempt_demonstrations
from trainer.play.environments import Env, PromptOptions
from trainer.play.records import Task
from trainer.play.rollout import Rollouts
from trainer.play.source import draw_tasks
from trainer.run.checks import _probe, find_expert

from .conftest import Letters, Script

HANGS = """
import time
from corridor import Corridor

class Hangs(Corridor):
    def act(self, action):
        time.sleep(600 * (action == "north"))
        return super().act(action)
"""


def says(action):
    return f"<think></think><action>{action}</action>"


def play(env):
    """Episodes that go east, north, east and so on, and the prompts."""
    player = Rollouts(env, PromptOptions("turn"), "train", blind=("goal", "both", "observation"))
    drawn, turns = draw_tasks(player.panel, tasks=3, rollouts=1, seed=1, step=1), Counter()

    def answer(text, row):
        turns[row] += 1
        return says("east" if turns[row] % 2 else "north")

    script = Script(answer)
    return player.play(drawn, script, seed=3), script.prompts


@pytest.mark.long
def test_a_corridor_in_two_processes(corridor, monkeypatch):
    """Episodes, demonstrations, turn rewards and the check of experts, as in this process."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    here = Env("corridor:Corridor", max_turns=4, wrappers={"credit.rewards:ProgressReward": {}})
    there = Env(**{**vars(here), "processes": 2, "step_seconds": 30.0})
    found = [play(env) for env in (here, there)]
    assert repr(found[0]) == repr(found[1])
    shown = []
    for env in (here, there):
        player = Rollouts(env, PromptOptions(), "train")
        drawn = draw_tasks(player.panel, tasks=3, rollouts=1, seed=1, step=1)
        shown.append(attempt_demonstrations(player, drawn, Letters()))
        (world,) = player.list_worlds().values()
        assert not any(info.get("turn_reward") for info in _probe(world))
        find_expert(player, "corridor:Explorer")
    assert repr(shown[0]) == repr(shown[1])
    with pytest.raises(RecipeError, match=r"env\.wrappers credit\.rewards:ProgressReward: "):
        play(Env(**{**vars(there), "wrappers": {"credit.rewards:ProgressReward": {"no": 1}}}))


def test_a_lost_process_costs_one_episode(corridor, tmp_path, monkeypatch):
    (tmp_path / "hangs.py").write_text(HANGS)
    for folder in (Path(__file__).parent, tmp_path):
        monkeypatch.syspath_prepend(str(folder))
    env = Env("hangs:Hangs", max_turns=9, processes=1, step_seconds=0.5)
    player = Rollouts(env, PromptOptions("turn"), "train")
    tasks, turns = [Task(f"corridor/{n + 2}", n, 0) for n in range(2)], Counter()

    def answer(text, row):
        turns[row] += 1
        return says("east" if row or turns[row] == 1 else "north")

    failure, other = player.attempt(tasks, Script(answer), seed=0)
    assert (failure.task_id, failure.turn) == ("corridor/2", 1)
    assert re.match(r"WorkerError: hangs:Hangs, task .*: step .*env\.step_seconds", failure.error)
    assert (other.success, len(other.steps)) == (True, 3)
    assert all(e.success for e in player.play(tasks, Script(lambda *_: says("east")), seed=0))
