"""What a list is narrowed to, as texts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.values import moment
from jobs.domain.filters import Filters, Terms, ids_of, terms
from tests.looped import looped

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)


class TestFilters:
    def test_say_only_what_is_narrowed(self) -> None:
        assert Filters(kind="chat", text="x").as_dict() == {"kind": "chat", "text": "x"}

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


@looped(
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


class TestIds:
    def test_are_numbers_with_commas_between_them(self) -> None:
        assert ids_of("7,9,10") == [7, 9, 10]

    @looped("text", ["", "x", "-1", "1.5", "٣", str(2**63)])
    def test_that_are_none_are_left_out(self, text: str) -> None:
        assert ids_of(text) == []


class TestSearches:
    @looped(
        ("text", "pairs", "rest"),
        [
            ("fog at dawn", [], "fog at dawn"),
            ("model:sdxl", [(("model",), "sdxl")], ""),
            ('model:"sdxl turbo" fog', [(("model",), "sdxl turbo")], "fog"),
            ("options.seed:7 a:b", [(("options", "seed"), "7"), (("a",), "b")], ""),
            ("https://example.org/x", [], "https://example.org/x"),
            ("url:https://example.org/x", [(("url",), "https://example.org/x")], ""),
            ("at 12:30", [], "at 12:30"),
            ("KeyError: 7", [], "KeyError: 7"),
            ('"er":7', [], '"er":7'),
            ("  two  blanks ", [], "  two  blanks "),
        ],
    )
    def test_have_pairs_and_the_rest(self, text: str, pairs: list[Any], rest: str) -> None:
        assert terms(text) == Terms(pairs=tuple(pairs), text=rest)
