"""Signals for whoever waits for a key: who sends them does not know the job."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from jobs import operations
from jobs.errors import InvalidValue, PayloadTooLarge
from jobs.models import Signal, Suspension, Worker
from jobs.operations.set_aside import ASIDE
from jobs.queries import reads, waits as queries
from postgres import transactions
from tests import farm
from tests.effort import share
from tests.jobs.flows.test_children import parent_of
from tests.jobs.flows.test_signals import came, run_out, suspend

pytestmark = pytest.mark.django_db(transaction=True)
MERGED = {"signal": "merged", "signal_key": "org/repo#7"}


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def waiting(worker: Worker, *, key: str = "org/repo#7", **options: Any) -> operations.ClaimedJob:
    """A job that waits for the signal "merged" of this key, as it was claimed before."""
    job = parent_of(worker, **options)
    assert suspend(worker, job, signal="merged", signal_key=key) == "pending"
    return job


def send(data: Any = None, *, key: str = "org/repo#7", by: Any = None, id: str | None = None) -> bool:  # noqa: A002
    return operations.signal_by_key(key, "merged", data, by=by, key=id)


class TestASignalByAKey:
    def test_lets_go_all_that_wait_for_it_and_no_others(self, worker: Worker) -> None:
        jobs = [waiting(worker) for _ in range(3)]
        waiting(worker, key="org/repo#8")
        other = parent_of(worker)
        suspend(worker, other, signal="closed", signal_key="org/repo#7")
        assert send({"by": "ada"})
        claimed = operations.claim(worker, limit=9)
        assert {one.id for one in claimed} == {job.id for job in jobs}
        assert {(one.signal and one.signal.name, str(one.signal and one.signal.data)) for one in claimed} == {
            ("merged", "{'by': 'ada'}")
        }
        assert not Signal.objects.filter(is_new=True).exists()

    def test_is_what_a_job_says_that_it_waits_for(self, worker: Worker) -> None:
        job = waiting(worker)
        [reason] = [one for one in reads.why_not_running(job.id) if one.code == "waits_for_signal"]
        assert reason.sentence == "It is suspended until the signal merged for org/repo#7 comes."
        assert operations.broken_jobs(most=9) == []

    def test_that_nobody_waits_for_is_kept_for_the_first_one_that_does(self, worker: Worker) -> None:
        send(1)
        send(2)
        for n in (1, 2):
            job = parent_of(worker)
            suspend(worker, job, **MERGED)
            assert came(worker) == ("merged", n, False)
        waiting(worker)
        assert operations.claim(worker) == []

    def test_is_not_kept_once_somebody_had_it(self, worker: Worker) -> None:
        waiting(worker)
        send(1)
        assert came(worker) == ("merged", 1, False)
        waiting(worker)
        assert operations.claim(worker) == []

    def test_of_the_site_is_kept_for_each_owner_who_had_none_of_it(self, worker: Worker) -> None:
        """Nobody takes it away from somebody else by waiting first."""
        ada, eve = farm.user("ada"), farm.user("eve")
        waiting(worker, owner=eve)
        send(1)
        assert came(worker) == ("merged", 1, False)
        waiting(worker, owner=ada)
        assert came(worker) == ("merged", 1, False)
        for person in (ada, eve):
            waiting_for_the_next = parent_of(worker, owner=person)
            suspend(worker, waiting_for_the_next, **MERGED)
        assert operations.claim(worker, limit=9) == []

    def test_is_told_from_one_that_was_sent_to_the_job_with_any_id(self, worker: Worker) -> None:
        send(0)
        kept = Signal.objects.get(job=None)
        jobs = [parent_of(worker) for _ in range(2)]
        for job in jobs:
            for taken in (kept.pk, kept.pk + 3):
                operations.signal(job.id, "other", "mine", by=None, key=f"{taken}")
        suspend(worker, jobs[0], **MERGED)
        assert came(worker) == ("merged", 0, False)
        suspend(worker, jobs[1], **MERGED)
        send(1)
        assert came(worker) == ("merged", 1, False)

    def test_is_not_given_to_who_began_to_wait_for_something_else_meanwhile(self, worker: Worker) -> None:
        """While its lock was waited for."""
        job = waiting(worker)
        signal, _ = queries.store_keyed("org/repo#7", name="merged", data=1, key="7", sender_id=None)
        with transaction.atomic():
            rows = queries.lock_reached(signal.pk, 9)
            assert [row.id for row in rows] == [job.id]
            for other in ({"signal": "approved", "signal_key": ""}, {"signal_key": "org/repo#8"}):
                Suspension.objects.update(**{"signal": "merged", **other})
                assert queries.give(rows) == []
        assert not Signal.objects.exclude(job=None).exists()

    def test_with_the_same_id_is_one_for_its_key(self, worker: Worker) -> None:
        assert [send(n, id="delivery-7") for n in range(2)] == [True, False]
        assert send(2, id="delivery-7", key="org/repo#8")
        suspend(worker, parent_of(worker), **MERGED)
        assert came(worker) == ("merged", 0, False)

    def test_reaches_the_jobs_of_its_sender_alone(self, worker: Worker) -> None:
        ada, eve, root = farm.user("ada"), farm.user("eve"), farm.user("root", is_staff=True, is_superuser=True)
        job = waiting(worker, owner=ada)
        send("eve's", by=eve)
        assert operations.claim(worker) == []
        send("ada's", by=ada)
        assert came(worker) == ("merged", "ada's", False)
        suspend(worker, parent_of(worker, owner=ada), **MERGED)
        assert operations.claim(worker) == [], "what eve sent is kept for eve's jobs"
        send("root's", by=root)
        assert came(worker) == ("merged", "root's", False)
        suspend(worker, parent_of(worker, owner=eve), **MERGED)
        assert came(worker) == ("merged", "eve's", False)
        assert farm.status(job) == "in_progress"

    def test_goes_to_none_whose_time_ran_out_or_that_was_canceled(self, worker: Worker) -> None:
        late = parent_of(worker)
        suspend(worker, late, **MERGED, timeout_s=60)
        run_out(late)
        assert came(worker) == ("merged", None, True)
        operations.cancel(waiting(worker).id, by=None)
        send(1)
        suspend(worker, parent_of(worker), **MERGED)
        assert came(worker) == ("merged", 1, False)

    def test_may_be_sent_to_the_job_as_well(self, worker: Worker) -> None:
        job = waiting(worker)
        operations.signal(job.id, "merged", "by hand", by=None)
        assert came(worker) == ("merged", "by hand", False)

    def test_that_cannot_be_one_is_refused(self, worker: Worker) -> None:
        for key, name, data, refusal in [
            ("", "a", 1, InvalidValue), ("x" * 201, "a", 1, InvalidValue), (" a", "a", 1, InvalidValue),
            ("k", "", 1, InvalidValue), ("k", "a", "x" * 64_000, PayloadTooLarge),
        ]:  # fmt: skip
            with pytest.raises(refusal):
                operations.signal_by_key(key, name, data, by=None)
        with pytest.raises(InvalidValue):
            operations.Wait(signal_key="org/repo#7")

    def test_is_sent_once_its_transaction_is_committed_and_not_at_all_without(self, worker: Worker) -> None:
        waiting(worker)
        with transaction.atomic():
            send(1)
            transaction.set_rollback(True)
        assert operations.claim(worker) == []
        with transaction.atomic():
            send(2)
            assert operations.claim(worker) == []
        assert came(worker) == ("merged", 2, False)

    def test_that_a_crash_left_is_the_janitors(self, worker: Worker) -> None:
        waiting(worker)
        queries.store_keyed("org/repo#7", name="merged", data=1, key="7", sender_id=None)
        assert operations.claim(worker) == []
        operations.tend_lanes()
        assert came(worker) == ("merged", 1, False)
        assert not Signal.objects.filter(is_new=True).exists()


def test_one_job_that_cannot_go_on_keeps_no_other_from_its_signal(
    worker: Worker, poison: Callable[[int], None]
) -> None:
    jobs = [waiting(worker) for _ in range(3)]
    try:
        poison(jobs[1].id)
        send(1)
        assert {one.id for one in operations.claim(worker, limit=9)} == {jobs[0].id, jobs[2].id}
        assert ASIDE.ids() == [jobs[1].id]
    finally:
        ASIDE.forget()
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION refuse CASCADE")
    operations.tend_lanes()
    assert farm.claim_one(worker).id == jobs[1].id


def test_a_signal_and_the_waits_for_it_at_the_same_moment_meet(worker: Worker) -> None:
    """In a serializable transaction, as a delivery's rule sends it, and no janitor helps."""

    def sent(n: int) -> bool:
        def attempt() -> bool:
            list(Suspension.objects.all()[:1])  # its snapshot is older than the wait
            return send(n)

        return transactions.serializable(attempt)

    for n in range(share(200, of=33)):
        job = parent_of(worker)
        farm.at_once(partial(suspend, worker, job, **MERGED), partial(sent, n))
        again = farm.claim_one(worker)
        assert again.signal is not None
        assert (again.id, again.signal.data) == (job.id, n)
        farm.succeed(worker, again)
    assert not Signal.objects.filter(is_new=True).exists()
    assert ASIDE.ids() == []
