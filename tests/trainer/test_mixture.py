"""Several worlds in one run: tasks by weight, groups of one world, results by world."""

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from agent_envs import Panel
from agent_envs.evaluation import draw_panel
from trainer import recipe
from trainer.errors import RecipeError
from trainer.play.environments import make_env
from trainer.play.mixture import MixedPanel, Mixture
from trainer.play.source import draw_tasks
from trainer.run.metrics import WARNINGS
from trainer.run.run_folder import RunFolder
from trainer.train import train

WORLDS = [
    "env.id=mixture",
    "env.mixture.walk.id=corridor:Corridor-v0",
    "env.mixture.walk.weight=2.0",
    "env.mixture.walk.max_turns=3",
    "env.mixture.rooms.id=Bifurcation-v1",
    "env.mixture.rooms.eval_split=test",
    "env.mixture.plain.id=tests.trainer.test_mixture:Parrot",
    'env.mixture.plain.signals={success_reward=1.0, invalid_texts=["what"]}',
    "env.mixture.plain.eval_split=val",
]
BRIEF = [
    *("env.max_turns=4", "run.threads=1", "run.save_every=10", "run.episodes_every=1"),
    *("sampling.tasks=4", "sampling.rollouts=2", "sampling.max_reply_tokens=8"),
    *("sampling.max_tokens=3000", "eval.tasks=8", "eval.split=train", "update.minibatch=0"),
    *("credit.name=gigpo", "update.kl=none"),
]


class Parrot(gym.Env):
    """A plain world without any signal: say hello."""

    action_space = observation_space = spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Say hello.", {}

    def step(self, action):
        right = action == "hello"
        return "hello" if right else "what?", float(right), right, False, {}


def make(*options):
    made = recipe.load("ezpoints grpo", [*WORLDS, *BRIEF, *options])
    return made, make_env(made.env, made.prompt, split=made.env.split)


def test_each_world_is_played_as_it_is_alone(corridor):
    made, mixed = make()
    assert isinstance(mixed, Mixture)
    for name, world in made.env.list_worlds().items():
        alone = make_env(world, made.prompt, split="train")
        task = alone.get_wrapper_attr("panel").task_ids[1]
        replies = [
            "<think></think><action>east</action>",
            "hm",
            "<think></think><action>hello</action>",
        ]
        expected = alone.reset(seed=3, options={"task_id": task})
        found = mixed.reset(seed=3, options={"task_id": f"{name}/{task}"})
        for reply in [*replies, ""]:
            *told, info = expected
            *same, mixed_info = found
            assert same == told
            strata = {"world": name, **info.get("strata", {})}
            assert mixed_info == {**info, "task_id": f"{name}/{task}", "strata": strata}
            if len(told) > 1 and (told[2] or told[3]):
                break
            expected, found = alone.step(reply), mixed.step(reply)


def test_without_a_turn_limit_a_world_has_its_own():
    alone, mixed = make("env.max_turns=0")
    assert mixed.max_turns == 50  # of Signals
    limits = {name: one.unwrapped.max_turns for name, one in mixed.worlds.items()}
    assert limits == {"walk": 3, "rooms": 8, "plain": 50}
    world = recipe.load("ezpoints grpo").env  # it declares None
    made = make_env(world, alone.prompt, split="train")
    assert made.unwrapped.max_turns == gym.make(world.id).unwrapped.max_turns == 8
    _, mixed = make("env.max_turns=4")
    assert {one.unwrapped.max_turns for one in mixed.worlds.values()} == {3, 4}


def test_tasks_are_drawn_by_weight_and_groups_are_of_one_world():
    panels = {"a": Panel("train", ("1", "2")), "b": Panel("test", tuple("xyz"))}
    panel = MixedPanel(panels, {"a": 3.0, "b": 1.0})
    assert panel.task_ids == ("a/1", "a/2", "b/x", "b/y", "b/z")
    drawn = [draw_tasks(panel, tasks=6, rollouts=3, seed=0, step=step) for step in range(200)]
    for tasks in drawn:
        assert len({(task.group, task.task_id, task.seed) for task in tasks}) == 6
        assert [task.task_id[0] for task in tasks].count("a") in {12, 15}  # 4.5 groups of 3
    share = np.mean([task.task_id[0] == "a" for tasks in drawn for task in tasks])
    assert abs(share - 0.75) < 0.02
    part = draw_panel(panel, 2)
    assert [task[0] for task in part.task_ids].count("a") in {1, 2}
    assert part.hash == draw_panel(panel, 2).hash
    assert draw_panel(panel, 0) is panel


@pytest.mark.long
def test_a_run_in_three_worlds_has_its_results_by_world(tmp_path, tiny_folder, corridor):
    history = 'env.mixture.plain.signals={success_reward=1.0, anchor="history"}'
    made, _ = make("run.steps=2", f"policy.model={tiny_folder}", history)
    train(made, tmp_path / "run")
    (warned,) = (tmp_path / "run" / WARNINGS).read_text().splitlines()
    assert "no state of plain is met again but by the same actions" in warned
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["stage"] == "rl"]
    assert all({"success/walk", "success/rooms"} <= step.keys() for step in steps)
    (_, first), (_, last) = RunFolder(tmp_path / "run").read_evaluations()
    assert first.panel_hash == last.panel_hash
    counts = {
        name: len(last.read_measure(f"success/{name}")) for name in ("walk", "rooms", "plain")
    }
    assert counts == {"walk": 4, "rooms": 2, "plain": 2}


REFUSED = [
    (["credit.name=mgr"],
     "with its options plain pays other numbers; set env.options.reward=success"),
    (["credit.name=mt_grpo"], "info.'turn_reward'., but walk reports none"),
    (["sft.steps=1"], "rooms|Signals has no experts"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_does_not_fit_a_world_is_refused_by_its_name(
    options, said, tmp_path, tiny_folder, corridor
):
    made, _ = make("run.steps=1", f"policy.model={tiny_folder}", *options)
    with pytest.raises(ValueError, match=said):
        train(made, tmp_path / "run")


WRONG = [
    (["env.processes=2"], "are tables env.mixture.NAME"),
    (["env.id=EZPoints-v0"], "are tables env.mixture.NAME"),
    (["env.mixture.walk.wieght=2"], "env.mixture.walk.wieght"),
    (["env.mixture.walk.weight=0.0"], "env.mixture.walk.weight"),
    (["env.mixture.rooms.id=Bifurcatoin-v0"], "did you mean 'Bifurcation-v1'"),
]


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_wrong_options_of_a_mixture(options, said, corridor):
    with pytest.raises((RecipeError, ValueError), match=said):
        make(*options)
