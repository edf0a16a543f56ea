"""One contract for both backends, and what the HTTP one does when its server fails."""

import copy
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from attacks import below

from agent_envs import MissingAsset
from agent_envs.appworld.experts import write_solution
from agent_envs.appworld.mini import MiniWorld
from agent_envs.appworld.remote import BackendError, HttpWorld
from agent_envs.appworld.sandbox import start_warden
from agent_envs.appworld.world import FAMILIES, list_tasks, make_task

pytestmark = pytest.mark.slow

TASK = "train-creditor+hosts+move-1"


@pytest.fixture(params=["mini", "http"])
def world(request, served, lists):
    made = MiniWorld() if request.param == "mini" else HttpWorld(served.url, data=lists)
    yield made
    made.close()


@pytest.fixture
def remote(served, lists):
    """The client of a server that runs already."""
    return HttpWorld(served.url, data=lists, timeout=5)


@pytest.fixture
def local(command, lists):
    """The client of a server of its own, with the first task open."""
    world = HttpWorld(command, data=lists)
    world.open(TASK)
    yield world
    world.close()


def solution(task_id):
    task = make_task(task_id)
    names = zip(task.programme, task.given, strict=True)
    return write_solution([(FAMILIES[name], given) for name, given in names])


def test_a_task_from_its_opening_to_success(world):
    opened = world.open(TASK)
    task = make_task(TASK)
    assert opened.instruction == task.instruction
    assert opened.supervisor == task.household.person
    assert opened.datetime == task.household.now
    for code in solution(TASK):
        assert not world.is_completed()
        assert world.evaluate().failures
        assert "Execution failed" not in world.execute(code)
    assert world.is_completed()
    assert not world.evaluate().failures
    assert "nothing else is changed" in world.evaluate().passes


def test_opening_again_forgets(world):
    world.open(TASK)
    world.execute("x = 1\napis.supervisor.complete_task()")
    assert world.is_completed()
    world.open(TASK)
    assert not world.is_completed()
    assert "NameError: name 'x' is not defined" in world.execute("print(x)")


SERVE = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("served", {conftest!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print("serving", os.getpid(), file=sys.stderr)
module.Served(int(sys.argv[1])).thread.join()
"""


@pytest.fixture
def command(tmp_path):
    """What starts a server with the generated world's tasks."""
    script = tmp_path / "serve.py"
    script.write_text(SERVE.format(conftest=str(Path(__file__).with_name("conftest.py"))))
    return f"{sys.executable} {script} {{port}}"


def test_a_server_of_ones_own_starts_and_ends(local):
    running, log = local.server.process, local.server.log
    for code in solution(TASK):
        local.execute(code)
    assert not local.evaluate().failures
    assert "serving" in local.server.read_log()
    local.close()
    assert running.poll() == -signal.SIGKILL
    assert not log.exists()
    local.open(TASK)
    assert not local.is_completed()


def test_a_server_killed_mid_way_is_replaced(local):
    first, *others = solution(TASK)
    local.execute(first)
    os.killpg(local.server.process.pid, signal.SIGKILL)
    for code in others:
        local.execute(code)
    assert not local.evaluate().failures


PROGRAM = """
import os, signal, sys
from agent_envs.appworld.remote import HttpWorld
world = HttpWorld(sys.argv[1], data=sys.argv[2])
world.open(sys.argv[3])
print(world.server.port, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_server_outlives_a_trainer_that_is_killed(command, lists):
    asked = [sys.executable, "-c", PROGRAM, command, lists, TASK]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert told.returncode == -signal.SIGKILL, told.stderr
    for _ in range(1000):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", int(told.stdout))):
                return
        time.sleep(0.01)
    raise AssertionError("it still listens")


def test_a_copy_has_a_server_of_its_own(local):
    *first, last = solution(TASK)
    for code in first:
        local.execute(code)
    other = copy.deepcopy(local)
    other.execute(last)
    assert (other.is_completed(), local.is_completed()) == (True, False)
    assert other.server.process.pid != local.server.process.pid
    other.close()


def test_a_server_is_replaced_after_some_tasks(local, monkeypatch):
    monkeypatch.setattr("agent_envs.appworld.remote.TASKS", 2)
    pids = [local.open(TASK) and local.server.process.pid for _ in range(3)]
    assert [pids.index(pid) for pid in pids] == [0, 1, 1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/no/such/program {port}", "`/no/such/program {port}` cannot be run"),
        ("sh -c 'echo broken; exit 3' {port}", r"ended \(3\); its last output: broken"),
        ("sleep 60{port}", r"did not listen within 0\.5 s"),
    ],
)
def test_a_server_that_does_not_start(command, message, lists, monkeypatch):
    monkeypatch.setattr("agent_envs.appworld.remote.STARTING", 0.5)
    with pytest.raises(BackendError, match=message):
        HttpWorld(command, data=lists).open(TASK)


def test_a_server_is_told_where_the_data_is(command, lists, monkeypatch):
    monkeypatch.setenv("APPWORLD_ROOT", "/elsewhere")
    world = HttpWorld(f"sh -c 'echo in $APPWORLD_ROOT >&2; exec {command}'", data=lists)
    world.open(TASK)
    assert f"in {lists}\n" in world.server.read_log()
    world.close()


@pytest.mark.parametrize("fault", ["hang up", "nonsense", "too deep", 500])
@pytest.mark.parametrize("call", ["open", "execute", "completed", "evaluate"])
def test_one_fault_is_mended_by_doing_all_again(served, remote, fault, call):
    does = {
        "open": lambda: remote.open(TASK).instruction == make_task(TASK).instruction,
        "execute": lambda: remote.execute("print(x + 1)") == "21",
        "completed": lambda: remote.is_completed() is False,
        "evaluate": lambda: remote.evaluate().failures != (),
    }[call]
    if call != "open":
        remote.open(TASK)
        remote.execute("x = 20")
    served.faults = [fault]
    assert does()
    assert remote.execute("print('on')") == "on"


@pytest.mark.parametrize(
    ("faults", "requests", "message"),
    [
        (["hang up", 500], 2, "failed twice: /initialize: HTTP 500.*http://127"),
        ([404], 1, "refused /execute: HTTP 404"),  # not repeated
    ],
)
def test_two_faults_and_refusals_are_the_machines(served, remote, faults, requests, message):
    remote.open(TASK)
    asked, served.faults = len(served.asked), faults
    with pytest.raises(BackendError, match=message):
        remote.execute("x = 1")
    assert len(served.asked) == asked + requests


def test_what_a_server_tells_must_make_sense(served, remote):
    remote.open(TASK)
    served.output = lambda handler, given: {"success": False, "passes": ["one"], "failures": []}
    assert remote.evaluate().failures == ("not all tests ran",)
    served.output = lambda handler, given: []
    for call, message in (
        (lambda: remote.open(TASK), re.escape(f"told nothing of task {TASK}")),
        (remote.evaluate, "gave no verdict"),
    ):
        with pytest.raises(BackendError, match=message):
            call()


def test_a_server_that_is_silent(lists, monkeypatch):
    monkeypatch.setattr("agent_envs.appworld.remote.GRACE", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        world = HttpWorld(f"http://127.0.0.1:{silent.getsockname()[1]}", data=lists, timeout=0.1)
        with pytest.raises(BackendError, match="failed twice: /initialize: no answer"):
            world.open(TASK)


def test_without_lists_there_are_no_tasks(tmp_path, monkeypatch):
    world = HttpWorld("http://127.0.0.1:8000", data=tmp_path)
    with pytest.raises(MissingAsset, match=r"dev.txt; run `appworld download data`"):
        world.list_tasks("dev")
    monkeypatch.setenv("APPWORLD_ROOT", str(tmp_path / "elsewhere"))
    with pytest.raises(MissingAsset, match="elsewhere"):
        HttpWorld("http://127.0.0.1:8000").list_tasks("dev")


# many worlds at once, and many episodes one after the other: nothing grows and nothing mixes


def solve(world, task_id):
    """Play a task's solution: what each turn printed."""
    world.open(task_id)
    said = [world.execute(code) for code in solution(task_id)]
    assert not world.evaluate().failures
    return said


def memory(pid):
    """Resident memory in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


@pytest.mark.long
def test_64_worlds_at_once_do_not_mix():
    ids = [one for one in list_tasks("train") if not make_task(one).missing][:64]
    expected = [solve(MiniWorld(), task_id) for task_id in ids]
    barrier = threading.Barrier(64)

    def play(task_id):
        world = MiniWorld(timeout=300)
        world.open(task_id)
        world.execute("x = 1")
        barrier.wait()
        said = solve(world, task_id)
        barrier.wait()
        return world, said

    with ThreadPoolExecutor(64) as threads:
        played = list(threads.map(play, ids))
    assert [said for _, said in played] == expected
    assert len(below(start_warden().pid)) >= 65
    for world, _ in played:
        world.close()


@pytest.mark.parametrize("episodes", [80, pytest.param(400, marks=pytest.mark.long)])
def test_episodes_leave_nothing_behind(episodes):
    world = MiniWorld(timeout=300)
    ids = [*list_tasks("train")]
    seen = []
    for episode in range(episodes):
        world.open(ids[episode % 40])
        assert "@" in world.execute("print(apis.supervisor.show_profile()['email'])")
        if episode % (episodes // 2) == episodes // 2 - 1:
            gc.collect()
            pid = start_warden().pid
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            inside = [memory(int(child)) for child in children]
            descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
            inner = sum(1 for _ in Path(f"/proc/{children[0]}/fd").iterdir())
            seen.append((memory(os.getpid()), *inside, descriptors, inner, len(below(pid))))
    first, last = seen
    assert last[2:] == first[2:]  # descriptors and processes
    assert all(now - then < 2 for then, now in zip(first, last, strict=True))


def test_code_that_hangs_or_ends_a_server_is_the_agents_fault(served, remote, monkeypatch):
    remote.open(TASK)
    remote.execute("x = 1")
    served.faults = ["hang up", 200, 200, 200, "hang up"]  # again after three requests that restore
    assert "The interpreter ended while the code ran" in remote.execute("lost = 2")
    assert "NameError" in remote.execute("print(x)\nprint(lost)")
    monkeypatch.setattr(remote, "timeout", -59.7)  # and the grace of 60 s
    monkeypatch.setattr(served, "output", lambda *_: time.sleep(0.6))
    assert "Execution timed out" in remote.execute("lost = 3")


def test_output_without_an_end_is_not_read(served, remote, monkeypatch):
    remote.open(TASK)
    monkeypatch.setattr(served, "output", lambda *_: "x" * 5_000_000)
    assert "The output is longer than 4000000 bytes" in remote.execute("print('x' * 5_000_000)")
    with pytest.raises(BackendError, match="sent more than 4000000 bytes for /task_completed"):
        remote.is_completed()


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("print(apis.supervisor.show_profile(), 'Error: Exception')", ""),
        ("x = 1 # apis.", "format"),
        ("apis.mail.burn()", "unknown"),
        ("apis.mail.list_mails()", "refused"),
        ("print(1)\n1 / 0", "error"),
    ],
)
def test_a_server_is_judged_by_its_feedback_and_the_names_in_the_code(code, fault, remote):
    remote.open(TASK)
    assert remote.find_fault(code, remote.execute(code)) == fault
