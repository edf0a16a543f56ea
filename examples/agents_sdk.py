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
    RunConfig,
    Runner,
    ToolExecutionConfig,
    ToolsToFinalOutputResult,
)
from agents.exceptions import MaxTurnsExceeded, ModelBehaviorError
from openai import AsyncOpenAI
from react_agent import OURS, report  # the file beside this one

import agent_envs
from agent_envs_adapters.agents import make_openai_agents_tools

ONE = ToolExecutionConfig(max_function_tool_concurrency=1)  # call at a time
TEXT = [name for name in OURS.values() if name != "VisualSokoban-v0"]  # a tool returns text


async def play(model, url, env, seed):
    """The last info of an episode, and whether each turn was valid."""
    toolset = agent_envs.tools(env)
    seen = toolset.start(seed=seed)

    def after(_context, _results):
        return ToolsToFinalOutputResult(is_final_output=toolset.episode.done)

    task, tools = "Call the tool act until the task is done.", make_openai_agents_tools(toolset)
    async with AsyncOpenAI(base_url=url) as client:
        api = OpenAIChatCompletionsModel(model, client)
        agent = Agent("player", instructions=task, tools=tools, model=api, tool_use_behavior=after)
        how = RunConfig(tool_execution=ONE, tracing_disabled=True)
        with contextlib.suppress(MaxTurnsExceeded, ModelBehaviorError):  # it is not finished
            await Runner.run(agent, seen, max_turns=30, run_config=how)
    turns = toolset.episode.turns
    last = {"success": toolset.episode.success, "progress": turns[-1].progress if turns else 0.0}
    return last, [turn.valid for turn in turns]


def main(model, url, episodes, *ids):
    """Play and print a line for each id, also if the endpoint fails or Ctrl-C stops it."""
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
