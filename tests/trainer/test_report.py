"""The report: a whole page from a run folder, escaped, readable on a phone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from trainer import episodes, recipe, report
from trainer.episodes import Episode, Step
from trainer.evaluate import Evaluation

KINDS = ["pick_and_place_simple", "pick_clean_then_place_in_recep", "look_at_obj_in_light"]
ATTACK = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
PLAY = [
    ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a mug 2, and a pen 1.", 0.25),
    ("take mug 1 from shelf 1", "Nothing happens.", 0.25),
    ("take mug 2 from shelf 1", "You pick up the mug 2 from the shelf 1.", 0.5),
    ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a desklamp 1.", 0.5),
    ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a pen 1.", 0.5),
    ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a desklamp 1.", 0.5),
    ("put mug 2 in/on desk 1", "You put the mug 2 in/on the desk 1.", 1.0),
]


def episode(*, success: bool, group: int = 0, text: str = "") -> Episode:
    room = "You are in the middle of a room. Looking quickly around you, you see a bed 1, " + (
        ", ".join(f"a drawer {n}" for n in range(1, 18)) + ", and a shelf 1.\n\n"
    )
    seen = f"{room * 2}Your task is to: put some mug on desk.{text}"
    steps = []
    for action, answer, progress in PLAY if success else PLAY[:5]:
        step = Step(seen, f"<think>{text}</think><action>{action}</action>", action, [1], [2])
        step.valid = answer != "Nothing happens."
        step.invalid_reason = "" if step.valid else "unknown"
        step.reward = 0.0 if step.valid else -0.1
        step.progress, step.anchor = progress, f"{action.split()[-2]}{progress}"
        steps.append(step)
        seen = answer
    return Episode(
        f"embedded/train/pick/{group}",
        "put some mug on desk." + text,
        group,
        7,
        "history",
        steps,
        success=success,
        outcome=float(success),
        task_type=KINDS[0],
        truncated=not success,
    )


def evaluation(solved: int) -> Evaluation:
    ids = [f"task/{n}" for n in range(60)]
    return Evaluation(
        split="valid_unseen",
        source="embedded",
        panel_hash="f00dcafe" * 4,
        decoding="greedy",
        task_ids=ids,
        task_types=[KINDS[n % 3] for n in range(60)],
        success=[n < solved for n in range(60)],
        returns=[float(n < solved) for n in range(60)],
        turns=[9] * 60,
        valid=0.6 + solved / 200,
        repeated=0.2,
    )


def run_folder(folder, *, text: str = ""):
    """A run of 5 + 40 steps as `train` leaves it."""
    recipe.save(
        recipe.parse({"name": "alfworld-mgr-pocket", "about": f"A short run.{text}"}),
        folder / "config.toml",
    )
    lines = [{"step": s, "stage": "sft", "loss": 2.0 / s} for s in range(1, 6)]
    for step in range(6, 46):
        share = 0.3 + 0.012 * (step - 6) + 0.05 * np.sin(step)
        line = {"success": share, "episodes": 128, "valid": 0.6 + share / 3, "return": share - 0.1}
        line |= {"entropy": 0.9 - share / 2, "dead_groups": share / 2}
        lines.append({"step": step, "stage": "rl", **line})
    text_lines = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text_lines)
    for step, solved in ((5, 20), (25, 30), (45, 44)):
        evaluation(solved).save(folder / "eval" / f"step_{step}.json")
    for step in (6, 45):
        played = [episode(success=True, text=text), episode(success=False, text=text)]
        episodes.write(folder / "episodes" / f"step_{step}.parquet", played)
        credit = np.linspace(-0.5, 1.0, sum(len(e.steps) for e in played))
        np.save(folder / "episodes" / f"step_{step}.npy", credit)
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return report.write(run_folder(tmp_path_factory.mktemp("run")))


def test_the_page_is_whole_and_self_contained(page):
    text = page.read_text()
    assert text.count("<svg") == 7  # success, valid, return, entropy, dead groups, loss, types
    outside = [part for part in text.split('"') if part.startswith(("http:", "https:", "//"))]
    assert {part for part in outside if not part.startswith("http://www.w3.org/")} == set()
    assert "<script" not in text
    # 20 of 60 at the start, 44 at the end, none lost: p = 2 / 2^24
    numbers = ("33%", "73%", "+24 −0", "exact p = 1.2e-07")
    for part in (*numbers, "put mug 2 in/on desk 1", "state 1 again"):
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


def test_no_run_no_page(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.toml is missing"):
        report.write(tmp_path)


def test_shades_are_relative_to_the_largest_and_mark_it():
    # largest is 2: strengths 0.55 * (1/2, 2/2, 0/2)
    one, two, none = report.shades(np.array([0.5, -1.0, 0.0]) * 2)
    assert one.style == "background:rgba(27,120,55,0.275)"
    assert two.style == "background:rgba(118,42,131,0.550)"
    assert none.style.endswith(",0.000)")
    assert [one.decisive, two.decisive, none.decisive] == [False, True, False]


def test_equal_credit_has_no_decisive_turn():
    assert not any(cell.decisive for cell in report.shades(np.full(4, 0.7)))
    assert not any(cell.decisive for cell in report.shades(np.zeros(3)))


def test_samples_show_both_ends_of_one_group(tmp_path):
    played = [
        episode(success=False, group=0),
        episode(success=False, group=1),
        episode(success=True, group=1),
    ]
    episodes.write(tmp_path / "step_3.parquet", played)
    np.save(tmp_path / "step_3.npy", np.arange(17.0))  # turns: 5 + 5 + 7
    shown, _ = report.samples(tmp_path)
    assert [(s.episode.group, s.episode.success) for s in shown] == [(1, True), (1, False)]
    assert [turn.shade.credit for turn in shown[0].turns] == [10, 11, 12, 13, 14, 15, 16]
    assert [turn.shade.credit for turn in shown[1].turns] == [5, 6, 7, 8, 9]


def test_samples_without_credit_are_not_shaded(tmp_path):
    episodes.write(tmp_path / "step_3.parquet", [episode(success=True)])
    (only,), _ = report.samples(tmp_path)
    assert {turn.shade.credit for turn in only.turns} == {None}
    assert [turn.state for turn in only.turns] == [1, 1, 2, 3, 2, 3, 4]
    assert [turn.again for turn in only.turns] == [False, True, False, False, True, True, False]


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking"):
        options.add_argument(f"--{flag}")
    options.add_argument("--disable-dev-shm-usage")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
    driver = webdriver.Chrome(options, service)
    yield driver
    driver.quit()


needs_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("chromedriver")),
        reason="no chromium and chromedriver on the path; apt-get install chromium chromium-driver",
    ),
]


class TestInABrowser:
    pytestmark = needs_browser

    @pytest.mark.parametrize("width", [320, 390, 768, 1280])
    def test_nothing_is_wider_than_the_screen(self, browser, tmp_path, width):
        path = report.write(run_folder(tmp_path, text=" a_very_long_word" * 3 + "x" * 400))
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(path.as_uri())
        for shown in browser.find_elements("tag name", "details"):
            browser.execute_script("arguments[0].open = true", shown)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        wide = "return [...document.querySelectorAll('main *')].filter(e => !e.closest('svg')"
        wide += f" && e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML)"
        assert browser.execute_script(wide) == []
        size = "return getComputedStyle(document.querySelector('.act')).fontSize"
        assert float(browser.execute_script(size).removesuffix("px")) >= 13

    def test_hostile_text_is_shown_and_not_run(self, browser, tmp_path):
        path = report.write(run_folder(tmp_path, text=ATTACK))
        browser.get(path.as_uri())
        assert browser.title == "alfworld-mgr-pocket – run report"
        assert "<script>" in browser.find_element("tag name", "main").text
        assert browser.find_elements("css selector", "script, img") == []
        assert [x for x in browser.get_log("browser") if x["level"] == "SEVERE"] == []

    def test_the_shades_are_drawn(self, browser, page):
        browser.get(page.as_uri())
        script = "return [...document.querySelectorAll('details[open] .act')]"
        script += ".map(e => getComputedStyle(e).backgroundColor)"
        colours = browser.execute_script(script)
        assert colours[0] == "rgba(118, 42, 131, 0.55)"
        assert colours[-1].startswith("rgba(27, 120, 55")
        assert len(set(colours)) == 7


DAMAGE = {
    "nothing": b"",
    "text": b"hello",
    "no utf-8": b"\xff\xfe\x00",
    "a list": b"[]",
    "an object": b"{}",
    "a number": b"3",
    "deep": b"[" * 100_000,
}


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


@pytest.mark.parametrize("suffix", [".json", ".parquet", ".npy"])
def test_a_truncated_record_is_left_out(suffix, tmp_path):
    folder = run_folder(tmp_path)
    for path in folder.rglob(f"step_*{suffix}"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(UserWarning, match="left out of"):
        report.write(folder)


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
