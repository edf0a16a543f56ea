"""Environments that fail: they cost their episode, and change nothing else."""

import json
import math
import os
import re
import signal
from functools import partial, partialmethod
from itertools import cycle

import numpy as np
import pytest
from jinja2 import TemplateError

from agent_envs import MissingAsset, Prompt
from credit import Turns
from trainer.build import evaluate_model, load_policy, make_rollouts
from trainer.errors import RecipeError
from trainer.learn.rows import make_rows
from trainer.learn.update import Update
from trainer.methods import Experience, make_method
from trainer.play.environments import Env, PromptOptions
from trainer.play.failures import EpisodeError, Failure, LimitError, check_limit, split_attempts
from trainer.play.records import Task
from trainer.play.rollout import Rollouts, Start
from trainer.play.signals import check_info
from trainer.play.tokens import TokenEpisode
from trainer.run.stopping import Stopped, note_signals
from trainer.train import train

from .conftest import METHODS, Script, east, figures, learner, quiet, same, short
from .conftest import corridor_tasks as tasks


@pytest.fixture
def fails(corridor, monkeypatch):
    """Make `Corridor` raise an error by (task, seed, action number); counts its calls."""

    def install(error, *, where, when=lambda task_id: True):
        act, begin = corridor.Corridor.act, corridor.Corridor.begin

        def broken_act(self, action):
            if where == "step" and self.turn >= 1 and when(self.task_id):
                raise error
            return act(self, action)

        def broken_begin(self, task_id):
            if where == "reset" and when(task_id):
                raise error
            return begin(self, task_id)

        monkeypatch.setattr(corridor.Corridor, "act", broken_act)
        monkeypatch.setattr(corridor.Corridor, "begin", broken_begin)

    return install


def play(tasks, context="history", **options):
    player = Rollouts(Env("Corridor-v0"), PromptOptions(context), "train", **options)
    return player.attempt(tasks, Script(east), seed=0)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("by zero"), StopIteration(), TimeoutError(), MemoryError("no room")]
)
def test_whatever_an_environment_raises_costs_its_episode(  # noqa: PLR0917
    error, where, waits, fails, corridor, tmp_path, monkeypatch
):
    whole = play(tasks(3, 2, 4))
    fails(error, where=where, when=lambda task: task == "corridor/2")
    monkeypatch.setattr(corridor.Corridor, "waits", waits, raising=False)
    first, failure, last = play(tasks(3, 2, 4))
    assert [first, last] == [whole[0], whole[2]]
    assert (failure.task_id, failure.group, failure.seed) == ("corridor/2", 1, 7)
    assert type(error).__name__ in failure.error
    assert "in broken_" in failure.traceback
    failure.save(tmp_path / "failure.json", step=1)
    assert json.loads((tmp_path / "failure.json").read_text())["error"] == failure.error
    assert failure.turn == (1 if where == "step" else 0)
    if where == "step":
        assert [turn["reply"] for turn in failure.transcript] == [east("", 0)] * 2
        assert failure.transcript[1]["observation"] == "You stand at 1."
    else:
        assert failure.transcript == []


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("admissible_actions", ["go", 3], r"\['go', 3\]; the environment must report a list of t"),
        ("admissible_actions", None, "None; the environment must report a list of texts"),
        ("goal", b"win", "b'win'; the environment must report a text"),
        ("valid", 1, "1; the environment must report True or False"),
        ("success", np.float64(0), "the environment must report True or False"),
    ],
)
def test_every_signal_of_a_turn_has_its_type(name, given, told):
    info = dict.fromkeys(("goal", "task_id", "anchor", "invalid_reason"), "")
    info |= {"valid": np.True_, "success": False, "admissible_actions": ["go"]}
    assert check_info(info) is info
    for wrong in (info | {name: given}, {key: info[key] for key in info if key != name}):
        with pytest.raises(ValueError, match=told if name in wrong else f"{name} is None; the env"):
            check_info(wrong)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"extra": {"turn_reward": {"v": math.nan}}}, r"turn_reward\['v'\] is nan; the env"),
        ({"extra": {"turn_reward": {"v": None}}}, r"turn_reward\['v'\] is None"),
        ({"extra": {"turn_reward": {"v": "high"}}}, r"turn_reward\['v'\] is 'high'"),
        ({"extra": {"turn_reward": [0.5]}}, r"turn_reward is \[0.5\]; .* numbers by name"),
        ({"extra": {"measures": 3}}, "measures is 3; .* numbers by name"),
        ({"anchor": None}, "anchor is None; the environment must report a text"),
        ({"anchor": ["hall", 1]}, r"anchor is \['hall', 1\]"),
        ({"invalid_reason": None}, "invalid_reason is None"),
        ({"reward": math.inf}, "the reward is inf"),
        ({"reward": math.nan}, "the reward is nan"),
        ({"progress": math.nan}, "progress is nan; .* number from 0 to 1"),
        ({"progress": 1.5}, "progress is 1.5"),
        ({"observation": "<|broken|>"}, "no such message"),
        ("<|broken|>", "no such message"),
        ("long " * 3000, "no room for a reply"),
    ],
)
def test_what_one_task_reports_costs_one_episode(corridor, monkeypatch, change, told):
    """At a turn or in its first message; also what the template refuses, or no model can read."""
    where = "begin" if isinstance(change, str) else "act"
    good = getattr(corridor.Corridor, where)

    def odd(self, given):
        turn = good(self, given)
        if self.task_id != "corridor/2":
            return turn
        return (change, turn[1]) if where == "begin" else turn._replace(**change)

    encode = TokenEpisode.encode

    def refuse(self, message, images):
        if "<|broken|>" in message:
            raise TemplateError("no such message")
        return encode(self, message, images)

    whole = play(tasks(3, 2, 4), "turn")
    monkeypatch.setattr(corridor.Corridor, where, odd)
    monkeypatch.setattr(TokenEpisode, "encode", refuse)
    played = play(tasks(3, 2, 4), "turn")
    assert [played[0], played[2]] == [whole[0], whole[2]]
    assert re.search(told, played[1].error)


def test_ctrl_c_in_an_environment_stops_the_run(corridor, monkeypatch):
    act = corridor.Corridor.act

    def pressed(self, action):
        os.kill(os.getpid(), signal.SIGINT)
        return act(self, action)

    monkeypatch.setattr(corridor.Corridor, "act", pressed)
    with pytest.raises(KeyboardInterrupt):  # in a script
        play(tasks(3))
    with note_signals() as stop, pytest.raises(Stopped):  # noqa: PT012 - in a run, the second time
        play(tasks(1))
        assert stop.asked == signal.SIGINT
        play(tasks(1))


def test_a_blind_prompt_that_raises_costs_the_episode(corridor, monkeypatch):
    blind = Prompt.blind

    def broken(self, what):
        if self.unwrapped.task_id == "corridor/2":
            raise ValueError("blind")
        return blind(self, what)

    monkeypatch.setattr(Prompt, "blind", broken)
    _, (failure,) = split_attempts(play(tasks(3, 2), "turn", blind=("goal",)))
    assert failure.task_id == "corridor/2"


def test_an_environment_that_cannot_be_copied_costs_the_episode(corridor, monkeypatch):
    player, script = Rollouts(Env("Corridor-v0"), PromptOptions(), "train"), Script(east)
    starts = [Start(player.start(one, script, player.envs(2)[one.group])) for one in tasks(3, 2)]
    whole = player.attempt_from(starts, script, seed=0)
    reduce = corridor.Corridor.__reduce_ex__

    def broken(self, protocol):
        if self.task_id == "corridor/2":
            raise OSError("copy")
        return reduce(self, protocol)

    monkeypatch.setattr(corridor.Corridor, "__reduce_ex__", broken)
    first, failure = player.attempt_from(starts, script, seed=0)
    assert first == whole[0]
    assert (failure.task_id, failure.turn, failure.transcript) == ("corridor/2", 0, [])


def test_an_environment_that_failed_is_replaced_even_if_it_cannot_be_closed(
    fails, corridor, monkeypatch
):
    monkeypatch.setattr(corridor.Corridor, "close", lambda self: 1 / 0)
    player = Rollouts(Env("Corridor-v0"), PromptOptions(), "train")
    fails(OSError("gone"), where="step", when=lambda task: task == "corridor/2")
    player.attempt(tasks(3, 2, 4), Script(east), seed=0)
    kept = [env.unwrapped for env in player._pool]
    assert len(kept) == 2
    player.attempt(tasks(3, 4, 4), Script(east), seed=0)
    assert [env.unwrapped for env in player._pool][:2] == kept


@pytest.mark.parametrize(
    "error", [RecipeError("a recipe"), MissingAsset("a file"), ImportError("a package")]
)
@pytest.mark.parametrize("where", ["reset", "step"])
def test_what_concerns_every_episode_ends_the_run_at_once(error, where, fails):
    fails(error, where=where, when=lambda task: task == "corridor/2")
    with pytest.raises(type(error), match=str(error)):
        play(tasks(3, 2, 4))


def test_a_reward_wrapper_that_raises_costs_the_episode(corridor, tmp_path, monkeypatch):
    (tmp_path / "picky.py").write_text(
        "import gymnasium as gym\n"
        "class Picky(gym.RewardWrapper):\n"
        "    def reward(self, reward):\n"
        "        return 1 / (self.unwrapped.task_id not in {'corridor/1', 'corridor/2'})\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    env = Env("Corridor-v0", wrappers={"picky:Picky": {}})
    player = Rollouts(env, PromptOptions(), "train")
    played, (failure,) = split_attempts(player.attempt(tasks(3, 2), Script(east), seed=0))
    assert "ZeroDivisionError" in failure.error
    assert "picky.py" in failure.traceback
    assert [one.task_id for one in played] == ["corridor/3"]
    with pytest.raises(EpisodeError, match=r"^task 'corridor/2' \(seed .*ZeroDiv") as raised:
        player.play(tasks(2), Script(east), seed=7)
    assert "in reward" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("failed", "tried", "limit", "allowed"),
    [
        (0, 16, 0.05, True),
        (1, 16, 0.05, True),  # one is always allowed
        (2, 16, 0.05, False),
        (6, 128, 0.05, True),  # int(6.4)
        (7, 128, 0.05, False),
        (1, 128, 0.0, False),
        (1, 1, 0.05, False),  # nothing is left
        (16, 16, 1.0, False),
        (15, 16, 1.0, True),
    ],
)
def test_the_limit(failed, tried, limit, allowed):
    given = [Failure(f"t{n}", n, 1, 3, "OSError: gone", "Traceback", []) for n in range(failed)]
    if allowed:
        check_limit(given, tried, limit, "step 4")
        return
    with pytest.raises(LimitError, match=r"^step 4: .*the first, task 't0' \(seed 1, turn 3\): O"):
        check_limit(given, tried, limit, "step 4")


def test_one_bad_task_costs_its_group():
    lost = [Failure("t", 0, 1, 3, "OSError: gone", "Traceback", [])] * 8
    check_limit(lost, 16, 0.05, "step 4")
    for tried, limit in ((8, 0.05), (16, 0.0)):  # nothing is left; none may fail
        with pytest.raises(LimitError):
            check_limit(lost, tried, limit, "step 4")


def walks(text, row):
    """Replies that differ between the rollouts of a group; some get through."""
    return (
        east(text, row)
        if row % 3 or "at 0." in text[-90:]
        else east(text, row).replace("east", "north")
    )


@pytest.mark.parametrize(
    ("context", "where"),
    [
        ("history", "step"),
        ("turn", "reset"),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in (("history", "reset"), ("turn", "step"))
        ),
    ],
)
def test_the_other_groups_update_is_bit_equal(context, where, tiny_folder, fails, tmp_path):
    """One group fails whole; the update is that of a step which never had the group."""
    options = [f"prompt.context={context}", "env.max_turns=5", "credit.name=gigpo"]
    chosen = short(tiny_folder, *options)
    drawn = [Task(f"corridor/{3 + i // 8}", i // 4, 5) for i in range(16)]
    fails(OSError("gone"), where=where, when=lambda task: task == "corridor/4")
    found = []
    for which in (drawn, drawn[:8]):
        policy, player, script = (
            load_policy(chosen.policy),
            make_rollouts(chosen, "train"),
            Script(walks),
        )
        played, failed = split_attempts(player.attempt(which, script, seed=0))
        assert (len(played), len(failed)) == (8, len(which) - 8)
        turns = Turns.from_episodes(played)
        method = make_method(chosen)
        method.begin(policy, tmp_path)
        rng, rows = np.random.default_rng(1), make_rows(played)
        made = method.credit(Experience(1, played, turns, rows, rng, player, script))
        Update()(learner(policy, tmp_path), made.rows, rng=np.random.default_rng(2))
        found.append((played, made.advantage.tolist(), dict(policy.model.state_dict())))
    assert any(found[0][1])
    assert found[0][:2] == found[1][:2]
    assert same(found[0][2], found[1][2])


# ---- whole steps ----

VINE = ["credit.name=agent_envs_lab.truth.vine:Vine", "sampling.decode=free"]
STEPS = METHODS | {"mgr": [], "vine": VINE, "redraws": ["sampling.redraws=2"]}


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "context"), list(zip(STEPS, cycle(("history", "turn")), strict=False))
)
def test_every_method_takes_steps_with_smaller_groups(  # noqa: PLR0917
    method, context, corridor, tiny_folder, tmp_path, monkeypatch
):
    """Every ninth call of an environment raises."""
    calls = [0]

    def broken(right, self, given):
        calls[0] += 1
        if calls[0] % 9 == 0:
            raise ConnectionError("the room is gone")
        return right(self, given)

    for name in ("begin", "act"):
        right = getattr(corridor.Corridor, name)
        monkeypatch.setattr(corridor.Corridor, name, partialmethod(partial(broken, right)))
    chosen = short(
        tiny_folder, "sft.steps=0", "run.steps=2", "eval.tasks=1", f"prompt.context={context}",
        "sampling.failures=0.9", *STEPS[method],
    )  # fmt: skip
    monkeypatch.setattr("trainer.run.session.evaluate_policy", lambda *_: pytest.fail("evaluated"))
    monkeypatch.setattr("trainer.train.Loop.evaluate", lambda self: {"eval_success": 0.0})
    train(chosen, tmp_path, console=quiet())
    lines = figures(tmp_path)
    assert any(line.get("failed", 0) > 0 for line in lines)
    files = sorted((tmp_path / "failures").iterdir())
    assert files
    kept = json.loads(files[0].read_text())
    assert kept["error"].startswith("ConnectionError: the room is gone")
    assert kept["env"] == "Corridor-v0"
    assert {"task_id", "seed", "turn", "traceback", "transcript", "step"} <= kept.keys()


def test_above_the_limit_the_run_stops_with_the_first_failure(fails, tiny_folder, tmp_path):
    fails(ConnectionError("the room is gone"), where="reset", when=lambda task: True)
    message = r"step 0, evaluations: the environment failed in 3 of 3 .*the room is gone"
    with pytest.raises(LimitError, match=message):
        train(short(tiny_folder, "sft.steps=0"), tmp_path, console=quiet())
    assert len(list((tmp_path / "failures").iterdir())) == 3


@pytest.mark.parametrize("where", ["reset", "step"])
def test_demonstrations_that_fail_are_left_out(where, fails, tiny_folder, tmp_path):
    fails(ConnectionError("gone"), where=where, when=lambda task: task == "corridor/5")
    options = ["sft.steps=2", "sft.episodes=5", "run.steps=1", "sampling.failures=0.5"]
    train(short(tiny_folder, *options, "eval.tasks=0"), tmp_path, console=quiet())
    lines = figures(tmp_path)
    assert [line["failed"] for line in lines[1:3]] == [0.2, 0.2]  # one of the five tasks
    kept = json.loads((tmp_path / "eval" / "step_2.json").read_text())
    assert kept["failed"] == ["corridor/5"]
    assert kept["success"][4] is False
    assert len(kept["task_ids"]) == 5
    with pytest.warns(UserWarning, match="1 of 5 tasks count as not solved.*corridor/5"):
        again = evaluate_model(short(tiny_folder, *options, "eval.tasks=0"), tmp_path)
    assert again.failed == ["corridor/5"]
