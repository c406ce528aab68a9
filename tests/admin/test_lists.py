"""Lists that look back so far and no further, days in place of a hierarchy of dates, and rows that are live."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from core.administration import tables
from jobs.models import Attempt, Job
from live import html
from live.registry import Viewer, find
from ratelimits import operations as ratelimits
from ratelimits.domain import TokenBucket
from tests import farm
from tests.admin import samples
from tests.admin.conftest import As
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db

JOBS = "/admin/jobs/job/"


@pytest.fixture(autouse=True)
def _no_sidebar(settings: Settings) -> None:
    settings.UNFOLD = {**settings.UNFOLD, "SIDEBAR": {}}


def listed(client: Client, url: str) -> list[Any]:
    """The primary keys on the page, in its order."""
    answer = client.get(url)
    assert answer.status_code == 200
    return [row.pk for row in answer.context["cl"].result_list]


class TestLookingBack:
    def test_goes_on_where_a_page_stopped(self, as_: As, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tables, "MAX_SCANNED", 10)
        farm.kind("rare")
        (first,) = farm.submit(1, "rare")
        farm.kind()
        farm.submit(14)
        (last,) = farm.submit(1, "rare")
        operator = as_("operators")
        answer = operator.get(f"{JOBS}?kind=rare")
        assert [job.pk for job in answer.context["cl"].result_list] == [last.pk]
        older = answer.context["cl"].older_url
        assert f'href="{older}"'.replace("&", "&amp;") in answer.content.decode()
        assert listed(operator, JOBS + older) == [first.pk]
        end = operator.get(JOBS + older).context["cl"]
        assert (end.older_url, end.newest_url) == (None, "?kind=rare")

    def test_is_not_bounded_where_an_index_leads(self, as_: As, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tables, "MAX_SCANNED", 3)
        farm.kind()
        ada = farm.user()
        old, waiting, *_ = farm.submit(9, owner=ada)
        farm.end(old, "failed")
        farm.end(Job.objects.exclude(pk__in=[old.pk, waiting.pk]), "success", owner=None)
        operator = as_("operators")
        assert listed(operator, f"{JOBS}?status=failed") == [old.pk]
        assert listed(operator, f"{JOBS}?status=pending") == [waiting.pk]
        assert listed(operator, f"{JOBS}?owner={ada.pk}") == [waiting.pk, old.pk]
        assert operator.get(f"{JOBS}?q={old.pk}").headers["Location"] == f"/jobs/{old.pk}/"
        assert len(listed(operator, f"{JOBS}?status=success")) == 3

    @pytest.mark.parametrize("value", ["x", "-1", "9" * 30, "٣"])
    def test_takes_what_is_no_place_for_none(self, as_: As, value: str) -> None:
        farm.kind()
        (job,) = farm.submit(1)
        assert listed(as_("operators"), f"{JOBS}?before={value}") == [job.pk]

    def test_reads_no_big_table_from_end_to_end(self, as_: As, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plans are asked of a table that is large beside the bounds, as a million rows are beside the true ones."""
        monkeypatch.setattr(tables, "MAX_SCANNED", 100)
        monkeypatch.setattr(tables, "COUNTED", 100)
        samples.multiply(4000)
        plans = _Plans()
        operator = as_("operators")
        with connection.execute_wrapper(plans):
            for url in _NARROWED:
                assert operator.get(url).status_code == 200, url
        assert plans.whole == []


_NARROWED = [
    *(JOBS + end for end in ("", "?status=success", "?kind=none", "?status=failed&queue=none", "?q=none", "?q=7")),
    *(f"/admin/jobs/attempt/{end}" for end in ("", "?outcome__exact=lost", "?q=7", "?ended_at_day=2020-01-01")),
    *(
        f"/admin/scheduling/scheduledfunction/{end}"
        for end in ("", "?status=success", "?status=failed", "?function=no")
    ),
    *(f"/admin/webhooks/delivery/{end}" for end in ("", "?status=processed", "?source=stripe", "?q=none")),
    *(f"/admin/webhooks/activity/{end}" for end in ("", "?source__exact=stripe", "?q=none")),
    *(f"/admin/ratelimits/bucket/{end}" for end in ("", "?name=none", "?q=none")),
]


_WHOLE = r"Seq Scan on {table}\b[^\n]*\n\s*(Filter|->|$)"  # one under a bare LIMIT reads no more than that


class _Plans:
    """Asks for the plan of each statement before it is run, and remembers those that read a big table whole."""

    def __init__(self) -> None:
        self.whole: list[tuple[str, str]] = []

    def __call__(self, execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        if isinstance(sql, str) and sql.lstrip().startswith(("SELECT", "/*")):
            execute(f"EXPLAIN {sql}", params, many, context)
            plan = "\n".join(line for (line,) in context["cursor"].fetchall())
            self.whole += [(table, plan) for table in samples.BIG if re.search(_WHOLE.format(table=table), plan)]
        return execute(sql, params, many, context)


class TestDays:
    def test_find_what_is_of_them(self, as_: As) -> None:
        farm.kind()
        today, yesterday, older = farm.submit(3)
        for job, days in ((yesterday, 1), (older, 30)):
            farm.pass_time(job, timedelta(days=days).total_seconds())
        # Ids and times of submission grow together: so the older ones are the lower ones here too.
        order = [older.pk, yesterday.pk, today.pk]
        moments = sorted(Job.objects.values_list("created_at", flat=True))
        for pk, moment in zip(sorted(order), moments, strict=True):
            Job.objects.filter(pk=pk).update(created_at=moment)
        first, second, third = sorted(order)
        operator = as_("operators")
        assert listed(operator, f"{JOBS}?created_at_day=today") == [third]
        assert listed(operator, f"{JOBS}?created_at_day=yesterday") == [second]
        assert listed(operator, f"{JOBS}?created_at_day=week") == [third, second]
        day = moments[0].date().isoformat()
        page = operator.get(f"{JOBS}?created_at_day={day}&kind=work")
        assert [job.pk for job in page.context["cl"].result_list] == [first]
        assert f'name="created_at_day" value="{day}"' in page.content.decode()
        assert '<input type="hidden" name="kind" value="work">' in page.content.decode()

    @pytest.mark.parametrize("value", ["x", "2026-13-01", "9999-12-31", "0001-01-01"])
    def test_that_are_none_narrow_nothing_or_find_nothing(self, as_: As, value: str) -> None:
        farm.kind()
        farm.submit(1)
        assert as_("operators").get(f"{JOBS}?created_at_day={value}").status_code == 200


class TestNames:
    def test_that_are_known_no_more_stay_chosen(self, as_: As) -> None:
        (spec,) = [
            spec
            for spec in as_("operators").get(f"{JOBS}?kind=gone").context["cl"].filter_specs
            if spec.parameter_name == "kind"
        ]
        assert ("gone", "gone") in spec.lookup_choices


class TestRows:
    def test_are_live_and_say_what_the_live_query_says(self, as_: As) -> None:
        """The same rendering, so that an open list is sent nothing until something changes."""
        samples.fill(1)
        job, delivery = Job.objects.running().get(), Delivery.objects.get()
        function = samples.newest_function()
        for url, name, given in (
            (JOBS, "job-badge", {"job_id": job.pk}),
            ("/admin/webhooks/delivery/", "delivery-badge", {"delivery_id": delivery.pk}),
            ("/admin/scheduling/scheduledfunction/", "function-state", {"function_id": function}),
        ):
            page = as_("readers").get(url).content.decode()
            assert html.wrapper(name, given, audience="operator", element="span") in page

    def test_link_to_what_they_belong_to(self, as_: As) -> None:
        samples.fill(1)
        again = Job.objects.get(retry_of__isnull=False)
        reader = as_("readers")
        page = reader.get(JOBS).content.decode()
        attempt = Attempt.objects.get()
        for url in (
            f"/admin/jobs/job/{again.retry_of_id}/change/",
            f"/admin/jobs/worker/{attempt.worker_id}/change/",
            f"/admin/auth/user/{again.owner_id}/change/",
        ):
            assert f'href="{url}"' in page
        listed_attempts = reader.get("/admin/jobs/attempt/").content.decode()
        assert f'href="/admin/jobs/job/{attempt.job_id}/change/"' in listed_attempts

    def test_are_for_operators_alone(self, as_: As) -> None:
        samples.fill(1)
        ada = farm.user()
        for name, given in (
            ("job-badge", {"job_id": 1}),
            ("delivery-badge", {"delivery_id": 1}),
            ("function-state", {"function_id": 1}),
        ):
            assert find(name).audience(Viewer(user=ada), given) is None


class TestLimits:
    def test_are_found_by_the_beginning_of_their_key(self, as_: As) -> None:
        for key in ("ada", "adam", "bad"):
            ratelimits.limit("test/keys", key=key, config=TokenBucket(10, timedelta(hours=1)))
        found = as_("readers").get("/admin/ratelimits/bucket/?q=ada").context["cl"].result_list
        assert [bucket.key for bucket in found] == ["ada", "adam"]
