"""Play every environment on strange machines and for strange callers: `.ci/hostile`.

Each condition is a process that plays all environments. A play under a condition must be the play
without one, or be refused in one line with the words that `REFUSED` lists.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("AGENT_ENVS_TEST_DATA", ROOT.parent / "shared" / "data"))
GAMES = SHARED / "alfworld" / "json_2.1.1.tar.xz"
WARNINGS = "error,ignore:the parsed games of"  # without a cache the play is as ever, and slower
PUBLIC = {"AppWorld", "SearchQA", "Sotopia", "TextWorld", "WebShop", "WikiSearch"}
"""Names whose -v0 plays public data."""
STRANGER = 54_321  # an id without an entry in /etc/passwd
PROXIES = {
    "http": "http://127.0.0.1:9",
    "https": "http://127.0.0.1:9",
    "all": "socks5://127.0.0.1:9",
}
PROXIES = {f"{scheme}_proxy": proxy for scheme, proxy in PROXIES.items()}
PROXIES |= {name.upper(): proxy for name, proxy in PROXIES.items()} | {
    "no_proxy": "",
    "NO_PROXY": "",
}
NO_MEMORY_FILES = "mount -t tmpfs -o ro,size=4k none /dev/shm"
NO_TEMPORARY_FILES = "; ".join(
    f"mount --bind {folder} {folder}; mount -o remount,ro,bind {folder}"
    for folder in ("/tmp", "/var/tmp")  # noqa: S108
)

# Of each condition: what a shell does before, options of Python, the environment (None: unset),
# whether the user is a stranger, and what the caller does.
CONDITIONS = {
    "ordinary": {},
    "unknown user, no HOME": {"env": {"HOME": None}, "stranger": True},
    "unknown user, HOME missing": {"env": {"HOME": "/nonexistent"}, "stranger": True},
    "python -OO": {"options": ["-OO"]},
    "proxies": {"env": PROXIES},
    "no /dev/shm": {"shell": NO_MEMORY_FILES},
    "no temporary files": {"shell": NO_TEMPORARY_FILES, "stranger": True, "env": {"TMPDIR": "/no"}},
    "64 open files": {"shell": "ulimit -n 64"},
    "stdin closed": {"shell": "exec <&-"},
    "all streams closed": {"shell": "exec <&- >&- 2>&-"},
    "foreign signals": {"calls": ["set_signals"]},
    "children reaped": {"calls": ["reap_children"]},
    "children ignored": {"calls": ["ignore_children"]},
    "another hash seed": {"env": {"PYTHONHASHSEED": "7"}},
    "C locale": {"env": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}},
    "all at once": {
        "shell": f"{NO_MEMORY_FILES}; ulimit -n 64; exec <&-",
        "options": ["-OO"],
        "env": {**PROXIES, "HOME": None, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONHASHSEED": "7"},
        "stranger": True,
        "calls": ["set_signals"],
    },
}
SEMAPHORES = "vectorization_mode='async' needs semaphores, which this machine refuses"
FOLDER = "set TMPDIR to "
REFUSED = {
    "no /dev/shm": {"vector": SEMAPHORES},
    "no temporary files": {"AppWorld": FOLDER, "WebShopSite": FOLDER},
    "64 open files": {"WebShopSite": "raise the limit (ulimit -n)"},
    "all at once": {"vector": SEMAPHORES, "WebShopSite": "raise the limit (ulimit -n)"},
}  # by a part of the play's name, what the one line says
ACTION = "```python\nprint(6 * 7)\n```"  # which AppWorld executes


def set_signals():
    """A caller with handlers of its own and a timer that runs."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGUSR1))
    for number in (signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)


def reap_children():
    """A caller that waits for every child."""

    def reap(*_):
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    signal.signal(signal.SIGCHLD, reap)


def ignore_children():
    """A caller whose children leave no zombies."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def list_plays(games, data):
    """What is played, by name: a function that returns the turns."""
    import gymnasium as gym

    import agent_envs  # noqa: F401

    ids = [
        name
        for name, spec in gym.registry.items()
        if str(spec.entry_point).startswith("agent_envs.")
        and name.removesuffix("-v0") not in PUBLIC
    ]
    plays = {name: partial(play, partial(gym.make, name)) for name in ids}
    if games:
        public = partial(gym.make, "AlfWorld-v0", data=games, split="valid_seen")
        plays["AlfWorld-v0, public"] = partial(play, public)
        plays["AlfWorld-v0, public, workers"] = partial(play_in_workers, public)
    plays["SearchQA-v0, served"] = partial(play_served, data)
    for name in ("Sokoban-v0", "AppWorld-v1"):
        plays[f"{name}, workers"] = partial(play_in_workers, partial(gym.make, name))
        plays[f"{name}, vector"] = partial(play_vector, name)
    return plays


def play(make, **given):
    """Three turns of the expert that knows most."""
    from agent_envs.experts import experts_of

    env = make(**given)
    try:
        turns = [env.reset(seed=1)]
        expert = [*experts_of(type(env.unwrapped)).values()][-1](env)
        while len(turns) <= 3 and not any(turns[-1][2:4]):
            action = expert.act()
            if form := env.unwrapped.reply_form:
                action = form.format(thought=expert.think(), action=action)
            turns.append(env.step(action))
        return turns
    finally:
        env.close()


def play_served(data):
    """Questions of a folder, on a retrieval server on this machine."""
    import gymnasium as gym

    from agent_envs.retrieval.server import serving
    from agent_envs.search_qa.world import open_world

    with serving(open_world("train").retriever) as url:
        return play(partial(gym.make, "SearchQA-v0", data=data, retriever=url))


def play_in_workers(make):
    """Two copies in processes."""
    from agent_envs.vector import call_concurrently
    from agent_envs.workers import Workers

    envs = Workers(make, processes=2).make_envs(2)
    turns = call_concurrently([partial(env.reset, seed=1) for env in envs])
    turns += call_concurrently([partial(env.step, ACTION) for env in envs])
    for env in envs:
        env.close()
    return turns


def play_vector(name):
    """Two copies in processes of Gymnasium's."""
    from agent_envs import make_vec

    warnings.filterwarnings("ignore", module="gymnasium")  # it warns if a copy has failed
    envs = make_vec(name, 2, vectorization_mode="async")
    try:
        return [envs.reset(seed=1), envs.step((ACTION, ACTION))]
    finally:
        envs.close()


def play_all(pipe, calls, games, data):
    """Send what became of each play."""
    os.set_inheritable(pipe, False)
    for name in calls:
        globals()[name]()
    said = {}
    for name, run in list_plays(games, data).items():
        try:
            said[name] = "played " + sha256(repr(run()).encode()).hexdigest()
        except Exception as error:  # noqa: BLE001
            said[name] = f"{type(error).__name__}: {error}"
    signal.setitimer(signal.ITIMER_REAL, 0)
    with open(pipe, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(said, file)


def find_python():
    """A Python that a stranger can run, of this one's version; "" if there is none."""
    names = (
        sys.executable,
        shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin"),
    )
    for name in filter(None, names):
        with suppress(OSError):
            command = [
                "setpriv",
                f"--reuid={STRANGER}",
                f"--regid={STRANGER}",
                "--clear-groups",
                name,
            ]
            code = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
            if not subprocess.run(
                [*command, "-c", code], check=False, capture_output=True
            ).returncode:
                return name
    return ""


def run(condition, games, home):
    """What became of each play under a condition, or why it cannot be made here."""
    made = CONDITIONS[condition]
    command = [sys.executable]
    if made.get("stranger"):
        if os.getuid():
            return "only root can become another user"
        command = [find_python()]
        if not command[0]:
            return f"no Python that another user can run; {sys.executable} is root's own"
        command = [
            "setpriv",
            f"--reuid={STRANGER}",
            f"--regid={STRANGER}",
            "--clear-groups",
            *command,
        ]
    reading, writing = os.pipe()
    given = [
        *made.get("options", ()),
        __file__,
        str(writing),
        json.dumps(made.get("calls", [])),
        games,
        f"{home}/questions",
    ]
    command = ["sh", "-ec", f'{made.get("shell", ":")}; exec "$@"', "sh", *command, *given]
    if "mount" in made.get("shell", ""):
        command = ["unshare", "-m", *command]
        if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
            return "this machine forbids namespaces of mounts"
    paths = [ROOT / "src", ROOT, *(path for path in sys.path if path.endswith("site-packages"))]
    environment = {
        "PATH": os.environ["PATH"], "HOME": home, "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONWARNINGS": WARNINGS,
        "PYTHONHASHSEED": "0", **made.get("env", {}),
    }  # fmt: skip
    environment = {name: value for name, value in environment.items() if value is not None}
    with subprocess.Popen(
        command, cwd="/", env=environment, pass_fds=[writing], stderr=subprocess.PIPE, text=True
    ) as child:
        os.close(writing)
        with open(reading, encoding="utf-8") as file:  # noqa: PTH123
            said = file.read()
        complaint = child.stderr.read()
    ended = (
        "played without a word" if not complaint and not child.returncode else complaint or "died"
    )
    return json.loads(said or "{}") | {"the process": ended}


def is_refusal(condition, name, said):
    """Whether a play is refused in one line, as is expected."""
    words = [words for part, words in REFUSED.get(condition, {}).items() if part in name]
    return any(one in said for one in words) and "\n" not in said


def main():
    """Run all conditions, two at a time; print what went wrong."""
    from agent_envs.search_qa.world import open_world

    chosen = [
        name for name in CONDITIONS if not sys.argv[1:] or name in ("ordinary", *sys.argv[1:])
    ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        Path(folder).chmod(0o755)
        games, data = "", Path(folder, "questions")
        open_world("train").export(data)
        if GAMES.is_file():
            games = folder
            with tarfile.open(GAMES) as archive:
                archive.extraction_filter = getattr(
                    tarfile, "data_filter", lambda member, _: member
                )
                archive.extractall(folder)  # noqa: S202 - it is ours
        results = dict(
            zip(chosen, pool.map(lambda name: run(name, games, folder), chosen), strict=True)
        )
    ordinary, failed = results["ordinary"], False
    for condition, said in results.items():
        if isinstance(said, str):
            sys.stdout.write(f"{condition}: skipped, {said}\n")
            continue
        got = {name: said.get(name, "no result") for name in ordinary}
        wrong = {
            name: one
            for name, one in got.items()
            if one != ordinary[name] and not is_refusal(condition, name, one)
        }
        refused = sum(not one.startswith("played") for one in got.values())
        sys.stdout.write(f"{condition}: {len(got) - refused} as ever, {refused} refused\n")
        sys.stdout.writelines(f"    WRONG {name}: {one}\n" for name, one in wrong.items())
        failed |= bool(wrong)
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].isdigit():
        play_all(int(sys.argv[1]), json.loads(sys.argv[2]), *sys.argv[3:])
    else:
        main()
