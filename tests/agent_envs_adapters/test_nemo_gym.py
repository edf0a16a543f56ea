"""The adapter of NeMo Gym: its own agent plays our server over HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import numpy as np
import pytest

import credit
from agent_envs_adapters.episodes import Episodes
from credit.rows import rows_of

from .solving import WAIT, check_releases, needs, run_page, solution

THERE = importlib.util.find_spec("nemo_gym") is not None
pytestmark = needs("nemo_gym", "nemo_gym")
if THERE:
    import uvicorn
    from fastapi.testclient import TestClient
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf
    from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig

    from agent_envs_adapters.nemo_gym import (
        RECORDS,
        AgentEnvsServer,
        AgentEnvsServerConfig,
        dataset_rows,
        token_advantages,
    )

OPTIONS = {"data": "embedded", "max_turns": 30}
TOKENS = 3


class Model(BaseHTTPRequestHandler):
    """`/v1/responses` of a model server: every other conversation solves its task."""

    solutions: ClassVar[dict] = {}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = body["input"]
        turn = sum(one.get("role") == "assistant" for one in said)
        replies = self.solutions[said[0]["content"]]
        mark = body.get("user", "solve")
        text = replies[turn] if mark == "solve" else WAIT
        thoughts, _, action = text.partition("</think>")
        message = {
            "id": f"m{turn}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": action, "annotations": []}],
            "prompt_token_ids": [1],
            "generation_token_ids": [7] * TOKENS,
            "generation_log_probs": [-1.0] * TOKENS,
        }
        summary = [{"type": "summary_text", "text": thoughts.removeprefix("<think>")}]
        reasoning = {"id": f"r{turn}", "type": "reasoning", "summary": summary}
        answer = {
            "id": "1",
            "created_at": 0,
            "model": "fake",
            "object": "response",
            "output": [reasoning, message],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def server(**config):
    given = {"host": "127.0.0.1", "port": 0, "entrypoint": "app.py", "name": "agent_envs"}
    return AgentEnvsServer(
        config=AgentEnvsServerConfig(**given, **{"options": OPTIONS, **config}),
        server_client=ServerClient(
            head_server_config=BaseServerConfig(host="127.0.0.1", port=1),
            global_config_dict=OmegaConf.create({}),
        ),
    )


def action(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    return {
        "responses_create_params": {"input": []},
        "response": {
            "id": "1",
            "created_at": 0,
            "model": "fake",
            "object": "response",
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "output": [{**item, "content": content}],
        },
    }


@contextmanager
def serving(app):
    web = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = Thread(target=web.run, daemon=True)
    thread.start()
    while not web.started:
        time.sleep(0.01)
    yield web.servers[0].sockets[0].getsockname()[1]
    web.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def rows():
    return dataset_rows("AlfWorld-v0", 2, seed=1, **OPTIONS)


@pytest.fixture(scope="module")
def configured():
    """What NeMo Gym's command gives to the processes that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEMO_GYM_CONFIG_DICT", "head_server: {host: 127.0.0.1, port: 1}")
        yield


@pytest.fixture(scope="module")
def results(rows, configured):
    """Results of NeMo Gym's own agent: two prompts, four episodes each, half of them solved."""
    episodes = Episodes("AlfWorld-v0", **OPTIONS)
    for row in rows:
        task = {"task": row["task"], "seed": row["seed"]}
        first = episodes.start(**task)
        Model.solutions[first.message] = solution(episodes, **task)[0]
        episodes.release(first)
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=model.serve_forever, daemon=True).start()
    with ExitStack() as stack:
        ours = stack.enter_context(serving(server().setup_webserver()))
        parts = {
            "agent_envs": {"resources_servers": {"agent_envs": {"port": ours}}},
            "policy_model": {"responses_api_models": {"fake": {"port": model.server_port}}},
        }
        for part in parts.values():
            for kind in part.values():
                for one in kind.values():
                    one.update(host="127.0.0.1", entrypoint="app.py")
        client = ServerClient(
            head_server_config=BaseServerConfig(host="127.0.0.1", port=1),
            global_config_dict=OmegaConf.create(parts),
        )
        agent = GymnasiumAgent(
            config=GymnasiumAgentConfig(
                host="127.0.0.1",
                port=0,
                entrypoint="app.py",
                name="agent",
                resources_server={"type": "resources_servers", "name": "agent_envs"},
                model_server={"type": "responses_api_models", "name": "policy_model"},
                max_steps=20,
            ),
            server_client=client,
        )
        with TestClient(agent.setup_webserver()) as http:
            found = []
            for row in rows:
                for at in range(4):
                    asked = {
                        **row["responses_create_params"],
                        "user": "wait" if at % 2 else "solve",
                    }
                    answer = http.post("/run", json={**row, "responses_create_params": asked})
                    assert answer.status_code == 200, answer.text
                    found.append(answer.json())
                    http.cookies.clear()
    model.shutdown()
    model.server_close()
    return found


def test_nemo_gyms_agent_plays_and_solves(results):
    assert [result["reward"] for result in results] == [1.0, 0.0] * 4
    for result in results:
        solved = result["reward"] == 1.0
        assert result["info"]["success"] is result["terminated"] is solved
        assert result["truncated"] is not solved  # the agent stops after 20 of 30 turns
        turns = result["info"][RECORDS]
        assert [turn["step"] for turn in turns] == list(range(len(turns)))
        assert [turn["outcome"] for turn in turns] == [None] * (len(turns) - 1) + [float(solved)]
        assert all(turn["valid"] for turn in turns)


@pytest.mark.parametrize("method", ["mgr", "gigpo", "stapo", "has"])
def test_every_reply_gets_the_advantage_of_its_turn(results, rows, method):
    uids = [row["task"] for row in rows for _ in range(4)]
    estimator = credit.make(method)
    found = token_advantages(estimator, results, uids, rng=np.random.default_rng(1))
    table = rows_of([result["info"][RECORDS] for result in results], uids)
    expected = estimator(table.turns, np.random.default_rng(1))
    flat = [reply for result in found for reply in result]
    assert flat == [[value] * TOKENS for value in expected.tolist()]
    assert len(set(expected.tolist())) > 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"response": {"output": []}}, "0 replies with tokens"), ({"info": {}}, "but 0 turn records")],
)
def test_results_that_do_not_fit_are_refused(results, changed, said):
    with pytest.raises(ValueError, match=said):
        token_advantages(credit.make("gigpo"), [one | changed for one in results], [*range(8)])


def test_sessions_are_apart_and_end(rows):
    ours = server()
    app = ours.setup_webserver()
    with TestClient(app) as one, TestClient(app) as other:
        for http, row in ((one, rows[0]), (other, rows[1])):
            assert http.post("/reset", json=row).json()["info"]["task_id"] == row["task"]
        assert len(ours.session_state) == 2
        first = one.post("/step", json=action(WAIT)).json()
        assert len(first["info"][RECORDS]) == 1
        for _ in range(29):
            first = one.post("/step", json=action(WAIT)).json()
        assert first["truncated"]
        assert first["observation"] is None
        assert len(ours.session_state) == 1
        refused = one.post("/step", json=action(WAIT))
        assert refused.status_code == 400
        assert "call /reset first" in refused.json()["detail"]
        assert len(other.post("/step", json=action(WAIT)).json()["info"][RECORDS]) == 1


def test_episodes_that_an_agent_left_are_given_up(rows):
    ours = server(idle_seconds=0.05)
    app = ours.setup_webserver()
    with TestClient(app) as left, TestClient(app) as other:
        left.post("/reset", json=rows[0])
        time.sleep(0.1)
        other.post("/reset", json=rows[1])
        assert len(ours.session_state) == 1
        assert left.post("/step", json=action(WAIT)).status_code == 400


def test_an_unknown_task_is_refused(rows):
    with TestClient(server().setup_webserver()) as http:
        answer = http.post("/reset", json=rows[0] | {"task": "nowhere"})
        assert answer.status_code == 400
        assert "nowhere" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"env": "AlfWorld-v1"}, "no environment 'AlfWorld-v1' is registered"),
        ({"env": "VisualSokoban-v0", "options": {}}, "shows images"),
    ],
    ids=["id", "images"],
)
def test_a_configuration_that_does_not_fit_is_refused_at_the_start(config, said):
    with pytest.raises(ValueError, match=said):
        server(**config)


def test_asyncio_reset_of_a_running_session_ends_it(rows):
    ours = server()

    async def play():
        await ours.reset(rows[0], "a")
        first = ours.session_state["a"]
        await ours.reset(rows[1], "a")
        return first

    assert asyncio.run(play()).done
    assert len(ours.session_state) == 1


def test_the_block_of_the_page_runs(tmp_path):
    run_page("nemo_gym", tmp_path)


def test_an_untested_release_is_told_and_a_wrong_one_refused():
    check_releases(
        "nemo_gym",
        "nemo-gym",
        'import resources_servers.gymnasium as base; base.extract_text = lambda: ""',
    )
