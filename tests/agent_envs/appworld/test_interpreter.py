"""The interpreter: what it prints, how it fails, and that it can be rebuilt."""

import copy
import os
import pickle
import signal
import time
import tomllib
from pathlib import Path

import gymnasium as gym
import pytest
from attacks import ESCAPE, NOW, below, start

import agent_envs  # noqa: F401  registers the id
from agent_envs.appworld.interpreter import Interpreter, Process
from agent_envs.appworld.mini import MiniWorld
from agent_envs.appworld.sandbox import start_warden
from tests.agent_envs.appworld.conftest import echo

pytestmark = pytest.mark.slow

CODE = tomllib.loads(Path(__file__).with_name("code.toml").read_text())
NONSENSE = """
for number in range(3, 16):
    try:
        modules["os"].write(number, b"x" * 99)
    except OSError:
        pass
"""


def interpreters():
    """The interpreters of this process; the first two below a warden are its own."""
    return below(start_warden().pid)[2:]


@pytest.mark.parametrize(("code", "output"), [tuple(row.values()) for row in CODE["prints"]])
def test_what_code_prints(run, code, output):
    assert run(code) == output
    assert run("print('on')") == "on"


@pytest.mark.parametrize(("code", "last"), [tuple(row.values()) for row in CODE["fails"]])
def test_how_code_fails(run, code, last):
    output = run(code)
    assert output.startswith("Execution failed. Traceback:\n")
    assert last in output
    assert run("print('on')") == "on"


def test_a_traceback_names_the_lines_of_the_code_also_of_earlier_turns(run):
    run("def inverse(x):\n    return 1 / x")
    assert run("# none\n# none\ninverse(0)") == (
        "Execution failed. Traceback:\n"
        '  File "<code>", line 3, in <module>\n    inverse(0)\n'
        '  File "<code>", line 2, in inverse\n    return 1 / x\n'
        "ZeroDivisionError: division by zero"
    )
    assert run("def f(x):\n    return 1 / x\n\nprint('before')\nf(0)") == (
        "before\nExecution failed. Traceback:\n"
        '  File "<code>", line 5, in <module>\n    f(0)\n'
        '  File "<code>", line 2, in f\n    return 1 / x\n'
        "ZeroDivisionError: division by zero"
    )


def test_an_error_of_a_call_is_an_exception_to_catch():
    interpreter = start()
    code = "try:\n  apis.a.b()\nexcept Exception as e:\n  print('caught', e)"
    told = "Response status code is 401:\n{}"
    assert interpreter.execute(code, lambda *call: {"error": told}) == f"caught {told}"
    assert interpreter.execute("apis.a.b()", lambda *call: {"error": told}).endswith(
        f"Exception: {told}"
    )


def test_variables_files_and_chance_stay_from_turn_to_turn(run):
    run("import random\nx = random.random()\nopen('f', 'w').write('text')")
    assert run("print(0 < x < 1, open('f').read(), random.random() != x)") == "True text True"


def test_chance_is_of_the_seed_and_never_the_machines():
    def draw(seed, made="Random()"):
        code = f"import random\nr = random.{made}\nprint(r.random(), random.random(), hash('a'))"
        return Interpreter(NOW, seed, timeout=20).execute(code, echo)

    assert draw("one") != draw("two")
    for made in ("Random()", "Random(None)", "Random(3); r.seed()"):
        assert len({draw("one", made) for _ in range(3)}) == 1
    code = "import random\nprint(random.SystemRandom)"
    assert "has no attribute 'SystemRandom'" in start().execute(code, echo)


def keys_after(*codes):
    """The key of one interpreter after each code."""
    interpreter, keys = start(), []
    for code in codes:
        interpreter.execute(code, echo)
        keys.append(interpreter.key)
    interpreter.close()
    return keys


@pytest.mark.parametrize(("first", "undo"), [tuple(row.values()) for row in CODE["undone"]])
def test_keys_know_the_variables(first, undo):
    changed, again, back = keys_after(first, "print(1)", undo)
    assert changed != "" == back
    read = not any(sign in first for sign in ("iter", "000"))
    assert (again == changed) == read  # what cannot be read, the code so far stands for


@pytest.mark.parametrize(("one", "other"), [tuple(row.values()) for row in CODE["distinct"]])
def test_two_states_have_two_keys(one, other):
    assert keys_after(one) == keys_after(one) != keys_after(other)


def test_equal_variables_have_equal_keys():
    (one,) = keys_after("x = {'a': [1, 2.5, None], 'b': ('c', b'd', {3})}")
    assert keys_after("x = dict(a=[1, 5 / 2, None])\nx['b'] = ('c', b'd', set([3]))") == [one]
    # what cannot be read keeps what was before it
    one, again, other = (keys_after(x, "g = (n for n in range(3))") for x in ("x=1", "x=1", "x=2"))
    assert one[1] == again[1] != other[1]


def test_output_is_cut(run):
    output = run("for _ in range(100000): print('x' * 99)")
    assert len(output) < 20_100
    assert output.endswith("[cut: the first 20000 of 10000000 characters]")
    assert len(run("raise ValueError('x' * 10**6)")) < 20_200
    assert run("print('x' * 10**6)\n1/0").endswith("ZeroDivisionError: division by zero")


def test_code_that_takes_too_long_is_ended_and_the_rest_is_kept():
    interpreter = start(1.5)
    interpreter.execute("kept = 3", echo)
    output = interpreter.execute("lost = 4\nwhile True: pass", echo)
    assert "Exception: Execution timed out after 1.5 seconds." in output
    assert interpreter.execute("print(kept)", echo) == "3"
    assert "NameError" in interpreter.execute("print(lost)", echo)


def test_an_interpreter_that_does_not_read_cannot_hold_the_world_up():
    def answer(app, api, given):
        os.kill(interpreters()[-1], signal.SIGSTOP)
        return {"value": "x" * 3_000_000}

    interpreter = start(1, "x = 1")
    assert "timed out after 1 seconds" in interpreter.execute("apis.a.b()", answer)
    assert interpreter.execute("print(x)", echo) == "1"


@pytest.mark.parametrize("part", [0, 1])
def test_a_warden_that_is_killed_is_started_again(part):
    interpreter = start(20, "x = 1")
    old = start_warden()
    pid = old._process.pid
    os.kill((pid, *below(pid))[part], signal.SIGKILL)
    old._process.wait(timeout=20)  # the end of either is the other's
    assert interpreter.execute("print(x)", echo) == "1"
    assert start_warden() is not old


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda i: pickle.loads(pickle.dumps(i))]
)
def test_a_copy_knows_the_same_and_calls_nothing_twice(copied):
    calls = []

    def answer(app, api, given):
        calls.append(api)
        return {"value": len(calls)}

    first = start()
    first.execute("x = [apis.a.one(), apis.a.two()]\n1/0", answer)
    other = copied(first)
    assert other.execute("x.append(apis.a.three())\nprint(x)", answer) == "[1, 2, 3]"
    assert first.execute("print(x)", answer) == "[1, 2]"
    assert (len(first.journal), len(other.journal)) == (2, 2)
    assert calls == ["one", "two", "three"]


def test_no_process_before_the_first_code():
    start_warden()
    before = set(interpreters())
    interpreter = start()
    assert not set(interpreters()) - before
    interpreter.execute("x = 1", echo)
    (mine,) = set(interpreters()) - before
    interpreter.close()
    interpreter.close()
    assert mine not in interpreters()


def test_one_that_is_forgotten_ends():
    interpreter = start(20, "x = 1")
    mine = interpreters()[-1]
    del interpreter
    until(lambda: mine not in interpreters() or not Path(f"/proc/{mine}/exe").exists())


def until(holds):
    """Wait for what comes soon."""
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


def kill_the_newest():
    os.kill(interpreters()[-1], signal.SIGKILL)


def test_killed_once_in_a_turn_the_code_runs_again_and_calls_nothing_twice():
    calls = []

    def answer(app, api, given):
        calls.append(api)
        if calls == ["one", "two"]:
            kill_the_newest()
        return {"value": len(calls)}

    interpreter = start()
    code = "print(apis.a.one(), apis.a.two(), apis.a.three())\nx = 4"
    assert interpreter.execute(code, answer) == "1 2 3"
    assert calls == ["one", "two", "three"]
    kill_the_newest()  # between turns
    assert interpreter.execute("print(x)", answer) == "4"


def test_killed_twice_by_the_same_code_is_the_codes_fault():
    def answer(app, api, given):
        kill_the_newest()
        return {"value": None}

    interpreter = start(20, "x = 1")
    output = interpreter.execute("apis.a.one()\napis.a.two()", answer)
    assert "Exception: The interpreter ended while the code ran (signal SIGKILL)." in output
    assert interpreter.execute("print(x)", echo) == "1"


def test_an_interrupt_ends_the_process():
    def interrupt(app, api, given):
        raise KeyboardInterrupt

    interpreter = start(20, "x = 1")
    mine = interpreters()[-1]
    with pytest.raises(KeyboardInterrupt):
        interpreter.execute("apis.a.b()", interrupt)
    assert mine not in interpreters()
    assert interpreter.execute("print(x)", echo) == "1"


def rebuilt(code, replies=(), timeout=1):
    """An interpreter that has to run `code` again before it goes on."""
    interpreter = start(timeout)
    interpreter.journal.append((code, list(replies)))
    return interpreter


def test_code_that_takes_longer_when_it_runs_again_is_waited_for():
    wait = "end = modules['time'].monotonic() + 2\nwhile modules['time'].monotonic() < end: pass"
    interpreter = rebuilt(f"{ESCAPE}{wait}\nx = 1", timeout=1)
    assert interpreter.execute("print(x)", echo) == "1"
    assert not interpreter.lost


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print(apis.a.b())", "it now calls apis.a.b"),
        (f"{ESCAPE}modules['os']._exit(3)", "exit status 3"),
        (f"{ESCAPE}{NONSENSE}", "it sent what is no call"),
    ],
)
def test_what_cannot_be_run_again_fails_the_episode_and_not_the_run(code, why):
    interpreter = rebuilt(code)
    output = interpreter.execute("x = 1", echo)
    assert output.startswith("Execution failed. Traceback:\nException: The interpreter ended")
    assert f"could not be run again ({why})" in output
    assert interpreter.lost
    assert copy.deepcopy(interpreter).lost
    assert "The task has failed." in interpreter.execute("print(x)", echo)


def test_earlier_code_that_hangs_fails_the_episode(monkeypatch):
    monkeypatch.setattr("agent_envs.appworld.interpreter._GRACE", 0)
    interpreter = rebuilt("while True: pass", timeout=0.3)
    assert "could not be run again (timed out)" in interpreter.execute("x = 1", echo)
    assert interpreter.lost


def test_a_lost_interpreter_ends_the_episode_without_success():
    env = gym.make("AppWorld-v1", timeout=20)
    env.reset(seed=1)
    env.step("```python\nx = apis.supervisor.show_profile()\n```")
    env.unwrapped.world._interpreter.journal.append((f"{ESCAPE}modules['os']._exit(3)", []))
    env.unwrapped.world._interpreter.close()
    _, reward, terminated, truncated, info = env.step("```python\napis.a.b()\n```")
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["valid"], info["invalid_reason"], info["success"]) == (False, "error", False)
    env.close()


def test_a_reply_too_long_to_send_is_an_error_to_read():
    interpreter = start()
    output = interpreter.execute("apis.a.b()", lambda *call: {"value": "x" * 5_000_000})
    assert "Exception: Response status code is 413:" in output
    assert interpreter.execute("print(1)", echo) == "1"


def test_a_fork_of_the_trainer_has_interpreters_of_its_own():
    interpreter = start(60)
    interpreter.execute("x = apis.a.b(n=1)", echo)
    pid = os.fork()
    if not pid:
        told = interpreter.execute("x = print(x)", echo)
        interpreter.close()
        os._exit(told == "['a', 'b', {'n': 1}]")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert interpreter.execute("print(x)", echo) == "['a', 'b', {'n': 1}]"


BURN = f"{ESCAPE}t = modules['time']\nend = t.monotonic() + 0.8\nwhile t.monotonic() < end: pass"
SWALLOW = "for n in range({}):\n  try: {}\n  except Exception: pass"
LONG = "getattr(getattr(apis, 'x' * {}), 'y')(**{{'z' * {}: 1}})"


def test_a_step_takes_its_time_limit_and_little_more_also_after_an_end():
    interpreter = start(1)
    interpreter.journal += [(BURN, [])] * 5  # each within the limit, all over it
    assert "earlier code could not be run again (timed out)" in interpreter.execute("1", echo)
    assert interpreter.lost


@pytest.mark.parametrize(
    ("calls", "call", "told"),
    [
        (150, LONG.format(1_500_000, 1), "Execution successful."),  # a message too long to send
        (150, LONG.format(400_000, 1), "the episode has used its 16 MiB of code, calls and replie"),
        (9999, "apis.a.b()", "it made more than 2000 calls"),
    ],
)
def test_calls_and_replies_are_kept_within_the_episodes_account(calls, call, told):
    world = MiniWorld(timeout=20)
    world.open("train-creditor+hosts+move-1")
    assert told in world.execute(SWALLOW.format(calls, call))
    kept = sum(len(code) + sum(map(len, replies)) for code, replies in world._interpreter.journal)
    assert kept < 200_000
    world.close()


def test_long_replies_count():
    told = start().execute(SWALLOW.format(150, "apis.a.b()"), lambda *_: "x" * 400_000)
    assert "the episode has used its 16 MiB" in told


def test_a_timeout_of_the_callers_own_is_not_the_agents():
    def ring(*_):
        raise TimeoutError("of the caller")

    interpreter = start(20, "x = 1")
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(TimeoutError, match="of the caller"):
            interpreter.execute("while True: pass", echo)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert interpreter.execute("print(x)", echo) == "1"


FIND = """
gc, sys, ctypes = (modules[name] for name in ("gc", "sys", "ctypes"))
def walk(frame):
    while frame := frame.f_back:
        yield from frame.f_locals.values()
def look():
    seen = list(walk(sys._getframe().f_back))
    seen += [v for x in seen for v in (getattr(x, "__dict__", None) or {}).values()]
    held = [x for x in seen if isinstance(x, (set, dict, list, tuple))] + [seen]
    found = [x for group in held for x in group if type(x) is int and x in NUMBERS]
    texts = (x for y in gc.get_objects() for x in gc.get_referents(y) if type(x) in (str, bytes))
    return found + [x for x in texts if (b"terces" if type(x) is bytes else "terces")[::-1] in x]
sbrk = ctypes.CDLL(None).sbrk
sbrk.restype = ctypes.c_long
heap = ctypes.string_at(sbrk(0) - 2**21, 2**21)  # also what is free again
print(look(), heap.count(b"terces"[::-1]))
"""


@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.long)])
def test_an_interpreter_finds_nothing_of_others(count):
    others = [Interpreter(NOW, f"secret {n}", timeout=20) for n in range(count)]
    for other in others:
        other.execute("x = 'secret'", echo)
    numbers = {number for one in others if (number := one._process.number) > 16}  # no files
    for other in others[:-1]:
        other.close()
    last = Process(start_warden(), {"now": NOW, "seed": "secret"})
    numbers.add(last.number)
    look = f"{ESCAPE}{FIND}".replace("NUMBERS", str(numbers))
    said = start().execute(look, echo)
    start_warden().close()
    assert said == start().execute(look, echo)  # some constants are equal by chance
    assert said.endswith("] 0")


def test_a_zygote_that_is_killed_is_started_again():
    first, old = start(20, "x = 1"), start_warden()
    os.kill(below(old.pid)[1], signal.SIGKILL)
    assert start(20, "x = 2").execute("print(x)", echo) == "2"
    assert start_warden() is not old
    assert first.execute("print(x)", echo) == "1"
