"""Goals: what they ask for, their price limits, and which are in which split."""

import random
import shutil

import pytest

from agent_envs import BadAsset, MissingAsset
from agent_envs.webshop import goals
from agent_envs.webshop.catalogue import open_catalogue
from agent_envs.webshop.goals import NO_LIMIT, _read_list
from agent_envs.webshop.pages import Page
from agent_envs.webshop.shop import open_shop

PAPERS = ("train", "val", "test")


def open_panel(shop, split):
    return goals.open_panel([*shop.goals.values()], shop.catalogue.folder, split)


def shop_of(data, kind="synthetic", *, price_seed=0):
    return open_shop(open_catalogue(data), kind, price_seed, False)


def product_of(task_id):
    return task_id.rpartition("-")[0]


def test_ranges_of_the_public_order(made_up):
    shop = shop_of(made_up)
    goals = list(shop.goals)
    assert len(goals) == 616
    ids = {
        split: open_panel(shop, split).task_ids
        for split in ("all", "test", "val", "verl_test", "verl_train", "ragen_test", "ragen_val")
    }
    assert ids["all"] == tuple(goals)
    assert ids["test"] == ids["verl_test"] == tuple(goals[:500])
    assert ids["val"] == ids["verl_train"] == tuple(goals[500:])
    # list(range(616)) shuffled by random.Random(42) starts 261, 187, 201; 128 is at 500
    assert ids["ragen_test"][:3] == tuple(goals[place] for place in (261, 187, 201))
    assert ids["ragen_val"][0] == goals[128]
    assert (len(ids["ragen_test"]), len(ids["ragen_val"])) == (500, 116)
    assert set(ids["ragen_test"]) | set(ids["ragen_val"]) == set(goals)
    # the public order is that of seed 233
    numbers = list(range(616))
    random.Random(233).shuffle(numbers)
    by_product = sorted(
        shop.goals.values(), key=lambda goal: (goal.product, int(goal.task_id.rpartition("-")[2]))
    )
    assert [by_product[n].task_id for n in numbers] == goals


@pytest.mark.slow
def test_the_papers_ranges_of_the_real_products(real):
    shop = shop_of(real)
    panels = {split: open_panel(shop, split).task_ids for split in (*PAPERS, "ragen_train")}
    sizes = {split: len(ids) for split, ids in panels.items()}
    assert sizes == {"test": 500, "val": 1000, "train": 5410, "ragen_train": 5410}
    # known of the public conventions: the same product is in test and train
    assert set(map(product_of, panels["test"])) & set(map(product_of, panels["train"]))
    # and goals that the requested product does not score 1 on
    pages = {g: Page("item", product=g.product, options=g.options) for g in shop.goals.values()}
    assert sum(shop.score(goal, page).total != 1 for goal, page in pages.items()) == 458
    assert len(pages) == 6910


@pytest.fixture
def listed(made_up, tmp_path):
    """The made-up folder with a list of ETO's or none, and its shop of people's goals."""

    def write(content, name="eto_test_indices.json", kind="human"):
        folder = tmp_path / "listed"
        shutil.copytree(made_up, folder, dirs_exist_ok=True)
        if content is not None:
            (folder / name).write_bytes(content)
        return shop_of(folder, kind)

    return write


def test_etos_lists(listed, shared_data):
    shop = listed(b"[74, 0, 3, 74]")  # a repeated goal counts once
    goals = list(shop.goals)
    assert open_panel(shop, "eto_test").task_ids == (goals[74], goals[0], goals[3])
    listed(b"[5]", "eto_train_indices.json")
    assert open_panel(shop, "eto_train").task_ids == (goals[5],)
    # the public lists: 1,824 and 200 of the 12,087 human goals, one of the former listed twice
    for split, count in (("eto_train", 1823), ("eto_test", 200)):
        found = _read_list(shared_data / "webshop" / f"{split}_indices.json", range(12_087))
        assert len(found) == len(set(found)) == count


@pytest.mark.parametrize(
    ("data", "kind", "split", "why"),
    [
        (None, "synthetic", "train", "^split 'train' has no goals: there are 616 goals in"),
        (None, "synthetic", "ragen_train", "split 'ragen_train' has no goals"),
        (None, "human", "val", "split 'val' has no goals: there are 75 goals"),
        (None, "human", "eto_train", "^no file .*/eto_train_indices.json; put it there"),
        (None, "synthetic", "eto_val", "^unknown split 'eto_val'.*known are all, test, val, "),
        (b"[1, 2", "human", "eto_test", "is no JSON"),
        (b"\xff\xfe[]\x00", "human", "eto_test", "is damaged"),
        (b"null", "human", "eto_test", "a list of places is needed, got None"),
        (b"[0, 75]", "human", "eto_test", r"places in 0\.\.74 are needed, got 75"),
        (b"[true]", "human", "eto_test", r"places in 0\.\.74 are needed, got True"),
        (b"[]", "human", "eto_test", "split 'eto_test' has no goals"),
    ],
)
def test_splits_and_lists_that_are_refused(listed, data, kind, split, why):
    with pytest.raises((ValueError, MissingAsset, BadAsset), match=why):
        open_panel(listed(data, kind=kind), split)


@pytest.mark.parametrize(
    ("price", "limits"),
    [
        ("$0.5", {20.0, 30.0, 40.0}),  # the larger of two of 10 to 40
        ("$10", {30.0, 40.0, 50.0}),  # a step is strictly above the price
        ("$10 - $20", {30.0, 40.0, 50.0}),  # above a price drawn from the range
        ("$969.99", {980.0, 990.0}),  # of 970, 980 and 990
        ("$970", {990.0}),  # of 980 and 990
        ("$980", {NO_LIMIT}),  # one step is left: no limit
    ],
)
def test_limits_of_goals(folder_of, record, wanted, price, limits):
    catalogue = open_catalogue(
        folder_of([record(pricing=price, options={"Size": ["s", "m"]})], {"A1": wanted("light")})
    )
    found = set()
    for seed in range(40):
        one, other = open_shop(catalogue, "synthetic", seed, False).goals.values()
        assert one.price_upper == other.price_upper  # one limit for all goals of a product
        found.add(one.price_upper)
        clause = f", and price lower than {one.price_upper:.2f} dollars"
        assert one.text.endswith("" if one.price_upper == NO_LIMIT else clause)
        assert ("price" in one.text) == (one.price_upper != NO_LIMIT)
    assert found == limits


def test_prices_are_drawn_from_the_price_seed_alone(folder_of, record, wanted):
    # random.Random(0) starts with .8444, random.Random(1) with .1344: 10 + 10 * .8444 and so on
    catalogue = open_catalogue(folder_of([record(pricing="$10 - $20")], {"A1": wanted("light")}))
    for seed, price in ((0, 18.444), (1, 11.344), (0, 18.444)):
        random.random()  # where the global generator stands does not matter
        before = random.getstate()
        open_shop.cache_clear()
        shop = open_shop(catalogue, "synthetic", seed, False)
        assert shop.prices == pytest.approx([price], abs=0.001)
        assert random.getstate() == before
