from __future__ import annotations

import json
import re

import gymnasium as gym
import pytest
from hallway import Hallway, alter

from agent_envs import ParseReply, Prompt, Template
from agent_envs.alfworld import prompt as alfworld
from agent_envs.appworld import prompt as appworld
from agent_envs.bifurcation import prompt as bifurcation
from agent_envs.ezpoints import prompt as ezpoints
from agent_envs.search_qa import prompt as search_qa
from agent_envs.sokoban import prompt as sokoban
from agent_envs.sotopia import prompt as sotopia
from agent_envs.template import SLOTS, leave_out_goal
from agent_envs.webshop import prompt as webshop
from tests.agent_envs.sotopia.test_published import PAIRING, PERSON, SITUATION

# STAPO, Fig. 12 and Fig. 13, as printed.
FIGURE_12 = """You are an expert agent operating in the ALFRED embodied Environment. \
Your task is to: {task_description}. Prior to this step, you have already taken {step_count} \
step(s). Below are the most recent {history_length} observations and the corresponding actions \
you took: {action_history}. You are now at step {current_step} and your current observation is: \
{current_observation}. Your admissible actions of the current situation are: \
[{admissible_actions}].

Now it's your turn to take an action. You should first reason step-by-step about the current \
situation. This reasoning process MUST be enclosed within <think> </think> tags. Once you've \
finished your reasoning, you should choose an admissible action for current step and present it \
within <action> </action> tags."""
FIGURE_13 = """You are an expert agent operating in the ALFRED Embodied Environment. \
You are now at step {current_step} and your current observation is: {current_observation}. \
Your admissible actions of the current situation are: [{admissible_actions}].

Now it's your turn to take an action. You should first reason step-by-step about the current \
situation. This reasoning process MUST be enclosed within <think> </think> tags. Once you've \
finished your reasoning, you should choose an admissible action for current step and present it \
within <action> </action> tags."""

SHORT = Template(
    full="{step_count}|{history_length}|{action_history}|{current_step}|{current_observation}",
    blind="{current_step}|{current_observation}",
)


def reply(action: str) -> str:
    return f"<think>.</think><action>{action}</action>"


class House(Hallway):
    """States the goal in its first observation and has the template of AlfWorld."""

    template = alfworld.TEMPLATE

    def begin(self, task_id):
        goal, turn = super().begin(task_id)
        return goal, turn._replace(observation=f"You are in a hall.\n\nYour task is to: {goal}.")


def test_the_wording_is_the_papers():
    assert alfworld.TEMPLATE.full == FIGURE_12
    assert alfworld.TEMPLATE.blind == FIGURE_13


@pytest.fixture
def figure(shared_data):
    """The words of a prompt that iStar prints, by the name of its environment there."""
    path = shared_data.parent / "papers" / "istar.txt"
    if not path.is_file():
        pytest.skip("needs the texts of the papers beside the test data")
    text = path.read_text(encoding="utf-8")

    def read(name: str) -> str:
        _, _, after = text.partition(f"**Prompt template for {name}**")
        return " ".join(after[: after.index("\nFigure ")].split())

    return read


def test_a_turn_of_visualsokoban_as_istar_prints_it(figure):
    """Fig. 7, word for word but for the drawings, which are described as they are here."""
    drawings = re.compile(r"Character: A .* should be pushed\.")
    env = Prompt(gym.make("VisualSokoban-v0"), sokoban.ISTAR, history=0)
    shown = [env.reset(seed=1)[0], env.step("up")[0]]
    printed, ours = (
        [drawings.subn("", " ".join(text.split())) for text in texts]
        for texts in ([figure("VisualSokoban")] * 2, shown)
    )
    assert ours == printed
    assert printed[0][1] == 1
    with pytest.raises(ValueError, match="belongs to VisualSokoban and does not fit Sokoban"):
        Prompt(gym.make("Sokoban-v0"), sokoban.ISTAR)


def published(folder):
    """Sotopia-v0 with a scene of our own and the echo."""
    rows = {
        "environment_profiles": [SITUATION | {"agent_goals": ["Stay dry", "Get wet"]}],
        "env_agent_combo_storages": [PAIRING],
        "agent_profiles": [PERSON, PERSON | {"agent_id": "A2", "secret": "Is a spy"}],
    }  # fmt: skip
    for name, some in rows.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, some)))
    return gym.make("Sotopia-v0", data=folder, split="all", partner="echo", judge="none")


def test_a_turn_of_sotopia_as_istar_prints_it(figure, tmp_path):
    """Fig. 8, word for word, around the context and the conversation."""
    env = Prompt(ParseReply(published(tmp_path)), history=10)
    shown = [env.reset(seed=1, options={"task": 1})[0], env.step(reply("Good morning!"))[0]]
    name = env.unwrapped.talk.scene.characters[1].name
    for turn, prompt in enumerate(shown, 1):
        told = re.sub(r"(?s)\n\nHere is the context.*(?=\n\nYou are at Turn)", "", prompt)
        printed = figure("SOTOPIA").replace("{agent}", name).replace("{turn}", str(turn))
        assert " ".join(told.split()) == printed
        assert "Here is the context of this interaction:\nSituation: " in prompt


OWN = {
    "AlfWorld-v0": alfworld.TEMPLATE,
    "AppWorld-v1": appworld.TEMPLATE,
    "Bifurcation-v1": bifurcation.TEMPLATE,
    "EZPoints-v0": ezpoints.TEMPLATE,
    "Points-v0": ezpoints.POINTS,
    "SearchQA-v1": search_qa.TEMPLATE,
    "Sokoban-v0": sokoban.TEXT_TEMPLATE,
    "Sotopia-v1": sotopia.SHORT,
    "VisualSokoban-v0": sokoban.IMAGE_TEMPLATE,
    "WebShop-v1": webshop.TEMPLATE,
}


@pytest.mark.parametrize("env_id", OWN)
def test_the_default_is_the_environments_own(env_id):
    env, own = gym.make(env_id), OWN[env_id]
    assert Prompt(env).template is own
    assert Prompt(env, own).template is own
    assert own.owner == type(env.unwrapped).__name__
    for other in OWN.values():
        if other is not own:
            message = f"belongs to {other.owner} and does not fit {own.owner}; leave template out"
            with pytest.raises(ValueError, match=message):
                Prompt(env, other)


def test_webshops_templates():
    """STAPO, Figures 14 and 15; the goal is told in the full prompt only."""
    env = Prompt(gym.make("WebShop-v1"))
    prompt, info = env.reset(seed=1)
    goal = info["goal"]
    assert prompt.startswith(
        "You are an expert autonomous agent operating in the WebShop e-commerce environment. Your "
        f"task is to: {goal} Prior to this step, you have already taken 0 step(s). Below are the "
        "most recent 0 observations and the corresponding actions you took: none. You are now at "
        f"step 1 and your current observation is: WebShop [SEP] Instruction: [SEP] {goal} [SEP] "
        "Search. Your admissible actions of the current situation are: ['search[<keywords>]'].\n\n"
        "Now it's your turn to take one action for the current step."
    )
    assert info["blind_prompt"].startswith(
        "You are an expert autonomous agent operating in the WebShop e-commerce environment. You "
        "are now at step 1 and your current observation is WebShop [SEP] Instruction: [SEP] "
        "Search. Your admissible actions"
    )
    prompt, *_, info = env.step(f"search[{goal}]")
    assert goal in prompt
    assert "Page 1" in info["blind_prompt"]
    assert goal not in info["blind_prompt"]


@pytest.mark.parametrize(
    ("history", "shown"),
    [
        (0, "3|0|none|4|What is 'c'?"),
        (1, "3|1|[Observation 3: 'What is 'b'?', Action 3: 'c']|4|What is 'c'?"),
        (
            2,
            """3|2|[Observation 2: 'What is 'a'?', Action 2: 'b']
[Observation 3: 'What is 'b'?', Action 3: 'c']|4|What is 'c'?""",
        ),
        (
            9,
            """3|3|[Observation 1: 'You are in a hallway.', Action 1: 'a']
[Observation 2: 'What is 'a'?', Action 2: 'b']
[Observation 3: 'What is 'b'?', Action 3: 'c']|4|What is 'c'?""",
        ),
    ],
)
def test_the_last_turns_are_shown(history, shown):
    env = Prompt(ParseReply(gym.make("Hallway-v0")), SHORT, history=history)
    env.reset(seed=1)
    env.step(reply("a"))
    env.step(reply("b"))
    prompt, _, _, _, info = env.step(reply("c"))
    assert prompt == shown
    assert info["blind_prompt"] == "4|What is 'c'?"


def test_the_blind_prompt_has_neither_goal_nor_history():
    env = Prompt(House())
    prompt, info = env.reset(seed=1)
    assert info["goal"] in prompt
    assert info["goal"] not in info["blind_prompt"]
    assert "observation is: You are in a hall. Your admissible" in info["blind_prompt"]
    *_, info = env.step("xyzzy")
    assert info["goal"] not in info["blind_prompt"]
    assert "Prior" not in info["blind_prompt"]


def test_braces_in_texts_are_left_alone():
    env = Prompt(Hallway(), SHORT)
    env.reset(seed=1)
    assert env.step("{task_description} {0}")[0].endswith("What is '{task_description} {0}'?")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prompt(Hallway(), "alfworld"), "template must be a Template, got 'alfworld'"),
        (lambda: Prompt(alter(template=None)), "has no prompt template of its own; pass"),
        (lambda: Prompt(Hallway(), history=-1), "history, the number of turns shown, must be >= 0"),
        (lambda: Prompt(gym.make("CartPole-v1")), "Prompt needs an agent_envs.AgentEnv inside"),
        (lambda: Template("{goal}", ""), "unknown slot {goal}"),
        (lambda: Template("{step_counts}", ""), "{step_counts}, did you mean 'step_count'"),
        (lambda: Template("{0}", ""), "unknown slot {0}"),
        *(
            (lambda s=slot: Template("", f"{{{s}}}"), f"unknown slot {{{slot}}}")
            for slot in SLOTS[:5]
        ),
    ],
)
def test_bad_arguments_and_unknown_or_seeing_slots_are_refused(make, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        make()


def test_what_a_blind_prompt_is_not_told():
    slots = "task_description history_length action_history current_observation admissible_actions"
    full = "|".join(f"{{{slot}}}" for slot in slots.split())
    env = Prompt(Hallway(), Template(full, "{current_step}", past="{action}"), history=2)
    env.reset(seed=1, options={"task": 3})
    *_, info = env.step("look")
    goal, seen = info["goal"], "What is 'look'?"
    assert env.blind("goal") == f"not told|1|look|{seen}|'left', 'right'"
    assert env.blind("history") == f"{goal}|0|none|{seen}|'left', 'right'"
    assert env.blind("observation") == f"{goal}|1|look|not told|not told"
    assert env.blind("both") == "2"


def test_a_goal_of_several_lines_is_left_out_whole():
    goal = "Read the list:\nmilk\nbread."
    assert leave_out_goal(f"A shop.\nNow: {goal}\nIt is open.", goal) == "A shop.\nIt is open."
    assert leave_out_goal("milk", goal) == "milk"
    assert leave_out_goal("Find a key.\n\nA keyhole.", "key.") == "A keyhole."
    assert leave_out_goal("A keyhole.", "key.") == "A keyhole."


def test_what_is_told_in_words_is_no_place_of_an_image():
    env = Prompt(gym.make("EZPoints-v0", observation="image"), history=3)
    env.reset(seed=1)
    prompt, *_, info = env.step("<image>")
    assert len(env.images) == 1
    assert prompt.count("<image>") == info["blind_prompt"].count("<image>") == 1
    assert "[image]" in prompt

    class Marked(Hallway):
        def begin(self, task_id):
            return "find <image>", super().begin(task_id)[1]

        def told(self, text, **rest):
            turn = super().told(f"<image> {text}", **rest)
            return turn._replace(admissible_actions=["see <image>"])

    env = Prompt(Marked(), history=3)
    prompts = [env.reset(seed=1, options={"task": 3}), env.step("right")[::4]]
    for prompt, info in prompts:
        assert "<image>" not in prompt + info["blind_prompt"]
    assert all(said in prompts[1][0] for said in ("find [image]", "[image] Cell", "see [image]"))
    assert env.images == []


def test_sotopias_template_shows_context_and_conversation(tmp_path):
    """The goal stands in the context, which a blind prompt lacks."""
    env = Prompt(ParseReply(published(tmp_path)), history=10)
    prompt, info = env.reset(seed=1, options={"task": 0})
    context = env.unwrapped.talk.scene.render_background(0)
    assert context in prompt
    assert "since then" not in prompt
    assert info["goal"] not in info["blind_prompt"]
    env.step(reply("Good morning!"))
    second, _, _, _, info = env.step(reply("I could pay $100."))
    answers = [env.unwrapped.transcript[turn][1] for turn in (1, 2)]
    assert (
        f"{context}\n\nThe conversation since then:\nYou: Good morning!\n{answers[0]}\n"
        f"You: I could pay $100.\n{answers[1]}\n\nWhat you hear now: {answers[1][:-1]}\n\n"
        "You are at Turn 3. You can say something to interact or just say 'left the conversation'"
    ) in second
    assert env.unwrapped.talk.scene.characters[1].secret not in second
    assert info["goal"] not in env.blind("goal")
    assert answers[0] not in env.blind("both")
