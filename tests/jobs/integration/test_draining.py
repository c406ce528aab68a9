"""A drained worker finishes what it holds and is given nothing more; whatever asks who could take a job knows it."""

from io import StringIO

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import CommandError, call_command

from jobs import operations
from jobs.models import Worker
from jobs.protocol import verbs
from jobs.queries import fleet, gauges, reads
from jobs.queries.pages import EVERYBODY
from jobs.queries.reads import Interest
from tests import farm

pytestmark = pytest.mark.django_db


def _drained(worker: Worker) -> Worker:
    """The worker, drained, as its next call knows it."""
    operations.drain(worker)
    worker.refresh_from_db()
    return worker


class TestClaims:
    def test_bring_nothing_and_others_get_the_job(self) -> None:
        farm.kind()
        drained, other = _drained(farm.worker("a")), farm.worker("b")
        [job] = farm.submit(1)
        assert operations.claim(drained) == []
        assert farm.claim_one(other).id == job.pk

    @pytest.mark.parametrize("is_members", [False, True])
    def test_bring_nothing_also_where_the_call_began_before_the_drain(self, is_members: bool) -> None:
        farm.kind()
        owner = farm.user() if is_members else None
        before = farm.worker(owner=owner)
        farm.submit(1, owner=owner)
        operations.drain(Worker.objects.get(pk=before.pk))
        assert before.drained_at is None
        assert operations.claim(before) == []
        operations.undrain(before)
        assert len(operations.claim(before)) == 1

    def test_bring_nothing_with_a_finish_which_counts(self) -> None:
        farm.kind()
        worker = farm.worker()
        first, second = farm.submit(2)
        claimed = farm.claim_one(worker)
        finished = operations.Finished(job_id=first.pk, lease=claimed.lease, outcome="success")
        answers, jobs = operations.finish_and_claim(_drained(worker), [finished], limit=1)
        assert (answers, jobs, farm.status(second)) == (["success"], [], "pending")

    def test_sent_again_after_the_drain_bring_what_they_had_claimed(self) -> None:
        farm.kind()
        worker = farm.worker()
        farm.submit(1)
        [before] = operations.claim(worker, request_id="one")
        [again] = operations.claim(_drained(worker), request_id="one")
        assert (again.id, again.lease) == (before.id, before.lease)

    def test_bring_jobs_again_once_that_has_ended(self) -> None:
        farm.kind()
        worker = _drained(farm.worker())
        farm.submit(1)
        assert operations.undrain(worker)
        worker.refresh_from_db()
        assert len(operations.claim(worker)) == 1


class TestWaiting:
    def test_is_for_no_queue_so_that_no_wakeup_is_lost_on_a_drained_worker(self) -> None:
        worker = farm.worker("w", "work", steals=["*"])
        assert verbs.interest(worker, None) == Interest(queues=("*", "work"))
        assert verbs.interest(_drained(worker), ["work"]) == Interest(queues=())


class TestDrain:
    def test_changes_once_and_leaves_a_line_of_who_did_it(self) -> None:
        person, worker = farm.user(), farm.worker()
        assert operations.drain(worker, by=person)
        assert not operations.drain(worker, by=person)
        row = Worker.objects.get(pk=worker.pk)
        assert row.drained_by == person
        assert operations.undrain(worker, by=person)
        assert not operations.undrain(worker, by=person)
        row.refresh_from_db()
        assert (row.drained_at, row.drained_by) == (None, None)
        assert list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True)) == [
            "drained",
            "undrained",
        ]

    def test_does_nothing_to_a_revoked_worker(self) -> None:
        worker = farm.worker()
        operations.revoke(worker)
        assert not operations.drain(worker)


class TestWhy:
    def test_a_job_waits_for_drained_workers_alone(self) -> None:
        farm.kind()
        one = _drained(farm.worker("a"))
        [job] = farm.submit(1)
        [reason] = reads.why_not_running(job.pk)
        assert (reason.code, reason.numbers) == ("all_drained", {"drained": 1, "names": ["a"]})
        assert "The only live worker of the queue work that could take it, a, is drained" in reason.sentence
        undrain, add = reason.remedies
        assert (undrain.code, undrain.label, undrain.worker_id) == ("undrain_worker", "Undrain a", one.pk)
        assert add.code == "add_worker"
        _drained(farm.worker("b"))
        [reason] = reads.why_not_running(job.pk)
        assert reason.numbers == {"drained": 2, "names": ["a", "b"]}
        operations.undrain(one)
        assert [reason.code for reason in reads.why_not_running(job.pk)] == ["next"]

    def test_a_drained_worker_that_is_away_or_serves_others_is_no_reason(self) -> None:
        farm.kind()
        _drained(farm.worker("theirs", owner=farm.user("bob")))
        gone = _drained(farm.worker("gone"))
        Worker.objects.filter(pk=gone.pk).update(last_seen_at=None)
        [job] = farm.submit(1)
        assert [reason.code for reason in reads.why_not_running(job.pk)] == ["no_worker"]


class TestOthers:
    def test_a_drained_worker_is_no_other_who_could_take_a_failed_job(self) -> None:
        farm.kind()
        first, second = farm.worker("a"), farm.worker("b")
        [job] = farm.submit(1)
        farm.fail(first, farm.claim_one(first))
        assert farm.avoided_by(job) == [first.pk]
        operations.cancel(job.pk, by=None)
        [job] = farm.submit(1)
        _drained(second)
        farm.fail(first, farm.claim_one(first))
        assert farm.avoided_by(job) == []

    def test_a_queue_with_drained_workers_alone_is_unserved(self) -> None:
        farm.kind()
        worker = farm.worker()
        farm.submit(1)
        [queue] = reads.waiting_queues()
        assert queue.served
        _drained(worker)
        [queue] = reads.waiting_queues()
        assert (queue.served, queue.workers) == (False, 0)
        assert [row.workers for row in fleet.queue_rows(viewer=0, name="work")] == [0]
        assert fleet.worker_counts(viewer=EVERYBODY) == fleet.WorkerCounts(workers=1, alive=1, drained=1)

    def test_a_scaler_wants_workers_beside_those_that_are_drained(self) -> None:
        farm.kind()
        worker = farm.worker()
        farm.submit(3)
        operations.claim(worker, limit=2)
        _drained(worker)
        [load] = gauges.queue_loads(queue="work")
        assert (load.load.running, load.load.draining) == (2, 2)


class TestTheCommand:
    def test_drains_and_undrains_by_name_or_number_and_lists(self) -> None:
        farm.kind()
        worker = farm.worker("gpu-3")
        farm.submit(1)
        operations.claim(worker)
        assert _printed("drain", "gpu-3") == f"gpu-3 #{worker.pk}: drained, holds 1\n"
        assert _printed("drain", str(worker.pk)) == f"gpu-3 #{worker.pk}: already drained, holds 1\n"
        assert "live, drained" in _printed("list")
        assert _printed("undrain", f"#{worker.pk}") == f"gpu-3 #{worker.pk}: not drained\n"

    def test_refuses_a_name_that_nobody_or_more_than_one_has(self) -> None:
        with pytest.raises(CommandError, match="no worker 'x'"):
            _printed("drain", "x")
        farm.worker("x")
        farm.worker("x")
        with pytest.raises(CommandError, match="several"):
            _printed("drain", "x")


def _printed(*arguments: str) -> str:
    out = StringIO()
    call_command("workers", *arguments, stdout=out)
    return out.getvalue()
