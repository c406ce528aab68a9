"""How many statements each call makes, and what is published when (promise 9)."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from jobs import operations
from jobs.domain.bulks import BulkAction
from jobs.domain.filters import Filters
from jobs.domain.leases import Lease
from jobs.domain.outputs import Piece
from jobs.errors import LeaseLost
from jobs.models import Job, Live, Worker
from jobs.operations import lanes, quotas
from live import layer
from postgres import connections
from tests import farm
from tests.live.integration.support import settle

pytestmark = pytest.mark.django_db(transaction=True)


def _statements(call: Callable[[], Any]) -> list[str]:
    """The names of the statements that a call makes, in order; of those without one, the first word.

    Without the one by which a process hastens crons: it comes once in ten seconds.
    """
    with CaptureQueriesContext(connection) as captured:
        call()
    statements = [query["sql"] for query in captured.captured_queries]
    named = [re.search(r"/\* (\S+) \*/", sql) for sql in statements]
    names = [match[1] if match else sql.split()[0] for match, sql in zip(named, statements, strict=True)]
    return [name for name in names if name != "scheduling.hasten"]


class TestHowManyStatements:
    def test_each_call_makes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """BEGIN and COMMIT, unless it is one statement, and one NOTIFY after the commit; no lane is tidied."""
        monkeypatch.setattr(lanes, "FIRST", 10**6)
        monkeypatch.setattr(lanes, "EVERY_S", 3600.0)
        monkeypatch.setattr(lanes, "_UNTIDIED", lanes.Untidied())
        farm.kind()
        farm.kind("full")
        operations.set_ceiling("full", 5)
        me, idle = farm.worker(), farm.worker("idle", "empty")
        farm.submit(50)
        claimed = farm.claim_one(me)
        batch = operations.claim(me, limit=20)
        done = [operations.Finished(job_id=j.id, lease=j.lease, outcome="success") for j in batch]
        quotas.WAITING.forget()  # what a test before this one read is good for five seconds
        quotas.OUTPUT.forget()
        farm.submit(1)  # what waits, and what was written, each process reads every five seconds
        quotas.output_room()
        calls: dict[str, Callable[[], Any]] = {
            "submit one": lambda: operations.submit("work", {}),
            "submit a hundred": lambda: operations.submit_many([farm.new_job() for _ in range(100)]),
            "output": lambda: operations.write_output(me, claimed.id, claimed.lease, seq=0, text="x"),
            "claim": lambda: operations.claim(me, limit=20),
            "claim nothing": lambda: operations.claim(idle),
            "heartbeat": lambda: operations.heartbeat(me, claimed.id, claimed.lease),
            "progress": lambda: operations.heartbeat(me, claimed.id, claimed.lease, progress=0.1),
            "finish one": lambda: farm.succeed(me, claimed),
            "finish twenty": lambda: operations.finish(me, done),
        }
        assert {name: _statements(call) for name, call in calls.items()} == {
            "claim": ["BEGIN", "jobs.claim", "COMMIT", "NOTIFY"],
            "claim nothing": ["BEGIN", "jobs.claim", "COMMIT"],
            "heartbeat": ["jobs.heartbeat"],
            "progress": ["jobs.heartbeat", "NOTIFY"],
            "output": ["jobs.write_output", "NOTIFY"],
            "finish one": ["BEGIN", "jobs.succeed", "COMMIT", "NOTIFY"],
            "finish twenty": ["BEGIN", "jobs.succeed", "COMMIT", "NOTIFY"],
            "submit one": ["jobs.kind", "jobs.submit_one", "NOTIFY"],  # one statement is a transaction by itself
            "submit a hundred": [
                "jobs.kind",
                "BEGIN",
                "jobs.number_new",
                "jobs.copy_jobs",
                "jobs.copy_live",
                "COMMIT",
                "NOTIFY",
            ],  # its kind is a row here
        }


@pytest.fixture
def notifications() -> Iterator[Callable[[], list[str]]]:
    """The topics published since the last call, in order, as another process hears them."""
    channel = layer.NotifyChannelLayer()._notify_channel
    with psycopg.connect(connections.direct_conninfo(), autocommit=True) as listener:
        listener.execute(f'LISTEN "{channel}"')

        def since() -> list[str]:
            # On a connection of its own: what was committed before this is delivered before it.
            settle()
            listener.execute("SELECT pg_notify(%s, 'until here')", [channel])
            found: list[str] = []
            for notice in listener.notifies(timeout=10):
                if notice.payload == "until here":
                    return found
                found.extend(json.loads(notice.payload)["message"]["topics"])
            raise AssertionError("nothing was heard for 10 s")

        yield since


class TestWhatIsPublished:
    def test_of_a_submit_comes_after_the_commit_and_each_topic_once(
        self, notifications: Callable[[], list[str]]
    ) -> None:
        farm.kind()
        notifications()
        with transaction.atomic():
            first, second = farm.submit(1) + farm.submit(1)
            assert farm.at_once(Job.objects.count) == [0]
            assert notifications() == []
        new = [f"new:{job.pk}-{job.pk}" for job in (first, second)]
        assert sorted(notifications()) == sorted(["jobs", "work:work", *new])

    def test_of_a_rollback_is_nothing_and_nothing_is_stored(self, notifications: Callable[[], list[str]]) -> None:
        farm.kind()
        me = farm.worker()
        [kept] = farm.submit(1)
        notifications()
        with farm.rolled_back():
            farm.submit(3)
            claimed = operations.claim(me, limit=4)
            operations.finish(
                me, [operations.Finished(job_id=claimed[0].id, lease=claimed[0].lease, outcome="success")]
            )
        assert notifications() == []
        assert [(job.pk, job.status, job.fence) for job in Job.objects.all()] == [(kept.pk, "pending", 0)]
        assert Job.objects.count() == 1

    def test_of_a_savepoint_goes_with_it_and_the_rest_stays(self, notifications: Callable[[], list[str]]) -> None:
        farm.kind()
        notifications()
        with transaction.atomic():
            [job] = farm.submit(1)
            with farm.rolled_back():
                farm.submit(1)
        assert sorted(notifications()) == sorted(["jobs", "work:work", f"new:{job.pk}-{job.pk}"])
        assert Job.objects.count() == Live.objects.count() == 1

    def test_of_a_job_that_is_due_later_names_the_moment(self, notifications: Callable[[], list[str]]) -> None:
        farm.kind()
        notifications()
        [job] = farm.submit(1, run_at=datetime(2100, 1, 1, tzinfo=UTC))
        assert sorted(notifications()) == sorted(["jobs", "due:work:4102444800000", f"new:{job.pk}-{job.pk}"])

    def test_of_each_call_is_what_it_made_stale(self, notifications: Callable[[], list[str]]) -> None:
        farm.kind()
        me, _ = farm.worker(), farm.worker("other")
        jobs = farm.submit(4)
        notifications()
        first, second, third, fourth = (farm.claim_one(me) for _ in range(4))
        calls: list[tuple[Callable[[], Any], Callable[[int], set[str]]]] = [
            (lambda: operations.heartbeat(me, first.id, first.lease), lambda _: set()),
            (lambda: operations.heartbeat(me, first.id, first.lease, detail="x"), lambda n: {"jobs", f"job:{n}"}),
            (lambda: operations.write_output(me, first.id, first.lease, seq=0, text="x"), lambda n: {f"output:{n}"}),
            (lambda: operations.write_output(me, first.id, first.lease, seq=0, text="x"), lambda _: set()),
            (lambda: farm.succeed(me, first), lambda n: {"jobs", "workers", f"job:{n}"}),
            (
                lambda: operations.release(me, second.id, second.lease),
                lambda _: {"jobs", "workers", f"job:{second.id}", "work:work"},
            ),
            (
                lambda: operations.cancel(third.id, by=None),
                lambda _: {"jobs", "workers", f"job:{third.id}", f"worker:{me.pk}"},
            ),
            (lambda: operations.pause("work"), lambda _: {"queue:work", "queues"}),
            (lambda: operations.pause("work"), lambda _: set()),
            (lambda: operations.resume("work"), lambda _: {"queue:work", "queues", "work:work"}),
        ]
        assert len(notifications()) == 4 * 3  # the claims: each its job, the jobs, the workers
        for call, stale in calls:
            call()
            assert set(notifications()) == stale(jobs[0].pk)
        farm.fail(me, fourth)
        due = {topic for topic in notifications() if topic.startswith("due:")}
        run_at = Job.objects.get(pk=fourth.id).run_at  # then for others, and after the grace for its worker too
        moments = (run_at, run_at + timedelta(seconds=30))
        assert due == {f"due:work:{int(moment.timestamp() * 1000)}" for moment in moments}

    def test_of_output_that_came_with_some_of_a_lost_lease_is_what_was_stored(
        self, notifications: Callable[[], list[str]]
    ) -> None:
        farm.kind()
        made, key = operations.create_worker("w1", queues=["work"])
        farm.submit(2)
        lost, held = operations.claim(made, limit=2)
        operations.release(made, lost.id, lost.lease)
        write = operations.rechecked(operations.write_outputs)
        _, _, me = operations.authenticate(key), operations.recognize(key), operations.recognize(key)
        assert me.version is not None
        notifications()
        refused, stored = write(me, [Piece(job_id=one.id, lease=one.lease, seq=0, text="x") for one in (lost, held)])
        assert isinstance(refused, LeaseLost)
        assert stored == 1
        assert f"output:{held.id}" in notifications()


End = Callable[[Worker, operations.ClaimedJob], object]
ENDS: dict[str, End] = {
    "a success": farm.succeed,
    "a success and the next claim": lambda me, job: operations.finish_and_claim(me, [_ended(job)], limit=1),
    "successes among failures": lambda me, job: operations.finish(me, [_ended(job), _lost()]),
    "a failure for good": lambda me, job: farm.fail(me, job, retryable=False),
    "a failure that is retried": farm.fail,
    "a release": lambda me, job: operations.release(me, job.id, job.lease),
    "a cancel": lambda _, job: operations.cancel(job.id, by=None),
    "a lease that ran out": lambda _, job: farm.lose(job),
    "a run that took too long": lambda _, job: _overrun(job),
    "a bulk action": lambda _, job: _cancel_all(),
}


def _ended(job: operations.ClaimedJob) -> operations.Finished:
    return operations.Finished(job_id=job.id, lease=job.lease, outcome="success")


def _lost() -> operations.Finished:
    lease = Lease(fence=1, secret=uuid.uuid4())
    return operations.Finished(job_id=1, lease=lease, outcome="failed")


def _overrun(job: operations.ClaimedJob) -> None:
    farm.alter(job, deadline_at=Now() - timedelta(seconds=1), confirmed_fence=1)
    assert operations.sweep().taken_back == 1


def _cancel_all() -> None:
    boss = User.objects.create_superuser("boss")
    bulk = operations.bulk.create(BulkAction.CANCEL, by=boss, filters=Filters(status="in_progress"))
    operations.bulk.begin(bulk.pk, by=boss)
    operations.bulk.step(bulk_id=bulk.pk)


class TestRoomUnderACeiling:
    @pytest.mark.parametrize("is_retried", [True, False], ids=["retried", "not retried"])
    @pytest.mark.parametrize("end", ENDS)
    def test_is_said_to_who_waits_for_the_queue(
        self, notifications: Callable[[], list[str]], end: str, *, is_retried: bool
    ) -> None:
        farm.kind(max_attempts=3 if is_retried else 1, timeout_s=60, retry_on_timeout=is_retried)
        operations.set_ceiling("work", 1)
        me = farm.worker()
        farm.submit(1)
        claimed = farm.claim_one(me)
        notifications()
        ENDS[end](me, claimed)
        assert "work:work" in notifications()
        assert not Job.objects.running().exists()
