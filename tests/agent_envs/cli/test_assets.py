"""The command assets."""

import gzip
import json
import lzma
import shlex
import shutil

import pytest

from agent_envs.alfworld.data import list_solvable
from agent_envs.assets import BadAsset
from agent_envs.sokoban.levels import open_levels
from trainer import recipe


def test_assets_tells_how_to_prepare_appworld(call, monkeypatch):
    monkeypatch.setenv("APPWORLD_ROOT", "/my data")
    code, out, _ = call("assets", "appworld", "--venv", "/my/venv")
    assert code == 0
    assert "/my/venv/bin/pip install appworld" in out
    assert "APPWORLD_ROOT='/my data' /my/venv/bin/appworld download data" in out
    assert "--host 127.0.0.1 --port {port}" in out
    command = shlex.split(out.splitlines()[-1])
    loaded = recipe.load("appworld mgr", command[4:])
    assert loaded.env.data == "/my data"
    assert (loaded.env.id, loaded.env.split) == ("AppWorld-v0", "train_easy")
    assert loaded.env.options["server"].startswith("/my/venv/bin/python -m uvicorn appworld.")
    assert "did you mean 'appworld'?; known are appworld" in call("assets", "alfworld")[2]


@pytest.mark.long
def test_check_names_what_is_bad_in_copies_of_the_real_files(call, shared_data, tmp_path):
    assert call("assets", "check", str(tmp_path))[0] == 2
    assert "needs a folder of public files, got" in call("assets", "check", "nowhere")[2]
    for name in ("search_qa/qa.jsonl", "search_qa/corpus.jsonl", "boxoban/unfiltered_test/000.txt"):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(gzip.decompress((shared_data / f"{name}.gz").read_bytes()))
        if "corpus" not in name:
            copy.write_bytes(b"\n".join(copy.read_bytes().split(b"\n")[:480]))
    (tmp_path / "webshop").mkdir()
    for name in ("items_shuffle_1000.json.gz", "items_ins_v2_1000.json.gz"):
        shutil.copy(shared_data / "webshop" / name, tmp_path / "webshop")
    code, out, _ = call("assets", "check", str(tmp_path))
    assert code == 0, out
    counts = {
        row[1].removeprefix(f"{tmp_path}/"): row[-2:]
        for row in map(str.split, out.splitlines()[1:])
    }
    assert counts["search_qa/qa.jsonl"] == ["480", "0"]
    assert counts["search_qa/corpus.jsonl"] == ["15,735", "0"]
    assert counts["webshop/items_shuffle_1000.json.gz"] == ["1,000", "0"]

    bad = shutil.copytree(tmp_path, tmp_path / "bad")
    with (bad / "search_qa/qa.jsonl").open("ab") as file:
        file.write(b'\n{"id": 1}\n{"quest')
    levels = bad / "boxoban/unfiltered_test/000.txt"
    levels.write_bytes(levels.read_bytes().replace(b"@", b" ", 1))
    (bad / "webshop/items_shuffle_1000.json.gz").write_bytes(b"cut")
    code, out, _ = call("assets", "check", str(bad))
    assert code == 1
    for said in (
        "qa.jsonl, line 481: a question needs a text",
        "qa.jsonl, line 482: no JSON",
        "000.txt, line 2: 0 players",
        "webshop, as a whole: ",
        "is damaged",
    ):
        assert said in out


def test_check_plays_a_turn_of_every_task(call, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "one.xsb").write_text(
        "######\n#@ $.#\n######\n\n#####\n#.@ #\n#  $#\n#####\n"
    )
    (tmp_path / "notes.txt").write_text("no level")
    code, out, _ = call("assets", "check", str(tmp_path))
    assert code == 1
    assert "one.xsb, tasks, one.xsb/1: it has no solution" in out
    assert "notes.txt: no data of Sokoban-v0" in out


LEVEL = "######\n#@ $.#\n######\n"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("two.txt", "", "two.txt, as a whole: "),
        ("two.xsb", "<html>404: Not Found</html>", "two.xsb, as a whole: "),
        ("two.txt", "version https://git-lfs.github.com/spec/v1\n", "two.txt, as a whole: "),
        ("two.txt.gz", None, "two.txt.gz, as a whole: no levels at"),
    ],
    ids=["empty", "page", "pointer", "broken link"],
)
def test_what_a_download_left_out_is_bad(call, tmp_path, name, content, told):
    (tmp_path / "one.txt").write_text(LEVEL)
    path = tmp_path / name
    path.symlink_to("nowhere") if content is None else path.write_text(content)
    code, out, _ = call("assets", "check", str(tmp_path))
    assert code == 1
    assert told in "".join(out.split("\n"))


def test_check_names_every_record_where_none_is_good(call, tmp_path):
    (tmp_path / "qa.jsonl").write_text('{"question": 1}\n{"answers": []}\n')
    (tmp_path / "corpus.jsonl").write_text('{"id": "a", "title": "A", "text": "a"}\n')
    code, out, _ = call("assets", "check", tmp_path)
    assert (code, "jsonl, line 1: " in out, "jsonl, line 2: " in out) == (1, True, True)
    product = dict.fromkeys(("name", "product_category", "category", "query"), "shoe")
    (tmp_path / "items_shuffle.json").write_text(json.dumps([product | {"asin": "a"}]))
    asked = {"instruction": "a shoe", "instruction_attributes": ["red"]}
    (tmp_path / "items_ins_v2.json").write_text(json.dumps({"a": asked, "b": asked}))
    out = " ".join(call("assets", "check", tmp_path)[1].split())
    assert "1 of 2 records are of no product and are left out, such as 'b'" in out
    assert "1 of 1 products lack what their instruction asks for, such as 'a'" in out


def test_a_broken_link_costs_one_file_of_levels(tmp_path):
    (tmp_path / "one.txt.xz").write_bytes(lzma.compress(LEVEL.encode()))
    (tmp_path / "two.txt").symlink_to("nowhere")
    with pytest.warns(UserWarning, match=r"two.txt, as a whole: no file .* 1 of 2 records are bad"):
        assert len(open_levels(tmp_path).panel) == 1
    with pytest.raises(BadAsset, match=r"two.txt, as a whole: no file"):
        open_levels(tmp_path, strict=True)


def test_assets_lists_and_advises(call, monkeypatch, tmp_path):
    code, out, _ = call("assets")
    assert code == 0
    assert "alfworld-download" in out
    assert "search_qa/words.toml" in out
    game = tmp_path / "json_2.1.1" / "train" / "a" / "b" / "game.tw-pddl"
    game.parent.mkdir(parents=True)
    game.write_text("{}")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    (tmp_path / "qa.jsonl").write_text("")
    monkeypatch.setenv("SEARCH_QA_DATA", str(tmp_path))
    told = call("assets")[1]
    assert "(1 files game.tw-pddl)" in told
    assert "(1 files *.jsonl*)" in told


def test_a_broken_link_is_a_bad_game(tmp_path):
    trial = tmp_path / "pick_and_place_simple-A" / "trial_T1"
    trial.mkdir(parents=True)
    (trial / "game.tw-pddl").symlink_to("nowhere")
    names, reading = list_solvable(tmp_path)
    assert (names, [bad.reason.split()[0] for bad in reading.bad]) == ([], ["no"])
