-- Insert jobs with their payloads in one statement and return what only the database knows, in the order given.
-- Twins (same owner, kind and unique_key, not ended) are left out. Rows go in ordered by what makes a twin: two bulk
-- submits with the same keys in opposite orders would otherwise wait for one another in a circle.
-- Jobs that are due at once are due a microsecond after one another, in the order given: the marks of lanes move by run_at
-- alone (docs/adr/0112), and ten thousand with one moment would be one step. Each lane is entered once.
-- `limit_wait_s`: for how long the tokens it reserved of its kind's limit have yet to come in; it is not due before.
WITH new_job AS MATERIALIZED (
    SELECT nextval('jobs_job_id_seq') AS id, row.*,
           statement_timestamp() + make_interval(secs => row.limit_wait_s) AS limit_until,
           greatest(coalesce(row.run_at, statement_timestamp()
                                         - make_interval(secs => (cardinality(%(kind)s::text[]) - row.place) / 1e6::float8)),
                    statement_timestamp() + make_interval(secs => row.limit_wait_s)) AS due_at
    FROM (
        SELECT * FROM unnest(
            %(kind)s::text[], %(queue)s::text[], %(priority)s::smallint[], %(owner_id)s::integer[],
            %(group_id)s::integer[], %(unique_key)s::text[], %(retry_of_id)s::bigint[], %(run_at)s::timestamptz[],
            %(expires_at)s::timestamptz[], %(expires_s)s::float8[], %(max_attempts)s::smallint[],
            %(timeout_s)s::float8[], %(requirement_id)s::integer[], %(retry_when_lost)s::boolean[], %(retry_on_timeout)s::boolean[], %(payload)s::text[],
            %(limit_name)s::text[], %(limit_key)s::text[], %(limit_count)s::float8[], %(limit_wait_s)s::float8[],
            %(traceparent)s::text[], %(token_id)s::bigint[], %(is_metered)s::boolean[]
        ) WITH ORDINALITY AS r (
            kind, queue, priority, owner_id, group_id, unique_key, retry_of_id, run_at,
            expires_at, expires_s, max_attempts, timeout_s, requirement_id, retry_when_lost, retry_on_timeout, payload,
            limit_name, limit_key, limit_count, limit_wait_s, traceparent, token_id, is_metered, place)
        ORDER BY place) AS row
), lane AS MATERIALIZED (
    SELECT each.*, jobs_enter(queue, priority, owner_id, group_id, requirement_id, '{}', due_at) AS id
    FROM (SELECT queue, priority, owner_id, group_id, requirement_id, min(due_at) AS due_at FROM new_job
          GROUP BY queue, priority, owner_id, group_id, requirement_id) AS each
), inserted AS (
    INSERT INTO jobs_job (
        id, kind, queue, status, priority, owner_id, group_id, unique_key, retry_of_id, created_at, run_at, expires_at,
        max_attempts, failures, timeout_s, requirement_id, retry_when_lost, retry_on_timeout, lane_id, fence, next_seq,
        limit_name, limit_key, limit_count, limit_until, token_id, is_metered)
    SELECT id, kind, queue, 'pending', priority, owner_id, group_id, unique_key, retry_of_id, statement_timestamp(), due_at,
           coalesce(expires_at, greatest(run_at, limit_until, statement_timestamp()) + make_interval(secs => expires_s)),
           max_attempts, 0, timeout_s, requirement_id, retry_when_lost, retry_on_timeout,
           (SELECT lane.id FROM lane WHERE (lane.queue, lane.priority) = (new_job.queue, new_job.priority)
            AND (lane.owner_id, lane.group_id, lane.requirement_id)
                IS NOT DISTINCT FROM (new_job.owner_id, new_job.group_id, new_job.requirement_id)), 0, 0,
           limit_name, limit_key, limit_count, limit_until, token_id, is_metered
    FROM new_job ORDER BY kind, unique_key, owner_id, place
    ON CONFLICT (kind, unique_key, owner_id) WHERE status IN ('in_progress', 'pending') AND unique_key IS NOT NULL
    DO NOTHING
    RETURNING id, created_at, run_at, expires_at, limit_until, lane_id
), stored AS (
    INSERT INTO jobs_body (job_id, payload, traceparent)
    SELECT new_job.id, new_job.payload::jsonb, new_job.traceparent FROM new_job JOIN inserted USING (id)
)
SELECT inserted.* FROM new_job LEFT JOIN inserted ON inserted.id = new_job.id ORDER BY new_job.place
