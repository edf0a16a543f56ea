"""The OpenAI Agents SDK plays an environment; a stub stands in for the model, without a network.

python examples/play_openai_agents.py AlfWorld-v0
"""

import json
import sys

import agents
import gymnasium as gym
from openai.types.responses import ResponseFunctionToolCall
from stub_replies import TASK, list_replies, report  # the file beside this one

import agent_envs
from agent_envs_adapters.agents import make_openai_agents_tools

ONE = agents.ToolExecutionConfig(max_function_tool_concurrency=1)  # call at a time


class Stub(agents.Model):
    def __init__(self, replies):
        self.replies = replies

    async def get_response(self, *_, **__):
        called = {"type": "function_call", "name": "act"}
        calls = [
            ResponseFunctionToolCall(**called, call_id=one, arguments=json.dumps({"action": one}))
            for one in self.replies.pop(0)
        ]
        return agents.ModelResponse(calls, agents.Usage(), response_id=None)

    stream_response = None


def play(env_id):
    """The episode, with its turns."""
    toolset = agent_envs.tools(gym.make(env_id))

    def stop(_context, _results):
        return agents.ToolsToFinalOutputResult(is_final_output=toolset.episode.done)

    tools, stub = make_openai_agents_tools(toolset), Stub(list_replies(env_id))
    player = agents.Agent("player", tools=tools, model=stub, tool_use_behavior=stop)
    how = agents.RunConfig(tool_execution=ONE, tracing_disabled=True)
    agents.Runner.run_sync(player, toolset.start(**TASK), run_config=how, max_turns=100)
    toolset.close()
    return toolset.episode


if __name__ == "__main__":
    report(sys.argv[1], play(sys.argv[1]))
