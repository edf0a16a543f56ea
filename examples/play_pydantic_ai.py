"""pydantic-ai plays an environment; a stub stands in for the model and needs no network.

python examples/play_pydantic_ai.py AlfWorld-v0
"""

import sys

import gymnasium as gym
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from stub_replies import TASK, list_replies, report  # the file beside this one

import agent_envs
from agent_envs_adapters.agents import make_pydantic_ai_tools


def make_stub(replies):
    def reply(_messages, _info):
        if not replies:
            return ModelResponse([TextPart("Done.")])
        return ModelResponse([ToolCallPart("act", {"action": one}) for one in replies.pop(0)])

    return FunctionModel(reply)


def play(env_id):
    """The episode, with its turns."""
    toolset = agent_envs.tools(gym.make(env_id))
    agent = Agent(make_stub(list_replies(env_id)), tools=make_pydantic_ai_tools(toolset))
    agent.run_sync(toolset.start(**TASK))
    toolset.close()
    return toolset.episode


if __name__ == "__main__":
    report(sys.argv[1], play(sys.argv[1]))
