"""Episodes: what they sum up, and that their file gives back what it was given."""

import pytest

from trainer.play.episode_files import read_episodes, write_episodes
from trainer.play.records import Episode, Step


def step(observation="You are in the middle of a room.", **more):
    reply = "<think></think><action>look</action>"
    return Step(observation, reply, "look", [1, 2, 3], [4, 5], [-0.1, -0.5], [0.2, 0.6], **more)


def episode(steps, goal="g", **more):
    return Episode("embedded/train/a/b", goal, 3, 7, "history", steps, **more)


def test_file_gives_back_what_was_written(tmp_path):
    episodes = [
        episode(
            [
                step(),
                step(valid=False, invalid_reason="format", allowed=[[1, 2], [3]]),
                step(allowed=[[1], [2]], admissible=["look", "go “é”"]),
            ]
        ),
        episode([step(anchor="k", progress=0.25)], success=True, outcome=10.0, truncated=True),
        episode([step(observation="é “quoted”\n", reward=-0.1)], strata={"kind": "look_at_obj"},
                measures={"score": 0.5}),
    ]  # fmt: skip
    write_episodes(tmp_path / "new" / "step_1.parquet", episodes)
    assert read_episodes(tmp_path / "new" / "step_1.parquet") == episodes
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["step_1.parquet"]


def test_text_that_has_no_utf_8_is_written_with_marks(tmp_path):
    """A lone surrogate, as a world that is no AgentEnv may report it."""
    write_episodes(
        tmp_path / "odd.parquet", [episode([step(observation="a\ud800b")], goal="\udfff")]
    )
    (found,) = read_episodes(tmp_path / "odd.parquet")
    assert (found.goal, found.steps[0].observation) == ("\ufffd", "a\ufffdb")


def test_no_episodes_make_an_empty_file(tmp_path):
    write_episodes(tmp_path / "none.parquet", [])
    assert read_episodes(tmp_path / "none.parquet") == []


def test_refusals_name_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.parquet"):
        read_episodes(tmp_path / "missing.parquet")
    write_episodes(tmp_path / "cut.parquet", [episode([step()])])
    whole = (tmp_path / "cut.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cut\.parquet holds no readable episodes"):
        read_episodes(tmp_path / "cut.parquet")
