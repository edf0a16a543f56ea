"""Experts of every environment: one protocol, an Explorer that is not told what is hidden."""

import copy
from dataclasses import replace

import gymnasium as gym
import pytest
from hallway import Hallway, Walker

from agent_envs import ParseReply, Prompt, expert
from agent_envs.alfworld.experts import Explorer
from agent_envs.experts import expert_class, experts_of
from agent_envs.sotopia.scene import Fact

pytestmark = pytest.mark.slow

HAVE = {
    "AlfWorld-v0": ["explorer", "oracle"],
    "AppWorld-v1": ["explorer", "oracle"],
    "Bifurcation-v1": ["explorer"],
    "EZPoints-v0": ["explorer"],
    "Points-v0": ["explorer"],
    "SearchQA-v1": ["explorer", "oracle"],
    "Sokoban-v0": ["explorer"],
    "Sotopia-v1": ["explorer", "oracle"],
    "VisualSokoban-v0": ["explorer"],
    "WebShop-v1": ["explorer", "oracle"],
    "WikiSearch-v1": ["explorer", "oracle"],
}
"""The site of WebShop has WebShop's; those of TextWorld and public questions have their tests."""
EACH = [(env_id, name) for env_id, names in HAVE.items() for name in names]


def reply(env, made):
    form = env.unwrapped.reply_form or "{action}"
    return form.format(thought=made.think(), action=made.act())


def test_every_registered_environment_has_one():
    ours = {
        name
        for name, spec in gym.registry.items()
        if str(spec.entry_point).startswith("agent_envs.")
    }
    public = {"AppWorld-v0", "SearchQA-v0", "Sotopia-v0", "WebShop-v0", "WikiSearch-v0"}
    needing = {*public, "TextWorld-v0", "WebShopSite-v1"}
    assert ours == {*HAVE, *needing}
    for env_id, names in HAVE.items():
        assert [*experts_of(type(gym.make(env_id).unwrapped))] == names


@pytest.mark.parametrize(("env_id", "name"), EACH)
def test_it_plays_to_a_success_and_does_nothing_by_itself(env_id, name):
    env, solved = gym.make(env_id), 0
    for task in range(4):
        env.reset(seed=task, options={"task": task})
        made, done = expert(env, name), False
        while not done:
            before = copy.deepcopy(env.unwrapped.transcript)
            act, thought = made.act(), made.think()
            assert (made.act(), made.think()) == (act, thought)  # twice the same
            fresh = expert(env, name)  # and of one that was made just now
            assert (fresh.think(), fresh.act()) == (thought, act)
            assert type(act) is type(thought) is str
            assert act
            assert env.unwrapped.transcript == before
            *_, terminated, truncated, info = env.step(reply(env, made))
            done = terminated or truncated
        solved += info["success"]
    assert solved == 4
    env.close()


class Hidden:
    """What raises whatever is done with it."""

    def __getattribute__(self, name):
        raise AssertionError(f"the Explorer looked at {name!r} of something hidden")

    __getitem__ = __iter__ = __len__ = __eq__ = __hash__ = __getattribute__


HIDDEN = {
    "AlfWorld-v0": ("world", "library", "panel"),
    "AppWorld-v1": ("world", "panel", "_opened", "_verdict"),
    "Bifurcation-v1": ("panel", "task", "place"),
    "EZPoints-v0": ("panel", "np_random"),  # cards and formula are shown
    "Points-v0": ("panel", "deals", "np_random"),
    "Sokoban-v0": ("source", "solver", "panel"),  # the board is shown
    "Sotopia-v1": ("speaker", "partner", "judge", "panel"),
    "VisualSokoban-v0": ("source", "solver", "panel"),
    "WebShop-v1": ("task", "panel"),
}


def blinded(env):
    """The environment without what it has not shown; only to be looked at."""
    blind = copy.copy(env.unwrapped)
    for name in HIDDEN[env.spec.id]:
        setattr(blind, name, Hidden())
    if env.spec.id == "Sotopia-v1":
        facts = tuple(Fact("", topic, "", "") for topic in blind.game.topics)
        blind.game = replace(blind.game, facts=facts)
        scene = replace(blind.talk.scene, game=blind.game, goals=("", ""))
        blind.talk = blind.talk._replace(scene=scene)
    if env.spec.id == "WebShop-v1":
        hidden = dict.fromkeys(("goals", "products", "world", "search"), Hidden())
        blind.shop = twin(blind.shop, **hidden, build_body=show_pages(blind))
    return blind


def twin(one, **others):
    """An object like another but for some attributes."""
    made = object.__new__(type(one))
    vars(made).update(vars(one) | others)
    return made


def show_pages(env):
    """A shop's `build_body` for the pages of an episode alone."""
    build, trail = env.shop.build_body, env.trail

    def show(page):
        assert page in trail, "the Explorer looked at a page that was not shown"
        return build(page)

    return show


@pytest.mark.parametrize("env_id", HIDDEN)
def test_an_explorer_does_the_same_without_what_is_hidden(env_id):
    env = gym.make(env_id)
    tasks = len(env.unwrapped.panel)
    for seed in range(3 if env_id == "AppWorld-v1" else 12):
        env.reset(seed=seed, options={"task": seed * 37 % tasks})
        explorer, done = expert(env), False
        while not done:
            blind = expert(blinded(env))
            assert (blind.act(), blind.think()) == (explorer.act(), explorer.think())
            *_, terminated, truncated, _ = env.step(reply(env, explorer))
            done = terminated or truncated
    env.close()


def test_it_is_found_inside_wrappers():
    env = Prompt(ParseReply(gym.make("AlfWorld-v0")))
    env.reset(seed=0)
    assert isinstance(expert(env), Explorer)
    assert isinstance(expert(env, "agent_envs.alfworld.experts:Explorer"), Explorer)


class Guided(Hallway):
    experts = __name__


Oracle = Walker


def test_an_environment_of_ones_own_names_the_module_of_its_experts():
    env = Guided()
    env.reset(seed=0)
    assert experts_of(Guided) == {"explorer": Explorer, "oracle": Walker}  # of this module
    assert expert(env, "oracle").act() == "right"


@pytest.mark.parametrize(
    ("env", "name", "error", "message"),
    [
        ("Sokoban-v0", "explorr", ValueError, "'explorr', did you mean 'explorer'?; known are"),
        ("Hallway-v0", "explorer", ValueError, "Hallway has no experts: set its class attribute"),
        ("Sokoban-v0", "oracle", ValueError, "no oracle; use 'explorer', which knows only what it"),
        ("Sokoban-v0", "no.module:Expert", ValueError, "there is no module 'no'"),
        ("Sokoban-v0", "agent_envs:__all__", ValueError, "must name an object of class type"),
        ("CartPole-v1", "explorer", TypeError, "needs an agent_envs.AgentEnv inside"),
    ],
)
def test_mistakes_are_told_in_a_line(env, name, error, message):
    made = gym.make(env)
    made.reset(seed=0)
    with pytest.raises(error) as refused:
        expert(made, name)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("env_id", "name"), EACH)
def test_it_needs_an_episode_of_its_own_environment(env_id, name):
    env = gym.make(env_id)
    with pytest.raises(ValueError, match=r"follows an episode: call reset\(\) of \w+$"):
        expert(env, name)
    other = Hallway()
    other.reset(seed=0)
    with pytest.raises(TypeError, match=r"this expert plays \w+.*, got Hallway"):
        expert_class(env, name)(other)
