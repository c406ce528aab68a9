"""A flow of four steps: `left` and `right` are run, `join` is after both, and `tail` after it however it ends."""

from collections.abc import Sequence

from jobs import operations
from jobs.models import Job, Outcome, Worker
from tests import farm
from tests.schedules.actors import Stage, Task
from tests.schedules.jobs import SOON
from tests.schedules.scene import Kept


class Flows(Kept):
    """Steps that end in every way, and what then becomes of those after them."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        operations.create_kind(operations.Kind(name="work", queue="work", backoff=SOON))
        self.first, self.second, self.third = (farm.worker(name) for name in ("first", "second", "third"))
        self.steps: dict[str, int] = {}
        for name, after in {"left": (), "right": (), "join": ("left", "right")}.items():
            self.steps[name] = operations.submit("work", name, after=[self.steps[one] for one in after]).pk
        self.steps["tail"] = operations.submit("work", "tail", after=[self.steps["join"]], when="ended").pk
        self.held = [farm.claim_one(worker) for worker in (self.first, self.second)]
        for worker, job in zip((self.first, self.second), self.held, strict=True):
            operations.heartbeat(worker, job.id, job.lease)
        farm.expire_lease(self.held[0])
        self.flow = Job.objects.get(pk=self.steps["join"]).flow_id or 0
        self.keep()

    def begin(self) -> None:
        """Two steps are held."""
        self.claimed = list(zip((self.first, self.second), self.held, strict=True))

    def actions(self) -> dict[str, Task]:
        """How steps end, and who looks after those that come next."""
        first, second, third = self.first, self.second, self.third
        left, right = self.held
        return {
            "left succeeds": lambda: farm.succeed(first, left),
            "left fails": lambda: farm.fail(first, left, retryable=False),
            "left is canceled": lambda: operations.cancel(left.id, by=None),
            "right succeeds": lambda: farm.succeed(second, right),
            "right ends and claims": lambda: self._finish_and_claim(right),
            "right is released": lambda: operations.release(second, right.id, right.lease),
            "janitor": operations.sweep,
            "tidy": operations.tend_lanes,
            "claim": lambda: self._claim(third, operations.claim(third)),
            "join is canceled": lambda: operations.cancel(self.steps["join"], by=None),
            "flow is canceled": lambda: operations.flows.cancel(self.flow, by=None),
            "what failed is retried": lambda: operations.flows.retry(self.flow, by=None),
            "a lease runs out": lambda: farm.expire_lease(right),
            "a step is added": lambda: operations.submit("work", "more", after=[self.steps["join"]]),
            **self.breaks(),
        }

    def faults(self) -> list[str]:
        """A step that began early, one that never ended, and one that ended otherwise than what it is after allows."""
        faults = [f"job {job_id} {fault}" for job_id, fault in operations.broken_jobs(most=9)]
        if self._began("join") and not self._succeeded("left", "right"):
            faults.append("join began before left and right had succeeded")
        if self._began("tail") and not Outcome.objects.filter(pk=self.steps["join"]).exists():
            faults.append("tail began before join had ended")
        self._run_the_rest()
        faults += [f"job {job.pk} ({job.payload}) is left {job.status}" for job in Job.objects.living()]
        faults += [f"afterwards job {job_id} {fault}" for job_id, fault in operations.broken_jobs(most=9)]
        status = {name: farm.status(job_id) for name, job_id in self.steps.items()}
        if status["join"] == "success" and not self._succeeded("left", "right"):
            faults.append(f"join succeeded, and what it is after did not: {status}")
        return faults

    def _began(self, name: str) -> bool:
        return bool(Job.objects.get(pk=self.steps[name]).fence)

    def _succeeded(self, *names: str) -> bool:
        return all(farm.status(self.steps[name]) == "success" for name in names)

    def _finish_and_claim(self, job: operations.ClaimedJob) -> None:
        done = [operations.Finished(job_id=job.id, lease=job.lease, outcome="success")]
        self._claim(self.second, operations.finish_and_claim(self.second, done, limit=1)[1])

    def _claim(self, worker: Worker, claimed: Sequence[operations.ClaimedJob]) -> None:
        self.claimed += [(worker, job) for job in claimed]

    def _run_the_rest(self) -> None:
        """Let what is held be handed in, and everybody take what is due, until nothing more comes. Nobody tidies, but
        where something broke off: each end itself lets go what comes after it."""
        while self.claimed:
            for worker, job in self.claimed:
                farm.succeed(worker, job)
            operations.sweep()
            if self.stage.has_broken:
                operations.tend_lanes()
            self.claimed = []
            for worker in (self.third, self.second, self.first):
                self._claim(worker, operations.claim(worker, limit=9))
