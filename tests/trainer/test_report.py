"""The report: a whole page from a run folder, escaped, readable on a phone, in light and dark."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shutil
import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent_envs.cli.console import format_seconds
from agent_envs.panels import Panel
from trainer import recipe
from trainer.run import curves, metrics, report
from trainer.run.run_folder import RunFolder, read_config, total_steps, write_provenance

from .run_folders import run_folder

ATTACK = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)></details></table></main>"
    "{{ 7 * 7 }}&lt;b&gt;\u202egnp\u2066\x1b[2J\x07" + "x" * 5000
)
"""Markup, a template, marks of writing direction, control sequences and a very long word."""
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" onload="fetch('http://127.0.0.1:{0}/load')">
<script>fetch("http://127.0.0.1:{0}/script")</script><image href="http://127.0.0.1:{0}/image"/>
<style>@import url("http://127.0.0.1:{0}/style");</style><foreignObject><html
xmlns="http://www.w3.org/1999/xhtml"><base href="http://127.0.0.1:{0}/"/><img src="base"/>
<meta http-equiv="refresh" content="0;url=http://127.0.0.1:{0}/refresh"/>
<form action="http://127.0.0.1:{0}/form"><button autofocus="1">x</button></form>
<iframe src="http://127.0.0.1:{0}/frame"/></html></foreignObject></svg>"""
RECORDS = {
    "failures/step_9_episode_0.json": {
        "step": 9, "part": "episode", "task_id": "t/9", "turn": 3, "error": "boom",
        "traceback": "Trace",
    },
    "warnings.jsonl": {"step": 7, "text": "others use <b>"},
    "truth/truth.json": {"turns": 8, "groups": 2, "reliability": 0.875, "policy": "the last"},
    "truth/ranking.txt": "table",
    "truth/ranking.svg": PICTURE,
    "truth/episode.svg": PICTURE,
}  # fmt: skip
"""What only some runs have."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return report.write(run_folder(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = run_folder(tmp_path_factory.mktemp("kept"))
    for name, content in RECORDS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content) + "\n"
        (folder / name).write_text(text)
    write_provenance(folder, Panel("train", ("a", "b")), Panel("test", ("c",)))
    return folder


@pytest.fixture
def whole(kept, tmp_path):
    """A run with every record that there is."""
    return shutil.copytree(kept, tmp_path / "whole")


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take most of the time of a report."""
    for name in ("draw_success", "draw_credit", "_draw_all"):
        monkeypatch.setattr(curves, name, lambda *_: "")


def test_the_page_is_whole_and_self_contained(page):
    text = page.read_text()
    # success, loss of the warm start, valid, return, entropy, dead groups, credit of two steps
    assert text.count("<img") == text.count('<img src="data:image/svg+xml;base64,') == 8
    assert not re.findall(r"""["'(](?:https?:)?//""", text)
    assert "<script" not in text
    # 20 of 60 at the start, 44 at the end, none lost: p = 2 / 2^24
    numbers = ("33%", "73%", "+24 −0", "exact p = 1.2e-07", "<b>45 of ", "14/20  70% [48–85%]")
    for part in (*numbers, "put mug 2 in/on desk 1", "S1 ×2", "turn limit, 5 turns", "+1.00 ★"):
        assert part in text
    assert report.render(page.parent) == (text, [])  # the same run gives the same page


def test_people_see_success_then_rollouts_then_curves(page):
    text = page.read_text()
    order = [
        "Valid turns</span>",
        'id="success"',
        'id="group"',
        'id="curves"',
        'id="configuration"',
    ]
    places = [text.index(one) for one in order]
    assert places == sorted(places)


def test_only_what_people_look_at_is_not_folded():
    both = {"valid": 0.5, "success/L0": 0.5, "loss": 0.5, "entropy": 0.5, "kl": 0.5}
    first, folded = curves.draw_values([{"step": step, "stage": "rl", **both} for step in (1, 2)])
    assert [title for title, *_ in first] == ["Valid turns", "Entropy of a token, nats"]
    assert [title for title, *_ in folded] == ["Success, L0", "Loss", "KL to the reference, nats"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("tokens", 4420.0, "4,420"), ("kl", 0.01234, "0.0123"), ("turns", 12.44, "12.4"),
        ("valid", 0.816, "82%"), ("success/L0", 0.5, "50%"), ("loss", -123.4, "-123"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_people_do(key, value, said):
    assert curves.write_value(key, value) == said


def test_text_is_escaped_everywhere(tmp_path):
    text, _ = report.render(run_folder(tmp_path, text=ATTACK))
    assert "<script" not in text
    assert "<img src=x" not in text
    assert text.count("&lt;script&gt;") > 3
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_a_run_that_has_just_begun_has_a_page(tmp_path):
    recipe.save(recipe.load("alfworld mgr pocket"), tmp_path / "config.toml")
    text = report.write(tmp_path).read_text()
    assert "No evaluation has been recorded yet" in text
    assert "side by side" not in text


def test_a_run_that_was_cut_short_has_a_page(tmp_path):
    folder = run_folder(tmp_path)
    log = metrics.read_log(folder / "metrics.jsonl")[:6]  # one step after the warm start
    timed = [line | {"time": 10.0 * line["step"], "kl": 0.25} for line in log]
    lines = "".join(json.dumps(line) + "\n" for line in [*timed, {"step": 6, "success": None}])
    (folder / "metrics.jsonl").write_text(lines + '{"step": 7, "sta')
    text, _ = report.render(folder)
    total = total_steps(read_config(folder)[1])
    assert "not complete" in text
    assert "at the end" not in text
    assert f"<b>6 of {total}</b>" in text
    assert format_seconds(10.0 * (total - 6)) + " more at this pace" in text
    assert (
        "Without a change: KL to the reference, nats 0.25" in text
        or "; KL to the reference, nats 0.25" in text
    )


@pytest.mark.usefixtures("undrawn")
def test_what_only_some_runs_have_is_shown(whole):
    text, damaged = report.render(whole)
    assert damaged == []
    shown = ("Step 7: others use &lt;b&gt;", "1 failure of an environment", "boom", "0.88", "table")
    for part in (*shown, Panel("train", ("a", "b")).hash):
        assert part in text
    assert "refresh" not in text  # of a figure, which is an image of its own
    assert base64.b64encode(PICTURE.encode()).decode() in text


@pytest.mark.browser
@pytest.mark.long
class TestInABrowser:
    @pytest.mark.parametrize("width", [320, 1280])
    def test_nothing_is_wider_than_the_screen(self, browser, tmp_path, width):
        path = report.write(run_folder(tmp_path, text=" a_very_long_word" * 3 + "x" * 400))
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(path.as_uri())
        browser.execute_script("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        wide = "return [...document.querySelectorAll('main *')].filter(e => !e.closest('svg')"
        wide += " && !e.parentElement.closest('.scroll')"  # the group is moved within its frame
        wide += f" && e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML)"
        assert browser.execute_script(wide) == []
        size = "return getComputedStyle(document.querySelector('.act')).fontSize"
        assert float(browser.execute_script(size).removesuffix("px")) >= 13

    def test_hostile_text_is_shown_and_not_run(self, browser, tmp_path):
        path = report.write(run_folder(tmp_path, text=ATTACK))
        browser.get(path.as_uri())
        browser.execute_script("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert browser.title == "alfworld-mgr-pocket – run report"
        shown = browser.find_element("css selector", ".group").text
        assert shown.count("<script>") >= 12  # observation and reply of every turn
        assert "{{ 7 * 7 }}&lt;b&gt;\ufffdgnp\ufffd\ufffd[2J\ufffd" in shown
        assert browser.execute_script("return document.body.children.length") == 1  # main is whole
        assert (
            browser.find_elements("css selector", "script, img:not([src^='data:']), [onerror]")
            == []
        )
        assert [x for x in browser.get_log("browser") if x["level"] == "SEVERE"] == []

    @pytest.mark.usefixtures("undrawn")
    def test_a_picture_of_a_run_folder_loads_nothing(self, browser, whole):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(1)
            hostile = PICTURE.format(listening.getsockname()[1])
            for name in ("ranking", "episode"):
                (whole / f"truth/{name}.svg").write_text(hostile)
            browser.get(report.write(whole).as_uri())
            with pytest.raises(TimeoutError):
                listening.accept()
            assert browser.current_url.startswith("file:")

    def test_credit_is_a_colour(self, browser, page):
        browser.get(page.as_uri())
        script = "return [...document.querySelectorAll('.group td[style]')]"
        script += ".map(e => [e.className, e.style.getPropertyValue('--s'),"
        script += " getComputedStyle(e).backgroundColor])"
        cells = browser.execute_script(script)
        # credit is -0.5, ..., 1 in steps of 3/22; the page has two such groups
        assert [name for name, _, _ in cells].count("down") == 8
        assert {name for name, strength, _ in cells if float(strength) > 0.5} == {"up"}
        assert len({colour for _, _, colour in cells}) == len(cells) / 2 == 12


HUGE = 10**400
GARBAGE = [b"", b"hello", b"\xff\xfe\x00", b"[]", b"{}", b"3", b"[" * 100_000]


def content(data):
    return lambda path: path.write_bytes(data)


def change(**values):
    """Other values of an object in a JSON file."""
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | values) + "\n")


def rows(edit):
    """Another table in a Parquet file."""
    return lambda path: pq.write_table(edit(pq.read_table(path)), path)


def column(name, value):
    """Another value in each row of a column."""
    return rows(
        lambda table: table.set_column(
            table.column_names.index(name), name, pa.array([value] * table.num_rows)
        )
    )


def numbers(array):
    return lambda path: np.save(path, array)


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def put_folder(path):
    path.unlink()
    path.mkdir()


TASKS = {"split": "a", "source": "b", "count": math.inf, "hash": "c"}
EVAL, LAST = "eval/step_25.json", "episodes/step_45"
FAILURE, TRUTH = "failures/step_9_episode_0.json", "truth/truth.json"
DAMAGE = {
    EVAL: [
        *map(content, GARBAGE), cut, put_folder,
        *(change(turns=[bad] * 60) for bad in (HUGE, -1)),
        *(change(returns=[bad] * 60) for bad in (math.nan, HUGE)),
        *(change(valid=bad) for bad in (math.inf, HUGE)),
        *(change(success=bad) for bad in ([1] * 60, [], 3)),
        *(change(task_ids=bad) for bad in ("task", [])),
        *(change(failed=bad) for bad in (3, ["elsewhere"])),
        change(split=3), change(decoding=None), change(surprise=1),
        change(panel_hash="beef"),  # of another panel than the last
    ],
    f"{LAST}.parquet": [
        *map(content, GARBAGE), cut, put_folder,
        rows(lambda table: pa.table({"a": [1], "b": ["x"]})),  # of another program
        rows(lambda table: table.drop_columns(["anchor"])),
        rows(lambda table: table.slice(0, 0)),
        column("reply", None), column("turn", "first"), column("prompt_ids", 3),
        column("reward", math.nan), column("outcome", math.inf), column("progress", 1e300),
        column("goal", b"\xff"),
    ],
    f"{LAST}.npy": [
        *map(content, GARBAGE), cut, put_folder, numbers(np.zeros((2, 2))), numbers(np.zeros(1)),
        numbers(np.full(12, np.nan)), numbers(np.array(["a"] * 12)),
    ],
    FAILURE: [
        *map(content, GARBAGE), put_folder,
        change(step=math.inf), change(step="9"), change(turn=None), change(error=5),
        change(traceback=["a"]), change(task_id={}),
    ],
    "provenance.json": [
        *map(content, GARBAGE), change(versions=3), change(versions=[]), change(versions=[1]),
        change(packages=[]), change(python=None), change(training=[]), change(training=TASKS),
    ],
    "warnings.jsonl": [
        content(b"[1]\n"), content(b"{\n"), change(text=None), change(step="a"),
    ],
    TRUTH: [*map(content, GARBAGE), change(reliability=math.nan), change(policy=1)],
}  # fmt: skip
"""Records of a run, and what may have become of each."""


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("name", "damage"), [(name, one) for name, damages in DAMAGE.items() for one in damages]
)
def test_a_damaged_record_is_named_and_left_out(name, damage, whole):
    damage(whole / name)
    (said,) = report.render(whole)[1]
    assert str(whole / name) in said
    assert "\n" not in said


@pytest.mark.usefixtures("undrawn")
def test_what_is_left_out_is_warned_of_and_on_the_page(whole):
    (whole / EVAL).write_text("{}")
    for name in ("eval/step_x.json", "episodes/step_.parquet", "eval/notes.json"):
        (whole / name).write_bytes(b"")  # these are no records
    with pytest.warns(UserWarning, match=f"left out of .*report.html: .*{EVAL}") as said:
        report.write(whole)
    assert len(said) == 1
    assert f"Left out: {whole / EVAL}" in (whole / "report.html").read_text(encoding="utf-8")


LINES = [
    '{"step": 9, "success": NaN}', '{"step": 9, "loss": Infinity}', '{"step": -1}',
    f'{{"step": 9, "loss": {HUGE}}}', f'{{"step": {HUGE}}}', '{"step": 9, "success": 7}',
    '{"step": 9, "episodes": 1.5}', '{"step": true}', "[1]", '{"step": 9, "loss": "1"}', "null",
    "3", "\udcff", "{}", '{"step": "1"}', '{"step": 1, "stage": 2}', '{"step": 1, "loss": [1]}',
    "[" * 100_000, "half",
]  # fmt: skip


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        *(
            ("metrics.jsonl", f'{{"step": 0, "stage": "start"}}\n{line}\n', "line 2 is not a line")
            for line in LINES
        ),
        *(("config.toml", text, "is damaged") for text in ("", "[run]\nsteps = ", "run = 3\n")),
        ("config.toml", "\udcff\udcfe", "is damaged"),
        ("config.toml", ("seed = 0\n", ""), r"is damaged: it lacks run\.seed"),
        ("config.toml", None, "is missing; train with --out"),
    ],
)
def test_a_damaged_log_or_config_is_named(name, damage, message, whole):
    path = whole / name
    if damage is None:
        path.unlink()
    else:
        text = path.read_text().replace(*damage) if isinstance(damage, tuple) else damage
        path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises((ValueError, FileNotFoundError), match=rf"{name} {message}"):
        report.write(whole)


def test_pace_of_a_run():
    log = [
        {"step": n, "stage": "rl", "time": 100.0 * n, "seconds": 90.0, "episodes": 9}
        | {"skipped": 1.0, "tokens_per_second": 5.0}
        for n in range(1, 5)
    ]
    assert report.estimate_pace(log, 4).left == ""
    for line in log[2:]:
        line["time"] += 5000  # stopped for a while, which is no pace
    now = report.estimate_pace(log, 10)
    assert (now.step, now.total, now.spent) == (4, 10, "6:00")
    assert now.left == "10:00"  # 6 steps of 100 s
    assert (now.speed, now.episodes, now.skipped) == (5.0, 36, 4)
    assert report.estimate_pace([], 4) is None


def test_panels_packages_and_all_versions_are_kept(tmp_path, monkeypatch):
    training, test = Panel("train", ("a", "b"), "alfworld:games"), Panel("test", ("c",))
    for version in ("0.1.0", "0.1.0", "0.2.0"):
        monkeypatch.setattr("agent_envs.__version__", version)
        write_provenance(tmp_path, training, test)
    found = RunFolder(tmp_path).read_provenance()
    assert found.versions == ["0.1.0", "0.2.0"]
    assert (found.training.count, found.training.source) == (2, "alfworld:games")
    assert (found.training.hash, found.evaluation.hash) == (training.hash, test.hash)
    assert {"torch", "numpy"} <= found.packages.keys()


def test_the_ladder_is_drawn_below_the_curve(whole, undrawn, monkeypatch):
    drawn = []
    monkeypatch.setattr(curves, "draw_success", lambda *given: drawn.append(given[2]) or "<svg/>")
    success = {"random": [0.0, 0.0, 0.1], "nearest goal": [0.2, 0.1, 0.3]}
    success |= {"expert: explorer": [0.9, 0.8, 1.0], "expert: oracle": [1.0, 0.9, 1.0]}
    told = {"env": "AlfWorld-v0", "split": "valid_unseen", "tasks": 100}
    told |= {"success": success, "options": {"max_turns": 15}, "verdict": "shown", "overlap": {}}
    (whole / "ladder.json").write_text(json.dumps(told))
    text, damaged = report.render(whole)
    assert (drawn, damaged) == ([{"nearest goal": 0.2, "expert: oracle": 1.0}], [])
    assert "on 100 tasks of AlfWorld-v0, valid_unseen, max_turns=15 (ladder.json)" in text
    (whole / "ladder.json").write_text(json.dumps(told | {"split": "train"}))
    text, damaged = report.render(whole)
    assert (drawn[1], "ladder.json)" in text) == ({}, False)
    assert "ladder.json is of AlfWorld-v0, split train, and the run is evaluated on" in damaged[0]
