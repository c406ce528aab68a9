"""Which errors are the same."""

import pytest
from hypothesis import given, strategies as st

from jobs.domain.outputs import LONGEST_ERROR, error_key, error_pattern, own_frames
from tests.looped import looped


@looped(
    ("one", "other"),
    [
        ("Timeout after 30 s", "Timeout after 45.5 s"),
        ("at 0x7f3a", "at 0x7f3b99"),
        ("job 0b0f1f6e-98a5-4a3e-9f5c-0d5a9be0a001 is gone", "job 11111111-98a5-4a3e-9f5c-0d5a9be0a001 is gone"),
        ("Traceback\n  line 3\nValueError: x", "Traceback\n  line 9\n\nValueError:  x \n"),
        ("commit 9fceb02d0ae5 is bad", "commit 1deadbeef00 is bad"),
    ],
)
def test_what_differs_from_job_to_job_does_not_count(one: str, other: str) -> None:
    assert error_pattern(one) == error_pattern(other)


@pytest.mark.parametrize(("one", "other"), [("KeyError: a", "KeyError: b"), ("faced", "added"), ("x", "")])
def test_words_count(one: str, other: str) -> None:
    assert error_pattern(one) != error_pattern(other)


@given(st.text(max_size=2000))
def test_a_pattern_is_one_bounded_line_and_its_own_pattern(error: str) -> None:
    shape = error_pattern(error)
    assert len(shape) <= LONGEST_ERROR
    assert len(shape.splitlines()) <= 1
    assert error_pattern(shape) == shape


def test_kinds_and_statuses_are_apart() -> None:
    assert len({error_key("a", "failed", "x"), error_key("b", "failed", "x"), error_key("a", "pending", "x")}) == 3


OWN = """  File "/srv/handlers/talks.py", line 31, in transcribe
    sound = decode(job.payload["url"])
  File "/usr/lib/python3.11/json/decoder.py", line 340, in decode
    raise JSONDecodeError("Extra data", s, end)"""
RUNNERS = """  File "/srv/venv/lib/python3.11/site-packages/jobfarm_worker/running.py", line 36, in perform
    result = await _in_thread(function, job)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/concurrent/futures/thread.py", line 58, in run
    result = self.fn(*self.args, **self.kwargs)"""
BEGINS, ENDS = "Traceback (most recent call last):", "ValueError: no"


def test_a_traceback_begins_with_the_handlers_own_frames() -> None:
    assert own_frames("\n".join([BEGINS, RUNNERS, OWN, ENDS])) == "\n".join([BEGINS, OWN, ENDS])


def test_what_the_worker_raised_on_behalf_of_the_handler_keeps_its_frames() -> None:
    error = "\n".join([BEGINS, OWN, RUNNERS, ENDS])
    assert own_frames(error) == error


@pytest.mark.parametrize("error", ["", "boom", "\n".join([BEGINS, RUNNERS, ENDS])])
def test_an_error_without_frames_of_its_own_stays_as_it_is(error: str) -> None:
    assert own_frames(error) == error
