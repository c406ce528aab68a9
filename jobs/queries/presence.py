"""Statements about the processes of the farm: who is there, and since when the farm is reachable for its workers."""

from uuid import UUID

from django.db.models import F
from django.db.models.functions import Now

from jobs.domain.presence import Part
from jobs.domain.presence import Process as Known
from jobs.models import Process
from postgres import statements

LISTED = 200  # those heard of last: a process that dies at each start must not make a page of itself


def report(process: UUID, *, part: Part, host: str, pid: int) -> None:
    """A process is there."""
    _report(process, part=part, host=host, pid=pid, serves_workers=False, beat_s=0.0, gap_s=0.0)


def beat(process: UUID, *, part: Part, host: str, pid: int, beat_s: float, gap_s: float) -> None:
    """A process is there and reachable for workers."""
    _report(process, part=part, host=host, pid=pid, serves_workers=True, beat_s=beat_s, gap_s=gap_s)


def end(process: UUID) -> None:
    """A process ends."""
    Process.objects.filter(pk=process, ended_at=None).update(ended_at=Now(), seen_at=Now())


def processes() -> list[Known]:
    """The processes that were heard of within a day, those heard of last first."""
    rows = Process.objects.annotate(age=Now() - F("started_at"), silence=Now() - F("seen_at"))
    return [
        Known(
            part=row.part,
            host=row.host,
            pid=row.pid,
            started_at=row.started_at,
            age_s=row.age.total_seconds(),
            silent_s=row.silence.total_seconds(),
            has_ended=row.ended_at is not None,
        )
        for row in rows.order_by("-seen_at")[:LISTED]
    ]


def _report(process: UUID, **params: object) -> None:
    statements.load("jobs", "report").run({"id": process, **params})
