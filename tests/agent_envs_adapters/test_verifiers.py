"""The adapter of verifiers: its eval command, its rollouts of groups, advantages on nodes."""

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import numpy as np
import pytest

import credit
from agent_envs_adapters.episodes import Episodes
from credit.rows import rows_of

from .solving import WAIT, check_releases, needs, run_page, save_tokenizer, solution

THERE = importlib.util.find_spec("verifiers") is not None
pytestmark = needs("verifiers", "verifiers")
if THERE:
    import verifiers.v1 as vf
    from transformers import PreTrainedTokenizerFast

    from agent_envs_adapters.verifiers import NODES, RECORDS, assign_advantages

TURNS = 12
OPTIONS = {"max_turns": TURNS, "data": "embedded"}


class Endpoint:
    """Chat completions, and vLLM's completions of tokens; every other session of a task solves it.

    Attributes:
        solutions: Replies that solve a task, by its first message.
        sessions: Sessions of each task in the order of their first request.
        broken: Requests are answered with an error.
    """

    def __init__(self, solutions, tokenizer=None):
        self.solutions, self.tokenizer = solutions, tokenizer
        self.sessions, self.broken, self.lock = defaultdict(list), False, Lock()
        outer = self

        class Routes(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(200, {"data": []})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if outer.broken:
                    self.answer(400, {"error": {"message": "out of order"}})
                elif self.path == "/inference/v1/generate":
                    self.answer(200, outer.generate(body, self.headers["x-session-id"]))
                else:
                    assert self.path == "/v1/chat/completions"
                    self.answer(200, outer.chat(body, self.headers["x-session-id"]))

            def answer(self, status, value):
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Routes)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def reply(self, session, text, turn):
        first = next((first for first in self.solutions if first in text), "")
        with self.lock:
            known = self.sessions[first]
            if session not in known:
                known.append(session)
        solves = first and known.index(session) % 2 == 0
        return self.solutions[first][turn] if solves else WAIT

    def chat(self, body, session):
        said = body["messages"]
        text = self.reply(session, said[0]["content"], len(said) // 2)
        choice = {"role": "assistant", "content": text}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": choice, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
        }

    def generate(self, body, session):
        text = self.tokenizer.decode(body["token_ids"])
        reply = self.reply(session, text, text.count("<|im_start|>assistant") - 1)
        ids = self.tokenizer.encode(f"{reply}<|im_end|>")
        logprobs = [{"token": f"token_id:{one}", "logprob": -1.0} for one in ids]
        choice = {"token_ids": ids, "logprobs": {"content": logprobs}, "finish_reason": "stop"}
        return {"request_id": "1", "choices": [choice]}


@pytest.fixture(scope="module")
def solved():
    """Tasks with a short solution: first message and replies, by the task's id."""
    episodes, found = Episodes("AlfWorld-v0", data="embedded", max_turns=50), {}
    for task in episodes.tasks()[:20]:
        first = episodes.start(**task)
        replies, _ = solution(episodes, **task)
        if len(replies) < TURNS:
            found[task["task"]] = first.message, replies
        episodes.release(first)
    return dict(list(found.items())[:3])


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return save_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def endpoint(solved, tokenizer):
    made = Endpoint(dict(solved.values()), PreTrainedTokenizerFast.from_pretrained(tokenizer))
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def fresh(endpoint):
    endpoint.sessions.clear()


@pytest.fixture(scope="module")
def once(endpoint, tokenizer, solved):
    return played(endpoint, tokenizer, list(solved)[:2], 4)


@pytest.fixture
def group(once):
    """Two groups of four episodes of verifiers' own rollouts, half of them solved."""
    return [episode.model_copy(deep=True) for episode in once]


def vf_eval(endpoint, folder, *options):
    command = Path(sys.executable).with_name("vf-eval")
    return subprocess.run(
        [
            *(command, "agent-envs-verifiers", "--client.base-url", endpoint.url, "-m", "fake"),
            *("--env.taskset.options", json.dumps(OPTIONS), "--no-push", "--no-rich"),
            *("-o", folder, *options),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def traces(folder):
    (file,) = Path(folder).glob("*/traces.jsonl")
    return [one for line in file.read_text().splitlines() for one in json.loads(line)["traces"]]


def played(endpoint, tokenizer, tasks, count, *, client="train"):
    """Episodes of verifiers' own rollouts, `count` of each of these tasks."""
    clients = {
        "train": vf.TrainClientConfig(base_url=endpoint.url, renderer_model_name=str(tokenizer)),
        "eval": vf.EvalClientConfig(base_url=endpoint.url),
    }
    config = vf.resolve_env_config({"taskset": {"id": "agent-envs-verifiers", "options": OPTIONS}})
    env = vf.load_environment(config)
    context = vf.ModelContext(model="fake", client=clients[client], sampling=vf.SamplingConfig())

    async def run():
        async with env.serving():
            slots = [
                slot for task in env.taskset.include(ids=tasks) for slot in env.slots(task, count)
            ]
            return await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))

    return asyncio.run(run())


def test_the_eval_command_plays_and_solves(endpoint, tmp_path, solved):
    tasks = ("--select.include.ids", json.dumps(list(solved)))
    child = vf_eval(endpoint, tmp_path, *tasks, "-r", "2", "-c", "1")
    assert child.returncode == 0, child.stderr
    found = traces(tmp_path)
    assert [trace["rewards"]["outcome"]["score"] for trace in found] == [1.0, 0.0] * 3
    for trace in found:
        turns = trace["info"][RECORDS]
        solved = trace["rewards"]["outcome"]["score"] == 1.0
        assert trace["metrics"]["success"] == solved
        assert len(turns) == len(trace["info"][NODES]) == (len(trace["nodes"]) // 2)
        assert turns[-1]["outcome"] == float(solved)
        assert [trace["nodes"][at]["message"]["role"] for (at,) in trace["info"][NODES]] == [
            "assistant"
        ] * len(turns)


def test_the_eval_command_refuses_an_unknown_environment(endpoint, tmp_path):
    child = vf_eval(endpoint, tmp_path, "-n", "1", "--env.taskset.env", "AlfWorld-v1")
    assert child.returncode
    assert "no environment 'AlfWorld-v1' is registered" in child.stderr


def test_an_endpoint_that_fails_is_an_error_of_the_trace_and_gets_no_advantage(
    endpoint, tokenizer, solved, monkeypatch
):
    monkeypatch.setattr(endpoint, "broken", True)
    (episode,) = played(endpoint, tokenizer, list(solved)[:1], 1, client="eval")
    (trace,) = episode.traces
    assert not episode.ok
    assert trace.rewards == {}
    assert "out of order" in trace.errors[0].message
    assign_advantages(credit.make("gigpo"), [episode])
    assert trace.info[RECORDS] == []


@pytest.mark.parametrize("method", ["mgr", "gigpo", "stapo", "has"])
def test_a_group_gets_the_advantages_of_its_turns(group, method):
    assert all(episode.ok for episode in group)
    found = [episode.traces[0] for episode in group]
    assert [trace.reward for trace in found].count(1.0) == 4
    estimator = credit.make(method)
    made = rows_of([trace.info[RECORDS] for trace in found], [e.task.key for e in group])
    expected = iter(estimator(made.turns, np.random.default_rng(1)))
    assert all(branch.advantages is None for trace in found for branch in trace.branches)
    assign_advantages(estimator, group, rng=np.random.default_rng(1))
    values = set()
    for trace in found:
        (branch,) = trace.branches  # the template keeps all text, so it is one conversation
        given = np.array(branch.advantages)
        mask = np.array(branch.sampled_mask)
        assert not given[~mask].any()
        wanted = [
            value
            for turn in trace.info[NODES]
            for value in [next(expected)] * sum(sum(trace.nodes[at].mask) for at in turn)
        ]
        assert given[mask] == pytest.approx(wanted, abs=1e-9)
        values |= set(wanted)
    assert len(values) > 2


def test_advantages_survive_the_wire(group):
    sent = [vf.WireEpisode.model_validate(episode.model_dump()) for episode in group]
    for one in (group, sent):
        assign_advantages(credit.make("gigpo"), one)
    for here, there in zip(group, sent, strict=True):
        assert here.traces[0].branches[0].advantages == there.traces[0].branches[0].advantages


def test_groups_of_the_consumer_hold(group):
    """An episode that is a group of its own has nothing to be compared with."""
    for at, episode in enumerate(group):
        episode.group = vf.GroupInfo(id=str(at))
    assign_advantages(credit.make("grpo"), group)
    assert not any(any(episode.traces[0].branches[0].advantages) for episode in group)


def test_traces_without_tokens_are_refused(endpoint, tokenizer, solved):
    group = played(endpoint, tokenizer, list(solved)[:1], 2, client="eval")
    with pytest.raises(ValueError, match='client of type "train"'):
        assign_advantages(credit.make("gigpo"), group)


def test_the_block_of_the_page_runs(endpoint, tokenizer, tmp_path):
    said = run_page("verifiers", tmp_path, VLLM_URL=endpoint.url, MODEL=str(tokenizer))
    assert "advantages" in said


def test_an_untested_release_is_told_and_a_wrong_one_refused():
    check_releases(
        "verifiers", "verifiers", "import verifiers.v1 as vf; vf.ProgramResult = lambda code: code"
    )
