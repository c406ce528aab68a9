"""Jobs by the ten thousand, written past every operation: for plans, counts and pages of full tables."""

from typing import Any

from django.db import connection

_COLUMNS = {
    "kind": "text", "queue": "text", "priority": "smallint", "owner_id": "integer", "group_id": "integer",
    "requirement_id": "integer", "unique_key": "text", "created_at": "timestamptz", "run_at": "timestamptz",
    "claimed_at": "timestamptz", "ended_at": "timestamptz", "worker_id": "bigint", "worker_name": "text",
    "failures": "smallint", "fence": "bigint", "payload": "jsonb", "avoid": "bigint[]", "retry_of_id": "bigint",
    "tags": "text[]",
}  # fmt: skip
_USUAL: dict[str, Any] = {
    "kind": "work", "queue": "work", "priority": 0, "failures": 0, "fence": 0, "payload": "{}", "avoid": [],
}  # fmt: skip
_MOMENTS = {"created_at": "now() - interval '2 hours'", "run_at": "now() - interval '1 hour' + n * interval '1 ms'"}
_NEW = """
WITH row AS MATERIALIZED (
    SELECT nextval('jobs_job_id_seq') AS id, n, {columns} FROM generate_series(1, %(count)s) AS n
), record AS (
    INSERT INTO jobs_job (id, kind, queue, priority, owner_id, group_id, requirement_id, unique_key, created_at,
                          max_attempts, retry_on_timeout, payload, retry_of_id, tags)
    SELECT id, kind, queue, priority, owner_id, group_id, requirement_id, unique_key, created_at, 3, false, payload,
           retry_of_id, tags
    FROM row
)"""
_LIVING = """, keyed AS (
    INSERT INTO jobs_uniquekey (job_id, kind, unique_key, owner_id)
    SELECT id, kind, unique_key, owner_id FROM row WHERE unique_key IS NOT NULL
), lane AS MATERIALIZED (
    SELECT *, jobs_enter(queue, priority, owner_id, group_id, requirement_id, avoid, first) AS lane_id
    FROM (SELECT queue, priority, owner_id, group_id, requirement_id, avoid, min(run_at) AS first FROM row
          GROUP BY 1, 2, 3, 4, 5, 6) AS each
)
INSERT INTO jobs_live (job_id, kind, queue, owner_id, group_id, requirement_id, has_key, run_at, failures, fence,
                       lane_id, worker_id, worker_name, claimed_at, lease_secret, lease_expires_at)
SELECT row.id, row.kind, row.queue, row.owner_id, row.group_id, row.requirement_id, row.unique_key IS NOT NULL,
       row.run_at, row.failures, row.fence, lane.lane_id, row.worker_id, row.worker_name, row.claimed_at,
       CASE WHEN %(status)s = 'in_progress' THEN gen_random_uuid() END,
       CASE WHEN %(status)s = 'in_progress' THEN now() + interval '1 hour' END
FROM row JOIN lane ON (lane.queue, lane.priority, lane.avoid) = (row.queue, row.priority, row.avoid)
 AND lane.owner_id IS NOT DISTINCT FROM row.owner_id AND lane.group_id IS NOT DISTINCT FROM row.group_id
 AND lane.requirement_id IS NOT DISTINCT FROM row.requirement_id"""
_ENDED = """
INSERT INTO jobs_outcome (job_id, status, ended_at, kind, queue, run_at, claimed_at, worker_id, worker_name, attempt,
                          failures, fence, confirmed_fence)
SELECT id, {status}, coalesce(ended_at, now()), kind, queue, run_at, claimed_at, worker_id, worker_name,
       least(fence, 1), failures, fence, fence
FROM row"""


class Sql(str):
    """An expression of the row's number `n`, in place of a value."""


def fill(count: int, *, status: str = "pending", **columns: Any) -> None:
    """Insert so many jobs that stand so. A column has a value, or an expression (`Sql`) of `n`, from 1 on. Those that
    live wait in their lanes; those that run have a lease of an hour."""
    wanted = _USUAL | {name: Sql(text) for name, text in _MOMENTS.items()} | columns
    assert not wanted.keys() - _COLUMNS.keys()
    is_one = not isinstance(status, Sql)
    given = {name: value for name, value in wanted.items() if not isinstance(value, Sql)}
    written = ", ".join(
        f"({wanted[name] if isinstance(wanted.get(name), Sql) else f'%({name})s'})::{kind} AS {name}"
        for name, kind in _COLUMNS.items()
    )
    end = (
        _LIVING
        if status in ("pending", "in_progress")
        else _ENDED.replace("{status}", "%(status)s" if is_one else status)
    )
    params = dict.fromkeys(_COLUMNS) | given | {"count": count, "status": status}
    with connection.cursor() as cursor:
        cursor.execute(_NEW.replace("{columns}", written) + end, params)
