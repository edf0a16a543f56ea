"""A completed call keeps its value or its error for whoever asks."""

import pytest

from trainer.run.completed import Completed


def test_a_value_is_kept():
    made = Completed.of(lambda: [1, 2])
    assert made.error is None
    assert made.result() == [1, 2]


def test_none_is_a_value():
    assert Completed.of(lambda: None).result() is None


def test_an_error_is_raised_at_the_result_and_is_the_same():
    failed = Completed.of(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError) as raised:
        failed.result()
    assert raised.value is failed.error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_process_is_raised_at_once(kind):
    def call():
        raise kind

    with pytest.raises(kind):
        Completed.of(call)
