"""A stack of wrappers composed by hand, and one turn as a model sees it.

python examples/wrappers.py
"""

import gymnasium as gym

from agent_envs import ParseReply, Prompt
from credit.rewards import InvalidPenalty, ProgressReward, RepetitionPenalty

env = gym.make("agent_envs:AlfWorld-v0", split="valid_seen")
env = ParseReply(env)  # whole replies in, their actions to the environment
env = InvalidPenalty(env, penalty=-0.1)  # rewards: one of each kind, in any order
env = ProgressReward(env, scale=0.5)
env = RepetitionPenalty(env, alpha=0.2, q=1)
env = Prompt(env, history=2)  # outermost: observations become the prompt of the turn

prompt, info = env.reset(seed=7)
for reply in (
    "<think>Where am I?</think><action>look</action>",
    "<think>Once more.</think><action>look</action>",
    "I go to the desk.",
):
    prompt, reward, terminated, truncated, info = env.step(reply)
    terms = ", ".join(f"{name} {paid:+.2f}" for name, paid in info["reward_terms"].items())
    print(
        f"turn {info['turn']}: {info['action']!r}, valid={info['valid']}, {reward:+.2f} ({terms})"
    )
print(f"\n--- what the model reads next ---\n{prompt}")
print(f"\n--- the same without goal and history ---\n{info['blind_prompt']}")
