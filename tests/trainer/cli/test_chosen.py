"""The words of a command: parts or a run, and options."""

import pytest

from trainer.cli.train import choose_recipe, is_run
from trainer.errors import RecipeError
from trainer.recipe import load


def test_names_make_a_recipe_and_the_rest_are_options():
    given = choose_recipe(["alfworld", "run.seed=1", "mgr"])
    assert given.run is None
    assert given.parts.name == "alfworld-mgr"
    assert given.options == ["run.seed=1"]


def test_a_run_folder_is_the_recipe(tmp_path):
    (tmp_path / "config.toml").touch()
    given = choose_recipe([str(tmp_path), "run.seed=1"])
    assert given.run == given.parts == tmp_path
    assert given.options == ["run.seed=1"]


def test_a_path_with_an_equals_sign_is_no_option(tmp_path):
    run = tmp_path / "lr=1e-4"
    run.mkdir()
    (run / "config.toml").touch()
    assert is_run(run)
    assert choose_recipe([str(run)]) == (run, run, [])


def test_an_unknown_word_is_refused():
    with pytest.raises(RecipeError, match="no recipe part, TOML file or run folder 'alfwrld'"):
        choose_recipe(["alfwrld", "mgr"])
    with pytest.raises(RecipeError, match=r"'patrol'.*env.id=module:Class and credit.name=module:"):
        choose_recipe(["patrol", "mgr"])


def test_nothing_but_options_is_given_beside_a_run_folder(tmp_path):
    (tmp_path / "config.toml").touch()
    with pytest.raises(RecipeError, match="is a run folder and has its whole recipe, so 'mgr'"):
        choose_recipe([str(tmp_path), "mgr"])
    with pytest.raises(RecipeError, match="so a second one cannot"):
        choose_recipe([str(tmp_path), str(tmp_path)])


def test_a_long_option_is_no_path():
    option = f"env.options.faults={'none,' * 200}"
    assert choose_recipe(["alfworld", "mgr", option]).options == [option]


def test_words_too_long_for_a_path_are_unknown_words():
    word = "a" * 300
    with pytest.raises(RecipeError, match="no recipe part, TOML file or run folder"):
        choose_recipe([word]).load()
    with pytest.raises(RecipeError, match="no recipe part, TOML file or run folder"):
        load(word)
    assert not is_run(word)
