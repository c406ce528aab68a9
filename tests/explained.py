"""What PostgreSQL says of a statement kept in a file, as it will be run."""

import uuid
from typing import Any

from django.db import connection, transaction

from postgres.backend.trips import numbered
from postgres.statements import Params, Statement


def explain(statement: Statement, params: Params | None = None) -> dict[str, Any]:
    """Run it and return what EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) says of it: the generic plan, which is the one
    that `run` uses. What the statement writes is written: roll it back around the call."""
    text, names = numbered(statement.sql)
    values = f"({', '.join(['%s'] * len(names))})" if names else ""
    plan_name = f"explained_{uuid.uuid4().hex}"  # a failed one stays: PREPARE is not undone by a rollback
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"PREPARE {plan_name} AS {text.decode()}")
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        explaining = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {plan_name}{values}"
        cursor.execute(explaining, [(params or {})[name] for name in names])
        plan: dict[str, Any] = cursor.fetchone()[0][0]
        cursor.execute(f"DEALLOCATE {plan_name}")
    return plan
