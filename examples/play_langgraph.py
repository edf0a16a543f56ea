"""LangGraph plays an environment; a stub stands in for the model and needs no network.

python examples/play_langgraph.py AlfWorld-v0
"""

import sys

import gymnasium as gym
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from stub_replies import TASK, list_replies, report  # the file beside this one

import agent_envs
from agent_envs_adapters.agents import make_langgraph_tools


class Stub(GenericFakeChatModel):
    def bind_tools(self, _tools, **_):
        return self


def make_reply(number, actions):
    calls = [{"name": "act", "args": {"action": one}, "id": f"{number}-{one}"} for one in actions]
    return AIMessage("", tool_calls=calls)


def play(env_id):
    """The episode, with its turns."""
    toolset = agent_envs.tools(gym.make(env_id))
    replies = [make_reply(*one) for one in enumerate(list_replies(env_id))]
    agent = create_agent(
        Stub(messages=iter([*replies, AIMessage("Done.")])), make_langgraph_tools(toolset)
    )
    first = {"messages": [("user", toolset.start(**TASK))]}
    agent.invoke(first, {"max_concurrency": 1, "recursion_limit": 100})
    toolset.close()
    return toolset.episode


if __name__ == "__main__":
    report(sys.argv[1], play(sys.argv[1]))
