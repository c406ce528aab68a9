-- As submit.sql, for one job: half of all submits in number, and without arrays half as dear. No row: it has a twin.
WITH inserted AS (
    INSERT INTO jobs_job ({columns}, status, created_at, run_at, expires_at, failures, fence, next_seq, limit_until, lane_id)
    SELECT {columns}, 'pending', statement_timestamp(), due_at,
           coalesce(expires_at, greatest(run_at, limit_until, statement_timestamp()) + make_interval(secs => expires_s)),
           0, 0, 0, limit_until,
           jobs_enter(queue, priority::smallint, owner_id::integer, group_id::integer, requirement_id::integer,
                      ARRAY[]::bigint[], due_at)
    FROM (
        SELECT *, greatest(coalesce(run_at, statement_timestamp()), limit_until) AS due_at
        FROM (SELECT {values}, statement_timestamp() + make_interval(secs => %(limit_wait_s)s::float8) AS limit_until) AS requested
    ) AS new_job
    ON CONFLICT (kind, unique_key, owner_id) WHERE status IN ('in_progress', 'pending') AND unique_key IS NOT NULL
    DO NOTHING
    RETURNING id, created_at, run_at, expires_at, limit_until, lane_id
), stored AS (
    INSERT INTO jobs_body (job_id, payload, traceparent)
    SELECT id, %(payload)s::jsonb, %(traceparent)s::text FROM inserted
)
SELECT * FROM inserted
