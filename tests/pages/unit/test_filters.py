"""What a list is narrowed to, as texts."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.domain.filters import Filters, moment

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)


class TestFilters:
    def test_say_only_what_is_narrowed(self) -> None:
        filters = Filters(kind="chat", text="x")
        assert filters.as_dict() == {"kind": "chat", "text": "x"}
        assert filters.named == frozenset({"kind", "text"})

    def test_are_what_they_wrote(self) -> None:
        filters = Filters(owner="ada", since="2026-03-01", status="failed")
        assert Filters.of({**filters.as_dict(), "gone": "since the last release"}) == filters

    def test_fix_an_age_at_the_moment_it_was_asked_for(self) -> None:
        assert Filters(age="hour").at(NOW) == Filters(since=(NOW - timedelta(hours=1)).isoformat())

    @pytest.mark.parametrize(("since", "hours"), [("2026-03-29T11:30", 0.5), ("2026-03-01", 1)])
    def test_take_the_narrower_of_an_age_and_a_time(self, since: str, hours: float) -> None:
        fixed = Filters(age="hour", since=since).at(NOW)
        assert moment(fixed.since) == NOW - timedelta(hours=hours)

    def test_leave_out_an_age_that_is_none(self) -> None:
        assert Filters(age="century", kind="chat").at(NOW) == Filters(kind="chat")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-29T12:00", NOW),
        ("2026-03-29T14:00+02:00", NOW),
        ("2026-03-29", NOW.replace(hour=0)),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_moment_without_a_zone_is_utc(text: str, expected: datetime | None) -> None:
    assert moment(text) == expected
