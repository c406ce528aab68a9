"""Since when the farm could hear its workers: what moves that, and what does not."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now

from jobs.domain import presence
from jobs.domain.presence import Part
from jobs.models import Process, Reachability
from jobs.operations.workers import Presence
from tests import farm
from tests.jobs.presence import running
from tests.servers import Server, database_away, serve

pytestmark = pytest.mark.django_db(transaction=True)
LEASE_S = 6.0  # noted twice a second
GAP_S = presence.gap_s(LEASE_S)
QUICKLY = {"JOBFARM_LEASE_S": str(LEASE_S), "JOBFARM_HEARTBEAT_S": "2"}


def seen() -> tuple[datetime, datetime]:
    """Since when, and when that was last noted."""
    row = Reachability.objects.get()
    return row.since, row.until


def silence_lasts() -> None:
    """Wait until nobody has noted anything for longer than the gap."""
    long_ago = Now() - timedelta(seconds=GAP_S + 0.2)
    farm.until(lambda: Reachability.objects.filter(until__lt=long_ago).exists(), what="silence")


def is_noted_again(after: datetime) -> None:
    """Wait until it was noted after this moment."""
    farm.until(lambda: seen()[1] > after, what="a beat")


@pytest.fixture
def server() -> Iterator[Server]:
    """A web process with short leases."""
    with serve(**QUICKLY) as made:
        yield made


class TestAWebProcess:
    def test_notes_it_from_its_start_to_its_end_and_moves_it_after_each_gap(self, server: Server) -> None:
        """One server for all that may happen to it in its life: each start takes two seconds of a processor."""
        self._has_noted_it_before_it_serves(server)
        self._goes_on_and_on_and_moves_nothing()
        self._was_frozen_for_longer_than_the_gap_and_moves_it(server)
        self._moves_it_when_the_database_was_away()
        self._of_two_the_one_that_was_frozen_moves_nothing_and_says_that_it_is_stopped()

    def _has_noted_it_before_it_serves(self, server: Server) -> None:
        since, until = seen()
        row = running.row_of(server)
        assert since <= until
        assert row.started_at <= until
        assert row.ended_at is None

    def _goes_on_and_on_and_moves_nothing(self) -> None:
        since, until = seen()
        is_noted_again(until + timedelta(seconds=2 * GAP_S))
        assert seen()[0] == since

    def _was_frozen_for_longer_than_the_gap_and_moves_it(self, server: Server) -> None:
        [since, _] = seen()
        with running.frozen(server.pid):
            silence_lasts()
            assert seen()[0] == since
            thawed = farm.now()
        is_noted_again(thawed)
        moved, noted = seen()
        assert moved >= thawed
        assert noted >= moved

    def _moves_it_when_the_database_was_away(self) -> None:
        with database_away():
            silence_lasts()
            back = farm.now()
        is_noted_again(back)
        assert seen()[0] >= back

    def _of_two_the_one_that_was_frozen_moves_nothing_and_says_that_it_is_stopped(self) -> None:
        with serve(**QUICKLY) as other:
            since, until = seen()
            with running.frozen(other.pid):
                frozen = Process.objects.get(pid=other.pid).seen_at
                is_noted_again(until + timedelta(seconds=2 * GAP_S))
            farm.until(lambda: Process.objects.get(pid=other.pid).seen_at > frozen, what="the other's beat")
            assert seen()[0] == since
            pid = other.pid
            other.stop()
            assert Process.objects.get(pid=pid).ended_at is not None

    def test_notes_nothing_while_requests_have_no_thread_or_connection(self) -> None:
        """Its loop turns and the database answers others; and yet no call of a worker could be answered. As behind a
        pooler: nothing bounds how long it waits for a lock."""
        with serve(**QUICKLY, JOBFARM_DB_POOL="1", JOBFARM_DB_STARTUP_OPTIONS="0") as server:
            with running.locked("jobs_worker"), running.requested(server, "/api/v1/worker/claim"):
                silence_lasts()
                freed = farm.now()
            is_noted_again(freed)
            assert seen()[0] >= freed


class TestABeat:
    @pytest.fixture
    def web(self) -> Presence:
        """This process, as one that serves."""
        return Presence(part=Part.WEB)

    def test_soon_after_one_of_another_leaves_it_alone(self, web: Presence) -> None:
        web.beat()
        noted = seen()
        Presence(part=Part.WEB).beat()
        assert seen() == noted
        assert Process.objects.count() == 2

    def test_that_is_the_very_first_begins_no_gap(self, web: Presence) -> None:
        """Before it nothing was noted that could have been missed: a lease that has run out is taken back at once."""
        web.beat()
        assert seen()[0] < farm.now() - timedelta(days=365)
        farm.kind()
        farm.submit(1)
        farm.lose(farm.claim_one(farm.worker()))

    def test_waits_for_nobody(self, web: Presence) -> None:
        def beat() -> None:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
                try:
                    web.beat()
                finally:
                    cursor.execute("RESET lock_timeout")

        web.beat()
        Reachability.objects.update(until=Now() - timedelta(seconds=8))
        [before] = Reachability.objects.values_list("since", "until")
        with running.row_locked("jobs_reachability"):
            farm.at_once(beat)
        assert seen() == before
        web.beat()
        assert seen()[1] > before[1]

    def test_after_a_pause_within_the_gap_goes_on(self, web: Presence) -> None:
        web.beat()
        Reachability.objects.update(since=Now() - timedelta(hours=1), until=Now() - timedelta(seconds=19))
        [since, _] = seen()
        web.beat()
        assert seen()[0] == since

    def test_after_a_longer_one_begins_anew(self, web: Presence) -> None:
        web.beat()
        Reachability.objects.update(since=Now() - timedelta(hours=1), until=Now() - timedelta(seconds=21))
        web.beat()
        since, until = seen()
        assert since == until

    def test_finds_its_way_when_the_databases_clock_was_set_back(self, web: Presence) -> None:
        web.beat()
        Reachability.objects.update(since=Now() + timedelta(hours=1), until=Now() + timedelta(hours=2))
        web.beat()
        since, until = seen()
        assert since == until <= farm.now()

    def test_of_a_process_that_has_ended_counts_no_more(self, web: Presence) -> None:
        web.beat()
        web.end()
        ended = Process.objects.get().seen_at
        web.beat()
        row = Process.objects.get()
        assert (row.seen_at, row.ended_at is not None) == (ended, True)

    def test_of_a_janitor_says_nothing_of_hearing(self) -> None:
        Presence(part=Part.JANITOR).report()
        assert Reachability.objects.count() == 0
        assert Process.objects.count() == 1

    def test_forgets_who_was_not_heard_of_for_a_day(self, web: Presence) -> None:
        for part in Part:
            Presence(part=part).report()
        Process.objects.filter(part=Part.JANITOR).update(seen_at=Now() - timedelta(hours=25))
        web.beat()
        assert sorted(Process.objects.values_list("part", flat=True)) == ["web", "web"]
