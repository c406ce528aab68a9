"""One row of labels or conditions that somebody wrote by hand is its own fault alone."""

import pytest
from django.db import connection

from jobs import operations
from jobs.domain.workers import Facts
from jobs.models import Worker
from jobs.queries import fleet
from tests import farm
from tests.doctor import named_errors

pytestmark = pytest.mark.django_db
NO_OBJECTS = ("[]", '{"vram": 5}', '{"vram": ">=x"}', f'{{"vram": {"1" * 5000}}}')


def test_a_set_that_cannot_be_judged_keeps_no_worker_from_its_labels() -> None:
    farm.kind()
    worker = farm.worker("good")
    poisoned = operations.submit("work", {}, requires={"poison": "x"})
    wanted = operations.submit("work", {}, requires={"vram": ">=8"})
    for value in NO_OBJECTS:
        with farm.rolled_back():
            _write("UPDATE jobs_requirement SET requires = %s WHERE id = %s", value, poisoned.requirement_id)
            operations.introduce(worker, Facts(labels={"vram": "48"}))
            assert [claimed.id for claimed in operations.claim(worker, limit=2)] == [wanted.pk], value
    assert f"The set {poisoned.requirement_id} of conditions cannot be judged: " in named_errors()


def test_labels_that_are_none_keep_nobody_from_new_sets() -> None:
    farm.kind()
    good, bad = farm.worker("good"), farm.worker("bad")
    for worker in (good, bad):
        operations.introduce(worker, Facts(labels={"vram": "24"}))
    for statement in (
        "UPDATE jobs_workerfacts SET labels = %s WHERE worker_id = %s",
        "UPDATE jobs_worker SET labels = %s WHERE id = %s",
    ):
        for value in NO_OBJECTS:
            with farm.rolled_back():
                _write(statement, value, bad.pk)
                job = operations.submit("work", {}, requires={"vram": ">=9"})
                assert job.requirement_id in Worker.objects.get(name="good").satisfies, value
                if len(value) < 5000:  # which no page reads
                    assert fleet.known_labels()


def _write(statement: str, *values: str | int | None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
