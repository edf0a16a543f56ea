"""Which goals are in which split."""

from __future__ import annotations

import random
import shutil

import pytest
from agent_envs.webshop.splits import _listed, open_panel

from agent_envs import BadAsset, MissingAsset
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.shop import open_shop

EMBEDDED = ("train", "val", "test")


def shop_of(data, kind="synthetic", *, strict=True, price_seed=0):
    return open_shop(open_catalogue(data), kind, strict, price_seed, False)


def product_of(task_id):
    return task_id.rpartition("-")[0]


def test_no_product_is_in_two_embedded_splits():
    shop = shop_of("embedded")
    panels = {split: open_panel(shop, split).task_ids for split in EMBEDDED}
    products = {split: set(map(product_of, ids)) for split, ids in panels.items()}
    everything = open_panel(shop, "all").task_ids
    assert sum(map(len, panels.values())) == len(everything)
    assert set().union(*panels.values()) == set(everything)
    assert sum(map(len, products.values())) == len(set().union(*products.values())) == 300
    # 8 and 1 of 10 of 300 products, give or take three deviations (7 and 5)
    assert 219 <= len(products["train"]) <= 261
    assert all(14 <= len(products[split]) <= 46 for split in ("val", "test"))


def test_splits_keep_the_order_of_all_goals():
    shop = shop_of("embedded")
    place = {task_id: n for n, task_id in enumerate(open_panel(shop, "all").task_ids)}
    for split in EMBEDDED:
        places = [place[task_id] for task_id in open_panel(shop, split).task_ids]
        assert places == sorted(places)


@pytest.mark.parametrize("other", [{"strict": False}, {"price_seed": 9}])
def test_mode_and_prices_do_not_change_the_panels(other):
    for split in (*EMBEDDED, "all"):
        ours, theirs = (open_panel(shop_of("embedded", **o), split) for o in ({}, other))
        assert ours == theirs


def test_the_embedded_test_panel_is_the_same_on_every_machine():
    panel = open_panel(shop_of("embedded"), "test")
    assert len(panel) == 184
    assert panel.hash == "77c56c7b219a8c3a37c94a4cf091d5141feecc5ff62c31fdc548c38c6577658a"


def test_the_papers_ranges(made_up):
    shop = shop_of(made_up)
    goals = list(shop.goals)
    assert len(goals) == 616
    assert open_panel(shop, "all").task_ids == tuple(goals)
    assert open_panel(shop, "test").task_ids == tuple(goals[:500])
    assert open_panel(shop, "val").task_ids == tuple(goals[500:616])
    with pytest.raises(
        ValueError, match=r"^split 'train' has no goals: there are 616 goals in all"
    ):
        open_panel(shop, "train")


@pytest.mark.slow
def test_the_papers_ranges_on_the_real_products(real):
    shop = shop_of(real, strict=False)
    sizes = {split: len(open_panel(shop, split)) for split in EMBEDDED}
    assert sizes == {"test": 500, "val": 1000, "train": 6910 - 1500}
    assert len(set().union(*(open_panel(shop, s).task_ids for s in EMBEDDED))) == 6910
    # without the goals that their own product does not meet, 164 in all
    strict = {split: len(open_panel(shop_of(real), split)) for split in EMBEDDED}
    assert strict == {"test": 489, "val": 980, "train": 5277}
    assert sum(strict.values()) == 6910 - 164


def test_verl_agents_ranges(made_up, real):
    for data, goals in ((made_up, 616), (real, 6910)):
        shop = shop_of(data, strict=False)
        test, train = (open_panel(shop, f"verl_{split}").task_ids for split in ("test", "train"))
        assert (len(test), len(train)) == (500, goals - 500)
        assert not set(test) & set(train)


def test_ragens_ranges_are_of_another_order(made_up, real):
    shop = shop_of(made_up)
    goals = list(shop.goals)
    test, val = (open_panel(shop, f"ragen_{split}").task_ids for split in ("test", "val"))
    # list(range(616)) shuffled by random.Random(42) starts 261, 187, 201; 128 is at 500
    assert test[:3] == tuple(goals[place] for place in (261, 187, 201))
    assert val[0] == goals[128]
    assert (len(test), len(val)) == (500, 116)
    assert set(test) | set(val) == set(goals)
    with pytest.raises(ValueError, match="split 'ragen_train' has no goals"):
        open_panel(shop, "ragen_train")
    assert len(open_panel(shop_of(real, strict=False), "ragen_train")) == 6910 - 1500


def test_human_goals_have_the_same_splits(made_up):
    # 75 of them
    assert len(open_panel(shop_of(made_up, "human"), "test")) == 75
    with pytest.raises(ValueError, match="split 'val' has no goals: there are 75 goals"):
        open_panel(shop_of(made_up, "human"), "val")


@pytest.fixture
def listed(made_up, tmp_path):
    """The made-up folder with a list of ETO's, and its shop of people's goals."""

    def write(content, name="eto_test_indices.json"):
        folder = tmp_path / "listed"
        shutil.copytree(made_up, folder, dirs_exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return shop_of(folder, "human")

    return write


def test_etos_lists(listed):
    shop = listed("[74, 0, 3]")
    goals = list(shop.goals)
    assert open_panel(shop, "eto_test").task_ids == (goals[74], goals[0], goals[3])
    listed("[5]", "eto_train_indices.json")
    assert open_panel(shop, "eto_train").task_ids == (goals[5],)


def test_etos_list_needs_the_goals_it_was_made_for(listed, shared_data):
    shop = listed((shared_data / "webshop" / "eto_test_indices.json").read_bytes())
    with pytest.raises(BadAsset, match=r"eto_test_indices.json: places in 0\.\.74 are needed"):
        open_panel(shop, "eto_test")


def test_a_missing_list_is_named(made_up):
    with pytest.raises(MissingAsset, match=f"^no file {made_up}/eto_train_indices.json"):
        open_panel(shop_of(made_up, "human"), "eto_train")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[1, 2", "is no JSON"),
        ("", "is no JSON"),
        (b"\xff\xfe[]\x00", "is no JSON"),
        ("7", "a list of places is needed, got 7"),
        ("null", "a list of places is needed, got None"),
        ('{"1": 2}', "a list of places is needed"),
        ("[0, 75]", r"places in 0\.\.74 are needed, got 75"),
        ("[-1]", r"places in 0\.\.74 are needed, got -1"),
        ("[true]", r"places in 0\.\.74 are needed, got True"),
        ('["1"]', r"places in 0\.\.74 are needed, got '1'"),
        ("[1.0]", r"places in 0\.\.74 are needed, got 1.0"),
    ],
)
def test_a_damaged_list_is_named(listed, content, why):
    with pytest.raises(BadAsset, match=f"eto_test_indices.json:? {why}"):
        open_panel(listed(content), "eto_test")


def test_a_list_without_goals_is_refused_and_a_repeated_goal_counts_once(listed):
    with pytest.raises(ValueError, match="split 'eto_test' has no goals"):
        open_panel(listed("[]"), "eto_test")
    shop = listed("[3, 1, 3]")
    assert open_panel(shop, "eto_test").task_ids == (list(shop.goals)[3], list(shop.goals)[1])


@pytest.mark.parametrize("split", ["tests", "dev", "eto_val", "", None, 3])
def test_an_unknown_split_is_refused(made_up, split):
    with pytest.raises(ValueError, match=r"^unknown split .*known: \('all', 'test', 'val'"):
        open_panel(shop_of(made_up), split)


@pytest.mark.parametrize("split", ["eto_test", "ragen_test", "verl_train"])
def test_the_embedded_catalogue_has_its_own_splits_only(split):
    with pytest.raises(ValueError, match=f"^unknown split '{split}'"):
        open_panel(shop_of("embedded"), split)


def test_the_ranges_are_no_split_by_product(real):
    # known of the public conventions: the same product is in test and train
    shop = shop_of(real)
    test, train = (
        set(map(product_of, open_panel(shop, split).task_ids)) for split in ("test", "train")
    )
    assert test & train


def test_the_order_of_goals_is_that_of_seed_233(made_up):
    shop = shop_of(made_up)
    numbers = list(range(616))
    random.Random(233).shuffle(numbers)
    by_product = sorted(
        shop.goals.values(), key=lambda goal: (goal.product, int(goal.task_id.rpartition("-")[2]))
    )
    assert [by_product[n].task_id for n in numbers] == list(shop.goals)


def test_etos_public_lists(shared_data):
    # 1,824 and 200 of the 12,087 human goals, one of the former listed twice
    for split, count in (("eto_train", 1823), ("eto_test", 200)):
        goals = _listed(shared_data / "webshop" / f"{split}_indices.json", range(12_087))
        assert len(goals) == len(set(goals)) == count
        assert set(goals) <= set(range(12_087))
