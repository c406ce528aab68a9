"""A job that the database does not let go."""

from collections.abc import Callable, Iterator

import pytest
from django.db import connection


@pytest.fixture
def poison() -> Iterator[Callable[[int], None]]:
    """Have the database refuse to let a job go."""

    def refuse(job_id: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;"
                "CREATE TRIGGER refuse BEFORE UPDATE OF run_at ON jobs_live FOR EACH ROW"
                f" WHEN (OLD.job_id = {job_id}) EXECUTE FUNCTION refuse()"
            )

    yield refuse
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION IF EXISTS refuse CASCADE")
