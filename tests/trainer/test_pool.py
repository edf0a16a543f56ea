"""Whole groups of episodes in actors of Ray, with a stand-in for vLLM."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from trainer import recipe
from trainer.build import load_pool, make_engine, make_rollouts, make_sampler
from trainer.engine import EngineError
from trainer.errors import RecipeError
from trainer.model.policy import Policy
from trainer.play.failures import EpisodeError
from trainer.play.records import Task
from trainer.play.source import draw_tasks
from trainer.run.checks import check_source
from trainer.scale import parallel
from trainer.scale.pool import divide_tasks
from trainer.train import train

from .conftest import figures, quiet, short, tiny
from .vllms import Standin

THERE = importlib.util.find_spec("ray") is not None
WITH_RAY = [
    pytest.mark.ray,
    pytest.mark.skipif(not THERE, reason="needs Ray in an environment of its own; see .ci/ray"),
]
OWN = """
import os, time
from pathlib import Path

from agent_envs import AgentEnv, Panel, Turn


class Odd(AgentEnv):
    def __init__(self, split="train", max_turns=3):
        super().__init__(Panel("train", tuple(f"odd/{n}" for n in range(6))), max_turns=max_turns)

    def begin(self, task_id):
        here = Path(os.environ["ODD"])
        with (here / "played").open("a") as file:
            file.write(f"{os.getpid()} {task_id}\\n")
        kill = here / "kill"
        if kill.is_file() and task_id in kill.read_text():
            if "once" in kill.read_text():
                kill.unlink()
            os._exit(1)
        fail = here / "fail"
        if fail.is_file() and task_id in (fail.read_text() or task_id):
            raise ValueError("odd")
        self.task = task_id
        return f"Do {task_id}.", Turn("Go on.", anchor=task_id)

    def act(self, action):
        return Turn(f"You said {action!r}.", anchor=action, reward=len(action) / 100)
"""


@pytest.fixture(scope="module")
def policy():
    return tiny()


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    """The current folder of trainer and actors, with an environment of a user's own."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "odd.py").write_text(OWN)
    before = Path.cwd()
    os.chdir(folder)
    os.environ |= {"ODD": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    sys.path.append(str(folder))
    if THERE:
        import ray

        ray.init(num_cpus=3, include_dashboard=False, object_store_memory=100 * 2**20)
    yield folder
    if THERE:
        load_pool.cache_clear()
        ray.shutdown()
    os.chdir(before)
    sys.path.remove(str(folder))


@pytest.fixture
def setting(where, policy, standin, tmp_path):
    """A function: episodes in so many actors, and the processes that played."""
    for name in ("played", "kill", "fail"):
        (where / name).unlink(missing_ok=True)

    def play(actors, *options):
        chosen = recipe.load(
            "alfworld mgr pocket",
            ["env.id=odd:Odd", "env.data=auto", "env.max_turns=3", "engine.name=vllm",
             f'engine.urls=["{standin.url}"]', f"sampling.actors={actors}",
             "sampling.max_reply_tokens=8", "sampling.decode=free", "engine.patience=300.0",
             *options],
        )  # fmt: skip
        engine = make_engine(chosen.engine, policy, tmp_path, version=7)
        player = make_rollouts(chosen, "train", blind=("goal",))
        tasks = draw_tasks(player.panel, tasks=4, rollouts=2, seed=1, step=1)
        try:
            return player.play(tasks, make_sampler(chosen, engine, policy, 1.0), 5, first=3)
        finally:
            engine.close()

    def players():
        return {line.split()[0] for line in (where / "played").read_text().splitlines()}

    play.players = players
    yield play
    (where / "kill").unlink(missing_ok=True)  # this process, too, would play what it names


def group(number, size):
    return [Task(f"t{number}", number, 0)] * size


def test_groups_are_not_divided():
    tasks = [*group(0, 4), *group(1, 4), *group(2, 4)]
    # 12 tasks: groups begin at 0, 4 and 8; with two parts those before 6 are the first
    assert [(part.first, len(part.tasks)) for part in divide_tasks(tasks, 2)] == [(0, 8), (8, 4)]
    assert [part.first for part in divide_tasks(tasks, 8)] == [0, 4, 8]
    assert [part.tasks for part in divide_tasks(tasks, 1)] == [tasks]


ACTORS = "sampling.actors=2"
VLLM = ("engine.name=vllm", 'engine.urls=["http://a:1"]')


@pytest.mark.parametrize(
    ("processes", "words", "options", "message"),
    [
        (2, "alfworld mgr", [ACTORS, *VLLM], "sample for one process, and there are 2;"),
        (1, "alfworld mgr", [ACTORS], r"=2 needs servers .* engine\.urls, or"),
        (1, "sotopia grpo", [ACTORS, "partner.model=mine"], "partner.model=.* sampling.actors=0"),
        (1, "sotopia grpo", ["env.processes=2", "partner.model=mine"],
         "partner.model=.* set env.processes=0"),
        (1, "alfworld mgr", ["env.step_seconds=2.0"], "^env: step_seconds=2.0 is not read with"),
        pytest.param(
            1, "alfworld mgr", [ACTORS, *VLLM],
            r"pip install 'agent-envs\[ray\]'", marks=pytest.mark.skipif(THERE, reason="it is"),
        ),
    ],
)  # fmt: skip
def test_what_actors_and_worker_processes_need(monkeypatch, processes, words, options, message):
    monkeypatch.setattr(parallel, "size", lambda: processes)

    def begin():
        loaded = recipe.load(words, options)
        check_source(loaded)
        make_rollouts(loaded, "train")

    with pytest.raises((RecipeError, ImportError), match=message):
        begin()


class TestRay:
    pytestmark = WITH_RAY

    def test_actors_play_the_same_episodes(self, setting):
        here, there = setting(0), setting(2)
        assert there == here
        assert {step.version for episode in there for step in episode.steps} == {7}
        assert len(setting.players()) == 3  # this one and two actors

    def test_what_a_dead_actor_was_playing_is_played_by_another(self, setting, where):
        expected = setting(0)
        (where / "kill").write_text(f"once {expected[-1].task_id}")
        assert setting(2) == expected
        assert not (where / "kill").is_file()
        before = setting.players()
        assert setting(2) == expected
        assert len(setting.players() - before) == 1  # in place of the dead one

    def test_an_environment_that_kills_or_fails_and_a_cluster_without_room(self, setting, where):
        task = setting(0)[0].task_id
        failed = r"^task 'odd/\d' \(seed \d+, turn 0\): ValueError: odd \(.*odd\.py:23"
        full = r"no actor started within 3 s .* free cores for sampling\.actors=1 of 4; start"
        for file, words, actors, options, error, message in (
            ("kill", task, 2, (), EngineError, r"all actors of Ray died.*--resume"),
            ("fail", "", 0, (), EpisodeError, failed),
            ("fail", "", 2, (), EpisodeError, failed),
            ("none", "", 1, ("env.processes=4", "engine.patience=3.0"), EngineError, full),
        ):
            (where / file).write_text(words)
            with pytest.raises(error, match=message):
                setting(actors, *options)
            (where / file).unlink()
        assert setting(1) == setting(0)

    def test_a_run_goes_on_without_what_failed(self, tiny_folder, tmp_path, where):
        (where / "fail").write_text("odd/2 odd/4")
        standin = Standin(Policy.load(str(tiny_folder)))
        options = ["env.id=odd:Odd", "env.max_turns=3", "sampling.decode=free", "run.steps=2",
                   "sft.steps=0", "engine.name=vllm",
                   f'engine.urls=["{standin.url}"]', "sampling.failures=0.9"]  # fmt: skip
        for actors in (0, 2):
            loaded = short(tiny_folder, *options, f"sampling.actors={actors}")
            train(loaded, tmp_path / str(actors), console=quiet())
        assert figures(tmp_path / "0") == figures(tmp_path / "2")
        here, there = ({path.name for path in (tmp_path / actors).glob("failures/*")}
                       for actors in ("0", "2"))  # fmt: skip
        assert here == there != set()
        standin.close()
