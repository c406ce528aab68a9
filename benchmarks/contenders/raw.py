"""The floor: what is the least that the same tables cost, by psycopg alone, one prepared statement for each step.

It checks no lease, reads no payload, keeps no attempt, and tells nobody.
"""

import os

import psycopg
from job_counter import JobCounter
from verbs import main as run

CONNECT = os.environ["BENCH_CONNINFO"]
COLUMNS = (
    "kind, queue, status, priority, created_at, run_at, max_attempts, failures, retry_on_timeout, lane_id, "
    "fence, next_seq"
)
LANE = "jobs_enter('noop', 0::smallint, NULL, NULL, NULL, '{}', now())"
VALUES = f"'noop', 'noop', 'pending', 0, now(), now(), 3, 0, false, {LANE}, 0, 0"
ONE = f"""WITH job AS (INSERT INTO jobs_job ({COLUMNS}) VALUES ({VALUES}) RETURNING id)
INSERT INTO jobs_body (job_id, payload) SELECT id, %s::jsonb FROM job"""  # noqa: S608
CLAIM = """
UPDATE jobs_job SET status = 'in_progress', fence = fence + 1, lease_secret = gen_random_uuid(),
    lease_expires_at = now() + interval '60 s', worker_id = 1, worker_name = 'raw', claimed_at = now()
WHERE id = ANY (ARRAY(
    SELECT id FROM jobs_job
    WHERE status = 'pending' AND lane_id = (SELECT id FROM jobs_lane WHERE queue = 'noop' ORDER BY id LIMIT 1)
      AND run_at <= now()
    ORDER BY run_at, id LIMIT 100 FOR UPDATE SKIP LOCKED))
RETURNING id"""
FINISH = """
UPDATE jobs_job SET status = 'success', ended_at = now(), lease_secret = NULL, lease_expires_at = NULL
WHERE id = ANY (%s)"""


def _connection() -> "psycopg.Connection[tuple[int]]":
    return psycopg.connect(CONNECT, autocommit=True, options="-c jit=off -c plan_cache_mode=force_generic_plan")


def bulk(count: int) -> None:
    """COPY into both tables."""
    with _connection() as connection, connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT nextval('jobs_job_id_seq') FROM generate_series(1, %s)", [count])
        ids = [row[0] for row in cursor.fetchall()]
        [[now, lane]] = cursor.execute(f"SELECT now()::text, {LANE}").fetchall()
        with cursor.copy(f"COPY jobs_job (id, {COLUMNS}) FROM STDIN") as copy:
            for job_id in ids:
                copy.write_row((job_id, "noop", "noop", "pending", 0, now, now, 3, 0, False, lane, 0, 0))
        with cursor.copy("COPY jobs_body (job_id, payload) FROM STDIN") as copy:
            for job_id in ids:
                copy.write_row((job_id, f'{{"n": {job_id}}}'))


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
            connection.execute(FINISH, [ids], prepare=True)
    input()


if __name__ == "__main__":
    run(prepare=lambda: None, bulk=bulk, one=one, work=work)
