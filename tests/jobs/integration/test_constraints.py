"""Each constraint refuses what its name says, whoever writes."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from jobs.models import Attempt, Body, Job, Kind
from jobs.queries import reads
from tests import farm

pytestmark = pytest.mark.django_db
AT = "2030-01-01T00:00:00Z"
SECRET = "01234567-89ab-cdef-0123-456789abcdef"
LEASED = {"lease_secret": SECRET, "lease_expires_at": AT}
CLAIMED = {"worker_id": 1, "claimed_at": AT, "fence": 1}
RUNNING = {"status": "in_progress", **LEASED, **CLAIMED}
ENDED = {"ended_at": AT}

GOOD: list[dict[str, Any]] = [
    {},
    {"unique_key": "taken", "kind": "another"},
    {"unique_key": "taken", "status": "success", **ENDED},
    {"unique_key": None},
    RUNNING,
    {**RUNNING, "progress": 0},
    {**RUNNING, "progress": 1},
    *[{"status": status, **ENDED} for status in ("success", "failed", "canceled", "timed_out")],
    {"failures": 3, "max_attempts": 3},
    {"limit_name": "llm", "limit_count": 1.0},
    {"limit_name": "llm", "limit_count": 0.5, "limit_key": "owner:7", "limit_until": AT},
]

BAD: list[tuple[str, dict[str, Any]]] = [
    ("job_has_a_lease_exactly_while_in_progress", {**RUNNING, "lease_secret": None}),
    ("job_has_a_lease_exactly_while_in_progress", {**RUNNING, "lease_expires_at": None}),
    ("job_has_a_lease_exactly_while_in_progress", LEASED),
    ("job_has_a_lease_exactly_while_in_progress", {"lease_secret": SECRET}),
    ("job_has_a_lease_exactly_while_in_progress", {**RUNNING, "worker_id": None}),
    ("job_has_a_lease_exactly_while_in_progress", {**RUNNING, "claimed_at": None}),
    ("job_has_a_lease_exactly_while_in_progress", {**RUNNING, "fence": 0}),
    ("job_has_an_end_exactly_when_it_ended", ENDED),
    ("job_has_an_end_exactly_when_it_ended", {**RUNNING, **ENDED}),
    *[
        ("job_has_an_end_exactly_when_it_ended", {"status": status})
        for status in ("success", "failed", "canceled", "timed_out")
    ],
    ("only_one_live_job_per_owner_kind_and_unique_key", {"unique_key": "taken"}),
    ("only_one_live_job_per_owner_kind_and_unique_key", {"unique_key": "taken", **RUNNING}),
]

BROKEN: list[tuple[str, dict[str, Any]]] = [
    *[("is no share", {**RUNNING, "progress": wrong}) for wrong in (1.01, -0.01, float("nan"))],
    ("more often than it may be tried", {"max_attempts": 0}),
    ("more often than it may be tried", {"failures": 4, "max_attempts": 3}),
    *[
        ("how much it took of its limit", wrong)
        for wrong in (
            {"limit_name": "llm"},
            {"limit_name": "llm", "limit_count": 0},
            {"limit_count": 1},
            {"limit_key": "owner:7"},
            {"limit_until": AT},
        )
    ],
]

BAD_KINDS: list[tuple[str, dict[str, Any]]] = [
    *[
        ("kind_numbers_are_within_their_bounds", wrong)
        for wrong in (
            {"max_attempts": 0}, {"max_attempts": 1001}, {"priority": 101}, {"priority": -101},
            {"backoff_first_s": -1}, {"backoff_base": 0.9}, {"backoff_base": 1001}, {"backoff_cap_s": -1},
            {"backoff_base": float("nan")}, {"backoff_cap_s": float("inf")},
        )
    ],
    *[
        ("kind_times_are_positive_and_under_five_years", wrong)
        for wrong in ({"timeout_s": 0}, {"timeout_s": float("nan")}, {"expires_s": -1}, {"expires_s": 1e12})
    ],
    *[
        ("kind_takes_a_positive_number_of_its_limit", wrong)
        for wrong in ({"limit_count": 0}, {"limit_count": float("nan")}, {"limit_count": 1e15}, {"limit_key": "x"})
    ],
]  # fmt: skip


def _job(**fields: Any) -> Job:
    return Job.objects.create(**{"kind": "work", "queue": "work", **fields})


class TestAJob:
    @pytest.mark.parametrize("fields", GOOD, ids=str)
    def test_that_makes_sense_is_taken(self, fields: dict[str, Any]) -> None:
        _job(unique_key="taken")
        assert _job(**fields).pk

    @pytest.mark.parametrize(("name", "fields"), BAD, ids=str)
    def test_that_makes_none_is_refused_by_the_constraint_that_says_so(self, name: str, fields: dict[str, Any]) -> None:
        _job(unique_key="taken")
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            _job(**fields)

    @pytest.mark.parametrize("status", ["lost", "", "Pending", "in progress"])
    def test_of_an_unknown_status_is_refused(self, status: str) -> None:
        with pytest.raises(IntegrityError, match="job_has_an_end_exactly_when_it_ended"), transaction.atomic():
            _job(status=status)

    def test_that_cannot_be_is_named_by_the_doctor(self) -> None:
        whole = _job(**RUNNING)
        broken = [(_job(**fields), what) for what, fields in BROKEN]
        Body.objects.bulk_create(Body(job=job, payload={}) for job in [whole, *(job for job, _ in broken)])
        bare = _job()
        found = reads.broken_jobs(most=100)
        assert [job_id for job_id, _ in found] == [*(job.pk for job, _ in broken), bare.pk]
        named = zip(found, [*(what for _, what in broken), "has no payload"], strict=True)
        assert [(what, sentence) for (_, sentence), what in named if what not in sentence] == []
        output = StringIO()
        with pytest.raises(SystemExit):
            call_command("doctor", "--jobs", stdout=output)
        assert f"Job {bare.pk} has no payload." in output.getvalue()

    def test_has_a_test_for_every_constraint(self) -> None:
        names = {constraint.name for constraint in Job._meta.constraints}
        assert {name for name, _ in BAD} == names
        assert {name for name, _ in BAD_KINDS} == {constraint.name for constraint in Kind._meta.constraints}


class TestTheOthers:
    @pytest.mark.parametrize(("name", "fields"), BAD_KINDS, ids=str)
    def test_a_kind_out_of_bounds_is_refused(self, name: str, fields: dict[str, Any]) -> None:
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            Kind.objects.create(**{"name": "work", "queue": "work", **fields})

    def test_an_attempt_ends_once(self) -> None:
        farm.kind()
        job = farm.ended("failed")
        [attempt] = Attempt.objects.filter(job=job)
        attempt.pk = None
        with pytest.raises(IntegrityError, match="an_attempt_ends_once"), transaction.atomic():
            attempt.save()
