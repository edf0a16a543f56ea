"""smolagents plays an environment; a stub stands in for the model and needs no network.

python examples/play_smolagents.py AlfWorld-v0
"""

import sys

import gymnasium as gym
from smolagents import ChatMessage, MessageRole, Model, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction
from stub_replies import TASK, list_replies, report  # the file beside this one

import agent_envs
from agent_envs_adapters.agents import make_smolagents_tools


class Stub(Model):
    def __init__(self, replies):
        super().__init__()
        self.replies = [[("act", {"action": one}) for one in reply] for reply in replies]
        self.replies.append([("final_answer", {"answer": "Done."})])

    def generate(self, _messages, **_):
        calls = [
            ChatMessageToolCall(
                ChatMessageToolCallFunction(arguments, name), str(number), "function"
            )
            for number, (name, arguments) in enumerate(self.replies.pop(0))
        ]
        return ChatMessage(MessageRole.ASSISTANT, content="", tool_calls=calls)


def play(env_id):
    """The episode, with its turns."""
    toolset = agent_envs.tools(gym.make(env_id))
    tools, stub = make_smolagents_tools(toolset), Stub(list_replies(env_id))
    agent = ToolCallingAgent(tools, stub, max_tool_threads=1, max_steps=100, verbosity_level=0)
    agent.run(toolset.start(**TASK))
    toolset.close()
    return toolset.episode


if __name__ == "__main__":
    report(sys.argv[1], play(sys.argv[1]))
