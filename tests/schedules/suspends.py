"""A job that waits for jobs of its own, for a signal, or for a signal by a key, and those that come while it does."""

from collections.abc import Sequence
from typing import Any

from django.db import connection

from jobs import operations
from jobs.models import Job, Signal, Step, Suspension, Worker
from postgres import transactions
from tests import farm
from tests.schedules.actors import Stage, Task
from tests.schedules.jobs import SOON
from tests.schedules.scene import Kept

BY_KEY = {"signal": "merged", "signal_key": "k"}
_KEPT = "SELECT job_id FROM jobs_suspension JOIN jobs_live USING (job_id) WHERE taken_id IS NULL AND NOT timed_out"
_MISSED = f"""
SELECT count(*) FROM jobs_signal AS signal JOIN jobs_suspension AS wait ON wait.signal = signal.name
WHERE signal.taken_at IS NULL AND wait.job_id IN ({_KEPT}) AND wait.signal <> ''
  AND (signal.job_id = wait.job_id OR signal.job_id IS NULL AND signal.signal_key = wait.signal_key)
  AND (NOT signal.is_new OR NOT %s)"""


class Suspends(Kept):
    """The parent is held by the first worker, one of its two children by the second; the other one is due."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        operations.create_kind(operations.Kind(name="work", queue="work", backoff=SOON))
        self.first, self.second, self.third = (farm.worker(name) for name in ("first", "second", "third"))
        self.parent_id = operations.submit("work", None, max_attempts=9).pk
        self.parent = farm.claim_one(self.first)
        self.children = [self._submit_child(position) for position in range(2)]
        self.child = farm.claim_one(self.second)
        operations.heartbeat(self.second, self.child.id, self.child.lease)
        farm.expire_lease(self.child)
        self.keep()

    def begin(self) -> None:
        """Two jobs are held."""
        self.claimed = [(self.first, self.parent), (self.second, self.child)]
        self.early = list[str]()

    def actions(self) -> dict[str, Task]:
        """What the parent may do, what may come for it, and what else goes on."""
        first, second, parent, child = self.first, self.second, self.parent, self.child
        return {
            "waits for its children": lambda: self._suspend(children=self.children),
            "waits for them for a moment": lambda: self._suspend(children=self.children, timeout_s=0.0001),
            "waits for a signal": lambda: self._suspend(signal="approved", timeout_s=60),
            "waits for it for a moment": lambda: self._suspend(signal="approved", timeout_s=0.0001),
            "waits by a key": lambda: self._suspend(**BY_KEY),
            "submits one more": lambda: self._submit_child(2),
            "is released": lambda: operations.release(first, parent.id, parent.lease),
            "succeeds": lambda: farm.succeed(first, parent),
            "is canceled": lambda: operations.cancel(self.parent_id, by=None),
            "a child succeeds": lambda: farm.succeed(second, child),
            "a child fails": lambda: farm.fail(second, child, retryable=False),
            "a child's lease runs out": lambda: farm.expire_lease(child),
            "a signal": lambda: operations.signal(self.parent_id, "approved", 1, by=None, key="1"),
            "a signal by its key": lambda: operations.signal_by_key("k", "merged", 1, by=None, key="1"),
            "a delivery's signal": lambda: transactions.serializable(self._of_a_delivery),
            "claim": lambda: self._claim(self.third),
            "janitor": operations.sweep,
            "tidy": operations.tend_lanes,
            **self.breaks(),
        }

    def faults(self) -> list[str]:
        """A wait that what came did not end, one that ended before its time, and a child that there are two of."""
        faults = [f"job {job_id} {fault}" for job_id, fault in operations.broken_jobs(most=9)]
        with connection.cursor() as cursor:
            cursor.execute(_MISSED, [self.stage.has_broken])
            if missed := (cursor.fetchone() or [0])[0]:
                faults.append(f"{missed} waits are not over, though what they are for has come")
        self._run_the_rest()
        faults += self.early
        faults += [f"job {job.pk} is left {job.status}" for job in Job.objects.living()]
        faults += [f"afterwards job {job_id} {fault}" for job_id, fault in operations.broken_jobs(most=9)]
        positions = list(Step.objects.filter(parent=self.parent_id).values_list("position", flat=True))
        if len(positions) != len(set(positions)):
            faults.append(f"children at {positions}")
        if Signal.objects.filter(is_new=True).exists():
            faults.append("nobody looked who waits for a signal")
        return faults

    def _submit_child(self, position: int) -> int:
        new = operations.NewJob(kind="work", payload=position)
        return operations.submit_child(self.first, self.parent_id, self.parent.lease, new, position=position)

    def _suspend(self, **wait: Any) -> None:
        done = operations.Finished(
            job_id=self.parent_id, lease=self.parent.lease, outcome="suspended", wait=operations.Wait(**wait)
        )
        operations.finish(self.first, [done])

    def _of_a_delivery(self) -> None:
        Suspension.objects.first()  # its snapshot is as old as this
        operations.signal_by_key("k", "merged", 2, by=None, key="2")

    def _claim(self, worker: Worker) -> None:
        self._take(worker, operations.claim(worker, limit=1))

    def _take(self, worker: Worker, claimed: Sequence[operations.ClaimedJob]) -> None:
        for job in claimed:
            self.claimed.append((worker, job))
            if job.id == self.parent_id and job.signal is None:
                self.early += [f"{one.id} is {one.status}" for one in job.after or () if one.status not in _ENDED]

    def _run_the_rest(self) -> None:
        """Hand in what is held, send what is waited for, and take what is due, until nothing more comes. Nobody tidies,
        but where something broke off."""
        for _ in range(9):
            for worker, job in self.claimed:
                farm.succeed(worker, job)
            if self.stage.has_broken:  # a claim whose answer was lost runs out
                for held in Job.objects.running():
                    farm.expire_lease(held)
                operations.tend_lanes()
            operations.sweep()
            self.claimed = []
            for worker in (self.third, self.second, self.first):
                self._take(worker, operations.claim(worker, limit=9))
            if not self.claimed:
                self._send()
                self._take(self.third, operations.claim(self.third, limit=9))
            if not self.claimed:
                return

    def _send(self) -> None:
        """Whatever it waits for."""
        if Job.objects.living().filter(pk=self.parent_id).exists():
            operations.signal(self.parent_id, "approved", by=None)
            operations.signal_by_key("k", "merged", by=None)


_ENDED = {"success", "failed", "canceled", "timed_out"}
