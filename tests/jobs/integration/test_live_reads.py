"""What live queries read of a job, while somebody else changes it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from jobs import operations
from jobs.live_queries.one import job_json
from jobs.models import Job

pytestmark = pytest.mark.django_db


def test_a_job_that_is_deleted_while_it_is_read_is_gone() -> None:
    job = operations.submit("chat", {}, owner=User.objects.create_user("ada"))
    operations.cancel(job.pk, by=None)
    statements: list[str] = []

    def delete_after_the_first(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        statements.append(sql)
        if len(statements) == 2:
            Job.objects.filter(pk=job.pk).delete()
        return execute(sql, *arguments)

    with connection.execute_wrapper(delete_after_the_first):
        assert job_json.read(job_id=job.pk) is None
    assert len(statements) > 2
