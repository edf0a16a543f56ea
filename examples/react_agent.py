"""A ReAct agent on any OpenAI-compatible endpoint plays environments and is scored.

OPENAI_API_KEY=... python examples/react_agent.py MODEL URL EPISODES [ID ...]
"""

import base64
import io
import sys

import gymnasium as gym
from openai import OpenAI

import agent_envs

# the newest of each name: an older one may need data
OURS = {one.name: one.id for one in gym.registry.values() if "agent_envs." in str(one.entry_point)}


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
    messages, valid, ends = [{"role": "system", "content": rules}], [], [False]
    while not any(ends):
        messages.append({"role": "user", "content": content(seen)})
        answer = client.chat.completions.create(model=model, messages=messages, temperature=0)
        reply = answer.choices[0].message.content or ""
        messages.append({"role": "assistant", "content": reply})
        seen, _, *ends, info = env.step(reply)  # terminated, truncated
        valid.append(info["valid"])
    return info, valid


def wilson(won, count, z=1.96):
    """The 95% interval of a success rate."""
    reach = z * (won * (count - won) / count + z * z / 4) ** 0.5
    return [(won + z * z / 2 + side) / (count + z * z) for side in (-reach, reach)]


def report(name, played, wanted):
    """Print success, share of valid turns and mean progress of the episodes that have ended."""
    count, turns = len(played), [one for _, valid in played for one in valid]
    won, progress = (sum(info[key] for info, _ in played) for key in ("success", "progress"))
    success = "success {:.0%} [{:.0%}, {:.0%}]".format(won / count, *wilson(won, count))
    share = sum(turns) / max(len(turns), 1)
    left_out = f", {count} of {wanted} episodes" if count < wanted else ""
    print(f"{name}: {success}, valid {share:.0%}, progress {progress / count:.2f}{left_out}")


def main(model, url, episodes, *ids):
    """Play and print a line for each id, also if the endpoint fails or Ctrl-C stops it."""
    client, count = OpenAI(base_url=url), int(episodes)
    for name in ids or OURS.values():
        env, played = gym.make(name, max_turns=30), []
        try:
            played.extend(play(client, model, env, seed) for seed in range(count))
        finally:
            if played:
                report(name, played, count)
            env.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
