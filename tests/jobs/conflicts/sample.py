"""Pushes of one key, as a webhook brings them."""

from typing import Any

from jobs import operations
from jobs.errors import NotUnique
from jobs.models import Job, UniqueKey
from tests import farm

KEY = "deploy"


def push(number: int, how: str | None = "after", **options: Any) -> Job:
    """The job that a push with this number becomes."""
    return operations.submit("work", {"n": number}, unique_key=KEY, on_conflict=how, **options)


def pushed(number: int, how: str, **options: Any) -> int | NotUnique:
    """Its id, or the refusal."""
    try:
        return push(number, how, **options).pk
    except NotUnique as refusal:
        return refusal


def payload(job_id: int) -> int:
    number: int = Job.objects.values_list("payload", flat=True).get(pk=job_id)["n"]
    return number


def is_sound() -> bool:
    """Whether all rows say what can be; raises AssertionError with what cannot."""
    assert operations.broken_jobs(most=9) == []
    assert UniqueKey.objects.filter(follower_id=None).exclude(follower_due_at=None).count() == 0
    return True


def run_all() -> list[int]:
    """Run what can be run; the numbers of the pushes, in order."""
    me, numbers = farm.worker("runs all"), []
    while claimed := operations.claim(me):
        numbers.append(claimed[0].payload["n"])
        farm.succeed(me, claimed[0])
    return numbers
