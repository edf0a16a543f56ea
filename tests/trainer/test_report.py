"""The report: a whole page from a run folder, escaped, readable on a phone, in light and dark."""

from __future__ import annotations

import builtins
import errno
import io
import json
import math
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agent_envs.panels import Panel
from trainer import recipe
from trainer.run import curves, metrics, provenance, report
from trainer.run import run_folder as records
from trainer.run.report import pace

from .run_folders import run_folder

ATTACK = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)></details></table></main>"
    "{{ 7 * 7 }}&lt;b&gt;\u202egnp\u2066\x1b[2J\x07" + "x" * 5000
)
"""Markup, a template, marks of writing direction, control sequences and a very long word."""


CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const over = (colour, under) => {  // a CSS colour painted over [r, g, b]
  canvas.fillStyle = `rgb(${under})`; canvas.fillRect(0, 0, 1, 1);
  canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const ground = e => over(getComputedStyle(e).backgroundColor,
  e.parentElement ? ground(e.parentElement) : [255, 255, 255]);
const light = rgb => rgb.map(x => x / 255)
  .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
  .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
const found = [];
for (const e of document.querySelectorAll("main *")) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!own || e.closest("defs")) continue;
  const under = ground(e.closest("svg") || e), style = getComputedStyle(e);
  const ink = e.closest("svg") ? style.fill : style.color;
  const [high, low] = [light(over(ink, under)), light(under)].sort((a, b) => b - a);
  found.push([e.textContent.trim().slice(0, 40), (high + 0.05) / (low + 0.05)]);
}
return found;
"""
"""JavaScript: [text, contrast with its background] of every element with text of its own."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return report.write(run_folder(tmp_path_factory.mktemp("run")))


def test_the_page_is_whole_and_self_contained(page):
    text = page.read_text()
    # success, types, valid, return, entropy, dead groups, loss, credit by turn of two steps
    assert text.count("<svg") == 9
    outside = [part for part in text.split('"') if part.startswith(("http:", "https:", "//"))]
    assert {part for part in outside if not part.startswith("http://www.w3.org/")} == set()
    assert "<script" not in text
    # 20 of 60 at the start, 44 at the end, none lost: p = 2 / 2^24
    numbers = ("33%", "73%", "+24 −0", "exact p = 1.2e-07", "<b>45 of ")
    for part in (*numbers, "put mug 2 in/on desk 1", "state 1 again", "S1 ×2", "■ turn limit"):
        assert part in text


def test_the_same_run_gives_the_same_page(page):
    assert report.render(page.parent) == page.read_text()


def test_text_is_escaped_everywhere(tmp_path):
    text = report.render(run_folder(tmp_path, text=ATTACK))
    assert "<script" not in text
    assert "<img" not in text
    assert text.count("&lt;script&gt;") > 3


def test_a_run_that_has_just_begun_has_a_page(tmp_path):
    recipe.save(recipe.load("alfworld mgr pocket"), tmp_path / "config.toml")
    text = report.write(tmp_path).read_text()
    assert "No evaluation has been recorded yet" in text
    assert "Sample episodes" not in text


def test_a_run_that_was_cut_short_has_a_page(tmp_path):
    folder = run_folder(tmp_path)
    log = metrics.read_log(folder / "metrics.jsonl")[:6]  # one step after the warm start
    timed = [line | {"time": 10.0 * line["step"], "kl": 0.25} for line in log]
    lines = "".join(json.dumps(line) + "\n" for line in timed)
    (folder / "metrics.jsonl").write_text(lines + '{"step": 7, "sta')
    text = report.render(folder)
    total = records.total_steps(records.read_config(folder)[1])
    assert "not complete" in text
    assert f"<b>6 of {total}</b>" in text
    assert metrics.duration(10.0 * (total - 6)) + " more at this pace" in text
    assert "Unchanged so far: KL to the reference, nats: 0.25" in text  # a value without a curve


def test_values_of_one_step_are_listed_without_a_curve():
    line = {"step": 4, "stage": "rl", "clip_fraction": 0.25, "grad_norm": 2.0}
    made, constant = curves.parts([line])["Update"]
    assert made == []
    assert constant == ["Tokens clipped: 25.0%", "Norm of the gradient: 2"]


def test_a_wide_group_says_that_it_scrolls(page):
    assert "2 rollouts: scroll the table sideways" in page.read_text()


def test_no_run_no_page(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.toml is missing"):
        report.write(tmp_path)


needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="no chromium and chromedriver on the path; apt-get install chromium chromium-driver",
    ),
]


class TestInABrowser:
    pytestmark = needs_browser

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
        assert browser.find_elements("css selector", "script, img, [onerror]") == []
        assert [x for x in browser.get_log("browser") if x["level"] == "SEVERE"] == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_text_can_be_read_in_light_and_dark(self, browser, page, scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(page.as_uri())
        browser.execute_script("document.querySelectorAll('details').forEach(e => e.open = true)")
        ratios = browser.execute_script(CONTRAST)
        assert len(ratios) > 100
        assert [(text, ratio) for text, ratio in ratios if ratio < 4.5] == []  # WCAG 2, AA

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

    def test_the_keyboard_reaches_and_opens_everything(self, browser, page):
        browser.get(page.as_uri())
        reached = []
        for _ in range(12):
            browser.switch_to.active_element.send_keys("\ue004")  # Tab
            focus = "const e = document.activeElement; return [e.tagName, e.className,"
            focus += " getComputedStyle(e).outlineStyle, !!e.closest('.group')]"
            reached.append(browser.execute_script(focus))
        assert [one[0] for one in reached[:3]] == ["A", "A", "A"]
        assert ["DIV", "scroll", "solid", False] in reached
        tag, _, outline, in_group = reached[-1]
        assert (tag, outline, in_group) == ("SUMMARY", "solid", True)
        browser.switch_to.active_element.send_keys(" ")
        assert browser.execute_script("return document.activeElement.parentElement.open")


FAILURE = {
    "part": "episode",
    "task_id": "t/9",
    "turn": 3,
    "error": "boom",
    "traceback": "Trace",
}
DAMAGE = {
    "nothing": b"",
    "text": b"hello",
    "no utf-8": b"\xff\xfe\x00",
    "a list": b"[]",
    "an object": b"{}",
    "a number": b"3",
    "deep": b"[" * 100_000,
}


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take most of the time of a report."""
    for name in ("success", "credit_by_turn"):
        monkeypatch.setattr(curves, name, lambda *_: "")
    monkeypatch.setattr(curves, "parts", lambda _: {})
    monkeypatch.setattr(curves, "types", lambda _: None)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "name", ["eval/step_4.json", "episodes/step_4.parquet", "episodes/step_4.npy"]
)
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_named_and_left_out(name, damage, tmp_path):
    folder = run_folder(tmp_path)
    path = next(iter(sorted((folder / name).parent.glob(f"*{Path(name).suffix}"))[::-1]))
    path.write_bytes(DAMAGE[damage])
    with pytest.warns(UserWarning, match=f"left out of .*report.html: .*{path.name}"):
        report.write(folder)
    assert f"Left out: {path}" in (folder / "report.html").read_text(encoding="utf-8")


HUGE = 10**400
BAD_EVALUATIONS = [
    {"turns": [HUGE] * 60},
    {"turns": [-1] * 60},
    {"returns": [math.nan] * 60},
    {"returns": [HUGE] * 60},
    {"valid": math.inf},
    {"valid": HUGE},
    {"success": [1] * 60},
    {"task_ids": "task"},
    {"split": 3},
    {"decoding": None},
    {"failed": 3},
    {"failed": ["elsewhere"]},
    {"surprise": 1},
    {"panel_hash": "beef"},  # of another panel than the last
]
BAD_FAILURES = [
    {"step": math.inf},
    {"step": "9"},
    {"turn": None},
    {"error": 5},
    {"traceback": ["a"]},
    {"task_id": {}},
]
BAD_PROVENANCE = [
    {"versions": 3},
    {"versions": []},
    {"versions": [1]},
    {"packages": []},
    {"python": None},
    {"training": []},
    {"training": {"split": "a", "source": "b", "count": math.inf, "hash": "c"}},
]
BAD_ABOUT = [[], {}, {"turns": 1, "groups": 1, "reliability": math.nan, "policy": "p"}]


READERS = {
    "eval": records.evaluations_of,
    "failures": lambda folder: records.read_failures(folder / "failures"),
    "truth": lambda folder: records.read_truth(folder / "truth"),
    "provenance.json": lambda folder: records.readable([folder], provenance.read_provenance),
    "warnings.jsonl": lambda folder: records.read_warnings(folder / "warnings.jsonl"),
    "episodes": lambda folder: episodes_of(folder / "episodes"),
}
"""What the report reads, by the first part of its path."""


def episodes_of(folder):
    paths, hidden = records.list_steps(folder, ".parquet")
    *_, damaged = records.read_episodes(paths[::-1])
    return [hidden + damaged]


def left_out(folder, path):
    """The file alone is damaged, and is named."""
    (said,) = READERS[path.relative_to(folder).parts[0]](folder)[-1]
    assert str(path) in said
    assert "\n" not in said


@pytest.mark.parametrize("change", BAD_EVALUATIONS, ids=str)
def test_an_evaluation_of_other_values_is_left_out(change, tmp_path):
    folder = run_folder(tmp_path)
    path = folder / "eval" / "step_25.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    left_out(folder, path)


@pytest.mark.parametrize("change", BAD_FAILURES, ids=str)
def test_a_failure_of_other_values_is_left_out(change, tmp_path):
    folder = run_folder(tmp_path)
    path = folder / "failures" / "step_9_episode_0.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"step": 9} | FAILURE | change))
    left_out(folder, path)


@pytest.mark.parametrize("change", BAD_PROVENANCE, ids=str)
def test_provenance_of_other_values_is_left_out(change, tmp_path):
    folder = run_folder(tmp_path)
    provenance.write(folder, Panel("train", ("a",)), Panel("test", ("c",)))
    path = folder / "provenance.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    left_out(folder, path)


@pytest.mark.parametrize("about", BAD_ABOUT, ids=str)
def test_a_truth_of_other_values_is_left_out(about, tmp_path):
    folder = run_folder(tmp_path)
    path = folder / "truth" / "ranking.txt"
    path.parent.mkdir()
    path.write_text("table")
    for name in ("ranking", "episode"):
        path.with_name(f"{name}.svg").write_text("<svg></svg>")
    path.with_name("truth.json").write_text(json.dumps(about))
    left_out(folder, path)


def other(**columns):
    """A Parquet file of another program."""
    return lambda path, table: pq.write_table(pa.table(columns), path)


def changed(name, value):
    """The file with another value in each row of a column."""

    def write(path, table):
        column = pa.array([value] * table.num_rows)
        pq.write_table(table.set_column(table.column_names.index(name), name, column), path)

    return write


BAD_EPISODES = {
    "other columns": other(a=[1], b=["x"]),
    "no column": lambda path, table: pq.write_table(table.drop_columns(["anchor"]), path),
    "no row": lambda path, table: pq.write_table(table.slice(0, 0), path),
    "no value": changed("reply", None),
    "another type": changed("turn", "first"),
    "no list": changed("prompt_ids", 3),
    "not finite": changed("reward", math.nan),
    "infinite": changed("outcome", math.inf),
    "progress": changed("progress", 1e300),
    "no utf-8": changed("goal", b"\xff"),
}


@pytest.mark.parametrize("what", BAD_EPISODES)
def test_episodes_of_another_program_are_left_out(what, tmp_path):
    folder = run_folder(tmp_path)
    path = folder / "episodes" / "step_45.parquet"
    BAD_EPISODES[what](path, pq.read_table(path))
    left_out(folder, path)


@pytest.mark.parametrize(
    "name",
    ["eval/step_45.json", "episodes/step_45.parquet", "episodes/step_45.npy", "failures/x.json"],
)
def test_a_folder_in_place_of_a_record_is_left_out(name, tmp_path):
    folder = run_folder(tmp_path)
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir(parents=True)
    left_out(folder, folder / name)


@pytest.mark.parametrize("name", ["eval", "episodes", "failures", "truth"])
def test_a_file_in_place_of_a_folder_is_left_out(name, tmp_path):
    folder = run_folder(tmp_path)
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).write_text("")
    left_out(folder, folder / name)


@pytest.mark.parametrize(
    "name",
    ["eval/step_45.json", "episodes/step_45.parquet", "episodes/step_45.npy", "eval", "episodes"],
)
def test_what_may_not_be_read_is_left_out(name, tmp_path, monkeypatch):
    """As for an ordinary user; the owner of this process may be root."""
    folder = run_folder(tmp_path)
    path = folder / name
    forbid(monkeypatch, path)
    left_out(folder, path)


def forbid(monkeypatch, path):
    """Make the operating system refuse to open a path, as without permission to read it."""
    for module, call in ((io, "open"), (builtins, "open"), (os, "listdir"), (os, "scandir")):
        right = getattr(module, call)

        def refuse(given, *more, right=right, **options):
            if os.fspath(given) == str(path):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return right(given, *more, **options)

        monkeypatch.setattr(module, call, refuse)
    read = pq.read_schema
    monkeypatch.setattr(pq, "read_schema", lambda given: (given.open("rb").close(), read(given))[1])


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "line",
    [
        '{"step": 9, "success": NaN}', '{"step": 9, "loss": Infinity}', '{"step": -1}',
        f'{{"step": 9, "loss": {HUGE}}}', f'{{"step": {HUGE}}}', '{"step": 9, "success": 7}',
        '{"step": 9, "episodes": 1.5}', '{"step": true}', "[1]", '{"step": 9, "loss": "1"}',
    ],
)  # fmt: skip
def test_a_damaged_line_of_the_log_is_named(line, tmp_path):
    folder = run_folder(tmp_path)
    (folder / "metrics.jsonl").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl line 1 is not a line of a log"):
        report.write(folder)


@pytest.mark.parametrize("line", ["[1]", '{"step": 1}', '{"step": "a", "text": "b"}', "{"])
def test_a_damaged_line_of_the_warnings_is_named(line, tmp_path):
    folder = run_folder(tmp_path)
    (folder / "warnings.jsonl").write_text(f"{line}\n")
    left_out(folder, folder / "warnings.jsonl")


@pytest.mark.parametrize(
    "change", ["sft.steps='many'", "run.steps=[]", "run.seed=nan", "run.steps=true", "env.id=3"]
)
def test_a_config_of_other_types_is_named(change, tmp_path):
    folder = run_folder(tmp_path)
    key, _, value = change.partition("=")
    section, _, option = key.partition(".")
    text = (folder / "config.toml").read_text()
    pattern = rf"(\[{section}\]\n(?:[^\[].*\n)*?{option} = ).*"
    assert re.search(pattern, text)
    (folder / "config.toml").write_text(re.sub(pattern, rf"\g<1>{value}", text))
    with pytest.raises(ValueError, match=rf"config\.toml is damaged: {key}=.*restore it"):
        report.write(folder)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("suffix", [".json", ".parquet", ".npy"])
def test_a_truncated_record_is_left_out(suffix, tmp_path):
    folder = run_folder(tmp_path)
    for path in folder.rglob(f"step_*{suffix}"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(UserWarning, match="left out of"):
        report.write(folder)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "credit", [np.zeros((2, 2)), np.zeros(1), np.full(5, np.nan), np.array(["a"] * 5)]
)
def test_credit_of_another_shape_or_type_is_left_out(credit, tmp_path):
    folder = run_folder(tmp_path)
    path = max((folder / "episodes").glob("*.npy"))
    np.save(path, credit)
    with pytest.warns(UserWarning, match=f"{path.name} cannot be read .*one for each turn"):
        report.write(folder)


@pytest.mark.parametrize("line", ['{"step": 9}', '{"step": 9, "stage": "rl", "success": null}'])
def test_a_line_without_figures_is_no_point_of_a_curve(line, tmp_path):
    folder = run_folder(tmp_path)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(line + "\n")
    report.write(folder)


def test_files_of_other_names_are_not_records(tmp_path):
    folder = run_folder(tmp_path)
    for name in ("eval/step_x.json", "episodes/step_.parquet", "eval/notes.json"):
        (folder / name).write_bytes(b"")
    report.write(folder)


@pytest.mark.parametrize("content", [b"", b"[run]\nsteps = ", b"\xff\xfe", b"run = 3\n"])
def test_a_damaged_config_is_named(content, tmp_path):
    folder = run_folder(tmp_path)
    (folder / "config.toml").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.toml is (damaged|incomplete): .*restore it"):
        report.write(folder)


def lines(count, **more):
    return [
        {"step": n + 1, "stage": "rl", "time": 100.0 * n, "seconds": 90.0, **more}
        for n in range(count)
    ]


def test_pace_of_a_run_that_goes_on():
    log = lines(4, episodes=9, failed=0.1, skipped=1.0, tokens=50, tokens_per_second=5.0)
    log[2]["time"] = log[2]["time"] + 5000  # stopped for a while, which is no pace
    log[3]["time"] = log[3]["time"] + 5000
    now = pace(log, 10)
    assert (now.step, now.total, now.spent, now.left) == (
        4,
        10,
        "6:00",
        "10:00",
    )  # 6 steps of 100 s
    assert (now.tokens, now.speed, now.episodes, now.skipped) == (200, 5.0, 36, 4)
    assert now.failed == 4  # 9 are left of the 10 that were tried in each step


def test_a_finished_run_has_no_time_left():
    assert pace(lines(4), 4).left == ""
    assert pace([], 4) is None


def test_warnings_failures_and_hashes_are_shown(tmp_path):
    folder = run_folder(tmp_path)
    (folder / "warnings.jsonl").write_text('{"step": 7, "text": "others use <b>"}\n{"st')
    (folder / "failures").mkdir()
    (folder / "failures" / "step_9_episode_0.json").write_text(json.dumps({"step": 9} | FAILURE))
    (folder / "failures" / "step_9_episode_1.json").write_text("{}")
    panel = Panel("train", ("a", "b"))
    provenance.write(folder, panel, Panel("test", ("c",)))
    with pytest.warns(UserWarning, match="step_9_episode_1"):
        text = report.write(folder).read_text()
    for part in ("Step 7: others use &lt;b&gt;", "1 failure of an environment", "boom", panel.hash):
        assert part in text
