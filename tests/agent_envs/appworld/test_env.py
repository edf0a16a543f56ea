"""AppWorld-v0: the contract, validity, progress, anchors, rewards, the player."""

import copy
import pickle
import time

import gymnasium as gym
import pytest

from agent_envs import INFO_KEYS, ParseReply
from agent_envs.appworld.env import AppWorld, read_reply
from agent_envs.appworld.experts import Explorer, solve
from agent_envs.appworld.families import FAMILIES
from agent_envs.appworld.session import Verdict
from agent_envs.appworld.tasks import make_task
from agent_envs.testing import check_agent_env

pytestmark = pytest.mark.slow

TASK = "tick_off-0"
LOOK = """
me = apis.supervisor.show_profile()
passwords = {a["account_name"]: a["password"] for a in apis.supervisor.show_account_passwords()}
"""
LOG_IN = 't = apis.{0}.login(username=me["email"], password=passwords["{0}"])["access_token"]'


def make(**options):
    return AppWorld(**({"split": "all"} | options))


def reply(code, thought="so"):
    return f"<think>{thought}</think>\n```python\n{code}\n```"


def play(env, *codes, task_id=TASK):
    """All that an episode returned; the reset as a step without reply."""
    observation, info = env.reset(options={"task_id": task_id})
    return [(observation, 0.0, False, False, info), *(env.step(reply(code)) for code in codes)]


def solved(env, task_id=TASK):
    """All that the expert's episode returned."""
    steps = play(env, task_id=task_id)
    while not any(steps[-1][2:4]):
        expert = Explorer(env)
        steps.append(env.step(reply(expert.act(), expert.think())))
    return steps


def replies(env):
    """The replies of the expert from here to the end."""
    return [reply(code, "why") for code in Explorer(env).plan()]


@pytest.mark.parametrize(
    "options",
    [
        {"reward": "penalty", "max_turns": 6, "render_mode": "ansi", "split": "test_unseen"},
        pytest.param(
            {"reward": "fraction", "progress": "none", "families": ["tick_off"]},
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_contract(options):
    env = gym.make("AppWorld-v0", **options)
    check_agent_env(env, oracle=Explorer)


@pytest.mark.long
def test_the_contract_of_the_http_backend(served, lists):
    """Without a spec: another instance beside it would play on the same server's only world."""
    env = AppWorld(backend="http", server=served.url, data=str(lists), max_turns=4)
    check_agent_env(env, copies=False)


def test_what_the_agent_reads_first():
    env = gym.make("AppWorld-v0")
    own = {"action", "supervisor", "datetime", "tests", "tests_passed", "failures", "harm"}
    ((observation, *_, info),) = play(env)
    assert set(info) == {*INFO_KEYS, *own}
    assert info["goal"] in observation.splitlines()
    for part in ("show_app_descriptions", "show_account_passwords", "complete_task"):
        assert part in observation
    assert info["supervisor"]["email"] in observation
    assert info["datetime"] in observation
    with pytest.raises(ValueError, match="reads whole replies itself"):
        ParseReply(env)


def test_the_panels():
    sizes = {"train": 264, "val": 88, "test": 88, "test_unseen": 120, "all": 560}
    assert {split: len(make(split=split).panel) for split in sizes} == sizes
    assert len(make(split="train", families=["tick_off", "tag_notes"]).panel) == 24


def test_a_solved_task():
    steps = solved(make())
    assert [step[1] for step in steps] == [0.0] * (len(steps) - 1) + [1.0]
    _, _, terminated, truncated, info = steps[-1]
    assert (terminated, truncated, info["success"], info["progress"]) == (True, False, True, 1.0)
    assert info["tests"] == info["tests_passed"] == 9  # six changes, no others, no harm, the end
    assert all((step[4]["valid"], step[4]["harm"]) == (True, []) for step in steps)


def test_progress_is_the_share_of_tests_that_did_not_pass_at_first():
    env = make()
    env.reset(options={"task_id": TASK})
    *before, last = env.world.solution
    assert last.startswith("# Tick off")
    wanted = make_task(TASK).plan.changes[0].where["name"]
    one = (
        f"(item,) = [item for item in items if item['name'] == {wanted!r}]\n"
        "apis.shopping.update_item(access_token=shopping_token, item_id=item['id'], bought=True)"
    )
    steps = play(env, *before, one)
    # Seven tests do not pass at first: six changes and the end.
    assert [step[4]["progress"] for step in steps] == [0.0, 0.0, 0.0, 1 / 7]


@pytest.mark.parametrize(
    ("code", "reason", "marked"),
    [
        ("print(1)", "format", "format"),  # calls nothing
        ("print(apis.supervisor.show_profile())", "", ""),
        ("apis.phone.ring()", "unknown", "unknown"),
        ("apis.notes.burn()", "unknown", "unknown"),
        ("apis.notes.list_tags()", "refused", "refused"),
        ("apis.notes.login(username=1, password=2)", "refused", "refused"),
        ("apis.notes.login(1)", "error", "error"),
        ("import os  # apis.", "error", "error"),
        ("apis.supervisor.show_profile()\n1 / 0", "error", "error"),
        ("apis.(", "error", "error"),
        # MGR's marks read what was printed, and a name in a comment; the effect is what counts
        ("# apis.\nprint('Error: none')", "format", "error"),
        ("x = 1 # apis.", "format", ""),
        ("for day in []: apis.notes.burn()", "format", ""),
        ("apis.supervisor.show_profile()\nprint('Exceptional songs')", "", "error"),
        (
            "print(apis.supervisor.show_profile(), 'Error: 3\\nExecution failed. Traceback:')",
            "",
            "error",
        ),
        ("a = apis\nprint(a.supervisor.show_profile())", "", "format"),
        ("try: apis.notes.burn()\nexcept Exception: print('none')", "unknown", ""),
        (
            "try: apis.notes.list_tags()\nexcept Exception: apis.supervisor.show_profile()",
            "",
            "",
        ),
        ("apis.supervisor.show_profile()\nraise SystemExit", "error", "error"),
    ],
)
def test_validity_of_code(code, reason, marked):
    for options, expected in (({}, reason), ({"validity": "marks"}, marked)):
        _, (_, _, _, _, info) = play(make(**options), code)
        assert (info["valid"], info["invalid_reason"]) == (expected == "", expected)
        assert info["action"] == code


@pytest.mark.parametrize(("longest", "reason"), [(20, "format"), (200, "")])
def test_thoughts_without_an_end_are_no_form(longest, reason):
    env = make(max_thinking=longest)
    env.reset(options={"task_id": TASK})
    said = f"```python\napis.supervisor.show_profile()\n```<think>{'long ' * 10}"
    assert env.step(said)[4]["invalid_reason"] == reason


@pytest.mark.parametrize("validity", ["effect", "marks"])
def test_a_timeout(validity):
    _, step = play(make(timeout=1, validity=validity), "apis.supervisor\nwhile True: pass")
    assert step[4]["invalid_reason"] == "timeout"
    assert "timed out after 1 seconds" in step[0]


@pytest.mark.parametrize(
    "said",
    [
        "",
        "apis.supervisor.show_profile()",
        "```\napis.supervisor.show_profile()\n```",
        "```python\napis.supervisor.show_profile()",
        "```python\n```",
        "<think>```python\napis.supervisor.complete_task()\n```</think>",
    ],
)
def test_a_reply_without_code_runs_nothing(said):
    env = make()
    _, before = env.reset(options={"task_id": TASK})
    observation, _, terminated, _, info = env.step(said)
    assert observation.startswith("No code available to execute.")
    assert (info["invalid_reason"], info["action"], terminated) == ("format", "", False)
    assert info["anchor"] == before["anchor"]
    assert env.transcript[-1][0] == ""


X = "```python\napis.x\n```"


@pytest.mark.parametrize(
    ("said", "code", "endless"),
    [
        (f"One:\n{X}\ntwo:\n```python\nprint(2)\n```", "apis.x", 0),
        (f"a</think>{X}<think>```python\n2\n```</think>", "apis.x", 0),
        (f"<think>a<think>b</think>{X}</think>", "", 0),
        ("``<think>x</think>`python\n1\n```", "", 0),
        ("```python \r\napis.x\n```", "apis.x", 0),
        ("```python\nx\n```", "x", 0),
        ("```py\napis.x\n```", "", 0),
        (f"<think>short\n{X}", "", 6 + len(X)),
        (f"{X}<think>{'long ' * 50}", "apis.x", 250),
        (f"<think>{'long ' * 50}</think>\n{X}", "apis.x", 0),
        ("<think>" * 9000 + X, "", 7 * 8999 + len(X)),  # a regular expression took 15 s
    ],
    ids=range(11),
)
def test_reading_replies(said, code, endless):
    started = time.monotonic()
    assert read_reply(said) == (code, endless)
    assert time.monotonic() - started < 5


def anchors(*codes):
    """The anchor at the start and after each code."""
    return [step[4]["anchor"] for step in play(make(), *codes)]


def test_looking_changes_no_anchor():
    looks = anchors("print(apis.supervisor.show_profile())", "print(1)  # apis.", "1 / 0", "apis.(")
    assert len(set(looks)) == 1
    assert anchors("x = 1  # apis.")[-1] not in looks
    assert play(make(), task_id="tick_off-1")[0][4]["anchor"] != looks[0]


def test_two_tasks_in_one_state_have_two_anchors(monkeypatch):
    env = make()
    starts = set()
    for task_id in (TASK, "tick_off-1"):
        env.reset(options={"task_id": task_id})
        monkeypatch.setattr(type(env.world), "digest", property(lambda _: "the same"))
        starts.add(env._make_anchor())
    assert len(starts) == 2


def test_anchors_know_the_apps():
    """Log-ins, rows, and the number that a new row gets next."""
    log_in = LOG_IN.format("music").removeprefix("t = ")
    looked, logged_in, again = anchors(LOOK, log_in, log_in)[1:]
    assert looked != logged_in == again
    start, pinned, back, made, gone = anchors(
        LOOK + LOG_IN.format("notes"),
        "apis.notes.pin_note(access_token=t, note_id=101)",
        "apis.notes.pin_note(access_token=t, note_id=101, pinned=False)",
        "n = apis.notes.create_note(access_token=t, title='x')['note_id']",
        "apis.notes.delete_note(access_token=t, note_id=n)\ndel n",
    )[1:]
    assert len({start, pinned, made, gone}) == 4
    assert back == start


def test_harm_is_told_in_the_turn_that_did_it_and_is_in_the_anchor():
    """Deleting what one made is as before; a mail that was sent and deleted is not."""
    send = (
        "n = apis.mail.send_mail(access_token=t, recipients=['a@b.example'], subject='x')\n"
        "apis.mail.delete_mail(access_token=t, **n)\ndel n"
    )
    steps = play(make(), LOOK + LOG_IN.format("mail"), send, LOOK)
    harm = "mail: recipients ['a@b.example'], subject 'x', body ''"
    assert [step[4]["harm"] for step in steps] == [[], [], [harm], []]
    assert steps[1][4]["anchor"] != steps[2][4]["anchor"]
    overwrite = "apis.notes.update_note(access_token=t, note_id=101, text='')"
    steps = play(make(), LOOK + LOG_IN.format("notes"), overwrite, LOOK)
    assert [len(step[4]["harm"]) for step in steps] == [0, 0, 1, 0]


def test_a_success_needs_the_end(monkeypatch):
    env = make()
    env.reset(options={"task_id": TASK})
    monkeypatch.setattr(env.world, "evaluate", lambda: Verdict(("all is done",), ()))
    _, reward, terminated, _, info = env.step(reply("print(apis.supervisor.show_profile())"))
    assert (reward, terminated, info["success"]) == (0.0, False, False)
    _, reward, terminated, _, info = env.step(reply("apis.supervisor.complete_task()"))
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_35_turns_and_the_failures_at_their_end():
    env = make()
    env.reset(options={"task_id": TASK})
    steps = [env.step("") for _ in range(35)]
    assert [step[3] for step in steps] == [False] * 34 + [True]
    assert [bool(step[4]["failures"]) for step in steps] == [False] * 34 + [True]


def test_a_wrong_end_with_and_without_progress():
    for progress, low, high in (("none", 0, 0), ("tests", 0.01, 0.99)):
        _, step = play(make(progress=progress), "apis.supervisor.complete_task()")
        assert (*step[1:4], step[4]["success"]) == (0.0, True, False, False)
        assert low <= step[4]["progress"] <= high
        assert "change 1 of 6 in items is made" in step[4]["failures"]


@pytest.mark.parametrize(
    ("reward", "expected"),
    [("success", [0.0, 0.0, 0.0]), ("fraction", [0.0, 0.0, 3 / 9]), ("penalty", [-0.1, 0.0, 0.0])],
)
def test_rewards(reward, expected):
    # At the end three of nine tests pass: nothing else is changed, no harm is done, the end.
    steps = play(
        make(reward=reward),
        "1 / 0",
        "print(apis.supervisor.show_profile())",
        "apis.supervisor.complete_task()",
    )
    assert [step[1] for step in steps[1:]] == pytest.approx(expected)


@pytest.mark.parametrize("codes", [["print(1)", "print(2)"], ["print(1)"]])
def test_a_fraction_is_paid_when_the_turns_run_out(codes):
    _, *steps = play(make(reward="fraction", max_turns=len(codes)), *codes)
    assert [step[1] for step in steps] == pytest.approx([0.0, 2 / 9][-len(codes) :])
    assert steps[-1][2:4] == (False, True)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_in_the_middle_of_an_episode_go_on_alike(copied):
    env = make()
    env.reset(options={"task_id": "split_the_dinner-0"})
    first, second, *rest = replies(env)
    env.step(first)
    env.step(second)
    other = copied(env)
    for said in rest:
        expected = env.step(said)
        assert other.step(said) == expected
    assert expected[4]["success"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "https"}, "unknown backend 'https', did you mean 'http'"),
        ({"reward": "score"}, "known are success, fraction, penalty"),
        ({"progress": "all"}, "known are tests, none"),
        ({"split": "dev"}, "unknown split 'dev'"),
        ({"families": ["tick"]}, "unknown family 'tick', did you mean 'tick_off'"),
        ({"families": []}, "has no tasks"),
        ({"sandbox": "off"}, "known are strict, best-effort"),
        ({"timeout": -1}, "timeout.* must be above 0"),
        ({"train_seeds": 0}, "train_seeds must be at least 1"),
        ({"train_seeds": 40, "backend": "http"}, "train_seeds=40 is for backend='mini'"),
        ({"max_turns": 0}, "max_turns must be at least 1"),
        ({"backend": "http", "server": "https://x"}, "server must be like 'http://"),
        ({"backend": "http", "server": "127.0.0.1:8000"}, "server must be like 'http://"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_what_it_reads_from_a_request_is_what_the_task_was_made_with(family):
    for seed in range(60):
        task = make_task(f"{family.name}-{seed}")
        codes = family.write_solution(task.plan)
        assert solve(task.instruction) == codes
        assert all(read_reply(reply(code)) == (code, 0) for code in codes)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=pytest.mark.long if place % 8 else ())
        for place, name in enumerate(FAMILIES)
    ],
)
def test_each_turn_is_valid_and_does_no_harm(family):
    env = gym.make("AppWorld-v0", split="all").unwrapped
    for seed in range(20):
        observation, info = env.reset(options={"task_id": f"{family}-{seed}"})
        expert, done = Explorer(env), False
        while not done:
            said = reply(expert.act(), expert.think())
            observation, reward, terminated, truncated, info = env.step(said)
            assert (info["valid"], info["invalid_reason"], info["harm"]) == (True, "", [])
            done = terminated or truncated
        assert (reward, info["success"], info["progress"]) == (1.0, True, 1.0), observation
    env.close()


def test_it_plays_by_http_what_it_can_read(served, lists):
    env = gym.make("AppWorld-v0", backend="http", server=served.url, data=lists).unwrapped
    env.reset(options={"task_id": TASK})
    assert Explorer(env).plan() == list(solve(env.goal))
    env.goal = "How many of my playlists have no song of this year?"
    with pytest.raises(ValueError, match=r"only reads requests of backend='mini', got 'How"):
        Explorer(env)
    env.close()
