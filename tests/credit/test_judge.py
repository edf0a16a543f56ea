"""The judge: labels, retries, and a cache of valid answers only."""

import threading

import pytest

from credit.methods.has import Judge, JudgeError
from tests.credit.batches import batch


class Scripted:
    """A model that returns these answers one after the other and records the prompts."""

    def __init__(self, *answers):
        self.answers, self.prompts = list(answers), []

    def __call__(self, prompt):
        self.prompts.append(prompt)
        return self.answers.pop(0)


def two():
    return batch([2, 1], [1.0, 0.0], [0, 0], valid=[True, False, True])


def test_labels_of_each_trajectory():
    ask = Scripted("[0.5, -1]", " [1]\n")
    assert Judge(ask)(two()) == pytest.approx([0.5, -1, 1])
    assert "worked on this task: goal" in ask.prompts[0]
    assert "action: action 1\n(refused)" in ask.prompts[0]
    assert "each of the 2 turns" in ask.prompts[0]


def test_cached_answers_are_not_asked_for_again(tmp_path):
    ask = Scripted("[0.5, -1]", "[1]")
    first = Judge(ask, cache=tmp_path / "new")(two())
    assert Judge(ask, cache=tmp_path / "new")(two()) == pytest.approx(first)
    assert len(ask.prompts) == 2
    for other in ({"model": "other"}, {"prompt": "{turns} {goal} {count} {outcome}"}):
        with pytest.raises(IndexError):  # it asks again, and the script has no more answers
            Judge(ask, cache=tmp_path / "new", **other)(two())


def test_equal_trajectories_are_asked_about_once(tmp_path):
    ask = Scripted("[0.5, -1]")
    turns = batch([2] * 8, [1.0] * 8, [0] * 8, anchor=["a", "b"] * 8, action=["c", "d"] * 8)
    labels = Judge(ask, cache=tmp_path, parallel=8)(turns)
    assert labels == pytest.approx([0.5, -1.0] * 8)
    assert len(ask.prompts) == 1
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


NO_LABELS = {
    "useful, harmful": "has no JSON list of labels: 'useful",
    "[0.5]": "must have a list of 2 labels",
    "[0.5, 1.5]": r"has label 1.5; labels must be numbers in \[-1, 1\]",
    "[0.5, null]": "has label None",
    "[0.5, true]": "has label True",
    "[0.5, NaN]": "has label nan",
    "": "has no JSON list",
}
OTHERS = [
    "<think>[0.5, -1]", "[0.5, -1]</think>", "[[0.5, -1]]", '["a", "b"]', "[0.5, 1e400]",
    "[0.5, " + "9" * 400 + "]", "[0.5, " + "9" * 5000 + "]", "[" * 100_000, '["' * 100_000,
    '[0.5, ""]', "[0.5, [1]]", None, 3, b"[0.5, -1]", ["a"],
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("answer", [*NO_LABELS, *OTHERS], ids=lambda answer: repr(answer)[:16])
def test_an_answer_without_labels_is_asked_for_again_and_not_cached(tmp_path, answer):
    assert Judge(Scripted(answer, "[0, 1]", "[1]"))(two()) == pytest.approx([0, 1, 1])
    ask = Scripted(answer, answer, answer)
    with pytest.raises(JudgeError, match="the judge's answer 3 of 3 ") as error:
        Judge(ask, cache=tmp_path)(two())
    assert (len(ask.prompts), list(tmp_path.iterdir())) == (3, [])
    assert len(str(error.value)) < 250
    error.match(NO_LABELS[answer] if isinstance(answer, str) and answer in NO_LABELS else "")


@pytest.mark.parametrize(
    "answer",
    [
        "```json\n[0.5, -1]\n```",
        "```\n[0.5, -1]\n```",
        "Turn [1] helped, turn [2] did not.\n\n```json\n[\n  0.5,\n  -1\n]\n```\nThat is all.",
        "<think>Perhaps [1, 1]? No, [0, 0].</think>\n[0.5, -1]",
        "Perhaps [1, 1].</think>[0.5, -1]",
        '["0.5", "-1"]',
        '[0.5, " -1.0 "]',
        '{"labels": [0.5, -1]}',
        "[1, 1] at first, [0.5, -1] in the end",
    ],
)
def test_labels_are_found_in_many_formats(answer):
    assert Judge(Scripted(answer, "[1]"))(two()) == pytest.approx([0.5, -1, 1])


@pytest.mark.parametrize("broken", [b"", b"\xff\xfe\x00", b"{}", b"[0.5]", b"null", b"[" * 9999])
def test_a_damaged_cache_file_is_named(tmp_path, broken):
    judge = Judge(Scripted("[0.5, -1]", "[1]"), cache=tmp_path)
    judge(two())
    file = max(tmp_path.iterdir(), key=lambda path: path.stat().st_size)
    file.write_bytes(broken)
    with pytest.raises(JudgeError, match=rf"{file.name} \(delete it to ask again\)"):
        judge(two())


def many(count):
    return batch([1] * count, [1.0] * count, [0] * count, action=[str(i) for i in range(count)])


def test_parallel_requests():
    together = threading.Barrier(4, timeout=20)

    def ask(prompt):
        together.wait()
        return f"[{int(prompt.split('action: ')[1].split()[0]) / 10}]"

    assert Judge(ask, parallel=4)(many(8)) == pytest.approx([i / 10 for i in range(8)])


@pytest.mark.parametrize("parallel", [1, 4])
def test_no_request_starts_after_a_failure(parallel):
    asked = []

    def down(prompt):
        asked.append(prompt)
        raise ConnectionError("no model")

    with pytest.raises(ConnectionError, match="no model"):
        Judge(down, parallel=parallel)(many(50))
    assert len(asked) <= parallel
