"""The floor: what is the least that the same tables cost, by psycopg alone, one prepared statement for each step.

It checks no lease, reads no payload, keeps no attempt, and tells nobody.
"""

import os

import psycopg
from job_counter import JobCounter
from verbs import main as run

CONNECT = os.environ["BENCH_CONNINFO"]
RECORD = "kind, queue, priority, created_at, max_attempts, retry_on_timeout, payload"
LIVE = "kind, queue, run_at, lane_id"
LANE = "jobs_enter('noop', 0::smallint, NULL, NULL, NULL, '{}', now())"
ONE = f"""WITH job AS (
    INSERT INTO jobs_job ({RECORD}) VALUES ('noop', 'noop', 0, now(), 3, false, %s::jsonb) RETURNING id)
INSERT INTO jobs_live (job_id, {LIVE}) SELECT id, 'noop', 'noop', now(), {LANE} FROM job"""  # noqa: S608
CLAIM = """
UPDATE jobs_live SET fence = fence + 1, lease_secret = gen_random_uuid(),
    lease_expires_at = now() + interval '60 s', worker_id = 1, worker_name = 'raw', claimed_at = now()
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM jobs_live
    WHERE lease_secret IS NULL AND lane_id = (SELECT id FROM jobs_lane WHERE queue = 'noop' ORDER BY id LIMIT 1)
      AND run_at <= now()
    ORDER BY run_at, job_id LIMIT 100 FOR UPDATE SKIP LOCKED))
RETURNING job_id"""
FINISH = """
WITH ended AS (
    INSERT INTO jobs_outcome (job_id, status, ended_at, kind, queue, run_at, claimed_at, fence)
    SELECT job_id, 'success', now(), kind, queue, run_at, claimed_at, fence FROM jobs_live WHERE job_id = ANY (%(ids)s))
DELETE FROM jobs_live WHERE job_id = ANY (%(ids)s)"""


def _connection() -> "psycopg.Connection[tuple[int]]":
    return psycopg.connect(CONNECT, autocommit=True, options="-c jit=off -c plan_cache_mode=force_generic_plan")


def bulk(count: int) -> None:
    """COPY into both tables."""
    with _connection() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT nextval('jobs_job_id_seq') FROM generate_series(1, %s)", [count])
        ids = [row[0] for row in cursor.fetchall()]
        [[now, lane]] = cursor.execute(f"SELECT now()::text, {LANE}").fetchall()
        with cursor.copy(f"COPY jobs_job (id, {RECORD}) FROM STDIN") as copy:
            for job_id in ids:
                copy.write_row((job_id, "noop", "noop", 0, now, 3, False, f'{{"n": {job_id}}}'))
        with cursor.copy(f"COPY jobs_live (job_id, {LIVE}) FROM STDIN") as copy:
            for job_id in ids:
                copy.write_row((job_id, "noop", "noop", now, lane))


class _One:
    connection: "psycopg.Connection[tuple[int]] | None" = None


def one(sent_at: float | None) -> None:
    """A single-row INSERT into each table, in one statement."""
    _One.connection = _One.connection or _connection()
    _One.connection.execute(ONE, [f'{{"sent": {sent_at or "null"}}}'], prepare=True)


def work() -> None:
    """Claim and finish by the hundred, until there is nothing more."""
    counter = JobCounter()
    with _connection() as connection:
        while ids := [row[0] for row in connection.execute(CLAIM, prepare=True).fetchall()]:
            for _ in ids:
                counter.job()
            connection.execute(FINISH, {"ids": ids}, prepare=True)
    input()


if __name__ == "__main__":
    run(prepare=lambda: None, bulk=bulk, one=one, work=work)
