"""What the stub models of `play_*.py` reply: the actions of an expert, two in each reply.

python examples/stub_replies.py AlfWorld-v0
"""

import sys

import gymnasium as gym

import agent_envs
from agent_envs.experts import experts_of

TASK = {"task": 3, "seed": 5}


def list_replies(env_id):
    """The actions that solve the task, in pairs."""
    env = gym.make(env_id)
    env.reset(seed=TASK["seed"], options={"task": TASK["task"]})
    player = agent_envs.expert(env, [*experts_of(type(env.unwrapped))][-1])
    form, actions, ended = env.unwrapped.reply_form or "{action}", [], False
    while not ended:
        actions.append(player.act())
        *_, terminated, truncated, _ = env.step(form.format(thought="", action=actions[-1]))
        ended = terminated or truncated
    env.close()
    return [actions[at : at + 2] for at in range(0, len(actions), 2)]


def report(name, episode):
    """Print how an episode went."""
    valid = sum(turn.valid for turn in episode.turns)
    said = f"{len(episode.turns)} turns, {valid} valid, solved: {episode.success}"
    print(f"{name}: {said}, progress {[round(turn.progress, 2) for turn in episode.turns]}")


if __name__ == "__main__":
    print(*list_replies(*sys.argv[1:]), sep="\n")
