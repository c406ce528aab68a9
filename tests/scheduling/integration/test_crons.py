"""Crons as rows: synced from code, fired once for each fire time, paused, resumed, run by hand."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models.expressions import RawSQL
from django.test.utils import CaptureQueriesContext

from postgres import clock, connections
from scheduling import operations as scheduling
from scheduling.errors import BadArguments, BadSchedule, DuplicateCron, NotFound
from scheduling.models import Cron, ScheduledFunction
from scheduling.operations import crons
from scheduling.queries import crons as rows
from tests.farm import at_once, until, waiting_for_locks
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def own_crons(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests declare crons of their own."""
    monkeypatch.setattr(crons, "_declared", {})
    Cron.objects.all().delete()


def declared(**policy: object) -> Cron:
    scheduling.declare("greet", scheduling.interval(seconds=60), sample.say, word="hi", **policy)
    scheduling.sync_crons()
    return Cron.objects.get(pk="greet")


def bounded(call: Callable[[], Any]) -> Any:
    """In a session of its own, and in a transaction that waits for no lock for ever."""
    with connections.released(), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '20s'")
        return call()


def wind_back(cron: Cron, **duration: float) -> datetime:
    """Let the cron's next fire time lie in the past."""
    then = clock.now() - timedelta(**duration)
    Cron.objects.filter(pk=cron.pk).update(next_at=then)
    return then


def fired(name: str = "greet") -> list[datetime | None]:
    return list(ScheduledFunction.objects.filter(cron_id=name).order_by("fire_at").values_list("fire_at", flat=True))


class TestADeclaredCron:
    def test_that_is_an_interval_fires_at_once_and_then_by_its_own_times(self) -> None:
        cron = declared()
        assert cron.next_at is not None
        [row] = scheduling.fire_due()
        assert (row.function, row.args, row.cron_id, row.fire_at) == (
            "tests.scheduling.integration.sample.say",
            {"word": "hi"},
            "greet",
            cron.next_at,
        )
        assert Cron.objects.get().next_at == cron.next_at + timedelta(seconds=60)
        assert scheduling.fire_due() == []
        assert scheduling.run_due() == 1

    def test_is_read_by_one_statement_when_it_fires(self) -> None:
        declared()
        with CaptureQueriesContext(connection) as captured:
            assert len(scheduling.fire_due()) == 1
        reads = [query["sql"] for query in captured.captured_queries if 'FROM "scheduling_cron"' in query["sql"]]
        assert len(reads) == 1

    def test_keeps_its_fire_time_and_its_pause_when_it_is_synced_again(self) -> None:
        cron = declared()
        scheduling.pause("greet")
        scheduling.sync_crons()
        again = Cron.objects.get()
        assert again.next_at == cron.next_at
        assert again.paused_at is not None

    def test_begins_anew_with_another_schedule(self, monkeypatch: pytest.MonkeyPatch) -> None:
        declared()
        scheduling.fire_due()
        monkeypatch.setattr(crons, "_declared", {})
        scheduling.declare("greet", scheduling.daily(hour=6, tz="Europe/Berlin"), sample.say, word="hi")
        scheduling.sync_crons()
        cron = Cron.objects.get()
        assert cron.schedule == "0 6 * * * in Europe/Berlin"
        assert [moment.hour for moment in scheduling.upcoming(cron)] == [6] * 10

    def test_begins_anew_also_after_a_firing_at_a_moment_that_no_calendar_has(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        declared()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE scheduling_cron SET last_fire_at = 'infinity'")
        monkeypatch.setattr(crons, "_declared", {})
        scheduling.declare("greet", scheduling.interval(seconds=30), sample.say, word="hi")
        scheduling.sync_crons()
        assert len(scheduling.fire_due()) == 1

    def test_that_nobody_declares_any_more_is_retired_and_keeps_its_history(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cron = declared()
        scheduling.fire_due()
        scheduling.run_due()  # what had not ended would keep the next from being made
        before = crons._declared
        monkeypatch.setattr(crons, "_declared", {})
        scheduling.sync_crons()
        wind_back(cron, hours=1)
        assert scheduling.fire_due() == []
        monkeypatch.setattr(crons, "_declared", before)  # as another cluster has it, and has not taken it back yet
        assert scheduling.fire_due() == []
        assert Cron.objects.get().retired_at is not None
        assert len(fired()) == 1

    def test_that_is_not_due_is_not_written(self) -> None:
        declared()
        assert len(scheduling.fire_due()) == 1
        rows = Cron.objects.annotate(version=RawSQL("xmin::text", [])).values_list("version")
        before = list(rows)
        assert scheduling.fire_due() == []
        assert list(rows.all()) == before

    def test_is_refused_when_something_is_wrong_with_it(self) -> None:
        declared()
        with pytest.raises(DuplicateCron):
            scheduling.declare("greet", scheduling.daily(), sample.say, word="hi")
        with pytest.raises(BadArguments):
            scheduling.declare("wordless", scheduling.daily(), sample.say)  # type: ignore[call-overload]
        with pytest.raises(BadSchedule):
            scheduling.declare("a/b", scheduling.daily(), sample.say, word="hi")


class TestMissedRuns:
    def test_are_counted_and_skipped(self) -> None:
        cron = declared(missed="skip")
        then = wind_back(cron, minutes=10, seconds=30)
        assert scheduling.fire_due() == []
        after = Cron.objects.get()
        assert (after.missed_count, after.next_at) == (11, then + timedelta(minutes=11))

    def test_fire_late_when_it_is_only_a_little(self) -> None:
        then = wind_back(declared(missed="skip"), minutes=10, seconds=5)
        scheduling.fire_due()
        assert fired() == [then + timedelta(minutes=10)]
        assert Cron.objects.get().missed_count == 10

    def test_of_the_calendar_are_made_up_for_once_unless_something_else_was_said(self) -> None:
        hour = (clock.now().hour + 12) % 24  # none of their own times comes while this runs
        scheduling.declare("report", scheduling.daily(hour=hour), sample.say, word="hi")
        scheduling.declare("seldom", scheduling.monthly(hour=hour), sample.say, word="hi", missed="skip")
        scheduling.sync_crons()
        then = wind_back(Cron.objects.get(pk="report"), seconds=20)
        wind_back(Cron.objects.get(pk="seldom"), seconds=20)
        assert [row.cron_id for row in scheduling.fire_due()] == ["report"]
        assert fired("report") == [then]
        assert Cron.objects.get(pk="report").missed_count == 0

    def test_of_an_interval_are_made_up_for_once_too_and_its_times_stay(self) -> None:
        """A farm that takes 30 s to start makes up for the first firing of all its intervals."""
        then = wind_back(declared(), minutes=10, seconds=30)
        scheduling.fire_due()
        assert fired() == [then + timedelta(minutes=10)]
        after = Cron.objects.get()
        assert (after.missed_count, after.next_at) == (10, then + timedelta(minutes=11))

    def test_are_made_up_for_once(self) -> None:
        then = wind_back(declared(missed="once"), minutes=10, seconds=30)
        scheduling.fire_due()
        assert fired() == [then + timedelta(minutes=10)]
        assert Cron.objects.get().missed_count == 10

    def test_are_caught_up_with_to_a_limit(self) -> None:
        then = wind_back(declared(missed="catch_up", at_most=3, overlap="allow"), minutes=10, seconds=30)
        scheduling.fire_due()
        assert fired() == [then + timedelta(minutes=n) for n in (8, 9, 10)]
        assert Cron.objects.get().missed_count == 8


class TestOverlap:
    def test_is_skipped_and_counted_while_an_earlier_firing_has_not_ended(self) -> None:
        cron = declared()
        scheduling.fire_due()
        wind_back(cron, seconds=1)
        assert scheduling.fire_due() == []
        assert Cron.objects.get().skipped_count == 1
        scheduling.run_due()
        wind_back(cron, seconds=1)
        assert len(scheduling.fire_due()) == 1

    def test_may_be_allowed(self) -> None:
        cron = declared(overlap="allow")
        scheduling.fire_due()
        wind_back(cron, seconds=1)
        assert len(scheduling.fire_due()) == 1


class TestAClockThatGoesBack:
    def test_fires_nothing_twice(self) -> None:
        """The fire time that comes next only moves forward, and each has one row at most."""
        cron = declared(overlap="allow")
        [first] = scheduling.fire_due()
        Cron.objects.update(next_at=first.fire_at)  # as if the clock, and with it the row, had gone back
        assert scheduling.fire_due() == []
        assert fired() == [cron.next_at]


class TestManyClusters:
    def test_fire_each_time_once(self) -> None:
        cron = declared(missed="catch_up", at_most=100, overlap="allow")
        then = wind_back(cron, minutes=30, seconds=1)
        at_once(*[scheduling.fire_due] * 8)
        assert fired() == [then + timedelta(minutes=n) for n in range(31)]


class TestByHand:
    def test_a_paused_cron_does_not_fire_and_misses_nothing(self) -> None:
        cron = declared()
        scheduling.pause("greet")
        then = wind_back(cron, minutes=5, seconds=30)
        assert scheduling.fire_due() == []
        assert scheduling.upcoming(Cron.objects.get()) == []
        scheduling.resume("greet")
        after = Cron.objects.get()
        assert (after.paused_at, after.missed_count, after.next_at) == (None, 0, then + timedelta(minutes=6))

    def test_a_cron_runs_now_and_keeps_its_times(self) -> None:
        cron = declared()
        row = scheduling.run_now("greet")
        assert (row.cron_id, row.status) == ("greet", "pending")
        assert Cron.objects.get().next_at == cron.next_at

    def test_an_unknown_cron_is_refused(self) -> None:
        for operation in (scheduling.pause, scheduling.resume, scheduling.run_now):
            with pytest.raises(NotFound):
                operation("nothing")


class TestACronThatIsHastened:
    @pytest.fixture(autouse=True)
    def no_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As in a process that has just begun."""
        monkeypatch.setattr(crons, "_hastened_until", {})

    def _rests(self) -> datetime:
        declared()
        ahead = clock.now() + timedelta(minutes=5)
        Cron.objects.update(next_at=ahead)
        return ahead

    def _next_s(self) -> float:
        next_at = Cron.objects.get().next_at
        assert next_at is not None
        return (next_at - clock.now()).total_seconds()

    def test_fires_soon_after_the_commit_and_not_before_it(self) -> None:
        ahead = self._rests()
        with transaction.atomic():
            scheduling.hasten("greet", within_s=10)
            assert Cron.objects.get().next_at == ahead
        assert 0 < self._next_s() <= 10

    def test_is_left_alone_by_a_transaction_that_is_rolled_back(self) -> None:
        ahead = self._rests()
        with transaction.atomic():
            scheduling.hasten("greet", within_s=10)
            transaction.set_rollback(True)
        assert Cron.objects.get().next_at == ahead

    def test_that_is_due_sooner_stays_and_so_does_one_that_is_paused_or_unknown(self) -> None:
        self._rests()
        scheduling.hasten("greet", "nobody", within_s=600)
        assert 290 < self._next_s() <= 300
        scheduling.pause("greet")
        crons._hastened_until.clear()
        scheduling.hasten("greet", within_s=10)
        assert 290 < self._next_s() <= 300

    def test_fires_again_for_a_commit_after_a_firing_that_came_sooner(self) -> None:
        self._rests()
        Cron.objects.update(next_at=clock.now())  # another process has hastened it, ten seconds ago
        scheduling.hasten("greet", within_s=10)
        assert len(scheduling.fire_due()) == 1
        crons._hastened_until["greet", 10] -= 0.5
        scheduling.hasten("greet", within_s=10)
        assert 0 < self._next_s() <= 10, "nobody looks for what was committed after the firing"

    def test_that_is_due_and_not_fired_yet_is_not_asked_for_at_each_commit(
        self, django_assert_num_queries: Any
    ) -> None:
        self._rests()
        Cron.objects.update(next_at=clock.now())  # no cluster runs
        scheduling.hasten("greet", within_s=10)
        with django_assert_num_queries(0):
            scheduling.hasten("greet", within_s=10)

    def test_is_written_once_in_that_time_by_a_process(self) -> None:
        ahead = self._rests()
        scheduling.hasten("greet", within_s=10)
        Cron.objects.update(next_at=ahead)
        scheduling.hasten("greet", within_s=10)
        assert Cron.objects.get().next_at == ahead, "its firing would have seen what this one is about"
        crons._hastened_until["greet", 10] -= 11
        scheduling.hasten("greet", within_s=10)
        assert 0 < self._next_s() <= 10

    def test_whose_row_is_locked_has_one_caller_wait_and_not_all(self, django_assert_num_queries: Any) -> None:
        self._rests()
        with psycopg.connect(connections.conninfo()) as other, connection.cursor() as cursor:
            other.execute("SELECT FROM scheduling_cron FOR UPDATE")
            cursor.execute("SET lock_timeout = '100ms'")
            scheduling.hasten("greet", within_s=10)
            with django_assert_num_queries(0):
                scheduling.hasten("greet", within_s=10)
            cursor.execute("RESET lock_timeout")

    def test_waits_for_nobody_in_a_circle(self) -> None:
        """Two are hastened while a cluster that starts, which goes by name, has one of them."""
        self._rests()
        scheduling.declare("alarm", scheduling.interval(minutes=5), sample.say, word="hi")
        scheduling.sync_crons()
        Cron.objects.update(next_at=clock.now() + timedelta(minutes=5))
        Cron.objects.filter(pk="alarm").update(at_most=2)  # and so lies behind the other
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE scheduling_cron")

        with psycopg.connect(connections.conninfo()) as held, ThreadPoolExecutor(2) as pool:
            held.execute("SELECT FROM scheduling_cron WHERE name = 'greet' FOR UPDATE")
            hastened = pool.submit(bounded, partial(rows.hasten, ["greet", "alarm"], within_s=1))
            until(waiting_for_locks)
            synced = pool.submit(bounded, scheduling.sync_crons)
            until(lambda: waiting_for_locks() == 2)
            held.commit()
            assert hastened.result(timeout=30) == {"greet": 1.0, "alarm": 1.0}
            synced.result(timeout=30)
