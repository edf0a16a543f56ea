"""A ReAct agent on any OpenAI-compatible endpoint plays environments and is scored.

OPENAI_API_KEY=... python examples/react_agent.py MODEL URL EPISODES [ID ...]
"""

import base64
import io
import sys

import gymnasium as gym
from openai import OpenAI

import agent_envs

IDS = [i for i, spec in gym.registry.items() if str(spec.entry_point).startswith("agent_envs.")]


def content(seen):
    """A text, or an image [H, W, 3] as the chat API takes it."""
    if isinstance(seen, str):
        return seen
    from PIL import Image

    Image.fromarray(seen).save(png := io.BytesIO(), "PNG")
    url = f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
    return [{"type": "image_url", "image_url": {"url": url}}]


def play(client, model, env, seed):
    """The last info of an episode, and whether each turn was valid."""
    form = env.unwrapped.reply_form  # of an environment that parses whole replies itself
    env = env if form else agent_envs.ParseReply(env)
    shape = (form or "<think>{thought}</think><action>{action}</action>").format
    seen, info = env.reset(seed=seed)
    rules = f"{info['goal']}\nReply in this form: {shape(thought='why', action='one action')}"
    messages, valid, ended = [{"role": "system", "content": rules}], [], False
    while not ended:
        messages.append({"role": "user", "content": content(seen)})
        answer = client.chat.completions.create(model=model, messages=messages, temperature=0)
        reply = answer.choices[0].message.content or ""
        messages.append({"role": "assistant", "content": reply})
        seen, _, terminated, truncated, info = env.step(reply)
        valid.append(info["valid"])
        ended = terminated or truncated
    return info, valid


def wilson(won, count, z=1.96):
    """The 95% interval of a success rate."""
    reach = z * (won * (count - won) / count + z * z / 4) ** 0.5
    return [(won + z * z / 2 + side) / (count + z * z) for side in (-reach, reach)]


def main(model, url, episodes, *ids):
    """Play and print a line for each id: success, share of valid turns, mean progress."""
    client, count = OpenAI(base_url=url), int(episodes)
    for name in ids or IDS:
        env = gym.make(name, max_turns=30)
        infos, valid = zip(*(play(client, model, env, seed) for seed in range(count)), strict=True)
        won, progress = (sum(info[key] for info in infos) for key in ("success", "progress"))
        low, high = wilson(won, count)
        success = f"success {won / count:.0%} [{low:.0%}, {high:.0%}]"
        share = sum(map(sum, valid)) / sum(map(len, valid))
        print(f"{name}: {success}, valid {share:.0%}, progress {progress / count:.2f}")
        env.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
