-- As submit.sql, for many jobs none of which can have a twin (no unique_key) and none of which takes of a limit: nothing
-- is left out, so nothing has to be joined, sorted or read back but what only the database knows.
WITH given AS MATERIALIZED (
    SELECT nextval('jobs_job_id_seq') AS id, row.*
    FROM (
        SELECT * FROM unnest(
            %(kind)s::text[], %(queue)s::text[], %(priority)s::smallint[], %(owner_id)s::integer[],
            %(group_id)s::integer[], %(retry_of_id)s::bigint[], %(run_at)s::timestamptz[],
            %(expires_at)s::timestamptz[], %(expires_s)s::float8[], %(max_attempts)s::smallint[],
            %(timeout_s)s::float8[], %(retry_on_timeout)s::boolean[], %(payload)s::text[], %(traceparent)s::text[]
        ) WITH ORDINALITY AS r (
            kind, queue, priority, owner_id, group_id, retry_of_id, run_at, expires_at, expires_s, max_attempts,
            timeout_s, retry_on_timeout, payload, traceparent, place)
        ORDER BY place) AS row
), stored AS (
    INSERT INTO jobs_body (job_id, payload, traceparent) SELECT id, payload::jsonb, traceparent FROM given
)
INSERT INTO jobs_job (
    id, kind, queue, status, priority, owner_id, group_id, retry_of_id, created_at, run_at, expires_at,
    max_attempts, failures, timeout_s, retry_on_timeout, shy_of, claim_no, next_seq)
SELECT id, kind, queue, 'pending', priority, owner_id, group_id, retry_of_id, statement_timestamp(),
       coalesce(run_at, statement_timestamp()
                        - make_interval(secs => (cardinality(%(kind)s::text[]) - place) / 1e6::float8)),
       coalesce(expires_at, greatest(run_at, statement_timestamp()) + make_interval(secs => expires_s)),
       max_attempts, 0, timeout_s, retry_on_timeout, '{}', 0, 0
FROM given
RETURNING *
