"""An MCP client plays an environment, which `agent-envs serve --mcp` serves over stdin and stdout.

python examples/play_mcp.py AlfWorld-v0
"""

import asyncio
import sys

from mcp import Client, StdioServerParameters
from stub_replies import TASK, list_replies, report  # the file beside this one

from agent_envs_adapters.mcp import read_episode


async def play_at(server, env_id):
    """The episode, with its turns; `server` is a command, or the address of a server over HTTP."""
    async with Client(server) as client:
        results = [await client.call_tool("start_episode", TASK)]
        for reply in list_replies(env_id):
            calls = [client.call_tool("act", {"action": one}) for one in reply]
            results += await asyncio.gather(*calls)
    return read_episode(results)


def play(env_id):
    """The episode, with its turns."""
    command = StdioServerParameters(command="agent-envs", args=["serve", env_id, "--mcp"])
    return asyncio.run(play_at(command, env_id))


if __name__ == "__main__":
    report(sys.argv[1], play(sys.argv[1]))
