"""The public profiles: all of them as they are, and files that are not what they should be."""

import json
import shutil

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs import BadAsset, MissingAsset
from agent_envs.sotopia.published import open_published
from agent_envs.testing import check_agent_env

SITUATION = {
    "env_id": "E1", "codename": "none", "scenario": 'Rain. <p viewer="environment">Sun.</p>',
    "agent_goals": ["Stay dry (<extra_info>Take the <b>umbrella</b></extra_info>)", "Get wet"],
    "relationship": "2", "age_constraint": "[(18, 70), (18, 70)]", "agent_constraint": "nan",
}  # fmt: skip
PERSON = {
    "agent_id": "A1", "first_name": "Ada", "last_name": "Quill", "age": "30",
    "occupation": "nan", "gender": "Woman", "gender_pronoun": "She/her", "public_info": " Sings. ",
    "big_five": "none", "moral_values": ["Care", " Fairness"], "decision_making_style": "Fast",
    "secret": "Cannot swim",
}  # fmt: skip
PAIRING = {"combo_id": "C1", "env_id": "E1", "agent_ids": ["A1", "A2"]}


@pytest.fixture
def folder(tmp_path):
    """A folder of one scene of our own; a function writes it with other rows."""

    def write(situation=None, person=None, pairing=None):
        rows = {
            "environment_profiles.jsonl": [SITUATION | (situation or {})],
            "agent_profiles.jsonl": [PERSON, PERSON | {"agent_id": "A2"} | (person or {})],
            "env_agent_combo_storages.jsonl": [PAIRING | (pairing or {})],
        }
        (tmp_path / "profiles").mkdir(exist_ok=True)
        for name, listed in rows.items():
            text = "\n\n".join(map(json.dumps, listed))
            (tmp_path / "profiles" / name).write_text(text)
        return tmp_path

    return write


def test_quirks(folder):
    place = folder(person={"first_name": "Bea"})
    (place / "profiles" / "used_env.json").write_text(json.dumps({"sotopia_hard_env": ["E1"]}))
    data = open_published(place)
    scene = data.scenes["C1"]
    assert [one.first_name for one in scene.characters] == ["Ada", "Bea"]
    assert data.panel("all").task_ids == data.panel("hard").task_ids == ("C1-0", "C1-1")
    assert (scene.codename, scene.relationship) == ("E1", 2)
    person = scene.characters[0]
    assert (person.age, person.occupation, person.big_five) == (30, "", "")
    assert person.moral_values == ("Care", "Fairness")
    text = scene.render_background(0)
    assert "Rain." in text
    assert "Sun." not in text
    assert scene.show_goal(0) == "Stay dry (Take the <b>umbrella</b>)"
    assert "nan" not in text
    assert "none" not in text


def test_the_split_of_a_situation_is_the_same_in_every_folder(folder, tmp_path):
    profiles = folder() / "profiles"
    for name, row, keys in (
        ("environment_profiles.jsonl", SITUATION, ("env_id",)),
        ("env_agent_combo_storages.jsonl", PAIRING, ("combo_id", "env_id")),
    ):
        lines = [json.dumps(row | dict.fromkeys(keys, f"E{one}")) for one in range(1, 61)]
        (profiles / name).write_text("\n".join(lines))
    other = shutil.copytree(profiles, tmp_path / "other")
    tasks, again = (
        [open_published(place).panel(split).task_ids for split in ("train", "val", "test")]
        for place in (profiles, other)
    )
    assert all(tasks)
    assert sum(map(len, tasks)) == 120
    assert again == tasks


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"situation": {"relationship": "6"}}, "relationship must be 0 to 5, got '6'"),
        ({"situation": {"relationship": "-1"}}, "relationship must be 0 to 5"),
        ({"situation": {"relationship": None}}, "'relationship' must be text, got None"),
        ({"situation": {"agent_goals": ["one"]}}, "agent_goals must be two texts"),
        ({"situation": {"scenario": ""}}, "'scenario' must be text"),
        ({"situation": {"scenario": 'x <p viewer="agent_0">y'}}, "is not closed"),
        ({"person": {"first_name": ""}}, "'first_name' must be text"),
        ({"person": {"age": "old"}}, "age must be a number"),
        ({"pairing": {"agent_ids": ["A1"]}}, "agent_ids must be two texts"),
        ({"pairing": {"agent_ids": ["A1", "A9"]}}, "no character 'A9'"),
        ({"pairing": {"env_id": "E9"}}, "no situation 'E9'"),
    ],
)
def test_rows_that_are_not_right_are_named(folder, rows, says):
    with pytest.raises(BadAsset, match=r"line [13]") as refusal:
        open_published(folder(**rows))
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "text", "error", "says"),
    [
        ("agent_profiles.jsonl", None, MissingAsset, "no agent_profiles.jsonl in .*; put the file"),
        ("agent_profiles.jsonl", "\n\n\n{", BadAsset, "agent_profiles.jsonl, line 4: no JSON"),
        ("agent_profiles.jsonl", "[1]", BadAsset, "an object is needed"),
        ("used_env.json", None, MissingAsset, "used_env.json"),
        ("used_env.json", "{}", BadAsset, "sotopia_hard_env"),
    ],
)
def test_missing_and_broken_files(folder, name, text, error, says):
    file = folder() / "profiles" / name
    if text is None:
        file.unlink(missing_ok=True)
    else:
        file.write_text(text)
    with pytest.raises(error, match=says):
        open_published(file.parent).panel("hard")


def test_all_public_pairings_show_each_side_what_it_may_see(public_folder):
    data = open_published(public_folder)
    assert len(data.scenes) == 450
    assert len(set(data.situations.values())) == 90
    assert len({one.name for scene in data.scenes.values() for one in scene.characters}) <= 40
    for scene in data.scenes.values():
        for side in (0, 1):
            text = scene.render_background(side)
            own, other = scene.characters[side], scene.characters[1 - side]
            assert own.secret in text
            assert own.public_info in text
            assert scene.show_goal(side) in text
            assert "viewer=" not in text
            assert "_info>" not in text
            assert "_hint>" not in text
            of_other = next(line for line in text.splitlines() if line.startswith("You talk with"))
            level = scene.relationship
            assert (other.name in of_other) == (level >= 1)
            assert (other.public_info in of_other) == (level >= 2)
            assert (other.big_five in of_other) == (level >= 3)
            assert other.secret not in of_other
            assert scene.show_goal(1 - side) not in of_other
            assert "common friends:" not in text  # this only the environment may see


def test_splits_share_no_situation_and_hard_is_the_papers(public_folder):
    data = open_published(public_folder)
    of = {s: {data.situations[t[:-2]] for t in data.panel(s).task_ids} for s in
          ("train", "val", "test", "hard", "all")}  # fmt: skip
    assert not of["train"] & of["val"]
    assert not of["train"] & of["test"]
    assert not of["val"] & of["test"]
    assert len(of["hard"]) == 14
    assert len(data.panel("all")) == 900


@pytest.mark.slow
def test_the_contract_on_public_data(public_folder, monkeypatch):
    monkeypatch.setenv("SOTOPIA_DATA", str(public_folder))
    check_agent_env(gym.make("Sotopia-v0", split="hard", partner="echo", judge="none"))


def test_rules_and_scripts_refuse_what_they_do_not_know(folder):
    data = folder()
    for judge in ("rules", "none"):
        with pytest.raises(ValueError, match=r"partner=\"openai|judge=\"openai") as refusal:
            gym.make("Sotopia-v0", data=data, split="all", judge=judge)
        assert "'E1'" in str(refusal.value)
    with pytest.raises(ValueError, match="only generated scenes have families"):
        gym.make("Sotopia-v0", data=data, split="all", family="bargain")
