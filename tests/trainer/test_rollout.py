"""Rollouts on a corridor with scripted replies: who is prompted, what is recorded, what is paid."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import gymnasium as gym
import pytest
from jinja2 import TemplateError

import credit
from agent_envs import Template
from agent_envs.replies import FORM
from trainer.learn.sft import attempt_demonstrations
from trainer.play.environments import Env, PromptOptions, make_env
from trainer.play.records import Task
from trainer.play.rollout import Rollouts
from trainer.play.source import draw_tasks
from trainer.run.checks import find_expert

from .conftest import Letters, Script, east
from .conftest import corridor_tasks as tasks


@pytest.fixture(autouse=True)
def _corridor(corridor):
    corridor.MADE.clear()


def rollouts(context="history", *, penalty=0.0, turns=50, **options):
    env = Env(id="Corridor-v0", invalid_penalty=penalty, max_turns=turns)
    return Rollouts(env, PromptOptions(context=context), "train", **options)


def test_the_finished_are_neither_prompted_nor_stepped(corridor):
    script = Script(east)
    played = rollouts().play(tasks(1, 3, 2), script, seed=0)
    # lengths 1, 3, 2: all three, then those of length 3 and 2, then the one of length 3
    assert script.asked == [[0, 1, 2], [1, 2], [1]]
    assert [env.steps for env in corridor.MADE] == [1, 3, 2]
    assert [len(episode.steps) for episode in played] == [1, 3, 2]
    assert [episode.task_id for episode in played] == ["corridor/1", "corridor/3", "corridor/2"]
    assert [episode.group for episode in played] == [0, 1, 2]
    assert all(episode.success and not episode.truncated for episode in played)
    assert all(episode.strata == {"task_type": "walk"} for episode in played)


def test_waves_give_the_same_episodes_and_environments_are_made_once(corridor):
    together = rollouts().play(tasks(1, 3, 2, 5), Script(east), seed=0)
    player = rollouts(rows=2)
    for _ in range(3):
        assert player.play(tasks(1, 3, 2, 5), Script(east), seed=0) == together
    assert len(corridor.MADE) == 4 + 2


def test_history_sends_only_what_is_new():
    script = Script(east)
    (episode,) = rollouts().play(tasks(2), script, seed=0)
    assert script.sessions == 1
    first = "Walk 2 steps.\n\nYou stand at 0."  # which does not say the goal
    assert script.prompts == [f"{FORM.instruction}\n\n{first}", "\x01You stand at 1."]
    assert [step.observation for step in episode.steps] == [first, "You stand at 1."]
    assert episode.steps[1].prompt_ids == [1, *map(ord, "You stand at 1.")]


def test_the_goal_is_told_once_and_where_it_is_wanted(corridor, monkeypatch):
    plain = Rollouts(Env("Corridor-v0"), PromptOptions(goal=False), "train")
    script = Script(east)
    plain.play(tasks(1), script, seed=0)
    assert script.prompts == [f"{FORM.instruction}\n\nYou stand at 0."]
    begin = corridor.Corridor.begin

    def tell(self, task_id):
        goal, turn = begin(self, task_id)
        return goal, turn._replace(observation=f"Go. {goal[:-1]}, and no more.")

    monkeypatch.setattr(corridor.Corridor, "begin", tell)
    rollouts().play(tasks(1), script, seed=0)
    assert script.prompts[1] == f"{FORM.instruction}\n\nGo. Walk 1 steps, and no more."

    def tell_less(self, task_id):  # the goal is a part of another word
        return "key", begin(self, task_id)[1]._replace(observation="a keyhole")

    monkeypatch.setattr(corridor.Corridor, "begin", tell_less)
    (episode,) = rollouts(blind=("goal",)).play(tasks(1), script, seed=0)
    assert script.prompts[2] == f"{FORM.instruction}\n\nkey\n\na keyhole"
    blind = "".join(map(chr, episode.steps[0].blind_ids["goal"]))
    assert blind == f"{FORM.instruction}\n\na keyhole"


def test_turn_context_renders_a_prompt_and_starts_anew():
    script = Script(east)
    (episode,) = rollouts("turn").play(tasks(2), script, seed=0)
    assert script.fresh
    assert all(prompt.startswith("You are an expert agent") for prompt in script.prompts)
    assert "'east'" in script.prompts[1]
    assert episode.steps[1].observation == script.prompts[1]
    assert episode.steps[1].prompt_ids == list(map(ord, script.prompts[1]))


def test_what_is_recorded():
    replies = iter(["<think></think><action>north</action>", "go east", east("", 0), east("", 0)])
    script = Script(lambda text, row: next(replies))
    (episode,) = rollouts(penalty=-0.1).play(tasks(2), script, seed=0)
    steps = episode.steps
    assert [step.action for step in steps] == ["north", "", "east", "east"]
    assert [step.valid for step in steps] == [False, False, True, True]
    assert [step.invalid_reason for step in steps] == ["refused", "format", "", ""]
    assert [step.anchor for step in steps] == ["at 0", "at 0", "at 0", "at 1"]  # acted in
    assert [step.progress for step in steps] == [0.0, 0.0, 0.5, 1.0]  # reached
    # -0.1 for each invalid turn; the 1.0 of success is the outcome and no turn's reward
    assert [step.reward for step in steps] == pytest.approx([-0.1, -0.1, 0.0, 0.0])
    assert episode.outcome == 1.0
    assert steps[0].logprobs == [-0.5] * len(steps[0].reply_ids)
    assert steps[0].allowed is None


def test_an_invalid_last_turn_keeps_its_penalty():
    (episode,) = rollouts(penalty=-0.1, turns=3).play(
        tasks(5), Script(lambda text, row: "no"), seed=0
    )
    assert [step.reward for step in episode.steps] == pytest.approx([-0.1] * 3)
    assert (episode.outcome, episode.success, episode.truncated) == (0.0, False, True)


WEBSHOP = {"reward": "score"}


class Doubled(gym.RewardWrapper):
    """A wrapper that reports no term."""

    def reward(self, reward):
        return 2 * float(reward) + 0.25


def test_what_a_silent_wrapper_pays_stays_with_its_turn():
    env = Env(id="Corridor-v0", wrappers={f"{__name__}:Doubled": {}})
    player = Rollouts(env, PromptOptions(), "train")
    (episode,) = player.play(tasks(2), Script(east), seed=0)
    assert episode.outcome == 1.0
    assert [step.reward for step in episode.steps] == [0.25, 1.25]


def test_the_outcome_is_the_return_and_by_a_wrapper_the_last_reward():
    """Two orders of the same moves: equal returns, so GRPO tells them apart only by the last."""

    def walk(text, row):
        way = "east" if text.startswith(FORM.instruction) == (row == 0) else "north"
        return f"<think></think><action>{way}</action>"

    def play(wrappers):
        env = Env(id="corridor:Toll", max_turns=2, wrappers=wrappers)
        player = Rollouts(env, PromptOptions(), "train")
        played = player.play([*tasks(5), *tasks(5)], Script(walk), seed=0)
        turns = credit.Turns.from_episodes(played)
        assert sorted(turns.read_paid().tolist()) == [-0.5, -0.5, 0.25, 0.25]
        return turns

    turns = play({})
    assert turns.outcome.tolist() == [-0.25, -0.25]
    assert credit.make("grpo")(turns).tolist() == [0.0] * 4
    last = play({"credit.rewards:LastReward": {}})
    assert sorted(last.outcome.tolist()) == [-0.5, 0.25]
    assert last.reward[last.last].tolist() == [0.0, 0.0]
    assert credit.make("gigpo")(last).tolist() != credit.make("gigpo")(turns).tolist()


def buyer(text, row):
    """Search for the request, open the first, buy it."""
    products = re.findall(r"\bB\d{6}\b", text)
    click = "Buy Now" if "Buy Now" in text else products[0] if products else ""
    action = f"click[{click}]" if click else "search[coat]"
    return f"<think></think><action>{action}</action>"


@pytest.mark.parametrize("penalty", [0.0, -0.1])
def test_the_terms_of_an_environments_own_reward_are_its_outcome(penalty):
    env = Env(id="WebShop-v1", invalid_penalty=penalty, options=WEBSHOP)
    player = Rollouts(env, PromptOptions(), "train", max_tokens=10**6)
    names = player.panel.task_ids[:400:8]  # some of them ask for a coat
    played = player.play([Task(name, 0, seed=1) for name in names], Script(buyer), seed=0)
    plain = gym.make("WebShop-v1", **WEBSHOP)
    for episode in played:
        plain.reset(seed=1, options={"task_id": episode.task_id})
        *_, last = [plain.step(step.action) for step in episode.steps]
        assert last[2]
        assert episode.outcome == last[1]
        assert sum(step.reward for step in episode.steps) == 0.0
    assert any(episode.outcome for episode in played)


def offering(corridor, monkeypatch, actions):
    """An episode whose states offer these actions, and what was offered."""
    turn = corridor.Corridor._turn
    monkeypatch.setattr(
        corridor.Corridor,
        "_turn",
        lambda self, **given: turn(self, **given)._replace(
            admissible_actions=actions, extra={"action": ""}
        ),
    )
    script = Script(east, decode="admissible")
    return rollouts().attempt(tasks(2), script, seed=0)[0], script.offered


IMPOSSIBLE = ["", " ", " go", "go ", "go\n", "<think>", "</action>", "<action>x</action>",
              "a</action><action>b", "x" * 5000]  # fmt: skip
REFUSED = {
    **{one: ("", ["east", one], f"{one!r:.20}.*text of 1 to 4096 char") for one in IMPOSSIBLE},
    "none": ("", [], "reads '<think>.*lists 0"),
    "another form": ("{thought} | {action}", ["east"], "reads '{thought} | {action}' and lists 1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_actions_that_no_reply_can_give_cost_the_episode(what, corridor, monkeypatch):
    """They would be other actions, or none, and count as the policy's mistakes."""
    form, actions, words = REFUSED[what]
    monkeypatch.setattr(corridor.Corridor, "reply_form", form)
    failure, _ = offering(corridor, monkeypatch, actions)
    assert failure.error.startswith("ContractError: ")
    for part in (*words.split(".*"), "set sampling.decode=free"):
        assert part in failure.error


@pytest.mark.parametrize(
    "action", ["north", "go north", "é “quoted” \\ 'x'", "two\nlines", "a < b > c", "x" * 1000]
)
def test_actions_that_a_reply_can_give_are_offered(corridor, monkeypatch, action):
    episode, offered = offering(corridor, monkeypatch, ["east", action])
    assert episode.success
    assert offered == [[["east", action]]] * 2


def test_there_is_room_for_the_longest_admissible_action(corridor, monkeypatch):
    """Constrained replies are not cut at `max_reply_tokens`, 50 here."""
    (whole,) = rollouts().play(tasks(2), Script(east, decode="admissible"), seed=0)
    prompts, reply = [len(step.prompt_ids) for step in whole.steps], len(whole.steps[0].reply_ids)
    turn = corridor.Corridor._turn
    longest = len("<think></think><action></action>") + 100 + 1

    def long(self, **given):
        return turn(self, **given)._replace(admissible_actions=["east", "x" * 100])

    monkeypatch.setattr(corridor.Corridor, "_turn", long)
    enough = sum(prompts) + reply + longest
    for most, turns in ((enough, 2), (enough - 1, 1)):
        player = rollouts(max_tokens=most)
        (played,) = player.play(tasks(2), Script(east, decode="admissible"), seed=0)
        assert (len(played.steps), played.truncated) == (turns, turns == 1)
    with pytest.raises(ValueError, match=rf"no room for a reply of {longest} in 120"):
        rollouts(max_tokens=120).play(tasks(2), Script(east, decode="admissible"), seed=0)


@pytest.mark.parametrize("context", ["history", "turn"])
def test_no_room_for_a_reply_ends_the_episode(context):
    whole = Script(east)
    rollouts(context).play(tasks(3), whole, seed=0)
    used = len(whole.prompts[0]) + len(east("", 0)) + 1 if context == "history" else 0
    limit = used + len(whole.prompts[1]) + 50 - 1  # one token short of the second reply
    if context == "turn":
        limit = max(limit, len(whole.prompts[0]) + 50)
    (episode,) = rollouts(context, max_tokens=limit).play(tasks(3), Script(east), seed=0)
    assert (len(episode.steps), episode.truncated, episode.outcome) == (1, True, 0.0)
    (episode,) = rollouts(context).play(tasks(3), Script(east, limit=limit), seed=0)
    assert (len(episode.steps), episode.truncated) == (1, True)


def test_the_explorer_shows_the_way(corridor):
    chat = Letters()
    one, two = attempt_demonstrations(rollouts(), tasks(1, 2), chat)
    assert [step.reply for step in two.steps] == [east("", 0)] * 2
    assert two.steps[0].observation == f"{FORM.instruction}\n\nWalk 2 steps.\n\nYou stand at 0."
    assert two.steps[1].observation == "You stand at 1."
    assert (one.task_id, one.goal, one.success) == ("corridor/1", "Walk 1 steps.", True)
    assert len(corridor.MADE) == 1
    assert len(attempt_demonstrations(rollouts(turns=2), tasks(1, 5), chat)) == 1  # solved one
    find_expert(rollouts(), "corridor:Explorer")
    assert len(attempt_demonstrations(rollouts(), tasks(2), chat, "corridor:Explorer")) == 1


def test_a_demonstration_that_the_template_refuses_is_lost_alone(monkeypatch):
    after = Letters.after

    def refuse(self, reply_ids, text):
        if text == "You stand at 2.":  # of the task that needs three steps
            raise TemplateError("no such message")
        return after(self, reply_ids, text)

    whole = attempt_demonstrations(rollouts(), tasks(1, 2), Letters())
    monkeypatch.setattr(Letters, "after", refuse)
    one, failure, two = attempt_demonstrations(rollouts(), tasks(1, 3, 2), Letters())
    assert [one.steps, two.steps] == [shown.steps for shown in whole]
    assert (failure.task_id, "no such message" in failure.error) == ("corridor/3", True)


def test_a_demonstration_of_turns_shows_their_prompts():
    (shown,) = attempt_demonstrations(rollouts("turn"), tasks(2), Letters())
    assert all(step.observation.startswith("You are an expert") for step in shown.steps)
    assert shown.context == "turn"


def test_a_template_of_ones_own(monkeypatch):
    short = Template("{current_observation} Go on.", "{current_observation}")
    monkeypatch.setitem(sys.modules, "mine", SimpleNamespace(SHORT=short))
    script = Script(east)
    player = Rollouts(Env("Corridor-v0"), PromptOptions("turn", "mine:SHORT"), "train")
    player.play(tasks(1), script, seed=0)
    assert script.prompts == ["You stand at 0 Go on."]  # the prompt drops the full stop


def show(turns, *given):
    return lambda: attempt_demonstrations(rollouts(turns=turns), tasks(*given), Letters())


def make(env=None, split="train", **prompt):
    env = env or Env("Corridor-v0")
    return lambda: make_env(env, PromptOptions("turn", **prompt), split=split)


REFUSALS = {
    "no room": (
        lambda: rollouts(max_tokens=60).play(tasks(3), Script(east), seed=0),
        r"corridor/3 has \d+ tokens.*sampling\.max_tokens",
    ),
    "unsolved": (show(2, 4, 5), "solved none of 2 tasks in 2 turns"),
    "expert": (lambda: find_expert(rollouts(), "oracle"), "Corridor has no oracle; use 'explorer'"),
    "template's name": (
        make(template="alfworld"),
        r"prompt\.template must have the form package\.module:Name",
    ),
    "template": (
        make(template="agent_envs.webshop.prompt:TEMPLATE"),
        "belongs to WebShop and does not fit Corridor",
    ),
    "option of the recipe": (
        make(Env("Corridor-v0", options={"split": "a"})),
        r"no option 'split'; env\.options has render_mode, .*are set as env\.NAME",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_is_refused(what):
    call, words = REFUSALS[what]
    with pytest.raises(ValueError, match=words):
        call()


def test_draws_are_groups_of_different_tasks(corridor):
    drawn = draw_tasks(corridor.PANEL, tasks=4, rollouts=3, seed=1, step=2)
    assert [task.group for task in drawn] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert set(Counter(drawn).values()) == {3}  # rollouts of a group share task and seed
    assert len({task.task_id for task in drawn}) == 4
    assert drawn == draw_tasks(corridor.PANEL, tasks=4, rollouts=3, seed=1, step=2)
    assert drawn != draw_tasks(corridor.PANEL, tasks=4, rollouts=3, seed=1, step=3)
    assert drawn != draw_tasks(corridor.PANEL, tasks=4, rollouts=3, seed=2, step=2)


def test_more_groups_than_tasks_repeat_tasks_evenly(corridor):
    drawn = draw_tasks(corridor.PANEL, tasks=12, rollouts=1, seed=1, step=1)
    assert sorted(Counter(task.task_id for task in drawn).values()) == [2, 2, 2, 3, 3]
    assert len({task.group for task in drawn}) == 12


# environments that wait


@pytest.fixture
def waiting(corridor, monkeypatch):
    """A corridor whose every reset and step takes a while, in the thread that asks."""
    inside, most, threads = [], [0], set()

    def slowly(method):
        def call(self, *given):
            inside.append(self)
            most[0] = max(most[0], len(inside))
            threads.add(threading.get_ident())
            time.sleep(0.02)
            inside.remove(self)
            return method(self, *given)

        return call

    monkeypatch.setattr(corridor.Corridor, "begin", slowly(corridor.Corridor.begin))
    monkeypatch.setattr(corridor.Corridor, "act", slowly(corridor.Corridor.act))
    return most


@pytest.mark.parametrize("what", ["history", "turn", "demonstrations"])
def test_environments_that_wait_are_stepped_at_once_with_the_same_result(
    what, corridor, waiting, monkeypatch
):
    def answer(text, row):
        return "<think></think><action>" + ("north" if row == 3 else "east") + "</action>"

    def played():
        waiting[0] = 0
        context, script = "turn" if what == "turn" else "history", Script(answer)
        player = rollouts(context, turns=6, blind=("goal",))
        drawn = draw_tasks(player.panel, tasks=4, rollouts=2, seed=1, step=1)
        if what == "demonstrations":
            return attempt_demonstrations(player, drawn, Letters()), (), waiting[0]
        return player.play(drawn, script, seed=0), script.prompts, waiting[0]

    alone = played()
    monkeypatch.setattr(corridor.Corridor, "waits", True)
    together = played()
    assert repr(alone[:2]) == repr(together[:2])
    assert alone[2] == 1 < together[2]


def test_a_factory_of_any_options_gets_those_that_its_environment_has(corridor, monkeypatch):
    class Plain(corridor.Corridor):
        def __init__(self, max_turns=5):
            super().__init__(max_turns=max_turns)

    monkeypatch.setattr(gym, "registry", dict(gym.registry))
    monkeypatch.setattr("gymnasium.envs.registration.registry", gym.registry)
    gym.register("Factory-v0", entry_point=lambda **options: Plain(**options))  # noqa: PLW0108
    made = make_env(Env("Factory-v0", max_turns=7), PromptOptions(), split="train")
    assert made.unwrapped.max_turns == 7
