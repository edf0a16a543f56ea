"""The command assets."""

import shlex

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
