"""Days of usage: counted once from the jobs' own times, and kept as long as the settings say."""

from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job, Worker
from metering import operations as metering, queries
from metering.models import Day, Reading, Watermark
from metering.operations import rollup
from postgres import clock
from tests import farm
from tests.metering import budgets
from tests.metering.budgets import MODEL, answer, call

pytestmark = pytest.mark.django_db(transaction=True)


def count_all(attempts: int) -> None:
    """Roll up until so many attempts are counted: what ended within two seconds is not over for good."""
    farm.until(
        lambda: [metering.roll_up(), sum(Day.objects.values_list("attempts", flat=True)) >= attempts][1],
        what=f"the count of {attempts} attempts",
    )
    metering.roll_up()


def run(gpu: Worker, *, seconds: float, result: Any = None) -> int:
    """The next job runs so long and succeeds."""
    claimed = farm.claim_one(gpu)
    farm.alter(claimed, claimed_at=clock.now() - timedelta(seconds=seconds))
    farm.succeed(gpu, claimed, result)
    return claimed.id


class TestADay:
    def test_has_a_row_for_each_kind_model_worker_token_person_and_group(self, ada: User, bob: User) -> None:
        team = Group.objects.create(name="team")
        ada.groups.add(team)
        token, _ = accounts.create_token(ada, name="one", scopes=["submit"])
        gpu = budgets.worker()
        call(ada, token_id=token.pk, group=team)
        run(gpu, seconds=5, result=answer(10, 20))
        call(bob)
        run(gpu, seconds=7, result=answer(1, 2))
        call(bob)
        run(gpu, seconds=9, result=answer(1, 2))
        count_all(3)
        hers, his = Day.objects.order_by("person_id")
        assert (hers.kind, hers.model, hers.worker, hers.token_id) == ("openai", MODEL, gpu, token.pk)
        assert (hers.group, hers.attempts, hers.tokens_in, hers.tokens_out) == (team, 1, 10, 20)
        assert (his.token_id, his.group, his.attempts, his.tokens_in, his.tokens_out) == (None, None, 2, 2, 4)
        assert 5 <= hers.seconds < 16, "and what the test itself took"
        assert 16 <= his.seconds < 40
        assert hers.day == clock.now().date()

    def test_costs_nothing_where_the_model_has_no_price(self, ada: User) -> None:
        """least() passes over what is NULL: each call of a model without a price cost a thousand billion."""
        gpu = budgets.worker()
        call(ada)
        run(gpu, seconds=1, result=answer(10, 20))
        count_all(1)
        assert (Reading.objects.get().cost, Day.objects.get().cost) == (0, 0)

    def test_counts_time_of_every_confirmed_attempt_and_tokens_of_those_with_a_result(self, ada: User) -> None:
        gpu = budgets.worker()
        job = call(ada)
        operations.withdraw(gpu, [(job.pk, farm.claim_one(gpu).lease)])  # never confirmed: it is no attempt
        farm.fail(gpu, farm.claim_one(gpu))
        farm.make_due(job)
        farm.lose(farm.claim_one(gpu))
        farm.make_due(job)
        claimed = farm.claim_one(gpu)
        operations.release(gpu, claimed.id, claimed.lease)
        run(gpu, seconds=3, result=answer(10, 20))
        count_all(4)
        [row] = Day.objects.all()
        assert (row.attempts, row.tokens_in, row.tokens_out) == (4, 10, 20)

    def test_has_a_bound_of_rows_for_each_person(self, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
        """The name of a model is any text that somebody writes into a payload."""
        monkeypatch.setattr(rollup, "MOST_ROWS", 2)
        gpu = budgets.worker()
        for number in range(4):
            payload = {"path": "embeddings", "body": {"model": f"m{number}", "input": "x"}}
            operations.submit("openai", payload, owner=ada, queue="openai")
            run(gpu, seconds=1, result=answer(1, 0))
            count_all(number + 1)
        rows = Day.objects.order_by("pk").values_list("model", "tokens_in")
        assert [*rows] == [("m0", 1), ("m1", 1), ("", 2)]

    def test_is_counted_once_however_often_it_is_counted(self, ada: User, work_kind: None) -> None:
        gpu = budgets.worker()
        farm.submit(3, owner=ada)
        for _ in range(3):
            run(gpu, seconds=1)
        count_all(3)
        before = Day.objects.get().attempts
        farm.at_once(*[metering.roll_up] * 4)
        assert Day.objects.get().attempts == before == 3
        farm.submit(1, owner=ada)
        run(gpu, seconds=1)
        count_all(4)
        assert Day.objects.get().attempts == 4

    def test_begins_a_month_ago_on_a_farm_that_was_never_counted(self, work_kind: None) -> None:
        metering.roll_up()
        first = Watermark.objects.get().counted_until
        assert first > clock.now() - timedelta(days=31)

    def test_is_kept_as_long_as_the_setting_says(self, ada: User, settings: Settings) -> None:
        settings.METERING = {**settings.METERING, "RETENTION_DAYS": 10}
        today = clock.now().date()
        common: dict[str, Any] = {"attempts": 1, "seconds": 1, "tokens_in": 0, "tokens_out": 0, "cost": 0}
        for back in (0, 9, 12):
            Day.objects.create(day=today - timedelta(days=back), kind="work", **common)
        Reading.objects.create(job_id=10**12, fence=1, model="m", tokens_in=1, tokens_out=1, cost=0)
        metering.forget()
        assert farm.retain("days of usage") == 1
        assert [(today - day).days for day in Day.objects.order_by("-day").values_list("day", flat=True)] == [0, 9]
        assert not Reading.objects.exists()


class TestReadings:
    def test_of_jobs_that_are_gone_are_deleted_a_bounded_number_at_once(
        self, ada: User, work_kind: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rollup, "_READINGS", 2)
        [job] = farm.submit(1, owner=ada)
        for job_id, fence in ((job.pk - 1, 1), (job.pk, 1), (job.pk, 2), (job.pk + 1, 1), (job.pk + 1, 2)):
            Reading.objects.create(job_id=job_id, fence=fence, model="m", tokens_in=1, tokens_out=1, cost=0)
        with CaptureQueriesContext(connection) as seen:
            metering.forget()
        assert sum("DELETE FROM metering_reading" in query["sql"] for query in seen.captured_queries) == 4
        assert list(Reading.objects.values_list("job_id", "fence")) == [(job.pk, 1), (job.pk, 2)]


class TestUsageOfAJob:
    def test_is_that_of_all_its_attempts(self, ada: User) -> None:
        budgets.price(into=1000, out=2000)
        gpu = budgets.worker()
        job = call(ada)
        assert metering.of_job(job.pk) is None
        farm.fail(gpu, farm.claim_one(gpu))
        farm.make_due(job)
        run(gpu, seconds=30, result=answer(100, 50))
        used = metering.of_job(job.pk)
        assert used is not None
        assert 30 <= used.seconds < 90  # and what the test itself took
        assert used.sentence.endswith("s in 2 attempts; 100 tokens in, 50 out; 0.2 USD")

    def test_is_among_the_links_of_its_page(self, ada: User, work_kind: None) -> None:
        gpu = budgets.worker()
        farm.submit(1, owner=ada)
        [link] = operations.links(Job.objects.get(pk=run(gpu, seconds=3)), viewer=ada)
        assert link.label == "Used"
        assert "in 1 attempt" in link.text


class TestSums:
    def test_are_by_any_of_their_columns(self, ada: User, bob: User) -> None:
        common: dict[str, Any] = {"attempts": 1, "tokens_in": 1, "tokens_out": 2, "cost": 0}
        day = date(2026, 3, 1)
        Day.objects.create(day=day, kind="a", person=ada, seconds=1, **common)
        Day.objects.create(day=day, kind="b", person=bob, seconds=5, **common)
        Day.objects.create(day=day + timedelta(days=1), kind="b", person=ada, seconds=2, **common)
        rows = queries.days(since=day, until=day + timedelta(days=1), chosen={})
        assert [(row["kind"], row["sum_seconds"]) for row in queries.summed(rows, by="kind")] == [("b", 7), ("a", 1)]
        assert [row["person__username"] for row in queries.summed(rows, by="person")] == ["bob", "ada"]
        assert [row["sum_seconds"] for row in queries.summed(rows, by="day")] == [6, 2]
        hers = queries.days(since=day, until=day, person=ada.pk, chosen={})
        assert queries.total(hers)["sum_seconds"] == 1


def test_the_days_of_a_kind_are_added_up_once_a_minute_and_not_by_each_submit(ada: User) -> None:
    farm.kind("work")
    budgets.budget("seconds", 1000, person=ada)
    farm.submit(1, owner=ada)
    with CaptureQueriesContext(connection) as captured:
        farm.submit(1, owner=ada)
    assert [query for query in captured if "metering_day" in query["sql"]] == []
