-- As submit.sql, for one job: half of all submits in number, and without arrays half as dear. No row: it has a twin.
WITH inserted AS (
    INSERT INTO jobs_job (
        kind, queue, status, priority, owner_id, group_id, unique_key, retry_of_id, created_at, run_at, expires_at,
        max_attempts, failures, timeout_s, requirement_id, retry_when_lost, retry_on_timeout, lane_id, fence, next_seq,
        limit_name, limit_key, limit_count, limit_until, token_id, is_metered)
    SELECT %(kind)s::text, %(queue)s::text, 'pending', %(priority)s::smallint, %(owner_id)s::integer,
           %(group_id)s::integer, %(unique_key)s::text, %(retry_of_id)s::bigint, statement_timestamp(),
           greatest(coalesce(%(run_at)s::timestamptz, statement_timestamp()), reserved.until),
           coalesce(%(expires_at)s::timestamptz,
                    greatest(%(run_at)s::timestamptz, reserved.until, statement_timestamp())
                    + make_interval(secs => %(expires_s)s::float8)),
           %(max_attempts)s::smallint, 0, %(timeout_s)s::float8, %(requirement_id)s::integer,
           %(retry_when_lost)s::boolean, %(retry_on_timeout)s::boolean,
           jobs_enter(%(queue)s::text, %(priority)s::smallint, %(owner_id)s::integer, %(group_id)s::integer,
                      %(requirement_id)s::integer, '{}',
                      greatest(coalesce(%(run_at)s::timestamptz, statement_timestamp()), reserved.until)), 0, 0,
           %(limit_name)s::text, %(limit_key)s::text, %(limit_count)s::float8, reserved.until,
           %(token_id)s::bigint, %(is_metered)s::boolean
    FROM (SELECT statement_timestamp() + make_interval(secs => %(limit_wait_s)s::float8) AS until) AS reserved
    ON CONFLICT (kind, unique_key, owner_id) WHERE status IN ('in_progress', 'pending') AND unique_key IS NOT NULL
    DO NOTHING
    RETURNING id, created_at, run_at, expires_at, limit_until, lane_id
), stored AS (
    INSERT INTO jobs_body (job_id, payload, traceparent)
    SELECT id, %(payload)s::jsonb, %(traceparent)s::text FROM inserted
)
SELECT * FROM inserted
