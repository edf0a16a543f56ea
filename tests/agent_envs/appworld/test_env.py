"""AppWorld-v1: the contract, validity, progress, anchors, rewards; and AppWorld-v0."""

import copy
import pickle

import gymnasium as gym
import pytest

from agent_envs import INFO_KEYS, MissingAsset, ParseReply
from agent_envs.appworld.env import AppWorld, read_reply
from agent_envs.appworld.experts import Explorer, Oracle
from agent_envs.appworld.public import PublicAppWorld
from agent_envs.appworld.remote import classify_failure
from agent_envs.appworld.session import Verdict
from agent_envs.testing import check_agent_env

pytestmark = pytest.mark.slow

TASK = "train-creditor+label+named-0"
LOOK = """
me = apis.supervisor.show_profile()
passwords = {a["account_name"]: a["password"] for a in apis.supervisor.show_account_passwords()}
"""
LOG_IN = 't = apis.{0}.login(username=me["email"], password=passwords["{0}"])["access_token"]'


def make(**options):
    return AppWorld(**options)


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
        pytest.param({"reward": "fraction", "progress": "none", "parts": 2, "split": "val"},
                     marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_the_contract(options):
    env = gym.make("AppWorld-v1", **options)
    check_agent_env(env, oracle=Oracle)


@pytest.mark.long
def test_the_contract_of_the_public_benchmark(served, lists):
    """Without a spec: another instance beside it would play on the same server's only world."""
    env = PublicAppWorld(server=served.url, data=str(lists), max_turns=4)
    check_agent_env(env, copies=False)


def test_without_data_the_public_benchmark_names_the_generated_world(monkeypatch):
    monkeypatch.delenv("APPWORLD_ROOT", raising=False)
    with pytest.raises(MissingAsset) as refused:
        gym.make("AppWorld-v0")
    told = str(refused.value)
    assert "\n" not in told
    assert "data=" in told
    assert "AppWorld-v1" in told


@pytest.mark.parametrize(
    ("code", "marked"),
    [
        ("# apis.\nprint('Error: none')", "error"),  # MGR's marks read what was printed
        ("x = 1 # apis.", ""),
        ("a = apis\nprint(a.supervisor.show_profile())", "format"),
        ("apis.supervisor.show_profile()\nprint('Exceptional songs')", "error"),
        ("apis.mail.burn()", "unknown"),
        ("apis.mail.login(username=1, password=2)", "refused"),
    ],
)
def test_marks_are_a_rule_of_the_public_benchmark(served, lists, code, marked):
    env = PublicAppWorld(server=served.url, data=str(lists), validity="marks")
    env.reset(seed=0)
    assert env.step(reply(code))[4]["invalid_reason"] == marked


def test_defaults_of_the_public_benchmark(served, lists):
    env = PublicAppWorld(server=served.url, data=str(lists))
    env.reset(seed=0)
    assert env.max_turns == 35
    assert env.step(reply("apis.supervisor.show_profile()\nprint('Exceptional songs')"))[4]["valid"]
    assert classify_failure("Execution failed: it timed out after 100 seconds") == "timeout"
    (lists / "data" / "datasets" / "dev.txt").write_text("1a_1\n1a_2\n2b_1\n")
    panel = PublicAppWorld(split="dev", data=str(lists)).panel
    assert panel.origins == {"1a_1": "1a", "1a_2": "1a", "2b_1": "2b"}  # scenarios


def test_what_the_agent_reads_first():
    env = gym.make("AppWorld-v1")
    own = {"action", "supervisor", "datetime", "tests", "tests_passed", "failures", "strata"}
    ((observation, *_, info),) = play(env)
    assert set(info) == {*INFO_KEYS, *own}
    assert info["goal"] in observation.splitlines()
    for part in ("show_app_descriptions", "show_account_passwords", "complete_task"):
        assert part in observation
    assert "The answer is a text: the bare name." in observation
    assert info["supervisor"]["email"] in observation
    assert info["datetime"] in observation
    with pytest.raises(ValueError, match="reads whole replies itself"):
        ParseReply(env)


def test_a_solved_task():
    steps = solved(make())
    assert [step[1] for step in steps] == [0.0] * (len(steps) - 1) + [1.0]
    _, _, terminated, truncated, info = steps[-1]
    assert (terminated, truncated, info["success"], info["progress"]) == (True, False, True, 1.0)
    assert info["tests"] == info["tests_passed"] == 4  # the change, no others, the end, the answer
    assert all(step[4]["valid"] for step in steps)


def test_progress_is_the_share_of_tests_that_did_not_pass_at_first():
    env = make()
    env.reset(options={"task_id": TASK})
    steps = play(env, *Oracle(env).plan()[:3])
    # Three tests do not pass at first: the change, the end, the answer.
    assert [step[4]["progress"] for step in steps] == [0.0, 0.0, 0.0, 1 / 3]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print(1)", "format"),  # calls nothing
        ("print(apis.supervisor.show_profile())", ""),
        ("apis.phone.ring()", "unknown"),
        ("apis.mail.burn()", "unknown"),
        ("apis.mail.list_mails()", "refused"),
        ("apis.mail.login(username=1, password=2)", "refused"),
        ("apis.mail.login(1)", "error"),
        ("import os  # apis.", "error"),
        ("apis.supervisor.show_profile()\n1 / 0", "error"),
        ("apis.(", "error"),
        ("print('Error: none')  # apis.", "format"),  # what is printed does not matter
        ("apis.supervisor.show_profile()\nprint('Exception: No app named')", ""),
        ("a = apis\nprint(a.supervisor.show_profile())", ""),
        ("try: apis.mail.burn()\nexcept Exception: print('none')", "unknown"),
        ("try: apis.mail.list_mails()\nexcept Exception: apis.supervisor.show_profile()", ""),
        ("raise Exception('Response status code is 404')", "error"),  # its own words are no refusal
        ("apis.supervisor.show_profile()\nraise SystemExit", "error"),
    ],
)
def test_validity_of_code(code, reason):
    _, (_, _, _, _, info) = play(make(), code)
    assert (info["valid"], info["invalid_reason"]) == (reason == "", reason)
    assert info["action"] == code


@pytest.mark.parametrize(("longest", "reason"), [(20, "format"), (200, "")])
def test_thoughts_without_an_end_are_no_form(longest, reason):
    env = make(max_thinking=longest)
    env.reset(options={"task_id": TASK})
    said = f"```python\napis.supervisor.show_profile()\n```<think>{'long ' * 10}"
    assert env.step(said)[4]["invalid_reason"] == reason


def test_a_timeout():
    _, step = play(make(timeout=1), "apis.supervisor\nwhile True: pass")
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
        (f"One:\n{X}\ntwo:\n```python\nprint(2)\n```", "", 0),
        (f"{X}\nand ```python\nprint(", "", 0),
        (f"a</think>{X}<think>```python\n2\n```</think>", "apis.x", 0),
        (f"<think>a<think>b</think>{X}</think>", "", 0),
        ("``<think>x</think>`python\n1\n```", "", 0),
        ("```python \r\napis.x\n```", "apis.x", 0),
        ("```python\nx\n```", "x", 0),
        ("```py\napis.x\n```", "", 0),
        (f"<think>short\n{X}", "", 6 + len(X)),
        (f"{X}<think>{'long ' * 50}", "apis.x", 250),
        (f"<think>{'long ' * 50}</think>\n{X}", "apis.x", 0),
        ("<think>" * 9 + X, "", 7 * 8 + len(X)),
    ],
    ids=range(12),
)
def test_reading_replies(said, code, endless):
    assert read_reply(said) == (code, endless)


def test_thoughts_without_an_end_take_no_time(check_linear_time):
    check_linear_time(read_reply, lambda size: "<think>" * size + X, 1_000)


def anchors(*codes):
    """The anchor at the start and after each code."""
    return [step[4]["anchor"] for step in play(make(), *codes)]


def test_looking_changes_no_anchor():
    looks = anchors("print(apis.supervisor.show_profile())", "print(1)  # apis.", "1 / 0", "apis.(")
    assert len(set(looks)) == 1
    assert anchors("x = 1  # apis.")[-1] not in looks
    assert play(make(), task_id="train-creditor+label+named-1")[0][4]["anchor"] != looks[0]


def test_two_tasks_in_one_state_have_two_anchors(monkeypatch):
    env = make()
    starts = set()
    for task_id in (TASK, "train-creditor+label+named-1"):
        env.reset(options={"task_id": task_id})
        monkeypatch.setattr(type(env.world), "digest", property(lambda _: "the same"))
        starts.add(env._make_anchor())
    assert len(starts) == 2


def test_anchors_know_the_apps():
    """Log-ins and rows; what is set back is as before."""
    log_in = LOG_IN.format("mail").removeprefix("t = ")
    looked, logged_in, again = anchors(LOOK, log_in, log_in)[1:]
    assert looked != logged_in == again
    start, starred, back, sent = anchors(
        LOOK + LOG_IN.format("mail"),
        "apis.mail.move_mail(access_token=t, mail_id=101, folder='archive')",
        "apis.mail.move_mail(access_token=t, mail_id=101, folder='inbox')",
        "apis.mail.send_mail(access_token=t, recipient='a@b.c', subject='x')",
    )[1:]
    assert len({start, starred, sent}) == 3
    assert back == start


def test_a_success_needs_the_end(monkeypatch):
    env = make()
    env.reset(options={"task_id": TASK})
    monkeypatch.setattr(env.world, "evaluate", lambda: Verdict(("all is done",), ()))
    _, reward, terminated, _, info = env.step(reply("print(apis.supervisor.show_profile())"))
    assert (reward, terminated, info["success"]) == (0.0, False, False)
    _, reward, terminated, _, info = env.step(reply("apis.supervisor.complete_task(answer='x')"))
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_20_turns_and_the_failures_at_their_end():
    env = make()
    env.reset(options={"task_id": TASK})
    steps = [env.step("") for _ in range(20)]
    assert [step[3] for step in steps] == [False] * 19 + [True]
    assert [bool(step[4]["failures"]) for step in steps] == [False] * 19 + [True]


def test_a_wrong_end_with_and_without_progress():
    for progress, low, high in (("none", 0, 0), ("tests", 0.01, 0.99)):
        _, step = play(make(progress=progress), "apis.supervisor.complete_task(answer='x')")
        assert (*step[1:4], step[4]["success"]) == (0.0, True, False, False)
        assert low <= step[4]["progress"] <= high
        assert "change 1 of 1 in contacts is made" in step[4]["failures"]


@pytest.mark.parametrize(
    ("reward", "expected"),
    [("success", [0.0, 0.0, 0.0]), ("fraction", [0.0, 0.0, 2 / 4]), ("penalty", [-0.1, 0.0, 0.0])],
)
def test_rewards(reward, expected):
    # At the end two of four tests pass: nothing else is changed, and the end.
    steps = play(
        make(reward=reward),
        "1 / 0",
        "print(apis.supervisor.show_profile())",
        "apis.supervisor.complete_task(answer='nobody')",
    )
    assert [step[1] for step in steps[1:]] == pytest.approx(expected)


@pytest.mark.parametrize("codes", [["print(1)", "print(2)"], ["print(1)"]])
def test_a_fraction_is_paid_when_the_turns_run_out(codes):
    _, *steps = play(make(reward="fraction", max_turns=len(codes)), *codes)
    assert [step[1] for step in steps] == pytest.approx([0.0, 1 / 4][-len(codes) :])
    assert steps[-1][2:4] == (False, True)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_in_the_middle_of_an_episode_go_on_alike(copied):
    env = make()
    env.reset(options={"task_id": "train-creditor+hosts+move-1"})
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
        ({"reward": "score"}, "known are success, fraction, penalty"),
        ({"progress": "all"}, "known are tests, none"),
        ({"split": "dev"}, "unknown split 'dev'"),
        ({"families": ["hostess"]}, "unknown family 'hostess', did you mean 'host"),
        ({"families": ["event"]}, "no task of train has families=.*; add families"),
        ({"parts": 5}, "parts must be one of .2, 3, 4., got 5"),
        ({"sandbox": "off"}, "known are strict, best-effort"),
        ({"timeout": -1}, "timeout.* must be above 0"),
        ({"train_seeds": 0}, "train_seeds must be at least 1"),
        ({"max_turns": 0}, "max_turns must be at least 1"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": "https://x"}, "server must be like 'http://"),
        ({"server": "127.0.0.1:8000"}, "server must be like 'http://"),
        ({"validity": "words"}, "known are effect, marks"),
        ({"timeout": 0}, "timeout.* must be above 0"),
        ({"split": "test"}, "unknown split 'test'"),
    ],
)
def test_refused_options_of_the_public_benchmark(options, message, lists):
    with pytest.raises(ValueError, match=message):
        PublicAppWorld(data=str(lists), **options)


@pytest.mark.parametrize(
    ("split", "parts", "stride"),
    [
        ("test", 3, 9),
        ("test_unseen", 3, 25),
        pytest.param("val", 2, 4, marks=pytest.mark.long),
        pytest.param("test_unseen", 4, 20, marks=pytest.mark.long),
        pytest.param("test", 3, 1, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("player", [Explorer, Oracle])
def test_experts_solve_every_task_with_valid_turns(player, split, parts, stride):
    env = make(split=split, parts=parts)
    for task_id in env.panel.task_ids[::stride]:
        env.reset(options={"task_id": task_id})
        expert, done = player(env), False
        while not done:
            said = reply(expert.act(), expert.think())
            observation, reward, terminated, truncated, info = env.step(said)
            assert info["valid"], observation
            done = terminated or truncated
        assert (reward, info["success"], info["progress"]) == (1.0, True, 1.0), observation
    env.close()


def test_the_explorer_refuses_requests_that_it_cannot_read():
    env = make()
    env.reset(options={"task_id": TASK})
    env.goal = "How many of my playlists have no song of this year?"
    with pytest.raises(ValueError, match="no family of AppWorld-v1 has the wording of 'How"):
        Explorer(env)
