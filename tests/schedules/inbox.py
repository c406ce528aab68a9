"""Deliveries that come twice, are processed, fail, are replayed, and start a job by a rule."""

import uuid
from collections import Counter
from typing import Final

from django.db import connection
from django.db.models import Count

from jobs import operations as jobs
from jobs.models import Job
from scheduling import operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.models import Due
from scheduling.operations import clusters, runner
from scheduling.queries.functions import Holder
from tests import farm
from tests.chaos import functions
from tests.schedules.actors import Stage, Task
from tests.schedules.scene import Kept
from tests.webhooks.inbox.support import keep_one, pass_time
from webhooks import operations
from webhooks.domain.deliveries import WAITING, Filter
from webhooks.handlers import registry
from webhooks.handlers.registry import Event
from webhooks.models import Delivery, DeliveryAttempt, JobStart, Rule
from webhooks.operations import maintenance

TYPE: Final = ("github", "scheduled")
_WRITE: Final = "INSERT INTO chaos_ledger (n) VALUES (%s)"
_EARLIER: Final = "UPDATE webhooks_delivery SET received_at = now() - interval '1 h' WHERE id = %s"


class Inbox(Kept):
    """`waiting` is due to be processed; `done` was processed and has started a job; `forgotten` has no run."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        registry._handlers[TYPE] = _handle
        with connection.cursor() as cursor:
            cursor.execute(functions.MADE)
        jobs.create_kind(jobs.Kind(name="work", queue="work"))
        Rule.objects.create(name="every", source="github", event=TYPE[1], kind="work", payload={})
        self.done = self._receive("done")
        assert scheduling.run_due()
        self.forgotten = self._receive("forgotten")
        Due.objects.all().delete()
        with connection.cursor() as cursor:
            cursor.execute(_EARLIER, [self.forgotten])
        self.waiting = self._receive("waiting")
        self.clusters = [uuid.uuid4() for _ in range(2)]
        for cluster_id in self.clusters:
            clusters.begin(cluster_id, role="schedules")
        self.boss = farm.user("boss", is_superuser=True, is_staff=True)
        self.keep()

    def begin(self) -> None:
        """Nobody was answered yet."""
        self.answered = {self.done, self.forgotten, self.waiting}

    def actions(self) -> dict[str, Task]:
        """What senders, clusters and people do."""
        return {
            "receive": lambda: self._receive("new"),
            "receive what waits": lambda: self._receive("waiting"),
            "receive what is done": lambda: self._receive("done"),
            "process": lambda: self._run(0),
            "process beside": lambda: self._run(1),
            "process a batch": lambda: operations.process_batch(deliveries=[self.forgotten, self.waiting]),
            "a process dies": lambda: clusters.end(self.clusters[0], ending="died"),
            "reconcile": maintenance.reschedule_stuck,
            "replay": lambda: operations.replay(self.done, by=self.boss),
            "replay with jobs": lambda: operations.replay(self.done, with_jobs=True, by=self.boss),
            "replay all": lambda: operations.replay_matching(Filter(source="github"), by=self.boss),
            "start again": lambda: operations.start_again(JobStart.objects.get(delivery=self.done).pk, by=self.boss),
            **self.breaks(),
        }

    def faults(self) -> list[str]:
        """Deliveries that are lost, doubled, or left; attempts and jobs that are not as many as their rows say."""
        maintenance.reschedule_stuck()
        while pass_time():
            pass
        there = set(Delivery.objects.values_list("pk", flat=True))
        faults = [f"delivery {pk} was answered, and is not there" for pk in self.answered - there]
        twice = Delivery.objects.values("source", "delivery_id").annotate(rows=Count("pk")).filter(rows__gt=1)
        faults += [f"{row['delivery_id']} has {row['rows']} rows" for row in twice]
        faults += [f"{row} is left {row.status}" for row in Delivery.objects.filter(status__in=WAITING)]
        return faults + self._miscounted() + [f"job {pk} {fault}" for pk, fault in jobs.broken_jobs(most=9)]

    def _miscounted(self) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT n FROM chaos_ledger")
            handled = Counter(n for (n,) in cursor.fetchall())
        attempts = Counter(DeliveryAttempt.objects.values_list("delivery_id", flat=True))
        faults = [
            f"{row} was handled {handled[row.pk]} times, has {attempts[row.pk]} attempts, and counts {row.tries}"
            for row in Delivery.objects.all()
            if not handled[row.pk] == attempts[row.pk] == row.tries
        ]
        started = JobStart.objects.filter(job__isnull=False).count()
        if started != (there := Job.objects.count()):
            faults.append(f"{started} starts of jobs, and {there} jobs")
        twice = JobStart.objects.values("delivery_id", "rule_key", "round").annotate(n=Count("pk")).filter(n__gt=1)
        return faults + [f"delivery {row['delivery_id']} met a rule {row['n']} times in a round" for row in twice]

    def _receive(self, name: str) -> int:
        kept = keep_one(delivery_id=name, event_type=TYPE[1])
        if self.runs:
            self.answered.add(kept.delivery)
        return kept.delivery

    def _run(self, place: int) -> None:
        holder = Holder(cluster_id=self.clusters[place], ran_by="schedules")
        runner.mutations(clusters.dispatch(Kind.MUTATION, limit=9), by=holder)


def _handle(event: Event) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_WRITE, [event.pk])
