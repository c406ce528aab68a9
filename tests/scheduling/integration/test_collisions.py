"""Mutations that come to nothing again and again: what becomes of them, and where that is seen."""

import random
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection
from django.test import Client
from prometheus_client import generate_latest

from core.backoff import Backoff
from jobfarm import metrics, scheduler_health
from jobfarm.findings import Finding
from postgres import clock, connections
from scheduling import operations as scheduling
from scheduling.models import Due, ScheduledFunction
from scheduling.operations import clusters, runner
from scheduling.queries.functions import Holder
from tests import farm
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)

IN_PLACE = 10  # postgres.transactions.ATTEMPTS
BY = Holder(cluster_id=uuid.UUID(int=1), ran_by="test:1")


def run_once_more() -> int:
    Due.objects.update(next_at=clock.now())
    return scheduling.run_due()


@contextmanager
def locked(pk: int) -> Iterator[None]:
    """As by the session of a process that was killed, until the server notices; a wait for it is an error here."""
    with psycopg.connect(connections.conninfo()) as session, connection.cursor() as cursor:
        session.execute("SELECT FROM scheduling_due WHERE function_id = %s FOR UPDATE", [pk])
        cursor.execute("SET lock_timeout = '2s'")
        try:
            yield
        finally:
            cursor.execute("RESET lock_timeout")


def stored(row: ScheduledFunction) -> ScheduledFunction:
    return ScheduledFunction.objects.get(pk=row.pk)


class TestAMutationThatAlwaysCollides:
    def test_counts_its_runs_waits_longer_each_time_and_names_the_statement(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runner, "COLLIDED", Backoff(first_s=100, base=2, jitter=0))
        row = scheduling.run_after(0, sample.collide)
        for n, wait_s in ((1, 100), (2, 200), (3, 400)):
            before = clock.now()
            assert run_once_more() == 0
            queued, wait = Due.objects.get(), timedelta(seconds=wait_s)
            assert queued.collisions == n * IN_PLACE
            assert "could not serialize" in (queued.colliding_statement or "")
            assert before + wait <= queued.next_at <= clock.now() + wait
        assert stored(row).status == "pending"

    def test_waits_at_most_two_minutes(self) -> None:
        longest = [runner.COLLIDED.delay_s(n, rng=random.Random(n)) for n in range(1, 50)]
        assert 0 < min(longest) < max(longest) <= 120

    def test_is_failed_after_a_bound_and_says_where_it_collided(self, settings: Any) -> None:
        settings.SCHEDULING = settings.SCHEDULING | {"MOST_COLLISIONS": 20}
        row = scheduling.run_after(0, sample.collide)
        run_once_more()
        assert stored(row).status == "pending"
        run_once_more()
        ended = stored(row)
        assert (ended.status, ended.error_class) == ("failed", "scheduling.errors.KeepsColliding")
        assert ended.error is not None
        assert "20 times" in ended.error
        assert "could not serialize" in ended.error
        assert not Due.objects.exists()

    def test_is_seen_on_its_page_in_the_metrics_and_by_the_doctor(self) -> None:
        row = scheduling.run_after(0, sample.collide)
        run_once_more()
        client = Client()
        client.force_login(farm.user("boss", is_staff=True, is_superuser=True))
        shown = client.get(f"/functions/{row.pk}/").content.decode()
        assert "10 runs" in shown
        assert "could not serialize" in shown
        measured = generate_latest(metrics.Farm()).decode()
        assert 'jobfarm_mutation_collisions{function="tests.scheduling.integration.sample.collide"' in measured
        assert "could not serialize" in measured
        assert any("keep colliding" in finding.sentence for finding in scheduler_health.scheduler())


class TestAMutationThatRunsForLong:
    def test_is_named_by_the_doctor_where_others_are_late_and_fails_as_that_says(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clusters, "LATE", timedelta(seconds=0.2))
        long = scheduling.run_after(0, sample.sleep)
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(connections.released()(scheduling.run_due))
            farm.until(lambda: scheduling.health().longest)
            late = scheduling.run_after(0, sample.nothing)
            name = f"{long.function} #{long.pk} for [0-9]+ s by backend ([0-9]+)"
            [pid] = farm.until(lambda: [found[1] for one in late_findings() if (found := re.search(name, one.remedy))])
            assert late_findings()[0].sentence.startswith("Scheduled functions that are late: 1,")
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_cancel_backend(%s)", [int(pid)])
            assert running.result() == 0
        assert (stored(long).status, stored(late).status) == ("failed", "pending")
        assert "QueryCanceled" in (stored(long).traceback or "")


def late_findings() -> list[Finding]:
    return [each for each in scheduler_health.scheduler() if "are late" in each.sentence]


class TestAMutationThatChangesItsOwnRow:
    def test_is_rolled_back_counted_and_failed_after_a_bound(self, settings: Any) -> None:
        settings.SCHEDULING = settings.SCHEDULING | {"MOST_COLLISIONS": 3}
        row = scheduling.run_after(0, sample.change_its_own_row)
        assert run_once_more() == 0
        [queued] = Due.objects.all()
        assert (queued.collisions, stored(row).priority) == (1, 0)
        assert "its own row" in (queued.colliding_statement or "")
        run_once_more()
        run_once_more()
        assert (stored(row).status, stored(row).error_class) == ("failed", "scheduling.errors.KeepsColliding")


class TestAMutationWhoseProcessDies:
    def test_is_failed_after_its_third_death(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="poison")
        for deaths in (1, 2):
            assert runner.process_died(row.pk, by=BY)
            queued = Due.objects.get()
            assert queued.whole_deaths == deaths
            assert queued.next_at > clock.now()
        assert runner.process_died(row.pk, by=BY)
        assert (stored(row).status, stored(row).error_class) == ("failed", "scheduling.errors.KillsItsProcess")
        assert "3 times" in (stored(row).error or "")
        assert not Due.objects.exists()
        assert not Group.objects.exists()

    def test_is_failed_after_the_twelfth_restart_of_the_server_by_which_its_session_ended(self) -> None:
        """Nobody's code may be at fault of the first three; but it may itself take the server along each time."""
        row, waits_s = scheduling.run_after(0, sample.make_group, name="poison"), []
        server_up_s = 1e9  # a run that began so long ago began before the server
        for _ in range(11):
            before = clock.now()
            assert runner.process_died(row.pk, by=BY, error=OperationalError("closed"), ran_s=server_up_s)
            waits_s.append((Due.objects.get().next_at - before).total_seconds())
        assert waits_s == pytest.approx([1, 2, 4, 8, 16, 32, *[60] * 5], abs=0.9)
        assert runner.process_died(row.pk, by=BY, error=OperationalError("closed"), ran_s=server_up_s)
        assert (stored(row).status, stored(row).error) == ("failed", "OperationalError: closed")

    def test_has_restarts_of_the_server_counted_as_a_quarter_of_a_death_each(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="unlucky")
        for _ in range(3):
            assert runner.process_died(row.pk, by=BY, error=OperationalError("closed"), ran_s=1e9)
        assert Due.objects.get().whole_deaths == 0
        for deaths in (1, 2):
            assert runner.process_died(row.pk, by=BY)
            assert (stored(row).status, Due.objects.get().whole_deaths) == ("pending", deaths)
        assert runner.process_died(row.pk, by=BY)
        assert "3 times" in (stored(row).error or "")

    def test_after_its_end_died_of_something_else(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="done")
        scheduling.run_due()
        assert runner.process_died(row.pk, by=BY)
        assert stored(row).status == "success"

    def test_is_asked_about_again_while_its_session_has_not_ended(self) -> None:
        row = scheduling.run_after(0, sample.make_group, name="held")
        with locked(row.pk):
            assert runner.process_died(row.pk, by=BY) is False
        assert runner.process_died(row.pk, by=BY) is True
        assert Due.objects.get().whole_deaths == 1
