"""Worlds of GEM and reasoning-gym: every id that lifts, and what each reports."""

import logging
import random
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from agent_envs.assets import MissingAsset
from agent_envs.imports import find_creator
from agent_envs.signals.state import keep_chance
from agent_envs.testing import check_agent_env
from agent_envs.testing.contract import compare_copies, compare_plays, play
from agent_envs.testing.episodes import Start, Watch, wander

THERE = all(map(find_spec, ("gem", "reasoning_gym")))
foreign = [
    pytest.mark.foreign,
    pytest.mark.skipif(not THERE, reason="needs gem-llm and reasoning-gym; see .ci/foreign"),
]
GAMES, TASKS = [], []
if THERE:
    with keep_chance(0, None):
        import gem
        import reasoning_gym

        from agent_envs.foreign.reasoning_gym import EVALUATED

    logging.getLogger().handlers.clear()
    GAMES = [name for name in gem.envs.registration.ENV_REGISTRY if name.startswith("game:")]
    TASKS = list(reasoning_gym.factory.DATASETS)

WITH_WORDS = ("Hangman", "WordSearch", "Wordle")
SLOW = {"game:Sokoban-v0-hard": (23, 28), "game:Sokoban-v0-random": (1, 2)}
"""Games that need long to make the puzzles of most seeds, and seeds of quick ones."""
COUNTS = {"0.1.23": 104, "0.1.25": 106}
"""Tasks of releases of reasoning-gym."""


@pytest.mark.skipif(THERE, reason="gem-llm and reasoning-gym are installed")
@pytest.mark.parametrize(
    ("path", "extra"), [("gem:game:Sudoku-v0-easy", "gem"), ("reasoning_gym:ab", "reasoning-gym")]
)
def test_a_missing_package_is_named_with_its_extra(path, extra):
    with pytest.raises(ImportError, match=rf"pip install 'agent-envs\[{extra}\]'"):
        find_creator(path, option="env.id")()


def lift(path, **options):
    return find_creator(path, option="env.id")(**options)


def move(env, rng):
    """Random actions of a game, some of them odd or repeated."""
    odd = wander(env, rng)

    def draw():
        game = env.unwrapped.world.game
        if "Sudoku" in type(game).__name__:
            return " ".join(str(rng.integers(1, game.scale + 1)) for _ in range(3))
        if "Hanoi" in type(game).__name__:
            return " ".join(rng.choice(list("ABC"), 2))
        with keep_chance(int(rng.integers(2**31)), None):
            return game.sample_random_action()

    def act(observation, info):
        if rng.random() < 0.05:
            return odd(observation, info)
        text = draw()  # some samplers add brackets that their own games refuse
        return text.replace("\\boxed", "").strip("{}").strip("[]")

    return act


def answer(env, rng):
    right = str(env.unwrapped.world.entry["answer"])
    given = [right, f"{right} x", "7", "yes", "[1, 2]", ""]
    return lambda observation, info: given[rng.integers(len(given))]


@pytest.fixture
def words(monkeypatch):
    """A word list in the place of NLTK's, and no downloads."""
    rng = random.Random(0)
    made = ["".join(rng.choices("abcdeilorst", k=3 + n % 5)) for n in range(200)]
    monkeypatch.setattr("nltk.download", lambda name: True)
    for game in ("hangman", "word_search", "wordle"):
        corpus = SimpleNamespace(words=lambda name: made)
        monkeypatch.setattr(f"gem.envs.game_env.{game}.words", corpus)


class TestGem:
    pytestmark = foreign

    @pytest.mark.parametrize("name", GAMES)
    def test_a_game_keeps_the_contract_and_continues_in_copies(self, name, words):
        env = lift(f"gem:{name}")
        assert env.anchor == "state"
        for seed in SLOW.get(name, ()):
            records = list(play(env, seed, task=seed, actions=move))
            start, actions = Start(seed, seed), [record.action for record in records[1:]]
            again = Watch(env, start).replay(actions)
            assert compare_plays("again", records, again, (start, *actions)) is None
            assert compare_copies(env, start, actions) is None
        if name not in SLOW:
            check_agent_env(env, actions=move)

    def test_counts(self, monkeypatch):
        monkeypatch.setattr("nltk.data.path", [])
        monkeypatch.setattr("nltk.download", lambda name: False)
        without = [name for name in GAMES if any(word in name for word in WITH_WORDS)]
        assert (len(GAMES), len(without)) == (37, 9)
        for name in without:
            with pytest.raises(MissingAsset, match=r"run `python -m nltk\.downloader words`"):
                lift(f"gem:{name}")

    def test_mistakes_are_invalid_and_the_constants_are_as_before(self):
        env = lift("gem:game:TowerofHanoi-v0-easy")
        constants = dict(vars(env.world.constants))
        _, info = env.reset(seed=1)
        assert info["goal"].startswith("You are playing Tower of Hanoi with 3 disks.")
        turns = [env.step(action) for action in ["A B", "B C", "B A", "C B", "A C", "C A"]]
        assert [turn[-1]["invalid_reason"] for turn in turns] == ["", "", "refused", "", "", ""]
        turns = [env.step(action) for action in [r"I say \boxed{A C}", "C A", "A C", "C C"]]
        # The reward of the last turn, a third of the disks on C, replaces that of the mistake.
        *_, reward, terminated, truncated, info = turns[2]
        assert (reward, terminated, truncated, info["valid"]) == (0, False, False, True)
        *_, reward, terminated, truncated, info = turns[3]
        assert (reward, terminated, truncated) == (pytest.approx(1 / 3), False, True)
        assert info["progress"] == pytest.approx(1 / 3)
        env.reset(seed=1)
        observation, reward, terminated, _, info = env.step("a disk")
        assert (reward, terminated, info["invalid_reason"]) == (-0.1, True, "format")
        assert observation.startswith("You did not provide a valid action.\nHere is the current")
        assert dict(vars(env.world.constants)) == constants

    def test_a_mistake_counts_on_the_last_turn(self):
        env = lift("gem:game:TowerofHanoi-v0-easy")
        env.reset(seed=1)
        *_, last = [env.step("B C") for _ in range(10)]
        assert (last[1], last[3], last[-1]["invalid_reason"]) == (0.0, True, "refused")

    def test_success_and_progress(self):
        env = lift("gem:game:Sudoku-v0-easy")
        env.reset(seed=4)
        game, rewards, progress = env.world.game, [], []
        for row, column in np.argwhere(np.array(game.board) == 0):
            answer = game.full_grid[row][column]
            _, reward, terminated, _, info = env.step(f"{row + 1} {column + 1} {answer}")
            rewards.append(reward)
            progress.append(info["progress"])
            game = env.world.game
        assert (terminated, info["success"], sum(rewards)) == (True, True, pytest.approx(1))
        assert progress == pytest.approx(np.linspace(0, 1, len(rewards) + 1)[1:])
        binary = lift("gem:game:TowerofHanoi-v0-easy", reward="success", config={"num_disks": 1})
        binary.reset(seed=1)
        assert [binary.step(action)[1] for action in ("A B", "B C")] == [0.0, 1.0]
        assert not binary.graded

    def test_listed_actions_do_not_decide_what_is_valid(self):
        env = lift("gem:game:TowerofHanoi-v0-easy", admissible=["A B", "B A"])
        _, info = env.reset(seed=1)
        assert info["admissible_actions"] == ["A B", "B A"]
        assert [env.step(action)[-1]["valid"] for action in ("A C", "B A")] == [True, False]

    def test_anchors_of_sampled_games(self):
        from agent_envs_lab.audits import audit_anchors

        names = ["FifteenPuzzle-v0-hard", "Game2048-v0-easy", "Mastermind-v0-easy"]
        names += ["Minesweeper-v0-easy", "Sudoku-v0-easy", "TowerofHanoi-v0-hard"]
        found = [
            audit_anchors(lift(f"gem:game:{name}"), actions=move, tasks=2, episodes=20)
            for name in names
        ]
        assert all(one.unrepeatable == one.anchor.diverging == 0 for one in found)
        assert sum(one.anchor.revisited for one in found) > 100

    @pytest.mark.parametrize(
        ("name", "same"), [("GuessTheNumber-v0-easy", 32), ("Sudoku-v0-easy", 0)]
    )
    def test_test_tasks_that_are_training_tasks(self, name, same):
        from agent_envs_lab.audits.overlap import count_shared_starts

        found = count_shared_starts(lift(f"gem:game:{name}"), seconds=300)
        assert found == (same, 1000)

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("game:Sudoku-v0-eazy", "did you mean 'game:Sudoku-v0-easy'"),
            ("Sudoku-v0-easy", "did you mean 'game:Sudoku-v0-easy'"),
            ("rg:leg_counting", "rg:NAME is reasoning_gym:NAME here"),
            ("math:GSM8K", "the other families download their questions"),
        ],
    )
    def test_other_names_are_refused(self, name, said):
        with pytest.raises(ValueError, match=said):
            lift(f"gem:{name}")

    def test_it_leaves_the_process_as_it_was(self):
        program = """
import logging, random, numpy
random.seed(3), numpy.random.seed(3)
before = random.getstate(), numpy.random.get_state()[1].tolist()
from agent_envs.imports import find_creator
env = find_creator("gem:game:Minesweeper-v0-easy", option="env.id")()
env.reset(seed=1), env.step("reveal 1 1")
assert before == (random.getstate(), numpy.random.get_state()[1].tolist())
assert not logging.getLogger().handlers
"""
        subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


class TestReasoningGym:
    pytestmark = foreign

    @pytest.mark.parametrize("name", [name for name in TASKS if name != "composite"])
    def test_a_task_keeps_the_contract_and_continues_in_copies(self, name):
        env = lift(f"reasoning_gym:{name}", **({"run_code": True} if name in EVALUATED else {}))
        check_agent_env(env, actions=answer)
        assert env.anchor == "state"

    def test_counts(self):
        assert len(TASKS) == COUNTS[version("reasoning-gym")]
        with pytest.raises(ValueError, match="of composite: Must specify at least one dataset"):
            lift("reasoning_gym:composite")
        assert len(EVALUATED) == 9
        for name in EVALUATED:
            with pytest.raises(ValueError, match="runs the reply as Python code"):
                lift(f"reasoning_gym:{name}")

    def test_the_reply_is_scored(self):
        env = lift("reasoning_gym:leg_counting", split="test", config={"max_animals": 4})
        observation, info = env.reset(seed=1, options={"task_id": "seed-1105"})
        item = reasoning_gym.create_dataset("leg_counting", seed=0, size=1200, max_animals=4)[1105]
        assert observation == info["goal"] == item["question"]
        wordy = f"There are {item['answer']} legs."
        observation, reward, terminated, _, info = env.step(wordy)
        assert reward == info["progress"] == pytest.approx(len(item["answer"]) / len(wordy))
        assert (observation, terminated, info["success"]) == (
            f"The score is {reward:g}.",
            True,
            False,
        )
        for least, given, success in [(0.1, wordy, True), (1.0, item["answer"], True)]:
            env = lift("reasoning_gym:leg_counting", success_score=least, split="test",
                       config={"max_animals": 4}, reward="success")  # fmt: skip
            env.reset(seed=1, options={"task_id": "seed-1105"})
            *_, info = turn = env.step(given)
            assert (turn[1], info["progress"], info["success"]) == (1.0, 1.0, success)

    def test_an_answer_that_makes_the_verifier_raise_is_invalid(self):
        env = lift("reasoning_gym:prime_factorization")
        env.reset(seed=1)
        _, reward, *ended, info = env.step("x by y")
        assert (reward, ended, info["invalid_reason"]) == (0.0, [False, True], "error")

    @pytest.mark.parametrize(
        ("name", "options", "said"),
        [
            ("leg_countin", {}, "did you mean 'leg_counting'"),
            ("leg_counting", {"config": {"legs": 4}},
             "refuses the config of leg_counting: .*'legs'"),
            ("leg_counting", {"success_score": 0.0}, "must lie in"),
        ],
    )  # fmt: skip
    def test_wrong_names_and_options(self, name, options, said):
        with pytest.raises(ValueError, match=said):
            lift(f"reasoning_gym:{name}", **options)
