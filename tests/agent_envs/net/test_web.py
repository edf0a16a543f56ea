"""Which addresses are allowed, and which way a request takes."""

import socket

import pytest

from agent_envs.appworld.remote import ExternalServer
from agent_envs.net import web
from agent_envs.net.endpoint import Endpoint
from agent_envs.retrieval.client import Http
from agent_envs.retrieval.factory import open_retriever
from agent_envs_adapters.remote import Remote
from tests.agent_envs.chat_server import ChatServer
from trainer.engine import EngineOptions

pytest.importorskip("httpx2", reason="no httpx2; pip install 'agent-envs[search]'")

USERS = {
    "judge": (lambda url: Endpoint(model="m", url=url), "OPENAI_API_KEY"),
    "retriever": (Http, "AGENT_ENVS_RETRIEVAL_TOKEN"),
    "retriever's name": (lambda url: open_retriever(url, None), "AGENT_ENVS_RETRIEVAL_TOKEN"),
    "engine": (lambda url: EngineOptions(name="vllm", urls=(url,)), "VLLM_API_KEY"),
    "OpenEnv": (Remote, "token="),
    "AppWorld": (ExternalServer, "without one"),
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    "url",
    ["http://me:hunter2@h.example/v1", "http://hunter2@h.example", "http://h.example/?k=hunter2"],
)
def test_no_address_has_a_password(user, url):
    make, instead = USERS[user]
    with pytest.raises(ValueError, match="user name, password or query") as refused:
        make(url)
    assert instead in str(refused.value)
    assert "h.example" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://me:hunter2@h", "http://me:hunter2", "h:80", "http://h:0"])
@pytest.mark.parametrize("user", USERS)
def test_what_is_no_address_is_refused_without_its_password(user, url):
    if user == "retriever's name" and "://" not in url:
        pytest.skip("it is an unknown retriever")
    with pytest.raises(ValueError, match="like 'http") as refused:
        USERS[user][0](url)
    assert "hunter2" not in str(refused.value)


@pytest.fixture
def environment(monkeypatch):
    """Sets proxies, and nothing else."""
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)
    return monkeypatch


HERE = ["0.0.0.0", "127.0.0.1", "127.0.0.2", "127.1", "[::1]", "[::]", "[::ffff:127.0.0.1]"]  # noqa: S104
NAMES = ["localhost", "LOCALHOST.", "a.localhost", socket.gethostname()]
PROXIES = [
    ({"all_proxy": "socks://127.0.0.1:1"}, "10.9.8.7", "kind socks:// for 10.9.8.7"),
    ({"http_proxy": "socks4://a:hunter2@b:1"}, "a.example", "kind socks4:// for a.example"),
    ({"http_proxy": "proxy:3128"}, "a.example", None),
    ({"http_proxy": "proxy:3128", "no_proxy": "example"}, "a.example", ""),
]


@pytest.mark.parametrize("host", HERE + NAMES)
def test_this_machine_has_no_proxy(environment, host):
    environment.setenv("ALL_PROXY", "socks://127.0.0.1:1")
    assert web.find_proxy(f"http://{host}:8000/v1") == ""


@pytest.mark.parametrize(("given", "host", "wanted"), PROXIES)
def test_the_way_to_others(environment, given, host, wanted):
    for name, value in given.items():
        environment.setenv(name, value)
    if wanted:
        with pytest.raises(web.ServerError, match=wanted) as refused:
            web.find_proxy(f"http://{host}/v1")
        assert "hunter2" not in str(refused.value)
    else:
        assert web.find_proxy(f"http://{host}/v1") == ("http://proxy:3128" * (wanted is None))


def get(url):
    here = web.process()
    return here.run(here.request("GET", url, None, {}, seconds=5))


def test_a_local_server_is_reached_whatever_the_environment(environment):
    environment.setenv("ALL_PROXY", "socks://127.0.0.1:1")
    environment.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    environment.setattr(web, "_current", None)  # whose clients have read other certificates
    with ChatServer(lambda handler: handler.say({})) as server:
        assert get(server.url).status in (200, 501)
    with pytest.raises(web.ServerError, match=r"\$SSL_CERT_FILE names /nowhere/ca.pem"):
        get("https://127.0.0.1:1/")


@pytest.mark.parametrize(("elsewhere", "status"), [("/retrieve", 200), ("http://h.example/", 307)])
def test_a_redirect_is_followed_on_the_same_server(elsewhere, status):
    def move(handler):
        if handler.path == "/retrieve/":
            handler.send_response(307)
            handler.send_header("Location", elsewhere)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            handler.say({"result": [[]]})

    with ChatServer(move) as server:
        here = web.process()
        url = server.url.replace("/v1", "/retrieve/")
        reply = here.run(here.request("POST", url, b"{}", {}, seconds=5))
    assert reply.status == status
