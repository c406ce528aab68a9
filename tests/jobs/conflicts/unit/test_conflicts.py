"""What may be asked of a conflict, and when a debounced job runs."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.domain import records
from jobs.domain.records import Debounce, OnConflict
from jobs.errors import InvalidValue
from tests.looped import looped

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@looped(
    ("given", "why"),
    [
        (10, "quiet and at_most"),
        ({"quiet": 10}, "quiet and at_most"),
        ({"quiet": 10, "at_most": 20, "more": 1}, "quiet and at_most"),
        ({"quiet": 0, "at_most": 20}, "quiet is a number"),
        ({"quiet": True, "at_most": 20}, "quiet is a number"),
        ({"quiet": 10, "at_most": float("nan")}, "at_most is a number"),
        ({"quiet": 10, "at_most": 31 * 86400}, "at_most is a number"),
        ({"quiet": 30, "at_most": 20}, "no less than quiet"),
    ],
)
def test_a_debounce_that_says_no_times_is_refused(given: Any, why: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Debounce.of(given)
    assert refused.value.field == "debounce"
    assert why in str(refused.value)


def test_a_debounced_job_runs_once_it_was_quiet_and_never_later_than_asked() -> None:
    debounce = Debounce.of({"quiet": 10, "at_most": 25.5})
    waits = [
        (debounce.run_at(first=FIRST, now=FIRST + timedelta(seconds=s)) - FIRST).total_seconds() for s in (0, 9, 18)
    ]
    assert waits == [10, 19, 25.5]


@looped(
    ("given", "is_debounced", "wanted"),
    [
        (None, False, None),
        ("refuse", False, None),
        ("replace", False, OnConflict.REPLACE),
        ("after", False, OnConflict.AFTER),
        (None, True, OnConflict.AFTER),
        ("after", True, OnConflict.AFTER),
    ],
)
def test_a_conflict_is_a_refusal_unless_asked_otherwise(
    given: str | None, is_debounced: bool, wanted: OnConflict | None
) -> None:
    assert records.on_conflict(given, is_debounced=is_debounced) is wanted


@pytest.mark.parametrize(("given", "is_debounced"), [("last", False), ("refuse", True), ("replace", True)])
def test_a_conflict_that_says_nothing_is_refused(given: str, is_debounced: bool) -> None:
    with pytest.raises(InvalidValue):
        records.on_conflict(given, is_debounced=is_debounced)
