"""The command assets."""

import gzip
import shlex
import shutil

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
    assert loaded.env.options["backend"] == "http"
    assert loaded.env.options["server"].startswith("/my/venv/bin/python -m uvicorn appworld.")
    assert "did you mean 'appworld'?; known are appworld" in call("assets", "alfworld")[2]


def test_check_names_what_is_bad_in_copies_of_the_real_files(call, shared_data, tmp_path):
    assert call("assets", "check", str(tmp_path))[0] == 2
    assert "needs a folder of public files, got" in call("assets", "check", "nowhere")[2]
    for name in ("search_qa/qa.jsonl", "search_qa/corpus.jsonl", "boxoban/unfiltered_test/000.txt"):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(gzip.decompress((shared_data / f"{name}.gz").read_bytes()))
        lines = copy.read_bytes().split(b"\n")[:480]
        copy.write_bytes(b"\n".join(lines))
    (tmp_path / "webshop").mkdir()
    for name in ("items_shuffle_1000.json.gz", "items_ins_v2_1000.json.gz"):
        shutil.copy(shared_data / "webshop" / name, tmp_path / "webshop")
    code, out, _ = call("assets", "check", str(tmp_path))
    assert code == 0, out
    counts = {
        row[1].removeprefix(f"{tmp_path}/"): row[-2:]
        for row in map(str.split, out.splitlines()[1:])
    }
    assert counts["search_qa/qa.jsonl"] == counts["search_qa/corpus.jsonl"] == ["480", "0"]
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


def test_assets_lists_and_advises(call, monkeypatch, tmp_path):
    code, out, _ = call("assets")
    assert code == 0
    assert "alfworld-download" in out
    assert "search_qa/corpus.jsonl.xz" in out
    game = tmp_path / "json_2.1.1" / "train" / "a" / "b" / "game.tw-pddl"
    game.parent.mkdir(parents=True)
    game.write_text("{}")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    (tmp_path / "qa.jsonl").write_text("")
    monkeypatch.setenv("SEARCH_QA_DATA", str(tmp_path))
    told = call("assets")[1]
    assert "(1 files game.tw-pddl)" in told
    assert "(1 files *.jsonl*)" in told
