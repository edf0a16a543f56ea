"""Tools in agent frameworks: calls of one reply in its order, or a refusal; a model's mistakes.

`tests/test_examples.py` compares whole episodes of the examples.
"""

import asyncio
import json
import random
import time
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import gymnasium as gym
import pytest

import agent_envs
import agent_envs_adapters
from agent_envs_adapters.agents import (
    make_langgraph_tools,
    make_openai_agents_tools,
    make_pydantic_ai_tools,
    make_smolagents_tools,
)

from .solving import needs

PEERS = ("agents", "langchain", "pydantic_ai", "smolagents")
pytestmark = [*needs("agents", *PEERS), pytest.mark.slow]
if all(map(find_spec, PEERS)):
    import agents
    import pydantic_ai
    import smolagents
    from langchain.agents import create_agent
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langgraph.graph import MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

    class Chat(GenericFakeChatModel):
        def bind_tools(self, _tools, **_):
            return self

    class Slow(BaseCallbackHandler):
        """A handler that LangChain calls in threads."""

        def on_tool_start(self, *_, **__):
            time.sleep(random.random() / 50)

        on_chain_start = on_tool_start

    class Hooks(agents.RunHooks):
        async def on_tool_start(self, *_):
            await asyncio.sleep(random.random() / 50)

    class Stub(agents.Model):
        def __init__(self, replies):
            self.replies = [*replies]

        async def get_response(self, *_, **__):
            if not self.replies:
                said = ResponseOutputText(text="Done.", type="output_text", annotations=[])
                kind = {"type": "message", "role": "assistant", "status": "completed"}
                out = [ResponseOutputMessage(id="0", content=[said], **kind)]
            else:
                out = [
                    ResponseFunctionToolCall(
                        type="function_call",
                        call_id=f"{len(self.replies)} {number}",
                        name=name,
                        arguments=given if isinstance(given, str) else json.dumps(given),
                    )
                    for number, (name, given) in enumerate(self.replies.pop(0))
                ]
            return agents.ModelResponse(out, agents.Usage(), response_id=None)

        stream_response = None

    class SmolStub(smolagents.Model):
        def __init__(self, replies):
            super().__init__()
            self.replies = [*replies, [("final_answer", {"answer": "Done."})]]

        def generate(self, _messages, **_):
            calls = [
                ChatMessageToolCall(
                    ChatMessageToolCallFunction(given, name), f"{number}", "function"
                )
                for number, (name, given) in enumerate(self.replies.pop(0))
            ]
            role = smolagents.MessageRole.ASSISTANT
            return smolagents.ChatMessage(role, content="", tool_calls=calls)


def call_langgraph(toolset, replies, *, ordered=True, graph=False, a=False, handlers=()):
    """Let a LangGraph agent, or a graph with one node for all calls, make the calls of replies."""
    messages = [
        AIMessage(
            "",
            tool_calls=[
                {"name": name, "args": given, "id": f"{number} {place}"}
                for place, (name, given) in enumerate(reply)
            ],
        )
        for number, reply in enumerate(replies)
    ]
    model, tools = (
        Chat(messages=iter([*messages, AIMessage("Done.")])),
        make_langgraph_tools(toolset),
    )
    if graph:
        made = StateGraph(MessagesState)
        made.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
        made.add_node("tools", ToolNode(tools))
        made.set_entry_point("model")
        made.add_conditional_edges("model", tools_condition)
        made.add_edge("tools", "model")
        agent = made.compile()
    else:
        agent = create_agent(model, tools)
    config = {"callbacks": [*handlers], "recursion_limit": 100}
    config |= {"max_concurrency": 1} if ordered else {}
    first = {"messages": [("user", "Play.")]}
    return asyncio.run(agent.ainvoke(first, config)) if a else agent.invoke(first, config)


def call_smolagents(toolset, replies, *, ordered=True):
    how = {"max_tool_threads": 1} if ordered else {}
    agent = smolagents.ToolCallingAgent(
        make_smolagents_tools(toolset), SmolStub(replies), verbosity_level=0, max_steps=50, **how
    )
    agent.run("Play.")
    return agent


def call_pydantic_ai(toolset, replies):
    replies = [*replies]

    def reply(_messages, _info):
        if not replies:
            return ModelResponse([TextPart("Done.")])
        return ModelResponse([ToolCallPart(name, given) for name, given in replies.pop(0)])

    agent = pydantic_ai.Agent(FunctionModel(reply), tools=make_pydantic_ai_tools(toolset))
    return agent.run_sync("Play.")


def call_openai_agents(toolset, replies, *, ordered=True, hooks=None):
    player = agents.Agent("player", tools=make_openai_agents_tools(toolset), model=Stub(replies))
    one = agents.ToolExecutionConfig(max_function_tool_concurrency=1) if ordered else None
    how = agents.RunConfig(tool_execution=one, tracing_disabled=True)
    return agents.Runner.run_sync(player, "Play.", run_config=how, hooks=hooks, max_turns=50)


def start(name="AlfWorld-v0", **options):
    toolset = agent_envs.tools(gym.make(name, max_turns=200, disable_env_checker=True), **options)
    toolset.start(task=0, seed=0)
    return toolset


MANY = [[f"do {reply} {place}" for place in range(6)] for reply in range(4)]
CALLS = [[("act", {"action": one}) for one in reply] for reply in MANY]


@pytest.mark.parametrize(
    ("call", "how"),
    [
        (call_langgraph, {}),
        (call_langgraph, {"a": True}),
        (call_langgraph, {"graph": True}),
        (call_langgraph, {"graph": True, "a": True}),
        (call_langgraph, {"handlers": True}),
        (call_langgraph, {"handlers": True, "a": True}),
        (call_langgraph, {"handlers": True, "graph": True}),
        (call_langgraph, {"handlers": True, "graph": True, "a": True}),
        (call_smolagents, {}),
        (call_pydantic_ai, {}),
        (call_openai_agents, {}),
        (call_openai_agents, {"hooks": True}),
    ],
)
def test_six_calls_in_a_reply_are_made_in_its_order(call, how):
    toolset = start()
    waits = {"handlers": lambda: [Slow()], "hooks": Hooks}
    call(toolset, CALLS, **{key: waits.get(key, lambda: True)() for key in how})
    assert [turn.action for turn in toolset.episode.turns] == [
        one for reply in MANY for one in reply
    ]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (call_langgraph, r'LangGraph .* order is lost: call the graph with config=\{"max_concurr'),
        (call_openai_agents, r"SDK makes .*=ToolExecutionConfig\(max_function_tool_concurrency=1"),
    ],
)
@pytest.mark.parametrize("calls", [1, 2])
def test_without_the_setting_that_keeps_the_order_nothing_is_done(call, says, calls):
    toolset = start()
    with pytest.raises(Exception, match=says):
        call(toolset, [CALLS[0][:calls]], ordered=False)
    assert toolset.episode.turns == []


@pytest.mark.parametrize("calls", [1, 2])
def test_smolagents_reports_the_refusal_as_its_step_s_error(calls):
    toolset = start()
    agent = call_smolagents(toolset, [CALLS[0][:calls]], ordered=False)
    assert "their order is lost: make the agent with max_tool_threads=1" in str(
        agent.memory.steps[1].error
    )
    assert toolset.episode.turns == []


def test_a_langchain_tool_is_called_without_a_graph():
    toolset = start()
    (act,) = make_langgraph_tools(toolset)
    assert act.invoke({"action": "inventory"}) == "You are not carrying anything."
    assert asyncio.run(act.ainvoke({"action": "inventory"})) == "You are not carrying anything."


def test_code_of_smolagents_calls_by_place_and_by_name():
    toolset = start(typed=True)

    code = iter(["look()\ngo_to('bed 1')\ngo_to(place='bed 1')\nlook(1)", "final_answer(1)"])

    class Coder(smolagents.Model):
        def generate(self, _messages, **_):
            said = f"Thought: so.\n<code>\n{next(code)}\n</code>"
            return smolagents.ChatMessage(smolagents.MessageRole.ASSISTANT, content=said)

    tools = make_smolagents_tools(toolset)
    smolagents.CodeAgent(tools, Coder(), verbosity_level=0).run("Play.")
    acts = [turn.action for turn in toolset.episode.turns]
    assert acts == ["look", "go to bed 1", "go to bed 1", ""]


WRONG = [{"action": 5}, {"action": "look", "b": 1}, {}, {"action": ["look"]}]
NO_OBJECT = ["nope", "5", "null", '["look"]']


@pytest.mark.parametrize("call", [call_langgraph, call_pydantic_ai, call_openai_agents])
def test_wrong_arguments_are_invalid_turns(call):
    toolset = start()
    call(toolset, [[("act", given)] for given in WRONG])
    assert [turn.invalid_reason for turn in toolset.episode.turns] == ["format"] * len(WRONG)


def test_arguments_that_are_no_object_stop_no_agent():
    """pydantic-ai asks the model again; with the SDK of OpenAI they are invalid turns."""
    toolset = start()
    call_openai_agents(toolset, [[("act", given)] for given in NO_OBJECT])
    assert [turn.invalid_reason for turn in toolset.episode.turns] == ["format"] * len(NO_OBJECT)
    toolset = start()
    for given in NO_OBJECT:
        call_pydantic_ai(toolset, [[("act", given)]])
    assert toolset.episode.turns == []


def test_smolagents_checks_arguments_itself():
    toolset = start()
    agent = call_smolagents(toolset, [[("act", given)] for given in WRONG])
    assert all(step.error for step in agent.memory.steps[1 : 1 + len(WRONG)])
    assert toolset.episode.turns == []


@pytest.mark.parametrize(
    "call", [call_langgraph, call_smolagents, call_pydantic_ai, call_openai_agents]
)
def test_a_huge_action_and_calls_after_the_end_do_no_harm(call):
    toolset = agent_envs.tools(gym.make("AlfWorld-v0", max_turns=2, disable_env_checker=True))
    toolset.start(task=0, seed=0)
    call(toolset, [[("act", {"action": one})] for one in ("x" * 10**6, "look", "look", "look")])
    assert [turn.invalid_reason for turn in toolset.episode.turns] == ["format", ""]
    assert toolset.episode.done


@pytest.mark.parametrize(
    ("make", "peer"),
    [
        (make_langgraph_tools, "langgraph"),
        (make_smolagents_tools, "smolagents"),
        (make_pydantic_ai_tools, "pydantic-ai-slim"),
        (make_openai_agents_tools, "openai-agents"),
    ],
)
def test_another_release_of_a_framework_warns_and_a_missing_one_is_named(make, peer, monkeypatch):
    toolset, found = start("EZPoints-v0"), version

    def say(number, name):
        return number if name == peer else found(name)

    monkeypatch.setattr(agent_envs_adapters, "version", partial(say, "99.0"))
    with pytest.warns(UserWarning, match=f"^{peer} 99.0 was not tested"):
        assert len(make(toolset)) == 1
    monkeypatch.setattr(agent_envs_adapters, "version", partial(say, ""))
    with pytest.raises(ImportError, match=f'^{peer} is not installed: pip install "{peer}~='):
        make(toolset)


@pytest.mark.parametrize(
    "call", [call_langgraph, call_smolagents, call_pydantic_ai, call_openai_agents]
)
def test_all_turns_of_code_are_valid(call):
    """36 calls, two a reply, of AppWorld, which reads whole replies."""
    toolset = start("AppWorld-v1")
    code = [f"print(apis.api_docs.show_app_descriptions())  # {number}" for number in range(36)]
    calls = [("act", {"action": one}) for one in code]
    call(toolset, [calls[at : at + 2] for at in range(0, len(calls), 2)])
    assert [(turn.action, turn.valid) for turn in toolset.episode.turns] == [
        (one, True) for one in code
    ]
