"""The public profiles: all of them as they are, and files that are not what they should be."""

import json
import math
import re
import shutil

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401  registers the id
from agent_envs import BadAsset, MissingAsset
from agent_envs.sotopia.models import RANGES, Verdict
from agent_envs.sotopia.published import open_published
from agent_envs.sotopia.scripted import ScriptedPartner
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


EPISODE = {
    "environment_id": "P1", "agent_ids": ["A1", "A2"], "codename": "rain", "scenario": "It rains.",
    "social_goals": {"Bea Quill": "Get wet", "Ada Quill": "Stay dry"}, "social_interactions": "...",
}  # fmt: skip


@pytest.fixture
def episodes(folder, tmp_path):
    """A folder of SOTOPIA-pi; a function writes it with these rows."""
    profiles = folder(person={"first_name": "Bea"}) / "profiles"

    def write(*rows):
        place = tmp_path / "pi"
        place.mkdir(exist_ok=True)
        shutil.copy(profiles / "agent_profiles.jsonl", place)
        for name, listed in {
            "relationship_profiles.jsonl": [
                {"agent1_id": "A2", "agent2_id": "A1", "relationship": level} for level in "43"
            ],
            "used_env.json": [{"sotopia_env": ["E1"], "SFT-round-1": ["P1"]}],
            "sotopia_pi_episodes.jsonl": rows,
        }.items():
            (place / name).write_text("\n".join(map(json.dumps, listed)))
        return place

    return write


def test_situations_of_recorded_conversations_are_for_training(episodes):
    evaluated = EPISODE | {"environment_id": "E1"}
    place = episodes(EPISODE, evaluated, EPISODE | {"agent_ids": ["A2", "A1"]}, EPISODE)
    data = open_published(place)
    assert data.panel("train").task_ids == ("P1-A1-A2-0", "P1-A1-A2-1", "P1-A2-A1-0", "P1-A2-A1-1")
    assert data.panel("all").task_ids == data.panel("train").task_ids
    scene = data.scenes["P1-A2-A1"]
    assert (scene.goals, scene.relationship) == (("Get wet", "Stay dry"), 3)
    assert [one.first_name for one in scene.characters] == ["Bea", "Ada"]
    for split in ("val", "test", "hard"):
        with pytest.raises(ValueError, match=r"for training, got split.*eval\.data"):
            data.panel(split)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"agent_ids": ["A1", "A9"]}, "no character 'A9'"),
        ({"agent_ids": ["A1", "A1"]}, "does not have this pair, got A1 and A1"),
        ({"social_goals": {"Ada Quill": "Stay dry"}}, "social_goals must have one of each"),
        ({"social_goals": None}, "social_goals must have one of each"),
        ({"scenario": None}, "'scenario' must be text"),
    ],
)
def test_a_bad_conversation_is_left_out(episodes, change, says):
    with pytest.warns(UserWarning, match="line 1: ") as told:
        data = open_published(episodes(EPISODE | change, EPISODE))
    assert says in str(told[0].message)
    assert len(data.scenes) == len(data.reading.bad) == 1
    with pytest.raises(BadAsset, match="1 of 6 records are bad"):
        open_published(episodes(EPISODE | change, EPISODE), strict=True)
    with pytest.raises(BadAsset, match="1 of 5 records are bad"):
        open_published(episodes(EPISODE | change))


def test_without_the_list_of_tests_conversations_are_refused(episodes):
    place = episodes(EPISODE)
    (place / "used_env.json").unlink()
    with pytest.raises(MissingAsset, match=r"used_env\.json"):
        open_published(place)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"situation": {"relationship": "6"}}, "relationship must be 0 to 5, got '6'"),
        ({"situation": {"agent_goals": ["one"]}}, "agent_goals must be two texts"),
        ({"situation": {"scenario": ""}}, "'scenario' must be text"),
        (
            {"situation": {"scenario": "divide_things"}},
            "'scenario' must be a sentence, got 'divide_",
        ),
        ({"situation": {"scenario": 'x <p viewer="agent_0">y'}}, "is not closed"),
        ({"person": {"first_name": ""}}, "'first_name' must be text"),
        ({"person": {"age": "old"}}, "age must be a number"),
        ({"pairing": {"agent_ids": ["A1"]}}, "agent_ids must be two texts"),
        ({"pairing": {"agent_ids": ["A1", "A1"]}}, "agent_ids must differ"),
        ({"situation": {"scenario": False}}, "'scenario' must be text"),
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


def test_a_bad_record_costs_what_needs_it(folder):
    profiles = folder(person={"first_name": "Bea"}) / "profiles"
    for name, row, bad in (
        ("environment_profiles.jsonl", SITUATION, {"env_id": "E2", "relationship": "9"}),
        ("env_agent_combo_storages.jsonl", PAIRING, {"combo_id": "C2", "env_id": "E2"}),
        ("agent_profiles.jsonl", PERSON, {"agent_id": "A3", "moral_values": [None]}),
    ):
        rows = [
            *(profiles / name).read_text().split("\n\n"),
            json.dumps(row | bad),
            json.dumps(row),
        ]
        (profiles / name).write_text("\n".join(rows))
    (profiles / "used_env.json").write_text('{"sotopia_hard_env": ["E1", "E7"]}')
    # the changed records, those that repeat an id, and the pairing of the situation that is bad
    with pytest.warns(UserWarning, match="6 of 10 records are bad"):
        data = open_published(profiles)
    assert data.panel("hard").task_ids == ("C1-0", "C1-1")
    places = [int(bad.place.removeprefix("line ")) for bad in data.reading.bad]
    assert places == [3, 4, 2, 3, 2, 3]  # of characters, situations and pairings
    (note,) = data.reading.notes
    assert "1 of 2 hard situations are not in environment_profiles.jsonl, such as 'E7'" in note


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
    shared = {s: len(data.panel("train").find_shared(data.panel(s))) for s in of}
    assert shared == {"train": 70, "val": 0, "test": 0, "hard": 12, "all": 70}
    assert len(data.panel("all")) == 900


@pytest.mark.slow
def test_the_contract_on_public_data(public_folder, monkeypatch):
    monkeypatch.setenv("SOTOPIA_DATA", str(public_folder))
    check_agent_env(gym.make("Sotopia-v0", split="hard", partner="echo", judge="none"))


def test_without_data_it_names_the_generated_scenes():
    with pytest.raises(MissingAsset, match=r"set data= to one .*, or use Sotopia-v1") as refused:
        gym.make("Sotopia-v0")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "env.options.partner=, to one of echo, external, openai:"),
        ({"partner": "scripted"}, "need a partner that reads them"),
        ({"partner": ScriptedPartner()}, "need a partner that reads them"),
        (
            {"partner": "echo"},
            "judge that reads them; set judge=, in a recipe env.options.judge=, to",
        ),
        ({"partner": "ekko", "judge": "none"}, "unknown partner 'ekko', did you mean 'echo'"),
        ({"partner": "echo", "judge": "rules"}, "unknown judge 'rules'"),
        ({"reward": "goals"}, "did you mean 'goal'"),
        ({"on_judge_error": "ignore"}, "unknown on_judge_error"),
        ({"weights": {"gaol": 1}}, "did you mean 'goal'"),
        ({"weights": {"goal": -1}}, "at least 0"),
        ({"weights": dict.fromkeys(RANGES, 0)}, "above 0"),
        ({"max_turns": 0}, "max_turns must be at least 1"),
        ({"partner": {"modle": "stub"}, "judge": "none"}, "no option 'modle', did you mean"),
    ],
)
def test_options_that_make_no_sense(folder, options, says):
    given = {"partner": "echo", "judge": "none"} if "partner" not in options and options else {}
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        gym.make("Sotopia-v0", data=folder(), split="all", **given | options)
    assert "\n" not in str(refused.value)


def opened(folder, **options):
    """An episode of the scene of our own, with the echo and without a judge."""
    options = {"partner": "echo", "judge": "none", "split": "all"} | options
    env = gym.make("Sotopia-v0", data=folder(person={"first_name": "Bea"}), **options)
    env.reset(seed=0, options={"task": options.pop("task", 0)})
    return env


def test_turns_of_text(folder):
    env = opened(folder)
    observation, _, _, _, info = env.step("Good morning!")
    assert observation == "Bea [action] repeats: Good morning!"
    assert (info["scores"], info["progress"], info["progress_known"]) == ({}, 0, False)
    *_, info = env.step(" Good morning! ")
    assert (info["valid"], info["invalid_reason"]) == (False, "refused")
    assert len(env.unwrapped.talk.said) == 4  # said all the same
    said = env.unwrapped.talk.said
    *_, info = env.step('{"action_type": "sing"}')
    assert (info["valid"], info["invalid_reason"]) == (False, "format")
    assert env.unwrapped.talk.said == said
    *_, terminated, truncated, info = env.step("left the conversation")
    assert (terminated, truncated, info["success"]) == (True, False, False)


def test_twenty_acts_are_the_limit(folder):
    env, turns = opened(folder), 0
    while True:
        turns += 1
        *_, terminated, truncated, _ = env.step(f"Line number {turns}.")
        if terminated or truncated:
            break
    assert (terminated, truncated, turns, len(env.unwrapped.talk.said)) == (False, True, 10, 20)


def test_the_anchor_is_the_conversation(folder):
    def anchor(*lines):
        env = opened(folder)
        return [env.step(line)[4]["anchor"] for line in lines][-1]

    assert anchor("Hm.", "Well.") == anchor("Hm.", "Well.") != anchor("Well.", "Hm.")


def test_self_chat_alternates_and_each_reads_its_own_goal(folder):
    env = gym.make(
        "Sotopia-v0", data=folder(person={"first_name": "Bea"}), split="all",
        partner="external", judge="none",
    )  # fmt: skip
    observation, info = env.reset(seed=0, options={"task": 1})
    scene = env.unwrapped.talk.scene
    assert (info["speaker"], info["goal"], info["agent"]) == (0, scene.show_goal(0), "Ada Quill")
    assert "Get wet" not in observation
    observation, _, _, _, info = env.step("Hello.")
    assert (info["speaker"], info["goal"]) == (1, scene.show_goal(1))
    assert scene.render_background(1) in observation
    assert 'said: "Hello."' in observation
    observation, _, _, _, info = env.step("[action] waves")
    assert (info["speaker"], observation) == (0, "Bea [action] waves")
    *_, info = env.step("")
    assert info["speaker"] == 0  # tries again
    assert env.unwrapped.max_turns == 20


class Fixed:
    """A judge that gives the same goal score and the middle of all others."""

    def __init__(self, goal):
        self.scores = {name: sum(both) / 2 for name, both in RANGES.items()} | {"goal": goal}

    def judge(self, talk, side):
        return Verdict(self.scores, dict.fromkeys(RANGES, ""))


@pytest.mark.parametrize("reward", ["goal", "success"])
@pytest.mark.parametrize(("goal", "success"), [(5.9, False), (6.0, False), (6.1, True)])
def test_a_success_is_a_goal_score_above_6(folder, goal, success, reward):
    env = opened(folder, judge=Fixed(goal), reward=reward)
    _, paid, terminated, _, info = env.step("Good morning!")
    assert (paid, terminated, info["success"], info["progress"]) == (0.0, False, False, 0)
    _, paid, terminated, _, info = env.step("left the conversation")
    assert (terminated, info["success"]) == (True, success)
    assert info["progress"] == pytest.approx(min(1.0, goal / 6))
    assert paid == pytest.approx(goal / 10 if reward == "goal" else float(success))
    assert math.isnan(info["partner_reward"])  # nobody scored the echo


@pytest.mark.parametrize(("lines", "share"), [(0, 0), (1, 1 / 3), (2, 2 / 3), (3, 1), (4, 1)])
def test_a_talk_that_did_not_take_place_pays_nothing(folder, lines, share):
    env = opened(folder, judge=Fixed(10), reward="weighted", weights={"goal": 3.0})
    for number in range(lines):
        env.step(f"Line {number}.")
    _, paid, *_ = env.step("left the conversation")
    # Nine weights, three of the goal with 1 and six with 1/2: (3 + 3) / 9.
    assert paid == pytest.approx(share * 6 / 9)


def test_in_self_chat_both_sides_are_scored(folder):
    env = gym.make("Sotopia-v0", data=folder(), split="all", partner="external", judge=Fixed(8))
    env.reset(seed=0)
    _, paid, _, _, info = env.step("left the conversation")
    assert (paid, info["partner_reward"], info["partner_progress"]) == (0.8, 0.8, 1.0)
