"""The feed and the digest: what people read of what happened."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from pytest_django import DjangoAssertNumQueries, DjangoCaptureOnCommitCallbacks

from postgres import clock
from scheduling import operations as scheduling
from tests.webhook_samples import RECEIVED, changed, handle, report, routed, tables
from webhooks.errors import NotFound
from webhooks.models import Activity, ActivityDigest, SandboxTelemetry
from webhooks.operations import activity

pytestmark = pytest.mark.django_db

ISSUE = "github/issues.opened.1.json"
DAY = date(2019, 5, 15)  # of most of GitHub's samples
NOW = RECEIVED


def line(n: int, *, at: datetime = RECEIVED, **fields: Any) -> Activity:
    rows = {"delivery_id": n, "n": 0, "source": "github", "actor": "ada", "verb": "opened", "object": f"issue {n}"}
    return Activity.objects.create(at=at, **(rows | fields))


def numbers(feed: tuple[list[Activity], str | None]) -> list[int]:
    return [one.delivery_id for one in feed[0]]


class TestFeed:
    def test_goes_page_by_page_to_the_end(self) -> None:
        for n in range(1, 8):  # three moments, so that pages end within one
            line(n, at=RECEIVED + timedelta(seconds=n // 3))
        seen, before = [], None
        while True:
            page = activity.feed(limit=3, before=before)
            seen.append(numbers(page))
            before = page[1]
            if before is None:
                break
        assert seen == [[7, 6, 5], [4, 3, 2], [1]]

    def test_puts_a_late_line_where_it_belongs(self) -> None:
        line(1, at=RECEIVED)
        line(2, at=RECEIVED - timedelta(days=1))
        assert numbers(activity.feed()) == [1, 2]

    def test_takes_a_cursor_that_an_address_has_garbled(self) -> None:
        line(1)
        line(2)
        older = activity.feed(limit=1)[1]
        assert older is not None
        assert numbers(activity.feed(before=older.replace("+", " "))) == [1]

    @pytest.mark.parametrize(
        "cursor", ["x", "_", "2026-11-21T12:00:00+00:00", "2026-11-21_x", "x_1", f"2026-11-21T12:00:00+00:00_{2**63}",
                   "0001-01-01T00:00:00+14:00_1", "_1"]
    )  # fmt: skip
    def test_refuses_a_cursor_that_no_page_gave(self, cursor: str) -> None:
        with pytest.raises(NotFound):
            activity.feed(before=cursor)

    def test_is_of_a_source_of_a_thing_or_with_a_text(self) -> None:
        line(1, kind="githubissue", resource="7")
        line(2, source="stripe", object="100% of _it_")
        line(3, actor="Bob")
        assert numbers(activity.feed(source="stripe")) == [2]
        assert numbers(activity.feed(kind="githubissue", resource="7")) == [1]
        assert numbers(activity.feed(kind="githubissue", resource="8")) == []
        assert numbers(activity.feed(search="bob")) == [3]
        assert numbers(activity.feed(search="0% of _")) == [2]
        assert numbers(activity.feed(search="opened", source="github")) == [3, 1]

    @pytest.mark.parametrize(("limit", "rows"), [(0, 1), (-5, 1), (10**9, 3), (2, 2)])
    def test_has_one_to_two_hundred_lines(self, limit: int, rows: int) -> None:
        for n in range(3):
            line(n)
        assert len(activity.feed(limit=limit)[0]) == rows

    def test_reads_an_index_and_no_more_than_it_shows(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        rows = [
            Activity(delivery_id=n, n=0, source="github", verb="opened", object="x", at=RECEIVED + timedelta(seconds=n))
            for n in range(3000)
        ]
        Activity.objects.bulk_create(rows)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE webhooks_activity")
        older = activity.feed(limit=100)[1]
        with django_assert_num_queries(1) as limit:
            activity.feed(limit=100, before=older)
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN " + limit.captured_queries[0]["sql"])
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "activity_newest" in plan
        assert "Seq Scan" not in plan
        assert "Sort" not in plan


class TestLines:
    def test_are_emitted_once_by_a_delivery_however_often_it_is_replayed(self) -> None:
        report(ISSUE)
        report(ISSUE, body=changed(ISSUE, sender__login="someone else"))
        assert [one.actor for one in activity.feed()[0]] == ["Codertocat"]

    def test_make_the_feed_stale(self, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> None:
        with django_capture_on_commit_callbacks() as hooks:
            report(ISSUE, received_at=datetime(2019, 5, 15, 15, 21, tzinfo=UTC))
        assert len(hooks) == 1  # live.touch; a line of today drops no digest

    def test_are_cut_to_their_columns(self) -> None:
        body = changed(ISSUE, issue__title="t" * 255, repository__full_name="r" * 255)
        report(ISSUE, body=body)
        [one] = activity.feed()[0]
        assert one.object == ("issue " + "r" * 255 + "#1: " + "t" * 255)[:499] + "…"

    def test_are_found_by_their_delivery(self) -> None:
        report(
            "sandbox-tail-telemetry/fetch.3.json",
            body={"items": changed("sandbox-tail-telemetry/fetch.3.json")["items"] * 2},
            pk=7,
        )
        report(ISSUE, pk=8)
        assert [(one.n, one.verb) for one in Activity.objects.filter(delivery=7).order_by("n")] == [
            (0, "ended with exception"),
            (1, "ended with exception"),
        ]

    def test_name_a_row_that_is_there(self) -> None:
        """But for people and organizations that nobody told of."""
        for sample in routed():
            handle(sample.event())
        known = {
            table.__name__.lower(): set(table.objects.values_list("external_id", flat=True))
            for table in tables()
            if table is not Activity
        }
        named = set(Activity.objects.exclude(kind="").values_list("kind", "resource"))
        assert {kind for kind, _ in named} <= set(known)
        assert {kind for kind, resource in named if resource not in known[kind]} == {"jiraissue"}
        assert len([resource for kind, resource in named if kind == "jiraissue" and resource not in known[kind]]) == 1


class TestDigest:
    def test_sums_up_a_day(self) -> None:
        for sample in routed():
            if sample.source == "github":
                handle(sample.event())
        summed = activity.digest(day=DAY, now=NOW)
        assert summed.entries == Activity.objects.filter(at__date=DAY).count() == 20
        assert summed.sources == (("github", 20),)
        assert summed.actors == (("Codertocat", 19), ("Octocoders", 1))

    def test_leaves_out_lines_that_nobody_did(self) -> None:
        line(1, actor="")
        line(2)
        summed = activity.digest(day=RECEIVED.date(), now=NOW)
        assert (summed.entries, summed.actors) == (2, (("ada", 1),))

    def test_ends_with_the_day_of_utc(self) -> None:
        midnight = datetime(2019, 5, 15, tzinfo=UTC)
        for n, at in enumerate([midnight - timedelta(microseconds=1), midnight, midnight + timedelta(days=1)]):
            line(n, at=at)
        assert activity.digest(day=DAY, now=NOW).entries == 1

    def test_of_a_day_that_is_over_is_computed_once(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        report(ISSUE)
        first = activity.digest(day=DAY, now=NOW)
        with django_assert_num_queries(1):
            assert activity.digest(day=DAY, now=NOW) == first

    def test_of_today_is_computed_each_time(self) -> None:
        line(1)
        assert activity.digest(day=RECEIVED.date(), now=NOW).entries == 1
        line(2)
        assert activity.digest(day=RECEIVED.date(), now=NOW).entries == 2
        assert not ActivityDigest.objects.exists()

    def test_is_dropped_by_a_line_that_comes_late(
        self, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
    ) -> None:
        activity.digest(day=DAY, now=NOW)
        activity.digest(day=date(2019, 5, 14), now=NOW)
        with django_capture_on_commit_callbacks(execute=True):
            report(ISSUE)
        assert [stored.day for stored in ActivityDigest.objects.all()] == [date(2019, 5, 14)]
        assert activity.digest(day=DAY, now=NOW).entries == 1

    def test_is_dropped_daily(self) -> None:
        for day in (1, 2):
            activity.digest(day=date(2019, 5, day), now=NOW)
        assert activity.invalidate_digests() == 2
        assert not ActivityDigest.objects.exists()


class TestRetention:
    def test_forgets_lines_and_telemetry_of_before_their_moments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kept = {"RETENTION_DAYS": 2, "SANDBOX_RETENTION_DAYS": 1}
        monkeypatch.setattr(settings, "WEBHOOKS", settings.WEBHOOKS | kept)
        now = clock.now()
        for n, days in enumerate((3, 1)):
            line(n, at=now - timedelta(days=days))
            SandboxTelemetry.objects.create(external_id=str(n), at=now - timedelta(days=days - 0.5), outcome="ok")
        assert scheduling.retain(names=["activity", "telemetry"]) == {"activity": 1, "telemetry": 1}
        assert (Activity.objects.get().delivery_id, SandboxTelemetry.objects.get().external_id) == (1, "1")
