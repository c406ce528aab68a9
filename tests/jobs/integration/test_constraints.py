"""Each constraint refuses what its name says, whoever writes."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from jobs.domain.states import ENDED
from jobs.models import Attempt, Job, Kind, Live, Outcome, UniqueKey
from jobs.queries import reads
from tests import farm

pytestmark = pytest.mark.django_db
AT = "2030-01-01T00:00:00Z"
SECRET = "01234567-89ab-cdef-0123-456789abcdef"
LEASED = {"lease_secret": SECRET, "lease_expires_at": AT}
RUNNING = {**LEASED, "worker_id": 1, "claimed_at": AT, "fence": 1}
OF_LIVE = {field.attname for field in Live._meta.concrete_fields} - {"expires_at", "timeout_s", "is_metered"}
OF_OUTCOMES = {"status", "result", "progress", "failures"}

GOOD: list[dict[str, Any]] = [
    {},
    RUNNING,
    {**RUNNING, "progress": 0},
    {**RUNNING, "progress": 1},
    *[{"status": status} for status in sorted(ENDED)],
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
    *[("an_outcome_is_an_end", {"status": status}) for status in ("lost", "", "Success", "pending")],
]

BROKEN: list[tuple[str, dict[str, Any]]] = [
    *[("is no share", {**RUNNING, "progress": wrong}) for wrong in (1.01, -0.01, float("nan"))],
    ("more often than it may be tried", {"max_attempts": 0}),
    ("more often than it may be tried", {"failures": 4, "max_attempts": 3}),
    ("more often than it may be tried", {"status": "failed", "failures": 4, "max_attempts": 3}),
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
    ("says otherwise than its record", {"live_queue": "other"}),
    ("has not the key", {"has_key": True}),
    ("waits where no claim looks", {"lane_id": 4711}),
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
    """A record with a live row, or with an outcome where a status is given."""
    beside = OF_OUTCOMES if "status" in fields else OF_LIVE
    theirs = {name: fields.pop(name) for name in [*fields] if name in beside}
    job = Job.objects.create(**{"kind": "work", "queue": "work", "payload": {}, **fields_of_record(fields)})
    table: type[Live | Outcome] = Outcome if "status" in theirs else Live
    table.objects.create(job=job, kind="work", queue=fields.get("live_queue", "work"), **theirs)
    return job


def fields_of_record(fields: dict[str, Any]) -> dict[str, Any]:
    """Those that are not the live row's alone."""
    return {name: value for name, value in fields.items() if name != "live_queue"}


class TestAJob:
    @pytest.mark.parametrize("fields", GOOD, ids=str)
    def test_that_makes_sense_is_taken(self, fields: dict[str, Any]) -> None:
        assert _job(**fields).pk

    @pytest.mark.parametrize(("name", "fields"), BAD, ids=str)
    def test_that_makes_none_is_refused_by_the_constraint_that_says_so(self, name: str, fields: dict[str, Any]) -> None:
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            _job(**fields)

    def test_with_the_key_of_a_living_one_is_refused(self) -> None:
        first, second = _job(), _job()
        UniqueKey.objects.create(job=first, kind="work", unique_key="taken")
        UniqueKey.objects.create(job=second, kind="another", unique_key="taken")
        sentence = "only_one_live_job_per_owner_kind_and_unique_key"
        with pytest.raises(IntegrityError, match=sentence), transaction.atomic():
            UniqueKey.objects.create(job=_job(), kind="work", unique_key="taken")

    def test_that_cannot_be_is_named_by_the_doctor(self) -> None:
        _job(**RUNNING)
        broken = [(_job(**fields).pk, what) for what, fields in BROKEN]
        nowhere = Job.objects.create(kind="work", queue="work", payload={})
        twice = _job()
        Outcome.objects.create(job=twice, kind="work", queue="work", status="failed")
        broken += [(nowhere.pk, "neither lives nor has ended"), (twice.pk, "lives and has ended")]
        found = reads.broken_jobs(most=100)
        assert [job_id for job_id, _ in found] == [job_id for job_id, _ in broken]
        assert [pair for pair in zip(found, broken, strict=True) if pair[1][1] not in pair[0][1]] == []
        output = StringIO()
        with pytest.raises(SystemExit):
            call_command("doctor", "--jobs", stdout=output)
        assert f"Job {nowhere.pk} neither lives nor has ended." in output.getvalue()

    def test_has_a_test_for_every_constraint(self) -> None:
        names = {constraint.name for table in (Job, Live, Outcome) for constraint in table._meta.constraints}
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
