"""Recipes: what is written is what runs, and a slip of the pen is named with its cure."""

from __future__ import annotations

import contextlib
import tomllib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.evaluation import draw_panel
from agent_envs.experts import experts_of
from agent_envs.imports import find_creator, has_option
from trainer import recipe, recipes
from trainer.build import make_held_out
from trainer.errors import RecipeError
from trainer.learn.sft import Sft
from trainer.methods import make_method
from trainer.play.environments import make_env
from trainer.run.needs import Shape, estimate_needs


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_what_is_switched_off_goes_with_its_options_and_is_else_refused(tmp_path):
    assert recipe.load("alfworld mgr pocket", ["sft.steps=0"]).sft == Sft()
    mine = written(tmp_path, PARTS + "[sft]\nsteps = 3\nlearning_rate = 1.0\n")
    assert recipe.load(mine, ["sft.steps=0"]).sft == Sft()
    with pytest.raises(RecipeError, match=r"^sft: learning_rate=2\.0 is not read with steps=0; le"):
        recipe.load(mine, ["sft.learning_rate=2.0", "sft.steps=0"])
    options = ["credit.options.p_min=0.3", "credit.options.gate=none"]
    made = recipe.load(mine, options)
    with pytest.raises(ValueError, match=r"^p_min=0\.3 is not read with gate=none; leave out one"):
        make_method(made)
    recipe.save(made, tmp_path / "config.toml")  # as an earlier version ran it
    old = recipe.load(tmp_path, ["sft.steps=0"])
    assert (old.sft, old.credit.options["p_min"]) == (Sft(), 0.1)
    mine = written(tmp_path, "[when.grpo.sft]\nsteps = 0\nwarmup = 3\n")  # of one's own, too
    with pytest.raises(RecipeError, match=r"^sft: warmup=3 is not read with steps=0; leave out"):
        recipe.load(f"alfworld grpo pocket {mine}")
    with pytest.raises(RecipeError, match=r'^partner: temperature=0\.2 is not read with model=""'):
        recipe.load("sotopia grpo", ["partner.temperature=0.2"])
    served = ["engine.name=vllm", "engine.urls=[]", "engine.patience=9.0"]
    with pytest.raises(RecipeError, match=r"^engine: patience=9.0 is not read with urls=\(\); "):
        recipe.load("alfworld grpo", served)


PARTS = "environment = 'alfworld'\nmethod = 'mgr'\n"
PAIRS = [f"{e} {m}" for e in recipes.names("environment") for m in recipes.names("method")]


def test_every_environment_goes_with_every_method_and_model():
    for words in PAIRS:
        for model in ("", *recipes.names("model")):
            loaded = recipe.load(f"{words} {model}")
            assert loaded.name == "-".join(f"{words} {model}".split())
            assert loaded.about.count(".") >= 2


@pytest.mark.parametrize("method", recipes.names("method"))
def test_a_recipe_survives_a_round_trip(method, tmp_path):
    loaded = recipe.load(f"webshop {method}")
    recipe.save(loaded, tmp_path / "config.toml")
    assert recipe.load(tmp_path) == loaded


def test_every_option_of_an_environment_is_one_it_has():
    """The options that files set for an environment, beside any method and model."""
    for words in PAIRS:
        for model in ("", "pocket"):
            env = recipe.load(f"{words} {model}").env
            for world in env.list_worlds().values() or [env]:
                creator = find_creator(world.id, option="env.id")
                assert all(has_option(creator, option) for option in world.options), words


TEXTWORLD = pytest.mark.skipif(find_spec("textworld") is None, reason="needs its extra")


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(name, marks=TEXTWORLD if name == "textworld" else ())
        for name in recipes.names("environment")
    ],
)
def test_the_panels_of_a_recipe_are_there_without_any_data(environment):
    """What a person types first, with a model of their own."""
    loaded = recipe.load(f"{environment} gigpo", ["policy.model=/a/model"])
    if environment == "mixture" and not find_spec("gem"):
        with pytest.raises(ImportError, match=r"pip install 'agent-envs\[gem\]'"):
            make_env(loaded.env, loaded.prompt, split="train")
        return
    for split, tasks in (
        (loaded.env.split, loaded.env.games),
        (loaded.eval.split, loaded.eval.tasks),
    ):
        env = make_env(loaded.env, loaded.prompt, split=split)
        assert draw_panel(env.unwrapped.panel, tasks)


def test_the_turn_limit_may_be_one_that_the_world_reads():
    options = ["env.max_turns=oracle+5", "env.options.walkthrough=true"]
    loaded = recipe.load("alfworld grpo pocket", options)
    env = make_env(loaded.env, loaded.prompt, split="train")
    for task in range(3):
        _, info = env.reset(options={"task": task})
        assert env.unwrapped.max_turns == len(info["walkthrough"]) + 5
    assert estimate_needs(loaded, Shape(36, 2048, 11008, 16, 2, 128, 151936, tied=True)).hours > 0


def test_a_condition_names_another_part():
    axes = [axis for axis in recipes.AXES if axis != "paper"]
    names = {axis: set(recipes.names(axis)) for axis in axes}
    folder = Path(recipes.__file__).parent
    for axis in recipes.AXES:
        others = set().union(*(names[other] for other in axes if other != axis))
        for path in (folder / f"{axis}s").glob("*.toml"):
            for condition in tomllib.loads(path.read_text()).get("when", {}):
                assert {*condition.replace("|", " ").split()} <= others | {recipes.OWN}, path
    assert sum(1 for _ in folder.rglob("*.toml")) <= 45


def words(condition):
    return {word for one in condition for word in one.split("|")}


@pytest.mark.parametrize("method", recipes.names("method"))
def test_a_scale_leaves_what_the_method_is(method):
    """But where one of the two files has a table for the other."""
    papers = [recipes.part("paper", name) for name in recipes.names("paper")]
    own, scale = recipes.part("method", method), recipes.part("model", "pocket")
    tables = [table for one in (own, scale, *papers) for table in one.when.items()]
    both = {key for names, table in tables if {method, "pocket"} & words(names) for key in table}
    for environment in recipes.names("environment"):
        settings = recipes.compose([environment, method, "pocket"]).settings
        expected = {**own.settings, **own.when.get((environment,), {})}
        assert expected
        for key in expected.keys() - both:
            assert settings[key].value == expected[key].value, key


def test_what_a_method_is_at_any_scale():
    assert recipe.load("alfworld dapo pocket").update.aggregate == "token-mean"
    warm = recipe.load("alfworld sft pocket")
    assert (warm.run.steps, warm.sft.steps) == (0, 250)


def test_options_of_a_model_that_is_not_in_the_run():
    shipped = recipe.load("alfworld has pocket")
    assert shipped.credit.models == {}
    with_model = recipe.load("alfworld has pocket", ["credit.model=turnrd"])
    assert with_model.credit.models["turnrd"]["round"] == 4
    for option in ("models=1", "models.turnrd=1", "models.turnrd.round=9"):
        with pytest.raises(RecipeError):
            recipe.load("alfworld has pocket", [f"credit.{option}"])
    for option in ("turnrd.round=9", "judge.url='http://127.0.0.1:1'", "critic.lam=1.0"):
        with pytest.raises(RecipeError, match=r"is of a model that is not in the run"):
            recipe.load("alfworld has pocket", [f"credit.models.{option}"])


def test_the_penalty_of_the_papers():
    """STAPO App. E and iStar C.1, off the row's score but for PPO, whose critic reads rewards."""
    for words, penalty in (
        ("alfworld grpo", 0.1), ("webshop stapo", 0.1), ("search gigpo", 0.01),
        ("sokoban istar", 0.1), ("webshop rloo paper=istar", 0.1), ("alfworld grpo pocket", 0.0),
    ):  # fmt: skip
        loaded = recipe.load(words)
        assert loaded.credit.options["row_penalty"] == penalty
        assert loaded.env.invalid_penalty == 0.0
    assert recipe.load("webshop ppo").env.invalid_penalty == -0.1
    assert recipe.load("search ppo paper=stapo").env.invalid_penalty == -0.01
    assert "row_penalty" not in recipe.load("sotopia istar").credit.options


def test_a_pocket_recipe_teaches_an_environment_of_ones_own(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('model = "pocket"\n[env]\nid = "a:B"\n[credit]\nname = "grpo"\n')
    own, shipped = recipe.load(str(file)), recipe.load("alfworld grpo pocket")
    assert (own.sampling.decode, shipped.sampling.decode) == ("auto", "free")
    assert (own.sft.expert, shipped.sft.expert) == ("auto", "explorer")
    assert own.sft.until > shipped.sft.until == 0
    file.write_text('method = "grpo"\n[env]\nid = "a:B"\n')  # without the small model
    assert recipe.load(str(file)).sampling.decode == "free"


def test_the_order_of_words_does_not_matter():
    one, other = recipe.load("webshop gigpo pocket"), recipe.load("pocket gigpo webshop")
    assert one == other


def test_a_paper_is_a_setting_for_all_its_methods():
    """iStar Sec. 4.1: all methods share the configuration, and only STAPO's has a divergence."""
    for method in ("gigpo", "grpo", "rloo", "reinforce_pp", "prime", "istar"):
        loaded = recipe.load(f"webshop {method} paper=istar")
        assert (loaded.run.steps, loaded.sampling.tasks, loaded.update.kl) == (200, 16, "none")
        assert loaded.update.learning_rate == 5e-7
        assert loaded.policy.model == "Qwen/Qwen2.5-7B-Instruct"
    ppo = recipe.load("webshop ppo paper=istar").sampling
    assert (ppo.tasks, ppo.rollouts) == (128, 1)
    own = recipe.load("webshop gigpo")
    assert (own.run.steps, own.sampling.tasks, own.update.kl) == (300, 8, "k3")


COMPARED = [
    ("alfworld", "stapo", "rloo grpo empg gigpo stapo", set()),
    ("webshop", "stapo", "rloo grpo empg gigpo stapo", set()),
    ("search", "stapo", "gigpo stapo", set()),
    ("sokoban", "stapo", "grpo gigpo stapo", set()),
    ("ezpoints", "stapo", "grpo gigpo stapo", set()),
    ("webshop", "istar", "grpo rloo reinforce_pp gigpo prime istar", {"update.ratio"}),
    ("sokoban", "istar", "grpo rloo reinforce_pp gigpo istar", {"update.ratio"}),
    ("sotopia", "istar", "grpo rloo reinforce_pp istar", {"update.ratio"}),
    ("alfworld", "mgr", "grpo gigpo mgr", set()),
    ("appworld", "mgr", "grpo loop mgr", {"update.epochs", "env.options.reward"}),
    ("wiki", "mt_grpo", "grpo mt_grpo", set()),
]
"""Methods that a paper compares, and what else its own method or LOOP has of its own."""


@pytest.mark.parametrize(("environment", "paper", "methods", "own"), COMPARED)
def test_methods_that_a_paper_compares_differ_in_credit_alone(environment, paper, methods, own):
    *others, last = (recipe.load(f"{environment} {m} paper={paper}") for m in methods.split())
    for other in others:
        differs = {key for key in recipe.changes(last, other) if not key.startswith("credit.")}
        assert differs - own <= {"name", "about"}


def test_the_paper_of_a_method_is_its_own_where_it_has_the_environment():
    assert recipe.load("webshop istar") == recipe.load("webshop istar paper=istar")
    assert recipe.load("webshop istar").name == "webshop-istar"
    assert recipe.load("webshop gigpo paper=istar").name == "webshop-gigpo-istar"
    assert recipe.load("alfworld grpo paper=mgr").prompt.context == "history"
    assert recipe.load("alfworld istar").update.minibatch == 256  # STAPO's setting
    assert recipes.list_environments("istar") == ["sokoban", "sotopia", "webshop"]


def test_a_paper_without_the_environment_is_refused(tmp_path):
    with pytest.raises(RecipeError, match=r"istar has no setting for alfworld; it has sokoban, "):
        recipe.load("alfworld gigpo paper=istar")
    with pytest.raises(
        RecipeError, match=r"no paper 'itsar', did you mean 'istar'.; there are has"
    ):
        recipe.load("webshop gigpo paper=itsar")
    own = written(tmp_path, "method = 'mgr'\n[env]\nid = 'Room-v0'\n")
    assert recipe.load(own).update.learning_rate == 5e-7  # of MGR's paper


def test_every_setting_of_a_paper_has_a_source():
    for name in recipes.names("paper"):
        part = recipes.part("paper", name)
        for settings in [part.settings, *part.when.values()]:
            for key, setting in settings.items():
                assert setting.source, (name, key)


def test_a_condition_goes_above_what_is_general():
    general, special = recipe.load("alfworld stapo"), recipe.load("webshop stapo")
    assert "mode" not in general.credit.options
    assert special.credit.options["mode"] == "mean_norm"
    assert recipe.load("webshop stapo pocket").credit.options["mode"] == "mean_std_norm"


SETTINGS = [
    (environment, given)
    for environment in recipes.names("environment")
    for given in ("", "pocket", *(f"paper={paper}" for paper in recipes.names("paper")))
    if "=" not in given or environment in recipes.list_environments(given.partition("=")[2])
]
OF_STAPO = {"credit.name", "credit.options.lam", "credit.options.alpha"}
OF_STAPO |= {"credit.options.penalty_weight", "name", "about"}


@pytest.mark.parametrize(("environment", "given"), SETTINGS)
@pytest.mark.parametrize(
    ("name", "more"),
    [("stapo", set()), ("stapo_dynamic", {"sampling.redraws", "update.clip_high"})],
)
def test_stapo_without_its_terms_is_gigpo_in_every_setting(environment, given, name, more):
    """STAPO App. H: nothing differs but the name and the options of the terms."""
    own, its = (recipe.load(f"{environment} {one} {given}") for one in ("gigpo", name))
    assert recipe.changes(own, its).keys() == OF_STAPO | more


def test_a_value_has_its_file_and_source():
    settings = recipes.compose(["webshop", "gigpo"]).settings
    assert settings["run", "steps"] == (300, "paper stapo when webshop", "STAPO App. E")
    assert settings["credit", "options", "mode"] == (
        "mean_norm", "gigpo when webshop", "verl-agent's WebShop script",
    )  # fmt: skip
    assert settings["update", "skip_dead_groups"].source == "verl-agent trains on every row"


def test_warm_starts_that_learn_from_an_oracle():
    experts = set()
    for words in PAIRS:
        loaded = recipe.load(words)
        if loaded.sft.steps and not loaded.env.mixture:
            made = find_creator(loaded.env.id, option="env.id")
            assert loaded.sft.expert in experts_of(made), words
            experts.add((loaded.env.id, loaded.sft.expert))
    assert {name for name, expert in experts if expert != "explorer"} == {
        "SearchQA-v0", "WebShop-v0", "WikiSearch-v0",
    }  # fmt: skip


QWEN = "sampling.rollouts=8 policy.model=Qwen/Qwen2.5-1.5B-Instruct"
FULL = f"{QWEN} update.kl_target=0.0 policy.lora.rank=0"
LORA = f"{QWEN} update.kl_target=0.04 policy.lora.rank=32"
HAS = f"{LORA} update.learning_rate=5e-6 sampling.tasks=80"
SOTOPIA = (
    "run.steps=800 update.learning_rate=5e-7 sampling.temperature=0.7 sampling.tasks=16 "
    "sampling.rollouts=8 sampling.max_reply_tokens=2048 sampling.max_tokens=8192 "
    "prompt.context=turn prompt.history=10 env.max_turns=10"
)
APPWORLD = (
    "env.max_turns=35 sampling.tasks=40 sampling.rollouts=6 "
    "sampling.temperature=1.0 sampling.max_reply_tokens=2048 update.learning_rate=5e-7 "
    "update.kl=none prompt.context=history"
)
NUMBERS = {
    "alfworld has": f"{HAS} env.max_turns=40 credit.models.turnrd.loss.value=1.0",
    "webshop has": f"{HAS} env.max_turns=15 credit.models.turnrd.loss.value=0.5",
    "alfworld gigpo": f"{FULL} update.learning_rate=1e-6 sampling.tasks=16 env.max_turns=50",
    "alfworld mgr": (
        "update.learning_rate=5e-7 sampling.tasks=16 env.max_turns=50 credit.model=critic"
    ),
    "webshop gigpo": f"{FULL} update.learning_rate=1e-6 sampling.tasks=8 env.max_turns=15",
    "webshop stapo": f"{FULL} update.learning_rate=1e-6 sampling.tasks=8 env.max_turns=15",
    "webshop istar": "update.learning_rate=5e-7 sampling.tasks=16 env.max_turns=15",
    "webshop mgr": f"{FULL} update.learning_rate=1e-6 sampling.tasks=8 env.max_turns=15",
    "sotopia istar": f"{SOTOPIA} credit.models.prm.threshold=0.6",
    "sotopia dpo": f"{SOTOPIA} credit.options.threshold=0.6",
    "sotopia ppo": f"{SOTOPIA} sampling.tasks=128 sampling.rollouts=1",
    **{f"sotopia {method}": SOTOPIA for method in ("grpo", "rloo", "reinforce_pp")},
    **{f"appworld {method}": APPWORLD for method in ("grpo", "loop", "mgr")},
}
"""HAS Tables 5 and 6, STAPO appendix E, MGR 4.3 and A.5, iStar section 4 and C.1."""


@pytest.mark.parametrize("words", NUMBERS)
def test_numbers_of_the_papers(words):
    assert recipe.changes(recipe.load(words), recipe.load(words, NUMBERS[words].split())) == {}


def test_a_file_of_ones_own_names_parts_and_goes_above_them(tmp_path):
    text = "environment = 'alfworld'\nmodel = 'pocket'\n[update]\nlearning_rate = 3e-4\n"
    loaded = recipe.load(f"{written(tmp_path, text)} gigpo")
    assert loaded.name == "alfworld-gigpo-pocket-mine"
    assert (loaded.update.learning_rate, loaded.credit.name) == (3e-4, "gigpo")
    assert loaded.env.max_turns == recipe.load("alfworld gigpo pocket").env.max_turns


def test_another_estimator_drops_the_options_of_the_one_before(tmp_path):
    text = "environment = 'webshop'\nmethod = 'gigpo'\n[credit]\nname = 'grpo'\n"
    assert recipe.load(written(tmp_path, text)).credit.options == {}
    loaded = recipe.load("alfworld mgr", ["credit.options.alpha=0.5", "credit.name=istar"])
    assert (loaded.credit.name, loaded.credit.options) == ("istar", {"alpha": 0.5})
    same = recipe.load("alfworld mgr", ["credit.name=mgr"])
    assert same.credit.options["beta"] == 0.1


@pytest.mark.parametrize(
    "option", ["run.seed", "update.learning_rate", "policy.lora.rank", "credit.options", ""]
)
def test_a_run_without_one_of_the_options_is_refused(option, tmp_path):
    """Never continued with another value, as if an earlier version had made it."""
    recipe.save(recipe.load("alfworld mgr pocket"), tmp_path / "config.toml")
    tree = tomllib.loads((tmp_path / "config.toml").read_text())
    *sections, last = option.split(".")
    table = tree
    for section in sections:
        table = table[section]
    if option:
        del table[last]
    else:
        tree.clear()  # a full disk leaves an empty file
    (tmp_path / "config.toml").write_text(tomlkit.dumps(tree))
    with pytest.raises(RecipeError, match=rf"config\.toml is incomplete .*{option}.*--out"):
        recipe.load(tmp_path)


def test_an_own_world_may_stand_as_a_word():
    made = recipe.load("corridor:Corridor mgr pocket")
    given = recipe.load("mgr pocket", ["env.id=corridor:Corridor"])
    assert recipe.changes(made, given) == {"name": ("mgr-pocket-Corridor", "mgr-pocket")}
    with pytest.raises(RecipeError, match="a recipe has one environment, got 'alfworld' and 'c"):
        recipe.load("alfworld corridor:Corridor mgr pocket")


def test_overrides_are_toml_or_bare_strings(tmp_path):
    path = written(tmp_path, f"{PARTS}[run]\nseed = 3\n[credit.options]\nbeta = 0.2\n")
    given_options = [
        "update.learning_rate=1",
        "env.options.task_types=['pick', 'look']",
        "credit.options.alpha=0.5",
        "update.skip_dead_groups=false",
        "env.id = Room-v0",
        "data=/a folder/x",  # a key of one section may stand alone
    ]
    loaded = recipe.load(path, given_options)
    assert loaded.run.seed == 3
    assert loaded.update.learning_rate == 1.0
    assert loaded.env.options == {"task_types": ["pick", "look"]}
    assert (loaded.credit.options["beta"], loaded.credit.options["alpha"]) == (0.2, 0.5)
    assert loaded.update.skip_dead_groups is False
    assert (loaded.env.id, loaded.env.data) == ("Room-v0", "/a folder/x")
    assert loaded.eval.data == ""  # which is only meant in full


def test_evaluation_may_have_data_of_its_own():
    loaded = recipe.load("alfworld mgr pocket", ["data=/nowhere", "eval.data=embedded"])
    assert make_held_out(loaded).panel.split == loaded.eval.split
    with pytest.raises(RecipeError, match="/nowhere"):
        assert make_held_out(replace(loaded, eval=replace(loaded.eval, data=""))).panel


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=30))
def test_any_bare_text_is_a_value_or_refused(text):
    with contextlib.suppress(RecipeError):
        assert isinstance(recipe.load("alfworld mgr pocket", [f"env.data={text}"]).env.data, str)


def test_a_file_may_name_an_environment_and_an_estimator_of_ones_own(tmp_path):
    own = "[env]\nid = 'Room-v0'\n[credit]\nname = 'mine:F'\n"
    assert recipe.load(written(tmp_path, own)).credit.name == "mine:F"


def test_a_condition_of_ones_own_file_applies(tmp_path):
    text = "[run]\nsteps = 3\n[when.gigpo.run]\nsteps = 4\n[when.mgr.run]\nsteps = 5\n"
    path = written(tmp_path, text)
    assert recipe.load(f"alfworld gigpo {path}").run.steps == 4
    assert recipe.load(f"alfworld mgr {path}").run.steps == 5
    assert recipe.load(f"alfworld grpo {path}").run.steps == 3


def test_tables_may_lie_apart_and_a_wrapper_needs_no_options(tmp_path):
    text = "[env]\ngames = 4\nid = 'A-v0'\n[run]\nseed = 2\n[env.wrappers]\n'a:B' = {}\n"
    loaded = recipe.load(written(tmp_path, PARTS + text))
    assert (loaded.env.games, loaded.env.id, loaded.run.seed) == (4, "A-v0", 2)
    assert loaded.env.wrappers == {"a:B": {}}


@pytest.mark.parametrize("key", ["a:B", "credit.rewards:TurnVerifier", 'say "x"'])
def test_an_option_of_a_wrapper_is_set_by_the_key_that_is_shown(tmp_path, key):
    text = tomlkit.dumps({"env": {"wrappers": {key: {"weights": {"mine.own:f": 0.1, "g": 2}}}}})
    path = written(tmp_path, PARTS + text)
    (shown,) = (
        recipes.join_key(one) for one in recipes.compose([path]).settings if one[-1] == "mine.own:f"
    )
    loaded = recipe.load(path, [f"{shown}=0.3"])
    assert loaded.env.wrappers == {key: {"weights": {"mine.own:f": 0.3, "g": 2}}}


def test_recipes_compare():
    one = recipe.load("alfworld mgr pocket")
    other = replace(one, run=replace(one.run, seed=5))
    assert recipe.changes(one, other).keys() == {"run.seed"}
    assert recipe.changes(one, one) == {}
    more = recipe.load("alfworld mgr pocket", ["credit.options.beta=0.3"])
    assert recipe.changes(one, more) == {"credit.options.beta": (0.1, 0.3)}


WORDS = [
    ("alfworld", "ENVIRONMENT METHOD .MODEL. or a TOML file, and 'alfworld' has no method: name"),
    ("mgr pocket", "'mgr pocket' has no environment: name one of alfworld, .* or give env.id="),
    ("", "'' has no environment"),
    ("/", "no file or run folder '/' in /"),
    ("alfworld mgr gigpo", "one method, got 'mgr' and 'gigpo'"),
    ("alfword mgr", "'alfword', did you mean 'alfworld'.; `agent-envs recipes` lists all"),
]
OVERRIDES = [
    ("learning", "key=value"),
    ("steps=3", r"'steps' is ambiguous; use one of run\.steps, sft\.steps"),
    ("update.learningrate=1", r"no option 'update\.learningrate'; nearest .*learning_rate"),
    ("sede=1", r"no option 'sede'; nearest are run\.seed, "),
    ("updat.clip_low=0.1", r"nearest are update\.clip_low"),
    ("run.steps=many", r"run\.steps = 'many': .*valid integer"),
    ("run.steps=-1", r"run\.steps = -1: .*greater than or equal to 0"),
    ("run.steps=1.5", r"run\.steps = 1\.5"),
    ("update.kl=k4", r"update\.kl = 'k4': .*'none', 'k2' or 'k3'"),
    ("update.kl=k1", r"update\.kl = 'k1': .*'none', 'k2' or 'k3'"),
    ("update.clip_low=1.5", r"update\.clip_low = 1\.5: .*less than or equal to 1"),
    ("update.epochs=0", r"update\.epochs = 0: .*greater than or equal to 1"),
    ("update.learning_rate=nan", r"update\.learning_rate = nan: .*finite"),
    ("engine.correction.cap=0.9", r"correction\.cap = 0\.9: .*greater than or equal to 1"),
    ("run.seed.deep=1", r"run\.seed = "),
    ("run=3", r"'run' is a section, not an option; it has run\.seed, run\.steps"),
    ("lora=3", r"'lora' is a section, .* policy\.lora\.rank"),
    ("=1", "no option ''"),
    ("name=x/../../y", r"name = 'x/\.\./\.\./y': String should match pattern"),
    ("name=..", "pattern"),
    ("name=", "pattern"),
    ("credit.model=critc", r"credit\.model = 'critc': .*'critic', 'prm', 'turnrd' or 'judge'"),
    (
        "engine.urls=['http://a']",
        r"engine: urls=.* is not read with name=own; leave out one",
    ),
    ("credit.models.critc.lam=1", r"models\.critc.* = 'critc': .*'critic', 'prm', "),
]
FILES = [
    (PARTS + "[run]\nsteps = ", r"mine\.toml is not TOML"),
    (PARTS + "nosection = 3\n", "no option 'nosection'"),
    (PARTS + "run = 3\n", "'run' is a section"),
    (
        PARTS + "[when]\nmgr = 3\n",
        r"mine\.toml: when\.mgr is no table \[when\.NAME\.SECTION\] of a part",
    ),
    (
        PARTS + "[when.nosuch.run]\nsteps = 3\n",
        r"mine\.toml: when\.nosuch is no table .* of a part",
    ),
    (PARTS + "[when.pokcet.run]\nsteps = 3\n", r"of a part, did you mean 'pocket'\?"),
    (PARTS + "[run]\nstep = 3\n", r"no option 'run\.step'; nearest are run\.steps"),
    (PARTS + "[run]\nsteps = '3'\n", r"run\.steps = '3'"),
    ("method = 'mrg'\n", r"no method 'mrg', did you mean 'mgr'\?"),
    ("[run]\nsteps = 3\n", "has no environment: name one of .*, or give env.id="),
    ("environment = 'alfworld'\n", "has no method: name one of .*, or give credit.name="),
]


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        *(("words", *one) for one in WORDS),
        *(("override", *one) for one in OVERRIDES),
        *(("file", *one) for one in FILES),
    ],
)
def test_what_makes_no_recipe_is_refused(kind, given, message, tmp_path):
    """Words, an override of what is whole, or a file of one's own."""
    words = {"override": "alfworld mgr pocket", "words": given}.get(kind)
    with pytest.raises(ValueError, match=message):
        recipe.load(
            words if words is not None else written(tmp_path, given),
            [given] if kind == "override" else [],
        )
