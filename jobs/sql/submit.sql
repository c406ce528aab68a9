-- Insert jobs with their payloads in one statement and return the rows, in the order given.
-- Twins (same kind and unique_key, not ended) are left out. Rows go in ordered by unique_key: two bulk submits with
-- the same keys in opposite orders would otherwise wait for one another in a circle.
WITH given AS MATERIALIZED (
    SELECT nextval('jobs_job_id_seq') AS id, row.*
    FROM (
        SELECT * FROM unnest(
            %(kind)s::text[], %(queue)s::text[], %(priority)s::smallint[], %(owner_id)s::integer[],
            %(group_id)s::integer[], %(unique_key)s::text[], %(retry_of_id)s::bigint[], %(run_at)s::timestamptz[],
            %(expires_at)s::timestamptz[], %(expires_s)s::float8[], %(max_attempts)s::smallint[],
            %(timeout_s)s::float8[], %(retry_on_timeout)s::boolean[], %(payload)s::text[]
        ) WITH ORDINALITY AS r (
            kind, queue, priority, owner_id, group_id, unique_key, retry_of_id, run_at,
            expires_at, expires_s, max_attempts, timeout_s, retry_on_timeout, payload, place)
        ORDER BY place) AS row
), inserted AS (
    INSERT INTO jobs_job (
        id, kind, queue, status, priority, owner_id, group_id, unique_key, retry_of_id, created_at, run_at, expires_at,
        max_attempts, failures, timeout_s, retry_on_timeout, shy_of, claim_no, next_seq)
    SELECT id, kind, queue, 'pending', priority, owner_id, group_id, unique_key, retry_of_id, statement_timestamp(),
           coalesce(run_at, statement_timestamp()),
           coalesce(expires_at, greatest(run_at, statement_timestamp()) + make_interval(secs => expires_s)),
           max_attempts, 0, timeout_s, retry_on_timeout, '{}', 0, 0
    FROM given ORDER BY kind, unique_key, place
    ON CONFLICT (kind, unique_key) WHERE status IN ('in_progress', 'pending') AND unique_key IS NOT NULL DO NOTHING
    RETURNING *
), stored AS (
    INSERT INTO jobs_body (job_id, payload)
    SELECT given.id, given.payload::jsonb FROM given JOIN inserted USING (id)
)
SELECT given.place, inserted.* FROM given LEFT JOIN inserted ON inserted.id = given.id ORDER BY given.place
