"""Measurements of small worlds, from the recipe to the files."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest
import torch

from agent_envs.cli import figures
from agent_envs_lab.truth import Truth
from agent_envs_lab.truth import player as players
from agent_envs_lab.truth import run as measuring
from agent_envs_lab.truth.figures import publish
from agent_envs_lab.truth.player import SKETCH, KilledError, Player, Players
from agent_envs_lab.truth.run import Plan, TruthError, measure
from agent_envs_lab.truth.states import states
from agent_envs_lab.truth.tree import NotReproducible, Tree
from trainer import recipe
from trainer.build import load_policy
from trainer.engine import Begun
from trainer.errors import RecipeError
from trainer.learn.batch import collate
from trainer.learn.rows import make_rows
from trainer.learn.update import token_logprobs
from trainer.play import episode_files as recorded
from trainer.play.records import Task
from trainer.play.rollout import Start
from trainer.run import report
from trainer.run.metrics import MetricsError

PLAN = Plan(groups=4, reliability=0.7, most=40, fresh=20)
CHOOSES = "sampling.decode=admissible", "sampling.temperature=2.0"
LIFTED = 'env.signals={success_reward=1.0, admissible="words"}'
WAYS = pytest.mark.parametrize(
    "way", [("Sums",), ("Choices", *CHOOSES), ("Plain", *CHOOSES, LIFTED, "eval.split=test")]
)
"""Replies of any kind, only admissible actions, and a lifted world."""


@pytest.mark.long
@WAYS
def test_a_truth_adds_up_and_agrees_with_fresh_rollouts(small, tmp_path, way):
    result = measure(small(*way), tmp_path, PLAN, jobs=1)
    truth, about = result.truth, result.truth.about
    assert about["reliability"] >= 0.7
    assert about["states"] < about["turns"] + 4  # some conversations are shared
    starts = truth.value_before[truth.turns.position == 0]
    total = np.bincount(truth.turns.trajectory, truth.advantage)
    np.testing.assert_allclose(total, truth.turns.outcome - starts, atol=1e-9)
    assert abs(about["V(s0) minus fresh rollouts"]) < 4 * about["standard error of it"]
    assert about["fresh rollouts"] == 80
    assert 0 < about["turns played for each turn"] <= 45
    saved = Truth.load(tmp_path / "truth.parquet")
    np.testing.assert_array_equal(saved.advantage, truth.advantage)
    assert dict(saved.about) == json.loads((tmp_path / "truth.json").read_text())
    assert recorded.read_episodes(tmp_path / "episodes.parquet") == result.episodes


@pytest.mark.long
@WAYS
def test_values_are_those_of_many_rollouts(small, tmp_path, way):
    """States in the middle of episodes, against rollouts that the tree has no part in."""
    given = small(*way)
    result = measure(given, tmp_path, Plan(4, 0.975, 400, 0), jobs=1)
    player = Player(given, None)
    task = Task(result.episodes[0].task_id, 0, result.episodes[0].seed)
    tree = Tree(result.episodes[:6])
    actors = states(player.rollouts, player.sampler.policy, task, tree)
    apart, noise = [], []
    for at, node in enumerate(tree.nodes):
        if node.outcome is None and node.turn < 3:
            played = player.rollouts.attempt_from([Start(actors[at])] * 150, player.sampler, at)
            outcomes = [episode.outcome for episode in played]
            assert all(e.steps[: node.turn] == actors[at].episode.steps for e in played)
            row = tree.paths[node.episode].index(at) if at in tree.paths[node.episode] else None
            value = result.truth.value_before[3 * node.episode + row]
            apart.append(value - np.mean(outcomes))
            own = result.truth.error[3 * node.episode + row]  # of the advantage, so a little more
            noise.append(np.var(outcomes) / 150 + own**2)
    assert len(apart) > 5
    assert np.mean(np.array(apart) ** 2) < 2.5 * np.mean(noise)
    assert abs(np.mean(apart)) < 0.05


@pytest.mark.long
def test_a_stopped_measurement_goes_on_to_the_same_result(small, tmp_path, monkeypatch):
    whole = measure(small(), tmp_path / "whole", PLAN, jobs=1)
    written = []

    def stopping(path, line):
        written.append(line)
        if len(written) == 6:
            raise KeyboardInterrupt
        with path.open("a") as file:
            file.write(line + "\n")

    monkeypatch.setattr(measuring, "append_line", stopping)
    with pytest.raises(KeyboardInterrupt):
        measure(small(), tmp_path / "cut", PLAN, jobs=1)
    monkeypatch.undo()
    with (tmp_path / "cut" / "draws.jsonl").open("a") as file:
        file.write('{"of": "round 1", "gro')  # as a kill leaves it
    resumed = measure(small(), tmp_path / "cut", PLAN, jobs=1)
    for name in ("advantage", "first", "second", "error"):
        np.testing.assert_array_equal(getattr(resumed.truth, name), getattr(whole.truth, name))
    lines = (tmp_path / "cut" / "draws.jsonl").read_text()
    assert lines == (tmp_path / "whole" / "draws.jsonl").read_text()


@pytest.mark.long
def test_kept_draws_are_weighted_by_what_was_expected_of_them(small, tmp_path, monkeypatch):
    """A later version may plan otherwise."""
    before = measure(small(), tmp_path, PLAN, jobs=1).truth
    planned = measuring.draws.plan_pilot
    monkeypatch.setattr(
        measuring.draws, "plan_pilot", lambda *args: [3 * one + 1 for one in planned(*args)]
    )
    after = measure(small(), tmp_path, PLAN, jobs=1).truth
    np.testing.assert_array_equal(after.advantage, before.advantage)
    np.testing.assert_array_equal(after.error, before.error)


def test_both_contexts_go_on_from_copies_as_the_rollouts_did(small):
    for context in ("history", "turn"):
        given = small("Sums", f"prompt.context={context}")
        player = Player(given, None)
        task = Task("sum/2", 0, 0)
        episodes = player.play([task] * 4, "batch")
        tree = Tree(episodes)
        actors = states(player.rollouts, player.sampler.policy, task, tree)
        for number, path in enumerate(tree.paths):
            for turn, at in enumerate(path[:-1]):
                last = tuple(episodes[number].steps[turn].reply_ids)
                if turn + 1 < len(path) - 1 or len(last) < 2:
                    continue
                begun = Begun(last[:-1], ())
                (played,) = player.rollouts.attempt_from(
                    [Start(actors[at], begun)], player.sampler, 3
                )
                assert played.steps[:turn] == episodes[number].steps[:turn]
                assert played.steps[turn].prompt_ids == episodes[number].steps[turn].prompt_ids
                assert played.steps[turn].reply_ids[:-1] == list(last[:-1])


def test_a_copy_that_does_not_continue_alike_is_refused_with_the_first_difference(small, tmp_path):
    with pytest.raises(
        NotReproducible, match=r"sum/\d'.* (copy|rollouts) .*(anchor|observation) was"
    ):
        measure(small("Shared"), tmp_path, PLAN, jobs=1)


@pytest.mark.parametrize(
    ("world", "told", "plain"),
    [
        ("Opening", "the first observation was .*Once more.'", False),
        ("Opening", "the first observation was .*Once more.'", True),
        ("HiddenStart", "the first admissible actions was", False),
        ("HiddenStart", "the first admissible actions was", True),
        ("Hidden", "the next admissible actions was", False),
    ],
)
def test_a_state_that_is_hidden_in_the_class_is_refused_from_the_start_on(  # noqa: PLR0917
    small, tmp_path, worlds, monkeypatch, world, told, plain
):
    """Constrained decoding draws among the actions offered, so another list is another policy."""
    monkeypatch.setattr(getattr(worlds, world), "begun", 0)
    decode = "free" if world == "Opening" else "admissible"
    plan = Plan(groups=2, reliability=0.7, most=40, fresh=0, plain=plain)
    options = (world, f"sampling.decode={decode}", "sampling.temperature=2.0")
    with pytest.raises(NotReproducible, match=rf"(?s)sum/\d'.*{told}.*outside the environment"):
        measure(small(*options), tmp_path, plan, jobs=1)
    assert not (tmp_path / "truth.parquet").exists()


def test_a_world_that_changes_after_the_last_copies_is_refused(
    small, tmp_path, worlds, monkeypatch
):
    """Rollouts and copies agree in every round; then the class changes."""
    plan = Plan(groups=4, reliability=0.1, most=4, fresh=1)
    fresh = Player.fresh

    def changing(self, task, count):
        monkeypatch.setattr(worlds.Late, "late", True)
        return fresh(self, task, count)

    monkeypatch.setattr(Player, "fresh", changing)
    with pytest.raises(NotReproducible, match=r"outside the environment \(attributes of a class"):
        measure(small("Late"), tmp_path, plan, jobs=1)
    assert not (tmp_path / "truth.parquet").exists()


@pytest.mark.long
def test_a_world_that_draws_at_random_is_refused_and_measured_with_plain(small, tmp_path):
    with pytest.raises(NotReproducible, match=r"drew from its np_random in turn 0.*--plain"):
        measure(small("Dice"), tmp_path / "tree", PLAN, jobs=1)
    plan = Plan(groups=4, reliability=0.7, most=60, fresh=0, plain=True)
    result = measure(small("Dice"), tmp_path / "plain", plan, jobs=1)
    truth = result.truth
    # The last die decides, so every state before it is worth one half, whatever was said.
    inner = truth.value_after[~truth.turns.last]
    assert np.abs(inner - 0.5).mean() < 0.2
    assert abs(inner.mean() - 0.5) < 0.05


def test_a_damaged_line_is_named(small, tmp_path):
    plan = Plan(groups=2, reliability=0.1, most=4, fresh=0)
    measure(small(), tmp_path, plan, jobs=1)
    lines = (tmp_path / "draws.jsonl").read_text()
    (tmp_path / "draws.jsonl").write_text("{" + lines)
    with pytest.raises(MetricsError, match=r"draws\.jsonl line 1 is not a line of a log"):
        measure(small(), tmp_path, plan, jobs=1)
    first = json.loads(lines.partition("\n")[0])
    for change in (
        {"draws": [1]},
        {"draws": [[0, 0, float("nan"), 1]]},
        {"expected": None},
        {"expected": [[1.0]]},
        {"of": "fresh", "draws": ["a"]},
    ):
        (tmp_path / "draws.jsonl").write_text(json.dumps(first | change) + "\n")
        with pytest.raises(MetricsError, match=r"draws\.jsonl line 1 is not a line of a log"):
            measure(small(), tmp_path, plan, jobs=1)


def test_damaged_files_of_a_measurement_are_named(small, tmp_path):
    plan = Plan(groups=2, reliability=0.1, most=4, fresh=0, gradients=True)
    measure(small(), tmp_path, plan, jobs=1)
    episodes = recorded.read_episodes(tmp_path / "episodes.parquet")
    for name, content in (
        ("plan.json", b"["),
        ("plan.json", b"\xff"),
        ("gradients.npy", b"hello"),
        ("episodes.parquet", b""),
    ):
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name}.*(restore|delete)"):
            measure(small(), tmp_path, plan, jobs=1)
        (tmp_path / name).write_bytes(before)
    np.save(tmp_path / "gradients.npy", np.zeros((1, 3)))
    with pytest.raises(TruthError, match=r"gradients\.npy does not fit"):
        measure(small(), tmp_path, plan, jobs=1)
    recorded.write_episodes(tmp_path / "episodes.parquet", episodes[1:])
    with pytest.raises(TruthError, match=r"episodes\.parquet has the rollouts of another"):
        measure(small(), tmp_path, plan, jobs=1)


@pytest.mark.long
def test_the_number_of_processes_does_not_matter(tiny_folder, tmp_path):
    """Processes of their own import only what is installed, so the world is one that ships."""
    given = recipe.load(
        "ezpoints gigpo pocket",
        [f"policy.model={tiny_folder}", "sampling.max_reply_tokens=4", "sampling.rollouts=4",
         "run.threads=1"],
    )  # fmt: skip
    plan = Plan(groups=4, reliability=0.5, most=4, fresh=2)
    for jobs in (1, 2):
        measure(given, tmp_path / str(jobs), plan, jobs=jobs)
    for name in ("draws.jsonl", "episodes.parquet", "truth.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.long
def test_a_process_ends_when_the_one_that_started_it_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\n"
        "from multiprocessing import get_context\n"
        "from agent_envs_lab.truth.player import end_with_parent\n"
        "def work():\n"
        "    end_with_parent()\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    get_context('spawn').Process(target=work).start()\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout.readline() == "ready\n"
        started.kill()
        assert started.stdout.read() == ""  # returns when the last process that holds it is gone


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_policy_that_cannot_be_loaded_is_no_killed_process(small, tmp_path, jobs):
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        measure(small("Sums", f"policy.model={tmp_path}/nowhere"), tmp_path, PLAN, jobs=jobs)


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_said_in_words(small, monkeypatch):
    monkeypatch.setattr(players, "_call", die)
    with Players(small(), None, 1, plain=False) as playing:
        playing._pool = ProcessPoolExecutor(1, get_context("fork"))
        with pytest.raises(KilledError, match=r"sampling\.rows or --jobs .*goes on"):
            list(playing.each("check", [()]))


@pytest.mark.parametrize(
    ("option", "told"),
    [("sampling.actors=1", "sampling.actors=1"), ("env.processes=2", "env.processes=2")],
)
def test_recipes_that_cannot_be_measured_are_refused(small, tmp_path, option, told):
    with pytest.raises(RecipeError, match=told):
        measure(small("Sums", option), tmp_path, PLAN, jobs=1)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options", [{"reliability": 1.0}, {"reliability": float("nan")}, {"most": 1}]
)
def test_plans_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=f"--{next(iter(options))}"):
        Plan(**options)


@pytest.mark.long
def test_the_ranking_and_the_figures_are_written_and_the_runs_report_shows_them(small, tmp_path):
    folder = tmp_path / "truth"
    result = measure(small(), folder, Plan(4, 0.7, 30, 0), jobs=1)
    said = publish(result, folder)
    assert "perfect critic" in said
    assert said.startswith((folder / "ranking.txt").read_text().rstrip())
    recipe.save(small(), tmp_path / "config.toml")
    page, _ = report.render(tmp_path)
    for name, told in (("ranking", "perfect critic"), ("episode", "true advantage")):
        drawn = (folder / f"{name}.svg").read_text()
        assert told in drawn
        assert figures.embed(drawn) in page
    assert f"{len(result.truth.turns)} turns of 4 tasks" in page


def test_nothing_is_ranked_where_no_turn_matters(small, tmp_path):
    result = measure(small("Dull"), tmp_path, Plan(2, 0.7, 8, 0), jobs=1)
    assert not result.truth.advantage.any()
    assert "no method can be ranked" in publish(result, tmp_path)
    assert not (tmp_path / "ranking.txt").exists()


@pytest.mark.long
def test_gradients_are_added_to_a_finished_measurement(small, tmp_path, monkeypatch):
    given = small()
    before = measure(given, tmp_path, PLAN, jobs=1).truth
    assert before.gradient is None
    monkeypatch.setattr(Player, "play", None)
    monkeypatch.setattr(Player, "draw", None)
    after = measure(given, tmp_path, replace(PLAN, gradients=True), jobs=1).truth
    np.testing.assert_array_equal(after.advantage, before.advantage)
    assert after.gradient.shape == (len(before.turns), SKETCH)
    monkeypatch.setattr(Player, "gradients", None)  # they are kept
    measure(given, tmp_path, replace(PLAN, gradients=True), jobs=1)
    saved = Truth.load(tmp_path / "truth.parquet").gradient
    unit = np.abs(after.gradient).max()
    np.testing.assert_allclose(saved * unit, after.gradient, atol=1e-3 * unit)


@pytest.mark.long
@pytest.mark.parametrize("context", ["history", "turn"])
def test_sketches_keep_inner_products_of_gradients(small, context):
    given = small("Sums", f"prompt.context={context}")
    player = Player(given, None)
    episodes = player.play([Task("sum/2", 0, 0)] * 8, "batch")
    sketch = player.gradients(episodes)
    policy = load_policy(given.policy)
    exact = []
    for row in (one for episode in episodes for one in make_rows([episode])):
        with policy.training():
            found = token_logprobs(policy, collate([row]), temperature=0.4)
            for turn in sorted(set(row.turn)):
                own = found[torch.tensor(row.turn) == turn].sum()
                grads = torch.autograd.grad(own, policy.parameters(), retain_graph=True)
                exact.append(torch.cat([one.flatten() for one in grads]).numpy())
    exact = np.array(exact)
    assert len(exact) == len(sketch)
    lengths, of_sketch = (exact**2).sum(1), (sketch**2).sum(1)
    assert of_sketch.sum() == pytest.approx(lengths.sum(), rel=0.3)
    assert np.corrcoef(lengths, of_sketch)[0, 1] > 0.7
    inner, kept = exact @ exact.T, sketch @ sketch.T
    assert np.corrcoef(inner.ravel(), kept.ravel())[0, 1] > 0.9
    np.testing.assert_array_equal(player.gradients(episodes), sketch)
