"""Attempts to get out of the sandbox, from `attacks.toml`, and what makes them.

All use the same way around Python: the real modules, which any function leads to.
"""

import json
import os
import tempfile
import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_envs.appworld import sandbox
from agent_envs.appworld.interpreter import Interpreter
from agent_envs.appworld.sandbox import start_warden

NOW = "2024-05-03T10:30:00"
ESCAPE = "import re\nmodules = re.compile.__globals__['enum'].sys.modules\n"
TABLES = tomllib.loads(Path(__file__).with_name("attacks.toml").read_text())
DEADLY, WIRE, AHEAD, ON, KEYS, LOOPS, LEAKS = (
    TABLES[name] for name in ("deadly", "wire", "ahead", "on", "keys", "loops", "leaks")
)
NUMBER = {
    name: None if (number := given[os.uname().machine == "aarch64"]) == "-" else int(number)
    for name, *given in (entry.split() for entry in TABLES["numbers"].split(","))
}
HARNESS, TALK, FORGE = (TABLES["scripts"][name] for name in ("harness", "talk", "forge"))
SEND = "data = {}\nfor n in range(3, 16):\n  try: os.write(n, data)\n  except OSError: pass\n"


def read_class(given):
    """The attempts of a class in the table: code by name."""
    calls = {
        line: f"call({line.partition('(')[0]!r}, {line.partition('(')[2]}"
        for line in given.get("calls", ())
    }
    return {code: code for code in given.get("code", ())} | calls | given.get("named", {})


ATTACKS = {name: read_class(given) for name, given in TABLES["classes"].items()}


def start(timeout=20, code=""):
    """An interpreter of its own that has run code."""
    interpreter = Interpreter(NOW, "", timeout=timeout)
    if code:
        interpreter.execute(code, reply_none)
    return interpreter


def reply_none(*call):
    """The reply to any call: no value."""
    return {"value": None}


@contextmanager
def warden_with(lines):
    """The warden of this process is one that was started with other lines before its own."""
    begin = "warden.main("
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "_BOOT", sandbox._BOOT.replace(begin, f"{lines}\n{begin}"))
        other = sandbox.Warden()
        patch.setattr(sandbox, "_warden_of", lambda pid: other)
        try:
            yield other
        finally:
            other.close()


REPOSITORY = Path(__file__).parents[3]
needs_strangers = pytest.mark.skipif(
    not all(
        one.stat().st_mode & 0o001
        for folder in (REPOSITORY, Path(tempfile.gettempdir()))
        for one in (folder, *folder.parents)
    ),
    reason="other users may not enter the temporary folder or the checkout",
)


def below(pid):
    """The processes below one, with all below them."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [number for child in map(int, listed) for number in (child, *below(child))]


def harness(attempts):
    """Code that makes attempts."""
    facts = {"pid": os.getpid(), "uid": os.getuid()}
    return f"NUMBER = {NUMBER!r}\nATTEMPTS = {attempts!r}\nFACTS = {facts!r}\n{HARNESS}"


def make_attempts(attempts):
    """Make attempts in one interpreter: why each was held, None if it got through."""
    interpreter = start(60)
    output = interpreter.execute(harness(attempts), reply_none)
    interpreter.close()
    return dict(json.loads(line) for line in output.splitlines() if line.startswith('["'))


def leaks(name):
    """Whether a later episode finds what an earlier one left, which still runs."""
    leave, look = LEAKS[name]
    first, second = start(60), start(60)
    first.execute(harness({name: leave}), None)
    output = second.execute(harness({name: look}), None)
    first.close()
    second.close()
    return json.loads(output.splitlines()[-1])[1] is None


def costs_its_turn(code, *, fails=True, timeout=20):
    """Whether code fails nothing but its own turn or episode.

    `fails`: the turn must fail, and what was before it must remain.
    """
    interpreter, other = start(timeout), start(timeout)
    other.execute("x = 2", None)
    process = other._process.number
    interpreter.execute("x = 1", None)
    output = interpreter.execute(code, reply_none)
    held = not fails or output.startswith("Execution failed. Traceback:\nException: ")
    for _ in range(3):  # also when it has to be rebuilt
        held &= interpreter.execute("print(x)", reply_none) == "1" or not fails
        interpreter.close()
    held &= other.execute("print(x)", None) == "2"
    held &= other._process.number == process
    other.close()
    return held


def is_believed(code):
    """Whether a later turn gets what code sent before it, or the world a call that code forged."""
    calls, interpreter = [], start()

    def answer(*call):
        calls.append(call[0])
        return {"value": None}

    interpreter.execute("x = 1", answer)
    interpreter.execute(harness({"": TALK + code}), answer)
    before = len(calls)
    later = [interpreter.execute("print(x)", answer) for _ in range(3)]
    ended = "Execution failed. Traceback:\nException: The interpreter ended"
    interpreter.close()
    right = all(one == "1" or one.startswith(ended) for one in later)
    return not right or len(calls) > before or calls.count("forged") > 1


def runs_on(code):
    """Whether code still runs when its turn is over."""
    interpreter = start(20, "x = 1")
    own = below(start_warden().pid)[-1]
    output = interpreter.execute(harness({"": f"{TALK}put(framed(result))\n{code}"}), None)
    there = own in below(start_warden().pid)
    state = Path(f"/proc/{own}/stat").read_text().rpartition(") ")[2][0] if there else "ended"
    interpreter.close()
    return state not in ("T", "ended") or not ("forged" in output or "ended" in output)


def forges_its_key(road):
    """Whether code on a road gets its own key of the variables believed."""
    interpreter, keys = start(), []
    for code in ("import functools, operator, re, string, typing", f"{road}\n{FORGE}", "x = 2"):
        interpreter.execute(code, None)
        keys.append(interpreter.key)
    interpreter.close()
    return "forged" in keys
