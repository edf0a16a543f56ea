"""The prompt of SearchQA-v0: STAPO's pair of templates (Fig. 16 and 17)."""

from __future__ import annotations

from agent_envs.template import Template

_ROLE = "You are an expert agent tasked with answering the given question step-by-step."

_ASK = """

Now it's your turn to respond for the current step. You should first conduct reasoning process. \
This process MUST be enclosed within <think> </think> tags. After completing your reasoning, \
choose only one of the following actions (do not perform both):

(1) If you find you lack some knowledge, you can call a search engine to get more external \
information using format: <search> your query </search>.
(2) If you have enough knowledge to answer the question confidently, provide your final answer \
within <answer> </answer> tags, without detailed illustrations. For example, \
<answer>Beijing</answer>."""

TEMPLATE = Template(
    full=_ROLE
    + """ Your question: {task_description}. Prior to this step, you have already taken \
{step_count} step(s). Below is the interaction history where <search> </search> wrapped your past \
search queries and <information> </information> wrapped the corresponding search results returned \
by the external search engine. History: {action_history}."""
    + _ASK,
    blind=_ROLE + _ASK,
    past="Step {number}:{action} {after}\n",
    first=_ROLE + " Your question: {task_description}." + _ASK,
    owner="SearchQA",
)
