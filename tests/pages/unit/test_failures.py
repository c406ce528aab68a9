"""Which errors are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.domain.failures import LONGEST, key, pattern


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Timeout after 30 s", "Timeout after 45.5 s"),
        ("at 0x7f3a", "at 0x7f3b99"),
        (
            "job 0b0f1f6e-98a5-4a3e-9f5c-0d5a9be0a001 is gone",
            "job 11111111-98a5-4a3e-9f5c-0d5a9be0a001 is gone",
        ),
        ("Traceback\n  line 3\nValueError: x", "Traceback\n  line 9\n\nValueError:  x \n"),
        ("commit 9fceb02d0ae5 is bad", "commit 1deadbeef00 is bad"),
    ],
)
def test_what_differs_from_job_to_job_does_not_count(one: str, other: str) -> None:
    assert pattern(one) == pattern(other)


@pytest.mark.parametrize(("one", "other"), [("KeyError: a", "KeyError: b"), ("faced", "added"), ("x", "")])
def test_words_count(one: str, other: str) -> None:
    assert pattern(one) != pattern(other)


@given(st.text(max_size=2000))
def test_a_pattern_is_one_bounded_line_and_its_own_pattern(error: str) -> None:
    shape = pattern(error)
    assert len(shape) <= LONGEST
    assert len(shape.splitlines()) <= 1
    assert pattern(shape) == shape


def test_kinds_and_statuses_are_apart() -> None:
    assert len({key("a", "failed", "x"), key("b", "failed", "x"), key("a", "pending", "x")}) == 3
