"""A process that is killed between any two statements leaves what it did whole or not at all, and others go on.

Each deed is done by a process that kills itself after its first step, then by one that does after its second, and so
on, until one gets through. What is stored after each death must be one of the stages that the deed has, in their
order; and from each of them everything comes to a good end.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection

from jobs import operations as jobs
from jobs.models import (
    Attempt,
    Checkpoint,
    Edge,
    EndedStep,
    Job,
    Outcome,
    OutputChunk,
    Signal,
    Step,
    Suspension,
    Worker,
)
from metering.models import Reservation
from ratelimits.models import Bucket
from scheduling.models import Cron, Due, ScheduledFunction
from tests import farm
from tests.crashes.points import Template
from tests.models.effort import begin
from webhooks.models import Activity, Delivery, DeliveryAttempt

MOST_STEPS = 100
TABLES = (
    *(
        "jobs_job",
        "jobs_live",
        "jobs_outcome",
        "jobs_lane",
        "jobs_mark",
        "jobs_attempt",
        "jobs_checkpoint",
        "jobs_outputchunk",
        "jobs_kind",
    ),
    *("jobs_flow", "jobs_step", "jobs_edge", "jobs_endedstep", "jobs_suspension", "jobs_signal", "jobs_flowtemplate"),
    *("jobs_worker", "jobs_queue"),
    *("ratelimits_bucket", "auth_group"),
    *("metering_budget", "metering_window", "metering_reservation", "metering_settlement", "metering_day"),
    *("scheduling_scheduledfunction", "scheduling_due", "scheduling_cluster", "scheduling_cron"),
    *("webhooks_delivery", "webhooks_deliveryattempt", "webhooks_activity", "webhooks_secret"),
)
Stage = dict[str, Any]  # what is stored, by what it is; what is empty is left out


@dataclass
class Scene:
    """What stands ready before a deed; `given` are its arguments."""

    lines: Path
    worker: Worker | None = None
    claimed: list[jobs.ClaimedJob] = field(default_factory=list)
    cluster_id: uuid.UUID | None = None
    given: dict[str, Any] = field(default_factory=dict)


Prepare = Callable[[Scene], object]


def stored(lines: Path) -> Stage:
    """All that the actions here may change; what is empty or none is left out."""
    jobs = list(Job.objects.order_by("pk"))
    functions = ScheduledFunction.objects.order_by("pk")
    everything = {
        "jobs": [(job.status, job.fence, job.failures) for job in jobs],
        "attempts": list(Attempt.objects.order_by("job_id", "number").values_list("outcome", flat=True)),
        "notes": EndedStep.objects.count(),
        "steps": Step.objects.count(),
        "edges": Edge.objects.count(),
        "open": Edge.objects.exclude(open_of=None).count(),
        "waits": [_wait(one) for one in Suspension.objects.order_by("pk")],
        "signals": [(one.name, one.taken_at is not None) for one in Signal.objects.order_by("pk")],
        "results": Outcome.objects.exclude(result=None).count(),
        "kept": list(Checkpoint.objects.values_list("value", "fence", "job__live__has_checkpoint")),
        "pieces": (OutputChunk.objects.count(), *(job.next_seq for job in jobs if job.next_seq)),
        "reserved": float(sum(Reservation.objects.values_list("amount", flat=True))),
        "tokens": sum(Bucket.objects.values_list("used", flat=True)),
        "functions": list(functions.values_list("status", "attempt")),
        "queued": Due.objects.count(),
        "groups": Group.objects.count(),
        "lines": len(lines.read_text().splitlines()) if lines.exists() else 0,
        "fired": Cron.objects.exclude(last_fire_at=None).count(),
        "deliveries": list(Delivery.objects.values_list("status", "attempts")),
        "tries": DeliveryAttempt.objects.count(),
        "activity": Activity.objects.count(),
    }
    return {what: value for what, value in everything.items() if value and value != (0,)}


def _wait(one: Suspension) -> str:
    """What a job waits for or waited for, and how that stands."""
    stands = "came" if one.taken_id else "timed out" if one.timed_out else "until" if one.until else "open"
    return f"{one.signal} {stands}".strip()


def die_at_every_point(
    forks: Template, function: str, *, prepare: Prepare, go_on: Prepare, lines: Path, stages: list[tuple[Stage, Stage]]
) -> None:
    """Let `deed` die at each of its points. Each of `stages` says what may be stored after a death, and what everything
    comes to when `go_on` has done what others then do. All of them must be seen, in their order."""
    seen = 0
    for after in range(MOST_STEPS):
        begin(*TABLES)
        lines.unlink(missing_ok=True)
        scene = Scene(lines=lines)
        prepare(scene)
        others = _sessions()  # of threads of this process, and of tests before this one
        died = forks.dies(function, after=after, **scene.given)
        farm.until(lambda: _sessions() <= others, what="the end of the dead process's session")  # noqa: B023
        now = stored(lines)
        if now != stages[seen][0] and seen + 1 < len(stages):
            seen += 1
        stage, end = stages[seen]
        assert now == stage, f"after {after} steps of {function}"
        go_on(scene)
        assert stored(lines) == end, f"after {after} steps of {function}, and what others did then"
        if not died:
            assert seen == len(stages) - 1
            return
    raise AssertionError(f"{function} takes more than {MOST_STEPS} steps")


def _sessions() -> set[int]:
    """Who else is connected. When the dead process's session has ended, so has what it had begun."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        return {pid for (pid,) in cursor.fetchall()}
