"""What the statements of a submit make of its times: each term of their expressions, one job and several alike."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from jobs import operations
from jobs.domain.records import JobRecord
from jobs.errors import NotUnique
from jobs.models import Job, Live
from jobs.operations.new_jobs import recorded
from jobs.queries import submits
from jobs.queries.submits import Stored
from tests import farm
from tests.looped import looped

pytestmark = pytest.mark.django_db

Answer = Stored | NotUnique
# Seconds from the submit. Given: run_at, expires_at, expires_s, limit_wait_s. Stored: run_at, expires_at, limit_until.
TIMES = {
    "nothing asked": ((None, None, None, None), (0, None, None)),
    "due long ago": ((-500, None, None, None), (-500, None, None)),
    "due later": ((500, None, None, None), (500, None, None)),
    "is waiting for the limit": ((None, None, None, 30), (30, None, 30)),
    "due before its tokens": ((10, None, None, 30), (30, None, 30)),
    "due long before its tokens": ((-500, None, None, 30), (30, None, 30)),
    "due after its tokens": ((500, None, None, 30), (500, None, 30)),
    "may wait": ((None, None, 100, None), (0, 100, None)),
    "may wait, from now on and not from long ago": ((-500, None, 100, None), (-500, 100, None)),
    "may wait, from when it is due": ((500, None, 100, None), (500, 600, None)),
    "may wait, from when its tokens came in": ((None, None, 100, 30), (30, 130, 30)),
    "may wait, from the later of both": ((500, None, 100, 30), (500, 600, 30)),
    "may wait until a moment": ((None, 70, None, None), (0, 70, None)),
    "may wait until a moment whatever its kind says": ((500, 700, 100, 30), (500, 700, 30)),
}


def _row(given: tuple[float | None, ...], **more: Any) -> JobRecord:
    """What `submit` hands to the statements, with these times."""
    run_at, expires_at, expires_s, wait_s = given
    [record] = recorded([farm.new_job(payload={"n": 1}, **more)], {})
    if wait_s is not None:
        record = record._replace(limit_name="limit", limit_key="key", limit_count=2.0, limit_wait_s=wait_s)
    return record._replace(run_at=_in_s(run_at), expires_at=_in_s(expires_at), expires_s=expires_s)


def _in_s(seconds: float | None) -> datetime | None:
    return None if seconds is None else farm.now() + timedelta(seconds=seconds)


def _one(row: JobRecord) -> Answer:
    return submits.one(row)


def _among_several(row: JobRecord) -> Answer:
    """The second of three."""
    return submits.many([_row((None,) * 4), row, _row((None,) * 4)])[1]


def _copied(row: JobRecord) -> Answer:
    """The second of many that take of no limit."""
    return submits.many([_row((None,) * 4), row, *[_row((None,) * 4) for _ in range(60)]])[1]


HOW: dict[str, Callable[[JobRecord], Answer]] = {"one": _one, "among several": _among_several, "copied": _copied}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())
class TestTheTimesOfAJob:
    @looped(("given", "expected"), TIMES.values(), ids=TIMES.keys(), rolled_back=True)
    def test_are_stored_and_answered_as_asked(
        self, how: Callable[[JobRecord], Answer], given: tuple[float | None, ...], expected: tuple[float | None, ...]
    ) -> None:
        farm.kind()
        answer = how(_row(given))
        assert isinstance(answer, Stored)
        job = Job.objects.get(pk=answer.id)
        moments = (job.run_at, job.expires_at, job.limit_until)
        assert moments == (answer.run_at, answer.expires_at, answer.limit_until)
        since = [None if at is None else (at - job.created_at).total_seconds() for at in moments]
        assert since == pytest.approx(list(expected), abs=1)

    def test_are_of_its_own_moment_where_nothing_is_asked(self, how: Callable[[JobRecord], Answer]) -> None:
        """Not the beginning of the transaction around it: a job that was submitted late in one is not late."""
        farm.kind()
        begun_at = Job.objects.get(pk=operations.submit("work", 1).pk).created_at
        answer = how(_row((None,) * 4))
        assert isinstance(answer, Stored)
        assert answer.created_at > begun_at
        assert answer.run_at > begun_at


@pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())
class TestANewJob:
    def test_is_as_nobody_ever_had_it(self, how: Callable[[JobRecord], Answer]) -> None:
        farm.kind()
        answer = how(_row((None,) * 4))
        assert isinstance(answer, Stored)
        job = Job.objects.get(pk=answer.id)
        assert (job.status, job.fence, job.failures, job.next_seq) == ("pending", 0, 0, 0)
        assert (job.counted_in, job.worker_id, job.lease_secret) == (None, None, None)
        assert (job.limit_name, job.limit_key, job.limit_count) == (None, None, None)
        assert Job.objects.get(pk=job.pk).payload == {"n": 1}


class TestATwin:
    @pytest.mark.parametrize("how", [_one, _among_several], ids=["one", "among several"])
    def test_is_left_out_with_its_payload(self, how: Callable[[JobRecord], Answer]) -> None:
        farm.kind()
        first = operations.submit("work", "first", unique_key="k")
        before = set(Job.objects.values_list("pk", flat=True))
        answer = how(_row((None,) * 4, unique_key="k"))
        assert isinstance(answer, NotUnique)
        assert answer.job == first.pk
        assert Job.objects.filter(unique_key="k").count() == 1
        new = set(Job.objects.values_list("pk", flat=True)) - before
        assert set(Live.objects.values_list("pk", flat=True)) == before | new
