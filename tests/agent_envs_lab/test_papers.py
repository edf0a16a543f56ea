"""Tables of papers: every cell composed against its source, and results of runs as they are."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from rich.console import Console

from agent_envs import evaluation as evaluations
from agent_envs.imports import find_creator
from agent_envs.testing import check_agent_env
from agent_envs_lab import papers
from agent_envs_lab.papers import figures, plans, results, runs
from agent_envs_lab.papers.results import Result
from tests.trainer.run_folders import evaluation
from trainer import recipe, recipes
from trainer.errors import Problems, RecipeError
from trainer.play.prompted import load_player
from trainer.run.checks import RunError
from trainer.run.metrics import MetricsError, read_log
from trainer.run.needs import estimate_needs
from trainer.run.session import Session
from trainer.run.stopping import Stop

ROOT = Path(__file__).parents[2]

NAMES = recipes.names("paper")
NAMED = {("env", "id"), ("credit", "name"), ("credit", "model")}
"""What the words of a recipe say."""
TEXTS = {name: "has_turnrd" if name == "has" else name for name in NAMES}


@cache
def tables(paper: str, *, pocket: bool = False) -> list[papers.Table]:
    return [papers.read_table(paper, name, pocket=pocket) for name in papers.list_tables(paper)]


@pytest.mark.parametrize("pocket", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("paper", NAMES)
def test_every_cell_is_a_recipe_with_sources_and_a_folder_has_one(paper, pocket):
    known = {}
    for table in tables(paper, pocket=pocket):
        for run in table.runs:
            made = recipe.load(run.recipe)
            assert known.setdefault(run.name, made) == made, (table.name, run.name)
            assert pocket == made.policy.model.startswith("pocket"), run.name
            for key, setting in run.recipe.settings.items():  # from a file or the table's own row
                own = setting.file.startswith(f"{paper} ")
                known_so = setting.source or own or key in NAMED
                assert known_so or pocket, (table.name, run.name, key)
    assert len(known) >= 4


@pytest.mark.parametrize("paper", NAMES)
def test_no_two_runs_of_a_table_are_the_same(paper):
    """An ablation of what a small run lacks would compare it with itself."""
    for table in [*tables(paper), *tables(paper, pocket=True)]:
        found = {}
        for run in table.runs:
            made = runs.load_recipe(run, 0)
            method = replace(made.credit, model=made.credit.beside)
            key = repr(replace(made, name="same", about="", credit=method))
            assert found.setdefault(key, run.name) == run.name


@pytest.mark.long
@pytest.mark.parametrize("paper", NAMES)
def test_a_pocket_run_has_the_phases_of_the_papers_run(paper):
    """What the paper does not train, an untrained model or a warm start alone, is not trained."""
    for table, small in zip(tables(paper), tables(paper, pocket=True), strict=True):
        cells = zip(chain(*table.cells), chain(*small.cells), strict=True)
        for cell, one in ((a, b) for a, b in cells if a.run and b.run):
            steps, few = (runs.load_recipe(each.run, 0).run.steps for each in (cell, one))
            assert (steps > 0) == (few > 0), f"{table.name} {cell.row.label}"


@pytest.mark.long
@pytest.mark.parametrize("paper", NAMES)
def test_every_pocket_run_is_ready_for_its_first_step(paper, tmp_path):
    known = {run.name: run for table in tables(paper, pocket=True) for run in table.runs}
    for name, run in known.items():
        try:
            Session(runs.load_recipe(run, 0), tmp_path, Stop(), Problems())
        except (ValueError, OSError) as error:
            pytest.fail(f"{name}: {error}")


@pytest.mark.parametrize("paper", NAMES)
def test_what_is_published_is_printed_in_the_paper(paper, texts):
    said = texts(TEXTS[paper])
    known = set(re.findall(r"\d+(?:\.\d+)?", said))
    for table in tables(paper):
        for row in table.spec.rows:
            for cell in row.published:
                for number in re.findall(r"\d+(?:\.\d+)?", cell):
                    assert number in known, (table.name, row.label, cell)


@pytest.fixture
def texts(shared_data):
    def read(name: str) -> str:
        path = shared_data.parent / "papers" / f"{name}.txt"
        if not path.is_file():
            pytest.skip("needs the texts of the papers beside the test data")
        return path.read_text(encoding="utf-8")

    return read


CELLS = [
    ("istar", "table1", "GiGPO", "WebShop success",
     ("run.steps=200 sampling.tasks=16 update.kl=none update.learning_rate=5e-7 "
      "policy.model=Qwen/Qwen2.5-7B-Instruct credit.name=gigpo")),
    ("istar", "table1", "PPO", "WebShop score", "sampling.tasks=128 sampling.rollouts=1"),
    ("istar", "table1", "RLOO with iStar", "VisualSokoban success",
     "credit.options.base=rloo policy.model=Qwen/Qwen2.5-VL-7B-Instruct sampling.tasks=32"),
    ("istar", "table2", "GRPO", "self-chat, all", "run.steps=800 sampling.temperature=0.7"),
    ("mgr", "table1", "MGR", "AppWorld easy",
     ("credit.model=critic sampling.rollouts=6 sampling.tasks=40 "
      "update.learning_rate=5e-7 update.kl=none env.max_turns=35")),
    ("mgr", "table1", "GiGPO", "AlfWorld L2",
     "update.learning_rate=5e-7 update.kl=none env.invalid_penalty=0.0 prompt.context=history"),
    ("has", "table2", "HAS with TurnRD and FiLM", "success",
     ("credit.models.turnrd.goal=true env.games=1000 env.max_turns=40 "
      "policy.lora.rank=32 sampling.tasks=80 eval.select=best")),
    ("mt_grpo", "table1", "GRPO-MR", "exact match (0–1)",
     ("env.options.reward=merged sampling.rollouts=21 update.epochs=2 "
      "update.aggregate=sequence-mean")),
    ("stapo", "table1", "STAPO", "WebShop success",
     ("run.steps=300 sampling.tasks=8 credit.options.lam=1.5 update.minibatch=64 "
      "credit.options.alpha=0.01 update.kl_coefficient=0.01")),
    ("mgr", "table1", "Loop", "AppWorld difficult",  # A.5: 24 scenarios of the easier two kinds
     ("env.id=AppWorld-v0 env.split=train_easy env.options.validity=marks credit.name=loop "
      "sampling.max_reply_tokens=2048 update.learning_rate=5e-7")),
    ("istar", "table1", "PPO", "WebShop success",
     "env.invalid_penalty=-0.1 sampling.rollouts=1 update.learning_rate=5e-7 run.steps=200"),
    ("istar", "table1", "GRPO", "VisualSokoban success",
     "credit.options.row_penalty=0.1 sampling.tasks=32 sampling.max_reply_tokens=512"),
    ("istar", "table2", "GRPO with iStar", "self-chat, hard",
     ("credit.models.prm.threshold=0.6 credit.options.alpha=1.0 run.steps=800 "
      "sampling.max_reply_tokens=2048 eval.split=all")),
    ("has", "table1", "flatGRPO (α = 1)", "success",  # Tables 4 and 5
     ("credit.options.alpha=1.0 env.max_turns=15 update.learning_rate=5e-6 update.kl_target=0.04 "
      "update.clip_low=0.2 sampling.rollouts=8 sampling.temperature=1.0 eval.tasks=100 "
      "eval.temperature=0.0 run.steps=10")),
    ("has", "table1", "HAS with TurnRD", "success",
     ("credit.options.alpha=0.5 credit.models.turnrd.loss.value=0.5 credit.models.turnrd.layers=2 "
      "credit.models.turnrd.heads=4 credit.models.turnrd.hidden=128 "
      "credit.models.turnrd.learning_rate=5e-4 credit.models.turnrd.epochs=5 "
      "credit.models.turnrd.half_life=4")),
    ("stapo", "table1", "GiGPO", "AlfWorld All",
     ("sampling.tasks=16 sampling.rollouts=8 update.minibatch=256 update.learning_rate=1e-6 "
      "eval.temperature=0.4 env.max_turns=50 credit.options.row_penalty=0.1 "
      "sampling.max_reply_tokens=512 credit.options.omega=1.0")),
    ("stapo", "table2", "STAPO", "NQ",
     ("sampling.tasks=256 sampling.rollouts=5 update.minibatch=512 update.learning_rate=1e-6 "
      "eval.temperature=0.0 env.max_turns=4 credit.options.row_penalty=0.01 "
      "credit.options.alpha=0.001 credit.options.threshold=0.9 credit.options.anchors=similar")),
]  # fmt: skip


@pytest.mark.parametrize(("paper", "name", "row", "column", "numbers"), CELLS)
def test_cells_as_the_papers_print_their_settings(paper, name, row, column, numbers):
    table = papers.read_table(paper, name)
    place = list(table.spec.columns).index(column)
    label = [one.label for one in table.spec.rows].index(row)
    run = table.cells[label][place].run
    assert run is not None
    made = recipe.load(run.recipe)
    assert recipe.changes(made, recipe.load(run.recipe, numbers.split())) == {}


OWN = """
environment = "alfworld"
model = "pocket"
[run]
steps = 2
[sft]
steps = 0
[tables.one]
about = "Two methods."
seeds = 2
curves = ["valid", "eval.success"]
[tables.one.columns]
"success" = {measure = "success", scale = 100}
"score" = {measure = "score"}
"valid" = {measure = "log.valid"}
"goal" = {measure = "success/look"}
[[tables.one.rows]]
label = "GRPO & co"
method = "grpo"
published = ["<b>50</b>", "1", "-", ""]
[[tables.one.rows]]
group = "ours"
label = "MGR"
method = "mgr"
set = {"credit.options.beta" = 0.2}
[[tables.one.rows]]
label = "GPT"
player = "gpt"
[[tables.one.rows]]
label = "closed"
why = "its code is not public"
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN)
    return papers.read_table(str(path), "one")


def show(content) -> str:
    console = Console(file=io.StringIO(), width=600)
    console.print(content)
    return console.file.getvalue()


def leave_run(folder, made, solved, *, valid=0.9):
    """A finished run of two steps whose evaluations solved so many of 60 tasks."""
    recipe.save(made, folder / "config.toml")
    lines = [{"step": n, "stage": "rl", "success": 0.5, "episodes": 8, "valid": valid, "seconds": 1}
             for n in (1, 2)]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for step, count in enumerate(solved):
        evaluation(count).save(folder / "eval" / f"step_{step}.json")


@pytest.fixture
def out(own, tmp_path):
    """The runs of GRPO with two seeds, of MGR with one that stopped and one that was not run."""
    grpo, mgr = own.runs
    for seed, solved in enumerate(((6, 40, 30), (6, 20, 36))):
        made = runs.load_recipe(grpo, seed)
        leave_run(runs.find_folder(tmp_path, grpo, seed), made, solved)
    leave_run(runs.find_folder(tmp_path, mgr, 0), runs.load_recipe(mgr, 0), (6, 9))
    (runs.find_folder(tmp_path, mgr, 0) / "log.txt").write_text("step 2\nout of memory\n\n")
    return tmp_path


def test_a_cell_has_the_last_evaluation_of_each_seed_and_says_what_it_lacks(own, out):
    (grpo, mgr, gpt, closed) = results.collect(own, out, 2)
    assert grpo[0].values == [50.0, 60.0]  # 30 and 36 of 60
    assert grpo[0].low < 50
    assert grpo[0].high > 60
    assert grpo[0].tasks == 60
    assert grpo[0].shown.startswith("55 ± 7.1 [")
    lacking = (
        "no measure 'score', did you mean 'success'?; there are success, return, turns, origins"
    )
    assert grpo[1].why == lacking
    assert grpo[2].why == ""  # the paper leaves it empty
    assert grpo[3].why.startswith("no task of stratum 'look' has 'success'; strata are pick_and")
    assert (
        mgr[0].why == "at step 2 of 2, running or stopped: out of memory "
        f"(see {out}/alfworld-mgr-beta=0.2/seed_0/log.txt)"
    )
    assert [one[0].why for one in (gpt, closed)] == ["prompted: gpt", "its code is not public"]
    assert [one.values for one in mgr] == [[]] * 4


def test_a_saved_evaluation_of_a_prompted_model_fills_its_row(own, out):
    command = f"agent-envs eval gpt --endpoint URL --recipe 'alfworld grpo {out}/mine.toml'"
    plan = show(plans.show_plan(own, out, 2))
    assert f"prompted: {command} --out {out}/players/gpt/alfworld.json\n" in plan
    given = ["data=/games", "update.epochs=2"]
    told = papers.read_table(str(out / "mine.toml"), "one", given)
    asked = runs.write_command(told.cells[2][0], out)
    assert " --recipe" in asked
    assert " env.data=/games " in asked
    assert "epochs" not in asked
    evaluation(30).save(out / "players" / "gpt" / "alfworld.json")
    gpt = results.collect(own, out, 2)[2]
    assert gpt[0].values == [50.0]  # 30 of 60, in %
    assert gpt[1].why.startswith("no measure 'score'")
    assert own.cells[3][0].prompted is None


def test_the_commands_of_prompted_models_can_be_read_and_a_file_has_one():
    known, forms = {}, set()
    for paper in NAMES:
        cells = [cell for table in tables(paper) for row in table.cells for cell in row]
        for row, *_, made in (cell for cell in cells if cell.prompted):
            assert known.setdefault((paper, made.file), made.command) == made.command
            options = [word for word in made.command[2:] if "=" in word and " " not in word]
            words = made.command[made.command.index("--recipe") + 1]
            player = load_player(row.player, "http://127.0.0.1:9", row.form, words, options)
            assert player.endpoint.model == made.command[1] == row.player
            forms.add(player.form)
    assert forms == {"", "react", "reflexion"}
    small = chain(*(row for table in tables("istar", pocket=True) for row in table.cells))
    assert all(cell.prompted is None for cell in small)


def test_a_logged_value_is_the_mean_of_the_last_steps(own, out):
    (cell,) = [cell for cell in own.cells[1] if cell.column.measure == "log.valid"]
    folder = runs.find_folder(out, cell.run, 0)
    lines = [{"step": n, "stage": "rl", "valid": float(n)} for n in range(1, 31)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = runs.load_recipe(cell.run, 0)
    made = replace(made, run=replace(made.run, steps=30))
    values, panel = results.read_value(cell, folder, made)
    assert (values.tolist(), panel) == ([25.5], "")  # 21 to 30
    last = cell._replace(column=cell.column.model_copy(update={"window": 1}))
    assert results.read_value(last, folder, made)[0].tolist() == [30.0]
    column = cell.column.model_copy(update={"measure": "log.vald"})
    with pytest.raises(KeyError, match="the run logged no 'vald', did you mean 'valid'"):
        results.read_value(cell._replace(column=column), folder, made)
    less = replace(made, run=replace(made.run, steps=12))  # the run went on
    assert results.read_value(last, folder, less)[0].tolist() == [12.0]


def test_the_best_evaluation_counts_where_the_paper_says_so(own, out):
    folder = runs.find_folder(out, own.runs[0], 0)
    made = runs.load_recipe(own.runs[0], 0)
    assert sum(results.select_evaluation(folder, made).success) == 30
    less = replace(made, run=replace(made.run, steps=1))  # the run went on
    assert sum(results.select_evaluation(folder, less).success) == 40
    best = replace(made, eval=replace(made.eval, select="best"))
    assert sum(results.select_evaluation(folder, best).success) == 40
    leave_run(folder, best, (50, 20, 30))  # training made it worse than its start
    assert sum(results.select_evaluation(folder, best).success) == 30
    warm = replace(best, sft=replace(best.sft, steps=1), run=replace(best.run, steps=1))
    leave_run(folder, warm, (20, 50, 30))
    assert sum(results.select_evaluation(folder, warm).success) == 30
    alone = replace(warm, run=replace(warm.run, steps=0))
    assert sum(results.select_evaluation(folder, alone).success) == 50


def test_a_folder_of_other_settings_is_refused_with_what_differs(own, out):
    changed = papers.read_table(str(out / "mine.toml"), "one", ["update.epochs=3"])
    with pytest.raises(RunError, match=r"grpo/seed_0 holds a run with another update\.epochs"):
        results.collect(changed, out, 2)


def test_a_run_that_died_says_why(own, tmp_path):
    log = runs.find_folder(tmp_path, own.runs[0], 0) / "log.txt"
    log.parent.mkdir(parents=True)
    log.write_text("loading\nagent-envs: no such model\n\n")
    said = f"died: agent-envs: no such model (see {log})"
    assert results.collect(own, tmp_path, 1)[0][0].why == said
    assert results.collect(own, tmp_path, 1)[1][0].why == "not run"


def test_the_page_and_the_terminal_show_both_numbers(own, out):
    found = results.collect(own, out, 2)
    said = show(results.show_table(own, found, 2))
    assert re.search(r"GRPO & co +paper +<b>50</b> +1 +– +–", said)
    assert re.search(r" ours +55 ± 7\.1 \[", said)
    figure = figures.draw_curves(own, out, 2)
    assert figure.count("<svg") == 1
    assert "GRPO &amp; co" in figure
    page = results.save(own, found, out, 2, figure).read_text(encoding="utf-8")
    assert "GRPO &amp; co" in page
    assert "<small>&lt;b&gt;50&lt;/b&gt;</small>" in page
    stored = json.loads((out / "one.json").read_text(encoding="utf-8"))
    first = stored["cells"][0]
    assert first["values"] == [50.0, 60.0]
    assert first["shown"].startswith("55 ± 7.1 [")


def test_a_curve_is_a_mean_over_steps_whatever_their_distance():  # iStar Fig. 4: evaluations
    logged = [(step, float(step)) for step in range(1, 13)]
    assert figures.average_points(logged, 10)[9:] == [(10, 5.5), (11, 6.5), (12, 7.5)]
    evaluated = [(0, 0.0), (5, 0.5), (10, 0.75), (15, 1.25)]
    # 5 and 10 are within 10 steps of 10
    expected = [(0, 0.0), (5, 0.25), (10, 0.625), (15, 1.0)]
    assert figures.average_points(evaluated, 10) == expected
    assert figures.average_points(evaluated, 1) == evaluated


def test_where_no_run_has_a_curve_its_place_says_so_and_the_table_is_kept(own, out, call):
    """As Sokoban, which has no score, beside WebShop in iStar's Figure 4."""
    file = out / "mine.toml"
    file.write_text(OWN.replace('"eval.success"', '"eval.success", "eval.succes"'))
    assert call("paper", file, "one", "--seeds", 2, "--out", out)[0] == 0
    drawn = (out / "one.svg").read_text()
    assert "eval.succes: no measure" in drawn
    file.write_text(OWN.replace('"eval.success"', '"eval.succes"'))
    table = papers.read_table(str(file), "one")
    assert "no measure" in figures.draw_curves(table, out, 2)


def test_a_part_of_a_table_is_shown_and_the_files_of_the_whole_stay(own, out, call):
    words = ["paper", out / "mine.toml", "one", "--out", out]
    assert call(*words)[0] == 0
    whole = (out / "one.json").read_text(encoding="utf-8")
    code, said, _ = call(*words, "--only", "GRPO & co", "--seeds", "1")
    assert code == 0
    assert "a part of the table, so its page and JSON stay as they are" in said
    assert (out / "one.json").read_text(encoding="utf-8") == whole


def test_no_figure_without_a_finished_run(own, tmp_path):
    assert figures.draw_curves(own, tmp_path, 1) == ""


def test_a_table_of_ones_own_has_no_lines_for_what_nobody_published(tmp_path):
    (tmp_path / "mine.toml").write_text(OWN.replace("published =", "#"))
    table = papers.read_table(str(tmp_path / "mine.toml"), "one")
    found = results.collect(table, tmp_path, 1)
    said = show(results.show_table(table, found, 1))
    page = results.save(table, found, tmp_path, 1, "").read_text(encoding="utf-8")
    assert re.search(r"GRPO & co +ours +– ", said)
    assert re.search("^GRPO & co.*: not run$", said, re.MULTILINE)
    assert not re.search("paper", said + page.partition("<h1>")[2])


def test_a_column_may_be_a_world_of_ones_own(tmp_path):
    (tmp_path / "mine.toml").write_text(OWN.replace("alfworld", "rooms.halls:Hall-v0"))
    for run in papers.read_table(str(tmp_path / "mine.toml"), "one").runs:
        made = runs.load_recipe(run, 0)
        assert (made.env.id, made.policy.model) == ("rooms.halls:Hall-v0", "pocket-words")
        assert run.name.startswith("rooms.halls_Hall-v0-")


def test_rows_that_lack_seeds_are_named_with_the_reason(own, out):
    shutil.rmtree(runs.find_folder(out, own.runs[0], 1))
    found = results.collect(own, out, 2)
    said = show(results.show_table(own, found, 2))
    assert said.count("GRPO & co: 1 of 2 seeds; not run") == 1
    assert said.count("MGR: at step") == 1  # once, not in each cell
    page = results.save(own, found, out, 2, "").read_text(encoding="utf-8")
    assert "GRPO &amp; co: 1 of 2 seeds; not run" in page


@pytest.mark.parametrize("name", ["eval/step_0.json", "eval/step_2.json"])
def test_a_damaged_evaluation_is_named(own, out, name):
    path = runs.find_folder(out, own.runs[0], 0) / name
    path.write_text("{")
    said = results.collect(own, out, 1)[0][0].why
    assert said.startswith(str(path))
    assert said.endswith(f"restore it, or delete {path.parents[1]} and train it anew with --run")


def test_a_damaged_log_is_named(own, out):
    path = runs.find_folder(out, own.runs[0], 0) / "metrics.jsonl"
    path.write_text("{\n")
    with pytest.raises(MetricsError, match=rf"{path} line 1 .*; restore the file"):
        figures.draw_curves(own, out, 1)


def test_seeds_and_rows_of_other_tasks_are_not_compared(own, out):
    (out / "mine.toml").write_text(OWN.replace('group = "ours"', ""))
    table = papers.read_table(str(out / "mine.toml"), "one")
    grpo, mgr = table.runs
    folder = runs.find_folder(out, mgr, 0)
    leave_run(folder, runs.load_recipe(mgr, 0), (6, 9, 12))
    (line,) = results.compare_rows(results.collect(table, out, 1))
    assert line.startswith("success: MGR against GRPO & co -30 (tasks: 0 higher, 18 lower, p = ")
    other = replace(evaluation(12), panel_hash="0ddba11" * 4)
    for step in range(3):
        other.save(folder / "eval" / f"step_{step}.json")
    (line,) = results.compare_rows(results.collect(table, out, 1))
    assert line == "success: MGR against GRPO & co (not tested: other tasks)"
    for step in range(3):
        other.save(runs.find_folder(out, grpo, 1) / "eval" / f"step_{step}.json")
    cell = results.collect(table, out, 2)[0][0]
    assert cell.why == "its seeds were evaluated on different tasks; train them anew"


def test_a_curve_has_the_steps_that_all_seeds_logged(own, out, monkeypatch):
    (out / "mine.toml").write_text(OWN.replace("steps = 2", "steps = 3"))
    own = papers.read_table(str(out / "mine.toml"), "one")
    for seed, logged in enumerate(({1: 0.1, 2: 0.2, 3: 0.3}, {1: 0.3, 3: 0.5})):
        evaluation(30).save(runs.find_folder(out, own.runs[0], seed) / "eval" / "step_3.json")
        lines = [{"step": n, "stage": "rl", "valid": value} for n, value in logged.items()]
        path = runs.find_folder(out, own.runs[0], seed) / "metrics.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    drawn, plot = [], Axes.plot

    def note(axes, at, values, *more, **options):
        drawn.append((list(at), list(values)))
        return plot(axes, at, values, *more, **options)

    monkeypatch.setattr(Axes, "plot", note)
    figures.draw_curves(own, out, 2)
    at, values = drawn[0]
    assert at == [1, 3]
    assert values == pytest.approx([0.2, 0.3])  # of .1 and .3; of (.1+.2+.3)/3 and (.3+.5)/2


STUDIES = str(Path(__file__).parents[2] / "benchmarks" / "studies.toml")


@pytest.mark.parametrize("name", papers.list_tables(STUDIES))
def test_the_methods_of_a_study_have_the_same_budget(name):
    table = papers.read_table(STUDIES, name)
    trained = [one for one in (recipe.load(run.recipe) for run in table.runs) if one.run.steps]
    assert len(trained) >= 2
    assert len({(r.run.steps, r.sampling.tasks, r.sampling.rollouts) for r in trained}) == 1
    shared = [(r.env.id, r.policy, r.sft, r.eval, r.update.learning_rate) for r in trained]
    assert all(one == shared[0] for one in shared)
    assert table.spec.rows[-1].label == "grpo"  # which the others are compared with


def test_the_worlds_of_strangers_keep_the_contract_and_can_be_trained_in(monkeypatch):
    monkeypatch.syspath_prepend(Path(STUDIES).parents[1])
    worlds = str(Path(STUDIES).parent / "worlds" / "worlds.toml")
    made = [recipe.load(run.recipe) for run in papers.read_table(worlds, "success").runs]
    ids = {one.env.id for one in made}
    assert len(ids) == len(made) / 2 == len([*Path(worlds).parent.glob("*.py")])
    for world in sorted(ids):
        check_agent_env(find_creator(world, option="env.id")())


REFUSED = [
    ("itsar", "table1", r"no paper or TOML file 'itsar', did you mean 'istar'.; there are has"),
    ("istar", "tabel1", r"istar has no table 'tabel1', did you mean 'table1'.; it has table1, "),
]


@pytest.mark.parametrize(("paper", "name", "said"), REFUSED)
def test_an_unknown_paper_or_table_is_refused_with_the_nearest(paper, name, said):
    with pytest.raises(RecipeError, match=said):
        papers.read_table(paper, name)


def load_runs(paper):
    return [recipe.load(run.recipe) for run in papers.read_table(paper, "one").runs]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('method = "mgr"', 'method = "mrg"', "no method 'mrg', did you mean 'mgr'"),
        ('"1", "-", ""]', '"1"]', "row 'GRPO & co' has 2 published numbers for 4 columns"),
        ('label = "MGR"', 'lable = "MGR"', "lable = 'MGR': .*; a row has label, group, method,"),
        ("scale = 100", "scales = 100", "a column has measure, window, scale, environment,"),
        ('about = "Two', 'curve = 1\nabout = "Two', "curve = 1: .*; a table has about, seeds,"),
        ('label = "GPT"', 'label = "closed"', "one: 2 rows are called 'closed'; give each its own"),
        (
            OWN[OWN.index("[tables.one]") :],
            "",
            r"has no tables; one is \[tables.NAME\] with about,",
        ),
        ("options.beta", "option.beta", "no option 'credit.option.beta'"),
    ],
)
def test_a_wrong_table_of_ones_own_is_refused(old, new, said, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN.replace(old, new))
    with pytest.raises(RecipeError, match=said):
        load_runs(str(path))


def test_an_option_is_for_the_runs_of_all_or_of_one_environment():
    given = ["run.steps=7", "appworld.data=/apps", "alfworld.env.max_turns=9"]
    table = papers.read_table("mgr", "table1", given)
    made = {run.name: runs.load_recipe(run, 0) for run in table.keep_rows(["MGR"]).runs}
    (house,) = {one.env.data: one for name, one in made.items() if "alfworld" in name}.items()
    (apps,) = {one.env.data: one for name, one in made.items() if "appworld" in name}.items()
    assert (house[0], house[1].env.max_turns, house[1].run.steps) == ("auto", 9, 7)
    assert (apps[0], apps[1].env.max_turns, apps[1].run.steps) == ("/apps", 35, 7)
    house, apps = table.cells[0][0].prompted.command, table.cells[0][3].prompted.command
    assert ("env.data=/apps" in house, "env.data=/apps" in apps) == (False, True)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("data=/x", "data=/x would hold for alfworld and appworld alike; .*: alfworld.data=/x"),
        ("env.id=AppWorld-v0", "begin it with the one that it is for: alfworld.env.id="),
        ("webshop.data=/x", "webshop.data=/x: the runs of the table are in alfworld, appworld"),
    ],
)
def test_an_option_for_other_tasks_than_those_of_a_run_is_refused(option, said):
    with pytest.raises(ValueError, match=said):
        papers.read_table("mgr", "table1", [option])


@pytest.mark.parametrize(
    ("paper", "labels", "keys"),
    [
        ("has", ["HAS with a judge"], ["credit.models.judge.url"]),
        (
            "istar",
            ["SFT and DPO, offline", "SFT and DPO, online"],
            ["sampling.recorded", "policy.model"],
        ),
    ],
)
def test_what_a_row_needs_is_for_it_alone(paper, labels, keys):
    name = "table1" if paper == "has" else "table6"
    given = [f"{key}=http://a" for key in keys]
    lacking, told = (papers.read_table(paper, name, options) for options in ([], given))
    for row in lacking.keep_rows(labels).cells:
        assert all(f"{keys[-1]}=" in cell.why for cell in row)
    of_rows = told.keep_rows(labels).runs
    assert len(of_rows) == len(labels)
    assert [one.options for one in told.runs if one not in of_rows] == [()] * len(lacking.runs)
    assert of_rows[0].options == tuple(given)
    assert all(one.options == (given[-1],) for one in of_rows[1:])
    for run in of_rows:
        runs.load_recipe(run, 0)


def test_a_row_that_lacks_one_of_two_things_says_so():
    offline, online = papers.read_table("istar", "table6", ["policy.model=mine"]).cells[:2]
    assert all(not cell.run and "sampling.recorded=" in cell.why for cell in offline)
    assert all(cell.run and not cell.why for cell in online)


def test_dpo_starts_from_demonstrations_where_there_is_an_expert():
    """Public scenes have none: the table wants a model that has had them (iStar Table 6)."""
    assert recipe.load("sotopia dpo").sft.steps == 50
    small = papers.read_table("istar", "table6", pocket=True)
    [run] = small.keep_rows(["SFT and DPO, online"]).runs
    assert runs.load_recipe(run, 0).sft.steps == 100
    table = papers.read_table("istar", "table6", ["policy.model=mine"])
    [run] = table.keep_rows(["SFT and DPO, online"]).runs
    public = runs.load_recipe(run, 0)
    assert (public.sft.steps, public.policy.model, public.env.id) == (0, "mine", "Sotopia-v0")


@pytest.mark.parametrize("pocket", [False, True])
@pytest.mark.parametrize("name", ["table1", "table2"])
def test_the_row_sft_is_what_the_other_rows_start_from(name, pocket):
    """HAS Sec. 4: all methods have the same warm start, and the row is that alone."""
    sft, *others = papers.read_table("has", name, pocket=pocket).runs
    warm = runs.load_recipe(sft, 0)
    assert warm.run.steps == 0
    for run in others:
        made = runs.load_recipe(run, 0)
        assert made.run.steps > 0
        assert (made.sft, made.policy, made.env, made.eval) == (
            warm.sft, warm.policy, warm.env, warm.eval,
        )  # fmt: skip


def test_rows_are_chosen_by_label(own):
    assert [run.name for run in own.keep_rows(["MGR"]).runs] == ["alfworld-mgr-beta=0.2"]
    with pytest.raises(
        RecipeError, match=r"one has no row 'MRG', did you mean 'MGR'.; its rows are"
    ):
        own.keep_rows(["MRG"])


def test_the_seven_data_sets_are_evaluated_whole_after_training(monkeypatch, tmp_path):
    """STAPO Table 2: 125 of 51,713 questions are of Bamboogle, in training 256 are drawn."""
    table = papers.read_table("stapo", "table2").keep_rows(["STAPO"])
    cells = [cell for row in table.cells for cell in row if cell.run]
    assert {cell.column.evaluate for cell in cells} == {"eval.tasks=0"}
    calls = []
    monkeypatch.setattr(runs, "_call", lambda words, _: calls.append(words) or "")
    for cell in cells:
        folder = runs.find_folder(tmp_path, cell.run, 0)
        (folder / "checkpoints" / "step_1").mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(runs.Checkpoints, "latest", lambda one: one.folder / "step_1")
    monkeypatch.setattr(runs, "list_missing", lambda *_: [])
    monkeypatch.setattr(runs, "describe_state", lambda *_: "")  # finished
    runs.train_missing(table, tmp_path, 1, jobs=1, launch="", tell=print)
    assert {tuple(words[3:6]) for words in calls} == {
        ("eval", str(runs.find_folder(tmp_path, cell.run, 0)), "eval.tasks=0") for cell in cells
    }


def test_a_prompted_model_is_evaluated_as_its_column_says(own, tmp_path):
    text = OWN.replace('"score" = {', '"score" = {evaluate = "eval.tasks=7", ')
    (tmp_path / "other.toml").write_text(text)
    success, score = papers.read_table(str(tmp_path / "other.toml"), "one").cells[2][:2]
    assert "eval.tasks=7" not in success.prompted.command
    assert "eval.tasks=7" in score.prompted.command
    assert success.prompted.file != score.prompted.file


def test_what_cannot_be_at_pocket_scale_says_why():
    table = papers.read_table("istar", "table2", pocket=True)
    whys = {cell.why for row in table.cells for cell in row if cell.published and not cell.run}
    assert "needs env.options.partner=openai:gpt-4o: only at the scale of the paper" in whys
    search = papers.read_table("stapo", "table2", pocket=True)
    assert {cell.why for row in search.cells for cell in row if cell.row.method} == {
        "there is no small model for search", "there is no small model for search_r1",
    }  # fmt: skip


WEIGHTS = {
    "Qwen2.5-1.5B": 1.54, "Qwen2.5-3B": 3.09, "Qwen2.5-VL-3B": 3.75, "Qwen2.5-7B": 7.62,
    "Qwen2.5-VL-7B": 8.29, "Qwen2.5-14B": 14.8, "Qwen3-8B": 8.19, "Llama-3.1-8B": 8.03,
}  # fmt: skip
"""Billions of weights as the public pages of the models say."""


def test_the_sizes_of_the_models():
    for name, shape in plans.list_shapes().items():
        known = WEIGHTS[name.rpartition("/")[2].removesuffix("-Instruct")]
        assert shape.weights / 1e9 == pytest.approx(known, rel=0.005), name


@pytest.mark.parametrize("paper", NAMES)
def test_every_run_of_a_plan_has_memory_and_hours(paper, tmp_path):
    shapes = plans.list_shapes()
    for table in tables(paper):
        for run in table.runs:
            made = recipe.load(run.recipe)
            need = estimate_needs(made, shapes[made.policy.model])
            assert 1 < need.memory < 5000, run.name
            assert (need.hours > 0) == bool(made.run.steps or made.sft.steps), run.name
    text = show(plans.show_plan(tables(paper)[0], tmp_path, 1))
    assert re.search(r"\d+ runs to do; about [\d,]+ hours", text)


def test_a_plan_names_the_runs_that_cannot_start(tmp_path):
    given = ["env.games=601"]
    said = show(plans.show_plan(papers.read_table("stapo", "table5", given), tmp_path, 1))
    (line,) = re.findall("^cannot start: .*$", said, re.MULTILINE)
    assert line.endswith(
        "env.games=601, but split 'train' has only 600; lower env.games, or set it to 0 for all"
    )
    assert "webshop.data=FOLDER" not in said  # it is not for want of data
    there = show(plans.show_plan(papers.read_table("stapo", "table5"), tmp_path, 1))
    assert "cannot start" not in there
    (tmp_path / "mine.toml").write_text(OWN.replace("options.beta", "options.bata"))
    mine = show(plans.show_plan(papers.read_table(str(tmp_path / "mine.toml"), "one"), tmp_path, 1))
    assert "cannot start: alfworld-mgr-bata=0.2: mgr has no option 'bata'; did you mean" in mine


def test_a_run_of_another_process_is_left_to_it(own, tmp_path, monkeypatch):
    """Several processes may fill one folder; that one is busy is no failure."""
    grpo, mgr = own.runs
    folder = runs.find_folder(tmp_path, grpo, 0)
    folder.mkdir(parents=True)
    calls, told = [], []
    monkeypatch.setattr(runs, "_call", lambda words, _: calls.append(words) or "")
    holder = "import sys; from pathlib import Path; from agent_envs.machine import FolderLock\n"
    holder += "lock = FolderLock(Path(sys.argv[1])); lock.take(); print('taken', flush=True)\n"
    holder += "sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"taken\n"
        failed = runs.train_missing(own, tmp_path, 1, jobs=1, launch="", tell=told.append)
        other.stdin.close()
    assert failed == []
    assert told[0] == f"1 of 2: another process trains {folder}"
    assert [Path(words[-2]) for words in calls] == [runs.find_folder(tmp_path, mgr, 0)]


def test_a_run_that_goes_on_is_not_analysed(own, out, monkeypatch):
    """What is written of a checkpoint on the way would be taken for that of the end."""
    table = own._replace(
        cells=[
            [cell._replace(column=cell.column.model_copy(update={"evaluate": "eval.tasks=7"}))]
            for cell in (own.cells[0][0], own.cells[1][0])
        ]
    )
    calls = []
    monkeypatch.setattr(runs, "_call", lambda words, _: calls.append(words) or "")
    monkeypatch.setattr(runs.Checkpoints, "latest", lambda one: one.folder / "step_2")
    monkeypatch.setattr(runs, "list_missing", lambda *_: [])
    assert runs.train_missing(table, out, 1, jobs=1, launch="", tell=print) == []
    done = runs.find_folder(out, own.runs[0], 0)
    assert [words[3:6] for words in calls] == [["eval", str(done), "eval.tasks=7"]]


BRIEF = """
environment = "alfworld"
[env]
id = "corridor:Corridor"
max_turns = 3
[policy]
dtype = "float32"
gradient_checkpointing = false
[run]
steps = 1
threads = 1
[sft]
steps = 1
episodes = 1
[sampling]
tasks = 1
rollouts = 2
max_reply_tokens = 8
max_tokens = 2000
[eval]
tasks = 2
[tables.one]
about = "Two methods."
[tables.one.columns]
"success" = {measure = "success"}
[[tables.one.rows]]
label = "GRPO"
method = "grpo"
[[tables.one.rows]]
label = "MGR"
method = "mgr"
set = {"credit.model" = "none"}
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_table_is_filled_goes_on_and_is_not_trained_twice(tmp_path, tiny_folder, monkeypatch):
    here = str(Path(__file__).parents[1] / "trainer")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, *sys.path]))
    monkeypatch.syspath_prepend(here)
    (tmp_path / "mine.toml").write_text(BRIEF)
    given, out = [f"policy.model={tiny_folder}"], tmp_path / "out"
    table = papers.read_table(str(tmp_path / "mine.toml"), "one", given)
    first = table.keep_rows(["GRPO"])
    told = []
    assert runs.train_missing(first, out, 1, jobs=1, launch="", tell=told.append) == []
    left = list(runs.list_missing(table, out, 1))
    assert [(run.name, state) for run, _, state in left] == [("alfworld-mgr-model=none", "not run")]
    stamp = (out / "alfworld-grpo" / "seed_0" / "metrics.jsonl").stat().st_mtime_ns
    assert runs.train_missing(table, out, 1, jobs=2, launch="", tell=told.append) == []
    assert (out / "alfworld-grpo" / "seed_0" / "metrics.jsonl").stat().st_mtime_ns == stamp
    assert [line.partition(":")[0] for line in told] == ["1 of 1"] * 2
    found = results.collect(table, out, 1)
    assert [len(row[0].values) for row in found] == [1, 1]
    shutil.rmtree(out / "alfworld-grpo" / "seed_0" / "eval")
    assert "running or stopped" in results.collect(table, out, 1)[0][0].why
    table = papers.read_table(str(tmp_path / "mine.toml"), "one", ["policy.model=/no"])
    bad = runs.train_missing(table, tmp_path / "no", 1, jobs=2, launch="", tell=print)
    assert [Path(log).read_text().count("/no") > 0 for log in bad] == [True, True]


@pytest.mark.long
def test_a_table_that_is_killed_goes_on_where_it_was(tmp_path, tiny_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests" / "trainer"), *sys.path]))
    (tmp_path / "mine.toml").write_text(BRIEF.replace("steps = 1\nthreads", "steps = 4\nthreads"))
    given = [f"policy.model={tiny_folder}", "run.save_every=1"]
    words = ["paper", str(tmp_path / "mine.toml"), "one", "--run", "--out", str(tmp_path), *given]
    command = [sys.executable, "-c", "from agent_envs.cli import main; main()", *words]
    for log in (tmp_path / f"alfworld-{one}/seed_0" for one in ("grpo", "mgr-model=none")):
        with subprocess.Popen(command, start_new_session=True) as killed:
            while killed.poll() is None and not (log / "checkpoints" / "step_2").is_dir():
                time.sleep(0.01)
            os.killpg(killed.pid, signal.SIGKILL)
    table = papers.read_table(*words[1:3], given)
    assert "running or stopped" in results.collect(table, tmp_path, 1)[1][0].why
    assert subprocess.run(command, check=False).returncode == 0
    assert [len(row[0].values) for row in results.collect(table, tmp_path, 1)] == [1, 1]
    for run in table.runs:
        log = read_log(runs.find_folder(tmp_path, run, 0) / "metrics.jsonl")
        assert [line["step"] for line in log] == [0, 1, 2, 3, 4, 5]


def test_an_interval_covers_tasks_and_seeds():
    rng = np.random.default_rng(0)
    low, high = results._draw_interval(list((rng.random((5, 400)) < 0.6).astype(float)))
    assert low < 0.6 < high
    assert 0.03 < high - low < 0.15
    assert results._draw_interval([np.zeros(400), np.ones(400)]) == (0.0, 1.0)
    assert np.isnan(results._draw_interval([np.ones(1)])).all()
    assert evaluations.describe_mean(np.array([1.0])) == "1"


def test_rows_are_compared_with_the_last_of_their_group():
    rng = np.random.default_rng(1)
    one = (rng.random((5, 120)) < 0.5).astype(float)
    better = np.maximum(one, rng.random((5, 120)) < 0.3)
    assert results.compare_pairs(one, one) == 1.0
    assert results.compare_pairs(better, one) < 0.001
    assert results.compare_pairs(better, one) == results.compare_pairs(one, better)
    cells = [
        [
            Result(
                name,
                "",
                "success",
                "",
                list(each.mean(1)),
                0.0,
                1.0,
                120,
                "",
                each,
                "",
                (*range(5),),
            )
        ]
        for name, each in (("GRPO", one), ("MGR", better))
    ]
    (line,) = results.compare_rows(cells)
    gain, more = better.mean() - one.mean(), (better > one).any(0).sum()
    said = f"success: MGR against GRPO {gain:+.3g} (higher in 5 of 5 seeds; tasks: {more} higher, "
    assert line.startswith(said + "0 lower, p = ")
    assert results.compare_rows([cells[0]]) == []


def test_rows_are_compared_in_the_seeds_that_both_have():
    """A seed that one row lacks would say more than the method does."""
    tables = np.repeat([[0.2], [0.4], [0.9]], 6, axis=1), np.repeat([[0.1], [0.3]], 6, axis=1)
    ours, theirs = [
        Result(name, "", "score", "", list(each.mean(1)), 0.0, 1.0, 6, "", each, "", seeds)
        for name, each, seeds in (("GRPO", tables[0], (0, 1, 2)), ("STAPO", tables[1], (0, 1)))
    ]
    (line,) = results.compare_rows([[ours], [theirs]])
    assert line == (
        "score: STAPO against GRPO -0.1 (on seed 0, 1: higher in 0 of 2 seeds; tasks: 0 higher, "
        "6 lower, p = 0.031)"
    )
    alone = replace(theirs, each=theirs.each[:1], seeds=(3,))
    (line,) = results.compare_rows([[ours], [alone]])
    assert line == "score: STAPO against GRPO (not tested: no seed in common)"
    prompted = replace(theirs, each=theirs.each[:1], seeds=())  # of no seed, so against all
    (line,) = results.compare_rows([[prompted], [ours]])
    assert line.startswith("score: GRPO against STAPO +0.4 (tasks: 6 higher, 0 lower, p = ")


def test_sums_of_flips_that_are_equal_count_as_equal():
    change = np.array([2, -1, 1, 2, -1, -1])  # thirds, as means of three seeds are
    flips = np.array(list(product((-1, 1), repeat=6)))
    exact = np.mean(np.abs(flips @ change) >= abs(change.sum()))
    assert exact == 0.78125
    other = np.zeros((3, 9))
    one = np.zeros((3, 9))
    one[0, :6], one[1, :6] = np.clip(change, -1, 1), change - np.clip(change, -1, 1)
    assert results.compare_pairs(one, other) == exact
    assert results.compare_pairs(one[:, :1], other[:, :1]) == 1.0  # of one task


def test_a_gain_of_one_seed_is_said_to_be_of_one():
    one = np.full((3, 8), 0.5)
    other = one.copy()
    other[0], other[1] = 1.0, 0.4
    cells = [
        [Result(name, "", "score", "", list(each.mean(1)), 0.0, 1.0, 8, "", each, "", (0, 1, 2))]
        for name, each in (("GRPO", one), ("STAPO", other))
    ]
    (line,) = results.compare_rows(cells)
    assert line.startswith(
        "score: STAPO against GRPO +0.133 (higher in 1 of 3 seeds; tasks: 8 higher, 0 lower, p = "
    )
    assert float(line.rpartition("p = ")[2].rstrip(")")) < 0.01  # though of one seed


def test_what_differs_in_its_last_bits_is_equal_and_groups_of_the_same_runs_share_a_line():
    scores = np.array([[0.1, 0.7], [0.2, 0.7], [0.3, 0.7]])
    other = np.nextafter(scores, 1)
    cells = [
        [
            Result(
                name,
                group,
                "score",
                "",
                list(100 * each.mean(1)),
                0.0,
                1.0,
                2,
                "",
                each,
                "",
                (0, 1, 2),
            )
        ]
        for group in ("1.5B", "7B")
        for name, each in (("GRPO", scores), ("STAPO", other))
    ]
    (line,) = results.compare_rows(cells)
    assert line == (
        "score: STAPO against GRPO +0 (higher in 0 of 3 seeds; tasks: 0 higher, 0 lower, p = 1)"
    )
    (line,) = results.compare_rows(cells[:2])  # the other model has not run
    assert line.startswith("score, 1.5B: STAPO against GRPO +0 ")


@pytest.mark.parametrize("width", [60, 80, 120, 400])
def test_a_table_wider_than_the_terminal_is_shown_in_blocks_with_every_number(own, out, width):
    found = results.collect(own, out, 2)
    console = Console(width=width, file=io.StringIO())
    console.print(results.show_table(own, found, 2))
    said = console.file.getvalue()
    assert max(map(len, said.splitlines())) <= width
    for one in found[0]:
        assert one.shown in said
        assert re.search(rf"(^| ){one.column}( |$)", said, re.MULTILINE)
    assert "…" not in said


@pytest.mark.parametrize("paper", recipes.names("paper"))
def test_results_of_small_models_on_a_page_are_the_stored_ones(paper):
    text = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    told = re.findall(r"(?<=\| )[\d.]+(?: ± [\d.]+)? \[[\d.]+–[\d.]+\](?= \|)", text)
    stored = {
        cell["shown"]
        for path in (ROOT / "benchmarks" / "papers" / paper).glob("*.json")
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    }
    assert set(told) <= stored
    assert bool(told) == bool(stored)
