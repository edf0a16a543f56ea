"""The words of a command: parts or a run, and options."""

import pytest

from trainer import recipe as recipes
from trainer.cli.train import is_run, load_recipe
from trainer.errors import RecipeError


def test_names_make_a_recipe_and_the_rest_are_options():
    made, run = load_recipe(["alfworld", "run.seed=1", "mgr"])
    assert run is None
    assert (made.name, made.run.seed) == ("alfworld-mgr", 1)
    option = f"env.options.faults={'none,' * 200}"  # too long for a path
    assert load_recipe(["alfworld", "mgr", option])[0].env.options["faults"] == "none," * 200


def test_a_run_folder_is_the_recipe(tmp_path):
    folder = tmp_path / "lr=1e-4"  # a path, and no option
    recipes.save(recipes.load("alfworld grpo"), folder / "config.toml")
    made, run = load_recipe([str(folder), "run.seed=1"])
    assert run == folder
    assert (made.credit.name, made.run.seed) == ("grpo", 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alfwrld", "mgr"], "no recipe part, TOML file or run folder 'alfwrld'"),
        (["patrol", "mgr"], r"'patrol'.*env.id=module:Class and credit.name=module:"),
        (["a" * 300], "no recipe part, TOML file or run folder"),
        (["run", "mgr"], "run is a run folder and has its whole recipe, got run mgr; give"),
        (["run", "run"], "run is a run folder and has its whole recipe, got run run; give"),
    ],
)
def test_words_that_make_no_recipe_are_refused(words, message, tmp_path, monkeypatch):
    recipes.save(recipes.load("alfworld grpo"), tmp_path / "run" / "config.toml")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=message):
        load_recipe(words)
    assert is_run("run")
    assert not is_run("a" * 300)
