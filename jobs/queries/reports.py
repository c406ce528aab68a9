"""Statements about what attempts handed in: which files, how much, and which attempts wrote anything."""

from dataclasses import dataclass

from django.db.models import Count, Q, Sum

from jobs.models import ResultFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesUsed:
    """How many files, of how many bytes, an attempt and all attempts of its job handed in."""

    files: int
    bytes: int
    files_of_job: int
    bytes_of_job: int


def files_used(job_id: int, *, attempt: int, but_for: str) -> FilesUsed:
    """What is there of a job and of this attempt, but for this attempt's file of that name."""
    others = ResultFile.objects.filter(job_id=job_id).exclude(attempt=attempt, name=but_for)
    own = Q(attempt=attempt)
    used = others.aggregate(
        files=Count("pk", filter=own), bytes=Sum("size", filter=own, default=0),
        files_of_job=Count("pk"), bytes_of_job=Sum("size", default=0),
    )  # fmt: skip
    return FilesUsed(**{name: int(value) for name, value in used.items()})
