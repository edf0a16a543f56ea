"""The parts of the documentation site that need no Sphinx."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.site import environments, measured, methods, picture
from tools.site.check import problems
from tools.site.html import clipped, markdown, plain, table

ROOT = Path(__file__).parents[2]

pytest.importorskip("pyarrow", reason="truths are Parquet files")


def test_the_committed_picture_is_what_the_code_draws_and_its_words_say():
    truth = picture.worked()
    drawn = (ROOT / "docs" / "episode.svg").read_text(encoding="utf-8")
    assert drawn == picture.draw(truth), "run python -m tools.site.picture"
    rows = [row for row in range(len(truth.turns)) if truth.turns.trajectory[row] == 110]
    words = picture.alternative(truth, rows)
    assert "An episode of 9 turns, 1 of them invalid" in words
    assert "+0.76, is that of turn 6, go to sinkbasin 1" in words


def test_pages_are_written_where_torch_is_not_installed():
    code = (
        "import sys; sys.modules['torch'] = None; from tools.site import papers, picture, settings;"
        "print(len(papers.page()), len(picture.page()), len(settings.page()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert min(map(int, done.stdout.split())) > 10_000


def test_the_live_figure_has_ten_episodes_with_the_truth_and_what_is_not_chosen_is_there():
    page = picture.page()
    assert page.count('type="radio"') == 10
    assert page.count(" checked") == 1 + 3
    assert "true advantage" in page
    assert "\n\n" not in page.partition("Rollouts of small policies")[0].rstrip()
    names = {one.title.partition(",")[0] for one in picture.choose_episodes()}
    assert len(names) == 7


def test_texts_of_agents_are_shown_and_not_run():
    shown = table("<b>", ["turn"], [[plain("<script>alert(1)</script>\n\nnext")]])
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "\n\n" not in shown  # an empty line would end HTML inside Markdown
    assert clipped("abcdef", 4) == "abcd … (2 more characters)"


def test_angles_are_text_outside_of_code():
    assert markdown("a < b, `a < b` < c") == r"a \< b, `a < b` \< c"
    assert markdown("``x ` <y>`` <z>, ```<b>, `b`") == r"``x ` <y>`` \<z>, ```\<b>, `b`"


@pytest.mark.long
def test_every_environment_has_a_page():
    assert measured.LINKS.keys() == environments.registered().keys()
    for name in environments.registered():
        lines = measured.of_environment(name)
        assert sum("met again in" in line for line in lines) >= 1, name


def test_every_method_has_a_worked_episode():
    truth = picture.worked()
    for method in methods.all_methods():
        section = methods.worked(method, truth)
        assert section.count("<table>") == 2, method.title
        assert section.count("<tr>") == 2 + 9 + 15, method.title  # heads, a success, a failure


def test_tables_of_the_pages():
    with pytest.raises(ValueError, match=r"no table that starts with '\| moon \|'"):
        measured.rows("audit.md", "| moon |")
    assert any("has_turnrd_film" in line for line in measured.cost(["has"]))  # with its variants
    assert not any("`gigpo`" in line for line in measured.cost(["has"]))
    assert measured.cost(["kevin"]) == ["Not measured.", ""]
    assert "(../results.md#istar-again)" in "\n".join(measured.study(["istar"]))
    assert "istar-again" not in "\n".join(measured.study(["grpo", "grpo_or"]))


def test_what_is_wrong_with_a_site(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#here">b</a><a href="gone.html">c</a>'
        '<a href="#nowhere">d</a><a href="https://example.org">e</a><img src="p.png">'
        '<script src="https://cdn.example.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="here">B</p><a href="a.html#top">a</a>')
    (tmp_path / "c.html").write_text(
        '<div class="signals"><table><tr><td>1</td></tr></table></div><table></table>'
        r"<p>'\nNo' $1 - \delta$</p><mi>\gone</mi><pre>$\alpha$</pre>" + " " * 200_000
    )
    (tmp_path / "p.png").write_bytes(b"")
    (tmp_path / "s.css").write_text("@import url(https://fonts.example.org/f.css)")
    assert problems(tmp_path) == [
        "a.html: #nowhere has no such heading",
        "a.html: gone.html does not exist",
        "a.html: image without alt: p.png",
        "a.html: loads https://cdn.example.org/x.js",
        "c.html: 1 tables that do not scroll by themselves",
        "c.html: 200,135 bytes, more than 200,000; split it",
        r"c.html: shows $1 - \delta, a formula was not converted",
        r"c.html: shows \gone, a formula was not converted",
        "s.css: loads from another host",
    ]
