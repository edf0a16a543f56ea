"""The same agent through the OpenAI Agents SDK: the environment is one tool, `act`.

OPENAI_API_KEY=... python examples/agents_sdk.py MODEL URL EPISODES [ID ...]
"""

import asyncio
import contextlib
import sys

import gymnasium as gym
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    ToolsToFinalOutputResult,
    function_tool,
    set_tracing_disabled,
)
from agents.exceptions import MaxTurnsExceeded, ModelBehaviorError
from openai import AsyncOpenAI
from react_agent import IDS, report  # the file beside this one

TEXT = [name for name in IDS if name != "VisualSokoban-v0"]  # a tool returns text


async def play(model, url, env, seed):
    """The last info of an episode, and whether each turn was valid."""
    seen, info = env.reset(seed=seed)
    valid, ended = [], False

    @function_tool
    def act(action: str) -> str:
        """Take one action in the environment; returns what you observe then."""
        nonlocal info, ended
        if ended:
            return "The episode has ended."
        form = env.unwrapped.reply_form  # of an environment that reads whole replies
        reply = form.format(thought="", action=action) if form else action
        observation, _, terminated, truncated, info = env.step(reply)
        valid.append(info["valid"])
        ended = terminated or truncated
        return observation

    def after(_context, _results):
        return ToolsToFinalOutputResult(is_final_output=ended)

    task = f"{info['goal']}\nCall act once at a time until the task is done."
    async with AsyncOpenAI(base_url=url) as client:
        api = OpenAIChatCompletionsModel(model, client)
        agent = Agent("player", instructions=task, tools=[act], model=api, tool_use_behavior=after)
        with contextlib.suppress(MaxTurnsExceeded, ModelBehaviorError):  # it is not finished
            await Runner.run(agent, seen, max_turns=30)
    return info, valid


def main(model, url, episodes, *ids):
    """Play and print a line for each id, also if the endpoint fails or Ctrl-C stops it."""
    set_tracing_disabled(disabled=True)
    count = int(episodes)
    for env_id in ids or TEXT:
        env, played = gym.make(env_id), []
        try:
            played.extend(asyncio.run(play(model, url, env, seed)) for seed in range(count))
        finally:
            if played:
                report(env_id, played, count)
            env.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
