"""A `Toolset` as the tools of an agent framework: LangGraph, smolagents, pydantic-ai, OpenAI's SDK.

Each function imports its framework when it is called. Calls of one reply are made in the reply's
order: pydantic-ai keeps it for sequential tools, and the others have a setting without which the
tools refuse to be called. `agent_envs_adapters.mcp` serves the tools to MCP clients.
"""

from __future__ import annotations

import asyncio
import json
from traceback import walk_stack
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agent_envs_adapters import check_attributes, check_call, use_peer

if TYPE_CHECKING:
    import pydantic_ai
    import smolagents
    from agents import FunctionTool
    from langchain_core.tools import StructuredTool

    from agent_envs.toolset import Tool, Toolset


def make_langgraph_tools(toolset: Toolset) -> list[StructuredTool]:
    """Tools for LangGraph and LangChain, with `invoke` and `ainvoke`.

    A graph must be called with `config={"max_concurrency": 1}`.

    Raises:
        ImportError: langgraph is not installed.
    """
    with use_peer("langgraph", "1.2"):
        from langchain_core.runnables.config import ensure_config
        from langchain_core.tools import StructuredTool

        dict(ensure_config()["metadata"])

    locks = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]()

    class EnvironmentTool(StructuredTool):
        """A tool of the environment."""

        async def ainvoke(self, *given: Any, **options: Any) -> Any:
            """Begin after the calls before, which may wait for callback handlers in threads."""
            async with locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                return await super().ainvoke(*given, **options)

    def make(tool: Tool) -> StructuredTool:
        def check_order() -> None:
            config = ensure_config()
            if "langgraph_node" in config["metadata"] and config.get("max_concurrency") != 1:
                setting = 'call the graph with config={"max_concurrency": 1}'
                raise _make_refusal("LangGraph", setting)

        def call(**arguments: Any) -> str:
            check_order()
            return toolset.call(tool.name, arguments)

        async def acall(**arguments: Any) -> str:
            check_order()
            return await toolset.acall(tool.name, arguments)

        return EnvironmentTool(
            name=tool.name,
            description=tool.description,
            args_schema=tool.schema,
            func=call,
            coroutine=acall,
        )

    return [make(tool) for tool in toolset.tools.values()]


def make_smolagents_tools(toolset: Toolset) -> list[smolagents.Tool]:
    """Tools for smolagents; a `ToolCallingAgent` must have `max_tool_threads=1`.

    Raises:
        ImportError: smolagents is not installed.
    """
    with use_peer("smolagents", "1.26"):
        import smolagents

        check_attributes(smolagents.ToolCallingAgent, "max_tool_threads")

    class EnvironmentTool(smolagents.Tool):
        """A tool of the environment."""

        output_type = "string"
        skip_forward_signature_validation = True

        def __init__(self, tool: Tool) -> None:
            self.name, self.description = tool.name, tool.description
            self.inputs = {
                name: {"type": "string", "description": name} for name in tool.parameters
            }
            super().__init__()

        def forward(self, *given: Any, **named: Any) -> str:
            """Make a call, unless the agent makes several at the same time."""
            for frame, _ in walk_stack(None):
                agent = frame.f_locals.get("self")
                if getattr(agent, "max_tool_threads", 1) != 1:
                    raise _make_refusal("smolagents", "make the agent with max_tool_threads=1")
            names = [*self.inputs, *map(str, range(len(given)))]
            return toolset.call(self.name, dict(zip(names, given, strict=False)) | named)

    return [EnvironmentTool(tool) for tool in toolset.tools.values()]


def make_pydantic_ai_tools(toolset: Toolset) -> list[pydantic_ai.Tool[Any]]:
    """Tools for pydantic-ai.

    Raises:
        ImportError: pydantic-ai is not installed.
    """
    with use_peer("pydantic-ai-slim", "2.68"):
        import pydantic_ai
        from pydantic_core import SchemaValidator, core_schema

        check_call(pydantic_ai.Tool.from_schema, None, "name", "text", {}, sequential=True)

    def make(tool: Tool) -> pydantic_ai.Tool[Any]:
        async def call(**arguments: Any) -> str:
            return await toolset.acall(tool.name, arguments)

        made = pydantic_ai.Tool.from_schema(
            call, tool.name, tool.description, tool.schema, sequential=True
        )
        made.function_schema.validator = SchemaValidator(core_schema.dict_schema())
        return made

    return [make(tool) for tool in toolset.tools.values()]


def make_openai_agents_tools(toolset: Toolset) -> list[FunctionTool]:
    """Tools for the OpenAI Agents SDK.

    A run must have a `RunConfig` with
    `tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1)`.

    Raises:
        ImportError: openai-agents is not installed.
    """
    with use_peer("openai-agents", "0.24"):
        from agents import FunctionTool, RunConfig, ToolExecutionConfig
        from agents.tool_context import ToolContext

        RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1))
        check_attributes(ToolContext, "run_config")

    def make(name: str) -> Any:
        async def call(context: ToolContext[Any], text: str) -> str:
            run = context.run_config
            if run and getattr(run.tool_execution, "max_function_tool_concurrency", None) != 1:
                raise _make_refusal(
                    "the OpenAI Agents SDK",
                    "run with RunConfig(tool_execution="
                    "ToolExecutionConfig(max_function_tool_concurrency=1))",
                )
            try:
                arguments = json.loads(text or "{}")
            except ValueError:
                arguments = text
            return await toolset.acall(name, arguments)

        return call

    return [
        FunctionTool(tool.name, tool.description, tool.schema, make(tool.name))
        for tool in toolset.tools.values()
    ]


def _make_refusal(framework: str, setting: str) -> RuntimeError:
    return RuntimeError(
        f"{framework} makes the calls of one reply at the same time, so that their order is lost: "
        f"{setting}"
    )
