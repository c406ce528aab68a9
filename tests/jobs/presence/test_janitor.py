"""A janitor that freezes, is killed, is stopped or was never there is told within half a minute, wherever one looks."""

import os
import re
import signal
import time
from datetime import timedelta
from unittest.mock import ANY

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now

from jobs import operations
from jobs.models import Process
from postgres import connections
from tests import farm
from tests.jobs.presence import running
from tests.servers import serve

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def cookies() -> dict[str, str]:
    """Those of an operator."""
    return running.session_of(User.objects.create_superuser("root"))


class TestAFrozenJanitor:
    @pytest.mark.landing  # half a minute of waiting; what is shown of a silent one is asked below, by its row
    def test_is_told_everywhere_until_it_goes_on(self, cookies: dict[str, str]) -> None:
        with serve() as server, running.janitor() as janitor, running.open_page(server, cookies) as page:
            assert running.ready(server, "janitor") == {"status": "ok"}
            assert "janitor" not in " ".join(running.overview(server, cookies))
            with running.frozen(janitor.pid):
                since = time.monotonic()
                assert running.shows(page, f"pid {janitor.pid}")  # awaited there: nobody asks again and again
                farm.until(
                    lambda: (
                        running.ready(server, "janitor")["status"] == "error"
                        and f"pid {janitor.pid}" in running.doctor()
                        and any(f"pid {janitor.pid}" in finding for finding in running.overview(server, cookies))
                    ),
                    within_s=running.REPORTED_WITHIN_S + 20,
                    what="the finding",
                )
                assert time.monotonic() - since < running.REPORTED_WITHIN_S
                messages = running.ready(server, "janitor")["messages"]
                assert isinstance(messages, list)
                assert re.fullmatch(r"A janitor has not reported for \d+ s\.", messages[0])
            farm.until(
                lambda: (
                    running.ready(server, "janitor") == {"status": "ok"}
                    and "has not reported" not in running.doctor()
                    and "janitor" not in " ".join(running.overview(server, cookies))
                ),
                what="the end of the finding",
            )

    def test_lets_go_of_what_it_was_taking_back_and_takes_back_more_when_it_goes_on(self) -> None:
        farm.kind()
        mine, its = farm.submit(2)
        worker = farm.worker()
        claimed = [farm.claim_one(worker) for _ in (mine, its)]
        with running.janitor(JOBFARM_LEASE_S="8", JOBFARM_HEARTBEAT_S="4") as janitor:  # so it keeps a lock for 2 s
            with psycopg.connect(connections.conninfo()) as session:
                session.execute("LOCK TABLE jobs_attempt IN EXCLUSIVE MODE")
                farm.expire_lease(mine)
                farm.until(farm.waiting_for_locks, what="the janitor, which has locked the job by then")
                os.kill(janitor.pid, signal.SIGSTOP)
            try:
                farm.until(lambda: operations.sweep().taken_back, within_s=15, what="the job's row")
            finally:
                os.kill(janitor.pid, signal.SIGCONT)
            farm.expire_lease(its)
            farm.until(lambda: farm.status(its) == "pending", within_s=15, what="the janitor")
        assert [farm.history(job) for job in claimed] == [[(1, "lost", worker.name, ANY)]] * 2


class TestAKilledJanitor:
    def test_is_silent_first_and_then_gone_and_matters_no_more_once_there_is_another(self) -> None:
        with running.janitor() as killed:
            killed.kill()
            killed.wait()
        rows = Process.objects.filter(pid=killed.pid)
        rows.update(seen_at=Now() - timedelta(seconds=20), started_at=Now() - timedelta(hours=1))
        assert re.search(r"WRONG  A janitor has not reported for \d+ s\.", running.doctor())
        rows.update(seen_at=Now() - timedelta(seconds=61))
        report = running.doctor()
        assert "WRONG  No janitor runs" in report
        assert f"pid {killed.pid}" in report
        with running.janitor():
            assert "1 janitor runs." in running.doctor()
            assert f"pid {killed.pid}" not in running.doctor()


class TestAStoppedJanitor:
    def test_falls_silent_while_it_cannot_sweep_and_says_that_it_ends_and_is_missing_soon(self) -> None:
        with running.janitor() as stopped:
            self._falls_silent_although_its_process_lives(stopped.pid)
            os.kill(stopped.pid, signal.SIGTERM)
            assert stopped.wait(20) == 0
        row = Process.objects.get(pid=stopped.pid)
        assert row.ended_at is not None
        assert "WRONG  No janitor" not in running.doctor()  # a restart is no alarm
        Process.objects.update(seen_at=Now() - timedelta(seconds=16))
        assert "WRONG  No janitor runs" in running.doctor()

    def _falls_silent_although_its_process_lives(self, pid: int) -> None:
        """Its first statement waits for a lock that nobody gives back: it is there, and does nothing."""
        with running.locked("jobs_live"):
            seen = Process.objects.get(pid=pid).seen_at
            # Longer than it may take to come round, and no report came.
            farm.until(
                lambda: Process.objects.filter(pid=pid, seen_at__lt=Now() - timedelta(seconds=9)).exists(),
                what="its silence",
            )
            assert Process.objects.get(pid=pid).seen_at - seen < timedelta(seconds=5)
